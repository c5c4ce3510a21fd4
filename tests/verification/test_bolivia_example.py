"""The Bolivia example: its mesh, and the permanent displacement in the small form of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave.solvers.spectral_element import built_box

FOLDER = Path(__file__).parents[2] / "examples" / "bolivia"
OFFSET = {"north": 7.3e-3, "up": -6.6e-3}  # m, 5 degrees south of the epicenter: observed, and by normal modes


def test_the_mesh_has_the_published_number_of_elements() -> None:
    simulation = lw.Simulation.from_file(FOLDER / "bolivia.yaml")
    assert built_box(simulation).plan.element_count == 655_360
    assert len(simulation.acquisition.receivers) == 41
    assert simulation.acquisition.sources[0].position == pytest.approx((0.0, 0.0, -647_100.0), abs=1.0)


@pytest.mark.slow
def test_the_permanent_displacement_is_the_published_one(tmp_path: Path) -> None:
    simulation = lw.Simulation.from_file(FOLDER / "small.yaml", {"output.formats": []})
    seismograms = simulation.run(output=tmp_path / "run").seismograms
    late = seismograms.time > 0.6 * simulation.duration
    east, north, up = seismograms.data[0][:, late].mean(axis=1)
    assert north == pytest.approx(OFFSET["north"], rel=0.05)
    assert up == pytest.approx(OFFSET["up"], rel=0.05)
    assert abs(east) < 0.02 * abs(up)
    # The pattern of the moment tensor: stations on both sides are moved away from each other.
    names = [name.split(".")[1] for name in seismograms.names]
    opposite = seismograms.data[names.index("N05")][:, late].mean(axis=1)
    assert np.sign(opposite[2]) == -np.sign(up)


def columns(chunk: dict[str, object], material: dict[str, object]) -> tuple[list[int], list[float]]:
    """Return the columns along x and y at the surface, and the depths, km, at which elements are doubled."""
    whole = {"center": [-67.25, -13.82], "width": [40, 20], "depth": "2000 km"}
    simulation = lw.Simulation(
        domain={"chunk": whole | chunk}, material=material, sources=[], duration=1.0,
        solver={"method": "spectral_element", "max_frequency": 0.02, "points_per_wavelength": 5},
    )  # fmt: skip
    plan = built_box(simulation).plan
    doubled = [
        -top / 1e3
        for top, slabs in zip(plan.interfaces, plan.slabs, strict=False)
        for slab in slabs if slab.kind == "x"
    ]  # fmt: skip
    return [len(plan.x) - 1, len(plan.y) - 1], doubled


@pytest.mark.parametrize(
    "material",
    [
        {"earth": {"model": "prem", "attenuation": False}}, {"homogeneous": {"vp": 8000, "vs": 4500, "rho": 3300}},
        {"layers": [
            {"top": 0, "vp": 6000, "vs": 3500, "rho": 2700}, {"top": -3e4, "vp": 8000, "vs": 4500, "rho": 3300},
        ]},
    ],
)  # fmt: skip
def test_columns_and_doublings_are_those_of_the_description(material: dict[str, object]) -> None:
    """Also with different numbers along x and y, and in media without an interface at the depth."""
    chunk = {"elements": [32, 24], "doublings": ["700 km"]}
    assert columns(chunk, material) == ([32, 24], pytest.approx([700.0]))
    with pytest.raises(lw.InputError, match=r"doublings\[0\]: the layer of elements below 1990 km is too thin"):
        columns({"elements": [32, 24], "doublings": ["1990 km"]}, material)
