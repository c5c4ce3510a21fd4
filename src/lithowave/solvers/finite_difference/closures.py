r"""Summation-by-parts closures of the staggered Taylor operators.

Next to a face the entries of :math:`Q = H_h G` (a block of rows for half nodes and columns for nodes) and the diagonal
weights :math:`H_n, H_h` are unknown; beyond, they are those of the interior stencil. The condition that both

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
