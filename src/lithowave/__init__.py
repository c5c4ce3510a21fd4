"""Three-dimensional seismic wave simulation from one description.

>>> import lithowave as lw
>>> simulation = lw.Simulation.from_file("simulation.yaml")
>>> result = simulation.run(output="out/first_steps")

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .version import __version__

_HOMES = {
    "Simulation": "experiment.simulation",
    "Domain": "experiment.domain",
    "GeographicOrigin": "experiment.domain",
    "Boundaries": "experiment.boundaries",
    "AbsorbingLayer": "experiment.boundaries",
    "Material": "experiment.material",
    "Layer": "experiment.material",
    "ElasticProperties": "experiment.material",
    "Source": "experiment.sources",
    "MomentTensor": "experiment.mechanisms",
    "DoubleCouple": "experiment.mechanisms",
    "TimeFunction": "experiment.time_functions",
    "Gaussian": "experiment.time_functions",
    "Ricker": "experiment.time_functions",
    "Brune": "experiment.time_functions",
    "Triangle": "experiment.time_functions",
    "Boxcar": "experiment.time_functions",
    "SmoothedStep": "experiment.time_functions",
    "SampledFunction": "experiment.sampled_function",
    "Receivers": "experiment.receivers",
    "ReceiverLine": "experiment.receivers",
    "ReceiverPlane": "experiment.receivers",
    "Solver": "experiment.solver",
    "Compute": "experiment.compute",
    "Output": "experiment.outputs",
    "Snapshots": "experiment.outputs",
    "SnapshotPlane": "experiment.outputs",
    "Checkpoint": "experiment.outputs",
    "Seismograms": "output.seismograms",
    "load_seismograms": "output.seismograms",
    "load_peak_motion": "output.peak_motion",
    "compare_runs": "output.compare",
    "plot_run": "output.figures",
    "check_simulation": "check",
    "run_simulation": "run",
    "LithowaveError": "errors",
    "LithowaveWarning": "errors",
    "InputError": "errors",
    "InstabilityError": "errors",
    "OutputError": "errors",
    "ResourceError": "errors",
    "KernelBuildError": "errors",
    "MissingPackageError": "errors",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lithowave' has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
