"""Two runs held against each other: matching, resampling, and what is refused."""

import json
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from lithowave import InputError, OutputError
from lithowave.compare import compare_runs
from lithowave.figures import title
from lithowave.output import SeismogramWriter
from sample_run import make_run_folder
from small_machine import hide_packages


def pulse(time, delay):
    return np.exp(-(((time - delay) / 0.4) ** 2))


def write_run(
    folder, names=("A", "B", "C"), interval=0.05, samples=200, factor=1.0, shift=0.0, quantity="velocity", written=None,
    offset=0.0, noise=None, attributes=None,
):  # fmt: skip
    """Traces are pulses whose delay is told by the station's letter, so that a wrong match shows."""
    time = np.arange(samples) * interval
    receivers = [
        SimpleNamespace(network="XX", station=name, position=(ord(name) * 10.0 + offset, 0, 0)) for name in names
    ]
    data = np.zeros((len(names), 3, samples))
    for row, name in enumerate(names):
        for component in range(3):
            data[row, component] = factor * (component + 1) * pulse(time, ord(name) - 62 + shift)
    if noise is not None:
        data += 0.8 * np.sin(2 * np.pi * noise * time) * np.exp(-(((time - 5.0) / 1.5) ** 2))
    written = samples if written is None else written
    path = folder / "seismograms.h5"
    more = {"precision": "double", "attributes": attributes}
    with SeismogramWriter(path, receivers, interval, samples, quantity, **more) as writer:
        writer.write(0, {"motion": data[..., :written]})
    return folder


def describe(folder, max_frequency=None, **plan):
    """Write what a run tells of its method and of the frequencies that it resolves."""
    (folder / "run.json").write_text(json.dumps({"plan": plan}))
    frequency = "null" if max_frequency is None else max_frequency
    (folder / "simulation.yaml").write_text(f"solver: {{max_frequency: {frequency}}}\n")
    return folder


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


def test_moved_receivers_are_told(tmp_path):
    comparison = compare_runs(write_run(tmp_path / "a", offset=25.0), write_run(tmp_path / "b"))
    assert any("3 receivers have different positions" in note and "by 25 m" in note for note in comparison.notes)


def test_runs_with_nothing_in_common_are_refused(tmp_path):
    run = write_run(tmp_path / "a")
    with pytest.raises(InputError, match=r"no receiver in common.*XX.A, XX.B, XX.C, the second XX.D"):
        compare_runs(run, write_run(tmp_path / "b", "D"))
    with pytest.raises(InputError, match="one run contains velocity, the other displacement"):
        compare_runs(run, write_run(tmp_path / "c", quantity="displacement"))
    with pytest.raises(InputError, match="fewer than two samples"):
        compare_runs(run, write_run(tmp_path / "d", written=1))
    with pytest.raises(OutputError, match="contains no seismograms.h5"):
        compare_runs(run, tmp_path)


def test_envelope_and_phase_need_obspy_only_to_be_there(tmp_path, monkeypatch):
    run = write_run(tmp_path / "a")
    hide_packages(monkeypatch, "obspy")
    comparison = compare_runs(run, run)
    assert comparison.envelope_misfit is None and comparison.band is None and comparison.worst_component() is None
    assert comparison.notes == ["No envelope and phase misfits: they require ObsPy (pip install 'lithowave[formats]')."]
    assert str(comparison).splitlines()[-1] == comparison.notes[0]
    content = comparison.to_dict()
    assert content["misfit_band"] is None and set(content["summary"]) == {"relative_l2", "time_shift"}
    assert content["receivers"][0]["phase_misfit"] is None and content["receivers"][0]["phase_misfit_E"] is None
    assert comparison.figure(tmp_path / "compare.png").exists()


def test_receivers_without_motion_have_no_envelope_and_phase(tmp_path):
    pytest.importorskip("obspy")
    run, reference = write_run(tmp_path / "a"), write_run(tmp_path / "b")
    with h5py.File(reference / "seismograms.h5", "r+") as file:
        file["motion"][0] = 0.0
    comparison = compare_runs(run, reference)
    rows = comparison.rows()
    assert rows[0]["envelope_misfit"] is None and rows[1]["envelope_misfit"] < 1e-6
    assert comparison.summary()["envelope_misfit"]["receiver"] != "XX.A"
    with h5py.File(reference / "seismograms.h5", "r+") as file:
        file["motion"][1, 2] = 0.0
    comparison = compare_runs(run, reference)
    assert comparison.worst_component() == (1, 2) and comparison.envelope_misfit[1, 2] == pytest.approx(1.5, rel=1e-3)
    assert comparison.figure(tmp_path / "compare.png").exists()


def test_runs_of_different_methods_and_intervals(tmp_path):
    pytest.importorskip("obspy")
    elements = describe(
        write_run(tmp_path / "a", interval=0.031, samples=320), 1.5, method="spectral_element", degree=4
    )
    differences = describe(write_run(tmp_path / "b"), 1.2, method="finite_difference", order=8)
    comparison = compare_runs(elements / "seismograms.h5", differences)
    assert comparison.methods == ("spectral element (degree 4)", "finite difference (order 8)")
    assert comparison.band[1] == 1.2 and comparison.band[0] == pytest.approx(3.0 / comparison.time[-1], rel=0.02)
    assert max(comparison.envelope_misfit.max(), comparison.phase_misfit.max()) < 1e-3
    text = str(comparison)
    assert "spectral element (degree 4), relative to" in text and "to 1.2 Hz" in text
    assert comparison.to_dict()["reference_method"] == "finite difference (order 8)"
    assert "\nspectral element (degree 4) against finite difference (order 8)" in title(comparison)


def test_a_low_pass_takes_away_what_is_above_it(tmp_path):
    noisy = describe(write_run(tmp_path / "a", noise=6.0, interval=0.02, samples=500), 1.0, method="finite_difference")
    reference = write_run(tmp_path / "b")
    assert compare_runs(noisy, reference, wavelets=False).overall_l2 > 0.3
    comparison = compare_runs(noisy, reference, max_frequency=1.5)
    assert comparison.overall_l2 < 1e-3 and comparison.max_frequency == 1.5
    assert comparison.band is None or comparison.band[1] == 1.5
    assert "The first run resolves frequencies only up to 1 Hz (solver.max_frequency)." in comparison.notes
    assert "below 1.5 Hz" in str(comparison) and "below 1.5 Hz" in title(comparison)


@pytest.mark.parametrize("interval", [0.05, 0.03])
def test_runs_of_different_duration_are_compared_over_the_common_time(tmp_path, interval):
    """The shorter run ends within the pulse of B, which a low-pass of the longer run continues."""
    longer = write_run(tmp_path / "a")
    shorter = write_run(tmp_path / "b", interval=interval, samples=round(4.2 / interval) + 1)
    for pair in ((shorter, longer), (longer, shorter)):
        comparison = compare_runs(*pair, max_frequency=1.5)
        assert comparison.time[-1] == pytest.approx(4.2)
        assert comparison.overall_l2 < (1e-12 if interval == 0.05 else 1e-3)
        assert comparison.data_a[0, 0, -1] == 0.0 and np.abs(comparison.data_a[0, 0, :-20]).max() > 0.5
        [note] = [text for text in comparison.notes if "compared up to" in text]
        assert "ends at 9.95 s" in note or "second at 9.95 s" in note
        assert "with a taper of the last 1.05 s" in note  # a quarter of the common time
    notes = compare_runs(shorter, longer, wavelets=False).notes
    assert "The first run ends at 4.2 s and the second at 9.95 s: compared up to t = 4.2 s." in notes
    assert not any("compared up to" in note for note in compare_runs(longer, longer, max_frequency=1.5).notes)


def test_a_receiver_with_little_motion_is_marked(tmp_path):
    """As on a node of the radiation pattern: the same absolute error is a large relative misfit there."""
    reference, run = (write_run(tmp_path / name) for name in "ab")
    for folder, error in ((reference, 0.0), (run, 1e-3)):
        with h5py.File(folder / "seismograms.h5", "r+") as file:
            data = file["motion"]
            data[1] = 2e-3 * data[1]
            data[...] = data[...] + error * np.sin(np.arange(200) / 5.0)
    comparison = compare_runs(run, reference)
    assert comparison.weak.tolist() == [False, True, False] and comparison.rows()[1]["weak"]
    assert comparison.relative_l2[1] > 0.2 > 0.01 > comparison.overall_l2
    text = str(comparison)
    assert "XX.B * " in text and "1 of 3 receivers move less than 1% of the strongest" in text
    assert (
        not compare_runs(run, run).relative_l2.any()
        and not compare_runs(write_run(tmp_path / "c"), write_run(tmp_path / "d")).weak.any()
    )


@pytest.mark.parametrize("frequency", [0.0, -1.0, 10.0, float("nan")])
def test_a_low_pass_that_cannot_be_is_refused(tmp_path, frequency):
    run = write_run(tmp_path / "a")
    with pytest.raises(InputError, match="--fmax: .* below the Nyquist frequency of the coarser run, 10 Hz"):
        compare_runs(run, run, max_frequency=frequency)


def test_the_figure_is_drawn(tmp_path):
    run = make_run_folder(tmp_path / "run", 3, samples=100, points=5, steps=1, vertical_plane=False)
    path = compare_runs(run, run, wavelets=False).figure(tmp_path / "out" / "compare.png")
    assert path.read_bytes()[:4] == b"\x89PNG"
    pytest.importorskip("obspy")
    with_maps = compare_runs(run, run).figure(tmp_path / "maps.png")
    assert picture_height(with_maps) > picture_height(path)


def picture_height(path):
    from matplotlib.image import imread

    return imread(path).shape[0]


def test_other_origin_times_are_told(tmp_path):
    dates = ({"origin_time": "2008-07-29T18:42:15"}, {"origin_time": "2008-07-29T18:42:13"})
    first, second = (write_run(tmp_path / name, attributes=date) for name, date in zip("ab", dates, strict=True))
    notes = compare_runs(first, second, wavelets=False).notes
    assert any("18:42:15 in the first run and 2008-07-29T18:42:13 in the second" in note for note in notes)
