// Law with symmetry axes along x, y and z: c11, c22, c33, c12, c13 and c23 at nodes, and 1/c44, 1/c55 and 1/c66 where
// syz, sxz and sxy are.
#pragma once

#include "stencil.cuh"

// Moduli for the stresses at one node and at the half nodes beyond it; four times 1/c66, 1/c55, 1/c44.
struct Moduli {
    real c11, c22, c33, c12, c13, c23, compliance_xy, compliance_xz, compliance_yz;
};

// Arrays of the law in the order of the table in law.py, then the scales of their codes.
struct ElasticLaw {
    const modulus_t *c11, *c22, *c33, *c12, *c13, *c23, *compliance_yz, *compliance_xz, *compliance_xy;
    Scale c11_scale, c22_scale, c33_scale, c12_scale, c13_scale, c23_scale, yz_scale, xz_scale, xy_scale;

    static __device__ __forceinline__ real four_times(modulus_t code, const Scale& scale) {
        const real one = logarithmic_value(code, scale, real(1e10)), pair = one + one;
        return pair + pair;
    }
    // Return four times the reciprocal of the modulus at p + (a + b) / 2; a and b are steps along axes x_a and x_b.
    template <class Place>
    __device__ __forceinline__ real compliance_between(Place p, Place, Place, int x_a, int x_b) const {
        if (x_a + x_b == 1) return four_times(compliance_xy[p], xy_scale);
        return x_a + x_b == 2 ? four_times(compliance_xz[p], xz_scale) : four_times(compliance_yz[p], yz_scale);
    }
    // Return the moduli of normal stresses at node p.
    template <class Place>
    __device__ __forceinline__ Moduli node(Place p) const {
        return {linear_value(c11[p], c11_scale), linear_value(c22[p], c22_scale), linear_value(c33[p], c33_scale),
                linear_value(c12[p], c12_scale), linear_value(c13[p], c13_scale), linear_value(c23[p], c23_scale),
                0, 0, 0};
    }
};

// Add the stresses of normal strain rates.
__device__ __forceinline__ void add_normal_stress(
    const Moduli& m, real ratio, real exx, real eyy, real ezz, real& sxx, real& syy, real& szz)
{
    sxx += ratio * fma(m.c11, exx, fma(m.c12, eyy, m.c13 * ezz));
    syy += ratio * fma(m.c22, eyy, fma(m.c12, exx, m.c23 * ezz));
    szz += ratio * fma(m.c33, ezz, fma(m.c13, exx, m.c23 * eyy));
}

// Return the vertical strain rate that makes szz zero.
__device__ __forceinline__ real releasing_rate(const Moduli& m, real ratio, real szz) {
    return -szz / (ratio * m.c33);
}

// -------------------------------------------------------------------- for blocks that march upward, plane after plane

// Tensor maps of the moduli for the copy engine.
template <class Map>
struct LawMaps {
    Map maps[9];
};

// Moduli of one plane in shared memory, for a tile of X x Y columns, in the order of `Law`.
template <int X, int Y>
struct LawSlot {
    struct Plane {
        alignas(128) modulus_t value[Y][X];
    };
    Plane planes[9];

    // Bytes of a plane that is finished; a plane that only fills the columns needs none.
    static __device__ __forceinline__ unsigned bytes(bool finishing) { return finishing ? 9 * sizeof(modulus_t) * X * Y : 0; }
    // Load the data of plane m; x, y, m are relative to the origin of the maps.
    template <class Maps, class Barrier>
    __device__ __forceinline__ void load(const Maps& maps, int x, int y, int m, bool finishing, Barrier& full) {
        if (!finishing) return;
#pragma unroll
        for (int n = 0; n < 9; n++) copy_box(planes[n].value, maps.maps[n], x, y, m, full);
    }
};

// A column stores no moduli for the next plane.
struct LawColumn {
    // Return the moduli of the plane that the slot holds.
    template <class Slot>
    __device__ __forceinline__ Moduli climb(const Slot& slot, int row, int column, const ElasticLaw& law) {
        const auto at = [&](int n) { return slot.planes[n].value[row][column]; };
        return {linear_value(at(0), law.c11_scale), linear_value(at(1), law.c22_scale), linear_value(at(2), law.c33_scale),
                linear_value(at(3), law.c12_scale), linear_value(at(4), law.c13_scale), linear_value(at(5), law.c23_scale),
                ElasticLaw::four_times(at(8), law.xy_scale), ElasticLaw::four_times(at(7), law.xz_scale),
                ElasticLaw::four_times(at(6), law.yz_scale)};
    }
};
