"""Warnings about attenuation: unused keys, unusual Q, a poor approximation, and sources outside its band."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.sources import PointSource
from lithowave.description.time_function_warnings import velocity_outside
from lithowave.description.validation import percent

if TYPE_CHECKING:
    from lithowave.description.entries import Description

_LOW_QUALITY = 5.0
"""Q below this value is rare, and often a mistake."""

_DEVIATION_LIMIT = 0.1
"""Relative deviation of Q from its law from which on there is a warning."""

_OUTSIDE_LIMIT = 0.2
"""Part of the radiated velocity outside the band from which on there is a warning."""


def attenuation_warnings(simulation: Description, sources: list[tuple[str, bool, PointSource]]) -> Iterator[str]:
    """Yield warnings about the attenuation of the material.

    Parameters
    ----------
    sources : label, whether it is from a file, and the source.
    """
    keys, found = simulation.material.attenuation, simulation.anelasticity
    if found is None:
        if keys is not None:
            yield (
                "material.attenuation: without effect, because the material has no quality factors; give qp and qs of "
                "its media."
            )
        return
    if keys is not None and keys.exponent == 0.0 and "corner_frequency" in keys.model_fields_set:
        yield "material.attenuation.corner_frequency: without effect with exponent 0, which is a constant Q."
    smallest = 1.0 / found.inverse_qualities[1]
    if smallest < _LOW_QUALITY:
        yield (
            f"material: the smallest quality factor of a bulk or shear modulus is {smallest:.3g}; values below "
            f"{_LOW_QUALITY:g} are unusual, and their approximation is less accurate."
        )
    yield from _more_bulk_than_shear(simulation)
    if found.deviation > _DEVIATION_LIMIT:
        yield (
            f"material.attenuation: with {found.body.mechanisms} mechanisms, Q deviates by up to "
            f"{percent(found.deviation)} from the given one between {found.body.band[0]:.4g} and "
            f"{found.body.band[1]:.4g} Hz. Use more mechanisms or a narrower band."
        )
    yield from _outside_band(found.body.band, simulation.resolved_frequency, sources)


def _more_bulk_than_shear(simulation: Description) -> Iterator[str]:
    """Yield warnings about solids with qp < qs, which means that 1/Qkappa is larger than 1/Qmu."""
    material = simulation.material
    why = (
        "so that compression loses more energy than shear; in most rocks qp is larger (without loss in compression, "
        "qp = qs / (4/3 vs^2/vp^2)). Check whether qp and qs are exchanged; if they are meant, ignore this warning."
    )
    for path, properties in material.properties.items():
        if properties.qp is not None and properties.qs is not None and properties.qp < properties.qs:
            bulk, _ = properties.inverse_quality
            yield (
                f"{'.'.join(('material', *map(str, path)))}.qp: {properties.qp:g} is less than qs = {properties.qs:g}: "
                f"the quality factor of the bulk modulus is {1.0 / bulk:.3g}, {why}"
            )
    if not material.properties:
        losses, shear = (np.asarray(values) for values in material.medium.inverse_quality_in(simulation.domain.ground))
        reverse = (losses > (1.0 + 1e-6) * shear) & (shear > 0.0)
        if reverse.any():
            ratios = np.where(reverse, losses / np.where(reverse, shear, 1.0), 0.0)
            worst = np.unravel_index(int(ratios.argmax()), losses.shape)
            share = percent(float(reverse.mean()))
            yield (
                f"material.{material.kind}: qp is less than qs at {share} of the points of the model (most where the "
                f"quality factor of the bulk modulus is {1.0 / losses[worst]:.3g} and that of the shear modulus "
                f"{1.0 / shear[worst]:.3g}), {why}"
            )


def _outside_band(
    band: tuple[float, float], highest: float | None, sources: list[tuple[str, bool, PointSource]]
) -> Iterator[str]:
    known: dict[tuple[int, bool], float] = {}
    for _, _, source in sources:
        key = (id(source.time_function), source.moment is not None)
        if key not in known:  # many sources may share one function
            known[key] = velocity_outside(source, band, highest)
    if not known or max(known.values()) <= _OUTSIDE_LIMIT:
        return
    parts = [known[id(source.time_function), source.moment is not None] for _, _, source in sources]
    worst = max(range(len(parts)), key=parts.__getitem__)
    yield (
        f"material.attenuation.band: {percent(parts[worst])} of the velocity radiated by {sources[worst][0]} (relative "
        f"L2 norm) is outside the band, {band[0]:.4g} to {band[1]:.4g} Hz, where attenuation is weaker than given. "
        "Use a band that contains the spectra of the sources."
    )
