// Relaxation of the stresses at the points of an element that carry memory variables of attenuation: see relaxation.py
// for the formulas and arguments.py for the arrays.
// Definitions: MECHANISMS; if it is above 0, CARRIERS, the number of these points, CARRIER_LIST, their indices, k
// slowest, and STAGED. If that is 1, a block copies the memory variables and moduli of its elements to shared memory
// while it computes strains: few threads have carrying points, and each would wait for all its reads.
#pragma once

#include "gll.cuh"
#include "hopper.cuh"
#include "laws.cuh"
#include "vectors.cuh"

#if MECHANISMS > 0

constexpr int CARRIED = CARRIERS * MECHANISMS * 3;    // pairs of memory variables of an element
constexpr int CARRIED_MODULI = CARRIERS * MECHANISMS;  // pairs of moduli
constexpr int STAGED_VALUES = STAGED ? ELEMENTS * 2 * (CARRIED + CARRIED_MODULI) : 0;

struct CarrierTable {
    short slot[N * N][N];  // of each point k of a line among the carrying ones; -1 for the others
    bool plane[N];         // true if points of this k carry

    constexpr CarrierTable() : slot(), plane() {
        constexpr int points[CARRIERS] = {CARRIER_LIST};
        for (int point = 0; point < N * N * N; point++) slot[point % (N * N)][point / (N * N)] = -1;
        for (int number = 0; number < CARRIERS; number++) {
            slot[points[number] % (N * N)][points[number] / (N * N)] = static_cast<short>(number);
            plane[points[number] / (N * N)] = true;
        }
    }
};

__device__ constexpr CarrierTable CARRIER_TABLE;

// Memory variables and moduli of the carrying points of a block and of the element and line of a thread.
class Relaxation {
    typedef Vector2<real> Pair;
    Pair *const stored, *const staged;  // of the block: in global memory, and copies in shared memory
    const Pair* const stored_moduli;
    const real* const recursion;
    short slots[N];  // of the points of the line

public:
    // place : the line, j N + i. shared : STAGED_VALUES values.
    __device__ __forceinline__ Relaxation(
        real* shared, real* memory, const real* moduli, const real* recursion, size_t block, int place)
        : stored(reinterpret_cast<Pair*>(memory) + block * (ELEMENTS * CARRIED)),
          staged(reinterpret_cast<Pair*>(shared)),
          stored_moduli(reinterpret_cast<const Pair*>(moduli) + block * (ELEMENTS * CARRIED_MODULI)),
          recursion(recursion)
    {
        if (STAGED) {
            for (int n = threadIdx.x; n < ELEMENTS * CARRIED; n += THREADS) copy_value(staged + n, stored + n);
            Pair* const after = staged + ELEMENTS * CARRIED;
            for (int n = threadIdx.x; n < ELEMENTS * CARRIED_MODULI; n += THREADS) copy_value(after + n, stored_moduli + n);
        }
#pragma unroll
        for (int k = 0; k < N; k++) slots[k] = CARRIER_TABLE.plane[k] ? CARRIER_TABLE.slot[place][k] : -1;
    }
    // Wait for the copies that this thread has started; before a barrier of the block.
    __device__ __forceinline__ void wait() const {
        if (STAGED) wait_for_values();
    }
    // Subtract the stresses of the mechanisms at point k of the line of an element, and update their memory variables.
    __device__ __forceinline__ void relax(int element, int k, const real* g, real scale, Stress& s) const {
        if (!CARRIER_TABLE.plane[k] || slots[k] < 0) return;
        const int carrier = element * CARRIERS + slots[k];
        Pair* const own = (STAGED ? staged : stored) + carrier * (MECHANISMS * 3);
        const Pair* const moduli = (STAGED ? staged + ELEMENTS * CARRIED : stored_moduli) + carrier * MECHANISMS;
        Pair before[3 * MECHANISMS], weight[MECHANISMS];
#pragma unroll
        for (int n = 0; n < 3 * MECHANISMS; n++) before[n] = own[n];
#pragma unroll
        for (int n = 0; n < MECHANISMS; n++) weight[n] = moduli[n];
        const real trace = g[0] + g[4] + g[8];
        const real strain[6] = {2 * g[0], 2 * g[4], 2 * g[8], g[5] + g[7], g[2] + g[6], g[1] + g[3]};
        real rest[6] = {s.xx, s.yy, s.zz, s.yz, s.xz, s.xy};
#pragma unroll
        for (int n = 0; n < MECHANISMS; n++) {
            const real b = __ldg(recursion + 3 * n), a = __ldg(recursion + 3 * n + 1), c = __ldg(recursion + 3 * n + 2);
            const real spread = scale * weight[n].x * trace, mu = scale * weight[n].y;
#pragma unroll
            for (int two = 0; two < 3; two++) {
                const Pair m = before[3 * n + two];  // two components
                const real first = mu * strain[2 * two] + (two < 2 ? spread : real(0));
                const real second = mu * strain[2 * two + 1] + (two < 1 ? spread : real(0));
                rest[2 * two] -= b * first + m.x;
                rest[2 * two + 1] -= b * second + m.y;
                own[3 * n + two] = {c * first + a * m.x, c * second + a * m.y};
            }
        }
        s = {rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]};
    }
    // Write the memory variables of the block to global memory; after a barrier of the block.
    __device__ __forceinline__ void store() const {
        if (!STAGED) return;
        for (int n = threadIdx.x; n < ELEMENTS * CARRIED; n += THREADS) stored[n] = staged[n];
    }
};

#else

constexpr int STAGED_VALUES = 0;

struct Relaxation {
    __device__ __forceinline__ Relaxation(real*, real*, const real*, const real*, size_t, int) {}
    __device__ __forceinline__ void wait() const {}
    __device__ __forceinline__ void relax(int, int, const real*, real, Stress&) const {}
    __device__ __forceinline__ void store() const {}
};

#endif
