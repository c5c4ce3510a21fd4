"""Statistics of the global mesh, combined from the parts of the ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.mesh.tetrahedral_quality import described, element_measures
from lithowave.solvers.discontinuous_galerkin.memory import relaxation_bytes
from lithowave.solvers.discontinuous_galerkin.relaxation import step_limits

# Measures of the quality of a mesh: whether the largest value in an element is reported, or the smallest.
MEASURES = {"shortest_edge": False, "longest_edge": True, "radius_ratio": False, "dihedral_angle": False}

COUNTS = ("elements", "anisotropic", "fluid", "layer", "layer_updates", "relaxing", "relaxation_bytes")


@dataclass(frozen=True)
class ElementExtremum:
    """Element with the minimum of some values. key : of the element. place : its location, for messages. speed :
    velocity of the wave there, m/s."""

    value: float
    key: int
    place: str
    speed: float


@dataclass(frozen=True)
class GlobalMeshStatistics:
    """Statistics of the global mesh.

    elements, anisotropic, fluid, layer, relaxing : counts; layer : of the elements of the absorbing layer;
    layer_updates : of their updates per step of the largest cluster; relaxing : of those with attenuation.
    relaxation_bytes : of their memory variables. faces : outer faces by kind. quality : the
    values of `MEASURES` outside of the layer, and worst_element. worst : element there with the minimum ratio of
    insphere radius to edge. limit : element that sets the shortest time step, s, with the clusters of the run; relaxed
    : because of relaxation. resolution : element of the domain with the minimum points per wavelength at 1 Hz. bounds :
    ends of the mesh along x, y and z, m. memory_bytes : bytes of the arrays of all ranks.
    """

    elements: int
    anisotropic: int
    fluid: int
    layer: int
    layer_updates: int
    relaxing: int
    relaxation_bytes: int
    faces: dict[str, int]
    quality: dict[str, Any]
    worst: ElementExtremum
    limit: ElementExtremum
    resolution: ElementExtremum
    bounds: tuple[tuple[float, float], ...]
    memory_bytes: int
    relaxed: bool


def gather_mesh_statistics(plan: Any) -> GlobalMeshStatistics:
    """Return the statistics of a plan; with several ranks this call is collective."""
    parts = plan.shared.ranks.all_gather(_own(plan))
    quality = {
        name: (max if largest else min)(part.quality[name] for part in parts) for name, largest in MEASURES.items()
    }
    lowest = min(parts, key=lambda part: _rank_of(part.worst))
    quality["worst_element"] = lowest.quality["worst_element"]
    return GlobalMeshStatistics(
        *(sum(getattr(part, name) for part in parts) for name in COUNTS),
        {kind: sum(part.faces[kind] for part in parts) for kind in parts[0].faces},
        quality,
        *(min((getattr(part, name) for part in parts), key=_rank_of) for name in ("worst", "limit", "resolution")),
        tuple(
            (min(part.bounds[axis][0] for part in parts), max(part.bounds[axis][1] for part in parts))
            for axis in range(3)
        ),
        sum(part.memory_bytes for part in parts),
        min(parts, key=lambda part: _rank_of(part.limit)).relaxed,
    )


def _rank_of(extreme: ElementExtremum) -> tuple[float, int]:
    return extreme.value, extreme.key


def _own(plan: Any) -> GlobalMeshStatistics:
    """Return the statistics of this rank's part."""
    mesh, count = plan.mesh, plan.element_count
    keys, measures = mesh.keys_of_elements, element_measures(mesh)
    fastest, slowest = (speed[:count] for speed in (plan.materials.fastest_speed, plan.materials.slowest_speed))
    # There are `order` points per edge of the cube that twelve such elements would fill.
    points = plan.order * slowest / np.cbrt(12.0 * measures["volume"])
    added = plan.layer.inside | plan.added_elements()[:count]
    points[added] = np.inf
    for name, largest in MEASURES.items():  # elements of a layer are never the worst
        measures[name][added] = -np.inf if largest else np.inf

    def extreme(values: np.ndarray, speeds: np.ndarray) -> ElementExtremum:
        element = lowest(values, keys)
        value, speed = float(values[element]), float(speeds[element])
        return ElementExtremum(value, int(keys[element]), plan.place_of(element), speed)

    quality = {
        name: float(measures[name].max() if largest else measures[name].min()) for name, largest in MEASURES.items()
    }
    worst = lowest(measures["radius_ratio"], keys)
    quality["worst_element"] = described(mesh, worst) | {
        "element": mesh.element_id(worst), "measure": "radius_ratio", "value": quality["radius_ratio"]
    }  # fmt: skip
    steps = plan.limits * 0.5 ** plan.clustering.cluster[:count]  # of cluster 0 that each element permits
    limit = lowest(steps, keys)
    relaxed = bool(plan.limits[limit] >= step_limits(plan.materials, count)[limit])
    return GlobalMeshStatistics(
        count, int(plan.materials.anisotropic[:count].sum()), int(plan.materials.is_fluid[:count].sum()),
        int(plan.layer.inside.sum()), int(plan.clustering.element_updates[:count][plan.layer.inside].sum()),
        int(plan.relaxing.sum()), relaxation_bytes(plan),
        {kind: len(faces) for kind, faces in plan.faces.items()}, quality,
        extreme(measures["radius_ratio"], fastest), extreme(steps, fastest), extreme(points, slowest),
        tuple((float(axis.min()), float(axis.max())) for axis in mesh.vertices.T), plan.memory_bytes(), relaxed,
    )  # fmt: skip


def lowest(values: np.ndarray, keys: np.ndarray) -> int:
    """Return the element with the minimum value; among equal values the lowest key, independent of the partition."""
    equal = np.flatnonzero(values == values.min())
    return int(equal[keys[equal].argmin()])
