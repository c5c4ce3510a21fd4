r"""The largest stable time step: 2 over the largest angular frequency of the mesh.

An element's largest eigenvalue bounds that of the whole mesh (Fried 1972, J. Sound Vib. 22, 407-418). `survey`
gives a bound for each element that is quick but up to twice too large; here the eigenvalues themselves are found for
the elements of the largest bounds, and the ratio of the two for the rest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lithowave.solvers.spectral_element.faces import VOIGT
from lithowave.solvers.spectral_element.geometry import jacobian_matrix, metric
from lithowave.solvers.spectral_element.gll import derivative_matrix, gll_weights

SAMPLE, ITERATIONS = 48, 120
MARGIN = 1.02  # on eigenvalues: the iteration comes from below, and other elements may have a larger ratio


def stable_time_step(mesh: Any, materials: Any, degree: int, bounds: np.ndarray) -> float:
    """Largest stable time step, s. bounds : upper bounds of the eigenvalues of all elements, 1/s^2."""
    chosen = _sample(bounds)
    places = np.stack(np.unravel_index(np.arange((degree + 1) ** 3), (degree + 1,) * 3), axis=1)
    stiffness, rho = materials.at(chosen, places)
    found = element_eigenvalues(mesh.element_nodes(chosen), degree, stiffness, rho)
    ratio = min(1.0, MARGIN * float((found / bounds[chosen]).max()))
    return 2.0 / math.sqrt(ratio * float(bounds.max()))


def _sample(bounds: np.ndarray) -> np.ndarray:
    """The elements of the largest bounds, and others of bounds not much smaller by chance."""
    size = min(SAMPLE // 2, len(bounds))
    largest = np.argpartition(bounds, len(bounds) - size)[-size:]
    near = np.flatnonzero(bounds > 0.5 * bounds.max())
    by_chance = np.random.default_rng(1).choice(near, min(SAMPLE // 2, len(near)), replace=False)
    return np.unique(np.concatenate([largest, by_chance]))


def element_eigenvalues(nodes: np.ndarray, degree: int, stiffness: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Largest eigenvalue of M^-1 K of each element with free faces, 1/s^2, by power iteration.

    nodes : (elements, 8 or 27, 3). stiffness (elements, points, 6, 6), Pa; rho (elements, points).
    """
    n = degree + 1
    inverse, jacobian = metric(jacobian_matrix(nodes, degree))
    weights = gll_weights(degree)
    volume = jacobian * np.einsum("k,j,i->kji", weights, weights, weights)
    tensor = stiffness[..., VOIGT[:, :, None, None], VOIGT].reshape(len(nodes), n, n, n, 3, 3, 3, 3)
    # K in reference coordinates: G[c, d, a, b] of du_a / dxi_b in the force of c along xi_d.
    law = np.einsum("ekjidm,ekjicmal,ekjibl,ekji->ekjicdab", inverse, tensor, inverse, volume, optimize=True)
    mass = volume * rho.reshape(jacobian.shape)
    root = np.sqrt(mass)[..., None]
    derivative = derivative_matrix(degree)
    vector = np.random.default_rng(2).standard_normal((len(nodes), n, n, n, 3))
    for _ in range(ITERATIONS):
        vector /= np.linalg.norm(vector.reshape(len(nodes), -1), axis=1)[:, None, None, None, None]
        u = vector / root
        gradient = np.stack(
            [
                np.einsum("il,ekjla->ekjia", derivative, u),
                np.einsum("jl,eklia->ekjia", derivative, u),
                np.einsum("kl,eljia->ekjia", derivative, u),
            ],
            axis=-1,
        )
        force = np.einsum("ekjicdab,ekjiab->ekjicd", law, gradient, optimize=True)
        after = np.einsum("li,ekjlc->ekjic", derivative, force[..., 0])
        after += np.einsum("lj,eklic->ekjic", derivative, force[..., 1])
        after += np.einsum("lk,eljic->ekjic", derivative, force[..., 2])
        vector = after / root
    return np.linalg.norm(vector.reshape(len(nodes), -1), axis=1)
