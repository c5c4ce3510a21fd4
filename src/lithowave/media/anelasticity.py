"""The attenuation of a material: its relaxation body, weights at points, and the unrelaxed medium, which is elastic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from lithowave.description.material import Attenuation, Material
from lithowave.earth.radial_model import (
    EarthProperties,
    Love,
    love_moduli,
    love_with_isotropic_change,
    voigt_average_of_love,
)
from lithowave.errors import InputError
from lithowave.media.earth import EarthMedium
from lithowave.media.elasticity import ElasticProperties
from lithowave.media.medium import DomainExtent, InverseQuality, Medium, Sample, StackedLayers
from lithowave.physics import isotropic_stiffness
from lithowave.rheology import RelaxationBody, fit_body, unrelaxed_moduli


@dataclass(frozen=True, eq=False)
class UnrelaxedMedium(Medium):
    """The unrelaxed moduli, and the wave velocities of infinite frequency, of a medium that varies with position.

    Attributes
    ----------
    medium : the medium with phase velocities at the reference frequency, and quality factors.
    body : relaxation mechanisms.
    reference_frequency : Hz.
    """

    medium: Medium
    body: RelaxationBody
    reference_frequency: float

    @property
    def concurrent(self) -> bool:
        return self.medium.concurrent

    @property
    def level(self) -> bool:
        return self.medium.level

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
            kappa, mu = voigt_average_of_love(here.love)
            bulk, shear, _ = self._unrelaxed(here.vp, here.vs, here.rho, (here.inverse_qkappa, here.inverse_qmu))
            return love_with_isotropic_change(here.love, bulk - kappa, shear - mu)

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


_TRIALS = 17
"""Values of Q in the range of a model at which the deviation is measured."""


@dataclass(frozen=True, eq=False)
class Anelasticity:
    """Attenuation of a material, from `make_anelasticity`.

    Attributes
    ----------
    body : relaxation mechanisms with rates common to the entire model, and weights for every Q.
    reference_frequency : frequency, Hz, at which vp and vs of ``source`` are phase velocities.
    inverse_qualities : smallest and largest 1/Qkappa or 1/Qmu above 0 in the domain.
    source : the material as described.
    """

    body: RelaxationBody
    reference_frequency: float
    inverse_qualities: tuple[float, float]
    source: Material

    @cached_property
    def material(self) -> Material:
        """The unrelaxed material, which is elastic: its velocities are those of infinite frequency.

        Methods discretize it as any other material, and take the limit of the time step from it.
        """
        source = self.source
        changes: dict[str, object] = {"attenuation": None}
        varying = not source.properties or any(layer.varies for layer in source.layers or ())
        for key in ("homogeneous", "layers", "groups"):
            given = None if varying else getattr(source, key)
            if isinstance(given, ElasticProperties):
                changes[key] = self._unrelaxed(given)
            elif isinstance(given, list):
                changes[key] = [self._unrelaxed(part) for part in given]
            elif given is not None:
                changes[key] = {name: self._unrelaxed(part) for name, part in given.items()}
        unrelaxed = source.model_copy(update=changes)
        if not varying:
            return unrelaxed
        return unrelaxed.with_medium(UnrelaxedMedium(source.medium, self.body, self.reference_frequency))

    def inverse_quality(self, x: ArrayLike, y: ArrayLike, z: ArrayLike) -> InverseQuality:
        """Return 1/Qkappa and 1/Qmu at points in m, of their broadcast shape; 0 where the material is elastic.

        Raises
        ------
        InputError : for groups, whose positions the mesh defines; use the properties of each group.
        """
        points = (np.asarray(values, float) for values in (x, y, z))
        bulk, shear = self.source.medium.inverse_quality(*points)
        return bulk, shear

    def weights(self, x: ArrayLike, y: ArrayLike, z: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights Y_j of the bulk and of the shear modulus at points in m, (n, ...) each.

        Raises
        ------
        InputError : as `inverse_quality`.
        """
        bulk, shear = self.inverse_quality(x, y, z)
        return self.body.weights(bulk), self.body.weights(shear)

    @cached_property
    def deviation(self) -> float:
        """Largest relative deviation of Q from its law, over the band and the range of Q in the domain."""
        return float(self.body.deviation(np.geomspace(*self.inverse_qualities, _TRIALS)).max())

    @cached_property
    def dispersion(self) -> float:
        """Relative increase of the phase velocity over the band where Q is smallest."""
        return float(self.body.dispersion(self.inverse_qualities[1]))

    def summary(self) -> dict[str, object]:
        """Return the entries for `check --json` and run.json."""
        law = self.body.law
        return {
            "band_hz": list(self.body.band),
            "reference_frequency_hz": self.reference_frequency,
            "mechanisms": self.body.mechanisms,
            "relaxation_frequencies_hz": (self.body.rates / (2.0 * np.pi)).tolist(),
            "exponent": law.exponent,
            "corner_frequency_hz": law.corner_frequency if law.exponent else None,
            "quality_min": 1.0 / self.inverse_qualities[1],
            "quality_max": 1.0 / self.inverse_qualities[0],
            "largest_deviation": self.deviation,
            "velocity_dispersion": self.dispersion,
        }

    def lines(self) -> list[tuple[str, str]]:
        """Return (name, text) of the lines that `check` prints."""
        low, high = self.body.band
        largest, smallest = (1.0 / end for end in self.inverse_qualities)
        values = f"{smallest:.4g}" if np.isclose(smallest, largest) else f"{smallest:.4g} to {largest:.4g}"
        law = self.body.law
        shape = f"as (f / {law.corner_frequency:g} Hz)^{law.exponent:g} above {law.corner_frequency:g} Hz"
        count = self.body.mechanisms
        return [
            ("attenuation", f"Qkappa and Qmu of {values}, {shape if law.exponent else 'independent of frequency'}"),
            (
                "mechanisms",
                f"{count}, for {low:.4g} to {high:.4g} Hz, where Q deviates by at most {100.0 * self.deviation:.2g}%",
            ),
            (
                "phase velocities",
                f"vp and vs at {self.reference_frequency:.4g} Hz; where Q is {smallest:.4g}, velocity increases by "
                f"{100.0 * self.dispersion:.2g}% from {low:.4g} to {high:.4g} Hz",
            ),
        ]

    def _unrelaxed(self, part: ElasticProperties) -> ElasticProperties:
        """Return a medium of the same class with unrelaxed moduli."""
        if not part.has_attenuation:
            return part
        rho, (vp, vs) = part.rho, part.isotropic_speeds
        bulk, shear = (np.array(value) for value in part.inverse_quality)
        speeds = np.array(vp), np.array(vs), np.array(rho)
        found = unrelaxed_moduli(*speeds, (bulk, shear), self.body, self.reference_frequency)
        kappa, mu = (float(value) for value in found)
        more = {key: getattr(part, key) for key in type(part).model_fields if key not in ElasticProperties.model_fields}
        if not part.is_anisotropic:
            fast, slow = np.sqrt((kappa + 4.0 / 3.0 * mu) / rho), np.sqrt(mu / rho)
            return type(part)(vp=float(fast), vs=float(slow), rho=rho, **more)
        # The anisotropic part remains unchanged.
        bulk_change, shear_change = kappa - rho * (vp**2 - 4.0 / 3.0 * vs**2), mu - rho * vs**2
        added = isotropic_stiffness(bulk_change - 2.0 / 3.0 * shear_change, shear_change)
        stiffness = part.stiffness_matrix() + added
        moduli = tuple(float(value) for value in stiffness[np.triu_indices(6)])
        return type(part)(stiffness=moduli, rho=rho, **more)


def make_anelasticity(material: Material, domain: DomainExtent, max_frequency: float | None) -> Anelasticity | None:
    """Return the attenuation of a material in a domain; None if it is elastic there.

    Parameters
    ----------
    max_frequency : highest frequency that is resolved, Hz, from which the band follows if it is not given.

    Raises
    ------
    InputError : the band is not given, and the maximum frequency is None.
    """
    if not material.medium.attenuates(domain):
        return None
    losses = np.concatenate(material.medium.inverse_quality_in(domain))
    losses = losses[losses > 0.0]
    if not losses.size:
        return None
    keys = material.attenuation or Attenuation()
    band = keys.resolved_band(max_frequency)
    if band is None:
        raise InputError("material.attenuation.band", "is not given", "required without solver.max_frequency")
    ends = float(losses.min()), float(losses.max())
    body = fit_body(keys.law, band, keys.mechanisms, ends)
    reference = keys.resolved_reference(band)
    return Anelasticity(body, reference, ends, material.at_frequency(reference))
