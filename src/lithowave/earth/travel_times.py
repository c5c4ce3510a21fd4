"""Travel times of seismic phases in reference models, by ray theory with TauP in ObsPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lithowave.earth.reference_models import NAMES
from lithowave.errors import InputError, MissingPackageError


@dataclass(frozen=True)
class Arrival:
    """An arrival of a phase: time, s, and angles, degrees, of the ray from the vertical at source and receiver."""

    phase: str
    time: float
    takeoff_angle: float
    incident_angle: float


def travel_times(
    model: str, source_depth: float, distance: float, phases: Sequence[str] = ("ttbasic",)
) -> list[Arrival]:
    """Return the arrivals at the surface in a spherical Earth, in the order of their times.

    Parameters
    ----------
    model : prem (isotropic, without ocean), ak135 or iasp91.
    source_depth : m.
    distance : epicentral distance, degrees.
    phases : names of TauP, such as P, S, pP, SS, PcP; ttbasic: the usual phases.

    Raises
    ------
    InputError : an unknown model, or a depth or a distance that cannot be.
    MissingPackageError : ObsPy is not installed.
    """
    if model not in NAMES:
        raise InputError("model", f"is {model!r}", f"allowed: {', '.join(NAMES)}")
    if not 0.0 <= source_depth <= 2_891_000.0:
        raise InputError("source_depth", f"is {source_depth:g} m", "allowed: 0 to 2,891,000 m, above the core")
    if not 0.0 <= distance <= 180.0:
        raise InputError("distance", f"is {distance:g} degrees", "allowed: 0 to 180 degrees")
    try:
        from obspy.taup import TauPyModel
    except ImportError:
        raise MissingPackageError("obspy", "the computation of travel times", "formats") from None
    found = TauPyModel(model).get_travel_times(source_depth / 1e3, distance, list(phases))
    return [
        Arrival(one.name, float(one.time), float(one.takeoff_angle), float(one.incident_angle))
        for one in sorted(found, key=lambda one: one.time)
    ]
