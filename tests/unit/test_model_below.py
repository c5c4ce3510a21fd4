"""Warnings about waves that the model would send back from below the domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw

ROCK = {"vp": 4000, "vs": 2300, "rho": 2500}
LAYERS = {"layers": [{"top": 0, **ROCK}, {"top": -8000, "vp": 6000, "vs": 3400, "rho": 2800}]}
GRADIENT = {"layers": [{"top": 0, "vp": 3000, "vs": 1700, "rho": 2400, "gradient": {"vp": 0.4, "vs": 0.23}}]}


def growing(x: Any, y: Any, z: Any) -> Any:
    return 3000 - 0.4 * z, 1700 - 0.23 * z, 2400 + 0 * z


def only_in_the_domain(x: Any, y: Any, z: Any) -> Any:
    if np.any(np.asarray(z) < -6000.0):
        raise ValueError("too deep")
    return growing(x, y, z)


def found(material: Any, bottom: float = -5000.0, distance: float = 20000.0, **changes: Any) -> list[str]:
    """Return the warnings about the model below the bottom, for a receiver at a distance from a source near z = 0."""
    entries = {
        "domain": {"x": [-12000, 12000], "y": [-5000, 5000], "z": [bottom, 0]},
        "material": material,
        "sources": [{
            "position": [-10000, 0, -1], "force": [0, 0, 1e12],
            "time_function": {"gaussian": {"sigma": 0.3, "delay": 1.5}},
        }],
        "receivers": [{"name": "R1", "position": [distance - 10000, 0, 0]}],
        "duration": 12.0,
        "solver": {"max_frequency": 1.0},
    }  # fmt: skip
    return [text for text in lw.Simulation(**entries | changes).warnings() if "below the bottom" in text]


def gridded(folder: Path) -> dict[str, Any]:
    """Return a model on a grid down to 15 km, whose values increase with the depth."""
    x, y, z = np.array([-12e3, 12e3]), np.array([-5e3, 5e3]), np.linspace(-15e3, 0.0, 31)
    vp, vs, rho = (np.broadcast_to(each, (2, 2, 31)) for each in growing(0, 0, z))
    np.savez(folder / "model.npz", axes=["x", "y", "z"], x=x, y=y, z=z, vp=vp, vs=vs, rho=rho)
    return {"file": folder / "model.npz"}


@pytest.mark.parametrize("kind", ["layers", "gradient", "function", "partial", "gridded"])
def test_a_model_that_goes_on_below(kind: str, tmp_path: Path) -> None:
    functions = {"function": growing, "partial": only_in_the_domain}
    known: dict[str, Any] = {"layers": LAYERS, "gradient": GRADIENT, "gridded": gridded(tmp_path)}
    (text,) = found(known.get(kind) or {"function": functions[kind]}, -4000.0)
    assert text.startswith("domain.z: ") and "(z = -4000 m)" in text and "Deepen the domain to below z = " in text
    assert f"vp {4000 if kind == 'layers' else 4600} m/s at the bottom" in text


@pytest.mark.parametrize(("method", "count"), [("finite_difference", 0), ("spectral_element", 1)])
def test_a_layer_that_begins_at_the_bottom(method: str, count: int) -> None:
    """Finite differences continue this layer, elements the one above it."""
    assert len(found(LAYERS, -8000.0, solver={"method": method, "max_frequency": 1.0})) == count


@pytest.mark.parametrize(
    "changes",
    [
        {"material": {"homogeneous": ROCK}},
        {"material": GRADIENT, "distance": 500.0},
        {"material": GRADIENT, "duration": 3.0},
        {"material": LAYERS, "boundaries": {"bottom": "rigid"}},
        {"material": LAYERS, "boundaries": {"bottom": "free"}},
        {"material": LAYERS, "receivers": []},
    ],
)
def test_no_wave_that_returns_in_time(changes: dict[str, Any]) -> None:
    """Nor of a gradient that would turn waves only at larger distances or times."""
    assert not found(**changes)


def test_the_depth_of_turning_rays_in_a_gradient() -> None:
    """In v = v0 + g d, a ray turns at v0 / g (sqrt(1 + (g X / 2 v0)^2) - 1) after 2 / g asinh(g X / 2 v0).

    The remedy is one wavelength deeper.
    """
    (text,) = found(GRADIENT, -4000.0, solver={"max_frequency": 20.0, "points_per_wavelength": 10})
    ratio = 0.4 * 20000.0 / 6000.0
    depth, time = 7500.0 * (np.sqrt(1.0 + ratio**2) - 1.0), 5.0 * np.arcsinh(ratio)
    deepest = float(text.split("below z = -")[1].split()[0].strip(","))
    assert deepest == pytest.approx(depth + (3000.0 + 0.4 * depth) / 20.0, abs=100.0)
    assert float(text.split("from ")[1].split()[0]) == pytest.approx(time, abs=0.05)


def test_a_steep_reflection() -> None:
    """The reflection arrives after 2 sqrt(h^2 + (X/2)^2) / v."""
    (text,) = found(LAYERS, distance=3000.0)
    assert "are reflected at z = -8000 m" in text
    assert float(text.split("from ")[1].split()[0]) == pytest.approx(np.hypot(16000.0, 3000.0) / 4000.0, rel=0.01)


def test_a_chunk_of_the_globe() -> None:
    """At 25 degrees, P waves of PREM turn in the lower mantle and arrive after 323 s."""
    def warned(depth: float, distance: float) -> list[str]:
        simulation = lw.Simulation(
            domain={"chunk": {"center": [0, 0], "width": [60, 20], "depth": depth}},
            material={"earth": {"model": "prem"}},
            sources=[{
                "longitude": -12, "latitude": 0, "depth": 10000, "moment_tensor": {"xy": 1e20},
                "time_function": {"gaussian": {"sigma": 10, "delay": 50}},
            }],
            receivers=[{"name": "R1", "longitude": distance - 12, "latitude": 0}],
            duration=450.0,
            solver={"method": "spectral_element", "max_frequency": 0.02},
        )  # fmt: skip
        return [text for text in simulation.warnings() if "below the bottom" in text]

    (text,) = warned(300e3, 25.0)
    assert text.startswith("domain.chunk.depth: ") and "from 323 s" in text and "25 degrees" in text
    assert "vp 8712.9 m/s at the bottom" in text
    assert not warned(1500e3, 25.0)
