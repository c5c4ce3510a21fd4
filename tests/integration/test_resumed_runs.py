"""Runs that are stopped again and again give the very results of runs that were not, with all methods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from test_fluid_runs import SEA
from test_imported_layers import DG, EACH, ONE_SIDE, SE, SINGLE, box, content, imported
from test_model_arrays import SMALL as ARRAYS
from test_model_arrays import arrays
from test_spectral_element_runs import everything

import lithowave as lw
from lithowave.mesh import split_hexahedra
from lithowave.run import restart_run, run_simulation
from slow_variants import slow_except
from small_chunk import small_chunk
from small_run import StopAt, assert_same_results, result_of, write_small

ALL = {"sampling_interval": 0.02, "snapshots": {"interval": 0.2, "volume": True}, "peak_motion": True}
LAYER = {"absorption": "layer", "layer": {"elements": 2}}


def hexahedra_of_a_file(folder: Path) -> lw.Simulation:
    """The checkpoint has the memory variables of the layer."""
    compute = content()["compute"]
    return imported(
        folder, box(), SE, surfaces=EACH, boundaries=ONE_SIDE, compute=compute, duration=0.6, output=ALL
    )


CASES: dict[str, Callable[[Path], lw.Simulation]] = {
    "grid": lambda folder: lw.Simulation.from_file(write_small(folder)),
    "grid, displacement": lambda folder: lw.Simulation.from_file(
        write_small(folder), {"output.quantity": "displacement"}
    ),
    "grid, arrays": lambda folder: lw.Simulation(material=arrays(), **ARRAYS | {"output": ALL}),
    "hexahedra below a hill": lambda folder: everything(folder, boundaries={"absorption": "stacey"}),
    "hexahedra below a hill, layer": lambda folder: everything(folder, boundaries=LAYER),
    "hexahedra of a file, layer": hexahedra_of_a_file,
    "sea": lambda folder: lw.Simulation(**SEA, boundaries={"absorption": "stacey"}),
    "sea, layer": lambda folder: lw.Simulation(**SEA, boundaries={"absorption": "layer"}),
    "chunk of the globe": lambda folder: small_chunk(folder / "chunk"),
    "tetrahedra of a file, layer": lambda folder: imported(
        folder, split_hexahedra(box()), DG, compute=SINGLE, duration=0.6, output=ALL
    ),
}
SLOW = {"hexahedra below a hill, layer", "sea, layer", "tetrahedra of a file, layer"}


@pytest.mark.filterwarnings("ignore::lithowave.LithowaveWarning")
@pytest.mark.parametrize("name", slow_except([name for name in CASES if name not in SLOW], CASES))
def test_a_run_that_is_stopped_gives_the_same_bits(tmp_path: Path, name: str) -> None:
    simulation = CASES[name](tmp_path)
    steps = run_simulation(simulation, tmp_path / "whole").report["plan"]["steps"]
    stop, parts = StopAt({1, 2, steps // 3, steps - 2}), 0
    result = result_of(run_simulation, simulation, tmp_path / "run", callbacks=[stop])
    while not result.complete:
        parts += 1
        result = result_of(restart_run, tmp_path / "run", callbacks=[stop])
    assert parts == 4
    assert_same_results(tmp_path / "run", tmp_path / "whole")
