r"""Points in hexahedra: their location, and samples of the fields there.

**Velocities in fluids near faces where the normal velocity is known: sea floors and rigid faces.** The velocity in a
fluid is the gradient of a potential of degree N over rho. Of a smooth potential, whose values at GLL points are
accurate, the error of the slope along an axis of an element is the derivative of a polynomial that vanishes at the GLL
points, which is proportional to the Legendre polynomial P_N: it is largest at faces. Below a sea floor of hard rock the
normal velocity is small, and this error is up to a quarter of it. But it is known on the face, where it equals that of
the solid, or zero. The velocity is therefore

.. math:: v + \frac{P_N(\xi)}{P_N(\xi_f)}\,\frac{\rho_f}{\rho}\,\frac{\nabla\xi}{|\nabla\xi|_f}\, n \cdot (v_s - v_f),

with xi the reference coordinate across the face, the velocities v_s of the solid and v_f of the fluid at the nearest
point of the face, and the normal n there. If both faces across an axis are such faces, P_N is replaced by (P_N +
P_{N+1}) / 2, which vanishes at the opposite face.

**Samples of velocity, strain and stress in hexahedra.** In a fluid the pressure P = -d phi / dt is known at the times
of the records, and phi at half steps. The velocity is grad phi / rho, where a parabola through the last three
potentials has an error of (omega dt)^3 / 16 in phase and 9 / 128 (omega dt)^4 in amplitude. The stress is -P I, and the
strain that of the volume, -P / (3 kappa) I. Near sea floors and rigid faces see `points`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.physics import SWAPPED, TENSOR_PAIRS
from lithowave.solvers.common.kernels import Launch
from lithowave.solvers.elements.locations import PART, PointLocations
from lithowave.solvers.elements.solver import Samples
from lithowave.solvers.spectral_element.gll import (
    find_elements,
    lagrange_derivatives,
    lagrange_values,
    legendre,
    metric,
    shape_derivatives,
)
from lithowave.solvers.spectral_element.media import face_places

if TYPE_CHECKING:
    from types import SimpleNamespace

    from lithowave.backends.interface import Array, Backend
    from lithowave.solvers.spectral_element.media import NumberedPlan

TOLERANCE = 1e-6  # of reference coordinates: distance outside an element at which a point is still accepted


def locate_points(mesh: HexahedralMesh, positions: np.ndarray, tolerance: float = TOLERANCE) -> PointLocations:
    """Return all elements that contain each of `positions` (points, 3), m; points in no element have no row.

    tolerance : distance in reference coordinates at which a point outside all elements is accepted and moved onto the
    nearest one. Elements touch a smooth surface only at their corners.
    """
    positions = np.asarray(positions, float).reshape(-1, 3)
    candidates = _near(mesh, positions)
    candidates = candidates[np.argsort(mesh.numbers_in_whole[candidates])]
    nodes = mesh.element_nodes(candidates)
    found = find_elements(nodes, positions, TOLERANCE)
    found = replace(found, excess=np.zeros(len(found.point)))
    if tolerance > TOLERANCE:
        lost = found.missing(len(positions))
        near = find_elements(nodes, positions[lost], tolerance)
        found = found.with_nearest(near, lost)
    element = candidates[found.element]
    return replace(found, element=element, key=mesh.numbers_in_whole[element])


def interpolation_tables(degree: int, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Lagrange polynomials l_a(xi_d) and their slopes, (rows, 3, n), at reference coordinates (rows, 3)."""
    values, slopes = np.empty((*reference.shape, degree + 1)), np.empty((*reference.shape, degree + 1))

    def evaluate(part: slice) -> None:
        values[part] = _tidy(lagrange_values(degree, reference[part]))
        slopes[part] = lagrange_derivatives(degree, reference[part])

    over_parts(evaluate, len(reference), PART)
    return values, slopes


def _near(mesh: HexahedralMesh, positions: np.ndarray) -> np.ndarray:
    """Return the elements whose corners are near the box of all positions, to limit the search."""
    if not len(positions):
        return np.zeros(0, np.int64)
    low, high = positions.min(axis=0), positions.max(axis=0)
    near = np.empty(mesh.element_count, bool)
    over_parts(
        lambda part: compare_boxes(mesh.elements[part], mesh.vertices, low, high, near[part]), len(near), PART
    )
    return np.flatnonzero(near)


@exact_part
def compare_boxes(elements, vertices, low, high, near):  # pragma: no cover - compiled
    """Compute whether the box of the corners of each element, enlarged on each side by its size, overlaps that between
    `low` and `high`."""
    for element in range(len(elements)):
        near[element] = True
        for axis in range(3):
            least = most = vertices[elements[element, 0], axis]
            for corner in range(1, 8):
                position = vertices[elements[element, corner], axis]
                least, most = min(least, position), max(most, position)
            margin = most - least
            near[element] &= (least - margin <= high[axis]) & (most + margin >= low[axis])


def _tidy(values: np.ndarray) -> np.ndarray:
    """Return exact zeros where a polynomial vanishes up to round-off: kernels skip them."""
    return np.where(np.abs(values) < 1e-12, 0.0, values)


def inverse_jacobians(mesh: HexahedralMesh, places: PointLocations) -> np.ndarray:
    """Return dxi_d / dx_c (rows, d, c), 1/m, at points in elements."""
    nodes = mesh.element_nodes(places.element)
    slopes = shape_derivatives(places.reference, nodes.shape[1])
    return metric(np.einsum("mda,mac->mcd", slopes, nodes))[0]


def symmetric(six: Sequence[np.ndarray]) -> np.ndarray:
    """Return the 3 x 3 matrix of (xx, yy, zz, xy, xz, yz)."""
    xx, yy, zz, xy, xz, yz = np.asarray(six, float)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def strain_of(gradient: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Return strain (..., m, 6) as xx, yy, zz, xy, xz, yz from du_c / dxi_d (..., m, 9) and dxi_d / dx_e (m, d, e)."""
    full = gradient.reshape(*gradient.shape[:-1], 3, 3) @ inverse
    return np.stack([0.5 * (full[..., a, b] + full[..., b, a]) for a, b in TENSOR_PAIRS], axis=-1)


def stress_of(strain: np.ndarray, stiffness: np.ndarray) -> np.ndarray:
    """Return stress (..., m, 6) as xx, yy, zz, xy, xz, yz from strain in that order and Voigt's matrices (m, 6, 6)."""
    voigt = strain[..., SWAPPED] * np.array([1, 1, 1, 2, 2, 2])
    return np.einsum("mab,...mb->...ma", stiffness, voigt)[..., SWAPPED]


@dataclass(frozen=True)
class FaceReadings:
    """Readings on the faces next to m locations in fluids; a location has several if its element has several faces.

    row : (m,) index of the location. places : points on the faces, in the fluid elements. solid : (m, n, n, n) indices
    of the points of the solids on the faces, as points of the fluid elements; `none` elsewhere, and on rigid faces.
    normal, change : (m, 3) n, and the factor of n . (v_s - v_f) in the velocity.
    """

    row: np.ndarray
    places: PointLocations
    solid: np.ndarray
    normal: np.ndarray
    change: np.ndarray

    @classmethod
    def find(cls, plan: NumberedPlan, locations: PointLocations) -> FaceReadings:
        """Return the readings for locations in elements of this rank."""
        faces, solid = known_faces(plan)
        order = np.argsort(faces[:, 0], kind="stable")
        faces, solid = faces[order], solid[order]
        first, end = (np.searchsorted(faces[:, 0], locations.element, side) for side in ("left", "right"))
        row = np.repeat(np.arange(len(first)), end - first)
        face = np.arange(row.size) - np.repeat(np.cumsum(end - first) - end, end - first)
        axis, side = np.divmod(faces[face, 1], 2)
        places, m = locations.rows(row), np.arange(row.size)
        xi = (2 * side - 1) * places.reference[m, axis]  # 1 on the face
        opposite = {(element, local ^ 1) for element, local in faces.tolist()}
        both = np.array([pair in opposite for pair in map(tuple, faces[face].tolist())], bool)
        here = inverse_jacobians(plan.mesh, places)[m, axis]
        places.reference[m, axis] = 2 * side - 1
        there = inverse_jacobians(plan.mesh, places)[m, axis]
        size = np.linalg.norm(there, axis=1, keepdims=True)
        shape = legendre(plan.degree, xi)[0]
        shape = np.where(both, 0.5 * (shape + legendre(plan.degree + 1, xi)[0]), shape)
        return cls(row, places, solid[face], there / size, shape[:, None] * here / size)


def known_faces(plan: NumberedPlan) -> tuple[np.ndarray, np.ndarray]:
    """Return the fluid elements of this rank and local faces (f, 2) where the normal velocity is known, and the points
    of the solids on them (f, n, n, n), see `FaceReadings`."""
    interface, none, n = plan.interface, plan.total_points, plan.degree + 1
    rigid = plan.faces["rigid"]
    rigid = rigid[plan.materials.is_fluid[rigid[:, 0]]]
    faces = np.concatenate([interface.faces, rigid])
    solid, complete = np.full((len(faces), n, n, n), none), np.ones(len(faces), bool)
    count = len(interface.faces)
    for local in range(6):
        some = np.flatnonzero(faces[:count, 1] == local)
        if some.size:
            k, j, i = face_places(local, plan.degree)[0].T
            fluid = plan.numbers[faces[some, 0]][:, k, j, i]
            place = np.minimum(np.searchsorted(interface.fluid, fluid), len(interface.fluid) - 1)
            solid[some[:, None], k, j, i] = interface.solid[place]
            complete[some] = (interface.fluid[place] == fluid).all(axis=1)
    return faces[complete], solid[complete]


SIX = [0, 3, 4, 3, 1, 5, 4, 5, 2]  # places in (xx, yy, zz, xy, xz, yz) of the nine components of a tensor
ISOTROPIC = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


class SpectralSolver(Protocol):
    """What the readings use of a `SpectralElementSolver`."""

    @property
    def plan(self) -> NumberedPlan: ...
    @property
    def backend(self) -> Backend: ...
    @property
    def kernels(self) -> SimpleNamespace: ...
    @property
    def displacement(self) -> Array: ...
    @property
    def momentum(self) -> Array: ...
    @property
    def kept_rates(self) -> list[tuple[Array, Array]]: ...


class HexahedralSamples(Samples):
    """Points at which velocity and the gradient of the displacement are read.

    After the columns of the locations, an output may have those of `points`: velocities of fluids on faces, then
    those of the solids there.
    """

    def prepare(self, solver: SpectralSolver) -> None:
        """See `Samples`."""
        plan, backend = solver.plan, solver.backend
        self._plan = plan
        self._values, slopes = interpolation_tables(plan.degree, self.locations.reference)
        self._lists = (
            *self._uploaded_points(solver, self.locations.element), backend.upload(self._values),
            backend.upload(slopes), backend.scalar(1.0 / plan.schedule.time_step),
        )  # fmt: skip
        self._turns = None if self.axes is None else backend.upload(self.axes.reshape(-1, 9))
        self._fluid, self._faces = np.flatnonzero(plan.materials.is_fluid[self.locations.element]), None
        if len(self._fluid):
            self._fluid_lists = self._prepare_fluid(solver, self.locations, self._fluid, self._lists)
            found = FaceReadings.find(plan, self.locations)
            if len(found.row):
                self._prepare_faces(solver, found)

    def _uploaded_points(self, solver: SpectralSolver, elements: np.ndarray) -> tuple[Array, Array]:
        """Upload the points of each of some elements, listed once, and the row of each element in this list."""
        listed, row = np.unique(elements, return_inverse=True)
        points = self._plan.numbers[listed].reshape(len(listed), (self._plan.degree + 1) ** 3)
        return solver.backend.upload(points, np.uint32), solver.backend.upload(row, np.int64)

    def _prepare_fluid(
        self, solver: SpectralSolver, locations: PointLocations, columns: np.ndarray, lists: tuple[Array, ...]
    ) -> tuple[object, ...]:
        """Upload the arguments of the kernel `sample_fluid`, and begin to keep the rates of its elements.

        locations : of all columns of the output. columns : those in fluids. lists : arguments of `sample`.
        """
        plan, backend, some = self._plan, solver.backend, locations.rows(columns)
        points, element = self._uploaded_points(solver, some.element)
        mobility = inverse_jacobians(plan.mesh, some) / self._densities(some)[:, None, None]
        earlier = backend.zeros(points.shape)
        *_, values, slopes, rate = lists
        solver.kernels.keep_rates(solver.momentum, points, earlier)
        solver.kept_rates.append((points, earlier))
        return (
            points, element, values, slopes, backend.upload(mobility), backend.upload(columns, np.int64), earlier, rate
        )  # fmt: skip

    def _prepare_faces(self, solver: SpectralSolver, found: FaceReadings) -> None:
        """Upload the arguments of the kernels that read the velocities on faces."""
        plan, backend, size = self._plan, solver.backend, len(found.row)
        rows = np.concatenate([np.arange(self.count), found.row, found.row])
        reference = self.locations.reference[rows]
        reference[self.count :] = np.tile(found.places.reference, (2, 1))
        every = replace(self.locations.rows(rows), reference=reference)
        values, slopes = map(backend.upload, interpolation_tables(plan.degree, reference))
        rest = values, slopes, self._lists[-1]
        self._face_lists = self._prepare_fluid(solver, every, self.count + np.arange(size), rest)
        row = np.append(np.zeros(self.count + size, np.int64), np.arange(size))
        solid = backend.upload(found.solid.reshape(size, (plan.degree + 1) ** 3), np.uint32)
        self._solid_lists = solid, backend.upload(row, np.int64), *rest
        density = self._densities(found.places) / self._densities(self.locations.rows(found.row))
        change, normal = found.change * density[:, None], found.normal
        if self.axes is not None:
            self._face_turns = backend.upload(self.axes[rows].reshape(-1, 9))
            normal, change = (np.einsum("mac,mc->ma", self.axes[found.row], each) for each in (normal, change))
        self._faces = replace(found, normal=normal, change=change)

    @property
    def columns(self) -> int:
        """See `Samples`."""
        return self.count + (0 if self._faces is None else 2 * len(self._faces.row))

    def _densities(self, locations: PointLocations) -> np.ndarray:
        """Return rho at locations (rows,)."""
        values, _ = interpolation_tables(self._plan.degree, locations.reference)
        weights = np.einsum("rk,rj,ri->rkji", values[:, 2], values[:, 1], values[:, 0])
        materials = self._plan.materials
        pairs = zip(locations.element.tolist(), weights, strict=True)
        return np.array([materials.within(element, weight)[1] for element, weight in pairs])

    def _medium(self, place: int) -> tuple[np.ndarray, float]:
        """Return Voigt's matrix and rho at a location."""
        x, y, z = self._values[place]
        return self._plan.materials.within(int(self.locations.element[place]), np.einsum("k,j,i->kji", z, y, x))

    def launches(self, solver: SpectralSolver, out: Array, slot: Array) -> list[Launch]:
        """See `Samples`; with 12 rows velocity is followed by the gradient of the displacement."""
        if not self.count:
            return []
        kernels, state, found = solver.kernels, (solver.displacement, solver.momentum), []
        with_faces = self.count < self.columns == out.shape[2]
        if with_faces:  # all columns, of which the next kernels replace all but the last ones
            found.append(partial(kernels.sample, *state, *self._solid_lists, out, slot))
        found.append(partial(kernels.sample, *state, *self._lists, out, slot))
        if len(self._fluid):
            found.append(partial(kernels.sample_fluid, *state, *self._fluid_lists, out, slot))
        if with_faces:
            found.append(partial(kernels.sample_fluid, *state, *self._face_lists, out, slot))
        if self._turns is not None:
            turns = self._face_turns if with_faces else self._turns
            found.append(partial(kernels.rotate_velocity, out, slot, turns))
        return found

    def velocity(self, rows: np.ndarray) -> np.ndarray:
        """See `Samples`."""
        found, faces = super().velocity(rows), self._faces
        if faces is not None and rows.shape[2] == self.columns:
            fluid, solid = np.split(np.moveaxis(rows[:, :3, self.count :].astype(float), 1, 2), 2, axis=1)
            known = np.einsum("tmc,mc->tm", solid - fluid, faces.normal)
            np.add.at(found, (slice(None), faces.row), known[..., None] * faces.change)
        return found

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Return dxi_d / dx_c (rows, d, c), 1/m, and Voigt's matrix (rows, 6, 6), Pa, at each location."""
        stiffness = [self._medium(place)[0] for place in range(self.count)]
        return inverse_jacobians(self._plan.mesh, self.locations), np.array(stiffness).reshape(-1, 6, 6)

    def tensors(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return ``strain`` and ``stress``, Pa, (times, locations, 6) from du_c / dxi_d (times, locations, 9), m."""
        inverse, stiffness = self._tables
        strain = strain_of(rows, inverse)
        stress = stress_of(strain, stiffness)
        rate = rows[:, self._fluid, :1]  # of the potential: -P
        stress[:, self._fluid] = rate * ISOTROPIC
        strain[:, self._fluid] = rate * ISOTROPIC / (3.0 * stiffness[self._fluid, :1, 0])
        found = {"strain": strain, "stress": stress}
        return {name: turned(values, self.axes) for name, values in found.items()} if self.axes is not None else found


def turned(tensors: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Return components of tensors (..., m, 6) along the rows of axes (m, 3, 3): A T A^T."""
    full = tensors[..., SIX].reshape(*tensors.shape[:-1], 3, 3)
    full = axes @ full @ np.swapaxes(axes, -1, -2)
    return np.stack([full[..., a, b] for a, b in TENSOR_PAIRS], axis=-1)
