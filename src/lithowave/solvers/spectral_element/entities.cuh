// Indices of the points of an element, from those of its entities: see element_layout.py.
#pragma once

#include "gll.cuh"

// Corner, edge, face or inside of an element: the index of its first point, and what is added to it per step along i, j
// and k, a signed byte each, from the lowest one on; at degree 2, each has one point.
struct alignas(DEGREE > 2 ? 8 : 4) Entity {
    unsigned first;
#if DEGREE > 2
    unsigned steps;

    __device__ __forceinline__ unsigned along(int axis) const {
        return static_cast<unsigned>(static_cast<signed char>(steps >> (8 * axis)));
    }
#else
    __device__ __forceinline__ unsigned along(int) const { return 0; }
#endif
};

// The points of a line along k.
struct Line {
    unsigned low, first, step, high;  // the first and the last point, and those between them

    // entities : [k][j][i] of the element, 0 at the low end, 1 between the ends, 2 at the high end.
    __device__ __forceinline__ Line(const Entity* entities, int i, int j) {
        const int x = i == 0 ? 0 : i == DEGREE ? 2 : 1, y = j == 0 ? 0 : j == DEGREE ? 2 : 1;
        const Entity* const own = entities + 3 * y + x;
        const Entity bottom = own[0], middle = own[9], top = own[18];
        low = beside(bottom, i, j), first = beside(middle, i, j), high = beside(top, i, j);
        step = middle.along(2);
    }
    // A step along an axis is 0 if the entity has no points between ends along it.
    __device__ __forceinline__ static unsigned beside(const Entity& entity, int i, int j) {
        return entity.first + (i - 1) * entity.along(0) + (j - 1) * entity.along(1);
    }
    __device__ __forceinline__ unsigned operator[](int k) const {
        return k == 0 ? low : k == DEGREE ? high : first + (k - 1) * step;
    }
};
