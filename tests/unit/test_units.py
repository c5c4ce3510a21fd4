"""Numbers and text with units become SI, and everything else is refused by name."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from lithowave.description import parse_quantity, units


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("15 km", "length", 15000.0), ("-20 m", "length", -20.0), ("250cm", "length", 2.5),
        ("10 ms", "time", 0.01), ("1.5 min", "time", 90.0), ("20 mHz", "frequency", 0.02),
        ("2 MHz", "frequency", 2.0e6), ("3.464 km/s", "speed", 3464.0), ("2.7 g/cm^3", "density", 2700.0),
        ("2.7 g/cm³", "density", 2700.0), ("2.7 g/cm**3", "density", 2700.0), ("10 kN", "force", 1.0e4),
        ("1e25 dyn cm", "moment", 1.0e18), ("1e18 N·m", "moment", 1.0e18), ("1e18", "moment", 1.0e18),
        ("30°", "angle", 30.0), (" 12.5 ", "length", 12.5),
    ],
)  # fmt: skip
def test_text_with_a_unit_becomes_si(text, dimension, value):
    assert parse_quantity(text, dimension) == value


@pytest.mark.parametrize("number", [5, 5.0, np.float32(5), np.int64(5), np.float64(5)])
def test_plain_numbers_are_si(number):
    value = parse_quantity(number, "length")
    assert value == 5.0
    assert type(value) is float


@pytest.mark.parametrize(
    ("value", "dimension", "words"),
    [
        ("9 km", "time", ["'9 km' is a length", "expected a time", "s, ms"]),
        ("5 s", "frequency", ["'5 s' is a time", "expected a frequency", "Hz"]),
        ("5 s", "number", ["'5 s' is a time", "without a unit"]),
        ("2 kg/m^3", "speed", ["is a density", "expected a speed"]),
        ("5 KM", "length", ["unknown unit 'KM'", "did you mean 'km'?"]),
        ("5 parsec", "length", ["unknown unit 'parsec'", "m, km, cm"]),
        ("five", "length", ["'five' is not a number"]),
        ("1,000 m", "length", ["'1,000 m' is not a number"]),
        (True, "length", ["true is not a number"]),
        (None, "length", ["null is not a number"]),
        ([1.0], "length", ["[1.0] is not a number"]),
        (math.nan, "length", ["nan is not a finite number"]),
        ("nan", "speed", ["'nan' is not a finite number"]),
        (10**400, "length", ["too large"]),
    ],
)
def test_what_is_no_quantity_is_refused(value, dimension, words):
    with pytest.raises(ValueError) as refused:
        parse_quantity(value, dimension)
    told = " ".join(str(part) for part in refused.value.context.values())
    for word in words:
        assert word in told


def message(annotation, value) -> str:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(annotation).validate_python(value)
    return " ".join(str(part) for part in refused.value.errors()[0]["ctx"].values())


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (units.PositiveLength, 0, ["0 m is out of range", "greater than 0 m"]),
        (units.PositiveSpeed, "-1 km/s", ["-1000 m/s ('-1 km/s')", "greater than 0 m/s"]),
        (units.NonNegativeDuration, -0.1, ["-0.1 s", "at least 0 s"]),
        (units.Latitude, 91, ["91 deg", "at least -90 deg and at most 90 deg"]),
        (units.quantity("number", gt=0, lt=1), 1, ["must be greater than 0 and less than 1"]),
        (units.Count, 0, ["0 is out of range", "a whole number at least 1"]),
        (units.Count, 2.5, ["2.5 is not a whole number"]),
        (units.Position, [1, 2], ["[1, 2] has 2 items", "[x, y, z]"]),
        (units.Position, 3, ["3 is not a list of numbers"]),
        (units.Position, [1, 2, "3 s"], ["'3 s' is a time", "expected a length"]),
    ],
)
def test_limits_are_told(annotation, value, words):
    told = message(annotation, value)
    for word in words:
        assert word in told


def test_a_negative_zero_becomes_zero():
    assert [str(parse_quantity(value, "length")) for value in (-0.0, "-0 km", "-0")] == ["0.0"] * 3
    assert units.with_unit(-0.0, "length") == "0 m"


def test_every_unit_is_parsed_and_none_has_two_dimensions():
    seen: dict[str, str] = {}
    for dimension in ("length", "time", "frequency", "speed", "density", "pressure", "force", "moment", "angle"):
        assert parse_quantity(f"1 {units.si_unit(dimension)}", dimension) == 1.0
        for name in units.unit_names(dimension):
            assert parse_quantity(f"2 {name}", dimension) > 0.0
            assert seen.setdefault(name, dimension) == dimension
