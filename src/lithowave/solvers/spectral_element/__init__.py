"""Spectral elements on hexahedra: Gauss-Lobatto-Legendre points, diagonal mass, explicit Newmark."""

from __future__ import annotations

from lithowave.rooms import public_names
from lithowave.solvers.spectral_element.bench import predict_loop_time
from lithowave.solvers.spectral_element.estimate import estimate_memory, partition_report
from lithowave.solvers.spectral_element.plan import SpectralElementPlan, plan
from lithowave.solvers.spectral_element.solver import SpectralElementSolver as Solver

__all__ = ["Solver", "SpectralElementPlan", "estimate_memory", "partition_report", "plan", "predict_loop_time"]

__getattr__, _others = public_names(__name__, {
    "bench": "fill_with_noise first_of_each_kind",
    "element_kinds": "ElementKind",
    "element_layout": "BLOCKS device_layout",
    "elements": "block_moves",
    "element_lines": "ARGUMENTS",
    "element_statistics": "AFFINE CUBOID GENERAL UPRIGHT element_shapes is_affine map_coefficients",
    "estimate": "FILE_BYTES",
    "gll":
        "bad_elements derivative_matrix determinant gll_points gll_positions gll_weights jacobian_matrix "
        "lagrange_derivatives lagrange_values map_degree shape_functions tensor_order",
    "launches": "ELEMENTS_FILE NO_TASK element_stride packs point_stride task_table",
    "layers": "ALIGNED AbsorbingLayer DAMPED",
    "materials": "ElementMaterials TransverseMaterials full_matrices rotate_moduli",
    "media": "face_points layer_points",
    "meshing": "MeshedModel built_box built_mesh",
    "plan": "make_plan",
    "points": "HexahedralSamples symmetric",
    "relaxation":
        "Losses carried_moduli carrier_count carrier_indices carrier_sets choose_sets distinct_moduli "
        "quadrature_weights recursion shares",
    "solver": "SpectralElementSolver",
})
__all__ += _others
