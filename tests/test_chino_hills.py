"""A short, coarse form of the Chino Hills example, against seismograms that are kept in the repository.

The grid step is 2.3 km, three times that of the example, and the source is smoother in proportion (its spectrum falls to
5% at 0.25 Hz), so that the whole takes a few seconds. Two references, both computed by this package in double precision:

``fine``: the same source on the grid step of the example. The difference is the error of the coarse grid: at most 6%.
``coarse``: the very run of this test. The difference is rounding, unless something has changed: at most 1e-4.

``PYTHONPATH=src:tests python tests/test_chino_hills.py`` computes both anew, which is right only after a change that was
meant to change seismograms.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from verification_tools import record, relative_l2

import lithowave as lw

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "chino_hills" / "chino_hills.yaml"
REFERENCE = Path(__file__).parent / "data" / "chino_hills_2008" / "short.npz"
SHORT = {
    "duration": 30.0,
    "sources.0.time_function": {"gaussian": {"sigma": 1.56, "delay": 0.0}},
    "sources.0.delay": 6.0,
    "solver.max_frequency": 0.25,
    "output.sampling_interval": 0.25,
    "output.formats": [],
    "output.snapshots": [],
}
FINE = {**SHORT, "solver.max_frequency": 0.8}
