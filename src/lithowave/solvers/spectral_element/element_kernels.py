r"""Element forces on the CPU: the readable specification.

An element of degree N has n = N + 1 points along each local axis. With D_il = l_l'(xi_i), cofactors M = J inv(dx/dxi)
and weights w, an element adds to the momenta of its points

.. math::
    -\sum_d \sum_q w_q\, \partial_d N_a(q)\, F^d(q), \qquad
    F^d_c = \sum_m \sigma_{cm} M_{dm}, \qquad \sigma = C : \tfrac{1}{J} (\partial u\, M)

(Komatitsch & Tromp 1999, GJI 139, 806-822, in the products of their eqs. 39-44). With gravity, stresses and a body
force of `gravity` are added. In an absorbing layer, derivatives and stresses pass through the filters of
`layers`. With attenuation, the stresses of some points relax (see `relaxation`). All arrays have `LANES`
elements as their fastest index (see `element_layout`), so that a vector instruction processes all of them; inside
`block` they are flattened. The map x(xi) is stored as monomials: [component, power of zeta, of eta, of xi].
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
from lithowave.backends.rows import address, lane_rows, prefetch
from lithowave.solvers.spectral_element.element_kinds import ElementKind
from lithowave.solvers.spectral_element.element_layout import (
    LANES,
    MAP_VALUES,
    device_layout,
    pack_cuboid,
    pack_upright,
)
from lithowave.solvers.spectral_element.element_lines import (
    MAP_POWERS,
    dot,
    dots,
    make_anisotropic_law,
    make_collapse,
    make_isotropic_law,
    make_metric,
    monomials,
    room,
)
from lithowave.solvers.spectral_element.fluid_kernels import make_add_fluid_forces
from lithowave.solvers.spectral_element.gll import derivative_matrix, gll_points, gll_weights
from lithowave.solvers.spectral_element.layers import LINE_VALUES
from lithowave.solvers.spectral_element.materials import GRAVITY_VALUES
from lithowave.solvers.spectral_element.relaxation import COMPONENTS, carrier_count, carrier_indices


@row
def divided(x, y, z, memory, at, step, inverse, a, c):
    """Return three values divided by a stretching; update their memory variables. inverse : 1 / b."""
    p, q, r = memory[at], memory[at + step], memory[at + step + step]
    x, y, z = (x - p) * inverse, (y - q) * inverse, (z - r) * inverse
    memory[at], memory[at + step], memory[at + step + step] = c * x + a * p, c * y + a * q, c * z + a * r
    return x, y, z


@row
def unstretched(x, y, z, memory, at, filters, filter_at, step):
    """Return three derivatives divided by the stretching of their axis; update their memory variables."""
    b, a, c = abs(filters[filter_at]), filters[filter_at + step], filters[filter_at + step + step]
    return divided(x, y, z, memory, at, step, filters.dtype.type(1) / b, a, c)


@row
def released(x, y, z, memory, at, filters, filter_at, step):
    """Return three forces divided by a stretching of their point, or unchanged where the layer begins (b < 0)."""
    b, a, c = filters[filter_at], filters[filter_at + step], filters[filter_at + step + step]
    one, zero = filters.dtype.type(1), filters.dtype.type(0)
    inside = b > zero
    return divided(
        x, y, z, memory, at, step, one / b if inside else one, a if inside else zero, c if inside else zero
    )


@row
def divided_inside(x, y, z, memory, at, step, lines, line, lanes):
    """Return three forces divided by the stretching along their direction, unchanged where the layer begins."""
    inverse, a, c = lines[line], lines[line + lanes], lines[line + U(2) * lanes]
    inside = lines[line + U(6) * lanes] == lines.dtype.type(0)
    p, q, r = memory[at], memory[at + step], memory[at + step + step]
    x, y, z = (x - p) * inverse if inside else x, (y - q) * inverse if inside else y, (z - r) * inverse if inside else z
    memory[at], memory[at + step] = c * x + a * p if inside else p, c * y + a * q if inside else q
    memory[at + step + step] = c * z + a * r if inside else r
    return x, y, z


@row
def multiplied_outside(x, y, z, memory, at, step, lines, line, lanes):
    """Return three forces times the stretching of another direction where the layer begins, unchanged inside."""
    a, c, b = lines[line + lanes], lines[line + U(2) * lanes], lines[line + U(6) * lanes]
    begins = b > lines.dtype.type(0)
    p, q, r = memory[at], memory[at + step], memory[at + step + step]
    memory[at], memory[at + step] = c * x + a * p if begins else p, c * y + a * q if begins else q
    memory[at + step + step] = c * z + a * r if begins else r
    return b * x + p if begins else x, b * y + q if begins else y, b * z + r if begins else z


@row
def rubbed(x, y, z, memory, at, step, lines, lines_at, axes, lanes):
    """Return three forces divided by the friction of a point, that of the axis along which 1 / b is largest."""
    line = lines_at[0] + U(3) * lanes
    inverse, a, c = lines[line], lines[line + lanes], lines[line + U(2) * lanes]
    for number in range(U(1), U(axes)):
        line = lines_at[number] + U(3) * lanes
        stronger = lines[line] > inverse
        inverse = lines[line] if stronger else inverse
        a = lines[line + lanes] if stronger else a
        c = lines[line + U(2) * lanes] if stronger else c
    return divided(x, y, z, memory, at, step, inverse, a, c)


@row
def stretched(x, y, z, memory, at, filters, filter_at, step):
    """Return three stresses times the stretching of an axis; update their memory variables."""
    b, a, c = abs(filters[filter_at]), filters[filter_at + step], filters[filter_at + step + step]
    p, q, r = memory[at], memory[at + step], memory[at + step + step]
    memory[at], memory[at + step], memory[at + step + step] = c * x + a * p, c * y + a * q, c * z + a * r
    return b * x + p, b * y + q, b * z + r


@row
def relaxed(xx, xy, xz, yy, yz, zz, g, scale, moduli, at_moduli, memory, at, recursion, mechanisms, step):
    """Return stresses minus those of the mechanisms, whose memory variables are updated; g : gradient by rows."""
    trace = g[0] + g[4] + g[8]
    x, y, z = g[0] + g[0], g[4] + g[4], g[8] + g[8]
    p, q, r = g[5] + g[7], g[2] + g[6], g[1] + g[3]
    for n in range(U(mechanisms)):
        o, m = at_moduli + U(2) * n * step, at + U(6) * n * step
        lam, mu = scale * moduli[o], scale * moduli[o + step]
        b, a, c = recursion[n, 0], recursion[n, 1], recursion[n, 2]
        spread = lam * trace
        fx, fy, fz = spread + mu * x, spread + mu * y, spread + mu * z
        fp, fq, fr = mu * p, mu * q, mu * r
        mx, my, mz = memory[m], memory[m + step], memory[m + U(2) * step]
        mp, mq, mr = memory[m + U(3) * step], memory[m + U(4) * step], memory[m + U(5) * step]
        xx, yy, zz = xx - b * fx - mx, yy - b * fy - my, zz - b * fz - mz
        yz, xz, xy = yz - b * fp - mp, xz - b * fq - mq, xy - b * fr - mr
        memory[m], memory[m + step], memory[m + U(2) * step] = c * fx + a * mx, c * fy + a * my, c * fz + a * mz
        memory[m + U(3) * step], memory[m + U(4) * step] = c * fp + a * mp, c * fq + a * mq
        memory[m + U(5) * step] = c * fr + a * mr
    return xx, xy, xz, yy, yz, zz


@row
def with_gravity(xx, xy, xz, yx, yy, yz, zx, zy, zz, g, u, v, w, weight, volume, values, at, step):
    """Return stresses with those of gravity, by rows, and its body force; see `gravity`.

    g : gradient by rows, times J. u, v, w : displacement. values : h, p and q at `at`, `step` entries apart. weight,
    volume : of the point, without and with J.
    """
    hx, hy, hz = values[at], values[at + step], values[at + U(2) * step]
    p, q = values[at + U(3) * step], values[at + U(4) * step]
    half, along = 0.5 * weight, u * hx + v * hy + w * hz
    down, trace, rest = half * along, g[0] + g[4] + g[8], volume * q * along
    bx = half * (trace * hx - g[0] * hx - g[3] * hy - g[6] * hz) - volume * p * u - rest * hx
    by = half * (trace * hy - g[1] * hx - g[4] * hy - g[7] * hz) - volume * p * v - rest * hy
    bz = half * (trace * hz - g[2] * hx - g[5] * hy - g[8] * hz) - volume * p * w - rest * hz
    hx, hy, hz = half * hx, half * hy, half * hz
    xx, xy, xz = xx - down + u * hx, xy + v * hx, xz + w * hx
    yx, yy, yz = yx + u * hy, yy - down + v * hy, yz + w * hy
    zx, zy, zz = zx + u * hz, zy + v * hz, zz - down + w * hz
    return xx, xy, xz, yx, yy, yz, zx, zy, zz, bx, by, bz


def carrying_points(degree: int, carriers: int) -> tuple[np.uint64, ...]:
    """Return for each point of an element, k slowest, its index among those that carry memory variables of attenuation,
    or their number."""
    count = carrier_count(degree, carriers)
    places = np.full((degree + 1) ** 3, count)
    if carriers:
        places[carrier_indices(degree, carriers)] = np.arange(count)
    return tuple(U(place) for place in places)


@lru_cache
def make_add_forces(
    degree: int, shape: str, anisotropic: bool, varying: bool, axes: int, mechanisms: int, carriers: int,
    precision: str, gravity: bool = False, damped: bool = False, aligned: bool = False,
) -> Callable[..., None]:
    """Return the kernel for elements of this degree, this shape (see `elements.ElementKind.map`) and material type.

    varying : True for moduli at each point, False for one set per element. axes : active axes of an absorbing layer.
    mechanisms, carriers, gravity, damped, aligned : see `elements.ElementKind`; the values of gravity follow the
    moduli.

    The constants of the loops below must be known at compile time: otherwise the loops are not vectorized.
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
    make_law = make_anisotropic_law if anisotropic else make_isotropic_law
    stress = make_law(n**3 * LANES if varying else LANES)
    elastic = 21 if anisotropic else 2
    moduli_count = U(elastic + (GRAVITY_VALUES if gravity else 0))
    ONE, N, W, P, ZERO = U(1), U(n), U(LANES), U(n**3 * LANES), dtype.type(0)
    SPREAD = P if varying else W
    HEAVY = U(elastic) * SPREAD
    filter_total = 4 if damped else 2 * axes + 1 if aligned else 4 * axes + 1 if axes else 0
    NODE = U(9 if damped else 3 * axes if aligned else 9 * axes) * P  # the first memory variable of forces
    RUB, MEMORY = NODE + U(3 * axes) * P, U(3 * filter_total) * P
    FRICTION = U(3 * axes) * P  # its first coefficient
    LINES = U(LINE_VALUES * n * LANES)
    FILTER = U(axes) * LINES if aligned else U(3 * axes) * P if damped or not axes else U(3 * axes + 3) * P
    rotated = axes > 0 and not aligned
    carrying = carrying_points(degree, carriers)
    RELAXING, RELAXED = U(2 * mechanisms * LANES), U(COMPONENTS * mechanisms * LANES)
    count = carrier_count(degree, carriers)
    CARRIERS, ALL = U(count), count == n**3  # of an elastic element: 0 and False
    STEP_J, STEP_K = U(n * LANES), U(n * n * LANES)

    gather_values, scatter_values, _ = lane_rows(LANES, 4)
    gather_momenta, _, add_momenta = lane_rows(LANES, 3)
    gather_fields, _, add_fields = lane_rows(LANES, 3, int(P))

    @row
    def turned(p, q, r, direction):
        """Return three values for i, j and k in the order that begins with a direction."""
        x = p if direction == U(0) else q if direction == U(1) else r
        y = q if direction == U(0) else r if direction == U(1) else p
        z = r if direction == U(0) else p if direction == U(1) else q
        return x, y, z

    @row
    def turned_vectors(p, q, r, direction):
        """Return three vectors for i, j and k in the order that begins with a direction."""
        x0, y0, z0 = turned(p[0], q[0], r[0], direction)
        x1, y1, z1 = turned(p[1], q[1], r[1], direction)
        x2, y2, z2 = turned(p[2], q[2], r[2], direction)
        return (x0, x1, x2), (y0, y1, y2), (z0, z1, z2)

    @row
    def unstretched_along(i, j, k, memory, m, lines, lines_at, w, direction):
        """Return the derivatives along the local directions, divided by the stretching of the active ones."""
        x, y, z = turned_vectors(i, j, k, direction)
        s = lines_at[0] + w
        x = divided(x[0], x[1], x[2], memory, m, P, lines[s], lines[s + W], lines[s + U(2) * W])
        if axes > 1:
            s = lines_at[1] + w
            y = divided(y[0], y[1], y[2], memory, m + U(3) * P, P, lines[s], lines[s + W], lines[s + U(2) * W])
        if axes > 2:
            s = lines_at[2] + w
            z = divided(z[0], z[1], z[2], memory, m + U(6) * P, P, lines[s], lines[s + W], lines[s + U(2) * W])
        return turned_vectors(x, y, z, (U(3) - direction) % U(3))

    @row
    def released_along(i, j, k, memory, m, lines, lines_at, w, direction):
        """Return the sum of the forces along the local directions, released from the stretching."""
        x, y, z = turned_vectors(i, j, k, direction)
        at = lines_at[0] + w, lines_at[1] + w, lines_at[2] + w
        x = divided_inside(x[0], x[1], x[2], memory, m + NODE, P, lines, at[0], W)
        if axes > 1:
            y = divided_inside(y[0], y[1], y[2], memory, m + NODE + U(3) * P, P, lines, at[1], W)
        if axes > 2:
            z = divided_inside(z[0], z[1], z[2], memory, m + NODE + U(6) * P, P, lines, at[2], W)
        # Along at most one axis the layer begins here: the forces of the other two directions are multiplied.
        p, q, r = multiplied_outside(
            y[0] + z[0], y[1] + z[1], y[2] + z[2], memory, m + NODE, P, lines, at[0], W
        )  # fmt: skip
        p, q, r = x[0] + p, x[1] + q, x[2] + r
        if axes > 1:
            u, v, t = multiplied_outside(p - y[0], q - y[1], r - y[2], memory, m + NODE + U(3) * P, P, lines, at[1], W)
            p, q, r = y[0] + u, y[1] + v, y[2] + t
        if axes > 2:
            u, v, t = multiplied_outside(p - z[0], q - z[1], r - z[2], memory, m + NODE + U(6) * P, P, lines, at[2], W)
            p, q, r = z[0] + u, z[1] + v, z[2] + t
        return p, q, r

    @row
    def forces_at(
        u, f, a, line, moduli, first, weight, i, i_row, j_row, k_row, line_i, line_j, line_k, slope, value,
        memory, memory_first, filters, filters_first, relaxing, relaxing_first, relaxation, relaxation_first, recursion,
        carries, lines_at, direction,
    ):  # fmt: skip
        """Compute F^d at a point of all lanes: d, then component, are the slow indices of f; a : the body force."""
        for w in range(W):
            cofactors, scale = metric(line, w, slope, value, weight)
            ui, vi, wi = dots(i_row, u, line_i + w, P, W)
            uj, vj, wj = dots(j_row, u, line_j + w, P, STEP_J)
            uk, vk, wk = dots(k_row, u, line_k + w, P, STEP_K)
            o = line_i + i * W + w
            m, s = memory_first + o, filters_first + o
            if aligned:
                (ui, vi, wi), (uj, vj, wj), (uk, vk, wk) = unstretched_along(
                    (ui, vi, wi), (uj, vj, wj), (uk, vk, wk), memory, m, filters, lines_at, w, direction
                )
            xx, xy, xz = derivatives(cofactors, ui, uj, uk)
            yx, yy, yz = derivatives(cofactors, vi, vj, vk)
            zx, zy, zz = derivatives(cofactors, wi, wj, wk)
            if rotated:
                xx, yx, zx = unstretched(xx, yx, zx, memory, m, filters, s, P)
            if damped:  # all derivatives have the same filter, and stresses none
                xy, yy, zy = unstretched(xy, yy, zy, memory, m + U(3) * P, filters, s, P)
                xz, yz, zz = unstretched(xz, yz, zz, memory, m + U(6) * P, filters, s, P)
            if rotated and axes > 1:
                xy, yy, zy = unstretched(xy, yy, zy, memory, m + U(9) * P, filters, s + U(3) * P, P)
            if rotated and axes > 2:
                xz, yz, zz = unstretched(xz, yz, zz, memory, m + U(18) * P, filters, s + U(6) * P, P)
            g = xx, xy, xz, yx, yy, yz, zx, zy, zz
            xx, xy, xz, yy, yz, zz = stress(xx, xy, xz, yx, yy, yz, zx, zy, zz, scale, moduli, first + w)
            if mechanisms > 0 and carries is not None:
                xx, xy, xz, yy, yz, zz = relaxed(
                    xx, xy, xz, yy, yz, zz, g, scale, relaxing, relaxing_first + w, relaxation, relaxation_first + w,
                    recursion, mechanisms, W,
                )  # fmt: skip
            yx, zx, zy = xy, xz, yz
            if gravity:
                xx, xy, xz, yx, yy, yz, zx, zy, zz, a[o], a[P + o], a[U(2) * P + o] = with_gravity(
                    xx, xy, xz, yx, yy, yz, zx, zy, zz, g, u[o], u[P + o], u[U(2) * P + o], weight,
                    weight * weight / scale, moduli, first + HEAVY + w, SPREAD,
                )  # fmt: skip
            if rotated and not damped:
                xy, yy, zy = stretched(xy, yy, zy, memory, m + U(3) * P, filters, s, P)
                xz, yz, zz = stretched(xz, yz, zz, memory, m + U(6) * P, filters, s, P)
            if rotated and axes > 1:
                xx, yx, zx = stretched(xx, yx, zx, memory, m + U(12) * P, filters, s + U(3) * P, P)
                xz, yz, zz = stretched(xz, yz, zz, memory, m + U(15) * P, filters, s + U(3) * P, P)
            if rotated and axes > 2:
                xx, yx, zx = stretched(xx, yx, zx, memory, m + U(21) * P, filters, s + U(6) * P, P)
                xy, yy, zy = stretched(xy, yy, zy, memory, m + U(24) * P, filters, s + U(6) * P, P)
            f[o], f[U(3) * P + o], f[U(6) * P + o] = fluxes(cofactors, xx, xy, xz)
            f[P + o], f[U(4) * P + o], f[U(7) * P + o] = fluxes(cofactors, yx, yy, yz)
            f[U(2) * P + o], f[U(5) * P + o], f[U(8) * P + o] = fluxes(cofactors, zx, zy, zz)

    @row
    def layer_forces_at(
        f, a, i, i_column, j_column, k_column, line_i, line_j, line_k, memory, memory_first, filters, filters_first,
        lines_at, direction,
    ):  # fmt: skip
        """As `divergence_at`, released from the stretching and the friction of the point."""
        for w in range(W):
            o = line_i + i * W + w
            m, s = memory_first + o, filters_first + o
            along_i = dots(i_column, f, line_i + w, P, W)
            along_j = dots(j_column, f, U(3) * P + line_j + w, P, STEP_J)
            along_k = dots(k_column, f, U(6) * P + line_k + w, P, STEP_K)
            if aligned:
                x, y, z = released_along(
                    along_i, along_j, along_k, memory, m, filters, lines_at, w, direction
                )  # fmt: skip
                at = lines_at[0] + w, lines_at[1] + w, lines_at[2] + w
                x, y, z = rubbed(x, y, z, memory, m + RUB, P, filters, at, axes, W)
            else:
                x = along_i[0] + along_j[0] + along_k[0]
                y = along_i[1] + along_j[1] + along_k[1]
                z = along_i[2] + along_j[2] + along_k[2]
                x, y, z = released(x, y, z, memory, m + NODE, filters, s, P)
                if axes > 1:
                    x, y, z = released(x, y, z, memory, m + NODE + U(3) * P, filters, s + U(3) * P, P)
                if axes > 2:
                    x, y, z = released(x, y, z, memory, m + NODE + U(6) * P, filters, s + U(6) * P, P)
                if not damped:
                    x, y, z = unstretched(x, y, z, memory, m + RUB, filters, s + FRICTION, P)
            a[o] = (a[o] if gravity else ZERO) - x
            a[P + o] = (a[P + o] if gravity else ZERO) - y
            a[U(2) * P + o] = (a[U(2) * P + o] if gravity else ZERO) - z

    @row
    def lines_of(first, i, j, k, direction):
        """Return the places of the coefficients of a point along the directions, the active ones first."""
        x, y, z = turned(i, j, k, direction)
        step = U(LINE_VALUES * LANES)
        return first + x * step, first + LINES + y * step, first + U(2) * LINES + z * step

    @row
    def divergence_at(f, a, i, i_column, j_column, k_column, line_i, line_j, line_k):
        """Compute minus the sum over the points of the three lines of D F, plus the body force."""
        at = line_i + i * W
        for c in range(U(3)):
            x, y, z = c * P, (c + U(3)) * P, (c + U(6)) * P
            for w in range(W):
                a[x + at + w] = (a[x + at + w] if gravity else ZERO) - (
                    dot(i_column, f, x + line_i + w, W)
                    + dot(j_column, f, y + line_j + w, STEP_J)
                    + dot(k_column, f, z + line_k + w, STEP_K)
                )

    @row
    def find(at, points, values, places):
        """Write the addresses of the values (points, 4) of one point of every lane."""
        for w in range(W):
            places[w] = address(values, U(points[at + w]) * U(4))

    @row
    def bring_up_to_date(at, points, displacement, momentum, places, rows):
        """Add dt M^-1 p to u at one point of every lane."""
        find(at, points, momentum, places)
        gather_momenta(rows, U(4) * W, places, U(0))
        find(at, points, displacement, places)
        gather_values(rows, U(0), places, U(0))
        for c in range(U(3)):
            for w in range(W):
                rows[c * W + w] += rows[U(3) * W + w] * rows[(U(4) + c) * W + w]
        scatter_values(rows, U(0), places, U(0))

    @row
    def gather(first, points, displacement, momentum, u, axis, places, rows):
        """Load displacements of the points of a block; update those inside elements, which no other element shares."""
        for k in range(ONE, N - ONE):
            for j in range(ONE, N - ONE):
                for i in range(ONE, N - ONE):
                    at = first + k * STEP_K + j * STEP_J + i * W
                    bring_up_to_date(at, points, displacement, momentum, places, rows)
        for point in range(U(n**3)):
            find(first + point * W, points, displacement, places)
            if not rotated:
                gather_fields(u, point * W, places, U(0))
            else:
                gather_momenta(rows, U(0), places, U(0))
                for w in range(W):
                    u[point * W + w] = rows[axis * W + w]
                    u[P + point * W + w] = rows[(axis + U(1)) % U(3) * W + w]
                    u[U(2) * P + point * W + w] = rows[(axis + U(2)) % U(3) * W + w]

    @row
    def load_ahead(at, points, displacement, momentum):
        """Load the values (points, 4) of a line of points of all lanes into the cache."""
        for q in range(STEP_J):
            place = U(points[at + q]) * U(4)
            prefetch(address(displacement, place))
            prefetch(address(momentum, place))

    @row
    def block(
        first, following, points, displacement, momentum, moduli, moduli_first, coefficients, base, u, f, a, line,
        memory, memory_first, filters, filters_first, relaxing, relaxing_first, relaxation, relaxation_first, recursion,
        axis,
    ):  # fmt: skip
        places, work = np.empty(W, np.uint64), np.empty(U(7) * W, dtype)
        gather(first, points, displacement, momentum, u, axis, places, work)
        for k in range(N):
            for j in range(N):
                kj = k * N + j
                load_ahead(following + kj * STEP_J, points, displacement, momentum)
                if not affine or kj == 0:  # the map of a parallelepiped is the same on all lines
                    collapse(coefficients, base, line, values[kj], slopes_y[kj], slopes_z[kj])
                for i in range(N):
                    at, carrier = k * STEP_K + j * STEP_J, carrying[kj * N + i]
                    if mechanisms > 0 and (ALL or carrier < CARRIERS):
                        forces_at(
                            u, f, a, line, moduli, moduli_first + (at + i * W if varying else U(0)),
                            weights[k] * weights[j] * weights[i], i, rows[i], rows[j], rows[k],
                            at, k * STEP_K + i * W, j * STEP_J + i * W, line_slopes[i], lines[i],
                            memory, memory_first, filters, filters_first, relaxing, relaxing_first + carrier * RELAXING,
                            relaxation, relaxation_first + carrier * RELAXED, recursion, True,
                            lines_of(filters_first, i, j, k, axis), axis,
                        )  # fmt: skip
                    elif not ALL:
                        forces_at(
                            u, f, a, line, moduli, moduli_first + (at + i * W if varying else U(0)),
                            weights[k] * weights[j] * weights[i], i, rows[i], rows[j], rows[k],
                            at, k * STEP_K + i * W, j * STEP_J + i * W, line_slopes[i], lines[i],
                            memory, memory_first, filters, filters_first, relaxing, U(0), relaxation, U(0), recursion,
                            None, lines_of(filters_first, i, j, k, axis), axis,
                        )  # fmt: skip
        for k in range(N):
            for j in range(N):
                for i in range(N):
                    if axes > 0:
                        layer_forces_at(
                            f, a, i, columns[i], columns[j], columns[k],
                            k * STEP_K + j * STEP_J, k * STEP_K + i * W, j * STEP_J + i * W,
                            memory, memory_first, filters, filters_first, lines_of(filters_first, i, j, k, axis), axis,
                        )  # fmt: skip
                    else:
                        divergence_at(
                            f, a, i, columns[i], columns[j], columns[k],
                            k * STEP_K + j * STEP_J, k * STEP_K + i * W, j * STEP_J + i * W,
                        )  # fmt: skip
        for point in range(U(n**3)):
            find(first + point * W, points, momentum, places)
            if not rotated:
                add_fields(a, point * W, places, U(0))
            else:
                for w in range(W):
                    work[axis * W + w] = a[point * W + w]
                    work[(axis + U(1)) % U(3) * W + w] = a[P + point * W + w]
                    work[(axis + U(2)) % U(3) * W + w] = a[U(2) * P + point * W + w]
                add_momenta(work, U(0), places, U(0))

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def add_forces(
        displacement, momentum, points, moduli, geometry, memory, filters, relaxing, relaxation, recursion,
        first_axis, first_block, order, begin, u_room, f_room, a_room, line_room,
    ):  # fmt: skip
        moduli_size, geometry_size = moduli_count * SPREAD, GEOMETRY
        flat_displacement, flat_momentum = displacement.reshape(-1), momentum.reshape(-1)
        flat_points, flat_moduli, flat_geometry = points.reshape(-1), moduli.reshape(-1), geometry.reshape(-1)
        flat_memory, flat_filters = memory.reshape(-1), filters.reshape(-1)
        flat_relaxing, flat_relaxation = relaxing.reshape(-1), relaxation.reshape(-1)
        tasks, axis = u_room.shape[0], U(first_axis)
        for color in range(begin.size - 1):
            start, count = begin[color], begin[color + 1] - begin[color]
            for task in prange(tasks):
                before = flush_denormals()
                u, f, a, line = u_room[task], f_room[task], a_room[task], line_room[task]
                for number in range(start + count * task // tasks, start + count * (task + 1) // tasks):
                    b = U(order[number])
                    own = b - U(first_block)
                    following = U(order[min(number + 1, start + count - 1)])
                    block(
                        b * P, following * P, flat_points, flat_displacement, flat_momentum,
                        flat_moduli, own * moduli_size, flat_geometry, own * geometry_size, u, f, a, line,
                        flat_memory, own * MEMORY, flat_filters, own * FILTER,
                        flat_relaxing, own * CARRIERS * RELAXING, flat_relaxation, own * CARRIERS * RELAXED, recursion,
                        axis,
                    )  # fmt: skip
                restore_rounding(before)

    def add(
        displacement, momentum, points, moduli, geometry, memory, filters, relaxing, relaxation, recursion,
        first_axis, first_block, shared, moves, order, begin,
    ):  # fmt: skip
        """See `element_lines.py`. Blocks of one color share no point; order[begin[c]] ... are those of color c."""
        rooms = room(numba.get_num_threads(), n**3 * LANES, 9 * powers * LANES, dtype)
        add_forces(
            displacement, momentum, points, moduli, geometry, memory, filters, relaxing, relaxation, recursion,
            first_axis, first_block, order, begin, *rooms,
        )  # fmt: skip

    return add


MAP_PACKERS = {"cuboid": pack_cuboid, "upright": pack_upright}


def make_kernels(degree: int, precision: str, deterministic: bool = False) -> dict[str, Callable[..., None]]:
    """Return the functions for a degree: layout and packing of blocks, and the kernel of each element kind.

    Results are identical in every run, with any number of threads: `deterministic` has no effect here.
    """
    arrangement = device_layout("cpu", degree)

    def pack_moduli(moduli: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Return (blocks, c, lanes), or (blocks, c, k, j, i, lanes) for moduli at every point; 0 without an element."""
        if moduli.ndim > 2:
            return arrangement.of_components(moduli, slots, 0)
        packed = arrangement.of_elements(moduli, slots)
        blank = (np.append(slots, np.full(-len(slots) % LANES, -1)) < 0).reshape(-1, 1, LANES)
        return np.where(blank, 0, packed)

    def pack_maps(coefficients: np.ndarray, slots: np.ndarray, kind: ElementKind) -> np.ndarray:
        """Return (blocks, values, lanes): 3 q^3 values, or fewer of cuboids and upright elements."""
        dtype = np.float32 if precision == "single" else np.float64
        pack = MAP_PACKERS.get(kind.map, lambda some: some.reshape(len(some), -1))
        return arrangement.of_elements(coefficients, slots, pack, dtype)

    def add_forces(kind: ElementKind) -> Callable[..., None]:
        if kind.fluid:
            return make_add_fluid_forces(degree, kind.map, kind.varying, kind.axes, precision, kind.aligned)
        return make_add_forces(
            degree, kind.map, kind.anisotropic, kind.varying, kind.axes, kind.mechanisms, kind.carriers, precision,
            kind.gravity, kind.damped, kind.aligned,
        )  # fmt: skip

    return {
        "arrangement": arrangement, "moved_by_block": 0, "blocks_ahead": 0, "pack_moduli": pack_moduli,
        "pack_maps": pack_maps, "add_forces": add_forces,
    }  # fmt: skip
