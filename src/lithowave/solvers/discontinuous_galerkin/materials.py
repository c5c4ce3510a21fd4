"""Materials of the elements, one per element."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lithowave.mesh.shared_faces import SharedFaces
from lithowave.physics.elasticity import isotropic_stiffness, lame_moduli
from lithowave.physics.tensors import SWAPPED
from lithowave.rheology.body import RelaxationBody

# Quantities of an element: stress in this order, then velocity x, y, z.
STRESS = ("xx", "yy", "zz", "xy", "xz", "yz")
STRESSES, VELOCITIES = len(STRESS), 3
QUANTITIES = STRESSES + VELOCITIES


@dataclass(frozen=True)
class ElementMaterials:
    """Materials of the elements.

    lam, mu : Lame's moduli (elements,), Pa; mu = 0 in a fluid; unused if an element is anisotropic. rho : (elements,),
    kg/m^3. number : (elements,), row of `stiffness`, or -1 if the element is isotropic. stiffness : (materials, 6, 6),
    Pa, in Voigt's order. fastest, slowest : phase velocities of each row of `stiffness` times the root of its density,
    that is (materials,), Pa^(1/2). With attenuation, all moduli are unrelaxed ones; body : relaxation mechanisms, and
    inverse_quality : 1/Qkappa and 1/Qmu of this rank's elements (elements, 2); else None.
    """

    lam: np.ndarray
    mu: np.ndarray
    rho: np.ndarray
    number: np.ndarray
    stiffness: np.ndarray
    fastest: np.ndarray
    slowest: np.ndarray
    body: RelaxationBody | None = None
    inverse_quality: np.ndarray | None = None

    @classmethod
    def isotropic(cls, vp: np.ndarray, vs: np.ndarray, rho: np.ndarray) -> ElementMaterials:
        """Return materials from wave velocities, m/s, and densities, kg/m^3, of every element."""
        vp, vs, rho = (np.asarray(values, float) for values in (vp, vs, rho))
        none = np.zeros(0)
        return cls(*lame_moduli(vp, vs, rho), rho, np.full(len(rho), -1), np.zeros((0, 6, 6)), none, none)

    @property
    def anisotropic(self) -> np.ndarray:
        """True for anisotropic elements (elements,)."""
        return self.number >= 0

    @property
    def is_fluid(self) -> np.ndarray:
        """True for elements without shear stress (elements,)."""
        return (self.mu == 0) & (self.number < 0)

    @cached_property
    def fastest_speed(self) -> np.ndarray:
        """Velocity of the fastest wave in each element, m/s."""
        modulus = np.sqrt(self.lam + 2 * self.mu)
        modulus[self.anisotropic] = self.fastest[self.number[self.anisotropic]]
        return modulus / np.sqrt(self.rho)

    @cached_property
    def slowest_speed(self) -> np.ndarray:
        """Velocity of the slowest wave in each element, m/s: in a fluid there is only one."""
        modulus = np.sqrt(np.where(self.mu > 0, self.mu, self.lam))
        modulus[self.anisotropic] = self.slowest[self.number[self.anisotropic]]
        return modulus / np.sqrt(self.rho)

    def mechanisms(self, count: int) -> np.ndarray:
        """Return the number of relaxation mechanisms of each of the first `count` elements, those of this rank."""
        if self.body is None or self.inverse_quality is None:
            return np.zeros(count, np.int64)
        return self.body.mechanisms * (self.inverse_quality > 0.0).any(axis=1)

    def reordered(self, order: np.ndarray) -> ElementMaterials:
        """Return the materials of the elements `order`."""
        changed = {name: getattr(self, name)[order] for name in ("lam", "mu", "rho", "number")}
        losses = None if self.inverse_quality is None else self.inverse_quality[order]
        return replace(self, inverse_quality=losses, **changed)

    def with_ghosts(self, shared: SharedFaces) -> ElementMaterials:
        """Append the materials of the elements across shared faces; stiffnesses are the same on all ranks."""
        changed = {name: shared.with_ghosts(getattr(self, name)) for name in ("lam", "mu", "rho", "number")}
        return replace(self, **changed)

    def matrix(self, elements: np.ndarray) -> np.ndarray:
        """Return the stiffness (n, 6, 6) of some elements, Pa, in the order of `STRESS`."""
        lam, mu, number = self.lam[elements], self.mu[elements], self.number[elements]
        found = isotropic_stiffness(lam, mu)
        there = number >= 0
        found[there] = self.stiffness[number[there]][:, SWAPPED][:, :, SWAPPED]
        return found
