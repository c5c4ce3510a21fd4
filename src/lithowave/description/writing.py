"""A simulation as YAML that reads back as an equal simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from lithowave.errors import InputError
from lithowave.readers.gridded_model import GriddedModel
from lithowave.version import __version__

if TYPE_CHECKING:
    from lithowave.description.entries import Description

# In these a key without a value means "another way was chosen"; elsewhere null is a choice worth showing.
_WITHOUT_EMPTY = ("domain", "material", "sources", "receivers")


class _Dumper(yaml.SafeDumper):
    """SafeDumper without anchors: repeated values are written repeatedly."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def resolved_yaml(simulation: Description) -> str:
    """See :meth:`Simulation.to_yaml`."""
    key = simulation.material.python_key
    if key:
        what = "arrays in Python" if simulation.material.kind == "dataset" else "a Python function"
        raise InputError(
            key,
            f"{what} cannot be written to a simulation file",
            "layers, homogeneous and file can; the top of a layer can be a file",
        )
    return _yaml(simulation.model_dump(by_alias=True), simulation)


MODEL_FILE = "material_model.h5"
"""Name of the file in a run folder with a gridded model that was given as arrays in Python."""


def stored_model(simulation: Description) -> GriddedModel | None:
    """Return the gridded model that a run must write to `MODEL_FILE`, because its description has arrays; else None."""
    dataset = simulation.material.dataset
    return None if dataset is None else dataset.models[0]


def recorded_yaml(simulation: Description) -> str:
    """Return the YAML of :func:`resolved_yaml`, also for materials that only Python can express.

    Instead of a function it contains its name only. Arrays are replaced by the file `MODEL_FILE` next to the YAML file.
    """
    material = simulation.material
    if not material.python_key:
        return resolved_yaml(simulation)
    data = simulation.model_dump(by_alias=True)
    if material.kind == "dataset":
        del data["material"]["dataset"]
        data["material"] = {"file": MODEL_FILE, **data["material"]}
        return _yaml(data, simulation)
    if material.function is not None:
        data["material"] = {"function": _name(material.function)}
    for layer in data["material"].get("layers", []):
        layer["top"] = _name(layer["top"]) if callable(layer["top"]) else layer["top"]
    note = "# The material contained a Python function, which a file cannot hold: this file cannot be run.\n"
    return note + _yaml(data, simulation)


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _yaml(data: dict[str, Any], simulation: Description) -> str:
    for name in _WITHOUT_EMPTY:
        data[name] = _without_empty(data[name])
    data["boundaries"] = {key: value for key, value in data["boundaries"].items() if value is not None}
    if data["survey"] is None:
        del data["survey"]
    else:
        data["survey"] = _without_empty(data["survey"])
    data["output"]["snapshots"] = _without_empty(data["output"]["snapshots"])
    foreign = simulation.solver.foreign_keys
    data["solver"] = {key: value for key, value in data["solver"].items() if key not in foreign}
    header = (
        f"# Written by lithowave {__version__}: every default is there. SI units; x East, y North, z Up.\n"
    )
    body = yaml.dump(
        _sections(_plain(data)),
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=110,
        allow_unicode=True,
    )
    return header + body


class _Section(dict):  # type: ignore[type-arg]
    """A group that is written with a line for each key."""


_Dumper.add_representer(
    _Section,
    lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=False),
)


def _sections(data: dict[str, Any]) -> dict[str, Any]:
    return {key: _Section(value) if isinstance(value, dict) else value for key, value in data.items()}


def _without_empty(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _without_empty(value) for key, value in data.items() if value is not None}
    if isinstance(data, (list, tuple)):
        return [_without_empty(item) for item in data]
    return data


def _plain(data: Any) -> Any:
    """Return a value in types of YAML only: groups, lists, text and numbers."""
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(item) for item in data]
    if isinstance(data, (np.generic, np.ndarray)):
        return data.tolist()
    return str(data) if isinstance(data, Path) else data
