// Filters of an absorbing layer at a point: see absorbing_layer.py for the formulas and arguments.py for the arrays.
#pragma once

#include "gll.cuh"

// Rotate three components cyclically, so that component `first` becomes the first.
__device__ __forceinline__ void rotate(real& x, real& y, real& z, int first) {
    const real a = x, b = y, c = z;
    if (first == 1) x = b, y = c, z = a;
    if (first == 2) x = c, y = a, z = b;
}

// A point of a thread: index [block, k] of its line, with THREADS values per memory variable or coefficient.
struct LayerPoint {
    real* const memory;
    const real* const filters;

    __device__ __forceinline__ LayerPoint(real* memory, const real* filters, size_t line, int thread)
        : memory(memory + line * (3 * COMPONENTS * AXES * THREADS) + thread), filters(filters + line * (3 * AXES * THREADS) + thread) {}

    // DAMPED: all derivatives have the filter of the first axis, and stresses none.
    __device__ __forceinline__ void unstretch(real (&gradient)[3 * COMPONENTS]) const {
#pragma unroll
        for (int axis = 0; axis < (DAMPED ? 3 : AXES); axis++) {
            const int filter = DAMPED ? 0 : 3 * axis, first = (DAMPED ? 1 : 3) * COMPONENTS * axis;
            const real inverse = real(1) / filters[filter * THREADS], a = filters[(filter + 1) * THREADS];
            const real c = filters[(filter + 2) * THREADS];
#pragma unroll
            for (int component = 0; component < COMPONENTS; component++) {
                real& m = memory[(first + component) * THREADS];
                real& g = gradient[3 * component + axis];
                const real before = m;
                g = (g - before) * inverse;
                m = c * g + a * before;
            }
        }
    }

    __device__ __forceinline__ void stretch(real (&stress)[COMPONENTS][3]) const {
#pragma unroll
        for (int axis = 0; axis < (DAMPED ? 0 : AXES); axis++) {
            const real b = filters[3 * axis * THREADS], a = filters[(3 * axis + 1) * THREADS];
            const real c = filters[(3 * axis + 2) * THREADS];
            int number = (3 * axis + 1) * COMPONENTS;
#pragma unroll
            for (int column = 0; column < 3; column++) {
                if (column == axis) continue;
#pragma unroll
                for (int component = 0; component < COMPONENTS; component++, number++) {
                    real& m = memory[number * THREADS];
                    real& s = stress[component][column];
                    const real before = m, value = s;
                    s = b * value + before;
                    m = c * value + a * before;
                }
            }
        }
    }
};
