// Work on the faces of a block of elements, included in element.cu: the contributions of received traces, and the traces
// that elements store and send. It consists of turns, in each of which a thread processes four functions of one face.
#pragma once

constexpr int FOURS = WIDTH / 4;  // groups of functions of a face, whose traces a thread processes together
constexpr int TASKS = LANES * FACES * FOURS;
constexpr int TURNS = (TASKS + THREADS - 1) / THREADS;
constexpr int WORKERS = (TASKS + TURNS * LANES - 1) / (TURNS * LANES);  // warps that process faces
constexpr int UNROLLED = SHORT_CODE ? 1 : TURNS;

// Element and face of a turn in which threads process faces, and the first of four functions on it.
struct Turn {
    int element, face, row;
    bool inside;

    __device__ __forceinline__ Turn(int turn) {
        const int task = threadIdx.x + WORKERS * LANES * turn;
        inside = TASKS % (WORKERS * LANES) == 0 || task < TASKS;
        const int pair = (inside ? task : 0) / FOURS;
        row = (inside ? task : 0) % FOURS * 4;
        element = pair / FACES;
        face = pair % FACES;
    }

    // Quantity 0 in shared memory; the others follow at FACE * COLUMN.
    __device__ __forceinline__ int column() const { return (face * QUANTITIES * FACE + row) * COLUMN + element; }

    // Functions of this turn.
    __device__ __forceinline__ int count() const { return WIDTH == FACE || row + 4 <= FACE ? 4 : FACE - row; }
};

__device__ __forceinline__ void load_four(real (&values)[4], const real* from) {
    const Vector4<real> v = *reinterpret_cast<const Vector4<real>*>(from);
    values[0] = v.x, values[1] = v.y, values[2] = v.z, values[3] = v.w;
}

__device__ __forceinline__ void store_four(real* to, const real (&values)[4]) {
    *reinterpret_cast<Vector4<real>*>(to) = {values[0], values[1], values[2], values[3]};
}

// Coefficient of an element of this block.
__device__ __forceinline__ real number_of(const Fields& f, int number, int element) {
    return f.elastic[(static_cast<long long>(f.place) * LAW + number) * LANES + element];
}

// Index of the face of a turn among those of all blocks.
template <int first_face>
__device__ __forceinline__ int face_of(const Fields& f, const Turn& t) {
    return (f.block * LANES + t.element) * 4 + first_face + t.face;
}

template <int first_face>
__device__ __forceinline__ const real* numbers_of(const Fields& f, const Turn& t) {
    const int face = (f.place * LANES + t.element) * 4 + first_face + t.face;
    return f.faces + static_cast<long long>(face) * FACE_NUMBERS;
}

// Twice the slot of the trace that a face receives, and the parity of its array.
template <int first_face>
__device__ __forceinline__ int received(const Fields& f, const Turn& t) {
    const int face = face_of<first_face>(f, t), before = f.count - 1;
    int slot = f.neighbor[face], steps = before;
#if MIXED
    const int link = f.second[face];
    if ((link & 3) == SLOWER) {
        if (before & 1) slot = link >> 2;
        steps = before >> 1;
    }
#endif
    return 2 * slot + (steps & 1);
}

// Apply the elastic law of the faces to the difference of received and stored traces, into shared memory. stretched : the
// part that counts for memory variables.
template <int first_face, bool stretched = false>
__device__ __forceinline__ void load_jumps(const Fields& f, real* shared) {
    if (threadIdx.x >= WORKERS * LANES) return;
    int from = received<first_face>(f, Turn(0));
#pragma unroll UNROLLED
    for (int turn = 0; turn < TURNS; turn++) {
        const Turn t(turn);
        if (!t.inside) return;
        const int parity = (MIXED ? from : f.count + 1) & 1;
        const real* const sent = (parity ? f.odd : f.even) + static_cast<long long>(from >> 1) * SLOT + t.row;
        const real* const kept = f.own + static_cast<long long>(face_of<first_face>(f, t)) * SLOT + t.row;
        real jump[3][4];
#pragma unroll
        for (int c = 0; c < 3; c++) {
            real own[4];
            load_four(jump[c], sent + c * WIDTH);
            load_four(own, kept + c * WIDTH);
#pragma unroll
            for (int j = 0; j < 4; j++) jump[c][j] -= own[j];
        }
        Face numbers;
        numbers.load(numbers_of<first_face>(f, t));
        if (turn + 1 < TURNS) from = received<first_face>(f, Turn(turn + 1));
#if LAYER
        if constexpr (stretched) {
#if ANISOTROPIC
            const int matrix = JUMPS + (first_face + t.face) * 3 * QUANTITIES;
            const real* const gains = f.elastic + (static_cast<long long>(f.place) * LAW + matrix) * LANES + t.element;
#else
            const real gains[3] = {
                number_of(f, GAINS, t.element), number_of(f, GAINS + 1, t.element), number_of(f, GAINS + 2, t.element)};
#endif
            numbers.stretched_jump(jump, gains, shared + t.column(), t.count());
            continue;
        }
#endif
        numbers.jump(jump, shared + t.column(), t.count());
    }
}

// Store and send traces of elements at FACES faces. early : those of the first half of the step, after the full step.
template <int first_face>
__device__ __forceinline__ void send(const Fields& f, const real* shared, bool early) {
    if (threadIdx.x >= WORKERS * LANES) return;
#pragma unroll UNROLLED
    for (int turn = 0; turn < TURNS; turn++) {
        const Turn t(turn);
        if (!t.inside) return;
        const int face = face_of<first_face>(f, t);
        Face numbers;
        numbers.load(numbers_of<first_face>(f, t));
        // Padding is also written: memory transfers entire sectors.
        real kept[3][4], sent[3][4];
        numbers.sides(shared + t.column(), t.count(), kept, sent);
        real* to = (f.count & 1 ? f.odd : f.even) + static_cast<long long>(face) * SLOT + t.row;
#if MIXED
        const int link = f.second[face], relation = link & 3;
#if MIXED == FASTER
        real* const further = (f.count & 1 ? f.odd : f.even) + static_cast<long long>(link >> 2) * SLOT + t.row;
        if (early) {
            if (relation == FASTER)
#pragma unroll
                for (int c = 0; c < 3; c++) {
                    real both[4];
                    load_four(both, further + c * WIDTH);
#pragma unroll
                    for (int j = 0; j < 4; j++) both[j] = 2 * both[j] - sent[c][j];
                    store_four(to + c * WIDTH, sent[c]);
                    store_four(further + c * WIDTH, both);
                }
            continue;
        }
        if (relation == FASTER) to = further;
#endif
        if (relation == SLOWER) {
            to = (f.count >> 1 & 1 ? f.odd : f.even) + static_cast<long long>(face) * SLOT + t.row;
#pragma unroll
            for (int c = 0; c < 3; c++) {
                real before[4] = {0, 0, 0, 0};
                if (f.count & 1) load_four(before, to + c * WIDTH);
#pragma unroll
                for (int j = 0; j < 4; j++) sent[c][j] = real(0.5) * sent[c][j] + before[j];
            }
        }
#endif
        real* const keep = f.own + static_cast<long long>(face) * SLOT + t.row;
#pragma unroll
        for (int c = 0; c < 3; c++) {
            store_four(keep + c * WIDTH, kept[c]);
            store_four(to + c * WIDTH, sent[c]);
        }
    }
}
