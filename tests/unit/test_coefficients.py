"""Stencils and closures: accuracy, summation by parts, stability, and the Rayleigh wave they carry."""

from __future__ import annotations

import numpy as np
import pytest

from lithowave.solvers.finite_difference import ORDERS, closed_summation, taylor_coefficients
from verification_tools import record


@pytest.mark.parametrize("order", ORDERS)
def test_taylor_coefficients_are_exact_for_polynomials(order: int) -> None:
    c = taylor_coefficients(order)
    distance = np.arange(1, order // 2 + 1) - 0.5
    for power in range(order + 1):
        derivative = np.sum(c * (distance**power - (-distance) ** power))
        assert derivative == pytest.approx(1.0 if power == 1 else 0.0, abs=1e-12)
    power = order + 1
    assert abs(np.sum(c * (distance**power - (-distance) ** power))) > 1e-3


def rayleigh_speed(vp: float, vs: float) -> float:
    """Root of Rayleigh's equation, by bisection."""

    def equation(c: float) -> float:
        a, b = np.sqrt(1 - (c / vp) ** 2), np.sqrt(1 - (c / vs) ** 2)
        return (2 - (c / vs) ** 2) ** 2 - 4 * a * b

    low, high = 0.5 * vs, 0.99999 * vs
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if equation(middle) * equation(low) > 0 else (low, middle)
    return low


def discrete_rayleigh_speed(order: int, points: float, vp: float, vs: float) -> float:
    """Speed of the slowest mode of a half-space, discrete in depth and exact along the surface."""
    count = int(5 * points)
    summation, node_weights, half_weights = closed_summation(order, count)
    k, mu = 2 * np.pi / points, vs**2
    lam = vp**2 - 2 * mu
    total = lam + 2 * mu
    nodes = count + 1
    exx, ezz, exz = np.zeros((nodes, nodes + count)), np.zeros((nodes, nodes + count)), np.zeros((count, nodes + count))
    exx[:, :nodes] = k * np.eye(nodes)
    ezz[:, nodes:] = -summation.T / node_weights[:, None]
    ezz[0] = -lam / total * exx[0]  # zero traction
    exz[:, :nodes], exz[:, nodes:] = summation / half_weights[:, None], -k * np.eye(count)
    weights = np.diag(node_weights)
    stiffness = total * (exx.T @ weights @ exx + ezz.T @ weights @ ezz)
    stiffness += lam * (exx.T @ weights @ ezz + ezz.T @ weights @ exx) + mu * exz.T @ np.diag(half_weights) @ exz
    scale = 1 / np.sqrt(np.concatenate([node_weights, half_weights]))
    values = np.linalg.eigvalsh(scale[:, None] * stiffness * scale[None, :])
    assert values[0] > 0, "the closure is unstable"
    return float(np.sqrt(values[0]) / k)


@pytest.mark.parametrize(("order", "limit"), [(2, 1.2e-2), (4, 3e-3), (6, 2.5e-3), (8, 2.5e-3)])
def test_rayleigh_waves_at_ten_points(order: int, limit: float) -> None:
    errors = [discrete_rayleigh_speed(order, 10, vp, 1.0) / rayleigh_speed(vp, 1.0) - 1 for vp in (1.6, 1.732, 3.0)]
    record(f"rayleigh_speed_order_{order}", error=max(map(abs, errors)), points_per_wavelength=10)
    assert max(map(abs, errors)) < limit
