"""Checks of a description: what is allowed but may not be meant, and what methods cannot do."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "materials": "model_report",
    "time_functions": "unresolved_velocity velocity_outside",
})
