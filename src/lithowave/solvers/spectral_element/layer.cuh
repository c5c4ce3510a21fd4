// Filters of an absorbing layer: see layers.py for the formulas and element_lines.py for the arrays.
// Definitions: AXES, the number of active axes, DAMPED and ALIGNED.
#pragma once

#include "gll.cuh"
#include "hopper.cuh"

// Filters of each component at a point: of derivatives, of stresses unless the element is aligned, of forces, of friction.
constexpr int FILTERS = DAMPED ? 4 : AXES ? (ALIGNED ? 2 : 4) * AXES + 1 : 0;
constexpr int MEMORY = COMPONENTS * FILTERS;

// Rotate three values cyclically, so that value `first` becomes the first.
__device__ __forceinline__ void rotate(real& x, real& y, real& z, int first) {
    const real a = x, b = y, c = z;
    if (first == 1) x = b, y = c, z = a;
    if (first == 2) x = c, y = a, z = b;
}

// Divide a value by a stretching; inverse : 1 / b.
__device__ __forceinline__ void divide(real& value, real& m, real inverse, real a, real c) {
    const real before = m;
    value = (value - before) * inverse;
    m = c * value + a * before;
}

// Multiply a value by a stretching.
__device__ __forceinline__ void multiply(real& value, real& m, real b, real a, real c) {
    const real before = m, x = value;
    value = b * x + before;
    m = c * x + a * before;
}

// Memory variables of a block, [k][variable][thread]. `load` starts reading them from the memory of the device.
struct LayerMemory {
    real* const values;
    const int thread;

    __device__ __forceinline__ LayerMemory(real* memory, size_t block, int thread)
        : values(memory + block * (N * MEMORY * THREADS)), thread(thread) {}
    __device__ __forceinline__ void load() const {
#if AXES
        constexpr int LINE = 128 / sizeof(real);
        for (int value = thread * LINE; value < N * MEMORY * THREADS; value += THREADS * LINE) prefetch(values + value);
#endif
    }
    __device__ __forceinline__ real& at(int k, int variable) const { return values[(k * MEMORY + variable) * THREADS + thread]; }
};

#if ALIGNED

// Coefficients of a point along a direction: of the stretching, of the friction, and b where the layer begins, else 0.
struct LineFilter {
    real inverse, a, c, rub, rub_a, rub_c, b;

    __device__ __forceinline__ explicit LineFilter(const real* values)
        : inverse(__ldg(values)), a(__ldg(values + 1)), c(__ldg(values + 2)), rub(__ldg(values + 3)),
          rub_a(__ldg(values + 4)), rub_c(__ldg(values + 5)), b(__ldg(values + 6)) {}
};
constexpr int LINE_VALUES = sizeof(LineFilter) / sizeof(real);

// The line of a thread in an aligned element, whose active directions follow `first` cyclically.
struct Layer {
    const LayerMemory memory;
    const real* const lines;
    const int first, i, j;

    __device__ __forceinline__ Layer(
        real* memory, const real* filters, size_t block, size_t element, int thread, int first, int i, int j)
        : memory(memory, block, thread), lines(filters + element * (AXES * N * LINE_VALUES)), first(first), i(i), j(j) {}

    __device__ __forceinline__ LineFilter filter(int axis, int k) const {
        const int direction = first + axis < 3 ? first + axis : first + axis - 3;
        const int node = direction == 0 ? i : direction == 1 ? j : k;
        return LineFilter(lines + (axis * N + node) * LINE_VALUES);
    }
    // Divide the derivatives along i, j and k by the stretching of the active directions.
    __device__ __forceinline__ void unstretch_along(int k, real (&along)[COMPONENTS][3]) const {
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++) rotate(along[c][0], along[c][1], along[c][2], first);
#pragma unroll
        for (int axis = 0; axis < AXES; axis++) {
            const LineFilter own = filter(axis, k);
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++)
                divide(along[c][axis], memory.at(k, COMPONENTS * axis + c), own.inverse, own.a, own.c);
        }
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++) rotate(along[c][0], along[c][1], along[c][2], 3 - first);
    }
    __device__ __forceinline__ void unstretch(int, real (&)[3 * COMPONENTS]) const {}
    __device__ __forceinline__ void stretch(int, real (&)[COMPONENTS][3]) const {}

    // The sum of the forces of the derivatives along i, j and k. Along at most one axis the layer begins at a point: there
    // the forces of the other directions are multiplied by the stretching; the others are divided by that of their own.
    __device__ __forceinline__ void release(int k, real (&along)[COMPONENTS][3], real (&force)[COMPONENTS]) const {
        real rub = 1, rub_a = 0, rub_c = 0;
        real held[COMPONENTS][3];
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++) rotate(along[c][0], along[c][1], along[c][2], first);
#pragma unroll
        for (int axis = 0; axis < AXES; axis++) {
            const LineFilter own = filter(axis, k);
            if (axis == 0 || own.rub > rub) rub = own.rub, rub_a = own.rub_a, rub_c = own.rub_c;
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) {
                held[c][axis] = memory.at(k, COMPONENTS * (AXES + axis) + c);
                if (own.b == 0) divide(along[c][axis], held[c][axis], own.inverse, own.a, own.c);
            }
        }
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++) force[c] = along[c][0] + along[c][1] + along[c][2];
#pragma unroll
        for (int axis = 0; axis < AXES; axis++) {
            const LineFilter own = filter(axis, k);
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) {
                if (own.b != 0) {
                    real others = AXES == 1 ? along[c][1] + along[c][2] : force[c] - along[c][axis];
                    multiply(others, held[c][axis], own.b, own.a, own.c);
                    force[c] = along[c][axis] + others;
                }
                memory.at(k, COMPONENTS * (AXES + axis) + c) = held[c][axis];
            }
        }
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++) divide(force[c], memory.at(k, COMPONENTS * 2 * AXES + c), rub, rub_a, rub_c);
    }
};

#else

// The line of a thread, with coefficients at every point: b < 0 where the layer begins. DAMPED: all derivatives have the
// filter of the first axis, stresses none, and there is no friction.
struct Layer {
    static constexpr int COEFFICIENTS = 3 * (DAMPED ? 1 : AXES + 1), FORCES = DAMPED ? 3 : 3 * AXES;

    const LayerMemory memory;
    const real* const filters;

    __device__ __forceinline__ Layer(
        real* memory, const real* filters, size_t block, size_t, int thread, int, int, int)
        : memory(memory, block, thread), filters(filters + block * (AXES ? N * COEFFICIENTS * THREADS : 0) + thread) {}

    __device__ __forceinline__ real coefficient(int k, int number) const {
        return filters[(k * COEFFICIENTS + number) * THREADS];
    }
    __device__ __forceinline__ void unstretch_along(int, real (&)[COMPONENTS][3]) const {}

    __device__ __forceinline__ void unstretch(int k, real (&gradient)[3 * COMPONENTS]) const {
#pragma unroll
        for (int axis = 0; axis < (DAMPED ? 3 : AXES); axis++) {
            const int filter = DAMPED ? 0 : 3 * axis, first = (DAMPED ? 1 : 3) * COMPONENTS * axis;
            const real inverse = real(1) / abs(coefficient(k, filter)), a = coefficient(k, filter + 1);
            const real c = coefficient(k, filter + 2);
#pragma unroll
            for (int component = 0; component < COMPONENTS; component++)
                divide(gradient[3 * component + axis], memory.at(k, first + component), inverse, a, c);
        }
    }

    __device__ __forceinline__ void stretch(int k, real (&stress)[COMPONENTS][3]) const {
#pragma unroll
        for (int axis = 0; axis < (DAMPED ? 0 : AXES); axis++) {
            const real b = abs(coefficient(k, 3 * axis)), a = coefficient(k, 3 * axis + 1), c = coefficient(k, 3 * axis + 2);
            int number = (3 * axis + 1) * COMPONENTS;
#pragma unroll
            for (int column = 0; column < 3; column++) {
                if (column == axis) continue;
#pragma unroll
                for (int component = 0; component < COMPONENTS; component++, number++)
                    multiply(stress[component][column], memory.at(k, number), b, a, c);
            }
        }
    }

    // Divide the forces by the stretching of the axes along which the layer does not begin here, and by the friction.
    __device__ __forceinline__ void release(int k, real (&along)[COMPONENTS][3], real (&force)[COMPONENTS]) const {
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++) force[c] = along[c][2] + along[c][0];  // those along j are among the first
#pragma unroll
        for (int filter = 0; filter < COEFFICIENTS / 3 && AXES > 0; filter++) {
            const real b = coefficient(k, 3 * filter);
            if (b < 0) continue;
            const real inverse = real(1) / b, a = coefficient(k, 3 * filter + 1), c = coefficient(k, 3 * filter + 2);
#pragma unroll
            for (int component = 0; component < COMPONENTS; component++)
                divide(force[component], memory.at(k, COMPONENTS * (FORCES + filter) + component), inverse, a, c);
        }
    }
};

#endif
