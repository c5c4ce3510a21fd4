r"""Warnings of the element methods about the mesh and about absorbing faces.

Warnings about differences between a mesh and the model: thin layers, interfaces inside elements, topography that
elements do not resolve.

Estimated reflections from absorbing faces with a first-order condition: Stacey's, or the equivalent flux of
discontinuous Galerkin.

The condition absorbs plane waves along the normal of a face. Its reflections of the waves of a point source were
measured in 32 boxes of a homogeneous half-space (vp/vs = 1.73), with 4 to 10 receivers each, compared with absorbing
layers at distant sides. The relative L2 error of a seismogram is

    0.45 \lambda / (d_s + d_r)

with d_s and d_r the distances of source and receiver from their nearest absorbing faces, and \lambda the wavelength of
S waves at the frequency where the spectrum of the source has fallen to 5%; within a factor of 1.6 (root mean square)
and of 3.5 for all receivers, for d_s + d_r from one to nine wavelengths. In layered models with topography or basins it
was too low by a factor of up to 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import over_parts
from lithowave.globe_coordinates import RADIUS
from lithowave.media.bounded_layers import BoundedLayers
from lithowave.mesh.hexahedra import shape_tables
from lithowave.mesh.numbering import number_faces
from lithowave.mesh.tetrahedra import TETRAHEDRON_FACES
from lithowave.parallel.ranks import Ranks
from lithowave.solvers.common.warnings import layer_name, layer_thicknesses
from lithowave.solvers.elements.layers import (
    FLATTEST,
    LAYERED,
    PINCHED,
    SHORTER,
    NearestMedium,
    cell_layers,
    change_of_speed,
    is_sampled,
    own_layers,
)
from lithowave.solvers.elements.locations import PointLocations

if TYPE_CHECKING:
    from lithowave.description.domain import Chunk, Domain
    from lithowave.description.experiment import Experiment
    from lithowave.media.medium import Medium
    from lithowave.solvers.elements.locations import Mesh
    from lithowave.solvers.elements.plan import ElementPlan


PART = 4096
FLAT = 0.5  # height over width of elements, below which a layer is reported
CONTRAST = 0.2  # minimum change of vs within an element for reporting an interface
# Relative error of seismograms over that change, for waves through one interface: measured with a change of 0.43 at 7
# points per wavelength in spectral elements (0.16 to 0.25) and 8 in discontinuous Galerkin (0.14).
CONTRAST_FACTOR = 0.2
# The same for the effective medium of the layers that meet in an element, for waves through the crust: measured with a
# change of 0.18 at 7 points per wavelength (0.02 to 0.05).
EFFECTIVE_FACTOR, EFFECTIVE_ERROR = 0.05, 0.005  # minimum error for reporting it
SURFACE_ERROR = 0.02  # minimum distance of the elements from the topography in shortest wavelengths for a warning
SURFACE_FACTOR = 2.0  # error of seismograms near the worst location over that distance: measured on hills, 1.4 to 3
FACE_POINTS = 7  # along each side of a face, at which the elements are compared with the topography
# The medium of elements between two layers, and how to follow the interface other than by a thicker layer.
HEXAHEDRA = "the effective medium", ""
TETRAHEDRA = "the mean", ", or use spectral elements, which follow it where the layer is not thin"
BESIDE_VERTEX, ENOUGH_POINTS = 0.9, 10.0  # barycentric coordinate; points per wavelength with which it is below 1%


def hexahedra_warnings(plan: ElementPlan, experiment: Experiment) -> list[str]:
    """Return the warnings of a spectral-element plan about the model (collective call)."""
    found = layer_warnings(experiment, *HEXAHEDRA)
    if experiment.material.kind == "earth" and experiment.solver.mesh is None and cell_layers(experiment).mixed:
        found += averaged_discontinuities(experiment)
    elif plan.materials.values is not None:
        found += unfollowed_interfaces(experiment, plan, *point_contrasts(plan.materials.values))
    if experiment.domain.topography is not None:
        points = plan.from_mesh(upper_points_of_hexahedra(plan.mesh))
        found += unresolved_topography(experiment, points, plan.ranks)
    return found + unresolved_interfaces(experiment, plan, faces_of_hexahedra, upper_points_of_hexahedra)


def tetrahedra_warnings(plan: ElementPlan, experiment: Experiment) -> list[str]:
    """Return the warnings of a discontinuous Galerkin plan about the model (collective call)."""
    found, material = layer_warnings(experiment, *TETRAHEDRA), experiment.material
    if is_sampled(experiment):
        ends = plan.mesh_ends
        medium = material.medium
        if experiment.solver.mesh is None:
            medium = NearestMedium.of(experiment)
        elif ends:
            medium = NearestMedium.inside(experiment, ends)
        contrasts = vertex_contrasts(medium, plan.mesh, own_layers(experiment, plan.mesh))
        found += unfollowed_interfaces(experiment, plan, *contrasts)
    if experiment.domain.topography is not None:
        found += unresolved_topography(experiment, upper_points_of_tetrahedra(plan.mesh), plan.ranks)
    return found + unresolved_interfaces(experiment, plan, faces_of_tetrahedra, upper_points_of_tetrahedra)


def receivers_at_vertices(plan: ElementPlan, experiment: Experiment, locations: PointLocations) -> list[str]:
    """Return a warning about receivers next to vertices of an imported mesh of tetrahedra (collective call).

    Parameters
    ----------
    locations : of the receivers in the elements of this rank, see `PointLocations`.
    """
    points, receivers = plan.points_per_wavelength(), experiment.acquisition.receivers
    if experiment.solver.mesh is None or points is None or points > ENOUGH_POINTS:
        return []
    largest = np.maximum(locations.reference.max(axis=1), 1.0 - locations.reference.sum(axis=1))
    beside = np.unique(locations.point[largest > BESIDE_VERTEX])
    every = np.unique(np.concatenate(plan.ranks.all_gather(beside)))
    if not every.size:
        return []
    return [
        f"receivers: {every.size} of {len(receivers)} are next to a vertex of the mesh (first: "
        f"{receivers[every[0]].name}), where the polynomials of an element are least accurate; estimated error of "
        f"their seismograms 2% to 3% at 7 points per wavelength (here: {points:.3g}). Use smaller elements there, or a "
        "vertex farther away."
    ]


def layer_warnings(experiment: Experiment, medium: str, remedy: str) -> list[str]:
    """Return warnings about layers that are thin, and about surfaces that a generated mesh does not follow.

    medium : that of elements between two layers. remedy : to follow the surface, in addition to a thicker layer.
    """
    if experiment.solver.mesh is not None or experiment.material.kind not in LAYERED:
        return []
    return flat_elements(experiment) + [
        f"material.layers[{one.index}].top: the elements do not follow this surface, since they would be inverted or "
        f"flatter than {FLATTEST:g} ({one.reason}); elements that it crosses have {medium} of both layers. The error "
        "of waves through it is of first order in the element size. To follow it, give the layer a minimum "
        f"thickness{remedy}; smaller elements reduce the error."
        for one in cell_layers(experiment).unfollowed
    ] + [
        f"material.layers[{one.index}].top: the elements follow this surface except in {one.fraction:.2g} of the area, "
        f"where they would be flatter than {PINCHED:g} ({one.reason}); there it crosses elements, which have the "
        "effective medium of both layers. The error of waves through these elements is of first order in their size, "
        "and flat elements next to them need a smaller time step. To avoid both, give the layer a minimum thickness."
        for one in cell_layers(experiment).pinched
    ]


def flat_elements(experiment: Experiment) -> list[str]:
    """Return a warning for each layer so thin that the elements of a generated mesh are flat there."""
    cells, found, even = cell_layers(experiment), [], experiment.material.kind == "layers"
    sizes = dict(zip(cells.materials, cells.sizes, strict=True))
    for index, thickness in layer_thicknesses(experiment):
        size = sizes.get(index, cells.sizes[0] if even and not experiment.material.bounded else 0.0)
        if thickness < FLAT * size:
            remedy = "" if even else ", for example with material.earth.minimum_thickness"
            found.append(
                f"{layer_name(experiment, index)}: {thickness:g} m thick, less than the elements there ({size:.4g} m). "
                f"The mesh has a row of elements of this height, whose time step is about {thickness / size:.2g} of "
                f"that of full elements. Merge the layer with a neighbor if it is not needed{remedy}."
            )
    return found


def unfollowed_interfaces(
    experiment: Experiment, plan: ElementPlan, contrasts: np.ndarray, fluid: np.ndarray
) -> list[str]:
    """Return a warning if the values of a model change abruptly inside elements of the domain (collective call).

    In absorbing layers the values are those at the nearest point of the domain, so that elements there repeat those of
    the sides.

    Parameters
    ----------
    contrasts : (elements,) change of a speed in each element of this rank, relative to the larger value. fluid :
    (elements,) True where it is that of vp, in elements of a fluid, False where it is that of vs.
    """
    elements = np.flatnonzero(elements_of_domain(experiment, plan))
    contrasts, own = contrasts[elements], (0.0, "", "vs")
    if elements.size:
        worst = int(contrasts.argmax())
        place, speed = plan.place_of(int(elements[worst])), "vp" if fluid[elements[worst]] else "vs"
        own = (float(contrasts[worst]), place, speed)
    parts = plan.ranks.all_gather((*own, int((contrasts > CONTRAST).sum()), elements.size))
    contrast, place, speed, *_ = max(parts, key=lambda part: part[0])
    if contrast <= CONTRAST:
        return []
    count, total = (sum(part[column] for part in parts) for column in (3, 4))
    layers = "" if experiment.solver.mesh or experiment.material.layers else "material.layers, "
    remedy = f"{layers}a mesh whose faces follow the interfaces (solver.mesh, material.groups), or "
    if experiment.material.kind == "earth":
        depths = ", ".join(f"{-z / 1e3:.5g}" for z in sorted(cell_layers(experiment).inside, reverse=True))
        remedy = f"a smaller period, so that elements follow also the discontinuities at depths of {depths} km, or "
        remedy = remedy if depths else ""  # the contrasts are those of perturbations
    return [
        f"material.{experiment.material.kind}: the elements do not follow its interfaces: {speed} changes by up to "
        f"{contrast:.0%} inside an element ({place}), by more than {CONTRAST:.0%} in {count:,} of {total:,} elements; "
        f"estimated error of the seismograms {CONTRAST_FACTOR * contrast:.0%}. Use {remedy}"
        "smaller elements."
    ]


def averaged_discontinuities(experiment: Experiment) -> list[str]:
    """Return a warning about discontinuities of a radial model inside elements, which have an effective medium there.
    """
    model = experiment.material.medium.model  # type: ignore[attr-defined]
    errors = {z: EFFECTIVE_FACTOR * change_of_speed(model, z) for z in cell_layers(experiment).inside}
    reported = {z: error for z, error in sorted(errors.items(), reverse=True) if error >= EFFECTIVE_ERROR}
    if not reported:
        return []
    texts = ", ".join(f"{-z / 1e3:.5g} km ({error:.1%})" for z, error in reported.items())
    return [
        f"material.earth: discontinuities inside elements, which have the effective medium of the layers that meet in "
        f"them, with the estimated error of the seismograms: {texts}. Elements follow them if the time step becomes "
        f"shorter by at most {1.0 - SHORTER:.0%}. Use a higher solver.max_frequency, or more "
        "solver.points_per_wavelength; material.earth.minimum_thickness merges layers without an average."
    ]


def elements_of_domain(experiment: Experiment, plan: ElementPlan) -> np.ndarray:
    """Return True (elements,) for elements whose center is in the domain, or in the imported mesh, without layers."""
    ground = experiment.domain.ground
    ends = plan.mesh_ends or ((ground.x, ground.y, ground.z) if experiment.solver.mesh is None else None)
    if ends is None:
        return np.ones(plan.element_count, bool)
    low, high = np.transpose(ends)
    centers = plan.from_mesh(plan.mesh.vertices[plan.mesh.elements].mean(axis=1))
    return ((centers > low) & (centers < high)).all(axis=1)


def point_contrasts(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest change (elements,) of vs, or vp in a fluid, from one GLL point to the next in each element,
    relative to the larger value, and True (elements,) for elements of a fluid; values : lambda, mu, rho [3, element, k,
    j, i]."""
    found = np.zeros(values.shape[1])

    def compare(some: slice) -> None:
        lam, mu, rho = values[:, some]
        speed = np.sqrt(np.where(mu == 0.0, lam, mu) / rho)
        for axis in (1, 2, 3):
            ends = [np.moveaxis(speed, axis, 0)[part] for part in (slice(1, None), slice(None, -1))]
            change = 1.0 - np.minimum(*ends) / np.maximum(*ends)
            found[some] = np.maximum(found[some], change.max(axis=(0, 2, 3)))

    over_parts(compare, len(found), PART)
    return found, (values[1] == 0.0).all(axis=(1, 2, 3))


def vertex_contrasts(
    medium: Medium, mesh: Mesh, layers: tuple[np.ndarray, ...] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Return the change (elements,) of vs among the vertices and the center of each tetrahedron, relative to the
    largest value: 1 if some of them are in a fluid. If all are, for which the second array is True, it is the change of
    vp. layers : see `layers.own_layers`."""
    found, fluid = np.zeros(mesh.element_count), np.zeros(mesh.element_count, bool)

    def compare(some: slice) -> None:
        vertices = mesh.element_vertices(some)
        center = vertices.mean(axis=1, keepdims=True)
        places = np.concatenate([vertices + 1e-6 * (center - vertices), center], axis=1)
        vp, vs, _ = medium.sample(*np.moveaxis(places, -1, 0), *(layer[some, None] for layer in layers))
        fluid[some] = (vs == 0.0).all(axis=1)
        speed = np.where(fluid[some, None], vp, vs)
        found[some] = 1.0 - speed.min(axis=1) / speed.max(axis=1)

    over_parts(compare, len(found), PART, None if medium.concurrent else 1)
    return found, fluid


def unresolved_topography(experiment: Experiment, points: np.ndarray, ranks: Ranks) -> list[str]:
    """Return a warning if the upper faces of the elements are far from the topography; all ranks call it together.

    Parameters
    ----------
    points : positions (n, 3), m, on these faces, of this rank.
    """
    surface = experiment.domain.surface
    if surface is None:
        return []
    return _unresolved(experiment, points, surface, "domain.topography", ranks)


def unresolved_interfaces(
    experiment: Experiment, plan: ElementPlan, faces_of: Callable, points_of: Callable
) -> list[str]:
    """Return a warning for each surface of a layer from which the faces of elements on it are far (collective call).

    Parameters
    ----------
    faces_of : function of a mesh and the layer of each element -> elements and local faces (2, n) below other layers.
    points_of : function of a mesh and such faces -> positions (m, 3), m.
    """
    medium, domain, found = experiment.material.medium, experiment.domain, []
    layers = own_layers(experiment, plan.mesh)
    if not layers or not isinstance(medium, BoundedLayers):
        return []
    faces = faces_of(plan.mesh, layers[0])
    for index in range(1, medium.count):
        if not callable(medium.tops[index]):
            continue
        points = plan.from_mesh(points_of(plan.mesh, faces[:, layers[0][faces[0]] == index]))
        (x_low, x_high), (y_low, y_high) = domain.x, domain.y
        x, y, _ = points.T
        inside = (x >= x_low) & (x <= x_high) & (y >= y_low) & (y <= y_high)

        def height(x: np.ndarray, y: np.ndarray, index: int = index) -> np.ndarray:
            return np.asarray(list(medium.boundaries(x, y))[index])

        key = f"material.layers[{index}].top"
        found += _unresolved(experiment, points[inside], height, key, plan.ranks)
    return found


def _unresolved(experiment: Experiment, points: np.ndarray, surface: Callable, key: str, ranks: Ranks) -> list[str]:
    wavelength = experiment.shortest_wavelength
    if wavelength is None:
        return []
    error = np.abs(points[:, 2] - surface(points[:, 0], points[:, 1]))
    worst = int(error.argmax()) if error.size else 0
    own = (float(error[worst]), *points[worst, :2].tolist()) if error.size else (0.0, 0.0, 0.0)
    largest, x, y = max(ranks.all_gather(own))
    if largest <= SURFACE_ERROR * wavelength:
        return []
    place = f"x = {round(x, 1):g} m, y = {round(y, 1):g} m"
    if experiment.domain.chunk is not None:
        place = "longitude {:.4g}, latitude {:.4g}".format(*experiment.domain.to_geographic(x, y))
    return [
        f"{key}: the elements do not resolve it: they differ from it by up to {largest:.3g} m (at {place}), "
        f"{largest / wavelength:.2g} of the shortest wavelength; estimated error of the seismograms near it "
        f"{min(1.0, SURFACE_FACTOR * largest / wavelength):.0%}. Use smaller elements "
        "(solver.points_per_wavelength, spacing), or a smoother surface."
    ]


def faces_of_hexahedra(mesh: Mesh, layer: np.ndarray) -> np.ndarray:
    """Return elements and local faces (2, n) between an element and one of a layer above; layer : (elements,)."""
    numbers = number_faces(mesh.elements)[0].ravel()
    order = np.argsort(numbers, kind="stable")
    first = np.flatnonzero(numbers[order[1:]] == numbers[order[:-1]])
    pairs = np.stack([order[first], order[first + 1]])
    pairs = np.concatenate([pairs, pairs[::-1]], axis=1)
    lower = pairs[0, layer[pairs[0] // 6] > layer[pairs[1] // 6]]
    return np.stack([lower // 6, lower % 6])


def faces_of_tetrahedra(mesh: Mesh, layer: np.ndarray) -> np.ndarray:
    """Return elements and local faces (2, n) between an element and one of a layer above; layer : (elements,)."""
    across = mesh.neighbors // 4
    there = (mesh.neighbors >= 0) & (across < len(layer))  # without those of other ranks
    return np.stack(np.nonzero(there & (layer[:, None] > layer[np.where(there, across, 0)])))


def _upper_faces(mesh: Mesh) -> np.ndarray:
    """Return elements and local faces (2, n) at the upper side of a generated mesh; some ranks have none."""
    return mesh.boundaries.get("z_max", np.zeros((0, 2), np.int64)).T


def upper_points_of_hexahedra(mesh: Mesh, faces: np.ndarray | None = None) -> np.ndarray:
    """Return positions (n, 3), m, on faces of hexahedra: those that form the upper side of a generated mesh, or the
    given elements and local faces (2, n)."""
    line = np.linspace(-1.0, 1.0, FACE_POINTS)
    elements, local = _upper_faces(mesh) if faces is None else faces
    found = [np.zeros((0, 3))]
    for face in np.unique(local):
        axis, end = divmod(int(face), 2)
        places = np.insert(np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2), axis, 2.0 * end - 1.0, axis=1)
        nodes = mesh.element_nodes(elements[local == face])
        found.append((shape_tables(places, nodes.shape[1])[0] @ nodes).reshape(-1, 3))
    return np.concatenate(found)


def upper_points_of_tetrahedra(mesh: Mesh, faces: np.ndarray | None = None) -> np.ndarray:
    """Return positions (n, 3), m, on faces of tetrahedra; faces : as in `upper_points_of_hexahedra`."""
    elements, local = _upper_faces(mesh) if faces is None else faces
    corners = mesh.vertices[mesh.elements[elements[:, None], TETRAHEDRON_FACES[local]]]
    steps = np.arange(FACE_POINTS) / (FACE_POINTS - 1)
    weights = [(a, b, 1.0 - a - b) for a in steps for b in steps if a + b <= 1.0 + 1e-9]
    return np.einsum("wc,fcx->fwx", np.array(weights), corners).reshape(-1, 3)


COEFFICIENT = 0.45
LARGEST_ERROR = 0.05  # of a seismogram, up to which there is no warning

Bounds = Sequence[tuple[float, float]]


def stacey_warnings(plan: ElementPlan, experiment: Experiment) -> list[str]:
    """Return the warning of a spectral-element plan about Stacey's condition (collective call)."""
    if plan.layer is not None or not plan.mesh_statistics.faces["absorbing"]:
        return []
    return _without_layer(plan, experiment, "boundaries.absorption: stacey")


def flux_warnings(plan: ElementPlan, experiment: Experiment) -> list[str]:
    """Return the warning of a discontinuous Galerkin plan about its absorbing faces (collective call)."""
    if not plan.mesh_statistics.faces["absorbing"]:
        return []
    if plan.mesh_ends is not None:
        return []
    if plan.mesh_statistics.layer:
        above = plan.domain.surface is not None and plan.face_kinds["z_max"] == "absorbing"
        faces = dict.fromkeys(plan.face_kinds, "free") | {"z_max": "absorbing" if above else "free"}
        condition = "boundaries.top: absorbing (above a topography by the flux at the faces, without a layer)"
        return reflection_warnings(experiment, plan.bounds, faces, condition)
    return _without_layer(plan, experiment, "boundaries.absorption: stacey (by the flux at the faces)")


def _without_layer(plan: ElementPlan, experiment: Experiment, condition: str) -> list[str]:
    """Return the warnings of a plan whose absorbing faces have no layer, and why an imported mesh has none."""
    remedy = "" if plan.no_layer or plan.curvature is not None else "absorption: layer, or "
    found = reflection_warnings(experiment, plan.bounds, plan.face_kinds, condition, remedy)
    return [plan.no_layer, *found] if plan.no_layer else found


def reflection_warnings(
    experiment: Experiment, bounds: Bounds, faces: dict[str, str] | None, condition: str, remedy: str = ""
) -> list[str]:
    """Return a warning if absorbing faces with a first-order condition are too near to sources and receivers.

    Parameters
    ----------
    bounds : ends of the mesh along x, y, z, m.
    faces : kind of each face of a box; None for an imported mesh, whose absorbing faces are taken for its sides and
        its bottom.
    condition : key and name of the condition, the subject of "reflects".
    remedy : what else helps, a clause that ends with "or ".
    """
    planes = [
        (axis, end, f"{'xyz'[axis]}_{side}")
        for axis, pair in enumerate(bounds)
        for side, end in zip(("min", "max"), pair, strict=True)
        if (faces or {"z_max": "free"}).get(f"{'xyz'[axis]}_{side}", "absorbing") == "absorbing"
    ]
    sources = experiment.acquisition.sources
    if not planes or not sources:
        return []
    wavelength = _wavelength(experiment)
    chunk = experiment.domain.chunk
    source = np.mean([one.position for one in sources], axis=0)
    receivers = experiment.acquisition.receivers
    positions = np.array([one.position for one in receivers], float).reshape(-1, 3) if receivers else source[None]
    distances = _distances(positions, planes, chunk)
    reach = distances.min(axis=1) + _distances(source[None], planes, chunk).min()
    errors = np.minimum(1.0, COEFFICIENT * wavelength / np.maximum(reach, 1e-9))
    longest = _longest_path(experiment)
    errors[_shortest_reflections(experiment.domain, source, positions, planes) >= longest] = 0.0
    worst = int(errors.argmax())
    if errors[worst] <= LARGEST_ERROR:
        return []
    where = f"at {receivers[worst].name}" if receivers else "at the source"
    nearest = f"{_meters(distances[worst].min(), 4)} from {planes[int(distances[worst].argmin())][2]}"
    outwards = 0.5 * (min(COEFFICIENT / LARGEST_ERROR * wavelength, longest) - reach[worst])
    return [
        f"{condition} reflects part of the waves; estimated error of the seismograms, within a factor of 3: "
        f"{_percent(np.median(errors))} (median), {_percent(errors[worst])} {where}, {nearest} (wavelength "
        f"{_meters(wavelength, 4)}). Use {remedy}faces {_meters(outwards, 2)} further away for an error below "
        f"{_percent(LARGEST_ERROR)}."
    ]


def _percent(error: float) -> str:
    return f"{float(f'{100.0 * error:.2g}'):g}%"


def _meters(length: float, digits: int) -> str:
    return f"{float(f'{length:.{digits}g}'):g} m"


def _distances(
    positions: np.ndarray, planes: Sequence[tuple[int, float, str]], chunk: Chunk | None = None
) -> np.ndarray:
    """Return the distances (positions, planes), m; those of the sides of a chunk, planes through the center of the
    Earth, along arcs of equal depth."""
    found = np.stack([np.abs(positions[:, axis] - end) for axis, end, _ in planes], axis=1)
    if chunk is None:
        return found
    radius = RADIUS + positions[:, 2]
    ups = chunk.map.directions(*np.moveaxis(positions[:, :2], -1, 0)) @ chunk.map.frame.T
    for column, (axis, end, _) in enumerate(planes):
        if axis < 2:
            sine = ups[:, axis] * np.cos(end / RADIUS) - ups[:, 2] * np.sin(end / RADIUS)
            found[:, column] = radius * np.abs(np.arcsin(sine))
    return found


def _wavelength(experiment: Experiment) -> float:
    """Return the wavelength, m, of S waves at the source, at the frequency where its spectrum has fallen to 5%."""
    sources = experiment.acquisition.sources
    frequency = float(np.median([one.time_function.maximum_frequency() for one in sources]))
    frequency = min(frequency, experiment.resolved_frequency or frequency)
    if experiment.material.groups is not None:  # only the mesh defines their location
        return experiment.material_extremes["slowest"] / frequency
    vp, vs, _ = experiment.material.sample(*np.array([one.position for one in sources], float).T)
    return float(np.median(np.where(vs > 0.0, vs, vp))) / frequency


def _longest_path(experiment: Experiment) -> float:
    """Return the longest path, m, that a wave can travel from a source before the end of the run."""
    start = min(one.time_function.support()[0] for one in experiment.acquisition.sources)
    return (experiment.duration - max(0.0, start)) * experiment.material_extremes["vp_max"]


def _shortest_reflections(
    domain: Domain, source: np.ndarray, positions: np.ndarray, planes: Sequence[tuple[int, float, str]]
) -> np.ndarray:
    """Return the length (positions,), m, of the shortest path from the source by way of one of the faces."""
    shortest = np.full(len(positions), np.inf)
    for axis, end, _ in planes:
        image = source.copy()
        image[axis] = 2.0 * end - source[axis]
        paths = np.linalg.norm(domain.cartesian(positions) - domain.cartesian(image), axis=1)
        shortest = np.minimum(shortest, paths)
    return shortest
