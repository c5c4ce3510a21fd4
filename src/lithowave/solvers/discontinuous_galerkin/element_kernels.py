r"""Element updates on the CPU: the readable specification.

Within an element Q(x, t) = sum of Q_k(t) phi_k(x): stress and velocity, nine quantities (`materials.STRESS`, then v).
A step of length T is (Käser & Dumbser 2006, GJI 166, 855-877, in strong form)

.. math::
    D^0 = Q, \qquad D^{d+1} = \frac{T}{d+1} \sum_c A_c K_c D^d, \qquad
    Q \leftarrow Q + \sum_{d \ge 1} D^d + \sum_f R_f F_f \Big( \sum_d \tfrac{1}{d+1} R_f^T D^d \Big)

The Taylor terms D^d are the predictor (Cauchy-Kovalewski), K_c and R_f the matrices of `reference`, A_c the elastic law
(`riemann.elastic_matrices`), and F_f the difference between the flux at the face and the element's own, from the
averages of both sides over the step. `riemann` has the formulas: each element stores u and sends w.

`step` performs the second half of one step and the first half of the next: it adds the contributions of the faces,
which completes Q, and predicts. Between two calls Q lacks these contributions; `complete` returns blocks with them.

In an absorbing layer, D^0 is damped, and memory variables of its derivatives and jumps are added to D^1; see `layer`.
With attenuation, all D^d contain the relaxation of stresses, and the contributions of the faces are also added to its
memory variables; see `relaxation`.

To neighbors that step half as often, an element sends the mean of its two steps, and they send both halves of theirs
(`element_layout`).

All arrays have `lanes` elements as their fastest index.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit
from lithowave.backends.lane_rows import address, lane_rows, prefetch
from lithowave.backends.loops import FAST, U, row, shared_row
from lithowave.backends.rounding import flush_denormals, restore_rounding
from lithowave.backends.vector_rows import matrix_rows
from lithowave.solvers.discontinuous_galerkin.element_laws import make_elastic_law, make_face_laws, make_layer
from lithowave.solvers.discontinuous_galerkin.element_layout import ALIKE, FASTER, LANES, SLOWER, device_layout
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, STRESSES, VELOCITIES
from lithowave.solvers.discontinuous_galerkin.reference import make_reference
from lithowave.solvers.discontinuous_galerkin.relaxation_kernels import make_relaxation, work_values
from lithowave.solvers.discontinuous_galerkin.riemann import FACE_NUMBERS, law_numbers

Q = U(QUANTITIES)
TOGETHER = QUANTITIES  # quantities for which an entry of a matrix is loaded once
PIECES = 64  # of the blocks that threads process


@lru_cache
def make_predictor(
    order: int, anisotropic: bool, layer: bool, mechanisms: int, precision: str
) -> Callable[..., None]:
    """Return a function that adds Taylor terms to Q of a block and computes their means over a step and its half."""
    reference = make_reference(order)
    L = U(LANES[precision])
    W, MODES = Q * L, U(reference.count)
    mix = make_elastic_law(anisotropic, precision)
    damp, add_memory = make_layer(order, anisotropic, layer, precision)
    _, make_relaxing = make_relaxation(order, anisotropic, layer, mechanisms, precision)

    def make_level(d: int) -> Callable[..., None]:
        """Return a function for the Taylor terms from D^d to D^(d + 1), and all further ones."""
        if d == order - 1:

            @row
            def nothing(q, b, law, at, memory, place, relaxing, terms, slopes, mean, half, halves):
                pass

            return nothing
        deeper, relax = make_level(d + 1), make_relaxing(d + 1)
        rows, columns = reference.levels[d + 1], reference.levels[d]
        ROWS = U(rows)
        slope_0, slope_1, slope_2 = (
            matrix_rows(matrix[:rows, :columns], int(L), int(W), TOGETHER)
            for matrix in reference.derivatives
        )
        FIRST = layer and d == 0
        SPAN, GROUP, GROUPS = ROWS * W, U(TOGETHER) * L, U(QUANTITIES // TOGETHER)
        factor, of_mean, of_half = (
            np.dtype(np.float32 if precision == "single" else np.float64).type(value)
            for value in (1 / (d + 1), 1 / (d + 2), 0.5 ** (d + 1) / (d + 2))
        )

        @row
        def level(q, b, law, at, memory, place, relaxing, terms, slopes, mean, half, halves):
            for g in range(GROUPS):
                slope_0(slopes, g * GROUP, terms, g * GROUP)
                slope_1(slopes, SPAN + g * GROUP, terms, g * GROUP)
                slope_2(slopes, U(2) * SPAN + g * GROUP, terms, g * GROUP)
            for r in range(ROWS):
                mix(slopes, r * W, SPAN, terms, r * W, law, at, factor)
            if FIRST:
                add_memory(slopes, terms, law, at, memory, place)
            past, relaxing_place, work, rates = relaxing
            relax(terms, law, at, past, relaxing_place, work, rates)
            for n in range(SPAN):
                q[b + n] += terms[n]
                mean[n] += of_mean * terms[n]
            if halves:
                for n in range(SPAN):
                    half[n] += of_half * terms[n]
            deeper(q, b, law, at, memory, place, relaxing, terms, slopes, mean, half, halves)

        return level

    first = make_level(0)

    @row
    def predict(q, b, law, at, memory, place, relaxing, terms, slopes, mean, half, halves):
        damp(q, b, law, at)
        for n in range(MODES * W):
            terms[n] = q[b + n]
            mean[n] = q[b + n]
            half[n] = q[b + n]
        first(q, b, law, at, memory, place, relaxing, terms, slopes, mean, half, halves)

    return predict


@lru_cache
def make_faces(
    order: int, anisotropic: bool, layer: bool, precision: str
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return functions for the contributions of faces to a block, and for its sent traces."""
    reference = make_reference(order)
    lanes = LANES[precision]
    width = device_layout("cpu", precision).trace_width(reference.face_count)
    L, FACE, WIDTH = U(lanes), U(reference.face_count), U(width)
    SLOT, GROUP, GROUPS = U(VELOCITIES) * WIDTH, U(TOGETHER) * L, U(QUANTITIES // TOGETHER)
    NUMBERS = U(FACE_NUMBERS[anisotropic])
    gather, scatter, _ = lane_rows(lanes, int(FACE))
    SIZE = 4 if precision == "single" else 8
    LINE = U(64 // SIZE)  # values in a line of the cache
    sides, jumped, stretched = make_face_laws(order, anisotropic, precision)
    trace_0, trace_1, trace_2, trace_3 = (
        matrix_rows(matrix.T, lanes, QUANTITIES * lanes, TOGETHER)
        for matrix in reference.traces
    )
    lift_0, lift_1, lift_2, lift_3 = (
        matrix_rows(matrix, lanes, QUANTITIES * lanes, TOGETHER, adding=True)
        for matrix in reference.traces
    )

    change_0, change_1, change_2, change_3 = (
        matrix_rows(matrix[: reference.levels[1]], lanes, QUANTITIES * lanes, TOGETHER, adding=True)
        for matrix in reference.traces
    )

    @shared_row
    def lift_change(f, out, x):
        for g in range(GROUPS):
            if f == U(0):
                change_0(out, g * GROUP, x, g * GROUP)
            elif f == U(1):
                change_1(out, g * GROUP, x, g * GROUP)
            elif f == U(2):
                change_2(out, g * GROUP, x, g * GROUP)
            else:
                change_3(out, g * GROUP, x, g * GROUP)

    @shared_row
    def take_trace(f, out, x):
        for g in range(GROUPS):
            if f == U(0):
                trace_0(out, g * GROUP, x, g * GROUP)
            elif f == U(1):
                trace_1(out, g * GROUP, x, g * GROUP)
            elif f == U(2):
                trace_2(out, g * GROUP, x, g * GROUP)
            else:
                trace_3(out, g * GROUP, x, g * GROUP)

    @shared_row
    def lift(f, out, b, x):
        for g in range(GROUPS):
            if f == U(0):
                lift_0(out, b + g * GROUP, x, g * GROUP)
            elif f == U(1):
                lift_1(out, b + g * GROUP, x, g * GROUP)
            elif f == U(2):
                lift_2(out, b + g * GROUP, x, g * GROUP)
            else:
                lift_3(out, b + g * GROUP, x, g * GROUP)

    @row
    def received(face, even, odd, neighbor, second, before):
        """Return the address of the trace that a neighbor sent; before : steps of the cluster before the new one."""
        link = second[face]
        slot, parity = U(neighbor[face]), before & 1
        if link & 3 == SLOWER:
            slot = U(link >> 2) if parity else slot
            parity = (before >> 1) & 1
        return address(odd, slot * SLOT) if parity else address(even, slot * SLOT)

    @row
    def correct(
        q, b, block, following, own, even, odd, numbers, at, neighbor, second, count, jump, trace, law, law_at, change
    ):  # fmt: skip
        """Add the contributions of the faces; count : steps of the block's cluster so far, with the new one. change :
        of the memory variables of a layer. following : the next block, whose values are loaded into the cache."""
        places = np.empty(L, np.uint64)
        for f in range(U(4)):
            kept = (block * U(4) + f) * SLOT * L
            for w in range(L):
                places[w] = received((block * L + w) * U(4) + f, even, odd, neighbor, second, count - 1)
                ahead = received((following * L + w) * U(4) + f, even, odd, neighbor, second, count - 1)
                for n in range(0, SLOT, LINE):
                    prefetch(ahead + n * U(SIZE))
            for c in range(U(3)):
                gather(jump, c * FACE * L, places, c * WIDTH)
            for o in range(U(3) * FACE * L):
                jump[o] -= own[kept + o]
            jumped(jump, numbers, at + f * NUMBERS * L, trace)
            lift(f, q, b, trace)
            if layer:
                stretched(jump, numbers, at + f * NUMBERS * L, law, law_at, f, trace)
                lift_change(f, change, trace)

    @row
    def send(block, own, even, odd, numbers, at, second, count, mean, half, halves, jump, sent, trace):
        """Store and send the averages over the step that begins."""
        parity, slow_parity = count & 1, (count >> 1) & 1
        places, unused = np.empty(L, np.uint64), np.empty(SLOT, mean.dtype)
        for f in range(U(4)):
            kept = (block * U(4) + f) * SLOT * L
            if halves:
                take_trace(f, trace, half)
                sides(trace, numbers, at + f * NUMBERS * L, own, kept, jump)
            take_trace(f, trace, mean)
            sides(trace, numbers, at + f * NUMBERS * L, own, kept, sent)
            for w in range(L):
                face = (block * L + w) * U(4) + f
                places[w] = address(odd if parity else even, U(face) * SLOT)
                if second[face] & 3 != ALIKE:  # the scattered values are replaced below
                    places[w] = address(unused, U(0))
            for c in range(U(3)):
                scatter(sent, c * FACE * L, places, c * WIDTH)
            for w in range(L):
                face = (block * L + w) * U(4) + f
                link, slot = second[face], U(face) * SLOT
                relation = link & 3
                if relation == ALIKE:
                    continue
                target = odd if (slow_parity if relation == SLOWER else parity) else even
                further = U(link >> 2) * SLOT
                for c in range(U(3)):
                    for m in range(FACE):
                        value, o = sent[(c * FACE + m) * L + w], c * WIDTH + m
                        if relation == SLOWER:
                            value *= 0.5
                            target[slot + o] = value + target[slot + o] if parity else value
                        else:
                            early = jump[(c * FACE + m) * L + w]
                            target[slot + o] = early
                            target[further + o] = value + value - early

    return correct, send


@lru_cache
def make_step(order: int, anisotropic: bool, layer: bool, mechanisms: int, precision: str) -> Callable[..., None]:
    """Return `step` for blocks of this order, isotropic or anisotropic, in an absorbing layer or not, with a number of
    mechanisms of attenuation."""
    reference = make_reference(order)
    lanes, dtype = LANES[precision], np.float32 if precision == "single" else np.float64
    L, MODES, FACE, LEVEL = U(lanes), U(reference.count), U(reference.face_count), U(reference.levels[1])
    BLOCK, LAW = MODES * Q * L, U(law_numbers(anisotropic, layer, mechanisms) * lanes)
    SPAN, LINE = LEVEL * Q * L, U(64 // np.dtype(dtype).itemsize)  # values in a line of the cache
    SLOPES = U(4 if layer else 3) * SPAN
    FACES = U(4 * FACE_NUMBERS[anisotropic] * lanes)
    RELAXING, WORK = LEVEL * U(STRESSES * mechanisms) * L, U(work_values(order, mechanisms) if mechanisms else 1) * L
    predict = make_predictor(order, anisotropic, layer, mechanisms, precision)
    add_faces, _ = make_relaxation(order, anisotropic, layer, mechanisms, precision)
    correct, send = make_faces(order, anisotropic, layer, precision)

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def step(
        coefficients, own, even, odd, elastic, faces, neighbor, second, cluster, kind_first, memory, relaxation,
        recursion, first, end, tick, pending,
    ):  # fmt: skip
        past, relaxing = memory.ravel(), relaxation.ravel()
        q, kept, evens, odds = coefficients.ravel(), own.ravel(), even.ravel(), odd.ravel()
        law, numbers, to, links = elastic.ravel(), faces.ravel(), neighbor.ravel(), second.ravel()
        pieces = min(end - first, PIECES)
        for piece in prange(pieces):
            rounding = flush_denormals()
            terms, mean = np.empty(BLOCK, dtype), np.empty(BLOCK, dtype)
            half, slopes = np.empty(BLOCK, dtype), np.empty(SLOPES, dtype)
            trace, jump = np.empty(FACE * Q * L, dtype), np.empty(FACE * U(3) * L, dtype)
            sent, work = np.empty(FACE * U(3) * L, dtype), np.empty(WORK, dtype)
            begin, stop = first + (end - first) * piece // pieces, first + (end - first) * (piece + 1) // pieces
            for n in range(begin, stop):
                block, count, rates = U(n), tick >> cluster[n], recursion[cluster[n]]
                b, own_place, following = block * BLOCK, U(n - kind_first), U(min(n + 1, stop - 1))
                law_at, place = own_place * LAW, own_place * SPAN
                if layer:
                    for m in range(SPAN):
                        half[m] = 0
                if mechanisms:
                    for m in range(BLOCK):
                        mean[m] = 0
                if pending:
                    correct(
                        mean if mechanisms else q, U(0) if mechanisms else b, block, following, kept, evens, odds,
                        numbers, own_place * FACES, to, links, count, jump, trace, law, law_at, half,
                    )  # fmt: skip
                if mechanisms:
                    for m in range(BLOCK):
                        q[b + m] += mean[m]
                    add_faces(mean, law, law_at, relaxing, own_place * RELAXING)
                if layer:
                    for n in range(SPAN):
                        past[place + n] -= half[n]
                for m in range(0, BLOCK, LINE):
                    prefetch(address(q, following * BLOCK + m))
                halves = False
                for face in range(block * L * U(4), (block + U(1)) * L * U(4)):
                    halves |= links[face] & 3 == FASTER
                state = relaxing, own_place * RELAXING, work, rates
                predict(q, b, law, law_at, past, place, state, terms, slopes, mean, half, halves)
                send(
                    block, kept, evens, odds, numbers, own_place * FACES, links, count, mean, half, halves, jump, sent,
                    trace,
                )  # fmt: skip
            restore_rounding(rounding)

    return step


@lru_cache
def make_complete(order: int, anisotropic: bool, relaxing: bool, precision: str) -> Callable[..., None]:
    """Return `complete` for blocks of this order, isotropic or anisotropic, which rounds as `step`: with attenuation,
    the contributions of the faces are added to each other first."""
    reference = make_reference(order)
    lanes, dtype = LANES[precision], np.float32 if precision == "single" else np.float64
    L, MODES, FACE = U(lanes), U(reference.count), U(reference.face_count)
    BLOCK, FACES = MODES * Q * L, U(4 * FACE_NUMBERS[anisotropic] * lanes)
    correct, _ = make_faces(order, anisotropic, False, precision)

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def complete(
        coefficients, own, even, odd, elastic, faces, neighbor, second, cluster, kind_first, blocks, tick, pending, out,
        out_first,
    ):  # fmt: skip
        """Set out[out_first + n] to the coefficients of blocks[n] at the end of the current step."""
        q, kept, evens, odds, whole = coefficients.ravel(), own.ravel(), even.ravel(), odd.ravel(), out.ravel()
        numbers, to, links = faces.ravel(), neighbor.ravel(), second.ravel()
        for n in prange(len(blocks)):
            rounding = flush_denormals()
            trace, jump = np.empty(FACE * Q * L, dtype), np.empty(FACE * U(3) * L, dtype)
            block, target = U(blocks[n]), U(out_first + n) * BLOCK
            for m in range(BLOCK):
                whole[target + m] = 0 if relaxing else q[block * BLOCK + m]
            if pending:
                at = U(blocks[n] - kind_first) * FACES
                count = tick >> cluster[blocks[n]]
                correct(
                    whole, target, block, block, kept, evens, odds, numbers, at, to, links, count, jump, trace,
                    numbers, at, trace,
                )  # fmt: skip
            if relaxing:
                for m in range(BLOCK):
                    whole[target + m] += q[block * BLOCK + m]
            restore_rounding(rounding)

    return complete


@lru_cache
def make_complete_memory(order: int, anisotropic: bool, mechanisms: int, precision: str) -> Callable[..., None]:
    """Return `complete_memory` for blocks of this order in an absorbing layer; see `make_step`."""
    reference = make_reference(order)
    lanes, dtype = LANES[precision], np.float32 if precision == "single" else np.float64
    L, MODES, FACE = U(lanes), U(reference.count), U(reference.face_count)
    BLOCK, SPAN = MODES * Q * L, U(reference.levels[1]) * Q * L
    FACES, LAW = U(4 * FACE_NUMBERS[anisotropic] * lanes), U(law_numbers(anisotropic, True, mechanisms) * lanes)
    correct, _ = make_faces(order, anisotropic, True, precision)

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def complete_memory(
        coefficients, own, even, odd, elastic, faces, neighbor, second, cluster, kind_first, memory, blocks, tick,
        pending, out, out_first,
    ):  # fmt: skip
        """Set out[out_first + n] to the memory variables of blocks[n] with the jumps of the current step."""
        kept, evens, odds, past, whole = own.ravel(), even.ravel(), odd.ravel(), memory.ravel(), out.ravel()
        law, numbers, to, links = elastic.ravel(), faces.ravel(), neighbor.ravel(), second.ravel()
        for n in prange(len(blocks)):
            rounding = flush_denormals()
            trace, jump = np.empty(FACE * Q * L, dtype), np.empty(FACE * U(3) * L, dtype)
            q, change = np.zeros(BLOCK, dtype), np.zeros(BLOCK, dtype)
            block, place = U(blocks[n]), U(blocks[n] - kind_first)
            if pending:
                count = tick >> cluster[blocks[n]]
                correct(
                    q, U(0), block, block, kept, evens, odds, numbers, place * FACES, to, links, count, jump, trace,
                    law, place * LAW, change,
                )  # fmt: skip
            for m in range(SPAN):
                whole[U(out_first + n) * SPAN + m] = past[place * SPAN + m] - change[m]
            restore_rounding(rounding)

    return complete_memory


@lru_cache
def make_complete_relaxation(
    order: int, anisotropic: bool, layer: bool, mechanisms: int, precision: str
) -> Callable[..., None]:
    """Return `complete_relaxation` for blocks of this order with attenuation; see `make_step`."""
    reference = make_reference(order)
    lanes, dtype = LANES[precision], np.float32 if precision == "single" else np.float64
    L, MODES, FACE = U(lanes), U(reference.count), U(reference.face_count)
    BLOCK, SPAN = MODES * Q * L, U(reference.levels[1] * STRESSES * mechanisms) * L
    FACES = U(4 * FACE_NUMBERS[anisotropic] * lanes)
    LAW = U(law_numbers(anisotropic, layer, mechanisms) * lanes)
    correct, _ = make_faces(order, anisotropic, False, precision)
    add_faces = make_relaxation(order, anisotropic, layer, mechanisms, precision, damped=False)[0]

    @njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
    def complete_relaxation(
        coefficients, own, even, odd, elastic, faces, neighbor, second, cluster, kind_first, relaxation, blocks, tick,
        pending, out, out_first,
    ):  # fmt: skip
        """Set out[out_first + n] to the memory variables of blocks[n] with the faces of the current step."""
        kept, evens, odds, past, whole = own.ravel(), even.ravel(), odd.ravel(), relaxation.ravel(), out.ravel()
        law, numbers, to, links = elastic.ravel(), faces.ravel(), neighbor.ravel(), second.ravel()
        for n in prange(len(blocks)):
            rounding = flush_denormals()
            trace, jump = np.empty(FACE * Q * L, dtype), np.empty(FACE * U(3) * L, dtype)
            q, target = np.zeros(BLOCK, dtype), U(out_first + n) * SPAN
            block, place = U(blocks[n]), U(blocks[n] - kind_first)
            for m in range(SPAN):
                whole[target + m] = past[place * SPAN + m]
            if pending:
                count = tick >> cluster[blocks[n]]
                correct(
                    q, U(0), block, block, kept, evens, odds, numbers, place * FACES, to, links, count, jump, trace,
                    law, place * LAW, trace,
                )  # fmt: skip
                add_faces(q, law, place * LAW, whole, target)
            restore_rounding(rounding)

    return complete_relaxation


def make_kernels(order: int, precision: str, **_sizes: Any) -> dict[str, Any]:
    """Return a dictionary: `step`, `complete`, `complete_memory` and `complete_relaxation` of (anisotropic, mixed,
    layer, mechanisms) return kernels; `layout` is the arrangement, `pack_faces` arranges coefficients of faces (slots,
    4, c), and `prepare` has nothing to prepare on a CPU."""
    own = device_layout("cpu", precision)
    return {
        "step": lambda anisotropic, mixed, *kind: make_step(order, anisotropic, *kind, precision),
        "complete": lambda anisotropic, mixed, layer, mechanisms: make_complete(
            order, anisotropic, mechanisms > 0, precision
        ),
        "complete_memory": lambda anisotropic, mixed, layer, mechanisms: make_complete_memory(
            order, anisotropic, mechanisms, precision
        ),
        "complete_relaxation": lambda anisotropic, mixed, *kind: make_complete_relaxation(
            order, anisotropic, *kind, precision
        ),
        "layout": own,
        "pack_faces": lambda numbers: own.packed(numbers.reshape(len(numbers), -1)),
        "prepare": lambda variant, blocks: None,
    }
