"""Replaced entries: the same simulation as that of a description which states them, without reading files again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.model_files import SIMULATION, write_emc

import lithowave as lw

EXAMPLES = Path(__file__).parents[2] / "examples"


def rock(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
    return 5000 + 0 * z, 2900 + 0 * z, 2600 + 0 * z


BOX: dict[str, Any] = {
    "title": "box",
    "domain": {"x": [-4000, 4000], "y": [-4000, 4000], "z": [-4000, 0]},
    "material": {"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600}},
    "sources": [{"position": [0, 0, -2000], "force": [0, 0, 1e9], "time_function": {"ricker": {"frequency": 1.0}}}],
    "receivers": [{"name": "A", "position": [1000, 0, 0]}],
    "duration": 2.0,
    "solver": {"method": "spectral_element", "max_frequency": 2.0},
}
PULSE = {"gaussian": {"sigma": 0.3}}
TENSOR = {"moment_tensor": {"rr": 1e15, "tp": 2e14}, "position": [0, 0, -2000], "time_function": PULSE}
MODULI = [90e9, 30e9, 30e9, 0, 0, 0, 90e9, 30e9, 0, 0, 0, 90e9, 0, 0, 0, 30e9, 0, 0, 30e9, 0, 30e9]
BOXES = {
    "force": {},
    "tensor in spherical axes": {"sources": [TENSOR]},
    "moduli": {"material": {"homogeneous": {"stiffness": MODULI, "rho": 2600}}},
    "quality of moduli": {"material": {"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600, "qkappa": 200, "qmu": 90}}},
    "spacing": {"solver": {"method": "finite_difference", "spacing": 100}, "output": {"formats": ["segy"]}},
    "level of accuracy": {"solver": {"method": "discontinuous_galerkin", "max_frequency": 2.0, "accuracy": "draft"}},
    "function": {"material": {"function": rock}},
}
CHANGES: list[dict[str, Any]] = [
    {"title": "another"}, {"duration": 1.0}, {"output.formats": []}, {"compute.precision": "double"},
    {"boundaries.absorption": "stacey"}, {"solver.safety": 0.5}, {"receivers": []},
    {"sources.0.position": [0, 0, -1000]},
]  # fmt: skip


def described(name: str, changes: dict[str, Any]) -> lw.Simulation:
    """Return a simulation whose description states all entries."""
    if name in BOXES:
        return lw.Simulation(**BOX | BOXES[name]) if not changes else stated(name, changes)
    return lw.Simulation.from_file(EXAMPLES / name, changes)


def stated(name: str, changes: dict[str, Any]) -> lw.Simulation:
    parts = {**BOX, **BOXES[name]}
    for key, value in changes.items():
        first, *rest = key.split(".")
        if not rest:
            parts[first] = value
        elif first == "sources":
            parts["sources"] = [{**parts["sources"][0], rest[-1]: value}]
        else:
            parts[first] = {**parts.get(first, {}), rest[0]: value}
    return lw.Simulation(**parts)


def outcome(make: Callable[[], lw.Simulation]) -> lw.Simulation | str:
    """Return the simulation, or the message of its refusal without the file."""
    try:
        return make()
    except lw.InputError as error:
        return f"{error.where}: {error.got}; {error.allowed}"


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: next(iter(changes)))
@pytest.mark.parametrize("name", [*BOXES, "bolivia/small.yaml", "topography/mountain.yaml", "survey/refraction.yaml"])
def test_replaced_entries_are_those_of_a_description(name: str, changes: dict[str, Any]) -> None:
    replaced = outcome(lambda: described(name, {}).with_overrides(changes))
    expected = outcome(lambda: described(name, changes))
    assert replaced == expected
    if isinstance(replaced, str) or isinstance(expected, str):
        return
    assert replaced.experiment.material_extremes == expected.experiment.material_extremes
    positions = [one.acquisition.source_positions for one in (replaced, expected)]
    np.testing.assert_array_equal(*positions)
    if name != "function":
        assert replaced.to_yaml() == expected.to_yaml()


def test_model_files_are_read_again_only_if_they_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("netCDF4")
    path = write_emc(tmp_path / "emc.nc")
    simulation = lw.Simulation(material={"file": str(path)}, **SIMULATION)
    values = simulation.material.sample(0.0, 0.0, -1000.0)
    monkeypatch.setattr("lithowave.description.material.read_model", lambda _: pytest.fail("it is read again"))
    shorter = simulation.with_overrides({"duration": 0.5 * simulation.duration})
    assert shorter.material is simulation.material and shorter.material.sample(0.0, 0.0, -1000.0) == values
    monkeypatch.undo()
    assert simulation.changed_files() == []
    write_emc(path, change=lambda file: file["vp"].__setitem__(slice(None), 1.1 * file["vp"][:]))
    assert simulation.warnings()[-1].startswith(f"{path}: the file has changed since")
    again = simulation.with_overrides({"duration": 1.0})
    assert again.material.sample(0.0, 0.0, -1000.0)[0] > values[0] and not again.changed_files()
    path.unlink()
    with pytest.raises(lw.InputError, match="does not exist"):
        simulation.with_overrides({"duration": 1.0})


def test_an_experiment_in_another_material_has_the_same_sources() -> None:
    simulation = described("quality of moduli", {})
    experiment = simulation.experiment
    assert experiment.unrelaxed.acquisition is experiment.acquisition
    assert experiment.unrelaxed.material_extremes["vp_max"] > experiment.material_extremes["vp_max"]
    assert not experiment.unrelaxed.has_attenuation and experiment.has_attenuation
    assert simulation != object() and simulation.domain != simulation and simulation.material == simulation.material
    elastic = described("force", {}).experiment
    assert elastic.unrelaxed is elastic
