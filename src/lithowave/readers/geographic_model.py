"""Gridded models on longitude, latitude and depth, such as those of the EarthScope Earth Model Collaboration (EMC).

Axes are identified by their names and the attributes ``standard_name``, ``units``, ``axis`` and ``positive``, never by
their order. Depth without a unit or direction takes them from the file attributes ``geospatial_vertical_units`` and
``geospatial_vertical_positive``. Points without a value (``_FillValue``, ``missing_value``) remain NaN: whether the
domain contains any is known only when the model is placed.

Models of the mantle may be relative to a radial model, or absolute. Relative values are named ``dvp``, ``dlnvp`` or
``vp_perturbation`` (likewise vs and rho) or are in percent, and state their unit: ``%`` or ``1``. Absolute values are
named ``vp``, ``vs`` and ``rho``. Points without a value remain NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.array_files import ArrayEntry, ArrayFile, named_by_coordinates, open_arrays, unused_names
from lithowave.readers.gridded_model import (
    GEOGRAPHIC,
    GriddedModel,
    quality_names,
    read_property,
    require_monotonic,
    require_shear_quality,
    stated_units,
    stored_axis,
)
from lithowave.readers.text import LENGTH, si_factor

if TYPE_CHECKING:
    from lithowave.json_types import ReadEntries

AXIS_NAMES = {
    "longitude": {"longitude", "lon", "long", "lons"},
    "latitude": {"latitude", "lat", "lats"},
    "z": {"depth", "z", "elevation", "altitude", "height"},
}
_STANDARD_NAMES = {
    "longitude": "longitude", "latitude": "latitude", "depth": "z", "altitude": "z", "height": "z",
    "height_above_mean_sea_level": "z", "depth_below_geoid": "z",
}  # fmt: skip
_DEGREES = {
    "longitude": {"degrees_east", "degree_east", "degreee", "degreese", "degrees_e", "degree_e"},
    "latitude": {"degrees_north", "degree_north", "degreen", "degreesn", "degrees_n", "degree_n"},
}
_PLAIN_DEGREES = {"degrees", "degree", "deg"}
_MAP_NAMES = {"projection_x_coordinate", "projection_y_coordinate"}
_PROPERTIES = ("vp", "vs", "rho")
_ALIASES = {"rho": ("density",)}
_DEEPEST = 6_400_000.0
_REMEDIES = {
    "vp": "compute vp, for example from vs by an empirical relation, and add it to the file",
    "vs": "compute vs, for example from vp by an empirical relation, and add it to the file",
    "rho": "compute rho, for example from vp by an empirical relation such as Gardner's, and add it to the file",
}


def axis_roles(entries: Mapping[str, ArrayEntry]) -> dict[str, str]:
    """Return for each of ``longitude``, ``latitude`` and ``z`` the name of the dimension of the variables of the model.

    Raises
    ------
    InputError : name and attributes of an axis contradict each other, or two dimensions have the same role.
    """
    by_name = {name.lower(): entry for name, entry in entries.items()}
    found: dict[str, str] = {}
    for name in _candidates(entries):
        role = axis_role(name, by_name.get(name))
        if role and role in found:
            raise InputError(name, f"is a second axis of {role}, in addition to {found[role]}")
        if role:
            found[role] = name
    return found


def is_geographic(entries: Mapping[str, ArrayEntry]) -> bool:
    """True if the variables of a file are on longitude or latitude.

    Raises
    ------
    InputError : the variables are on the axes of a map projection, which lithowave does not place.
    """
    roles = axis_roles(entries)
    if "longitude" in roles or "latitude" in roles:
        return True
    _refuse_map_axes(entries)
    return False


def read_geographic_model(entries: ArrayFile, path: Path) -> GriddedModel:
    """Return a model on longitude, latitude and z with the values of a file in SI; NaN at points without a value.

    Raises
    ------
    InputError
        with the file and the variable: missing variables or axes, perturbations instead of absolute values, unknown
        units or directions, inconsistent shapes, axes that are not monotonic, a damaged file.
    """
    by_name = {name.lower(): entry for name, entry in entries.items()}
    properties = _property_entries(by_name)
    roles = axis_roles(entries)
    if missing := [role for role in ("longitude", "latitude", "z") if role not in roles]:
        wanted = {"z": "a vertical axis such as depth"}.get(missing[0], f"an axis of {missing[0]}")
        has = ", ".join(_candidates(entries))
        raise InputError("vp", f"has no {missing[0]}", f"expected {wanted}; it has {has}")
    notes: list[str] = []
    axes = {
        roles[role]: read_geographic_axis(by_name, role, roles[role], entries.attributes, repeated=True)
        for role in AXIS_NAMES
    }
    arrays = {name: read_property(entry, name, axes) for name, entry in properties.items()}
    factors = quality_names(by_name)
    quality = {name: read_property(by_name[name], name, axes) for name in factors}
    require_shear_quality(quality, arrays["vs"])
    notes += stated_extent(entries.attributes, roles, axes)
    flips = tuple(slice(None, None, -1 if axis[0] > axis[-1] else 1) for axis in axes.values())
    longitude, latitude, z = (axis[flip] for axis, flip in zip(axes.values(), flips, strict=True))
    used = [*properties.values(), *(by_name[name] for name in (*roles.values(), *factors))]
    return GriddedModel(
        path, longitude, latitude, z, *(arrays[name][flips] for name in _PROPERTIES),
        quality={name: values[flips] for name, values in quality.items()},
        units={name: text for name, entry in properties.items() if (text := stated_units(entry))},
        unused=unused_names(entries, used), frame=GEOGRAPHIC, notes=tuple(notes),
    )  # fmt: skip


def _candidates(entries: Mapping[str, ArrayEntry]) -> list[str]:
    """Return the names of the axes: the dimensions of the first property, else all names of one-dimensional arrays."""
    by_name = {name.lower(): entry for name, entry in entries.items()}
    given = [by_name[name] for name in (*_PROPERTIES, "density") if name in by_name]
    given += [entry for entry in entries.values() if len(entry.shape) == 3]
    for entry in given:
        if entry.dimensions:
            return [name.lower() for name in entry.dimensions]
    return [name for name, entry in by_name.items() if len(entry.shape) == 1]


def axis_role(name: str, entry: ArrayEntry | None) -> str:
    """Return the role of an axis; empty if it is not known."""
    by_name = next((role for role, names in AXIS_NAMES.items() if name in names), "")
    if entry is None:
        return by_name
    units = stated_units(entry).lower().replace(" ", "_")
    standard = _STANDARD_NAMES.get(str(entry.attributes.get("standard_name", "")).strip().lower(), "")
    by_units = next((role for role, spellings in _DEGREES.items() if units in spellings), "")
    if not by_units and units in _PLAIN_DEGREES and name in ("x", "y"):
        by_units = {"x": "longitude", "y": "latitude"}[name]
    stated = {role for role in (by_name, standard, by_units) if role}
    if len(stated) > 1:
        details = f"standard_name = {entry.attributes.get('standard_name', '')!r}, units = {stated_units(entry)!r}"
        raise InputError(name, f"name and attributes contradict each other ({details})")
    return stated.pop() if stated else ""


def _refuse_map_axes(entries: Mapping[str, ArrayEntry]) -> None:
    """Refuse axes x and y on a map that is not that of the domain, such as UTM."""
    attributes = getattr(entries, "attributes", {})
    zone = next((name for name in attributes if name.lower() in ("utm_zone", "grid_mapping_name")), None)
    for name, entry in entries.items():
        short, standard = name.lower(), str(entry.attributes.get("standard_name", "")).lower()
        two_dimensional = short in ("longitude", "latitude", "lon", "lat") and len(entry.shape) == 2
        if not two_dimensional and standard not in _MAP_NAMES and "grid_mapping" not in entry.attributes:
            continue
        reason = "there are longitudes and latitudes of each point" if two_dimensional else "it states a map projection"
        raise InputError(
            name,
            f"the axes x and y are those of a map, not of the domain: {reason}",
            "expected the axes longitude, latitude and depth, or x and y in the local coordinates of the domain",
            "use the version of the model on longitude and latitude, or resample it",
        )
    if zone is not None:
        raise InputError(
            zone,
            f"the axes are those of a map, {attributes[zone]!r}, not of the domain",
            "expected the axes longitude, latitude and depth, or x and y in the local coordinates of the domain",
            "use the version of the model on longitude and latitude, or resample it",
        )


def _property_entries(by_name: Mapping[str, ArrayEntry]) -> dict[str, ArrayEntry]:
    """Return the variables of vp, vs and rho, absolute values all three."""
    found: dict[str, ArrayEntry] = {}
    for name in _PROPERTIES:
        there = [label for label in (name, *_ALIASES.get(name, ())) if label in by_name]
        if len(there) > 1:
            raise InputError(name, f"has two variables, {' and '.join(there)}", "expected one of them")
        if there:
            found[name] = by_name[there[0]]
    for name in _PROPERTIES:
        if name in found:
            units = stated_units(found[name]).lower()
            if units in ("%", "percent", "per cent"):
                raise _perturbation(name, f"the units {stated_units(found[name])!r}")
            continue
        related = [label for label in by_name if name in label or label == f"d{name[-1]}"]
        perturbed = [label for label in related if _is_perturbation(label, name)]
        if perturbed:
            raise _perturbation(perturbed[0], f"{name} is missing, and {perturbed[0]} is a perturbation")
        horizontal = [label for label in (f"{name}v", f"{name}h") if label in by_name]
        if horizontal:
            raise InputError(
                name,
                f"the variable is missing; {' and '.join(horizontal)} are those of a radially anisotropic model",
                "expected isotropic vp, vs and rho",
                f"add an isotropic {name}, for example the Voigt average, to the file",
            )
        there_are = ", ".join(label for label, entry in by_name.items() if len(entry.shape) == 3) or "none"
        raise InputError(
            name, "the variable is missing",
            f"expected vp, vs and rho; three-dimensional variables in the file: {there_are}", _REMEDIES[name],
        )  # fmt: skip
    return found


def _is_perturbation(label: str, name: str) -> bool:
    return "pert" in label or "anom" in label or label in (f"d{name}", f"dln{name}", f"dlog{name}", f"{name}_ptb")


def _perturbation(name: str, got: str) -> InputError:
    return InputError(
        name, f"contains relative values, not absolute ones: {got}", "expected absolute values",
        "add the reference model to the perturbation, and store the result",
    )  # fmt: skip


def read_geographic_axis(
    by_name: Mapping[str, ArrayEntry], role: str, name: str, attributes: ReadEntries,
    repeated: bool = False,
) -> np.ndarray:  # fmt: skip
    """Return coordinates in the order of the file: degrees, or z in m, which may appear twice if ``repeated``."""
    values, entry = stored_axis(by_name, name), by_name[name]
    if role == "longitude":
        values = _unwrapped(values)
    require_monotonic(values, name, repeated and role == "z")
    if role == "z":
        return _heights(entry, name, values, attributes)
    units = stated_units(entry).lower().replace(" ", "_")
    if units and units not in _DEGREES[role] | _PLAIN_DEGREES:
        raise InputError(name, f"has the units {stated_units(entry)!r}", "expected degrees")
    low, high = (-90.0, 90.0) if role == "latitude" else (-360.0, 540.0)
    if values.min() < low or values.max() > high or values.max() - values.min() > 360.0 + 1e-6:
        got = f"runs from {values.min():.12g} to {values.max():.12g} degrees"
        raise InputError(name, got, f"a {role} is within {low:g} to {high:g}, over at most 360 degrees")
    return values


def _unwrapped(longitude: np.ndarray) -> np.ndarray:
    """Return longitudes without the jump at 180 or 360 degrees, if there is exactly one."""
    steps = np.diff(longitude)
    jumps = np.flatnonzero(np.abs(steps) > 180.0)
    if jumps.size != 1 or (steps > 0).all() or (steps < 0).all():
        return longitude
    unwrapped = longitude.copy()
    unwrapped[jumps[0] + 1 :] -= 360.0 * np.sign(steps[jumps[0]])
    return unwrapped


def _heights(entry: ArrayEntry, name: str, values: np.ndarray, attributes: ReadEntries) -> np.ndarray:
    """Return z in m from a vertical axis."""
    units = stated_units(entry) or str(attributes.get("geospatial_vertical_units", "")).strip()
    if not units:
        hint = f'give {name} the attribute units = "km" or "m"'
        raise InputError(name, "has no units", "the unit of depth in models of the Earth may be m or km", hint)
    factor = si_factor(units, LENGTH)
    if factor is None:
        raise InputError(name, f"has the units {units!r}", "expected a length such as m or km")
    z = values * factor
    z = -z + 0.0 if _points_down(entry, name, z, attributes) else z
    if np.abs(z).max() > _DEEPEST:
        got = f"reaches {values[np.abs(values).argmax()]:.12g} {units}, more than the radius of the Earth"
        hint = "Is the axis in m?" if factor > 1.0 and np.abs(values).max() <= _DEEPEST else ""
        raise InputError(name, got, "", hint)
    return z


def _points_down(entry: ArrayEntry, name: str, z: np.ndarray, attributes: ReadEntries) -> bool:
    stated = entry.attributes.get("positive") or attributes.get("geospatial_vertical_positive") or ""
    positive = str(stated).strip().lower()
    if positive not in ("", "up", "down"):
        raise InputError(name, f"has the attribute positive = {stated!r}", "expected up or down")
    if positive:
        return positive == "down"
    standard = str(entry.attributes.get("standard_name", "")).lower()
    if name == "depth" or standard.startswith("depth"):
        if (z < 0).any() and not (z > 0).any():
            got = "has negative depths only, and does not state the positive direction"
            raise InputError(name, got, "expected the attribute positive = down (or up, for heights)")
        return True
    if name in ("elevation", "altitude", "height") or standard.startswith(("altitude", "height")):
        return False
    raise InputError(name, "does not state its positive direction", "expected the attribute positive = down or up")


def stated_extent(attributes: ReadEntries, roles: Mapping[str, str], axes: Mapping[str, np.ndarray]) -> list[str]:
    """Return notes on file attributes that state another extent than the axes."""
    notes = []
    for role, short in (("longitude", "lon"), ("latitude", "lat")):
        axis = axes[roles[role]]
        for end, actual in (("min", float(axis.min())), ("max", float(axis.max()))):
            key = f"geospatial_{short}_{end}"
            try:
                stated = float(attributes[key])
            except (KeyError, TypeError, ValueError):
                continue
            tolerance = float(np.abs(np.diff(axis)).max())
            difference = stated - actual
            if role == "longitude":
                difference = (difference + 180.0) % 360.0 - 180.0
            if abs(difference) > tolerance:
                notes.append(
                    f"the attribute {key} = {stated:g} of the file contradicts the axis {roles[role]}, which ends at "
                    f"{actual:g} degrees; the axis is used"
                )
    return notes


PROPERTIES = ("vp", "vs", "rho")
_PERTURBATION_ALIASES = {"density": "rho"}
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
    chosen = _variables(by_name)
    roles = axis_roles(entries)
    if missing := [role for role in AXIS_NAMES if role not in roles]:
        wanted = {"z": "a vertical axis such as depth"}.get(missing[0], f"an axis of {missing[0]}")
        raise InputError(next(iter(chosen.values())), f"has no {missing[0]}", f"expected {wanted}")
    axes = {roles[role]: read_geographic_axis(by_name, role, roles[role], entries.attributes) for role in AXIS_NAMES}
    flips = tuple(slice(None, None, -1 if axis[0] > axis[-1] else 1) for axis in axes.values())
    relative, absolute = {}, {}
    for name, label in chosen.items():
        scale = _relative_scale(label, name, by_name[label])
        values = read_property(by_name[label], name if scale is None else f"relative {name}", axes)[flips]
        if scale is None:
            absolute[name] = _checked(values, label, *_PLAUSIBLE[name])
        else:
            relative[name] = _checked(scale * values, label, -_LARGEST, _LARGEST)
    longitude, latitude, z = (axis[flip] for axis, flip in zip(axes.values(), flips, strict=True))
    longitude, relative, absolute = _closed(longitude, relative, absolute)
    used = [by_name[label] for label in (*chosen.values(), *roles.values())]
    notes = tuple(stated_extent(entries.attributes, roles, axes))
    return PerturbationModel(path, longitude, latitude, z, relative, absolute, unused_names(entries, used), notes)


def _variables(by_name: Mapping[str, ArrayEntry]) -> dict[str, str]:
    """Return the name of the variable of each property in a file."""
    found: dict[str, str] = {}
    for label in by_name:
        name = _property(label)
        if name in found:
            got = f"{name} has two variables, {found[name]} and {label}"
            raise InputError(label, got, "expected one of them", "remove one from the file")
        if name:
            found[name] = label
    if not found:
        there = ", ".join(label for label, entry in by_name.items() if len(entry.shape) == 3) or "none"
        raise InputError(
            "variables", "the file has neither absolute nor relative values of vp, vs or rho",
            f"expected names such as dvs or vs; three-dimensional variables in the file: {there}",
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
    name = _PERTURBATION_ALIASES.get(label, label)
    return name if name in PROPERTIES else ""


def _relative_scale(label: str, name: str, entry: ArrayEntry) -> float | None:
    """Return the factor from the values of a variable to fractions; None for absolute values."""
    units = stated_units(entry).lower()
    if units in _PERCENT:
        return 0.01
    if label == name or _PERTURBATION_ALIASES.get(label) == name:
        return None
    if units in _FRACTION:
        return 1.0
    got = f"has the units {stated_units(entry)!r}" if units else "has no units"
    hint = f'give {label} the attribute units = "%" or "1"'
    raise InputError(label, got, "expected % or 1 for relative values", hint)


def _checked(values: np.ndarray, label: str, low: float, high: float) -> np.ndarray:
    """Return values that are NaN or between two ends, as float64."""
    known = values[np.isfinite(values)].astype(float)
    if not known.size:
        raise InputError(label, "has no values", "expected values in a part of the grid")
    if known.min() < low or known.max() > high:
        got = f"runs from {known.min():.6g} to {known.max():.6g}"
        hint = "check the attribute units; points without a value need the attribute _FillValue"
        raise InputError(label, got, f"allowed: {low:g} to {high:g} (SI, or fractions)", hint)
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
