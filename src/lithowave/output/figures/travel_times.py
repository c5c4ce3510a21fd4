"""Arrival times for figures: first arrivals in flat layers, and phases of radial Earth models by TauP."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from lithowave.output.attributes import chunk_map
from lithowave.output.figures import style
from lithowave.output.geometry import epicenter, epicentral_distance
from lithowave.output.seismograms import Seismograms
from lithowave.sphere import RADIUS

PHASES = {
    "P": ("p", "P", "Pn", "Pdiff"), "S": ("s", "S", "Sn", "Sdiff"), "pP": ("pP",), "sS": ("sS",), "PP": ("PP",),
    "SS": ("SS",), "PcP": ("PcP",), "ScS": ("ScS",), "PKP": ("PKP", "PKIKP"), "SKS": ("SKS", "SKIKS"),
}  # fmt: skip
"""Labels of phases in figures, and the phases of TauP whose earliest arrival they are."""

SHALLOWEST_REFLECTED = 20e3  # m: depth of a source above which pP and sS are too close to P and S to be drawn
Layers = tuple[list[float], list[float], list[float]]
Phase = tuple[str, np.ndarray, str]


def has_taup() -> bool:
    """True if ObsPy, which contains TauP, is installed."""
    return find_spec("obspy") is not None


def global_arrivals(
    model: str, distances: np.ndarray, source_z: float, receiver_z: float, phases: Sequence[str] = tuple(PHASES)
) -> dict[str, np.ndarray]:
    """Return the earliest arrival (s after the onset) of phases in a radial Earth model, by TauP.

    Parameters
    ----------
    model : ``prem``, ``ak135`` or ``iasp91``.
    distances : (n,) epicentral distances at the radius of the surface, m.
    source_z, receiver_z : m above the surface.

    Returns
    -------
    Arrays (n,) by label in PHASES, NaN at distances without the phase.

    References
    ----------
    Crotwell, Owens & Ritsema (1999), The TauP Toolkit, Seismol. Res. Lett. 70, 154-160.
    """
    from obspy.taup import TauPyModel

    taup = TauPyModel(model)
    found = {label: np.full(len(distances), np.nan) for label in phases}
    names = [name for label in phases for name in PHASES[label]]
    for index, distance in enumerate(np.degrees(np.asarray(distances) / RADIUS)):
        arrivals = taup.get_travel_times(
            max(0.0, -source_z / 1e3), float(distance), names, receiver_depth_in_km=max(0.0, -receiver_z / 1e3)
        )
        for label in phases:
            times = [arrival.time for arrival in arrivals if arrival.name in PHASES[label]]
            found[label][index] = min(times, default=np.nan)
    return found


def drawn_phases(source_z: float) -> tuple[str, ...]:
    """Return the labels of the phases that figures show for a source at this depth."""
    return tuple(label for label in PHASES if source_z < -SHALLOWEST_REFLECTED or label not in ("pP", "sS"))


def phase_color(label: str) -> str:
    """Return the color of a phase, by the type of its first leg."""
    return style.P_COLOR if label[0] in "Pp" else style.S_COLOR


def require_flat(seismograms: Seismograms, layers: Layers | None) -> None:
    """Refuse travel times in flat layers for a chunk of the globe.

    Raises
    ------
    ValueError : the seismograms are of a chunk.
    """
    if layers is not None and chunk_map(seismograms.geographic_origin) is not None:
        raise ValueError("layers are flat, and the seismograms are of a chunk of the globe; use model")


def receiver_arrivals(
    seismograms: Seismograms, layers: Layers | None, model: str | None, chosen: np.ndarray | None = None
) -> list[Phase]:
    """Return (label, times (n_receivers,), color) of first P and S waves at the receivers, s on the time axis of a run.

    layers : (tops, vp, vs) of flat layers (m, m/s). model : radial Earth model, used if ObsPy is installed, in which
    TauP takes 0.02 s per receiver. chosen : indices of receivers; the times of others are NaN. Default: all receivers.
    """
    require_flat(seismograms, layers)
    if seismograms.sources.centroid is None or not len(seismograms):
        return []
    distance, source_z, onset = epicentral_distance(seismograms), epicenter(seismograms)[2], seismograms.sources.onset
    heights = seismograms.positions[:, 2]
    if model is not None and has_taup():
        chosen = np.arange(len(distance)) if chosen is None else chosen
        times = {label: np.full(len(distance), np.nan) for label in ("P", "S")}
        for level in np.unique(heights[chosen]):
            rows = chosen[heights[chosen] == level]
            for label, values in global_arrivals(model, distance[rows], source_z, level, ("P", "S")).items():
                times[label][rows] = onset + values
        return [(label, values, phase_color(label)) for label, values in times.items()]
    phases: list[Phase] = []
    for label, speeds in zip(("P", "S"), () if layers is None else layers[1:], strict=False):
        if min(speeds) == 0:
            continue  # S waves do not propagate through a fluid
        times = [
            onset + float(first_arrival(place, source_z, receiver_z, layers[0], speeds))  # type: ignore[index]
            for place, receiver_z in zip(distance, heights, strict=True)
        ]
        phases.append((label, np.array(times), phase_color(label)))
    return phases


def first_arrival(
    distance: np.ndarray, source_z: float, receiver_z: float, tops: Sequence[float], speeds: Sequence[float]
) -> np.ndarray:
    """Return the time (s) of the first of the direct and the critically refracted waves.

    Direct: X(p) = sum h p v / sqrt(1 - p^2 v^2) is solved for the ray parameter p by bisection, T = p X +
    sum h sqrt(1/v^2 - p^2). Refracted along the top of a faster layer n below both ends: T = X / v_n +
    sum h sqrt(1/v^2 - 1/v_n^2), from the critical distance on (Aki & Richards 2002, section 9.3.1).

    Parameters
    ----------
    distance : horizontal distances, m.
    source_z, receiver_z : z of both ends, m.
    tops, speeds : z of each layer's top (m), from the top down, and its velocity (m/s); the last is a half-space.
    """
    distance = np.asarray(distance, dtype=float)
    tops, speeds = np.asarray(tops, dtype=float), np.asarray(speeds, dtype=float)
    # Positions above the highest top (usually the surface) belong to the first layer.
    roofs = np.concatenate([[np.inf], tops[1:]])
    floors = np.concatenate([tops[1:], [-np.inf]])
    low, high = min(source_z, receiver_z), max(source_z, receiver_z)

    def thickness(bottom: float, top: float) -> np.ndarray:
        return np.maximum(np.minimum(roofs, top) - np.maximum(floors, bottom), 0.0)

    between = thickness(low, high)
    # With both ends at one depth, the wave runs along it, in the layer that contains this depth.
    level = max(int(np.count_nonzero(tops >= low)) - 1, 0)
    best = _direct(distance, between, speeds) if between.any() else distance / speeds[level]
    for layer in range(1, len(speeds)):
        path = between + 2.0 * thickness(tops[layer], low)
        crossed = path > 0
        if tops[layer] > low or (speeds[:layer][crossed[:layer]] >= speeds[layer]).any():
            continue
        p, slowness = 1.0 / speeds[layer], 1.0 / speeds[crossed]
        vertical = np.sqrt(slowness**2 - p**2)
        critical = np.sum(path[crossed] * p / vertical)
        head = distance * p + np.sum(path[crossed] * vertical)
        best = np.where(distance >= critical, np.minimum(best, head), best)
    return best


def _direct(distance: np.ndarray, path: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    crossed = path > 0
    path, speeds = path[crossed], speeds[crossed]
    low, high = np.zeros_like(distance), np.full_like(distance, 1.0 / speeds.max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        sine = middle[..., None] * speeds
        reach = np.sum(path * sine / np.sqrt(np.maximum(1.0 - sine**2, 1e-30)), axis=-1)
        low, high = np.where(reach < distance, middle, low), np.where(reach < distance, high, middle)
    p = low[..., None]
    return low * distance + np.sum(path * np.sqrt(np.maximum(speeds**-2.0 - p**2, 0.0)), axis=-1)
