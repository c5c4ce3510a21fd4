"""A user who types the blocks of all pages, one after another in one folder, succeeds.

Files are blocks whose first line is a comment with their name (``# first.yaml``). Commands are the lines of indented
blocks that begin with ``lithowave`` or ``python``; Python blocks without a name run in one process per page. A block
after ``<!-- not run: REASON -->`` is left out, and so are commands with names in capitals (``lithowave status DIR``),
those that read a file of the repository, and those that require a GPU.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
USE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("- How it works:")[0]
PAGES = [ROOT / "README.md", *(DOCS / name for name in re.findall(r": (\w+\.md)$", USE, re.MULTILINE))]
MOST_USED = [
    ROOT / "README.md",
    *(DOCS / f"{name}.md" for name in ("getting_started", "observed_data", "python_results", "callbacks")),
]
BLOCK = re.compile(
    r"(?P<mark><!-- not run: [^\n]* -->\n\n?)?"
    r"(?:^```(?P<language>\w*)\n(?P<fenced>.*?)^```$|(?P<indented>(?:^ {4}[^\n]*\n)+))",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^ {4}((?:lithowave|python) .*)$", re.MULTILINE)
ELSEWHERE = re.compile(r"(?<![\w.=-])[A-Z]{2,}(?![\w.])|(examples|benchmarks|tests)/|--backend cuda")
LONG = re.compile("spectral_element|out/elements|sea")  # commands of the slow test only
LOWER = 2.5  # factor between the frequencies of a page and those of the test


@dataclass(frozen=True)
class Block:
    """A piece of a page: ``file`` (to be written), ``shell`` or ``python``."""

    kind: str
    text: str
    name: str = ""


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that a user can type, in order."""
    found = []
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if match["mark"]:
            continue
        if match["indented"]:
            lines = COMMAND.findall(re.sub(r"\\\n\s*", "", match["indented"]))
            plain = [line.partition(" #")[0].rstrip() for line in lines]
            found += [Block("shell", line) for line in plain if not ELSEWHERE.search(line)]
        elif name := re.match(r"# (\w+\.\w+)\n", match["fenced"]):
            found.append(Block("file", match["fenced"], name[1]))
        elif match["language"] == "python":
            found.append(Block("python", match["fenced"]))
    return found


def smaller(text: str) -> str:
    """A simulation file with lower frequencies, and with few snapshots."""
    content = yaml.safe_load(text)
    gaussians = [source.get("time_function", {}).get("gaussian", {}) for source in content["sources"]]
    if any(isinstance(value, str) for shape in gaussians for value in shape.values()):
        return text
    for shape in filter(None, gaussians):
        shape.update(sigma=LOWER * shape["sigma"], delay=4.0 * LOWER * shape["sigma"])
    content["solver"]["max_frequency"] /= LOWER
    if "snapshots" in content["output"]:
        content["output"]["snapshots"]["interval"] = 0.5
    return yaml.safe_dump(content, sort_keys=False)


def smaller_code(text: str) -> str:
    """A Python block with lower frequencies; `test_docs.py` runs the blocks as they are."""
    return re.sub(r'(?<="max_frequency": )[\d.]+', lambda value: str(float(value[0]) / LOWER), text)


def completed(command: list[str], place: Path, what: str) -> None:
    """Require that a command succeeds, or that it finds a difference of methods, as the page on agreement shows.

    One thread: the other cores have other tests.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "Agg", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=900)
    differs = done.returncode == 1 and "The methods do not agree" in done.stdout
    assert done.returncode == 0 or differs, f"{what}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


def typed(pages: list[Path], place: Path, left_out: re.Pattern[str] | None = None) -> None:
    """Do what the pages say, in a folder. left_out : commands with this pattern are not run."""
    (place / "bin").mkdir()
    for name, words in {"lithowave": "-m lithowave", "python": ""}.items():
        script = place / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        script.chmod(0o755)
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for page in pages:
        waiting: list[str] = []  # Python blocks since the last command
        for block in [*blocks(page), Block("end", "")]:
            if block.kind == "python":
                waiting.append(block.text)
                continue
            if waiting and block.kind != "file":
                (place / "page.py").write_text("\n\n".join(map(smaller_code, waiting)), encoding="utf-8")
                completed([sys.executable, "page.py"], place, f"Python of {page.name}")
                waiting = []
            if block.kind == "file":
                text = smaller(block.text) if block.name.endswith(".yaml") else block.text
                (place / block.name).write_text(text, encoding="utf-8")
            elif block.kind == "shell" and not (left_out and left_out.search(block.text)):
                completed(["sh", "-ec", f'PATH="{path}"; {block.text}'], place, f"{page.name}: {block.text}")


def test_the_blocks_of_the_most_used_pages_run_in_one_folder(tmp_path: Path) -> None:
    pytest.importorskip("obspy")
    typed(MOST_USED, tmp_path, LONG)
    stopped = json.loads((tmp_path / "out" / "until_quiet" / "run.json").read_text())
    assert stopped["stopped_by"] == "StopAfterCoda" and stopped["stopped_at_time_s"] < 0.7 * 20


@pytest.mark.slow
def test_the_blocks_of_all_pages_run_in_one_folder(tmp_path: Path) -> None:
    pytest.importorskip("obspy")
    typed(PAGES, tmp_path)
