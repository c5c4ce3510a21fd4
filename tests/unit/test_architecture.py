"""Who may import whom: the rules that keep the way of the data straight."""

from __future__ import annotations

import ast
import subprocess
import sys
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

    visit(ast.parse(path.read_text(encoding="utf-8")))
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


def test_the_description_knows_no_device_and_no_solver() -> None:
    parts = ("backends", "parallel", "solvers", "output", "mesh", "run", "shots", "cli", "runnable")
    parts += ("compare", "figures", "report")
    bad = DEVICES | {f"lithowave.{part}" for part in parts}
    for room in ("readers/", "media/", "checks/"):
        assert offenders(room, bad) == []
    with_meshes = ("description/domain.py", "description/experiment.py")  # which read the outlines of mesh files
    assert offenders("description/", bad, set(with_meshes)) == []
    for file in with_meshes:
        assert offenders(file, bad - {"lithowave.mesh"}) == []


def test_backends_know_no_mesh_and_no_description() -> None:
    parts = ("description", "readers", "mesh", "solvers", "parallel", "output", "run", "shots", "cli")
    assert offenders("backends/", {f"lithowave.{part}" for part in parts}) == []


def test_solvers_know_neither_devices_nor_outputs() -> None:
    parts = ("run", "shots", "output", "figures", "report", "compare", "cli")
    bad = {f"lithowave.{part}" for part in parts} | {"cupy", "mpi4py"}
    assert offenders("solvers/", bad) == []


def test_shared_parts_of_solvers_know_no_method() -> None:
    methods = {f"lithowave.solvers.{name}" for name in METHODS}
    assert len(methods) == 3
    assert offenders("solvers/elements/", methods) == []
    assert offenders("solvers/common/", methods | {"lithowave.solvers.elements"}) == []
    for name in METHODS:
        assert offenders(f"solvers/{name}/", methods - {f"lithowave.solvers.{name}"}) == []
    assert offenders("solvers/finite_difference/", {"lithowave.solvers.elements"}) == []


def test_one_package_knows_mpi_and_nccl() -> None:
    allowed = {path.relative_to(SOURCE).as_posix() for path in (SOURCE / "parallel").glob("*.py")}
    assert offenders("", {"mpi4py", "cupy.cuda.nccl"}, allowed) == []
    others = {f"lithowave.{part}" for part in ("solvers", "mesh", "output", "run", "backends")}
    assert offenders("parallel/", others) == []


def test_outputs_know_neither_methods_nor_the_loop() -> None:
    methods = {f"lithowave.solvers.{name}" for name in ("finite_difference", "spectral_element")}
    bad = methods | {"lithowave.solvers.discontinuous_galerkin", "lithowave.run", "lithowave.shots", "lithowave.cli"}
    for room in ("output/", "compare/", "figures/"):
        assert offenders(room, bad) == []


def test_a_run_knows_no_survey_and_no_command_line() -> None:
    assert offenders("run/", {"lithowave.shots", "lithowave.cli", "lithowave.runnable"}) == []
    assert offenders("shots/", {"lithowave.cli", "lithowave.runnable"}) == []


def test_meshes_need_only_numpy_and_compiled_loops() -> None:
    loops = {f"lithowave.backends.{name}" for name in ("kernel_cache", "loops")}
    backends = {name for name in MODULES if name.startswith("lithowave.backends")} - loops
    others = {"lithowave.description", "lithowave.solvers", "cupy", "mpi4py", "llvmlite"}
    assert offenders("mesh/", backends - {"lithowave.backends"} | others) == []


@pytest.mark.parametrize("package", ["physics", "rheology"])
def test_formulas_need_only_numpy(package: str) -> None:
    others = {name for name in MODULES if name.count(".") == 1} - {f"lithowave.{package}"}
    assert f"lithowave.{package}" in MODULES
    assert offenders(f"{package}.py", DEVICES | others | {"scipy", "h5py"}) == []


def test_finite_faults_need_only_numpy() -> None:
    others = {name for name in MODULES if name.count(".") == 1}
    others -= {"lithowave.faults", "lithowave.physics", "lithowave.errors", "lithowave.rooms"}
    assert offenders("faults/", DEVICES | others | {"scipy", "h5py"}) == []


def test_radial_models_need_only_numpy() -> None:
    others = {name for name in MODULES if name.count(".") == 1}
    others -= {"lithowave.earth", "lithowave.physics", "lithowave.errors", "lithowave.rooms"}
    assert offenders("earth/", DEVICES | others | {"scipy", "h5py"}) == []


def test_only_the_command_line_prints() -> None:
    printing = []
    for path in FILES:
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("cli"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                printing.append(f"{name}:{node.lineno}")
    assert [place for place in printing if not place.startswith("description/schema.py")] == []


def test_devices_are_told_apart_by_backends() -> None:
    """No `if cuda` outside the backends; a job is submitted for the device that the user has named."""
    found = []
    for path in FILES:
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("backends/") or name == "submit.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and "value='cuda'" in ast.dump(node):
                found.append(f"{name}:{node.lineno}")
    assert found == []


def test_nothing_global_changes() -> None:
    found = [
        f"{path.name}:{node.lineno}" for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Global)
    ]  # fmt: skip
    assert found == []


def test_methods_are_told_apart_in_one_place() -> None:
    """No `if method ==` outside the dictionary of methods and the description's own checks."""
    found = []
    for path in FILES:
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(("description/", "checks/")):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and "attr='method'" in ast.dump(node):
                found.append(f"{name}:{node.lineno}")
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
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and reads_or_writes_text(call)
        and "encoding" not in {keyword.arg for keyword in call.keywords}
    ]  # fmt: skip
    assert without == []


def test_files_are_short() -> None:
    long = {p.name: n for p in FILES if (n := len(p.read_text(encoding="utf-8").splitlines())) > 900}
    assert long == {}
