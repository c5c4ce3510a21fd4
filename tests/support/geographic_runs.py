"""A description with a geographic origin, for tests of files of receivers and shots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lithowave as lw

CRS = {"longitude": -117.76, "latitude": 33.95}


def described(crs: dict[str, float] | None = CRS, **changes: Any) -> lw.Simulation:
    """A valid simulation of a box of 60 km around the origin, with entries exchanged."""
    parts: dict[str, Any] = {
        "domain": {"x": [-30e3, 30e3], "y": [-30e3, 30e3], "z": [-20e3, 0], "crs": crs},
        "material": {"homogeneous": {"vp": 6000, "vs": 3464, "rho": 2700}},
        "sources": [{
            "position": [0, 0, -2000], "moment_tensor": {"xy": 1e16},
            "time_function": {"gaussian": {"sigma": 0.5, "delay": 3.0}},
        }],
        "duration": 10.0,
        "solver": {"max_frequency": 0.5},
    }  # fmt: skip
    return lw.Simulation(**parts | changes)


def message_of(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> str:
    """The text of the InputError that a call raises."""
    try:
        call(*arguments, **keywords)
    except lw.InputError as error:
        return str(error)
    raise AssertionError("nothing was refused")
