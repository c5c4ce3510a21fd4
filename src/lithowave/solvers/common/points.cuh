// Kernels over points that all methods share: sums over sources, peaks, largest magnitudes.
#pragma once

constexpr unsigned ALL_LANES = 0xffffffff;

// Raise the horizontal, vertical and total peak of a location, peaks[3][size], to those of a vector.
template <class real, class index>
__device__ __forceinline__ void raise_peaks(real* peaks, index place, index size, real east, real north, real up) {
    const real horizontal = east * east + north * north;
    peaks[place] = max(peaks[place], sqrt(horizontal));
    peaks[size + place] = max(peaks[size + place], up < 0 ? -up : up);
    peaks[2 * size + place] = max(peaks[2 * size + place], sqrt(horizontal + up * up));
}

// |f| as an integer and back; these integers have the order of |f|, with infinity and NaN above all numbers.
__device__ __forceinline__ unsigned long long magnitude(float f) { return __float_as_uint(f) & 0x7fffffffu; }
__device__ __forceinline__ unsigned long long magnitude(double f) {
    return __double_as_longlong(f) & 0x7fffffffffffffffll;
}
__device__ __forceinline__ void restore(unsigned long long bits, float* f) { *f = __uint_as_float(bits); }
__device__ __forceinline__ void restore(unsigned long long bits, double* f) { *f = __longlong_as_double(bits); }

// Return the largest magnitude of the lanes of a warp, in its first lane.
__device__ __forceinline__ unsigned long long largest_of_warp(unsigned long long most) {
    for (int distance = 16; distance > 0; distance /= 2) {
        const unsigned long long other = __shfl_down_sync(ALL_LANES, most, distance);
        most = max(most, other);
    }
    return most;
}
