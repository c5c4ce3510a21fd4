"""Kernels over points: displacement update, absorbing sides, layers, sources, receivers, peaks, instability check."""

from __future__ import annotations

import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import FAST, parallel
from lithowave.backends.rounding import flush_denormals, restore_rounding
from lithowave.solvers.common.kernels import count_step, raise_peaks

__all__ = [
    "count_step", "couple", "damp", "inject", "keep_rates", "largest_velocity", "pack", "sample", "sample_fluid",
    "save_momenta", "surface_peaks", "uncouple", "unpack", "unstretch", "update_displacement",
]  # fmt: skip

CHUNK = 4096


@parallel
def update_displacement(displacement, momentum, count):
    """Add dt^2 / mass * p to u at the first points: u advances from half a step before p to half a step after it."""
    for chunk in prange((count + CHUNK - 1) // CHUNK):
        before = flush_denormals()
        for point in range(chunk * CHUNK, min(count, (chunk + 1) * CHUNK)):
            scale = displacement[point, 3]
            for c in range(3):
                displacement[point, c] += scale * momentum[point, c]
        restore_rounding(before)


@parallel
def damp(momentum, history, point, matrix):
    r"""Absorb at points, each listed once: p = B (p~ + p_before) - p_before.

    With M dp / dt = f - C v, v = M^-1 p and C v as the mean before and after the step, (1 + G) p = (1 - G) p_before +
    dt f, G = dt / 2 M^-1 C; `momentum` holds p~ = p_before + dt f. B = (1 + G)^-1, symmetric: matrix (points, 6): xx,
    yy, zz, xy, xz, yz. history (points, 3) : p_before, replaced here.
    """
    for n in prange(point.size):
        p = point[n]
        x0, y0, z0 = history[n, 0], history[n, 1], history[n, 2]
        x, y, z = momentum[p, 0] + x0, momentum[p, 1] + y0, momentum[p, 2] + z0
        x1 = matrix[n, 0] * x + matrix[n, 3] * y + matrix[n, 4] * z - x0
        y1 = matrix[n, 3] * x + matrix[n, 1] * y + matrix[n, 5] * z - y0
        z1 = matrix[n, 4] * x + matrix[n, 5] * y + matrix[n, 2] * z - z0
        momentum[p, 0], momentum[p, 1], momentum[p, 2] = x1, y1, z1
        history[n, 0], history[n, 1], history[n, 2] = x1, y1, z1


@parallel
def unstretch(momentum, stretched, memory, point, filters):
    """Divide p by the stretching of the active axes at points of an absorbing layer (see `layers`).

    The forces change P = S p: with p~ in `momentum`, P after the step is p~ + P_before - p_before, and p follows by the
    inverse filters. stretched (points, 3) : P - p, replaced here. memory (points, axes, 3) : variables of the filters.
    filters (points, axes, 3) : b, a, c.
    """
    axes = memory.shape[1]
    for n in prange(point.size):
        p = point[n]
        for component in range(3):
            total = momentum[p, component] + stretched[n, component]
            value = total
            for axis in range(axes):
                m = memory[n, axis, component]
                value = (value - m) / filters[n, axis, 0]
                memory[n, axis, component] = filters[n, axis, 2] * value + filters[n, axis, 1] * m
            momentum[p, component] = value
            stretched[n, component] = total - value


@parallel
def uncouple(momentum, coupled, solid, fluid):
    """Subtract the momenta of the coupling, coupled (pairs, 4), from p: `unstretch` follows."""
    for n in prange(solid.size):
        for c in range(3):
            momentum[solid[n], c] -= coupled[n, c]
        momentum[fluid[n], 0] -= coupled[n, 3]


@parallel
def couple(momentum, history, coupled, solid, fluid, matrix):
    r"""Couple pairs of a solid and a fluid point, each listed once: p = p~ + E (p~ + p_before).

    p has three components of the solid point and one of the fluid point. As in `damp`, with C = [[D, A], [-A^T, d]] of
    the area vector A, m^2, out of the fluid, and of the damping of both: matrix (pairs, 4, 4) is E = (1 + G)^-1 - 1,
    with G = dt / 2 C M^-1. history (pairs, 4) : p_before, replaced here. coupled : empty, or in an absorbing layer
    (pairs, 4), the sum of the changes by this kernel, which `uncouple` has subtracted from p~.
    """
    stretched, zero = coupled.size > 0, momentum.dtype.type(0)
    for n in prange(solid.size):
        s, f = solid[n], fluid[n]
        x, y, z, w = momentum[s, 0], momentum[s, 1], momentum[s, 2], momentum[f, 0]
        x0, y0, z0, w0 = zero, zero, zero, zero
        if stretched:
            x0, y0, z0, w0 = coupled[n, 0], coupled[n, 1], coupled[n, 2], coupled[n, 3]
        sx, sy = x + x0 + history[n, 0], y + y0 + history[n, 1]
        sz, sw = z + z0 + history[n, 2], w + w0 + history[n, 3]
        e = matrix[n]
        x0 += e[0, 0] * sx + e[0, 1] * sy + e[0, 2] * sz + e[0, 3] * sw
        y0 += e[1, 0] * sx + e[1, 1] * sy + e[1, 2] * sz + e[1, 3] * sw
        z0 += e[2, 0] * sx + e[2, 1] * sy + e[2, 2] * sz + e[2, 3] * sw
        w0 += e[3, 0] * sx + e[3, 1] * sy + e[3, 2] * sz + e[3, 3] * sw
        if stretched:
            coupled[n, 0], coupled[n, 1], coupled[n, 2], coupled[n, 3] = x0, y0, z0, w0
        x, y, z, w = x + x0, y + y0, z + z0, w + w0
        momentum[s, 0], momentum[s, 1], momentum[s, 2], momentum[f, 0] = x, y, z, w
        history[n, 0], history[n, 1], history[n, 2], history[n, 3] = x, y, z, w


@parallel
def save_momenta(momentum, point, kept):
    """Save p of points in kept (points, 3), and set it to zero."""
    for n in prange(point.size):
        for c in range(3):
            kept[n, c] = momentum[point[n], c]
            momentum[point[n], c] = 0


@parallel
def pack(momentum, point, outgoing):
    """Copy p of points to `outgoing`, three values per point."""
    for n in prange(point.size):
        for c in range(3):
            outgoing[3 * n + c] = momentum[point[n], c]


@parallel
def unpack(momentum, kept, point, begin, entry, incoming):
    """Set p to kept + the sum of the entries begin[n] .. begin[n + 1] for point[n]: p itself for an entry of -1, else a
    point in `incoming`, three values per point."""
    for n in prange(point.size):
        p = point[n]
        x, y, z = momentum[p, 0], momentum[p, 1], momentum[p, 2]
        zero = momentum.dtype.type(0)
        sx, sy, sz = zero, zero, zero
        for number in range(begin[n], begin[n + 1]):
            at = 3 * entry[number]
            if at < 0:
                sx, sy, sz = sx + x, sy + y, sz + z
            else:
                sx, sy, sz = sx + incoming[at], sy + incoming[at + 1], sz + incoming[at + 2]
        momentum[p, 0], momentum[p, 1], momentum[p, 2] = kept[n, 0] + sx, kept[n, 1] + sy, kept[n, 2] + sz


@njit(fastmath=FAST, error_model="numpy", cache=True)
def inject(momentum, target, begin, weight, owner, amplitude, row):
    """Add weight (a vector) * amplitude[row[0], owner] of the entries begin[n] .. begin[n + 1] to p[target[n]]."""
    for n in range(target.size):
        for c in range(3):
            total = 0.0
            for entry in range(begin[n], begin[n + 1]):
                total += weight[entry, c] * amplitude[row[0], owner[entry]]
            momentum[target[n], c] += total


@parallel
def sample(displacement, momentum, points, element, values, slopes, rate, out, slot):
    """Sample the velocity in elements: out[slot[0], c, place]; with 12 rows also du_c / dxi_d in row 3 + 3 c + d.

    u at the time of the velocity is the mean of its values half a step before and after.

    points : indices of the points of the elements that have a location, (elements, n^3). element : row of each location
    in it. values, slopes : (locations, 3, n), Lagrange polynomials of degree n - 1 and their slopes along i, j and k.
    rate : 1 / dt.
    """
    n = values.shape[2]
    with_gradient, half_step = out.shape[1] > 3, displacement.dtype.type(0.5)
    for place in prange(element.size):
        total, own = np.zeros(12), points[element[place]]
        for k in range(n):
            if values[place, 2, k] == 0 and slopes[place, 2, k] == 0:
                continue
            for j in range(n):
                if values[place, 1, j] == 0 and slopes[place, 1, j] == 0:
                    continue
                for i in range(n):
                    point = own[(k * n + j) * n + i]
                    x, y, z = values[place, 0, i], values[place, 1, j], values[place, 2, k]
                    scale, half = x * y * z * displacement[point, 3], half_step * displacement[point, 3]
                    for c in range(3):
                        total[c] += scale * momentum[point, c]
                    if with_gradient:
                        for c in range(3):
                            u = displacement[point, c] + half * momentum[point, c]
                            total[3 + 3 * c] += slopes[place, 0, i] * y * z * u
                            total[4 + 3 * c] += x * slopes[place, 1, j] * z * u
                            total[5 + 3 * c] += x * y * slopes[place, 2, k] * u
        for c in range(3):
            out[slot[0], c, place] = rate * total[c]
        for c in range(3, out.shape[1]):
            out[slot[0], c, place] = total[c]


@parallel
def keep_rates(momentum, points, earlier):
    """Keep p of the points of fluid elements, points (elements, n^3), in earlier (elements, n^3)."""
    for element in prange(points.shape[0]):
        for number in range(points.shape[1]):
            earlier[element, number] = momentum[points[element, number], 0]


@parallel
def sample_fluid(
    displacement, momentum, points, element, values, slopes, mobility, place, earlier, rate, out, slot
):
    r"""Sample fluids at some places of `out`: velocity in the first three rows; d phi / dt in the fourth, if any.

    The parabola through the last three values of phi, at half steps, gives it at the time of p:

    .. math:: \phi^n = \phi^{n-1/2} + \tfrac{\Delta t}{8} (3 \dot\phi^n + \dot\phi^{n-1}) .

    values, slopes : as in `sample`, of all places. place : those in fluids (locations,). element : row of each in
    `points`, as in `sample`, and in `earlier`, which has p of the step before (see `keep_rates`). mobility :
    (locations, 3, 3), dxi_d / dx_c over rho.
    """
    n = values.shape[2]
    for location in prange(place.size):
        at, own, before = place[location], points[element[location]], earlier[element[location]]
        first, second, third, change = 0.0, 0.0, 0.0, 0.0
        for k in range(n):
            for j in range(n):
                for i in range(n):
                    number = (k * n + j) * n + i
                    point = own[number]
                    x, y, z = values[at, 0, i], values[at, 1, j], values[at, 2, k]
                    scale, p = displacement[point, 3], momentum[point, 0]
                    phi = displacement[point, 0] + scale * (0.375 * p + 0.125 * before[number])
                    first += slopes[at, 0, i] * y * z * phi
                    second += x * slopes[at, 1, j] * z * phi
                    third += x * y * slopes[at, 2, k] * phi
                    change += x * y * z * scale * p
        for c in range(3):
            m = mobility[location]
            out[slot[0], c, at] = m[0, c] * first + m[1, c] * second + m[2, c] * third
        if out.shape[1] > 3:
            out[slot[0], 3, at] = rate * change


@parallel
def rotate_velocity(out, slot, axes):
    """Replace the Cartesian velocity out[slot[0], c, place] by its components along the rows of axes (locations, 9)."""
    for place in prange(axes.shape[0]):
        x, y, z = out[slot[0], 0, place], out[slot[0], 1, place], out[slot[0], 2, place]
        for c in range(3):
            out[slot[0], c, place] = axes[place, 3 * c] * x + axes[place, 3 * c + 1] * y + axes[place, 3 * c + 2] * z


@parallel
def surface_peaks(velocity, time_step, displacement, peak_velocity, peak_displacement):
    """Update the peaks of |v| and |u| at locations: (3, locations), horizontal, vertical, total.

    velocity (1, 3, locations) : present velocity. displacement (3, locations) : running integral, to which v dt is
    added; at the time of v it lacks half a step of v.
    """
    half = 0.5 * time_step
    for place in prange(displacement.shape[1]):
        east, north, up = velocity[0, 0, place], velocity[0, 1, place], velocity[0, 2, place]
        displacement[0, place] += time_step * east
        displacement[1, place] += time_step * north
        displacement[2, place] += time_step * up
        raise_peaks(peak_velocity, place, east, north, up)
        u = displacement[0, place] - half * east
        v = displacement[1, place] - half * north
        raise_peaks(peak_displacement, place, u, v, displacement[2, place] - half * up)


@parallel
def largest_velocity(displacement, momentum, out):
    """Compute the largest |component| of dt v in as many sections as `out` has; not finite if any value is not.

    In a fluid it is the velocity P / (rho c) of a plane wave: `momentum` has 1 / (rho c) in its fourth column.
    """
    parts, points = out.size, displacement.shape[0] - 1
    for part in prange(parts):
        zero = out.dtype.type(0)
        most, poison = zero, zero
        for point in range(part * points // parts, (part + 1) * points // parts):
            scale = displacement[point, 3] * momentum[point, 3]
            x, y, z = scale * momentum[point, 0], scale * momentum[point, 1], scale * momentum[point, 2]
            most = max(most, abs(x), abs(y), abs(z))
            # Zero except for infinity and NaN, which a comparison may miss.
            poison += zero * (x + y + z)
        out[part] = most + poison
