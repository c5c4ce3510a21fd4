"""Laws of elements on the CPU, for all lanes of a block: elastic law, flux at faces, and memory variables of layers.

`element_kernels` describes the scheme, `riemann` the coefficients of laws and faces, `layer` the memory variables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from lithowave.backends.loops import U, row
from lithowave.solvers.discontinuous_galerkin.element_layout import LANES
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, STRESSES
from lithowave.solvers.discontinuous_galerkin.reference import make_reference
from lithowave.solvers.discontinuous_galerkin.riemann import ANISOTROPIC_LAW, JUMP, LAW_NUMBERS, SOURCES, law_numbers

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
    """Return functions for the stored and sent traces at a face, for the flux of a jump, see `riemann`, and for this
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
