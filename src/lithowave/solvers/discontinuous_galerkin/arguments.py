"""The argument lists of the kernels, one for the twins of both devices.

coefficients : of all blocks, as `BlockLayout` has them: of the state at the end of the step under way without what its
faces add to it (see `element_kernels`). own : u, what an element compares with what its neighbours send,
averages over its step. even, odd : (slots, 3, width), w, what elements send, averages over steps of an even and of an
odd number; two, since elements of one step read and write in no order. elastic, faces : numbers of the blocks of one
kind (see `riemann`), from block `kind_first` on. neighbor, second : see `Links`. cluster : of each block.
tick : steps of cluster 0 so far, at least modulo twice those of a step of the run. pending : whether a step is under
way. traces : (n, 2) slots of what goes to other ranks or comes from them, and the cluster by whose steps it is in even
or odd: the higher one of both sides. buffer : of a message, 3 x modes numbers of each trace.
"""

from __future__ import annotations

_FIELDS = ("coefficients", "own", "even", "odd", "elastic", "faces", "neighbor", "second", "cluster", "kind_first")

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "step": (*_FIELDS, "first", "end", "tick", "pending"),
    "complete": (*_FIELDS, "blocks", "tick", "pending", "out", "out_first"),
    "inject": ("array", "target", "begin", "weight", "owner", "amplitude", "row"),
    "count_step": ("row",),
    "pack_traces": ("even", "odd", "traces", "tick", "modes", "buffer"),
    "unpack_traces": ("even", "odd", "traces", "tick", "modes", "buffer"),
    "sample": ("completed", "base", "values", "out", "slot"),
    "surface_peaks": ("velocity", "time_step", "displacement", "peak_velocity", "peak_displacement"),
    "largest_velocity": ("coefficients", "out"),
}
