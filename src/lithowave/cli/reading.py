"""Conversion of command line arguments to a simulation, and of later errors to their line in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lithowave.description.simulation import Simulation
from lithowave.description.solver import METHODS as METHOD_KEYS
from lithowave.description.solver import RECOMMENDED_POINTS_BY_DEGREE
from lithowave.description.text import Document, nearest, parse_overrides, parse_path, read_document
from lithowave.errors import InputError
from lithowave.output.files import PRECISIONS
from lithowave.solvers import METHODS, load_bench_cases

if TYPE_CHECKING:
    from lithowave.json_types import Entries, ReadEntries

ORDERS = tuple(sorted({order for keys in METHOD_KEYS.values() if keys.accuracy == "order" for order in keys.smallest}))
DEGREES = tuple(RECOMMENDED_POINTS_BY_DEGREE)
BACKENDS = ("auto", "cpu", "cuda")
PASSES = ("auto", "one", "two")
MODULI = ("full", "compact")
EFFECTIVE_MEDIA = ("isotropic", "transverse", "orthorhombic")
ATTENUATION = ("none", "coarse", "full")
SMALLEST_INTERIOR = 8
SMALLEST_SIDE = 3  # km, of the default case: its source is at a depth of 2 km
COUNTED = {"finite_difference": "points", "spectral_element": "elements", "discontinuous_galerkin": "cubes"}


def read_simulation(
    file: Path, changes: Sequence[str] | None, *, backend: str | None = None, precision: str | None = None,
    threads: int | None = None, output: str | None = None,
) -> tuple[Simulation, Entries]:  # fmt: skip
    """Return the simulation of a file, with entries replaced by ``--set`` and other options, and these entries."""
    options = {
        "compute.backend": backend, "compute.precision": precision, "compute.threads": threads,
        "output.directory": output,
    }  # fmt: skip
    overrides = parse_overrides(changes or []) | {key: value for key, value in options.items() if value is not None}
    return Simulation.from_file(file, overrides), overrides


@contextmanager
def located(file: Path, overrides: ReadEntries) -> Iterator[None]:
    """Add to an InputError raised inside the block the file and line of the entry that it names."""
    try:
        yield
    except InputError as error:
        if error.file is not None:
            raise
        document = read_document(file.read_text(encoding="utf-8"), file).with_overrides(overrides)
        first, *others = (_located(problem, document) for problem in (error, *error.others))
        raise InputError(
            first.where, first.got, first.allowed, first.hint, file=first.file, line=first.line, others=others
        ) from None


def _located(error: InputError, document: Document) -> InputError:
    path = parse_path(error.where)
    alone = InputError(error.where, error.got, error.allowed, error.hint, file=error.file, line=error.line)
    if error.file is not None or path[0] not in Simulation.model_fields:
        return alone
    return alone.located(*document.place_of(path))


def require_run(path: Path) -> None:
    """Refuse a folder that does not exist."""
    if not path.exists():
        raise InputError(str(path), "the folder does not exist", "expected the folder of a run")


def require_choice(option: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse a value of an option that is not among the allowed ones."""
    if value not in allowed:
        raise InputError(
            option, f"{value!r} is not a valid choice", f"allowed: {', '.join(allowed)}", nearest(value, allowed)
        )


def require_positive(option: str, value: float | None) -> None:
    """Refuse a number that is not positive and finite; None is permitted."""
    if value is not None and not 0.0 < value < float("inf"):
        raise InputError(option, f"{value:g} is out of range", "expected a positive number")


def plot_model(directory: Path | None, file: Path | None, changes: Sequence[str] | None) -> Path:
    """Draw the material model of a simulation file, and return the figure, which is in the current folder."""
    from lithowave.figures.models import model_figure

    if file is None:
        raise InputError("DIR", "the folder is missing", "expected the folder of a run, or --model FILE")
    if directory is not None:
        raise InputError("--model", f"the folder {directory} is given too", "expected one of DIR and --model FILE")
    simulation, overrides = read_simulation(file, changes)
    with located(file, overrides):
        return model_figure(simulation, Path(f"{file.stem}_model.png"))


def benchmark_choices(lists: Mapping[str, Sequence[str] | None], single: ReadEntries) -> Entries:
    """Return the arguments of `lithowave.bench.run_benchmarks`, checked, without those that were not given.

    Parameters
    ----------
    lists : options that may be repeated; each text may hold several values, separated by commas.
    single : options with one value.
    """
    chosen = {name: value for name, value in single.items() if value is not None}
    values: Entries = {
        name: [part.strip() for text in texts or () for part in text.split(",")] for name, texts in lists.items()
    }
    sizes = values.pop("sizes")
    for name in ("orders", "degrees"):
        values[name] = [whole_number(f"--{name.removesuffix('s')}", part) for part in values[name]]
    chosen |= {name: parts for name, parts in values.items() if parts}
    _refuse_unknown_choices(chosen)
    for name in ("threads", "layer_cells", "receivers"):
        if chosen.get(name, 1) < 1:
            raise InputError(f"--{name.replace('_', '-')}", f"{chosen[name]} is out of range", "allowed: from 1")
    if not sizes:
        return chosen
    from lithowave.bench import DEFAULT

    if DEFAULT in chosen.get("cases", ()):
        return chosen | {"sizes": [grid_shape(text, SMALLEST_SIDE, "km") for text in sizes]}
    shapes = _sizes(sizes, chosen)
    least = 2 * chosen.get("layer_cells", 0) + SMALLEST_INTERIOR
    if "layer_cells" in chosen and min(map(min, shapes)) < least:
        raise InputError("--layer-cells", f"{chosen['layer_cells']} is too thick", f"use at least {least} points")
    return chosen | {"sizes": shapes}


def _refuse_unknown_choices(chosen: ReadEntries) -> None:
    from lithowave.bench import DEFAULT

    cases = [*(case for method in METHODS for case in load_bench_cases(method).CASES), DEFAULT]
    for name, values, allowed in (
        ("--method", chosen.get("methods", ()), METHODS),
        ("--order", chosen.get("orders", ()), ORDERS),
        ("--degree", chosen.get("degrees", ()), DEGREES),
        ("--precision", chosen.get("precisions", ()), PRECISIONS),
        ("--case", chosen.get("cases", ()), cases),
        ("--backend", [chosen.get("backend", "auto")], BACKENDS),
        ("--passes", [chosen.get("passes", "auto")], PASSES),
        ("--moduli", [chosen.get("moduli", "full")], MODULI),
        ("--law", [chosen.get("law", "isotropic")], EFFECTIVE_MEDIA),
        ("--attenuation", [chosen.get("attenuation", "none")], ATTENUATION),
    ):
        for value in values:
            if value not in allowed:
                choices = ", ".join(map(str, allowed))
                raise InputError(
                    name, f"{value!r} is not a valid choice", f"allowed: {choices}",
                    nearest(str(value), map(str, allowed)),
                )  # fmt: skip


def _sizes(texts: Sequence[str], chosen: ReadEntries) -> list[tuple[int, int, int]]:
    """Return the sizes for the first selected method, at least its minimum."""
    from lithowave.bench import choose_methods

    others = ("methods", "cases", "precisions", "backend", "threads")
    options = {name: value for name, value in chosen.items() if name not in others}
    methods = choose_methods(chosen.get("methods"), chosen.get("cases"), [(0, 0, 0)], options)
    smallest, method = max((load_bench_cases(method).SMALLEST_SIZE, method) for method in methods)
    return [grid_shape(text, smallest, COUNTED[method]) for text in texts]


def whole_number(option: str, text: str) -> int:
    """Return the integer that a text represents."""
    if not text.strip().isdigit():
        raise InputError(option, f"{text!r} is not an integer", "expected integers separated by commas: 4,5")
    return int(text)


def grid_shape(text: str, smallest: int, counted: str = "points") -> tuple[int, int, int]:
    """Return points, elements, cubes or km along x, y and z from ``200``, a cube, or ``300x200x100``."""
    parts = text.strip().split("x")
    if len(parts) not in (1, 3) or not all(part.isdigit() for part in parts):
        raise InputError(
            "--size", f"{text!r} is not a grid size", "expected points along each axis: 200, or 300x200x100"
        )
    counts = [int(part) for part in parts] * (3 if len(parts) == 1 else 1)
    if min(counts) < smallest:
        raise InputError("--size", f"{min(counts)} {counted} are too few to measure", f"allowed: from {smallest}")
    return counts[0], counts[1], counts[2]
