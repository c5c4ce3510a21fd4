// Sources, receivers, snapshots, surface peaks and the instability check.

#include "hopper.cuh"
#include "points.cuh"
#include "stencil.cuh"

// The velocities and stresses in the order of the table in law.py.
struct Fields {
    real* field[FIELD_COUNT];
};

// field[number[n]][target[n]] += sum of weight * amplitude[row, owner] over the entries begin[n] .. begin[n + 1].
extern "C" __global__ void inject(
    const __grid_constant__ Fields fields, const long long* number, const long long* target, const long long* begin,
    const double* weight, const long long* owner, const double* amplitude, const long long* row, int count, int sources)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const double* present = amplitude + row[0] * sources;
    double total = 0;
    for (long long entry = begin[n]; entry < begin[n + 1]; entry++) total += weight[entry] * present[owner[entry]];
    real* field = fields.field[number[n]];
    field[target[n]] = static_cast<real>(field[target[n]] + total);
}

// Sources of a brick that are copied to shared memory at a time.
constexpr int STAGED = 8;

// Lines of weights of some sources: first nodes, weights at nodes and half nodes along x, y, z, moments times amplitudes.
struct StagedMoments {
    double weight[STAGED][48], moment[STAGED][6];
    int first[STAGED][6];
};

// Weight of a line of 8 that begins at node `first`, at node n; zero outside.
__device__ __forceinline__ double line_weight(const double* weight, int first, int n) {
    const unsigned at = n - first;
    return at < 8 ? weight[at] : 0.0;
}

// Index of the first entry from `begin` on whose source is at least `low`.
__device__ __forceinline__ long long first_entry(const long long* source, long long begin, long long end, long long low) {
    while (begin < end) {
        const long long middle = (begin + end) / 2;
        if (source[middle] < low) begin = middle + 1;
        else end = middle;
    }
    return begin;
}

// Add moment * amplitude * w_x w_y w_z to the stresses, one block per brick; see kernels.py. The lines of a few
// sources are copied to shared memory together, because a thread would wait for each of them.
extern "C" __global__ __launch_bounds__(512) void inject_moments(
    const __grid_constant__ Fields fields, const long long* brick, const long long* begin, const long long* source,
    const long long* first, const double* weight, const double* moment, const double* amplitude,
    const long long* window, const long long* row, long long pitch, long long plane)
{
    StagedMoments& staged = *dynamic_shared<StagedMoments>();
    const long long* const box = brick + 6 * blockIdx.x;
    const int thread = threadIdx.x, i = box[0] + thread % 8, j = box[1] + thread / 8 % 8, k = box[2] + thread / 64;
    const long long low = window[0], high = window[1], stop = begin[blockIdx.x + 1];
    const long long entry = first_entry(source, begin[blockIdx.x], stop, low);
    const long long end = first_entry(source, entry, stop, high);
    if (entry == end) return;
    const double* const present = amplitude + row[0] * (high - low) - low;
    double total[6] = {};
    for (long long at = entry; at < end; at += STAGED) {
        const int count = end - at < STAGED ? end - at : STAGED;
        __syncthreads();
        if (thread < 48 * count) staged.weight[thread / 48][thread % 48] = weight[48 * source[at + thread / 48] + thread % 48];
        const int other = thread - 448, n = other / 6;
        if (other >= 0 && n < count) {
            const long long s = source[at + n];
            staged.moment[n][other % 6] = present[s] * moment[6 * s + other % 6];
            staged.first[n][other % 6] = first[6 * s + other % 6];
        }
        __syncthreads();
        for (int n = 0; n < count; n++) {
            const double *const w = staged.weight[n], *const m = staged.moment[n];
            const int* const f = staged.first[n];
            const double z[2] = {line_weight(w + 32, f[4], k), line_weight(w + 40, f[5], k)};
            if (z[0] == 0 && z[1] == 0) continue;  // the same for all threads of a warp
            const double x[2] = {line_weight(w, f[0], i), line_weight(w + 8, f[1], i)};
            const double y[2] = {line_weight(w + 16, f[2], j), line_weight(w + 24, f[3], j)};
            const double normal = x[0] * y[0] * z[0];
            for (int c = 0; c < 3; c++) total[c] += normal * m[c];
            total[3] += x[1] * y[1] * z[0] * m[3];
            total[4] += x[1] * y[0] * z[1] * m[4];
            total[5] += x[0] * y[1] * z[1] * m[5];
        }
    }
    if (i >= box[3] || j >= box[4] || k >= box[5]) return;
    const long long p = k * plane + j * pitch + i;
    for (int c = 0; c < 6; c++) {
        real* const field = fields.field[3 + c] + p;
        *field = static_cast<real>(*field + total[c]);
    }
}

// Copy boxes of fields to a buffer, or (OUT false) back. table : rows of 8, one per block row; see kernels.py.
template <bool OUT>
__device__ __forceinline__ void copy_boxes(const Fields& fields, const long long* table, real* buffer) {
    const long long* row = table + blockIdx.y * 8;
    real* const field = fields.field[row[0]] + row[1];
    real* const packed = buffer + row[5];
    const unsigned rows = row[3], columns = row[4], count = static_cast<unsigned>(row[2]) * rows * columns;
    for (unsigned n = blockIdx.x * blockDim.x + threadIdx.x; n < count; n += gridDim.x * blockDim.x) {
        const unsigned line = n / columns, i = n - line * columns, k = line / rows, j = line - k * rows;
        real* const here = field + (k * row[6] + j * row[7] + i);
        if (OUT) packed[n] = *here;
        else *here = packed[n];
    }
}

extern "C" __global__ void pack(const __grid_constant__ Fields fields, const long long* table, real* buffer) {
    copy_boxes<true>(fields, table, buffer);
}

extern "C" __global__ void unpack(const __grid_constant__ Fields fields, const long long* table, real* buffer) {
    copy_boxes<false>(fields, table, buffer);
}

// Advance by one row in a table of amplitudes or records.
extern "C" __global__ void count_step(long long* row) { row[0] += 1; }

// out[slot[0], n] = sum of weight * field[index] over the entries begin[n] .. begin[n + 1]; n is the index of the point
// of the first component, then of the second, and so on. One warp per n.
extern "C" __global__ void sample(
    const __grid_constant__ Fields fields, const long long* number, const long long* index, const double* weight,
    const long long* begin, double* out, const long long* slot, int count)
{
    const int n = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (n >= count) return;
    double total = 0;
    for (long long entry = begin[n] + lane; entry < begin[n + 1]; entry += 32)
        total += weight[entry] * fields.field[number[entry]][index[entry]];
    for (int distance = 16; distance > 0; distance /= 2) total += __shfl_down_sync(ALL_LANES, total, distance);
    if (lane == 0) out[slot[0] * count + n] = total;
}

// Linear interpolation of a field to the points of a snapshot grid, component `component` of `components` in out.
extern "C" __global__ void interpolate(
    const real* field, const long long* z_below, const real* z_weight, const long long* y_below, const real* y_weight,
    const long long* x_below, const real* x_weight, real* out, int planes, int rows, int columns, int components,
    int component, long long pitch, long long plane)
{
    const int s = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y, q = blockIdx.z;
    if (s >= columns || r >= rows || q >= planes) return;
    const real* f = field + (z_below[q] * plane + y_below[r] * pitch + x_below[s]);
    const real z = z_weight[q], y = y_weight[r], x = x_weight[s];
    real line[2];
    for (int side = 0; side < 2; side++) {
        const real* g = f + side;
        const real near = g[0] * (1 - z) + g[plane] * z, far = g[pitch] * (1 - z) + g[plane + pitch] * z;
        line[side] = near * (1 - y) + far * y;
    }
    const long long point = (static_cast<long long>(q) * rows + r) * columns + s;
    out[point * components + component] = line[0] * (1 - x) + line[1] * x;
}

// Horizontal velocity f at a node: the mean of half nodes along `along`, corrected by the gradient of the divergence; g
// : the other horizontal velocity, with half nodes along `across`.
__device__ __forceinline__ real horizontal_velocity(
    const real* f, const real* g, long long along, long long across, const real* stencil)
{
    const real near = f[0] + f[-along], far = f[along] + f[-2 * along];
    const real cross = g[along] - g[along - across] - g[-along] + g[-along - across];
    return stencil[2] * near + stencil[3] * far - stencil[4] * (real(0.5) * (far - near + cross));
}

// Peaks of |v| and |u| at the nodes of one plane; the first node is element `first` of the fields. See points.py.
extern "C" __global__ void surface_peaks(
    const real* vx, const real* vy, const real* vz, const real* slope, const real* far, const real* gain,
    const real* stencil, real time_step, real* displacement, real* peak_velocity, real* peak_displacement,
    long long first, int rows, int columns, long long pitch, long long plane)
{
    const int s = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (s >= columns || r >= rows) return;
    const long long p = first + r * pitch + s, size = static_cast<long long>(rows) * columns;
    const long long place = static_cast<long long>(r) * columns + s;
    const real *const f = vx + p, *const g = vy + p, *const h = vz + p - plane;
    const real half = real(0.5);
    const real east = horizontal_velocity(f, g, 1, pitch, stencil);
    const real north = horizontal_velocity(g, f, pitch, 1, stencil);
    const real sloped = slope[place] * (stencil[0] * (f[0] - f[-1]) + stencil[1] * (f[1] - f[-2])) +
                        slope[size + place] * (stencil[0] * (g[0] - g[-pitch]) + stencil[1] * (g[pitch] - g[-2 * pitch]));
    const real bend = h[-1] + h[1] + h[-pitch] + h[pitch] - 4 * h[0];
    const real up = h[0] - sloped + far[place] * (real(0.125) * (h[0] - h[-plane])) - gain[place] * bend;
    const real u = displacement[place] += time_step * east;
    const real v = displacement[size + place] += time_step * north;
    const real w = displacement[2 * size + place] += time_step * up;
    raise_peaks(peak_velocity, place, size, east, north, up);
    // The integral at the time of v lacks half a step of v.
    raise_peaks(peak_displacement, place, size, u - half * time_step * east, v - half * time_step * north,
                w - half * time_step * up);
}

// Largest magnitudes of three fields, one per warp of the launch, which the host compares.
extern "C" __global__ void largest_magnitude(
    const real* vx, const real* vy, const real* vz, real* out, long long count)
{
    const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
    unsigned long long most = 0;
    for (long long p = thread; p < count; p += threads)
        most = max(most, max(magnitude(vx[p]), max(magnitude(vy[p]), magnitude(vz[p]))));
    most = largest_of_warp(most);
    if (threadIdx.x % 32 == 0) restore(most, out + thread / 32);
}
