"""Velocity-stress finite differences on the standard staggered grid."""

from __future__ import annotations

from lithowave.rooms import public_names
from lithowave.solvers.finite_difference.bench import predict_loop_time
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan, estimate_memory, partition_report, plan
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver as Solver

__all__ = ["FiniteDifferencePlan", "Solver", "estimate_memory", "partition_report", "plan", "predict_loop_time"]

__getattr__, _others = public_names(__name__, {
    "attenuation":
        "COMMON_RATE GridAttenuation LAST_CODE NODES choose_attenuation code_planes node_mechanism relaxation",
    "bench": "fill_with_noise make_tasks uniform_simulation with_passes",
    "coefficients":
        "ORDERS SIZES closed_summation derivative_norm face_closure plain_summation "
        "taylor_coefficients",
    "effective_medium": "at_node between_nodes isotropic laminate sharpened slab_between",
    "grid_plan": "LARGEST LayerSmoothing axis_layers smoothed_boxes smoothing_of",
    "interfaces":
        "InterfaceReading RECEIVERS SOURCES SourceColumns find_interfaces interface_warnings parts_of_moments",
    "kernels": "ARGUMENTS tiling",
    "launches": "OnePass PACKAGE",
    "law": "FIELDS LAWS STAGGER STRESSES",
    "medium": "LAST PlaneAverages medium_planes quantize",
    "points": "PointWeights line_weights windowed_sinc",
    "solver": "FiniteDifferenceSolver",
    "sources": "ReceiverList bricks_of lines_of",
    "step": "OnePassScheme OneSweep TwoPasses late_rows plan_sweep rectangles sweep_blocks",
    "tiles": "TileShape fill_sectors line_shift tile_box whole_lines",
})
__all__ += _others
