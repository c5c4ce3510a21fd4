"""Memory that is estimated before a mesh is built: near that of the plan, and too large runs are refused at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import lithowave as lw
from lithowave import ResourceError
from lithowave.mesh import read_hexahedral_mesh
from lithowave.run import check_simulation, run_simulation
from lithowave.solvers import METHODS, load_method
from lithowave.solvers.common import file_elements
from lithowave.solvers.spectral_element import FILE_BYTES
from reference_backend import CPU

HEXAHEDRA = Path(__file__).parents[1] / "data" / "hexahedra"
SOLVERS: dict[str, list[dict[str, Any]]] = {
    "finite_difference": [{}],
    "spectral_element": [{"degree": 4}, {"degree": 6}],
    "discontinuous_galerkin": [{"order": 3}, {"order": 5}],
}
CASES = [(method, solver) for method, solvers in SOLVERS.items() for solver in solvers]


def box(method: str, extent: float, **solver: Any) -> lw.Simulation:
    source = {"position": [0, 0, -1500], "moment_tensor": {"xy": 1e15}, "time_function": {"gaussian": {"sigma": 0.2}}}
    rock, soft = {"vp": 5000, "vs": 2900, "rho": 2600}, {"vp": 2500, "vs": 1300, "rho": 2100}
    return lw.Simulation(
        domain={"x": [-extent / 2, extent / 2], "y": [-extent / 2, extent / 2], "z": [-extent / 2, 0]},
        material={"layers": [{"top": 0, **soft}, {"top": -1000, **rock}]},
        sources=[source], receivers=[{"name": "A", "position": [300, 200, 0]}], duration=1.0,
        solver={"method": method, "max_frequency": 2.0, **solver}, output={"formats": []},
    )  # fmt: skip


@pytest.mark.parametrize(("method", "solver"), [case for case in CASES if case[0] != "finite_difference"])
def test_the_estimate_is_a_bound_near_the_plan(method: str, solver: dict[str, Any]) -> None:
    simulation = box(method, 9000, **solver)
    estimate = load_method(method).estimate_memory(simulation, CPU)
    plan = load_method(method).plan(simulation, CPU)
    assert 0.7 * plan.plan_bytes() < estimate.plan_bytes <= plan.plan_bytes()
    assert 0.78 * plan.memory_bytes(CPU) < estimate.array_bytes <= plan.memory_bytes(CPU)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_is_too_large_is_refused_before_its_mesh(tmp_path: Path, method: str) -> None:
    simulation, start = box(method, 400_000), time.process_time()
    with pytest.raises(ResourceError, match=r"the run needs \d+\.\d\d GB of memory for its arrays; .* free\. Use "):
        run_simulation(simulation, tmp_path / "run", backend="cpu", threads=1)
    assert time.process_time() - start < 2.0 and not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["spectral_element", "discontinuous_galerkin"])
def test_the_dry_run_builds_no_mesh_that_does_not_fit(method: str) -> None:
    simulation, start = box(method, 2_000_000), time.process_time()
    with pytest.raises(ResourceError, match="of memory for its mesh"):
        check_simulation(simulation, measure=False)
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("path", sorted(HEXAHEDRA.glob("hex*_msh?.msh")), ids=lambda path: path.name)
def test_the_elements_of_a_mesh_file_are_not_overestimated(path: Path) -> None:
    """Otherwise a run that fits would be refused: elements of 27 nodes take most bytes as text."""
    assert file_elements(path, FILE_BYTES) <= read_hexahedral_mesh(path).element_count
