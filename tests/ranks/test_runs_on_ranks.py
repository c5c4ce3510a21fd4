"""Runs on several ranks give the results of one, with all methods, and are resumed on other numbers of ranks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from gmsh_files import write_gmsh as write_hexahedra
from jittered_boxes import jittered
from lithowave.mesh import layered_box, tetrahedral_box, write_gmsh
from mpi_runs import largest_difference, on_ranks, write_description
from rank_models import ATTENUATING, BASIN, DG, ELEMENTS, FD, LAYERED_ANISOTROPIC, LOSSY, ROCK, SE, SOFT, WATER
from slow_variants import slow_except
from verification_tools import relative_l2

pytestmark = pytest.mark.mpi
DESCRIPTIONS = {FD: BASIN, SE: ELEMENTS, DG: WATER}
LAYER = {"boundaries__absorption": "layer", "boundaries__layer": {"elements": 2}}
SNAPSHOTS = 1e-7  # of hexahedra, whose shared points add shares: they are written in single precision
SURFACES = {"free": ["z_max"], "absorbing": ["x_min", "x_max", "y_min", "y_max"], "bottom": ["z_min"]}
SOFT_GROUND = {"layers": [BASIN["material"]["layers"][0] | {"vs": 600}, BASIN["material"]["layers"][1]]}
ANELASTIC = {
    "material": {"layers": [one | {"qp": 60, "qs": 30} for one in BASIN["material"]["layers"]],
                 "attenuation": {"band": [0.05, 5.0]}},
    "duration": 0.3,
}  # fmt: skip


def hill(folder: Path) -> dict[str, Any]:
    """A topography, and receivers on it."""
    x = np.linspace(-1300, 1300, 27)
    height = 60 * np.exp(-(x**2 + (x[:, None] - 100) ** 2) / 450.0**2)
    np.savez(folder / "hill.npz", x=x, y=x, elevation=height, axes=["y", "x"])
    receivers = [{"name": "A", "position": [330, 250]}, {"name": "B", "position": [0, 0]}]
    return {"domain__topography": str(folder / "hill.npz"), "receivers": receivers}


def radial(folder: Path) -> dict[str, Any]:
    """Transversely isotropic moduli at every point of the upper layer, in the absorbing layer too, and attenuation."""
    rows = ["0 2400 2500 1200 1300 2000 0.95 200 40", "300 2500 2600 1250 1300 2000 0.95 200 40"]
    rows += ["300 5000 5000 2900 2900 2600 1 300 60", "1600 5200 5200 3000 3000 2700 1 300 60"]
    header = "depth(m) vpv(m/s) vph(m/s) vsv(m/s) vsh(m/s) rho(kg/m^3) eta qkappa qmu"
    (folder / "layers.txt").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return LOSSY | {
        "material": {"earth": {"model": str(folder / "layers.txt"), "anisotropy": True}},
        "solver__max_frequency": 2.5, "boundaries__absorption": "layer", "duration": 0.4,
    }  # fmt: skip


def hexahedra(folder: Path) -> dict[str, Any]:
    """A mesh file, which the first rank reads and distributes."""
    pytest.importorskip("pymetis")
    mesh = layered_box((-1200, 1200), (-1200, 1200), [0.0, -300.0, -1600.0], [(300, 300), (300, 300)])
    path = write_hexahedra(folder / "layers.msh", mesh, ["soft", "rock"], SURFACES)
    solver = {"method": SE, "mesh": str(path), "degree": 3}
    return {"solver": solver, "material": {"groups": {"soft": SOFT, "rock": ROCK}}}


def hexahedra_in_a_layer(folder: Path) -> dict[str, Any]:
    """A mesh file, around which the first rank adds an absorbing layer."""
    return hexahedra(folder) | LAYER | {"boundaries__absorption": "auto", "duration": 0.3}


def tetrahedra(folder: Path) -> dict[str, Any]:
    """A mesh file, which the first rank reads and distributes."""
    box = jittered(tetrahedral_box((-600, 600), (-600, 600), (-800, 0), 200.0, interfaces=(-400.0,)), 0.2)
    write_gmsh(folder / "box.msh", replace(box, groups=("soil", "rock")))
    rocks = {"soil": {"vp": 3000, "vs": 1600, "rho": 2300}, "rock": {"vp": 5000, "vs": 2900, "rho": 2600}}
    return {
        "material": {"groups": rocks}, "domain__z": [-800, 0], "boundaries__bottom": "rigid",
        "solver__mesh": str(folder / "box.msh"), "solver__max_frequency": 2.5,
        "solver__points_per_wavelength": None,
        "sources": WATER["sources"][:1], "receivers": WATER["receivers"][:3],
    }  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A run on several ranks.

    changes : of the description of the method, or a function that writes files. limit : of the difference from one
    rank; 0 means the same bits. threads : of each rank. usual : False for those that run with --all only.
    """

    method: str
    ranks: int
    changes: dict[str, Any] | Callable[[Path], dict[str, Any]] = field(default_factory=dict)
    limit: float = 0.0
    threads: int = 1
    usual: bool = False


CASES = {
    # Velocities in the layers are smoothed across the sides between ranks.
    "grid, threads, soft ground": Case(FD, 2, {"material": SOFT_GROUND}, threads=2, usual=True),
    "grid, threads": Case(FD, 3, threads=2),
    "grid on one rank, threads": Case(FD, 1, threads=4),
    "grid on many ranks": Case(FD, 7),
    "grid, parts in depth": Case(FD, 4, {"compute__parts": [1, 2, 2]}, usual=True),
    "grid, order 2": Case(FD, 4, {"solver__order": 2, "compute__precision": "double", "duration": 0.3}, 1e-12),
    "grid, order 8": Case(FD, 4, {"solver__order": 8, "compute__precision": "double", "duration": 0.3}, 1e-12),
    "grid, rigid sides": Case(FD, 4, {"boundaries__sides": "rigid", "duration": 0.3}),
    "grid, soft ground": Case(FD, 3, {"material": SOFT_GROUND}),
    # Mechanisms follow the global grid, and memory variables in ghost layers those of their owners.
    "grid, coarse attenuation": Case(FD, 3, ANELASTIC | {"solver__memory_variables": "coarse"}, usual=True),
    "grid, full attenuation": Case(FD, 3, ANELASTIC | {"solver__memory_variables": "full"}),
    "hexahedra": Case(SE, 7, limit=SNAPSHOTS),
    "hexahedra, layer": Case(SE, 4, LAYER, SNAPSHOTS),
    "hexahedra, rigid sides": Case(SE, 4, {"boundaries__sides": "rigid", "solver__max_frequency": 2.5}, SNAPSHOTS),
    # Forces at a source cancel to rounding, and what is left radiates.
    "hexahedra, single": Case(SE, 4, {"compute__precision": "single", "compute__deterministic": True}, 3e-3),
    "hexahedra, attenuation": Case(SE, 4, LOSSY, SNAPSHOTS),
    "hexahedra, topography": Case(SE, 4, hill, SNAPSHOTS),
    "hexahedra, radial model": Case(SE, 3, radial, SNAPSHOTS),
    "hexahedra of a file": Case(SE, 3, hexahedra, SNAPSHOTS),
    "hexahedra of a file, layer": Case(SE, 2, hexahedra_in_a_layer, SNAPSHOTS),
    "tetrahedra in clusters": Case(DG, 7, {"duration": 0.08}, 1e-12),
    "tetrahedra, attenuation": Case(
        DG, 3, ATTENUATING | {"boundaries__absorption": "layer", "duration": 0.08}, 1e-12
    ),
    "tetrahedra, anisotropic": Case(DG, 4, LAYERED_ANISOTROPIC | {"compute__precision": "single"}, 1e-5),
    "tetrahedra of a file": Case(DG, 3, tetrahedra, 1e-12, usual=True),
}


def changes_of(case: Case, folder: Path) -> dict[str, Any]:
    return case.changes(folder) if callable(case.changes) else case.changes


def run(folder: Path, method: str, size: int, device: str = "plain", threads: int = 1, **changes: Any) -> Path:
    if method == FD:
        changes["compute__threads"] = threads
    description = write_description(folder / f"ranks_{size}.yaml", DESCRIPTIONS[method], **changes)
    target = folder / f"run_{size}_{threads}"
    on_ranks(size, "run", str(description), "--output", str(target), device=device, threads=threads)
    return target


def assert_close(folder: Path, reference: Path, limit: float) -> None:
    assert largest_difference(folder, reference) <= limit
    data, expected = (lw.load_seismograms(one).data for one in (folder, reference))
    assert np.abs(expected).max() > 0
    assert relative_l2(data, expected) <= (1e-11 if limit == SNAPSHOTS else limit)


@pytest.mark.parametrize("name", slow_except([name for name, case in CASES.items() if case.usual], CASES))
def test_several_ranks_give_the_results_of_one(tmp_path: Path, name: str) -> None:
    """Grids and tetrahedra compute every point from the same numbers in the same order; hexahedra add shares."""
    case = CASES[name]
    changes = changes_of(case, tmp_path)
    one, several = (
        run(tmp_path, case.method, size, threads=threads, **changes)
        for size, threads in ((1, 1), (case.ranks, case.threads))
    )
    assert json.loads((several / "run.json").read_text())["threads"] == case.threads
    assert_close(several, one, case.limit)


RESUMED = {  # ranks before and after a rank dies
    "grid": (FD, 3, 1, {}, 0.0),
    "grid on more ranks": (FD, 1, 2, {}, 0.0),
    "grid on fewer ranks": (FD, 4, 3, {}, 0.0),
    "hexahedra": (SE, 3, 2, LAYER | {"duration": 0.4}, SNAPSHOTS),
    "hexahedra, attenuation": (SE, 1, 4, LOSSY | {"duration": 0.4}, SNAPSHOTS),
    "hexahedra, radial model": (SE, 2, 1, radial, SNAPSHOTS),
}


@pytest.mark.parametrize("name", slow_except(["grid"], RESUMED))
def test_a_restart_on_another_number_of_ranks(tmp_path: Path, name: str) -> None:
    """A run that dies after a checkpoint is resumed with other parts."""
    method, before, after, changes, limit = RESUMED[name]
    changes = changes(tmp_path) if callable(changes) else changes
    interval, end = (0.35, 0.6) if method == FD else (0.2, 0.3)
    reference = run(tmp_path, method, 1, **changes)
    checkpoint = {"output__checkpoint": {"interval": interval}}
    description = write_description(tmp_path / "dying.yaml", DESCRIPTIONS[method], **changes, **checkpoint)
    folder = tmp_path / "dying"
    on_ranks(before, "run", str(description), "--output", str(folder), device=f"dies at {end}", status=9)
    on_ranks(after, "restart", str(folder))
    assert_close(folder, reference, limit)


GRID = {
    "duration": 0.12, "solver__spacing": 100, "boundaries__layer": {"cells": 3},
    "sources": [BASIN["sources"][0] | {"position": [2010, 1710, -500]}],
}  # fmt: skip
BOX = {"x": [0, 4000], "y": [0, 3400], "z": [-1800, 0]}
FEW = {"duration": 0.1, "solver__max_frequency": 2.5, "output__snapshots": []}
EMULATED = {
    "two passes": (FD, GRID | {"domain": BOX}, {"solver__passes": "two"}, 1e-5),
    "one pass": (FD, GRID | {"domain": BOX | {"x": [0, 10_000]}}, {"solver__passes": "one"}, 1e-5),
    "hexahedra": (SE, FEW, {}, SNAPSHOTS),
}


@pytest.mark.parametrize("name", slow_except(["two passes"], EMULATED))
def test_emulated_devices(tmp_path: Path, name: str) -> None:
    """The kernels of a CUDA device with messages through main memory, against the CPU."""
    method, changes, on_device, limit = EMULATED[name]
    one = run(tmp_path, method, 1, **changes)
    two = run(tmp_path, method, 2, "emulated", compute__backend="auto", **changes, **on_device)
    assert_close(two, one, limit)


@pytest.mark.gpu
@pytest.mark.parametrize("transport", ["peer", "nccl", "host"])
def test_two_devices(tmp_path: Path, transport: str) -> None:
    """The same bits on one CUDA device and on two, whichever way the messages go."""
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two CUDA devices")
    one = run(tmp_path, FD, 1, compute__backend="cuda")
    two = run(tmp_path, FD, 2, compute__backend="cuda", compute__transport=transport)
    assert json.loads((two / "run.json").read_text())["transport"] == transport
    assert largest_difference(two, one) == 0.0


OUTSIDE = {
    "hexahedra": (
        SE, hexahedra,
        {"receivers": [{"name": "FAR", "position": [1400, 0, -100]}], "domain__x": [-1200, 1500]},
        "FAR: x = 1400 m is outside the mesh",
    ),
    "hexahedra, group": (
        SE, hexahedra, {"material": {"groups": {"soft": SOFT}}}, "there is no material for the group 'rock'"
    ),
    "tetrahedra": (
        DG, tetrahedra, {"receivers": [{"name": "far", "position": [0, 0, -1100]}], "domain__z": [-1200, 0]},
        "z = -1100 m is outside the mesh",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_does_not_fit_a_mesh_file_is_refused_once(tmp_path: Path, name: str) -> None:
    method, mesh, changes, words = OUTSIDE[name]
    description = write_description(tmp_path / "run.yaml", DESCRIPTIONS[method], **mesh(tmp_path) | changes)
    text = on_ranks(3, "run", str(description), "--output", str(tmp_path / "out"), status=2)
    assert text.count(words) == 1
