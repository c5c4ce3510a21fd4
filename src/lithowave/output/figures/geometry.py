"""Source-receiver geometry, and motion of receivers in radial and transverse directions."""

from __future__ import annotations

import numpy as np

from lithowave.output.seismograms import Seismograms


def epicenter(seismograms: Seismograms) -> np.ndarray:
    """Return the origin (x, y, z) of distances, m: the centroid of the sources, or the first receiver."""
    centroid = seismograms.sources.centroid
    return np.asarray(seismograms.positions[0] if centroid is None else centroid)


def epicentral_distance(seismograms: Seismograms) -> np.ndarray:
    """Return the horizontal distances (n_receivers,) from the epicenter, m."""
    offset = seismograms.positions[:, :2] - epicenter(seismograms)[:2]
    return np.hypot(offset[:, 0], offset[:, 1])


def azimuth(seismograms: Seismograms) -> np.ndarray:
    """Return the azimuths (n_receivers,) from the epicenter to the receivers, degrees from North over East."""
    east, north = (seismograms.positions[:, :2] - epicenter(seismograms)[:2]).T
    return np.degrees(np.arctan2(east, north)) % 360.0


def component(seismograms: Seismograms, name: str) -> np.ndarray:
    """Return (n_receivers, n_samples) of a component: E, N, Z, R (away from the source), T (right of R), P (pressure).

    R = E sin a + N cos a and T = E cos a - N sin a with the azimuth a from source to receiver.
    """
    if name == "P" and seismograms.pressure is not None:
        return seismograms.pressure
    east, north, up = (seismograms.data[:, index] for index in range(3))
    if name in "ENZ":
        return {"E": east, "N": north, "Z": up}[name]
    angle = np.radians(azimuth(seismograms))[:, None]
    if name == "R":
        return east * np.sin(angle) + north * np.cos(angle)
    if name == "T":
        return east * np.cos(angle) - north * np.sin(angle)
    raise ValueError(f"unknown component {name!r}; known: E, N, Z, R, T, and P if pressure was recorded")
