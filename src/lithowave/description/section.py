"""A material from two-dimensional sections in SEG-Y files, the same everywhere across them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from lithowave.description.base import DescriptionModel, InputFile, reading
from lithowave.description.refusals import refusal, shown
from lithowave.description.units import Length, NumberList, PositiveLength
from lithowave.readers.gridded_model import GriddedModel
from lithowave.readers.segy_section import SegySection, read_segy_section
from lithowave.readers.units import DENSITY, SPEED, Exponents, si_factor

_FILES = ("vp", "vs", "rho")


def _unit(exponents: Exponents, examples: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if not isinstance(value, str) or si_factor(value, exponents) is None:
            raise refusal(f"{shown(value)} is not a unit that fits", f"expected {examples}")
        return value

    return BeforeValidator(check)


class Section(DescriptionModel):
    """A depth section: SEG-Y files with one trace per position along x or y, and samples from the top down.

    Values are interpolated linearly between samples, and are constant beyond the ends of the section and in the
    direction across it. All three files must have the same traces. Reading them requires the package segyio.
    """

    vp: InputFile = Field(description="SEG-Y file with the P-wave velocity.")
    vs: InputFile = Field(description="SEG-Y file with the S-wave velocity; 0 in a fluid.")
    rho: InputFile = Field(description="SEG-Y file with the density.")
    speed_unit: Annotated[str, _unit(SPEED, "a speed such as m/s or km/s")] = Field(
        default="m/s", description="Unit of vp and vs in the files: m/s, km/s ..."
    )
    density_unit: Annotated[str, _unit(DENSITY, "a density such as kg/m^3 or g/cm^3")] = Field(
        default="kg/m^3", description="Unit of rho in the file: kg/m^3, g/cm^3 ..."
    )
    along: Literal["x", "y"] = Field(default="x", description="The axis along which the traces are located.")
    spacing: Annotated[tuple[PositiveLength, PositiveLength], NumberList(("trace", "sample"))] | None = Field(
        default=None,
        description="Distances [between traces, between samples], m; null: from the headers, that is, from the CDP "
        "coordinates and a thousandth of the sample interval.",
    )
    origin: Annotated[tuple[Length, Length], NumberList(("first trace", "z"))] | None = Field(
        default=None,
        description="Position of the first sample of the first trace: [x or y, z], m; null: the CDP coordinate of the "
        "first trace (0 if spacing is given) and z = 0.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.model  # read now, so that errors of a file are reported with their key
        return self

    @cached_property
    def model(self) -> GriddedModel:
        """The section as a gridded model in SI, with one point on the axis across it."""
        sections = {
            name: reading(read_segy_section, getattr(self, name), (name,)) for name in _FILES
        }
        first = sections["vp"]
        along, z = self._line(first), self._depths(first)
        axes = {"x": np.zeros(1), "y": np.zeros(1), self.along: along}
        upwards = slice(None, None, -1)
        falling = along[0] > along[-1]
        order = (upwards if falling else slice(None), upwards)
        across = 1 if self.along == "x" else 0
        arrays = {name: np.expand_dims(self._values(name, sections)[order], across) for name in _FILES}
        axes[self.along] = along[order[0]]
        return GriddedModel(first.path, axes["x"], axes["y"], z[upwards], **arrays)

    def _line(self, section: SegySection) -> np.ndarray:
        """Return the coordinates of the traces, m, in the order of the file."""
        count = len(section.values)
        if count < 2:
            raise refusal(f"{section.path} has {count} trace", "a section has two or more", at=("vp",))
        start = None if self.origin is None else self.origin[0]
        if self.spacing is not None:
            return (start or 0.0) + self.spacing[0] * np.arange(count)
        places = section.cdp_x if self.along == "x" else section.cdp_y
        steps = np.diff(places)
        if not ((steps > 0.0).all() or (steps < 0.0).all()):
            name = f"CDP {self.along.upper()}"
            what = f"{places[0]:.12g} m in all headers" if not steps.any() else "not rising or falling all the way"
            raise refusal(
                f"{section.path} has no line of coordinates: {name} is {what}",
                f"traces follow each other along {self.along}",
                "give spacing: [trace, sample] and origin",
                at=("vp",),
            )
        return places if start is None else places - places[0] + start

    def _depths(self, section: SegySection) -> np.ndarray:
        """Return z of the samples, m, descending."""
        count = section.values.shape[1]
        if count < 2:
            raise refusal(f"{section.path} has {count} sample a trace", "a section has two or more", at=("vp",))
        step = section.sample_interval / 1000.0 if self.spacing is None else self.spacing[1]
        if not step > 0.0:
            raise refusal(
                f"{section.path} has the sample interval {section.sample_interval}",
                "a section in depth has thousandths of a meter there",
                "give spacing: [trace, sample]",
                at=("vp",),
            )
        return (0.0 if self.origin is None else self.origin[1]) - step * np.arange(count)

    def _values(self, name: str, sections: dict[str, SegySection]) -> np.ndarray:
        """Return the values of a file in SI, (n_traces, n_samples)."""
        section, first = sections[name], sections["vp"]
        if section.values.shape != first.values.shape:
            sizes = ["{} traces of {} samples".format(*each.values.shape) for each in (section, first)]
            raise refusal(
                f"{section.path} has {sizes[0]}", f"all files need those of {first.path.name}, {sizes[1]}", at=(name,)
            )
        key, exponents = ("density_unit", DENSITY) if name == "rho" else ("speed_unit", SPEED)
        unit = getattr(self, key)
        factor = si_factor(unit, exponents)
        assert factor is not None
        return section.values if factor == 1.0 else section.values * np.float32(factor)

    def input_files(self) -> list[Path]:
        """Return the three files."""
        return [getattr(self, name) for name in _FILES]
