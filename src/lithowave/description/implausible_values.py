"""Checks of the material: densities and wave speeds outside the ranges of `plausibility`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lithowave.description.elastic_properties import ElasticProperties
from lithowave.description.entries import Description
from lithowave.description.material import Material
from lithowave.description.plausibility import DIMENSIONS, RANGES, allowed, is_implausible, likely_unit, unit_question
from lithowave.description.refusals import Problem
from lithowave.description.units import si_unit, with_unit

_UNIT_KEYS = {"speed": "speed_unit", "density": "density_unit"}
_ALLOW = "If the values are meant, set material.allow_implausible: true"


def implausible_values(simulation: Description) -> Iterator[Problem]:
    """Yield a problem for each property of the material outside `RANGES`, unless the description allows them."""
    material = simulation.material
    if material.allow_implausible:
        return
    for path, properties in material.properties.items():
        yield from _property_problems(("material", *path), properties)
    if not material.properties or any(layer.varies for layer in material.layers or ()):
        yield from _sampled_problems(simulation)


def _property_problems(path: tuple[str | int, ...], properties: ElasticProperties) -> Iterator[Problem]:
    names = [name for name in RANGES if is_implausible(name, getattr(properties, name))]
    if properties.stiffness is not None and names:
        if "rho" not in names:
            speeds = f"{properties.vs:.4g} to {properties.vp:.4g} m/s"
            got = f"these moduli and rho = {properties.rho:g} kg/m^3 give wave speeds of {speeds}, which is implausible"
            yield Problem((*path, "stiffness"), got, allowed("vp"), f"Numbers are in Pa; text may be in GPa. {_ALLOW}")
            return
        names = ["rho"]  # the speeds follow from it
    for name in names:
        value = getattr(properties, name)
        got = f"{with_unit(value, DIMENSIONS[name])} is implausible"
        yield Problem((*path, name), got, allowed(name), f"{unit_question(name, value)} {_ALLOW}".strip())


def _sampled_problems(simulation: Description) -> Iterator[Problem]:
    """Yield the problems of a gridded model, a section or a function, from their values in the domain."""
    material = simulation.material
    arrays, place = material.medium.values_in(simulation.domain.ground)
    for name, values in zip(RANGES, arrays, strict=True):
        indices = np.flatnonzero(values) if name == "vs" else np.arange(values.size)  # without fluids
        if not indices.size:
            continue
        low, high = (int(indices[find(values[indices])]) for find in (np.argmin, np.argmax))
        worst = next((index for index in (low, high) if is_implausible(name, values[index])), None)
        if worst is None:
            continue
        unit = si_unit(DIMENSIONS[name])
        values_text = f"{values[low]:.6g} to {values[high]:.6g} {unit}"
        got = f"{_origin(material, name)} is {values_text} in the domain; {values[worst]:.6g} {unit} is implausible"
        unit_hint = _unit_hint(material, name, float(values[low]), float(values[high]))
        path = ("material", material.kind, name) if material.section else ("material", material.kind)
        yield Problem(path, f"{got} ({place(worst)})", allowed(name), f"{unit_hint}{_ALLOW}")


def _origin(material: Material, name: str) -> str:
    """Return where the values come from, with the unit that a file states."""
    if material.section is not None:
        key = _UNIT_KEYS[DIMENSIONS[name]]
        return f"{name} of {getattr(material.section, name)} ({key}: {getattr(material.section, key)})"
    if material.file is None and material.dataset is None:
        return name
    medium: Any = material.medium
    model = medium.model
    units = model.units.get(name)
    return f"{name} of {model.path} ({f'units: {units}' if units else 'without the attribute units'})"


def _unit_hint(material: Material, name: str, low: float, high: float) -> str:
    """Return the question whether the numbers are of another unit, as a sentence; empty if none explains them."""
    dimension = DIMENSIONS[name]
    unit = likely_unit(name, low, high)
    if not unit:
        return ""
    if material.section is not None:
        return f"did you mean {_UNIT_KEYS[dimension]}: {unit}? "
    if material.file is not None or material.dataset is not None:
        return f'Are the numbers in {unit}? Then give {name} the attribute units = "{unit}", or convert it to SI. '
    if material.earth is not None:
        return ""
    return f"Does the function return {unit}? It must return {si_unit(dimension)}. "
