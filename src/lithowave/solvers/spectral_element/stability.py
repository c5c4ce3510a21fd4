r"""Largest stable time step: 2 over the largest angular frequency of the mesh.

An element's largest eigenvalue bounds that of the global mesh (Fried 1972, J. Sound Vib. 22, 407-418).
`element_statistics` computes a fast bound for each element, up to twice too large; here the eigenvalues are computed
for the elements of the largest bounds, and the ratio of the two is applied to the rest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.solvers.spectral_element.faces import VOIGT
from lithowave.solvers.spectral_element.geometry import jacobian_matrix, metric
from lithowave.solvers.spectral_element.gll import derivative_matrix, gll_weights

SAMPLE, ITERATIONS = 48, 120
MARGIN = 1.02  # on eigenvalues: the iteration converges from below, and other elements may have a larger ratio


def stable_time_step(
    mesh: Any, materials: Any, degree: int, bounds: np.ndarray, ranks: Ranks = SINGLE_RANK
) -> float:
    """Return the largest stable time step of the global mesh, s, to twelve digits: independent of the partition.

    bounds : upper bounds of the eigenvalues of this rank's elements, 1/s^2.
    """
    largest = ranks.largest(float(bounds.max()))
    chosen = _sample(bounds, mesh.numbers_in_whole, largest, ranks)
    ratio = 0.0
    if len(chosen):
        places = np.stack(np.unravel_index(np.arange((degree + 1) ** 3), (degree + 1,) * 3), axis=1)
        stiffness, rho = materials.at(chosen, places)
        found, fluid = np.empty(len(chosen)), materials.is_fluid[chosen]
        for some, operator in ((fluid, fluid_eigenvalues), (~fluid, element_eigenvalues)):
            if some.any():
                found[some] = operator(mesh.element_nodes(chosen[some]), degree, stiffness[some], rho[some])
        ratio = float((found / bounds[chosen]).max())
    ratio = min(1.0, MARGIN * ranks.largest(ratio))
    return float(f"{2.0 / math.sqrt(ratio * largest):.12g}")


def _sample(bounds: np.ndarray, numbers: np.ndarray, largest: float, ranks: Ranks) -> np.ndarray:
    """Return this rank's elements among those of the largest bounds of the global mesh, and a random sample of others
    with bounds not much smaller.

    numbers : global indices of the elements, which determine the random choice, so that it is independent of the
    partition.
    """
    size = SAMPLE // 2
    near = np.flatnonzero(bounds > 0.5 * largest)
    chance = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    chosen = []
    for members, rating in ((np.arange(len(bounds)), -np.round(bounds / largest, 9)), (near, chance)):
        order = _lowest(members, rating, numbers, size)
        mine = list(zip(rating[order].tolist(), numbers[order].tolist(), strict=True))
        first = set(sorted(one for theirs in ranks.all_gather(mine) for one in theirs)[:size])
        chosen += [element for element, one in zip(order.tolist(), mine, strict=True) if one in first]
    return np.unique(np.array(chosen, np.int64))


def _lowest(members: np.ndarray, rating: np.ndarray, numbers: np.ndarray, size: int) -> np.ndarray:
    """Return the members with the lowest ratings, at most `size`, in ascending order; of equal ratings, those with the
    lowest numbers."""
    if len(members) > size:
        limit = np.partition(rating[members], size - 1)[size - 1]
        equal = members[rating[members] == limit]
        below = members[rating[members] < limit]
        highest = np.partition(numbers[equal], size - len(below) - 1)[size - len(below) - 1]
        members = np.concatenate([below, equal[numbers[equal] <= highest]])
    return members[np.lexsort((numbers[members], rating[members]))]


def element_eigenvalues(nodes: np.ndarray, degree: int, stiffness: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Return the largest eigenvalue of M^-1 K of each solid element with free faces, 1/s^2.

    nodes : (elements, 8 or 27, 3). stiffness (elements, points, 6, 6), Pa; rho (elements, points).
    """
    return largest_eigenvalues(nodes, degree, stiffness[..., VOIGT[:, :, None, None], VOIGT], rho)


def fluid_eigenvalues(nodes: np.ndarray, degree: int, stiffness: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Return the same of fluid elements: K has 1 / rho, and M has 1 / kappa."""
    tensor = (np.eye(3) / rho[..., None, None])[..., None, :, None, :]
    return largest_eigenvalues(nodes, degree, tensor, 1.0 / stiffness[..., 0, 0])


def largest_eigenvalues(nodes: np.ndarray, degree: int, tensor: np.ndarray, inertia: np.ndarray) -> np.ndarray:
    """Return the largest eigenvalue of M^-1 K of each element with free faces, 1/s^2, by power iteration.

    tensor : (elements, points, c, 3, c, 3), flux of component i along j for the derivative of component k along l.
    inertia : (elements, points).
    """
    n, components = degree + 1, tensor.shape[2]
    inverse, jacobian = metric(jacobian_matrix(nodes, degree))
    weights = gll_weights(degree)
    volume = jacobian * np.einsum("k,j,i->kji", weights, weights, weights)
    tensor = tensor.reshape(len(nodes), n, n, n, components, 3, components, 3)
    # K in reference coordinates: G[c, d, a, b] of du_a / dxi_b in the force of c along xi_d.
    law = np.einsum("ekjidm,ekjicmal,ekjibl,ekji->ekjicdab", inverse, tensor, inverse, volume, optimize=True)
    mass = volume * inertia.reshape(jacobian.shape)
    root = np.sqrt(mass)[..., None]
    derivative = derivative_matrix(degree)
    vector = np.repeat(np.random.default_rng(2).standard_normal((1, n, n, n, components)), len(nodes), axis=0)
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
