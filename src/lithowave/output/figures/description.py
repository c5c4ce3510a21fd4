"""Entries of the resolved ``simulation.yaml`` of a run folder that figures need."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lithowave.errors import InputError
from lithowave.sphere import RADIUS, ChunkMap

FILE_NAME = "simulation.yaml"
TAUP_MODELS = ("prem", "ak135", "iasp91")


def read_description(directory: Path) -> Mapping[str, Any]:
    """Return the contents of the run's ``simulation.yaml``; empty if it is missing or unreadable."""
    from lithowave.description.yaml_text import read_document

    try:
        return read_document((directory / FILE_NAME).read_text(encoding="utf-8")).data
    except (OSError, UnicodeDecodeError, InputError):
        return {}


def domain_of(description: Mapping[str, Any]) -> tuple[float, float, float, float] | None:
    """Return (x low, x high, y low, y high) of the domain, m, of a chunk in its local coordinates; None if it is not
    given as numbers."""
    try:
        if chunk_of(description) is not None:
            first, second = (math.radians(float(width)) for width in description["domain"]["chunk"]["width"])
            return tuple(0.5 * RADIUS * end for end in (-first, first, -second, second))  # type: ignore[return-value]
        x, y = description["domain"]["x"], description["domain"]["y"]
        return float(x[0]), float(x[1]), float(y[0]), float(y[1])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return None


def layers_of(description: Mapping[str, Any]) -> tuple[list[float], list[float], list[float]] | None:
    """Return (tops, vp, vs) of the `material` of a resolved simulation file; None without flat layers."""
    material = description.get("material")
    if chunk_of(description) is not None:
        return None
    if not isinstance(material, Mapping):
        return None
    layers = material.get("layers")
    if not layers and isinstance(material.get("homogeneous"), Mapping):
        layers = [{"top": 0.0, **material["homogeneous"]}]
    try:
        if any(layer.get(key) for layer in layers for key in ("gradient", "anisotropy", "stiffness")):
            return None  # the first arrivals are other ones
        rows = [(float(layer.get("top", 0.0)), float(layer["vp"]), float(layer["vs"])) for layer in layers]
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    tops, vp, vs = (list(values) for values in zip(*sorted(rows, reverse=True), strict=True))
    return tops, vp, vs


def earth_model_of(description: Mapping[str, Any]) -> str | None:
    """Return the name of the radial Earth model of a chunk in a resolved simulation file that TauP knows, else None."""
    try:
        name = str(description["material"]["earth"]["model"])
    except (KeyError, TypeError):
        return None
    return name if chunk_of(description) is not None and name in TAUP_MODELS else None


def chunk_of(description: Mapping[str, Any]) -> ChunkMap | None:
    """Return the map of the chunk of the globe of a resolved simulation file; None for a box."""
    domain = description.get("domain")
    chunk = domain.get("chunk") if isinstance(domain, Mapping) else None
    try:
        longitude, latitude = (float(value) for value in chunk["center"])
        return ChunkMap(longitude, latitude, float(chunk.get("azimuth", 0.0)))
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
