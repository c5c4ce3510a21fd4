"""Unit texts of data files (``km``, ``m s-1``, ``g/cm^3``, ``km.s-1``) as factors to SI."""

from __future__ import annotations

import re
from collections.abc import Mapping

Exponents = tuple[int, int, int]
"""Powers of length, mass and time."""

LENGTH: Exponents = (1, 0, 0)
SPEED: Exponents = (1, 0, -1)
DENSITY: Exponents = (-3, 1, 0)

_NAMES: Mapping[str, tuple[float, Exponents]] = {
    "m metre metres meter meters": (1.0, (1, 0, 0)),
    "km kilometre kilometres kilometer kilometers": (1e3, (1, 0, 0)),
    "cm centimetre centimetres centimeter centimeters": (1e-2, (1, 0, 0)),
    "mm millimetre millimetres millimeter millimeters": (1e-3, (1, 0, 0)),
    "ft foot feet": (0.3048, (1, 0, 0)),
    "cc": (1e-6, (3, 0, 0)),
    "kg kilogram kilograms": (1.0, (0, 1, 0)),
    "g gm gr gram grams": (1e-3, (0, 1, 0)),
    "t tonne tonnes": (1e3, (0, 1, 0)),
    "s sec second seconds": (1.0, (0, 0, 1)),
}
_BASE = {word: unit for words, unit in _NAMES.items() for word in words.split()}
_TERM = re.compile(r"(/?)\s*([A-Za-z]+)\^?([-+]?\d+)?")


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
    for slash, name, power in _TERM.findall(normal):
        unit = _BASE.get(name) or _BASE.get(name.lower())
        if unit is None:
            return None
        exponent = int(power or 1) * (-1 if slash else 1)
        factor *= unit[0] ** exponent
        powers = [have + exponent * each for have, each in zip(powers, unit[1], strict=True)]
    return factor if tuple(powers) == exponents else None
