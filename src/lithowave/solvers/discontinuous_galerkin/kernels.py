r"""CPU kernels of discontinuous Galerkin: the readable specification of their CUDA versions.

**Argument lists of the kernels, shared by their CPU and CUDA versions.** coefficients : of all blocks, arranged by
`BlockLayout`: the state at the end of the current step without the contributions of its faces (see `kernels`). own : u,
which an element subtracts from the received w, averages over its step. even, odd : (slots, 3, width), w, which elements
send, averages over steps of an even and of an odd index; there are two arrays because elements of one step read and
write in no fixed order. elastic, faces : coefficients of the blocks of one kind (see `materials`), from block
`kind_first`. memory : psi of these blocks, see `layer`; with `BlockLayout`, and functions up to one degree less.
relaxation : r of the mechanisms of these blocks, see `relaxation`, arranged as memory, with six quantities for each
mechanism. recursion : (clusters, mechanisms * order), see `relaxation.recursion`. neighbor, second : see `Links`.
cluster : cluster of each block. tick : steps of cluster 0 so far, at least modulo twice those of a step of the run.
pending : True while a step is in progress. traces : (n, 2) slots of the traces exchanged with other ranks, and the
cluster whose step index selects even or odd: the higher one of both sides. buffer : of a message, 3 x modes values per
trace.

**Laws of elements on the CPU, for all lanes of a block: elastic law, flux at faces, and memory variables of layers.**
`kernels` describes the scheme, `materials` the coefficients of laws and faces, `layer` the memory variables.

**Element updates on the CPU: the readable specification.** Within an element Q(x, t) = sum of Q_k(t) phi_k(x): stress
and velocity, nine quantities (`materials.STRESS`, then v). A step of length T is (Käser & Dumbser 2006, GJI 166,
855-877, in strong form)

.. math::
    D^0 = Q, \qquad D^{d+1} = \frac{T}{d+1} \sum_c A_c K_c D^d, \qquad
    Q \leftarrow Q + \sum_{d \ge 1} D^d + \sum_f R_f F_f \Big( \sum_d \tfrac{1}{d+1} R_f^T D^d \Big)

The Taylor terms D^d are the predictor (Cauchy-Kovalewski), K_c and R_f the matrices of `reference`, A_c the elastic law
(`materials.elastic_matrices`), and F_f the difference between the flux at the face and the element's own, from the
averages of both sides over the step. `materials` has the formulas: each element stores u and sends w.

`step` performs the second half of one step and the first half of the next: it adds the contributions of the faces,
which completes Q, and predicts. Between two calls Q lacks these contributions; `complete` returns blocks with them.

In an absorbing layer, D^0 is damped, and memory variables of its derivatives and jumps are added to D^1; see `layer`.
With attenuation, all D^d contain the relaxation of stresses, and the contributions of the faces are also added to its
memory variables; see `relaxation`.

To neighbors that step half as often, an element sends the mean of its two steps, and they send both halves of theirs
(`materials`).

All arrays have `lanes` elements as their fastest index.

**CPU kernels at points: sources, receivers, peaks and the instability check.** Coefficients are [block, mode, quantity,
lane]; the quantities are stress (`materials.STRESS`), then velocity.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import FAST, U, parallel, row, shared_row
from lithowave.backends.rounding import flush_denormals, restore_rounding
from lithowave.backends.rows import address, lane_rows, matrix_rows, prefetch
from lithowave.solvers.common.kernels import count_step, raise_peaks
from lithowave.solvers.discontinuous_galerkin.materials import (
    ALIKE,
    ANISOTROPIC_LAW,
    FACE_NUMBERS,
    FASTER,
    JUMP,
    LANES,
    LAW_NUMBERS,
    QUANTITIES,
    SLOWER,
    SOURCES,
    STRESSES,
    VELOCITIES,
    device_layout,
    law_numbers,
)
from lithowave.solvers.discontinuous_galerkin.reference import make_reference
from lithowave.solvers.discontinuous_galerkin.relaxation import make_relaxation, work_values

_FIELDS = ("coefficients", "own", "even", "odd", "elastic", "faces", "neighbor", "second", "cluster", "kind_first")

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "step": (*_FIELDS, "memory", "relaxation", "recursion", "first", "end", "tick", "pending"),
    "complete": (*_FIELDS, "blocks", "tick", "pending", "out", "out_first"),
    "complete_memory": (*_FIELDS, "memory", "blocks", "tick", "pending", "out", "out_first"),
    "complete_relaxation": (*_FIELDS, "relaxation", "blocks", "tick", "pending", "out", "out_first"),
    "inject": ("array", "target", "begin", "weight", "owner", "amplitude", "row"),
    "count_step": ("row",),
    "pack_traces": ("even", "odd", "traces", "tick", "modes", "buffer"),
    "unpack_traces": ("even", "odd", "traces", "tick", "modes", "buffer"),
    "sample": ("completed", "base", "values", "out", "slot"),
    "surface_peaks": ("velocity", "time_step", "displacement", "peak_velocity", "peak_displacement"),
    "largest_velocity": ("coefficients", "out"),
}


Q = U(QUANTITIES)
VX, VY, VZ = U(STRESSES), U(STRESSES + 1), U(STRESSES + 2)  # indices of the velocities


@lru_cache
def make_elastic_law(anisotropic: bool, precision: str) -> Callable[..., None]:
    """Return the function that applies the elastic law to derivatives of the quantities, for one mode of all lanes."""
    L = U(LANES[precision])
    sources = tuple(tuple(U(s) * L for s in row) for row in SOURCES)

    @row
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

    @row
    def any_law(x, i, span, out, o, law, at, factor):
        """Apply [quantity, direction, source] of `materials.elastic_matrices`, times the time step."""
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
def make_layer(
    order: int, anisotropic: bool, layer: bool, precision: str
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return functions that damp Q, and that add the memory variables to D^1; outside of absorbing layers, they do
    nothing."""
    reference = make_reference(order)
    L, MODES, ROWS = U(LANES[precision]), U(reference.count), U(reference.levels[1])
    W, SPAN = Q * L, ROWS * Q * L
    GAINS = U(LAW_NUMBERS[anisotropic]) * L
    DECAY, DAMPING = (U(law_numbers(anisotropic, layer) - n) * L for n in (2, 1))
    mix = make_elastic_law(anisotropic, precision)
    dtype = np.dtype(np.float32 if precision == "single" else np.float64).type
    one = dtype(1)

    @row
    def leave(q, b, law, at):
        pass

    @row
    def damp(q, b, law, at):
        for r in range(MODES * Q):
            for w in range(L):
                q[b + r * L + w] *= law[at + DAMPING + w]

    @row
    def forget(slopes, terms, law, at, memory, place):
        pass

    @row
    def stretch(slopes, law, at):
        """Write the derivatives with gains behind the derivatives of Q."""
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

    @row
    def stretch_any(slopes, law, at):
        for r in range(ROWS):
            mix(slopes, r * W, SPAN, slopes, U(3) * SPAN + r * W, law, at + GAINS, one)

    gained = stretch_any if anisotropic else stretch

    @row
    def add_memory(slopes, terms, law, at, memory, place):
        """slopes : derivatives of Q, followed by a work array."""
        gained(slopes, law, at)
        for r in range(ROWS * Q):
            for w in range(L):
                n = r * L + w
                memory[place + n] = law[at + DECAY + w] * (memory[place + n] - slopes[U(3) * SPAN + n])
                terms[n] += memory[place + n]

    if not layer:
        return leave, forget
    return damp, add_memory


@lru_cache
def make_face_laws(order: int, anisotropic: bool, precision: str) -> tuple[Callable[..., None], ...]:
    """Return functions for the stored and sent traces at a face, for the flux of a jump, see `materials`, and for this
    flux with gains, for memory variables, see `layer`."""
    L, FACE = U(LANES[precision]), U(make_reference(order).face_count)
    PART, GAINS = FACE * L, U(LAW_NUMBERS[anisotropic]) * L

    @row
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

    @row
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

    @row
    def product(numbers, g, x, y, z):
        """Return the product of the symmetric matrix (xx, yy, zz, xy, xz, yz) at g and a vector."""
        xx, yy, zz = numbers[g], numbers[g + L], numbers[g + U(2) * L]
        xy, xz, yz = numbers[g + U(3) * L], numbers[g + U(4) * L], numbers[g + U(5) * L]
        return xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z

    @row
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

    @row
    def any_jump(jump, numbers, at, flux):
        for m in range(FACE):
            for q in range(Q):
                g = at + q * U(3) * L
                for w in range(L):
                    x, y, z = jump[m * L + w], jump[PART + m * L + w], jump[PART + PART + m * L + w]
                    flux[(m * Q + q) * L + w] = (
                        numbers[g + w] * x + numbers[g + L + w] * y + numbers[g + U(2) * L + w] * z
                    )

    @row
    def any_stretched_jump(jump, numbers, at, law, place, face, flux):
        any_jump(jump, law, place + GAINS + (U(ANISOTROPIC_LAW) + face * U(JUMP)) * L, flux)

    @row
    def stretched_jump(jump, numbers, at, law, place, face, flux):
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
        return any_sides, any_jump, any_stretched_jump
    return isotropic_sides, isotropic_jump, stretched_jump


TOGETHER = QUANTITIES  # quantities for which an entry of a matrix is loaded once
PIECES = 64  # of the blocks that threads process


@lru_cache
def make_predictor(
    order: int, anisotropic: bool, layer: bool, mechanisms: int, precision: str
) -> Callable[..., None]:
    """Return a function that adds Taylor terms to Q of a block and computes their means over a step and its half."""
    reference = make_reference(order)
    L = U(LANES[precision])
    W, MODES = Q * L, U(reference.count)
    mix = make_elastic_law(anisotropic, precision)
    damp, add_memory = make_layer(order, anisotropic, layer, precision)
    _, make_relaxing = make_relaxation(order, anisotropic, layer, mechanisms, precision)

    def make_level(d: int) -> Callable[..., None]:
        """Return a function for the Taylor terms from D^d to D^(d + 1), and all further ones."""
        if d == order - 1:

            @row
            def nothing(q, b, law, at, memory, place, relaxing, terms, slopes, mean, half, halves):
                pass

            return nothing
        deeper, relax = make_level(d + 1), make_relaxing(d + 1)
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

        @row
        def level(q, b, law, at, memory, place, relaxing, terms, slopes, mean, half, halves):
            for g in range(GROUPS):
                slope_0(slopes, g * GROUP, terms, g * GROUP)
                slope_1(slopes, SPAN + g * GROUP, terms, g * GROUP)
                slope_2(slopes, U(2) * SPAN + g * GROUP, terms, g * GROUP)
            for r in range(ROWS):
                mix(slopes, r * W, SPAN, terms, r * W, law, at, factor)
            if FIRST:
                add_memory(slopes, terms, law, at, memory, place)
            past, relaxing_place, work, rates = relaxing
            relax(terms, law, at, past, relaxing_place, work, rates)
            for n in range(SPAN):
                q[b + n] += terms[n]
                mean[n] += of_mean * terms[n]
            if halves:
                for n in range(SPAN):
                    half[n] += of_half * terms[n]
            deeper(q, b, law, at, memory, place, relaxing, terms, slopes, mean, half, halves)

        return level

    first = make_level(0)

    @row
    def predict(q, b, law, at, memory, place, relaxing, terms, slopes, mean, half, halves):
        damp(q, b, law, at)
        for n in range(MODES * W):
            terms[n] = q[b + n]
            mean[n] = q[b + n]
            half[n] = q[b + n]
        first(q, b, law, at, memory, place, relaxing, terms, slopes, mean, half, halves)

    return predict


@lru_cache
def make_faces(
    order: int, anisotropic: bool, layer: bool, precision: str
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return functions for the contributions of faces to a block, and for its sent traces."""
    reference = make_reference(order)
    lanes = LANES[precision]
    width = device_layout("cpu", precision).trace_width(reference.face_count)
    L, FACE, WIDTH = U(lanes), U(reference.face_count), U(width)
    SLOT, GROUP, GROUPS = U(VELOCITIES) * WIDTH, U(TOGETHER) * L, U(QUANTITIES // TOGETHER)
    NUMBERS = U(FACE_NUMBERS[anisotropic])
    gather, scatter, _ = lane_rows(lanes, int(FACE))
    SIZE = 4 if precision == "single" else 8
    LINE = U(64 // SIZE)  # values in a line of the cache
    sides, jumped, stretched = make_face_laws(order, anisotropic, precision)
    trace_0, trace_1, trace_2, trace_3 = (
        matrix_rows(matrix.T, lanes, QUANTITIES * lanes, TOGETHER)
        for matrix in reference.traces
    )
    lift_0, lift_1, lift_2, lift_3 = (
        matrix_rows(matrix, lanes, QUANTITIES * lanes, TOGETHER, adding=True)
        for matrix in reference.traces
    )

    change_0, change_1, change_2, change_3 = (
        matrix_rows(matrix[: reference.levels[1]], lanes, QUANTITIES * lanes, TOGETHER, adding=True)
        for matrix in reference.traces
    )

    @shared_row
    def lift_change(f, out, x):
        for g in range(GROUPS):
            if f == U(0):
                change_0(out, g * GROUP, x, g * GROUP)
            elif f == U(1):
                change_1(out, g * GROUP, x, g * GROUP)
            elif f == U(2):
                change_2(out, g * GROUP, x, g * GROUP)
            else:
                change_3(out, g * GROUP, x, g * GROUP)

    @shared_row
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

    @shared_row
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

    @row
    def received(face, even, odd, neighbor, second, before):
        """Return the address of the trace that a neighbor sent; before : steps of the cluster before the new one."""
        link = second[face]
        slot, parity = U(neighbor[face]), before & 1
        if link & 3 == SLOWER:
            slot = U(link >> 2) if parity else slot
            parity = (before >> 1) & 1
        return address(odd, slot * SLOT) if parity else address(even, slot * SLOT)

    @row
    def correct(
        q, b, block, following, own, even, odd, numbers, at, neighbor, second, count, jump, trace, law, law_at, change
    ):  # fmt: skip
        """Add the contributions of the faces; count : steps of the block's cluster so far, with the new one. change :
        of the memory variables of a layer. following : the next block, whose values are loaded into the cache."""
        places = np.empty(L, np.uint64)
        for f in range(U(4)):
            kept = (block * U(4) + f) * SLOT * L
            for w in range(L):
                places[w] = received((block * L + w) * U(4) + f, even, odd, neighbor, second, count - 1)
                ahead = received((following * L + w) * U(4) + f, even, odd, neighbor, second, count - 1)
                for n in range(0, SLOT, LINE):
                    prefetch(ahead + n * U(SIZE))
            for c in range(U(3)):
                gather(jump, c * FACE * L, places, c * WIDTH)
            for o in range(U(3) * FACE * L):
                jump[o] -= own[kept + o]
            jumped(jump, numbers, at + f * NUMBERS * L, trace)
            lift(f, q, b, trace)
            if layer:
                stretched(jump, numbers, at + f * NUMBERS * L, law, law_at, f, trace)
                lift_change(f, change, trace)

    @row
    def send(block, own, even, odd, numbers, at, second, count, mean, half, halves, jump, sent, trace):
        """Store and send the averages over the step that begins."""
        parity, slow_parity = count & 1, (count >> 1) & 1
        places, unused = np.empty(L, np.uint64), np.empty(SLOT, mean.dtype)
        for f in range(U(4)):
            kept = (block * U(4) + f) * SLOT * L
            if halves:
                take_trace(f, trace, half)
                sides(trace, numbers, at + f * NUMBERS * L, own, kept, jump)
            take_trace(f, trace, mean)
            sides(trace, numbers, at + f * NUMBERS * L, own, kept, sent)
            for w in range(L):
                face = (block * L + w) * U(4) + f
                places[w] = address(odd if parity else even, U(face) * SLOT)
                if second[face] & 3 != ALIKE:  # the scattered values are replaced below
                    places[w] = address(unused, U(0))
            for c in range(U(3)):
                scatter(sent, c * FACE * L, places, c * WIDTH)
            for w in range(L):
                face = (block * L + w) * U(4) + f
                link, slot = second[face], U(face) * SLOT
                relation = link & 3
                if relation == ALIKE:
                    continue
                target = odd if (slow_parity if relation == SLOWER else parity) else even
                further = U(link >> 2) * SLOT
                for c in range(U(3)):
                    for m in range(FACE):
                        value, o = sent[(c * FACE + m) * L + w], c * WIDTH + m
                        if relation == SLOWER:
                            value *= 0.5
                            target[slot + o] = value + target[slot + o] if parity else value
                        else:
                            early = jump[(c * FACE + m) * L + w]
                            target[slot + o] = early
                            target[further + o] = value + value - early

    return correct, send


@lru_cache
def make_step(order: int, anisotropic: bool, layer: bool, mechanisms: int, precision: str) -> Callable[..., None]:
    """Return `step` for blocks of this order, isotropic or anisotropic, in an absorbing layer or not, with a number of
    mechanisms of attenuation."""
    reference = make_reference(order)
    lanes, dtype = LANES[precision], np.float32 if precision == "single" else np.float64
    L, MODES, FACE, LEVEL = U(lanes), U(reference.count), U(reference.face_count), U(reference.levels[1])
    BLOCK, LAW = MODES * Q * L, U(law_numbers(anisotropic, layer, mechanisms) * lanes)
    SPAN, LINE = LEVEL * Q * L, U(64 // np.dtype(dtype).itemsize)  # values in a line of the cache
    SLOPES = U(4 if layer else 3) * SPAN
    FACES = U(4 * FACE_NUMBERS[anisotropic] * lanes)
    RELAXING, WORK = LEVEL * U(STRESSES * mechanisms) * L, U(work_values(order, mechanisms) if mechanisms else 1) * L
    predict = make_predictor(order, anisotropic, layer, mechanisms, precision)
    add_faces, _ = make_relaxation(order, anisotropic, layer, mechanisms, precision)
    correct, send = make_faces(order, anisotropic, layer, precision)

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def step(
        coefficients, own, even, odd, elastic, faces, neighbor, second, cluster, kind_first, memory, relaxation,
        recursion, first, end, tick, pending,
    ):  # fmt: skip
        past, relaxing = memory.ravel(), relaxation.ravel()
        q, kept, evens, odds = coefficients.ravel(), own.ravel(), even.ravel(), odd.ravel()
        law, numbers, to, links = elastic.ravel(), faces.ravel(), neighbor.ravel(), second.ravel()
        pieces = min(end - first, PIECES)
        for piece in prange(pieces):
            rounding = flush_denormals()
            terms, mean = np.empty(BLOCK, dtype), np.empty(BLOCK, dtype)
            half, slopes = np.empty(BLOCK, dtype), np.empty(SLOPES, dtype)
            trace, jump = np.empty(FACE * Q * L, dtype), np.empty(FACE * U(3) * L, dtype)
            sent, work = np.empty(FACE * U(3) * L, dtype), np.empty(WORK, dtype)
            begin, stop = first + (end - first) * piece // pieces, first + (end - first) * (piece + 1) // pieces
            for n in range(begin, stop):
                block, count, rates = U(n), tick >> cluster[n], recursion[cluster[n]]
                b, own_place, following = block * BLOCK, U(n - kind_first), U(min(n + 1, stop - 1))
                law_at, place = own_place * LAW, own_place * SPAN
                if layer:
                    for m in range(SPAN):
                        half[m] = 0
                if mechanisms:
                    for m in range(BLOCK):
                        mean[m] = 0
                if pending:
                    correct(
                        mean if mechanisms else q, U(0) if mechanisms else b, block, following, kept, evens, odds,
                        numbers, own_place * FACES, to, links, count, jump, trace, law, law_at, half,
                    )  # fmt: skip
                if mechanisms:
                    for m in range(BLOCK):
                        q[b + m] += mean[m]
                    add_faces(mean, law, law_at, relaxing, own_place * RELAXING)
                if layer:
                    for n in range(SPAN):
                        past[place + n] -= half[n]
                for m in range(0, BLOCK, LINE):
                    prefetch(address(q, following * BLOCK + m))
                halves = False
                for face in range(block * L * U(4), (block + U(1)) * L * U(4)):
                    halves |= links[face] & 3 == FASTER
                state = relaxing, own_place * RELAXING, work, rates
                predict(q, b, law, law_at, past, place, state, terms, slopes, mean, half, halves)
                send(
                    block, kept, evens, odds, numbers, own_place * FACES, links, count, mean, half, halves, jump, sent,
                    trace,
                )  # fmt: skip
            restore_rounding(rounding)

    return step


@lru_cache
def make_complete(order: int, anisotropic: bool, relaxing: bool, precision: str) -> Callable[..., None]:
    """Return `complete` for blocks of this order, isotropic or anisotropic, which rounds as `step`: with attenuation,
    the contributions of the faces are added to each other first."""
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
                whole[target + m] = 0 if relaxing else q[block * BLOCK + m]
            if pending:
                at = U(blocks[n] - kind_first) * FACES
                count = tick >> cluster[blocks[n]]
                correct(
                    whole, target, block, block, kept, evens, odds, numbers, at, to, links, count, jump, trace,
                    numbers, at, trace,
                )  # fmt: skip
            if relaxing:
                for m in range(BLOCK):
                    whole[target + m] += q[block * BLOCK + m]
            restore_rounding(rounding)

    return complete


@lru_cache
def make_complete_memory(order: int, anisotropic: bool, mechanisms: int, precision: str) -> Callable[..., None]:
    """Return `complete_memory` for blocks of this order in an absorbing layer; see `make_step`."""
    reference = make_reference(order)
    lanes, dtype = LANES[precision], np.float32 if precision == "single" else np.float64
    L, MODES, FACE = U(lanes), U(reference.count), U(reference.face_count)
    BLOCK, SPAN = MODES * Q * L, U(reference.levels[1]) * Q * L
    FACES, LAW = U(4 * FACE_NUMBERS[anisotropic] * lanes), U(law_numbers(anisotropic, True, mechanisms) * lanes)
    correct, _ = make_faces(order, anisotropic, True, precision)

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def complete_memory(
        coefficients, own, even, odd, elastic, faces, neighbor, second, cluster, kind_first, memory, blocks, tick,
        pending, out, out_first,
    ):  # fmt: skip
        """Set out[out_first + n] to the memory variables of blocks[n] with the jumps of the current step."""
        kept, evens, odds, past, whole = own.ravel(), even.ravel(), odd.ravel(), memory.ravel(), out.ravel()
        law, numbers, to, links = elastic.ravel(), faces.ravel(), neighbor.ravel(), second.ravel()
        for n in prange(len(blocks)):
            rounding = flush_denormals()
            trace, jump = np.empty(FACE * Q * L, dtype), np.empty(FACE * U(3) * L, dtype)
            q, change = np.zeros(BLOCK, dtype), np.zeros(BLOCK, dtype)
            block, place = U(blocks[n]), U(blocks[n] - kind_first)
            if pending:
                count = tick >> cluster[blocks[n]]
                correct(
                    q, U(0), block, block, kept, evens, odds, numbers, place * FACES, to, links, count, jump, trace,
                    law, place * LAW, change,
                )  # fmt: skip
            for m in range(SPAN):
                whole[U(out_first + n) * SPAN + m] = past[place * SPAN + m] - change[m]
            restore_rounding(rounding)

    return complete_memory


@lru_cache
def make_complete_relaxation(
    order: int, anisotropic: bool, layer: bool, mechanisms: int, precision: str
) -> Callable[..., None]:
    """Return `complete_relaxation` for blocks of this order with attenuation; see `make_step`."""
    reference = make_reference(order)
    lanes, dtype = LANES[precision], np.float32 if precision == "single" else np.float64
    L, MODES, FACE = U(lanes), U(reference.count), U(reference.face_count)
    BLOCK, SPAN = MODES * Q * L, U(reference.levels[1] * STRESSES * mechanisms) * L
    FACES = U(4 * FACE_NUMBERS[anisotropic] * lanes)
    LAW = U(law_numbers(anisotropic, layer, mechanisms) * lanes)
    correct, _ = make_faces(order, anisotropic, False, precision)
    add_faces = make_relaxation(order, anisotropic, layer, mechanisms, precision, damped=False)[0]

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def complete_relaxation(
        coefficients, own, even, odd, elastic, faces, neighbor, second, cluster, kind_first, relaxation, blocks, tick,
        pending, out, out_first,
    ):  # fmt: skip
        """Set out[out_first + n] to the memory variables of blocks[n] with the faces of the current step."""
        kept, evens, odds, past, whole = own.ravel(), even.ravel(), odd.ravel(), relaxation.ravel(), out.ravel()
        law, numbers, to, links = elastic.ravel(), faces.ravel(), neighbor.ravel(), second.ravel()
        for n in prange(len(blocks)):
            rounding = flush_denormals()
            trace, jump = np.empty(FACE * Q * L, dtype), np.empty(FACE * U(3) * L, dtype)
            q, target = np.zeros(BLOCK, dtype), U(out_first + n) * SPAN
            block, place = U(blocks[n]), U(blocks[n] - kind_first)
            for m in range(SPAN):
                whole[target + m] = past[place * SPAN + m]
            if pending:
                count = tick >> cluster[blocks[n]]
                correct(
                    q, U(0), block, block, kept, evens, odds, numbers, place * FACES, to, links, count, jump, trace,
                    law, place * LAW, trace,
                )  # fmt: skip
                add_faces(q, law, place * LAW, whole, target)
            restore_rounding(rounding)

    return complete_relaxation


def make_kernels(order: int, precision: str, **_sizes: object) -> dict[str, Callable[..., None]]:
    """Return a dictionary: `step`, `complete`, `complete_memory` and `complete_relaxation` of (anisotropic, mixed,
    layer, mechanisms) return kernels; `layout` is the arrangement, `pack_faces` arranges coefficients of faces (slots,
    4, c), and `prepare` has nothing to prepare on a CPU."""
    own = device_layout("cpu", precision)
    return {
        "step": lambda anisotropic, mixed, *kind: make_step(order, anisotropic, *kind, precision),
        "complete": lambda anisotropic, mixed, layer, mechanisms: make_complete(
            order, anisotropic, mechanisms > 0, precision
        ),
        "complete_memory": lambda anisotropic, mixed, layer, mechanisms: make_complete_memory(
            order, anisotropic, mechanisms, precision
        ),
        "complete_relaxation": lambda anisotropic, mixed, *kind: make_complete_relaxation(
            order, anisotropic, *kind, precision
        ),
        "layout": own,
        "pack_faces": lambda numbers: own.packed(numbers.reshape(len(numbers), -1)),
        "prepare": lambda variant, blocks: None,
    }


__all__ = ["count_step", "inject", "largest_velocity", "pack_traces", "sample", "surface_peaks", "unpack_traces"]


@njit(cache=True)
def inject(array, target, begin, weight, owner, amplitude, row):
    """Add weight * amplitude[row[0], owner] of the entries begin[n] .. begin[n + 1] to array[target[n]].

    target : indices in the flattened array. owner : column of the amplitudes.
    """
    flat = array.reshape(-1)
    for n in range(target.size):
        total = 0.0
        for entry in range(begin[n], begin[n + 1]):
            total += weight[entry] * amplitude[row[0], owner[entry]]
        flat[target[n]] += total


@njit(cache=True)
def pack_traces(even, odd, traces, tick, modes, buffer):
    """Set buffer[n, c, m] to mode m of component c of traces[n], in even or odd."""
    for n in range(traces.shape[0]):
        slot, source = traces[n, 0], odd if tick >> traces[n, 1] & 1 else even
        for c in range(VELOCITIES):
            for m in range(modes):
                buffer[(VELOCITIES * n + c) * modes + m] = source[slot, c, m]


@njit(cache=True)
def unpack_traces(even, odd, traces, tick, modes, buffer):
    """Invert `pack_traces`."""
    for n in range(traces.shape[0]):
        slot, target = traces[n, 0], odd if tick >> traces[n, 1] & 1 else even
        for c in range(VELOCITIES):
            for m in range(modes):
                target[slot, c, m] = buffer[(VELOCITIES * n + c) * modes + m]


@parallel
def sample(completed, base, values, out, slot):
    """Sample the quantities in elements: out[slot[0], row, place]; 3 rows: velocity; 9: velocity, then stress.

    base : index in the flattened coefficients of the first mode of the first quantity of the location's element. values
    : (locations, modes), the basis at the location.
    """
    flat = completed.reshape(-1)
    lanes = completed.shape[3]
    for place in prange(base.size):
        for number in range(out.shape[1]):
            quantity = STRESSES + number if number < VELOCITIES else number - VELOCITIES
            total = 0.0
            for k in range(values.shape[1]):
                total += values[place, k] * flat[base[place] + (QUANTITIES * k + quantity) * lanes]
            out[slot[0], number, place] = total


@parallel
def surface_peaks(velocity, time_step, displacement, peak_velocity, peak_displacement):
    """Update the peaks of |v| and |u| at locations: (3, locations), horizontal, vertical, total.

    velocity (1, 3, locations) : present velocity. displacement (6, locations) : the integral of v by the trapezoidal
    rule, and v before.
    """
    half = 0.5 * time_step
    for place in prange(displacement.shape[1]):
        for c in range(3):
            displacement[c, place] += half * (displacement[3 + c, place] + velocity[0, c, place])
            displacement[3 + c, place] = velocity[0, c, place]
        raise_peaks(peak_velocity, place, velocity[0, 0, place], velocity[0, 1, place], velocity[0, 2, place])
        raise_peaks(peak_displacement, place, displacement[0, place], displacement[1, place], displacement[2, place])


@parallel
def largest_velocity(coefficients, out):
    """Compute the largest sum of squares of the coefficients of a velocity component of an element, in as many sections
    as `out` has; not finite if any value is not."""
    parts, blocks = out.size, coefficients.shape[0]
    for part in prange(parts):
        zero = out.dtype.type(0)
        most, poison = zero, zero
        for block in range(part * blocks // parts, (part + 1) * blocks // parts):
            for c in range(STRESSES, QUANTITIES):
                for lane in range(coefficients.shape[3]):
                    total = zero
                    for k in range(coefficients.shape[1]):
                        value = coefficients[block, k, c, lane]
                        total += value * value
                    most = max(most, total)
                    # Zero except for infinity and NaN, which a comparison may miss.
                    poison += zero * total
        out[part] = most + poison
