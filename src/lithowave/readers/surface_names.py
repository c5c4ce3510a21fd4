"""Names of the surfaces of meshes: those of lithowave, and those that other programs and users give to the same."""

from __future__ import annotations

import re

SURFACE_NAMES = (
    *("x_min", "x_max", "y_min", "y_max", "z_min", "z_max"),
    *("top", "bottom", "sides", "free", "absorbing", "rigid"),
)
"""Sides of the box, of which ``boundaries`` states the condition, and conditions."""

IGNORED = "ignored"
"""Value of ``solver.mesh.surfaces`` for a surface that is no boundary."""

_OTHER_NAMES = {
    "west": "x_min", "east": "x_max", "south": "y_min", "north": "y_max", "topo": "top",
    "topography": "top", "ground": "top", "base": "bottom", "side": "sides", "lateral": "sides", "laterals": "sides",
    "free_surface": "free", "freesurface": "free", "absorb": "absorbing", "abs": "absorbing", "outflow": "absorbing",
    "absorbing_boundary": "absorbing", "nonreflecting": "absorbing", "non_reflecting": "absorbing", "fixed": "rigid",
    "clamped": "rigid",
}  # fmt: skip
_AFFIXES = ("boundary", "boundaries", "bnd", "bc", "face", "side", "surface", "surf", "abs", "absorbing", "plane")
_END = {"min": "min", "neg": "min", "minus": "min", "m": "min", "-": "min"}
_END |= {"max": "max", "pos": "max", "plus": "max", "p": "max", "+": "max"}
_SIDE = re.compile(r"([xyz])_?(min|max|neg|pos|minus|plus|[-+mp])|(min|max|neg|pos|minus|plus|[-+])_?([xyz])")


def usual_name(name: str) -> str | None:
    """Return the name in `SURFACE_NAMES` with the meaning of a usual name such as ``xmin`` or ``boundary_xneg``.

    Case, blanks, points and hyphens do not matter, nor does a word such as ``boundary`` or ``face`` before or after the
    name of a side. None for other names.
    """
    text = re.sub(r"(?<=\w)[\s.\-]+(?=\w)|\s+", "_", name.strip().lower()).strip("_")
    if found := _plain_name(text):
        return found
    words = text.split("_")
    while len(words) > 1 and (words[0] in _AFFIXES or words[-1] in _AFFIXES):
        words = words[1:] if words[0] in _AFFIXES else words[:-1]
        if found := _plain_name("_".join(words)):
            return found
    return None


def _plain_name(text: str) -> str | None:
    if text in SURFACE_NAMES:
        return text
    if match := _SIDE.fullmatch(text):
        return f"{match[1] or match[4]}_{_END[match[2] or match[3]]}"
    return _OTHER_NAMES.get(text)
