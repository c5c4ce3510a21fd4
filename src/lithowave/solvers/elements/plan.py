"""Base of the plans of element methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.extrusion import IN_PLANE
from lithowave.parallel.ranks import Ranks
from lithowave.phases import phase
from lithowave.solvers.common.plan_lines import Line, face_line
from lithowave.solvers.elements.interface_sides import select_sides
from lithowave.solvers.elements.point_location import (
    SURFACE_TOLERANCE,
    PointLocations,
    SharedLocations,
    point_names,
    point_positions,
    require_located,
    resolve_owners,
)
from lithowave.solvers.elements.snapshot_grids import select_snapshot_grid
from lithowave.sphere import ChunkMap

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation


class ElementPlan:
    """Discretization of a simulation by elements; each rank has its part.

    Attributes
    ----------
    mesh : elements of this rank. domain, face_kinds, mesh_file : see the plans of the methods.
    memory : module with the sizes of the arrays of the method.
    inside_tolerance : distance in reference coordinates at which a point outside an element is still accepted.
    locate_points, gather_statistics : functions of a mesh, positions and a tolerance; and of a plan.
    mesh_ends : along x, y, z, m, of an imported mesh that has an absorbing layer; None for other meshes. layer_ends :
    those at which the layer begins, see `layer_margins`.
    no_layer : why the default adds no layer to an imported mesh; empty for other meshes.
    curvature : map from local coordinates to those of the mesh of a piece of the globe; None if they are the same.
    """

    mesh: Any
    ranks: Ranks
    domain: Any
    face_kinds: dict[str, str] | None
    mesh_file: str | None
    mesh_ends: tuple[tuple[float, float], ...] | None
    layer_ends: tuple[tuple[float, float], ...] | None
    no_layer: str
    curvature: ChunkMap | None = None

    unit: ClassVar[str] = "elements"
    memory: ClassVar[ModuleType]
    inside_tolerance: ClassVar[float]
    locate_points: ClassVar[Callable[..., PointLocations]]
    gather_statistics: ClassVar[Callable[..., Any]]

    @property
    def element_count(self) -> int:
        """Number of elements of this rank."""
        return self.mesh.element_count

    def outside(self, reference: np.ndarray) -> np.ndarray:
        """Return the distance (rows,) of points outside the reference element, negative inside."""
        raise NotImplementedError

    def reference_gradients(self, locations: PointLocations) -> np.ndarray:
        """Return dxi_d / dx_c (rows, d, c), 1/m, at points in elements."""
        raise NotImplementedError

    def voigt_diagonals(self, locations: PointLocations) -> np.ndarray:
        """Return c11, c22, c33, c44, c55 and c66 (rows, 6), Pa, at points in elements."""
        raise NotImplementedError

    @phase("locations")
    def locate(
        self, positions: np.ndarray, tolerance: float, numbers: np.ndarray | None = None,
        owners: Sequence[Any] | None = None, outside: np.ndarray | None = None,
    ) -> SharedLocations:  # fmt: skip
        """Return points in the elements of all ranks, which call this method together.

        positions : (points, 3), m, in local coordinates, of the points that may be in this rank's elements. tolerance :
        reference coordinates by which a point may lie outside the nearest element. numbers : see `resolve_owners`.
        owners : source or receiver of each point, which are on one side of an interface; None for points without a
        side. outside : (points,), True for points that are not to be found; default: those `in_layer`.
        """
        found = self.locate_points(self.mesh, self.in_mesh(positions), tolerance)
        found = found.rows(~(self.in_layer(positions) if outside is None else outside)[found.point])
        if owners is not None:
            found = found.rows(select_sides(self, found, positions, owners))
        return resolve_owners(found, self.ranks, numbers)

    def require_points(self, simulation: Simulation) -> None:
        """See `lithowave.solvers.interface.Plan`."""
        if self.mesh_file is None:
            return
        found = simulation.acquisition
        for key, points in (("sources", found.sources), ("receivers", found.receivers)):
            positions = point_positions(points)
            located = self.locate(positions, self.tolerance)
            require_located(located, self.ranks, point_names(points, key[:-1]), positions, key)

    def in_mesh(self, positions: np.ndarray) -> np.ndarray:
        """Return the coordinates of the mesh (points, 3), m, of positions in local coordinates."""
        return positions if self.curvature is None else self.curvature.to_cartesian(*np.transpose(positions))

    def from_mesh(self, positions: np.ndarray) -> np.ndarray:
        """Return the local coordinates (points, 3), m, of positions in coordinates of the mesh."""
        return positions if self.curvature is None else np.stack(self.curvature.from_cartesian(positions), axis=-1)

    def axes_at(self, positions: np.ndarray) -> np.ndarray | None:
        """Return East, North and Up in the coordinates of the mesh as rows (points, 3, 3) at positions in local
        coordinates; None if they are x, y and z everywhere."""
        return None if self.curvature is None else self.curvature.axes(*np.transpose(positions)[:2])

    def in_layer(self, positions: np.ndarray, margins: bool = False) -> np.ndarray:
        """Return True for each of positions (points, 3), m, beyond the ends of an imported mesh that has a layer.

        In a generated mesh, positions outside the domain were rejected by the validation. margins : False for those
        between the mesh and its layer.
        """
        ends = self.layer_ends if margins else self.mesh_ends
        if ends is None:
            return np.zeros(len(positions), bool)
        low, high = np.transpose(ends)
        tolerance = IN_PLANE * (high - low).max()
        return ((positions < low - tolerance) | (positions > high + tolerance)).any(axis=1)

    def added_elements(self) -> np.ndarray:
        """Return True for each element of this rank that is beyond the ends of an imported mesh: of the layer and its
        margins."""
        if self.mesh_ends is None:
            return np.zeros(len(self.mesh.elements), bool)
        return self.in_layer(self.mesh.vertices[self.mesh.elements].mean(axis=1))

    @property
    def tolerance(self) -> float:
        """Distance outside the mesh, in reference coordinates, at which sources and receivers are accepted.

        Points above a topography were rejected by the validation; the others are moved onto the elements.
        """
        follows = self.curvature is not None or self.domain is not None and self.domain.topography is not None
        return SURFACE_TOLERANCE if follows else self.inside_tolerance

    @property
    def mesh_statistics(self) -> Any:
        """Statistics of the global mesh; the first access is collective."""
        return self.once("mesh_statistics", phase("statistics of the mesh")(lambda: self.gather_statistics(self)))

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return a value that all ranks compute together, once.

        The lock of `functools.cached_property`, one for all plans, would block threads that are ranks forever.
        """
        if f"_{name}" not in self.__dict__:
            self.__dict__[f"_{name}"] = compute()
        return self.__dict__[f"_{name}"]

    def memory_bytes(self, backend: Any = None) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.memory.array_bytes(self, backend)

    def plan_bytes(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.memory.plan_bytes(self)

    def state_bytes(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.memory.state_bytes(self)

    def setup_bytes(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.memory.setup_bytes(self)

    def sampling_bytes(self, simulation: Simulation) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.memory.sampling_bytes(self, simulation)

    def snapshot_point_count(self, selection: Any) -> int:
        """Return the number of points of one snapshot of a selection."""
        return math.prod(select_snapshot_grid(self, selection).shape)

    def element_center(self, element: int) -> np.ndarray:
        """Return the mean (3,) of the vertices of an element, m, in local coordinates."""
        center = self.mesh.vertices[self.mesh.elements[element]].mean(axis=0)
        return self.from_mesh(center)

    def place_of(self, element: int) -> str:
        """Return the position of an element for messages, with its number in the mesh file."""
        x, y, z = self.element_center(element)
        name = f"element {self.mesh.element_id(element)} at"
        if self.curvature is None:
            return f"{name} ({x:z.6g}, {y:z.6g}, {z:z.6g}) m"
        longitude, latitude = self.curvature.to_geographic(x, y)
        return f"{name} longitude {longitude:z.4f}, latitude {latitude:z.4f}, depth {-z / 1e3:z.5g} km"

    def origin_text(self) -> str:
        """Return the mesh file as the end of a line of `check`."""
        return f"; from {self.mesh_file}" if self.mesh_file else ""

    def faces_line(self, summary: dict[str, Any], absorption: str) -> Line:
        """Return the line of `check` about the outer faces. absorption : how they absorb, the end of the line."""
        if self.face_kinds:
            return face_line(summary, absorption)
        return "faces", ", ".join(f"{count:,} {kind}" for kind, count in summary["faces"].items()) + absorption


def plan_entries(simulation: Simulation) -> dict[str, Any]:
    """Return the entries of a plan that are those of the simulation."""
    solver = simulation.solver
    return {
        "max_frequency": solver.max_frequency, "domain": simulation.domain,
        "face_kinds": None if solver.mesh else simulation.boundaries.faces,
        "mesh_file": str(solver.mesh.file) if solver.mesh else None,
    }  # fmt: skip


def refuse_coarse_mesh(simulation: Simulation, points: float | None, order: str, worst: str) -> None:
    """Require that an imported mesh resolves max_frequency as well as a generated one.

    Parameters
    ----------
    points : minimum points per wavelength at max_frequency; None if no frequency is known.
    order : name of the order of the elements in the simulation file.
    worst : location of the minimum, with the wave velocity.

    Raises
    ------
    InputError : there are too few points per wavelength.
    """
    solver = simulation.solver
    if solver.mesh is None or points is None or points >= solver.smallest_points * (1 - 1e-6):
        return
    raise InputError(
        "solver.max_frequency",
        f"{solver.max_frequency:g} Hz has {points:.3g} points per shortest wavelength in {worst}",
        f"{order} {getattr(solver, order)} needs at least {solver.smallest_points:g}",
        f"use {solver.max_frequency * points / solver.smallest_points:.4g} Hz, a finer mesh or a higher {order}",
    )
