"""Base of the plans of element methods, and of their benchmark tasks.

It also contains short measurements; element sizes, kinds of faces and materials of groups from the simulation file; and
estimates of memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from lithowave.description.boundaries import CONDITIONS
from lithowave.errors import InputError
from lithowave.globe_coordinates import RADIUS, ChunkMap
from lithowave.mesh.box_planes import IN_PLANE
from lithowave.parallel.ranks import Ranks
from lithowave.process import phase
from lithowave.solvers.common.kernels import typical_time
from lithowave.solvers.common.reports import Line, face_line
from lithowave.solvers.elements.locations import (
    SURFACE_TOLERANCE,
    PointLocations,
    SharedLocations,
    point_names,
    point_positions,
    reach,
    require_located,
    resolve_owners,
    select_sides,
    within_reach,
)
from lithowave.solvers.elements.solver import points_within, select_snapshot_grid, surface_grid

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.domain import Chunk, Domain
    from lithowave.description.experiment import Experiment
    from lithowave.description.receivers import Receiver
    from lithowave.description.sources import PointSource
    from lithowave.json_types import Entries as Summary
    from lithowave.media.elasticity import ElasticProperties
    from lithowave.solvers.elements.locations import FluidMaterials, Mesh
    from lithowave.solvers.elements.solver import ElementSolver
    from lithowave.solvers.interface import Schedule, SnapshotSelection


@dataclass(frozen=True)
class ElementTask:
    """Measurement of a case on a box of cells; see `lithowave.solvers.interface.BenchTask`.

    shape : cells along x, y, z. order : degree or order of the elements, named `order_name` in messages and records.
    """

    case: str
    shape: tuple[int, int, int]
    order: int
    backend: Backend

    method: ClassVar[str]
    order_name: ClassVar[str]
    cells: ClassVar[str] = ""

    if TYPE_CHECKING:

        @property
        def plan(self) -> ElementPlan:
            """Plan of the measured elements."""

    @property
    def name(self) -> str:
        """Case, size and order, for messages."""
        return f"{self.case}, {'x'.join(map(str, self.shape))}{self.cells}, {self.order_name} {self.order}"

    def entries(self) -> dict[str, object]:
        """See `lithowave.solvers.interface.BenchTask`."""
        return {"size": list(self.shape), self.order_name: self.order, "elements": self.plan.element_count}


SIZE, VP, VS, RHO = 100.0, 5000.0, 2900.0, 2700.0  # of elements or cubes, m, and their material, m/s, kg/m^3
MAX_RECEIVERS = 256


def affordable_size(
    backend: Backend, sample: ElementPlan, counts: tuple[int, int, int], smallest: int, elements_per_cell: int = 1
) -> tuple[int, int, int]:
    """Return cells along x, y and z: at most `counts`, fewer if they do not fit into the memory.

    Parameters
    ----------
    sample : plan of a small box of the same elements.
    smallest : number of cells along each axis, at least.
    """
    cell_bytes = elements_per_cell * sample.memory_bytes(backend) / sample.element_count
    while math.prod(counts) * cell_bytes > backend.free_memory() and min(counts) > smallest:
        counts = tuple(max(smallest, count * 4 // 5) for count in counts)
    return counts


def affordable_elements(plan: ElementPlan, backend: Backend) -> int:
    """Return the number of elements like those of a plan that take a third of the free memory."""
    return backend.free_memory() // 3 * plan.element_count // plan.memory_bytes(backend)


def record_time(solver: ElementSolver, receiver_count: int) -> float:
    """Return the time of a record, s, of a number of receivers in any elements of a solver."""
    if not receiver_count:
        return 0.0
    count = min(receiver_count, MAX_RECEIVERS)
    elements = np.random.default_rng(2).integers(solver.plan.element_count, size=count)
    inside = np.array([solver.plan.element_center(element) for element in elements])
    solver.receivers = solver.make_samples(solver, solver.plan.locate(inside, solver.plan.inside_tolerance))
    solver.start_records(1, stress=False)
    return typical_time(lambda: solver.record(0), solver.backend) * receiver_count / count


T = TypeVar("T")


class ElementPlan:
    """Discretization of a simulation by elements; each rank has its part.

    Attributes
    ----------
    mesh : elements of this rank. domain, face_kinds, mesh_file : see the plans of the methods.
    arrays : module with the tables of the arrays of the method, and their sizes.
    inside_tolerance : distance in reference coordinates at which a point outside an element is still accepted.
    locate_points, gather_statistics : functions of a mesh, positions and a tolerance; and of a plan.
    mesh_ends : along x, y, z, m, of an imported mesh that has an absorbing layer; None for other meshes. layer_ends :
    those at which the layer begins, see `layers`.
    no_layer : why the default adds no layer to an imported mesh; empty for other meshes.
    curvature : map from local coordinates to those of the mesh of a piece of the globe; None if they are the same.
    """

    mesh: Mesh
    value_bytes: int
    surface_spacing: float
    domain: Domain
    face_kinds: dict[str, str] | None
    mesh_file: str | None
    mesh_ends: tuple[tuple[float, float], ...] | None
    layer_ends: tuple[tuple[float, float], ...] | None
    no_layer: str
    curvature: ChunkMap | None = None

    unit: ClassVar[str] = "elements"
    arrays: ClassVar[ModuleType]
    inside_tolerance: ClassVar[float]
    locate_points: ClassVar[Callable[..., PointLocations]]
    gather_statistics: ClassVar[Callable[..., Any]]

    if TYPE_CHECKING:  # attributes or properties of the plans of the methods

        @property
        def ranks(self) -> Ranks: ...
        @property
        def schedule(self) -> Schedule: ...
        @property
        def materials(self) -> FluidMaterials: ...
        @property
        def layer(self) -> object: ...
        @property
        def bounds(self) -> tuple[tuple[float, float], ...] | None: ...
        def points_per_wavelength(self) -> float | None: ...

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
        owners: Sequence[PointSource | Receiver] | None = None, outside: np.ndarray | None = None,
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

    def require_points(self, experiment: Experiment) -> None:
        """See `lithowave.solvers.interface.Plan`."""
        if self.mesh_file is None:
            return
        found = experiment.acquisition
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

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return a value that all ranks compute together, once.

        The lock of `functools.cached_property`, one for all plans, would block threads that are ranks forever.
        """
        if f"_{name}" not in self.__dict__:
            self.__dict__[f"_{name}"] = compute()
        return self.__dict__[f"_{name}"]

    def memory_bytes(self, backend: Backend | None = None) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.arrays.array_bytes(self, backend)

    def plan_bytes(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.arrays.plan_bytes(self)

    def state_bytes(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.arrays.state_bytes(self)

    def setup_bytes(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.arrays.setup_bytes(self)

    def sampling_bytes(self, experiment: Experiment) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.arrays.sampling_bytes(self, experiment)

    def snapshot_point_count(self, selection: SnapshotSelection) -> int:
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

    def faces_line(self, summary: Summary, absorption: str) -> Line:
        """Return the line of `check` about the outer faces. absorption : how they absorb, the end of the line."""
        if self.face_kinds:
            return face_line(summary, absorption)
        return "faces", ", ".join(f"{count:,} {kind}" for kind, count in summary["faces"].items()) + absorption


def plan_entries(experiment: Experiment) -> dict[str, object]:
    """Return the entries of a plan that are those of the simulation."""
    solver = experiment.solver
    return {
        "max_frequency": solver.max_frequency, "domain": experiment.domain,
        "face_kinds": None if solver.mesh else experiment.boundaries.faces,
        "mesh_file": str(solver.mesh.file) if solver.mesh else None,
    }  # fmt: skip


def refuse_coarse_mesh(experiment: Experiment, points: float | None, order: str, worst: str) -> None:
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
    solver = experiment.solver
    if solver.mesh is None or points is None or points >= solver.smallest_points * (1 - 1e-6):
        return
    raise InputError(
        "solver.max_frequency",
        f"{solver.max_frequency:g} Hz has {points:.3g} points per shortest wavelength in {worst}",
        f"{order} {getattr(solver, order)} needs at least {solver.smallest_points:g}",
        f"use {solver.max_frequency * points / solver.smallest_points:.4g} Hz, a finer mesh or a higher {order}",
    )


SAME_LEVEL = 1e-3  # m, between levels that are equal


def element_size(experiment: Experiment, speed: float) -> float:
    """Return the element size, m, required by the simulation file if the slowest wave has this velocity, m/s."""
    solver = experiment.solver
    if solver.spacing is not None:
        return solver.spacing
    points = solver.points_per_wavelength or solver.recommended_points
    return solver.steps_per_spacing * speed / solver.max_frequency / points


def column_widths(tops: Sequence[float], sizes: Sequence[float], chunk: Chunk | None) -> list[float]:
    """Return the largest width, m, at the surface, of the columns of each layer of cells. tops : z, m. sizes : m.

    In a chunk, columns become narrower with depth; the simulation file may contain their number and the depths at which
    they become twice as wide.
    """
    if chunk is None:
        return list(sizes)
    if chunk.elements is None:
        return [size * RADIUS / (RADIUS + top) for size, top in zip(sizes, tops, strict=True)]
    width = max((end - start) / n for (start, end), n in zip(chunk.bounds.values(), chunk.elements, strict=False))
    ends = np.array(chunk.doublings or ())
    return [width * 2 ** int((ends <= SAME_LEVEL - top).sum()) for top in tops]


def kinds_of_faces(experiment: Experiment, mesh: Mesh) -> dict[str, np.ndarray]:
    """Return the outer faces by kind."""
    found: dict[str, list[np.ndarray]] = {kind: [] for kind in CONDITIONS}
    for name, faces in mesh.boundaries.items():
        found[experiment.boundaries.kind_of(name)].append(faces)
    return {kind: np.concatenate([np.zeros((0, 2), np.int64), *parts]) for kind, parts in found.items()}


def group_materials(experiment: Experiment, mesh: Mesh) -> tuple[list[ElasticProperties], np.ndarray]:
    """Return the materials of the groups, and the index of the material of each element.

    InputError: groups of the mesh and of the simulation file differ, or the mesh has none.
    """
    groups = experiment.material.groups
    if not mesh.groups:
        raise InputError(
            "material.groups", f"the mesh {experiment.solver.mesh.file} has no groups of elements",
            f"material.groups has: {', '.join(groups)}",
            "define a physical volume (Gmsh), block (Exodus) or cell array (VTU) for each material, or use "
            "material.homogeneous, layers or file",
        )  # fmt: skip
    wanted = [mesh.groups[number] for number in np.unique(mesh.materials)]
    missing = [name for name in wanted if name not in groups]
    if missing:
        raise InputError(
            "material.groups", f"there is no material for the group {missing[0]!r} of {experiment.solver.mesh.file}",
            f"groups of the mesh: {', '.join(wanted)}", f"groups of material.groups: {', '.join(groups)}",
        )  # fmt: skip
    unknown = [name for name in groups if name not in wanted]
    if unknown:
        raise InputError(
            f"material.groups.{unknown[0]}", f"the mesh {experiment.solver.mesh.file} has no such group",
            f"groups of the mesh: {', '.join(wanted)}",
        )  # fmt: skip
    names = list(groups)
    number = np.array([names.index(name) if name in groups else 0 for name in mesh.groups])
    return [groups[name] for name in names], number[mesh.materials]


def negative_moduli(element: int) -> InputError:
    """Return the refusal of a medium whose moduli attenuation makes negative. element : as in messages."""
    return InputError(
        "material", f"attenuation makes the relaxed moduli of element {element} negative",
        "quality factors must be larger in a medium with strong anisotropy",
        "increase qp and qs, or reduce the anisotropy",
    )  # fmt: skip


PEAK_VALUES = 15  # of a point of the surface: velocity and displacement before and now, and their peaks


def held_arrays(*parts: object) -> Iterator[np.ndarray]:
    """Yield the arrays among the attributes of objects, and those in dictionaries of them."""
    for part in parts:
        for value in vars(part).values():
            inside: Iterable[object] = value.values() if isinstance(value, dict) else (value,)
            yield from (item for item in inside if isinstance(item, np.ndarray))


def held_bytes(*parts: object) -> int:
    """Return the bytes of distinct arrays among the attributes of objects; the repeated values of a view count once."""
    arrays = {id(array): array for array in held_arrays(*parts)}.values()
    sizes = ([n for n, step in zip(array.shape, array.strides, strict=True) if step] for array in arrays)
    return sum(array.itemsize * math.prod(size) for array, size in zip(arrays, sizes, strict=True))


def sampling_bytes(
    plan: ElementPlan, experiment: Experiment, location_bytes: Callable[[int, bool], int], tensor_rows: int
) -> int:
    """Return the bytes of the locations of receivers, points of snapshots and points of the surface with peaks.

    Parameters
    ----------
    location_bytes : function of a number of points and True if stress is read there, which returns bytes.
    tensor_rows : rows of `sample` with the values from which stress is computed.
    """
    output = experiment.output
    total = location_bytes(len(experiment.acquisition.receivers), output.tensors)
    for selection in output.snapshots:
        tensors = tuple(selection.fields) != ("velocity",)
        points = len(points_within(select_snapshot_grid(plan, selection), *reach(plan)))
        total += location_bytes(points, tensors) + points * plan.value_bytes * (tensor_rows if tensors else 3)
    if output.peak_motion:
        points = int(within_reach(plan, surface_grid(plan)[2]).sum())
        total += location_bytes(points, False) + points * PEAK_VALUES * plan.value_bytes
    return total
