// Forces of the elements: see element_kernels.py for the formulas.
//
// A block of threads processes ELEMENTS elements, a thread the N points of a line along k; thread (e * N + j) * N + i.
// The line stays in registers; derivatives along i and j are computed in shared memory. There, the COMPONENTS * N values
// of a thread's line are packs of 16 bytes, POINT_STRIDE packs from those of the next thread. A task differentiates the
// packs of one number on a line along i or j: see `launches.task_table`, which gives the threads tasks such that the
// eight threads whose packs move together use different banks.
// A thread issues all its reads of global memory before it waits.
// In an absorbing layer (AXES > 0), derivatives and stresses pass through filters with memory variables.
// With attenuation (MECHANISMS > 0), the stresses of some points relax.
// In a fluid (COMPONENTS = 1), u is the potential, and the velocity takes the place of the stresses: see
// fluid_kernels.py.
// Each block also updates the displacements of some points that only later launches load: see `launches`.
// Definitions: REAL, DEGREE, MAP, COMPONENTS, ANISOTROPIC, VARYING, AXES, those of `relaxation.cuh`, ATOMIC, ELEMENTS,
// THREADS, BLOCKS, POINT_STRIDE, and ROUNDS, the number of tasks of a thread.

#include "gll.cuh"
#include "hopper.cuh"
#include "laws.cuh"
#include "layer.cuh"
#include "map.cuh"
#include "relaxation.cuh"
#include "vectors.cuh"

typedef Vector4<real> Point;

constexpr int LINES = N * N;  // along one direction in an element
constexpr int MAP_VECTORS = (ELEMENTS * MAP_SIZE / 4 + THREADS - 1) / THREADS;  // loaded by a thread
constexpr int MODULI = COMPONENTS == 1 ? 1 : ANISOTROPIC ? 21 : 2;

// Values of a thread's line, [k][component], that are moved together.
struct alignas(16) Pack {
    static constexpr int WIDTH = 16 / sizeof(real);
    real value[WIDTH];
};

constexpr int VALUES = COMPONENTS * N, PACKS = (VALUES + Pack::WIDTH - 1) / Pack::WIDTH;
constexpr int FIELD = ELEMENTS * LINES * POINT_STRIDE;
constexpr unsigned NO_TASK = 0xffff, ALONG_J = 0x8000;  // in the table of tasks: the first pack of a line, or NO_TASK

// Along a line of N packs, `step` apart: the derivative at each point, or (TRANSPOSED) the sum of the weak form.
template <bool TRANSPOSED>
__device__ __forceinline__ void differentiate(const Pack* source, Pack* target, int step) {
    Pack f[N];
#pragma unroll
    for (int l = 0; l < N; l++) f[l] = source[l * step];
#pragma unroll
    for (int a = 0; a < N; a++) {
        Pack sum = {};
#pragma unroll
        for (int l = 0; l < N; l++) {
            const real d = TRANSPOSED ? GLL.derivative[l][a] : GLL.derivative[a][l];
            if (d == 0) continue;
#pragma unroll
            for (int n = 0; n < Pack::WIDTH; n++) sum.value[n] += d * f[l].value[n];
        }
        target[a * step] = sum;
    }
}

// Derivatives of u along i and j to the two fields `along`, or (TRANSPOSED) the sums of the weak form in place.
template <bool TRANSPOSED>
__device__ __forceinline__ void run_tasks(const unsigned (&task)[ROUNDS], const Pack* u, Pack* along) {
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        if (task[round] == NO_TASK) continue;
        const bool along_j = task[round] & ALONG_J;
        const int first = task[round] & ~ALONG_J, step = along_j ? N * POINT_STRIDE : POINT_STRIDE;
        Pack* const target = along + (along_j ? FIELD : 0) + first;
        differentiate<TRANSPOSED>(TRANSPOSED ? target : u + first, target, step);
    }
}

// The packs of a thread's line in a field, in registers: loaded and stored as the loop over k reaches them.
struct PackedLine {
    Pack* const own;
    Pack pack[PACKS];

    __device__ __forceinline__ explicit PackedLine(Pack* own) : own(own), pack() {}
    __device__ __forceinline__ real& at(int k, int component) {
        return pack[(k * COMPONENTS + component) / Pack::WIDTH].value[(k * COMPONENTS + component) % Pack::WIDTH];
    }
    // Load the packs that begin at point k.
    __device__ __forceinline__ void load(int k) {
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++)
            if ((k * COMPONENTS + c) % Pack::WIDTH == 0) {
                const int q = (k * COMPONENTS + c) / Pack::WIDTH;
                pack[q] = own[q];
            }
    }
    // Store the packs that end at point k.
    __device__ __forceinline__ void store(int k) const {
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++) {
            const int value = k * COMPONENTS + c;
            if (value % Pack::WIDTH == Pack::WIDTH - 1 || value == VALUES - 1) own[value / Pack::WIDTH] = pack[value / Pack::WIDTH];
        }
    }
};

// u + dt^2 / mass * p of a point.
__device__ __forceinline__ Point advanced(const Point& u, const Point& p) {
    return {u.x + u.w * p.x, u.y + u.w * p.y, u.z + u.w * p.z, u.w};
}

// The points of a thread among those that this launch moves for later ones.
struct MovedPoints {
    Point u[MOVED], p[MOVED];
    const unsigned first, end;

    __device__ __forceinline__ MovedPoints(
        const Point* displacement, const Point* momentum, unsigned begin, unsigned end, int thread)
        : first(begin + blockIdx.x * (MOVED * THREADS) + thread), end(end)
    {
#pragma unroll
        for (int n = 0; n < MOVED; n++)
            if (first + n * THREADS < end) u[n] = displacement[first + n * THREADS], p[n] = momentum[first + n * THREADS];
    }
    __device__ __forceinline__ void store(Point* displacement) const {
#pragma unroll
        for (int n = 0; n < MOVED; n++)
            if (first + n * THREADS < end) displacement[first + n * THREADS] = advanced(u[n], p[n]);
    }
};

// Add a force to a point; alone : no other element has this point. In double precision, an atomic addition of three
// components takes three instructions, and reading and writing the point is faster.
__device__ __forceinline__ void add(Point* target, const real (&force)[COMPONENTS], bool alone) {
#if COMPONENTS == 1
    if (ATOMIC)
        atomicAdd(&target->x, force[0]);
    else
        target->x += force[0];
#else
    if (ATOMIC && !(alone && sizeof(real) == 8)) {
        add_atomically(target, force[0], force[1], force[2]);
    } else {
        Point sum = *target;
        sum.x += force[0], sum.y += force[1], sum.z += force[2];
        *target = sum;
    }
#endif
}

// Load displacements on the line of a thread, and update those of points that no other element has.
__device__ __forceinline__ void gather(
    Point* displacement, const Point* momentum, const unsigned (&point)[N], unsigned shared, bool works, int first_axis,
    real (&line)[COMPONENTS][N])
{
    if (!works) return;
    Point here[N], gained[N];
#pragma unroll
    for (int k = 0; k < N; k++) here[k] = displacement[point[k]];
#pragma unroll
    for (int k = 1; k < DEGREE; k++)
        if (point[k] >= shared) gained[k] = momentum[point[k]];
#pragma unroll
    for (int k = 1; k < DEGREE; k++) {
        if (point[k] < shared) continue;
        here[k] = advanced(here[k], gained[k]);
        displacement[point[k]] = here[k];
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
#if COMPONENTS == 1
        line[0][k] = here[k].x;
#else
        if (AXES) rotate(here[k].x, here[k].y, here[k].z, first_axis);
        line[0][k] = here[k].x, line[1][k] = here[k].y, line[2][k] = here[k].z;
#endif
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) add_forces(
    Point* displacement, Point* momentum, const unsigned* points, const real* moduli, const real* geometry,
    const unsigned short* tasks, real* memory, const real* filters, const real* relaxing, real* relaxation,
    const real* recursion, int first_axis,
    unsigned first_block, unsigned own_block, unsigned shared, unsigned move_begin, unsigned move_end)
{
    Pack* const u = dynamic_shared<Pack>();
    Pack* const along = u + FIELD;
    real* const maps = reinterpret_cast<real*>(along + 2 * FIELD);
    real* const relaxed = maps + ELEMENTS * MAP_SIZE;

    const int thread = threadIdx.x, element = thread / LINES, place = thread - element * LINES;
    const int j = place / N, i = place - j * N, start = thread * POINT_STRIDE;
    const bool works = thread < ELEMENTS * LINES;
    const size_t own = own_block + blockIdx.x;
    const size_t own_element = own * ELEMENTS + (works ? element : 0);
    unsigned task[ROUNDS];
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) task[round] = tasks[round * THREADS + thread];

    const unsigned* const mine = points + (static_cast<size_t>(first_block) + own) * (N * THREADS) + thread;
    unsigned point[N];
#pragma unroll
    for (int k = 0; k < N; k++) point[k] = mine[k * THREADS];
    const LineLaw law(moduli + (VARYING ? own * (N * THREADS * MODULI) : own_element * MODULI), thread);
    Point terms[MAP_VECTORS];
#pragma unroll
    for (int n = 0; n < MAP_VECTORS; n++)
        if (thread + n * THREADS < ELEMENTS * MAP_SIZE / 4)
            terms[n] = reinterpret_cast<const Point*>(geometry + own * ELEMENTS * MAP_SIZE)[thread + n * THREADS];
    const MovedPoints moved(displacement, momentum, move_begin, move_end, thread);
    const Relaxation mechanisms(relaxation, relaxing, recursion, own, relaxed);
    mechanisms.begin(thread);
    real line[COMPONENTS][N], sum[COMPONENTS][N];
    gather(displacement, momentum, point, shared, works, first_axis, line);
    moved.store(displacement);
#pragma unroll
    for (int n = 0; n < MAP_VECTORS; n++)
        if (thread + n * THREADS < ELEMENTS * MAP_SIZE / 4) reinterpret_cast<Point*>(maps)[thread + n * THREADS] = terms[n];
    if (works) {
        PackedLine packed(u + start);
#pragma unroll
        for (int k = 0; k < N; k++) {
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) packed.at(k, c) = line[c][k];
            packed.store(k);
        }
    }
    mechanisms.wait();
    __syncthreads();
    mechanisms.prepare(thread);
    run_tasks<false>(task, u, along);
    __syncthreads();
    if (works) {
        const LineMap map(maps + element * MAP_SIZE, GLL.point[i], GLL.point[j]);
        const real weight = GLL.weight[i] * GLL.weight[j];
        PackedLine along_i(along + start), along_j(along + FIELD + start);
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++)
#pragma unroll
            for (int k = 0; k < N; k++) sum[c][k] = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const Metric metric = map.at(k);
            const real* const m = metric.m;
            real gradient[3 * COMPONENTS];
            along_i.load(k), along_j.load(k);
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) {
                const real x = along_i.at(k, c), y = along_j.at(k, c);
                real z = 0;
#pragma unroll
                for (int l = 0; l < N; l++)
                    if (GLL.derivative[k][l] != 0) z += GLL.derivative[k][l] * line[c][l];
#pragma unroll
                for (int d = 0; d < 3; d++) gradient[3 * c + d] = x * m[d] + y * m[3 + d] + z * m[6 + d];
            }
            const LayerPoint layer(memory, filters, (own * N + k), thread);
            layer.unstretch(gradient);
            const real scale = weight * GLL.weight[k] * metric.inverse_jacobian;
#if COMPONENTS == 1
            real row[1][3];
            law.velocity(k, gradient, scale, row[0]);
#else
            Stress s = law.stress(k, gradient, scale);
            mechanisms.relax(k, element, place, gradient, scale, s);
            real row[3][3] = {{s.xx, s.xy, s.xz}, {s.xy, s.yy, s.yz}, {s.xz, s.yz, s.zz}};
#endif
            layer.stretch(row);
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) {
                const real* const r = row[c];
                along_i.at(k, c) = r[0] * m[0] + r[1] * m[1] + r[2] * m[2];
                along_j.at(k, c) = r[0] * m[3] + r[1] * m[4] + r[2] * m[5];
                const real z = r[0] * m[6] + r[1] * m[7] + r[2] * m[8];
#pragma unroll
                for (int l = 0; l < N; l++)
                    if (GLL.derivative[k][l] != 0) sum[c][l] += GLL.derivative[k][l] * z;
            }
            along_i.store(k), along_j.store(k);
        }
    }
    __syncthreads();
    mechanisms.finish(thread);
    run_tasks<true>(task, u, along);
    __syncthreads();
    if (works) {
        PackedLine along_i(along + start), along_j(along + FIELD + start);
#pragma unroll
        for (int k = 0; k < N; k++) {
            along_i.load(k), along_j.load(k);
            real force[COMPONENTS];
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) force[c] = -(sum[c][k] + along_i.at(k, c) + along_j.at(k, c));
#if COMPONENTS == 3
            if (AXES) rotate(force[0], force[1], force[2], 3 - first_axis);
#endif
            add(momentum + point[k], force, k > 0 && k < DEGREE && point[k] >= shared);
        }
    }
}
