"""Smoothing of the velocities in absorbing layers: stability, strength, and the points that it changes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from finite_difference_plans import plan_on_grid
from lithowave.backends import make_backend
from lithowave.solvers.finite_difference import LayerSmoothing, smoothed_boxes, smoothing_of

CELLS, SHAPE, VISCOSITY = 6, (31, 28, 24), 0.0156


def plan(wavelengths: float = 8.0, cells: int = CELLS):
    """A grid with a free surface and layers at all other sides; wavelengths : cells per shortest wavelength."""
    found = plan_on_grid(SHAPE, 4, "double", ((cells, cells), (cells, cells), (cells, 0)), z_max="free")
    layer = dataclasses.replace(found.layer, viscosity=VISCOSITY, wavelength=100.0 * wavelengths)
    return dataclasses.replace(found, layer=layer)


def smoothed(fields: np.ndarray, the_plan=None) -> np.ndarray:
    """The velocities (3, z, y, x) after one application, without the halo."""
    the_plan = the_plan or plan()
    backend, halo = make_backend("cpu", "double", 1), the_plan.halo
    inner = (slice(halo, -halo),) * 3
    arrays = {}
    for name, values in zip(("vx", "vy", "vz"), fields, strict=True):
        arrays[name] = backend.field(the_plan.padded_shape(), halo)
        arrays[name][inner] = values
    kernels = backend.kernels("lithowave.solvers.finite_difference", "kernels", order=4)
    LayerSmoothing(the_plan, backend, kernels, None).apply(arrays, 0)
    return np.array([array[inner] for array in arrays.values()])


def test_only_points_in_layers_change() -> None:
    """Those of the boxes, which do not overlap; a uniform velocity changes next to the outer sides only."""
    values = np.random.default_rng(1).standard_normal((3, *SHAPE[::-1]))
    change = smoothed(values) - values
    members = np.zeros(SHAPE[::-1], int)
    for (x, x_end), (y, y_end), (z, z_end) in smoothed_boxes(plan()):
        members[z:z_end, y:y_end, x:x_end] += 1
    assert members.max() == 1
    assert (change[:, members == 0] == 0).all()
    number = np.indices(SHAPE[::-1])[::-1]
    for component, found in enumerate(change):
        place = [line + 0.5 * (axis == component) for axis, line in enumerate(number)]
        depth = [np.maximum(CELLS - line, line - (count - 1 - CELLS)) for line, count in zip(place, SHAPE, strict=True)]
        depth[2] = CELLS - place[2]  # free surface
        assert ((np.max(depth, axis=0) > 0) == (found != 0)).all()
    flat = smoothed(np.ones((3, *SHAPE[::-1]))) - 1
    assert np.abs(flat[:, 1:, 1:-1, 1:-1]).max() < 1e-15 and np.abs(flat[:, 0]).max() > 0.01  # the free surface too


def test_a_wave_decays_as_the_formula_says() -> None:
    """A plane wave along y in the layers at x_min: each application multiplies it by 1 - q 2 (1 - cos k h) strength."""
    k, the_plan = 0.7, plan(4.0)
    found = smoothing_of(the_plan)
    assert found.times == 1
    wave = np.broadcast_to(np.cos(k * np.arange(SHAPE[1]))[:, None], SHAPE[::-1])
    values = smoothed(np.array([wave] * 3), the_plan)[1]
    for x in range(1, CELLS):
        q = ((CELLS - x) / CELLS) ** 2
        factor = 1 - q * 2 * (1 - np.cos(k)) * found.strength
        middle = (slice(CELLS + 4, -1), slice(CELLS + 2, -CELLS - 3), x)
        assert values[middle] == pytest.approx(wave[middle] * factor, abs=1e-12)
