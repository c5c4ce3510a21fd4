"""Predicted size of the files of a run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lithowave.description.outputs import Snapshots
from lithowave.output.peak_motion import MEASURES
from lithowave.output.recorders import COMPONENTS
from lithowave.output.sampling import SnapshotSteps
from lithowave.output.vtkhdf import stored_arrays
from lithowave.output.vtkhdf_chunk import PLANE_POINT_BYTES, VOLUME_POINT_BYTES
from lithowave.solvers.interface import Plan

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

FOLDER_BYTES = 7_000
"""Of ``simulation.yaml``, ``run.json`` and ``log.txt`` of a description without long lists."""

HDF5_BYTES = 10_000
"""Of the attributes and groups of a file of seismograms, snapshots or peak motion."""

ARRAY_BYTES = 1_500  # of the attributes of one more array
RECEIVER_BYTES = 60  # of names and position in seismograms.h5
MINISEED_RECORD, MINISEED_HEADER = 4096, 64
SAC_HEADER = 632
SEGY_HEADER, SEGY_TRACE_HEADER = 3600, 240
ASDF_TRACE, ASDF_STATION = 5_000, 2_500  # attributes and the description of a station


def output_bytes(simulation: Simulation, plan: Plan) -> int:
    """Return the predicted bytes of all files of a run, without checkpoints and figures."""
    output, schedule = simulation.output, plan.schedule
    value = 4 if simulation.compute.precision == "single" else 8
    receivers, samples = len(simulation.acquisition.receivers), schedule.sample_count
    components = 3 + 6 * output.stress + output.pressure + 6 * output.strain
    total = FOLDER_BYTES + HDF5_BYTES + 8 * samples
    total += receivers * (components * samples * value + RECEIVER_BYTES)
    total += sum(format_bytes(name, receivers, samples, value) for name in output.formats)
    for selection in output.snapshots:
        total += _snapshot_bytes(simulation, plan, selection)
    if output.peak_motion:
        surface = Snapshots(interval=simulation.duration, plane={"z": simulation.domain.z[1]})
        maps = 2 * len(MEASURES)
        total += HDF5_BYTES + maps * value * plan.snapshot_point_count(surface)
    return int(math.ceil(total))


def format_bytes(name: str, receivers: int, samples: int, value: int) -> int:
    """Return the bytes of the copies of all seismograms in a format of seismology. value : bytes of a sample."""
    traces = 3 * receivers
    if name == "miniseed":
        return traces * MINISEED_RECORD * -(-samples * value // (MINISEED_RECORD - MINISEED_HEADER))
    if name == "sac":
        return traces * (SAC_HEADER + 4 * samples)
    if name == "segy":
        return 3 * SEGY_HEADER + traces * (SEGY_TRACE_HEADER + 4 * samples)
    return traces * (ASDF_TRACE + value * samples) + receivers * ASDF_STATION  # asdf


def _snapshot_bytes(simulation: Simulation, plan: Plan, selection: Snapshots) -> int:
    points = plan.snapshot_point_count(selection)
    count = len(SnapshotSteps(selection.interval, plan.schedule))
    per_point = sum(COMPONENTS[name] for name in selection.fields)
    arrays = sum(len(stored_arrays(name)) for name in selection.fields)
    chunk = simulation.domain.chunk is not None
    flat = selection.plane is not None and not chunk
    thickness = 2 if flat and selection.plane.axis in "xy" else 1  # see `vtkhdf`
    total = HDF5_BYTES + 2 * ARRAY_BYTES * arrays + count * points * thickness * per_point * 4
    if chunk:
        total += points * (PLANE_POINT_BYTES if selection.plane is not None else VOLUME_POINT_BYTES)
    return total
