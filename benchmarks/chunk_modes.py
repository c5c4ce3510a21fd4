"""The deep Bolivia earthquake of 1994 in a chunk of PREM, against normal modes of the whole Earth.

    python benchmarks/chunk_modes.py [--width 64] [--period 25] [--smoothing 12] [--cases gravity elastic inside]
        [--folder DIR] [--json FILE]

PREM is transversely isotropic with attenuation, without its ocean. The moment is a step, smoothed by a Gaussian of
2.5 s as in the reference, and by another one (`--smoothing`, s). The table has the relative L2 distance of the
velocities, of all three components, from the sum of normal modes, at the four stations within 30 degrees, from the
origin time to the return of S waves from the nearest side; and that of a simulation of the whole Earth by
SPECFEM3D_GLOBE. Both references include gravity. Cases: `gravity`: with `physics.gravity`; `elastic`: without;
`inside`: without, and with the discontinuities of the crust inside elements that are too thin.

`data/bolivia_1994_modes.npz`: displacement (stations, E N Z, samples), m, by both methods; longitude, geographic
latitude; time from the origin time, s; travel times of S waves from the source over the distance in degrees.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

import lithowave as lw
from lithowave.globe_coordinates import angular_distance
from lithowave.solvers.elements import layers as radial_layers

REFERENCE = Path(__file__).parent / "data" / "bolivia_1994_modes.npz"
SOURCE, DEPTH = (-67.25, -13.82), 647.1e3
MOMENT = {"xx": -2e19, "yy": 7.7e20, "zz": -7.6e20, "xy": 2.5e20, "xz": 4e19, "yz": 2.5e21}  # N m, East, North, Up
REFERENCE_SIGMA = 2.5  # s
DELAYS = 5.0  # standard deviations of the moment rate before the origin time
INTERVAL = 1.0  # s


def simulation(width: float, period: float, sigma: float, end: float, gravity: bool, **changes: Any) -> lw.Simulation:
    """Return the chunk. sigma : of the moment rate, s. end : of the seismograms after the origin time, s."""
    stored = np.load(REFERENCE)
    delay = INTERVAL * np.ceil(DELAYS * sigma / INTERVAL)
    return lw.Simulation(**{
        "title": "Bolivia 1994",
        "domain": {"chunk": {"center": SOURCE, "width": [width, width], "depth": "2891 km"}},
        "boundaries": {"top": "free", "sides": "absorbing", "bottom": "free"},
        "material": {"earth": {"model": "prem", "anisotropy": True}},
        "physics": {"gravity": gravity},
        "sources": [{
            "longitude": SOURCE[0], "latitude": SOURCE[1], "depth": DEPTH, "moment_tensor": MOMENT,
            "time_function": {"gaussian": {"sigma": sigma, "delay": delay}},
        }],
        "receivers": [
            {"name": str(name), "longitude": float(longitude), "latitude": float(latitude)}
            for name, (longitude, latitude) in zip(stored["names"], stored["lonlat"], strict=True)
        ],
        "duration": float(delay + end),
        "solver": {"method": "spectral_element", "max_frequency": 1.0 / period},
        "output": {"sampling_interval": INTERVAL, "quantity": "velocity", "formats": [], "checkpoint": None},
        **changes,
    })  # fmt: skip


def reference(smoothing: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the time, s, and the velocities (stations, 3, samples), m/s, of the references, smoothed by a Gaussian."""
    stored = np.load(REFERENCE)
    step = float(stored["t"][1] - stored["t"][0])
    velocity = {
        name: gaussian_filter1d(stored[name].astype(float), smoothing / step, axis=-1, order=1, truncate=6.0) / step
        for name in ("modes", "specfem")
    }  # fmt: skip
    return stored["t"], velocity


def returns(width: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the distance of the stations, degrees, and the time, s, at which S waves return from the nearest side."""
    stored = np.load(REFERENCE)
    distance = angular_distance(*stored["lonlat"].T, SOURCE)
    return distance, np.interp(width - distance, stored["s_distance"], stored["s_time"])


def distances(found: np.ndarray, expected: np.ndarray) -> list[float]:
    """Return the relative L2 distance of all components, and of each component relative to the largest one."""
    parts = np.linalg.norm(found - expected, axis=-1), np.linalg.norm(expected, axis=-1)
    error, size = (np.append(np.linalg.norm(part), part) for part in parts)
    return (error / np.append(size[0], np.full(3, size[1:].max()))).tolist()


def run(case: str, width: float, period: float, smoothing: float, folder: Path) -> dict[str, Any]:
    """Run a case, and return the record."""
    sigma = float(np.hypot(REFERENCE_SIGMA, smoothing))
    angle, ends = returns(width)
    made = simulation(width, period, sigma, float(ends.max()), case == "gravity")
    shorter = radial_layers.SHORTER
    radial_layers.SHORTER = 2.0 if case == "inside" else shorter
    try:
        began = time.perf_counter()
        result = made.run(output=folder / f"chunk_modes_{case}", overwrite=True)
        wall = time.perf_counter() - began
    finally:
        radial_layers.SHORTER = shorter
    seismograms, (moments, velocities), rows = result.seismograms, reference(smoothing), []
    since = seismograms.time - made.sources[0].time_function.gaussian.delay
    for number, name in enumerate(np.load(REFERENCE)["names"]):
        window = (moments >= 0.0) & (moments <= ends[number])
        own = np.stack([np.interp(moments[window], since, one) for one in seismograms.data[number]])
        modes, specfem = (velocities[key][number][:, window] for key in ("modes", "specfem"))
        rows.append({
            "station": str(name), "distance_degrees": float(angle[number]), "end_s": float(ends[number]),
            "ours": distances(own, modes), "specfem": distances(specfem, modes),
        })  # fmt: skip
        ours, theirs = rows[-1]["ours"], rows[-1]["specfem"]
        parts = "  ".join(f"{letter} {100 * one:4.1f}%" for letter, one in zip("ENZ", ours[1:], strict=True))
        print(
            f"{case:8s} {name:5s} {angle[number]:5.1f} degrees to {ends[number]:4.0f} s: {100 * ours[0]:5.2f}% "
            f"({parts}), SPECFEM3D_GLOBE {100 * theirs[0]:5.2f}%", flush=True,
        )  # fmt: skip
    report = result.report
    return {
        "case": case, "width_degrees": width, "period_s": period, "smoothing_s": smoothing, "stations": rows,
        "elements": report["plan"]["element_count"], "steps": report["plan"]["steps"],
        "time_step_s": report["plan"]["time_step_s"], "wall_s": wall, "loop_s": report["loop_s"],
        "setup_s": report["setup_s"], "device": report["device"], "commit": report["commit"],
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }  # fmt: skip


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=float, default=64.0, help="of the chunk, degrees")
    parser.add_argument("--period", type=float, default=25.0, help="shortest period, s")
    parser.add_argument("--smoothing", type=float, default=12.0, help="standard deviation, s")
    cases = ("gravity", "elastic", "inside")
    parser.add_argument("--cases", nargs="+", choices=cases, default=cases)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    records = [run(case, given.width, given.period, given.smoothing, given.folder) for case in given.cases]
    for record in records:
        print(
            f"{record['case']:8s} {record['elements']:,} elements, {record['steps']} steps of "
            f"{record['time_step_s']:.3g} s: {record['wall_s']:.1f} s, of which {record['loop_s']:.1f} s in the loop"
        )
    if given.json:
        given.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
