// Gravity in a solid element, in the Cowling approximation: see materials.py for the formulas.
#pragma once

#include "laws.cuh"

#if GRAVITY
static_assert(VARYING && AXES == 0 && COMPONENTS == 3, "gravity is at every point of solids, and not in a layer");

// The body force at the points of a thread's line, times quadrature weight and Jacobian.
struct LineGravity {
    const real* const values;  // h, p and q at the first point
    real body[N][3];

    __device__ __forceinline__ LineGravity(const real* moduli, int thread)
        : values(moduli + (MODULI - 5) * THREADS + thread) {}

    // Add the stresses of gravity at point k to `row`, and keep the body force. g : gradient times the Jacobian; u, v, w :
    // displacement; weight, volume : quadrature weight, without and with the Jacobian.
    __device__ __forceinline__ void add(
        int k, const real* g, real u, real v, real w, real weight, real volume, real (&row)[3][3])
    {
        const real* const here = values + MODULI * k * THREADS;
        const real h[3] = {here[0], here[THREADS], here[2 * THREADS]}, s[3] = {u, v, w};
        const real p = volume * here[3 * THREADS], half = real(0.5) * weight;
        const real along = u * h[0] + v * h[1] + w * h[2], trace = g[0] + g[4] + g[8];
        const real rest = volume * here[4 * THREADS] * along;
#pragma unroll
        for (int c = 0; c < 3; c++) {
            const real turned = g[c] * h[0] + g[3 + c] * h[1] + g[6 + c] * h[2];
            body[k][c] = half * (trace * h[c] - turned) - p * s[c] - rest * h[c];
#pragma unroll
            for (int m = 0; m < 3; m++) row[c][m] += half * h[c] * s[m];
            row[c][c] -= half * along;
        }
    }
    __device__ __forceinline__ real force(int k, int c) const { return body[k][c]; }
};
#else
struct LineGravity {
    __device__ __forceinline__ LineGravity(const real*, int) {}
    __device__ __forceinline__ real force(int, int) const { return 0; }
};
#endif
