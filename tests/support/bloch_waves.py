"""Plane waves in a periodic mesh of cubic spectral elements, whose moduli may be complex and vary between points."""

from __future__ import annotations

import itertools

import numpy as np

from lithowave.solvers.spectral_element import derivative_matrix, gll_points, quadrature_weights


class BlochWaves:
    """Waves exp(i k x) times a periodic function, in cubes of unit size with the density 1."""

    def __init__(self, degree: int) -> None:
        n = degree + 1
        index = np.array(list(itertools.product(range(n), repeat=3)))  # k, j, i
        self.degree, self.weights = degree, quadrature_weights(degree) / 8
        self._point = index % degree @ [degree**2, degree, 1]
        self._cell = (index // degree)[:, ::-1]
        inside = (self._cell == 0).all(axis=1)
        self._position = 0.5 * (gll_points(degree)[index[inside]][:, ::-1] + 1)
        self._mass = np.tile(np.bincount(self._point, self.weights), 3)
        slope, one = 2 * derivative_matrix(degree), np.eye(n)
        lines = ((one, one, slope), (one, slope, one), (slope, one, one))
        slopes = [np.kron(np.kron(*pair), last) for *pair, last in lines]
        strain = np.zeros((6, n**3, 3, n**3))
        for row, (axis, component) in enumerate(((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))):
            strain[row, :, component] = slopes[axis]
            strain[row, :, axis] = slopes[component]
        self._strain = strain.reshape(6, n**3, -1)

    def stiffness(self, kappa: np.ndarray | float, mu: np.ndarray | float) -> np.ndarray:
        """Return the matrix (3 n^3, 3 n^3) of an element. kappa, mu : at its points, k slowest, or everywhere."""
        trace = self._strain[:3].sum(axis=0)
        matrix = (trace.T * (self.weights * (kappa - 2 / 3 * mu))) @ trace
        for row, strain in enumerate(self._strain):
            matrix = matrix + (strain.T * (self.weights * (2 if row < 3 else 1) * mu)) @ strain
        return matrix

    def frequencies(self, stiffness: np.ndarray, k: np.ndarray, wave: str, near: complex) -> np.ndarray:
        """Return the complex angular frequencies of the P wave or the two S waves with the real wave vector k.

        Inverse iterations from the plane waves. near : approximate frequency.
        """
        count, size = self.degree**3, len(self._point)
        spread = np.zeros((size, count), complex)
        spread[np.arange(size), self._point] = np.exp(1j * self._cell @ k)
        parts = np.einsum("pu,apbq,qv->aubv", spread.conj(), stiffness.reshape(3, size, 3, size), spread, optimize=True)
        root = np.sqrt(self._mass)
        matrix = parts.reshape(3 * count, 3 * count) / root[:, None] / root
        axes = np.linalg.svd(k[None])[2]
        plane = np.exp(1j * self._position @ k)
        right = np.stack([np.kron(axis, plane) * root for axis in (axes[:1] if wave == "P" else axes[1:])], axis=1)
        left = right.copy()
        shifted = np.linalg.inv(matrix - (1.001 * near.real) ** 2 * np.eye(3 * count))
        for _ in range(3):
            right, left = (np.linalg.qr(one @ part)[0] for one, part in ((shifted, right), (shifted.conj().T, left)))
        reduced = np.linalg.solve(left.conj().T @ right, left.conj().T @ matrix @ right)
        return np.sqrt(np.linalg.eigvals(reduced))
