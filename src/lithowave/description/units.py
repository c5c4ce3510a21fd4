"""Quantities: numbers in SI, or text with a unit such as ``"15 km"`` that is turned into SI.

Every number a user may write is declared with one of the types below (``Length``, ``PositiveSpeed`` ...),
each a plain ``float`` once validated.  A number is taken as SI.  Text holds a number and, for a quantity with
a dimension, a unit of that dimension.  True and false are no numbers; infinity and NaN are refused; a unit of
another dimension is refused by name.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic_core import CoreSchema, core_schema

from lithowave.description.text import refusal, shown
from lithowave.readers.text import exact_factor

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

    from lithowave.json_types import Entries

_UNITS: Mapping[str, tuple[str, ...]] = {
    "length": ("m", "km", "cm", "mm", "um", "ft"),
    "time": ("s", "ms", "us", "ns", "min", "h"),
    "frequency": ("Hz", "mHz", "kHz", "MHz", "1/s"),
    "speed": ("m/s", "km/s", "cm/s", "mm/s", "mm/us", "ft/s"),
    "density": ("kg/m^3", "g/cm^3", "g/cc", "t/m^3"),
    "pressure": ("Pa", "kPa", "MPa", "GPa", "bar"),
    "force": ("N", "kN", "MN", "GN", "dyn"),
    "moment": ("N m", "kN m", "MN m", "GN m", "dyn cm"),
    "angle": ("deg", "rad"),
    "speed_gradient": ("1/s", "m/s/m", "km/s/km"),
    "density_gradient": ("kg/m^4", "g/cm^3/km"),
    "inverse_length": ("1/m", "1/km"),
    "number": (),
}
"""Units in which each quantity may be written; the first is the SI unit, which is that of plain numbers."""

_ARTICLES: Mapping[str, str] = {
    "angle": "an angle",
    "number": "a plain number",
    "speed_gradient": "a velocity gradient",
    "density_gradient": "a density gradient",
    "inverse_length": "an inverse length",
}

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def _normal_spelling(unit: str) -> str:
    """Return the normal spelling of a unit: ``kg/m³``, ``kg/m**3`` and ``kg/m3`` are equal, and ``N·m`` and ``Nm``."""
    text = unit.replace("³", "^3").replace("**", "^").replace("µ", "u").replace("μ", "u").replace("°", "deg")
    text = re.sub(r"(?<=m)3$", "^3", text)
    return re.sub(r"[\s·*]", "", text)


_FACTORS: Mapping[str, Mapping[str, Decimal]] = {
    dimension: {_normal_spelling(unit): exact_factor(unit) for unit in units} for dimension, units in _UNITS.items()
}


def unit_names(dimension: str) -> list[str]:
    """Return the units in which a quantity of this dimension may be written; the first is the SI one."""
    return list(_UNITS[dimension])


def si_unit(dimension: str) -> str:
    """Return the SI unit of a dimension as text (``"kg/m^3"``); empty for a plain number."""
    return next(iter(_UNITS[dimension]), "")


def parse_quantity(value: object, dimension: str) -> float:
    """Return the value in SI units of a number, or of text with a unit.

    Parameters
    ----------
    value : a real number (taken as SI) or text such as ``"15 km"`` or ``"1e18"``.
    dimension : ``length``, ``time``, ``frequency``, ``speed``, ``density``, ``pressure``, ``force``,
        ``moment``, ``angle`` (degrees), ``speed_gradient``, ``density_gradient``, ``inverse_length`` or ``number``.

    Raises
    ------
    PydanticCustomError
        (a ``ValueError``) when the value is no number, not finite, or has a unit of another dimension.
    """
    if isinstance(value, bool) or not isinstance(value, (Real, str)):
        raise refusal(f"{shown(value)} is not a number", _expectation(dimension))
    number = _parse_text(value, dimension) if isinstance(value, str) else _as_float(value, dimension)
    if not math.isfinite(number):
        raise refusal(f"{shown(value)} is not a finite number", _expectation(dimension))
    return number + 0.0  # makes a negative zero positive


def _as_float(value: Real, dimension: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise refusal(f"{shown(value)} is too large for a number", _expectation(dimension)) from None


def _parse_text(text: str, dimension: str) -> float:
    match = _NUMBER.match(text.strip())
    if match is None:
        infinite = text.strip().lower().lstrip("+-.") in {"nan", "inf", "infinity"}
        problem = "is not a finite number" if infinite else "is not a number"
        raise refusal(f"{shown(text)} {problem}", _expectation(dimension))
    number, unit = match.group(), text.strip()[match.end() :].strip()
    if not unit:
        return float(number)
    factor = _FACTORS[dimension].get(_normal_spelling(unit))
    if factor is None:
        raise _unit_refusal(text, unit, dimension)
    # Decimal, so that "0.29 km" is the float nearest to 290 and not a product of two rounded factors.
    return float(Decimal(number) * factor)


def _unit_refusal(text: str, unit: str, dimension: str) -> ValueError:
    if not re.fullmatch(r"[^\d_,'\"]+(?:\^?[34])?|1/[a-z]+", unit):
        return refusal(f"{shown(text)} is not a number", _expectation(dimension))
    spelling = _normal_spelling(unit)
    for other, factors in _FACTORS.items():
        if spelling in factors:
            return refusal(f"{shown(text)} is {_named(other)}", _expectation(dimension))
    known = {_normal_spelling(name).lower(): name for name in _UNITS[dimension]}
    near = difflib.get_close_matches(spelling.lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean {known[near[0]]!r}?" if near else ""
    return refusal(f"{shown(text)} has the unknown unit {unit!r}", _expectation(dimension), hint)


def _named(dimension: str) -> str:
    return _ARTICLES.get(dimension, f"a {dimension}")


def _expectation(dimension: str) -> str:
    if dimension == "number":
        return "expected a plain number without a unit"
    first, *others = _UNITS[dimension]
    units = ", ".join([first, *others])
    return f"expected {_named(dimension)}: a number in {first}, or text with a unit ({units})"


@dataclass(frozen=True)
class Quantity:
    """Annotation that makes a ``float`` field a quantity of one dimension, with limits in SI units.

    ``Annotated[float, Quantity("length", gt=0)]`` accepts ``100``, ``100.0``, ``"100 m"`` and ``"0.1 km"``. ``hint`` is
    added to the error message of a number outside the limits.
    """

    dimension: str
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    hint: str = ""

    def parse(self, value: object) -> float:
        """The value in SI, or a refusal that states the limits."""
        number = parse_quantity(value, self.dimension)
        within = (
            (self.gt is None or number > self.gt)
            and (self.ge is None or number >= self.ge)
            and (self.lt is None or number < self.lt)
            and (self.le is None or number <= self.le)
        )
        if within:
            return number
        given = f" ({shown(value)})" if isinstance(value, str) else ""
        raise refusal(
            f"{with_unit(number, self.dimension)}{given} is out of range", f"must be {self.limits()}", self.hint
        )

    def limits(self) -> str:
        """Return the allowed range as words: ``greater than 0 m``."""
        words = {"greater than": self.gt, "at least": self.ge, "less than": self.lt, "at most": self.le}
        return " and ".join(
            f"{word} {with_unit(limit, self.dimension)}" for word, limit in words.items() if limit is not None
        )

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.parse, core_schema.float_schema())

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        number: Entries = {"type": "number"}
        keywords = {"exclusiveMinimum": self.gt, "minimum": self.ge, "exclusiveMaximum": self.lt, "maximum": self.le}
        number.update({keyword: limit for keyword, limit in keywords.items() if limit is not None})
        if self.dimension == "number":
            return number
        unit, *_ = _UNITS[self.dimension]
        text = {"type": "string", "pattern": r"^\s*[-+]?(\d|\.\d).*$", "examples": [f"1 {unit}"]}
        return {"anyOf": [number, text], "x-unit": unit}


def quantity(
    dimension: str,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
) -> Any:
    """Return a field type: ``Annotated[float, Quantity("speed", gt=0)]`` is ``quantity("speed", gt=0)``."""
    return Annotated[float, Quantity(dimension, gt=gt, ge=ge, lt=lt, le=le)]


def with_unit(number: float, dimension: str) -> str:
    """Return a number with its SI unit, for messages: ``15000 m``."""
    return f"{number:z.12g} {si_unit(dimension)}".rstrip()


@dataclass(frozen=True)
class WholeNumber:
    """Annotation that makes an ``int`` field a whole number with limits; ``4.0`` is accepted, not ``4.5``."""

    ge: int | None = None
    le: int | None = None

    def parse(self, value: object) -> int:
        """The whole number, or a refusal that states the limits."""
        # Digits may be text when they come from a command line; YAML reads whole numbers as such.
        digits = isinstance(value, str) and re.fullmatch(r"\s*[-+]?\d+\s*", value)
        number = cast("float", int(value) if digits else value)  # type: ignore[call-overload]
        whole = isinstance(number, Integral) or (isinstance(number, Real) and float(number).is_integer())
        if isinstance(number, bool) or not whole:
            raise refusal(f"{shown(value)} is not a whole number", f"must be a whole number{self._limits()}")
        if (self.ge is not None and number < self.ge) or (self.le is not None and number > self.le):
            raise refusal(f"{shown(value)} is out of range", f"must be a whole number{self._limits()}")
        return int(number)

    def _limits(self) -> str:
        words = {"at least": self.ge, "at most": self.le}
        limits = [f"{word} {limit}" for word, limit in words.items() if limit is not None]
        return " " + " and ".join(limits) if limits else ""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.parse, core_schema.int_schema())

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        limits = {"minimum": self.ge, "maximum": self.le}
        return {"type": "integer", **{key: limit for key, limit in limits.items() if limit is not None}}


@dataclass(frozen=True)
class NumberList:
    """Annotation for a fixed count of quantities, such as ``[x, y, z]``; NumPy arrays are accepted too."""

    names: tuple[str, ...]

    def parse(self, value: object) -> object:
        """The sequence as a list when its length is right, else a refusal that names the items."""
        items = value.tolist() if hasattr(value, "tolist") else value
        expected = self._expectation()
        if not isinstance(items, (list, tuple)):
            raise refusal(f"{shown(value)} is not a list of numbers", expected)
        if len(items) not in self._counts():
            count = f"{len(items)} item" + ("" if len(items) == 1 else "s")
            raise refusal(f"{shown(items)} has {count}", expected)
        return items

    def _counts(self) -> tuple[int, ...]:
        return (len(self.names),)

    def _expectation(self) -> str:
        return f"expected {len(self.names)} numbers: [{', '.join(self.names)}]"

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.parse, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema)


class SurfacePlace(NumberList):
    """Annotation for ``[x, y, z]``, or ``[x, y]`` for the point of the surface above or below."""

    def _counts(self) -> tuple[int, ...]:
        return (2, 3)

    def _expectation(self) -> str:
        return f"{super()._expectation()}, or [x, y] for a point on the surface"

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "minItems": 2, "maxItems": 3}


Number = Annotated[float, Quantity("number")]
Length = Annotated[float, Quantity("length")]
Duration = Annotated[float, Quantity("time")]
Pressure = Annotated[float, Quantity("pressure")]
Force = Annotated[float, Quantity("force")]
Moment = Annotated[float, Quantity("moment")]

PositiveNumber = Annotated[float, Quantity("number", gt=0)]
PositiveLength = Annotated[float, Quantity("length", gt=0)]
PositiveDuration = Annotated[float, Quantity("time", gt=0)]
PositiveFrequency = Annotated[float, Quantity("frequency", gt=0)]
PositiveSpeed = Annotated[float, Quantity("speed", gt=0)]
PositiveDensity = Annotated[float, Quantity("density", gt=0)]
PositiveMoment = Annotated[float, Quantity("moment", gt=0)]
NonNegativeDuration = Annotated[float, Quantity("time", ge=0)]
NonNegativeSpeed = Annotated[float, Quantity("speed", ge=0)]

SpeedGradient = Annotated[float, Quantity("speed_gradient")]
DensityGradient = Annotated[float, Quantity("density_gradient")]
InverseLength = Annotated[float, Quantity("inverse_length")]

Longitude = Annotated[float, Quantity("angle", ge=-360, le=360)]
Latitude = Annotated[float, Quantity("angle", ge=-90, le=90, hint="did you swap longitude and latitude?")]

QualityFactor = Annotated[float, Quantity("number", ge=1)]

Count = Annotated[int, WholeNumber(ge=1)]

Position = Annotated[tuple[Length, Length, Length], NumberList(("x", "y", "z"))]
PositionOnSurface = Annotated[tuple[Length, ...], SurfacePlace(("x", "y", "z"))]
Direction = Annotated[tuple[Number, Number, Number], NumberList(("x", "y", "z"))]
ForceVector = Annotated[tuple[Force, Force, Force], NumberList(("East", "North", "Up"))]
Interval = Annotated[tuple[Length, Length], NumberList(("minimum", "maximum"))]
Band = Annotated[tuple[PositiveFrequency, PositiveFrequency], NumberList(("low", "high"))]
