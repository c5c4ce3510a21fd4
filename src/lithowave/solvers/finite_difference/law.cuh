// Constitutive law of the finite differences: the only code that computes stresses from strain rates. See law.py for
// the CPU version and the formulas.
//
// LAW selects the file with the moduli and the normal stresses. Strain rates are multiplied by the grid spacing h;
// ratio = dt / h. The update of a step calls `advance_stress` once for each point; further changes of its strain rate
// (closures, free surface) call `add_uniaxial_stress`, `add_shear_stress` and `release_normal_stress`.
//
// With attenuation, a node stores MEMORIES mechanisms (0: elastic). COARSE: the mechanism depends on the node.
#pragma once

#if LAW == 0
#include "law_isotropic.cuh"
#elif LAW == 1
#include "law_transverse.cuh"
#else
#include "law_orthorhombic.cuh"
#endif

#if MEMORIES
#include "attenuation.cuh"
#endif

// Argument `law` of kernels.
struct Law : ElasticLaw {
#if MEMORIES
    Memory memory;
#endif
};

// Read all moduli of node p from memory.
__device__ __forceinline__ Moduli all_moduli(const Law& law, place_t p, place_t row, place_t plane) {
    const place_t one = 1;
    Moduli moduli = law.node(p);
    moduli.compliance_xy = law.compliance_between(p, one, row, 0, 1);
    moduli.compliance_xz = law.compliance_between(p, one, plane, 0, 2);
    moduli.compliance_yz = law.compliance_between(p, row, plane, 1, 2);
    return moduli;
}

// Return the stress of twice a shear strain rate; compliance : four times the reciprocal of the shear modulus.
__device__ __forceinline__ real shear_stress(real compliance, real ratio, real rate) {
    const real twice = ratio + ratio;
    return (twice + twice) / compliance * rate;
}

// Memory variables of one point, and its part of the update of a step.
struct MemoryPoint {
#if MEMORIES
    Mechanisms mechanisms;
#endif

    // Read what the point needs, long before it is used. node : 4 k + 2 j + i, parities of the indices in the arrays.
    __device__ __forceinline__ void recall(const Law& law, bool active, place_t p, int node) {
#if MEMORIES
        mechanisms.recall(law.memory, active, p, node);
#endif
    }
#if MEMORIES == 1
    template <int X, int Y>
    __device__ __forceinline__ void recall(const CopiedMechanisms<X, Y>& copies, place_t p, int node, int row, int column) {
        mechanisms = {copies.finish(row, column), p, node, true};
    }
#endif
    // Write the memory variables of an active point.
    __device__ __forceinline__ void store(const Law& law) const {
#if MEMORIES
        mechanisms.store(law.memory);
#endif
    }
    // Add the stresses of normal strain rates and of twice the shear strain rates.
    __device__ __forceinline__ void advance_stress(
        const Moduli& moduli, const Law& law, real ratio, real exx, real eyy, real ezz, real exy, real exz, real eyz,
        real& sxx, real& syy, real& szz, real& sxy, real& sxz, real& syz)
    {
#if MEMORIES
        real t[STRESSES] = {0, 0, 0, shear_stress(moduli.compliance_xy, ratio, exy),
                            shear_stress(moduli.compliance_xz, ratio, exz), shear_stress(moduli.compliance_yz, ratio, eyz)};
        add_normal_stress(moduli, ratio, exx, eyy, ezz, t[0], t[1], t[2]);
        mechanisms.advance(law.memory, t);
        sxx += t[0], syy += t[1], szz += t[2], sxy += t[3], sxz += t[4], syz += t[5];
#else
        add_normal_stress(moduli, ratio, exx, eyy, ezz, sxx, syy, szz);
        sxy += shear_stress(moduli.compliance_xy, ratio, exy);
        sxz += shear_stress(moduli.compliance_xz, ratio, exz);
        syz += shear_stress(moduli.compliance_yz, ratio, eyz);
#endif
    }
};

// -------------------------------------------------------------------------------- changes of a strain rate at point p

template <class Place>
__device__ __forceinline__ void add_uniaxial_stress(
    const Law& law, Place p, real ratio, int axis, real rate, real* sxx, real* syy, real* szz)
{
    const real exx = axis == 0 ? rate : 0, eyy = axis == 1 ? rate : 0, ezz = axis == 2 ? rate : 0;
#if MEMORIES
    real t[3] = {0, 0, 0};
    add_normal_stress(law.node(p), ratio, exx, eyy, ezz, t[0], t[1], t[2]);
    law.memory.add_normal(p, t);
    sxx[p] += t[0], syy[p] += t[1], szz[p] += t[2];
#else
    add_normal_stress(law.node(p), ratio, exx, eyy, ezz, sxx[p], syy[p], szz[p]);
#endif
}

// Add the stress of twice a shear strain rate at p + (a + b) / 2; a and b are steps along axes x_a and x_b.
template <class Place>
__device__ __forceinline__ void add_shear_stress(
    const Law& law, Place p, Place a, Place b, int x_a, int x_b, real ratio, real rate, real* s)
{
    const real t = shear_stress(law.compliance_between(p, a, b, x_a, x_b), ratio, rate);
#if MEMORIES
    s[p] += law.memory.add_shear(p, 2 + x_a + x_b, t);
#else
    s[p] += t;
#endif
}

// Set szz to zero by a change of the vertical strain rate.
template <class Place>
__device__ __forceinline__ void release_normal_stress(const Law& law, Place p, real ratio, real* sxx, real* syy, real* szz)
{
#if MEMORIES
    real t[3] = {0, 0, 0};
    add_normal_stress(law.node(p), ratio, 0, 0, 1, t[0], t[1], t[2]);
    const real rate = -szz[p] / law.memory.vertical_response(p, t);
#else
    const real rate = releasing_rate(law.node(p), ratio, szz[p]);
#endif
    add_uniaxial_stress(law, p, ratio, 2, rate, sxx, syy, szz);
    szz[p] = 0;
}

