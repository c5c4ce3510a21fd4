r"""Element forces of fluids on the CPU: the readable specification.

The unknown of a fluid is the velocity potential phi, with v = grad phi / rho and the pressure P = -d phi / dt (see
`solver`). In the notation of `element_kernels`, an element adds to the momenta of its points

.. math::
    -\sum_d \sum_q w_q\, \partial_d N_a(q)\, F^d(q), \qquad
    F^d = \sum_m v_m M_{dm}, \qquad v = \frac{1}{\rho J} (\partial \phi\, M) .

phi and its momentum are the first component of the points; the others remain zero. In an absorbing layer, derivatives
and velocities pass through the filters of `layers`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numba
import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import FAST, U, row
from lithowave.backends.rounding import flush_denormals, restore_rounding
from lithowave.solvers.spectral_element.element_layout import LANES, MAP_VALUES
from lithowave.solvers.spectral_element.element_lines import (
    MAP_POWERS,
    dot,
    make_collapse,
    make_metric,
    monomials,
    room,
)
from lithowave.solvers.spectral_element.gll import derivative_matrix, gll_points, gll_weights
from lithowave.solvers.spectral_element.layers import LINE_VALUES


@row
def divided_one(x, memory, at, inverse, a, c):
    """Return a value divided by a stretching; update its memory variable. inverse : 1 / b."""
    m = memory[at]
    x = (x - m) * inverse
    memory[at] = c * x + a * m
    return x


@row
def unstretched_one(x, memory, at, filters, filter_at, step):
    """Return a derivative divided by the stretching of its axis; update its memory variable."""
    b, a, c = abs(filters[filter_at]), filters[filter_at + step], filters[filter_at + step + step]
    return divided_one(x, memory, at, filters.dtype.type(1) / b, a, c)


@row
def released_one(x, memory, at, filters, filter_at, step):
    """Return a force divided by a stretching of its point, or unchanged where the layer begins (b < 0)."""
    b, a, c = filters[filter_at], filters[filter_at + step], filters[filter_at + step + step]
    one, zero = filters.dtype.type(1), filters.dtype.type(0)
    inside = b > zero
    return divided_one(x, memory, at, one / b if inside else one, a if inside else zero, c if inside else zero)


@row
def divided_inside_one(x, memory, at, lines, line, lanes):
    """Return a force divided by the stretching along its direction, unchanged where the layer begins."""
    inverse, a, c = lines[line], lines[line + lanes], lines[line + U(2) * lanes]
    inside = lines[line + U(6) * lanes] == lines.dtype.type(0)
    m = memory[at]
    x = (x - m) * inverse if inside else x
    memory[at] = c * x + a * m if inside else m
    return x


@row
def multiplied_outside_one(x, memory, at, lines, line, lanes):
    """Return a force times the stretching of another direction where the layer begins, unchanged inside."""
    a, c, b = lines[line + lanes], lines[line + U(2) * lanes], lines[line + U(6) * lanes]
    begins = b > lines.dtype.type(0)
    m = memory[at]
    memory[at] = c * x + a * m if begins else m
    return b * x + m if begins else x


@row
def stretched_one(x, memory, at, filters, filter_at, step):
    """Return a velocity times the stretching of an axis; update its memory variable."""
    b, a, c = abs(filters[filter_at]), filters[filter_at + step], filters[filter_at + step + step]
    m = memory[at]
    memory[at] = c * x + a * m
    return b * x + m


@lru_cache
def make_add_fluid_forces(
    degree: int, shape: str, varying: bool, axes: int, precision: str, aligned: bool = False
) -> Callable[..., None]:
    """Return the kernel for fluid elements of this degree and shape (see `elements.ElementKind.map`).

    varying : True for 1 / rho at each point, False for one value per element. axes : active axes of an absorbing layer,
    or local directions if aligned.
    """
    powers, affine = MAP_POWERS[shape], shape in ("cuboid", "affine")
    GEOMETRY = U(MAP_VALUES["cpu"][shape] * LANES)
    collapse, (metric, derivatives, fluxes) = make_collapse(shape), make_metric(shape)
    dtype = np.dtype(np.float32 if precision == "single" else np.float64)
    n = degree + 1
    derivative = derivative_matrix(degree).astype(dtype)
    rows, columns = tuple(map(tuple, derivative)), tuple(map(tuple, derivative.T.copy()))
    weights = tuple(gll_weights(degree).astype(dtype))
    values, slopes_y, slopes_z, lines, line_slopes = monomials(gll_points(degree), powers, dtype)
    ONE, N, W, P = U(1), U(n), U(LANES), U(n**3 * LANES)
    SPREAD = P if varying else W
    filter_total = 2 * axes + 1 if aligned else 4 * axes + 1 if axes else 0
    NODE = U(axes if aligned else 3 * axes) * P  # the first memory variable of forces
    RUB, MEMORY = NODE + U(axes) * P, U(filter_total) * P
    FRICTION = U(3 * axes) * P  # its first coefficient
    LINES = U(LINE_VALUES * n * LANES)
    FILTER = U(axes) * LINES if aligned else U(3 * axes + 3) * P if axes else U(0)
    rotated = axes > 0 and not aligned
    STEP_J, STEP_K = U(n * LANES), U(n * n * LANES)

    @row
    def turned(p, q, r, direction):
        """Return three values for i, j and k in the order that begins with a direction."""
        x = p if direction == U(0) else q if direction == U(1) else r
        y = q if direction == U(0) else r if direction == U(1) else p
        z = r if direction == U(0) else p if direction == U(1) else q
        return x, y, z

    @row
    def unstretched_along(i, j, k, memory, m, lines, lines_at, w, direction):
        """Return the derivatives along the local directions, divided by the stretching of the active ones."""
        x, y, z = turned(i, j, k, direction)
        s = lines_at[0] + w
        x = divided_one(x, memory, m, lines[s], lines[s + W], lines[s + U(2) * W])
        if axes > 1:
            s = lines_at[1] + w
            y = divided_one(y, memory, m + P, lines[s], lines[s + W], lines[s + U(2) * W])
        if axes > 2:
            s = lines_at[2] + w
            z = divided_one(z, memory, m + U(2) * P, lines[s], lines[s + W], lines[s + U(2) * W])
        return turned(x, y, z, (U(3) - direction) % U(3))

    @row
    def released_along(i, j, k, memory, m, lines, lines_at, w, direction):
        """Return the sum of the forces along the local directions, released from the stretching and the friction."""
        x, y, z = turned(i, j, k, direction)
        s0, s1, s2 = lines_at[0] + w, lines_at[1] + w, lines_at[2] + w
        x = divided_inside_one(x, memory, m + NODE, lines, s0, W)
        if axes > 1:
            y = divided_inside_one(y, memory, m + NODE + P, lines, s1, W)
        if axes > 2:
            z = divided_inside_one(z, memory, m + NODE + U(2) * P, lines, s2, W)
        # Along at most one axis the layer begins here: the forces of the other two directions are multiplied.
        total = x + multiplied_outside_one(y + z, memory, m + NODE, lines, s0, W)
        if axes > 1:
            total = y + multiplied_outside_one(total - y, memory, m + NODE + P, lines, s1, W)
        if axes > 2:
            total = z + multiplied_outside_one(total - z, memory, m + NODE + U(2) * P, lines, s2, W)
        s = s0 + U(3) * W
        inverse, p, q = lines[s], lines[s + W], lines[s + U(2) * W]
        if axes > 1:
            s = s1 + U(3) * W
            stronger = lines[s] > inverse
            inverse = lines[s] if stronger else inverse
            p, q = lines[s + W] if stronger else p, lines[s + U(2) * W] if stronger else q
        if axes > 2:
            s = s2 + U(3) * W
            stronger = lines[s] > inverse
            inverse = lines[s] if stronger else inverse
            p, q = lines[s + W] if stronger else p, lines[s + U(2) * W] if stronger else q
        return divided_one(total, memory, m + RUB, inverse, p, q)

    @row
    def lines_of(first, i, j, k, direction):
        """Return the places of the coefficients of a point along the directions, the active ones first."""
        x, y, z = turned(i, j, k, direction)
        step = U(LINE_VALUES * LANES)
        return first + x * step, first + LINES + y * step, first + U(2) * LINES + z * step

    @row
    def fluxes_at(
        u, f, line, mobility, first, weight, i, i_row, j_row, k_row, line_i, line_j, line_k, slope, value,
        memory, memory_first, filters, filters_first, lines_at, direction,
    ):  # fmt: skip
        """Compute F^d at a point of all lanes: d is the slow index of f."""
        for w in range(W):
            cofactors, scale = metric(line, w, slope, value, weight)
            along_i, along_j = dot(i_row, u, line_i + w, W), dot(j_row, u, line_j + w, STEP_J)
            along_k = dot(k_row, u, line_k + w, STEP_K)
            o = line_i + i * W + w
            m, s = memory_first + o, filters_first + o
            if aligned:
                along_i, along_j, along_k = unstretched_along(
                    along_i, along_j, along_k, memory, m, filters, lines_at, w, direction
                )
            x, y, z = derivatives(cofactors, along_i, along_j, along_k)
            if rotated:
                x = unstretched_one(x, memory, m, filters, s, P)
            if rotated and axes > 1:
                y = unstretched_one(y, memory, m + U(3) * P, filters, s + U(3) * P, P)
            if rotated and axes > 2:
                z = unstretched_one(z, memory, m + U(6) * P, filters, s + U(6) * P, P)
            factor = scale * mobility[first + w]
            x, y, z = factor * x, factor * y, factor * z
            if rotated:
                y = stretched_one(y, memory, m + P, filters, s, P)
                z = stretched_one(z, memory, m + U(2) * P, filters, s, P)
            if rotated and axes > 1:
                x = stretched_one(x, memory, m + U(4) * P, filters, s + U(3) * P, P)
                z = stretched_one(z, memory, m + U(5) * P, filters, s + U(3) * P, P)
            if rotated and axes > 2:
                x = stretched_one(x, memory, m + U(7) * P, filters, s + U(6) * P, P)
                y = stretched_one(y, memory, m + U(8) * P, filters, s + U(6) * P, P)
            f[o], f[P + o], f[U(2) * P + o] = fluxes(cofactors, x, y, z)

    @row
    def divergence_at(f, a, i, i_column, j_column, k_column, line_i, line_j, line_k):
        """Return minus the sum over the points of the three lines of D F."""
        for w in range(W):
            a[line_i + i * W + w] = -(
                dot(i_column, f, line_i + w, W)
                + dot(j_column, f, P + line_j + w, STEP_J)
                + dot(k_column, f, U(2) * P + line_k + w, STEP_K)
            )

    @row
    def layer_divergence_at(
        f, a, i, i_column, j_column, k_column, line_i, line_j, line_k, memory, memory_first, filters, filters_first,
        lines_at, direction,
    ):  # fmt: skip
        """As `divergence_at`, released from the stretching and the friction of the point."""
        for w in range(W):
            o = line_i + i * W + w
            m, s = memory_first + o, filters_first + o
            x, y = dot(i_column, f, line_i + w, W), dot(j_column, f, P + line_j + w, STEP_J)
            z = dot(k_column, f, U(2) * P + line_k + w, STEP_K)
            if aligned:
                total = released_along(x, y, z, memory, m, filters, lines_at, w, direction)
            else:
                total = released_one(x + y + z, memory, m + NODE, filters, s, P)
                if axes > 1:
                    total = released_one(total, memory, m + NODE + P, filters, s + U(3) * P, P)
                if axes > 2:
                    total = released_one(total, memory, m + NODE + U(2) * P, filters, s + U(6) * P, P)
                total = unstretched_one(total, memory, m + RUB, filters, s + FRICTION, P)
            a[o] = -total

    @row
    def gather(first, points, displacement, momentum, u):
        """Load phi at the points of a block; update that inside elements, which no other element shares."""
        for k in range(ONE, N - ONE):
            for j in range(ONE, N - ONE):
                for i in range(ONE, N - ONE):
                    for w in range(W):
                        point = points[first + k * STEP_K + j * STEP_J + i * W + w]
                        displacement[point, 0] += displacement[point, 3] * momentum[point, 0]
        for q in range(P):
            u[q] = displacement[points[first + q], 0]

    @row
    def block(
        first, points, displacement, momentum, mobility, mobility_first, coefficients, base, u, f, a, line,
        memory, memory_first, filters, filters_first, direction,
    ):  # fmt: skip
        gather(first, points, displacement, momentum, u)
        for k in range(N):
            for j in range(N):
                kj = k * N + j
                if not affine or kj == 0:  # the map of a parallelepiped is the same on all lines
                    collapse(coefficients, base, line, values[kj], slopes_y[kj], slopes_z[kj])
                for i in range(N):
                    at = k * STEP_K + j * STEP_J
                    fluxes_at(
                        u, f, line, mobility, mobility_first + (at + i * W if varying else U(0)),
                        weights[k] * weights[j] * weights[i], i, rows[i], rows[j], rows[k],
                        at, k * STEP_K + i * W, j * STEP_J + i * W, line_slopes[i], lines[i],
                        memory, memory_first, filters, filters_first,
                        lines_of(filters_first, i, j, k, direction), direction,
                    )  # fmt: skip
        for k in range(N):
            for j in range(N):
                for i in range(N):
                    if axes > 0:
                        layer_divergence_at(
                            f, a, i, columns[i], columns[j], columns[k],
                            k * STEP_K + j * STEP_J, k * STEP_K + i * W, j * STEP_J + i * W,
                            memory, memory_first, filters, filters_first,
                            lines_of(filters_first, i, j, k, direction), direction,
                        )  # fmt: skip
                    else:
                        divergence_at(
                            f, a, i, columns[i], columns[j], columns[k],
                            k * STEP_K + j * STEP_J, k * STEP_K + i * W, j * STEP_J + i * W,
                        )  # fmt: skip
        for q in range(P):
            momentum[points[first + q], 0] += a[q]

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def add_forces(
        displacement, momentum, points, mobility, geometry, memory, filters, first_axis, first_block, order, begin,
        u_room, f_room, a_room, line_room,
    ):  # fmt: skip
        geometry_size = GEOMETRY
        flat_points, flat_mobility, flat_geometry = points.reshape(-1), mobility.reshape(-1), geometry.reshape(-1)
        flat_memory, flat_filters = memory.reshape(-1), filters.reshape(-1)
        tasks, direction = u_room.shape[0], U(first_axis)
        for color in range(begin.size - 1):
            start, count = begin[color], begin[color + 1] - begin[color]
            for task in prange(tasks):
                before = flush_denormals()
                u, f, a, line = u_room[task], f_room[task], a_room[task], line_room[task]
                for number in range(start + count * task // tasks, start + count * (task + 1) // tasks):
                    b = U(order[number])
                    own = b - U(first_block)
                    block(
                        b * P, flat_points, displacement, momentum, flat_mobility, own * SPREAD,
                        flat_geometry, own * geometry_size, u, f, a, line,
                        flat_memory, own * MEMORY, flat_filters, own * FILTER, direction,
                    )  # fmt: skip
                restore_rounding(before)

    def add(
        displacement, momentum, points, moduli, geometry, memory, filters, relaxing, relaxation, recursion,
        first_axis, first_block, shared, moves, order, begin,
    ):  # fmt: skip
        """See `element_lines.py`; moduli : 1 / rho. Blocks of one color share no point."""
        rooms = room(numba.get_num_threads(), n**3 * LANES, 9 * powers * LANES, dtype, 1)
        add_forces(
            displacement, momentum, points, moduli, geometry, memory, filters, first_axis, first_block, order, begin,
            *rooms,
        )  # fmt: skip

    return add
