"""Differences of a run from the seismograms of another program, for three examples that are distributed with it.

    lithowave run tests/data/other_programs/closed_box.yaml
    python benchmarks/other_programs.py closed_box out/closed_box [--until 60] [--corner 0.15] [--json FILE]

The cases are `closed_box`, `viscoelastic` and `water_layer`; `tests/data/other_programs/README.md` describes their
references. Both are low-passed in the same way, with zero phase. Printed is the relative L2 difference of all receivers
together, for each reference of the case.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline

from lithowave.compare.misfits import low_pass, relative_l2
from lithowave.output.seismograms import Seismograms, load_seismograms

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "other_programs"


@dataclass(frozen=True)
class Case:
    """One example.

    Attributes
    ----------
    delay : center of the time function of the source in the simulation file, s.
    corner : of the low-pass, Hz.
    components : those that the reference has, of E, N and Z.
    until : end of the comparison, s after the center of the source; None: that of the records. In the water, the last
        two seconds depend on the continuation of the records for the low-pass.
    references : for each reference, the names of its times and of its traces in the file.
    """

    delay: float
    corner: float
    components: slice
    until: float | None
    references: dict[str, tuple[str, str]]


CASES = {
    "closed_box": Case(10.0, 0.15, slice(3), None, {"other_program": ("time", "displacement")}),
    "water_layer": Case(6.0, 0.25, slice(2, 3), 14.0, {"other_program": ("time", "displacement_z")}),
    "viscoelastic": Case(
        1.2 / 18.0, 60.0, slice(3), None,
        {
            "other_program": ("time", "displacement"),
            "its_closed_form": ("time_closed_form", "displacement_closed_form"),
            "constant_q": ("time_constant_q", "displacement_constant_q"),
        },
    ),
}  # fmt: skip


def differences(
    name: str, found: Seismograms, until: float | None = None, corner: float | None = None
) -> dict[str, float]:
    """Return the relative L2 difference of the seismograms of a run from each reference of a case.

    Parameters
    ----------
    until : compare up to this time after the center of the source, s; default: that of the case.
    corner : of the low-pass, Hz; default: that of the case.
    """
    case, values = CASES[name], np.load(FOLDER / f"{name}.npz")
    own = found.time - case.delay
    computed = CubicSpline(own, found.data[:, case.components], axis=-1)
    result = {}
    for label, keys in case.references.items():
        time, traces = (values[key] for key in keys)
        common = (time >= own[0]) & (time <= own[-1])  # the low-pass mirrors both at the same ends
        traces = traces.reshape(found.data.shape[0], -1, time.size)[..., common]
        time, step = time[common], time[1] - time[0]
        pair = [low_pass(each, step, corner or case.corner) for each in (computed(time), traces)]
        kept = time <= (until or case.until or time[-1])
        result[label] = relative_l2(*(each[..., kept] for each in pair))
    return result


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--until", type=float)
    parser.add_argument("--corner", type=float)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = differences(options.case, load_seismograms(options.run), options.until, options.corner)
    for label, difference in found.items():
        print(f"{label.replace('_', ' ')}: {100 * difference:.2f}%")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
