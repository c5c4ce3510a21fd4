"""The command line ``lithowave``: arguments and printing, nothing else."""

from __future__ import annotations

from lithowave.cli.app import app, main
from lithowave.rooms import public_names

__all__ = ["app", "main"]

__getattr__, _others = public_names(__name__, {
    "commands": "TEMPLATES solver_settings template tolerance_value",
    "printing": "json_text print_benchmarks",
    "progress": "print_run_summary",
})
__all__ += _others
