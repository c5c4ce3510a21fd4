"""Random changes of the code, with which `scripts/mutations.py` measures what the tests catch."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = '''
LIMIT = 3

def values(x, y):
    """Not 1 + 1."""
    if x < -y and y != LIMIT:
        return x * (y + 2)
    return "µ", x - 0.5, True
'''
LINES = {
    "x <= -y and y != LIMIT", "x < +y and y != LIMIT", "x < -y or y != LIMIT", "x < -y and y == LIMIT",
    "x / (y + 2)", "x * (y - 2)", "x * (y + 5)", '"µ", x + 0.5, True', '"µ", x - 2.0, True',
}  # fmt: skip


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    spec = importlib.util.spec_from_file_location("mutations", ROOT / "scripts" / "mutations.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mutations", module)
    spec.loader.exec_module(module)
    return module


def test_each_change_is_one_operator_number_or_sign(script) -> None:
    found = set()
    for one in script.mutations(Path("a.py"), SOURCE):
        changed = one.applied(SOURCE)
        assert ast.parse(changed) and sum(old != new for old, new in zip(SOURCE, changed, strict=False)) > 0
        found.add(changed.splitlines()[one.line - 1].strip().removeprefix("return ").removeprefix("if ").rstrip(":"))
    assert found == LINES


def test_samples_repeat_and_have_different_lines(script) -> None:
    files = [script.PACKAGE / "solvers" / "common" / "resampling.py", script.PACKAGE / "run" / "check.py"]
    chosen = script.sample(files, 12, 3)
    assert chosen == script.sample(files, 12, 3) != script.sample(files, 12, 4)
    assert len({(one.file, one.line) for one in chosen}) == 12
    assert script.relevant(files[0], ["tests/unit"])[0] == "tests/unit/test_resampling.py"
