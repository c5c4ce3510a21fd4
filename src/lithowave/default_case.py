"""The case of `lithowave bench --case default`: the first example of the README in a larger domain, at its defaults.

It measures what users wait for: entire runs, with absorbing layers, preparation and outputs, instead of kernels.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from lithowave.description.simulation import Simulation
from lithowave.errors import LithowaveWarning
from lithowave.run.launch import run_simulation
from lithowave.run.progress import rate_key

VARIANTS = ("elastic", "attenuating", "outputs")
"""With quality factors; with snapshots, peak motion and 300 receivers."""

SIZES = {"cpu": (6, 6, 3), "cuda": (36, 36, 12)}  # of the domain, km
DURATIONS = {"cpu": 2.0, "cuda": 6.0}  # s
RECEIVERS = 300
PHASES = 5  # in a record: the longest

RATE_CASES: dict[tuple[str, bool], tuple[str, dict[str, Any]]] = {
    ("finite_difference", False): ("interior", {}),
    ("finite_difference", True): ("interior", {"attenuation": "coarse"}),
    ("spectral_element", False): ("affine", {}),
    ("spectral_element", True): ("affine_attenuating", {}),
    ("discontinuous_galerkin", False): ("global", {}),
    ("discontinuous_galerkin", True): ("attenuating", {}),
}
"""Case and options of the bench with the rate of the ideal loop, by method and attenuation."""


def default_simulation(
    method: str, variant: str, size: tuple[float, float, float], duration: float, compute: dict[str, Any]
) -> Simulation:
    """Return the simulation of a variant. size : of the domain along x, y, z, km. compute : entries of this section."""
    x, y, z = (1e3 * side for side in size)
    quality = {"qp": 100, "qs": 50} if variant == "attenuating" else {}
    places = [(1000.0, 1500.0)]
    if variant == "outputs":
        places = [(0.8 * x * (number / (RECEIVERS - 1) - 0.5), 0.25 * y) for number in range(RECEIVERS)]
    return Simulation.model_validate({
        "title": f"default, {variant}",
        "domain": {"x": [-x / 2, x / 2], "y": [-y / 2, y / 2], "z": [-z, 0]},
        "material": {"layers": [
            {"top": 0, "vp": 3200, "vs": 1600, "rho": 2300, **quality},
            {"top": -1000, "vp": 5000, "vs": 2800, "rho": 2600, **quality},
        ]},
        "sources": [{
            "position": [0, 0, -2000],
            "double_couple": {"strike": 30, "dip": 60, "rake": 90, "mw": 4.0},
            "time_function": {"gaussian": {"sigma": 0.15, "delay": 0.9}},
        }],
        "receivers": [
            {"network": "XX", "name": f"S{number:03d}", "position": [*place, 0]} for number, place in enumerate(places)
        ],
        "duration": duration,
        "solver": {"max_frequency": 2.6, "method": method},
        "compute": compute,
        "output": {"snapshots": {"interval": 0.1, "plane": {"z": 0}}, "peak_motion": True}
        if variant == "outputs" else {},
    })  # fmt: skip


def measure_variant(method: str, variant: str, size: tuple[float, float, float], device: Any) -> dict[str, Any]:
    """Run a variant twice in this process, and return the entries of the second run for its record.

    The first run reads or compiles kernels; the second one is that of a notebook or a survey. size : see
    `default_simulation`. device : the backend.
    """
    threads = {} if device.own_memory else {"threads": device.threads}
    compute = {"backend": device.name, "precision": device.precision, **threads}
    simulation = default_simulation(method, variant, size, DURATIONS[device.name], compute)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", LithowaveWarning)
        for _ in range(2):
            begin = time.perf_counter()
            report = run_simulation(simulation, Path(folder) / "run", overwrite=True).report
            whole = time.perf_counter() - begin
    plan = report["plan"]
    phases = sorted(((one["name"], one["wall_s"]) for one in report["phases"]), key=lambda one: -one[1])
    return {
        "variant": variant, "size_km": list(size), "duration_s": simulation.duration, "precision": device.precision,
        "backend": device.name, "device": device.device, "devices": 1, **threads,
        "time_step_s": plan["time_step_s"],
        "time_step_fraction": plan["time_step_s"] / plan["time_step_limit_s"],
        "loop_s": report["loop_s"],
        "ideal_updates": report["ideal_updates"],
        "whole_s": whole,
        "rate": report[rate_key(report["unit"])],
        "unit": f"{report['unit']}/s",
        "longest_phases": {name: round(seconds, 4) for name, seconds in phases[:PHASES]},
        **({"law": plan["effective_medium"]} if "effective_medium" in plan else {}),
        **{key: plan[key] for key in ("order", "degree") if key in plan},
    }  # fmt: skip
