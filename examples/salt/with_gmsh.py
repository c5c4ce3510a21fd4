"""Mesh the model of this example with Gmsh: element sizes are proportional to the minimum wave speed, also in the salt.

Gmsh (GPL) is not part of lithowave: ``pip install gmsh``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geometry
import numpy as np

from lithowave.mesh.tetrahedra import TetrahedralMesh, make_mesh

STEP = 450.0  # m, between the control points of an interface
BEYOND = 900.0  # m, that interfaces reach beyond the box
SECTIONS, POINTS = 24, 40  # of the salt, and of the outline of each
SMALLEST = 500.0  # m, radius of the first and of the last section
TETRAHEDRON = 4  # Gmsh's number of the kind
GRID = (225.0, 225.0, 100.0)  # m, of the sizes given to Gmsh
FILLED = 6.9  # edge cubed over the mean volume of Gmsh's elements; 8.5 if all were regular
TOLERANCE, TRIALS = 0.03, 3


def gmsh_mesh(elements: int) -> TetrahedralMesh:
    """Return a mesh with approximately the given number of elements. SystemExit: Gmsh is not installed."""
    try:
        import gmsh
    except ImportError:
        raise SystemExit("--gmsh needs the package gmsh: pip install gmsh") from None
    axes, speed = slowest_speeds()
    volume = np.prod([axis[-1] - axis[0] for axis in axes])
    periods = np.cbrt(FILLED * volume * (1 / speed**3).mean() / elements)  # size over speed, s
    found = []
    gmsh.initialize()
    try:
        gmsh.option.setNumber("General.Verbosity", 2)
        build(gmsh)
        for _ in range(TRIALS):
            found.append(meshed(gmsh, axes, periods * speed))
            count = found[-1].element_count
            if abs(count / elements - 1) < TOLERANCE:
                break
            periods *= np.cbrt(count / elements)
    finally:
        gmsh.finalize()
    return min(found, key=lambda mesh: abs(mesh.element_count - elements)).local()


def materials(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the index of the material at points (n,)."""
    layers = range(1, len(geometry.LAYERS))
    found = sum((z < geometry.interface(number, x, y)).astype(np.int64) for number in layers)
    return np.where(geometry.salt(x, y, z) < 0, len(geometry.LAYERS), found)


def slowest_speeds() -> tuple[list[np.ndarray], np.ndarray]:
    """Return the minimum wave speed on a grid, [x, y, z], m/s, and the axes of the grid, m."""
    ends = (geometry.X, geometry.Y, (geometry.BOTTOM, 0.0))
    axes = [np.linspace(*end, round((end[1] - end[0]) / step) + 1) for end, step in zip(ends, GRID, strict=True)]
    places = np.meshgrid(*axes, indexing="ij")
    speeds = np.array(list(geometry.SLOWEST.values()))
    numbers = materials(*(place.ravel() for place in places))
    return axes, speeds[numbers].reshape(places[0].shape)


def build(gmsh: Any) -> None:
    """Create the box, split by the sea floor and the horizons (B-splines) and by the salt (a solid)."""
    occ = gmsh.model.occ
    extents = [high - low for low, high in (geometry.X, geometry.Y)]
    box = occ.addBox(geometry.X[0], geometry.Y[0], geometry.BOTTOM, *extents, -geometry.BOTTOM)
    tools = [(2, add_interface(occ, number)) for number in range(1, len(geometry.LAYERS))]
    wires = [occ.addWire([add_outline(occ, *line)]) for line in salt_outlines()]
    solid = occ.addThruSections(wires, makeSolid=True)
    occ.fragment([(3, box)], [*tools, *solid])
    occ.synchronize()
    # Remove everything outside the box, and curves and surfaces that belong to no volume.
    kept = set(gmsh.model.getBoundary(gmsh.model.getEntities(3), combined=False, oriented=False))
    loose = [surface for surface in gmsh.model.getEntities(2) if surface not in kept]
    occ.remove(loose, recursive=True)
    occ.synchronize()


def add_interface(occ: Any, number: int) -> int:
    """A B-spline surface, whose control points lie on the interface."""
    x, y = (
        np.arange(low - BEYOND, high + BEYOND + STEP / 2, STEP) for low, high in (geometry.X, geometry.Y)
    )
    grid_x, grid_y = np.meshgrid(x, y)
    places = np.stack([grid_x, grid_y, geometry.interface(number, grid_x, grid_y)], axis=-1).reshape(-1, 3)
    return occ.addBSplineSurface([occ.addPoint(*place) for place in places.tolist()], len(x))


def salt_outlines() -> Iterator[np.ndarray]:
    """Closed lines (3, n), m, around the salt from below, in planes with its tilt."""
    fine = np.linspace(geometry.BOTTOM, 0.0, 4001)
    inside = fine[geometry.squared_radius(fine) > SMALLEST**2]
    middle, half = (inside[0] + inside[-1]) / 2, (inside[-1] - inside[0]) / 2
    angles = np.linspace(0, 2 * np.pi, POINTS, endpoint=False)
    for place in np.linspace(np.pi, 0, SECTIONS):  # closer at the ends, where the salt is round
        level = middle + half * np.cos(place)
        away = np.sqrt(geometry.squared_radius(level)) * geometry.outline(angles)
        middle_x, middle_y = geometry.axis(level)
        x = middle_x + away * np.cos(angles)
        yield np.stack([x, middle_y + away * np.sin(angles), level + geometry.TILT * x])


def add_outline(occ: Any, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> int:
    """A closed spline through points."""
    points = [occ.addPoint(*place) for place in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)]
    return occ.addSpline([*points, points[0]])


def meshed(gmsh: Any, axes: list[np.ndarray], sizes: np.ndarray) -> TetrahedralMesh:
    """The mesh with edges of these sizes [x, y, z], m."""
    gmsh.model.mesh.clear()
    for name in ("MeshSizeExtendFromBoundary", "MeshSizeFromPoints", "MeshSizeFromCurvature"):
        gmsh.option.setNumber(f"Mesh.{name}", 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sizes.txt"
        steps = [axis[1] - axis[0] for axis in axes]
        with path.open("w", encoding="utf-8") as file:
            for line in ([axis[0] for axis in axes], steps, sizes.shape):
                file.write(" ".join(f"{value:.17g}" for value in line) + "\n")
            np.savetxt(file, sizes.reshape(-1, sizes.shape[2]), fmt="%.6g")
        field = gmsh.model.mesh.field.add("Structured")
        gmsh.model.mesh.field.setString(field, "FileName", str(path))
        gmsh.model.mesh.field.setNumber(field, "TextFormat", 1)
        gmsh.model.mesh.field.setAsBackgroundMesh(field)
        gmsh.model.mesh.generate(3)
        gmsh.model.mesh.field.remove(field)
    return arrays(gmsh)


def arrays(gmsh: Any) -> TetrahedralMesh:
    """The mesh that Gmsh has; the material of a volume is that at the middle of most of its elements."""
    tags, places, _ = gmsh.model.mesh.getNodes()
    row = np.zeros(int(tags.max()) + 1, np.int64)
    row[tags] = np.arange(len(tags))
    vertices = places.reshape(-1, 3)
    elements, numbers = [], []
    for _, volume in gmsh.model.getEntities(3):
        rows = row[gmsh.model.mesh.getElementsByType(TETRAHEDRON, volume)[1].astype(np.int64)].reshape(-1, 4)
        votes = np.bincount(materials(*vertices[rows].mean(axis=1).T))
        elements.append(rows)
        numbers.append(np.full(len(rows), votes.argmax()))
    return make_mesh(vertices, np.concatenate(elements), np.concatenate(numbers), groups=tuple(geometry.SLOWEST))
