"""Entries of the resolved ``simulation.yaml`` of a run folder that figures need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE_NAME = "simulation.yaml"


def read_description(directory: Path) -> Mapping[str, Any]:
    """Return the contents of the run's ``simulation.yaml``; empty if it is missing or unreadable."""
    import yaml

    try:
        content = yaml.safe_load((directory / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return content if isinstance(content, Mapping) else {}


def domain_of(description: Mapping[str, Any]) -> tuple[float, float, float, float] | None:
    """Return (x low, x high, y low, y high) of the domain, m; None if it is not given as numbers."""
    try:
        x, y = description["domain"]["x"], description["domain"]["y"]
        return float(x[0]), float(x[1]), float(y[0]), float(y[1])
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def layers_of(description: Mapping[str, Any]) -> tuple[list[float], list[float], list[float]] | None:
    """Return (tops, vp, vs) of the `material` of a resolved simulation file; None without flat layers."""
    material = description.get("material")
    if not isinstance(material, Mapping):
        return None
    layers = material.get("layers")
    if not layers and isinstance(material.get("homogeneous"), Mapping):
        layers = [{"top": 0.0, **material["homogeneous"]}]
    try:
        rows = [(float(layer.get("top", 0.0)), float(layer["vp"]), float(layer["vs"])) for layer in layers]
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    tops, vp, vs = (list(values) for values in zip(*sorted(rows, reverse=True), strict=True))
    return tops, vp, vs
