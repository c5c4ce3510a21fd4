"""The preparation of a run does not depend on the number of threads or the size of the parts."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.backends import CpuBackend
from lithowave.solvers.discontinuous_galerkin import DiscontinuousGalerkinSolver
from lithowave.solvers.discontinuous_galerkin import plan as tetrahedra_plan
from lithowave.solvers.spectral_element import SpectralElementSolver, plan
from small_run import assert_same_bits

SIZES = {  # smaller parts, so that a small mesh has several
    "mesh.hexahedra.PART": 50, "mesh.hexahedral_box.PART": 70, "mesh.hexahedral_box.MOVED_PART": 300,
    "mesh.numbering.CHUNK": 40, "mesh.hexahedral_checks.MEASURED_PART": 30, "mesh.numbering.ROWS": 200,
    "mesh.numbering.VERTICES": 60, "solvers.elements.warnings.PART": 50,
    "solvers.elements.locations.PART": 50, "solvers.spectral_element.element_layout.PART": 2,
    "solvers.spectral_element.element_statistics.PART": 40,
    "solvers.spectral_element.media.PART": 20,
    "solvers.spectral_element.gll.PART": 25, "solvers.spectral_element.materials.PART": 30,
    "solvers.spectral_element.plan.STATISTICS_PART": 60, "solvers.spectral_element.points.PART": 35,
    "solvers.spectral_element.element_layout.ELEMENTS": 30, "solvers.spectral_element.solver.PART": 999,
    "solvers.spectral_element.sources.CHUNK": 55,
}  # fmt: skip


def experiment(folder: Path) -> lw.Simulation:
    """Hills above a medium that varies at every point."""
    x, y = np.linspace(0, 600, 31), np.linspace(0, 500, 26)
    elevation = 40 * np.sin(x / 100) * np.cos(y[:, None] / 90)
    np.savez(folder / "hills.npz", x=x, y=y, elevation=elevation, axes=["y", "x"])
    layer = {"top": 0, "vp": 4000, "vs": 2300, "rho": 2500, "gradient": {"vp": 0.3, "vs": 0.2}}
    source = {"position": [310, 240, -150], "moment_tensor": {"xy": 1e15}}
    return lw.Simulation(
        domain={"x": [0, 600], "y": [0, 500], "z": [-400, 0], "topography": folder / "hills.npz"},
        material={"layers": [layer]},
        sources=[source | {"time_function": {"gaussian": {"sigma": 0.05, "delay": 0.2}}}],
        receivers=[{"network": "XX", "name": "R1", "position": [200, 200, -130]}], duration=0.01,
        boundaries={"absorption": "stacey"}, output={"sampling_interval": 0.01, "peak_motion": True},
        solver={"method": "spectral_element", "degree": 4, "spacing": 80},
    )  # fmt: skip


def prepared(simulation: lw.Simulation) -> dict[str, Any]:
    """The arrays of the plan and of the solver, the statistics, and the fields after some steps."""
    backend = CpuBackend("single", 1)
    made = plan(simulation, backend)
    solver = SpectralElementSolver(made, simulation, backend)
    solver.start_peaks()
    for step in range(3):
        solver.advance(step)
        solver.update_peaks()
    group = solver.tables.groups[0]
    return {
        "vertices": made.mesh.vertices, "nodes": made.mesh.nodes, "numbers": made.numbers, "maps": made.coefficients,
        "values": made.materials.values, "mass": made.element_statistics.mass, "points": solver.tables.points,
        "bounds": made.element_statistics.frequency2, "moduli": group.moduli, "geometry": group.geometry,
        "damping": solver.damping[1], "receivers": solver.receivers.locations.reference, "momentum": solver.momentum,
        "peaks": solver.peaks()["velocity"], "limit": np.array(made.schedule.limit),
        "statistics": np.array(repr(made.mesh_statistics)), "warnings": np.array(made.warnings(simulation)),
    }  # fmt: skip


def divide(monkeypatch: pytest.MonkeyPatch, threads: int, sizes: dict[str, int]) -> None:
    """From now on this number of threads works on parts of these sizes."""
    for name, value in {"backends.loops.get_num_threads": lambda: threads, **sizes}.items():
        module, _, constant = name.rpartition(".")  # a name of a package may be that of its module
        monkeypatch.setattr(import_module(f"lithowave.{module}"), constant, value)


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_and_threads_do_not_change_a_run(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = experiment(tmp_path)
    expected = prepared(simulation)
    assert np.abs(expected["momentum"]).max() > 0 and expected["nodes"].shape[1] == 27
    divide(monkeypatch, threads, SIZES)
    found = prepared(simulation)
    for name, values in expected.items():
        assert_same_bits(values, found[name], name)


TETRAHEDRA_SIZES = {
    "mesh.tetrahedra.PART": 40, "mesh.tetrahedral_checks.PART": 30,
    "solvers.discontinuous_galerkin.materials.PART": 30,
    "solvers.discontinuous_galerkin.meshing.PART": 25, "solvers.discontinuous_galerkin.points.PART": 35,
    "solvers.discontinuous_galerkin.tables.TABLE_PART": 32,
}  # fmt: skip


def prepared_tetrahedra() -> dict[str, np.ndarray]:
    """The arrays of the plan and the solver of tetrahedra with local time steps and many sources."""
    gaussian = {"time_function": {"gaussian": {"sigma": 0.05, "delay": 0.2}}}
    places = np.random.default_rng(0).uniform([150, 150, -300], [450, 350, -100], (40, 3)).tolist()
    described = lw.Simulation(
        domain={"x": [0, 600], "y": [0, 500], "z": [-400, 0]},
        material={"layers": [{"top": 0, "vp": 1500, "vs": 0, "rho": 1000},
                             {"top": -100, "vp": 4000, "vs": 2300, "rho": 2500, "gradient": {"vp": 0.3, "vs": 0.2}}]},
        sources=[{"position": one, "moment_tensor": {"xy": 1e15, "zz": 1e14}} | gaussian for one in places]
        + [{"position": [310, 240, -150], "force": [1e9, 2e9, 3e9]} | gaussian],
        receivers=[{"network": "XX", "name": "R1", "position": [200, 200, -130]}], duration=0.2,
        boundaries={"absorption": "stacey"}, output={"sampling_interval": None},
        solver={"method": "discontinuous_galerkin", "order": 3, "spacing": 100, "local_time_steps": True},
    )  # fmt: skip
    backend = CpuBackend("single", 1)
    made = tetrahedra_plan(described, backend)
    solver = DiscontinuousGalerkinSolver(made, described, backend)
    lists = [array for one in solver.sources for _, arrays in one.arguments() for array in arrays[:4]]
    kinds = [array for kind in solver.tables.kinds.values() for array in (kind.elastic, kind.faces)]
    links = (solver.tables.neighbor, solver.tables.second, made.clustering.cluster, made.mesh.neighbors)
    assert made.clustering.count > 1
    return {
        "sources": np.concatenate([array.astype(float).ravel() for array in lists]),
        "tables": np.concatenate([array.ravel() for array in kinds]),
        "links": np.concatenate([array.ravel() for array in links]), "vs": made.materials.mu, "limits": made.limits,
        "receivers": solver.receivers.locations.reference, "statistics": np.array(repr(made.mesh_statistics)),
    }  # fmt: skip


def test_parts_and_threads_do_not_change_tetrahedra(monkeypatch: pytest.MonkeyPatch) -> None:
    # Sums over Taylor terms may depend on the number of sources that are processed together.
    pairs = {"solvers.discontinuous_galerkin.sources.PAIRS": 5}
    divide(monkeypatch, 1, pairs)
    expected = prepared_tetrahedra()
    divide(monkeypatch, 3, pairs | TETRAHEDRA_SIZES)
    found = prepared_tetrahedra()
    for name, values in expected.items():
        assert_same_bits(values, found[name], name)
