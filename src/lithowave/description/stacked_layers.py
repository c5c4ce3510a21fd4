"""Media of layers on top of each other: means over intervals of z that interfaces divide."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator

import numpy as np

from lithowave.description.media import Medium, Sample, elastic_moduli, vertical_range
from lithowave.description.quality_values import InverseQuality
from lithowave.earth.transverse import Love, love_moduli

Moduli = Callable[[np.ndarray, np.ndarray, np.ndarray, InverseQuality], Sample]

SHORTEST = 1e-6
"""Height of intervals, m, in which means are taken, at least."""

_BESIDE = 0.25  # distance of the columns of an average from the middle of its cell, in cells


class StackedLayers(Medium):
    """Layers from the top down.

    Points on an interface belong to two layers: in all methods, the arguments ``within`` are the first and the last
    layer to which a point may belong, such as those of its element; default: the layer below.
    """

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of layers."""

    @abstractmethod
    def boundaries(self, x: np.ndarray, y: np.ndarray) -> Iterator[np.ndarray | float]:
        """Yield z, m, at which each layer begins, from the first, and the end of the last one; both are infinite."""

    @abstractmethod
    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> Sample:
        """Return vp, vs and rho at points."""

    def love(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> tuple[Love, np.ndarray]:
        """Return the moduli A, C, L, N and F, Pa, of transverse isotropy with a vertical axis, and rho at points."""
        vp, vs, rho = self.sample(x, y, z, *within)
        return love_moduli(vp, vp, vs, vs, np.ones_like(rho), rho), rho

    @abstractmethod
    def sample_all(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[Sample, InverseQuality]:
        """Return vp, vs, rho and 1/Qkappa, 1/Qmu at points."""

    def vertical_means(
        self, x: np.ndarray, y: np.ndarray, low: np.ndarray, high: np.ndarray, moduli: Moduli | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the means of 1/kappa, 1/mu, rho and 1/(kappa + 4/3 mu) from z = low to high, in columns at x, y.

        The fraction of each layer is exact, with its properties in the middle of its part.

        moduli : function of vp, vs, rho, (1/Qkappa, 1/Qmu) -> kappa, mu, rho; default: the elastic moduli.
        """
        means = np.zeros((4, *np.broadcast_shapes(x.shape, y.shape, low.shape)))
        ends = list(self.boundaries(x, y))
        for index in range(self.count):
            upper, lower = np.minimum(high, ends[index]), np.maximum(low, ends[index + 1])
            share = np.clip((upper - lower) / (high - low), 0.0, None)
            if not share.any():
                continue
            z = np.broadcast_to(0.5 * (np.maximum(upper, lower) + lower), means.shape[1:])
            layer = np.full(z.shape, index)
            if moduli is None:
                kappa, mu, rho = elastic_moduli(*self.sample(x, y, z, layer, layer))
            else:
                values, losses = self.sample_all(x, y, z, layer, layer)
                kappa, mu, rho = moduli(*values, losses)
            with np.errstate(divide="ignore"):  # water: no rigidity, and none of the whole cell
                shear = np.where(share > 0.0, share / mu, 0.0)
            means += np.stack(np.broadcast_arrays(share / kappa, shear, share * rho, share / (kappa + 4.0 / 3.0 * mu)))
        return means[0], means[1], means[2], means[3]

    def average_moduli(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, spacing: float, z_limits: tuple[float, float],
        moduli: Moduli | None = None,
    ) -> Sample:  # fmt: skip
        """Return the moduli averaged over cubes: exactly along z, in 2 x 2 columns. moduli : as in `vertical_means`."""
        low, high = vertical_range(z, spacing, z_limits)
        parts = [
            np.stack(self.vertical_means(x + a * _BESIDE * spacing, y + b * _BESIDE * spacing, low, high, moduli))
            for a in (-1, 1)
            for b in (-1, 1)
        ]
        softness, shear_softness, rho, _ = np.mean(parts, axis=0)
        return 1.0 / softness, 1.0 / shear_softness, rho

    def interval_moduli(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, height: float, moduli: Moduli | None = None
    ) -> Sample:
        """Return the isotropic medium of the same vertical compliances and mass in intervals of a height around z."""
        height = max(height, SHORTEST)  # above the uppermost node there is nothing
        ends = z - 0.5 * height, z + 0.5 * height
        _, shear_softness, rho, softness = self.vertical_means(x, y, *ends, moduli)
        mu = 1.0 / shear_softness
        return 1.0 / softness - 4.0 / 3.0 * mu, mu, rho
