"""The type of parsed JSON and YAML, whose entries the code that reads them knows, not Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Entries = dict[str, Any]
"""Entries of an object that is written to a file, such as those of run.json."""
ReadEntries = Mapping[str, Any]
"""Entries of an object that has been read from a file."""
