"""Warnings about variables of input files that are not used, and about the map projection."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lithowave.description.bounded_layers import BoundedLayers
from lithowave.description.earth_medium import EarthMedium
from lithowave.description.gridded_medium import GriddedMedium
from lithowave.description.placed_medium import PlacedMedium
from lithowave.readers.surfaces import Surface

if TYPE_CHECKING:
    from lithowave.description.entries import Description

_EARTH_RADIUS = 6_371_000.0  # m, mean

_LARGEST_REACH = 300_000.0
"""Distance (m) from x = y = 0 up to which one projection and a flat surface are not worth a warning."""

_ATTENUATION = {"qp", "qs", "qmu", "qkappa", "q_p", "q_s", "q_mu", "q_kappa", "q"}



def unused_variables(simulation: Description) -> Iterator[str]:
    """Yield a warning for each model, topography or surface file with variables that lithowave does not use."""
    medium, surface = simulation.material.medium, simulation.domain.surface
    if isinstance(medium, (GriddedMedium, PlacedMedium)) and medium.model.unused:
        yield _unused("material.file", medium.model.path, medium.model.unused, "vp, vs, rho and quality factors")
    for index, top in enumerate(medium.tops if isinstance(medium, BoundedLayers) else ()):
        if isinstance(top, Surface) and top.unused:
            yield _unused(f"material.layers[{index}].top", top.path, top.unused, "elevation")
    if surface is not None and surface.unused:
        yield _unused("domain.topography", surface.path, surface.unused, "elevation")


def model_placement(simulation: Description) -> Iterator[str]:
    """Yield the notes on a model file, and a warning for each side of the domain beyond its model."""
    medium = simulation.material.medium
    if not isinstance(medium, (GriddedMedium, PlacedMedium)):
        return
    for note in medium.model.notes:
        yield f"material.file: {medium.model.path}: {note}."
    if not isinstance(medium, PlacedMedium):
        return
    if medium.footprint.depth_below_top > 0.0:
        yield (
            f"material.file: the surface at the top of {medium.model.path} is up to "
            f"{medium.footprint.depth_below_top:.4g} m below the top of the domain; the values between them are those "
            "at this surface."
        )
    units = dict(zip(medium.model.frame.names, medium.model.frame.units, strict=True))
    for (name, end), distance in medium.footprint.gaps().items():
        side = {"min": "below its smallest", "max": "above its largest"}[end]
        yield (
            f"material.extrapolate: the domain reaches {distance:.4g} {units[name]} beyond {medium.model.path}, {side} "
            f"{name}; the values there are those of its edge."
        )


def earth_notes(simulation: Description) -> Iterator[str]:
    """Yield the notes on a radial model and on its perturbations, and their variables that are not used."""
    earth = simulation.material.earth
    if earth is None:
        return
    for note in earth.radial_model.notes:
        yield f"material.earth: {note}."
    for index, one in enumerate(earth.perturbations):
        key = f"material.earth.perturbations[{index}].file"
        for note in one.model.notes:
            yield f"{key}: {one.file}: {note}."
        if one.model.unused:
            yield _unused(key, one.file, one.model.unused, "absolute or relative vp, vs and rho")
    medium = simulation.material.medium
    for index, placed in enumerate(medium.perturbations if isinstance(medium, EarthMedium) else ()):
        covered = placed.coverage(simulation.domain)
        if covered < 1.0:
            yield (
                f"material.earth.perturbations[{index}].file: {placed.source.file} has values in "
                f"{math.floor(100.0 * covered)}% of the domain ({placed.source.model.extent_text()}). The radial model "
                "applies elsewhere, and the material may change abruptly at the edge of the file."
            )


def _unused(key: str, path: Path, names: tuple[str, ...], used: str) -> str:
    quality = [name for name in names if name.rpartition("/")[2].lower() in _ATTENUATION]
    text = f"{key}: {path} has variables that are not used: {', '.join(names)}; lithowave reads {used} and their axes."
    if quality:
        text += f" Quality factors must be named qp and qs, or qkappa and qmu: {', '.join(quality)} have no effect."
    return text


def receiver_file_notes(simulation: Description) -> Iterator[str]:
    """Yield a warning for each remark on a file of receivers or shots: content that is not used, or was interpreted."""
    for index, entry in enumerate(simulation.receivers):
        if entry.file is not None and ("receivers", index) not in simulation.acquisition.errors:
            where = f"receivers[{index}]"
            for note in entry.placed_file(simulation.domain, where).notes:
                yield f"{where}.file: {entry.file}: {note}."
    for index, shots in enumerate([] if simulation.survey is None else simulation.survey.shots):
        yield from (f"survey.shots[{index}].file: {shots.file}: {note}." for note in shots.notes())


def projection_distortion(simulation: Description) -> Iterator[str]:
    """Yield a warning if the box reaches so far from the origin of its projection that distances are distorted.

    On a sphere of radius R, the scale of the transverse Mercator projection at a distance x from its central meridian
    is cosh(x / R).
    """
    domain = simulation.domain
    if domain.crs is None:
        return
    reach = {name: max(map(abs, getattr(domain, name))) for name in "xy"}
    if max(reach.values()) <= _LARGEST_REACH:
        return
    scale = 100.0 * (math.cosh(reach["x"] / _EARTH_RADIUS) - 1.0)
    drop = (reach["x"] ** 2 + reach["y"] ** 2) / (2.0 * _EARTH_RADIUS)
    yield (
        f"domain.crs: the box reaches {max(reach.values()) / 1e3:.4g} km from x = y = 0; at its edges the transverse "
        f"Mercator projection lengthens distances by up to {scale:.2g}%, and the curvature of the Earth, which is "
        f"neglected, amounts to {drop / 1e3:.2g} km of depth. Put x = y = 0 into the middle of the box, or use a box "
        f"of at most {2e-3 * _LARGEST_REACH:g} km; spectral_element computes a piece of the globe (domain.chunk)."
    )
