"""The rooms of the package, from its imports: what each contains, and on which others it depends."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "lithowave"


def rooms() -> dict[str, list[Path]]:
    """Return the files of each room: of a folder of the package, or a file beside the folders."""
    found: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if not name.startswith("__"):
            found.setdefault(name, []).append(path)
    return found


def imports(files: dict[str, list[Path]]) -> dict[str, set[str]]:
    """Return the other rooms that each room imports, also inside functions and for type checking only."""
    found: dict[str, set[str]] = {}
    for room, paths in files.items():
        modules = set()
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lithowave"):
                    names = [node.module] if "." in node.module else [f"lithowave.{one.name}" for one in node.names]
                    modules |= {name.split(".")[1] for name in names}
        found[room] = (modules & files.keys()) - {room}
    return found


def levels(graph: dict[str, set[str]]) -> dict[str, int]:
    """Return the level of each room: one above the highest room on which it depends; rooms that depend on each other
    share a level."""
    reached = {room: reachable(graph, room) for room in graph}
    together = {
        room: frozenset({room} | {other for other in reached[room] if room in reached[other]}) for room in graph
    }
    found: dict[frozenset[str], int] = {}

    def level(group: frozenset[str]) -> int:
        if group not in found:
            below = {together[other] for room in group for other in graph[room]} - {group}
            found[group] = 1 + max(map(level, below), default=-1)
        return found[group]

    return {room: level(together[room]) for room in graph}


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the rooms on which a room depends, directly or through others."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def headline(paths: list[Path]) -> str:
    """Return the first sentence of a room's docstring."""
    home = next((path for path in paths if path.name == "__init__.py"), paths[0])
    text = ast.get_docstring(ast.parse(home.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def rooms_text() -> str:
    """Return a picture of the levels and a table of the rooms as Markdown."""
    files = rooms()
    graph = imports(files)
    heights = levels(graph)
    order = sorted(files, key=lambda room: (-heights[room], room))
    picture = ["```text"]
    for height in sorted(set(heights.values()), reverse=True):
        names = "   ".join(room for room in order if heights[room] == height)
        picture.append(f"{height:2}   {names}")
    picture.append("```")
    table = ["| room | files | contents |", "| --- | ---: | --- |"]
    table += [f"| `{room}` | {len(files[room])} | {headline(files[room])} |" for room in order]
    return "\n".join([*picture, "", *table])
