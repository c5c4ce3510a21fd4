"""Sections from SEG-Y files: one trace per position along a line, samples downwards; through segyio.

SEG-Y has no field for depth sections: by convention the sample interval, whose unit is the microsecond or a thousandth
of a millisecond, then is in thousandths of a meter.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from lithowave.errors import InputError, MissingPackageError
from lithowave.readers.array_files import DAMAGE
from lithowave.readers.segy_bytes import open_segy


@dataclass(frozen=True, eq=False)
class SegySection:
    """Contents of a section.

    Attributes
    ----------
    values : (n_traces, n_samples) float32, without a unit.
    cdp_x, cdp_y : (n_traces,) CDP coordinates of the traces with their scalar applied, m; default: zeros.
    sample_interval : of the header, in thousandths of a meter for a depth section; 0 if missing.
    """

    path: Path
    values: np.ndarray
    cdp_x: np.ndarray
    cdp_y: np.ndarray
    sample_interval: int


def read_segy_section(path: str | Path) -> SegySection:
    """Read all traces of a file (IBM or IEEE floats, or integers), in their order.

    Raises
    ------
    InputError: the file is not a SEG-Y file, is damaged, or has a sample without a value.
    MissingPackageError: segyio is not installed.
    """
    path = Path(path)
    if find_spec("segyio") is None:
        raise MissingPackageError("segyio", "Reading SEG-Y", "formats")
    import segyio

    field = segyio.TraceField
    try:
        with open_segy(path) as file:
            values = np.asarray(file.trace.raw[:], dtype=np.float32)
            scalars, x, y = (
                np.asarray(file.attributes(key)[:], dtype=np.float64)
                for key in (field.SourceGroupScalar, field.CDP_X, field.CDP_Y)
            )
            interval = int(file.bin[segyio.BinField.Interval])
    except (*DAMAGE, IndexError) as error:  # IndexError: a file without traces
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = "check that the file is complete"
        raise InputError("section", f"cannot be read as SEG-Y: {reason}", hint=hint, file=path) from None
    lacking = ~np.isfinite(values)
    if lacking.any():
        trace, sample = (int(index) for index in np.unravel_index(int(lacking.argmax()), values.shape))
        count = f"{int(lacking.sum())} of {values.size} samples"
        got = f"has no value in sample {sample + 1} of trace {trace + 1} ({count})"
        raise InputError("section", got, "every sample needs one", file=path)
    factors = coordinate_factors(scalars)
    return SegySection(path, values, x * factors, y * factors, interval)


def coordinate_factors(scalars: np.ndarray) -> np.ndarray:
    """Return factors for coordinates from the scalars of trace headers: negative ones divide, 0 means 1."""
    sizes = np.where(scalars == 0.0, 1.0, np.abs(scalars))
    return np.where(scalars < 0.0, 1.0 / sizes, sizes)
