// The step of blocks of elements: see kernels.py. A warp computes one quantity of all elements, a lane all
// modes of one quantity of one element, in registers; quantities are exchanged through shared memory.
//
// LANES, QUANTITIES, which are STRESSES and VELOCITIES, and LAW, FACE_NUMBERS: values of an elastic law and of a face;
// COLUMN: values from row to row of traces in shared memory.
// ORDER, ANISOTROPIC; LAYER: in an absorbing layer, with the gains of its memory variables from GAINS on, and JUMPS, with
// gains, of anisotropic elements, DECAY and DAMPING; MIXED: SLOWER, FASTER if some neighbors step half, or twice as often;
// BLOCKS: minimum per multiprocessor; SLOPE_ROWS, FACES (2 or 4): rows of derivatives, and faces, in shared memory at the
// same time; MECHANISMS: of attenuation, with coefficients from WEIGHTS on, and stresses by the faces in shared memory from
// FACE_STRESSES on. SPLIT: a step is two kernels.

#include "reference.cuh"

constexpr int FACE = Reference::face_modes;

#include "faces.cuh"
#include "hopper.cuh"
#include "laws.cuh"
#include "unrolled.cuh"

typedef REAL real;

#if MECHANISMS
#include "relaxation.cuh"
typedef Relaxation<real> Relaxing;
#else
struct Relaxing {};
#endif

constexpr int THREADS = LANES * QUANTITIES;
constexpr int MODES = Reference::modes, WIDTH = (FACE + 3) / 4 * 4;
constexpr int SLOT = VELOCITIES * WIDTH;
constexpr bool SHORT_CODE = ORDER >= 6;  // loops instead of unrolled code: see the documentation

#if ANISOTROPIC
typedef AnyFace<real> Face;
typedef MatrixLaw<real> Law;
#else
typedef IsotropicFace<real> Face;
typedef AxisLaw<real> Law;
#endif

struct Fields {
    real *own, *even, *odd;
    const real *elastic, *faces;
    const int *neighbor, *second;
    int block, place;  // index of the block among all, and among those of its kind
    int count;         // steps of the block's cluster so far
};

#include "turns.cuh"

// Q += R_f F_f on FACES faces from shared memory.
template <int first_face, int count>
__device__ __forceinline__ void lift(real (&q)[count], const real* shared) {
    const real* const own = shared + threadIdx.x / LANES * FACE * COLUMN + threadIdx.x % LANES;
    constexpr int NEXT = QUANTITIES * FACE * COLUMN;
    unrolled<0, FACE>([&](auto index) {
        constexpr int m = decltype(index)::value;
        if constexpr (first_face == 0) {
            const real x = own[m * COLUMN], y = own[NEXT + m * COLUMN];
            add_row<Reference::Trace0, Reference::Odd, m>(q, x, x);
            add_row<Reference::Trace1, Reference::Odd, m>(q, y, y);
        }
        if constexpr (first_face + FACES == 4) {
            // The matrices of faces 2 and 3 are equal except for the sign of odd modes.
            const real x = own[(2 - first_face) * NEXT + m * COLUMN], y = own[(3 - first_face) * NEXT + m * COLUMN];
            add_row<Reference::Trace2, Reference::Odd, m>(q, x + y, x - y);
        }
    });
}

// Coefficients of a block, completed if a step is in progress.
__device__ __forceinline__ void load_complete(
    real (&q)[MODES], const real* from, const Fields& f, int pending, real* shared)
{
    if (pending) load_jumps<0>(f, shared);
#pragma unroll
    for (int k = 0; k < MODES; k++) q[k] = from[k * LANES];
    if (!pending) return;
    __syncthreads();
    lift<0>(q, shared);
#if FACES == 2
    __syncthreads();
    load_jumps<2>(f, shared);
    __syncthreads();
    lift<2>(q, shared);
#endif
    __syncthreads();
}

#if MECHANISMS
// As `load_complete`; writes the stresses by the faces to `jumps` in shared memory.
__device__ __forceinline__ void load_relaxing(
    real (&q)[MODES], const real* from, const Fields& f, int pending, real* shared, real* jumps)
{
#pragma unroll
    for (int k = 0; k < MODES; k++) q[k] = 0;
    if (pending) {
        load_jumps<0>(f, shared);
        __syncthreads();
        lift<0>(q, shared);
#if FACES == 2
        __syncthreads();
        load_jumps<2>(f, shared);
        __syncthreads();
        lift<2>(q, shared);
#endif
    }
    if (threadIdx.x / LANES < STRESSES) {
#pragma unroll
        for (int r = 0; r < Reference::B1; r++)
            jumps[threadIdx.x / LANES * KEPT + r * LANES + threadIdx.x % LANES] = q[r];
    }
#pragma unroll
    for (int k = 0; k < MODES; k++) q[k] += from[k * LANES];
    __syncthreads();
}

// Mechanisms of this thread's stress and element. array : memory variables of all blocks of the kind.
__device__ __forceinline__ Relaxation<real> load_relaxation(
    const Fields& f, const real* array, const real* rates, const real* jumps)
{
    const int stress = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const long long own = (static_cast<long long>(f.place) * MECHANISMS * STRESSES + stress) * KEPT + lane;
    const long long law = (static_cast<long long>(f.place) * LAW + WEIGHTS) * LANES + lane;
#if LAYER
    const real damping = number_of(f, DAMPING, lane);
#else
    const real damping = 1;
#endif
    return {const_cast<real*>(array) + own, f.elastic + law, rates, jumps, damping};
}
#endif

#if LAYER
// Memory variables with the jumps of the step in progress.
__device__ __forceinline__ void load_memory(
    real (&psi)[Reference::B1], const real* from, const Fields& f, int pending, real* shared)
{
#pragma unroll
    for (int r = 0; r < Reference::B1; r++) psi[r] = 0;
    if (pending) {
        load_jumps<0, true>(f, shared);
        __syncthreads();
        lift<0>(psi, shared);
#if FACES == 2
        __syncthreads();
        load_jumps<2, true>(f, shared);
        __syncthreads();
        lift<2>(psi, shared);
#endif
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < Reference::B1; r++) psi[r] = from[r * LANES] - psi[r];
}

#endif

// Compute Taylor term `level` + 1 from the term `level` in x: next[r] for r < B(level + 1), SLOPE_ROWS at a time.
// rate(r, row) : of the quantity, from row `row` of the derivatives in shared memory.
template <int level, int count, class Rate>
__device__ __forceinline__ void next_term(
    real (&next)[Reference::B1], const real (&x)[count], const Law& law, real* shared, const Rate& rate)
{
    constexpr int COUNT = Reference::level[level + 1], BEFORE = Reference::level[level];
    unrolled<0, (COUNT + SLOPE_ROWS - 1) / SLOPE_ROWS>([&](auto part) {
        constexpr int first = decltype(part)::value * SLOPE_ROWS;
        constexpr int end = first + SLOPE_ROWS < COUNT ? first + SLOPE_ROWS : COUNT;
        unrolled<first, end>([&](auto row) {
            constexpr int r = decltype(row)::value;
            const real derivatives[3] = {
                row_sum<Reference::Derivative0, r, BEFORE, level + 1>(x),
                row_sum<Reference::Derivative1, r, BEFORE, level + 1>(x),
                row_sum<Reference::Derivative2, r, BEFORE, level + 1>(x)};
            law.write(derivatives, shared, (r - first) * LANES);
        });
        __syncthreads();
#pragma unroll
        for (int r = first; r < end; r++) next[r] = rate(r, (r - first) * LANES);
        __syncthreads();
    });
}

// Subtract relaxation from the Taylor term `term`.
template <int term>
__device__ __forceinline__ void relax(real (&next)[Reference::B1], Relaxing& relaxing, real* shared) {
#if MECHANISMS
    if (threadIdx.x / LANES < STRESSES) {
#pragma unroll
        for (int r = 0; r < Reference::level[term]; r++)
            shared[threadIdx.x / LANES * KEPT + r * LANES + threadIdx.x % LANES] = next[r];
    }
    __syncthreads();
    if (threadIdx.x / LANES < STRESSES) relaxing.template relax<term>(next, shared);
    __syncthreads();
#endif
}

// The first Taylor term. numbers, memory : of this thread.
__device__ __forceinline__ void first_term(
    real (&next)[Reference::B1], const real (&mean)[MODES], const Law& law, Relaxing& relaxing, const real* numbers,
    real* memory, const Fields& f, int pending, real* shared)
{
#if LAYER
    real psi[Reference::B1];
    Law::Gains gains;
    const real decay = numbers[DECAY * LANES];
    load_memory(psi, memory, f, pending, shared);
    Law::load_gains(gains, numbers + GAINS * LANES);
    next_term<0>(next, mean, law, shared, [&](int r, int row) {
        real slower;
        const real rate = law.rate(shared, row, gains, slower);
        psi[r] = decay * (psi[r] - slower);
        return rate + psi[r];
    });
#pragma unroll
    for (int r = 0; r < Reference::B1; r++) memory[r * LANES] = psi[r];
#else
    next_term<0>(next, mean, law, shared, [&](int, int row) { return law.rate(shared, row); });
#endif
    relax<1>(next, relaxing, shared);
}

// Averages over a step and its first half.
struct Averages {
    real mean[MODES], half[Reference::B1];
};

// Add the Taylor term `level` + 1 to the averages and to total, Q with all terms, which is written to `to` as soon as
// it is complete; and further terms.
template <int level>
__device__ __forceinline__ void predict(
    const real (&term)[Reference::B1], real (&total)[Reference::B1], Averages& over, const Law& law, Relaxing& relaxing,
    real* to, real* shared)
{
    constexpr int COUNT = Reference::level[level + 1], BEYOND = Reference::level[level + 2];
#pragma unroll
    for (int r = 0; r < COUNT; r++) {
        total[r] = (level == 0 ? over.mean[r] : total[r]) + term[r];
#if MIXED == FASTER
        over.half[r] = (level == 0 ? over.mean[r] : over.half[r]) + real(1.0 / (2 << level) / (level + 2)) * term[r];
#endif
        over.mean[r] += real(1.0 / (level + 2)) * term[r];
    }
#pragma unroll
    for (int r = BEYOND; r < COUNT; r++) to[r * LANES] = total[r];  // no later term changes these
    if constexpr (level + 2 < ORDER) {
        real next[Reference::B1];
        next_term<level + 1>(next, term, law, shared, [&](int, int row) { return law.rate(shared, row); });
        relax<level + 2>(next, relaxing, shared);
        predict<level + 1>(next, total, over, law, relaxing, to, shared);
    }
}

// Write averages on FACES faces to shared memory.
template <int first_face>
__device__ __forceinline__ void store_traces(const real (&mean)[MODES], real* shared) {
    real* const own = shared + threadIdx.x / LANES * FACE * COLUMN + threadIdx.x % LANES;
    constexpr int NEXT = QUANTITIES * FACE * COLUMN;
    unrolled<0, FACE>([&](auto index) {
        constexpr int m = decltype(index)::value;
        if constexpr (first_face == 0) {
            own[m * COLUMN] = row_sum<Reference::Trace0, m, MODES, 1>(mean);
            own[NEXT + m * COLUMN] = row_sum<Reference::Trace1, m, MODES, 1>(mean);
        }
        if constexpr (first_face + FACES == 4) {
            const real even = parity_sum<Reference::Trace2, Reference::Odd, m, 0>(mean);
            const real odd = parity_sum<Reference::Trace2, Reference::Odd, m, 1>(mean);
            own[(2 - first_face) * NEXT + m * COLUMN] = even + odd;
            own[(3 - first_face) * NEXT + m * COLUMN] = even - odd;
        }
    });
}

// Index of this thread's first value in an array of `count` values per quantity and element.
__device__ __forceinline__ long long own_index(int place, int count) {
    return (static_cast<long long>(place) * QUANTITIES + threadIdx.x / LANES) * count * LANES + threadIdx.x % LANES;
}

// All further terms, and the traces. term : the first one; q : of this thread.
__device__ __forceinline__ void finish(
    const real (&term)[Reference::B1], Averages& over, const Law& law, Relaxing& relaxing, real* q, const Fields& f,
    real* shared)
{
    real total[Reference::B1];
    predict<0>(term, total, over, law, relaxing, q, shared);
    // Reading them again leaves registers to the terms.
#pragma unroll
    for (int k = Reference::B1; k < MODES; k++) over.mean[k] = q[k * LANES];
    constexpr int AT_ONCE = SHORT_CODE ? 1 : 2;
#pragma unroll AT_ONCE
    for (int early = 0; early < (MIXED == FASTER ? 2 : 1); early++) {
        if (early) {
            __syncthreads();
#pragma unroll
            for (int r = 0; r < Reference::B1; r++) over.mean[r] = over.half[r];
        }
        store_traces<0>(over.mean, shared);
        __syncthreads();
        send<0>(f, shared, early);
#if FACES == 2
        __syncthreads();
        store_traces<2>(over.mean, shared);
        __syncthreads();
        send<2>(f, shared, early);
#endif
    }
}

// Damp all quantities in an absorbing layer.
__device__ __forceinline__ void damp(real (&q)[MODES], const real* numbers) {
#if LAYER
#pragma unroll
    for (int k = 0; k < MODES; k++) q[k] *= numbers[DAMPING * LANES];
#endif
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void step(
    real* coefficients, real* own, real* even, real* odd, const real* elastic, const real* faces, const int* neighbor,
    const int* second, const int* cluster, int kind_first, real* memory, real* relaxation, const real* recursion,
    int first, int tick, int pending)
{
#if !SPLIT
    real* const shared = dynamic_shared<real>();
    const int block = first + blockIdx.x;
    const Fields f = {
        own, even, odd, elastic, faces, neighbor, second, block, block - kind_first, tick >> cluster[block]};
    real* const q = coefficients + own_index(block, MODES);
    const real* const numbers = elastic + static_cast<long long>(f.place) * LAW * LANES + threadIdx.x % LANES;
    Averages over;
    real term[Reference::B1];
#if MECHANISMS
    const real* const rates = recursion + cluster[block] * (MECHANISMS * ORDER);
    load_relaxing(over.mean, q, f, pending, shared, shared + FACE_STRESSES);
    Relaxing relaxing = load_relaxation(f, relaxation, rates, shared + FACE_STRESSES);
#else
    load_complete(over.mean, q, f, pending, shared);
    Relaxing relaxing;
#endif
    damp(over.mean, numbers);
#pragma unroll
    for (int k = Reference::B1; k < MODES; k++) q[k * LANES] = over.mean[k];  // no Taylor term changes these
    const Law law(numbers);
    real* const psi = memory + own_index(f.place, Reference::B1);
    first_term(term, over.mean, law, relaxing, numbers, psi, f, pending, shared);
    finish(term, over, law, relaxing, q, f, shared);
#endif
}

// `step` in two kernels, whose code is short enough for the instruction cache. terms : the first Taylor term.
extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void begin_step(
    real* coefficients, real* own, real* even, real* odd, const real* elastic, const real* faces, const int* neighbor,
    const int* second, const int* cluster, int kind_first, real* memory, real* relaxation, const real* recursion,
    int first, int tick, int pending, real* terms)
{
#if SPLIT
    real* const shared = dynamic_shared<real>();
    const int block = first + blockIdx.x;
    const Fields f = {
        own, even, odd, elastic, faces, neighbor, second, block, block - kind_first, tick >> cluster[block]};
    real* const q = coefficients + own_index(block, MODES);
    const real* const numbers = elastic + static_cast<long long>(f.place) * LAW * LANES + threadIdx.x % LANES;
    real mean[MODES], term[Reference::B1];
    Relaxing relaxing;
    load_complete(mean, q, f, pending, shared);
    damp(mean, numbers);
#pragma unroll
    for (int k = 0; k < MODES; k++) q[k * LANES] = mean[k];
    real* const psi = memory + own_index(f.place, Reference::B1);
    first_term(term, mean, Law(numbers), relaxing, numbers, psi, f, pending, shared);
#pragma unroll
    for (int r = 0; r < Reference::B1; r++) terms[own_index(blockIdx.x, Reference::B1) + r * LANES] = term[r];
#endif
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void finish_step(
    real* coefficients, real* own, real* even, real* odd, const real* elastic, const real* faces, const int* neighbor,
    const int* second, const int* cluster, int kind_first, real* memory, real* relaxation, const real* recursion,
    int first, int tick, int pending, real* terms)
{
#if SPLIT
    real* const shared = dynamic_shared<real>();
    const int block = first + blockIdx.x;
    const Fields f = {
        own, even, odd, elastic, faces, neighbor, second, block, block - kind_first, tick >> cluster[block]};
    real* const q = coefficients + own_index(block, MODES);
    const real* const numbers = elastic + static_cast<long long>(f.place) * LAW * LANES + threadIdx.x % LANES;
    Averages over;
    real term[Reference::B1];
    Relaxing relaxing;
#pragma unroll
    for (int r = 0; r < Reference::B1; r++) {
        over.mean[r] = q[r * LANES];
        term[r] = terms[own_index(blockIdx.x, Reference::B1) + r * LANES];
    }
    finish(term, over, Law(numbers), relaxing, q, f, shared);
#endif
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void complete(
    const real* coefficients, real* own, real* even, real* odd, const real* elastic, const real* faces,
    const int* neighbor, const int* second, const int* cluster, int kind_first, const int* blocks, int tick,
    int pending, real* out, int out_first)
{
    real* const shared = dynamic_shared<real>();
    const int block = blocks[blockIdx.x];
    const Fields f = {
        own, even, odd, elastic, faces, neighbor, second, block, block - kind_first, tick >> cluster[block]};
    const real* const from = coefficients + own_index(block, MODES);
    real* const to = out + own_index(out_first + blockIdx.x, MODES);
    real q[MODES];
#if MECHANISMS
    load_relaxing(q, from, f, pending, shared, shared + FACE_STRESSES);
#else
    load_complete(q, from, f, pending, shared);
#endif
#pragma unroll
    for (int k = 0; k < MODES; k++) to[k * LANES] = q[k];
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void complete_memory(
    const real* coefficients, real* own, real* even, real* odd, const real* elastic, const real* faces,
    const int* neighbor, const int* second, const int* cluster, int kind_first, const real* memory, const int* blocks,
    int tick, int pending, real* out, int out_first)
{
#if LAYER
    real* const shared = dynamic_shared<real>();
    const int block = blocks[blockIdx.x];
    const Fields f = {
        own, even, odd, elastic, faces, neighbor, second, block, block - kind_first, tick >> cluster[block]};
    real* const to = out + own_index(out_first + blockIdx.x, Reference::B1);
    real psi[Reference::B1];
    load_memory(psi, memory + own_index(f.place, Reference::B1), f, pending, shared);
#pragma unroll
    for (int r = 0; r < Reference::B1; r++) to[r * LANES] = psi[r];
#endif
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void complete_relaxation(
    const real* coefficients, real* own, real* even, real* odd, const real* elastic, const real* faces,
    const int* neighbor, const int* second, const int* cluster, int kind_first, const real* relaxation,
    const int* blocks, int tick, int pending, real* out, int out_first)
{
#if MECHANISMS
    real* const shared = dynamic_shared<real>();
    const int block = blocks[blockIdx.x], stress = threadIdx.x / LANES;
    const Fields f = {
        own, even, odd, elastic, faces, neighbor, second, block, block - kind_first, tick >> cluster[block]};
    const real* const q = coefficients + own_index(block, MODES);
    real ignored[MODES];
    load_relaxing(ignored, q, f, pending, shared, shared + FACE_STRESSES);
    if (stress >= STRESSES) return;
    const Relaxation<real> relaxing = load_relaxation(f, relaxation, nullptr, shared + FACE_STRESSES);
    for (int n = 0; n < MECHANISMS; n++)
        for (int r = 0; r < Reference::B1; r++) {
            real s, p;
            relaxing.drive(shared + FACE_STRESSES, r, s, p);
            const long long row = (out_first + static_cast<long long>(blockIdx.x)) * MECHANISMS + n;
            out[(row * STRESSES + stress) * KEPT + r * LANES + threadIdx.x % LANES] = relaxing.complete(n, r, s, p);
        }
#endif
}
