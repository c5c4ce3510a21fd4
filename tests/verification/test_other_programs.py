"""Examples of another program against its own seismograms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lithowave as lw
from benchmark_scripts import load_benchmark
from verification_tools import record

BENCHMARK = load_benchmark("other_programs")
SE, DG = "spectral_element", "discontinuous_galerkin"


def differences(
    case: str, folder: Path, changes: dict[str, Any], until: float | None = None, corner: float | None = None
) -> dict[str, float]:
    """Return the relative L2 differences of the file of a case, with changed entries, from its references."""
    simulation = lw.Simulation.from_file(BENCHMARK.FOLDER / f"{case}.yaml", changes)
    return BENCHMARK.differences(case, simulation.run(output=folder / "run").seismograms, until, corner)


@pytest.mark.filterwarnings("ignore::lithowave.LithowaveWarning")
def test_a_closed_box_below_0_07_hz(tmp_path: Path) -> None:
    """Measured: 0.33% with 7 points per wavelength at 0.1 Hz, in the first minute."""
    changes = {"solver.max_frequency": 0.1, "duration": 72.0}
    assert differences("closed_box", tmp_path, changes, 60.0, 0.07)["other program"] < 0.004


