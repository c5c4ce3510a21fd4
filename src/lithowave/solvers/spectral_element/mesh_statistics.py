"""Statistics of the global mesh, when each rank has only a part: counts, quality, and the worst element."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.mesh.quality_report import described, element_measures
from lithowave.solvers.spectral_element import memory

PART = 4096  # elements that are examined at a time
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
    quality: dict[str, Any]
    worst_place: str
    limiting_speed: float
    limiting_place: str
    fewest_points: float
    slowest_speed: float
    slowest_place: str
    slowest_fluid: bool
    memory_bytes: int


def gather_mesh_statistics(plan: Any) -> GlobalMeshStatistics:
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


def _own_facts(plan: Any) -> dict[str, Any]:
    """Return the contribution of this rank's part to `gather_mesh_statistics`."""
    numbers = plan.mesh.numbers_in_whole
    kinds, place = plan.kinds
    counts = np.bincount(place, minlength=len(kinds)).tolist()
    names, relaxing = Counter[tuple](), Counter[int]()
    for kind, count in zip(kinds, counts, strict=True):
        names[kind.layer, kind.map == "affine", kind.anisotropic, kind_name(kind)] += count
        if kind.mechanisms:
            relaxing[memory.carrier_count(plan.degree, kind.carriers)] += count
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
        "layer_bytes": memory.layer_bytes(plan),
        "points": plan.total_points - len(plan.border.owned_by_lower_ranks),
        "kinds": names,
        "relaxing": relaxing,
        "relaxation_bytes": memory.relaxation_bytes(plan),
        "faces": {kind: len(faces) for kind, faces in plan.faces.items()},
        "limiting": (-float(frequency2[worst]), int(numbers[worst]), speed, plan.place_of(worst)),
        "coarse": _coarsest(plan, measures["longest_edge"]),
        "quality": _own_quality(plan, measures),
        "memory_bytes": plan.memory_bytes(),
    }


def kind_name(kind: Any) -> str:
    """Return the name of a kind for display."""
    if kind.fluid:
        return f"{kind.map} fluid{' varying' if kind.varying else ''}"
    return f"{kind.map} {'anisotropic' if kind.anisotropic else 'isotropic'}{' varying' if kind.varying else ''}"


def _coarsest(plan: Any, longest: np.ndarray) -> tuple[float, int, float, str, bool]:
    """Return the minimum points per wavelength in the domain at 1 Hz, the element's index, the velocity of the slowest
    wave (m/s), the location, and whether it is a fluid. longest : edge of each element, m."""
    points = np.empty(plan.element_count)

    def count(some: slice) -> None:
        points[some] = plan.degree * plan.slowest(some) / longest[some]

    over_parts(count, plan.element_count, PART)
    points[(plan.layer_masks > 0) | plan.added_elements()] = np.inf
    where = lowest_element(points, plan.mesh.numbers_in_whole)
    speed, fluid = float(plan.slowest(slice(where, where + 1))[0]), bool(plan.materials.is_fluid[where])
    return float(points[where]), int(plan.mesh.numbers_in_whole[where]), speed, plan.place_of(where), fluid


def _own_quality(plan: Any, measures: dict[str, np.ndarray]) -> tuple[dict[str, Any], str]:
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
    report: dict[str, Any] = {"elements": mesh.element_count, "nodes_per_element": mesh.node_indices.shape[1]}
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


def _joined(found: list[tuple[dict[str, Any], str]]) -> tuple[dict[str, Any], str]:
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
