"""Three-dimensional models on top of radial ones: files, values in a domain, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.earth import RADIUS, reference_model
from lithowave.readers import read_perturbation_model
from lithowave.run import check_simulation

netCDF4 = pytest.importorskip("netCDF4")

LONGITUDE, LATITUDE, DEPTH = np.arange(5.0, 16.0), np.arange(40.0, 51.0), np.array([50.0, 100.0, 200.0, 400.0])
DOMAIN = {"x": [-2e5, 2e5], "y": [-2e5, 2e5], "z": [-6e5, 0], "crs": {"longitude": 10.0, "latitude": 45.0}}
PARTS = {
    "domain": DOMAIN, "sources": [], "duration": 1.0,
    "solver": {"method": "spectral_element", "max_frequency": 0.02},
}  # fmt: skip


def percent(longitude: Any, latitude: Any, depth: Any) -> Any:
    """A function that trilinear interpolation reproduces."""
    return 0.2 * (longitude - 10.0) - 0.1 * (latitude - 45.0) + 0.004 * depth


def write(
    path: Path, names: dict[str, tuple[str, float]] | None = None, change: Callable[[Any], None] | None = None,
    longitude: np.ndarray = LONGITUDE,
) -> Path:  # fmt: skip
    """Write variables by name: unit, and factor of `percent`."""
    with netCDF4.Dataset(path, "w") as file:
        for name, values, units in (
            ("depth", DEPTH, "km"), ("latitude", LATITUDE, "degrees_north"), ("longitude", longitude, "degrees_east"),
        ):  # fmt: skip
            file.createDimension(name, values.size)
            file.createVariable(name, "f8", (name,))[:] = values
            file[name].units = units
        file["depth"].positive = "down"
        lon, lat, depth = longitude, LATITUDE[:, None], DEPTH[:, None, None]
        for name, (units, factor) in (names or {"dvs": ("%", 1.0)}).items():
            variable = file.createVariable(name, "f8", ("depth", "latitude", "longitude"), fill_value=99999.0)
            variable[:] = factor * percent(lon, lat, depth)
            if units:
                variable.units = units
        if change is not None:
            change(file)
    return path


def simulation(path: Path, domain: dict[str, Any] | None = None, **more: Any) -> lw.Simulation:
    earth = {"model": "prem", "perturbations": [{"file": str(path), **more}]}
    return lw.Simulation(material={"earth": earth}, **{**PARTS, **({"domain": domain} if domain else {})})


X, Y = np.array([-1.5e5, 0.0, 3e4, 1.9e5]), np.array([1e5, 0.0, -1.7e5, -1.9e5])
Z = np.array([-6e4, -1e5, -3e5, -3.9e5])


def expected(made: lw.Simulation) -> tuple[np.ndarray, Any]:
    """The perturbation of the file at the points, as a fraction, and the radial model there."""
    longitude, latitude = made.domain.to_geographic(X, Y)
    return percent(longitude, latitude, -Z / 1e3) / 100.0, reference_model("prem").properties(RADIUS + Z)


@pytest.mark.parametrize(("name", "units", "factor"), [
    ("dvs", "%", 1.0), ("dlnvs", "1", 0.01), ("vs_perturbation", "percent", 1.0), ("vs", "%", 1.0),
])  # fmt: skip
def test_relative_values_change_the_radial_model(tmp_path: Path, name: str, units: str, factor: float) -> None:
    made = simulation(write(tmp_path / "s.nc", {name: (units, factor)}))
    change, plain = expected(made)
    vp, vs, rho = made.material.sample(X, Y, Z)
    np.testing.assert_allclose(vs, plain.vs * (1.0 + change), rtol=1e-12)
    np.testing.assert_array_equal(vp, plain.vp)
    np.testing.assert_array_equal(rho, plain.rho)
    assert np.abs(change).min() > 1e-3


def test_other_properties_follow_from_vs_if_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "s.nc")
    made = simulation(path, vp_from_vs=0.5, rho_from_vs=0.3)
    change, plain = expected(made)
    vp, vs, rho = made.material.sample(X, Y, Z)
    np.testing.assert_allclose(vp, plain.vp * (1.0 + 0.5 * change), rtol=1e-12)
    np.testing.assert_allclose(vs, plain.vs * (1.0 + change), rtol=1e-12)
    np.testing.assert_allclose(rho, plain.rho * (1.0 + 0.3 * change), rtol=1e-12)
    assert made.material.input_files() == [path]
    assert lw.Simulation.from_text(made.to_yaml()).material == made.material


def test_absolute_values_replace_the_radial_model(tmp_path: Path) -> None:
    def shift(file: Any) -> None:
        file["vs"][:] = 4.5 + 0.01 * file["vs"][:]
        file["rho"][:] = 3.4 + 0.01 * file["rho"][:]

    path = write(tmp_path / "s.nc", {"vs": ("km/s", 1.0), "rho": ("g/cm^3", 1.0), "dvp": ("%", 1.0)}, shift)
    made = simulation(path)
    change, plain = expected(made)
    vp, vs, rho = made.material.sample(X, Y, Z)
    np.testing.assert_allclose(vs, 4500.0 + 1000.0 * change, rtol=1e-12)
    np.testing.assert_allclose(rho, 3400.0 + 1000.0 * change, rtol=1e-12)
    np.testing.assert_allclose(vp, plain.vp * (1.0 + change), rtol=1e-12)


def test_the_radial_model_applies_where_the_file_has_no_value(tmp_path: Path) -> None:
    def hole(file: Any) -> None:
        file["dvs"][:, :5, :] = 99999.0  # south of 45 degrees

    made = simulation(write(tmp_path / "s.nc", change=hole))
    points = np.zeros(4), np.array([1e5, 1e5, 1e5, -5e4]), np.array([-1e5, -4e4, -4.1e5, -1e5])
    plain = reference_model("prem").properties(RADIUS + points[2])
    changed = made.material.sample(*points)[1] != plain.vs
    assert changed.tolist() == [True, False, False, False]  # inside; above, below; without values
    east = {**DOMAIN, "x": [3e5, 6e5]}  # the file ends at x = 390 km, at latitudes of 45 degrees
    points = np.array([3.5e5, 5.5e5]), np.zeros(2), np.full(2, -1e5)
    vs = simulation(write(tmp_path / "s.nc"), east).material.sample(*points)[1]
    assert (vs != reference_model("prem").properties(RADIUS - 1e5).vs).tolist() == [True, False]


def test_a_file_beside_the_domain_is_refused_and_gaps_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "s.nc")
    with pytest.raises(InputError, match="no values in the domain: it covers longitudes 5 to 15, latitudes 40 to 50"):
        simulation(path, {**DOMAIN, "crs": {"longitude": -10.0, "latitude": 45.0}})
    with pytest.raises(InputError, match="depths 50 to 400 km; expected a grid that overlaps the domain"):
        simulation(path, {**DOMAIN, "z": [-4e4, 0.0]})
    (text,) = (one for one in simulation(path).warnings() if "of the domain" in one)
    assert "has values in 57% of the domain" in text  # 350 of 600 km, at 19 of 33 positions
    inside = {**DOMAIN, "z": [-390e3, -60e3]}
    parts = {**PARTS, "boundaries": {"top": "absorbing"}, "domain": inside}
    made = lw.Simulation(material={"earth": {"model": "prem", "perturbations": [{"file": str(path)}]}}, **parts)
    assert not [one for one in made.warnings() if "of the domain" in one]


def test_topography_has_the_perturbation_at_sea_level(tmp_path: Path) -> None:
    def shallow(file: Any) -> None:
        file["depth"][:] = [0.0, 100.0, 200.0, 400.0]

    made = simulation(write(tmp_path / "s.nc", change=shallow))
    x, z = np.full(4, 5e4), np.array([0.0, 10.0, 3000.0, -10.0])
    vs = made.material.sample(x, x, z)[1]
    assert vs[0] != reference_model("prem").properties(RADIUS).vs and vs[0] == vs[1] == vs[2] != vs[3]


@pytest.mark.parametrize("first", [-180.0, 0.0, 170.0])
def test_grids_around_the_globe_have_no_seam(tmp_path: Path, first: float) -> None:
    longitude = np.arange(first, first + 360.0, 10.0)

    def wave(file: Any) -> None:
        file["dvs"][:] = np.cos(np.radians(longitude)) * np.ones((4, 11, 1))

    path = write(tmp_path / "s.nc", change=wave, longitude=longitude)
    for center in (-175.0, 10.0, 0.0, 180.0, 195.0):
        domain = {**DOMAIN, "crs": {"longitude": center if center <= 180.0 else center - 360.0, "latitude": 45.0}}
        vs = simulation(path, domain).material.sample(np.zeros(1), np.zeros(1), np.array([-1e5]))[1]
        low = np.floor(center / 10.0) * 10.0
        share = (center - low) / 10.0
        change = np.cos(np.radians(low)) * (1.0 - share) + np.cos(np.radians(low + 10.0)) * share
        plain = reference_model("prem").properties(RADIUS - 1e5).vs
        np.testing.assert_allclose(vs / plain - 1.0, 0.01 * change, rtol=1e-10)


@pytest.mark.parametrize("method", ["spectral_element", "discontinuous_galerkin"])
def test_elements_are_smaller_where_waves_are_slower(tmp_path: Path, method: str) -> None:
    """The perturbed model has the requested points per wavelength."""

    def slow(file: Any) -> None:
        file["dvs"][:] = -40.0

    path = write(tmp_path / "slow.nc", change=slow)
    solver = {"method": method, "max_frequency": 0.02, "points_per_wavelength": 6.0}
    earth = {"model": "prem", "attenuation": False, "perturbations": [{"file": str(path)}]}
    checked = check_simulation(lw.Simulation(material={"earth": earth}, **{**PARTS, "solver": solver}), measure=False)
    assert 6.0 <= checked.plan["points_per_wavelength"] < 8.0


def test_what_a_file_has_and_lithowave_does_not_use_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "s.nc", {"dvs": ("%", 1.0), "xi": ("1", 1.0)})
    assert read_perturbation_model(path).unused == ("xi",)
    notes = [text for text in simulation(path).warnings() if "perturbations[0]" in text]
    assert len(notes) == 2 and "not used: xi" in notes[0] and "of the domain" in notes[1]
    text = [note for note in lw.Simulation(material={"earth": "iasp91"}, **PARTS).warnings() if "iasp91" in note]
    assert text == ["material.earth: iasp91 has no density and no quality factors: its density is that of ak135."]


def values(variable: str, place: Any, value: float) -> Callable[[Any], None]:
    return lambda file: file[variable].__setitem__(place, value)


def no_units(variable: str) -> Callable[[Any], None]:
    return lambda file: file[variable].delncattr("units")


REFUSED = {
    "no units": ({"dvs": ("%", 1.0)}, no_units("dvs"), r"dvs: has no units; expected % or 1"),
    "unknown units": ({"dvs": ("km/s", 1.0)}, None, r"dvs: has the units 'km/s'; expected % or 1"),
    "too large": ({"dvs": ("%", 1.0)}, values("dvs", 0, 60.0), r"dvs: runs from .* to 0.6; allowed: -0.5 to 0.5"),
    "twice": ({"dvs": ("%", 1.0), "dlnvs": ("1", 0.01)}, None, r"vs has two variables, dvs and dlnvs"),
    "nothing": ({"xi": ("1", 1.0)}, None, r"neither absolute nor relative values of vp, vs or rho.*: xi"),
    "no values": ({"dvs": ("%", 1.0)}, values("dvs", ..., 99999.0), r"dvs: has no values"),
    "no unit of depth": ({"dvs": ("%", 1.0)}, no_units("depth"), r"depth: has no units"),
    "absolute in a wrong unit": ({"vs": ("m/s", 1.0)}, None, r"vs: runs from .*; allowed: 30 to 12000"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_files_are_refused_with_their_variable(tmp_path: Path, case: str) -> None:
    names, change, message = REFUSED[case]
    path = write(tmp_path / "s.nc", names, change)
    with pytest.raises(InputError, match=message) as caught:
        read_perturbation_model(path)
    assert str(path) in str(caught.value)
    with pytest.raises(InputError, match=r"material.earth.perturbations\[0\].file: .*s.nc"):
        simulation(path)


def test_other_refusals(tmp_path: Path) -> None:
    path = write(tmp_path / "s.nc")
    with pytest.raises(InputError, match=r"perturbations\[0\]: .*the domain has none.*domain.crs"):
        simulation(path, {name: ends for name, ends in DOMAIN.items() if name != "crs"})
    with pytest.raises(InputError, match=r"perturbations\[0\].vp_from_vs: 0.5 is given, and .* has vp"):
        simulation(write(tmp_path / "p.nc", {"dvp": ("%", 1.0), "dvs": ("%", 1.0)}), vp_from_vs=0.5)
    with pytest.raises(InputError, match=r"perturbations\[0\].rho_from_vs: 0.5 is given, and .* has no vs"):
        simulation(write(tmp_path / "p.nc", {"dvp": ("%", 1.0)}), rho_from_vs=0.5)
    damaged = tmp_path / "d.nc"
    damaged.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(InputError, match=r"material.earth.perturbations\[0\].file: .*d.nc"):
        simulation(damaged)
    with pytest.raises(InputError, match="have no positions in the box without a domain"):
        lw.Material(earth={"model": "prem", "perturbations": [{"file": str(path)}]}).sample(0.0, 0.0, 0.0)
    with pytest.raises(InputError, match="bulk modulus is positive"):  # vp much too small for vs
        simulation(write(tmp_path / "p.nc", {"dvp": ("%", -14.0), "dvs": ("%", 10.0)}))
