"""Inversion of the maps of elements: reference coordinates of points, by Newton's method, for many points at a time."""

from __future__ import annotations

import numpy as np

from lithowave.backends.loops import exact_part

ITERATIONS, HALVINGS = 51, 6  # the last iteration is one more than those that may converge
CONVERGED, ROUND_OFF = 1e-12, 1e-8  # steps in reference coordinates


@exact_part
def invert_maps(first, end, nodes, element, points, q, order, line, xi):  # pragma: no cover - compiled
    """Compute rows first..end - 1 of xi (m, 3) of `points` (m, 3) in elements (m,) of `nodes` (n, 8 or 27, 3); NaN
    without solution.

    q : nodes along an axis. order : index in tensor order of each node. line : coordinates of the grid of starting
    points.
    """
    tensor, tables = np.empty((3, q, q, q)), np.empty((2, 3, q))
    for row in range(first, end):
        own = nodes[element[row]]
        for a in range(len(order)):
            k, rest = divmod(order[a], q * q)
            for c in range(3):
                tensor[c, k, rest // q, rest % q] = own[a, c]
        _solve(tensor, points[row], line, tables, xi[row])


@exact_part
def _solve(tensor, point, line, tables, xi):  # pragma: no cover - compiled
    """Compute xi of a point: NaN if the iteration diverges or does not converge."""
    misfit, trial, matrix, step = np.empty(3), np.empty(3), np.empty((3, 3)), np.empty(3)
    _start(tensor, point, line, tables, xi)
    last = False
    for _ in range(ITERATIONS):
        moved = _newton_step(tensor, point, tables, xi, misfit, matrix, step, trial)
        for d in range(3):
            xi[d] += step[d]
        if last:
            return
        last = moved < CONVERGED
        if not np.isfinite(moved):
            break
    for d in range(3):
        xi[d] = np.nan


@exact_part
def _start(tensor, point, line, tables, xi):  # pragma: no cover - compiled
    """Set xi to the nearest point of a grid."""
    q, nearest = tensor.shape[1], np.inf
    plane, row = np.empty((3, q, q)), np.empty((3, q))
    for d in range(3):
        xi[d] = 0.0
    for z in line:
        _polynomials(z, tables[0, 0], tables[1, 0])
        for c in range(3):
            for j in range(q):
                for i in range(q):
                    total = 0.0
                    for k in range(q):
                        total += tables[0, 0, k] * tensor[c, k, j, i]
                    plane[c, j, i] = total
        for y in line:
            _polynomials(y, tables[0, 0], tables[1, 0])
            for c in range(3):
                for i in range(q):
                    total = 0.0
                    for j in range(q):
                        total += tables[0, 0, j] * plane[c, j, i]
                    row[c, i] = total
            for x in line:
                _polynomials(x, tables[0, 0], tables[1, 0])
                distance = 0.0
                for c in range(3):
                    total = point[c]
                    for i in range(q):
                        total -= tables[0, 0, i] * row[c, i]
                    distance += total**2
                if distance < nearest:
                    nearest, xi[0], xi[1], xi[2] = distance, x, y, z


@exact_part
def _polynomials(x, value, slope):  # pragma: no cover - compiled
    """Compute the polynomials of the nodes along an axis, and their slopes."""
    if value.size == 2:
        value[0], value[1], slope[0], slope[1] = (1.0 - x) / 2.0, (1.0 + x) / 2.0, -0.5, 0.5
    else:
        value[0], value[1], value[2] = x * (x - 1.0) / 2.0, 1.0 - x * x, x * (x + 1.0) / 2.0
        slope[0], slope[1], slope[2] = x - 0.5, -2.0 * x, x + 0.5


@exact_part
def _misfit(tensor, point, tables, xi, misfit):  # pragma: no cover - compiled
    """Compute the vector from the image of xi to the point; return its squared length."""
    for d in range(3):
        _polynomials(xi[d], tables[0, d], tables[1, d])
    value, q = tables[0], tensor.shape[1]
    for c in range(3):
        total = 0.0
        for k in range(q):
            for j in range(q):
                along = 0.0
                for i in range(q):
                    along += value[0, i] * tensor[c, k, j, i]
                total += value[2, k] * value[1, j] * along
        misfit[c] = point[c] - total
    return misfit[0] ** 2 + misfit[1] ** 2 + misfit[2] ** 2


@exact_part
def _newton_step(tensor, point, tables, xi, misfit, matrix, step, trial):  # pragma: no cover - compiled
    """Compute the next step; return its largest component."""
    distance = _misfit(tensor, point, tables, xi, misfit)
    value, slope, q = tables[0], tables[1], tensor.shape[1]
    for c in range(3):
        along_x = along_y = along_z = 0.0
        for k in range(q):
            for j in range(q):
                total = turned = 0.0
                for i in range(q):
                    total += value[0, i] * tensor[c, k, j, i]
                    turned += slope[0, i] * tensor[c, k, j, i]
                along_x += value[2, k] * value[1, j] * turned
                along_y += value[2, k] * slope[1, j] * total
                along_z += slope[2, k] * value[1, j] * total
        matrix[c, 0], matrix[c, 1], matrix[c, 2] = along_x, along_y, along_z
    moved = _solve_linear(matrix, misfit, step)
    if moved > 1.0:
        for d in range(3):
            step[d] /= moved
        moved = 1.0
    for _ in range(HALVINGS):
        # Steps at the level of round-off may fail to reduce the misfit.
        for d in range(3):
            trial[d] = xi[d] + step[d]
        if not (_misfit(tensor, point, tables, trial, misfit) > distance and moved > ROUND_OFF):
            break
        for d in range(3):
            step[d] /= 2.0
        moved /= 2.0
    return moved


@exact_part
def _solve_linear(matrix, right, solution):  # pragma: no cover - compiled
    """Solve a system of three equations by cofactors; return the largest component, NaN if there is none."""
    determinant = 0.0
    for d in range(3):
        e, f = (d + 1) % 3, (d + 2) % 3
        solution[d] = 0.0
        for c in range(3):
            r, s = (c + 1) % 3, (c + 2) % 3
            cofactor = matrix[r, e] * matrix[s, f] - matrix[r, f] * matrix[s, e]
            solution[d] += cofactor * right[c]
            if d == 0:
                determinant += matrix[c, 0] * cofactor
    largest = 0.0
    for d in range(3):
        solution[d] /= determinant
        largest = max(largest, abs(solution[d]))
        if np.isnan(solution[d]):
            return np.nan
    return largest
