"""Cost of a finite fault of 100,000 subfaults on one GPU, relative to a point source.

    python benchmarks/finite_fault.py [--points 512] [--subfaults 400 250] [--duration 6] [--json FILE]

Both run in the same grid of finite differences of order 4, with a free surface and absorbing layers. Two ruptures of
40 x 20 km, or smaller in a smaller grid, are computed: one with rise times of 1.2 s on average, in which few subfaults
act at the same time, and one with 20 s, in which all act. Prints the rates of both and the memory of the device.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lithowave as lw
from lithowave.faults import planar_rupture
from lithowave.readers.srf import write_srf

SPACING = 100.0  # m
MECHANISM = {"strike": 291.0, "dip": 58.0, "rake": 142.0, "mw": 6.7}
RISE_TIMES = {1.2: 0.025, 20.0: 0.2}  # s, and the intervals between samples


def simulation(source: dict[str, Any], points: int, duration: float) -> lw.Simulation:
    """Return a box of two layers; points : along each axis, with absorbing layers."""
    half = 0.5 * SPACING * (points - 21)
    return lw.Simulation(
        title="finite fault",
        domain={
            "x": [-half, half], "y": [-half, half], "z": [-SPACING * (points - 11), 0],
            "crs": {"longitude": -117.761, "latitude": 33.953},
        },
        boundaries={"layer": {"cells": 10}},
        material={
            "layers": [
                {"top": 0, "vp": 4000, "vs": 2300, "rho": 2500}, {"top": -6000, "vp": 6000, "vs": 3464, "rho": 2700},
            ]
        },
        sources=[source],
        receivers=[{"name": "A", "position": [0.2 * half, 0.2 * half, 0]}],
        duration=duration,
        solver={"spacing": SPACING, "order": 4},
        compute={"backend": "auto", "precision": "single"},
        output={"formats": [], "sampling_interval": 0.1, "checkpoint": None},
    )  # fmt: skip


def measure(case: str, source: dict[str, Any], points: int, duration: float) -> dict[str, Any]:
    """Run, and return the record."""
    report = simulation(source, points, duration).run(output=Path(tempfile.mkdtemp()) / "run").report
    record = {
        "case": case, "sources": report["plan"]["sources"]["count"], "grid_points": report["plan"]["grid_points"],
        "passes": report["plan"]["passes"], "setup_s": report["setup_s"], "loop_s": report["loop_s"],
        "rate_points_per_s": report["rate_points_per_s"], "device_memory_bytes": device_memory(),
        "device": report["device"], "commit": report["commit"], "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }  # fmt: skip
    print(f"{case}: {record['sources']:,} sources, {1e-9 * record['rate_points_per_s']:.2f} billion points/s")
    return record


def device_memory() -> int | None:
    """Return the bytes that the memory pool of the device has allocated; None without a device."""
    try:
        import cupy

        pool = cupy.get_default_memory_pool()
        used = int(pool.total_bytes())
        pool.free_all_blocks()
        return used
    except Exception:
        return None


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=512)
    parser.add_argument("--subfaults", type=int, nargs=2, default=(400, 250))
    parser.add_argument("--duration", type=float, default=6.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    point = {
        "position": [30, -20, -8000 * (given.points - 21) / 491], "double_couple": MECHANISM,
        "time_function": {"gaussian": {"sigma": 0.5, "delay": 2.5}},
    }  # fmt: skip
    size = (given.points - 21) / 491  # of the fault, relative to that in a grid of 512 points
    measure("warm-up", point, given.points, max(0.1 * given.duration, 0.1))
    records = [measure("point source", point, given.points, given.duration)]
    for rise_time, interval in RISE_TIMES.items():
        path = Path(tempfile.mkdtemp()) / "fault.srf"
        fault = planar_rupture(
            longitude=-117.761, latitude=33.953, length=40e3 * size, width=20e3 * size, top_depth=1000.0 * size,
            vs=3400.0, density=2700.0,
            subfaults=tuple(given.subfaults), rise_time=rise_time, interval=interval, **MECHANISM,
        )  # fmt: skip
        write_srf(fault, path)
        case = f"finite fault, rise time {rise_time:g} s"
        records.append(measure(case, {"file": path}, given.points, given.duration))
    if given.json:
        given.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
