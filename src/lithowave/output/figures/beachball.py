"""Polarity of the first P motion on the lower focal hemisphere of a moment tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lithowave.output.figures import style

RINGS, SPOKES = 150, 361


def polarity(moment: Sequence[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the P amplitude g M g over the lower hemisphere, divided by its largest absolute value.

    The ray leaves in direction g = (sin i sin a, sin i cos a, -cos i) (East, North, Up) with azimuth a and angle i
    from vertically down, and is drawn at the distance sqrt(2) sin(i / 2) from the center (equal area; Aki &
    Richards 2002, box 4.4).

    Parameters
    ----------
    moment : xx, yy, zz, xy, xz, yz in any unit.

    Returns (x, y, amplitude), each (RINGS, SPOKES); x East and y North in the unit circle.
    """
    xx, yy, zz, xy, xz, yz = moment
    radius, angle = np.meshgrid(
        np.linspace(0.0, 1.0, RINGS), np.linspace(0.0, 2 * np.pi, SPOKES), indexing="ij"
    )
    incidence = 2.0 * np.arcsin(radius / np.sqrt(2.0))
    east, north = np.sin(incidence) * np.sin(angle), np.sin(incidence) * np.cos(angle)
    up = -np.cos(incidence)
    amplitude = (
        xx * east**2
        + yy * north**2
        + zz * up**2
        + 2.0 * (xy * east * north + xz * east * up + yz * north * up)
    )
    largest = np.abs(amplitude).max()
    return radius * np.sin(angle), radius * np.cos(angle), amplitude / (largest or 1.0)


def draw_beachball(
    panel: Any, center: tuple[float, float], radius: float, moment: Sequence[float], color: str = style.INK
) -> None:
    """Draw the mechanism at `center` with `radius` in data coordinates; outward first motion is filled."""
    x, y, amplitude = polarity(moment)
    x, y = center[0] + radius * x, center[1] + radius * y
    colors = [style.PAPER, color]
    if amplitude.min() >= 0 or amplitude.max() <= 0:
        # With one sign only (an explosion or an implosion) there is no nodal line to draw.
        panel.fill(x[-1], y[-1], color=color if amplitude.max() > 0 else style.PAPER, zorder=8)
    else:
        panel.contourf(x, y, amplitude, levels=[-1.1, 0.0, 1.1], colors=colors, zorder=8)
    panel.plot(x[-1], y[-1], color=color, linewidth=1.0, zorder=9)
