"""Draw the figures of the theory page: ``python docs/draw_figures.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lithowave.output.figures import style
from lithowave.solvers.finite_difference.coefficients import (
    ORDERS,
    optimized_coefficients,
    taylor_coefficients,
)

FOLDER = Path(__file__).resolve().parent / "figures"
NODE, NORMAL, SHEAR = style.INK, style.P_COLOR, style.S_COLOR
# Components, their half cells (x, y, z) and how they are drawn.
VELOCITIES = (("$v_x$", (1, 0, 0)), ("$v_y$", (0, 1, 0)), ("$v_z$", (0, 0, 1)))
SHEARS = ((r"$\sigma_{xy}$", (1, 1, 0)), (r"$\sigma_{xz}$", (1, 0, 1)), (r"$\sigma_{yz}$", (0, 1, 1)))


def project(x: float, y: float, z: float) -> np.ndarray:
    """Oblique view: x to the right, y into the page, z up."""
    return np.array([x + 0.52 * y, 0.34 * y + 0.95 * z])


def draw_cell(panel: Any) -> None:
    """One cell of the grid with the places of all fields."""
    corners = [(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)]
    for first in corners:
        for axis in range(3):
            if first[axis] == 0:
                second = tuple(value + (axis == n) for n, value in enumerate(first))
                hidden = first == (0, 1, 0) or second == (0, 1, 0)
                line = np.array([project(*first), project(*second)])
                panel.plot(
                    *line.T, color=style.MUTED, linewidth=0.9, dashes=(3, 2) if hidden else (None, None)
                )
    for corner in corners:
        panel.scatter(*project(*corner), s=46, color=NODE, zorder=4)
    arrows = ((0.13, 0.0), (0.13 * 0.52 / 0.62, 0.13 * 0.34 / 0.62), (0.0, 0.13))
    for (label, half), (dx, dy), shift in zip(
        VELOCITIES, arrows, ((0, -13), (12, -8), (-15, 0)), strict=True
    ):
        place = project(*(0.5 * value for value in half))
        panel.annotate(
            "", place + (dx, dy), place - (dx, dy), zorder=5,
            arrowprops={"arrowstyle": "-|>", "color": NORMAL, "linewidth": 2.0, "mutation_scale": 14},
        )  # fmt: skip
        _name(panel, place, label, shift, NORMAL)
    for (label, half), shift in zip(SHEARS, ((15, 0), (15, 0), (-16, 2)), strict=True):
        place = project(*(0.5 * value for value in half))
        panel.scatter(*place, s=60, marker="s", color=SHEAR, zorder=5)
        _name(panel, place, label, shift, SHEAR)
    _name(
        panel,
        project(0, 0, 0),
        "node $(i, j, k)$:\n" + r"$\sigma_{xx}, \sigma_{yy}, \sigma_{zz}$",
        (-8, -24),
        NODE,
    )
    _name(panel, project(1, 0, 0), "$(i+1, j, k)$", (0, -14), NODE)
    _name(panel, project(0, 0, 1), r"$\lambda,\ 1/\mu,\ \rho$" + "\nat every node", (-30, 14), NODE)
    panel.set_xlim(-0.42, 1.75)
    panel.set_ylim(-0.32, 1.45)
    panel.set_aspect("equal")
    panel.axis("off")
    panel.set_title("Places", loc="left")


def _name(panel: Any, place: np.ndarray, label: str, shift: tuple[int, int], color: str) -> None:
    panel.annotate(
        label, place, xytext=shift, textcoords="offset points", ha="center", va="center", color=color,
        size=10, path_effects=style.halo(), zorder=6,
    )  # fmt: skip


def draw_times(panel: Any) -> None:
    """When each quantity is known, and what a step needs."""
    panel.axhline(0, color=style.MUTED, linewidth=0.9)
    for n, label in enumerate((r"$t_{n-1}$", "$t_n$", "$t_{n+1}$")):
        panel.scatter(n, 0, s=60, color=NORMAL, zorder=4)
        panel.text(n, -0.16, label, ha="center", va="top", size=10)
        panel.text(n, 0.12, f"$v^{{{('n-1', 'n', 'n+1')[n]}}}$", ha="center", color=NORMAL, size=11)
    for n, label in ((0.5, "n-1/2"), (1.5, "n+1/2")):
        panel.scatter(n, 0, s=60, marker="s", color=SHEAR, zorder=4)
        panel.text(n, 0.12, rf"$\sigma^{{{label}}}$", ha="center", color=SHEAR, size=11)
    for start, end, color, height in ((0.5, 1.5, SHEAR, 0.55), (1.0, 2.0, NORMAL, -0.55)):
        panel.annotate(
            "", (end, 0.3 * np.sign(height)), (start, 0.3 * np.sign(height)),
            arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 1.4,
                        "connectionstyle": f"arc3,rad={-0.45 * np.sign(height)}"},
        )  # fmt: skip
    panel.text(1.0, 0.86, r"stress: with $\nabla v^n$ and $\dot M(t_n)$", ha="center", color=SHEAR, size=9.5)
    panel.text(
        1.5, -0.86, r"velocity: with $\nabla\cdot\sigma^{n+1/2}$ and $f(t_{n+1/2})$", ha="center", va="top",
        color=NORMAL, size=9.5,
    )  # fmt: skip
    panel.set_xlim(-0.25, 2.6)
    panel.set_ylim(-1.25, 1.25)
    panel.axis("off")
    panel.set_title("Times", loc="left")


def draw_staggering() -> None:
    """The staggered grid in space and time."""
    with style.styled():
        figure = style.new_figure(9.2, 3.9, layout="constrained")
        places, times = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
        draw_cell(places)
        draw_times(times)
        style.save(figure, FOLDER / "staggering.png")


def phase_speed_error(
    coefficients: np.ndarray, points: np.ndarray, speed_ratio: float, safety: float
) -> np.ndarray:
    r"""Relative error of the phase speed of S waves along an axis.

    sin(omega dt / 2) = (vs dt / h) sum_m c_m sin((m - 1/2) k h), dt = safety h / (sqrt(3) vp sum |c_m|).
    """
    courant = safety / (np.sqrt(3.0) * np.abs(coefficients).sum() * speed_ratio)
    wavenumber = 2.0 * np.pi / points
    half = np.arange(1, coefficients.size + 1)[:, None] - 0.5
    frequency = 2.0 * np.arcsin(courant * (coefficients[:, None] * np.sin(half * wavenumber)).sum(axis=0))
    return frequency / (courant * wavenumber) - 1.0


def draw_dispersion() -> None:
    """Error of the phase speed over points per wavelength, all orders."""
    points = np.geomspace(3.0, 30.0, 400)
    stencils = [(f"order {order}", taylor_coefficients(order), "-") for order in ORDERS]
    stencils.append(("order 4, optimized", optimized_coefficients(), "--"))
    colors = ("#8a96a3", style.P_COLOR, "#e07a4f", "#0b2545", style.P_COLOR)
    with style.styled():
        figure = style.new_figure(7.6, 3.8, layout="constrained")
        panel = figure.subplots()
        for (label, coefficients, dash), color in zip(stencils, colors, strict=True):
            error = 100 * phase_speed_error(coefficients, points, np.sqrt(3.0), 0.9)
            panel.plot(points, error, dash, color=color, linewidth=1.6, label=label)
        panel.axhline(0, color=style.MUTED, linewidth=0.8)
        panel.set_xscale("log")
        panel.set_xlim(3, 30)
        panel.set_ylim(-3, 1)
        panel.set_xticks([3, 4, 5, 6, 8, 10, 15, 20, 30], labels="3 4 5 6 8 10 15 20 30".split())
        panel.minorticks_off()
        panel.grid()
        panel.set_xlabel("grid points in a wavelength")
        panel.set_ylabel("error of the phase speed (%)")
        panel.legend(loc="lower right")
        style.save(figure, FOLDER / "dispersion.png")


if __name__ == "__main__":
    draw_staggering()
    draw_dispersion()
