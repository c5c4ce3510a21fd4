"""Radial models of the Earth from files of layers.

Formats, which are identified by their content and, for the first two, by the suffix:

- TauP ``.nd``: depth, vp, vs, density and, optionally, Qp and Qs; names of discontinuities on lines of their own.
- TauP ``.tvel``: two lines of text, then depth, vp, vs and density.
- AxiSEM ``.bm``: headers NAME, ANELASTIC, ANISOTROPIC, UNITS (m or km) and COLUMNS, which names the columns.
- Card decks of Mineos, also used by SPECFEM3D_GLOBE: three lines of headers, then radius, density, vpv, vsv, Qkappa,
  Qmu, vph, vsh and eta in SI.
- Tables whose first line or last comment names the columns with their units: ``depth(km) vp(km/s) vs(km/s) ...``.

Rows may be ordered upwards or downwards. Values are linear between rows; two rows of the same radius are the two sides
of a discontinuity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np

from lithowave.earth.radial_model import COLUMNS, RADIUS, RadialModel
from lithowave.earth.reference_models import table_model
from lithowave.errors import InputError
from lithowave.readers.text import DENSITY, LENGTH, SPEED, decoded, is_text, located, require_lines, si_factor
from lithowave.rheology import inverse_bulk_quality

_SAME_RADIUS = 1e-3  # m, within which rows have the same radius
_SURFACE = 1.0  # m, within which the surface must be at `RADIUS`
_PLAUSIBLE = {"vp": (300.0, 20_000.0), "vs": (30.0, 12_000.0), "rho": (300.0, 20_000.0)}
_UNITS = {"radius": LENGTH, "depth": LENGTH, "rho": DENSITY}
_NAMES = {
    "radius": "radius", "r": "radius", "depth": "depth", "z": "depth", "rho": "rho", "density": "rho", "dens": "rho",
    "eta": "eta", "qka": "qkappa", "qkappa": "qkappa", "qk": "qkappa", "qmu": "qmu", "qm": "qmu", "qp": "qp",
    "qs": "qs", "qalpha": "qp", "qbeta": "qs", "vp": "vp", "vs": "vs", "vpv": "vpv", "vph": "vph", "vsv": "vsv",
    "vsh": "vsh",
}  # fmt: skip
_FORMATS = "TauP .nd and .tvel, AxiSEM .bm, card decks, or a table with column names and units"
_HEADERS = ("NAME", "ANELASTIC", "ANISOTROPIC", "UNITS", "COLUMNS", "REFERENCE_FREQUENCY")  # of AxiSEM
_LONGEST = 100_000  # rows


@dataclass
class _Table:
    """Rows of a file: names of the columns, their factors to SI, and the numbers with their lines."""

    names: list[str]
    factors: list[float]
    rows: list[list[float]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    frequency: float | None = 1.0

    def add(self, words: Sequence[str], line: int) -> None:
        """Add a row."""
        if len(words) != len(self.names):
            allowed = f"expected {len(self.names)}: {', '.join(self.names)}"
            self.refuse("columns", f"has {len(words)} columns", allowed, line=line)
        self.rows.append([_number(word, line) for word in words])
        self.lines.append(line)
        if len(self.rows) > _LONGEST:
            self.refuse("rows", f"the file has more than {_LONGEST} rows", "expected a radial model", line=line)

    def refuse(self, where: str, got: str, allowed: str = "", hint: str = "", line: int | None = None) -> NoReturn:
        """Raise the error of this file."""
        raise InputError(where, got, allowed, hint, line=line)


def read_radial_model(path: str | Path) -> RadialModel:
    """Read a radial model.

    Raises
    ------
    InputError
        with the file and the line: an unknown format, missing columns or units, rows that are not ordered, values that
        cannot be, or a surface that is not that of the Earth.
    """
    path = Path(path)
    data = path.read_bytes()
    require_lines(data, "earth model", path)
    if data and not is_text(data[:4096]):
        raise InputError("file", "is not text", f"expected {_FORMATS}", file=path)
    text = decoded(data)
    lines = list(_lines(text))
    if not lines:
        raise InputError("file", "is empty", f"expected {_FORMATS}", file=path)
    with located(path):
        return _model(_table(path.suffix.lower(), text, lines), path)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the words of each line that is neither empty nor a comment."""
    for number, line in enumerate(text.splitlines(), start=1):
        words = re.split(r"#|//|!", line)[0].replace(",", " ").split()
        if words:
            yield number, words


def _number(word: str, line: int) -> float:
    """Return a number, also with the exponent d of Fortran."""
    try:
        value = float(re.sub(r"(?<=[\d.])[dD](?=[-+\d])", "e", word))
    except ValueError:
        raise InputError("row", f"{word!r} is not a number", "expected numbers", line=line) from None
    if not np.isfinite(value):
        raise InputError("row", f"{word!r} is not finite", "expected numbers", line=line)
    return value


def _is_number(word: str) -> bool:
    return re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eEdD][-+]?\d+)?", word) is not None


def _table(suffix: str, text: str, lines: list[tuple[int, list[str]]]) -> _Table:
    """Return the rows of a file of any format."""
    if any(words[0].upper() == "COLUMNS" for _, words in lines):
        return _axisem(lines)
    if suffix in (".nd", ".tvel"):
        return _taup(lines if suffix == ".nd" else [entry for entry in lines if entry[0] > 2])
    cards = [(number, line.split()) for number, line in enumerate(text.splitlines(), start=1)]
    counts = [len(words) for _, words in cards[1:4] if all(map(_is_number, words))]
    if len(counts) == 3 and counts[0] == 3 and 3 <= counts[1] <= 5 and counts[2] == 9:
        return _deck([card for card in cards if card[1]])
    names = _column_names(text)
    if names is not None:
        return names
    raise InputError("file", "has no known format", f"expected {_FORMATS}", line=lines[0][0])


def _taup(lines: list[tuple[int, list[str]]]) -> _Table:
    """Return the rows of .nd and .tvel files: km, km/s and g/cm^3."""
    columns = ["depth", "vp", "vs", "rho", "qp", "qs"]
    rows = [entry for entry in lines if not (len(entry[1]) == 1 and re.fullmatch(r"[A-Za-z][\w-]*", entry[1][0]))]
    if not rows:
        raise InputError("rows", "the file has no rows", "expected depth, vp, vs and density")
    count = len(rows[0][1])
    if count not in (4, 6):
        allowed = "expected depth, vp, vs and density, or these and Qp and Qs"
        raise InputError("columns", f"has {count} columns", allowed, line=rows[0][0])
    table = _Table(columns[:count], [1000.0] * 4 + [1.0] * (count - 4))
    for line, words in rows:
        table.add(words, line)
    return table


_Headers = dict[str, tuple[int, list[str]]]
"""Line and words of each header."""


def _axisem(lines: list[tuple[int, list[str]]]) -> _Table:
    """Return the rows of a file with the headers of AxiSEM."""
    table: _Table | None = None
    headers: _Headers = {}
    for line, words in lines:
        key = words[0].upper()
        if _is_number(words[0]):
            if table is None:
                table = _axisem_table(headers, line)
            table.add(words, line)
        elif table is not None:
            table.refuse("row", f"{words[0]!r} is not a number", "expected rows after the headers", line=line)
        elif key in headers:
            raise InputError(key, "appears twice", "expected once", line=line)
        elif key not in _HEADERS:
            raise InputError(key, "is not a header of AxiSEM", f"expected {', '.join(_HEADERS)}", line=line)
        else:
            headers[key] = line, words[1:]
    if table is None:
        raise InputError("rows", "the file has no rows", "expected rows after the line COLUMNS")
    return table


def _axisem_table(headers: _Headers, line: int) -> _Table:
    """Return the empty table that the headers describe. line : of the first row."""
    for key in ("COLUMNS", "UNITS"):
        if key not in headers or not headers[key][1]:
            raise InputError(key, "is missing before the first row", "expected this header", line=line)
    (unit_line, units), (name_line, words) = headers["UNITS"], headers["COLUMNS"]
    if units[0].lower() not in ("m", "km"):
        allowed = "expected m (with m/s and kg/m^3) or km"
        raise InputError("UNITS", f"is {units[0]!r}", allowed, line=unit_line)
    names = [_name(word, name_line) for word in words]
    for key, needed in (("ANELASTIC", {"qkappa", "qmu"}), ("ANISOTROPIC", {"vph", "vsh", "eta"})):
        if key not in headers:
            continue
        stated, missing = _flag(key, *headers[key]), sorted(needed - set(names))
        if stated and missing:
            got = f"lacks {', '.join(missing)}"
            raise InputError("COLUMNS", got, f"expected them, since {key} is T", line=name_line)
        if not stated and len(missing) < len(needed):
            got = "is F, but its columns are given"
            raise InputError(key, got, "expected T", line=headers[key][0])
    scale = 1000.0 if units[0].lower() == "km" else 1.0
    factors = [1.0 if name == "eta" or name[0] == "q" else scale for name in names]
    frequency = 1.0
    if "REFERENCE_FREQUENCY" in headers:
        frequency_line, value = headers["REFERENCE_FREQUENCY"]
        frequency = _number(" ".join(value), frequency_line)
    return _checked(_Table(names, factors, frequency=frequency), name_line)


def _flag(key: str, line: int, words: list[str]) -> bool:
    text = " ".join(words).strip(".").upper()
    if text not in ("T", "F", "TRUE", "FALSE"):
        raise InputError(key, f"is {' '.join(words)!r}", "expected T or F", line=line)
    return text[0] == "T"


def _deck(lines: list[tuple[int, list[str]]]) -> _Table:
    """Return the rows of a card deck: SI, from the center upwards. lines : the title may be empty."""
    first = next(number for number, entry in enumerate(lines) if entry[0] == 2)
    (line, flags), (_, counts), rows = lines[first], lines[first + 1], lines[first + 2 :]
    anisotropic, period, deck = (_number(word, line) for word in flags)
    if deck != 1.0:
        raise InputError("header", f"ifdeck is {deck:g}", "expected 1: rows of values", line=line)
    names = ["radius", "rho", "vpv", "vsv", "qkappa", "qmu", "vph", "vsh", "eta"]
    table = _Table(names, [1.0] * 9, frequency=1.0 / period if period > 0.0 else None)
    for number, words in rows:
        table.add(words, number)
        _, _, vpv, vsv, _, _, vph, vsh, eta = table.rows[-1]
        if anisotropic == 0.0 and (vpv, vsv, 1.0) != (vph, vsh, eta):
            got = f"ifanis is 0, and line {number} has other values of vph, vsh or eta than an isotropic layer"
            table.refuse("header", got, "expected 1, or vph = vpv, vsh = vsv and eta = 1", line=line)
    stated = _number(counts[0], line + 1)
    if stated != len(rows):
        table.refuse("header", f"states {stated:g} rows, and the file has {len(rows)}", line=line + 1)
    return table


def _column_names(text: str) -> _Table | None:
    """Return the table whose first line or last comment before the first row names the columns; None without one."""
    header, rows = None, []
    for line, content in enumerate(text.splitlines(), start=1):
        plain = content.strip().lstrip("#!/ ")
        words = re.sub(r"\s+(?=[\[(])", "", plain).replace(",", " ").split()
        if not words:
            continue
        if not content.strip()[0].isalpha() and content.strip()[0] not in "#!/":
            rows = [entry for entry in _lines(text) if entry[0] >= line]
            break
        known = [re.sub(r"[\[(].*", "", word).lower() in _NAMES for word in words]
        if sum(known) >= 3:
            header = line, words
    if header is None or not rows:
        return None
    names = [_name(re.sub(r"[\[(].*", "", word), header[0]) for word in header[1]]
    factors = [_factor(name, word, header[0]) for name, word in zip(names, header[1], strict=True)]
    table = _checked(_Table(names, factors), header[0])
    for line, words in rows:
        table.add(words, line)
    return table


def _name(word: str, line: int) -> str:
    name = _NAMES.get(word.lower())
    if name is None:
        allowed = f"expected {', '.join(sorted(set(_NAMES.values())))}"
        raise InputError("columns", f"{word!r} is not a known column", allowed, line=line)
    return name


def _factor(name: str, word: str, line: int) -> float:
    """Return the factor from the unit in a column name to SI."""
    if name == "eta" or name[0] == "q":
        return 1.0
    dimension = _UNITS.get(name, SPEED)
    match = re.search(r"[\[(](.*)[)\]]", word)
    factor = si_factor(match.group(1), dimension) if match else None
    if factor is None:
        example = {LENGTH: "(km) or (m)", SPEED: "(km/s) or (m/s)", DENSITY: "(g/cm^3) or (kg/m^3)"}[dimension]
        got = f"{word!r} states no known unit" if match else f"{word!r} has no unit"
        allowed = f"expected a unit after the name, such as {name}{example}"
        raise InputError("columns", got, allowed, line=line)
    return factor


def _checked(table: _Table, line: int) -> _Table:
    """Return the table if its columns describe a model."""
    names = table.names
    if twice := [name for name in names if names.count(name) > 1]:
        table.refuse("columns", f"the column {twice[0]} appears twice", "expected once", line=line)
    if ("radius" in names) == ("depth" in names):
        table.refuse("columns", "have neither radius nor depth, or both", "expected one of them", line=line)
    for wave in ("p", "s"):
        if f"v{wave}" not in names and f"v{wave}v" not in names:
            table.refuse("columns", f"lack v{wave}", f"expected v{wave}, or v{wave}v and v{wave}h", line=line)
        if f"v{wave}" in names and {f"v{wave}v", f"v{wave}h"} & set(names):
            table.refuse("columns", f"have v{wave} and v{wave}v or v{wave}h", "expected one or the others", line=line)
    if "rho" not in names:
        table.refuse("columns", "lack rho", "expected a density", line=line)
    quality = {"qkappa", "qmu", "qp", "qs"} & set(names)
    if quality and quality not in ({"qkappa", "qmu"}, {"qp", "qs"}):
        got = f"have {', '.join(sorted(quality))}"
        table.refuse("columns", got, "expected qkappa and qmu, or qp and qs", line=line)
    return table


def _model(table: _Table, path: Path) -> RadialModel:
    """Return the model of the table of a file."""
    if len(table.rows) < 2:
        table.refuse("rows", f"the file has {len(table.rows)} row", "expected two or more")
    numbers = np.array(table.rows).T * np.array(table.factors)[:, None]
    columns = dict(zip(table.names, numbers, strict=True))
    radius = columns["radius"] if "radius" in columns else RADIUS - columns["depth"]
    lines = np.array(table.lines)
    if radius[0] < radius[-1]:
        radius, lines = radius[::-1], lines[::-1]
        columns = {name: values[::-1] for name, values in columns.items()}
    radius = _ordered(radius, lines, table)
    columns.setdefault("vpv", columns.get("vp", np.zeros(0)))
    columns.setdefault("vsv", columns.get("vs", np.zeros(0)))
    columns.setdefault("vph", columns["vpv"])
    columns.setdefault("vsh", columns["vsv"])
    columns.setdefault("eta", np.ones_like(radius))
    _check_values(columns, radius, lines, table)
    bulk, shear, notes = _losses(columns, radius, lines, table, path)
    columns |= {"inverse_qkappa": bulk, "inverse_qmu": shear}
    values = np.stack([columns[name] for name in COLUMNS])
    return table_model(str(path), radius, values, table.frequency, notes)


def _ordered(radius: np.ndarray, lines: np.ndarray, table: _Table) -> np.ndarray:
    """Return descending radii, m, with equal values at discontinuities."""
    steps = np.diff(radius)
    bad = np.flatnonzero(steps > _SAME_RADIUS)
    if bad.size:
        name, line = ("radius" if "radius" in table.names else "depth"), int(lines[bad[0] + 1])
        table.refuse(name, "is not monotonic", "expected rows ordered upwards or downwards", line=line)
    radius = radius.copy()
    same = np.flatnonzero(np.abs(steps) <= _SAME_RADIUS) + 1
    thrice = same[1:][np.diff(same) == 1]
    if thrice.size:
        line = int(lines[thrice[0]])
        table.refuse("rows", "three rows have the same radius", "expected two at a discontinuity", line=line)
    if same.size and (same[0] == 1 or same[-1] == radius.size - 1):
        end = same[0] if same[0] == 1 else same[-1]
        table.refuse("rows", "a layer has no thickness", "expected two radii or more", line=int(lines[end]))
    radius[same] = radius[same - 1]
    if abs(radius[0] - RADIUS) > _SURFACE:
        table.refuse(
            "radius" if "radius" in table.names else "depth",
            f"the model begins at the radius {radius[0] / 1e3:.10g} km",
            f"expected that of the surface, {RADIUS / 1e3:g} km", "check the unit, or add the missing layers",
            line=int(lines[0]),
        )  # fmt: skip
    if radius[-1] < -_SAME_RADIUS:
        got = f"the model ends {-radius[-1] / 1e3:.6g} km beyond the center of the Earth"
        table.refuse("depth", got, "expected depths of 0 to 6371 km", line=int(lines[-1]))
    radius[0] = RADIUS
    return np.maximum(radius, 0.0)


def _check_values(columns: dict[str, np.ndarray], radius: np.ndarray, lines: np.ndarray, table: _Table) -> None:
    """Require values that the Earth may have, in layers that are either fluid or solid."""
    for name in ("vpv", "vph", "vsv", "vsh", "rho", "eta"):
        low, high = _PLAUSIBLE.get(name[:2] if name[0] == "v" else name, (0.5, 1.5))
        values = columns[name]
        bad = ~((values >= low) & (values <= high) | (values == 0.0) & (name[:2] == "vs"))
        if bad.any():
            row = int(bad.argmax())
            unit = {"v": " m/s", "r": " kg/m^3"}.get(name[0], "")
            got, allowed = f"is {values[row]:.6g}{unit}", f"allowed: {low:g} to {high:g}{unit}"
            table.refuse(name, got, allowed, "check the unit and the order of the columns", line=int(lines[row]))
    slow = columns["vpv"] ** 2 <= 4.0 / 3.0 * np.maximum(columns["vsv"], columns["vsh"]) ** 2
    if slow.any():
        row = int(slow.argmax())
        table.refuse("vp", "is too low for vs", "vp^2 must be greater than 4/3 vs^2", line=int(lines[row]))
    fluid = columns["vsv"] == 0.0
    mixed = (fluid != (columns["vsh"] == 0.0)) | np.append(False, (np.diff(radius) < 0.0) & (fluid[1:] != fluid[:-1]))
    if mixed.any():
        got = "vs is 0 on one side of a layer only"
        allowed = "expected layers that are entirely fluid or solid"
        row = int(mixed.argmax())
        table.refuse("vs", got, allowed, "repeat the radius at the discontinuity", line=int(lines[row]))


def _losses(
    columns: dict[str, np.ndarray], radius: np.ndarray, lines: np.ndarray, table: _Table, path: Path
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return 1/Qkappa, 1/Qmu and notes.

    Qmu or Qs is not used in fluids, where files have 0. A fluid with 0 in both columns has no attenuation.
    """
    waves = "qp" in columns
    names = ("qp", "qs") if waves else ("qkappa", "qmu")
    if names[0] not in columns:
        return np.zeros_like(radius), np.zeros_like(radius), ()
    solid = columns["vsv"] > 0.0
    lossless = ~solid & (columns[names[0]] == 0.0) & (columns[names[1]] == 0.0)
    for name, needed in ((names[0], ~lossless), (names[1], solid)):
        bad = needed & ~(columns[name] > 0.0)
        if bad.any():
            row = int(bad.argmax())
            hint = "correct it, or remove the columns with quality factors"
            table.refuse(name, f"is {columns[name][row]:g}", "must be above 0", hint, line=int(lines[row]))
    shear = np.where(solid, 1.0 / np.where(solid, columns[names[1]], 1.0), 0.0)
    bulk = np.where(lossless, 0.0, 1.0 / np.where(lossless, 1.0, columns[names[0]]))
    if not waves:
        return bulk, shear, ()
    bulk = inverse_bulk_quality(bulk, shear, columns["vpv"], columns["vsv"])
    negative = np.flatnonzero(bulk < 0.0)
    if not negative.size:
        return bulk, shear, ()
    note = (
        f"{path}:{lines[negative[0]]}: qp is larger than possible with this qs in {negative.size} rows, where "
        "Qkappa is taken as infinite"
    )
    return np.maximum(bulk, 0.0), shear, (note,)
