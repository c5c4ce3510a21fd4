r"""Effective media of elements that contain an interface.

A point of an element stands for an interval of its column whose length is its quadrature weight. Where layers of the
material meet inside an element, the values of a point are those of the medium that a long wave sees in this interval
(Backus 1962, J. Geophys. Res. 67, 4427-4440): with Love's moduli of the layers, and <.> the mean over the interval,

.. math::
    C = \langle 1/C \rangle^{-1}, \quad L = \langle 1/L \rangle^{-1}, \quad N = \langle N \rangle, \quad
    F = C \langle F/C \rangle, \quad A = \langle A - F^2/C \rangle + C \langle F/C \rangle^2 .

Points that take the layer they lie in would change the share of each layer in the element to that of its points, and a
single modulus for vertical and horizontal strain cannot be right for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.earth.transverse import Love
from lithowave.solvers.spectral_element.geometry import shape_functions
from lithowave.solvers.spectral_element.gll import gll_points, gll_weights

SHORTEST = 1e-6  # m, of an interval
SMALLEST = 1e-6  # share of an interval, from which a layer is present
LEVEL = 1e-6  # m, of z in an element, up to which its columns are equal


@dataclass(frozen=True)
class AveragedLayers:
    """The effective media of the elements of a mesh in which layers of the material may meet.

    mesh : with columns along z. medium : object with love(x, y, z, first, last) -> (A, C, L, N, F), rho. lossy : object
    with inverse_quality(x, y, z, first, last) -> 1/Qkappa, 1/Qmu, or None. layers : of the material, with
    boundaries(x, y). first, last : layers of each element. inside : z, m, of the flat interfaces inside elements; None:
    any interface may be.
    """

    mesh: Any
    degree: int
    medium: Any
    lossy: Any
    layers: Any
    first: np.ndarray
    last: np.ndarray
    inside: tuple[float, ...] | None = None

    def candidates(self, elements: np.ndarray) -> np.ndarray:
        """Return those of some elements in which layers may meet."""
        elements = elements[self.first[elements] < self.last[elements]]
        if self.inside is None or not len(elements):
            return elements
        z = self.mesh.element_nodes(elements)[..., 2]
        low, high = z.min(axis=1) + SHORTEST, z.max(axis=1) - SHORTEST
        return elements[np.any([(low < one) & (one < high) for one in self.inside], axis=0)]

    def columns(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return x and y (elements, j, i) of the columns of points, and z (elements, n + 1, j, i) of the ends of their
        intervals, m."""
        line, ends = gll_points(self.degree), np.append(-1.0, np.cumsum(gll_weights(self.degree)) - 1.0)
        ends[-1] = 1.0
        nodes = self.mesh.element_nodes(elements)
        z, y, x = np.meshgrid(ends, line, line, indexing="ij")
        shapes = shape_functions(np.stack([x, y, z], axis=-1), nodes.shape[1])
        x, y, z = np.moveaxis(np.einsum("kjia,eac->ekjic", shapes, nodes), -1, 0)
        return x[:, 0], y[:, 0], z

    def evaluate(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return True (elements,) where layers meet, and for all elements A, C, L, N and F, Pa, (5, elements, k, j, i),
        rho, kg/m^3, and 1/Qkappa and 1/Qmu (2, elements, k, j, i). Where fluids meet, it is False.
        """
        x, y, z = self.columns(elements)
        first, last = self.first[elements], self.last[elements]
        # Elements between the same levels are equal.
        if not self.medium_varies and np.ptp(z, axis=(2, 3)).max(initial=0.0) <= LEVEL:
            key = np.column_stack([np.round(z[:, [0, -1], 0, 0] / LEVEL), first, last])
            _, chosen, place = np.unique(key, axis=0, return_index=True, return_inverse=True)
            few = self._means(x[chosen, :1, :1], y[chosen, :1, :1], z[chosen, :, :1, :1], first[chosen], last[chosen])
            n, place = self.degree + 1, place.ravel()
            met, love, rho, inverse = (one[..., place, :, :, :] if one.ndim > 1 else one[place] for one in few)
            spread = (len(elements), n, n, n)
            return (
                met, np.broadcast_to(love, (5, *spread)), np.broadcast_to(rho, spread),
                np.broadcast_to(inverse, (2, *spread)),
            )  # fmt: skip
        return self._means(x, y, z, first, last)

    @property
    def medium_varies(self) -> bool:
        """True if the material depends on x and y."""
        return bool(getattr(self.layers, "sources", ())) or any(map(callable, getattr(self.layers, "tops", ())))

    def _means(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        low, high = z[:, :-1], z[:, 1:]
        x, y = (np.broadcast_to(one[:, None], low.shape) for one in (x, y))
        first, last = first[:, None, None, None], last[:, None, None, None]
        means, inverse = np.zeros((6, *low.shape)), np.zeros((2, *low.shape))
        present, fluid = np.zeros(len(low), np.int64), np.zeros(len(low), bool)
        ends = list(self.layers.boundaries(x[:, :1], y[:, :1]))
        for index in range(int(first.min()), int(last.max()) + 1):
            top = np.where(index == first, np.inf, ends[index])
            bottom = np.where(index == last, -np.inf, ends[index + 1])
            upper, lower = np.minimum(high, top), np.maximum(low, bottom)
            share = np.clip((upper - lower) / np.maximum(high - low, SHORTEST), 0.0, 1.0)
            share[np.broadcast_to((index < first) | (index > last), share.shape)] = 0.0
            if not share.any():
                continue
            present += (share > SMALLEST).any(axis=(1, 2, 3))
            middle, layer = 0.5 * (np.maximum(upper, lower) + lower), np.full((1, 1, 1, 1), index)
            (a, c, l, n, f), rho = self.medium.love(x, y, middle, layer, layer)  # noqa: E741
            fluid |= ((share > 0.0) & (l == 0.0)).any(axis=(1, 2, 3))
            l = np.where(l == 0.0, np.inf, l)  # noqa: E741
            parts = (1.0 / c, 1.0 / l, n, f / c, a - f * f / c, rho)
            for mean, part in zip(means, parts, strict=True):
                mean += share * part
            if self.lossy is not None:
                for mean, part in zip(inverse, self.lossy.inverse_quality(x, y, middle, layer, layer), strict=True):
                    mean += share * part
        return (present > 1) & ~fluid, np.stack(self._moduli(means)), means[5], inverse

    @staticmethod
    def _moduli(means: np.ndarray) -> Love:
        """Return A, C, L, N and F of the means of 1/C, 1/L, N, F/C and A - F^2/C."""
        soft, shear_soft, n, ratio, rest = means[:5]
        c = 1.0 / soft
        return rest + c * ratio**2, c, 1.0 / np.where(shear_soft > 0.0, shear_soft, np.inf), n, c * ratio
