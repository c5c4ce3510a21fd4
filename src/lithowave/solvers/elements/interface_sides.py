"""Sides of sources and receivers that are exactly on an interface between elements.

The strain along the normal of an interface differs on both sides, and so do the waves of a moment tensor there. Such a
source acts in the elements on one side, ``sources[].side``: those below, or above, along a short step down or up. At a
vertical interface, where both sides are below, it acts in the medium with the greater shear modulus. Forces need no
side, except between a fluid and a solid, whose motion differs.

The stresses and strains at a receiver differ in the same way, and are those below the interface; between a fluid and a
solid see `samples.SeaFloor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.description.receiver import Receiver

if TYPE_CHECKING:
    from lithowave.solvers.elements.point_location import PointLocations

ALIKE = 0.05  # relative difference of moduli up to which elements have one medium
STEP = 1e-3  # of the reference element: length of the step up or down
MARGIN = 0.02  # of the step, by which it may leave the element: along a face, up to 1 degree off
AT_FACE = 1e-4  # of the reference element, within which a point may be shared by elements
MOMENT, FORCE, RECEIVER = 0, 1, 2  # kinds of points


def select_sides(plan: Any, found: PointLocations, positions: np.ndarray, owners: Sequence[Any]) -> np.ndarray:
    """Return True for rows of locations that are on the side of their source or receiver (collective call).

    Parameters
    ----------
    found : locations in the elements of this rank, before the owners are resolved.
    positions : of the points, m, in local coordinates. owners : source or receiver of each point.
    """
    gathered = np.concatenate(plan.ranks.all_gather(_table(plan, found, positions, owners)))
    drops = {(int(point), int(key)) for point, key in _rejected(gathered)}
    if not drops:
        return np.ones(len(found.point), bool)
    return np.array([pair not in drops for pair in zip(found.point.tolist(), found.key.tolist(), strict=True)], bool)


def _table(plan: Any, found: PointLocations, positions: np.ndarray, owners: Sequence[Any]) -> np.ndarray:
    """Return the rows that may be shared: index of the point, key of the element, 1 if it is on the side of the source
    or receiver, the kind of the point, and the diagonal of Voigt's matrix in the element, Pa."""
    shared = np.flatnonzero((found.excess == 0) & (plan.outside(found.reference) > -AT_FACE))
    rows = found.rows(shared)
    chosen = [owners[point] for point in rows.point.tolist()]
    up = np.array([1.0 if getattr(one, "side", "below") == "above" else -1.0 for one in chosen])
    axes = plan.axes_at(positions[rows.point])
    direction = up[:, None] * (np.array([0.0, 0.0, 1.0]) if axes is None else axes[:, 2])
    step = np.einsum("rdc,rc->rd", plan.reference_gradients(rows), direction)
    step *= STEP / np.maximum(np.abs(step).max(axis=1, initial=0.0), 1e-300)[:, None]
    inside = plan.outside(rows.reference + step) <= MARGIN * STEP
    kinds = [
        RECEIVER if isinstance(one, Receiver) else MOMENT if one.force is None else FORCE for one in chosen
    ]
    columns = [rows.point, rows.key, inside, kinds, *plan.voigt_diagonals(rows).T]
    return np.stack([np.asarray(column, float) for column in columns], axis=1)


def _rejected(table: np.ndarray) -> list[tuple[float, float]]:
    """Return point and key of the rows of all ranks on the other side of an interface; see `_table`."""
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    begin = np.flatnonzero(np.append(True, np.diff(table[:, 0]) != 0)[: len(table)])
    found: list[tuple[float, float]] = []
    several = np.flatnonzero(np.diff(np.append(begin, len(table))) > 1)
    for number in several.tolist():
        rows = table[begin[number] : begin[number + 1] if number + 1 < len(begin) else len(table)]
        inside, kind, moduli = rows[:, 2] != 0, rows[0, 3], rows[:, 4:]
        wet = moduli[:, -1] == 0.0
        sea_floor = wet.any() and not wet.all()
        if _alike(moduli) or kind == FORCE and not sea_floor or kind == RECEIVER and sea_floor:
            continue
        kept = inside if inside.any() else np.ones(len(rows), bool)
        if not _alike(moduli[kept]):
            stiffest = moduli[kept][np.argmax(moduli[kept][:, 3:].sum(axis=1))]
            kept &= np.array([_alike(np.stack([one, stiffest])) for one in moduli])
        found += [tuple(pair) for pair in rows[~kept, :2]]
    return found


def _alike(moduli: np.ndarray) -> bool:
    """True if the media (rows, 6) differ by at most `ALIKE`."""
    return bool((np.ptp(moduli, axis=0) <= ALIKE * moduli.max(axis=0)).all())
