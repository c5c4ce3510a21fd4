"""Results in Python: xarray Datasets, pandas tables, short representations, and progress in a notebook."""

from __future__ import annotations

import io

import numpy as np
import pytest

import lithowave as lw
from lithowave.run import ProgressLine
from small_run import SMALL


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    text = SMALL.replace("z: [-800, 0]}", "z: [-800, 0], crs: {longitude: -117.76, latitude: 33.95}}")
    text = text.replace("quantity: velocity", "quantity: velocity\n  stress: true\n  pressure: true")
    folder = tmp_path_factory.mktemp("python")
    return lw.Simulation.from_text(text).run(output=folder / "out")


def test_seismograms_as_a_dataset(result, tmp_path):
    xarray = pytest.importorskip("xarray")
    run = result.seismograms
    data = run.to_xarray()
    assert dict(data.sizes) == {"receiver": 4, "component": 3, "time": 41, "tensor_component": 6}
    assert np.array_equal(data.velocity.sel(receiver="XX.S01", component="N"), run["XX.S01"][1])
    assert np.array_equal(data.stress.sel(tensor_component="xz"), run.stress[:, 4])
    units = {name: data[name].attrs["units"] for name in ("velocity", "stress", "pressure", "time", "x", "longitude")}
    assert list(units.values()) == ["m/s", "Pa", "Pa", "s", "m", "degrees_east"]
    assert (float(data.x[0]), float(data.y[0])) == (330.0, 250.0) and 33.95 < float(data.latitude[0]) < 33.96
    assert data.attrs["title"] == "small" and data.attrs["crs"].startswith("+proj=tmerc")
    data.to_netcdf(tmp_path / "seismograms.nc")
    with xarray.open_dataset(tmp_path / "seismograms.nc") as again:
        assert np.array_equal(again.velocity, data.velocity) and again.attrs == data.attrs


def test_peak_motion_and_snapshots_as_datasets(result):
    pytest.importorskip("xarray")
    peaks = result.peak_motion.to_xarray()
    assert peaks.pgv_horizontal.dims == ("y", "x") and peaks.pgd_total.attrs["units"] == "m"
    assert np.array_equal(peaks.pgv_total, result.peak_motion.pgv["total"]) and "longitude" in peaks.coords
    with result.snapshots(0) as plane, result.snapshots(-1) as volume:
        planes = plane.to_xarray()
        assert planes.velocity.dims == ("time", "z", "y", "x", "component") and len(planes.time) == len(plane)
        assert np.array_equal(planes.velocity[2], plane.read(2, "velocity"))
        some = volume.to_xarray(steps=slice(1, 3), fields=["stress", "pressure"])
        assert some.stress.dims[-1] == "tensor_component" and some.pressure.dims == ("time", "z", "y", "x")
        assert np.array_equal(some.pressure[0], volume.read(1, "pressure"))
        assert np.array_equal(some.z, volume.axis("z")) and some.time.attrs["units"] == "s"
        assert volume.to_xarray(steps=[]).stress.shape == (0, *volume.shape, 6)
        assert "steps" in repr(volume) and len(repr(volume)) < 200
    with pytest.raises(lw.InputError, match="there is no set 2"):
        result.snapshots(2)


def test_receivers_and_misfits_as_tables(result):
    pytest.importorskip("pandas")
    table, run = result.to_pandas(), result.seismograms
    assert list(table.index) == run.names and table.attrs["units"]["peak_total"] == "m/s"
    motion = run["XX.S01"].astype(float)
    assert table.loc["XX.S01", "peak_vertical"] == np.abs(motion[2]).max()
    assert table.loc["XX.S01", "peak_horizontal"] == np.hypot(*motion[:2]).max()
    assert table.loc["XX.S01", "peak_time"] == run.time[np.argmax((motion**2).sum(axis=0))]
    misfits = lw.compare_runs(result.directory, result.directory, wavelets=False).to_pandas()
    assert list(misfits.index) == run.names and (misfits.relative_l2 == 0.0).all()


def test_representations_fit_on_a_screen(result):
    simulation = lw.Simulation.from_text(SMALL)
    comparison = lw.compare_runs(result.directory, result.directory, wavelets=False)
    texts = [repr(each) for each in (simulation, result, result.seismograms, result.peak_motion, comparison)]
    assert max(len(text) for text in texts) < 500 and max(text.count("\n") for text in texts) < 8
    assert "1.2 x 1.2 x 0.8 km" in texts[0] and "finite_difference, spacing 100 m, 0.8 s" in texts[0]
    assert "receivers: 4 (XX.S01, XX.L1, XX.L2, XX.L3)" in texts[0] and str(simulation) == texts[0]
    assert texts[1].startswith(f"<Result in {result.directory}: finished, ")
    assert "4 receivers, 41 samples every 0.02 s from t = 0 to 0.8 s" in texts[2]


def entries(step, steps=5000):
    return {
        "unit": "points", "points": 100, "step": step, "steps": steps, "time_s": 0.1 * step, "end_s": 0.1 * steps,
        "remaining_s": 1.0, "rate_points_per_s": 1e6,
    }  # fmt: skip


def test_progress_is_one_line_or_nothing(tmp_path, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, writes in ((Terminal(), 5001), (io.StringIO(), 1)):
        line = ProgressLine(stream)
        for step in range(5001):
            line(entries(step))
        text = stream.getvalue()
        assert text.count("\n") == 1 and text.count("step ") == writes
        assert text.rpartition("\r")[2].startswith("step 5000 of 5000 (100%), t = 500 of 500 s")
    lw.Simulation.from_text(SMALL).run(output=tmp_path / "out", show=True)
    assert capsys.readouterr().out.count("\n") == 1
    lw.Simulation.from_text(SMALL).run(output=tmp_path / "quiet")
    assert capsys.readouterr().out == ""
