"""Signatures of CUDA kernels, read from their source, and arguments bound to them by name.

The emulation of CUDA in the tests uses the same functions, so neither CuPy nor a device is needed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ATTRIBUTES = r"(?:__\w+__\s*\((?:[^()]|\([^()]*\))*\)\s*)*"  # __launch_bounds__(...), __cluster_dims__(...)
HEAD = re.compile(rf'extern\s+"C"\s+__global__\s+{ATTRIBUTES}void\s+{ATTRIBUTES}(\w+)\s*\(')
PARAMETER = re.compile(r"(?P<ctype>.*?[\s*&])\s*(?P<name>[A-Za-z_]\w*)", re.DOTALL)
QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__|struct)\b|&")
SYNONYMS = {
    "unsigned int": "unsigned",
    "long long int": "long long",
    "unsigned long long int": "unsigned long long",
    "unsigned short int": "unsigned short",
}
DTYPES = {
    "float": np.float32,
    "double": np.float64,
    "unsigned char": np.uint8,
    "unsigned short": np.uint16,
    "int": np.int32,
    "unsigned": np.uint32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
}


class Parameter(NamedTuple):
    """A parameter of a kernel: type without qualifiers (``real*``, ``long long``, ``CUtensorMap``) and name."""

    ctype: str
    name: str

    @property
    def is_pointer(self) -> bool:
        """True if an array is expected."""
        return self.ctype.endswith("*")


def kernel_signatures(text: str) -> dict[str, list[Parameter]]:
    """Return the parameters of every ``extern "C" __global__`` function in a source, by its name.

    Raises
    ------
    ValueError : a parameter cannot be read, or two kernels of one name have different parameters.
    """
    code, found = COMMENTS.sub(" ", text), {}
    for head in HEAD.finditer(code):
        name = head[1]
        parameters = [_parameter(part, name) for part in _split(code, head.end())]
        if found.setdefault(name, parameters) != parameters:
            raise ValueError(f"kernel {name} is defined twice, with different parameters")
    return found


def _split(code: str, begin: int) -> list[str]:
    """Return the text between an open parenthesis and its end, split at commas outside inner brackets."""
    depth, last, parts = 1, begin, []
    for place in range(begin, len(code)):
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(code[place], 0)
        if depth == 0 or (depth == 1 and code[place] == ","):
            parts.append(code[last:place].strip())
            last = place + 1
        if depth == 0:
            break
    return [] if parts in ([""], ["void"]) else parts


def _parameter(text: str, kernel: str) -> Parameter:
    found = PARAMETER.fullmatch(text)
    if found is None:
        raise ValueError(f"kernel {kernel}: {text!r} is not a parameter that can be bound; write TYPE name")
    ctype = " ".join(QUALIFIERS.sub(" ", found["ctype"]).replace("*", " * ").split()).replace(" *", "*")
    base = ctype.rstrip("*")
    return Parameter(SYNONYMS.get(base, base) + ctype[len(base) :], found["name"])


def bind(
    name: str, parameters: Sequence[Parameter], arguments: Mapping[str, Any], dtype: np.dtype
) -> list[Any]:
    """Return the values of a kernel's parameters, in order, converted to the types of the kernel.

    Parameters
    ----------
    name : of the kernel. arguments : values by parameter name; others are ignored. dtype : of ``real``.

    Returns
    -------
    An array for a pointer, a NumPy scalar for a number, a contiguous array of uint8 for a struct. Arrays of numbers
    must have the kernel's type; a pointer to structs accepts any array. A struct by value is given as its bytes: an
    array of uint8, bytes, or a NumPy record.

    Raises
    ------
    TypeError : an argument is missing or has the wrong type, with the names of kernel and parameter.
    """
    types = DTYPES | {"real": dtype}
    return [_value(name, parameter, arguments, types) for parameter in parameters]


def _value(kernel: str, parameter: Parameter, arguments: Mapping[str, Any], types: Mapping[str, Any]) -> Any:
    try:
        value = arguments[parameter.name]
    except KeyError:
        raise TypeError(f"kernel {kernel}: no argument for {parameter.ctype} {parameter.name}") from None
    convert = _array if parameter.is_pointer else _number if parameter.ctype in types else _struct
    try:
        return convert(value, parameter.ctype, types)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"kernel {kernel}: argument {parameter.name}: {error}") from None


def _array(value: Any, ctype: str, types: Mapping[str, Any]) -> Any:
    wanted = np.dtype(types[ctype[:-1]]) if ctype[:-1] in types else None  # structs have a layout of their own
    if isinstance(value, np.generic) or not hasattr(value, "dtype"):
        raise TypeError(f"{ctype} needs an array{f' of {wanted}' if wanted else ''}, not {type(value).__name__}")
    if wanted is not None and value.dtype != wanted:
        raise TypeError(f"{ctype} needs an array of {wanted}, not of {value.dtype}")
    return value


def _number(value: Any, ctype: str, types: Mapping[str, Any]) -> np.generic:
    wanted = np.dtype(types[ctype])
    if np.ndim(value) != 0 or not isinstance(value, (int, float, np.number, np.bool_)):
        raise TypeError(f"{ctype} needs a number, not {type(value).__name__}")
    if wanted.kind in "iu":
        if int(value) != value or not np.iinfo(wanted).min <= int(value) <= np.iinfo(wanted).max:
            raise TypeError(f"{ctype} cannot hold {value}")
        return wanted.type(int(value))
    return wanted.type(value)


def _struct(value: Any, ctype: str, _types: Mapping[str, Any]) -> np.ndarray:
    if isinstance(value, np.void) or (isinstance(value, np.ndarray) and value.dtype.kind == "V"):
        value = value.tobytes()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return np.frombuffer(value, np.uint8)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8:
        raise TypeError(f"{ctype} needs its bytes: an array of uint8, not {type(value).__name__}")
    if ctype == "CUtensorMap" and value.size != 128:
        raise TypeError(f"CUtensorMap has 128 bytes, not {value.size}")
    return np.ascontiguousarray(value)
