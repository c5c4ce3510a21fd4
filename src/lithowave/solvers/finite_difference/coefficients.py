r"""Finite-difference coefficients and the closures of the stencils at flat faces.

Inside the grid a first derivative half a cell away from its samples is

.. math:: h\, f'(x) \approx \sum_{m=1}^{M} c_m \left[ f(x + (m-\tfrac12)h) - f(x - (m-\tfrac12)h) \right],

with M = order / 2. At a free or rigid face the stencil would reach outside the grid. There the two derivatives, from
nodes to half nodes (G) and from half nodes to nodes (D), are replaced by a *summation-by-parts* pair: with the diagonal
weights :math:`H_n` (nodes) and :math:`H_h` (half nodes), both positive,

.. math:: H_h G = Q, \qquad H_n D = -Q^T - e_0 e^T,

counted from the face inward, where e extrapolates to the face. The boundary term vanishes for a free surface (traction
zero) and for a rigid face (velocity zero), so the discrete energy is conserved exactly, the scheme is stable for any
material contrast, and reciprocity holds up to round-off. `coefficients.py` computes Q and the weights.

**Summation-by-parts closures of the staggered Taylor operators.** Next to a face the entries of :math:`Q = H_h G` (a
block of rows for half nodes and columns for nodes) and the diagonal weights :math:`H_n, H_h` are unknown; beyond, they
are those of the interior stencil. The condition that both

.. math:: G u = u', \qquad D v = H_n^{-1}(-Q^T - e_0 e^T) v = v'

be exact for polynomials up to degree p is linear in all unknowns. If the conditions leave freedom, the solution nearest
to the interior stencil is used, which (nearly) preserves the largest stable time step. (Optimizing only the velocity of
Rayleigh waves degrades the reflection of body waves.) At order 4 the solution is unique, H_n = (7/18, 9/8, 1, 71/72)
and H_h = (13/12, 7/8, 25/24). Orders 6 and 8 have closures of the same size and degree: with a degree of 3 their inner
rows have five to ten times the error, which degrades the near field of a shallow source (by 10% at four cells), while
Rayleigh waves of five points per wavelength gain 0.2%.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

ORDERS = (2, 4, 6, 8)


def taylor_coefficients(order: int) -> np.ndarray:
    """Return the coefficients c_m, m = 1..order/2, of the staggered first derivative of this order."""
    distance = np.arange(1, order // 2 + 1) - 0.5
    powers = np.arange(1, order, 2)
    right_side = np.zeros(order // 2)
    right_side[0] = 1.0
    return np.linalg.solve(2.0 * distance[None, :] ** powers[:, None], right_side)


@dataclass(frozen=True)
class FaceClosure:
    """Changes of the stencils at a face, counted from the face inward.

    node_change (depths, reach) : D minus the interior stencil, row d for node d, column e for half node e.
    half_change (depths, reach) : G minus the interior stencil, row d for half node d, column e for node e.
    node_weights, half_weights : H_n, H_h near the face; 1 beyond.
    """

    node_change: np.ndarray
    half_change: np.ndarray
    node_weights: np.ndarray
    half_weights: np.ndarray


def closed_summation(order: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Q, H_n, H_h for `count` half nodes: a closed face at node 0, the interior stencil at the far end."""
    coefficients = taylor_coefficients(order)
    closure = solve_closure(order, tuple(coefficients))
    summation = plain_summation(coefficients, count)
    summation[: closure.summation.shape[0], : closure.summation.shape[1]] = closure.summation
    node_weights, half_weights = np.ones(count + 1), np.ones(count)
    node_weights[: closure.node_weights.size] = closure.node_weights
    half_weights[: closure.half_weights.size] = closure.half_weights
    return summation, node_weights, half_weights


def face_closure(order: int) -> FaceClosure:
    """Return the closure of the Taylor operator of this order."""
    reach = SIZES[order][0] + order
    summation, node_weights, half_weights = closed_summation(order, 2 * reach)
    plain = plain_summation(taylor_coefficients(order), 2 * reach)
    half_change = summation / half_weights[:, None] - plain
    node_change = -summation.T / node_weights[:, None] + plain.T
    # Far rows repeat the interior stencil; the rows at the far end of this short line are cut off with them.
    depths = max(_used(change[:reach], axis=1) for change in (node_change, half_change))
    return FaceClosure(
        node_change=np.ascontiguousarray(node_change[:depths, : _used(node_change[:reach], axis=0)]),
        half_change=np.ascontiguousarray(half_change[:depths, : _used(half_change[:reach], axis=0)]),
        node_weights=node_weights[: SIZES[order][0]],
        half_weights=half_weights[: SIZES[order][1]],
    )


def _used(matrix: np.ndarray, axis: int) -> int:
    """Return the number of rows or columns (axis 0, 1) up to the last nonzero one; at least 1."""
    used = np.flatnonzero((np.abs(matrix) > 1e-12).any(axis=axis))
    return int(used[-1]) + 1 if used.size else 1


def derivative_norm(order: int, closed: bool) -> float:
    """Return the largest singular value of h d/dx in the weighted norm: 2 sum |c_m|, slightly more at a closed face."""
    plain = 2.0 * float(np.abs(taylor_coefficients(order)).sum())
    if not closed:
        return plain
    summation, node_weights, half_weights = closed_summation(order, 48)
    scaled = summation / np.sqrt(half_weights)[:, None] / np.sqrt(node_weights)[None, :]
    return max(plain, float(np.linalg.norm(scaled, 2)))


# order: (nodes, half nodes, degree p of the polynomials reproduced next to the face)
SIZES = {2: (1, 1, 1), 4: (4, 3, 2), 6: (4, 3, 2), 8: (4, 3, 2)}


@dataclass(frozen=True)
class Closure:
    """Coefficients of one closure, in units of the grid spacing, from the face inward.

    node_weights : H_n of the first nodes. half_weights : H_h of the first half nodes. summation : Q (half nodes,
    nodes).
    """

    node_weights: np.ndarray
    half_weights: np.ndarray
    summation: np.ndarray


def plain_summation(coefficients: np.ndarray, count: int) -> np.ndarray:
    """Return the interior stencil from `count` + 1 nodes to `count` half nodes, with zero samples outside."""
    summation = np.zeros((count, count + 1))
    for m, c in enumerate(coefficients):
        for row in range(count):
            if row + 1 + m <= count:
                summation[row, row + 1 + m] += c
            if row - m >= 0:
                summation[row, row - m] -= c
    return summation


@lru_cache
def solve_closure(order: int, coefficients: tuple[float, ...]) -> Closure:
    """Solve for the closure of the Taylor operator of this order, by least squares.

    Raises
    ------
    ArithmeticError
        if the conditions cannot be met or a weight is not positive (never for the operators of this package).
    """
    nodes, halves, degree = SIZES[order]
    plain = plain_summation(np.array(coefficients), nodes + halves + 2 * order)
    matrix, right_side = _conditions(nodes, halves, degree, plain)
    start = np.concatenate([np.ones(nodes + halves), plain[:halves, :nodes].ravel()])
    change, *_ = np.linalg.lstsq(matrix, right_side - matrix @ start, rcond=1e-11)
    solution = start + change
    closure = Closure(
        solution[:nodes], solution[nodes : nodes + halves], solution[nodes + halves :].reshape(halves, nodes)
    )
    met = np.abs(matrix @ solution - right_side).max() < 1e-9
    if not met or min(closure.node_weights.min(), closure.half_weights.min()) <= 0:
        raise ArithmeticError(f"no closure with positive weights for order {order}")
    return closure


def _conditions(nodes: int, halves: int, degree: int, plain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the accuracy conditions as a linear system for (H_n, H_h, Q): polynomials from the face."""
    rows, right_side = [], []
    x_node, x_half = np.arange(plain.shape[1], dtype=float), np.arange(plain.shape[0]) + 0.5

    def entry(half: int, node: int) -> int:
        return nodes + halves + half * nodes + node

    for q in range(degree + 1):
        u, v = x_node**q, x_half**q
        slope_half = q * x_half ** max(q - 1, 0)
        slope_node = q * x_node ** max(q - 1, 0)
        for half in range(halves):  # Q u = H_h u'.
            row = np.zeros(entry(halves, 0))
            row[[entry(half, node) for node in range(nodes)]] = u[:nodes]
            row[nodes + half] = -slope_half[half]
            rows.append(row)
            right_side.append(-plain[half, nodes:] @ u[nodes:])
        for node in range(nodes):  # H_n v' + Q^T v = -v(0) e_0, with the face at the low end.
            row = np.zeros(entry(halves, 0))
            row[[entry(half, node) for half in range(halves)]] = v[:halves]
            row[node] = slope_node[node]
            rows.append(row)
            face_value = 1.0 if q == 0 and node == 0 else 0.0
            right_side.append(-plain[halves:, node] @ v[halves:] - face_value)
    return np.array(rows), np.array(right_side)
