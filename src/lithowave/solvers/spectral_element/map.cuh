// Map of an element from the reference cube, along the line of points of a thread: (i, j) fixed, k running.
//
// cofactors : M = J inv(dx/dxi), rows along xi, eta, zeta. Trilinear and triquadratic maps are stored as monomials
// [component][power of zeta][of eta][of xi]; upright elements as dx/dxi, the monomials of z without the constant one, and
// dy/deta; parallelepipeds as their nine cofactors, or the three of a cuboid, and 1 / J. Cofactors that are zero in all
// elements of a shape take no part in the products.
#pragma once

#include "gll.cuh"
#include "vectors.cuh"

#if MAP == 3
#define COFACTORS {true, false, false, false, true, false, false, false, true}
#elif MAP == 4
#define COFACTORS {true, false, false, false, true, false, true, true, true}
#else
#define COFACTORS {true, true, true, true, true, true, true, true, true}
#endif

struct Metric {
    real m[9];
    real inverse_jacobian;

    // J times the derivative along a coordinate, from those along xi, eta and zeta.
    __device__ __forceinline__ real derivative(const real* along, int axis) const { return product(along, axis, 3); }

    // The component of a flux along xi, eta or zeta, from those along x, y and z.
    __device__ __forceinline__ real flux(const real* row, int direction) const { return product(row, 3 * direction, 1); }

private:
    // The sum of three values times the cofactors `first`, `first` + `step` and `first` + 2 `step` that are present.
    __device__ __forceinline__ real product(const real* values, int first, int step) const {
        constexpr bool present[9] = COFACTORS;
        real sum = 0;
#pragma unroll
        for (int n = 0; n < 3; n++)
            if (present[first + n * step]) sum += values[n] * m[first + n * step];
        return sum;
    }
};

__device__ __forceinline__ void finish(Metric& metric, const real* a, const real* b, const real* c) {
    real* const m = metric.m;
    m[0] = b[1] * c[2] - b[2] * c[1], m[1] = b[2] * c[0] - b[0] * c[2], m[2] = b[0] * c[1] - b[1] * c[0];
    m[3] = c[1] * a[2] - c[2] * a[1], m[4] = c[2] * a[0] - c[0] * a[2], m[5] = c[0] * a[1] - c[1] * a[0];
    m[6] = a[1] * b[2] - a[2] * b[1], m[7] = a[2] * b[0] - a[0] * b[2], m[8] = a[0] * b[1] - a[1] * b[0];
    metric.inverse_jacobian = real(1) / (a[0] * m[0] + a[1] * m[1] + a[2] * m[2]);
}

// From the monomials of a coordinate at (x, y): its derivatives as polynomials in zeta. t[0] is not used.
__device__ __forceinline__ void collapse(
    const real* t, real x, real y, real (&along_x)[3], real (&along_y)[3], real (&along_z)[2])
{
#pragma unroll
    for (int c = 0; c < 3; c++) {
        real value[3], slope[3];  // in eta, for each power of xi
#pragma unroll
        for (int p = 0; p < 3; p++) {
            if (c + p) value[p] = t[9 * c + p] + y * (t[9 * c + 3 + p] + y * t[9 * c + 6 + p]);
            slope[p] = t[9 * c + 3 + p] + 2 * y * t[9 * c + 6 + p];
        }
        along_x[c] = value[1] + 2 * x * value[2];
        along_y[c] = slope[0] + x * (slope[1] + x * slope[2]);
        if (c) along_z[c - 1] = value[0] + x * (value[1] + x * value[2]);
    }
}

#if MAP == 3
constexpr int MAP_SIZE = 4;

struct LineMap {
    Metric metric;

    __device__ __forceinline__ LineMap(const real* geometry, real, real) {
        for (int d = 0; d < 3; d++) metric.m[4 * d] = geometry[d];
        metric.inverse_jacobian = geometry[3];
    }
    __device__ __forceinline__ Metric at(int) const { return metric; }
};

#elif MAP == 0
constexpr int MAP_SIZE = 12;

struct LineMap {
    Metric metric;

    __device__ __forceinline__ LineMap(const real* geometry, real, real) {
        for (int n = 0; n < 9; n++) metric.m[n] = geometry[n];
        metric.inverse_jacobian = geometry[9];
    }
    __device__ __forceinline__ Metric at(int) const { return metric; }
};

#elif MAP == 1
constexpr int MAP_SIZE = 24;

struct LineMap {
    real along_x[3][2], along_y[3][2], along_z[3];  // derivatives as polynomials in zeta

    __device__ __forceinline__ LineMap(const real* geometry, real x, real y) {
        const Vector4<real>* terms = reinterpret_cast<const Vector4<real>*>(geometry);
#pragma unroll
        for (int d = 0; d < 3; d++) {
            const Vector4<real> low = terms[2 * d], high = terms[2 * d + 1];  // powers 0 and 1 of zeta: 1, x, y, xy
            along_x[d][0] = low.y + low.w * y, along_x[d][1] = high.y + high.w * y;
            along_y[d][0] = low.z + low.w * x, along_y[d][1] = high.z + high.w * x;
            along_z[d] = high.x + high.y * x + (high.z + high.w * x) * y;
        }
    }
    __device__ __forceinline__ Metric at(int k) const {
        const real z = GLL.point[k];
        real a[3], b[3];
        Metric metric;
#pragma unroll
        for (int d = 0; d < 3; d++) a[d] = along_x[d][0] + z * along_x[d][1], b[d] = along_y[d][0] + z * along_y[d][1];
        finish(metric, a, b, along_z);
        return metric;
    }
};

#elif MAP == 4
constexpr int MAP_SIZE = 28;

struct LineMap {
    real width, depth;              // dx/dxi and dy/deta
    real along_x[3], along_y[3], along_z[2];  // derivatives of z, as polynomials in zeta

    __device__ __forceinline__ LineMap(const real* geometry, real x, real y) {
        real t[28];
        const Vector4<real>* terms = reinterpret_cast<const Vector4<real>*>(geometry);
#pragma unroll
        for (int n = 0; n < 7; n++) {
            const Vector4<real> four = terms[n];
            t[4 * n] = four.x, t[4 * n + 1] = four.y, t[4 * n + 2] = four.z, t[4 * n + 3] = four.w;
        }
        width = t[0], depth = t[27];
        collapse(t, x, y, along_x, along_y, along_z);
    }
    __device__ __forceinline__ Metric at(int k) const {
        const real z = GLL.point[k];
        const real a = along_x[0] + z * (along_x[1] + z * along_x[2]), b = along_y[0] + z * (along_y[1] + z * along_y[2]);
        const real c = along_z[0] + 2 * z * along_z[1], area = width * depth;
        Metric metric;
        metric.m[0] = depth * c, metric.m[4] = width * c;
        metric.m[6] = -depth * a, metric.m[7] = -width * b, metric.m[8] = area;
        metric.inverse_jacobian = real(1) / (area * c);
        return metric;
    }
};

#else
constexpr int MAP_SIZE = 84;  // 28 per component, the last of them unused

struct LineMap {
    real along_x[3][3], along_y[3][3], along_z[3][2];

    __device__ __forceinline__ LineMap(const real* geometry, real x, real y) {
#pragma unroll
        for (int d = 0; d < 3; d++) {
            real t[28];
            const Vector4<real>* terms = reinterpret_cast<const Vector4<real>*>(geometry + 28 * d);
#pragma unroll
            for (int n = 0; n < 7; n++) {
                const Vector4<real> four = terms[n];
                t[4 * n] = four.x, t[4 * n + 1] = four.y, t[4 * n + 2] = four.z, t[4 * n + 3] = four.w;
            }
            collapse(t, x, y, along_x[d], along_y[d], along_z[d]);
        }
    }
    __device__ __forceinline__ Metric at(int k) const {
        const real z = GLL.point[k];
        real a[3], b[3], c[3];
        Metric metric;
#pragma unroll
        for (int d = 0; d < 3; d++) {
            a[d] = along_x[d][0] + z * (along_x[d][1] + z * along_x[d][2]);
            b[d] = along_y[d][0] + z * (along_y[d][1] + z * along_y[d][2]);
            c[d] = along_z[d][0] + 2 * z * along_z[d][1];
        }
        finish(metric, a, b, c);
        return metric;
    }
};
#endif
