// The step of blocks of elements: see element_kernels.py. A warp computes one quantity of all elements, a lane all
// modes of one quantity of one element, in registers; quantities are exchanged through shared memory.
//
// LANES, QUANTITIES, which are STRESSES and VELOCITIES, and LAW, FACE_NUMBERS: values of an elastic law and of a face;
// COLUMN: values from row to row of traces in shared memory; WORKERS: warps that process faces.
// ORDER, ANISOTROPIC; LAYER: in an absorbing layer, with the gains of its memory variables from GAINS on, and JUMPS, with
// gains, of anisotropic elements, DECAY and DAMPING; MIXED: SLOWER, FASTER if some neighbors step half, or twice as often;
// BLOCKS: minimum per multiprocessor; SLOPE_ROWS, FACES (2 or 4): rows of derivatives, and faces, in shared memory at the
// same time; AT_ONCE: turns of the work on faces whose coefficients a thread reads in one pass. MECHANISMS: of
// attenuation, with coefficients from WEIGHTS on, and stresses by the faces in shared memory from FACE_STRESSES on.

#include "reference.cuh"
#include "faces.cuh"
#include "hopper.cuh"
#include "laws.cuh"
#include "unrolled.cuh"

typedef REAL real;

#if MECHANISMS
#include "relaxation.cuh"
#endif

constexpr int THREADS = LANES * QUANTITIES;
constexpr int MODES = Reference::modes, FACE = Reference::face_modes, WIDTH = (FACE + 3) / 4 * 4;
constexpr int SLOT = VELOCITIES * WIDTH;
constexpr int ROWS = FACE <= 4 ? 4 : FACE <= 8 ? 8 : FACE <= 16 ? 16 : 32;  // lanes of a trace at a face
constexpr int SIDE_BY_SIDE = LANES / ROWS;  // traces of a warp
constexpr int TURNS = ROWS * FACES / WORKERS;
constexpr int BATCH = TURNS < AT_ONCE ? TURNS : AT_ONCE;

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

// Element and face of a turn in which a warp and its lanes process faces, and the mode on it.
struct Turn {
    int element, face, row;

    __device__ __forceinline__ Turn(int turn) {
        const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES, pair = warp + WORKERS * turn;
        row = lane % ROWS;
        element = pair % ROWS + lane / ROWS * ROWS;
        face = pair / ROWS;
    }

    // Quantity 0 in shared memory; the others follow at FACE * COLUMN.
    __device__ __forceinline__ int column() const {
        return (face * QUANTITIES * FACE + (row < FACE ? row : 0)) * COLUMN + element;
    }
};

// Coefficient of an element of this block.
__device__ __forceinline__ real number_of(const Fields& f, int number, int element) {
    return f.elastic[(static_cast<long long>(f.place) * LAW + number) * LANES + element];
}

// Apply the elastic law of the faces to the difference of received and stored traces, into shared memory. stretched : the
// part that counts for memory variables.
template <int first_face, bool stretched = false>
__device__ __forceinline__ void load_jumps(const Fields& f, real* shared) {
    if (threadIdx.x >= WORKERS * LANES) return;
    const int before = f.count - 1;
    int from[TURNS];  // slots; with other clusters twice that and the parity to read
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        const Turn t(turn);
        const int face = (f.block * LANES + t.element) * 4 + first_face + t.face;
        from[turn] = f.neighbor[face];
#if MIXED
        const int link = f.second[face];
        if ((link & 3) == SLOWER && (before & 1)) from[turn] = link >> 2;
        from[turn] = 2 * from[turn] + (((link & 3) == SLOWER ? before >> 1 : before) & 1);
#endif
    }
#pragma unroll
    for (int batch = 0; batch < TURNS; batch += BATCH) {
        real jump[BATCH][3];
        Face numbers[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const Turn t(batch + i);
            const int face = (f.block * LANES + t.element) * 4 + first_face + t.face, row = t.row < FACE ? t.row : 0;
#if MIXED
            const real* const sent = (from[batch + i] & 1 ? f.odd : f.even) + static_cast<long long>(from[batch + i] >> 1) * SLOT + row;
#else
            const real* const sent = (before & 1 ? f.odd : f.even) + static_cast<long long>(from[batch + i]) * SLOT + row;
#endif
            const real* const kept = f.own + static_cast<long long>(face) * SLOT + row;
#pragma unroll
            for (int c = 0; c < 3; c++) jump[i][c] = sent[c * WIDTH] - kept[c * WIDTH];
            const int own_face = (f.place * LANES + t.element) * 4 + first_face + t.face;
            numbers[i].load(f.faces + static_cast<long long>(own_face) * FACE_NUMBERS);
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const Turn t(batch + i);
#if LAYER
            if constexpr (stretched) {
#if ANISOTROPIC
                const int matrix = JUMPS + (first_face + t.face) * 3 * QUANTITIES;
                const real* const gains =
                    f.elastic + (static_cast<long long>(f.place) * LAW + matrix) * LANES + t.element;
#else
                const real gains[3] = {
                    number_of(f, GAINS, t.element), number_of(f, GAINS + 1, t.element), number_of(f, GAINS + 2, t.element)};
#endif
                if (t.row < FACE)
                    numbers[i].stretched_jump(
                        jump[i][0], jump[i][1], jump[i][2], gains, shared + t.column(), FACE * COLUMN);
                continue;
            }
#endif
            if (t.row < FACE)
                numbers[i].jump(jump[i][0], jump[i][1], jump[i][2], shared + t.column(), FACE * COLUMN);
        }
    }
}

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

// Compute Taylor term `level` + 1 from the term `level` in x: next[r] for r < B(level + 1), SLOPE_ROWS at a time. psi,
// gains, decay : in a layer, memory variables that the first term updates and contains.
template <int level, int count>
__device__ __forceinline__ void next_term(
    real (&next)[Reference::B1], const real (&x)[count], const Law& law, real* shared
#if LAYER
    , real (&psi)[Reference::B1], const Law::Gains& gains, real decay
#endif
)
{
    constexpr int COUNT = Reference::level[level + 1], BEFORE = Reference::level[level];
    unrolled<0, (COUNT + SLOPE_ROWS - 1) / SLOPE_ROWS>([&](auto part) {
        constexpr int first = decltype(part)::value * SLOPE_ROWS, end = first + SLOPE_ROWS < COUNT ? first + SLOPE_ROWS : COUNT;
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
        for (int r = first; r < end; r++) {
#if LAYER
            if constexpr (level == 0) {
                real slower;
                next[r] = law.rate(shared, (r - first) * LANES, gains, slower);
                psi[r] = decay * (psi[r] - slower), next[r] += psi[r];
                continue;
            }
#endif
            next[r] = law.rate(shared, (r - first) * LANES);
        }
        __syncthreads();
    });
}

#if LAYER
#define PSI_ARGUMENTS , psi, gains, decay
#else
#define PSI_ARGUMENTS
#endif
#if MECHANISMS
#define RELAXING_ARGUMENT , relaxing
#else
#define RELAXING_ARGUMENT
#endif

// Taylor terms from `level` + 1: total : Q with all of them, written to `to` as soon as they are complete; mean, half :
// averages over the step and its first half.
template <int level, int count>
__device__ __forceinline__ void predict(
    const real (&term)[count], real (&total)[Reference::B1], real (&mean)[MODES], real (&half)[Reference::B1],
    const Law& law, real* to, real* shared
#if LAYER
    , real (&psi)[Reference::B1], const Law::Gains& gains, real decay
#endif
#if MECHANISMS
    , Relaxation<real>& relaxing
#endif
)
{
    if constexpr (level + 1 < ORDER) {
        constexpr int COUNT = Reference::level[level + 1], BEYOND = Reference::level[level + 2];
        real next[Reference::B1];
        next_term<level>(next, term, law, shared PSI_ARGUMENTS);
#if MECHANISMS
        if (threadIdx.x / LANES < STRESSES) {
#pragma unroll
            for (int r = 0; r < COUNT; r++)
                shared[threadIdx.x / LANES * KEPT + r * LANES + threadIdx.x % LANES] = next[r];
        }
        __syncthreads();
        if (threadIdx.x / LANES < STRESSES) relaxing.relax<level + 1>(next, shared);
        __syncthreads();
#endif
#pragma unroll
        for (int r = 0; r < COUNT; r++) {
            total[r] = (level == 0 ? mean[r] : total[r]) + next[r];
#if MIXED == FASTER
            half[r] = (level == 0 ? mean[r] : half[r]) + real(1.0 / (2 << level) / (level + 2)) * next[r];
#endif
            mean[r] += real(1.0 / (level + 2)) * next[r];
        }
#pragma unroll
        for (int r = BEYOND; r < COUNT; r++) to[r * LANES] = total[r];  // no later term changes these
        predict<level + 1>(next, total, mean, half, law, to, shared PSI_ARGUMENTS RELAXING_ARGUMENT);
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

// Store and send traces of elements at FACES faces. early : those of the first half of the step, after the full step.
template <int first_face, bool early>
__device__ __forceinline__ void send(const Fields& f, const real* shared) {
    if (threadIdx.x >= WORKERS * LANES) return;
#pragma unroll
    for (int batch = 0; batch < TURNS; batch += BATCH) {
        Face numbers[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const Turn t(batch + i);
            const int own_face = (f.place * LANES + t.element) * 4 + first_face + t.face;
            numbers[i].load(f.faces + static_cast<long long>(own_face) * FACE_NUMBERS);
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const Turn t(batch + i);
            const int face = (f.block * LANES + t.element) * 4 + first_face + t.face;
            if (t.row >= WIDTH) continue;  // padding is also written: memory transfers entire sectors
            real kept[3], sent[3];
            numbers[i].sides(shared + t.column(), FACE * COLUMN, kept, sent);
            real* to = (f.count & 1 ? f.odd : f.even) + static_cast<long long>(face) * SLOT + t.row;
#if MIXED
            const int link = f.second[face], relation = link & 3;
#if MIXED == FASTER
            real* const further = (f.count & 1 ? f.odd : f.even) + static_cast<long long>(link >> 2) * SLOT + t.row;
            if (early) {
                if (relation == FASTER)
                    for (int c = 0; c < 3; c++) {
                        to[c * WIDTH] = sent[c];
                        further[c * WIDTH] = 2 * further[c * WIDTH] - sent[c];
                    }
                continue;
            }
            if (relation == FASTER) to = further;
#endif
            if (relation == SLOWER) {
                to = (f.count >> 1 & 1 ? f.odd : f.even) + static_cast<long long>(face) * SLOT + t.row;
                for (int c = 0; c < 3; c++) sent[c] = real(0.5) * sent[c] + (f.count & 1 ? to[c * WIDTH] : real(0));
            }
#endif
            real* const keep = f.own + static_cast<long long>(face) * SLOT + t.row;
#pragma unroll
            for (int c = 0; c < 3; c++) keep[c * WIDTH] = kept[c], to[c * WIDTH] = sent[c];
        }
    }
}

template <bool early>
__device__ __forceinline__ void send_all(const real (&mean)[MODES], const Fields& f, real* shared) {
    store_traces<0>(mean, shared);
    __syncthreads();
    send<0, early>(f, shared);
#if FACES == 2
    __syncthreads();
    store_traces<2>(mean, shared);
    __syncthreads();
    send<2, early>(f, shared);
#endif
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void step(
    real* coefficients, real* own, real* even, real* odd, const real* elastic, const real* faces, const int* neighbor,
    const int* second, const int* cluster, int kind_first, real* memory, real* relaxation, const real* recursion,
    int first, int tick, int pending)
{
    real* const shared = dynamic_shared<real>();
    const int block = first + blockIdx.x;
    const Fields f = {
        own, even, odd, elastic, faces, neighbor, second, block, block - kind_first, tick >> cluster[block]};
    real* const q = coefficients +
        (static_cast<long long>(block) * QUANTITIES + threadIdx.x / LANES) * MODES * LANES + threadIdx.x % LANES;
    real mean[MODES], total[Reference::B1], half[Reference::B1];
#if MECHANISMS
    const real* const rates = recursion + cluster[block] * (MECHANISMS * ORDER);
    load_relaxing(mean, q, f, pending, shared, shared + FACE_STRESSES);
    Relaxation<real> relaxing = load_relaxation(f, relaxation, rates, shared + FACE_STRESSES);
#else
    load_complete(mean, q, f, pending, shared);
#endif
    const real* const numbers = f.elastic + static_cast<long long>(f.place) * LAW * LANES + threadIdx.x % LANES;
#if LAYER
    const real damping = numbers[DAMPING * LANES], decay = numbers[DECAY * LANES];
#pragma unroll
    for (int k = 0; k < MODES; k++) mean[k] *= damping;
    real psi[Reference::B1];
    Law::Gains gains;
    real* const own_memory = memory +
        (static_cast<long long>(f.place) * QUANTITIES + threadIdx.x / LANES) * Reference::B1 * LANES + threadIdx.x % LANES;
    load_memory(psi, own_memory, f, pending, shared);
    Law::load_gains(gains, numbers + GAINS * LANES);
#endif
    const Law law(numbers);
#pragma unroll
    for (int k = Reference::B1; k < MODES; k++) q[k * LANES] = mean[k];  // no Taylor term changes these
    predict<0>(mean, total, mean, half, law, q, shared PSI_ARGUMENTS RELAXING_ARGUMENT);
#if LAYER
#pragma unroll
    for (int r = 0; r < Reference::B1; r++) own_memory[r * LANES] = psi[r];
#endif
    // Reading them again leaves registers to the terms.
#pragma unroll
    for (int k = Reference::B1; k < MODES; k++) mean[k] = q[k * LANES];
    send_all<false>(mean, f, shared);
#if MIXED == FASTER
    __syncthreads();
#pragma unroll
    for (int r = 0; r < Reference::B1; r++) mean[r] = half[r];
    send_all<true>(mean, f, shared);
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
    const long long within = threadIdx.x / LANES * MODES * LANES + threadIdx.x % LANES, size = QUANTITIES * MODES * LANES;
    real q[MODES];
#if MECHANISMS
    load_relaxing(q, coefficients + block * size + within, f, pending, shared, shared + FACE_STRESSES);
#else
    load_complete(q, coefficients + block * size + within, f, pending, shared);
#endif
#pragma unroll
    for (int k = 0; k < MODES; k++)
        out[(out_first + static_cast<long long>(blockIdx.x)) * size + within + k * LANES] = q[k];
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
    constexpr long long SIZE = QUANTITIES * Reference::B1 * LANES;
    const long long within = threadIdx.x / LANES * Reference::B1 * LANES + threadIdx.x % LANES;
    real psi[Reference::B1];
    load_memory(psi, memory + f.place * SIZE + within, f, pending, shared);
#pragma unroll
    for (int r = 0; r < Reference::B1; r++)
        out[(out_first + static_cast<long long>(blockIdx.x)) * SIZE + within + r * LANES] = psi[r];
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
    const real* const q = coefficients +
        (static_cast<long long>(block) * QUANTITIES + stress) * MODES * LANES + threadIdx.x % LANES;
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
