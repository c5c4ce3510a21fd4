// Isotropic law: lambda and 1/mu at nodes, and the harmonic mean of mu at four nodes for shear stresses.
#pragma once

#include "stencil.cuh"

// Moduli for the stresses at one node and at the half nodes beyond it. 1/mu : at the node, and its sums over the four
// nodes around the half nodes of sxy, sxz and syz.
struct Moduli {
    real lam, compliance, compliance_xy, compliance_xz, compliance_yz;
};

// Arrays of the law in the order of the table in law.py, then the scales of their codes.
struct ElasticLaw {
    const modulus_t *lam, *compliance;
    Scale lam_scale, compliance_scale;

    __device__ __forceinline__ real lam_value(modulus_t code) const { return linear_value(code, lam_scale); }
    __device__ __forceinline__ real compliance_value(modulus_t code) const {
        return logarithmic_value(code, compliance_scale, real(1e10));
    }
    // Return four times the mean of 1/mu around p + (a + b) / 2; a and b are steps along axes x_a and x_b.
    template <class Place>
    __device__ __forceinline__ real compliance_between(Place p, Place a, Place b, int, int) const {
        const auto at = [&](Place place) { return compliance_value(compliance[place]); };
        return at(p) + at(p + a) + (at(p + b) + at(p + a + b));
    }
    // Return the moduli of normal stresses at node p.
    template <class Place>
    __device__ __forceinline__ Moduli node(Place p) const {
        return {lam_value(lam[p]), compliance_value(compliance[p]), 0, 0, 0};
    }
};

// Add the stresses of normal strain rates.
__device__ __forceinline__ void add_normal_stress(
    const Moduli& m, real ratio, real exx, real eyy, real ezz, real& sxx, real& syy, real& szz)
{
    const real twice_mu = (ratio + ratio) / m.compliance, pressure = ratio * m.lam * (exx + eyy + ezz);
    sxx += fma(twice_mu, exx, pressure);
    syy += fma(twice_mu, eyy, pressure);
    szz += fma(twice_mu, ezz, pressure);
}

// Return the vertical strain rate that makes szz zero.
__device__ __forceinline__ real releasing_rate(const Moduli& m, real ratio, real szz) {
    return -szz / (ratio * (m.lam + 2 / m.compliance));
}

// -------------------------------------------------------------------- for blocks that march upward, plane after plane

// Tensor maps of the moduli for the copy engine.
template <class Map>
struct LawMaps {
    Map lam, compliance;
};

// Moduli of one plane in shared memory, for a tile of X x Y columns. Arrays that the law also reads at neighboring
// nodes (`neighbors` in the table) have one more row and column, and are loaded one plane ahead.
template <int X, int Y>
struct LawSlot {
    static constexpr int WIDE = X + 16 / sizeof(modulus_t);  // copies begin and end at multiples of 16 bytes
    alignas(128) modulus_t lam[Y][X];
    alignas(128) modulus_t compliance[Y + 1][WIDE];

    // Bytes of a plane that is finished, and of one that only fills the columns.
    static __device__ __forceinline__ unsigned bytes(bool finishing) {
        return sizeof(compliance) + (finishing ? sizeof(lam) : 0);
    }
    // Load the data of plane m; x, y, m are relative to the origin of the maps.
    template <class Maps, class Barrier>
    __device__ __forceinline__ void load(const Maps& maps, int x, int y, int m, bool finishing, Barrier& full) {
        copy_box(compliance, maps.compliance, x, y, m + 1, full);
        if (finishing) copy_box(lam, maps.lam, x, y, m, full);
    }
};

// Moduli that a column stores for the next plane to be finished.
struct LawColumn {
    real compliance = 1, compliance_x = 1, compliance_y = 1, compliance_xy = 1;

    // Return the moduli of the plane to be finished and store those of the plane above, which the slot holds.
    template <class Slot>
    __device__ __forceinline__ Moduli climb(const Slot& slot, int row, int column, const ElasticLaw& law) {
        const modulus_t* up = &slot.compliance[row][column];
        const real above = law.compliance_value(*up), right = law.compliance_value(up[1]);
        const real behind = law.compliance_value(up[Slot::WIDE]), across = law.compliance_value(up[Slot::WIDE + 1]);
        const real above_x = above + right, above_y = above + behind;
        const Moduli moduli{law.lam_value(slot.lam[row][column]), compliance, compliance_xy, compliance_x + above_x,
                            compliance_y + above_y};
        compliance = above, compliance_x = above_x, compliance_y = above_y;
        compliance_xy = above_x + (behind + across);
        return moduli;
    }
};
