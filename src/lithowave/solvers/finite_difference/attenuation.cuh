// Memory variables of attenuation; see law.py for the CPU version and the formulas, attenuation.py for the arrays.
#pragma once

#include "hopper.cuh"
#include "stencil.cuh"

constexpr int STRESSES = 6;  // xx, yy, zz, xy, xz, yz

// Fractions of a mechanism at a node.
struct Fractions {
    real kappa, mu;

    // Return F(t) of a normal stress.
    __device__ __forceinline__ real normal(real t, real mean) const { return fma(mu, t, (kappa - mu) * mean); }
};

// Arrays of the memory variables before and after an update (the same ones if it is in place), and of the mechanisms.
// Strides in elements: from a mechanism to the next one, of planes and of rows.
struct Memory {
    const real* before[STRESSES];
    real* after[STRESSES];
    const unsigned* codes;
    const real* part;  // b = 2 x / (1 + x), (MEMORIES, 16)
    long long grid, plane, pitch;
    real unit;

    __device__ __forceinline__ Fractions fractions(unsigned code) const {
        return {unit * static_cast<real>(code & 0x7fffu), unit * static_cast<real>(code >> 16)};
    }
    // Return b of mechanism m at a node; bit 15 of the code selects the common rate of absorbing layers.
    __device__ __forceinline__ real relaxing_part(int m, int here, unsigned code) const {
        return __ldg(part + 16 * m + here + (code >> 12 & 8));
    }
    // Return 4 k + 2 j + i, the parities of the indices of element p.
    __device__ __forceinline__ int node(long long p) const {
        const long long k = p / plane, j = (p - k * plane) / pitch, i = p - k * plane - j * pitch;
        return 4 * (k & 1) + 2 * (j & 1) + (i & 1);
    }
    // Change the memory variables of the node by g = b F(t), and reduce the increments t of the normal stresses by g / 2.
    __device__ __forceinline__ void add_normal(long long p, real (&t)[3]) const {
        const int here = node(p);
        const real mean = (t[0] + t[1] + t[2]) / 3, whole[3] = {t[0], t[1], t[2]};
        for (int m = 0; m < MEMORIES; m++) {
            const unsigned code = codes[p + m * grid];
            const Fractions f = fractions(code);
            for (int n = 0; n < 3; n++) {
                const real gain = relaxing_part(m, here, code) * f.normal(whole[n], mean);
                after[n][p + m * grid] += gain;
                t[n] -= gain / 2;
            }
        }
    }
    // Same for the shear stress n; return the reduced increment.
    __device__ __forceinline__ real add_shear(long long p, int n, real t) const {
        const int here = node(p);
        real change = t;
        for (int m = 0; m < MEMORIES; m++) {
            const unsigned code = codes[p + m * grid];
            const real gain = relaxing_part(m, here, code) * (fractions(code).mu * t);
            after[n][p + m * grid] += gain;
            change -= gain / 2;
        }
        return change;
    }
    // Return the increment of szz for the elastic increments t of the normal stresses.
    __device__ __forceinline__ real vertical_response(long long p, const real (&t)[3]) const {
        const int here = node(p);
        const real mean = (t[0] + t[1] + t[2]) / 3;
        real response = t[2];
        for (int m = 0; m < MEMORIES; m++) {
            const unsigned code = codes[p + m * grid];
            response -= relaxing_part(m, here, code) / 2 * fractions(code).normal(t[2], mean);
        }
        return response;
    }
};

// Memory variables of one mechanism at a node.
struct Mechanism {
    real r[STRESSES];
    unsigned code;

    __device__ __forceinline__ void read(const Memory& memory, bool active, place_t p) {
#pragma unroll
        for (int n = 0; n < STRESSES; n++) r[n] = active ? __ldcs(memory.before[n] + p) : real(0);
        code = active ? __ldcs(memory.codes + p) : 0;
    }
    __device__ __forceinline__ void write(const Memory& memory, place_t p) const {
#pragma unroll
        for (int n = 0; n < STRESSES; n++) memory.after[n][p] = r[n];
    }
};

// Copies of the memory variables of a tile in shared memory, where each thread reads only values that it has copied.
template <int X, int Y>
struct CopiedMechanisms {
    alignas(128) real r[STRESSES][Y][X];
    alignas(128) unsigned codes[Y][X];

    // Start copying node p.
    __device__ __forceinline__ void start(const Memory& memory, place_t p, int row, int column) {
#pragma unroll
        for (int n = 0; n < STRESSES; n++) copy_value(&r[n][row][column], memory.before[n] + p);
        copy_value(&codes[row][column], memory.codes + p);
    }
    __device__ __forceinline__ Mechanism finish(int row, int column) const {
        wait_for_values();
        Mechanism found;
#pragma unroll
        for (int n = 0; n < STRESSES; n++) found.r[n] = r[n][row][column];
        found.code = codes[row][column];
        return found;
    }
};

// Memory variables of one point during the update of a step. The first mechanism is read long before it is needed, and
// each following one before the one below it is written: registers for all of them would be too many.
struct Mechanisms {
    Mechanism now;
    place_t place;
    int node;
    bool active;

    __device__ __forceinline__ place_t position(const Memory& memory, int m) const {
        return place + m * static_cast<place_t>(memory.grid);
    }
    __device__ __forceinline__ void recall(const Memory& memory, bool active_, place_t p, int node_) {
        place = p, node = node_, active = active_;
#pragma unroll
        for (int m = 1; m < MEMORIES; m++)
            if (active) prefetch_mechanism(memory, position(memory, m));
        now.read(memory, active, p);
    }
    // Start loading a mechanism into the second-level cache.
    static __device__ __forceinline__ void prefetch_mechanism(const Memory& memory, place_t p) {
#pragma unroll
        for (int n = 0; n < STRESSES; n++) prefetch(memory.before[n] + p);
        prefetch(memory.codes + p);
    }
    // Advance by g = b [F(t) - r], and reduce the increments t of the stresses by r + g / 2.
    __device__ __forceinline__ void advance(const Memory& memory, real (&t)[STRESSES]) {
        const real mean = (t[0] + t[1] + t[2]) / 3;
        real change[STRESSES];
#pragma unroll
        for (int n = 0; n < STRESSES; n++) change[n] = t[n];
#pragma unroll
        for (int m = 0; m < MEMORIES; m++) {
            Mechanism next;
            if (m + 1 < MEMORIES) next.read(memory, active, position(memory, m + 1));
            const Fractions f = memory.fractions(now.code);
            const real part = memory.relaxing_part(m, node, now.code);
#pragma unroll
            for (int n = 0; n < STRESSES; n++) {
                const real gain = part * ((n < 3 ? f.normal(t[n], mean) : f.mu * t[n]) - now.r[n]);
                change[n] -= fma(real(0.5), gain, now.r[n]);
                now.r[n] += gain;
            }
            if (m + 1 < MEMORIES) {
                if (active) now.write(memory, position(memory, m));
                now = next;
            }
        }
#pragma unroll
        for (int n = 0; n < STRESSES; n++) t[n] = change[n];
    }
    // Write the last mechanism.
    __device__ __forceinline__ void store(const Memory& memory) const {
        now.write(memory, position(memory, MEMORIES - 1));
    }
};
