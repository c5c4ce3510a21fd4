// Small kernels for the tests of the CUDA backend.
#include "pair.cuh"

typedef REAL real;

extern "C" __global__ void add_one(real* __restrict__ values, const long long count)
{
    const long long place = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (place < count) values[place] += STEP;
}

// What a kernel sees of every kind of argument.
extern "C" __global__ __launch_bounds__(32) void tell(
    double* told, const real number, const int whole, const __grid_constant__ Pair pair)
{
    extern __shared__ double shared[];
    shared[SHARED - 1] = 5;
    told[0] = number, told[1] = whole, told[2] = pair.first, told[3] = pair.second, told[4] = shared[SHARED - 1];
}

// A program that fails: nothing on the device can be trusted after it.
extern "C" __global__ void fail() { asm("trap;"); }
