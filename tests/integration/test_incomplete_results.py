"""Results of runs that a signal or an error has ended: they raise, and what is read from their folders says so."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import warnings
from concurrent.futures import Executor, Future
from pathlib import Path

import h5py
import numpy as np
import pytest

import lithowave as lw
from lithowave.output import write_asdf, write_sac, write_segy
from lithowave.run import last_checkpoint, restart_run
from lithowave.shots import run_survey
from small_run import (
    SMALL,
    after_steps,
    assert_same_results,
    lithowave,
    report_of,
    result_of,
    stop_at,
)
from small_survey import write_survey

TEXT = re.compile(r"incomplete: stopped by SIGTERM, ends at 0\.4\d* of 0\.8 s")


def simulation(*changes: tuple[str, str]) -> lw.Simulation:
    text = SMALL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return lw.Simulation.from_text(text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulation().run(output=tmp_path_factory.mktemp("whole") / "run").directory


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> lw.RunInterrupted:
    """A run that SIGTERM has stopped."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        stop_at(monkeypatch, 71)
        with pytest.raises(lw.RunInterrupted) as found:
            simulation().run(output=tmp_path_factory.mktemp("stopped") / "run")
    return found.value


@pytest.fixture
def partial(stopped: lw.RunInterrupted) -> lw.Seismograms:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.LithowaveWarning)
        return lw.load_seismograms(stopped.result.directory)


# --- exceptions


def test_sigterm_raises_an_exception_with_the_checkpoint_and_the_result(stopped: lw.RunInterrupted) -> None:
    assert isinstance(stopped, lw.LithowaveError) and stopped.signal_name == "SIGTERM"
    directory = stopped.result.directory
    assert stopped.checkpoint == directory / "checkpoint" / "checkpoint.h5" and stopped.checkpoint.is_file()
    assert not stopped.result.complete and stopped.result.report["exit_state"] == "stopped"
    assert f"stopped by SIGTERM; the results in {directory} are incomplete. `lithowave restart" in str(stopped)
    copy = pickle.loads(pickle.dumps(stopped))  # as from the worker of an executor
    assert (str(copy), copy.checkpoint, copy.result.complete) == (str(stopped), stopped.checkpoint, False)


def test_ctrl_c_raises_a_keyboard_interrupt_and_the_run_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    with monkeypatch.context() as patch:
        stop_at(patch, 50, number=signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="stopped by SIGINT") as found:
            simulation().run(output=tmp_path / "run")
        assert not isinstance(found.value, Exception)
        assert not found.value.result.complete and found.value.checkpoint.is_file()
        with pytest.raises(KeyboardInterrupt):
            simulation().run(output=tmp_path / "run", overwrite=True)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] == handlers
    simulation().run(output=tmp_path / "second")
    assert_same_results(tmp_path / "second", whole)
    result = restart_run(tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error", lw.LithowaveWarning)
        assert result.complete and result.seismograms.complete
    assert_same_results(tmp_path / "run", whole)


def test_a_survey_raises_too(tmp_path: Path) -> None:
    """A worker that stops before its shot has begun, as after Ctrl-C."""

    class Waiting(Executor):
        def submit(self, *_arguments: object, **_keywords: object) -> Future:
            os.kill(os.getpid(), signal.SIGTERM)
            return Future()

    survey = lw.Simulation.from_file(write_survey(tmp_path))
    with pytest.raises(lw.RunInterrupted, match="stopped by SIGTERM; the results in .* are incomplete") as found:
        run_survey(survey, tmp_path / "out", executor=Waiting())
    assert [shot.state for shot in found.value.result.shots] == ["waiting"] * 3
    assert found.value.result.stopped_by == "SIGTERM" and not found.value.result.complete


# --- what is read from the folder


def test_seismograms_of_a_stopped_run_are_incomplete(
    stopped: lw.RunInterrupted, tmp_path: Path, whole: Path
) -> None:
    folder = shutil.copytree(stopped.result.directory, tmp_path / "run")
    with pytest.warns(lw.LithowaveWarning, match=TEXT) as record:
        found = [lw.load_seismograms(path) for path in (folder, folder, folder / "seismograms.h5")]
    assert len(record) == 1, "once for a folder"
    assert not any(seismograms.complete for seismograms in found)
    assert found[0].state == "stopped by SIGTERM" and TEXT.fullmatch(found[0].shortfall)
    assert TEXT.search(repr(found[0]))
    complete = lw.load_seismograms(whole)
    assert complete.complete and complete.shortfall == "" and complete.state == "finished"
    count = len(found[0].time)
    assert 0 < count < len(complete.time) and np.array_equal(found[0].data, complete.data[..., :count])
    with h5py.File(folder / "seismograms.h5") as a, h5py.File(whole / "seismograms.h5") as b:
        assert (a.attrs["complete"], b.attrs["complete"]) == (0, 1)


def test_a_copied_file_is_still_incomplete(stopped: lw.RunInterrupted, tmp_path: Path) -> None:
    shutil.copy(stopped.result.directory / "seismograms.h5", tmp_path)
    with pytest.warns(lw.LithowaveWarning, match=r"incomplete: unfinished, ends at 0\.4\d* of 0\.8 s"):
        assert not lw.load_seismograms(tmp_path / "seismograms.h5").complete


@pytest.mark.parametrize("last", [False, True])
def test_a_failed_run_is_incomplete_even_with_all_samples(tmp_path: Path, whole: Path, last: bool) -> None:
    """An error after the last step also means that nothing has vouched for the samples."""
    steps = report_of(whole)["plan"]["steps"]

    class Failing(lw.Callback):
        def __call__(self, solver, clock):
            if clock.step == steps // 2 and not last:
                raise RuntimeError("in the middle")

        def finish(self, solver, clock):
            raise RuntimeError("at the end")

    with pytest.raises(RuntimeError):
        simulation().run(output=tmp_path / "run", callbacks=[Failing()])
    end = r"0\.8" if last else r"0\.\d+"
    with pytest.warns(lw.LithowaveWarning, match=f"incomplete: failed, ends at {end} of 0.8 s"):
        assert not lw.load_seismograms(tmp_path / "run").complete


def test_seismograms_are_complete_if_only_their_export_failed_until_the_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise lw.OutputError("the disk is full")

    run = simulation(("formats: []", "formats: [sac]"))
    with monkeypatch.context() as patch:
        patch.setitem(lw.run.launch.WAVEFORM_WRITERS, "sac", full)
        with pytest.raises(lw.OutputError, match="the disk is full"):
            run.run(output=tmp_path / "run")
    assert report_of(tmp_path / "run")["exit_state"] == "failed" and lw.load_seismograms(tmp_path / "run").complete
    step = last_checkpoint(tmp_path / "run")
    with monkeypatch.context() as patch:
        after_steps(patch, lambda now: os.kill(os.getpid(), signal.SIGTERM) if now == step + 1 else None)
        assert not result_of(restart_run, tmp_path / "run").complete
    with pytest.warns(lw.LithowaveWarning, match="incomplete: stopped by SIGTERM"):
        assert not lw.load_seismograms(tmp_path / "run").complete
    assert restart_run(tmp_path / "run").seismograms.complete


# --- exports, figures, comparisons and reports


def test_exports_of_incomplete_seismograms(partial: lw.Seismograms, tmp_path: Path) -> None:
    data = partial.to_xarray()
    assert data.attrs["complete"] == 0 and TEXT.fullmatch(data.attrs["shortfall"])
    data.to_netcdf(tmp_path / "data.nc", engine="scipy")
    assert partial.to_pandas().attrs["complete"] is False
    assert all(trace.stats.lithowave.complete is False for trace in partial.stream())
    from obspy import read

    assert all(read(path)[0].stats.sac.kuser0.strip() == "PARTIAL" for path in write_sac(partial, tmp_path / "sac"))
    [path] = write_asdf(partial, tmp_path / "asdf")
    with h5py.File(path) as file:
        marks = []
        file["Waveforms"].visititems(lambda _, item: marks.append(item.attrs.get("complete")))
        assert marks.count(0) == 3 * len(partial) and 1 not in marks
    text = write_segy(partial, tmp_path / "segy")[0].read_bytes()[:3200].decode("cp500")
    assert TEXT.search(text) or re.search(TEXT.pattern.upper().replace(r"\D", r"\d"), text)


def test_exports_of_complete_seismograms_have_no_mark(whole: Path, tmp_path: Path) -> None:
    complete = lw.load_seismograms(whole)
    assert complete.to_xarray().attrs["complete"] == 1 and "shortfall" not in complete.to_xarray().attrs
    assert complete.to_pandas().attrs["complete"] is True
    assert all("lithowave" not in trace.stats for trace in complete.stream())
    from obspy import read

    assert all("kuser0" not in read(path)[0].stats.sac for path in write_sac(complete, tmp_path / "sac"))


def test_comparisons_and_reports_state_it(stopped: lw.RunInterrupted, whole: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    folder = shutil.copytree(stopped.result.directory, tmp_path / "run")
    with pytest.warns(lw.LithowaveWarning, match=TEXT):
        comparison = lw.compare_runs(whole, folder)
    [note] = [note for note in comparison.notes if "incomplete" in note]
    assert note.startswith("The second run is incomplete: stopped by SIGTERM, ends at")
    assert "The second run is incomplete" in lithowave("compare", whole, folder, "--figure", tmp_path / "figure.png")
    page = lw.write_report(folder).read_text()
    assert page.count("incomplete: stopped by SIGTERM, ends at") >= 3
