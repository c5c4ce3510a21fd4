"""A made-up run folder for tests of output: far-field P and S waves of a double couple at the surface."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from lithowave.output import SeismogramWriter, SnapshotWriter, standard_attributes, write_peak_motion

VP, VS, RHO = 5500.0, 3180.0, 2600.0
SOURCE = np.array([1500.0, -2000.0, -8000.0])
# strike 291, dip 59, rake 142, Mw 5.4: an oblique thrust
MOMENT = (0.31e17, -1.18e17, 0.87e17, -0.74e17, -0.78e17, 0.16e17)
SIGMA, DELAY = 0.35, 1.4
NAMES = ["CHN", "OLI", "SRN", "BRE", "PSR", "STG", "RVR", "WLT", "LLS", "PDU", "MLS", "KIK"]


def moment_matrix(moment=MOMENT):
    xx, yy, zz, xy, xz, yz = moment
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def ground_velocity(points, times):
    """(3, n_points, n_times) far-field velocity of the Gaussian moment rate, doubled for the free surface."""
    separation = np.asarray(points, dtype=float) - SOURCE
    distance = np.linalg.norm(separation, axis=1)
    direction = (separation / distance[:, None]).T
    radial = np.einsum("ip,ij,jp->p", direction, moment_matrix(), direction)
    p_wave = direction * radial
    s_wave = np.einsum("ij,jp->ip", moment_matrix(), direction) - p_wave
    velocity = 0.0
    for pattern, speed in ((p_wave, VP), (s_wave, VS)):
        lag = times[None] - DELAY - distance[:, None] / speed
        shape = -lag / SIGMA**3 / np.sqrt(2 * np.pi) * np.exp(-0.5 * (lag / SIGMA) ** 2)
        velocity = (
            velocity + 2.0 * pattern[..., None] / (4 * np.pi * RHO * speed**3 * distance[:, None]) * shape
        )
    return velocity


def sample_receivers(count=12, seed=3):
    random = np.random.default_rng(seed)
    positions = np.column_stack([random.uniform(-26e3, 26e3, (count, 2)), np.zeros(count)])
    return [
        SimpleNamespace(
            network="CI",
            station=NAMES[k % 12] + ("" if k < 12 else str(k // 12)),
            position=tuple(p),
            where=f"receivers[{k}]",
        )
        for k, p in enumerate(positions)
    ]


def sample_sources():
    return [SimpleNamespace(name="Chino", position=tuple(SOURCE), moment=MOMENT, force=None)]


def make_run_folder(
    folder,
    receiver_count=12,
    interval=0.05,
    samples=400,
    points=41,
    steps=8,
    step_interval=2.0,
    geographic=True,
    vertical_plane=True,
    receivers=None,
    sources=None,
    pressure=False,
):
    """Write simulation.yaml, seismograms.h5, peak_motion.h5 and snapshots/ of the made-up run."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    origin = (-117.761, 33.953) if geographic else None
    time = "2008-07-29T18:42:15.710000" if geographic else None
    attributes = standard_attributes("Chino Hills", origin, time)
    (folder / "simulation.yaml").write_text(
        "schema_version: 1\ntitle: Chino Hills\n"
        "domain: {x: [-30000.0, 30000.0], y: [-30000.0, 30000.0], z: [-20000.0, 0.0]}\n"
        f"material: {{homogeneous: {{vp: {VP}, vs: {VS}, rho: {RHO}}}}}\n"
    )
    receivers = sample_receivers(receiver_count) if receivers is None else receivers
    sources = sample_sources() if sources is None else sources
    times = np.arange(samples) * interval
    with SeismogramWriter(
        folder / "seismograms.h5",
        receivers,
        interval,
        samples,
        "velocity",
        attributes=attributes,
        sources=sources,
        pressure=pressure,
    ) as writer:
        if receivers:
            data = ground_velocity([receiver.position for receiver in receivers], times).transpose(1, 0, 2)
            writer.write(0, {"motion": data, **({"pressure": 1e6 * data[:, 2]} if pressure else {})})
    axis = np.linspace(-30e3, 30e3, points)
    grid = np.stack(np.meshgrid(axis, axis, indexing="xy"), axis=-1).reshape(-1, 2)
    surface = np.column_stack([grid, np.zeros(len(grid))])
    write_maps(folder, axis, surface, attributes)
    spacing = axis[1] - axis[0]
    with SnapshotWriter(
        folder / "snapshots" / "plane_z_0.vtkhdf",
        (-30e3, -30e3, 0.0),
        (spacing,) * 3,
        (1, points, points),
        ["velocity"],
        attributes,
        step_count=steps,
    ) as writer:
        for step in range(steps):
            now = step * step_interval
            values = ground_velocity(surface, np.array([now]))[..., 0].T
            writer.write(now, {"velocity": values.reshape(1, points, points, 3)})
    if vertical_plane:
        write_vertical_plane(folder, axis, attributes, steps, step_interval)
    return folder


def write_maps(folder, axis, surface, attributes):
    times = np.arange(0.0, 20.0, 0.1)
    velocity = ground_velocity(surface, times)
    displacement = np.cumsum(velocity, axis=-1) * 0.1
    maps = {}
    for name, motion in (("pgv", velocity), ("pgd", displacement)):
        squares = motion**2
        peaks = [np.sqrt(part.sum(axis=0)).max(axis=-1) for part in (squares[:2], squares[2:], squares)]
        maps[name] = np.array(peaks).reshape(3, len(axis), len(axis)).astype("f4")
    write_peak_motion(folder / "peak_motion.h5", axis, axis, maps["pgv"], maps["pgd"], attributes)


def write_vertical_plane(folder, axis, attributes, steps, step_interval):
    depth = np.linspace(-20e3, 0.0, len(axis) // 2)
    x, z = np.meshgrid(axis, depth, indexing="xy")
    points = np.column_stack([x.ravel(), np.full(x.size, 500.0), z.ravel()])
    spacing = (axis[1] - axis[0], axis[1] - axis[0], depth[1] - depth[0])
    with SnapshotWriter(
        folder / "snapshots" / "plane_y_500.vtkhdf",
        (-30e3, 500.0, -20e3),
        spacing,
        (len(depth), 1, len(axis)),
        ["velocity"],
        attributes,
        step_count=steps,
    ) as writer:
        for step in range(steps):
            values = ground_velocity(points, np.array([step * step_interval]))[..., 0].T
            writer.write(step * step_interval, {"velocity": values.reshape(len(depth), 1, len(axis), 3)})
