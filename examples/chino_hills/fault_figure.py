"""Peak velocity of the finite fault next to that of the point source: ``python examples/chino_hills/fault_figure.py``.

Runs `finite_fault.yaml` and `chino_hills.yaml` if their results are not in the folder out, and draws one figure.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.faults import FiniteFault
from lithowave.figures import style
from lithowave.output.results import PeakMotion, load_peak_motion
from lithowave.readers.srf import read_srf, write_srf

FOLDER = Path(__file__).parent
RUNS = {"Point source": "chino_hills", "Finite fault": "finite_fault"}
EXTENT = (-45.0, 45.0, -45.0, 45.0)  # km; of the maps


def peak_motion(name: str, folder: Path) -> PeakMotion:
    """Return the peak motion of a run, which is repeated only if its folder has no result."""
    out = folder / name
    if not (out / "peak_motion.h5").is_file():
        lw.Simulation.from_file(FOLDER / f"{name}.yaml").run(output=out)
    return load_peak_motion(out)


def draw(maps: dict[str, PeakMotion], fault: FiniteFault, path: Path) -> None:
    """Draw both maps with one color scale, and the slip of the fault."""
    simulation = lw.Simulation.from_file(FOLDER / "finite_fault.yaml")
    x, y = (values / 1000 for values in simulation.domain.to_local(*fault.horizontal.T))
    top = max(100 * float(one.pgv["horizontal"].max()) for one in maps.values())
    with style.styled():
        figure = style.new_figure(11.0, 4.0, layout="constrained")
        *panels, section = figure.subplots(1, 3, width_ratios=(1, 1, 0.85))
        for panel, (title, one) in zip(panels, maps.items(), strict=True):
            image = _draw_map(panel, one, top)
            panel.set_title(title)
            panel.plot(0, 0, "*", color="black", markersize=9, markeredgecolor="white")
        panels[1].plot(*_outline(x, y, fault), color="black", linewidth=1.0)
        figure.colorbar(image, ax=panels, shrink=0.8).set_label("peak horizontal velocity (cm/s)")
        _draw_slip(figure, section, fault)
        style.save(figure, path)


def _draw_map(panel: Any, one: PeakMotion, top: float) -> Any:
    image = panel.pcolormesh(
        one.x / 1000, one.y / 1000, 100 * one.pgv["horizontal"], vmin=0.0, vmax=top, shading="gouraud",
        cmap=style.colormap("peak", style.PEAK_COLORS), rasterized=True,
    )  # fmt: skip
    panel.set_aspect("equal")
    panel.set(xlim=EXTENT[:2], ylim=EXTENT[2:], xlabel="East (km)", ylabel="North (km)")
    return image


def _outline(x: np.ndarray, y: np.ndarray, fault: FiniteFault) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the plane of the fault, closed."""
    plane = fault.planes[0]
    corners = np.array([0, plane.count_strike - 1, fault.count - 1, fault.count - plane.count_strike, 0])
    return x[corners], y[corners]


def _draw_slip(figure: Any, panel: Any, fault: FiniteFault) -> None:
    plane = fault.planes[0]
    shape = plane.count_dip, plane.count_strike
    along = (np.arange(shape[1]) + 0.5) / shape[1] * plane.length / 1000 - 0.5 * plane.length / 1000
    down = (np.arange(shape[0]) + 0.5) / shape[0] * plane.width / 1000
    image = panel.pcolormesh(
        along, down, fault.slip[:, 0].reshape(shape), shading="gouraud", cmap="cividis", rasterized=True
    )
    lines = panel.contour(along, down, fault.start.reshape(shape), levels=np.arange(0.5, 3, 0.5), colors="white")
    panel.clabel(lines, fmt="%g s")
    panel.set(title="Slip and rupture time", xlabel="along strike (km)", ylabel="down dip (km)")
    panel.set_aspect("equal")
    panel.invert_yaxis()
    figure.colorbar(image, ax=panel, shrink=0.8, location="bottom").set_label("slip (m)")


def main() -> None:
    """Run, and draw."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    if not (FOLDER / "fault.srf").is_file():
        sys.path.insert(0, str(FOLDER))
        from make_fault import fault

        write_srf(fault(), FOLDER / "fault.srf")
    maps = {title: peak_motion(name, folder) for title, name in RUNS.items()}
    draw(maps, read_srf(FOLDER / "fault.srf"), folder / "finite_fault.png")
    print(folder / "finite_fault.png")


if __name__ == "__main__":
    main()
