"""Two runs held against each other: matching, resampling, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from lithowave.errors import InputError, OutputError
from lithowave.output.compare import compare_runs
from lithowave.output.seismograms import SeismogramWriter
from sample_run import make_run_folder


def pulse(time, delay):
    return np.exp(-(((time - delay) / 0.4) ** 2))


def write_run(
    folder,
    names=("A", "B", "C"),
    interval=0.05,
    samples=200,
    factor=1.0,
    shift=0.0,
    quantity="velocity",
    written=None,
    offset=0.0,
):
    """Traces are pulses whose delay is told by the station's letter, so that a wrong match shows."""
    time = np.arange(samples) * interval
    receivers = [
        SimpleNamespace(network="XX", station=name, position=(ord(name) * 10.0 + offset, 0, 0))
        for name in names
    ]
    data = np.zeros((len(names), 3, samples))
    for row, name in enumerate(names):
        for component in range(3):
            data[row, component] = factor * (component + 1) * pulse(time, ord(name) - 62 + shift)
    written = samples if written is None else written
    with SeismogramWriter(
        folder / "seismograms.h5", receivers, interval, samples, quantity, precision="double"
    ) as w:
        w.write(0, {"motion": data[..., :written]})
    return folder


def test_a_run_equals_itself(tmp_path):
    run = write_run(tmp_path / "a")
    comparison = compare_runs(run, run)
    assert comparison.overall_l2 == 0.0
    assert (comparison.relative_l2 == 0).all() and (comparison.time_shift == 0).all()
    assert comparison.notes == [] or "ObsPy" in comparison.notes[0]


def test_factor_and_delay_are_measured_against_the_second_run(tmp_path):
    reference = write_run(tmp_path / "a")
    larger = compare_runs(write_run(tmp_path / "b", factor=1.1), reference)
    assert larger.overall_l2 == pytest.approx(0.1)
    assert np.allclose(larger.component_l2, 0.1)
    late = compare_runs(write_run(tmp_path / "c", shift=0.2), reference)
    assert np.allclose(late.time_shift, 0.2, atol=1e-3)
    assert compare_runs(reference, tmp_path / "c").time_shift[0] == pytest.approx(-0.2, abs=1e-3)


def test_receivers_are_matched_by_name_whatever_their_order(tmp_path):
    comparison = compare_runs(write_run(tmp_path / "a", "CADB"), write_run(tmp_path / "b", "ABCE"))
    assert comparison.names == ["XX.A", "XX.B", "XX.C"]
    assert comparison.overall_l2 < 1e-12
    assert any("2 receivers are in one run only" in note for note in comparison.notes)


@pytest.mark.parametrize(("fine", "tolerance"), [(0.025, 1e-12), (0.02, 1e-4), (0.031, 3e-4)])
def test_the_finer_run_is_taken_at_the_coarser_samples(tmp_path, fine, tolerance):
    coarse = write_run(tmp_path / "a", interval=0.05, samples=200)
    finer = write_run(tmp_path / "b", interval=fine, samples=int(8.0 / fine))
    for pair in ((coarse, finer), (finer, coarse)):
        comparison = compare_runs(*pair)
        assert np.allclose(np.diff(comparison.time), 0.05)
        # both cover the time up to the finer run's last sample
        assert 8.0 - 0.05 - fine < comparison.time[-1] <= 8.0
        assert comparison.overall_l2 < tolerance


def test_an_unfinished_run_is_compared_as_far_as_it_goes(tmp_path):
    comparison = compare_runs(write_run(tmp_path / "a", written=80), write_run(tmp_path / "b"))
    assert len(comparison.time) == 80 and comparison.overall_l2 == 0.0
    assert any("first run is not complete: 80 of 200" in note for note in comparison.notes)


def test_moved_receivers_are_told(tmp_path):
    comparison = compare_runs(write_run(tmp_path / "a", offset=25.0), write_run(tmp_path / "b"))
    assert any(
        "3 receivers stand at different places" in note and "by 25 m" in note for note in comparison.notes
    )


def test_runs_with_nothing_in_common_are_refused(tmp_path):
    run = write_run(tmp_path / "a")
    with pytest.raises(InputError, match=r"no receiver is in both.*XX.A, XX.B, XX.C, the other XX.D"):
        compare_runs(run, write_run(tmp_path / "b", "D"))
    with pytest.raises(InputError, match="one holds velocity, the other displacement"):
        compare_runs(run, write_run(tmp_path / "c", quantity="displacement"))
    with pytest.raises(InputError, match="fewer than two samples"):
        compare_runs(run, write_run(tmp_path / "d", written=1))
    with pytest.raises(OutputError, match="holds no seismograms.h5"):
        compare_runs(run, tmp_path)


def test_tables_hold_plain_values(tmp_path):
    import json

    comparison = compare_runs(write_run(tmp_path / "a", factor=1.1), write_run(tmp_path / "b"))
    content = json.loads(json.dumps(comparison.to_dict()))
    assert content["overall_relative_l2"] == pytest.approx(0.1)
    assert [row["name"] for row in content["receivers"]] == ["XX.A", "XX.B", "XX.C"]
    text = str(comparison)
    assert "XX.B" in text and "10.000%" in text


def test_envelope_and_phase_need_obspy_only_to_be_there(tmp_path, monkeypatch):
    run = write_run(tmp_path / "a")
    monkeypatch.setattr("lithowave.output.compare.find_spec", lambda name: None)
    comparison = compare_runs(run, run)
    assert comparison.envelope_misfit is None
    assert "need ObsPy" in comparison.notes[0]


def test_envelope_and_phase_are_there_with_obspy(tmp_path):
    pytest.importorskip("obspy")
    comparison = compare_runs(write_run(tmp_path / "a", factor=1.1), write_run(tmp_path / "b"))
    assert comparison.envelope_misfit.shape == (3, 3)
    assert comparison.envelope_misfit.max() == pytest.approx(0.1, rel=1e-3)
    assert comparison.phase_misfit.max() < 1e-6


def test_the_figure_is_drawn(tmp_path):
    run = make_run_folder(tmp_path / "run", 3, samples=100, points=5, steps=1, vertical_plane=False)
    path = compare_runs(run, run, wavelets=False).figure(tmp_path / "out" / "compare.png")
    assert path.read_bytes()[:4] == b"\x89PNG"
