"""Generated meshes for tetrahedra, whose columns merge, four into one, where wavelengths are longer below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lithowave.mesh.hexahedral_box import (
    BoxPlan,
    Interface,
    Slab,
    check_box,
    layer_thicknesses,
    require_few_slabs,
)

LESS = 1e-9  # relative differences of sizes that are rounding errors
TALLEST = 1.14  # largest height of cells over the size of their layer
GAIN = 1.1  # minimum reduction of the cost for which columns are narrower than required at the surface


def graded_box(
    x: tuple[float, float],
    y: tuple[float, float],
    interfaces: Sequence[Interface],
    sizes: Sequence[float],
    outside: Mapping[str, int] | None = None,
) -> BoxPlan:
    """Return the plan of a layered box whose columns are wider by powers of two in layers that permit it.

    x, y : extent of the box, m. interfaces : from the top surface to the bottom, one more than layers; each a z, m, or
    a function z(x, y) of arrays. sizes : edge of the largest cubes of each layer, m; narrower cells may be up to
    TALLEST times as high, if their volume is not larger. outside : number of elements at the bottom that will be added
    beyond faces (x_min, x_max, y_min, ...), for the cost.

    At an interface, or between two rows of elements, 2 x 2 columns merge into one directly, without elements in
    between: `tetrahedral_boxes.split_hexahedra` makes the tetrahedra there conforming. Columns are at most as wide as
    the sizes of their layer and of all layers below permit. Their width w at the surface may be smaller than required
    there, so that wider columns fit the layers below: it has the lowest cost, the number of elements times the largest
    ratio of the required size of a layer and the smallest edge of its elements, to which the time step is related.

    InputError: see `hexahedral_box.layered_box`.
    """
    check_box(x, y, interfaces, [(size, size) for size in sizes])
    widest = np.minimum.accumulate(np.asarray(sizes, float)[::-1])[::-1]
    extents = x[1] - x[0], y[1] - y[0]
    thicknesses = layer_thicknesses(x, y, interfaces, tuple(math.ceil(extent / widest[0]) for extent in extents))
    for layer, (thickness, size) in enumerate(zip(thicknesses, sizes, strict=True)):
        require_few_slabs(layer, thickness, size)

    def made(width: float) -> tuple[float, BoxPlan]:
        rows = _rows(width, widest, thicknesses, sizes)
        heights = [thickness / count for thickness, count in zip(thicknesses, rows, strict=True)]
        slabs, levels = _slabs(width, widest, rows, heights)
        columns = [math.ceil(extent / width / 2**levels - 1e-6) * 2**levels for extent in extents]
        lines = [np.linspace(*ends, count + 1) for ends, count in zip((x, y), columns, strict=True)]
        plan = BoxPlan(*lines, interfaces, slabs, 2**levels, 2**levels)
        return _extended(plan, outside or {}).element_count * _stiffness(plan, sizes, heights), plan

    # From the widest on; narrower ones must be better by more than the approximation of the cost.
    best, found = made(widest[0])
    for width in _widths(widest):
        cost, plan = made(width)
        if cost * GAIN < best:
            best, found = cost, plan
    return found


def _widths(widest: np.ndarray) -> list[float]:
    """Return widths at the surface with which columns of some layer are as wide as possible, in descending order."""
    found = {size / 2 ** math.ceil(math.log2(size / widest[0]) - LESS) for size in widest.tolist()}
    return sorted((width for width in found if width < widest[0] * (1 - LESS)), reverse=True)


def _rows(width: float, widest: np.ndarray, thicknesses: Sequence[float], sizes: Sequence[float]) -> list[int]:
    """Return the rows of cells of each layer: cells that are narrower than required may be higher."""
    found = []
    for thickness, size, most in zip(thicknesses, sizes, widest.tolist(), strict=True):
        while 2.0 * width <= most * (1 + LESS):
            width *= 2.0
        height = min(TALLEST * size, size**3 / width**2)
        found.append(math.ceil(thickness / height - 1e-6))
    return found


def _slabs(
    width: float, widest: np.ndarray, rows: Sequence[int], heights: Sequence[float]
) -> tuple[list[list[Slab]], int]:
    """Return the slabs of each layer from its top, and the number of mergers in total."""
    level, found = 0, []
    for layer, (count, height) in enumerate(zip(rows, heights, strict=True)):
        plan: list[Slab] = []
        for _ in range(count):
            if layer and width * 2 ** (level + 1) <= widest[layer] * (1 + LESS):
                plan.append(Slab("merger", 0.0))
                level += 1
            plan.append(Slab("even", height))
        found.append(plan)
    return found, level


def _extended(plan: BoxPlan, outside: Mapping[str, int]) -> BoxPlan:
    """Return a plan with the number of elements of this one with those beyond its faces."""
    x, y = (
        np.arange(len(lines) + plan.merged * (outside.get(f"{axis}_min", 0) + outside.get(f"{axis}_max", 0)))
        for axis, lines in (("x", plan.x), ("y", plan.y))
    )
    above, below = ([Slab("even", 1.0)] * outside.get(face, 0) for face in ("z_max", "z_min"))
    return replace(plan, x=x, y=y, slabs=[above, *plan.slabs, below])


def _stiffness(plan: BoxPlan, sizes: Sequence[float], heights: Sequence[float]) -> float:
    """Return the largest ratio of the required size of a layer and the smallest edge of its elements."""
    width, worst = min(plan.x[1] - plan.x[0], plan.y[1] - plan.y[0]), 1.0
    for slabs, size, height in zip(plan.slabs, sizes, heights, strict=True):
        for slab in slabs:
            if slab.kind == "merger":
                width *= 2.0
            else:
                worst = max(worst, size / min(width, height))
    return worst
