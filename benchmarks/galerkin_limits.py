"""Largest stable time step of discontinuous Galerkin, relative to the estimate of `stability.stable_time_steps`.

    python benchmarks/galerkin_limits.py [--orders 2 3 ...] [--device cuda] [--processes 8] [--shapes NAME ...]
        [--media NAME ...] [--json FILE]

A step of the program's own kernels is repeated from noise, in double precision. The step is stable if the energy
decreases after the first steps; the limit follows from a bisection, to 0.5%. Meshes are regular lattices (periodic, or
with free, rigid or absorbing faces), flattened, elongated, sheared and perturbed ones, boxes as they are generated,
boxes of one cube, graded boxes, and a mesh cut along a sphere. Media are homogeneous solids of various vp / vs, a
fluid, checkerboards of two impedances with the same velocities, and random solids, fluids and anisotropic media.

A value below 1 means that the estimate is unstable.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from jittered_boxes import jittered, periodic_box
from lithowave.backends import make_backend
from lithowave.mesh.hexahedral_box import graded_box, layered_box
from lithowave.mesh.level_sets import cut_along
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.mesh.tetrahedral_boxes import moved, split_hexahedra, tetrahedral_box
from lithowave.solvers.discontinuous_galerkin.materials import ElementMaterials
from lithowave.solvers.discontinuous_galerkin.reference import ORDERS
from tetrahedra_plans import energy, make_solver, noise, rocks, small_plan

STEPS, LATE, TOLERANCE, ROUNDING = 300, 60, 1.005, 1e-6
LENGTHS = [(1, 1, 0.5), (1, 1, 0.2), (1, 1, 0.05), (1, 0.3, 0.3), (1, 0.5, 0.2), (1, 1, 2)]
RATIOS = {"vp/vs 1.2": 1.2, "vp/vs 1.5": 1.5, "vp/vs 1.73": math.sqrt(3), "vp/vs 2": 2.0, "vp/vs 2.5": 2.5,
          "vp/vs 3": 3.0, "vp/vs 5": 5.0, "fluid": math.inf}  # fmt: skip


def lattice(cut: str, **more: Any) -> TetrahedralMesh:
    """Return a periodic box of cubes, or of cuboids."""
    return periodic_box((4, 4, 4) if cut == "five" else (3, 3, 3), cut=cut, **more).local()


def sheared(mesh: TetrahedralMesh, seed: int) -> TetrahedralMesh:
    """Return the mesh after a random linear map."""
    matrix = np.eye(3) + 0.4 * np.random.default_rng(seed).normal(size=(3, 3))
    matrix[0] *= np.sign(np.linalg.det(matrix))
    return moved(mesh, mesh.vertices @ matrix.T)


def box(counts: tuple[int, int, int], cut: str, height: float = 1.0, jitter: float = 0.0, slope: float = 0.0) -> Any:
    """Return a box with boundaries. height : of the cells. slope : of their horizontal faces."""
    x, y, z = counts
    cubes = split_hexahedra(layered_box((0, x), (0, y), [0, -z * height], [(1, height)]), cut)
    mesh = jittered(cubes, jitter) if jitter else cubes
    return moved(mesh, mesh.vertices + np.outer(slope * mesh.vertices[:, 0], [0, 0, 1])).local()


def cut_sphere() -> TetrahedralMesh:
    """Return a box with a ball in it, whose surface cuts off thin elements."""
    cubes = tetrahedral_box((-2, 2), (-2, 2), (-2, 2), 1.0)
    return cut_along(cubes, lambda x, y, z: np.sqrt(x**2 + y**2 + z**2) - 1.3)[0].local()


PERIODIC: dict[str, Callable[[], TetrahedralMesh]] = {
    **{cut: partial(lattice, cut) for cut in ("five", "six")},
    **{
        f"{cut} {'x'.join(map(str, lengths))}": partial(lattice, cut, lengths=lengths)
        for cut, lengths in itertools.product(("five", "six"), LENGTHS)
    },
    **{
        f"{cut} sheared {seed}": partial(lambda cut, seed: sheared(lattice(cut), seed), cut, seed)
        for cut, seed in itertools.product(("five", "six"), range(4))
    },
    **{f"six jittered {jitter}": partial(lattice, "six", jitter=jitter) for jitter in (0.1, 0.2)},
}
BOUNDED: dict[str, Callable[[], TetrahedralMesh]] = {
    "twelve": lambda: box((2, 2, 2), "twelve"),
    "twelve flat": lambda: box((2, 2, 2), "twelve", 0.4),
    "twelve flatter": lambda: box((2, 2, 2), "twelve", 0.15),
    "twelve steep": lambda: box((2, 2, 2), "twelve", slope=0.6),
    "twelve jittered": lambda: box((2, 2, 2), "twelve", jitter=0.1),
    "one cube, five": lambda: box((1, 1, 1), "five"),
    "one cube, six": lambda: box((1, 1, 1), "six"),
    "one plate, six": lambda: box((1, 1, 1), "six", 0.2),
    "one cube, twelve": lambda: box((1, 1, 1), "twelve"),
    "two sizes": lambda: split_hexahedra(layered_box((0, 2), (0, 2), [0, -0.5, -1.5], [(1, 0.25), (1, 1)])).local(),
    "graded": lambda: split_hexahedra(graded_box((0, 2), (0, 2), [0, -1, -3], [0.5, 1.0]).build()).local(),
    "cut sphere": cut_sphere,
}
FACES = {"free": ("free",), "rigid": ("rigid",), "absorbing": ("absorbing",)}


def medium(name: str, count: int) -> ElementMaterials:
    """Return the materials of the elements."""
    ones, random = np.ones(count), np.random.default_rng(1)
    if name in RATIOS:
        return ElementMaterials.isotropic(ones, ones / RATIOS[name], ones)
    if name.startswith("checkerboard"):  # of densities
        return ElementMaterials.isotropic(ones, ones / 2, np.where(random.random(count) < 0.5, 1.0, float(name[13:])))
    return rocks(count, 0.3, 0.4 if name == "anisotropic" else 0.0)


MEDIA = [*RATIOS, "checkerboard 3", "checkerboard 30", "random", "anisotropic"]


@cache
def backend_of(device: str) -> Any:
    """Return the backend of this process."""
    return make_backend(device, "double", 1 if device == "cpu" else None)


def is_stable(
    mesh: TetrahedralMesh, materials: ElementMaterials, order: int, kinds: Any, step: float, device: str
) -> bool:
    """Return True if the energy decreases after many steps. step : over the estimated limit."""
    plan = small_plan(mesh, materials, order, "double", kinds=kinds, step=step)
    solver = make_solver(plan, backend_of(device))
    solver.set_coefficients(noise(plan))
    energies = []
    for number in range(STEPS):
        solver.advance(number)
        if number in (STEPS - LATE, STEPS - 1):
            with np.errstate(all="ignore"):
                energies.append(energy(plan, solver.host_coefficients().astype(float)))
        elif number % 50 == 0 and not solver.largest_velocity() < 1e6:
            return False
    return bool(np.isfinite(energies).all() and energies[1] <= (1 + ROUNDING) * energies[0])


def limit(case: tuple[str, str, str, int], device: str) -> float:
    """Return the largest stable step over the estimated limit of a shape, its faces, a medium and an order."""
    shape, faces, name, order = case
    mesh = (PERIODIC | BOUNDED)[shape]()
    stable = partial(is_stable, mesh, medium(name, mesh.element_count), order, FACES[faces], device=device)
    low, high = 0.97, 1.05
    while not stable(low):
        low, high = 0.9 * low, low
    while stable(high):
        low, high = high, 1.15 * high
    while high > TOLERANCE * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


def main() -> None:
    """Measure all cases, and print them with the extremes of each order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", nargs="+", type=int, default=ORDERS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--shapes", nargs="+", default=[*PERIODIC, *BOUNDED])
    parser.add_argument("--media", nargs="+", default=MEDIA)
    parser.add_argument("--json", type=Path, help="file for the records")
    chosen = parser.parse_args()
    cases = [
        (shape, faces, name, order)
        for order, shape, name in itertools.product(chosen.orders, chosen.shapes, chosen.media)
        for faces in (FACES if shape in BOUNDED else ["free"])
    ]
    records = []
    with ProcessPoolExecutor(chosen.processes, get_context("spawn")) as pool:
        for case, found in zip(cases, pool.map(partial(limit, device=chosen.device), cases), strict=True):
            shape, faces, name, order = case
            records.append({"order": order, "shape": shape, "faces": faces, "medium": name, "limit": found})
            print(f"order {order}  {shape:16}  {faces:9}  {name:15}  {found:.3f}", flush=True)
            if chosen.json is not None:
                chosen.json.write_text(json.dumps(records, indent=0) + "\n", encoding="utf-8")
    for order in chosen.orders:
        values = [record["limit"] for record in records if record["order"] == order]
        print(f"order {order}: {min(values):.3f} to {max(values):.3f}, median {np.median(values):.3f}")


if __name__ == "__main__":
    main()
