"""Discontinuous Galerkin elements on tetrahedra, in one explicit step of arbitrary order (ADER), with local time
stepping (LTS)."""

from __future__ import annotations

from lithowave.rooms import public_names
from lithowave.solvers.discontinuous_galerkin.bench import predict_loop_time
from lithowave.solvers.discontinuous_galerkin.plan import (
    DiscontinuousGalerkinPlan,
    estimate_memory,
    partition_report,
    plan,
)
from lithowave.solvers.discontinuous_galerkin.solver import DiscontinuousGalerkinSolver as Solver
from lithowave.solvers.discontinuous_galerkin.solver import compile_ahead

__all__ = [
    "DiscontinuousGalerkinPlan", "Solver", "compile_ahead", "estimate_memory", "partition_report", "plan",
    "predict_loop_time",
]  # fmt: skip

__getattr__, _others = public_names(__name__, {
    "arrays": "array_bytes",
    "bench": "fill_with_noise make_tasks",
    "clusters": "Clustering FLAT limit_cluster_jumps make_clusters raw_clusters single_cluster stable_time_steps",
    "kernels": "ARGUMENTS",
    "layer": "AbsorbingLayer LayerRates with_layer",
    "materials":
        "ABSORBING ALIKE BlockLayout ElementMaterials FASTER FREE KINDS RIGID SLOWER isotropic_faces "
        "make_arrangement make_links",
    "meshing": "MeshedModel built_box make_model split_box",
    "partition": "LAYER_WORK build_local_mesh element_work graph_parts layer_elements partition_elements step_cost",
    "plan": "make_plan model_clusters",
    "points": "TOLERANCE locate_points",
    "reference":
        "CORNERS DIRECTIONS ORDERS basis_gradients basis_values face_mode_count face_modes face_points face_values "
        "make_geometry make_reference mode_count modes tetrahedron_rule triangle_rule",
    "relaxation": "LARGEST_STEP average_quality isotropic_stresses mean_factors recursion relaxing_numbers",
    "solver": "DiscontinuousGalerkinSolver",
    "sources": "Responses",
})
__all__ += _others
