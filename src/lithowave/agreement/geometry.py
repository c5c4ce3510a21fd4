"""Position of a receiver relative to the sources and the absorbing faces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.agreement.planning import absorbing_faces
from lithowave.description.simulation import Simulation


@dataclass(frozen=True)
class ReceiverPosition:
    """Distances of a receiver.

    Attributes
    ----------
    wavelength : shortest wavelength at the maximum frequency, m.
    source_distance : from the nearest source, m.
    face, face_distance : nearest absorbing face and the distance from it, m; None without absorbing faces.
    reflecting_face : absorbing face with the shortest path from the nearest source by way of the face to the receiver.
    """

    wavelength: float
    source_distance: float
    face: str | None = None
    face_distance: float | None = None
    reflecting_face: str | None = None

    def text(self) -> str:
        """Return the distances in wavelengths: ``1.4 wavelengths from x_max, 3 from the source``."""
        near = f"{self.source_distance / self.wavelength:.2g}"
        if self.face is None or self.face_distance is None:
            return f"{near} wavelengths from the source"
        return f"{self.face_distance / self.wavelength:.2g} wavelengths from {self.face}, {near} from the source"

    def as_dict(self) -> dict[str, Any]:
        """Return all entries as plain values for JSON."""
        return {
            "wavelength_m": self.wavelength, "source_distance_m": self.source_distance, "nearest_face": self.face,
            "face_distance_m": self.face_distance, "reflecting_face": self.reflecting_face,
        }  # fmt: skip


def receiver_position(simulation: Simulation, position: np.ndarray, frequency: float) -> ReceiverPosition:
    """Return the distances of a receiver at `position`, (3,) in m."""
    sources = np.array([source.position for source in simulation.acquisition.sources], dtype=float)
    distances = np.linalg.norm(sources - position, axis=1)
    source = sources[int(distances.argmin())]
    wavelength = simulation.material_extremes["slowest"] / frequency
    near: dict[str, float] = {}
    paths: dict[str, float] = {}
    for face in absorbing_faces(simulation):
        axis = "xyz".index(face[0])
        end = simulation.domain.bounds[face[0]][0 if face.endswith("min") else 1]
        near[face] = abs(float(position[axis]) - end)
        image = source.copy()
        image[axis] = 2.0 * end - source[axis]
        paths[face] = float(np.linalg.norm(position - image))
    if not near or simulation.solver.mesh is not None:
        return ReceiverPosition(wavelength, float(distances.min()))
    nearest = min(near, key=lambda face: near[face])
    return ReceiverPosition(
        wavelength, float(distances.min()), nearest, near[nearest], min(paths, key=lambda face: paths[face])
    )
