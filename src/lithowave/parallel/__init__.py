"""Ranks of a run and communication between them: the only package that uses MPI and NCCL."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "halo": "Halo Message device_index require_own_device",
    "ranks": "Ranks SINGLE_RANK Watchdog make_ranks",
    "launchers": "launched wait_for_reader",
})
