"""The schema, the template of ``lithowave init``, and the names of the package."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import lithowave as lw
from lithowave.description import SCHEMA_PATH, schema_text, simulation_schema, template_text


def reduced(schema):
    """What matters of a schema: groups, keys, descriptions, defaults, choices; not how they are written."""
    groups = {"": schema, **schema["$defs"]}
    return {
        name: {
            "required": group.get("required"),
            "keys": {
                key: (entry.get("description"), entry.get("default"), entry.get("enum"))
                for key, entry in group.get("properties", {}).items()
            },
        }
        for name, group in groups.items()
    }


def test_the_shipped_schema_is_current():
    shipped = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    assert reduced(shipped) == reduced(json.loads(schema_text()))


def test_the_schema_describes_every_key():
    schema = simulation_schema()
    groups = {"Simulation": schema, **schema["$defs"]}
    assert schema["additionalProperties"] is False
    undescribed = [
        f"{name}.{key}"
        for name, group in groups.items()
        for key, entry in group.get("properties", {}).items()
        if not entry.get("description")
    ]
    # The shapes in TimeFunction are described by their own classes.
    assert [key for key in undescribed if not key.startswith("TimeFunction.")] == []


def test_the_template_runs_as_it_stands():
    text = template_text()
    simulation = lw.Simulation.from_text(text)
    assert simulation.warnings() == []
    assert text.startswith(f"# yaml-language-server: $schema={SCHEMA_PATH.as_uri()}\n")
    assert template_text("a.json").startswith("# yaml-language-server: $schema=a.json\n")


def test_the_template_shows_every_key():
    text = template_text()
    schema = simulation_schema()
    keys = {key for group in (schema, *schema["$defs"].values()) for key in group.get("properties", {})}
    assert {key for key in keys if not re.search(rf"\b{key}:", text)} == set()


def commented_blocks(text):
    """The template with one commented alternative made live at a time (lines '# key: ...')."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = re.match(r"(\s*)# (\w+: .*)$", line)
        if match and not line.startswith("#"):
            yield (match[2].split(":")[0], "\n".join([*lines[:number], match[1] + match[2], *lines[number + 1 :]]))


def test_commented_lines_of_the_template_have_known_keys():
    seen = 0
    for key, text in commented_blocks(template_text()):
        seen += 1
        try:
            lw.Simulation.from_text(text)
        except lw.InputError as error:
            assert "unknown key" not in str(error), (key, str(error))
            assert "readable" not in str(error), (key, str(error))
    assert seen >= 12


def test_describing_an_experiment_loads_no_backend():
    heavy = ("numba", "mpi4py", "cupy", "h5py", "obspy", "matplotlib", "scipy")
    code = f"import sys, lithowave as lw; lw.Simulation; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
