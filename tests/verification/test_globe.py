"""A piece of the globe against the closed form of a homogeneous full space, before waves reach its sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lithowave as lw
from exact_solutions.full_space import full_space_force, full_space_moment
from mpi_runs import largest_difference, on_ranks, write_description
from slow_variants import slow_except
from verification_tools import relative_l2

VP, VS, RHO = 8000.0, 4500.0, 3300.0
MOMENT = {"xx": 1e20, "yy": -3e19, "zz": 2e19, "xy": 5e19, "xz": -4e19, "yz": 3e19}
MECHANISMS: dict[str, dict[str, Any]] = {"moment": {"moment_tensor": MOMENT}, "force": {"force": [2e14, -1e14, 3e14]}}
# In each hemisphere, across the date line, and at a pole: the components must turn with the place.
PLACES = {"north": (20.0, 35.0, 30.0), "date line": (179.0, -20.0, -75.0), "pole": (0.0, 90.0, 10.0)}
LIMITS = {"moment": 0.004, "force": 0.008}
RECEIVERS = {"A": (2.0e5, -1.5e5, -5e5), "B": (-2.1e5, 1.9e5, -9e5), "C": (0.4e5, 3.0e5, -11e5)}  # local x, y, z


def piece(place: str, mechanism: str, sigma: float, **more: Any) -> lw.Simulation:
    """Return a homogeneous piece of 16 x 16 degrees, 1600 km deep, with waves of the width `sigma`, s."""
    longitude, latitude, azimuth = PLACES[place]
    chunk = lw.Domain(chunk={"center": [longitude, latitude], "width": [16, 16], "depth": 1.6e6, "azimuth": azimuth})

    def at(x: float, y: float, z: float) -> dict[str, float]:
        east, north = chunk.to_geographic(x, y)
        return {"longitude": float(east), "latitude": float(north), "depth": -z}

    entries = {
        "domain": {"chunk": chunk.chunk},
        "material": {"homogeneous": {"vp": VP, "vs": VS, "rho": RHO}},
        "sources": [
            {**at(0.3e5, -0.4e5, -8e5), **MECHANISMS[mechanism],
             "time_function": {"gaussian": {"sigma": sigma, "delay": 4.5 * sigma}}}
        ],
        "receivers": [{"name": name, **at(*position)} for name, position in RECEIVERS.items()],
        "duration": 200.0,
        "solver": {"method": "spectral_element", "max_frequency": 0.4 / sigma, "points_per_wavelength": 7},
        "output": {"formats": [], "sampling_interval": 1.0, "checkpoint": None},
        "compute": {"precision": "double", "backend": "cpu"},
    }  # fmt: skip
    return lw.Simulation(**entries | more)


def exact(simulation: lw.Simulation, mechanism: str, times: np.ndarray) -> np.ndarray:
    """Return the velocity (receivers, components, times) in East, North and Up at each receiver."""
    chunk = simulation.domain.chunk.map
    (source,), found = simulation.acquisition.sources, []
    origin, axes = chunk.to_cartesian(*source.position), chunk.axes(*source.position[:2])
    for position in simulation.acquisition.receiver_positions:
        place = chunk.to_cartesian(*position)
        if mechanism == "force":
            force = axes.T @ source.force
            waves = full_space_force(place, origin, force, source.time_function, times, VP, VS, RHO, "velocity")
        else:
            xx, yy, zz, xy, xz, yz = source.moment
            tensor = axes.T @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ axes
            six = tensor[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
            waves = full_space_moment(place, origin, six, source.time_function, times, VP, VS, RHO, "velocity")
        found.append(chunk.axes(*position[:2]) @ waves)
    return np.array(found)


@pytest.mark.parametrize(
    ("place", "mechanism"),
    slow_except([("date line", "moment")], [(place, mechanism) for place in PLACES for mechanism in MECHANISMS]),
)
def test_a_homogeneous_piece_has_the_waves_of_a_full_space(place, mechanism, tmp_path):
    simulation = piece(place, mechanism, 16.0)
    seismograms = simulation.run(output=tmp_path / "run").seismograms
    error = relative_l2(seismograms.data, exact(simulation, mechanism, seismograms.time))
    assert error < LIMITS[mechanism]


def test_a_fluid_piece_has_the_waves_of_an_explosion(tmp_path):
    explosion = {"xx": 1e20, "yy": 1e20, "zz": 1e20}
    simulation = piece("north", "moment", 16.0, material={"homogeneous": {"vp": VP, "vs": 0, "rho": RHO}})
    source = simulation.sources[0].model_copy(update={"moment_tensor": lw.MomentTensor(**explosion)})
    simulation = simulation.model_copy(update={"sources": [source], "duration": 150.0})
    seismograms = simulation.run(output=tmp_path / "run").seismograms
    error = relative_l2(seismograms.data, exact(simulation, "moment", seismograms.time))
    assert error < 0.01


EARTH: dict[str, Any] = {
    "domain": {"chunk": {"center": [-67, -14], "width": [40, 30], "depth": "1500 km", "azimuth": 20}},
    "material": {"earth": {"model": "prem", "attenuation": False}},
    "sources": [
        {"longitude": -66.0, "latitude": -13.0, "depth": "600 km", "time_function": {"gaussian": {"sigma": 20}},
         "moment_tensor": MOMENT},
        {"longitude": -67.0, "latitude": -14.0, "depth": "30 km", "time_function": {"gaussian": {"sigma": 20}},
         "force": [1e14, 2e14, -1e14]},
    ],
    "receivers": [
        {"name": "CUT", "longitude": -67.0, "latitude": -14.0}, {"name": "IN", "longitude": -60, "latitude": -9},
        {"name": "LOW", "longitude": -72, "latitude": -17, "depth": "700 km"},
    ],
    "duration": 50.0,
    "solver": {"method": "spectral_element", "max_frequency": 0.006, "points_per_wavelength": 5},
    "compute": {"backend": "cpu", "precision": "double"},
    "output": {
        "sampling_interval": 2.0, "stress": True, "peak_motion": True, "formats": [], "checkpoint": None,
        "snapshots": [{"interval": 25.0, "plane": {"z": 0}}, {"interval": 50.0, "plane": {"x": 0}}],
    },
}  # fmt: skip


def test_transverse_isotropy_turns_with_the_place(tmp_path):
    """The same piece elsewhere on the Earth has the same vertical motion; the axis of the anisotropy is radial."""
    found = []
    cases = ("equator", [0, 0], True), ("north", [35, 50], True), ("isotropic", [0, 0], False)
    for name, center, anisotropy in cases:
        simulation = lw.Simulation(
            domain={"chunk": {"center": center, "width": [14, 14], "depth": "600 km"}},
            material={"earth": {"model": "prem", "attenuation": False, "anisotropy": anisotropy}},
            sources=[{
                "position": [0, 0, -100e3], "moment_tensor": {"zz": 1e20, "xx": 5e19},
                "time_function": {"gaussian": {"sigma": 20, "delay": 80}},
            }],
            receivers=[{"name": "A", "position": [2e5, 3e5, 0]}, {"name": "B", "position": [-4e5, 1e5, -3e5]}],
            duration=160.0, boundaries={"bottom": "free"},
            solver={"method": "spectral_element", "max_frequency": 0.02, "points_per_wavelength": 5},
            output={"formats": [], "sampling_interval": 4.0, "checkpoint": None},
            compute={"precision": "double", "backend": "cpu"},
        )  # fmt: skip
        result = simulation.run(output=tmp_path / name)
        # Elements with the discontinuities of the crust inside have an effective medium, which is anisotropic too.
        assert any("anisotropic" in kind for kind in result.report["plan"]["element_kinds"])
        data = result.seismograms.data
        found.append(np.stack([data[:, 2], np.hypot(data[:, 0], data[:, 1])]))
    assert np.abs(found[1] - found[0]).max() < 1e-9 * np.abs(found[0]).max()
    assert relative_l2(found[2], found[0]) > 0.02


@pytest.mark.slow
def test_the_outer_core_is_an_elastic_fluid(tmp_path):
    simulation = lw.Simulation(
        domain={"chunk": {"center": [10, 20], "width": [50, 50], "depth": "4000 km"}}, material={"earth": "prem"},
        sources=[{
            "longitude": 11, "latitude": 20, "depth": 2.6e6, "moment_tensor": {"xx": 1e20, "yy": 1e20, "zz": 1e20},
            "time_function": {"gaussian": {"sigma": 80, "delay": 100}},
        }],
        receivers=[{"name": "CORE", "longitude": 10, "latitude": 20, "depth": 3.2e6}], duration=200.0,
        solver={"method": "spectral_element", "max_frequency": 0.005, "points_per_wavelength": 5},
        output={"formats": [], "sampling_interval": 5.0, "checkpoint": None},
    )  # fmt: skip
    result = simulation.run(output=tmp_path / "run")
    kinds, relaxing = (result.report["plan"][name] for name in ("element_kinds", "relaxing_elements"))
    assert kinds["triquadratic fluid varying"] > 0
    assert sum(relaxing.values()) == sum(count for kind, count in kinds.items() if "fluid" not in kind)
    assert np.abs(result.seismograms.data).max() > 1e-9 and np.isfinite(result.seismograms.data).all()


@pytest.mark.mpi
@pytest.mark.parametrize("size", slow_except([2], [2, 3, 4]))
def test_a_piece_of_the_earth_on_several_ranks(size, tmp_path):
    file = write_description(tmp_path / "earth.yaml", EARTH)
    for number in (1, size):
        on_ranks(number, "run", str(file), "--output", str(tmp_path / str(number)))
    assert largest_difference(tmp_path / str(size), tmp_path / "1") < 1e-7  # snapshots are in single precision
