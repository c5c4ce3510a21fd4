"""Transverse isotropy: moduli of Love, their isotropic average, their rotation, and the speeds of plane waves.

The five moduli of Love (1927) of a medium with a symmetry axis are A = rho vph^2, C = rho vpv^2, L = rho vsv^2,
N = rho vsh^2 and F = eta (A - 2 L), where v denotes waves along the axis or polarized along it, and h the others
(Dziewonski & Anderson 1981, Phys. Earth Planet. Inter. 25, 297-356, section 2).
"""

from __future__ import annotations

import numpy as np

from lithowave.physics.tensors import VOIGT_PAIRS

Love = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""A, C, L, N and F, Pa."""

_ANGLES = 91  # between the symmetry axis and the equator, at which speeds are compared


def love_moduli(
    vpv: np.ndarray, vph: np.ndarray, vsv: np.ndarray, vsh: np.ndarray, eta: np.ndarray, rho: np.ndarray
) -> Love:
    """Return A, C, L, N and F, Pa, of speeds in m/s and a density in kg/m^3."""
    a, c, l, n = rho * vph**2, rho * vpv**2, rho * vsv**2, rho * vsh**2  # noqa: E741
    return a, c, l, n, eta * (a - 2.0 * l)


def voigt_average(love: Love) -> tuple[np.ndarray, np.ndarray]:
    """Return the bulk and the shear modulus, Pa, of the isotropic average of a transversely isotropic medium.

    kappa = (4 A + C + 4 F - 4 N) / 9, mu = (A + C - 2 F + 5 N + 6 L) / 15 (Babuska & Cara 1991, Seismic Anisotropy in
    the Earth, section 2.3).
    """
    a, c, l, n, f = love  # noqa: E741
    return (4.0 * (a + f - n) + c) / 9.0, (a + c - 2.0 * f + 5.0 * n + 6.0 * l) / 15.0


def largest_softness(love: Love) -> np.ndarray:
    """Return the largest ratio (...) of the energy of a strain in the isotropic average to that in the medium.

    The ratios are mu / L, mu / N, and, for strains that are equal along the equator, the roots of a quadratic equation.
    """
    a, c, l, n, f = love  # noqa: E741
    kappa, mu = voigt_average(love)
    lam, flat = kappa - 2.0 / 3.0 * mu, 2.0 * (a - n)  # of xx = yy, and zz: [[flat, 2 f], [2 f, c]] / 2 in the medium
    determinant = flat * c - 2.0 * f * f
    middle = flat * (lam + 2.0 * mu) + 2.0 * (lam + mu) * c - 4.0 * f * lam
    average = 2.0 * (lam + mu) * (lam + 2.0 * mu) - 2.0 * lam * lam
    root = np.sqrt(np.maximum(middle * middle - 4.0 * determinant * average, 0.0))
    return np.maximum(np.maximum(mu / l, mu / n), 0.5 * (middle + root) / determinant)


def with_isotropic_change(love: Love, kappa: np.ndarray, mu: np.ndarray) -> Love:
    """Return the moduli of a medium whose isotropic average is increased by kappa and mu, Pa."""
    a, c, l, n, f = love  # noqa: E741
    normal = kappa + 4.0 / 3.0 * mu
    return a + normal, c + normal, l + mu, n + mu, f + kappa - 2.0 / 3.0 * mu


def transverse_moduli(love: Love, axis: np.ndarray) -> np.ndarray:
    r"""Return the 21 moduli (21, ...), Pa, of transversely isotropic media whose symmetry axes have any direction.

    .. math::
        c_{ijkl} = (A - 2 N) \delta_{ij} \delta_{kl} + N (\delta_{ik} \delta_{jl} + \delta_{il} \delta_{jk})
            + (F - A + 2 N) (\delta_{ij} s_k s_l + s_i s_j \delta_{kl})
            + (L - N) (\delta_{ik} s_j s_l + \delta_{il} s_j s_k + \delta_{jk} s_i s_l + \delta_{jl} s_i s_k)
            + (A + C - 2 F - 4 L) s_i s_j s_k s_l

    Parameters
    ----------
    love : A, C, L, N and F, Pa, of shapes that broadcast to (...).
    axis : unit vectors s of the symmetry axes, (..., 3).

    The moduli are the upper triangle, by rows, of the matrix in the order xx, yy, zz, yz, xz, xy.
    """
    a, c, l, n, f = love  # noqa: E741
    s, d = np.moveaxis(np.asarray(axis, float), -1, 0), np.eye(3)
    lam, normal, shear, along = a - 2.0 * n, f - a + 2.0 * n, l - n, a + c - 2.0 * f - 4.0 * l
    moduli = np.empty((21, *np.broadcast_shapes(np.shape(a), s.shape[1:])))
    number = 0
    for row, (i, j) in enumerate(VOIGT_PAIRS):
        for k, m in VOIGT_PAIRS[row:]:
            moduli[number] = (
                lam * (d[i, j] * d[k, m])
                + n * (d[i, k] * d[j, m] + d[i, m] * d[j, k])
                + normal * (d[i, j] * s[k] * s[m] + s[i] * s[j] * d[k, m])
                + shear * (d[i, k] * s[j] * s[m] + d[i, m] * s[j] * s[k])
                + shear * (d[j, k] * s[i] * s[m] + d[j, m] * s[i] * s[k])
                + along * (s[i] * s[j] * s[k] * s[m])
            )
            number += 1
    return moduli


def phase_speed_range(love: Love, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum and the maximum phase speed (...), m/s, over directions one degree apart.

    With x and z along the equator and the axis, the squares of the speeds times rho of the waves polarized in their
    plane are the eigenvalues of [[A x^2 + L z^2, (F + L) x z], [(F + L) x z, L x^2 + C z^2]], and that of the others is
    N x^2 + L z^2. A fluid has one wave: the minimum is the speed of P waves.
    """
    a, c, l, n, f = (np.asarray(modulus, float)[..., None] for modulus in love)  # noqa: E741
    angle = np.linspace(0.0, 0.5 * np.pi, _ANGLES)
    x, z = np.sin(angle) ** 2, np.cos(angle) ** 2
    first, second, mixed = a * x + l * z, l * x + c * z, (f + l) ** 2 * x * z
    mean, half = 0.5 * (first + second), np.sqrt(0.25 * (first - second) ** 2 + mixed)
    shear = np.minimum(mean - half, n * x + l * z)
    slowest = np.where((l > 0.0).any(axis=-1), shear.min(axis=-1), (mean + half).min(axis=-1))
    return np.sqrt(slowest / rho), np.sqrt((mean + half).max(axis=-1) / rho)
