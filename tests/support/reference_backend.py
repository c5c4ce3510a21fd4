"""The CPU backend for tests that need a plan but no arrays."""

from __future__ import annotations

from lithowave.backends import make_backend

CPU = make_backend("cpu", "single", 1)
