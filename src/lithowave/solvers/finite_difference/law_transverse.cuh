// Law with a vertical symmetry axis: c11, c13, c33 and 1/c66 at nodes, with c12 = c11 - 2 c66, and 1/c44 half a cell
// above them; harmonic means of the nearest values for shear stresses.
#pragma once

#include "stencil.cuh"

// Moduli for the stresses at one node and at the half nodes beyond it. node_xy : 1/c66 at the node; the others: four
// times the means of 1/c66 and 1/c44 at the half nodes of sxy, sxz and syz.
struct Moduli {
    real c11, c13, c33, node_xy, compliance_xy, compliance_xz, compliance_yz;
};

// Arrays of the law in the order of the table in law.py, then the scales of their codes.
struct ElasticLaw {
    const modulus_t *c11, *c13, *c33, *compliance, *compliance_xy;
    Scale c11_scale, c13_scale, c33_scale, compliance_scale, compliance_xy_scale;

    __device__ __forceinline__ real vertical(modulus_t code) const {
        return logarithmic_value(code, compliance_scale, real(1e10));
    }
    __device__ __forceinline__ real horizontal(modulus_t code) const {
        return logarithmic_value(code, compliance_xy_scale, real(1e10));
    }
    __device__ __forceinline__ Moduli normal(modulus_t code_11, modulus_t code_13, modulus_t code_33) const {
        return {linear_value(code_11, c11_scale), linear_value(code_13, c13_scale), linear_value(code_33, c33_scale),
                0, 0, 0, 0};
    }
    // Return four times the reciprocal of the modulus at p + (a + b) / 2; a and b are steps along axes x_a and x_b.
    template <class Place>
    __device__ __forceinline__ real compliance_between(Place p, Place a, Place b, int x_a, int x_b) const {
        if (x_a == 2 || x_b == 2) {
            const real pair = vertical(compliance[p]) + vertical(compliance[p + (x_a == 2 ? b : a)]);
            return pair + pair;
        }
        const auto at = [&](Place place) { return horizontal(compliance_xy[place]); };
        return at(p) + at(p + a) + (at(p + b) + at(p + a + b));
    }
    // Return the moduli of normal stresses at node p.
    template <class Place>
    __device__ __forceinline__ Moduli node(Place p) const {
        Moduli m = normal(c11[p], c13[p], c33[p]);
        m.node_xy = horizontal(compliance_xy[p]);
        return m;
    }
};

// Add the stresses of normal strain rates.
__device__ __forceinline__ void add_normal_stress(
    const Moduli& m, real ratio, real exx, real eyy, real ezz, real& sxx, real& syy, real& szz)
{
    const real twice_c66 = (ratio + ratio) / m.node_xy, flat = exx + eyy;
    const real pressure = fma(ratio * m.c11 - twice_c66, flat, ratio * m.c13 * ezz);
    sxx += fma(twice_c66, exx, pressure);
    syy += fma(twice_c66, eyy, pressure);
    szz += ratio * fma(m.c13, flat, m.c33 * ezz);
}

// Return the vertical strain rate that makes szz zero.
__device__ __forceinline__ real releasing_rate(const Moduli& m, real ratio, real szz) {
    return -szz / (ratio * m.c33);
}

// -------------------------------------------------------------------- for blocks that march upward, plane after plane

// Tensor maps of the moduli for the copy engine.
template <class Map>
struct LawMaps {
    Map c11, c13, c33, compliance, compliance_xy;
};

// Moduli of one plane in shared memory, for a tile of X x Y columns; compliances have one more row and column.
template <int X, int Y>
struct LawSlot {
    static constexpr int WIDE = X + 16 / sizeof(modulus_t);  // copies begin and end at multiples of 16 bytes
    alignas(128) modulus_t c11[Y][X];
    alignas(128) modulus_t c13[Y][X];
    alignas(128) modulus_t c33[Y][X];
    alignas(128) modulus_t compliance[Y + 1][WIDE];
    alignas(128) modulus_t compliance_xy[Y + 1][WIDE];

    // Bytes of a plane that is finished; a plane that only fills the columns needs none.
    static __device__ __forceinline__ unsigned bytes(bool finishing) {
        return finishing ? 3 * sizeof(c11) + 2 * sizeof(compliance) : 0;
    }
    // Load the data of plane m; x, y, m are relative to the origin of the maps.
    template <class Maps, class Barrier>
    __device__ __forceinline__ void load(const Maps& maps, int x, int y, int m, bool finishing, Barrier& full) {
        if (!finishing) return;
        copy_box(c11, maps.c11, x, y, m, full);
        copy_box(c13, maps.c13, x, y, m, full);
        copy_box(c33, maps.c33, x, y, m, full);
        copy_box(compliance, maps.compliance, x, y, m, full);
        copy_box(compliance_xy, maps.compliance_xy, x, y, m, full);
    }
};

// A column stores no moduli for the next plane.
struct LawColumn {
    // Return the moduli of the plane that the slot holds.
    template <class Slot>
    __device__ __forceinline__ Moduli climb(const Slot& slot, int row, int column, const ElasticLaw& law) {
        Moduli m = law.normal(slot.c11[row][column], slot.c13[row][column], slot.c33[row][column]);
        const modulus_t* const flat = &slot.compliance_xy[row][column];
        const modulus_t* const steep = &slot.compliance[row][column];
        m.node_xy = law.horizontal(*flat);
        m.compliance_xy = m.node_xy + law.horizontal(flat[1]) +
                          (law.horizontal(flat[Slot::WIDE]) + law.horizontal(flat[Slot::WIDE + 1]));
        const real here = law.vertical(*steep), xz = here + law.vertical(steep[1]);
        const real yz = here + law.vertical(steep[Slot::WIDE]);
        m.compliance_xz = xz + xz, m.compliance_yz = yz + yz;
        return m;
    }
};
