// Relaxation of the stresses at the points of an element that carry memory variables of attenuation: see relaxation.py
// for the formulas and arguments.py for the arrays.
// Definitions: MECHANISMS; if it is above 0, CARRIERS, the number of these points, and CARRIER_LIST, their indices, k
// slowest.
#pragma once

#include "gll.cuh"
#include "laws.cuh"
#include "vectors.cuh"

#if MECHANISMS > 0

struct CarrierTable {
    short slot[N * N * N];  // of each point among the carrying ones; -1 for the others
    bool plane[N];          // true if points of this k carry

    constexpr CarrierTable() : slot(), plane() {
        constexpr int points[CARRIERS] = {CARRIER_LIST};
        for (int point = 0; point < N * N * N; point++) slot[point] = -1;
        for (int number = 0; number < CARRIERS; number++) {
            slot[points[number]] = static_cast<short>(number);
            plane[points[number] / (N * N)] = true;
        }
    }
};

__device__ constexpr CarrierTable CARRIER_TABLE;

// Memory variables and moduli of the carrying points of an element, and the line of a thread, j N + i.
struct LineRelaxation {
    Vector2<real>* const memory;
    const Vector2<real>* const moduli;
    const real* const recursion;
    const int line;

    __device__ __forceinline__ LineRelaxation(
        real* memory, const real* moduli, const real* recursion, size_t element, int line)
        : memory(reinterpret_cast<Vector2<real>*>(memory) + element * (CARRIERS * MECHANISMS * 3)),
          moduli(reinterpret_cast<const Vector2<real>*>(moduli) + element * (CARRIERS * MECHANISMS)),
          recursion(recursion), line(line) {}

    // Subtract the stresses of the mechanisms at point k of the line, and update their memory variables.
    __device__ __forceinline__ void relax(int k, const real* g, real scale, Stress& s) const {
        if (!CARRIER_TABLE.plane[k]) return;
        const int slot = CARRIER_TABLE.slot[k * (N * N) + line];
        if (slot < 0) return;
        Vector2<real>* const own = memory + slot * (MECHANISMS * 3);
        Vector2<real> before[3 * MECHANISMS], weight[MECHANISMS];
#pragma unroll
        for (int n = 0; n < 3 * MECHANISMS; n++) before[n] = own[n];
#pragma unroll
        for (int n = 0; n < MECHANISMS; n++) weight[n] = moduli[slot * MECHANISMS + n];
        const real trace = g[0] + g[4] + g[8];
        const real strain[6] = {2 * g[0], 2 * g[4], 2 * g[8], g[5] + g[7], g[2] + g[6], g[1] + g[3]};
        real rest[6] = {s.xx, s.yy, s.zz, s.yz, s.xz, s.xy};
#pragma unroll
        for (int n = 0; n < MECHANISMS; n++) {
            const real b = recursion[3 * n], a = recursion[3 * n + 1], c = recursion[3 * n + 2];
            const real spread = scale * weight[n].x * trace, mu = scale * weight[n].y;
#pragma unroll
            for (int two = 0; two < 3; two++) {
                const Vector2<real> m = before[3 * n + two];  // two components
                const real first = mu * strain[2 * two] + (two < 2 ? spread : real(0));
                const real second = mu * strain[2 * two + 1] + (two < 1 ? spread : real(0));
                rest[2 * two] -= b * first + m.x;
                rest[2 * two + 1] -= b * second + m.y;
                own[3 * n + two] = {c * first + a * m.x, c * second + a * m.y};
            }
        }
        s = {rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]};
    }
};

#else

struct LineRelaxation {
    __device__ __forceinline__ LineRelaxation(real*, const real*, const real*, size_t, int) {}
    __device__ __forceinline__ void relax(int, const real*, real, Stress&) const {}
};

#endif
