"""Spectral elements on hexahedra: Gauss-Lobatto-Legendre points, diagonal mass, explicit Newmark."""

from lithowave.solvers.spectral_element.estimate import estimate_memory
from lithowave.solvers.spectral_element.measure import predict_loop_time
from lithowave.solvers.spectral_element.partition_report import partition_report
from lithowave.solvers.spectral_element.plan import SpectralElementPlan, plan
from lithowave.solvers.spectral_element.solver import SpectralElementSolver as Solver

__all__ = ["Solver", "SpectralElementPlan", "estimate_memory", "partition_report", "plan", "predict_loop_time"]
