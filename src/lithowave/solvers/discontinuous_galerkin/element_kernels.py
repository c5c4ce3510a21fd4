r"""Element updates on the CPU: the readable specification.

Within an element Q(x, t) = sum of Q_k(t) phi_k(x): stress and velocity, nine quantities (`materials.STRESS`, then v).
A step of length T is (Käser & Dumbser 2006, GJI 166, 855-877, in strong form)

.. math::
    D^0 = Q, \qquad D^{d+1} = \frac{T}{d+1} \sum_c A_c K_c D^d, \qquad
    Q \leftarrow Q + \sum_{d \ge 1} D^d + \sum_f R_f F_f \Big( \sum_d \tfrac{1}{d+1} R_f^T D^d \Big)

The Taylor terms D^d are the predictor (Cauchy-Kovalewski), K_c and R_f the matrices of `reference`, A_c the elastic law
(`riemann.elastic_matrices`), and F_f the difference between the flux at the face and the element's own, from the
averages of both sides over the step. `riemann` has the formulas: each element stores u and sends w.

`step` performs the second half of one step and the first half of the next: it adds the contributions of the faces,
which completes Q, and predicts. Between two calls Q lacks these contributions; `complete` returns blocks with them.

In an absorbing layer, D^0 is damped, and memory variables of its derivatives and jumps are added to D^1; see `layer`.

To neighbors that step half as often, an element sends the mean of its two steps, and they send both halves of theirs
(`element_layout`).

All arrays have `lanes` elements as their fastest index.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import FAST, U, row_of
from lithowave.backends.rounding import flush_denormals, restore_rounding
from lithowave.backends.vector_rows import matrix_rows
from lithowave.solvers.discontinuous_galerkin.element_layout import FASTER, LANES, SLOWER, device_layout
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, STRESSES, VELOCITIES
from lithowave.solvers.discontinuous_galerkin.reference import make_reference
from lithowave.solvers.discontinuous_galerkin.riemann import FACE_NUMBERS, LAW_NUMBERS, SOURCES, law_numbers

Q = U(QUANTITIES)
VX, VY, VZ = U(STRESSES), U(STRESSES + 1), U(STRESSES + 2)  # indices of the velocities
TOGETHER = QUANTITIES  # quantities for which an entry of a matrix is loaded once
PIECES = 64  # of the blocks that threads process


@lru_cache
def make_predictor(order: int, anisotropic: bool, layer: bool, precision: str) -> Callable[..., None]:
    """Return a function that adds Taylor terms to Q of a block and computes their means over a step and its half."""
    own_row = row_of("predictor", order, anisotropic, layer, precision)
    reference = make_reference(order)
    L = U(LANES[precision])
    W, MODES = Q * L, U(reference.count)
    mix = make_elastic_law(anisotropic, precision)
    damp, add_memory = make_layer(order, anisotropic, layer, precision)

    def make_level(d: int) -> Callable[..., None]:
        """Return a function for the Taylor terms from D^d to D^(d + 1), and all further ones."""
        if d == order - 1:

            @row_of("no level", order, anisotropic, layer, precision)
            def nothing(q, b, law, at, memory, place, terms, slopes, mean, half, halves):
                pass

            return nothing
        deeper = make_level(d + 1)
        rows, columns = reference.levels[d + 1], reference.levels[d]
        ROWS = U(rows)
        slope_0, slope_1, slope_2 = (
            matrix_rows(matrix[:rows, :columns], int(L), int(W), TOGETHER)
            for matrix in reference.derivatives
        )
        FIRST = layer and d == 0
        SPAN, GROUP, GROUPS = ROWS * W, U(TOGETHER) * L, U(QUANTITIES // TOGETHER)
        factor, of_mean, of_half = (
            np.dtype(np.float32 if precision == "single" else np.float64).type(value)
            for value in (1 / (d + 1), 1 / (d + 2), 0.5 ** (d + 1) / (d + 2))
        )

        @row_of("level", order, d, anisotropic, layer, precision)
        def level(q, b, law, at, memory, place, terms, slopes, mean, half, halves):
            for g in range(GROUPS):
                slope_0(slopes, g * GROUP, terms, g * GROUP)
                slope_1(slopes, SPAN + g * GROUP, terms, g * GROUP)
                slope_2(slopes, U(2) * SPAN + g * GROUP, terms, g * GROUP)
            for r in range(ROWS):
                mix(slopes, r * W, SPAN, terms, r * W, law, at, factor)
            if FIRST:
                add_memory(slopes, terms, law, at, memory, place)
            for n in range(SPAN):
                q[b + n] += terms[n]
                mean[n] += of_mean * terms[n]
            if halves:
                for n in range(SPAN):
                    half[n] += of_half * terms[n]
            deeper(q, b, law, at, memory, place, terms, slopes, mean, half, halves)

        return level

    first = make_level(0)

    @own_row
    def predict(q, b, law, at, memory, place, terms, slopes, mean, half, halves):
        damp(q, b, law, at)
        for n in range(MODES * W):
            terms[n] = q[b + n]
            mean[n] = q[b + n]
            half[n] = q[b + n]
        first(q, b, law, at, memory, place, terms, slopes, mean, half, halves)

    return predict


@lru_cache
def make_layer(
    order: int, anisotropic: bool, layer: bool, precision: str
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return functions that damp Q, and that add the memory variables to D^1; outside of absorbing layers, and for
    memory variables of anisotropic elements, they do nothing."""
    own_row = row_of("layer", order, anisotropic, layer, precision)
    reference = make_reference(order)
    L, MODES, ROWS = U(LANES[precision]), U(reference.count), U(reference.levels[1])
    W, SPAN = Q * L, U(reference.levels[1]) * Q * L
    GAINS, DECAY, DAMPING = U(LAW_NUMBERS[False]) * L, U(LAW_NUMBERS[False] + 3) * L, U(law_numbers(anisotropic, layer) - 1) * L
    mix = make_elastic_law(False, precision)
    dtype = np.dtype(np.float32 if precision == "single" else np.float64).type
    one = dtype(1)

    @own_row
    def leave(q, b, law, at):
        pass

    @own_row
    def damp(q, b, law, at):
        for row in range(MODES * Q):
            for w in range(L):
                q[b + row * L + w] *= law[at + DAMPING + w]

    @own_row
    def forget(slopes, terms, law, at, memory, place):
        pass

    @own_row
    def add_memory(slopes, terms, law, at, memory, place):
        """slopes : derivatives of Q, followed by a work array."""
        stretched = np.empty(U(12) * L, dtype)
        for c in range(U(3)):
            for i in range(U(3)):
                for w in range(L):
                    n = (c * U(3) + i) * L + w
                    stretched[n] = law[at + n] * law[at + GAINS + i * L + w]
        for n in range(U(9) * L, U(12) * L):
            stretched[n] = law[at + n]
        for r in range(ROWS):
            mix(slopes, r * W, SPAN, slopes, U(3) * SPAN + r * W, stretched, U(0), one)
        for row in range(ROWS * Q):
            for w in range(L):
                n = row * L + w
                memory[place + n] -= slopes[U(3) * SPAN + n]
                terms[n] += memory[place + n]

    if not layer:
        return leave, forget
    return damp, forget if anisotropic else add_memory


@lru_cache
def make_elastic_law(anisotropic: bool, precision: str) -> Callable[..., None]:
    """Return the function that applies the elastic law to derivatives of the quantities, for one mode of all lanes."""
    own_row = row_of("elastic law", anisotropic, precision)
    L = U(LANES[precision])
    sources = tuple(tuple(U(s) * L for s in row) for row in SOURCES)

    @own_row
    def isotropic(x, i, span, out, o, law, at, factor):
        """Apply d xi_c / d x_i times the time step (9), lambda, mu, 1 / rho."""
        for w in range(L):
            a, b, c = i + w, i + span + w, i + span + span + w
            g = at + w
            ax, ay, az = factor * law[g], factor * law[g + L], factor * law[g + U(2) * L]
            bx, by, bz = factor * law[g + U(3) * L], factor * law[g + U(4) * L], factor * law[g + U(5) * L]
            cx, cy, cz = factor * law[g + U(6) * L], factor * law[g + U(7) * L], factor * law[g + U(8) * L]
            lam, mu, buoyancy = law[g + U(9) * L], law[g + U(10) * L], law[g + U(11) * L]
            X, Y, Z = VX * L, VY * L, VZ * L
            xx = ax * x[a + X] + bx * x[b + X] + cx * x[c + X]
            yy = ay * x[a + Y] + by * x[b + Y] + cy * x[c + Y]
            zz = az * x[a + Z] + bz * x[b + Z] + cz * x[c + Z]
            xy = ay * x[a + X] + by * x[b + X] + cy * x[c + X] + ax * x[a + Y] + bx * x[b + Y] + cx * x[c + Y]
            xz = az * x[a + X] + bz * x[b + X] + cz * x[c + X] + ax * x[a + Z] + bx * x[b + Z] + cx * x[c + Z]
            yz = az * x[a + Y] + bz * x[b + Y] + cz * x[c + Y] + ay * x[a + Z] + by * x[b + Z] + cy * x[c + Z]
            trace = lam * (xx + yy + zz)
            out[o + w] = trace + (mu + mu) * xx
            out[o + L + w] = trace + (mu + mu) * yy
            out[o + U(2) * L + w] = trace + (mu + mu) * zz
            out[o + U(3) * L + w] = mu * xy
            out[o + U(4) * L + w] = mu * xz
            out[o + U(5) * L + w] = mu * yz
            A, B, C, D, E, F = U(0), L, U(2) * L, U(3) * L, U(4) * L, U(5) * L
            vx = ax * x[a + A] + bx * x[b + A] + cx * x[c + A] + ay * x[a + D] + by * x[b + D] + cy * x[c + D]
            vy = ax * x[a + D] + bx * x[b + D] + cx * x[c + D] + ay * x[a + B] + by * x[b + B] + cy * x[c + B]
            vz = ax * x[a + E] + bx * x[b + E] + cx * x[c + E] + ay * x[a + F] + by * x[b + F] + cy * x[c + F]
            out[o + X + w] = buoyancy * (vx + az * x[a + E] + bz * x[b + E] + cz * x[c + E])
            out[o + Y + w] = buoyancy * (vy + az * x[a + F] + bz * x[b + F] + cz * x[c + F])
            out[o + Z + w] = buoyancy * (vz + az * x[a + C] + bz * x[b + C] + cz * x[c + C])

    @own_row
    def any_law(x, i, span, out, o, law, at, factor):
        """Apply [quantity, direction, source] of `riemann.elastic_matrices`, times the time step."""
        for q in range(Q):
            first, second, third = sources[q]
            g = at + q * U(9) * L
            for w in range(L):
                total = x[i + first + w] * U(0)
                for c in range(U(3)):
                    p, k = i + c * span + w, g + c * U(3) * L + w
                    total += law[k] * x[p + first] + law[k + L] * x[p + second] + law[k + U(2) * L] * x[p + third]
                out[o + q * L + w] = factor * total

    return any_law if anisotropic else isotropic


@lru_cache
def make_face_laws(order: int, anisotropic: bool, precision: str) -> tuple[Callable[..., None], ...]:
    """Return functions for the stored and sent traces at a face, for the flux of a jump, see `riemann`, and for the part
    of this flux of isotropic elements that counts for memory variables, see `layer`."""
    own_row = row_of("face laws", order, anisotropic, precision)
    L, FACE = U(LANES[precision]), U(make_reference(order).face_count)
    PART, GAINS = FACE * L, U(LAW_NUMBERS[False]) * L

    @own_row
    def isotropic_sides(trace, numbers, at, kept, k, sent):
        for m in range(FACE):
            for w in range(L):
                p, o, g = m * Q * L + w, m * L + w, at + w
                nx, ny, nz = numbers[g], numbers[g + L], numbers[g + U(2) * L]
                xy, xz, yz = trace[p + U(3) * L], trace[p + U(4) * L], trace[p + U(5) * L]
                x = trace[p] * nx + xy * ny + xz * nz
                y = xy * nx + trace[p + L] * ny + yz * nz
                z = xz * nx + yz * ny + trace[p + U(2) * L] * nz
                vx, vy, vz = trace[p + VX * L], trace[p + VY * L], trace[p + VZ * L]
                along = vx * nx + vy * ny + vz * nz
                s, across = numbers[g + U(10) * L], numbers[g + U(11) * L] * along
                kept[k + o] = x + s * vx + across * nx
                kept[k + PART + o] = y + s * vy + across * ny
                kept[k + PART + PART + o] = z + s * vz + across * nz
                s, across = numbers[g + U(12) * L], numbers[g + U(13) * L] * along
                sent[o] = s * vx + across * nx - x
                sent[PART + o] = s * vy + across * ny - y
                sent[PART + PART + o] = s * vz + across * nz - z

    @own_row
    def isotropic_jump(jump, numbers, at, flux):
        for m in range(FACE):
            for w in range(L):
                p, o, g = m * Q * L + w, m * L + w, at + w
                nx, ny, nz, s = numbers[g], numbers[g + L], numbers[g + U(2) * L], numbers[g + U(3) * L]
                x, y, z = jump[o], jump[PART + o], jump[PART + PART + o]
                normal = numbers[g + U(4) * L] * (nx * x + ny * y + nz * z)
                x, y, z = s * x + normal * nx, s * y + normal * ny, s * z + normal * nz
                normal = nx * x + ny * y + nz * z
                pressure, mu = numbers[g + U(6) * L] * normal, numbers[g + U(7) * L]
                flux[p] = pressure + (mu + mu) * nx * x
                flux[p + L] = pressure + (mu + mu) * ny * y
                flux[p + U(2) * L] = pressure + (mu + mu) * nz * z
                flux[p + U(3) * L] = mu * (nx * y + ny * x)
                flux[p + U(4) * L] = mu * (nx * z + nz * x)
                flux[p + U(5) * L] = mu * (ny * z + nz * y)
                s, along = numbers[g + U(8) * L], numbers[g + U(9) * L] * normal
                flux[p + VX * L] = s * x + along * nx
                flux[p + VY * L] = s * y + along * ny
                flux[p + VZ * L] = s * z + along * nz

    @own_row
    def product(numbers, g, x, y, z):
        """Return the product of the symmetric matrix (xx, yy, zz, xy, xz, yz) at g and a vector."""
        xx, yy, zz = numbers[g], numbers[g + L], numbers[g + U(2) * L]
        xy, xz, yz = numbers[g + U(3) * L], numbers[g + U(4) * L], numbers[g + U(5) * L]
        return xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z

    @own_row
    def any_sides(trace, numbers, at, kept, k, sent):
        for m in range(FACE):
            for w in range(L):
                p, o, g = m * Q * L + w, m * L + w, at + U(27) * L + w
                x, y, z = product(trace, p, numbers[g], numbers[g + L], numbers[g + U(2) * L])
                vx, vy, vz = trace[p + VX * L], trace[p + VY * L], trace[p + VZ * L]
                wx, wy, wz = product(numbers, g + U(3) * L, vx, vy, vz)
                ux, uy, uz = product(numbers, g + U(9) * L, vx, vy, vz)
                kept[k + o], sent[o] = x + ux, wx - x
                kept[k + PART + o], sent[PART + o] = y + uy, wy - y
                kept[k + PART + PART + o], sent[PART + PART + o] = z + uz, wz - z

    @own_row
    def any_jump(jump, numbers, at, flux):
        for m in range(FACE):
            for q in range(Q):
                g = at + q * U(3) * L
                for w in range(L):
                    x, y, z = jump[m * L + w], jump[PART + m * L + w], jump[PART + PART + m * L + w]
                    flux[(m * Q + q) * L + w] = (
                        numbers[g + w] * x + numbers[g + L + w] * y + numbers[g + U(2) * L + w] * z
                    )

    @own_row
    def stretched_jump(jump, numbers, at, law, place, flux):
        """Flux of a jump in which the contribution of each direction of the normal has the gain of this direction."""
        for m in range(FACE):
            for w in range(L):
                p, o, g, h = m * Q * L + w, m * L + w, at + w, place + GAINS + w
                nx, ny, nz, s = numbers[g], numbers[g + L], numbers[g + U(2) * L], numbers[g + U(3) * L]
                x, y, z = jump[o], jump[PART + o], jump[PART + PART + o]
                normal = numbers[g + U(4) * L] * (nx * x + ny * y + nz * z)
                x, y, z = s * x + normal * nx, s * y + normal * ny, s * z + normal * nz
                normal = nx * x + ny * y + nz * z
                gx, gy, gz = law[h] * nx, law[h + L] * ny, law[h + U(2) * L] * nz
                gain = gx * nx + gy * ny + gz * nz
                s, along = gain * numbers[g + U(8) * L], gain * numbers[g + U(9) * L] * normal
                flux[p + VX * L] = s * x + along * nx
                flux[p + VY * L] = s * y + along * ny
                flux[p + VZ * L] = s * z + along * nz
                mu = numbers[g + U(7) * L]
                pressure = numbers[g + U(6) * L] * (gx * x + gy * y + gz * z)
                flux[p] = pressure + (mu + mu) * gx * x
                flux[p + L] = pressure + (mu + mu) * gy * y
                flux[p + U(2) * L] = pressure + (mu + mu) * gz * z
                flux[p + U(3) * L] = mu * (gx * y + gy * x)
                flux[p + U(4) * L] = mu * (gx * z + gz * x)
                flux[p + U(5) * L] = mu * (gy * z + gz * y)

    if anisotropic:
        return any_sides, any_jump, stretched_jump
    return isotropic_sides, isotropic_jump, stretched_jump


@lru_cache
def make_faces(
    order: int, anisotropic: bool, layer: bool, precision: str
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return functions for the contributions of faces to a block, and for its sent traces."""
    own_row = row_of("faces", order, anisotropic, layer, precision)
    STRETCHED = layer and not anisotropic
    reference = make_reference(order)
    lanes = LANES[precision]
    width = device_layout("cpu", precision).trace_width(reference.face_count)
    L, FACE, WIDTH = U(lanes), U(reference.face_count), U(width)
    SLOT, GROUP, GROUPS = U(VELOCITIES) * WIDTH, U(TOGETHER) * L, U(QUANTITIES // TOGETHER)
    NUMBERS = U(FACE_NUMBERS[anisotropic])
    sides, jumped, stretched = make_face_laws(order, anisotropic, precision)
    trace_0, trace_1, trace_2, trace_3 = (
        matrix_rows(matrix.T, lanes, QUANTITIES * lanes, TOGETHER)
        for matrix in reference.traces
    )
    lift_0, lift_1, lift_2, lift_3 = (
        matrix_rows(matrix, lanes, QUANTITIES * lanes, TOGETHER, adding=True)
        for matrix in reference.traces
    )

    @row_of("trace", order, precision, inline=False)
    def take_trace(f, out, x):
        for g in range(GROUPS):
            if f == U(0):
                trace_0(out, g * GROUP, x, g * GROUP)
            elif f == U(1):
                trace_1(out, g * GROUP, x, g * GROUP)
            elif f == U(2):
                trace_2(out, g * GROUP, x, g * GROUP)
            else:
                trace_3(out, g * GROUP, x, g * GROUP)

    @row_of("lift", order, precision, inline=False)
    def lift(f, out, b, x):
        for g in range(GROUPS):
            if f == U(0):
                lift_0(out, b + g * GROUP, x, g * GROUP)
            elif f == U(1):
                lift_1(out, b + g * GROUP, x, g * GROUP)
            elif f == U(2):
                lift_2(out, b + g * GROUP, x, g * GROUP)
            else:
                lift_3(out, b + g * GROUP, x, g * GROUP)

    @own_row
    def correct(
        q, b, block, own, even, odd, numbers, at, neighbor, second, count, jump, trace, law, law_at, change
    ):  # fmt: skip
        """Add the contributions of the faces; count : steps of the block's cluster so far, with the new one. change :
        of the memory variables of a layer."""
        before = count - 1
        for f in range(U(4)):
            kept = (block * U(4) + f) * SLOT * L
            for w in range(L):
                face = (block * L + w) * U(4) + f
                link = second[face]
                slot, parity = U(neighbor[face]), before & 1
                if link & 3 == SLOWER:
                    slot = U(link >> 2) if parity else slot
                    parity = (before >> 1) & 1
                source = odd if parity else even
                for c in range(U(3)):
                    for m in range(FACE):
                        o = (c * FACE + m) * L + w
                        jump[o] = source[slot * SLOT + c * WIDTH + m] - own[kept + o]
            jumped(jump, numbers, at + f * NUMBERS * L, trace)
            lift(f, q, b, trace)
            if STRETCHED:
                stretched(jump, numbers, at + f * NUMBERS * L, law, law_at, trace)
                lift(f, change, U(0), trace)

    @own_row
    def send(block, own, even, odd, numbers, at, second, count, mean, half, halves, jump, sent, trace):
        """Store and send the averages over the step that begins."""
        parity, slow_parity = count & 1, (count >> 1) & 1
        for f in range(U(4)):
            kept = (block * U(4) + f) * SLOT * L
            if halves:
                take_trace(f, trace, half)
                sides(trace, numbers, at + f * NUMBERS * L, own, kept, jump)
            take_trace(f, trace, mean)
            sides(trace, numbers, at + f * NUMBERS * L, own, kept, sent)
            for w in range(L):
                face = (block * L + w) * U(4) + f
                link, slot = second[face], U(face) * SLOT
                relation = link & 3
                target = odd if (slow_parity if relation == SLOWER else parity) else even
                further = U(link >> 2) * SLOT
                for c in range(U(3)):
                    for m in range(FACE):
                        value, o = sent[(c * FACE + m) * L + w], c * WIDTH + m
                        if relation == SLOWER:
                            value *= 0.5
                            target[slot + o] = value + target[slot + o] if parity else value
                        elif relation == FASTER:
                            early = jump[(c * FACE + m) * L + w]
                            target[slot + o] = early
                            target[further + o] = value + value - early
                        else:
                            target[slot + o] = value

    return correct, send


@lru_cache
def make_step(order: int, anisotropic: bool, layer: bool, precision: str) -> Callable[..., None]:
    """Return `step` for blocks of this order, isotropic or anisotropic, in an absorbing layer or not."""
    reference = make_reference(order)
    lanes, dtype = LANES[precision], np.float32 if precision == "single" else np.float64
    L, MODES, FACE, LEVEL = U(lanes), U(reference.count), U(reference.face_count), U(reference.levels[1])
    BLOCK, LAW = MODES * Q * L, U(law_numbers(anisotropic, layer) * lanes)
    STRETCHED, SPAN, DECAY = layer and not anisotropic, LEVEL * Q * L, U((LAW_NUMBERS[False] + 3) * lanes)
    SLOPES = U(4 if STRETCHED else 3) * SPAN
    FACES = U(4 * FACE_NUMBERS[anisotropic] * lanes)
    predict = make_predictor(order, anisotropic, layer, precision)
    correct, send = make_faces(order, anisotropic, layer, precision)

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def step(
        coefficients, own, even, odd, elastic, faces, neighbor, second, cluster, kind_first, memory, first, end, tick,
        pending,
    ):  # fmt: skip
        past = memory.ravel()
        q, kept, evens, odds = coefficients.ravel(), own.ravel(), even.ravel(), odd.ravel()
        law, numbers, to, links = elastic.ravel(), faces.ravel(), neighbor.ravel(), second.ravel()
        pieces = min(end - first, PIECES)
        for piece in prange(pieces):
            rounding = flush_denormals()
            terms, mean = np.empty(BLOCK, dtype), np.empty(BLOCK, dtype)
            half, slopes = np.empty(BLOCK, dtype), np.empty(SLOPES, dtype)
            trace, jump = np.empty(FACE * Q * L, dtype), np.empty(FACE * U(3) * L, dtype)
            sent = np.empty(FACE * U(3) * L, dtype)
            begin, stop = first + (end - first) * piece // pieces, first + (end - first) * (piece + 1) // pieces
            for n in range(begin, stop):
                block, count = U(n), tick >> cluster[n]
                b, own_place = block * BLOCK, U(n - kind_first)
                law_at, place = own_place * LAW, own_place * SPAN
                if STRETCHED:
                    for m in range(BLOCK):
                        half[m] = 0
                if pending:
                    correct(
                        q, b, block, kept, evens, odds, numbers, own_place * FACES, to, links, count, jump, trace, law,
                        law_at, half,
                    )  # fmt: skip
                if STRETCHED:
                    for row in range(LEVEL * Q):
                        for w in range(L):
                            n = row * L + w
                            past[place + n] = law[law_at + DECAY + w] * past[place + n] - half[n]
                halves = False
                for face in range(block * L * U(4), (block + U(1)) * L * U(4)):
                    halves |= links[face] & 3 == FASTER
                predict(q, b, law, law_at, past, place, terms, slopes, mean, half, halves)
                send(
                    block, kept, evens, odds, numbers, own_place * FACES, links, count, mean, half, halves, jump, sent,
                    trace,
                )  # fmt: skip
            restore_rounding(rounding)

    return step


@lru_cache
def make_complete(order: int, anisotropic: bool, precision: str) -> Callable[..., None]:
    """Return `complete` for blocks of this order, isotropic or anisotropic."""
    reference = make_reference(order)
    lanes, dtype = LANES[precision], np.float32 if precision == "single" else np.float64
    L, MODES, FACE = U(lanes), U(reference.count), U(reference.face_count)
    BLOCK, FACES = MODES * Q * L, U(4 * FACE_NUMBERS[anisotropic] * lanes)
    correct, _ = make_faces(order, anisotropic, False, precision)

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def complete(
        coefficients, own, even, odd, elastic, faces, neighbor, second, cluster, kind_first, blocks, tick, pending, out,
        out_first,
    ):  # fmt: skip
        """Set out[out_first + n] to the coefficients of blocks[n] at the end of the current step."""
        q, kept, evens, odds, whole = coefficients.ravel(), own.ravel(), even.ravel(), odd.ravel(), out.ravel()
        numbers, to, links = faces.ravel(), neighbor.ravel(), second.ravel()
        for n in prange(len(blocks)):
            rounding = flush_denormals()
            trace, jump = np.empty(FACE * Q * L, dtype), np.empty(FACE * U(3) * L, dtype)
            block, target = U(blocks[n]), U(out_first + n) * BLOCK
            for m in range(BLOCK):
                whole[target + m] = q[block * BLOCK + m]
            if pending:
                at = U(blocks[n] - kind_first) * FACES
                count = tick >> cluster[blocks[n]]
                correct(
                    whole, target, block, kept, evens, odds, numbers, at, to, links, count, jump, trace, numbers, at,
                    trace,
                )  # fmt: skip
            restore_rounding(rounding)

    return complete


def make_kernels(order: int, precision: str, **_sizes: Any) -> dict[str, Any]:
    """Return a dictionary: `step(anisotropic, mixed, layer)` and `complete(anisotropic, mixed)` return kernels; `layout` is
    the arrangement, and `pack_faces` arranges coefficients of faces (slots, 4, c)."""
    own = device_layout("cpu", precision)
    return {
        "step": lambda anisotropic, mixed, layer: make_step(order, anisotropic, layer, precision),
        "complete": lambda anisotropic, mixed: make_complete(order, anisotropic, precision),
        "layout": own,
        "pack_faces": lambda numbers: own.packed(numbers.reshape(len(numbers), -1)),
    }
