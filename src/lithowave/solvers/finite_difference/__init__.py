"""Velocity-stress finite differences on the standard staggered grid."""

from lithowave.solvers.finite_difference.estimate import estimate_memory
from lithowave.solvers.finite_difference.measure import predict_loop_time
from lithowave.solvers.finite_difference.partition_report import partition_report
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan, plan
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver as Solver

__all__ = ["FiniteDifferencePlan", "Solver", "estimate_memory", "partition_report", "plan", "predict_loop_time"]
