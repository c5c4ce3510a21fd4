// Relaxation of the stresses of elements with attenuation: see relaxation.py for the formulas, relaxation_kernels.py for
// the readable version, and arguments.py for the arrays.
//
// MECHANISMS; LAYER: in an absorbing layer, which may damp; ANISOTROPIC: with coefficients of the isotropic average.
#pragma once

#include "reference.cuh"
#include "unrolled.cuh"

constexpr int KEPT = Reference::B1 * LANES;  // values of a memory variable, or of a stress in shared memory, of a block

// Index of the first function of a term, from the second one on, in `Relaxation::later`.
constexpr int later_begin(int term) {
    int sum = 0;
    for (int before = 2; before < term; before++) sum += Reference::level[before];
    return sum;
}

// Mechanisms of an element, for the stress of this warp.
template <class real>
struct Relaxation {
    real* const own;          // memory variables of the stress
    const real* const law;    // coefficients of attenuation
    const real* const rates;  // x and gamma of each mechanism
    const real* const jumps;  // stresses by the faces in the step before, in shared memory
    const real damping;
    real shear[MECHANISMS], bulk[MECHANISMS];
    real later[ORDER > 2 ? later_begin(ORDER) : 1];  // relaxation by the terms so far, in terms from the second one on

    __device__ __forceinline__ Relaxation(
        real* own, const real* law, const real* rates, const real* jumps, real damping)
        : own(own), law(law), rates(rates), jumps(jumps), damping(damping)
    {
#pragma unroll
        for (int n = 0; n < MECHANISMS; n++) {
            shear[n] = law[2 * n * LANES];
            bulk[n] = threadIdx.x / LANES < 3 ? law[(2 * n + 1) * LANES] : real(0);
        }
#pragma unroll
        for (real& value : later) value = 0;
    }

    // The stress s of this warp and p, of the isotropic average, from function r of stresses in shared memory.
    __device__ __forceinline__ void drive(const real* stresses, int r, real& s, real& p) const {
        const int quantity = threadIdx.x / LANES;
        const real* const at = stresses + r * LANES + threadIdx.x % LANES;
#if ANISOTROPIC
        const real* const average = law + 2 * MECHANISMS * LANES;
        s = p = 0;
#pragma unroll
        for (int j = 0; j < STRESSES; j++) {
            s += average[(quantity * STRESSES + j) * LANES] * at[j * KEPT];
            p += average[(STRESSES * STRESSES + j) * LANES] * at[j * KEPT];
        }
#else
        s = at[quantity * KEPT];
        p = quantity < 3 ? (at[0] + at[KEPT] + at[2 * KEPT]) * real(1.0 / 3.0) : real(0);
#endif
    }

    __device__ __forceinline__ real force(int n, real s, real p) const { return fma(bulk[n], p, shear[n] * s); }

    // The memory variable r of a mechanism, with the contributions of the faces in the step before.
    __device__ __forceinline__ real complete(int n, int r, real s, real p) const {
        return own[n * STRESSES * KEPT + r * LANES] + force(n, s, p);
    }

    // Subtract relaxation from E^term of this warp's stress, which all stresses have written to shared memory.
    template <int term>
    __device__ __forceinline__ void relax(real (&stress)[Reference::B1], const real* stresses) {
        unrolled<0, Reference::level[term]>([&](auto row) {
            constexpr int r = decltype(row)::value;
            constexpr bool last = r >= Reference::level[term + 1];
            real s, p, face_s = 0, face_p = 0, sum = 0;
            drive(stresses, r, s, p);
            if constexpr (term == 1) drive(jumps, r, face_s, face_p);
            if constexpr (term > 1) sum = later[later_begin(term) + r];
            unrolled<0, MECHANISMS>([&](auto mechanism) {
                constexpr int n = decltype(mechanism)::value;
                real* const at = own + n * STRESSES * KEPT + r * LANES;
                real kept = *at, change = force(n, s, p);
                if constexpr (term == 1) {
                    kept = damping * (kept + force(n, face_s, face_p));
                    const real relaxing = __ldg(rates + n * ORDER) * kept;
                    change -= relaxing;
                    if constexpr (!last) sum += relaxing;
                }
                if constexpr (last) {
                    change *= __ldg(rates + n * ORDER + term);
                    sum += force(n, s, p) - change;
                } else {
                    change += carry<term + 1, n, r>(change);
                }
                *at = kept + change;
            });
            stress[r] -= sum;
        });
    }

    // Add the relaxation by u, a part of u^(term - 1), to this term and later ones; return their change of r.
    template <int term, int n, int r>
    __device__ __forceinline__ real carry(real u) {
        real part = __ldg(rates + n * ORDER) * real(1.0 / term) * u;
        if constexpr (r >= Reference::level[term + 1]) {
            part *= __ldg(rates + n * ORDER + term);
            later[later_begin(term) + r] += part;
            return -part;
        } else {
            later[later_begin(term) + r] += part;
            return carry<term + 1, n, r>(-part) - part;
        }
    }
};
