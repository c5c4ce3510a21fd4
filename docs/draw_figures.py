"""Draw the figures of the pages on theory and on GPUs: ``python docs/draw_figures.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lithowave.figures import style
from lithowave.solvers.finite_difference.coefficients import ORDERS, taylor_coefficients

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
    colors = ("#8a96a3", style.P_COLOR, "#e07a4f", "#0b2545")
    with style.styled():
        figure = style.new_figure(7.6, 3.8, layout="constrained")
        panel = figure.subplots()
        for order, color in zip(ORDERS, colors, strict=True):
            error = 100 * phase_speed_error(taylor_coefficients(order), points, np.sqrt(3.0), 0.9)
            panel.plot(points, error, color=color, linewidth=1.6, label=f"order {order}")
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


# Planes of the marching figure, from below: name, what it is, color, and whether it is there already.
PLANES = (
    ("m - 1", "finished, in memory", style.MUTED, True),
    ("m", "being finished: its derivatives along z\nhave all their values", NORMAL, True),
    ("m + 1", "waits in registers: the last values of\neach column, and what is known so far", "#5b6b7b", True),
    ("k", "just arrived: derivatives along x and y\nare taken from its slot", SHEAR, True),
    ("k + 1", "on its way", SHEAR, False),
    ("k + 2", "on its way", SHEAR, False),
)
HALO, TILE = ((-0.16, 1.16), (-0.28, 1.28)), ((0.0, 1.0), (0.0, 1.0))


def sheet(sides: tuple[tuple[float, float], tuple[float, float]], z: float) -> np.ndarray:
    """Corners of a rectangle in a plane, in oblique view."""
    (west, east), (south, north) = sides
    return np.array([project(x, y, z) for x, y in ((west, south), (east, south), (east, north), (west, north))])


def draw_tile(panel: Any) -> None:
    """A tile with its halo on several planes, and one block that marches upward through them."""
    from matplotlib.patches import Polygon

    for n, (name, text, color, there) in enumerate(PLANES):
        z, dash = 0.62 * n, "-" if there else "--"
        panel.add_patch(Polygon(sheet(HALO, z), facecolor="none", edgecolor=color, linestyle=dash, linewidth=0.8,
                                zorder=2 * n + 2))  # fmt: skip
        panel.add_patch(Polygon(sheet(TILE, z), facecolor=color if there else "none", alpha=0.35 if there else 0.9,
                                edgecolor=color, linestyle=dash, linewidth=1.2, zorder=2 * n + 2))  # fmt: skip
        label = project(1.16, 0.5, z)
        panel.text(label[0] + 0.22, label[1], f"${name}$", color=color, size=11, va="center")
        panel.text(label[0] + 0.8, label[1], text, color=color, size=8.5, va="center", linespacing=1.15)
    for x in (0.2, 0.5, 0.8):
        for y in (0.25, 0.75):
            column = np.array([project(x, y, z) for z in (0.62, 0.62 * 3)])
            panel.plot(*column.T, color=NODE, linewidth=1.1, marker="o", markersize=3, markevery=[0, 1], zorder=9)
    start, end = project(-0.5, 0.0, 0.3), project(-0.5, 0.0, 2.9)
    panel.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": NODE, "linewidth": 1.6})
    panel.text(start[0] - 0.1, 0.5 * (start[1] + end[1]), "a block marches upward", rotation=90, ha="right",
               va="center", size=9.5)  # fmt: skip
    panel.text(*(project(0.5, -0.28, 0.0) + (0.1, -0.16)), "a tile of columns, its halo around it", ha="center",
               va="top", size=9)  # fmt: skip
    panel.set_xlim(-0.85, 4.25)
    panel.set_ylim(-0.45, 3.55)
    panel.set_aspect("equal")
    panel.axis("off")
    panel.set_title("The planes of a tile", loc="left")


def draw_ring(panel: Any) -> None:
    """The slots of shared memory between the copy engine and the warps."""
    from matplotlib.patches import FancyBboxPatch

    def box(x: float, y: float, width: float, height: float, text: str, color: str, filled: bool = True) -> None:
        style_of_box = {"boxstyle": "round,pad=0.02,rounding_size=0.06", "edgecolor": color, "linewidth": 1.2}
        shade = {"facecolor": color, "alpha": 0.22} if filled else {"facecolor": "none", "linestyle": "--"}
        panel.add_patch(FancyBboxPatch((x, y), width, height, **style_of_box, **shade))
        panel.text(x + width / 2, y + height / 2, text, ha="center", va="center", size=8.8, color=NODE)

    def arrow(start: tuple[float, float], end: tuple[float, float], color: str, bend: float = 0.0) -> None:
        shape = {"arrowstyle": "-|>", "color": color, "linewidth": 1.4, "connectionstyle": f"arc3,rad={bend}"}
        panel.annotate("", end, start, arrowprops=shape)

    box(0.0, 3.05, 2.6, 0.42, "memory of the device", style.MUTED)
    slots = (("$k$: in use", True), ("$k + 1$: arriving", False), ("$k + 2$: arriving", False))
    for n, (text, filled) in enumerate(slots):
        box(0.88 * n, 1.6, 0.8, 0.62, text.replace(": ", ":\n"), SHEAR, filled)
        arrow((0.88 * n + 0.4, 3.02), (0.88 * n + 0.4, 2.27), SHEAR if n else style.MUTED)
    panel.text(2.72, 2.64, "copy engine,\nplanes ahead", size=8.8, va="center", color=SHEAR)
    panel.text(2.72, 1.9, "a ring of slots in\nshared memory", size=8.8, va="center")
    arrow((2.08, 1.56), (0.5, 1.56), style.MUTED, bend=-0.22)
    box(0.0, 0.35, 2.6, 0.62, "warps: columns in registers", NORMAL)
    arrow((0.2, 1.56), (0.2, 1.02), NODE)
    panel.text(2.72, 0.66, "plane $m$ goes straight\nback to memory", size=8.8, va="center", color=NORMAL)
    arrow((-0.04, 0.66), (-0.04, 3.2), NORMAL, bend=-0.32)
    panel.set_xlim(-0.75, 4.15)
    panel.set_ylim(0.1, 3.6)
    panel.axis("off")
    panel.set_title("The ring", loc="left")


def draw_marching() -> None:
    """How a block of the GPU kernels goes through the grid."""
    with style.styled():
        figure = style.new_figure(9.6, 4.3, layout="constrained")
        planes, ring = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
        draw_tile(planes)
        draw_ring(ring)
        style.save(figure, FOLDER / "marching_planes.png")


if __name__ == "__main__":
    draw_staggering()
    draw_dispersion()
    draw_marching()
