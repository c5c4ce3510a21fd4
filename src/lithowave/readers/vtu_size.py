"""The size of the compressed arrays of a VTU file, which meshio expands without a limit."""

from __future__ import annotations

import base64
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.readers.budget import ExpandedSize

_HEADERS = {b"UInt32": 4, b"UInt64": 8}
_EXPANDERS: dict[bytes, Callable[[], Any]] = {
    b"vtkZLibDataCompressor": zlib.decompressobj, b"vtkLZMADataCompressor": lzma.LZMADecompressor
}  # fmt: skip
_ARRAY = re.compile(rb"<DataArray\b([^>]*)>([^<]*)")
_AT_ONCE = 1 << 20


def require_size(path: Path) -> None:
    """Expand the compressed arrays of a file without storing them.

    Raises
    ------
    ValueError : the arrays are larger than the budget of the file, or the file has a document type declaration.
    """
    data = path.read_bytes()
    appended = data.find(b"<AppendedData")
    text = data if appended < 0 else data[:appended]
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise ValueError("it has a document type declaration (DOCTYPE), which is not accepted for security")
    compressor = re.search(rb"<VTKFile\b[^>]*\bcompressor\s*=\s*[\"']([^\"']*)", text)
    if compressor is None:
        return
    expander = _EXPANDERS.get(compressor[1])
    if expander is None:
        raise ValueError(f"its compression {compressor[1].decode('latin-1')} is not known")
    kind = re.search(rb"<VTKFile\b[^>]*\bheader_type\s*=\s*[\"']([^\"']*)", text)
    width = _HEADERS.get(kind[1] if kind else b"UInt32", 4)
    big = re.search(rb"<VTKFile\b[^>]*\bbyte_order\s*=\s*[\"']BigEndian", text)
    words = np.dtype(f"{'>' if big else '<'}u{width}")
    size = ExpandedSize(path)
    start = data.find(b"_", data.find(b">", appended)) + 1 if appended >= 0 else 0
    is_raw = b"raw" in data[appended : data.find(b">", appended)] if appended >= 0 else False
    for attributes, content in _ARRAY.findall(text):
        offset = re.search(rb"\boffset\s*=\s*[\"'](\d{1,18})", attributes)
        if offset is not None and appended >= 0:
            _expand(data, start + int(offset[1]), is_raw, words, expander, size)
        elif b"binary" in attributes:
            stripped = content.strip()
            _expand(stripped, 0, False, words, expander, size)


def _expand(
    data: bytes, start: int, is_raw: bool, words: np.dtype, expander: Callable[[], Any], size: ExpandedSize
) -> None:
    """Add the size of the blocks of one array; nothing is added for an array that is damaged."""
    width = words.itemsize

    def decoded(first: int, count: int) -> bytes:
        return data[first : first + count] if is_raw else base64.b64decode(data[first : first + _characters(count)])

    count = np.frombuffer(decoded(start, width)[:width], words)
    if count.size == 0 or int(count[0]) > len(data):
        return
    header_bytes = width * (3 + int(count[0]))
    lengths = np.frombuffer(decoded(start, header_bytes)[:header_bytes], words)[3:].astype(int)
    if not (0 <= lengths.sum() <= len(data)):
        return
    body = decoded(start + (header_bytes if is_raw else _characters(header_bytes)), int(lengths.sum()))
    for first, length in zip(np.cumsum(lengths) - lengths, lengths, strict=True):
        block, one = body[first : first + length], expander()
        while not one.eof:
            piece = one.decompress(block, _AT_ONCE)
            size.add(len(piece))
            block = getattr(one, "unconsumed_tail", b"")  # LZMA stores the rest itself
            if not piece and not block:
                break


def _characters(count: int) -> int:
    """Return the number of characters of bytes in base64."""
    return -(-count // 3) * 4
