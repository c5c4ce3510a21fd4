"""The report and the figure of a material model."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.image import imread
from support.model_files import SIMULATION, speed, write_emc

import lithowave as lw
from lithowave.checks import model_report
from lithowave.figures import model_figure, model_sections, radial_profile
from lithowave.run import check_simulation, layer_lines
from small_run import lithowave


def layered(**changes):
    upper = {"top": 0, "vp": 4000, "vs": 2000, "rho": 2600}
    lower = {"top": -1000, "vp": 6000, "vs": 3464, "rho": 2700} | changes
    return lw.Simulation(material={"layers": [upper, lower]}, **SIMULATION)


def test_ranges_of_layers():
    report = model_report(layered())
    assert report.ranges["vp"] == (4000.0, 6000.0) and report.ranges["vp/vs"] == pytest.approx((6000 / 3464, 2.0))
    assert dict(report.lines())["model"].startswith("vp 4000 to 6000 m/s, vs 2000 to 3464 m/s, rho 2600 to 2700 kg/m^3")
    assert not report.remarks and not report.grids
    attenuating = lw.Simulation(
        material={"homogeneous": {"vp": 4000, "vs": 2000, "rho": 2600, "qp": 200, "qs": 100}}, **SIMULATION
    )
    assert model_report(attenuating).ranges["qmu"] == pytest.approx((100.0, 100.0))


def test_unusual_ratios_are_remarked():
    low, high = model_report(layered(vs=4500)).remarks, model_report(layered(vs=400)).remarks
    assert "vp/vs = 1.33 is below 1.414" in low[0] and "layers[1]" in low[0]
    assert "vp/vs = 15 is unusually large" in high[0]


def test_coverage_and_units_of_a_file(tmp_path):
    pytest.importorskip("netCDF4")
    parts = {**SIMULATION, "domain": {**SIMULATION["domain"], "z": [-60e3, 0]}}
    made = lw.Simulation(material={"file": str(write_emc(tmp_path / "emc.nc")), "extrapolate": True}, **parts)
    report = check_simulation(made, measure=False)
    rows = dict(report.model_lines)
    assert rows["model extent"].startswith("extrapolated beyond z min by 2e+04; units in the file: vp: km.s-1")
    assert rows["model grid"] == (
        "emc.nc: 9 x 11 x 7 points, longitude -120 to -118 degrees, latitude 33 to 35 degrees, z -40000 to 0 m"
    )
    assert report.as_dict()["model"]["extrapolated"] == {"z min": 20e3}
    assert rows["model"] in str(report)


def test_sections_are_the_values_of_the_model(tmp_path):
    pytest.importorskip("netCDF4")
    made = lw.Simulation(material={"file": str(write_emc(tmp_path / "emc.nc"))}, **SIMULATION)
    sections = model_sections(made)
    x, z = sections["west_east"]["a"], sections["west_east"]["b"]
    longitude, latitude = made.domain.to_geographic(x, 0.0 * x)
    expected = 1e3 * speed(np.asarray(longitude), np.asarray(latitude), -z[:, None] / 1e3)
    np.testing.assert_allclose(sections["west_east"]["vp"], expected, rtol=2e-7)
    y = sections["surface"]["b"]
    assert sections["surface"]["vp"].shape == (y.size, x.size)
    np.testing.assert_allclose(sections["surface"]["vs"][100], sections["west_east"]["vs"][-1], rtol=1e-12)
    np.testing.assert_allclose(sections["surface"]["vs"][:, 100], sections["south_north"]["vs"][-1], rtol=1e-12)


def test_the_figure_shows_both_layers(tmp_path):
    """The map is of one color, and the vertical section of two, one below the other."""
    path = model_figure(layered(top=-10e3), tmp_path / "model.png")
    picture = imread(path)[..., :3]
    height, width, _ = picture.shape
    column = picture[height // 3 : 2 * height // 3, width // 6]
    solid = column[(column.max(axis=1) - column.min(axis=1)) > 0.02]
    colors, counts = np.unique(solid.round(2), axis=0, return_counts=True)
    assert (counts > 0.05 * len(column)).sum() == 2, (colors, counts)


def test_radial_models_are_drawn_against_depth(tmp_path):
    """Both sides of each discontinuity down to the bottom of the domain, and the picture of the command."""
    parts = {**SIMULATION, "domain": {"x": [-2e5, 2e5], "y": [-2e5, 2e5], "z": [-7e5, 0]}}
    parts["solver"] = {"method": "spectral_element", "max_frequency": 0.02}
    made = lw.Simulation(material={"earth": {"model": "prem", "anisotropy": True}}, **parts)
    depths, here = radial_profile(made.material.earth.radial_model, 7e5)
    assert depths[0] == 0.0 and depths[-1] == 7e5 and (np.diff(depths) >= 0.0).all()
    np.testing.assert_allclose(here.vpv[depths == 4e5], [8905.24, 9133.92], atol=0.01)
    np.testing.assert_allclose(here.vsh[depths == 24.4e3], [3900.0, 4611.80], atol=0.01)
    path = model_figure(made, tmp_path / "prem.png")
    assert imread(path).shape[:2] == (880, 1440)
    elastic = lw.Simulation(material={"earth": {"model": "prem", "attenuation": False}}, **parts)
    assert imread(model_figure(elastic, tmp_path / "elastic.png")).shape[:2] == (880, 1040)  # no quality factors
    lines = dict(layer_lines(made))
    assert lines["depth 24.4 to 80 km"].endswith("rho 3374.7 to 3380.7 kg/m^3 (transversely isotropic)")


def test_groups_have_no_sections():
    made = layered()
    groups = made.material.model_copy(update={"layers": None, "groups": {"a": made.material.layers[0]}})
    with pytest.raises(lw.InputError, match="groups have no positions without the mesh"):
        model_sections(made.model_copy(update={"material": groups}))


def test_the_command_draws_the_model_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "case.yaml").write_text(layered().to_yaml())
    assert lithowave("plot", "--model", "case.yaml").strip() == "case_model.png"
    assert (tmp_path / "case_model.png").stat().st_size > 10_000
    assert "the folder is missing" in lithowave("plot", status=2)
    assert "expected one of DIR and --model FILE" in lithowave("plot", "folder", "--model", "case.yaml", status=2)
