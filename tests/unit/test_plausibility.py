"""Densities and speeds that lack a unit are refused with the likely unit, unless the description allows them."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

import lithowave as lw
from box_runs import boxed

ROCK = {"vp": 5000, "vs": 2900, "rho": 2600}
LOST = {"vp": 3.2, "vs": 1.6, "rho": 2.3}  # km/s and g/cm^3 without units
SOURCE = {
    "position": [0, 0, -500], "moment_tensor": {"xx": 1e15}, "time_function": {"gaussian": {"sigma": 0.5, "delay": 3}},
}  # fmt: skip


def described(material, **changes):
    solver = {"max_frequency": 1.0, "method": "discontinuous_galerkin"}
    return boxed(**{"material": material, "sources": [SOURCE], "duration": 1.0, "solver": solver, **changes})


def refused(material, **changes):
    with pytest.raises(lw.InputError) as caught:
        described(material, **changes)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rho": 2.6}, ["material.homogeneous.rho: 2.6 kg/m^3 is implausible; allowed: 300 to 25000 kg/m^3",
                        "did you mean 2.6 g/cm^3 (2600 kg/m^3)?", "material.allow_implausible: true"]),
        ({"rho": 2.6e6}, ["rho: 2600000 kg/m^3 is implausible", "did you mean 2600 kg/m^3?"]),
        ({"rho": 26000}, ["rho: 26000 kg/m^3 is implausible; allowed: 300 to 25000 kg/m^3. If the values are meant"]),
        ({"vp": 3.2, "vs": 1.6}, ["homogeneous.vp: 3.2 m/s is implausible", "did you mean 3.2 km/s (3200 m/s)?",
                                  "homogeneous.vs: 1.6 m/s is", "or 0 in a fluid; did you mean 1.6 km/s (1600 m/s)?"]),
        ({"vp": 3.2}, ["vp^2 must be greater than 4/3 vs^2", "did you mean 3.2 km/s (3200 m/s)?"]),
        ({"vp": 5e6, "vs": 29.9}, ["vp: 5000000 m/s", "did you mean 5000 m/s?", "vs: 29.9 m/s"]),
    ],
)  # fmt: skip
def test_homogeneous(changes, words):
    text = refused({"homogeneous": {**ROCK, **changes}})
    assert all(word in text for word in words), text


@pytest.mark.parametrize("changes", [{"vp": 30000, "vs": 17000}, {"vs": 30, "rho": 300}, {"vs": 0}, {"rho": 25000}])
def test_the_ends_of_the_ranges_and_fluids_are_plausible(changes):
    assert described({"homogeneous": {**ROCK, **changes}})


def test_anisotropic_solids():
    tilted = {**ROCK, "anisotropy": {"epsilon": 0.1}}
    assert "homogeneous.rho: 2.6 kg/m^3" in refused({"homogeneous": {**tilted, "rho": 2.6}})
    moduli = [54e9, 14e9, 14e9, 0, 0, 0, 54e9, 14e9, 0, 0, 0, 54e9, 0, 0, 0, 20e9, 0, 0, 20e9, 0, 20e9]
    assert described({"homogeneous": {"rho": 2600, "stiffness": moduli}})
    light = refused({"homogeneous": {"rho": 2.6, "stiffness": moduli}})
    assert "rho: 2.6 kg/m^3" in light and "stiffness" not in light
    soft = refused({"homogeneous": {"rho": 2600, "stiffness": [value * 1e-9 for value in moduli]}})
    assert "homogeneous.stiffness: these moduli and rho = 2600 kg/m^3 give wave speeds of 0.0877" in soft
    assert "text may be in GPa" in soft


def model(path, factors=(1.0, 1.0, 1.0), units=None, slow=1500.0):
    """A gridded model: vp 2 vs, vs from `slow` to 2900 m/s from the top down."""
    vs = np.broadcast_to(np.linspace(2900.0, slow, 4), (2, 3, 4))
    with h5py.File(path, "w") as file:
        for name, size in (("x", 2), ("y", 3), ("z", 4)):
            file[name] = np.linspace(-1000, 0 if name == "z" else 1000, size)
        values = zip(("vp", "vs", "rho"), (2 * vs, vs, np.full((2, 3, 4), 2500.0)), factors, strict=True)
        for name, array, factor in values:
            file[name] = factor * array
            if units:
                file[name].attrs["units"] = units[name]
    return {"file": path}


def test_gridded_models_state_variable_range_and_units(tmp_path):
    assert described(model(tmp_path / "good.h5"))
    text = refused(model(tmp_path / "km.h5", (1e-3, 1e-3, 1.0)))
    assert "material.file: vp of " in text and "km.h5 (without the attribute units) is 3 to 5.8 m/s" in text
    assert 'Are the numbers in km/s? Then give vp the attribute units = "km/s"' in text and "rho" not in text
    stated = {"vp": "km/s", "vs": "km/s", "rho": "g/cm^3"}
    assert described(model(tmp_path / "stated.h5", (1e-3, 1e-3, 1e-3), stated))
    text = refused(model(tmp_path / "wrong.h5", (1.0, 1.0, 1e-3), stated))
    assert "vs of " in text and "(units: km/s) is 1.5e+06 to 2.9e+06 m/s in the domain" in text
    assert 'give vs the attribute units = "m/s"' in text
    text = refused(model(tmp_path / "slow.h5", slow=20.0))
    assert "20 m/s is implausible (x = -1000 m, y = -1000 m, z = 0 m)" in text and "Are the numbers" not in text


def test_functions_are_judged_where_they_are_sampled():
    def function(x, y, z):
        return np.full(x.shape, 3.2), np.where(z > -500, 0.0, 1.6), np.full(x.shape, 2500.0)

    text = refused({"function": function})
    assert "material.function: vp is 3.2 to 3.2 m/s in the domain" in text and "vs is 1.6 to 1.6 m/s" in text
    assert "Does the function return km/s? It must return m/s." in text and "rho" not in text


def test_implausible_values_may_be_allowed(tmp_path):
    solver = {"method": "discontinuous_galerkin", "max_frequency": 1e-3}
    simulation = described({"homogeneous": LOST, "allow_implausible": True}, solver=solver)
    assert lw.Simulation.from_text(simulation.to_yaml()) == simulation
    assert described({**model(tmp_path / "km.h5", (1e-3, 1e-3, 1e-3)), "allow_implausible": True}, solver=solver)
    assert "allow_implausible" not in described({"homogeneous": ROCK}).to_yaml()
