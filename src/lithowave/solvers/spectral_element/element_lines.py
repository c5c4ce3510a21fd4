"""What the element kernels of a CPU share: argument lists, sums along lines, and laws.

The argument lists of the kernels are shared by their CPU and CUDA versions.

displacement : (points + 1, 4): u, m, and dt^2 over the mass of the point, s^2/kg; 0 there keeps a point at rest.
momentum : (points + 1, 4): p, such that dt^2 / mass * p is the change of u in a step; the fourth entry is the factor
from the rate of u to a velocity, 1 in a solid. The last point of both belongs to no element and serves the padding of
blocks. points : indices of points (see `ElementLayout.of_indices`); of other kernels, of the points of listed elements
(elements, n^3). shared : index of the first point that belongs to only one element, whose kernel also updates its
displacement; the points before it belong to several. moves : number of points whose displacements are up to date before
a block of a GPU updates those of later blocks, and at the end (see `elements.block_moves`); empty if all are before the
forces. A GPU changes the sign of dt^2 over the mass in every step (see `elements.cu`).

A fluid has the potential phi, Pa s, instead of u in the first component of its own points, and zeros in the others. Its
mass has 1 / kappa instead of rho, its rate is -P, the factor of velocities 1 / (rho c), and `moduli` 1 / rho. solid,
fluid : points of the pairs on interfaces (see `coupling`).

In an absorbing layer with n active axes, memory (12 n + 3 per point of each element) holds the variables of the
filters: for each axis, those of three derivatives along it, and of the stresses in the columns of the two other axes;
then, for each axis, those of the force, and of its friction. In a fluid they are 4 n + 1, of one derivative and two
velocities. filters (3 n + 3 per point) : b, a, c of each axis, b < 0 where the layer begins, and those of the friction.
Aligned elements (see `layer_codes`) have the variables of the derivatives, of the forces and of the friction, 6 n + 3,
in a fluid 2 n + 1, and filters have the values of `Stretching.lines` for each active direction. A damped layer has
those of nine derivatives and of the force, 12, and three coefficients. first_axis : axis that becomes the first of the
rotated coordinates of moduli, geometry, memory and filters; of aligned elements, which are not rotated, the local
direction that becomes the first. stretched : (points, 3), p after the filters less p. coupled : (pairs, 4), the part of
p by the coupling.

In elements with attenuation by n mechanisms, relaxing (2 n per carrying point of `relaxation.py`) holds the moduli
Y kappa - 2/3 Y mu and Y mu of each mechanism, relaxation (6 n) their memory variables xx, yy, zz, yz, xz, xy, times the
quadrature weight, and recursion (n, 3) b, a, c.

The sums and the map are those of a line of an element, in work arrays of threads. The law is Hooke's at a point, times
the quadrature weight over the Jacobian: from the gradient of u to the stresses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from lithowave.backends.loops import U, row
from lithowave.solvers.spectral_element.element_layout import LANES

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "update_displacement": ("displacement", "momentum", "count"),
    "add_forces": (
        "displacement", "momentum", "points", "moduli", "geometry", "memory", "filters", "relaxing", "relaxation",
        "recursion", "first_axis", "first_block", "shared", "moves", "order", "begin",
    ),
    "damp": ("momentum", "history", "point", "matrix"),
    "uncouple": ("momentum", "coupled", "solid", "fluid"),
    "couple": ("momentum", "history", "coupled", "solid", "fluid", "matrix"),
    "unstretch": ("momentum", "stretched", "memory", "point", "filters"),
    "save_momenta": ("momentum", "point", "kept"),
    "pack": ("momentum", "point", "outgoing"),
    "unpack": ("momentum", "kept", "point", "begin", "entry", "incoming"),
    "inject": ("momentum", "target", "begin", "weight", "owner", "amplitude", "row"),
    "count_step": ("row",),
    "sample": ("displacement", "momentum", "points", "element", "values", "slopes", "rate", "out", "slot"),
    "keep_rates": ("momentum", "points", "earlier"),
    "sample_fluid": (
        "displacement", "momentum", "points", "element", "values", "slopes", "mobility", "place", "earlier", "rate",
        "out", "slot",
    ),
    "rotate_velocity": ("out", "slot", "axes"),
    "surface_peaks": ("velocity", "time_step", "displacement", "peak_velocity", "peak_displacement"),
    "largest_velocity": ("displacement", "momentum", "out"),
}  # fmt: skip


MAP_POWERS = {  # of each coordinate, in the monomials of the map
    "cuboid": 2, "affine": 2, "trilinear": 2, "upright": 3, "triquadratic": 3
}  # fmt: skip


@row
def dot(c, f, at, step):
    """Return the sum over l of c[l] f[at + l step]."""
    total = c[0] * f[at]
    for l in range(U(1), U(len(c))):  # noqa: E741
        total += c[l] * f[at + l * step]
    return total


@row
def dots(c, f, at, field, step):
    """Return the same for three fields at a distance of `field` entries."""
    return dot(c, f, at, step), dot(c, f, at + field, step), dot(c, f, at + field + field, step)


@row
def collapse(coefficients, base, line, values, slopes_y, slopes_z, powers):
    """Compute polynomials in xi of x, dx/deta and dx/dzeta on the line of points with the weights `values` ...."""
    lanes, p = U(LANES), U(powers)
    cube, square = p * p * p * lanes, p * lanes
    for component in range(U(3)):
        for power in range(p):
            at = base + component * cube + power * lanes
            out = (component * p + power) * lanes
            for w in range(lanes):
                line[out + w] = dot(values, coefficients, at + w, square)
                line[U(3) * square + out + w] = dot(slopes_y, coefficients, at + w, square)
                line[U(6) * square + out + w] = dot(slopes_z, coefficients, at + w, square)


@row
def collapse_upright(coefficients, base, line, values, slopes_y, slopes_z):
    """As `collapse`, but of z only; before that, dx/dxi and dy/deta. See `element_layout.pack_upright`."""
    lanes = U(LANES)
    square = U(3) * lanes
    for w in range(lanes):
        line[w], line[lanes + w] = coefficients[base + w], coefficients[base + U(27) * lanes + w]
    for power in range(U(3)):
        at, out = base + power * lanes, (U(6) + power) * lanes
        for w in range(lanes):  # the first coefficient has the factor 0 wherever the polynomials are used
            line[out + w] = dot(values, coefficients, at + w, square)
            line[U(3) * square + out + w] = dot(slopes_y, coefficients, at + w, square)
            line[U(6) * square + out + w] = dot(slopes_z, coefficients, at + w, square)


def make_collapse(shape: str) -> Callable:
    """Return the function that prepares `make_metric` on a line of points; see `collapse`."""
    powers = MAP_POWERS[shape]

    @row
    def of_cuboids(coefficients, base, line, _values, _slopes_y, _slopes_z):
        for n in range(U(4 * LANES)):
            line[n] = coefficients[base + n]

    @row
    def of_any(coefficients, base, line, values, slopes_y, slopes_z):
        collapse(coefficients, base, line, values, slopes_y, slopes_z, powers)

    return {"cuboid": of_cuboids, "upright": collapse_upright}.get(shape, of_any)


def make_metric(shape: str) -> tuple[Callable, Callable, Callable]:
    """Return functions of the map of elements with this shape (see `ElementKind.map`).

    metric(line, w, slope, value, weight) : the cofactors that are not zero in all of them, by rows along xi, eta and
    zeta, and the weight over J, at the point of a line with these powers of xi. derivatives(m, i, j, k) : those along
    x, y and z times J, from those along xi, eta and zeta. fluxes(m, x, y, z) : the components along xi, eta and zeta.
    """
    W, LINE = U(LANES), U(MAP_POWERS[shape] * LANES)

    @row
    def metric(line, w, slope, value, weight):
        ax, ay, az = dots(slope, line, w, LINE, W)
        bx, by, bz = dots(value, line, U(3) * LINE + w, LINE, W)
        cx, cy, cz = dots(value, line, U(6) * LINE + w, LINE, W)
        a0, a1, a2 = by * cz - bz * cy, bz * cx - bx * cz, bx * cy - by * cx
        b0, b1, b2 = cy * az - cz * ay, cz * ax - cx * az, cx * ay - cy * ax
        c0, c1, c2 = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
        return (a0, a1, a2, b0, b1, b2, c0, c1, c2), weight / (ax * a0 + ay * a1 + az * a2)

    @row
    def derivatives(m, i, j, k):
        return i * m[0] + j * m[3] + k * m[6], i * m[1] + j * m[4] + k * m[7], i * m[2] + j * m[5] + k * m[8]

    @row
    def fluxes(m, x, y, z):
        return x * m[0] + y * m[1] + z * m[2], x * m[3] + y * m[4] + z * m[5], x * m[6] + y * m[7] + z * m[8]

    @row
    def metric_upright(line, w, slope, value, weight):
        x, y = line[w], line[W + w]
        a, b = dot(slope, line, U(2) * LINE + w, W), dot(value, line, U(5) * LINE + w, W)
        c = dot(value, line, U(8) * LINE + w, W)
        return (y * c, x * c, -y * a, -x * b, x * y), weight / (x * y * c)

    @row
    def derivatives_upright(m, i, j, k):
        return i * m[0] + k * m[2], j * m[1] + k * m[3], k * m[4]

    @row
    def fluxes_upright(m, x, y, z):
        return x * m[0], y * m[1], x * m[2] + y * m[3] + z * m[4]

    @row
    def metric_cuboid(line, w, _slope, _value, weight):
        return (line[w], line[W + w], line[U(2) * W + w]), weight * line[U(3) * W + w]

    @row
    def derivatives_cuboid(m, i, j, k):
        return i * m[0], j * m[1], k * m[2]

    made = {
        "cuboid": (metric_cuboid, derivatives_cuboid, derivatives_cuboid),
        "upright": (metric_upright, derivatives_upright, fluxes_upright),
    }
    return made.get(shape, (metric, derivatives, fluxes))


def monomials(points: np.ndarray, powers: int, dtype: np.dtype) -> tuple[tuple, ...]:
    """Return for each (k, j) the weights [power of zeta, of eta] of a value and of its slopes along eta and zeta; for
    each i the powers of xi, and their slopes."""
    exponents = np.arange(powers)
    value = points[:, None] ** exponents
    slope = exponents * points[:, None] ** np.maximum(exponents - 1, 0)

    def pairs(z: np.ndarray, y: np.ndarray) -> tuple:
        table = np.einsum("kc,jb->kjcb", z, y).reshape(len(points) ** 2, -1).astype(dtype)
        return tuple(map(tuple, table))

    lines = (tuple(map(tuple, table.astype(dtype))) for table in (value, slope))
    return pairs(value, value), pairs(value, slope), pairs(slope, value), *lines


@lru_cache(maxsize=8)
def room(threads: int, block: int, line: int, dtype: np.dtype, components: int = 3) -> tuple[np.ndarray, ...]:
    """Allocate the work arrays of threads: unknowns, F, forces, and the polynomials of a line."""
    sizes = components * block, 3 * components * block, components * block, line
    return tuple(np.empty((threads, size), dtype) for size in sizes)


def make_isotropic_law(step: int) -> Callable:
    """Return the law for moduli whose components are `step` entries apart."""
    S = U(step)

    @row
    def isotropic_stress(xx, xy, xz, yx, yy, yz, zx, zy, zz, scale, moduli, at):
        """Return sigma = scale (lambda tr(e) I + 2 mu e); moduli: lambda, mu at `at` and `at` + `step`."""
        lam, mu = scale * moduli[at], scale * moduli[at + S]
        trace, twice = lam * (xx + yy + zz), mu + mu
        return (
            trace + twice * xx, mu * (xy + yx), mu * (xz + zx), trace + twice * yy, mu * (yz + zy), trace + twice * zz
        )  # fmt: skip

    return isotropic_stress


def make_anisotropic_law(step: int) -> Callable:
    """Return the law for moduli whose components are `step` entries apart."""
    S = tuple(U(number * step) for number in range(21))

    @row
    def anisotropic_stress(xx, xy, xz, yx, yy, yz, zx, zy, zz, scale, moduli, at):
        """Return sigma = scale C : e; moduli: upper triangle of Voigt's matrix by rows (xx, yy, zz, yz, xz, xy)."""
        e1, e2, e3 = scale * xx, scale * yy, scale * zz
        e4, e5, e6 = scale * (yz + zy), scale * (xz + zx), scale * (xy + yx)
        c = moduli
        s1 = c[at] * e1 + c[at + S[1]] * e2 + c[at + S[2]] * e3
        s1 += c[at + S[3]] * e4 + c[at + S[4]] * e5 + c[at + S[5]] * e6
        s2 = c[at + S[1]] * e1 + c[at + S[6]] * e2 + c[at + S[7]] * e3
        s2 += c[at + S[8]] * e4 + c[at + S[9]] * e5 + c[at + S[10]] * e6
        s3 = c[at + S[2]] * e1 + c[at + S[7]] * e2 + c[at + S[11]] * e3
        s3 += c[at + S[12]] * e4 + c[at + S[13]] * e5 + c[at + S[14]] * e6
        s4 = c[at + S[3]] * e1 + c[at + S[8]] * e2 + c[at + S[12]] * e3
        s4 += c[at + S[15]] * e4 + c[at + S[16]] * e5 + c[at + S[17]] * e6
        s5 = c[at + S[4]] * e1 + c[at + S[9]] * e2 + c[at + S[13]] * e3
        s5 += c[at + S[16]] * e4 + c[at + S[18]] * e5 + c[at + S[19]] * e6
        s6 = c[at + S[5]] * e1 + c[at + S[10]] * e2 + c[at + S[14]] * e3
        s6 += c[at + S[17]] * e4 + c[at + S[19]] * e5 + c[at + S[20]] * e6
        return s1, s6, s5, s2, s4, s3

    return anisotropic_stress
