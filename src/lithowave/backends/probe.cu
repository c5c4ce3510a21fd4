// Minimal kernel, with which `lithowave doctor` checks that kernels compile and run on this machine.

extern "C" __global__ void count_up(long long* values, long long count)
{
    const long long place = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (place < count) values[place] += place;
}
