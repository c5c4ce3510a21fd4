"""Generate the mesh of this example: ``python make_mesh.py`` writes salt.msh to this directory.

    python make_mesh.py --elements 60000       # a coarser mesh
    python make_mesh.py --gmsh                 # mesh the same model with Gmsh, with element sizes by wave speed
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import geometry
import numpy as np

from lithowave.mesh.gmsh_writing import write_gmsh
from lithowave.mesh.hexahedral_box import layered_box
from lithowave.mesh.level_sets import cut_along
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.mesh.tetrahedral_boxes import deformed, split_hexahedra

ELEMENTS = 450_000
TOLERANCE = 0.02  # relative deviation of the number of elements
TRIALS = 6
ORDER = 5  # order for which the resolved frequency is printed
PIECES = 12  # tetrahedra of a cube


def salt_mesh(size: float) -> TetrahedralMesh:
    """Return the mesh from cubes with the edge `size`, m, in the layer with the lowest wave speed.

    The layers are flat while the salt is cut out of them, so that vertices of the horizons can move within the horizons
    to the edge of the salt. Then all layers are deformed.
    """
    speeds = np.array([geometry.SLOWEST[name] for name in geometry.LAYERS])
    thicknesses = -np.diff(geometry.LEVELS)
    counts = np.maximum(1, np.rint(thicknesses / (size * speeds / speeds.min())))
    sizes = [(size, height) for height in thicknesses / counts]
    flat = split_hexahedra(layered_box(geometry.X, geometry.Y, geometry.LEVELS, sizes))
    cut, inside = cut_along(flat, lambda x, y, z: geometry.salt(x, y, z + geometry.lifted(x, y, z)))
    materials = np.where(inside, len(geometry.LAYERS), cut.materials)
    mesh = replace(cut, materials=materials, groups=tuple(geometry.SLOWEST))
    return deformed(mesh, lambda x, y, z: (0.0, 0.0, geometry.lifted(x, y, z))).local()


def sized(elements: int) -> TetrahedralMesh:
    """Return a mesh with approximately the given number of elements."""
    volume = np.prod([high - low for low, high in (geometry.X, geometry.Y, (geometry.BOTTOM, 0.0))])
    size = (PIECES * volume / elements) ** (1 / 3)
    found = []
    for _ in range(TRIALS):
        mesh = salt_mesh(size)
        found.append(mesh)
        if abs(mesh.element_count / elements - 1) < TOLERANCE:
            break
        size *= (mesh.element_count / elements) ** (1 / 3)
    return min(found, key=lambda mesh: abs(mesh.element_count - elements))


def summary(mesh: TetrahedralMesh) -> str:
    """Return the resolved frequency and the limit of the time step as text."""
    slowest, fastest = (np.array(list(speeds.values())) for speeds in (geometry.SLOWEST, geometry.FASTEST))
    edges = np.cbrt(PIECES * mesh.volumes())
    # The largest 1% of the elements are excluded: Gmsh generates a few that are much larger than requested.
    frequency = ORDER * float(np.quantile(slowest[mesh.materials] / edges, 0.01))
    times = 2000 * mesh.insphere_radii() / fastest[mesh.materials]
    counts = zip(mesh.groups, np.bincount(mesh.materials, minlength=len(mesh.groups)), strict=True)
    return (
        f"{mesh.element_count} tetrahedra: {', '.join(f'{name} {count}' for name, count in counts)}\n"
        f"order {ORDER}: 8 points in the shortest wavelength at {frequency / 8:.2f} Hz, 5 at {frequency / 5:.2f} Hz\n"
        f"insphere diameter over vp: {times.min():.2f} ms at least, {np.median(times):.1f} ms in the middle"
    )


def main() -> None:
    """Write the mesh file."""
    parser = argparse.ArgumentParser(description="Make the mesh of the salt example.")
    parser.add_argument("--elements", type=int, default=ELEMENTS, help=f"about so many tetrahedra ({ELEMENTS})")
    parser.add_argument("--gmsh", action="store_true", help="by Gmsh: pip install gmsh")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("salt.msh"), help="file to write")
    arguments = parser.parse_args()
    if arguments.gmsh:
        from with_gmsh import gmsh_mesh

        mesh = gmsh_mesh(arguments.elements)
    else:
        mesh = sized(arguments.elements)
    print(summary(mesh))
    print(write_gmsh(arguments.output, mesh))


if __name__ == "__main__":
    main()
