"""Finite faults in the HDF5 form of the Standard Rupture Format, as SW4 reads it.

The file has the attributes VERSION (1.0 or 2.0) and PLANE (a compound type, one element per plane), a dataset POINTS
(a compound type, one element per subfault) and datasets SR1, SR2 and SR3: the samples of all subfaults, one subfault
after another. SR2 and SR3 may be absent if no subfault has samples of these components. Units are those of the text
form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.budget import ExpandedSize
from lithowave.readers.hdf5_files import open_hdf5, read_dataset
from lithowave.readers.srf_tables import PLANE_FIELDS, POINT_FIELDS, SLIP_FIELDS, WHAT, SrfTables, plane_of

_OTHER_NAMES = {"LON": "LONGITUDE", "LAT": "LATITUDE", "DEP": "DEPTH"}
"""Long names of some fields, which are read as well."""


def read_hdf5_tables(path: Path) -> SrfTables:
    """Return the values of an HDF5 file, samples in single precision unless the file has double precision.

    Raises
    ------
    InputError
        if attributes, datasets or fields are missing or of the wrong type, if the file is damaged, or if the numbers of
        samples do not match.
    """
    size = ExpandedSize(path)
    try:
        with open_hdf5(path) as file:
            version = _version(file, path)
            points = _table(file, "POINTS", (*POINT_FIELDS[version], *SLIP_FIELDS), path, size)
            planes = _table(file.attrs, "PLANE", PLANE_FIELDS, path, size) if "PLANE" in file.attrs else {}
            counts = _counts(points, path)
            samples = [_samples(file, component, counts[:, component], path, size) for component in range(3)]
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise InputError(WHAT, f"the HDF5 file cannot be read: {error}", file=path) from None
    rows = zip(*(planes[name] for name in PLANE_FIELDS), strict=True) if planes else ()
    offsets = np.concatenate([[0], np.cumsum(counts.ravel())])
    return SrfTables(
        path=path,
        points={name: values.astype(float) for name, values in points.items() if not name.startswith("NT")},
        rates=_interleaved(samples, counts),
        offsets=offsets,
        planes=tuple(
            plane_of(dict(zip(PLANE_FIELDS, row, strict=True)), path, f"PLANE[{index}]")
            for index, row in enumerate(rows)
        ),
        locate=lambda field, subfault: (f"POINTS[{subfault}].{field}", None),
    )


def _version(file: Any, path: Path) -> str:
    value = file.attrs.get("VERSION")
    if value is None:
        raise InputError("VERSION", "the attribute is missing", f"expected {' or '.join(POINT_FIELDS)}", file=path)
    text = value.decode() if isinstance(value, bytes) else str(np.asarray(value).ravel()[0] if np.size(value) else "")
    try:
        return next(name for name in POINT_FIELDS if float(name) == float(text))
    except (ValueError, StopIteration):
        raise InputError("VERSION", f"{text!r}", f"available: {' and '.join(POINT_FIELDS)}", file=path) from None


def _table(container: Any, key: str, names: tuple[str, ...], path: Path, size: ExpandedSize) -> dict[str, np.ndarray]:
    """Return the fields of a compound dataset or attribute."""
    if key not in container:
        raise InputError(key, "is missing", "expected a table with one element per subfault", file=path)
    item = container[key]
    data = np.atleast_1d(np.asarray(read_dataset(item, size) if hasattr(item, "id") else item)).ravel()
    if data.dtype.names is None:
        raise InputError(key, f"has the type {data.dtype}", f"expected a compound type: {', '.join(names)}", file=path)
    columns = {}
    for name in names:
        spelling = name if name in data.dtype.names else _OTHER_NAMES.get(name, name)
        if spelling not in data.dtype.names:
            raise InputError(key, f"has no field {name}", f"expected {', '.join(names)}", file=path)
        if data.dtype[spelling].kind not in "fiu":
            raise InputError(f"{key}.{spelling}", f"has the type {data.dtype[spelling]}", "expected numbers", file=path)
        columns[name] = data[spelling]
    if data.size == 0:
        raise InputError(key, "has no elements", "expected at least one", file=path)
    return columns


def _counts(points: dict[str, np.ndarray], path: Path) -> np.ndarray:
    """Return the numbers of samples, shape (n, 3)."""
    counts = np.stack([points[f"NT{component}"] for component in (1, 2, 3)], axis=-1)
    if (invalid := ~np.isfinite(counts) | (counts < 0) | (counts != np.floor(counts))).any():
        index, component = (int(value) for value in np.argwhere(invalid)[0])
        got = f"{counts[index, component]} is not a number of samples"
        raise InputError(f"POINTS[{index}].NT{component + 1}", got, "must be an integer of at least 0", file=path)
    return counts.astype(np.int64)


def _samples(file: Any, component: int, counts: np.ndarray, path: Path, size: ExpandedSize) -> np.ndarray:
    name, expected = f"SR{component + 1}", int(counts.sum())
    if name not in file:
        if expected == 0:
            return np.empty(0, dtype=np.float32)
        got = f"is missing, while NT{component + 1} of the subfaults add up to {expected} samples"
        raise InputError(name, got, "the file must contain the samples of all components with slip", file=path)
    data = file[name]
    if not hasattr(data, "dtype") or data.dtype.kind != "f":
        raise InputError(name, "is not a dataset of real numbers", file=path)
    if data.size != expected:
        got = f"has {data.size} samples, while NT{component + 1} of the subfaults add up to {expected}"
        raise InputError(name, got, "the numbers must agree", "check that the file is complete", file=path)
    return read_dataset(data, size).ravel()


def _interleaved(samples: list[np.ndarray], counts: np.ndarray) -> np.ndarray:
    """Return the samples with the components of each subfault one after another."""
    dtype = np.float64 if any(values.dtype == np.float64 for values in samples) else np.float32
    if not counts[:, 1:].any():
        return samples[0].astype(dtype)
    rates = np.empty(int(counts.sum()), dtype=dtype)
    component = np.repeat(np.tile(np.arange(3, dtype=np.int8), counts.shape[0]), counts.ravel())
    for index, values in enumerate(samples):
        rates[component == index] = values
    return rates
