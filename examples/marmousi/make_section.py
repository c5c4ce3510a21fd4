"""Write vp.segy, vs.segy and rho.segy, a section with the layout of Marmousi2: ``python make_section.py``.

17 km long and 3.5 km deep under 450 m of water: beds that dip and are broken by faults, an anticline, and gas at its
crest. Speeds are in km/s, the density in g/cm^3, as in the files of Marmousi2 itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

LENGTH, DEPTH = 17000.0, 3500.0  # m
STEP, SAMPLE = 12.5, 5.0  # m, between traces and between samples
SEA_FLOOR = 450.0  # m
WATER = (1500.0, 0.0, 1010.0)  # vp and vs, m/s, and density, kg/m3
SLOWEST = 800.0  # m/s, minimum S-wave velocity of the beds
BEDS = (60.0, 170.0)  # m, minimum and maximum thickness
ANTICLINE = (8900.0, 2100.0, 520.0)  # x of the crest, width, height, m
FAULTS = ((3300.0, 58.0, 130.0), (5600.0, 63.0, 170.0), (11300.0, -60.0, 150.0), (13400.0, -56.0, 120.0))
# of each: x at the sea floor, m, dip in degrees (negative: to the West), throw, m
DIP = 0.035  # of the beds, down to the East
GAS = (650.0, 900.0, 1000.0)  # half-length, m, and depth range of its beds before folding, m


def section() -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Return x (n,) and depth (m,) in m, and vp, vs (m/s) and density (kg/m3) on this grid, (n, m)."""
    x = np.arange(0.0, LENGTH + STEP / 2, STEP)
    depth = np.arange(0.0, DEPTH + SAMPLE / 2, SAMPLE)
    along, below = np.meshgrid(x, depth - SEA_FLOOR, indexing="ij")
    before = unfolded(along, below)
    vp, vs, rho = bed_values(before)
    gas = (np.abs(along - ANTICLINE[0]) < GAS[0]) & (before > GAS[1]) & (before < GAS[2])
    vp, rho = np.where(gas, 0.8 * vp, vp), np.where(gas, 0.92 * rho, rho)
    water = below < 0
    return x, depth, tuple(np.where(water, in_water, rock) for in_water, rock in zip(WATER, (vp, vs, rho), strict=True))


def unfolded(x: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return the depth below the sea floor before folding and faulting, m, which do not affect the sea floor."""
    grown = 1 - np.exp(-((below / 600) ** 2))
    moved = ANTICLINE[2] * np.exp(-(((x - ANTICLINE[0]) / ANTICLINE[1]) ** 2)) - DIP * (x - LENGTH / 2)
    for place, dip, throw in FAULTS:
        hanging = (x - place) * np.sign(dip) > below / np.tan(np.radians(abs(dip)))
        moved = moved - throw * hanging
    return below + grown * moved


def bed_values(before: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return vp, vs and density of the beds at depths before folding, m: increasing with depth, alternating by bed."""
    random = np.random.default_rng(2)
    bottoms = np.cumsum(random.uniform(*BEDS, 60))
    middles = bottoms - np.diff(bottoms, prepend=0.0) / 2
    vp = np.clip(1900 + 0.85 * middles + random.normal(0, 230, len(bottoms)), 1850, 4700)
    vs = SLOWEST + 0.62 * (vp - vp.min())
    rho = 310 * vp**0.25
    bed = np.minimum(np.searchsorted(bottoms, before), len(bottoms) - 1)
    return vp[bed], vs[bed], rho[bed]


def write(path: Path, x: np.ndarray, depth: np.ndarray, values: np.ndarray) -> None:
    """Write a SEG-Y file with one trace per x, CDP coordinates, and the spacing in mm as the sample interval."""
    import segyio

    spec = segyio.spec()
    spec.format, spec.samples, spec.tracecount = 5, depth, len(x)
    interval = round(1000 * (depth[1] - depth[0]))
    field = segyio.TraceField
    with segyio.create(str(path), spec) as file:
        file.bin.update({segyio.BinField.Interval: interval, segyio.BinField.Samples: len(depth)})
        for number, (place, trace) in enumerate(zip(x, values.astype(np.float32), strict=True)):
            file.header[number] = {
                field.TRACE_SEQUENCE_FILE: number + 1,
                field.CDP: number + 1,
                field.SourceGroupScalar: -10,  # coordinates in decimeters
                field.CDP_X: round(10 * place),
                field.TRACE_SAMPLE_COUNT: len(depth),
                field.TRACE_SAMPLE_INTERVAL: interval,
            }
            file.trace[number] = trace


def main() -> None:
    """Write the three files."""
    x, depth, (vp, vs, rho) = section()
    for name, values in (("vp", vp / 1000), ("vs", vs / 1000), ("rho", rho / 1000)):
        path = Path(__file__).with_name(f"{name}.segy")
        write(path, x, depth, values)
        print(f"{path}: {len(x)} traces of {len(depth)} samples, {values.min():.3g} to {values.max():.3g}")


if __name__ == "__main__":
    main()
