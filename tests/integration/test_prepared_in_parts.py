"""The preparation of spectral elements does not depend on the number of threads or the size of the parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.backends import host_threads
from lithowave.backends.cpu import CpuBackend
from lithowave.solvers.spectral_element.plan import plan
from lithowave.solvers.spectral_element.solver import SpectralElementSolver

SIZES = {  # smaller parts, so that a small mesh has several
    "mesh.hexahedra.PART": 50, "mesh.level_map.PART": 300, "mesh.numbering.CHUNK": 40, "mesh.quality_report.PART": 30,
    "mesh.numbering_kernels.ROWS": 200, "mesh.numbering_kernels.VERTICES": 60,
    "solvers.elements.model_warnings.PART": 50, "solvers.elements.point_location.PART": 50,
    "solvers.spectral_element.element_layout.PART": 2, "solvers.spectral_element.element_statistics.PART": 40,
    "solvers.spectral_element.elements.PART": 45, "solvers.spectral_element.faces.PART": 20,
    "solvers.spectral_element.geometry.PART": 25, "solvers.spectral_element.materials.PART": 30,
    "solvers.spectral_element.mesh_statistics.PART": 60, "solvers.spectral_element.point_location.PART": 35,
    "solvers.spectral_element.solver.PART": 999,
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
        "values": made.materials.values, "mass": made.element_statistics.mass, "points": solver.points,
        "bounds": made.element_statistics.frequency2, "moduli": group.moduli, "geometry": group.geometry,
        "damping": solver.damping[1], "receivers": solver.receivers.locations.reference, "momentum": solver.momentum,
        "peaks": solver.peaks()["velocity"], "limit": np.array(made.schedule.limit),
        "statistics": np.array(repr(made.mesh_statistics)), "warnings": np.array(made.warnings(simulation)),
    }  # fmt: skip


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_and_threads_do_not_change_a_run(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = experiment(tmp_path)
    expected = prepared(simulation)
    assert np.abs(expected["momentum"]).max() > 0 and expected["nodes"].shape[1] == 27
    monkeypatch.setattr(host_threads, "get_num_threads", lambda: threads)
    for name, size in SIZES.items():
        monkeypatch.setattr(f"lithowave.{name}", size)
    found = prepared(simulation)
    for name, values in expected.items():
        assert values.dtype == found[name].dtype
        assert values.tobytes() == found[name].tobytes(), name
