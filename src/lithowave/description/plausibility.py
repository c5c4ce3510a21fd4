"""Plausible ranges of densities and wave speeds: values outside them are most often in another unit."""

from __future__ import annotations

from lithowave.description.units import si_unit, with_unit

RANGES = {"vp": (30.0, 30_000.0), "vs": (30.0, 30_000.0), "rho": (300.0, 25_000.0)}
"""Smallest and largest plausible value, m/s and kg/m^3: from dry snow and loose soil to the core of the Earth."""

DIMENSIONS = {"vp": "speed", "vs": "speed", "rho": "density"}
_LARGE_UNITS = {"speed": "km/s", "density": "g/cm^3"}  # both are 1000 SI units


def is_implausible(name: str, value: float) -> bool:
    """True if a value (SI) of vp, vs or rho is outside its range; vs = 0 is that of a fluid."""
    low, high = RANGES[name]
    return not low <= value <= high and not (name == "vs" and value == 0.0)


def unit_question(name: str, value: float) -> str:
    """Return ``did you mean 3.2 km/s (3200 m/s)?`` for an implausible value; empty if no usual unit explains it."""
    unit = likely_unit(name, value, value) if is_implausible(name, value) else ""
    if not unit:
        return ""
    si = si_unit(DIMENSIONS[name])
    meaning = f"{value:g} {unit} ({1000.0 * value:g} {si})" if unit != si else f"{value / 1000.0:g} {si}"
    return f"did you mean {meaning}?"


def likely_unit(name: str, low: float, high: float) -> str:
    """Return the unit of which the numbers most likely are: the large one if a thousandfold is plausible, the SI unit
    if a thousandth is; else nothing."""
    dimension = DIMENSIONS[name]
    for factor, unit in ((1e3, _LARGE_UNITS[dimension]), (1e-3, si_unit(dimension))):
        if not is_implausible(name, factor * low) and not is_implausible(name, factor * high):
            return unit
    return ""


def allowed(name: str) -> str:
    """Return the plausible range of a property as text."""
    low, high = RANGES[name]
    fluid = ", or 0 in a fluid" if name == "vs" else ""
    return f"allowed: {low:g} to {with_unit(high, DIMENSIONS[name])}{fluid}"
