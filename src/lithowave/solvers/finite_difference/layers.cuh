// The absorbing layers (C-PML; Komatitsch & Martin 2007, eqs. 15-27): a derivative d along a layer's axis becomes
// d / kappa + psi with psi <- b psi + a d.
#pragma once

#include "stencil.cuh"

// The layers at the ends of one axis. Profiles b, a, r = 1 / kappa - 1 at half nodes and nodes: [3][sides * depths].
struct Layers {
    real* memory;
    const real* half;
    const real* node;
    const unsigned long long* start;  // first node of each layer
    int sides, depths, nodes;

    // Place of a node in the profiles; negative outside the layers.
    __device__ __forceinline__ int slot(int n) const {
        if (sides == 0) return -1;
        const int side = sides == 2 && n >= nodes / 2;
        const int depth = n - static_cast<int>(start[side]);
        return depth >= 0 && depth < depths ? side * depths + depth : -1;
    }
};

// One axis' layers as one column of points sees them; psi of derivative m lies at psi[place * step + m * next].
struct Absorber {
    real* psi;
    unsigned step, next;
    int slot, slots;

    // Layers along x: memory (planes, rows, sides, 3, depths); the place is the plane.
    __device__ __forceinline__ void enter_x(const Layers& x, int rows, int i, int j) {
        slots = x.sides * x.depths, slot = x.slot(i), next = x.depths, step = rows * 3 * slots;
        const int side = slot >= x.depths;
        psi = x.memory + (static_cast<long long>(j) * 3 * slots + side * 3 * x.depths + slot - side * x.depths);
    }
    // Layers along y: memory (planes, sides * depths, 3, columns); the place is the plane.
    __device__ __forceinline__ void enter_y(const Layers& y, int columns, int i, int j) {
        slots = y.sides * y.depths, slot = y.slot(j), next = columns, step = slots * 3 * columns;
        psi = y.memory + (static_cast<long long>(slot) * 3 * columns + i);
    }
    // Layers along z: memory (sides * depths, rows, 3, columns); the place is the slot, which changes with the plane.
    __device__ __forceinline__ void enter_z(const Layers& z, int rows, int columns, int i, int j) {
        slots = z.sides * z.depths, slot = -1, next = columns, step = rows * 3 * columns;
        psi = z.memory + (static_cast<long long>(j) * 3 * columns + i);
    }
    __device__ __forceinline__ real kept(int derivative, int place) const {
        return slot < 0 ? real(0) : psi[static_cast<place_t>(place) * step + derivative * next];
    }
    // What the layer makes of the derivative d, psi being what `kept` gave; the new psi goes to memory.
    __device__ __forceinline__ real absorbed(real d, real before, const real* profile, int derivative, int place) const {
        if (slot < 0) return d;
        const real after = profile[slot] * before + profile[slots + slot] * d;
        psi[static_cast<place_t>(place) * step + derivative * next] = after;
        return d + (profile[2 * slots + slot] * d + after);
    }
};

// The layers of all three axes, and one column's view of them.
struct LayerSet {
    Layers x, y, z;
};

struct Absorbers {
    Absorber x, y, z;

    __device__ __forceinline__ void enter(const LayerSet& layers, const Layout& layout, bool active, int i, int j) {
        x.enter_x(layers.x, layout.rows, i, j);
        y.enter_y(layers.y, layout.columns, i, j);
        z.enter_z(layers.z, layout.rows, layout.columns, i, j);
        if (!active) x.slot = y.slot = -1;
    }
    // Go to a plane: the layers along z are those of planes, not of columns.
    __device__ __forceinline__ void climb(const LayerSet& layers, bool active, int k) {
        z.slot = active ? layers.z.slot(k) : -1;
    }
};
