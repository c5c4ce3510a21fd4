// Hooke's law at a point, times the quadrature weight over the Jacobian: from the gradient of u to the stresses.
#pragma once

#include "gll.cuh"

struct Stress {
    real xx, yy, zz, yz, xz, xy;
};

// Moduli on the line of points of a thread: at every point (VARYING), or one set per element. `g` is the gradient, [3 *
// component + axis]. With GRAVITY, its values at every point follow the moduli: see gravity.cuh.
constexpr int MODULI = COMPONENTS == 1 ? 1 : (ANISOTROPIC ? 21 : 2) + (GRAVITY ? 5 : 0);

#if COMPONENTS == 1
struct LineLaw {  // of a fluid: v = grad phi / rho, with 1 / rho as the only modulus
    real mobility[VARYING ? N : 1];

    __device__ __forceinline__ LineLaw(const real* moduli, int thread) {
#pragma unroll
        for (int k = 0; k < (VARYING ? N : 1); k++) mobility[k] = moduli[VARYING ? k * THREADS + thread : 0];
    }
    __device__ __forceinline__ void velocity(int k, const real* g, real scale, real (&v)[3]) const {
        const real factor = scale * mobility[VARYING ? k : 0];
        v[0] = factor * g[0], v[1] = factor * g[1], v[2] = factor * g[2];
    }
};
#elif ANISOTROPIC
struct LineLaw {
    const real* c;

    __device__ __forceinline__ LineLaw(const real* moduli, int thread) : c(moduli + (VARYING ? thread : 0)) {}
    __device__ __forceinline__ Stress stress(int k, const real* g, real scale) const {
        const real e[6] = {
            scale * g[0], scale * g[4], scale * g[8], scale * (g[5] + g[7]), scale * (g[2] + g[6]), scale * (g[1] + g[3])};
        real s[6] = {0, 0, 0, 0, 0, 0};
        int number = 0;
#pragma unroll
        for (int row = 0; row < 6; row++)
#pragma unroll
            for (int column = row; column < 6; column++, number++) {
                const real modulus = c[VARYING ? (MODULI * k + number) * THREADS : number];
                s[row] += modulus * e[column];
                if (column != row) s[column] += modulus * e[row];
            }
        return {s[0], s[1], s[2], s[3], s[4], s[5]};
    }
};
#else
struct alignas(2 * sizeof(real)) Pair {
    real lambda, mu;
};

struct LineLaw {
    Pair lame[VARYING ? N : 1];

    __device__ __forceinline__ LineLaw(const real* moduli, int thread) {
#if GRAVITY
#pragma unroll
        for (int k = 0; k < N; k++) {
            const real* const own = moduli + MODULI * k * THREADS + thread;
            lame[k] = {own[0], own[THREADS]};
        }
#else
        const Pair* const pairs = reinterpret_cast<const Pair*>(moduli) + (VARYING ? thread : 0);
#pragma unroll
        for (int k = 0; k < (VARYING ? N : 1); k++) lame[k] = pairs[k * THREADS];
#endif
    }
    __device__ __forceinline__ Stress stress(int k, const real* g, real scale) const {
        const Pair here = lame[VARYING ? k : 0];
        const real lambda = scale * here.lambda, mu = scale * here.mu;
        const real trace = lambda * (g[0] + g[4] + g[8]), twice = mu + mu;
        return {trace + twice * g[0], trace + twice * g[4], trace + twice * g[8],
                mu * (g[5] + g[7]),   mu * (g[2] + g[6]),   mu * (g[1] + g[3])};
    }
};
#endif
