// Kernels over points: see kernels.py. Coefficients are [block, quantity, mode, lane]; LANES, QUANTITIES: the
// stresses (STRESSES), then the velocities (VELOCITIES).

#include "points.cuh"

typedef REAL real;

// Add weight * amplitude[row, owner] of the entries begin[n] .. begin[n + 1] to array[target[n]].
extern "C" __global__ void inject(
    real* array, const long long* target, const long long* begin, const double* weight, const long long* owner,
    const double* amplitude, const long long* row, int count, int sources)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const double* const present = amplitude + row[0] * sources;
    double total = 0;
    for (long long entry = begin[n]; entry < begin[n + 1]; entry++) total += weight[entry] * present[owner[entry]];
    array[target[n]] = static_cast<real>(array[target[n]] + total);
}

// Advance by one row in a table of amplitudes or records.
extern "C" __global__ void count_step(long long* row) { row[0] += 1; }

// Set buffer[n][c][m] to mode m of component c of traces[n], in even or odd; and back. A trace has 3 x width values.
extern "C" __global__ void pack_traces(
    const real* even, const real* odd, const int* traces, int tick, int modes, real* buffer, int count, int width)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const int trace = n / (VELOCITIES * modes), within = n % (VELOCITIES * modes);
    const long long slot = traces[2 * trace];
    const real* const source = tick >> traces[2 * trace + 1] & 1 ? odd : even;
    buffer[n] = source[(VELOCITIES * slot + within / modes) * width + within % modes];
}

extern "C" __global__ void unpack_traces(
    real* even, real* odd, const int* traces, int tick, int modes, const real* buffer, int count, int width)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const int trace = n / (VELOCITIES * modes), within = n % (VELOCITIES * modes);
    const long long slot = traces[2 * trace];
    real* const target = tick >> traces[2 * trace + 1] & 1 ? odd : even;
    target[(VELOCITIES * slot + within / modes) * width + within % modes] = buffer[n];
}

// Quantities at locations in elements: out[slot][row][place]; rows 3: only velocity, 9: velocity, then stress. One warp
// per row of a location. base : index of the first mode of the first quantity of the element.
extern "C" __global__ void sample(
    const real* completed, const long long* base, const real* values, real* out, const long long* slot, int count,
    int width, int rows, int modes)
{
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const int place = warp / rows, row = warp % rows;
    if (place >= count) return;
    const int quantity = row < VELOCITIES ? STRESSES + row : row - VELOCITIES;
    const real* const own = completed + base[place] + static_cast<long long>(quantity) * modes * LANES;
    real total = 0;
    for (int k = lane; k < modes; k += 32) total += values[static_cast<long long>(place) * modes + k] * own[k * LANES];
    for (int distance = 16; distance > 0; distance /= 2) total += __shfl_down_sync(ALL_LANES, total, distance);
    if (lane == 0) out[(slot[0] * rows + row) * width + place] = total;
}

// Peaks of |v| and |u| at locations. displacement : the integral of v, by the trapezoidal rule; rows 3 to 5 : v before.
extern "C" __global__ void surface_peaks(
    const real* velocity, real time_step, real* displacement, real* peak_velocity, real* peak_displacement, int size)
{
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= size) return;
    real v[3], u[3];
    for (int c = 0; c < 3; c++) {
        real* const own = displacement + static_cast<long long>(c) * size + place;
        real* const before = own + 3ll * size;
        v[c] = velocity[static_cast<long long>(c) * size + place];
        u[c] = own[0] += real(0.5) * time_step * (before[0] + v[c]);
        before[0] = v[c];
    }
    raise_peaks(peak_velocity, place, size, v[0], v[1], v[2]);
    raise_peaks(peak_displacement, place, size, u[0], u[1], u[2]);
}

// Largest sum of squares of the coefficients of a velocity component, one per warp, which the host compares.
extern "C" __global__ void largest_velocity(const real* coefficients, real* out, int blocks, int modes, int warps) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= warps) return;
    unsigned long long most = 0;
    for (long long n = warp; n < VELOCITIES * static_cast<long long>(blocks); n += warps) {
        const real* const own = coefficients + (n / VELOCITIES * QUANTITIES + STRESSES + n % VELOCITIES) * modes * LANES + lane;
        real sum = 0;
        for (int k = 0; k < modes; k++) sum += own[k * LANES] * own[k * LANES];
        most = max(most, magnitude(sum));
    }
    most = largest_of_warp(most);
    if (lane == 0) restore(most, out + warp);
}
