"""Measure what the tests catch: change random places of the code, one at a time, and run tests on each change.

    python scripts/mutations.py                                      # ten changes of each package, its tests
    python scripts/mutations.py --package finite_difference --count 3
    python scripts/mutations.py --files solvers/common/resampling.py --tests tests/unit/test_resampling.py
    python scripts/mutations.py --files readers description --tests tests/unit tests/formats --coverage .coverage

A change replaces an operator (+ and -, * and /, < and <=, == and !=, and and or), a number or a sign in the body of a
function, omits a `not`, or an error that is raised. The tests run in a copy of the repository and stop at the first
failure. The last line is the share of changes that a test has caught; the others are listed with their lines. Some of
them do not change results, for example a larger size of a buffer. The script first requires that the tests succeed on
unchanged code, which also compiles the kernels.

With a file that `coverage run` has written with `dynamic_context = test_function` while all tests succeeded, the tests
of a change are those that execute its line, and there is no first run.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/lithowave")
METHODS = ("finite_difference", "spectral_element", "discontinuous_galerkin")
PACKAGES = {name: f"solvers/{name}" for name in METHODS} | {"readers": "readers", "description": "description"}
OPERATORS = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
    ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
TESTS = ("tests/unit", "tests/integration", "tests/ranks", "tests/verification")
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "out")


@dataclass(frozen=True)
class Mutation:
    """A change of characters begin to end of a file."""

    file: Path
    begin: int
    end: int
    text: str
    line: int

    def applied(self, source: str) -> str:
        """Return the changed source."""
        return source[: self.begin] + self.text + source[self.end :]


def mutations(file: Path, source: str) -> Iterator[Mutation]:
    """Yield the possible changes in the functions of a file."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = source.splitlines()

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        return offset(node.lineno, node.col_offset), offset(node.end_lineno or 0, node.end_col_offset or 0)

    def between(left: ast.expr, right: ast.expr, operator: ast.AST) -> Iterator[Mutation]:
        old, new = OPERATORS.get(type(operator), ("", ""))
        begin, end = span(left)[1], span(right)[0]
        if old and source[begin:end].count(old) == 1:
            place = begin + source[begin:end].index(old)
            yield Mutation(file, place, place + len(old), new, source.count("\n", 0, place) + 1)

    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in {inner for function in functions for item in function.body for inner in ast.walk(item)}:
        if isinstance(node, ast.BinOp):
            yield from between(node.left, node.right, node.op)
        elif isinstance(node, ast.Compare):
            for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                yield from between(left, right, operator)
        elif isinstance(node, ast.BoolOp):
            yield from between(*node.values[:2], node.op)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            begin, _ = span(node)
            yield Mutation(file, begin, begin + 1, "+", node.lineno)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield Mutation(file, span(node)[0], span(node.operand)[0], "", node.lineno)
        elif isinstance(node, ast.Raise):
            yield Mutation(file, *span(node), "pass", node.lineno)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield Mutation(file, *span(node), repr(2 * node.value + 1), node.lineno)


def sample(files: Sequence[Path], count: int, seed: int) -> list[Mutation]:
    """Return random changes, at most one of a line, each file in proportion to its possible changes."""
    every = sorted(
        (one for file in files for one in mutations(file, (ROOT / file).read_text(encoding="utf-8"))),
        key=lambda one: (str(one.file), one.begin, one.text),
    )
    random.Random(seed).shuffle(every)
    chosen = {(one.file, one.line): one for one in reversed(every)}
    return [one for one in every if chosen[one.file, one.line] is one][:count]


def modules(path: Path) -> list[Path]:
    """Return a module, or all modules of a folder, relative to the root."""
    return [path] if path.suffix == ".py" else sorted(one.relative_to(ROOT) for one in (ROOT / path).rglob("*.py"))


def relevant(file: Path, tests: Sequence[str]) -> list[str]:
    """Return the test files that name a module first, then those that name its method; all given ones otherwise."""
    module = ".".join(file.relative_to("src").with_suffix("").parts)
    names = [module.rpartition(".")[0], *(name for name in METHODS if name in module)]
    found: dict[str, int] = {}
    for top in tests:
        for path in [ROOT / top] if top.endswith(".py") else sorted((ROOT / top).rglob("test_*.py")):
            text = path.read_text(encoding="utf-8")
            rank = 0 if module in text else 1 if any(name in text for name in names) else 2
            if rank < 2 or top.endswith(".py"):
                found[str(path.relative_to(ROOT))] = rank
    return sorted(found, key=lambda name: found[name])


def covering(data: str, one: Mutation, tests: Sequence[str]) -> list[str]:
    """Return the tests that execute the line of a change, by the contexts of a file of coverage."""
    from coverage import CoverageData

    found = CoverageData(data)
    found.read()
    (measured,) = [name for name in found.measured_files() if name.endswith(str(one.file))] or [""]
    contexts = found.contexts_by_lineno(measured) if measured else {}
    line = max((number for number in contexts if number <= one.line), default=0)
    names = {tuple(context.split(".")[-2:]) for context in contexts.get(line, ()) if context.count(".")}
    folders = [ROOT / top for top in tests]
    files = [path for top in folders for path in ([top] if top.suffix else top.rglob("test_*.py"))]
    paths = {path.stem: path.relative_to(ROOT) for path in files}
    texts = {stem: (ROOT / path).read_text(encoding="utf-8") for stem, path in paths.items()}
    return sorted(f"{paths[stem]}::{name}" for stem, name in names if f"def {name}(" in texts.get(stem, ""))


def result_of(folder: Path, tests: Sequence[str], limit: float, options: argparse.Namespace) -> str:
    """Return the first failure of tests in a copy of the repository, or an empty text. limit : s."""
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "NUMBA_CACHE_DIR": str(folder / "kernels")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=line", "-p", "no:cacheprovider"]
    command += ["-n", options.workers, "-k", options.select, *tests]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"time limit of {limit:.0f} s"
    if done.returncode in (0, 5):  # 5: there is no test of this selection
        return ""
    failures = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failures[0] if failures else (done.stdout + done.stderr)[-300:]


def tests_of(one: Mutation, options: argparse.Namespace) -> list[str]:
    """Return the tests that a change requires."""
    if options.coverage:
        return covering(options.coverage, one, options.tests)
    return relevant(one.file, options.tests)


def measure(folder: Path, chosen: Sequence[Mutation], options: argparse.Namespace) -> int:
    """Run the tests for each change; print what they find. Return the number of changes that they catch."""
    caught = 0
    for number, one in enumerate(chosen, 1):
        path, begin = folder / one.file, time.monotonic()
        source, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(one.applied(source), encoding="utf-8")
        # Python and Numba recognize changes by the time: another one for each change of the same length.
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + number * 10**9))
        try:
            tests = tests_of(one, options)
            failure = result_of(folder, tests, options.limit, options) if tests else ""
        finally:
            path.write_text(source, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # so that stored kernels are found again
        caught += bool(failure)
        line = source.splitlines()[one.line - 1].strip()
        print(f"{'caught' if failure else 'MISSED'} in {time.monotonic() - begin:.0f} s: {one.file}:{one.line}: {line}")
        print(f"    {source[one.begin : one.end]} -> {one.text}    {failure}", flush=True)
    return caught


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", choices=PACKAGES, action="append", help="packages to change (default: all)")
    parser.add_argument("--files", nargs="+", help="files and folders to change instead, relative to src/lithowave")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="directories and files of tests")
    parser.add_argument("--select", default="", help="expression that names of tests must match, as `pytest -k`")
    parser.add_argument("--count", type=int, default=10, help="number of changes, of each package (default: 10)")
    parser.add_argument("--coverage", help="file of coverage by tests, which selects the tests of each change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=1200.0, help="time for each change, s")
    parser.add_argument("--workers", default="2", help="processes of pytest")
    options = parser.parse_args()
    groups = [options.files] if options.files else [[PACKAGES[name]] for name in options.package or PACKAGES]
    groups = [[path for name in names for path in modules(PACKAGE / name)] for names in groups]
    chosen = [one for files in groups for one in sample(files, options.count, options.seed)]
    if not chosen:
        parser.error("these files have nothing to change")
    with tempfile.TemporaryDirectory(prefix="lithowave-mutations-") as top:
        folder = Path(shutil.copytree(ROOT, Path(top) / "repository", ignore=NOT_COPIED))
        known = [] if options.coverage else chosen
        every = list(dict.fromkeys(test for one in known for test in tests_of(one, options)))
        if every and (failure := result_of(folder, every, 10 * options.limit, options)):
            parser.exit(1, f"The tests fail without a change: {failure}\n")
        caught = measure(folder, chosen, options)
    print(f"{caught} of {len(chosen)} changes were caught ({caught / len(chosen):.0%}).")


if __name__ == "__main__":
    main()
