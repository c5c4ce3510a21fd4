"""The values of a file in the Standard Rupture Format, in the units of the format, and their conversion to a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lithowave.errors import InputError, issue_warning
from lithowave.faults.segments import segment_sums, trapezoids
from lithowave.faults.subfaults import COMPONENTS, SLIP_TOLERANCE, FaultPlane, FiniteFault, SubfaultError, slip_mismatch

WHAT = "SRF"

PLANE_FIELDS = ("ELON", "ELAT", "NSTK", "NDIP", "LEN", "WID", "STK", "DIP", "DTOP", "SHYP", "DHYP")
POINT_FIELDS = {
    "1.0": ("LON", "LAT", "DEP", "STK", "DIP", "AREA", "TINIT", "DT"),
    "2.0": ("LON", "LAT", "DEP", "STK", "DIP", "AREA", "TINIT", "DT", "VS", "DEN"),
}
"""Values of the first line of a subfault."""
SLIP_FIELDS = ("RAKE", "SLIP1", "NT1", "SLIP2", "NT2", "SLIP3", "NT3")
"""Values of its second line."""

# Names of the fields of FiniteFault in the format, factors from the units of the format to SI, and these units.
# fmt: off
_FIELDS = {
    "longitude": ("LON", 1.0, "degrees"), "latitude": ("LAT", 1.0, "degrees"), "depth": ("DEP", 1e3, "km"),
    "strike": ("STK", 1.0, "degrees"), "dip": ("DIP", 1.0, "degrees"), "rake": ("RAKE", 1.0, "degrees"),
    "area": ("AREA", 1e-4, "cm2"), "start": ("TINIT", 1.0, "s"), "interval": ("DT", 1.0, "s"),
    "vs": ("VS", 1e-2, "cm/s"), "density": ("DEN", 1e3, "g/cm3"), "slip1": ("SLIP1", 1e-2, "cm"),
    "slip2": ("SLIP2", 1e-2, "cm"), "slip3": ("SLIP3", 1e-2, "cm"),
}
# fmt: on
_CM_PER_M = 100

_SLOWEST = 50.0
"""Least S-wave velocity in m/s; a smaller value suggests that VS is not in cm/s."""
_SLIP_DIGITS = 1e-3
"""Relative difference of slip below which the digits of a file may not distinguish two rules of integration."""
_AREA_TOLERANCE = 0.2
"""Relative difference between the area of the planes and of the subfaults that is worth a warning."""


@dataclass(frozen=True, eq=False)
class SrfTables:
    """Values of a file in its units.

    Attributes
    ----------
    path : the file.
    points : (n,) double precision values by the names of `POINT_FIELDS` and `SLIP_FIELDS`, except NT1, NT2 and NT3.
    rates : (total,) samples of all components in the order of `FiniteFault`.
    offsets : (3 n + 1,) as in `FiniteFault`.
    planes : in SI units.
    locate : returns the place of a field of a subfault for messages: the key, and the line or None.
    """

    path: Path
    points: Mapping[str, np.ndarray]
    rates: np.ndarray
    offsets: np.ndarray
    planes: tuple[FaultPlane, ...]
    locate: Callable[[str, int], tuple[str, int | None]]

    def error(self, field: str, subfault: int, got: str, allowed: str = "", hint: str = "") -> InputError:
        """Return the error for a field of a subfault."""
        where, line = self.locate(field, subfault)
        return InputError(where, got, allowed, hint, file=self.path, line=line)


def plane_of(values: Mapping[str, float], path: Path, where: str, line: int | None = None) -> FaultPlane:
    """Return a plane in SI units; an error if its values are out of range.

    A segment without the hypocenter has SHYP = DHYP = -999.9 in some files; these are not checked.
    """
    checks = (
        ("ELON", abs(values["ELON"]) <= 360.0, "must be between -360 and 360 degrees"),
        ("ELAT", abs(values["ELAT"]) <= 90.0, "must be between -90 and 90 degrees"),
        ("NSTK", values["NSTK"] >= 1, "must be at least 1"),
        ("NDIP", values["NDIP"] >= 1, "must be at least 1"),
        ("LEN", values["LEN"] > 0.0, "must be positive (km)"),
        ("WID", values["WID"] > 0.0, "must be positive (km)"),
        ("DIP", 0.0 <= values["DIP"] <= 90.0, "must be between 0 and 90 degrees"),
        ("DTOP", values["DTOP"] >= 0.0, "must be 0 or more (km)"),
    )
    for name, valid, allowed in checks:
        if not valid:
            raise InputError(f"{where}.{name}", f"{values[name]:.12g}", allowed, file=path, line=line)
    for name in PLANE_FIELDS:
        if not np.isfinite(values[name]):
            raise InputError(f"{where}.{name}", f"{values[name]} is not a finite number", file=path, line=line)
    lengths = (1e3 * values[name] for name in ("LEN", "WID"))
    depths = (1e3 * values[name] for name in ("DTOP", "SHYP", "DHYP"))
    counts = (int(values["NSTK"]), int(values["NDIP"]))
    return FaultPlane(values["ELON"], values["ELAT"], *counts, *lengths, values["STK"], values["DIP"], *depths)


def fault_of(tables: SrfTables) -> FiniteFault:
    """Return the fault in SI units.

    The samples are converted in their array. The generators of the format integrate the slip rate as the sum of the
    samples times DT, which is the integral of a function that rises from 0 within DT before its first sample and falls
    to 0 within DT after the last one: these zeros are added, unless the trapezoidal rule is closer to the stated slip.
    A slip rate that differs from the stated slip by more than 2% is scaled to it, with a warning. Slip whose
    samples are missing or zero is omitted, with a warning that states its moment.

    Raises
    ------
    InputError
        for values out of range, and slip rates that cannot be scaled.
    """
    si = {}
    for field, (name, factor, _) in _FIELDS.items():
        if name in tables.points:
            values = tables.points[name]
            if (invalid := ~np.isfinite(values)).any():
                index = int(np.argmax(invalid))
                raise tables.error(name, index, f"{values[index]} is not a finite number")
            si[field] = factor * values
    _require_finite_rates(tables)
    rates = tables.rates
    rates /= _CM_PER_M  # exact in single precision, unlike the factor 0.01
    if not rates.any():
        raise InputError(WHAT, "all samples of the slip rate are zero", "a subfault must slip", file=tables.path)
    slip = np.stack([si.pop(f"slip{component}") for component in (1, 2, 3)], axis=-1)
    horizontal = np.stack([si.pop("longitude"), si.pop("latitude")], axis=-1)
    for field in ("vs", "density"):
        values = si.get(field, np.zeros(slip.shape[0]))
        si[field] = np.where(values > 0.0, values, np.nan)
    if (slow := si["vs"] < _SLOWEST).any():
        index = int(np.argmax(slow))
        got = f"{tables.points['VS'][index]:.6g} cm/s is {si['vs'][index]:.4g} m/s"
        raise tables.error(
            "VS", index, got, f"must be at least {_SLOWEST:g} m/s, or 0 if unknown", "convert VS to cm/s"
        )
    if (early := si["start"] < 0.0).any():
        index = int(np.argmax(early))
        raise tables.error("TINIT", index, f"{si['start'][index]:.12g} s", "must be at least 0 s")
    _omit_silent(tables, slip, si)
    offsets = tables.offsets
    if (si["interval"] > 0.0).all():
        rates, offsets, led = with_end_samples(rates, offsets, slip, si["interval"])
        si["start"] = si["start"] - led * si["interval"]
        _match_slip(tables, rates, offsets, slip, si["interval"])
    try:
        fault = FiniteFault(
            geographic=True,
            horizontal=horizontal,
            slip=slip,
            rates=rates,
            offsets=offsets,
            planes=tables.planes,
            **si,
        )
    except SubfaultError as error:
        name, _, unit = _FIELDS[error.field]
        got = f"{tables.points[name][error.index]:.12g} {unit}"
        raise tables.error(name, error.index, got, error.allowed) from None
    _check_planes(tables, fault)
    return fault


def _require_finite_rates(tables: SrfTables) -> None:
    invalid = ~np.isfinite(tables.rates)
    if invalid.any():
        sample = int(np.argmax(invalid))
        subfault, component = divmod(int(np.searchsorted(tables.offsets, sample, side="right")) - 1, 3)
        got = f"{tables.rates[sample]} in the samples of {COMPONENTS[component]} is not a finite number"
        raise tables.error(f"NT{component + 1}", subfault, got)


def _omit_silent(tables: SrfTables, slip: np.ndarray, si: Mapping[str, np.ndarray]) -> None:
    """Set the slip (n, 3) of components without samples other than zeros to 0, with a warning."""
    silent = (slip != 0.0) & (segment_sums(tables.rates != 0, tables.offsets) == 0).reshape(-1, 3)
    if not silent.any():
        return
    # A fault whose area is not valid is refused below.
    potency = si["area"] * np.where(silent, np.abs(slip), 0.0).sum(axis=1)
    part = potency.sum() / max((si["area"][:, np.newaxis] * np.abs(slip)).sum(), np.finfo(float).tiny)
    shear = si["density"] * si["vs"] ** 2
    known = not np.isnan(shear[silent.any(axis=1)]).any()
    size = f"moment {np.nansum(shear * potency):.4g} N m" if known else f"area times slip {potency.sum():.4g} m^3"
    subfault, component = (int(index) for index in np.argwhere(silent)[0])
    where, line = tables.locate(f"SLIP{component + 1}", subfault)
    issue_warning(
        f"{tables.path}: {silent.sum()} of {np.count_nonzero(slip)} slip components have no samples of the slip rate, "
        f"or zeros only, and are omitted: {size}, {100.0 * part:.3g}% of the area times slip of the file. The first is "
        f"{where}{f' (line {line})' if line else ''}, {100 * slip[subfault, component]:.6g} cm."
    )
    slip[silent] = 0.0


def with_end_samples(
    rates: np.ndarray, offsets: np.ndarray, slip: np.ndarray, interval: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return slip rates with zeros before and after those whose sum times the interval is their slip.

    Parameters
    ----------
    rates, offsets : samples (total,) and offsets (3 n + 1,) as in `FiniteFault`.
    slip : (n, 3) stated slip, m. interval : (n,) s.

    Returns
    -------
    Samples, their offsets, and a mask (n,) of subfaults whose slip rates begin one interval earlier. Segments are
    unchanged if they begin and end with 0, or if the trapezoidal rule is closer to their slip.
    """
    counts = np.diff(offsets)
    filled = np.flatnonzero(counts)
    first, last = np.zeros(counts.size, bool), np.zeros(counts.size, bool)
    first[filled] = rates[offsets[:-1][filled]] != 0.0
    last[filled] = rates[offsets[1:][filled] - 1] != 0.0
    stated, intervals = slip.ravel(), np.repeat(interval, 3)
    by_sum = np.abs(intervals * segment_sums(rates, offsets) - stated)
    by_trapezoids = np.abs(trapezoids(rates, offsets, intervals) - stated)
    summed = (first | last) & (by_sum < by_trapezoids) & (by_trapezoids > _SLIP_DIGITS * np.abs(stated))
    led = (summed & first).reshape(-1, 3).any(axis=1)
    before, after = np.repeat(led, 3) & (counts > 0), summed & last
    if not (before.any() or after.any()):
        return rates, offsets, led
    ends = np.concatenate([[0], np.cumsum(counts + before + after)])
    extended = np.zeros(ends[-1], dtype=rates.dtype)
    extended[np.arange(rates.size) + np.repeat(ends[:-1] + before - offsets[:-1], counts)] = rates
    return extended, ends, led


def _match_slip(
    tables: SrfTables, rates: np.ndarray, offsets: np.ndarray, slip: np.ndarray, interval: np.ndarray
) -> None:
    """Scale the slip rates that do not release the stated slip, with a warning; an error if this is impossible."""
    mismatch = slip_mismatch(slip, rates, offsets, interval)
    if not mismatch.any():
        return
    intervals = np.repeat(interval, 3)
    released = trapezoids(rates, offsets, intervals)
    size = trapezoids(np.abs(rates), offsets, intervals)
    stated, differs = slip.ravel(), mismatch.ravel()
    impossible = differs & ((stated * released <= 0.0) | (np.abs(released) < SLIP_TOLERANCE * size))
    if impossible.any():
        subfault, component = divmod(int(np.argmax(impossible)), 3)
        segment = 3 * subfault + component
        count = offsets[segment + 1] - offsets[segment]
        name = f"SLIP{component + 1}"
        release = f"the {count} samples of the slip rate release {100 * released[segment]:.6g} cm"
        allowed = f"both must have the same sign and agree within {100 * SLIP_TOLERANCE:g}%, or be zero"
        got = f"{100 * stated[segment]:.6g} cm, but {release}"
        raise tables.error(name, subfault, got, allowed, f"correct {name}, the samples or DT")
    factors = np.ones(stated.size)
    factors[differs] = stated[differs] / released[differs]
    for segment in np.flatnonzero(differs):
        rates[offsets[segment] : offsets[segment + 1]] *= rates.dtype.type(factors[segment])
    worst = int(np.argmax(np.where(differs, np.abs(np.log(factors)), 0.0)))
    where, line = tables.locate(f"SLIP{worst % 3 + 1}", worst // 3)
    issue_warning(
        f"{tables.path}: the slip rates of {differs.sum()} of {np.count_nonzero(np.diff(offsets))} slip components do "
        f"not release the stated slip within {100 * SLIP_TOLERANCE:g}%; they are scaled to the stated slip. The "
        f"largest difference is that of {where}{f' (line {line})' if line else ''}: {100 * stated[worst]:.6g} cm, "
        f"while its samples release {100 * released[worst]:.6g} cm. Check DT, the unit of the samples (cm/s) and that "
        "of the slip (cm)."
    )


def _check_planes(tables: SrfTables, fault: FiniteFault) -> None:
    """Refuse planes whose number of subfaults differs from that of the file; warn if their area differs."""
    if not tables.planes:
        return
    expected = sum(plane.count_strike * plane.count_dip for plane in tables.planes)
    if expected != fault.count:
        raise InputError(
            "POINTS",
            f"the file has {fault.count} subfaults, while NSTK x NDIP of its planes add up to {expected}",
            "the numbers must agree",
            "check that the file is complete, or remove the PLANE blocks, which are optional",
            file=tables.path,
        )
    planes, subfaults = sum(plane.length * plane.width for plane in tables.planes), float(fault.area.sum())
    if abs(subfaults - planes) > _AREA_TOLERANCE * planes:
        issue_warning(
            f"{tables.path}: AREA of all subfaults adds up to {1e-6 * subfaults:.4g} km2, while LEN x WID of the "
            f"planes is {1e-6 * planes:.4g} km2. The moment follows from AREA, which is in cm2 (1 km2 = 1e10 cm2); "
            "check its unit."
        )
