"""Unrelaxed moduli from phase velocities at a reference frequency."""

from __future__ import annotations

import numpy as np

from lithowave.rheology.body import RelaxationBody

_STEPS = 50
_ACCURACY = 4.0 * np.finfo(float).eps


def unrelaxed_moduli(
    vp: np.ndarray,
    vs: np.ndarray,
    rho: np.ndarray,
    inverse_quality: tuple[np.ndarray, np.ndarray],
    body: RelaxationBody,
    reference_frequency: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the unrelaxed bulk and shear moduli, Pa, of media with phase velocities vp and vs at a frequency.

    The phase velocities are 1 / Re sqrt(rho / M) with M = kappa(w) + 4/3 mu(w) and M = mu(w), where kappa(w) =
    kappa_U m(w, 1/Qkappa) and mu(w) = mu_U m(w, 1/Qmu). mu_U follows directly, kappa_U by Newton's method. Where both
    inverse quality factors are 0, the moduli are the elastic ones.

    Parameters
    ----------
    vp, vs, rho : m/s, m/s, kg/m^3, of one shape; vs = 0 in a fluid.
    inverse_quality : 1/Qkappa and 1/Qmu, of this shape.
    reference_frequency : Hz; outside the band of the body, velocities follow its law of Q (`RelaxationBody.law_ratio`).
    """
    bulk, shear = (body.law_ratio(reference_frequency, inverse) for inverse in inverse_quality)
    mu = rho * vs**2 * (shear**-0.5).real ** 2
    # In units of rho vp^2, in which the slowness of P waves is 1.
    shear_part = 4.0 / 3.0 * mu * shear / (rho * vp**2)
    kappa = 1.0 - 4.0 / 3.0 * (vs / vp) ** 2
    for _ in range(_STEPS):
        modulus = kappa * bulk + shear_part
        excess = (modulus**-0.5).real - 1.0
        # The slowness is a convex, decreasing function of kappa, and its root is positive.
        change = excess / (0.5 * bulk * modulus**-1.5).real
        kappa = np.maximum(kappa + change, 0.0)
        if np.all(np.abs(change) <= _ACCURACY * kappa):
            break
    elastic = (inverse_quality[0] == 0.0) & (inverse_quality[1] == 0.0)
    mu_elastic = rho * vs**2
    return (
        np.where(elastic, rho * vp**2 - 4.0 / 3.0 * mu_elastic, kappa * rho * vp**2),
        np.where(elastic, mu_elastic, mu),
    )
