"""Argument lists of the kernels, shared by their CPU and CUDA versions.

coefficients : of all blocks, arranged by `BlockLayout`: the state at the end of the current step without the
contributions of its faces (see `element_kernels`). own : u, which an element subtracts from the received w, averages
over its step. even, odd : (slots, 3, width), w, which elements send, averages over steps of an even and of an odd
index; there are two arrays because elements of one step read and write in no fixed order. elastic, faces : coefficients
of the blocks of one kind (see `riemann`), from block `kind_first`. memory : psi of these blocks, see `layer`; with
`BlockLayout`, and functions up to one degree less. relaxation : r of the mechanisms of these blocks, see `relaxation`,
arranged as memory, with six quantities for each mechanism. recursion : (clusters, mechanisms * order), see
`relaxation.recursion`. neighbor, second : see `Links`. cluster : cluster of
each block. tick : steps of cluster 0 so far, at least modulo twice those of a step of the run. pending : True while a
step is in progress. traces : (n, 2) slots of the traces exchanged with other ranks, and the cluster whose step index
selects even or odd: the higher one of both sides. buffer : of a message, 3 x modes values per trace.
"""

from __future__ import annotations

_FIELDS = ("coefficients", "own", "even", "odd", "elastic", "faces", "neighbor", "second", "cluster", "kind_first")

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "step": (*_FIELDS, "memory", "relaxation", "recursion", "first", "end", "tick", "pending"),
    "complete": (*_FIELDS, "blocks", "tick", "pending", "out", "out_first"),
    "complete_memory": (*_FIELDS, "memory", "blocks", "tick", "pending", "out", "out_first"),
    "complete_relaxation": (*_FIELDS, "relaxation", "blocks", "tick", "pending", "out", "out_first"),
    "inject": ("array", "target", "begin", "weight", "owner", "amplitude", "row"),
    "count_step": ("row",),
    "pack_traces": ("even", "odd", "traces", "tick", "modes", "buffer"),
    "unpack_traces": ("even", "odd", "traces", "tick", "modes", "buffer"),
    "sample": ("completed", "base", "values", "out", "slot"),
    "surface_peaks": ("velocity", "time_step", "displacement", "peak_velocity", "peak_displacement"),
    "largest_velocity": ("coefficients", "out"),
}
