// Forces of the elements: see element_kernels.py for the formulas.
//
// A block of threads processes ELEMENTS elements, a thread the N points of a line along k; thread (e * N + j) * N + i.
// The line stays in registers; derivatives along i and j are computed in shared memory. There, the COMPONENTS * N values
// of a thread's line are packs of 16 bytes, POINT_STRIDE packs from those of the next thread, and ELEMENT_STRIDE packs
// lie between two elements. A task differentiates one value of each line of an element along both directions: see
// `launches.task_table`, which gives the threads tasks such that those served together use different banks.
// A thread issues all its reads of global memory before it waits.
// In an absorbing layer (AXES > 0), derivatives and stresses pass through filters with memory variables.
// With attenuation (MECHANISMS > 0), the stresses of some points relax. With GRAVITY, a body force is added.
// In a fluid (COMPONENTS = 1), u is the potential, and the velocity takes the place of the stresses: see
// fluid_kernels.py.
//
// Each block also moves some points, that is, updates their displacements, for the elements of later blocks (`moves`):
// these read them soon after, while the cache still holds them. A block that comes too early waits: the sign of dt^2 /
// mass, the fourth value, shows which points have moved. Each step changes it, at the first points before this kernel, and
// a thread stores a moved point and its sign by one instruction. A point's force is added by threads that have read its new displacement, so that the
// momentum by which it moves has no forces of this step. Blocks start in the order of their numbers, and wait for lower
// ones only. In double precision a point takes two instructions: there, blocks move points for later launches.
//
// Definitions: REAL, DEGREE, MAP, COMPONENTS, ANISOTROPIC, VARYING, GRAVITY, AXES, ALIGNED, DAMPED,
// those of `relaxation.cuh`, ATOMIC, ELEMENTS,
// THREADS, BLOCKS, POINT_STRIDE, ELEMENT_STRIDE, ROUNDS, the number of tasks of a thread, MOVED, the number of points that
// it moves, and WAITS, whether blocks wait for moved points.

#include "entities.cuh"
#include "gll.cuh"
#include "gravity.cuh"
#include "hopper.cuh"
#include "laws.cuh"
#include "layer.cuh"
#include "map.cuh"
#include "motion.cuh"
#include "relaxation.cuh"
#include "vectors.cuh"

constexpr bool ROTATED = AXES > 0 && !ALIGNED;  // the coordinates begin with the active axes
constexpr int LINES = N * N;  // along one direction in an element
constexpr int ENTITIES = 27;

// Values of a thread's line, [k][component], that are moved together.
struct alignas(16) Pack {
    static constexpr int WIDTH = 16 / sizeof(real);
    real value[WIDTH];
};

constexpr int VALUES = COMPONENTS * N, PACKS = (VALUES + Pack::WIDTH - 1) / Pack::WIDTH;
constexpr int FIELD = ELEMENTS * ELEMENT_STRIDE;
constexpr unsigned NO_TASK = 0xffff;  // in the table of tasks: the place of the value on the first line, or NO_TASK
constexpr int STEP_I = POINT_STRIDE * Pack::WIDTH, STEP_J = N * STEP_I;  // between the values of two lines

// sum += factor * value; no instruction for a factor that is 0 when compiled.
__device__ __forceinline__ void add_product(real& sum, real factor, real value) {
    if (factor != 0) sum += factor * value;
}

// Replace a value of all lines of an element by its derivatives along i; store those along j in the other field.
__device__ __forceinline__ void differentiate(real* values, real* along_j) {
    real f[N][N];
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int i = 0; i < N; i++) f[j][i] = values[j * STEP_J + i * STEP_I];
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int i = 0; i < N; i++) {
            real x = 0, y = 0;
#pragma unroll
            for (int l = 0; l < N; l++)
                add_product(x, GLL.derivative[i][l], f[j][l]), add_product(y, GLL.derivative[j][l], f[l][i]);
            values[j * STEP_J + i * STEP_I] = x, along_j[j * STEP_J + i * STEP_I] = y;
        }
}

// The sums of the weak form along i and along j, which replace the values for these directions.
__device__ __forceinline__ void integrate_apart(real* along_i, real* along_j) {
#pragma unroll
    for (int line = 0; line < N; line++) {
        real x[N] = {}, y[N] = {};
#pragma unroll
        for (int place = 0; place < N; place++) {
            const real here = along_i[line * STEP_J + place * STEP_I], there = along_j[place * STEP_J + line * STEP_I];
#pragma unroll
            for (int l = 0; l < N; l++)
                add_product(x[l], GLL.derivative[place][l], here), add_product(y[l], GLL.derivative[place][l], there);
        }
#pragma unroll
        for (int l = 0; l < N; l++) along_i[line * STEP_J + l * STEP_I] = x[l], along_j[l * STEP_J + line * STEP_I] = y[l];
    }
}

// The sums of the weak form along i and j, which replace the values for i.
__device__ __forceinline__ void integrate(real* along_i, const real* along_j) {
    real sum[N][N] = {};
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int i = 0; i < N; i++) {
            const real x = along_i[j * STEP_J + i * STEP_I], y = along_j[j * STEP_J + i * STEP_I];
#pragma unroll
            for (int l = 0; l < N; l++)
                add_product(sum[j][l], GLL.derivative[i][l], x), add_product(sum[l][i], GLL.derivative[j][l], y);
        }
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int i = 0; i < N; i++) along_i[j * STEP_J + i * STEP_I] = sum[j][i];
}

// Replace the values on the line of a thread by their derivatives along k, or (TRANSPOSED) by the sums of the weak form.
template <bool TRANSPOSED>
__device__ __forceinline__ void differentiate_line(real (&line)[COMPONENTS][N]) {
#pragma unroll
    for (int c = 0; c < COMPONENTS; c++) {
        real f[N];
#pragma unroll
        for (int l = 0; l < N; l++) f[l] = line[c][l];
#pragma unroll
        for (int k = 0; k < N; k++) {
            line[c][k] = 0;
#pragma unroll
            for (int l = 0; l < N; l++)
                add_product(line[c][k], TRANSPOSED ? GLL.derivative[l][k] : GLL.derivative[k][l], f[l]);
        }
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

// The points that a thread moves for the elements of later blocks, if `moving`; moves : the first of each block.
struct MovedPoints {
    Point u[MOVED], p[MOVED];
    unsigned first = 0, end = 0;

    __device__ __forceinline__ MovedPoints(
        const Point* displacement, const Point* momentum, const unsigned* moves, int moving, size_t block, int thread)
    {
        if (moving) first = moves[block] + thread, end = moves[block + 1];
#pragma unroll
        for (int n = 0; n < MOVED; n++)
            if (first + n * THREADS < end) u[n] = displacement[first + n * THREADS], p[n] = momentum[first + n * THREADS];
    }
    __device__ __forceinline__ void store(Point* displacement, real sign) const {
#pragma unroll
        for (int n = 0; n < MOVED; n++)
            if (first + n * THREADS < end) displacement[first + n * THREADS] = advanced(u[n], p[n], sign);
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

// Store the moved points, load displacements on the line of a thread, and update those of points that no other element
// has. sign : of the points that have moved in this step.
__device__ __forceinline__ void gather(
    Point* displacement, const Point* momentum, const MovedPoints& moved, const Line& point, unsigned shared, bool works,
    real sign, int first_axis, real (&line)[COMPONENTS][N])
{
    Point here[N], gained[N];
    if (works) {
#pragma unroll
        for (int k = 0; k < N; k++) here[k] = displacement[point[k]];
#pragma unroll
        for (int k = 1; k < DEGREE; k++)
            if (point[k] >= shared) gained[k] = momentum[point[k]];
    }
    moved.store(displacement, sign);
    if (!works) return;
#if WAITS
    for (bool late = true; late;) {
        late = false;
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (point[k] >= shared || signbit(here[k].w) == signbit(sign)) continue;
            late = true, here[k] = load_latest(displacement + point[k]);
        }
    }
#endif
#pragma unroll
    for (int k = 1; k < DEGREE; k++) {
        if (point[k] < shared) continue;
        here[k] = advanced(here[k], gained[k], here[k].w);
        displacement[point[k]] = here[k];
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
#if COMPONENTS == 1
        line[0][k] = here[k].x;
#else
        if (ROTATED) rotate(here[k].x, here[k].y, here[k].z, first_axis);
        line[0][k] = here[k].x, line[1][k] = here[k].y, line[2][k] = here[k].z;
#endif
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) add_forces(
    Point* displacement, Point* momentum, const Entity* points, const real* moduli, const real* geometry,
    const unsigned short* tasks, real* memory, const real* filters, const real* relaxing, real* relaxation,
    const real* recursion, int first_axis,
    unsigned first_block, unsigned own_block, unsigned shared, const unsigned* moves, int moving)
{
    Pack* const first = dynamic_shared<Pack>();  // u, then its derivatives along i, the products with those of the test
    Pack* const second = first + FIELD;          // functions, and the sums of the weak form; in `second` those for j
    real* const maps = reinterpret_cast<real*>(second + FIELD);
    real* const relaxed = maps + ELEMENTS * MAP_SIZE;

    const int thread = threadIdx.x, element = thread / LINES, place = thread - element * LINES;
    const int j = place / N, i = place - j * N, start = element * ELEMENT_STRIDE + place * POINT_STRIDE;
    const bool works = thread < ELEMENTS * LINES;
    const size_t own = own_block + blockIdx.x;
    const size_t own_element = own * ELEMENTS + (works ? element : 0);
    unsigned task[ROUNDS];
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) task[round] = tasks[round * THREADS + thread];

    const Line point(points + (static_cast<size_t>(first_block) * ELEMENTS + own_element) * ENTITIES, i, j);
    const real sign = displacement[0].w;
    const LineLaw law(moduli + (VARYING ? own * (N * THREADS * MODULI) : own_element * MODULI), thread);
    for (int n = thread; n < ELEMENTS * MAP_SIZE / Pack::WIDTH; n += THREADS)
        copy_value(reinterpret_cast<Pack*>(maps) + n, reinterpret_cast<const Pack*>(geometry + own * ELEMENTS * MAP_SIZE) + n);
    const MovedPoints moved(displacement, momentum, moves, moving, own, thread);
    const Relaxation mechanisms(relaxation, relaxing, recursion, own, relaxed);
    mechanisms.begin(thread);
    const Layer layer(memory, filters, own, own_element, thread, first_axis, i, j);
    layer.memory.load();
    LineGravity gravity(moduli + own * (N * THREADS * MODULI), thread);
    real line[COMPONENTS][N];
    gather(displacement, momentum, moved, point, shared, works, sign, first_axis, line);
    if (works) {
        PackedLine packed(first + start);
#pragma unroll
        for (int k = 0; k < N; k++) {
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) packed.at(k, c) = line[c][k];
            packed.store(k);
        }
    }
    differentiate_line<false>(line);
    wait_for_values();
    __syncthreads();
    mechanisms.prepare(thread);
#pragma unroll
    for (int round = 0; round < ROUNDS; round++)
        if (task[round] != NO_TASK) differentiate(first->value + task[round], second->value + task[round]);
    __syncthreads();
    if (works) {
        const LineMap map(maps + element * MAP_SIZE, GLL.point[i], GLL.point[j]);
        const real weight = GLL.weight[i] * GLL.weight[j];
        PackedLine along_i(first + start), along_j(second + start);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const Metric metric = map.at(k);
            real gradient[3 * COMPONENTS];
            along_i.load(k), along_j.load(k);
            real along[COMPONENTS][3];
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++)
                along[c][0] = along_i.at(k, c), along[c][1] = along_j.at(k, c), along[c][2] = line[c][k];
            layer.unstretch_along(k, along);
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++)
#pragma unroll
                for (int d = 0; d < 3; d++) gradient[3 * c + d] = metric.derivative(along[c], d);
            layer.unstretch(k, gradient);
            const real scale = weight * GLL.weight[k] * metric.inverse_jacobian;
#if COMPONENTS == 1
            real row[1][3];
            law.velocity(k, gradient, scale, row[0]);
#else
            Stress s = law.stress(k, gradient, scale);
            mechanisms.relax(k, element, place, gradient, scale, s);
            real row[3][3] = {{s.xx, s.xy, s.xz}, {s.xy, s.yy, s.yz}, {s.xz, s.yz, s.zz}};
#if GRAVITY
            const Point u = displacement[point[k]];  // loaded again: few registers remain
            const real own_weight = weight * GLL.weight[k];
            gravity.add(k, gradient, u.x, u.y, u.z, own_weight, own_weight / metric.inverse_jacobian, row);
#endif
#endif
            layer.stretch(k, row);
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) {
                along_i.at(k, c) = metric.flux(row[c], 0), along_j.at(k, c) = metric.flux(row[c], 1);
                line[c][k] = metric.flux(row[c], 2);
            }
            along_i.store(k), along_j.store(k);
        }
    }
    __syncthreads();
    mechanisms.finish(thread);
#pragma unroll
    for (int round = 0; round < ROUNDS; round++)
        if (task[round] != NO_TASK) {
            if (ALIGNED)
                integrate_apart(first->value + task[round], second->value + task[round]);
            else
                integrate(first->value + task[round], second->value + task[round]);
        }
    __syncthreads();
    if (works) {
        differentiate_line<true>(line);
        PackedLine along_i(first + start), along_j(second + start);
#pragma unroll
        for (int k = 0; k < N; k++) {
            along_i.load(k);
            if (ALIGNED) along_j.load(k);
            real along[COMPONENTS][3], force[COMPONENTS];
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++)
                along[c][0] = along_i.at(k, c), along[c][1] = ALIGNED ? along_j.at(k, c) : real(0), along[c][2] = line[c][k];
            layer.release(k, along, force);
#pragma unroll
            for (int c = 0; c < COMPONENTS; c++) force[c] = gravity.force(k, c) - force[c];
#if COMPONENTS == 3
            if (ROTATED) rotate(force[0], force[1], force[2], 3 - first_axis);
#endif
            add(momentum + point[k], force, k > 0 && k < DEGREE && point[k] >= shared);
        }
    }
}
