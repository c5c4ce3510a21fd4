"""Sources whose moment, not its rate, is a Gaussian: their waves are derivatives of those of a Gaussian rate."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw

SIGMA, INTERVAL = 0.3, 0.02


@pytest.mark.parametrize(
    "method",
    [
        "finite_difference",
        pytest.param("spectral_element", marks=pytest.mark.slow),
        pytest.param("discontinuous_galerkin", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::lithowave.LithowaveWarning")
def test_a_moment_is_the_derivative_of_a_rate(method, tmp_path):
    """exp(-t²/2σ²) is σ √(2π) times the Gaussian of unit area; the differences of samples are exact to 0.4%."""
    found = {}
    for quantity in (None, "moment"):
        shape = {"sigma": SIGMA, "delay": 1.5, "quantity": quantity}
        simulation = lw.Simulation(
            domain={"x": [-1000, 1000], "y": [-1000, 1000], "z": [-1500, 0]}, boundaries={"top": "absorbing"},
            material={"homogeneous": {"vp": 3000, "vs": 1700, "rho": 2300}}, duration=2.6,
            sources=[{"position": [0, 0, -700], "moment_tensor": {"xy": 1e15}, "time_function": {"gaussian": shape}}],
            receivers=[{"name": "A", "position": [700, 600, -700]}],
            solver={"method": method, "max_frequency": 1.3}, output={"sampling_interval": INTERVAL},
        )  # fmt: skip
        found[quantity] = simulation.run(output=tmp_path / str(quantity)).seismograms.data[0]
    expected = np.gradient(found[None], INTERVAL, axis=-1) * SIGMA * np.sqrt(2.0 * np.pi)
    assert np.linalg.norm(found["moment"] - expected) < 6e-3 * np.linalg.norm(expected)
