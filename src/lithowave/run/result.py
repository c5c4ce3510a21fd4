"""The result of a run: its folder, its report, and the files that it has written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lithowave.errors import InputError
from lithowave.output.peak_motion import PeakMotion, load_peak_motion
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.output.snapshots import FILE_SUFFIX, Snapshots, load_snapshots


@dataclass
class Result:
    """The result of a run.

    Attributes
    ----------
    directory : the run folder.
    report : content of run.json.
    complete : False in the result of a `RunInterrupted` or a `RunKeyboardInterrupt`: a signal stopped the run;
        ``report["stopped_by"]`` is then the name of the signal, and ``lithowave restart`` resumes the run. A run that a
        callback has stopped is complete.
    """

    directory: Path
    report: dict[str, Any]
    complete: bool = True

    @property
    def warnings(self) -> list[str]:
        """Warnings about the accuracy of the run, as in run.json."""
        return self.report.get("warnings", [])

    @property
    def stop_reason(self) -> str | None:
        """The reason that a callback passed to ``clock.stop`` to stop the run before its last step; else None.

        ``report`` then contains the class of the callback (``stopped_by``), ``stopped_at_step`` and
        ``stopped_at_time_s``.
        """
        return self.report.get("stop_reason")

    @cached_property
    def seismograms(self) -> Seismograms:
        """The seismograms of the run, up to the time at which it ended."""
        return load_seismograms(self.directory)

    @cached_property
    def peak_motion(self) -> PeakMotion:
        """The maps of peak ground motion; OutputError if the run has none (``output.peak_motion``)."""
        return load_peak_motion(self.directory)

    def snapshots(self, index: int = 0) -> Snapshots:
        """Open the snapshots of one entry of ``output.snapshots``, in the order of their file names.

        Raises
        ------
        InputError : the run has no such snapshots.
        """
        files = sorted((self.directory / "snapshots").glob(f"*{FILE_SUFFIX}"))
        if not -len(files) <= index < len(files):
            raise InputError("snapshots", f"there is no set {index}", f"the run has {len(files)} sets of snapshots")
        return load_snapshots(files[index])

    def to_pandas(self) -> Any:
        """Return a table of the receivers with their peak values: see `Seismograms.to_pandas`."""
        return self.seismograms.to_pandas()

    def __repr__(self) -> str:
        state = self.report.get("exit_state", "unknown state")
        wall, device = self.report.get("wall_s"), self.report.get("device")
        facts = [state, *([f"{wall:.3g} s"] if wall is not None else []), *([str(device)] if device else [])]
        if self.warnings:
            facts.append(f"{len(self.warnings)} warnings")
        return f"<Result in {self.directory}: {', '.join(facts)}>"
