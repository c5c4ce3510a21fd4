"""Formats of seismogram files, identified by their first bytes.

ObsPy tries all its formats if the format is not stated, among them one that executes code from the file (pickle), and
formats whose files name other files. lithowave therefore identifies the format and accepts only those listed here.
"""

from __future__ import annotations

import re
import struct

HEAD_BYTES = 3600
"""Number of bytes from the start of a file that `waveform_format` requires."""

NAMES = "MiniSEED, SAC, SEG-Y, SEG-2, GSE, K-NET, SLIST, TSPAIR"

_SEED_RECORD = re.compile(rb"[\d \0]{6}[DRQMVAST ][ \0]?")
_STARTS = {b"WID2": "GSE2", b"WID1": "GSE1", b"XW01": "GSE1", b"Origin Time": "KNET"}
_STARTS |= {b"\x55\x3a": "SEG2", b"\x3a\x55": "SEG2"}
_SAC_VERSIONS = (6, 7)
_SAC_HEADER, _SEGY_HEADERS = 632, 3600
_SEGY_SAMPLES = (1, 2, 3, 4, 5, 8)


def waveform_format(head: bytes) -> str | None:
    """Return ObsPy's name of the format of a file that begins with these bytes; None if it is not one of `NAMES`."""
    for start, name in _STARTS.items():
        if head.startswith(start):
            return name
    if head.startswith(b"TIMESERIES"):
        line = head.partition(b"\n")[0]
        return next((name for name in ("SLIST", "TSPAIR") if name.encode() in line), None)
    if _SEED_RECORD.match(head) and head[:6].strip(b" \0").isdigit():
        return "MSEED"
    if len(head) >= _SAC_HEADER and _is_sac(head):
        return "SAC"
    if len(head) >= _SEGY_HEADERS and _is_segy(head):
        return "SEGY"
    return None


def _is_sac(head: bytes) -> bool:
    """True for a binary SAC header of either byte order: its version, and flags that are -12345, 0 or 1."""
    for order in "<>":
        version, flags = struct.unpack_from(f"{order}i", head, 304)[0], struct.unpack_from(f"{order}4i", head, 420)
        if version in _SAC_VERSIONS and all(flag in (-12345, 0, 1) for flag in flags):
            return True
    return False


def _is_segy(head: bytes) -> bool:
    """True for a binary SEG-Y header of either byte order with a known sample format and positive numbers of samples
    and microseconds between them."""
    for order in "<>":
        interval, _, count, _, kind = struct.unpack_from(f"{order}5H", head, 3216)
        if kind in _SEGY_SAMPLES and interval > 0 and count > 0:
            return True
    return False
