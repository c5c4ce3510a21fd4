"""Print figures of the structure of the code: ``python scripts/structure.py [--trace] [--lists]``.

lines, files : of the package. circles : groups of modules that import each other, also for type checking only. names
imported by tests : from modules inside the rooms of the package, that is, from others than a room itself; patches and
private attributes are those of the tests, too. backend members : attributes of a backend that other packages read, and
those of them that the protocols `Backend` and `DeviceBackend` of `backends.interface` do not declare. `--trace` runs
the README's first description twice in one process and counts the functions and files of the package that the second
run passes through until the end of the first time step. `--lists` prints what has been counted.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "lithowave"
LONGEST_FUNCTION = 60


def module_name(path: Path) -> str:
    """Return the dotted name of a file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def trees(folder: Path) -> dict[Path, ast.Module]:
    """Return the syntax trees of the Python files in a folder."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}


def imported(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Yield the module and the name of each import from the package; None for an import of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "lithowave")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "lithowave":
            yield from ((node.module, alias.name) for alias in node.names)


def import_circles(sources: dict[Path, ast.Module]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others."""
    names = {module_name(path) for path in sources}
    graph: dict[str, set[str]] = {}
    for path, tree in sources.items():
        found = {f"{module}.{name}" if f"{module}.{name}" in names else module for module, name in imported(tree)}
        graph[module_name(path)] = (found & names) - {module_name(path)}
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        reached[start] = seen
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return sorted(sorted(group) for group in groups if group)


def names_inside_rooms(tests: dict[Path, ast.Module]) -> set[tuple[str, str]]:
    """Return the names that tests import from modules which are not the `__init__` of a package."""
    packages = {module_name(path) for path in PACKAGE.rglob("__init__.py")}
    return {
        (module, name or "") for tree in tests.values() for module, name in imported(tree) if module not in packages
    }


def private_accesses(tests: dict[Path, ast.Module]) -> int:
    """Return the number of accesses of attributes with a leading underscore, other than of `self`."""
    return sum(
        isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        for tree in tests.values() for node in ast.walk(tree)
    )  # fmt: skip


def patches(tests: dict[Path, ast.Module]) -> int:
    """Return the number of calls of `monkeypatch.setattr` and `setitem`."""
    return sum(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("setattr", "setitem")
        and "monkeypatch" in ast.unparse(node.func.value)
        for tree in tests.values() for node in ast.walk(tree)
    )  # fmt: skip


def attributes_of(sources: dict[Path, ast.Module], owner: str, outside: str) -> Counter[str]:
    """Return the attributes that are read of variables or attributes of this name, outside of a folder."""
    return Counter(
        node.attr for path, tree in sources.items() if not path.is_relative_to(PACKAGE / outside)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).split(".")[-1] == owner
    )  # fmt: skip


def declared_members(name: str, tree: ast.Module) -> set[str]:
    """Return the members that a class declares."""
    [body] = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    methods = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    return methods | {
        node.target.id for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def long_functions(sources: dict[Path, ast.Module]) -> dict[str, int]:
    """Return the lines of the functions that are longer than `LONGEST_FUNCTION`."""
    return {
        f"{module_name(path)}.{node.name}": length for path, tree in sources.items() for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (length := node.end_lineno - node.lineno + 1) > LONGEST_FUNCTION
    }  # fmt: skip


def count_any(sources: dict[Path, ast.Module]) -> int:
    """Return how often `Any` is used as a type."""
    return sum(isinstance(node, ast.Name) and node.id == "Any" for tree in sources.values() for node in ast.walk(tree))


def dictionary_writes(sources: dict[Path, ast.Module]) -> int:
    """Return the number of statements that change an object by its `__dict__`."""
    return sum(
        "__dict__" in ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.func)
        for tree in sources.values() for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.Call))
    )  # fmt: skip


def traced() -> tuple[set[str], set[str]]:
    """Return the functions and files of the package that the second of two runs calls until its first step ends."""
    sys.path.insert(0, str(PACKAGE.parent))
    import lithowave
    from lithowave.solvers import load_method

    functions: set[str] = set()

    def note(frame: object, event: str, _argument: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and code.co_name[0] != "<":
            functions.add(f"{code.co_filename}:{code.co_qualname}")

    solver = load_method("finite_difference").Solver
    advance = solver.advance

    def counted_step(self: object, step: int) -> None:
        advance(self, step)
        sys.setprofile(None)

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        text = (ROOT / "README.md").read_text(encoding="utf-8").split("```yaml\n# first.yaml", 1)[1].split("```")[0]
        Path("first.yaml").write_text(text, encoding="utf-8")
        lithowave.Simulation.from_file("first.yaml").run()
        solver.advance = counted_step
        sys.setprofile(note)
        lithowave.Simulation.from_file("first.yaml").run(overwrite=True)
    return functions, {name.partition(":")[0] for name in functions}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--lists", action="store_true")
    options = parser.parse_args()
    sources, tests = trees(PACKAGE), trees(ROOT / "tests")
    used = attributes_of(sources, "backend", "backends")
    interface = sources[PACKAGE / "backends" / "interface.py"]
    declared = declared_members("Backend", interface) | declared_members("DeviceBackend", interface)
    circles, inside, lengths = import_circles(sources), names_inside_rooms(tests), long_functions(sources)
    figures = {
        "files of the package": len(sources),
        "lines of Python in the package": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources),
        "lines of the tests": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tests),
        "circles of imports": len(circles),
        "modules in the largest circle": max(map(len, circles), default=0),
        "names imported by tests from inside the rooms": len(inside),
        "modules of these names": len({module for module, _ in inside}),
        "patches in tests": patches(tests),
        "private attributes in tests": private_accesses(tests),
        "members of a backend used outside": len(used),
        "of these, not in the protocol": len(used.keys() - declared),
        "members of a plan read outside the solvers": len(attributes_of(sources, "plan", "solvers")),
        "changes by __dict__": dictionary_writes(sources),
        f"functions of more than {LONGEST_FUNCTION} lines": len(lengths),
        "longest function, lines": max(lengths.values(), default=0),
        "Any": count_any(sources),
    }
    if options.trace:
        functions, files = traced()
        figures |= {"functions until the first step": len(functions), "files until the first step": len(files)}
    for name, value in figures.items():
        print(f"{name:48}{value:>8,}")
    if options.lists:
        print(*circles, *sorted(inside), sorted(used.keys() - declared), lengths, sep="\n")


if __name__ == "__main__":
    main()
