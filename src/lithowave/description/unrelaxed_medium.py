"""The unrelaxed medium of a medium with attenuation, which is elastic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.description.earth_medium import EarthMedium
from lithowave.description.media import DomainExtent, Medium, Sample
from lithowave.description.quality_values import InverseQuality
from lithowave.description.stacked_layers import StackedLayers
from lithowave.earth.radial_model import EarthProperties
from lithowave.earth.transverse import Love, love_moduli, voigt_average, with_isotropic_change
from lithowave.rheology.body import RelaxationBody
from lithowave.rheology.unrelaxed import unrelaxed_moduli


@dataclass(frozen=True, eq=False)
class UnrelaxedMedium(Medium):
    """The unrelaxed moduli, and the wave velocities of infinite frequency, of a medium that varies with position.

    Attributes
    ----------
    medium : the medium with phase velocities at the reference frequency, and quality factors.
    body : relaxation mechanisms.
    reference_frequency : Hz.
    """

    medium: Any
    body: RelaxationBody
    reference_frequency: float

    @property
    def concurrent(self) -> bool:
        return self.medium.concurrent

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> Sample:
        """Return vp, vs and rho at points. within : see `StackedLayers`."""
        return self.medium.sample_changed(lambda *values: speeds(*self._unrelaxed(*values)), x, y, z, *within)

    def moduli(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        (vp, vs, rho), losses = self.medium.sample_all(x, y, z)
        return self._unrelaxed(vp, vs, rho, losses)

    def _unrelaxed(self, vp: np.ndarray, vs: np.ndarray, rho: np.ndarray, losses: InverseQuality) -> Sample:
        return *unrelaxed_moduli(vp, vs, rho, losses, self.body, self.reference_frequency), rho

    def love(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> tuple[Love, np.ndarray]:
        """Return A, C, L, N and F, Pa, and rho at points of a medium that has these moduli.

        The isotropic average is that of the unrelaxed medium; the anisotropic part is unchanged.
        """

        def unrelaxed(here: EarthProperties) -> Love:
            kappa, mu = voigt_average(here.love)
            bulk, shear, _ = self._unrelaxed(here.vp, here.vs, here.rho, (here.inverse_qkappa, here.inverse_qmu))
            return with_isotropic_change(here.love, bulk - kappa, shear - mu)

        if isinstance(self.medium, EarthMedium):
            return self.medium.love_changed(unrelaxed, x, y, z, *within)
        vp, vs, rho = self.sample(x, y, z, *within)
        return love_moduli(vp, vp, vs, vs, np.ones_like(rho), rho), rho

    def average_moduli(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, spacing: float, z_limits: tuple[float, float]
    ) -> Sample:
        if isinstance(self.medium, StackedLayers):
            return self.medium.average_moduli(x, y, z, spacing, z_limits, self._unrelaxed)
        return super().average_moduli(x, y, z, spacing, z_limits)

    def interval_moduli(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, height: float) -> Sample:
        if isinstance(self.medium, StackedLayers):
            return self.medium.interval_moduli(x, y, z, height, self._unrelaxed)
        return super().interval_moduli(x, y, z, height)

    def validate_domain(self, box: DomainExtent) -> None:
        self.medium.validate_domain(box)

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        (vp, vs, rho), place = self.medium.values_in(box)
        losses = self.medium.inverse_quality_in(box)
        return speeds(*unrelaxed_moduli(vp, vs, rho, losses, self.body, self.reference_frequency), rho), place


def speeds(kappa: np.ndarray, mu: np.ndarray, rho: np.ndarray) -> Sample:
    """Return vp, vs and rho of bulk and shear moduli, Pa, and a density."""
    return np.sqrt((kappa + 4.0 / 3.0 * mu) / rho), np.sqrt(mu / rho), rho
