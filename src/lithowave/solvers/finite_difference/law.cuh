// Constitutive law of the finite differences: the only code that computes stresses from strain rates. See law.py for
// the CPU version and the formulas.
//
// LAW selects the file with the moduli and the normal stresses. Strain rates are multiplied by the grid spacing h;
// ratio = dt / h. All code that computes stresses (interior, absorbing layers, closures, free surface) calls
// `add_normal_stress` and `shear_stress`.
#pragma once

#if LAW == 0
#include "law_isotropic.cuh"
#elif LAW == 1
#include "law_transverse.cuh"
#else
#include "law_orthorhombic.cuh"
#endif

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

// Add the stresses of a strain rate along one axis (0, 1, 2).
__device__ __forceinline__ void add_uniaxial_stress(
    const Moduli& m, real ratio, int axis, real rate, real& sxx, real& syy, real& szz)
{
    add_normal_stress(m, ratio, axis == 0 ? rate : 0, axis == 1 ? rate : 0, axis == 2 ? rate : 0, sxx, syy, szz);
}
