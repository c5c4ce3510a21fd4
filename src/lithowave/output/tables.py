"""Tables of results for pandas, and the packages that Python results need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from lithowave.errors import MissingPackageError


def require(package: str, purpose: str) -> None:
    """Raise MissingPackageError if an optional package of the extra ``data`` is not installed."""
    if find_spec(package) is None:
        raise MissingPackageError(package, purpose, "data")


def data_frame(rows: Sequence[Mapping[str, Any]], index: str, units: Mapping[str, str]) -> Any:
    """Return rows as a pandas DataFrame.

    Parameters
    ----------
    index : the key of the index.
    units : of the columns; stored in ``attrs["units"]``.

    Raises
    ------
    MissingPackageError : pandas is not installed.
    """
    require("pandas", "A DataFrame")
    from pandas import DataFrame

    frame = DataFrame([dict(row) for row in rows]).set_index(index)
    frame.attrs["units"] = {name: unit for name, unit in units.items() if name in frame.columns}
    return frame
