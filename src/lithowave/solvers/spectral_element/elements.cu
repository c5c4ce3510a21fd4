// Forces of the elements: see element_kernels.py for the formulas.
//
// A block of threads processes ELEMENTS elements, a thread the N points of a line along k; thread (e * N + j) * N + i.
// The line stays in registers; derivatives along i and j are computed line by line in shared memory, where every thread
// has one line of each direction (given by `lines`, so that the threads of a warp use different banks).
// A thread issues all its reads of global memory before it waits.
// In an absorbing layer (AXES > 0), derivatives and stresses pass through filters with memory variables.
// With attenuation (MECHANISMS > 0), the stresses of some points relax.
// In a fluid (COMPONENTS = 1), u is the potential, and the velocity takes the place of the stresses: see
// fluid_kernels.py.
// Definitions: REAL, DEGREE, MAP, COMPONENTS, ANISOTROPIC, VARYING, AXES, those of `relaxation.cuh`, ATOMIC, ELEMENTS, THREADS, BLOCKS,
// and the strides of planes and elements in shared memory, PLANE_STRIDE and ELEMENT_STRIDE.

#include "gll.cuh"
#include "hopper.cuh"
#include "laws.cuh"
#include "layer.cuh"
#include "map.cuh"
#include "relaxation.cuh"
#include "vectors.cuh"

typedef Vector4<real> Point;

constexpr int LINES = N * N;  // along one direction in an element
constexpr int FIELD = ELEMENTS * ELEMENT_STRIDE;
constexpr int MAP_VECTORS = (ELEMENTS * MAP_SIZE / 4 + THREADS - 1) / THREADS;  // loaded by a thread
constexpr int MODULI = COMPONENTS == 1 ? 1 : ANISOTROPIC ? 21 : 2;

// Along a line of N values, `step` apart: the derivative at each point, or (TRANSPOSED) the sum of the weak form.
template <bool TRANSPOSED>
__device__ __forceinline__ void differentiate(const real* source, real* target, int step) {
    real f[N];
#pragma unroll
    for (int l = 0; l < N; l++) f[l] = source[l * step];
#pragma unroll
    for (int a = 0; a < N; a++) {
        real sum = 0;
#pragma unroll
        for (int l = 0; l < N; l++) {
            const real d = TRANSPOSED ? GLL.derivative[l][a] : GLL.derivative[a][l];
            if (d != 0) sum += d * f[l];
        }
        target[a * step] = sum;
    }
}

__device__ __forceinline__ void add(Point* target, const real (&force)[COMPONENTS]) {
#if COMPONENTS == 1
    if (ATOMIC)
        atomicAdd(&target->x, force[0]);
    else
        target->x += force[0];
#else
    if (ATOMIC) {
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
        here[k].x += here[k].w * gained[k].x;
        here[k].y += here[k].w * gained[k].y;
        here[k].z += here[k].w * gained[k].z;
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
    const unsigned short* lines, real* memory, const real* filters, const real* relaxing, real* relaxation,
    const real* recursion, int first_axis,
    unsigned first_block, unsigned own_block, unsigned shared)
{
    real* const maps = dynamic_shared<real>() + Relaxation::SIZE;
    real* const u = maps + ELEMENTS * MAP_SIZE;
    real* const along_i = u + COMPONENTS * FIELD;
    real* const along_j = u + 2 * COMPONENTS * FIELD;
    unsigned* const index = reinterpret_cast<unsigned*>(u + 3 * COMPONENTS * FIELD);

    const int thread = threadIdx.x, element = thread / LINES, place = thread - element * LINES;
    const int j = place / N, i = place - j * N, start = element * ELEMENT_STRIDE + place;
    const bool works = thread < ELEMENTS * LINES;
    const size_t own = own_block + blockIdx.x;
    const size_t own_element = own * ELEMENTS + (works ? element : 0);
    const int line_i = lines[thread], line_j = lines[THREADS + thread];

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
    const Relaxation mechanisms(relaxation, relaxing, recursion, own, dynamic_shared<real>());
    mechanisms.begin(thread);
    real line[COMPONENTS][N], sum[COMPONENTS][N];
    gather(displacement, momentum, point, shared, works, first_axis, line);
#pragma unroll
    for (int n = 0; n < MAP_VECTORS; n++)
        if (thread + n * THREADS < ELEMENTS * MAP_SIZE / 4) reinterpret_cast<Point*>(maps)[thread + n * THREADS] = terms[n];
    if (works) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            index[k * THREADS + thread] = point[k];
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) u[c * FIELD + k * PLANE_STRIDE + start] = line[c][k];
        }
    }
    mechanisms.wait();
    __syncthreads();
    mechanisms.prepare(thread);
    if (works) {
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++) {
            differentiate<false>(u + c * FIELD + line_i, along_i + c * FIELD + line_i, 1);
            differentiate<false>(u + c * FIELD + line_j, along_j + c * FIELD + line_j, N);
        }
    }
    __syncthreads();
    if (works) {
        const LineMap map(maps + element * MAP_SIZE, GLL.point[i], GLL.point[j]);
        const real weight = GLL.weight[i] * GLL.weight[j];
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++)
#pragma unroll
            for (int k = 0; k < N; k++) sum[c][k] = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const Metric metric = map.at(k);
            const real* const m = metric.m;
            real gradient[3 * COMPONENTS];
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) {
                const real x = along_i[c * FIELD + k * PLANE_STRIDE + start], y = along_j[c * FIELD + k * PLANE_STRIDE + start];
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
                along_i[c * FIELD + k * PLANE_STRIDE + start] = r[0] * m[0] + r[1] * m[1] + r[2] * m[2];
                along_j[c * FIELD + k * PLANE_STRIDE + start] = r[0] * m[3] + r[1] * m[4] + r[2] * m[5];
                const real z = r[0] * m[6] + r[1] * m[7] + r[2] * m[8];
#pragma unroll
                for (int l = 0; l < N; l++)
                    if (GLL.derivative[k][l] != 0) sum[c][l] += GLL.derivative[k][l] * z;
            }
        }
    }
    __syncthreads();
    mechanisms.finish(thread);
    if (works) {
#pragma unroll
        for (int c = 0; c < COMPONENTS; c++) {
            differentiate<true>(along_i + c * FIELD + line_i, along_i + c * FIELD + line_i, 1);
            differentiate<true>(along_j + c * FIELD + line_j, along_j + c * FIELD + line_j, N);
        }
    }
    __syncthreads();
    if (works) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int at = k * PLANE_STRIDE + start;
            real force[COMPONENTS];
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) force[c] = -(sum[c][k] + along_i[c * FIELD + at] + along_j[c * FIELD + at]);
#if COMPONENTS == 3
            if (AXES) rotate(force[0], force[1], force[2], 3 - first_axis);
#endif
            add(momentum + index[k * THREADS + thread], force);
        }
    }
}
