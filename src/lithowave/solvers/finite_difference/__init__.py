"""Velocity-stress finite differences on the standard staggered grid."""

from lithowave.solvers.finite_difference.measure import predict_loop_time
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan, plan
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver as Solver

__all__ = ["FiniteDifferencePlan", "Solver", "plan", "predict_loop_time"]
