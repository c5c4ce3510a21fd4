"""The line about receivers of `lithowave check`."""

from __future__ import annotations

import lithowave as lw
from lithowave.run import receiver_line


def test_the_line_states_number_names_and_depths() -> None:
    def line(*receivers: dict) -> str:
        return receiver_line(lw.Simulation(
            domain={"x": [0, 1e3], "y": [0, 1e3], "z": [-1e3, 0]}, receivers=list(receivers), duration=1.0, sources=[],
            material={"homogeneous": {"vp": 5e3, "vs": 3e3, "rho": 2.6e3}}, solver={"max_frequency": 5.0},
        ))  # fmt: skip

    well = {"network": "XX", "line": {"prefix": "W", "start": [500, 500, 0], "end": [500, 500, -400], "count": 5}}
    assert line(well) == "5 (XX.W1 to XX.W5), depths 0 to 400 m"
    assert line({"name": "A", "position": [500, 500]}) == "1 (XX.A), depth 0 m"
    assert line() == "none: the run records no seismograms"
