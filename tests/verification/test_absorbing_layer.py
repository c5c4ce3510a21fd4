"""Perfectly matched layers of spectral elements: reflections at receivers near the sides, and of a ridge."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.media import backward_waves
from verification_tools import record, relative_l2, velocities

VP, VS, RHO, FREQUENCY = 3000.0, 1732.0, 2300.0, 3.0
SIZE = 4 * VS / FREQUENCY / 7
SOURCE = {
    "position": [60, 40, -1.3 * SIZE],
    "moment_tensor": {"xx": 1e15, "yy": -0.5e15, "zz": 0.5e15, "xy": 0.4e15, "xz": 0.8e15, "yz": -0.6e15},
    "time_function": {"gaussian": {"sigma": 0.14, "delay": 0.6}},
}  # fmt: skip


def hill(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A ridge along x, which leaves the box through two of its sides."""
    return 0.35 * SIZE * np.exp(-((y / (2.2 * SIZE)) ** 2)) + 0 * x


def box(margin: int, topography: Path | None = None, **changes: Any) -> lw.Simulation:
    """A box of 4 x 4 x 3 elements around a shallow source, larger on five sides by so many elements."""
    m = margin * SIZE
    ends = [-2 * SIZE - m, 2 * SIZE + m]
    surface = {} if topography is None else {"topography": str(topography)}
    receivers = [[1.5 * SIZE, 0.3 * SIZE, 0.0], [0.2 * SIZE, -1.6 * SIZE, 0.0], [-1.2 * SIZE, SIZE, -2.2 * SIZE]]
    if topography is not None:
        for place in receivers[:2]:
            place[2] = float(hill(np.array(place[0]), np.array(place[1])))
    return lw.Simulation(
        **{
            "domain": {"x": ends, "y": ends, "z": [-3 * SIZE - m, 0]} | surface,
            "material": {"homogeneous": {"vp": VP, "vs": VS, "rho": RHO}},
            "sources": [SOURCE],
            "receivers": [{"name": f"R{n}", "position": place} for n, place in enumerate(receivers)],
            "duration": 2.4,
            "solver": {
                "method": "spectral_element", "degree": 4, "max_frequency": FREQUENCY, "spacing": SIZE,
                "refine_sources": False,
            },
            "compute": {"precision": "single"},
            "output": {"sampling_interval": 0.02},
        }
        | changes
    )  # fmt: skip


@lru_cache
def reference() -> np.ndarray:
    return velocities(box(7, boundaries={"absorption": "stacey"}))[1]


@pytest.mark.parametrize(("elements", "limit"), [(1, 0.011), (2, 0.004)])
def test_records_near_the_sides(elements: int, limit: float) -> None:
    """Receivers less than a wavelength from the sides: the difference from a box in which nothing returns."""
    found = velocities(box(0, boundaries={"layer": {"elements": elements}}))[1]
    error = relative_l2(found, reference())
    record(f"element_layer_{elements}", all=error)
    assert error <= limit


def hill_file(folder: Path) -> Path:
    axis = np.linspace(-12 * SIZE, 12 * SIZE, 241)
    x, y = np.meshgrid(axis, axis)
    np.savez(folder / "hill.npz", x=axis, y=axis, elevation=hill(x, y), axes=["y", "x"])
    return folder / "hill.npz"


@pytest.mark.slow
def test_a_ridge_that_leaves_the_box(tmp_path: Path) -> None:
    """The topography continues unchanged along the normals of the sides."""
    surface = hill_file(tmp_path)
    truth = velocities(box(7, surface, boundaries={"absorption": "stacey"}))[1]
    error = relative_l2(velocities(box(0, surface))[1], truth)
    record("element_layer_topography", all=error)
    assert error <= 0.01


def test_media_in_which_waves_grow_are_known() -> None:
    """Thomsen's media with a vertical axis satisfy the condition; a strong tilted one does not."""
    tilted = {"epsilon": 0.4, "delta": -0.25, "gamma": 0.2, "axis": [1, 0, 1]}
    found = []
    for anisotropy in ({"epsilon": 0.2, "delta": 0.1, "gamma": 0.15}, tilted):
        material = {"homogeneous": {"vp": VP, "vs": VS, "rho": RHO, "anisotropy": anisotropy}}
        properties = box(0, material=material).material.homogeneous
        found.append(backward_waves(properties.stiffness_matrix(), properties.rho))
    assert found[0].min() > -1e-6 and found[1][0] < -0.1 and abs(found[1][1]) < 1e-3
