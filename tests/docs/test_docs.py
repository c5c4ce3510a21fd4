"""The documentation: generated pages are current, links lead somewhere, snippets work, commands exist."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import gmsh_files
import lithowave as lw
from lithowave.mesh import layered_box, tetrahedral_box, write_gmsh
from lithowave.run import check_simulation

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted((ROOT / "examples").glob("*/README.md")), *sorted(DOCS.glob("*.md"))]
TOP_PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md"]
LARGEST_PICTURE = 300_000


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def snippets(path: Path, language: str) -> list[str]:
    """Fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    """A page without its fenced blocks and without code."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[\[\]()]", "", code[0]), text)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as MkDocs makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch):
    """The module that writes the generated pages."""
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("generate_reference")


def test_generated_pages_are_current(reference) -> None:
    old = [named(p) for p, text in reference.generated_pages().items() if p.read_text(encoding="utf-8") != text]
    assert old == [], "run python docs/generate_reference.py"


def test_every_public_name_is_in_the_python_reference() -> None:
    headings = re.findall(r"^### (\w+)$", (DOCS / "python_reference.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for name in lw.__all__ if not name.startswith("_")} <= set(headings)


def test_every_page_is_in_the_navigation_and_on_the_home_page() -> None:
    navigation = re.findall(r": (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {page.name for page in DOCS.glob("*.md")}
    assert set(navigation) == pages and len(navigation) == len(pages)
    home = set(re.findall(r"\]\((\w+\.md)", (DOCS / "index.md").read_text(encoding="utf-8")))
    assert pages - home == {"index.md"}


@pytest.mark.parametrize("page", [*PAGES, *TOP_PAGES], ids=named)
def test_files_that_a_page_names_exist(page: Path) -> None:
    """`folder/file.py` is a path in the repository or in the package; `file.py` may be in any folder."""
    sources = [path for top in ("src", "tests", "docs", "benchmarks", "examples") for path in (ROOT / top).rglob("*")]
    names = {path.name for path in sources}
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:[\w.]+/)*\w+\.(?:py|cu|cuh|pyi))`", text):
        candidates = (ROOT / path, ROOT / "src" / "lithowave" / path, page.parent / path)
        assert any(place.exists() for place in candidates) if "/" in path else path in names, path
    for folder in re.findall(r"`((?:tests|benchmarks|docs|examples|src)/[\w/]+)`", text):
        assert (ROOT / folder).is_dir(), folder


@pytest.mark.parametrize("page", [*PAGES, *TOP_PAGES], ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{target} is not there"
        assert page.parent != DOCS or DOCS in file.parents, f"{target} is not part of the site"
        assert not anchor or anchor in anchors(file), f"{target}: no such heading"


def test_pictures_are_small() -> None:
    pictures = [*DOCS.rglob("*.png"), *DOCS.rglob("*.gif")]
    assert pictures
    assert [named(path) for path in pictures if path.stat().st_size > LARGEST_PICTURE] == []


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page, "yaml")], ids=named)
def test_simulation_files_are_accepted_without_a_warning(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that a page makes in Python are there; the page on faults explains the warning about their slip rates."""
    monkeypatch.chdir(tmp_path)
    valley = layered_box((-2000, 2000), (-1500, 1500), [0.0, -2000.0], [(1000, 1000)])
    gmsh_files.write_gmsh(tmp_path / "valley.msh", valley, ["rock"], {})
    write_gmsh(tmp_path / "dome.msh", tetrahedral_box((-1500, 1500), (-1500, 1500), (-2500, 0), 1000.0))
    for code in snippets(page, "python"):
        if "write_srf(" in code or "np.savez(" in code:
            exec(compile(code, named(page), "exec"), {})
    for text in snippets(page, "yaml"):
        warnings = lw.Simulation.from_text(text, tmp_path).warnings()
        assert [one for one in warnings if "slip rate has corners" not in one] == []


def test_spectral_elements_that_are_compared_have_a_layer() -> None:
    """README and tutorial promise agreement with finite differences, which Stacey's condition does not allow."""
    [text] = [text for text in snippets(ROOT / "README.md", "yaml") if "spectral_element" in text]
    simulation = lw.Simulation.from_text(text)
    assert check_simulation(simulation, measure=False).warnings == []
    stacey = simulation.with_overrides({"boundaries.absorption": "stacey"})
    [told] = check_simulation(stacey, measure=False).warnings
    assert "reflects part of the waves" in told and "absorption: layer" in told
    commands = [words for page in PAGES for words in typed_commands(page) if "solver.method=spectral_element" in words]
    tutorial = [words for words in typed_commands(DOCS / "getting_started.md") if words in commands]
    assert tutorial and not any("boundaries.absorption=stacey" in words for words in tutorial)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the snippets read, all of them smaller than they are shown."""
    shown = snippets(DOCS / "getting_started.md", "yaml")[0]
    content = yaml.safe_load(shown)
    content["duration"], content["solver"]["max_frequency"] = 1.0, 1.3
    content["sources"][0]["time_function"] = {"gaussian": {"sigma": 0.3, "delay": 0.9}}
    content["output"]["snapshots"]["interval"] = 0.5
    for name in ("simulation.yaml", "first.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page, "python")], ids=named)
def test_python_snippets_run(page: Path, workplace: Path) -> None:
    pytest.importorskip("obspy")
    if page.name == "run_folder.md":
        lw.Simulation.from_file("simulation.yaml").run(output="out/first_steps")
    for text in snippets(page, "yaml"):
        if "domain = " in "".join(snippets(page, "python")):  # the page reads its own simulation file
            (workplace / re.findall(r"^# (.*)$", text, re.MULTILINE)[0]).write_text(text, encoding="utf-8")
    codes = snippets(page, "python")
    for code in codes:
        exec(compile(code, named(page), "exec"), {})
    if not any(".run(" in code or "load_" in code for code in codes):
        written = [file for kind in ("msh", "srf", "bm", "npz") for file in workplace.glob(f"*.{kind}")]
        assert written or any("from_file(" in code for code in codes)
        return
    runs = list(workplace.glob("out/*/run.json"))
    assert runs
    assert all((run.parent / "seismograms.h5").is_file() for run in runs)


def meshed(number: int, path: Path) -> None:
    """The mesh that Gmsh makes of a drawing of the page on meshes."""
    gmsh = pytest.importorskip("gmsh")
    drawing = path.with_suffix(".geo")
    drawing.write_text(snippets(DOCS / "meshes.md", "text")[number], encoding="utf-8")
    gmsh.initialize()
    gmsh.open(str(drawing))
    gmsh.model.mesh.generate(3)
    gmsh.write(str(path))
    gmsh.finalize()


def test_the_mesh_of_the_recipe_can_be_run(tmp_path: Path) -> None:
    meshed(0, tmp_path / "valley.msh")
    report = lw.Simulation.from_text(snippets(DOCS / "meshes.md", "yaml")[0], tmp_path).check()
    assert report.runnable and report.plan["element_count"] == 3600
    assert report.plan["faces"] == {"free": 300, "absorbing": 1140}


def test_the_dome_of_the_page_on_meshes_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS / "meshes.md"
    exec(compile(snippets(page, "python")[0], named(page), "exec"), {})
    report = check_simulation(lw.Simulation.from_text(snippets(page, "yaml")[1], tmp_path), measure=False)
    assert report.runnable and report.plan["fluid_elements"] > 1000 and report.plan["local_time_steps"]
    assert report.plan["faces"]["free"] == 2 * (12 + 2 * 4) ** 2 and report.plan["points_per_wavelength"] > 6


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "getting_started.md"], ids=named)
def test_the_shot_at_sea_takes_two_to_three_minutes(page: Path, tmp_path: Path) -> None:
    [text] = [text for text in snippets(page, "yaml") if "a shot at sea" in text]
    report = check_simulation(lw.Simulation.from_text(text, tmp_path), measure=False)
    updates = sum(cluster["elements"] / cluster["time_step_s"] for cluster in report.plan["clusters"]) * 2.5
    assert all("reflects part of the waves" in text for text in report.warnings) and len(report.warnings) <= 1
    assert report.plan["fluid_elements"] > 1000
    assert updates < 80e6  # two cores update about half a million elements of order 5 per second


def typed_commands(page: Path) -> list[list[str]]:
    """The lithowave commands in the indented blocks of a page, in words."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))  # continued lines
    lines = re.findall(r"^ {4}(?:\.venv/bin/)?(lithowave .*)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("page", [page for page in PAGES if typed_commands(page)], ids=named)
def test_commands_and_options_exist(page: Path, reference) -> None:
    known = importlib.import_module("command_pages").command_options()
    for _, command, *words in typed_commands(page):
        if command.startswith("-"):
            assert command in ("--help", "--version")
            continue
        assert command in known
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= known[command] | {"--help"}, f"{command}: {options - known[command]}"


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("pymdownx")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert (tmp_path / "site" / "theory.html").is_file()
