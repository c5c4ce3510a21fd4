// Absorbing layers (C-PML; Komatitsch & Martin 2007, eqs. 15-27): a derivative d along a layer's axis becomes d / kappa
// + psi with psi <- b psi + a d.
#pragma once

#include "hopper.cuh"
#include "stencil.cuh"

// Layers at the ends of one axis. Profiles b, a, r = 1 / kappa - 1 at half nodes and nodes: [3][sides * depths].
struct Layers {
    real* memory;
    const real* half;
    const real* node;
    int sides, depths, middle;       // nodes from `middle` belong to the last side
    int start[2], begin[2], end[2];  // first node of the profiles of a side; nodes where they are nonzero
    int spare;

    // Return the index of a node in the profiles; negative outside the layers.
    __device__ __forceinline__ int slot(int n) const {
        const int side = n >= middle;
        return n >= begin[side] && n < end[side] ? side * depths + n - start[side] : -1;
    }
};

// View of one axis' layers from a column of points; psi of derivative m is memory[first + place * step + m * next].
struct Absorber {
    real* memory;
    place_t first;
    unsigned step, next;
    int slot, slots;

    __device__ __forceinline__ bool inside() const { return slot >= 0; }

    // Layers along x: memory (planes, rows, sides, 3, depths); `place` is the plane.
    __device__ __forceinline__ void enter_x(const Layers& x, int rows, int i, int j) {
        memory = x.memory, slots = x.sides * x.depths, slot = x.slot(i), next = x.depths, step = rows * 3 * slots;
        const int side = slot >= x.depths;
        first = static_cast<place_t>(j) * (3 * slots) + side * 3 * x.depths + slot - side * x.depths;
    }
    // Layers along y: memory (planes, sides * depths, 3, columns); `place` is the plane.
    __device__ __forceinline__ void enter_y(const Layers& y, int columns, int i, int j) {
        memory = y.memory, slots = y.sides * y.depths, slot = y.slot(j), next = columns, step = slots * 3 * columns;
        first = static_cast<place_t>(slot) * (3 * columns) + i;
    }
    // Layers along z: memory (sides * depths, rows, 3, columns); `place` is the slot, which changes with the plane.
    __device__ __forceinline__ void enter_z(const Layers& z, int rows, int columns, int i, int j) {
        memory = z.memory, slots = z.sides * z.depths, slot = -1, next = columns, step = rows * 3 * columns;
        first = static_cast<place_t>(j) * (3 * columns) + i;
    }
    __device__ __forceinline__ real* psi(int derivative, int place) const {
        return memory + (first + static_cast<place_t>(place) * step + derivative * next);
    }
    // Apply the layer to the derivative d, with psi = `before`; inside a layer only.
    __device__ __forceinline__ void absorb(real& d, real before, const real* profile, int derivative, int place) const {
        const real after = __ldg(profile + slot) * before + __ldg(profile + slots + slot) * d;
        *psi(derivative, place) = after;
        d += __ldg(profile + 2 * slots + slot) * d + after;
    }
    __device__ __forceinline__ void absorb(real& d, const real* profile, int derivative, int place) const {
        absorb(d, *psi(derivative, place), profile, derivative, place);
    }
};

// Layers of all three axes.
struct LayerSet {
    Layers x, y, z;
};

constexpr int PSI_AHEAD = 2;  // planes by which memory variables are copied to the cache before a thread loads them

// Layers of all three axes, viewed from one column.

struct Absorbers {
    Absorber x, y, z;
    real x_psi[3], y_psi[3], z_psi[3];  // loaded by `recall`

    __device__ __forceinline__ void enter(const LayerSet& layers, const Layout& layout, bool active, int i, int j) {
        x.enter_x(layers.x, layout.rows, i, j);
        y.enter_y(layers.y, layout.columns, i, j);
        z.enter_z(layers.z, layout.rows, layout.columns, i, j);
        if (!active) x.slot = y.slot = -1;
    }
    // Select a plane: the layers along z depend on the plane, not on the column.
    __device__ __forceinline__ void climb(const LayerSet& layers, bool active, int k) {
        z.slot = active ? layers.z.slot(k) : -1;
    }
    // Load psi of derivative n along x and y at plane p_n, and along z, together and before they are needed.
    __device__ __forceinline__ void recall(int p0, int p1, int p2, int first, int end) {
        const int places[3] = {p0, p1, p2};
#pragma unroll
        for (int n = 0; n < 3; n++) {
            const int later = places[n] + PSI_AHEAD;
            if (later >= first && later < end) {
                if (x.inside()) prefetch(x.psi(n, later));
                if (y.inside()) prefetch(y.psi(n, later));
            }
            if (z.inside() && z.slot + PSI_AHEAD < z.slots) prefetch(z.psi(n, z.slot + PSI_AHEAD));
        }
#pragma unroll
        for (int n = 0; n < 3; n++) {
            const bool there = places[n] >= first && places[n] < end;
            if (there && x.inside()) x_psi[n] = *x.psi(n, places[n]);
            if (there && y.inside()) y_psi[n] = *y.psi(n, places[n]);
            if (z.inside()) z_psi[n] = *z.psi(n, z.slot);
        }
    }
};
