"""Relaxation of the stresses of elements with attenuation on the CPU: see `relaxation` for the scheme.

Memory variables are arranged as coefficients, with six stresses of each mechanism as quantities: (blocks, functions,
mechanisms, 6, lanes).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from lithowave.backends.loops import U, exact_row, multiply_add, row
from lithowave.solvers.discontinuous_galerkin.element_layout import LANES
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, STRESSES
from lithowave.solvers.discontinuous_galerkin.reference import make_reference
from lithowave.solvers.discontinuous_galerkin.riemann import law_numbers

S = U(STRESSES)


def work_values(order: int, mechanisms: int) -> int:
    """Return the number of values per lane of the Taylor terms of memory variables."""
    return max(1, STRESSES * mechanisms * make_reference(order).levels[2])


@lru_cache
def make_driver(order: int, anisotropic: bool, layer: bool, precision: str) -> Callable[..., None]:
    """Return a function that writes s (6) and p of the isotropic average, from stresses of one function, all lanes."""
    L = U(LANES[precision])

    @exact_row
    def isotropic(x, i, law, at, drive):
        for w in range(S * L):
            drive[w] = x[i + w]
        for w in range(L):
            drive[S * L + w] = (x[i + w] + x[i + L + w] + x[i + L + L + w]) / 3

    @exact_row
    def average(x, i, law, at, drive):
        for q in range(S + U(1)):
            for w in range(L):
                total = x[i + w] * U(0)
                for j in range(S):
                    total = multiply_add(law[at + (q * S + j) * L + w], x[i + j * L + w], total)
                drive[q * L + w] = total

    return average if anisotropic else isotropic


@lru_cache
def make_relaxation(
    order: int, anisotropic: bool, layer: bool, mechanisms: int, precision: str, damped: bool = True
) -> tuple[Callable[..., None], Callable[..., Any]]:
    """Return the function that adds the contributions of faces to memory variables, and one that returns, for d, the
    function that subtracts relaxation from the Taylor terms E^d; without mechanisms, they do nothing.

    damped : add_faces then also damps, in a damped layer. All operations are rounded as they stand: an element has the
    same bits in any lane, and after a restart.
    """
    reference = make_reference(order)
    L, N, W = U(LANES[precision]), U(mechanisms), U(QUANTITIES * LANES[precision])
    ROWS, SPAN = U(reference.levels[1]), N * S * L
    WEIGHTS = U(law_numbers(anisotropic, layer)) * L
    STRAIN, DAMPING = WEIGHTS + U(2) * N * L, WEIGHTS - L
    DRIVE = S * L + L
    dtype = np.dtype(np.float32 if precision == "single" else np.float64).type
    fill_drive = make_driver(order, anisotropic, layer, precision)

    @row
    def leave(jumps, law, at, past, place):
        pass

    @row
    def no_level(terms, law, at, past, place, work, rates):
        pass

    if not mechanisms:
        return leave, lambda d: no_level

    @exact_row
    def add_faces(jumps, law, at, past, place):
        """Add F of the contributions of the faces, `jumps`, to the memory variables."""
        drive = np.empty(DRIVE, dtype)
        for r in range(ROWS):
            fill_drive(jumps, r * W, law, at + STRAIN, drive)
            for n in range(N):
                g = at + WEIGHTS + U(2) * n * L
                for q in range(S):
                    for w in range(L):
                        m = place + r * SPAN + (n * S + q) * L + w
                        force = law[g + w] * drive[q * L + w]
                        if q < U(3):
                            force = multiply_add(law[g + L + w], drive[S * L + w], force)
                        past[m] += force
                        if layer and damped:
                            past[m] *= law[at + DAMPING + w]

    def make_rows(d: int, last: bool) -> Callable[..., None]:
        """Return a function for the functions between those of two levels. last : these have no further terms."""
        begin, end = (reference.levels[d + 1], reference.levels[d]) if last else (0, reference.levels[d + 1])
        BEGIN, END, FIRST, SHARE = U(begin), U(end), d == 1, dtype(1 / d)
        FACTOR, ORDER = U(d), U(order)

        @exact_row
        def rows(terms, law, at, past, place, work, rates):
            drive = np.empty(DRIVE, dtype)
            for r in range(BEGIN, END):
                fill_drive(terms, r * W, law, at + STRAIN, drive)
                for n in range(N):
                    g = at + WEIGHTS + U(2) * n * L
                    x, gamma = -SHARE * rates[n * ORDER], rates[n * ORDER + FACTOR]
                    for q in range(S):
                        for w in range(L):
                            k = r * SPAN + (n * S + q) * L + w
                            force = law[g + w] * drive[q * L + w]
                            if q < U(3):
                                force = multiply_add(law[g + L + w], drive[S * L + w], force)
                            before = past[place + k] if FIRST else work[k]
                            change = multiply_add(x, before, force)
                            if last:
                                change *= gamma
                                terms[r * W + q * L + w] -= force - change
                            else:
                                work[k] = change
                                t = r * W + q * L + w
                                terms[t] = multiply_add(x, before, terms[t])
                            past[place + k] += change

        return rows

    def make_level(d: int) -> Callable[..., None]:
        """Return the function for the Taylor terms E^d in `terms`."""
        lower, upper = make_rows(d, False), make_rows(d, True)

        @row
        def relax(terms, law, at, past, place, work, rates):
            """rates : x and gamma of each mechanism, of the block's cluster. work : u^(d - 1), then u^d."""
            lower(terms, law, at, past, place, work, rates)
            upper(terms, law, at, past, place, work, rates)

        return relax

    return add_faces, make_level
