"""Spectral-element discretization: mesh, points, time step and its limit, memory.

The statistics are those of the global mesh, of which each rank has only a part: counts, quality, and the worst element.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from lithowave.backends.loops import over_parts
from lithowave.earth.radial_model import RadialGravity
from lithowave.errors import InputError
from lithowave.globe_coordinates import ChunkMap
from lithowave.mesh.checks import described
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.hexahedral_checks import element_measures
from lithowave.mesh.numbering import lower_keys, shared_count
from lithowave.mesh.shared import SharedPoints
from lithowave.parallel.ranks import SINGLE_RANK, Ranks, collective_call
from lithowave.process import phase
from lithowave.solvers.common.reports import Line, resolution_line, time_lines
from lithowave.solvers.common.resampling import corrected_frequency, correction_warnings, limited
from lithowave.solvers.common.warnings import (
    HEXAHEDRA,
    displacement_warnings,
    near_source_warnings,
    soft_ground_warnings,
)
from lithowave.solvers.elements.locations import PointLocations
from lithowave.solvers.elements.plan import ElementPlan, plan_entries, refuse_coarse_mesh
from lithowave.solvers.elements.warnings import hexahedra_warnings, stacey_warnings
from lithowave.solvers.interface import Schedule, make_schedule
from lithowave.solvers.spectral_element import arrays
from lithowave.solvers.spectral_element.element_kinds import ElementKind, element_kinds
from lithowave.solvers.spectral_element.element_statistics import ElementStatistics, compute_element_statistics
from lithowave.solvers.spectral_element.gll import gll_positions
from lithowave.solvers.spectral_element.layers import (
    AbsorbingLayer,
    LayerDamping,
    Stretching,
    growing_wave_warnings,
    has_large_shift,
    layer_codes,
    layer_damping,
)
from lithowave.solvers.spectral_element.materials import ElementMaterials
from lithowave.solvers.spectral_element.media import (
    Interface,
    LayerPoints,
    NumberedPoints,
    face_points,
    layer_points,
    number_media,
    refuse_oblique_interfaces,
)
from lithowave.solvers.spectral_element.meshing import (
    MeshedModel,
    column_warnings,
    make_model,
    refuse_wide_columns,
    typical_size,
)
from lithowave.solvers.spectral_element.points import TOLERANCE, interpolation_tables, inverse_jacobians, locate_points
from lithowave.solvers.spectral_element.relaxation import NO_SOURCES, Storage, carrier_count, choose_sets
from lithowave.solvers.spectral_element.sources import surroundings
from lithowave.solvers.spectral_element.stability import stable_time_step

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.domain import Domain
    from lithowave.description.experiment import Experiment
    from lithowave.json_types import Entries, ReadEntries
    from lithowave.json_types import Entries as Summary


STATISTICS_PART = 4096  # elements that are examined at a time
LARGEST = ("longest_edge", "edge_ratio", "skewness")  # for these measures the largest value is the worst


@dataclass(frozen=True)
class GlobalMeshStatistics:
    """Statistics of all ranks together.

    elements, points : global numbers, each counted once. fluid_elements, fluid_points : those of them in fluids, the
    elements outside an absorbing layer. layer_elements, layer_bytes : elements of them in an
    absorbing layer, and the memory of its variables and filters. relaxing : number of elements with attenuation by
    the number of points that have memory variables; relaxation_bytes : their memory. kinds : number of the other
    elements of each kind, by name. faces : number of faces of each boundary kind. quality : see `_own_quality`, of all
    ranks. worst_place : location of the worst element.
    limiting_speed, limiting_place : m/s, of the element that sets the time step. fewest_points, slowest_speed,
    slowest_place, slowest_fluid : minimum points per wavelength at 1 Hz, the velocity of the slowest wave there, m/s,
    the place, and whether it is in a fluid. memory_bytes.
    """

    elements: int
    fluid_elements: int
    fluid_points: int
    layer_elements: int
    layer_bytes: int
    relaxing: dict[int, int]
    relaxation_bytes: int
    points: int
    kinds: dict[str, int]
    faces: dict[str, int]
    quality: Entries
    worst_place: str
    limiting_speed: float
    limiting_place: str
    fewest_points: float
    slowest_speed: float
    slowest_place: str
    slowest_fluid: bool
    memory_bytes: int


def gather_mesh_statistics(plan: SpectralElementPlan) -> GlobalMeshStatistics:
    """Collect the statistics of all ranks (collective call); all ranks return the same."""
    parts = plan.ranks.all_gather(_own_facts(plan))
    kinds = sum((part["kinds"] for part in parts), Counter())
    relaxing = sum((part["relaxing"] for part in parts), Counter())
    limiting = _lowest(part["limiting"] for part in parts)
    coarse = _lowest(part["coarse"] for part in parts)
    quality, worst_place = _joined([part["quality"] for part in parts])
    return GlobalMeshStatistics(
        *(sum(part[name] for part in parts) for name in ("elements", "fluid_elements", "fluid_points")),
        sum(part["layer_elements"] for part in parts),
        sum(part["layer_bytes"] for part in parts), dict(sorted(relaxing.items())),
        sum(part["relaxation_bytes"] for part in parts), sum(part["points"] for part in parts),
        {key[-1]: kinds[key] for key in sorted(kinds) if not key[0]},
        {kind: sum(part["faces"][kind] for part in parts) for kind in plan.faces}, quality, worst_place,
        limiting[2], limiting[3], coarse[0], coarse[2], coarse[3], coarse[4],
        sum(part["memory_bytes"] for part in parts),
    )  # fmt: skip


def _lowest(found: Iterable[tuple]) -> tuple:
    """Return the item (value, element, ...) with the lowest value; among values equal up to round-off, the one with the
    lowest element."""
    found = list(found)
    least = min(one[0] for one in found)
    return min((one for one in found if one[0] <= least + 1e-9 * abs(least)), key=lambda one: one[1])


def lowest_element(values: np.ndarray, numbers: np.ndarray) -> int:
    """Return the element of the lowest value; among values equal up to round-off, the lowest index."""
    least = values.min()
    near = np.flatnonzero(values <= least + 1e-9 * abs(least))
    return int(near[np.argmin(numbers[near])])


def _own_facts(plan: SpectralElementPlan) -> Entries:
    """Return the contribution of this rank's part to `gather_mesh_statistics`."""
    numbers = plan.mesh.numbers_in_whole
    kinds, place = plan.kinds
    counts = np.bincount(place, minlength=len(kinds)).tolist()
    names, relaxing = Counter[tuple](), Counter[int]()
    for kind, count in zip(kinds, counts, strict=True):
        names[kind.layer, kind.affine, kind.anisotropic, kind_name(kind, plan.curved_map)] += count
        if kind.mechanisms:
            relaxing[carrier_count(plan.degree, kind.carriers)] += count
    measures = element_measures(plan.mesh, plan.degree)
    frequency2 = plan.element_statistics.frequency2
    worst = lowest_element(-frequency2, numbers)
    speed = float(plan.materials.speed(slice(worst, worst + 1)).max())
    wet = plan.materials.is_fluid
    in_fluid = np.zeros(plan.total_points if wet.any() else 0, bool)
    in_fluid[plan.numbers[wet]] = True
    in_fluid[plan.border.owned_by_lower_ranks if wet.any() else []] = False
    return {
        "elements": plan.element_count,
        "fluid_elements": int(np.count_nonzero(wet & (plan.layer_masks == 0))),
        "fluid_points": int(np.count_nonzero(in_fluid)),
        "layer_elements": int(np.count_nonzero(plan.layer_masks)),
        "layer_bytes": arrays.layer_bytes(plan),
        "points": plan.total_points - len(plan.border.owned_by_lower_ranks),
        "kinds": names,
        "relaxing": relaxing,
        "relaxation_bytes": arrays.relaxation_bytes(plan),
        "faces": {kind: len(faces) for kind, faces in plan.faces.items()},
        "limiting": (-float(frequency2[worst]), int(numbers[worst]), speed, plan.place_of(worst)),
        "coarse": _coarsest(plan, measures["longest_edge"]),
        "quality": _own_quality(plan, measures),
        "memory_bytes": plan.memory_bytes(),
    }


def kind_name(kind: ElementKind, curved: str) -> str:
    """Return the name of a kind for display; curved : map of the elements that are not parallelepipeds."""
    law = "fluid" if kind.fluid else "anisotropic" if kind.anisotropic else "isotropic"
    return f"{'affine' if kind.affine else curved} {law}{' varying' if kind.varying else ''}"


def _coarsest(plan: SpectralElementPlan, longest: np.ndarray) -> tuple[float, int, float, str, bool]:
    """Return the minimum points per wavelength in the domain at 1 Hz, the element's index, the velocity of the slowest
    wave (m/s), the location, and whether it is a fluid. longest : edge of each element, m."""
    points = np.empty(plan.element_count)

    def count(some: slice) -> None:
        points[some] = plan.degree * plan.slowest(some) / longest[some]

    over_parts(count, plan.element_count, STATISTICS_PART)
    points[(plan.layer_masks > 0) | plan.added_elements()] = np.inf
    where = lowest_element(points, plan.mesh.numbers_in_whole)
    speed, fluid = float(plan.slowest(slice(where, where + 1))[0]), bool(plan.materials.is_fluid[where])
    return float(points[where]), int(plan.mesh.numbers_in_whole[where]), speed, plan.place_of(where), fluid


def _own_quality(plan: SpectralElementPlan, measures: dict[str, np.ndarray]) -> tuple[Entries, str]:
    """Return the quality of this part outside an absorbing layer, and the location of the worst element.

    The quality has the worst value of each of `element_measures`; worst, the element with that value: element (its
    global index, the first of elements that are equal up to round-off), id, center (x, y, z), m; and worst_element, the
    element of the lowest min(jacobian_ratio, 1 - skewness), with this measure and its value.
    measures : see `element_measures`; those of the layer are overwritten.
    """
    mesh, numbers = plan.mesh, plan.mesh.numbers_in_whole
    in_layer = (plan.layer_masks > 0) | plan.added_elements()
    for name, values in measures.items():  # elements of a layer are never the worst
        values[in_layer] = -np.inf if name in LARGEST else np.inf
    report: Entries = {"elements": mesh.element_count, "nodes_per_element": mesh.node_indices.shape[1]}
    worst = {}
    for name, values in measures.items():
        element = lowest_element(-values if name in LARGEST else values, numbers)
        report[name] = float(values[element])
        worst[name] = described(mesh, element) | {"element": int(numbers[element])}
    by_jacobian, by_angle = measures["jacobian_ratio"], 1 - measures["skewness"]
    element = lowest_element(np.minimum(by_jacobian, by_angle), numbers)
    measure = "jacobian_ratio" if by_jacobian[element] <= by_angle[element] else "skewness"
    report["worst"] = worst
    report["worst_element"] = described(mesh, element) | {
        "element": int(numbers[element]), "measure": measure, "value": float(measures[measure][element])
    }  # fmt: skip
    return report, plan.place_of(element)


def _joined(found: list[tuple[Entries, str]]) -> tuple[Entries, str]:
    reports = [report for report, _ in found]
    joined = {"elements": sum(one["elements"] for one in reports), "nodes_per_element": reports[0]["nodes_per_element"]}
    worst = {}
    for name in reports[0]["worst"]:
        sign = -1 if name in LARGEST else 1
        rated = [(sign * one[name], one["worst"][name]["element"], number) for number, one in enumerate(reports)]
        number = _lowest(rated)[2]
        joined[name], worst[name] = reports[number][name], reports[number]["worst"][name]
    joined["worst"] = worst
    goodness = []
    for number, one in enumerate(reports):
        told = one["worst_element"]
        value = told["value"] if told["measure"] == "jacobian_ratio" else 1 - told["value"]
        goodness.append((-math.inf if math.isnan(value) else value, told["element"], number))
    number = _lowest(goodness)[2]
    joined["worst_element"] = reports[number]["worst_element"]
    return joined, found[number][1]


PART = 20_000
LARGEST_REFLECTION = 0.01  # of an absorbing layer at normal incidence, up to which there is no warning


@dataclass(frozen=True)
class SpectralElementPlan(ElementPlan):
    """Discretization parameters, fixed before any array of a device is allocated; each rank has its part.

    mesh : elements in processing order. numbers : indices of points [element, k, j, i]. coefficients : maps (see
    `element_statistics`). faces : outer faces (element, local face) by kind. layer : absorbing layer, or None;
    layer_masks : active axes of each element (see `AbsorbingLayer.masks`); layer_codes : see `ElementKind.layer`;
    coupled : True for each point on an interface with a fluid; layer_damping : see `LayerDamping`.
    relaxation_sets : see `relaxation.choose_sets`. ranks :
    ranks of the run. border : points that other ranks share; border_keys : their `point_keys`. interface : pairs of
    points between fluids and solids. moves : True for each point that moves. bounds : ends along x,
    y, z, m, of the global mesh. face_kinds : kinds of the six faces of a box; None for an imported mesh. mesh_file :
    its path. mesh_ends, layer_ends, no_layer : see
    `ElementPlan`. gravity : acceleration as a function of the radius; None without
    gravity.
    """

    mesh: HexahedralMesh
    degree: int
    numbers: np.ndarray
    total_points: int
    coefficients: np.ndarray
    materials: ElementMaterials
    faces: dict[str, np.ndarray]
    layer: AbsorbingLayer | None
    layer_masks: np.ndarray
    layer_codes: np.ndarray
    coupled: np.ndarray
    layer_damping: LayerDamping | None
    relaxation_sets: np.ndarray
    element_statistics: ElementStatistics
    schedule: Schedule
    ranks: Ranks = SINGLE_RANK
    border: SharedPoints = field(default_factory=SharedPoints)
    border_keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    interface: Interface = field(default_factory=Interface)
    moves: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    bounds: tuple[tuple[float, float], ...] | None = None
    max_frequency: float | None = None
    value_bytes: int = 4
    deterministic: bool = False
    surface_spacing: float = 0.0
    domain: Domain | None = None
    face_kinds: dict[str, str] | None = None
    mesh_file: str | None = None
    mesh_ends: tuple[tuple[float, float], ...] | None = None
    layer_ends: tuple[tuple[float, float], ...] | None = None
    no_layer: str = ""
    curvature: ChunkMap | None = None
    gravity: RadialGravity | None = None

    arrays: ClassVar[ModuleType] = arrays
    inside_tolerance: ClassVar[float] = TOLERANCE
    locate_points: ClassVar[Callable[..., PointLocations]] = staticmethod(locate_points)
    gather_statistics: ClassVar[Callable[..., GlobalMeshStatistics]] = staticmethod(gather_mesh_statistics)
    memory_hint: ClassVar[str] = (
        "Use larger elements (solver.max_frequency, points_per_wavelength), a smaller domain or single precision"
    )

    @property
    def unit_total(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.unit_count

    @property
    def unit_count(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.element_count if self.ranks.size == 1 else self.mesh_statistics.elements

    @cached_property
    def outer(self) -> np.ndarray:
        """True for each element with a point that other ranks share."""
        if not self.border.with_rank:
            return np.zeros(self.element_count, bool)
        shared = np.zeros(self.total_points, bool)
        shared[self.border.points] = True
        return np.concatenate([shared[part].any(axis=(1, 2, 3)) for part in _in_parts(self.numbers)])

    def point_keys(self) -> np.ndarray:
        """Key (points,) of each point that does not depend on the partition.

        The minimum of element * (degree + 1)^3 + point in the element over all elements that have the point, with the
        global element indices.
        """
        keys = smallest_keys(self.numbers, self.mesh.numbers_in_whole, self.total_points)
        keys[self.border.points] = self.border_keys
        return keys

    @property
    def shared(self) -> int:
        """Number of points that may belong to several elements: the first ones."""
        return shared_count(self.total_points, self.element_count, self.degree)

    @property
    def curved_map(self) -> str:
        """Map of elements of any shape."""
        return "trilinear" if self.mesh.nodes is None else "triquadratic"

    @cached_property
    def kinds(self) -> tuple[list[ElementKind], np.ndarray]:
        """Kinds of elements, and the index of each element's kind among them."""
        gravity, shapes = self.gravity is not None, self.element_statistics.shape
        return element_kinds(self.curved_map, shapes, self.materials, self.layer_codes, self.relaxation_sets, gravity)

    @property
    def domain_count(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.mesh_statistics.elements - self.mesh_statistics.layer_elements

    @property
    def unit_kind(self) -> str:
        """See `lithowave.solvers.interface.Plan`."""
        kinds, place = self.kinds
        counts = np.bincount(place, minlength=len(kinds)).tolist()
        kind, _ = max(zip(kinds, counts, strict=True), key=lambda one: (one[0].layer == 0, one[1]))
        name, losses = kind_name(kind, self.curved_map), f", {kind.mechanisms} mechanisms" if kind.mechanisms else ""
        return f"degree {self.degree}, {name}{losses}{', deterministic' if self.deterministic else ''}"

    @property
    def has_fluids(self) -> bool:
        """True if any element of the global mesh is a fluid; the first access is collective."""
        return self.once("has_fluids", lambda: self.ranks.largest(float(self.materials.is_fluid.any())) > 0.0)

    @property
    def mechanisms(self) -> int:
        """Relaxation mechanisms of attenuation; 0 without it."""
        return self.materials.losses.body.mechanisms if self.materials.losses is not None else 0

    @property
    def damped_point_count(self) -> int:
        """Points of absorbing faces without a layer; the first access is collective."""
        return self.once("damped_point_count", lambda: arrays.damped_point_count(self))

    @property
    def layer_points(self) -> list[LayerPoints]:
        """See `media.layer_points`; the first access is collective."""
        return self.once("layer_points", lambda: layer_points(self))

    @cached_property
    def stretching(self) -> Stretching:
        """Filters of the absorbing layer."""
        return Stretching(self.layer, self.layer_damping, self.mesh, self.degree, self.schedule.time_step)

    def layer_friction(self, elements: np.ndarray) -> np.ndarray:
        """Return b, a, c of the friction in the layer at the points of elements, (elements, k, j, i, 3): none at the
        points of interfaces with a fluid, as the coupling is not stretched (see `coupling`)."""
        found = self.stretching.friction(elements)
        found[self.coupled[self.numbers[elements]]] = (1.0, 0.0, 0.0)
        return found

    def part(self, elements: np.ndarray, kinds: tuple[str, ...] = ()) -> SpectralElementPlan:
        """Return the plan of some elements in ascending order, to measure steps.

        It has the masses and the time step of the entire plan, of which fewer elements are stable, and outer faces of
        these kinds only; neither interfaces of fluids and solids, nor points of other ranks.
        """
        used = np.zeros(self.total_points, bool)
        used[self.numbers[elements]] = True
        statistics, none = self.element_statistics, np.zeros((0, 2), np.int64)
        faces = {kind: members if kind in kinds else none for kind, members in self.faces.items()}
        mesh = replace(self.mesh, boundaries=faces).part(elements)
        return replace(
            self, mesh=mesh, numbers=(np.cumsum(used) - 1).astype(self.numbers.dtype)[self.numbers[elements]],
            total_points=int(used.sum()), coefficients=self.coefficients[elements],
            materials=self.materials.part(elements), faces=mesh.boundaries, layer_masks=self.layer_masks[elements],
            layer_codes=self.layer_codes[elements], coupled=self.coupled[used],
            relaxation_sets=self.relaxation_sets[elements], ranks=SINGLE_RANK, border=SharedPoints(),
            border_keys=np.zeros(0, np.int64), interface=Interface(), moves=self.moves[used],
            element_statistics=ElementStatistics(
                statistics.mass[used],
                *(values[elements] for values in (statistics.frequency2, statistics.jacobian, statistics.shape)),
            ),
        )  # fmt: skip

    def slowest(self, some: slice | np.ndarray) -> np.ndarray:
        """Return the slowest wave velocity in each of some elements, m/s."""
        return self.materials.slowest_in_elements(some)

    def fastest(self, some: slice | np.ndarray) -> np.ndarray:
        """Return the fastest wave velocity in each of some elements, m/s."""
        return self.materials.fastest_in_elements(some)

    def points_per_wavelength(self) -> float | None:
        """Return the minimum mean number of GLL points per shortest wavelength at max_frequency."""
        return self.mesh_statistics.fewest_points / self.max_frequency if self.max_frequency else None

    def slowest_text(self) -> str:
        """Return the location of the minimum of `points_per_wavelength`, with the velocity of the slowest wave."""
        whole = self.mesh_statistics
        return f"{whole.slowest_place} ({'vp' if whole.slowest_fluid else 'vs'} = {whole.slowest_speed:g} m/s)"

    def summary(self) -> Summary:
        """See `lithowave.solvers.interface.Plan`."""
        whole = self.mesh_statistics
        quality = whole.quality
        return {
            "method": "spectral_element",
            "degree": self.degree,
            "element_count": whole.elements - whole.layer_elements,
            "layer_element_count": whole.layer_elements,
            "element_kinds": whole.kinds,
            "fluid_elements": whole.fluid_elements,
            "element_size_m": [quality["shortest_edge"], quality["longest_edge"]],
            "mesh_quality": {name: quality[name] for name in ("jacobian_ratio", "skewness", "worst_element")},
            "gll_points": whole.points,
            "degrees_of_freedom": 3 * whole.points - 2 * whole.fluid_points,
            "faces": self.face_kinds or {kind: count for kind, count in whole.faces.items() if count},
            "absorption": "layer" if self.layer else "stacey",
            **({} if self.gravity is None else {"gravity": "Cowling approximation"}),
            "relaxing_elements": {str(points): count for points, count in whole.relaxing.items()},
            "time_step_s": self.schedule.time_step,
            "time_step_limit_s": self.schedule.limit,
            "time_step_limited_by": {"vp_m_s": whole.limiting_speed, "place": whole.limiting_place},
            "points_per_wavelength": self.points_per_wavelength(),
            "points_per_wavelength_at": {"vs_m_s": whole.slowest_speed, "place": whole.slowest_place}
            | ({"fluid": True} if whole.slowest_fluid else {}),
            "steps": self.schedule.steps,
            "sampling_interval_s": self.schedule.sampling_interval,
            "memory_bytes": whole.memory_bytes,
        }

    def lines(self) -> list[Line]:
        """See `lithowave.solvers.interface.Plan`."""
        summary = self.summary()
        kinds = summary["element_kinds"]
        names = ", ".join(f"{count:,} {name}" if len(kinds) > 1 else name for name, count in kinds.items())
        shortest, longest = summary["element_size_m"]
        even = shortest > (1 - 1e-6) * longest
        points = f"{summary['gll_points']:,} GLL points, {summary['degrees_of_freedom']:,} unknowns"
        return [
            ("method", f"spectral element, degree {self.degree}"),
            ("mesh", f"{summary['element_count']:,} elements ({names}){self.origin_text()}"),
            *self._layer_lines(),
            *self._relaxation_lines(),
            ("points", points),
            ("element size", f"{longest:.6g} m" if even else f"edges of {shortest:.6g} to {longest:.6g} m"),
            ("mesh quality", self._quality_text()),
            self.faces_line(summary, self._absorption_text()),
            *([] if self.gravity is None else [("gravity", "in the Cowling approximation")]),
            resolution_line(summary),
            *time_lines(summary),
        ]

    def _quality_text(self) -> str:
        found, worst = self.mesh_statistics.quality, self.mesh_statistics.worst_place
        text = f"smallest Jacobian ratio {found['jacobian_ratio']:.3g}, largest skewness {found['skewness']:.2g}"
        perfect = found["jacobian_ratio"] > 1 - 1e-6 and found["skewness"] < 1e-6
        return f"{text} (all elements are boxes)" if perfect else f"{text}; worst in {worst}"

    def _layer_lines(self) -> list[Line]:
        """Return the line of `check` about the absorbing layer."""
        if self.layer is None:
            return []
        whole, thickness = self.mesh_statistics, [self.layer.thickness[face] for face in self.layer.sides]
        share = whole.layer_elements / max(1, whole.elements - whole.layer_elements)
        text = f"{whole.layer_elements:,} additional elements ({share:.2g} times those of the domain)"
        size = f"{whole.layer_bytes / 1e6:,.3g} MB of memory variables and filters"
        return [("layers", f"{text}, {_range_text(thickness)} m thick, {size}")]

    def _relaxation_lines(self) -> list[Line]:
        """Return the line of `check` about the memory variables of attenuation."""
        whole, every = self.mesh_statistics, (self.degree + 1) ** 3
        if not whole.relaxing:
            return []
        parts = [
            f"at {'all ' if points == every else ''}{points} points of {count:,} elements"
            for points, count in whole.relaxing.items()
        ]  # fmt: skip
        text = f"{', '.join(parts)}, {whole.relaxation_bytes / 1e6:,.3g} MB"
        return [("memory variables", f"{text} of {self.mechanisms} mechanisms")]

    def _absorption_text(self) -> str:
        text = "the Stacey condition"
        if self.layer:
            text = "perfectly matched layers" if self.layer.matched else "damped layers, as vs has a strong contrast"
        return f"; absorbing by {text}" if self.mesh_statistics.faces["absorbing"] else ""

    def outside(self, reference: np.ndarray) -> np.ndarray:
        """See `ElementPlan`."""
        return np.abs(reference).max(axis=1, initial=0.0) - 1.0

    def reference_gradients(self, locations: PointLocations) -> np.ndarray:
        """See `ElementPlan`."""
        return inverse_jacobians(self.mesh, locations)

    def voigt_diagonals(self, locations: PointLocations) -> np.ndarray:
        """See `ElementPlan`."""
        values = interpolation_tables(self.degree, locations.reference)[0]
        found = np.empty((len(values), 6))
        for row, (x, y, z) in enumerate(values):
            stiffness, _ = self.materials.within(int(locations.element[row]), np.einsum("k,j,i->kji", z, y, x))
            found[row] = stiffness.diagonal()
        return found

    def warnings(self, experiment: Experiment) -> list[str]:
        """See `lithowave.solvers.interface.Plan`."""
        size = surroundings(self, experiment.acquisition.source_positions)[:, 2]
        near = near_source_warnings(experiment, size, [HEXAHEDRA], self.bounds[2][1])
        near += column_warnings(experiment, self.points_per_wavelength(), self.slowest_text())
        faces = stacey_warnings(self, experiment) + self._layer_warnings()
        if self.layer is not None and self.layer.matched:
            faces += soft_ground_warnings(experiment)
            faces += displacement_warnings(experiment, "12%") if has_large_shift(self.layer, self.degree) else []
        elif self.layer is not None:
            faces += displacement_warnings(experiment, "30%")
        steps = correction_warnings(experiment, self.schedule)
        return [*faces, *hexahedra_warnings(self, experiment), *near, *steps]

    def _layer_warnings(self) -> list[str]:
        """Return warnings if waves may grow in the layer, or if its damping is limited, so that it reflects more."""
        if self.layer is None or not self.layer.matched:
            return []
        growing = growing_wave_warnings(self.layer_masks, self.materials, self.ranks)
        found = self.layer_damping.reflection(self.layer)
        face = max(found, key=lambda name: found[name])
        limit = max(LARGEST_REFLECTION, 1.01 * self.layer.reflection)
        if found[face] <= limit:
            return growing
        elements = math.ceil(self.layer.elements * math.log(limit) / math.log(found[face]))
        return [
            *growing,
            f"boundaries.layer: the layer beyond {face} reflects {100 * found[face]:.2g}% of the fastest waves "
            f"(vp = {self.layer_damping.speed[face]:g} m/s) at normal incidence, since the damping is limited by the "
            f"slowest wave in small elements. Set boundaries.layer.elements: {elements} for {100 * limit:.2g}%."
        ]

    def instability_causes(self) -> list[str]:
        """See `lithowave.solvers.interface.Plan`."""
        whole, causes = self.mesh_statistics, []
        if whole.quality["jacobian_ratio"] < 0.2 or whole.quality["skewness"] > 0.8:
            causes.append(f"distorted elements: the worst is {whole.worst_place}")
        if whole.faces["absorbing"]:
            causes.append(
                "strong anisotropy, soft ground next to rock, or a strong contrast, that meets an absorbing face: try "
                f"boundaries.absorption: {'stacey' if self.layer else 'layer'}, or move the sides"
            )
        return causes


def _range_text(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if high <= low * (1 + 1e-6) else f"{low:.4g} to {high:.4g}"


def _in_parts(numbers: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the elements in sections, at least one."""
    for first in range(0, max(1, len(numbers)), PART):
        yield numbers[first : first + PART]


def smallest_keys(numbers: np.ndarray, elements: np.ndarray, points: int) -> np.ndarray:
    """Return for each of this many points the minimum of elements[e] * size + place of point [e, place], with `size`
    points per element."""
    keys = np.full(points, np.iinfo(np.int64).max)
    lower_keys(numbers.reshape(len(numbers), -1), np.ascontiguousarray(elements, np.int64), keys)
    keys[keys == np.iinfo(np.int64).max] = -1  # points without an element
    return keys


def plan(
    experiment: Experiment, backend: Backend, ranks: Ranks = SINGLE_RANK, previous: ReadEntries | None = None
) -> SpectralElementPlan:
    """Return the plan of this rank. See `lithowave.solvers.load_method` for the parameters.

    Raises
    ------
    InputError : the mesh cannot be used, or the time step is above the limit, or there are too many ranks for the mesh.
    """
    refuse_stress(experiment)
    made = plan_of(make_model(experiment, ranks), experiment, ranks)
    backend.compile_ahead(__package__, degree=made.degree, kinds=made.kinds[0], deterministic=made.deterministic)
    return made


def plan_of(model: MeshedModel, experiment: Experiment, ranks: Ranks = SINGLE_RANK) -> SpectralElementPlan:
    """Return the plan of a simulation for its mesh with materials."""
    solver = experiment.solver

    def schedule(limit: float) -> Schedule:
        interval, corrected = experiment.output.sampling_interval, corrected_frequency(experiment)
        return limited(
            make_schedule(limit, experiment.duration, solver.safety, solver.time_step, interval, corrected)
        )

    made = make_plan(
        model, solver.degree, schedule, experiment.compute.precision, experiment.compute.deterministic, ranks,
        storage=Storage(solver.memory_variables, experiment.acquisition.source_positions), **plan_entries(experiment),
    )  # fmt: skip
    points, worst = made.points_per_wavelength(), made.slowest_text()
    refuse_coarse_mesh(experiment, points, "degree", worst)
    refuse_wide_columns(experiment, points, worst)
    return made


def refuse_stress(experiment: Experiment) -> None:
    """Refuse records and snapshots of stress or pressure in media with attenuation.

    Memory variables exist at some points of elements only, so that the stress at other points is unknown.
    """
    if experiment.anelasticity is None:
        return
    output = experiment.output
    wanted = [f"output.{name}" for name in ("stress", "pressure") if getattr(output, name)]
    for number, snapshots in enumerate(output.snapshots):
        if {"stress", "pressure"} & set(snapshots.fields):
            wanted.append(f"output.snapshots[{number}].fields")
    if wanted:
        raise InputError(
            wanted[0], "spectral_element: stress and pressure are not available in media with attenuation",
            "spectral elements have the relaxing stresses at some points only",
            "remove it, or use another method",
        )  # fmt: skip


def make_plan(
    model: MeshedModel, degree: int, schedule: Schedule, precision: str, deterministic: bool = False,
    ranks: Ranks = SINGLE_RANK, storage: Storage = NO_SOURCES, **more: object,
) -> SpectralElementPlan:  # fmt: skip
    """Return the plan for a mesh with materials. schedule : function of the largest stable time step, s."""
    mesh = model.mesh
    collective_call(ranks, lambda: _refuse_lossy_fluids(mesh, model.materials, more.get("domain")))
    with phase("numbers of points"):
        points = number_media(mesh, model.materials.is_fluid, degree, ranks)
    numbers, count, border = points.numbers, points.count, points.border
    with phase("statistics of elements"):
        coefficients, statistics = compute_element_statistics(mesh, numbers, count, model.materials)
    collective_call(ranks, lambda: _refuse_bad(mesh, degree, statistics))
    border.combine(statistics.mass, ranks)
    keys = smallest_keys(numbers, mesh.numbers_in_whole, count) if ranks.size > 1 else np.zeros(0, np.int64)
    keys[keys < 0] = np.iinfo(np.int64).max  # points without elements on this rank
    border.combine(keys, ranks, np.minimum)
    with phase("memory variables"):
        sets = collective_call(ranks, lambda: choose_sets(mesh, model.materials, degree, storage, statistics.affine))
    masks, damping = np.zeros(mesh.element_count, np.int64), None
    coupled = np.zeros(count)
    coupled[np.concatenate([points.interface.solid, points.interface.fluid])] = 1.0
    if model.layer is not None:
        masks = model.layer.masks(mesh.vertices, mesh.elements)
        refuse_oblique_interfaces(mesh, points, masks, ranks)
        damping = layer_damping(model.layer, mesh, model.materials, degree, ranks)
        statistics.frequency2[masks > 0] /= 1 - max(damping.friction.values(), default=0.0)
        border.combine(coupled, ranks, np.maximum)  # the faces of an interface may belong only to another rank
        codes = layer_codes(model.layer, masks, mesh, coefficients, numbers, coupled > 0)
    else:
        codes = masks
    moves = moving_points(points, model.faces, model.materials.is_fluid, model.layer is not None, ranks)

    def inertia(elements: np.ndarray) -> np.ndarray:
        positions = gll_positions(mesh.element_nodes(elements), degree)
        factors = np.ones(positions.shape[:-1]) if damping is None else damping.inertia(model.layer, positions)
        return np.where(moves[numbers[elements]], factors, np.inf)

    with phase("time step"):
        stiffness = statistics.frequency2 * statistics.jacobian * model.materials.inertia()[:, 0]
        every = keys if ranks.size > 1 else None
        limit = stable_time_step(
            mesh, model.materials, points, every, moves, statistics.frequency2, stiffness, inertia, ranks
        )
    domain = cast("Domain | None", more.get("domain"))
    curvature = None if domain is None or domain.chunk is None else domain.chunk.map
    bounds = _bounds(mesh, ranks) if curvature is None else tuple(domain.bounds.values())
    return SpectralElementPlan(
        mesh, degree, numbers, count, coefficients, model.materials, model.faces, model.layer,
        masks, codes, coupled > 0, damping, sets, statistics,
        schedule(limit), ranks, border, keys[border.points], points.interface, moves, bounds,
        value_bytes=4 if precision == "single" else 8, deterministic=deterministic,
        surface_spacing=(model.element_size or typical_size(mesh)) / degree, mesh_ends=model.mesh_ends,
        layer_ends=model.layer and model.mesh_ends and model.layer.domain,
        no_layer=model.no_layer, curvature=curvature, gravity=model.gravity, **more,
    )  # fmt: skip


def moving_points(
    points: NumberedPoints, faces: Mapping[str, np.ndarray], fluid: np.ndarray, has_layer: bool, ranks: Ranks
) -> np.ndarray:
    """Return True for each point that moves, False for those at rest, (points,); collective call.

    At rest are the displacement on rigid faces of solids and the potential on free faces of fluids, which has P =
    0; and, where a layer ends, both.
    """
    rest = [np.zeros(0, np.int64)]
    for kind, held in (("rigid", ~fluid), ("free", fluid), ("absorbing", np.full(len(fluid), has_layer))):
        rest.append(face_points(points.numbers, faces[kind][held[faces[kind][:, 0]]]))
    resting = np.concatenate(rest)
    if not ranks.largest(float(len(resting))):
        return np.broadcast_to(True, points.count)
    moves = np.ones(points.count, bool)
    moves[resting] = False
    points.border.combine(moves, ranks, np.minimum)  # a face may belong only to another rank
    return moves


def _refuse_lossy_fluids(mesh: HexahedralMesh, materials: ElementMaterials, domain: Domain) -> None:
    """Refuse fluids with attenuation, of gridded and radial models too: elements of fluids are elastic."""
    fluid = np.flatnonzero(materials.is_fluid)
    lossy = fluid[materials.attenuates(fluid)]
    if not lossy.size:
        return
    place = mesh.vertices[mesh.elements[lossy[0]]].mean(axis=0)
    where, hint = "at ({:z.6g}, {:z.6g}, {:z.6g}) m".format(*place), "; method: discontinuous_galerkin can"
    if domain is not None and domain.chunk is not None:
        where, hint = f"at {domain.chunk.position_text(domain.chunk.map.from_cartesian(place))}", ""
    raise InputError(
        "material", f"the fluid (vs = 0) {where} has a finite quality factor",
        "spectral_element: fluids without attenuation",
        f"remove the quality factor of the fluid (in files of radial models, 0 in both columns){hint}",
    )  # fmt: skip


def _refuse_bad(mesh: HexahedralMesh, degree: int, statistics: ElementStatistics) -> None:
    if not (statistics.jacobian > 0).all():
        from lithowave.solvers.spectral_element.gll import refuse_bad_elements

        worst = np.flatnonzero(~(statistics.jacobian > 0))
        refuse_bad_elements(mesh.element_nodes(worst), degree, ids=mesh.numbers_in_whole[worst])


def _bounds(mesh: HexahedralMesh, ranks: Ranks) -> tuple[tuple[float, float], ...]:
    """Return the ends of the global mesh along x, y, z, m."""
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    return tuple((ranks.smallest(float(a)), ranks.largest(float(b))) for a, b in zip(low, high, strict=True))
