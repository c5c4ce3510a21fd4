"""Arguments of kernels by name: each method has one table of argument lists for the CPU and the CUDA version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ArgumentTable = Mapping[str, tuple[str, ...]]


def named_arguments(table: ArgumentTable, kernel: str, arguments: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of a call by name.

    Parameters
    ----------
    table : names of the arguments of each kernel, in order.
    kernel : name of the kernel.
    arguments : values of all its arguments.

    Raises
    ------
    TypeError : the number of arguments is not that of the table.
    """
    names = table[kernel]
    if len(arguments) != len(names):
        raise TypeError(f"{kernel} takes {len(names)} arguments ({', '.join(names)}), not {len(arguments)}")
    return dict(zip(names, arguments, strict=True))
