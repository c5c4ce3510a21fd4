"""What the simulation writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BeforeValidator, Field, StrictBool, model_validator
from pydantic_core import CoreSchema, core_schema

from lithowave.description.base import DescriptionModel
from lithowave.description.text import refusal, shown
from lithowave.description.units import Count, Length, PositiveDuration

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

Quantity = Literal["displacement", "velocity", "acceleration"]
SnapshotField = Literal["velocity", "stress", "pressure"]
WaveformFormat = Literal["miniseed", "sac", "segy", "asdf"]


class _OneOrMany:
    """Annotation for a list that may be written as its only item."""

    @staticmethod
    def parse(value: object) -> object:
        if value is None:
            return []
        return value if isinstance(value, (list, tuple)) else [value]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.parse, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        many = handler(schema)
        return {"anyOf": [many["items"], many]}


def _directory(value: object) -> Path:
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise refusal(f"{shown(value)} is not the name of a folder", "expected text")
    return Path(value).expanduser()


class SnapshotPlane(DescriptionModel):
    """A plane across the box, normal to an axis: one of x, y and z."""

    x: Length | None = Field(default=None, description="The plane x = this, m.")
    y: Length | None = Field(default=None, description="The plane y = this, m.")
    z: Length | None = Field(default=None, description="The plane z = this, m; 0 is the surface.")

    @model_validator(mode="after")
    def _one_axis(self) -> Self:
        given = self._given(*"xyz")
        if len(given) != 1:
            names = " and ".join(given) or "no coordinate"
            raise refusal(f"a plane has {names}", "give exactly one of x, y and z, e.g. plane: {z: 0}")
        return self

    @property
    def axis(self) -> str:
        """The axis that the plane is normal to."""
        return self._given(*"xyz")[0]

    @property
    def coordinate(self) -> float:
        """Position of the plane on that axis, m."""
        return getattr(self, self.axis)


class Snapshots(DescriptionModel):
    """The wavefield on a plane or in the entire box, at regular times; written as VTKHDF."""

    interval: PositiveDuration = Field(description="Simulated time between two snapshots, s.")
    plane: SnapshotPlane | None = Field(default=None, description="A plane: {x: ...}, {y: ...} or {z: ...}.")
    volume: StrictBool = Field(default=False, description="true: the entire box, instead of a plane.")
    fields: Annotated[list[SnapshotField], Field(min_length=1)] = Field(
        default=["velocity"], description="Fields to write: velocity, stress, pressure."
    )
    stride: Count = Field(default=1, description="Write every n-th grid point along each axis.")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.plane is None) == (not self.volume):
            both = self.plane is not None
            raise refusal(
                "a plane and volume: true are both given" if both else "nothing says where to take the snapshots",
                "give either plane: {z: 0} or volume: true",
            )
        if len(set(self.fields)) < len(self.fields):
            raise refusal(f"{shown(self.fields)} names a field twice", at=("fields",))
        return self


class Checkpoint(DescriptionModel):
    """When the state is saved, so that a stopped run can be resumed."""

    interval: PositiveDuration = Field(description="Simulated time between two checkpoints, s.")


class Output(DescriptionModel):
    """The run folder and its content."""

    directory: Annotated[Path, BeforeValidator(_directory)] | None = Field(
        default=None,
        description="The run folder, relative to the current directory; default: out/title.",
    )
    sampling_interval: PositiveDuration | None = Field(
        default=None,
        description="Time between two samples, s; default: at most a tenth of the shortest period, and with segy an "
        "integer number of microseconds that the format can represent.",
    )
    quantity: Quantity = Field(default="velocity", description="Quantity of the seismograms.")
    stress: StrictBool = Field(default=False, description="true: also record the six stresses at the receivers.")
    pressure: StrictBool = Field(default=False, description="true: also record the pressure at the receivers.")
    strain: StrictBool = Field(
        default=False, description="true: also record the six strains at the receivers (spectral_element only)."
    )
    formats: list[WaveformFormat] = Field(
        default=[], description="Formats in addition to seismograms.h5, which is always written: miniseed, sac, segy, "
        "asdf."
    )
    snapshots: Annotated[list[Snapshots], _OneOrMany()] = Field(
        default=[], description="One set of snapshots, or a list of them."
    )
    peak_motion: StrictBool = Field(
        default=False,
        description="true: write maps of peak ground velocity and displacement at the top of the box.",
    )
    checkpoint: Checkpoint | None = Field(
        default=None, description="Save the state regularly; SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 always save it."
    )
    progress_interval: PositiveDuration = Field(
        default=5.0, description="Wall-clock time between two progress reports, s."
    )

    @property
    def tensors(self) -> bool:
        """True if anything besides motion is recorded at the receivers: stress, pressure or strain."""
        return self.stress or self.pressure or self.strain
