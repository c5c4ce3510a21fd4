"""Errors of finite differences for LOH.1 with its interface at several positions within a grid cell.

    python benchmarks/interface_positions.py REFERENCE.npz --json errors.json
    python benchmarks/interface_positions.py REFERENCE.npz --laws isotropic,transverse --receivers 5 --duration 4

The spacing is 1000 m / (n + position), so that the interface at z = -1000 m is this fraction of a cell below a plane of
nodes. REFERENCE.npz contains t, receivers (m) and v (m/s), as `tests/data/loh1/loh1.npz`; a run with order 8 and a
spacing of 25 points per wavelength, whose interface is midway between planes, can replace it: --make-reference FILE.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import lithowave as lw

SPEED, LAYER = 2000.0, 1000.0  # vs and thickness of the layer
REFERENCE_POINTS = 25  # per S wavelength, at order 8


def loh1(
    receivers: np.ndarray, duration: float, spacing: float, order: int, law: str, sigma: float, margin: float
) -> lw.Simulation:
    """Return LOH.1 with sides at a distance of `margin` from its source and receivers."""
    far = receivers.max(axis=0)
    depth = spacing * np.ceil((2000.0 + margin) / spacing)
    solver = {"order": order, "spacing": spacing, "effective_medium": law}
    return lw.Simulation(
        title="LOH.1",
        domain={"x": [-margin, far[0] + margin], "y": [-margin, far[1] + margin], "z": [-depth, 0]},
        material={
            "layers": [
                {"top": 0, "vp": 4000, "vs": SPEED, "rho": 2600},
                {"top": -LAYER, "vp": 6000, "vs": 3464, "rho": 2700},
            ]
        },
        sources=[
            {
                "position": [0, 0, -2000],
                "moment_tensor": {"xy": 1e18},
                "time_function": {"gaussian": {"sigma": sigma, "delay": 6 * sigma}},
            }
        ],
        receivers=[{"network": "XX", "name": f"S{n:02}", "position": p.tolist()} for n, p in enumerate(receivers, 1)],
        duration=duration,
        solver={key: value for key, value in solver.items() if law or key != "effective_medium"},
        output={"sampling_interval": 0.005},
    )


def spacing_at(position: float, wanted: float) -> float:
    """Return the spacing nearest to `wanted` for which the interface is at this position in its cell."""
    return LAYER / (max(1, round(LAYER / wanted - position)) + position)


def errors(result: lw.Result, reference: dict[str, np.ndarray], count: int, duration: float) -> list[float]:
    """Return the relative L2 error of the velocities of each receiver."""
    seismograms = result.seismograms
    time = seismograms.time[seismograms.time <= duration]
    found = []
    for computed, exact in zip(seismograms.data[:, :, : len(time)], reference["v"][:count], strict=True):
        known = np.array([np.interp(time, reference["t"], component) for component in exact])
        found.append(float(np.linalg.norm(computed - known) / np.linalg.norm(known)))
    return found


def main() -> None:
    """Measure the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--positions", default="0,0.25,0.5,0.75", help="parts of a cell [%(default)s]")
    parser.add_argument("--laws", default="isotropic,auto", help="values of solver.effective_medium [%(default)s]")
    parser.add_argument("--orders", default="4", help="[%(default)s]")
    parser.add_argument("--points", default="10", help="points per S wavelength in the layer [%(default)s]")
    parser.add_argument("--frequency", type=float, default=2.5, help="Hz [%(default)s]")
    parser.add_argument("--sigma", type=float, default=0.12, help="of the source, s [%(default)s]")
    parser.add_argument("--receivers", type=int, default=10, help="[%(default)s]")
    parser.add_argument("--duration", type=float, default=8.0, help="s [%(default)s]")
    parser.add_argument("--margin", type=float, default=1500.0, help="between receivers and sides, m [%(default)s]")
    parser.add_argument("--make-reference", type=Path, help="write a reference for --sigma to this file first")
    parser.add_argument("--json", type=Path, help="write the records to this file")
    chosen = parser.parse_args()
    reference = dict(np.load(chosen.reference))
    receivers = reference["receivers"][: chosen.receivers]
    common = (receivers, chosen.duration)
    rest = (chosen.sigma, chosen.margin)
    folder = Path("build/interface_positions")
    if chosen.make_reference:
        spacing = spacing_at(0.5, SPEED / chosen.frequency / REFERENCE_POINTS)
        result = loh1(*common, spacing, 8, "", *rest).run(output=folder / "reference", overwrite=True)
        seismograms = result.seismograms
        reference = {"t": seismograms.time, "receivers": receivers, "v": seismograms.data}
        np.savez(chosen.make_reference, **reference)
    records = []
    for order in map(int, chosen.orders.split(",")):
        for points in map(float, chosen.points.split(",")):
            for law in chosen.laws.split(","):
                for position in map(float, chosen.positions.split(",")):
                    spacing = spacing_at(position, SPEED / chosen.frequency / points)
                    result = loh1(*common, spacing, order, law, *rest).run(output=folder / "run", overwrite=True)
                    each = errors(result, reference, len(receivers), chosen.duration)
                    loop = result.report["loop_s"]
                    record = {
                        "case": "LOH.1", "order": order, "points_per_wavelength": points, "position": position,
                        "effective_medium": law, "spacing_m": spacing, "errors": each, "loop_s": loop,
                    }  # fmt: skip
                    records.append(record)
                    text = " ".join(f"{100 * error:5.2f}" for error in each)
                    print(f"order {order}, {points:g} points, {law:12} {position:4.2f}: {text} %", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
