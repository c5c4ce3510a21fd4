// Kernels over points: see point_kernels.py.

#include "motion.cuh"
#include "points.cuh"
#include "vectors.cuh"

// Add dt^2 / mass * p to u at the first points, and change the sign of dt^2 / mass: see `elements.cu`.
extern "C" __global__ void update_displacement(Point* displacement, const Point* momentum, unsigned count) {
    const unsigned point = blockIdx.x * blockDim.x + threadIdx.x;
    if (point >= count) return;
    Point u = displacement[point];
    const Point p = momentum[point];
    displacement[point] = advanced(u, p, -u.w);
}

// p = B (p~ + p_before) - p_before; B: xx, yy, zz, xy, xz, yz.
extern "C" __global__ void damp(Point* momentum, real* history, const long long* point, const real* matrix, int count) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    Point p = momentum[point[n]];
    real* const before = history + 3ll * n;
    const real* const b = matrix + 6ll * n;
    const real x = p.x + before[0], y = p.y + before[1], z = p.z + before[2];
    p.x = b[0] * x + b[3] * y + b[4] * z - before[0];
    p.y = b[3] * x + b[1] * y + b[5] * z - before[1];
    p.z = b[4] * x + b[5] * y + b[2] * z - before[2];
    momentum[point[n]] = p;
    before[0] = p.x, before[1] = p.y, before[2] = p.z;
}

// Divide p by the stretching of the active axes; filters: b, a, c of each axis.
extern "C" __global__ void unstretch(
    Point* momentum, real* stretched, real* memory, const long long* point, const real* filters, int axes, int count)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    Point p = momentum[point[n]];
    real* const offset = stretched + 3ll * n;
    const real total[3] = {p.x + offset[0], p.y + offset[1], p.z + offset[2]};
    real value[3] = {total[0], total[1], total[2]};
    for (int axis = 0; axis < axes; axis++) {
        real* const m = memory + 3ll * (static_cast<long long>(n) * axes + axis);
        const real* const f = filters + 3ll * (static_cast<long long>(n) * axes + axis);
        for (int c = 0; c < 3; c++) {
            value[c] = (value[c] - m[c]) / f[0];
            m[c] = f[2] * value[c] + f[1] * m[c];
        }
    }
    p.x = value[0], p.y = value[1], p.z = value[2];
    momentum[point[n]] = p;
    for (int c = 0; c < 3; c++) offset[c] = total[c] - value[c];
}

// Subtract the momenta of the coupling from p.
extern "C" __global__ void uncouple(
    Point* momentum, const real* coupled, const long long* solid, const long long* fluid, int count)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const real* const part = coupled + 4ll * n;
    Point p = momentum[solid[n]];
    p.x -= part[0], p.y -= part[1], p.z -= part[2];
    momentum[solid[n]] = p;
    momentum[fluid[n]].x -= part[3];
}

// p = p~ + E (p~ + p_before) of a solid and a fluid point; in a layer (stretched), the momentum lacks `coupled`.
extern "C" __global__ void couple(
    Point* momentum, real* history, real* coupled, const long long* solid, const long long* fluid, const real* matrix,
    int stretched, int count)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    Point p = momentum[solid[n]];
    const real here[4] = {p.x, p.y, p.z, momentum[fluid[n]].x};
    real* const before = history + 4ll * n;
    real* const part = coupled + 4ll * n;
    const real* const e = matrix + 16ll * n;
    real sum[4], after[4];
    for (int c = 0; c < 4; c++) sum[c] = here[c] + (stretched ? part[c] : real(0)) + before[c];
    for (int c = 0; c < 4; c++) {
        real change = stretched ? part[c] : real(0);
        change += e[4 * c] * sum[0] + e[4 * c + 1] * sum[1] + e[4 * c + 2] * sum[2] + e[4 * c + 3] * sum[3];
        if (stretched) part[c] = change;
        after[c] = here[c] + change;
    }
    for (int c = 0; c < 4; c++) before[c] = after[c];
    p.x = after[0], p.y = after[1], p.z = after[2];
    momentum[solid[n]] = p;
    momentum[fluid[n]].x = after[3];
}

// Save p of points and set it to zero.
extern "C" __global__ void save_momenta(Point* momentum, const long long* point, real* kept, int count) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    Point p = momentum[point[n]];
    real* const target = kept + 3ll * n;
    target[0] = p.x, target[1] = p.y, target[2] = p.z;
    p.x = p.y = p.z = 0;
    momentum[point[n]] = p;
}

// Copy p of points, three values per point.
extern "C" __global__ void pack(const Point* momentum, const long long* point, real* outgoing, int count) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const Point p = momentum[point[n]];
    real* const target = outgoing + 3ll * n;
    target[0] = p.x, target[1] = p.y, target[2] = p.z;
}

// p = kept + the sum of the entries begin[n] .. begin[n + 1]: p itself for -1, else a point in `incoming`.
extern "C" __global__ void unpack(
    Point* momentum, const real* kept, const long long* point, const long long* begin, const long long* entry,
    const real* incoming, int count)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    Point p = momentum[point[n]];
    real total[3] = {0, 0, 0};
    for (long long number = begin[n]; number < begin[n + 1]; number++) {
        const long long at = 3 * entry[number];
        if (at < 0) {
            total[0] += p.x, total[1] += p.y, total[2] += p.z;
        } else {
            for (int c = 0; c < 3; c++) total[c] += incoming[at + c];
        }
    }
    p.x = kept[3ll * n] + total[0], p.y = kept[3ll * n + 1] + total[1], p.z = kept[3ll * n + 2] + total[2];
    momentum[point[n]] = p;
}

// Add weight (a vector) * amplitude[row, owner] of the entries begin[n] .. begin[n + 1] to p[target[n]].
extern "C" __global__ void inject(
    Point* momentum, const long long* target, const long long* begin, const double* weight, const long long* owner,
    const double* amplitude, const long long* row, int count, int sources)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const double* const present = amplitude + row[0] * sources;
    double total[3] = {0, 0, 0};
    for (long long entry = begin[n]; entry < begin[n + 1]; entry++)
        for (int c = 0; c < 3; c++) total[c] += weight[3 * entry + c] * present[owner[entry]];
    Point p = momentum[target[n]];
    p.x = static_cast<real>(p.x + total[0]);
    p.y = static_cast<real>(p.y + total[1]);
    p.z = static_cast<real>(p.z + total[2]);
    momentum[target[n]] = p;
}

// Advance by one row in a table of amplitudes or records.
extern "C" __global__ void count_step(long long* row) { row[0] += 1; }

// Velocity at locations in elements, and with 12 rows du_c / dxi_d at the same time: out[slot][row][place]. One warp per location.
extern "C" __global__ void sample(
    const Point* displacement, const Point* momentum, const unsigned* points, const long long* element,
    const real* values, const real* slopes, real rate, real* out, const long long* slot, int count, int width, int rows,
    int n)
{
    const int place = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (place >= count) return;
    const real* const value = values + 3ll * n * place;
    const real* const slope = slopes + 3ll * n * place;
    const unsigned* const own = points + element[place] * (n * n * n);
    real total[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    for (int number = lane; number < n * n * n; number += 32) {
        const int k = number / (n * n), j = number / n % n, i = number % n;
        const real x = value[i], y = value[n + j], z = value[2 * n + k];
        const bool seen = x * y * z != 0;
        if (!seen && rows == 3) continue;
        const Point u = displacement[own[number]], p = momentum[own[number]];
        const real w = fabs(u.w), scale = x * y * z * w, half = real(0.5) * w;
        total[0] += scale * p.x, total[1] += scale * p.y, total[2] += scale * p.z;
        if (rows > 3) {
            const real d[3] = {slope[i] * y * z, x * slope[n + j] * z, x * y * slope[2 * n + k]};
            for (int axis = 0; axis < 3; axis++) {
                total[3 + axis] += d[axis] * (u.x + half * p.x);
                total[6 + axis] += d[axis] * (u.y + half * p.y);
                total[9 + axis] += d[axis] * (u.z + half * p.z);
            }
        }
    }
    for (int row = 0; row < 12; row++)
        for (int distance = 16; distance > 0; distance /= 2)
            total[row] += __shfl_down_sync(ALL_LANES, total[row], distance);
    if (lane != 0) return;
    real* const target = out + slot[0] * rows * width + place;
    for (int row = 0; row < rows; row++) target[static_cast<long long>(row) * width] = (row < 3 ? rate : 1) * total[row];
}

// Replace the Cartesian velocity out[slot][0..2][place] by its components along the rows of axes[place].
extern "C" __global__ void rotate_velocity(
    real* out, const long long* slot, const real* axes, int count, int width, int rows)
{
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count) return;
    real* const target = out + slot[0] * rows * width + place;
    const real x = target[0], y = target[width], z = target[2ll * width];
    const real* const a = axes + 9ll * place;
    for (int c = 0; c < 3; c++) target[static_cast<long long>(c) * width] = a[3 * c] * x + a[3 * c + 1] * y + a[3 * c + 2] * z;
}

// Keep p of the points of fluid elements: one thread per point.
extern "C" __global__ void keep_rates(
    const Point* momentum, const unsigned* points, real* earlier, long long count)
{
    const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread < count) earlier[thread] = momentum[points[thread]].x;
}

// Velocity of fluids at some places of `out`, and with more than 3 rows d phi / dt in the fourth. One warp per location.
extern "C" __global__ void sample_fluid(
    const Point* displacement, const Point* momentum, const unsigned* points, const long long* element,
    const real* values, const real* slopes, const real* mobility, const long long* place, const real* earlier,
    real rate, real* out, const long long* slot, int count, int width, int rows, int n)
{
    const int location = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (location >= count) return;
    const long long at = place[location];
    const real* const value = values + 3ll * n * at;
    const real* const slope = slopes + 3ll * n * at;
    const unsigned* const own = points + element[location] * (n * n * n);
    const real* const before = earlier + element[location] * (n * n * n);
    real total[4] = {0, 0, 0, 0};
    for (int number = lane; number < n * n * n; number += 32) {
        const int k = number / (n * n), j = number / n % n, i = number % n;
        const real x = value[i], y = value[n + j], z = value[2 * n + k];
        const Point u = displacement[own[number]];
        const real p = momentum[own[number]].x, w = fabs(u.w);
        const real phi = u.x + w * (real(0.375) * p + real(0.125) * before[number]);
        total[0] += slope[i] * y * z * phi, total[1] += x * slope[n + j] * z * phi;
        total[2] += x * y * slope[2 * n + k] * phi, total[3] += x * y * z * w * p;
    }
    for (int row = 0; row < 4; row++)
        for (int distance = 16; distance > 0; distance /= 2)
            total[row] += __shfl_down_sync(ALL_LANES, total[row], distance);
    if (lane != 0) return;
    real* const target = out + slot[0] * rows * width + at;
    const real* const m = mobility + 9ll * location;
    for (int c = 0; c < 3; c++)
        target[static_cast<long long>(c) * width] = m[c] * total[0] + m[3 + c] * total[1] + m[6 + c] * total[2];
    if (rows > 3) target[3ll * width] = rate * total[3];
}

// Peaks of |v| and |u| at locations; displacement is the running integral of v.
extern "C" __global__ void surface_peaks(
    const real* velocity, real time_step, real* displacement, real* peak_velocity, real* peak_displacement, int size)
{
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= size) return;
    const real half = real(0.5) * time_step;
    const real east = velocity[place], north = velocity[size + place], up = velocity[2 * size + place];
    const real u = displacement[place] += time_step * east;
    const real v = displacement[size + place] += time_step * north;
    const real w = displacement[2 * size + place] += time_step * up;
    raise_peaks(peak_velocity, place, size, east, north, up);
    // The integral at the time of v lacks half a step of v.
    raise_peaks(peak_displacement, place, size, u - half * east, v - half * north, w - half * up);
}

// Largest components of dt v, one per warp of the launch, which the host compares.
extern "C" __global__ void largest_velocity(
    const Point* displacement, const Point* momentum, real* out, long long count)
{
    const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
    unsigned long long most = 0;
    for (long long n = thread; n < count; n += threads) {
        const Point p = momentum[n];
        const real scale = fabs(displacement[n].w) * p.w;
        most = max(most, max(magnitude(scale * p.x), max(magnitude(scale * p.y), magnitude(scale * p.z))));
    }
    most = largest_of_warp(most);
    if (threadIdx.x % 32 == 0) restore(most, out + thread / 32);
}
