// Relaxation of the stresses of elements with attenuation: see relaxation.py for the formulas and the
// readable version, and kernels.py for the arrays.
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
    real later[ORDER > 2 ? later_begin(ORDER) : 1];  // relaxation by the terms so far, in terms from the second one on

    __device__ __forceinline__ Relaxation(
        real* own, const real* law, const real* rates, const real* jumps, real damping)
        : own(own), law(law), rates(rates), jumps(jumps), damping(damping)
    {
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

    // Coefficients of a mechanism for the stress s of this warp and p.
    struct Weights {
        real shear, bulk;

        __device__ __forceinline__ real force(real s, real p) const { return fma(bulk, p, shear * s); }
    };

    __device__ __forceinline__ Weights weights(int n) const {
        return {law[2 * n * LANES], threadIdx.x / LANES < 3 ? law[(2 * n + 1) * LANES] : real(0)};
    }

    // The memory variable r of a mechanism, with the contributions of the faces in the step before.
    __device__ __forceinline__ real complete(int n, int r, real s, real p) const {
        return own[n * STRESSES * KEPT + r * LANES] + weights(n).force(s, p);
    }

    // Subtract relaxation from E^term of this warp's stress, which all stresses have written to shared memory. The loop
    // over mechanisms is short code: see the documentation.
    template <int term>
    __device__ __forceinline__ void relax(real (&stress)[Reference::B1], const real* stresses) {
        constexpr int COUNT = Reference::level[term], LAST = Reference::level[term + 1];
        if constexpr (term > 1)
            unrolled<0, COUNT>([&](auto row) {
                constexpr int r = decltype(row)::value;
                stress[r] -= later[later_begin(term) + r];
            });
#pragma unroll 1
        for (int n = 0; n < MECHANISMS; n++) {
            const Weights own_weights = weights(n);
            const real* const powers = rates + n * ORDER;
            const real rate = __ldg(powers), share = __ldg(powers + term);
            real* const from = own + n * STRESSES * KEPT;
            unrolled<0, COUNT>([&](auto row) {
                constexpr int r = decltype(row)::value;
                real s, p;
                drive(stresses, r, s, p);
                const real force = own_weights.force(s, p);
                real kept = from[r * LANES], change = force;
                if constexpr (term == 1) {
                    real face_s, face_p;
                    drive(jumps, r, face_s, face_p);
                    kept = damping * (kept + own_weights.force(face_s, face_p));
                    const real relaxing = rate * kept;
                    change -= relaxing;
                    if constexpr (r < LAST) stress[r] -= relaxing;
                }
                if constexpr (r >= LAST) {
                    change *= share;
                    stress[r] -= force - change;
                } else {
                    change += carry<term + 1, r>(powers, rate, change);
                }
                from[r * LANES] = kept + change;
            });
        }
    }

    // Add the relaxation by u, a part of u^(term - 1), to this term and later ones; return their change of r.
    template <int term, int r>
    __device__ __forceinline__ real carry(const real* powers, real rate, real u) {
        real part = rate * real(1.0 / term) * u;
        if constexpr (r >= Reference::level[term + 1]) {
            part *= __ldg(powers + term);
            later[later_begin(term) + r] += part;
            return -part;
        } else {
            later[later_begin(term) + r] += part;
            return carry<term + 1, r>(powers, rate, -part) - part;
        }
    }
};
