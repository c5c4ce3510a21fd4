"""The peak velocity at one receiver of each example, in a smaller form, compared with stored values.

Frequencies and durations are reduced so that a run takes seconds; the media, sources and receivers remain those of the
example. ``PYTHONPATH=src:tests/support python tests/verification/test_example_numbers.py`` computes the stored values
again, which is right only after a change that was meant to change seismograms.
"""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import lithowave as lw

EXAMPLES = Path(__file__).parents[2] / "examples"
STORED = Path(__file__).parents[1] / "data" / "examples.json"
TOLERANCE = 2e-5  # single precision: other processors round differently


@dataclass(frozen=True)
class Small:
    """A smaller form of an example.

    receiver : its name. changes : entries that replace those of the simulation file. script : the script that writes
    the input, and its arguments. shot : of a survey.
    """

    receiver: str
    changes: dict[str, Any]
    script: tuple[str, ...] = ()
    shot: int | None = None
    marks: tuple[pytest.MarkDecorator, ...] = field(default=())


LONG_PERIODS = {"solver.max_frequency": 0.25, "duration": 36.0, "output.sampling_interval": 0.5}
POINT = LONG_PERIODS | {"sources.0.time_function": {"gaussian": {"sigma": 1.56, "delay": 0.0}}, "sources.0.delay": 6.0}
AT_SEA = {"solver.order": 3, "solver.max_frequency": None}
SMALL = {
    # Its seismograms at all stations are compared in test_chino_hills.py.
    "chino_hills/chino_hills.yaml": Small("OLI", POINT, marks=(pytest.mark.slow,)),
    "chino_hills/attenuation.yaml": Small("OLI", POINT, marks=(pytest.mark.slow,)),
    "chino_hills/finite_fault.yaml": Small("OLI", LONG_PERIODS | {"sources.0.delay": 6.0}, ("make_fault.py",)),
    "survey/refraction.yaml": Small("G30", {
        "solver.max_frequency": 11.25, "duration": 0.5,
        "sources.0.time_function": {"ricker": {"frequency": 4.5, "delay": 0.3}},
    }, shot=3),
    "topography/mountain.yaml": Small("L13", {
        "solver.max_frequency": 1.25, "duration": 3.0, "sources.0.time_function": {"gaussian": {"sigma": 0.32}},
        "boundaries.absorption": "stacey",  # eight kernels less to compile
    }),
    "bolivia/small.yaml": Small("S05P", {
        "domain.chunk.elements": [8, 8], "solver.max_frequency": 0.0025, "duration": 1500,
        "sources.0.time_function": {"gaussian": {"sigma": 160}}, "output.sampling_interval": 20,
    }),
    "bolivia/bolivia.yaml": Small("S05P", {
        "domain.chunk.elements": [16, 16], "domain.chunk.doublings": ["700 km"], "solver.max_frequency": 0.0048,
        "solver.refine_sources": False, "sources.0.time_function": {"gaussian": {"sigma": 84}}, "duration": 1200,
        "output.sampling_interval": 20,
    }, marks=(pytest.mark.slow,)),
    "salt/salt.yaml": Small("R097", AT_SEA | {
        "duration": 1.5, "sources.0.time_function": {"gaussian": {"sigma": 0.2}},
    }, ("make_mesh.py", "--elements", "8000"), marks=(pytest.mark.slow,)),
    "marmousi/marmousi.yaml": Small("R169", AT_SEA | {
        "domain.x": [7800, 9600], "domain.y": [-450, 450], "domain.z": [-1350, 0], "solver.spacing": 225.0,
        "receivers": [{"name": "R169", "position": [8600, 0, -90]}], "sources.0.position": [8500, 15, -160],
        "duration": 1.0, "sources.0.time_function": {"gaussian": {"sigma": 0.12}},
    }, ("make_section.py",), marks=(pytest.mark.slow,)),
}  # fmt: skip


def small_form(name: str, folder: Path) -> lw.Simulation:
    """Return the smaller form of an example, whose files are copied to the folder."""
    small = SMALL[name]
    place = shutil.copytree(EXAMPLES / Path(name).parent, folder / "example", dirs_exist_ok=True)
    if small.script:
        arguments, path = sys.argv, sys.path.copy()
        sys.argv, sys.path = list(small.script), [str(place), *path]
        try:
            runpy.run_path(str(place / small.script[0]), run_name="__main__")
        finally:
            sys.argv, sys.path = arguments, path
            sys.modules.pop("geometry", None)
    none = {"output.formats": [], "output.snapshots": [], "output.peak_motion": False}
    simulation = lw.Simulation.from_file(place / Path(name).name, none | small.changes)
    return simulation if small.shot is None else simulation.shot(small.shot)


def peak(name: str, folder: Path) -> float:
    """Run the smaller form of an example; return the largest velocity (or displacement) of its receiver."""
    seismograms = small_form(name, folder).run(output=folder / "run").seismograms
    names = [str(one).rpartition(".")[2] for one in seismograms.names]
    return float(np.abs(seismograms.data[names.index(SMALL[name].receiver)]).max())


def test_every_example_has_a_number() -> None:
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.yaml")}
    assert files == SMALL.keys() == json.loads(STORED.read_text(encoding="utf-8")).keys()


@pytest.mark.parametrize("name", [pytest.param(name, marks=small.marks) for name, small in SMALL.items()])
def test_the_peak_of_an_example_is_the_stored_one(name: str, tmp_path: Path) -> None:
    if name.startswith("marmousi"):
        pytest.importorskip("segyio")
    stored = json.loads(STORED.read_text(encoding="utf-8"))[name]
    assert peak(name, tmp_path) == pytest.approx(stored, rel=TOLERANCE)


def write_numbers(names: list[str]) -> None:
    """Compute and store the values of these examples, by default of all."""
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    for name in names or SMALL:
        with TemporaryDirectory() as folder:
            stored[name] = peak(name, Path(folder))
        print(name, stored[name], flush=True)
        STORED.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_numbers(sys.argv[1:])
