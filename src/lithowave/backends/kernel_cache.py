"""Numba's cache of compiled kernels on disk, safe for processes that compile at the same time.

Numba numbers the files of a function's variants (other types, other constants of a closure) and stores an index of
them. Two processes that compile different variants at once can choose the same number, and the index then maps one
variant to the code of the other: a kernel of another order or precision would run without an error. Here the content
of a file determines its name, and there is no index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile


class VariantFiles(IndexDataCacheFile):
    """Files of the variants of a function. key : types, processor, hashes of bytecode and constants of a variant."""

    def save(self, key: Any, data: Any) -> None:
        """Write a variant."""
        self._save_data(self._name(key), data)

    def load(self, key: Any) -> Any:
        """Read a variant; return None if it does not exist."""
        try:
            return self._load_data(self._name(key))
        except OSError:
            return None

    def _name(self, key: Any) -> str:
        whole = repr((self._version, self._source_stamp, key))
        return self._data_name_pattern.format(number=int(hashlib.sha256(whole.encode()).hexdigest()[:24], 16))


def njit(**options: Any) -> Callable[[Callable], Any]:
    """Return the decorator of `numba.njit`, with `VariantFiles` if the function is cached."""
    compiled = numba.njit(**options)

    def decorate(function: Callable) -> Any:
        dispatcher = compiled(function)
        if options.get("cache"):
            dispatcher._cache._cache_file.__class__ = VariantFiles
        return dispatcher

    return decorate
