"""CPU kernels at points: sources, receivers, peaks and the instability check.

Coefficients are [block, mode, quantity, lane]; the quantities are stress (`materials.STRESS`), then velocity.
"""

from __future__ import annotations

from numba import prange

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import parallel
from lithowave.solvers.common.point_kernels import count_step, raise_peaks
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, STRESSES, VELOCITIES

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
