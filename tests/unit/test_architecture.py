"""Who may import whom: the rules that keep the way of the data straight."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import lithowave
from lithowave.solvers import METHODS

SOURCE = Path(__file__).parents[2] / "src" / "lithowave"
DEVICES = {"cupy", "mpi4py", "numba", "llvmlite"}
FILES = sorted(SOURCE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> set[str]:
    """Absolute names of everything imported in a file, also inside functions and for type checking only."""
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            names = {f"{base}.{alias.name}" for alias in node.names}
            found.update(names if names <= MODULES.keys() else {base, *names})
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree(path))
    return found


def offenders(folder: str, forbidden: set[str], allowed: set[str] = frozenset()) -> list[str]:
    found = []
    for path in FILES:
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(folder) or name in allowed:
            continue
        for imported in imports(path):
            if any(imported == bad or imported.startswith(bad + ".") for bad in forbidden):
                found.append(f"{name} imports {imported}")
    return found


def import_graph() -> dict[str, set[str]]:
    """For each module of the package, the modules that it imports, also inside functions."""
    graph = {name: imports(path) & MODULES.keys() - {name} for name, path in MODULES.items()}
    graph["lithowave"] |= {f"lithowave.{home}" for home in lithowave._HOMES.values()}  # loaded by name
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules each of which imports, directly or through others, all others of its group."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        found, waiting = set(), [start]
        while waiting:
            new = graph[waiting.pop()] - found
            found |= new
            waiting += new
        reached[start] = found
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return sorted(sorted(group) for group in groups if group)


def test_no_module_imports_itself_through_others() -> None:
    assert circles(import_graph()) == []


def test_a_circle_of_imports_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"e"}}
    assert circles(graph) == [["a", "b", "c"], ["e"]]
    lazy = import_graph()
    assert "lithowave.run.launch" in lazy["lithowave.runnable"]  # which it imports inside a function
    assert "lithowave.backends.interface" in lazy["lithowave.backends"]  # for type checking only


def rooms(names: str) -> set[str]:
    """Modules of the package by their names, in one text."""
    return {f"lithowave.{name}" for name in names.split()}


SOLVERS = rooms(" ".join(f"solvers.{name}" for name in METHODS))
ABOVE = "backends parallel solvers output mesh run shots cli runnable compare figures report"
LOOPS = rooms("backends.kernel_cache backends.loops")
COMPILED = {name for name in MODULES if name.startswith("lithowave.backends")} - LOOPS - {"lithowave.backends"}
TOP = {name for name in MODULES if name.count(".") == 1}
BEYOND_NUMPY = DEVICES | {"scipy", "h5py"}
OUTLINES = {"description/domain.py", "description/experiment.py"}  # which read the outlines of mesh files
PARALLEL = {path.relative_to(SOURCE).as_posix() for path in (SOURCE / "parallel").glob("*.py")}
RULES = {
    "readers/": DEVICES | rooms(ABOVE), "media/": DEVICES | rooms(ABOVE), "checks/": DEVICES | rooms(ABOVE),
    "media/interpolation.py": DEVICES | COMPILED | rooms(ABOVE) - rooms("backends"),
    "description/": DEVICES | rooms(ABOVE),
    "description/domain.py": DEVICES | rooms(ABOVE) - rooms("mesh"),
    "description/experiment.py": DEVICES | rooms(ABOVE) - rooms("mesh"),
    "backends/": rooms("description readers mesh solvers parallel output run shots cli"),
    "solvers/": rooms("run shots output figures report compare cli") | {"cupy", "mpi4py"},
    "solvers/elements/": SOLVERS, "solvers/common/": SOLVERS | rooms("solvers.elements"),
    "solvers/finite_difference/": SOLVERS - rooms("solvers.finite_difference") | rooms("solvers.elements"),
    "solvers/spectral_element/": SOLVERS - rooms("solvers.spectral_element"),
    "solvers/discontinuous_galerkin/": SOLVERS - rooms("solvers.discontinuous_galerkin"),
    "": {"mpi4py", "cupy.cuda.nccl"}, "parallel/": rooms("solvers mesh output run backends"),
    "output/": SOLVERS | rooms("run shots cli"), "compare/": SOLVERS | rooms("run shots cli"),
    "figures/": SOLVERS | rooms("run shots cli"),
    "run/": rooms("shots cli runnable"), "shots/": rooms("cli runnable"),
    "mesh/": COMPILED | rooms("description solvers") | {"cupy", "mpi4py", "llvmlite"},
    "physics.py": BEYOND_NUMPY | TOP - rooms("physics"), "rheology.py": BEYOND_NUMPY | TOP - rooms("rheology"),
    "faults/": BEYOND_NUMPY | TOP - rooms("faults physics errors rooms"),
    "earth/": BEYOND_NUMPY | TOP - rooms("earth physics errors rooms"),
}  # fmt: skip
"""What files do not import, by the beginning of their names."""
INTERPOLATION = {"media/interpolation.py"}  # which is compiled
EXCEPT = {"": PARALLEL, "description/": OUTLINES, "media/": INTERPOLATION}


@pytest.mark.parametrize("folder", RULES)
def test_who_does_not_import_whom(folder: str) -> None:
    assert any(path.relative_to(SOURCE).as_posix().startswith(folder) for path in FILES)
    assert offenders(folder, RULES[folder], EXCEPT.get(folder, frozenset())) == []


def is_print(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


NOWHERE = {
    "print": (is_print, ("cli", "description/schema.py")),
    "if cuda": (lambda node: isinstance(node, ast.Compare) and "value='cuda'" in ast.dump(node), ("backends/",)),
    "if method": (
        lambda node: isinstance(node, ast.Compare) and "attr='method'" in ast.dump(node), ("description/", "checks/"),
    ),
    "global": (lambda node: isinstance(node, ast.Global), ("none",)),
}  # fmt: skip


@pytest.mark.parametrize("kind", NOWHERE)
def test_statements_that_only_some_files_may_have(kind: str) -> None:
    is_kind, allowed = NOWHERE[kind]
    found = [
        f"{path.name}:{getattr(node, 'lineno', 0)}" for path in FILES
        if not path.relative_to(SOURCE).as_posix().startswith((*allowed, "submit.py"))
        for node in ast.walk(tree(path)) if is_kind(node)
    ]  # fmt: skip
    assert found == []


@pytest.mark.parametrize("heavy", ["numba", "matplotlib", "obspy", "h5py", "pyproj", "scipy"])
def test_importing_the_package_is_light(heavy: str) -> None:
    code = f"import sys, lithowave; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def reads_or_writes_text(call: ast.Call) -> bool:
    """True if a call opens a file, or the output of a program, as text."""
    name = ast.unparse(call.func)
    if name.endswith((".run", ".Popen")):
        return any(keyword.arg in ("text", "universal_newlines") for keyword in call.keywords)
    modes = [node.value for node in call.args if isinstance(node, ast.Constant)]
    binary = any(isinstance(mode, str) and len(mode) <= 3 and "b" in mode for mode in modes)
    return name.endswith((".read_text", ".write_text")) or (name in ("open", "path.open", "os.fdopen") and not binary)


@pytest.mark.parametrize("folder", ["src", "docs", "examples", "benchmarks"])
def test_text_is_read_and_written_with_an_encoding(folder: str) -> None:
    """Without one it is that of the locale, which differs between machines."""
    without = [
        f"{path.name}:{call.lineno}"
        for path in sorted((SOURCE.parents[1] / folder).rglob("*.py"))
        for call in ast.walk(tree(path))
        if isinstance(call, ast.Call) and reads_or_writes_text(call)
        and "encoding" not in {keyword.arg for keyword in call.keywords}
    ]  # fmt: skip
    assert without == []


def test_files_are_short() -> None:
    long = {p.name: n for p in FILES if (n := len(p.read_text(encoding="utf-8").splitlines())) > 900}
    assert long == {}
