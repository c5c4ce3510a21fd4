"""The budget within which a description and its files are examined.

Small files can require much memory and time: by aliases that repeat entries, by compression, by counts. Readers compare
sizes with these limits before they allocate memory. A file that is refused takes at most 2 s and 500 MB.
"""

from __future__ import annotations

from pathlib import Path

DESCRIPTION_BYTES = 64 << 20
"""Largest simulation file."""

REPEATED_ENTRIES = 100_000
"""Most entries that the aliases of a YAML text may repeat."""

NESTING = 100
"""Most brackets and braces of a YAML text within each other."""

DIGITS = 300
"""Most digits of an integer; larger values exceed the range of floating-point numbers."""

LINE_BYTES = 8 << 20
"""Longest line of a text file, and the longest text of an XML element."""

EXPANDED_BYTES = 256 << 20
"""Size of the contents of a compressed file up to which any compression is accepted."""

EXPANSION = 50
"""Beyond that size, the largest ratio of the size of the contents and that of the file."""

RECEIVERS = 1_000_000
"""Most receivers of a simulation."""

SHOTS = 1_000_000
"""Most shots of a survey."""


class ExpandedSize:
    """The size of the contents of one file, as far as they are read."""

    def __init__(self, path: Path) -> None:
        self.limit = max(EXPANDED_BYTES, EXPANSION * path.stat().st_size)
        self.total = 0

    def add(self, size: int) -> None:
        """Add a size in bytes, before memory for it is allocated.

        Raises
        ------
        ValueError : the file declares more than its budget.
        """
        self.total += size
        if self.total > self.limit:
            raise ValueError(
                f"it declares {size} bytes, {self.total} in total; allowed for this file: {self.limit} bytes. "
                "Write the file without compression and without missing chunks"
            )
