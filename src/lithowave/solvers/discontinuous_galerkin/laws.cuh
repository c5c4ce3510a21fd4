// Rates of the quantities of an element, from derivatives that their warps exchange in shared memory: see
// materials.elastic_matrices. A warp computes one quantity.
//
// A law writes the derivatives of its quantity to shared memory, SLOPE_ROWS rows of LANES elements for each, and computes
// the rate of its quantity from those of others. numbers : coefficients of the element. d : derivatives along the three
// directions of the reference element. row : index of a row's first value. gains : of the memory variables in an
// absorbing layer. slower : what they subtract from the rate.
#pragma once

constexpr int SPAN = SLOPE_ROWS * LANES;

// The stress whose component along axis j acts on the velocity along axis i.
__device__ __forceinline__ int stress_of(int i, int j) { return i == j ? i : i + j + 2; }

// Isotropic media: derivatives along x, y and z, of each quantity those that others need.
template <class real>
struct AxisLaw {
    typedef real Gains[3];

    real along[3][3];  // entries of the gradient: direction, derivative
    real factor[3];    // of the three derivatives that this quantity needs
    int outputs, own, source[3];

    // Axes of the derivatives of the three velocities in the rate of a stress.
    static __device__ __forceinline__ int axis(int quantity, int j) {
        if (j == 0) return quantity == 3 ? 1 : quantity == 4 ? 2 : 0;
        if (j == 1) return quantity == 3 ? 0 : quantity == 5 ? 2 : 1;
        return quantity == 4 ? 0 : quantity == 5 ? 1 : 2;
    }

    // Index of the derivative of a quantity along an axis.
    static __device__ __forceinline__ int derivative(int quantity, int axis) {
        if (quantity < 3) return quantity;
        if (quantity < STRESSES) return 2 * quantity - 3 + (axis == (quantity == 3 ? 1 : 2));
        return 9 + 3 * (quantity - STRESSES) + axis;
    }

    __device__ __forceinline__ AxisLaw(const real* numbers) {
        const int quantity = threadIdx.x / LANES, lane = threadIdx.x % LANES, velocity = quantity - STRESSES;
        const bool normal = quantity < 3, shear = !normal && quantity < STRESSES;
        const real lambda = numbers[9 * LANES], mu = numbers[10 * LANES];
        outputs = normal ? 1 : shear ? 2 : 3;
        own = (normal ? quantity : shear ? 2 * quantity - 3 : 9 + 3 * velocity) * SPAN + lane;
#pragma unroll
        for (int j = 0; j < 3; j++) {
            const int written = normal ? quantity : shear && quantity == 5 ? j + 1 : shear && quantity == 4 ? 2 * j : j;
#pragma unroll
            for (int c = 0; c < 3; c++) along[c][j] = numbers[(3 * c + (written < 3 ? written : 0)) * LANES];
            const int from = quantity < STRESSES ? derivative(STRESSES + j, axis(quantity, j))
                                                 : derivative(stress_of(velocity, j), j);
            source[j] = from * SPAN + lane;
            if (normal) factor[j] = quantity == j ? lambda + 2 * mu : lambda;
            else if (shear) factor[j] = quantity + j == 5 ? real(0) : mu;
            else factor[j] = numbers[11 * LANES];
        }
    }

    static __device__ __forceinline__ void load_gains(Gains& gains, const real* from) {
        const int quantity = threadIdx.x / LANES;
#pragma unroll
        for (int j = 0; j < 3; j++) gains[j] = from[axis(quantity, j) * LANES];
    }

    __device__ __forceinline__ void write(const real (&d)[3], real* shared, int row) const {
        real* const to = shared + own + row;
        to[0] = along[0][0] * d[0] + along[1][0] * d[1] + along[2][0] * d[2];
        if (outputs > 1) to[SPAN] = along[0][1] * d[0] + along[1][1] * d[1] + along[2][1] * d[2];
        if (outputs > 2) to[2 * SPAN] = along[0][2] * d[0] + along[1][2] * d[1] + along[2][2] * d[2];
    }

    __device__ __forceinline__ real rate(const real* shared, int row) const {
        return factor[0] * shared[source[0] + row] + factor[1] * shared[source[1] + row] +
               factor[2] * shared[source[2] + row];
    }

    __device__ __forceinline__ real rate(const real* shared, int row, const Gains& gains, real& slower) const {
        const real x = factor[0] * shared[source[0] + row], y = factor[1] * shared[source[1] + row],
                   z = factor[2] * shared[source[2] + row];
        slower = gains[0] * x + gains[1] * y + gains[2] * z;
        return x + y + z;
    }
};

// Any media: derivatives along the directions of the reference element, of all quantities.
template <class real>
struct MatrixLaw {
    typedef real Gains[3][3];

    real matrix[3][3];  // direction, quantity among the three that this one needs
    int own, source[3];

    __device__ __forceinline__ MatrixLaw(const real* numbers) {
        const int quantity = threadIdx.x / LANES, lane = threadIdx.x % LANES;
        own = quantity * SPAN + lane;
#pragma unroll
        for (int j = 0; j < 3; j++)
            source[j] = (quantity < STRESSES ? STRESSES + j : stress_of(quantity - STRESSES, j)) * SPAN + lane;
        load_gains(matrix, numbers);
    }

    static __device__ __forceinline__ void load_gains(Gains& gains, const real* from) {
#pragma unroll
        for (int c = 0; c < 3; c++)
#pragma unroll
            for (int j = 0; j < 3; j++) gains[c][j] = from[(threadIdx.x / LANES * 9 + c * 3 + j) * LANES];
    }

    __device__ __forceinline__ void write(const real (&d)[3], real* shared, int row) const {
#pragma unroll
        for (int c = 0; c < 3; c++) shared[own + c * QUANTITIES * SPAN + row] = d[c];
    }

    __device__ __forceinline__ real rate(const real* shared, int row) const { return product(matrix, shared, row); }

    __device__ __forceinline__ real rate(const real* shared, int row, const Gains& gains, real& slower) const {
        slower = product(gains, shared, row);
        return product(matrix, shared, row);
    }

    __device__ __forceinline__ real product(const Gains& factor, const real* shared, int row) const {
        real sum = 0;
#pragma unroll
        for (int c = 0; c < 3; c++)
#pragma unroll
            for (int j = 0; j < 3; j++) sum += factor[c][j] * shared[source[j] + c * QUANTITIES * SPAN + row];
        return sum;
    }
};
