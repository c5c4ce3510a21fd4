"""Rates of the kernels of this machine, which `lithowave bench` and `lithowave check` measure and store.

A rate belongs to a device, its precision and threads, a method, and a kind of points or elements
(`Plan.unit_kind`). The file `rates.json` is in the directory of `cache_root`.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lithowave.backends.cuda_source import cache_root
from lithowave.backends.interface import Backend
from lithowave.solvers.interface import Plan

if TYPE_CHECKING:
    from lithowave.json_types import Entries

BENCH, CHECK = "lithowave bench", "lithowave check"
"""Origins of a rate. That of the bench, a longer measurement of a larger grid or mesh, replaces that of check."""


def rates_file() -> Path:
    """Return the file of the rates."""
    return cache_root() / "rates.json"


def rate_name(method: str, plan: Plan, backend: Backend) -> str:
    """Return the key of a rate: ``NVIDIA H200, single, spectral_element, degree 4, affine isotropic``."""
    facts = backend.facts()
    threads = [f"{facts['threads']} threads"] if "threads" in facts else []
    return ", ".join([backend.device, *threads, backend.precision, method, plan.unit_kind])


def stored_rates() -> dict[str, Entries]:
    """Return all rates by key: rate (points or elements per second) and origin; empty if the file is not readable."""
    try:
        found = json.loads(rates_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def load_rate(method: str, plan: Plan, backend: Backend) -> tuple[float, str] | None:
    """Return the stored rate for a plan, points or elements per second, and its origin; None if there is none."""
    found = stored_rates().get(rate_name(method, plan, backend))
    try:
        return None if found is None else (float(found["rate"]), str(found["origin"]))
    except (KeyError, TypeError, ValueError):
        return None


def store_rate(method: str, plan: Plan, backend: Backend, rate: float, origin: str) -> None:
    """Store a rate, unless the directory cannot be written, or check would replace the rate of the bench."""
    rates, name = stored_rates(), rate_name(method, plan, backend)
    if origin == CHECK and rates.get(name, {}).get("origin") == BENCH:
        return
    file = rates_file()
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(rates | {name: {"rate": rate, "origin": origin}}, indent=1)
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, file)
