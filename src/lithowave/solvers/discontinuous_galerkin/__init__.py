"""Discontinuous Galerkin elements on tetrahedra, in one explicit step of arbitrary order (ADER), with local time
stepping (LTS)."""

from lithowave.solvers.discontinuous_galerkin.estimate import estimate_memory
from lithowave.solvers.discontinuous_galerkin.measure import predict_loop_time
from lithowave.solvers.discontinuous_galerkin.partition_report import partition_report
from lithowave.solvers.discontinuous_galerkin.plan import DiscontinuousGalerkinPlan, plan
from lithowave.solvers.discontinuous_galerkin.solver import DiscontinuousGalerkinSolver as Solver
from lithowave.solvers.discontinuous_galerkin.solver import compile_ahead

__all__ = [
    "DiscontinuousGalerkinPlan", "Solver", "compile_ahead", "estimate_memory", "partition_report", "plan",
    "predict_loop_time",
]  # fmt: skip
