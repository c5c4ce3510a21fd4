"""A valid simulation of a box of 2 km with entries exchanged, and what the text of its refusal contains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lithowave as lw

ROCK = {"vp": 5000, "vs": 3000, "rho": 2600}
BOX = {"x": [-1000, 1000], "y": [-1000, 1000], "z": [-1000, 0]}
GAUSSIAN = {"gaussian": {"sigma": 0.2, "delay": 1.2}}
FORCE = {"position": [0, 0, -500], "force": [0, 0, 1e9], "time_function": GAUSSIAN}


def boxed(method: str = "finite_difference", **changes: Any) -> lw.Simulation:
    """A simulation by a method; the solver has the default resolution unless it is exchanged."""
    parts = {
        "domain": BOX, "material": {"homogeneous": ROCK}, "sources": [FORCE], "duration": 2.0,
        "receivers": [{"name": "A", "position": [0, 0, 0]}], "solver": {"method": method, "max_frequency": 3.0},
    }  # fmt: skip
    return lw.Simulation(**parts | changes)


def refused(make: Callable[[], Any], *words: str) -> None:
    """Require that a call raises an InputError whose text contains words."""
    with pytest.raises(lw.InputError) as caught:
        make()
    for word in words:
        assert word in str(caught.value), str(caught.value)
