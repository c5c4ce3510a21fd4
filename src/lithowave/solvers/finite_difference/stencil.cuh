// Definitions shared by the update kernels: types, staggered derivatives, tiles of the grid.
//
// Fields are f[k][j][i] (z, y, x; x contiguous) with a halo of REACH cells on every side; PITCH and PLANE are the
// strides of rows and planes in elements. Indices of points exclude the halo. REAL and ORDER are defined on the command
// line.
#pragma once

typedef REAL real;
typedef INDEX place_t;  // index of an element: unsigned, 32 bits if they suffice

constexpr int REACH = ORDER / 2;
constexpr int WINDOW = 2 * REACH;  // values in a derivative

// Stencil coefficients of the three axes.
struct Coefficients {
    real x[REACH], y[REACH], z[REACH];
};

// Layout of all padded arrays of a run.
struct Layout {
    int columns, rows, planes;  // points of the grid
    int pitch;
    long long plane;

    __device__ __forceinline__ place_t at(int i, int j, int k) const {
        return static_cast<place_t>(k + REACH) * static_cast<place_t>(plane) +
               static_cast<place_t>(j + REACH) * static_cast<place_t>(pitch) + static_cast<place_t>(i + REACH);
    }
    // Return 4 k + 2 j + i, the parities of the indices of a point in the arrays.
    __device__ __forceinline__ int node(int i, int j, int k) const {
        return 4 * ((k + REACH) & 1) + 2 * ((j + REACH) & 1) + ((i + REACH) & 1);
    }
};

// Material: values, or (COMPACT) codes of 16 bits. A linear scale is low + step * code, a logarithmic one two to the
// power of that; the last code is `outside`, the value beyond the far ends of the grid (law.py, medium.py).
#if COMPACT
typedef unsigned short modulus_t;
#else
typedef real modulus_t;
#endif

struct Scale {
    float low, step;
};

#if COMPACT
__device__ __forceinline__ real linear_value(modulus_t code, const Scale& scale) {
    return scale.low + scale.step * static_cast<real>(code);
}
__device__ __forceinline__ real linear_value(modulus_t code, const Scale& scale, real outside) {
    return code == 65535 ? outside : linear_value(code, scale);
}
__device__ __forceinline__ real logarithmic_value(modulus_t code, const Scale& scale, real outside) {
    return code == 65535 ? outside : exp2f(linear_value(code, scale));
}
#else
__device__ __forceinline__ real linear_value(modulus_t value, const Scale&) { return value; }
__device__ __forceinline__ real linear_value(modulus_t value, const Scale&, real) { return value; }
__device__ __forceinline__ real logarithmic_value(modulus_t value, const Scale&, real) { return value; }
#endif

__device__ __forceinline__ real density_value(modulus_t code, const Scale& scale) {
    return linear_value(code, scale, real(1e20));
}

// Box of points that one block updates: from (x or first, y, z) up to, not including, (x_end, y_end, z_end).
struct Tile {
    int x, y, z, x_end, y_end, z_end;
    int layered;  // nonzero if it touches an absorbing layer
    int first;    // column of the box, at or after x: a tile begins at a memory line
    int filled;   // columns from x_end up to it are padding at the end of a row and set to zero: a whole sector of memory
    int material_x, material_y;  // where its material is copied from: x and y, or elsewhere if all columns are equal
};

// Return h df/dn half a cell beyond f: sum over m of c_m (f[m + 1] - f[-m]).
__device__ __forceinline__ real forward(const real (&c)[REACH], const real* f, int stride) {
    real difference = 0;
#pragma unroll
    for (int m = 0; m < REACH; m++) difference += c[m] * (f[(m + 1) * stride] - f[-m * stride]);
    return difference;
}

// Return h df/dn at f of a field half a cell beyond: sum over m of c_m (f[m] - f[-1 - m]).
__device__ __forceinline__ real backward(const real (&c)[REACH], const real* f, int stride) {
    real difference = 0;
#pragma unroll
    for (int m = 0; m < REACH; m++) difference += c[m] * (f[m * stride] - f[(-1 - m) * stride]);
    return difference;
}

// Same at element p of an array, with index arithmetic: cheaper than pointer arithmetic.
__device__ __forceinline__ real forward(const real (&c)[REACH], const real* f, place_t p, place_t stride) {
    real difference = 0;
#pragma unroll
    for (int m = 0; m < REACH; m++) difference += c[m] * (f[p + (m + 1) * stride] - f[p - m * stride]);
    return difference;
}
__device__ __forceinline__ real backward(const real (&c)[REACH], const real* f, place_t p, place_t stride) {
    real difference = 0;
#pragma unroll
    for (int m = 0; m < REACH; m++) difference += c[m] * (f[p + m * stride] - f[p - (m + 1) * stride]);
    return difference;
}

// Last values along a column, for a derivative along z while a block marches upward.
struct Column {
    real value[WINDOW];

    __device__ __forceinline__ void push(real newest) {
#pragma unroll
        for (int n = 0; n < WINDOW - 1; n++) value[n] = value[n + 1];
        value[WINDOW - 1] = newest;
    }
    // Fill the newest `count` entries from memory, the newest at f.
    __device__ __forceinline__ void fill(const real* f, long long plane, int count) {
#pragma unroll
        for (int n = 0; n < WINDOW; n++) value[n] = n >= WINDOW - count ? f[(n - WINDOW + 1) * plane] : real(0);
    }
    // Return h df/dz in the middle of the window.
    __device__ __forceinline__ real derivative(const real (&c)[REACH]) const {
        real difference = 0;
#pragma unroll
        for (int m = 0; m < REACH; m++) difference += c[m] * (value[REACH + m] - value[REACH - 1 - m]);
        return difference;
    }
};

// Values delayed by COUNT planes.
template <int COUNT>
struct Delay {
    real value[COUNT];

    // Store the newest value and return that of COUNT planes before.
    __device__ __forceinline__ real exchange(real newest) {
        const real oldest = value[0];
#pragma unroll
        for (int n = 0; n < COUNT - 1; n++) value[n] = value[n + 1];
        value[COUNT - 1] = newest;
        return oldest;
    }
};

template <>
struct Delay<0> {
    __device__ __forceinline__ real exchange(real newest) { return newest; }
};
