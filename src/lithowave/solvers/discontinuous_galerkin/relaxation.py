r"""Attenuation: memory variables of the stresses, and their Taylor terms.

With unrelaxed moduli, the weights Y_l of the bulk modulus kappa and of the shear modulus mu, and the rates omega_l of
the mechanisms (`lithowave.rheology`), the stress is that of a spring and of a Maxwell body per mechanism with the
stress r_l, parallel to each other:

.. math::
    \dot\sigma = s - \sum_l \omega_l r_l, \qquad \dot r_l = F_l - \omega_l r_l, \qquad
    F_l = Y_l^\mu (s - p I) + Y_l^\kappa p I, \qquad p = \tfrac13 \mathrm{tr}\, s.

s is the stress rate of the elastic medium with the unrelaxed moduli, of which an element has a discrete form with
contributions of its volume, of its faces, and in an absorbing layer of the stretched derivatives. The same s drives
sigma and all r_l: faces, and traces exchanged with neighbors, are those of the elastic medium. In an anisotropic
medium F_l refers to the isotropic (Voigt) average: s is then replaced by the stress rate of this average, which follows
from s through the compliance (`isotropic_stresses`).

The r_l are polynomials of one degree less than the stress, as derivatives are. Let E^d be the Taylor terms of the
elastic stress in a step of length T, D^d those of the stress, u_l^d those of r_l, and x_l = omega_l T:

.. math::
    u_l^0 = r_l, \qquad D^d = E^d - \sum_l \frac{x_l}{d} u_l^{d - 1}, \qquad
    u_l^d = F_l(E^d) - \frac{x_l}{d} u_l^{d - 1}, \qquad r_l \leftarrow r_l + \sum_{d \ge 1} u_l^d + F_l(E_f).

E_f is the contribution of the faces in the step. As in the elastic case, terms of the degree d have functions of d
degrees less, which does not reduce the order of convergence. For a function whose last term is u_l^d, further terms
have no new E, and their sum is known, so that the relaxation is exact: u_l^d is multiplied by

.. math::
    \gamma_d(x) = \sum_{j \ge 0} \frac{d!\,(-x)^j}{(d + j)!}, \qquad \gamma_1 = \frac{1 - e^{-x}}{x},

and D^d = E^d - sum_l (F_l(E^d) - gamma_d u_l^d). A constant strain therefore relaxes as exp(-x) for any x. Between
the terms, E^d contains the relaxation of the terms before, as a polynomial of degree `order` - 1 of x. x_l is at most
`LARGEST_STEP`: up to there these polynomials alternate with decreasing terms x^d / d!, and waves are damped by at most
the half of the sum of x_l Y_l per step, which leaves the limit of the elastic scheme unchanged.

**Relaxation of the stresses of elements with attenuation on the CPU.** Memory
variables are arranged as coefficients, with six stresses of each mechanism as quantities: (blocks, functions,
mechanisms, 6, lanes).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import U, exact_row, multiply_add, row
from lithowave.physics import isotropic_stiffness, voigt_average
from lithowave.rheology import RelaxationBody
from lithowave.solvers.discontinuous_galerkin.materials import (
    LANES,
    QUANTITIES,
    STRESSES,
    ElementMaterials,
    law_numbers,
)
from lithowave.solvers.discontinuous_galerkin.reference import make_reference
from lithowave.solvers.elements.plan import negative_moduli

if TYPE_CHECKING:
    from lithowave.mesh.tetrahedra import TetrahedralMesh

LARGEST_STEP = 1.0
"""Largest product of a relaxation rate and a time step."""

NORMAL = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


def mean_factors(x: np.ndarray, order: int) -> np.ndarray:
    """Return gamma_d(x) for d = 1 to order - 1 along the last axis, for x up to about 2."""
    found = np.zeros((*np.shape(x), order - 1))
    for d in range(1, order):
        term = np.ones(np.shape(x))
        for j in range(1, 30):
            found[..., d - 1] += term
            term = -term * x / (d + j)
    return found


def recursion(body: RelaxationBody, time_steps: np.ndarray, order: int) -> np.ndarray:
    """Return x_l and gamma_1(x_l), gamma_2(x_l), ... of time steps (n,), s: (n, mechanisms, order)."""
    x = np.multiply.outer(time_steps, body.rates)
    return np.concatenate([x[..., None], mean_factors(x, order)], axis=-1)


def step_limits(materials: ElementMaterials, count: int) -> np.ndarray:
    """Return the largest time step (count,), s, that relaxation allows in each of this rank's elements."""
    found = np.full(count, np.inf)
    if materials.body is not None:
        found[materials.mechanisms(count) > 0] = LARGEST_STEP / materials.body.rates.max()
    return found


def relaxing_numbers(materials: ElementMaterials, elements: np.ndarray, anisotropic: bool) -> np.ndarray:
    """Return the coefficients of attenuation of some elements: Y_l of mu and Y_l of kappa less Y_l of mu, for each
    mechanism, and with `anisotropic` those of `isotropic_stresses`."""
    assert materials.body is not None and materials.inverse_quality is not None
    bulk, shear = materials.body.weights(materials.inverse_quality[elements].T).swapaxes(0, 1)
    numbers = np.stack([shear, bulk - shear], axis=1).reshape(-1, len(elements)).T
    return np.column_stack([numbers, isotropic_stresses(materials, elements)]) if anisotropic else numbers


def isotropic_stresses(materials: ElementMaterials, elements: np.ndarray) -> np.ndarray:
    """Return matrices for some elements that give, from a stress, the stress (6, 6) and p (6) which the same strain has
    in the isotropic average: (n, 42)."""
    stiffness = materials.matrix(elements)
    kappa, mu = voigt_average(stiffness)
    compliance = np.linalg.pinv(stiffness, rcond=1e-10, hermitian=True)  # a fluid has no strain but that of volume
    trace = kappa[:, None] * np.einsum("i,nij->nj", NORMAL, compliance)
    stress = isotropic_stiffness(kappa - 2.0 / 3.0 * mu, mu) @ compliance
    return np.column_stack([stress.reshape(-1, STRESSES * STRESSES), trace])


def require_positive(materials: ElementMaterials, mesh: TetrahedralMesh) -> None:
    """Require that the relaxed moduli of anisotropic elements are positive.

    Raises
    ------
    InputError : the isotropic change of the moduli exceeds the smallest stiffness of a medium.
    """
    if materials.body is None or materials.inverse_quality is None:
        return
    count = mesh.element_count
    anisotropic = np.flatnonzero(materials.anisotropic[:count] & (materials.mechanisms(count) > 0))
    media = np.column_stack([materials.number[anisotropic], materials.inverse_quality[anisotropic]])
    _, first = np.unique(media, axis=0, return_index=True)
    for element in anisotropic[first]:
        stiffness = materials.matrix(np.array([element]))
        bulk, shear = materials.body.weights(materials.inverse_quality[element]).sum(axis=0)
        kappa, mu = voigt_average(stiffness)
        relaxed = stiffness - isotropic_stiffness(bulk * kappa - 2.0 / 3.0 * shear * mu, shear * mu)
        if np.linalg.eigvalsh(relaxed).min() <= 0.0:
            raise negative_moduli(mesh.element_id(int(element)))


def average_quality(
    parts: np.ndarray, moduli: tuple[np.ndarray, np.ndarray], losses: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return 1/Qkappa and 1/Qmu (n, 2) of elements whose compliances 1/M and 1/mu are averages over points.

    As the compliances of weakly attenuating media are (1 - i/Q) / M, the averages of 1/(M Q) follow.

    parts : weights of the points (n, points). moduli : M = lambda + 2 mu and mu there, Pa. losses : 1/Qkappa, 1/Qmu.
    """
    p_modulus, mu = moduli
    bulk, shear = losses
    fluid = mu == 0.0
    p_loss = (1.0 - 4.0 / 3.0 * mu / p_modulus) * bulk + 4.0 / 3.0 * mu / p_modulus * shear
    p_soft, s_soft = parts / p_modulus, np.where(fluid, 0.0, parts / np.where(fluid, 1.0, mu))
    p_sum, s_sum = p_soft.sum(axis=1), s_soft.sum(axis=1)
    s_mean = np.divide((s_soft * shear).sum(axis=1), s_sum, out=np.zeros(len(parts)), where=s_sum > 0.0)
    share = np.divide(4.0 / 3.0 * p_sum, s_sum, out=np.zeros(len(parts)), where=s_sum > 0.0)
    p_mean = (p_soft * p_loss).sum(axis=1) / p_sum
    return np.column_stack([np.maximum(p_mean - share * s_mean, 0.0) / (1.0 - share), s_mean])


S = U(STRESSES)


def work_values(order: int, mechanisms: int) -> int:
    """Return the number of values per lane of the Taylor terms of memory variables."""
    return max(1, STRESSES * mechanisms * make_reference(order).levels[2])


@lru_cache
def make_driver(order: int, anisotropic: bool, layer: bool, precision: str) -> Callable[..., None]:
    """Return a function that writes s (6) and p of the isotropic average, from stresses of one function, all lanes."""
    L = U(LANES[precision])

    @exact_row
    def isotropic(x, i, law, at, drive):
        for w in range(S * L):
            drive[w] = x[i + w]
        for w in range(L):
            drive[S * L + w] = (x[i + w] + x[i + L + w] + x[i + L + L + w]) / 3

    @exact_row
    def average(x, i, law, at, drive):
        for q in range(S + U(1)):
            for w in range(L):
                total = x[i + w] * U(0)
                for j in range(S):
                    total = multiply_add(law[at + (q * S + j) * L + w], x[i + j * L + w], total)
                drive[q * L + w] = total

    return average if anisotropic else isotropic


@lru_cache
def make_relaxation(
    order: int, anisotropic: bool, layer: bool, mechanisms: int, precision: str, damped: bool = True
) -> tuple[Callable[..., None], Callable[..., float]]:
    """Return the function that adds the contributions of faces to memory variables, and one that returns, for d, the
    function that subtracts relaxation from the Taylor terms E^d; without mechanisms, they do nothing.

    damped : add_faces then also damps, in a damped layer. All operations are rounded as they stand: an element has the
    same bits in any lane, and after a restart.
    """
    reference = make_reference(order)
    L, N, W = U(LANES[precision]), U(mechanisms), U(QUANTITIES * LANES[precision])
    ROWS, SPAN = U(reference.levels[1]), N * S * L
    WEIGHTS = U(law_numbers(anisotropic, layer)) * L
    STRAIN, DAMPING = WEIGHTS + U(2) * N * L, WEIGHTS - L
    DRIVE = S * L + L
    dtype = np.dtype(np.float32 if precision == "single" else np.float64).type
    fill_drive = make_driver(order, anisotropic, layer, precision)

    @row
    def leave(jumps, law, at, past, place):
        pass

    @row
    def no_level(terms, law, at, past, place, work, rates):
        pass

    if not mechanisms:
        return leave, lambda d: no_level

    @exact_row
    def add_faces(jumps, law, at, past, place):
        """Add F of the contributions of the faces, `jumps`, to the memory variables."""
        drive = np.empty(DRIVE, dtype)
        for r in range(ROWS):
            fill_drive(jumps, r * W, law, at + STRAIN, drive)
            for n in range(N):
                g = at + WEIGHTS + U(2) * n * L
                for q in range(S):
                    for w in range(L):
                        m = place + r * SPAN + (n * S + q) * L + w
                        force = law[g + w] * drive[q * L + w]
                        if q < U(3):
                            force = multiply_add(law[g + L + w], drive[S * L + w], force)
                        past[m] += force
                        if layer and damped:
                            past[m] *= law[at + DAMPING + w]

    def make_rows(d: int, last: bool) -> Callable[..., None]:
        """Return a function for the functions between those of two levels. last : these have no further terms."""
        begin, end = (reference.levels[d + 1], reference.levels[d]) if last else (0, reference.levels[d + 1])
        BEGIN, END, FIRST, SHARE = U(begin), U(end), d == 1, dtype(1 / d)
        FACTOR, ORDER = U(d), U(order)

        @exact_row
        def rows(terms, law, at, past, place, work, rates):
            drive = np.empty(DRIVE, dtype)
            for r in range(BEGIN, END):
                fill_drive(terms, r * W, law, at + STRAIN, drive)
                for n in range(N):
                    g = at + WEIGHTS + U(2) * n * L
                    x, gamma = -SHARE * rates[n * ORDER], rates[n * ORDER + FACTOR]
                    for q in range(S):
                        for w in range(L):
                            k = r * SPAN + (n * S + q) * L + w
                            force = law[g + w] * drive[q * L + w]
                            if q < U(3):
                                force = multiply_add(law[g + L + w], drive[S * L + w], force)
                            before = past[place + k] if FIRST else work[k]
                            change = multiply_add(x, before, force)
                            if last:
                                change *= gamma
                                terms[r * W + q * L + w] -= force - change
                            else:
                                work[k] = change
                                t = r * W + q * L + w
                                terms[t] = multiply_add(x, before, terms[t])
                            past[place + k] += change

        return rows

    def make_level(d: int) -> Callable[..., None]:
        """Return the function for the Taylor terms E^d in `terms`."""
        lower, upper = make_rows(d, False), make_rows(d, True)

        @row
        def relax(terms, law, at, past, place, work, rates):
            """rates : x and gamma of each mechanism, of the block's cluster. work : u^(d - 1), then u^d."""
            lower(terms, law, at, past, place, work, rates)
            upper(terms, law, at, past, place, work, rates)

        return relax

    return add_faces, make_level
