"""Every simulation file of the examples and of the documentation is accepted by `lithowave check`."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import lithowave as lw
from gmsh_files import write_gmsh
from lithowave.mesh import layered_box
from lithowave.run import check_simulation
from slow_variants import slow_except

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
QUICK = [path for path in EXAMPLES if path.name != "bolivia.yaml"]  # the plan of its mesh takes half a minute
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*/README.md"))]
SCRIPTS = {
    "examples/chino_hills/finite_fault.yaml": ("make_fault.py", ["fault.srf"]),
    "examples/marmousi/marmousi.yaml": ("make_section.py", ["vp.segy", "vs.segy", "rho.segy"]),
    "examples/salt/salt.yaml": ("make_mesh.py", ["salt.msh"]),
}
"""Scripts that write the input of examples."""
OPTIONS = {"make_mesh.py": ["--elements", "60000"]}
HALF = {"make_mesh.py": {"solver.max_frequency": 1.55}, "make_section.py": {"solver.max_frequency": 2.225}}
"""Half the frequency, for an eighth of the elements; the slow tests of these examples check all of them."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def accepted(simulation: lw.Simulation) -> None:
    """Require that a run would start on this machine."""
    report = check_simulation(simulation, measure=False)
    assert report.runnable, report.problems


@pytest.mark.parametrize("path", slow_except(QUICK, EXAMPLES), ids=named)
def test_examples_are_accepted(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a script writes the input, it runs first; without its files, the error names the script."""
    script, files = SCRIPTS.get(named(path), (None, []))
    generated = {name for _, names in SCRIPTS.values() for name in names}
    folder = shutil.copytree(
        path.parent, tmp_path / path.parent.name, ignore=shutil.ignore_patterns("__pycache__", *generated)
    )
    if script is not None:
        if script == "make_section.py":
            pytest.importorskip("segyio")
        with pytest.raises(lw.InputError) as caught:
            lw.Simulation.from_file(folder / path.name)
        message = str(caught.value)
        assert all(f"the file '{name}' does not exist" in message for name in files)
        assert message.count(f"`python {folder / script}`") == len(files)
        for name in ("geometry", "with_gmsh"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setattr("sys.argv", [script, *OPTIONS.get(script, [])])
        runpy.run_path(str(folder / script), run_name="__main__")
        monkeypatch.delitem(sys.modules, "geometry", raising=False)
    accepted(lw.Simulation.from_file(folder / path.name, HALF.get(str(script), {})))


def simulation_files(page: Path) -> list[dict[str, Any]]:
    """Return the sections of each block of a page, fenced or indented, that contains sections of a simulation file."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:yaml)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    blocks += re.findall(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", rest, re.MULTILINE)
    found = []
    for block in blocks:
        try:
            content = yaml.safe_load(block)
        except yaml.YAMLError:
            continue
        if isinstance(content, dict) and content.keys() <= lw.Simulation.model_fields.keys():
            found.append(content)
    return found


WHOLE = {"domain", "material", "solver"}


def write_valley(path: Path) -> None:
    """Write a mesh with the groups of the valley on the page on meshes."""
    box = layered_box((-2000, 2000), (-1500, 1500), [0, -500, -2000], [(250, 250), (250, 250)])
    sides = [side for side in box.boundaries if side != "z_max"]
    write_gmsh(path, box, ("soil", "rock"), {"free": ["z_max"], "absorbing": sides})


def test_simulation_files_of_pages_are_found() -> None:
    """Also those without a mark of their language; sections alone are examples of keys, with files of the reader."""
    found = {named(page): simulation_files(page) for page in PAGES}
    whole = {page: sum(content.keys() >= WHOLE for content in contents) for page, contents in found.items()}
    assert whole["README.md"] == 2 and whole["docs/globe.md"] == 1 and whole["docs/meshes.md"] == 2
    assert sum(map(len, found.values())) > sum(whole.values()) == 11


@pytest.mark.parametrize("page", [page for page in PAGES if simulation_files(page)], ids=named)
def test_simulation_files_of_pages_are_accepted(page: Path, tmp_path: Path) -> None:
    write_valley(tmp_path / "valley.msh")
    for content in simulation_files(page):
        if content.keys() >= WHOLE and content["solver"].get("mesh") != "dome.msh":  # made and checked in test_docs.py
            accepted(lw.Simulation.from_text(yaml.safe_dump(content), tmp_path))
