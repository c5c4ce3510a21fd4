"""Materials of elements of which some are transversely isotropic, with 21 moduli at every point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part
from lithowave.earth.transverse import largest_softness, phase_speed_range, voigt_average
from lithowave.physics.tensors import VOIGT_PAIRS
from lithowave.solvers.spectral_element.averaged_layers import AveragedLayers
from lithowave.solvers.spectral_element.materials import (
    UPPER,
    ElementMaterials,
    sampled_materials,
)

PART = 256  # elements that are processed at a time
ISOTROPIC, TRANSVERSE = 0, 1  # indices in the tables of materials


@dataclass(frozen=True)
class TransverseMaterials(ElementMaterials):
    """Values at every point; those of anisotropic elements are the isotropic (Voigt) average, and in addition:

    tensors : 21 moduli, Pa, the upper triangle by rows, (21, anisotropic elements, k, j, i). speeds : slowest and
    fastest phase velocity, m/s, (2, anisotropic elements, k, j, i). soft : `softness` (anisotropic elements,). place :
    index (elements,) of each element in these arrays; -1 for isotropic elements.
    """

    tensors: np.ndarray = field(default_factory=lambda: np.zeros((21, 0, 1, 1, 1)))
    speeds: np.ndarray = field(default_factory=lambda: np.zeros((2, 0, 1, 1, 1)))
    soft: np.ndarray = field(default_factory=lambda: np.zeros(0))
    place: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def moduli(self, elements: np.ndarray | None) -> np.ndarray:
        """Return the moduli of some elements (None: all), either all isotropic or all anisotropic; see the base."""
        place = self.place if elements is None else self.place[elements]
        if len(place) and place[0] >= 0:
            return np.moveaxis(self.tensors[:, place], 0, 1)
        return super().moduli(elements)

    def softness(self, elements: np.ndarray) -> np.ndarray:
        """See the base; from the corners and the middle of each element."""
        found, place = super().softness(elements), self.place[elements]
        found[place >= 0] = self.soft[place[place >= 0]]
        return found

    def speed(self, some: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the velocity of the fastest wave in some elements, m/s, (elements, points)."""
        found, place = np.array(super().speed(some)), self.place[some]
        own = self.speeds[1, place[place >= 0]]
        found[place >= 0] = own.reshape(len(own), found.shape[1])
        return found

    def slowest_in_elements(self, some: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the velocity of the slowest wave in each of some elements, m/s."""
        found, place = np.array(super().slowest_in_elements(some)), self.place[some]
        found[place >= 0] = self.speeds[0, place[place >= 0]].min(axis=(1, 2, 3))
        return found

    def at(self, elements: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Voigt's matrix (elements, points, 6, 6) and rho (elements, points) at points (k, j, i) of elements."""
        stiffness, rho = super().at(elements, places)
        place = self.place[elements]
        own = self.tensors[:, place[place >= 0]][:, :, places[:, 0], places[:, 1], places[:, 2]]
        stiffness[place >= 0] = full_matrices(np.moveaxis(own.astype(float), 0, -1))
        return stiffness, rho

    def within(self, element: int, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Return Voigt's matrix and rho at a point in an element; weights (k, j, i) interpolate."""
        stiffness, rho = super().within(element, weights)
        if self.place[element] < 0:
            return stiffness, rho
        moduli = (self.tensors[:, self.place[element]].astype(float) * weights).sum(axis=(1, 2, 3))
        return full_matrices(moduli), rho


def full_matrices(moduli: np.ndarray) -> np.ndarray:
    """Return symmetric matrices (..., 6, 6) of 21 moduli (..., 21), the upper triangle by rows."""
    matrices = np.empty((*moduli.shape[:-1], 6, 6))
    matrices[..., UPPER[0], UPPER[1]] = moduli
    matrices[..., UPPER[1], UPPER[0]] = moduli
    return matrices


def vertical(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the direction (0, 0, 1) at points (...), as (..., 3)."""
    return np.broadcast_to([0.0, 0.0, 1.0], (*np.broadcast_shapes(x.shape, y.shape), 3))


def sampled_transverse_materials(
    medium: Any, positions: Any, chosen: np.ndarray, strongest: tuple[np.ndarray, float], points: int, dtype: Any,
    body: Any = None, lossy: Any = None, layers: tuple[np.ndarray, ...] = (),
    axes: Callable[[np.ndarray, np.ndarray], np.ndarray] = vertical, averaged: AveragedLayers | None = None,
) -> ElementMaterials:  # fmt: skip
    """Return values of a medium at every point of every element, with 21 moduli in some elements.

    Parameters
    ----------
    medium : object with sample as in `sampled_materials`, and love(x, y, z) -> (A, C, L, N, F), rho.
    chosen : (elements,) True for anisotropic elements.
    strongest : 21 moduli, Pa, and rho of the medium with the strongest anisotropy, the same on all ranks.
    axes : function of x and y, m, (...) -> unit vectors (..., 3) of the symmetry axes.
    averaged : effective media of the elements with more than one layer, which are anisotropic; None: without them.
    positions, points, dtype, body, lossy, layers : see `sampled_materials`.
    """
    base = sampled_materials(medium, positions, len(chosen), points, dtype, body, lossy, layers)
    means = [] if averaged is None else _effective(averaged, base)
    chosen = chosen.copy()
    for elements, _, _ in means:
        chosen[elements] = True
    members = np.flatnonzero(chosen)
    place = np.full(len(chosen), -1, np.int64)
    place[members] = np.arange(len(members))
    tensors = np.empty((21, len(members), points, points, points), dtype)
    speeds, soft = np.empty((2, *tensors.shape[1:]), dtype), np.empty(len(members))
    points_of_softness = (np.array([*np.ndindex(2, 2, 2), (0.5, 0.5, 0.5)]) * (points - 1)).astype(int)

    def store(elements: np.ndarray, love: Any, rho: np.ndarray) -> None:
        x, y, _ = np.moveaxis(positions(elements), -1, 0)
        some = place[elements]
        few = np.stack(np.broadcast_arrays(*map(_without_copies, (*love, rho))))
        rows = np.ascontiguousarray(few.reshape(6, -1))
        directions = np.ascontiguousarray(np.broadcast_to(axes(x, y), (*x.shape, 3)).reshape(-1, 3))
        own = np.empty((21, x.size), dtype)
        rotate_moduli(rows, x.size // rows.shape[1], directions, own)
        tensors[:, some] = own.reshape(21, *x.shape)
        distinct, index = np.unique(rows, axis=1, return_inverse=True)
        properties = *phase_speed_range(tuple(distinct[:5]), distinct[5]), largest_softness(tuple(distinct[:5]))
        slow, fast, ratio = (one[index.ravel()].reshape(few.shape[1:]) for one in properties)
        speeds[0, some], speeds[1, some] = slow, fast
        k, j, i = (np.minimum(points_of_softness, size - 1) for size in few.shape[2:])
        soft[some] = ratio[:, k[:, 0], j[:, 1], i[:, 2]].max(axis=1)

    over_parts(lambda part: store(*means[part.start]), len(means), 1)
    effective = np.zeros(len(chosen), bool)
    effective[np.concatenate([np.zeros(0, np.int64), *(elements for elements, _, _ in means)])] = True
    others = np.flatnonzero(chosen & ~effective)

    def sample(part: slice) -> None:
        own = others[part]
        x, y, z = np.moveaxis(positions(own), -1, 0)
        store(own, *medium.love(x, y, z, *(layer[own, None, None, None] for layer in layers)))

    over_parts(sample, len(others), PART, None if getattr(medium, "concurrent", False) else 1)
    stiffness, rho = full_matrices(strongest[0]), strongest[1]
    fastest = max(float(base.fastest[0]), float(speeds[1].max(initial=0.0)))
    slowest = min(float(base.slowest[0]), float(speeds[0].min(initial=np.inf)))
    return TransverseMaterials(
        np.where(chosen, TRANSVERSE, ISOTROPIC), np.stack([np.zeros((6, 6)), stiffness]), np.array([0.0, rho]),
        np.array([False, True]), np.array([fastest]), np.array([slowest]), base.values, base.losses,
        tensors, speeds, soft, place,
    )  # fmt: skip


def _effective(averaged: AveragedLayers, base: ElementMaterials) -> list[tuple[np.ndarray, Any, np.ndarray]]:
    """Return elements in which layers meet, with their moduli A, C, L, N and F and rho, in parts.

    Isotropic averages, densities and quality factors in `base` are changed to those of the effective media.
    """

    def evaluate(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        elements = averaged.candidates(np.arange(part.start, part.stop))
        if not len(elements):
            return None
        met, love, rho, inverse = averaged.evaluate(elements)
        elements = elements[met]
        if not len(elements):
            return None
        shape = rho[met].shape
        love, rho = (np.broadcast_to(_without_copies(one)[..., met, :, :, :], (*one.shape[:-4], *shape))
                     for one in (love, rho))  # fmt: skip
        kappa, mu = voigt_average(tuple(love))
        base.values[0, elements], base.values[1, elements] = kappa - 2.0 / 3.0 * mu, mu
        base.values[2, elements] = rho
        if base.losses is not None:
            base.losses.inverse[:, elements] = inverse[:, met]
        return elements, love, rho

    threads = None if getattr(averaged.medium, "concurrent", False) else 1
    return [one for one in over_parts(evaluate, len(base.number), PART, threads) if one is not None]


def _without_copies(values: np.ndarray) -> np.ndarray:
    """Return an array without the copies of its values along the last two axes."""
    return values[..., :1, :1] if values.strides[-2:] == (0, 0) else values


_AXES = np.array(VOIGT_PAIRS)
_SAME = np.eye(3)


@exact_part
def rotate_moduli(love, copies, axes, moduli):  # pragma: no cover - compiled
    """Compute the 21 moduli (21, points) of `transverse_moduli` for A, C, L, N and F (5, rows), each of which belongs
    to `copies` points, and axes (points, 3)."""
    for point in range(len(axes)):
        row = point // copies
        a, c, l, n, f = love[0, row], love[1, row], love[2, row], love[3, row], love[4, row]  # noqa: E741
        lam, normal, shear, along = a - 2.0 * n, f - a + 2.0 * n, l - n, a + c - 2.0 * f - 4.0 * l
        s, number = axes[point], 0
        for first in range(6):
            i, j = _AXES[first]
            for second in range(first, 6):
                k, m = _AXES[second]
                moduli[number, point] = (
                    lam * (_SAME[i, j] * _SAME[k, m])
                    + n * (_SAME[i, k] * _SAME[j, m] + _SAME[i, m] * _SAME[j, k])
                    + normal * (_SAME[i, j] * s[k] * s[m] + s[i] * s[j] * _SAME[k, m])
                    + shear * (_SAME[i, k] * s[j] * s[m] + _SAME[i, m] * s[j] * s[k])
                    + shear * (_SAME[j, k] * s[i] * s[m] + _SAME[j, m] * s[i] * s[k])
                    + along * (s[i] * s[j] * s[k] * s[m])
                )
                number += 1
