// Sparse matrices with their entries as literals, in code without loops: for arrays that must be in registers.
//
// A matrix is a type with constexpr arrays: begin[row] .. begin[row + 1] are its entries of a row, column[n], value[n].
#pragma once

template <int n>
struct Index {
    static constexpr int value = n;
};

// f(Index<begin>()), f(Index<begin + 1>()), ...
template <int begin, int end, class Function>
__device__ __forceinline__ void unrolled(const Function& f) {
    if constexpr (end - begin == 1) {
        f(Index<begin>());
    } else if constexpr (begin < end) {
        constexpr int middle = (begin + end) / 2;
        unrolled<begin, middle>(f);
        unrolled<middle, end>(f);
    }
}

// The sum over the entries of a row, in columns before `columns`, of value / divisor times x[column].
template <class Matrix, int row, int columns, int divisor, class real, int count>
__device__ __forceinline__ real row_sum(const real (&x)[count]) {
    real sum = 0;
    unrolled<Matrix::begin[row], Matrix::begin[row + 1]>([&](auto entry) {
        constexpr int column = Matrix::column[decltype(entry)::value];
        constexpr real value = static_cast<real>(Matrix::value[decltype(entry)::value] / divisor);
        if constexpr (column < columns) sum += value * x[column];
    });
    return sum;
}

// y[column] += value of the row times x, for the columns of y. Those for which `odd` is 1 get x_odd instead of x.
template <class Matrix, class Odd, int row, class real, int count>
__device__ __forceinline__ void add_row(real (&y)[count], real x, real x_odd) {
    unrolled<Matrix::begin[row], Matrix::begin[row + 1]>([&](auto entry) {
        constexpr int column = Matrix::column[decltype(entry)::value];
        constexpr real value = static_cast<real>(Matrix::value[decltype(entry)::value]);
        constexpr bool odd = Odd::value[column];
        if constexpr (column < count) y[column] += value * (odd ? x_odd : x);
    });
}

// The parts of a row sum over columns for which `odd` is `parity`.
template <class Matrix, class Odd, int row, int parity, class real, int count>
__device__ __forceinline__ real parity_sum(const real (&x)[count]) {
    real sum = 0;
    unrolled<Matrix::begin[row], Matrix::begin[row + 1]>([&](auto entry) {
        constexpr int column = Matrix::column[decltype(entry)::value];
        constexpr real value = static_cast<real>(Matrix::value[decltype(entry)::value]);
        if constexpr (Odd::value[column] == parity) sum += value * x[column];
    });
    return sum;
}
