"""The JSON Schema of the simulation file, with which an editor completes and checks.

``python -m lithowave.description.schema`` rewrites it in the package.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lithowave.json_types import Entries

SCHEMA_PATH = Path(__file__).with_name("simulation.schema.json")


def simulation_schema() -> Entries:
    """Return the schema of :class:`.simulation.Simulation` as a dictionary (JSON Schema, draft 2020-12)."""
    from lithowave.description.simulation import Simulation

    schema = Simulation.model_json_schema(by_alias=True)
    for group in (schema, *schema["$defs"].values()):
        for entry in group.get("properties", {}).values():
            entry.pop("title", None)  # pydantic's copy of the key
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "lithowave simulation file"}


def schema_text() -> str:
    """Return the schema as the text of the shipped file."""
    return json.dumps(simulation_schema(), indent=2, ensure_ascii=False) + "\n"


def write_schema(path: Path = SCHEMA_PATH) -> None:
    """Write the schema file."""
    path.write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    write_schema()
