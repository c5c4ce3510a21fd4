"""Packages of other projects: a module imports required ones only, and names optional ones where it needs them."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_architecture import FILES, SOURCE

from lithowave.doctor import OPTIONAL, REQUIRED

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULES = {"pyyaml": "yaml", "cupy-cuda12x": "cupy", "cupy-cuda13x": "cupy"}
"""Names of modules that differ from the name of their package."""
OF_OTHERS = {"llvmlite": "numba", "pydantic_core": "pydantic", "PIL": "matplotlib"}
"""Modules of packages that another package requires in a version of its choice."""


def packages(requirements: list[str]) -> set[str]:
    """Return the names in a list of requirements."""
    return {re.match(r"[\w.-]+", one)[0].lower() for one in requirements}


BASE = packages(PROJECT["dependencies"])
EXTRAS = packages([
    one for name, group in PROJECT["optional-dependencies"].items() if name not in ("test", "docs", "dev")
    for one in group
])  # fmt: skip


def foreign_imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the modules of other projects that a file imports, and whether this happens with the import of the file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node) for later in ast.walk(tree)
        if isinstance(later, (ast.FunctionDef, ast.AsyncFunctionDef))
        or isinstance(later, ast.If) and ast.unparse(later.test) == "TYPE_CHECKING"
        for node in ast.walk(later)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module)]
        else:
            continue
        for name in names:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top != "lithowave":
                yield top, id(node) not in inside


@pytest.mark.parametrize("with_the_file", [True, False])
def test_imported_packages_are_required_or_in_an_extra(with_the_file: bool) -> None:
    """What a file imports outside functions, and not only for types, is required; the rest is in an extra, too."""
    allowed = {MODULES.get(name, name) for name in (BASE if with_the_file else BASE | EXTRAS)}
    allowed |= {module for module, package in OF_OTHERS.items() if package in BASE}
    found = [
        f"{path.relative_to(SOURCE)}: {module}" for path in FILES for module, at_once in foreign_imports(path)
        if at_once == with_the_file and module not in allowed
    ]  # fmt: skip
    assert found == []


def test_doctor_lists_all_packages() -> None:
    assert set(REQUIRED) == BASE | {"llvmlite"}
    assert set(OPTIONAL) == EXTRAS


def test_lower_bounds_are_single_versions() -> None:
    """From which scripts/check_install.py takes the oldest versions."""
    for requirement in PROJECT["dependencies"]:
        assert re.fullmatch(r"[\w.-]+>=[\d.]+", requirement), requirement
