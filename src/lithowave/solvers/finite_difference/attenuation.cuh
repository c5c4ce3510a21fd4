// Memory variables of attenuation; see law.py for the CPU version and the formulas, attenuation.py for the arrays.
#pragma once

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

// Memory variables of one point during the update of a step. A single mechanism is read long before it is needed; more
// of them would occupy too many registers, and are read and written when they are advanced.
struct Mechanisms {
    static constexpr bool EARLY = MEMORIES == 1;
    real r[STRESSES];
    unsigned code;
    place_t place;
    int node;
    bool active;

    __device__ __forceinline__ void recall(const Memory& memory, bool active_, place_t p, int node_) {
        place = p, node = node_, active = active_;
        if (EARLY) read(memory, 0);
    }
    __device__ __forceinline__ void read(const Memory& memory, int m) {
        const place_t p = place + m * static_cast<place_t>(memory.grid);
#pragma unroll
        for (int n = 0; n < STRESSES; n++) r[n] = active ? __ldcs(memory.before[n] + p) : real(0);
        code = active ? __ldcs(memory.codes + p) : 0;
    }
    __device__ __forceinline__ void write(const Memory& memory, int m) const {
        const place_t p = place + m * static_cast<place_t>(memory.grid);
#pragma unroll
        for (int n = 0; n < STRESSES; n++) memory.after[n][p] = r[n];
    }
    // Advance by g = b [F(t) - r], and reduce the increments t of the stresses by r + g / 2.
    __device__ __forceinline__ void advance(const Memory& memory, real (&t)[STRESSES]) {
        const real mean = (t[0] + t[1] + t[2]) / 3;
        real change[STRESSES];
#pragma unroll
        for (int n = 0; n < STRESSES; n++) change[n] = t[n];
#pragma unroll
        for (int m = 0; m < MEMORIES; m++) {
            if (!EARLY) read(memory, m);
            const Fractions f = memory.fractions(code);
            const real part = memory.relaxing_part(m, node, code);
#pragma unroll
            for (int n = 0; n < STRESSES; n++) {
                const real gain = part * ((n < 3 ? f.normal(t[n], mean) : f.mu * t[n]) - r[n]);
                change[n] -= fma(real(0.5), gain, r[n]);
                r[n] += gain;
            }
            if (!EARLY && active) write(memory, m);
        }
#pragma unroll
        for (int n = 0; n < STRESSES; n++) t[n] = change[n];
    }
    // Write a single mechanism.
    __device__ __forceinline__ void store(const Memory& memory) const {
        if (EARLY) write(memory, 0);
    }
};
