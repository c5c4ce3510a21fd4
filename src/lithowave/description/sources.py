"""Point sources: forces, moment tensors, double couples, and CMTSOLUTION files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from lithowave.description.base import DescriptionModel, InputFile, reading
from lithowave.description.domain import Domain
from lithowave.description.fault_sources import fault_sources
from lithowave.description.material import Material
from lithowave.description.mechanisms import DoubleCouple, MomentTensor, MomentTuple
from lithowave.description.point_input import Point, check_point_keys, depth_origin, local_point
from lithowave.description.refusals import refusal, shown
from lithowave.description.slip_rates import SubfaultFunction
from lithowave.description.time_functions import TimeFunction
from lithowave.description.units import ForceVector, Latitude, Length, Longitude, NonNegativeDuration, Position

if TYPE_CHECKING:
    from lithowave.faults import FiniteFault
    from lithowave.readers.cmtsolution import CMTSolution

ONSET_LIMIT = 1e-3
"""Part of its peak that a time function may have before time 0, where the simulation starts."""

SPECFEM_DECAY = 1.628
"""SPECFEM's Gaussian for a CMTSOLUTION is exp(-(a t)^2) a / sqrt(pi) with a = 1.628 / half duration."""

_MECHANISMS = ("force", "moment_tensor", "double_couple")


@dataclass(frozen=True)
class PointSource:
    """One point source in local coordinates.

    Either ``moment`` (xx, yy, zz, xy, xz, yz) in N m, acting with ``time_function.rate``, or ``force`` (E, N,
    Up) in N, acting with ``time_function.amplitude``.  ``position`` is (x, y, z) in m.
    """

    name: str
    position: Point
    moment: MomentTuple | None
    force: tuple[float, float, float] | None
    time_function: TimeFunction | SubfaultFunction
    where: str


def _kind_available(value: Any, info: ValidationInfo) -> Any:
    suffix = Path(value).suffix.lower() if isinstance(value, (str, Path)) else ""
    kinds = {".xml": "QuakeML", ".quakeml": "QuakeML", ".qml": "QuakeML"}
    if suffix in kinds:
        raise refusal(
            f"{shown(str(value))}: source files of the kind {kinds[suffix]} are not available in this "
            "version",
            "available: CMTSOLUTION and SRF files, and position with force, moment_tensor or double_couple",
        )
    return value


class Source(DescriptionModel):
    """One entry of ``sources``.

    An entry contains either a position (``position``, or ``longitude``, ``latitude``, ``depth``), one of ``force``,
    ``moment_tensor`` and ``double_couple``, and a ``time_function``; or a ``file``.

    The moment rate of a CMTSOLUTION is the Gaussian that SPECFEM uses, with the standard deviation
    half duration / (1.628 sqrt 2), centered at the origin time plus the time shift of the file. ``time_function``
    replaces the Gaussian; its delay is relative to the time shift. Time 0 of the simulation is the origin time minus
    ``delay``.

    The subfaults of a finite fault (SRF) are point sources, each with the slip rate of the file, linear between
    samples. Their moment is the product of area, slip and shear modulus: that of VS and DEN in a file of version 2.0,
    else that of the material. Depths are below the surface; the times of the file are delayed by ``delay``.
    """

    name: str = Field(default="", description="A name for figures and messages; files contain their own names.")
    position: Position | None = Field(
        default=None, description="[x, y, z], m; z is negative below the surface."
    )
    longitude: Longitude | None = Field(
        default=None, description="Instead of position, degrees East; requires domain.crs."
    )
    latitude: Latitude | None = Field(default=None, description="Instead of position, degrees North.")
    depth: Length | None = Field(
        default=None, description="With longitude and latitude: depth below the surface, m."
    )
    force: ForceVector | None = Field(default=None, description="Force [East, North, Up], N.")
    moment_tensor: MomentTensor | None = Field(default=None, description="Moment tensor, N m.")
    double_couple: DoubleCouple | None = Field(default=None, description="Strike, dip, rake and m0 or mw.")
    time_function: TimeFunction | None = Field(
        default=None,
        description="Shape of the moment rate, or amplitude of a force. With file: replaces the Gaussian.",
    )
    file: Annotated[InputFile, BeforeValidator(_kind_available)] | None = Field(
        default=None,
        description="A CMTSOLUTION file of one or more events, geographic (requires domain.crs) or Cartesian; or a "
        "finite fault in the Standard Rupture Format, versions 1.0 and 2.0, text or HDF5 (.srf).",
    )
    delay: NonNegativeDuration | None = Field(
        default=None,
        description="With file: time by which the source is delayed, s, so that it begins after time 0. "
        "Default: 0, or the minimum delay required if the file is the only source.",
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        mechanisms = [key for key in _MECHANISMS if getattr(self, key) is not None]
        if self.file is not None:
            self._check_file(mechanisms)
            return self
        if self.delay is not None:
            raise refusal(
                "a delay is given without a file",
                "the time function has its own: {gaussian: {..., delay: ...}}",
                at=("delay",),
            )
        if len(mechanisms) != 1:
            got = f"{' and '.join(mechanisms)} are both given" if mechanisms else "has no mechanism"
            raise refusal(got, f"give exactly one of {', '.join(_MECHANISMS)} (or a file)")
        check_point_keys(self.position, self.longitude, self.latitude, self.depth, depth_needed=True)
        if self.time_function is None:
            raise refusal(
                "is missing",
                "a source needs one, e.g. {gaussian: {sigma: 0.1, delay: 0.6}}",
                at=("time_function",),
            )
        if self.force is not None and not any(self.force):
            raise refusal("the force is zero", "at least one component must differ from 0", at=("force",))
        if self.force is None:
            self._check_moment_rate()
        return self

    @property
    def is_fault(self) -> bool:
        """True if the file is a finite fault."""
        return self.file is not None and self.file.suffix.lower() == ".srf"

    @property
    def fault(self) -> FiniteFault:
        """Finite fault of the file."""
        assert self.file is not None
        status = self.file.stat()
        return reading(lambda path: _read_fault(path, status.st_mtime_ns, status.st_size), self.file)

    def _check_file(self, mechanisms: list[str]) -> None:
        places = [
            key for key in ("position", "longitude", "latitude", "depth") if getattr(self, key) is not None
        ]
        if mechanisms or places:
            extra = (mechanisms + places)[0]
            raise refusal(f"file and {extra} are both given", "the file has place and mechanism", at=(extra,))
        if self.is_fault:
            if self.time_function is not None:
                raise refusal("the file has the slip rate of each subfault", at=("time_function",))
            _ = self.fault
            return
        for event in self._events():
            if self.time_function is None and event.half_duration <= 0.0:
                raise refusal(
                    f"{self.file}:{event.line_number}: {event.event_name} has a half duration of "
                    f"{event.half_duration:g} s",
                    "a source without duration cannot be simulated",
                    "give time_function beside the file, e.g. {gaussian: {sigma: 0.1}}",
                    at=("file",),
                )
        self._check_moment_rate()

    def _check_moment_rate(self) -> None:
        reason = self.time_function.moment_refusal() if self.time_function is not None else None
        if reason:
            raise refusal(reason, at=("time_function",))

    def _events(self) -> list[CMTSolution]:
        from lithowave.readers.cmtsolution import read_cmtsolutions

        assert self.file is not None
        return reading(read_cmtsolutions, self.file)

    def origin_times(self) -> list[str]:
        """Return the different origin times in the file, as ISO text."""
        events = [] if self.file is None or self.is_fault else self._events()
        return list(dict.fromkeys(event.origin_time for event in events if event.origin_time is not None))

    def needed_delay(self) -> float:
        """Return the minimum ``delay``, to two digits, that leaves at most 1e-3 of the peak before time 0."""
        if self.is_fault:
            return 0.0
        undelayed = (self._file_time_function(event, 0.0) for event in self._events())
        early = [
            -function.support(ONSET_LIMIT)[0]
            for function in undelayed
            if function.onset_amplitude() > ONSET_LIMIT
        ]
        return _rounded_up(max(early)) if early else 0.0

    def point_sources(self, domain: Domain, material: Material, where: str) -> list[PointSource]:
        """Return the sources of this entry in local coordinates: one, all events of a file, or the subfaults of a fault
        in the order of their onsets.

        material : medium whose shear modulus applies if the file of a fault has none.
        """
        if self.is_fault:
            places, sampled, table = fault_sources(self.fault, domain, material, self.delay or 0.0)
            columns = zip(places.tolist(), sampled.moment.tolist(), sampled.subfault.tolist(), strict=True)
            return [
                PointSource(f"subfault {n + 1}", tuple(place), tuple(moment), None, SubfaultFunction(table, row), where)
                for row, (place, moment, n) in enumerate(columns)
            ]
        if self.file is not None:
            return [self._from_event(event, domain, f"{where}.file") for event in self._events()]
        assert self.time_function is not None
        place = local_point(
            domain, self.position, self.longitude or 0.0, self.latitude or 0.0, self.depth or 0.0
        )
        mechanism = self.moment_tensor or self.double_couple
        moment = None if mechanism is None else mechanism.components
        return [PointSource(self.name, place, moment, self.force, self.time_function, where)]

    def _from_event(self, event: CMTSolution, domain: Domain, where: str) -> PointSource:
        x, y = domain.to_local(event.longitude, event.latitude) if event.geographic else (event.x, event.y)
        place = (float(x), float(y), depth_origin(domain, float(x), float(y)) - event.depth)
        function = self._file_time_function(event, self.delay or 0.0)
        return PointSource(self.name or event.event_name, place, event.moment, None, function, where)

    def _file_time_function(self, event: CMTSolution, delay: float) -> TimeFunction:
        shift = event.time_shift + delay
        if self.time_function is None:
            sigma = event.half_duration / (SPECFEM_DECAY * math.sqrt(2.0))
            return TimeFunction(gaussian={"sigma": sigma, "delay": shift})
        shape = self.time_function.shape
        moved = shape.model_copy(update={"delay": shape.delay + shift})
        return self.time_function.model_copy(update={self.time_function.kind: moved})


@lru_cache(maxsize=2)
def _read_fault(path: Path, changed: int, size: int) -> FiniteFault:
    """Return the fault of a file, which is read again only after a change: copies of a simulation share it."""
    from lithowave.readers.srf import read_srf

    return read_srf(path)


def _rounded_up(value: float) -> float:
    """Return the next larger number with two digits."""
    scale = 10.0 ** (math.floor(math.log10(value)) - 1)
    # Division by a power of ten and rounding leave the shortest decimal: 1.9 and not 1.9000000000000001.
    return float(f"{math.ceil(value / scale - 1e-9) * scale:.2g}")
