"""Three-dimensional models of the mantle on longitude, latitude and depth, relative to a radial model or absolute.

The files are those of `geographic_model`, such as NetCDF of the EarthScope Earth Model Collaboration (EMC). Relative
values are named ``dvp``, ``dlnvp`` or ``vp_perturbation`` (likewise vs and rho) or are in percent, and state their
unit: ``%`` or ``1``. Absolute values are named ``vp``, ``vs`` and ``rho``. Points without a value remain NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.array_files import ArrayEntry, ArrayFile, named_by_coordinates, open_arrays, unused_names
from lithowave.readers.geographic_model import AXIS_NAMES, axis_roles, read_geographic_axis, stated_extent
from lithowave.readers.gridded_model import read_property, stated_units

PROPERTIES = ("vp", "vs", "rho")
_ALIASES = {"density": "rho"}
_PERCENT = {"%", "percent", "per cent", "pct"}
_FRACTION = {"1", "fraction", "dimensionless", "unitless", "none"}
_LARGEST = 0.5  # of relative values
_PLAUSIBLE = {"vp": (300.0, 20_000.0), "vs": (30.0, 12_000.0), "rho": (300.0, 20_000.0)}


@dataclass(frozen=True, eq=False)
class PerturbationModel:
    """Values on ascending longitudes and latitudes, degrees, and z, m.

    relative, absolute : (longitudes, latitudes, levels) by property: fractions of the radial model, and values in SI;
    NaN at points without a value. unused : names of the other variables. notes : remarks for the user.
    """

    path: Path
    longitude: np.ndarray
    latitude: np.ndarray
    z: np.ndarray
    relative: Mapping[str, np.ndarray]
    absolute: Mapping[str, np.ndarray]
    unused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """Properties in the file."""
        return {*self.relative, *self.absolute}

    def extent_text(self) -> str:
        """Return the ends of the axes, for messages."""
        west, east, south, north = (float(one[end]) for one in (self.longitude, self.latitude) for end in (0, -1))
        top, bottom = (-float(self.z[end]) / 1e3 for end in (-1, 0))
        return (
            f"it covers longitudes {west:zg} to {east:zg}, latitudes {south:zg} to {north:zg} and depths {top:zg} to "
            f"{bottom:zg} km"
        )


def read_perturbation_model(path: str | Path) -> PerturbationModel:
    """Read a model.

    Raises
    ------
    InputError
        with the file and the variable: variables or axes that are missing or given twice, unknown units, relative
        values above 50%, absolute values that the Earth does not have, a damaged file.
    """
    path = Path(path)
    with open_arrays(path, "perturbations") as entries:
        return _model(named_by_coordinates(entries), path)


def _model(entries: ArrayFile, path: Path) -> PerturbationModel:
    by_name = {name.lower(): entry for name, entry in entries.items()}
    chosen = _variables(by_name, path)
    roles = axis_roles(entries, path)
    if missing := [role for role in AXIS_NAMES if role not in roles]:
        wanted = {"z": "a vertical axis such as depth"}.get(missing[0], f"an axis of {missing[0]}")
        raise InputError(next(iter(chosen.values())), f"has no {missing[0]}", f"expected {wanted}", file=path)
    axes = {
        roles[role]: read_geographic_axis(by_name, role, roles[role], entries.attributes, path) for role in AXIS_NAMES
    }
    flips = tuple(slice(None, None, -1 if axis[0] > axis[-1] else 1) for axis in axes.values())
    relative, absolute = {}, {}
    for name, label in chosen.items():
        scale = _relative_scale(label, name, by_name[label], path)
        values = read_property(by_name[label], name if scale is None else f"relative {name}", axes, path)[flips]
        if scale is None:
            absolute[name] = _checked(values, label, *_PLAUSIBLE[name], path)
        else:
            relative[name] = _checked(scale * values, label, -_LARGEST, _LARGEST, path)
    longitude, latitude, z = (axis[flip] for axis, flip in zip(axes.values(), flips, strict=True))
    longitude, relative, absolute = _closed(longitude, relative, absolute)
    used = [by_name[label] for label in (*chosen.values(), *roles.values())]
    notes = tuple(stated_extent(entries.attributes, roles, axes))
    return PerturbationModel(path, longitude, latitude, z, relative, absolute, unused_names(entries, used), notes)


def _variables(by_name: Mapping[str, ArrayEntry], path: Path) -> dict[str, str]:
    """Return the name of the variable of each property in a file."""
    found: dict[str, str] = {}
    for label in by_name:
        name = _property(label)
        if name in found:
            got = f"{name} has two variables, {found[name]} and {label}"
            raise InputError(label, got, "expected one of them", "remove one from the file", file=path)
        if name:
            found[name] = label
    if not found:
        there = ", ".join(label for label, entry in by_name.items() if len(entry.shape) == 3) or "none"
        raise InputError(
            "variables", "the file has neither absolute nor relative values of vp, vs or rho",
            f"expected names such as dvs or vs; three-dimensional variables in the file: {there}", file=path,
        )  # fmt: skip
    return found


def _property(label: str) -> str:
    """Return the property of a variable; empty for other variables."""
    plain = label
    for prefix in ("dln", "dlog", "d"):
        if plain.startswith(prefix) and _base(plain.removeprefix(prefix)):
            plain = plain.removeprefix(prefix)
            break
    for suffix in ("_perturbation", "_pert", "_anomaly", "_ptb"):
        plain = plain.removesuffix(suffix)
    return _base(plain)


def _base(label: str) -> str:
    name = _ALIASES.get(label, label)
    return name if name in PROPERTIES else ""


def _relative_scale(label: str, name: str, entry: ArrayEntry, path: Path) -> float | None:
    """Return the factor from the values of a variable to fractions; None for absolute values."""
    units = stated_units(entry).lower()
    if units in _PERCENT:
        return 0.01
    if label == name or _ALIASES.get(label) == name:
        return None
    if units in _FRACTION:
        return 1.0
    got = f"has the units {stated_units(entry)!r}" if units else "has no units"
    hint = f'give {label} the attribute units = "%" or "1"'
    raise InputError(label, got, "expected % or 1 for relative values", hint, file=path)


def _checked(values: np.ndarray, label: str, low: float, high: float, path: Path) -> np.ndarray:
    """Return values that are NaN or between two ends, as float64."""
    known = values[np.isfinite(values)].astype(float)
    if not known.size:
        raise InputError(label, "has no values", "expected values in a part of the grid", file=path)
    if known.min() < low or known.max() > high:
        got = f"runs from {known.min():.6g} to {known.max():.6g}"
        hint = "check the attribute units; points without a value need the attribute _FillValue"
        raise InputError(label, got, f"allowed: {low:g} to {high:g} (SI, or fractions)", hint, file=path)
    return values.astype(np.float64)


def _closed(
    longitude: np.ndarray, relative: dict[str, np.ndarray], absolute: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return a grid around the globe with the first meridian also as the last one."""
    step, span = float(np.diff(longitude).max()), float(longitude[-1] - longitude[0])
    if span < 360.0 - 1.5 * step or span >= 360.0 - 1e-6:
        return longitude, relative, absolute
    first, second = (
        {name: np.concatenate([values, values[:1]]) for name, values in part.items()} for part in (relative, absolute)
    )
    return np.append(longitude, longitude[0] + 360.0), first, second
