// Relaxation of the stresses at the points of an element that carry memory variables of attenuation: see relaxation.py
// for the formulas and element_lines.py for the arrays.
// Definitions: MECHANISMS; if it is above 0, CARRIERS, the number of these points, CARRIER_LIST, their indices, k slowest,
// and SPARSE.
//
// If few points carry (SPARSE), all threads of a block share them: `begin` starts copying their memory variables and
// moduli to shared memory, `prepare` adds them up, `relax` subtracts these sums from the stresses and leaves the strains
// in their place, and `finish` updates the memory variables; between these steps, the block synchronizes. Otherwise each
// thread processes its own points in `relax`.
#pragma once

#include "gll.cuh"
#include "hopper.cuh"
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

// Pairs of the components xx, yy, zz, yz, xz, xy; the first component of this many pairs, and the second, are normal.
constexpr int PAIRS = 3, FIRST_NORMAL = 2, SECOND_NORMAL = 1;

// Stresses F_j of a mechanism for the pair `two` of components of twice the strain, and the trace of the strain.
__device__ __forceinline__ Vector2<real> relaxing_stress(
    int two, const Vector2<real>& modulus, real first, real second, real trace)
{
    const real spread = modulus.x * trace;
    return {modulus.y * first + (two < FIRST_NORMAL ? spread : real(0)),
            modulus.y * second + (two < SECOND_NORMAL ? spread : real(0))};
}

struct Mechanism {
    real b, a, c;

    __device__ __forceinline__ Mechanism(const real* recursion, int n)
        : b(__ldg(recursion + 3 * n)), a(__ldg(recursion + 3 * n + 1)), c(__ldg(recursion + 3 * n + 2)) {}
    __device__ __forceinline__ Vector2<real> updated(const Vector2<real>& stress, const Vector2<real>& m) const {
        return {c * stress.x + a * m.x, c * stress.y + a * m.y};
    }
};

#if SPARSE

// Carrying points of a block. Shared memory has six sums or strains and two moduli of each point, then copies of the
// memory variables and the moduli of the mechanisms.
struct Relaxation {
    static constexpr int POINTS = ELEMENTS * CARRIERS, MODULUS = 6, SUMS = 8 * POINTS;
    static constexpr int MEMORIES = POINTS * MECHANISMS * PAIRS, MODULI_PAIRS = POINTS * MECHANISMS;
    static constexpr int SIZE = SUMS + 2 * (MEMORIES + MODULI_PAIRS);

    Vector2<real>* const memory;
    const Vector2<real>* const moduli;
    const real* const recursion;
    real* const shared;
    Vector2<real>* const copies;

    __device__ __forceinline__ Relaxation(
        real* memory, const real* moduli, const real* recursion, size_t block, real* shared)
        : memory(reinterpret_cast<Vector2<real>*>(memory) + block * MEMORIES),
          moduli(reinterpret_cast<const Vector2<real>*>(moduli) + block * MODULI_PAIRS),
          recursion(recursion), shared(shared), copies(reinterpret_cast<Vector2<real>*>(shared + SUMS)) {}

    __device__ __forceinline__ void begin(int thread) const {
        for (int n = thread; n < MEMORIES; n += THREADS) copy_value(copies + n, memory + n);
        for (int n = thread; n < MODULI_PAIRS; n += THREADS) copy_value(copies + MEMORIES + n, moduli + n);
    }

    // Wait for the copies of this thread.
    __device__ __forceinline__ void wait() const { wait_for_values(); }

    __device__ __forceinline__ void prepare(int thread) const {
        for (int item = thread; item < POINTS * PAIRS; item += THREADS) {
            const int point = item / PAIRS, two = item - point * PAIRS;
            Vector2<real> sum = {0, 0}, modulus = {0, 0};
#pragma unroll
            for (int n = 0; n < MECHANISMS; n++) {
                const Vector2<real> m = copies[(point * MECHANISMS + n) * PAIRS + two];
                sum.x += m.x, sum.y += m.y;
            }
            shared[2 * two * POINTS + point] = sum.x, shared[(2 * two + 1) * POINTS + point] = sum.y;
            if (two > 0) continue;
#pragma unroll
            for (int n = 0; n < MECHANISMS; n++) {
                const Vector2<real> own = copies[MEMORIES + point * MECHANISMS + n];
                const real b = __ldg(recursion + 3 * n);
                modulus.x += b * own.x, modulus.y += b * own.y;
            }
            shared[MODULUS * POINTS + point] = modulus.x, shared[(MODULUS + 1) * POINTS + point] = modulus.y;
        }
    }

    __device__ __forceinline__ void relax(int k, int element, int line, const real* g, real scale, Stress& s) const {
        if (!CARRIER_TABLE.plane[k]) return;
        const int slot = CARRIER_TABLE.slot[k * (N * N) + line];
        if (slot < 0) return;
        real* const own = shared + element * CARRIERS + slot;
        const real mu = own[(MODULUS + 1) * POINTS], trace = own[MODULUS * POINTS] * scale * (g[0] + g[4] + g[8]);
        real* const stress[6] = {&s.xx, &s.yy, &s.zz, &s.yz, &s.xz, &s.xy};
        const real strain[6] = {2 * g[0], 2 * g[4], 2 * g[8], g[5] + g[7], g[2] + g[6], g[1] + g[3]};
#pragma unroll
        for (int n = 0; n < 6; n++) {
            const real e = scale * strain[n];
            *stress[n] -= own[n * POINTS] + mu * e + (n < 3 ? trace : real(0));
            own[n * POINTS] = e;
        }
    }

    __device__ __forceinline__ void finish(int thread) const {
        for (int item = thread; item < POINTS * PAIRS; item += THREADS) {
            const int point = item / PAIRS, two = item - point * PAIRS;
            const real* const strain = shared + point;
            const real trace = (strain[0] + strain[POINTS] + strain[2 * POINTS]) * real(0.5);
            const real first = strain[2 * two * POINTS], second = strain[(2 * two + 1) * POINTS];
#pragma unroll
            for (int n = 0; n < MECHANISMS; n++) {
                const int place = (point * MECHANISMS + n) * PAIRS + two;
                const Vector2<real> modulus = copies[MEMORIES + point * MECHANISMS + n];
                const Vector2<real> stress = relaxing_stress(two, modulus, first, second, trace);
                memory[place] = Mechanism(recursion, n).updated(stress, copies[place]);
            }
        }
    }
};

#else

struct Relaxation {
    static constexpr int SIZE = 0;

    Vector2<real>* const memory;
    const Vector2<real>* const moduli;
    const real* const recursion;

    __device__ __forceinline__ Relaxation(real* memory, const real* moduli, const real* recursion, size_t block, real*)
        : memory(reinterpret_cast<Vector2<real>*>(memory) + block * (ELEMENTS * CARRIERS * MECHANISMS * PAIRS)),
          moduli(reinterpret_cast<const Vector2<real>*>(moduli) + block * (ELEMENTS * CARRIERS * MECHANISMS)),
          recursion(recursion) {}

    __device__ __forceinline__ void begin(int) const {}
    __device__ __forceinline__ void wait() const {}
    __device__ __forceinline__ void prepare(int) const {}
    __device__ __forceinline__ void finish(int) const {}

    __device__ __forceinline__ void relax(int k, int element, int line, const real* g, real scale, Stress& s) const {
        if (!CARRIER_TABLE.plane[k]) return;
        const int slot = CARRIER_TABLE.slot[k * (N * N) + line];
        if (slot < 0) return;
        const int point = element * CARRIERS + slot;
        Vector2<real>* const own = memory + point * (MECHANISMS * PAIRS);
        Vector2<real> before[PAIRS * MECHANISMS], modulus[MECHANISMS];
#pragma unroll
        for (int n = 0; n < PAIRS * MECHANISMS; n++) before[n] = own[n];
#pragma unroll
        for (int n = 0; n < MECHANISMS; n++) modulus[n] = moduli[point * MECHANISMS + n];
        const real trace = scale * (g[0] + g[4] + g[8]);
        const real strain[6] = {scale * 2 * g[0],        scale * 2 * g[4],        scale * 2 * g[8],
                                scale * (g[5] + g[7]), scale * (g[2] + g[6]), scale * (g[1] + g[3])};
        real* const rest[6] = {&s.xx, &s.yy, &s.zz, &s.yz, &s.xz, &s.xy};
#pragma unroll
        for (int n = 0; n < MECHANISMS; n++) {
            const Mechanism mechanism(recursion, n);
#pragma unroll
            for (int two = 0; two < PAIRS; two++) {
                const Vector2<real> m = before[PAIRS * n + two];
                const Vector2<real> stress =
                    relaxing_stress(two, modulus[n], strain[2 * two], strain[2 * two + 1], trace);
                *rest[2 * two] -= mechanism.b * stress.x + m.x;
                *rest[2 * two + 1] -= mechanism.b * stress.y + m.y;
                own[PAIRS * n + two] = mechanism.updated(stress, m);
            }
        }
    }
};

#endif

#else

struct Relaxation {
    static constexpr int SIZE = 0;

    __device__ __forceinline__ Relaxation(real*, const real*, const real*, size_t, real*) {}
    __device__ __forceinline__ void begin(int) const {}
    __device__ __forceinline__ void wait() const {}
    __device__ __forceinline__ void prepare(int) const {}
    __device__ __forceinline__ void relax(int, int, int, const real*, real, Stress&) const {}
    __device__ __forceinline__ void finish(int) const {}
};

#endif
