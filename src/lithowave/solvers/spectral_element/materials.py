"""Moduli and density of elements: one set per material, or values at every point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.errors import InputError
from lithowave.physics.elasticity import isotropic_stiffness, lame_moduli, voigt_average
from lithowave.solvers.spectral_element.relaxation import Losses

NEGLIGIBLE = 1e-4  # 1/Q of fluids that are taken as elastic, such as the outer core with 1/57823
PART = 1024  # elements that are sampled at a time: their arrays fit into the cache
UPPER = np.triu_indices(6)


@dataclass(frozen=True)
class ElementMaterials:
    """Materials of the elements.

    number : index of each element's material in the tables. stiffness : (materials, 6, 6), Pa, Voigt's order xx, yy,
    zz, yz, xz, xy; rho : (materials,), kg/m^3; anisotropic : (materials,); fastest, slowest : phase velocities, m/s. If
    the model varies within elements, `values` has lambda, mu, rho at every point, (3, elements, k, j, i), and the only
    material states the extremes. With attenuation, moduli are unrelaxed, and `losses` has the quality factors.
    """

    number: np.ndarray
    stiffness: np.ndarray
    rho: np.ndarray
    anisotropic: np.ndarray
    fastest: np.ndarray
    slowest: np.ndarray
    values: np.ndarray | None = None
    losses: Losses | None = None

    @property
    def varying(self) -> bool:
        """True if there are values at every point."""
        return self.values is not None

    @cached_property
    def is_fluid(self) -> np.ndarray:
        """True for each element that is a fluid: mu = 0 at all points."""
        if self.values is not None:
            return ~self.values[1].reshape(len(self.number), -1).any(axis=1)
        return (self.stiffness[:, 5, 5] == 0.0)[self.number]

    def mobility(self, elements: np.ndarray) -> np.ndarray:
        """Return 1 / rho, m^3/kg, of fluid elements: (elements, 1), or (elements, 1, k, j, i) if it varies."""
        if self.values is not None:
            return 1.0 / self.values[2, elements][:, None]
        return 1.0 / self.rho[self.number[elements]][:, None]

    def moduli(self, elements: np.ndarray | None) -> np.ndarray:
        """Return the moduli of some elements (None: all): (elements, c), or (elements, c, k, j, i) if they vary.

        c is lambda, mu, or, for anisotropic elements, which are never mixed with isotropic ones, the 21 of the upper
        triangle by rows.
        """
        some = slice(None) if elements is None else elements
        if self.values is not None:
            return np.moveaxis(self.values[:2, some], 0, 1)
        number = self.number[some]
        if len(number) and self.anisotropic[number[0]]:
            return self.stiffness[:, UPPER[0], UPPER[1]][number]
        mu = self.stiffness[:, 5, 5]
        return np.stack([self.stiffness[:, 0, 0] - 2 * mu, mu], axis=1)[number]

    def isotropic_moduli(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return kappa and mu, Pa, of the isotropic (Voigt) average, (elements,), or (elements, k, j, i) if they
        vary."""
        if self.values is not None:
            lam, mu = self.values[:2, elements].astype(float)
            return lam + 2.0 / 3.0 * mu, mu
        kappa, mu = voigt_average(self.stiffness)
        return kappa[self.number[elements]], mu[self.number[elements]]

    def softness(self, elements: np.ndarray) -> np.ndarray:
        """Return the largest ratio (elements,) of the energy of a strain in the isotropic average to that in the
        medium."""
        if self.values is not None or not self.anisotropic.any():
            return np.ones(len(elements))
        kappa, mu = voigt_average(self.stiffness[self.anisotropic])
        average = isotropic_stiffness(kappa - 2.0 / 3.0 * mu, mu)
        ratios = np.ones(len(self.rho))
        strain = np.linalg.solve(self.stiffness[self.anisotropic], average)
        ratios[self.anisotropic] = np.linalg.eigvals(strain).real.max(axis=1)
        return ratios[self.number[elements]]

    def attenuates(self, elements: np.ndarray) -> np.ndarray:
        """Return True for each element with attenuation."""
        if self.losses is None:
            return np.zeros(len(elements), bool)
        if self.values is None:
            return (self.losses.inverse > 0.0).any(axis=0)[self.number[elements]]
        return (self.losses.inverse[:, elements] > 0.0).any(axis=(0, 2, 3, 4))

    def density(self, some: slice = slice(None)) -> np.ndarray:
        """Return (elements, 1), or (elements, points) if it varies, kg/m^3, of all or some elements."""
        if self.values is not None:
            return self.values[2].reshape(len(self.number), -1)[some]
        return self.rho[self.number[some]][:, None]

    def inertia(self, some: slice = slice(None)) -> np.ndarray:
        """Return rho, kg/m^3, of solids and 1 / kappa, 1/Pa, of fluids: (elements, 1), or (elements, points) if they
        vary, of all or some elements."""
        fluid, rho = self.is_fluid[some, None], self.density(some)
        if not fluid.any():
            return rho
        if self.values is None:
            bulk = self.stiffness[:, 0, 0][self.number[some]][:, None]
        else:
            bulk = self.values[0].reshape(len(self.number), -1)[some]
        return np.where(fluid, 1.0 / bulk, rho)

    def _points(self, some: slice | np.ndarray) -> np.ndarray:
        """Return the values of some elements, (3, elements, points)."""
        return self.values[:, some].reshape(3, len(self.number[some]), math.prod(self.values.shape[2:]))

    def speed(self, some: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the velocity of the fastest wave in some elements, m/s: (elements, 1), or (elements, points)."""
        if self.values is not None:
            lam, mu, rho = self._points(some)
            return np.sqrt((lam + 2 * mu) / rho)
        return self.fastest[self.number[some]][:, None]

    def fastest_in_elements(self, some: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the velocity of the fastest wave in each of some elements, m/s."""
        return self.speed(some).max(axis=1)

    def slowest_in_elements(self, some: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the velocity of the slowest wave in each of some elements, m/s: vs, or vp in a fluid."""
        if self.values is None:
            return self.slowest[self.number[some]]
        lam, mu, rho = self._points(some)
        return np.sqrt(np.where(mu == 0.0, lam, mu) / rho).min(axis=1)

    def at(self, elements: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Voigt's matrix (elements, points, 6, 6) and rho (elements, points) at points (k, j, i) of elements."""
        if self.values is not None:
            lam, mu, rho = self.values[:, elements][:, :, places[:, 0], places[:, 1], places[:, 2]].astype(float)
            return isotropic_stiffness(lam, mu), rho
        number = np.broadcast_to(self.number[elements][:, None], (len(elements), len(places)))
        return self.stiffness[number], self.rho[number]

    def within(self, element: int, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Return Voigt's matrix and rho at a point in an element; weights (k, j, i) interpolate."""
        if self.values is not None:
            lam, mu, rho = (float((part[element] * weights).sum()) for part in self.values)
            return isotropic_stiffness(lam, mu), rho
        number = self.number[element]
        return self.stiffness[number], float(self.rho[number])


def materials_of(properties: list[Any], number: np.ndarray, losses: Losses | None = None) -> ElementMaterials:
    """Return constant materials from objects with `rho`, `stiffness_matrix()`, `is_anisotropic`, `speed_range`."""
    return ElementMaterials(
        number,
        np.array([one.stiffness_matrix() for one in properties]),
        np.array([one.rho for one in properties], float),
        np.array([one.is_anisotropic for one in properties], bool),
        np.array([one.speed_range[1] for one in properties], float),
        np.array([one.speed_range[0] for one in properties], float),
        losses=losses,
    )


def sampled_materials(
    medium: Any, positions: Any, elements: int, points: int, dtype: Any, body: Any = None, lossy: Any = None,
    layers: tuple[np.ndarray, ...] = (),
) -> ElementMaterials:  # fmt: skip
    """Return values of a medium at every point of every element.

    medium : object with sample(x, y, z) -> vp, vs, rho. positions : function of a slice of elements -> (elements, k, j,
    i, 3), m. body, lossy : relaxation mechanisms, and object with inverse_quality(x, y, z) -> 1/Qkappa, 1/Qmu; None
    without attenuation. layers : further arguments of both, (elements,) each: see `cell_layers.own_layers`.
    """
    values = np.empty((3, elements, points, points, points), dtype)
    losses = None if body is None else Losses(body, np.empty((2, *values.shape[1:]), dtype))

    def sample(some: slice) -> tuple[float, float]:
        x, y, z = np.moveaxis(positions(some), -1, 0)
        own = [layer[some, None, None, None] for layer in layers]
        vp, vs, rho = medium.sample(x, y, z, *own)
        values[0, some], values[1, some] = lame_moduli(vp, vs, rho)
        values[2, some] = rho
        fluid = vs == 0.0
        if losses is not None:
            inverse = lossy.inverse_quality(x, y, z, *own)
            for number, one in enumerate(inverse):
                elastic = fluid & (one <= NEGLIGIBLE)
                losses.inverse[number, some] = np.where(elastic, 0.0, one)
        _refuse_mixed(fluid, x, y, z)
        return float(vp.max()), float(np.where(fluid, vp, vs).min())

    speeds = over_parts(sample, elements, PART, None if getattr(medium, "concurrent", False) else 1)
    fastest, slowest = max((vp for vp, _ in speeds), default=0.0), min((vs for _, vs in speeds), default=np.inf)
    return ElementMaterials(
        np.zeros(elements, np.int64), np.zeros((1, 6, 6)), np.zeros(1), np.zeros(1, bool), np.array([fastest]),
        np.array([slowest]), values, losses,
    )  # fmt: skip


def _refuse_mixed(fluid: np.ndarray, *positions: np.ndarray) -> None:
    """Refuse elements with fluid and solid points. fluid and positions x, y, z, m : [element, k, j, i]."""
    count = fluid.reshape(len(fluid), -1).sum(axis=1)
    mixed = np.flatnonzero((count > 0) & (count < fluid[0].size))
    if mixed.size:
        x, y, z = (axis[mixed[0]].mean() for axis in positions)
        raise InputError(
            "material", f"the element at ({x:z.6g}, {y:z.6g}, {z:z.6g}) m has fluid (vs = 0) and solid points",
            "spectral_element: elements that are entirely fluid or entirely solid",
            "use material.layers with the sea floor as the top of a layer, or a mesh whose faces follow the sea floor "
            "(solver.mesh, material.groups); method: discontinuous_galerkin chooses one of the two for each element",
        )  # fmt: skip
