"""Units and their exact factors to SI: the base units of the simulation file, and unit texts of data files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

Exponents = tuple[int, int, int]
"""Powers of length, mass and time."""

LENGTH: Exponents = (1, 0, 0)
SPEED: Exponents = (1, 0, -1)
DENSITY: Exponents = (-3, 1, 0)
_VOLUME, _MASS, _TIME, _FREQUENCY = (3, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, -1)
_PRESSURE, _FORCE, _ANGLE = (-1, 1, -2), (1, 1, -2), (0, 0, 0)

# Symbol, factor to SI (degrees for angles), dimension, other spellings in data files (None: not allowed there).
# fmt: off
_ROWS = (
    ("m", "1", LENGTH, "metre metres meter meters"),
    ("km", "1e3", LENGTH, "kilometre kilometres kilometer kilometers"),
    ("cm", "1e-2", LENGTH, "centimetre centimetres centimeter centimeters"),
    ("mm", "1e-3", LENGTH, "millimetre millimetres millimeter millimeters"),
    ("um", "1e-6", LENGTH, None), ("ft", "0.3048", LENGTH, "foot feet"),
    ("cc", "1e-6", _VOLUME, ""),
    ("kg", "1", _MASS, "kilogram kilograms"), ("g", "1e-3", _MASS, "gm gr gram grams"),
    ("t", "1e3", _MASS, "tonne tonnes"),
    ("s", "1", _TIME, "sec second seconds"), ("ms", "1e-3", _TIME, None), ("us", "1e-6", _TIME, None),
    ("ns", "1e-9", _TIME, None), ("min", "60", _TIME, None), ("h", "3600", _TIME, None),
    ("Hz", "1", _FREQUENCY, None), ("mHz", "1e-3", _FREQUENCY, None), ("kHz", "1e3", _FREQUENCY, None),
    ("MHz", "1e6", _FREQUENCY, None),
    ("Pa", "1", _PRESSURE, None), ("kPa", "1e3", _PRESSURE, None), ("MPa", "1e6", _PRESSURE, None),
    ("GPa", "1e9", _PRESSURE, None), ("bar", "1e5", _PRESSURE, None),
    ("N", "1", _FORCE, None), ("kN", "1e3", _FORCE, None), ("MN", "1e6", _FORCE, None), ("GN", "1e9", _FORCE, None),
    ("dyn", "1e-5", _FORCE, None),
    ("deg", "1", _ANGLE, None), ("rad", repr(180.0 / math.pi), _ANGLE, None),
)
# fmt: on
_UNITS: Mapping[str, Decimal] = {symbol: Decimal(factor) for symbol, factor, _, _ in _ROWS}
_IN_FILES: Mapping[str, tuple[float, Exponents]] = {
    word: (float(factor), exponents)
    for symbol, factor, exponents, words in _ROWS
    if words is not None
    for word in (symbol, *words.split())
}
_TERM = re.compile(r"(/?)\s*([A-Za-z]+)\^?([-+]?\d+)?")


def exact_factor(text: str) -> Decimal:
    """Return the factor from a product of unit symbols such as ``kg/m^3`` or ``dyn cm`` to SI (degrees for angles).

    KeyError: an unknown symbol.
    """
    factor = Decimal(1)
    for name, exponent in _terms(text):
        factor *= _UNITS[name] ** exponent
    return factor


def si_factor(text: str, exponents: Exponents) -> float | None:
    """Return the factor from this unit to SI; None if the unit is unknown or of another dimension.

    A unit is a product of terms, each a name with an optional power; the term after ``/`` or ``per`` is inverted.
    """
    normal = re.sub(
        r"\bper\b", "/", text.replace("³", "3").replace("⁻", "-").replace("¹", "1").replace("**", "^")
    )
    # A point or star between terms is a product; all other text between matches must be blank.
    normal = re.sub(r"[.·*()]", " ", normal)
    if re.sub(_TERM, "", normal).strip() or not normal.strip():
        return None
    factor, powers = 1.0, [0, 0, 0]
    for name, exponent in _terms(normal):
        unit = _IN_FILES.get(name) or _IN_FILES.get(name.lower())
        if unit is None:
            return None
        factor *= unit[0] ** exponent
        powers = [have + exponent * each for have, each in zip(powers, unit[1], strict=True)]
    return factor if tuple(powers) == exponents else None


def _terms(text: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the power of each term of a product."""
    for slash, name, power in _TERM.findall(text):
        yield name, int(power or 1) * (-1 if slash else 1)
