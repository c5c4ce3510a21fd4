"""The ellipticity of the Earth, and the coordinates of a flattened piece of it."""

from __future__ import annotations

import numpy as np
import pytest

from lithowave.description import Chunk
from lithowave.earth import RADIUS, EarthLayer, PolynomialProfile, RadialModel, earth_ellipticity, ellipticity

PLACES = np.array([[0.0, 0.0, 0.0], [2e6, -3e6, -4e5], [-4e6, 4e6, -2.8e6]])


def flat_chunk(latitude: float = 30.0) -> Chunk:
    return Chunk(center=(10.0, latitude), width=(90, 90), depth=2.9e6, azimuth=25.0, ellipticity=True)


def test_the_ellipticity_of_prem_is_the_published_one() -> None:
    """1/299.8 at the surface and 1/392 at the core-mantle boundary."""
    radii, values = earth_ellipticity()
    assert 1.0 / values[-1] == pytest.approx(299.8, abs=0.7)
    assert 1.0 / np.interp(3480e3, radii, values) == pytest.approx(392.0, abs=2.0)


def test_a_homogeneous_body_has_the_ellipticity_of_maclaurin() -> None:
    """5/4 m at all radii, with m = Omega^2 a^3 / (G M)."""
    coefficients = np.array([[1e4], [1e4], [5e3], [5e3], [1.0], [5514.0], [0.0], [0.0]])
    body = RadialModel("homogeneous", (EarthLayer(RADIUS, 0.0, PolynomialProfile(0.0, RADIUS, coefficients)),))
    radii = np.linspace(0.0, RADIUS, 2001)
    found = ellipticity(body, radii)
    m = 7.292115e-5**2 / (6.6743e-11 * 4.0 / 3.0 * np.pi * 5514.0)
    np.testing.assert_allclose(found[10:], 1.25 * m, rtol=1e-4)


def test_local_coordinates_return() -> None:
    chunk = flat_chunk().map
    found = np.stack(chunk.from_cartesian(chunk.to_cartesian(*PLACES.T)), axis=-1)
    np.testing.assert_allclose(found, PLACES, atol=1e-3)


def test_the_surface_is_an_ellipsoid_and_up_is_its_normal() -> None:
    chunk = flat_chunk().map
    x, y = np.meshgrid(np.linspace(-4e6, 4e6, 9), np.linspace(-4e6, 4e6, 9))
    points = chunk.to_cartesian(x, y, np.zeros(x.shape))
    flat = earth_ellipticity()[1][-1]
    equator, pole = RADIUS * (1.0 + flat / 3.0), RADIUS * (1.0 - 2.0 * flat / 3.0)
    level = (points[..., :2] ** 2).sum(axis=-1) / equator**2 + points[..., 2] ** 2 / pole**2
    np.testing.assert_allclose(level, 1.0, atol=3e-5)  # to second order in the ellipticity
    step = 1e3
    along = chunk.to_cartesian(x + step, y, np.zeros(x.shape)) - points
    along /= np.linalg.norm(along, axis=-1, keepdims=True)
    up = chunk.axes(x, y)[..., 2, :]
    assert np.abs((up * along).sum(axis=-1)).max() < 2e-4  # a sphere has 3e-3 times the slope of its radius
