"""Write the generated parts of the documentation: ``python docs/generate_reference.py``.

It writes `simulation_file.md` from the JSON schema, `python_reference.md` from docstrings, and the text between
``<!-- name -->`` and ``<!-- end of name -->``: the commands in `command_line.md`, the rooms in `architecture.md`, and
in `verification.md` and the README the results that the test suite has recorded in `verification/results.json` (with
LITHOWAVE_WRITE_FIGURES=1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from command_pages import commands_text
from lithowave.description.schema import simulation_schema
from lithowave.description.template import template_text
from lithowave.description.units import unit_names
from python_pages import python_page
from results_table import OTHER_PROGRAMS, results_table, shallow_table
from rooms_table import rooms_text

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SCHEMA_NAME = "simulation.schema.json"

PREFACE = """\
# The simulation file

<!-- Written by docs/generate_reference.py; do not edit by hand. -->

One YAML file describes a simulation. `lithowave init` writes a commented file that can be run unchanged; it
is printed [at the end of this page](#a-file-with-every-key). Python objects have the same names:
`lw.Simulation(domain={...}, material={...}, ...)` accepts the content of the file ([Python
reference](python_reference.md)).

lithowave validates the file before the run starts. Unknown keys, wrong units, values out of range, sources outside the
domain and grids that are too coarse are errors. lithowave reports all errors together, each with its line number, the
value, the allowed values and, for unknown keys, the closest valid key.

**Axes.** x points East, y North, z Up. The flat surface is z = 0, and depths are negative values of z. Vectors are
ordered East, North, Up; symmetric tensors xx, yy, zz, xy, xz, yz. With `domain.topography`, z = 0 is the reference
level of elevations; the `depth` of sources and receivers, and the burial of stations, are relative to the surface above
them.

**Methods.** `solver.method` is `finite_difference`, `spectral_element` or `discontinuous_galerkin`. If the tables
restrict a key to some methods, lithowave rejects it with the other methods; unused keys of `boundaries.layer` only
cause a warning. If `--set` changes the method, lithowave ignores the keys `order`, `passes`, `degree`,
`local_time_steps` and `refine_sources` of the file.

**Time.** Time 0 of the simulation is the origin time, unless a source file is delayed (`sources[].delay`).

**Units.** A number without a unit is in SI units. A string may contain a unit: `"15 km"`, `"2.7 g/cm^3"`, `"5 Hz"`.

UNITS

**Editors.** An editor with support for YAML schemas completes keys and checks the file: the first line of the file
that `lithowave init` writes refers to the schema that is installed with the package.

In the tables below, an empty default means that the key is optional and not set, or that it is one of several
alternatives as described in the text of the section.
"""

EPILOGUE = """\
## A file with every key

`lithowave init` writes this file.

```yaml
TEMPLATE```
"""

# What replaces descriptions that are written for readers of the code.
DESCRIPTIONS = {
    "Simulation": "The top-level keys of the file.",
    "TimeFunction": (
        "Exactly one of the following shapes. For a moment tensor, the shape is the moment *rate* in 1/s, with unit "
        "area, so that the moment of the source is the total moment. For a force, it is the dimensionless amplitude by "
        "which the force is multiplied, with a peak of 1 and *not* with unit area: `force` is the largest force, and "
        "its impulse is `force` times the area of the amplitude, which the shapes state. Samples keep their own "
        "values, and a smoothed step remains at 1."
    ),
}
DIMENSIONS = (
    "length", "time", "frequency", "speed", "density", "pressure", "force", "moment", "angle", "speed_gradient",
    "density_gradient", "inverse_length",
)  # fmt: skip
NUMBER_WORDS = {2: "two", 3: "three"}


def simulation_page() -> str:
    """The page of the simulation file."""
    schema = simulation_schema()
    sections = "\n".join(_section(title, name, group, schema) for title, name, group in _groups(schema))
    template = template_text(SCHEMA_NAME)
    preface, epilogue = PREFACE.replace("UNITS", _units_table()), EPILOGUE.replace("TEMPLATE", template)
    return "\n".join([preface, sections, epilogue])


def _units_table() -> str:
    lines = ["| quantity | units |", "| --- | --- |"]
    for dimension in DIMENSIONS:
        lines.append(f"| {dimension.replace('_', ' ')} | {', '.join(f'`{unit}`' for unit in unit_names(dimension))} |")
    return "\n".join(lines)


def _groups(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(title, name, schema) of every group of keys, each once, in the order in which the file names them."""
    seen = set()

    def walk(title: str, name: str, group: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
        yield title, name, group
        for key, entry in group.get("properties", {}).items():
            for reference, many in _references(entry):
                if reference not in seen:
                    seen.add(reference)
                    path = f"{title}.{key}" if title != "top level" else key
                    yield from walk(path + ("[]" if many else ""), reference, schema["$defs"][reference])

    return walk("top level", "Simulation", schema)


def _references(entry: dict[str, Any], many: bool = False) -> Iterator[tuple[str, bool]]:
    """(name of a group, whether a list of it is meant) for all groups that an entry refers to."""
    if "$ref" in entry:
        yield entry["$ref"].rpartition("/")[2], many
    if "items" in entry:
        yield from _references(entry["items"], True)
    if isinstance(entry.get("additionalProperties"), dict):
        yield from _references(entry["additionalProperties"], True)
    alternatives = [list(_references(choice, many)) for choice in entry.get("anyOf", [])]
    # One item or a list of them: the list is the general case.
    found = {name: is_list for choice in alternatives for name, is_list in choice}
    yield from found.items()


def _file_sections() -> dict[str, str]:
    """A link to the section of the simulation file for the name of each of its classes."""
    return {
        name: f"[`{title}`](simulation_file.md#{anchor(title)})" for title, name, _ in _groups(simulation_schema())
    }


def _section(title: str, name: str, group: dict[str, Any], schema: dict[str, Any]) -> str:
    text = DESCRIPTIONS.get(name) or _markdown(group.get("description", ""))
    level = "##" if "." not in title else "###"
    titles = {other: heading for heading, other, _ in _groups(schema)}
    lines = [
        f"{level} {title}",
        "",
        text,
        "",
        "| key | value | default | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for key, entry in group.get("properties", {}).items():
        meaning = _markdown(entry.get("description", "")) or _first_sentence(entry, schema)
        cells = (
            f"`{key}`",
            _value(entry, titles),
            _default(entry, key in group.get("required", ())),
            meaning,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join([*lines, ""])


def _first_sentence(entry: dict[str, Any], schema: dict[str, Any]) -> str:
    """What a group says of itself, for keys that say nothing more."""
    for name, _ in _references(entry):
        text = _markdown(schema["$defs"][name].get("description", "")).split("\n\n")[0]
        return re.split(r"(?<=[a-z0-9)`])[.:] ", text.replace("\n", " "))[0].rstrip(".") + "."
    return ""


def _value(entry: dict[str, Any], titles: dict[str, str]) -> str:
    """What may stand there, in words."""
    if "$ref" in entry:
        title = titles[entry["$ref"].rpartition("/")[2]]
        return f"[{title.rpartition('.')[2].removesuffix('[]')}](#{anchor(title)})"
    if "const" in entry:
        return f"`{entry['const']}`"
    if "enum" in entry:
        return ", ".join(f"`{choice}`" for choice in entry["enum"])
    if "prefixItems" in entry:
        count, item = NUMBER_WORDS[len(entry["prefixItems"])], _value(entry["prefixItems"][0], titles)
        return (
            f"{count} {item.replace('number', 'numbers')}" if "number" in item else f"{count} numbers, {item}"
        )
    if "x-unit" in entry:
        numeric = next(choice for choice in entry["anyOf"] if choice.get("type") == "number")
        return entry["x-unit"] + _range(numeric)
    if "anyOf" in entry:
        choices = [_value(choice, titles) for choice in entry["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(choices))
    kind = entry.get("type")
    if kind == "object":
        return f"names, each with {_value(entry['additionalProperties'], titles)}"
    if kind == "array" and "maxItems" in entry:
        fewest, most = (NUMBER_WORDS[entry[key]] for key in ("minItems", "maxItems"))
        return f"{fewest} or {most} numbers, {_value(entry['items'], titles)}"
    if kind == "array":
        return f"list of {_value(entry['items'], titles)}"
    if kind == "boolean":
        return "`true`, `false`"
    if kind == "string":
        return "file or folder" if entry.get("format") == "path" else "text"
    return {"integer": "integer", "number": "number"}[kind] + _range(entry)


def _range(entry: dict[str, Any]) -> str:
    limits = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    found = [f"{sign} {entry[key]:g}" for key, sign in limits.items() if key in entry]
    return ", " + ", ".join(found) if found else ""


def _default(entry: dict[str, Any], required: bool) -> str:
    if required:
        return "required"
    if "default" not in entry or entry["default"] in (None, ""):
        return ""
    return f"`{json.dumps(entry['default'])}`".replace('"', "")


def _markdown(text: str) -> str:
    """The few marks of our docstrings as Markdown."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`")


def anchor(title: str) -> str:
    """The anchor that MkDocs gives a heading."""
    return re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-")


def with_part(text: str, name: str, part: str) -> str:
    """A page with `part` put between the marks of this name.

    Raises
    ------
    ValueError : when the page has no such marks.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"no {begin} ... {end} in the page")
    return f"{before}{begin}\n\n{part.strip()}\n\n{end}{after}"


def generated_pages() -> dict[Path, str]:
    """All pages that follow from the package: path and full text."""
    results = json.loads((DOCS / "verification" / "results.json").read_text(encoding="utf-8"))
    parts = {
        DOCS / "command_line.md": ("commands", commands_text()),
        DOCS / "verification.md": ("results", results_table(results)),
        ROOT / "README.md": ("results", results_table(results)),
        DOCS / "architecture.md": ("rooms", rooms_text()),
    }
    pages = {path: with_part(path.read_text(encoding="utf-8"), *part) for path, part in parts.items()}
    shallow = json.loads((ROOT / "benchmarks" / "results" / "h200_shallow_sources.json").read_text(encoding="utf-8"))
    verification = DOCS / "verification.md"
    pages[verification] = with_part(pages[verification], "shallow", shallow_table(shallow["errors"]))
    programs = results_table(results, OTHER_PROGRAMS)
    pages[verification] = with_part(pages[verification], "other programs", programs)
    pages[DOCS / "simulation_file.md"] = simulation_page()
    pages[DOCS / "python_reference.md"] = python_page(_file_sections())
    return pages


if __name__ == "__main__":
    for path, text in generated_pages().items():
        path.write_text(text, encoding="utf-8")
