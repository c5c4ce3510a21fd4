"""The type of parsed JSON and YAML, whose entries the code that reads them knows, not Python, and values for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Entries = dict[str, Any]
"""Entries of an object that is written to a file, such as those of run.json."""
ReadEntries = Mapping[str, Any]
"""Entries of an object that has been read from a file."""


def finite(value: object) -> object:
    """Return a value for JSON: arrays become lists, infinite values and NaN become None."""
    if isinstance(value, Mapping):
        return {str(name): finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry) for entry in value]
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
