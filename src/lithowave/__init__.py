"""Simulation of seismic waves in three dimensions by three numerical methods from one description.

>>> import lithowave as lw
>>> simulation = lw.Simulation.from_file("simulation.yaml")
>>> result = simulation.run(output="out/first_steps")

Public names are loaded at their first use, so that importing the package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lithowave import forks as forks  # records forks from here on
from lithowave.version import __version__

_HOMES = {
    "Simulation": "runnable",
    "Domain": "description.domain",
    "GeographicOrigin": "description.domain",
    "Boundaries": "description.boundaries",
    "AbsorbingLayer": "description.boundaries",
    "Material": "description.material",
    "Layer": "description.material",
    "ElasticProperties": "description.material",
    "Source": "description.sources",
    "MomentTensor": "description.sources",
    "DoubleCouple": "description.sources",
    "TimeFunction": "description.time_functions",
    "Gaussian": "description.time_functions",
    "Ricker": "description.time_functions",
    "Brune": "description.time_functions",
    "Triangle": "description.time_functions",
    "Boxcar": "description.time_functions",
    "SmoothedStep": "description.time_functions",
    "SampledFunction": "description.time_functions",
    "Receivers": "description.receivers",
    "ReceiverLine": "description.receivers",
    "ReceiverPlane": "description.receivers",
    "Solver": "description.solver",
    "Compute": "description.solver",
    "Output": "description.outputs",
    "Snapshots": "description.outputs",
    "SnapshotPlane": "description.outputs",
    "Checkpoint": "description.outputs",
    "Seismograms": "output.seismograms",
    "load_seismograms": "output.seismograms",
    "load_peak_motion": "output.results",
    "load_snapshots": "output.snapshots",
    "compare_runs": "compare.runs",
    "compare_data": "compare.data",
    "plot_run": "figures",
    "write_report": "shots.checking",
    "agree": "agreement.running",
    "check_simulation": "run.check",
    "run_simulation": "run.launch",
    "Result": "run.status",
    "Callback": "run.loop",
    "LithowaveError": "errors",
    "LithowaveWarning": "errors",
    "InputError": "errors",
    "InstabilityError": "errors",
    "OutputError": "errors",
    "RunInterrupted": "errors",
    "RunKeyboardInterrupt": "errors",
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
