"""The globe on one device: the Bolivia earthquake, travel times, and the device against the CPU.

    python benchmarks/globe.py bolivia [--attenuation] [--steps N] [--folder DIR] [--json FILE]
    python benchmarks/globe.py arrivals [--elements 256] [--folder DIR]
    python benchmarks/globe.py times DIR
    python benchmarks/globe.py force [--elements 32]

`bolivia` runs the example with 655,360 elements, and prints the time of the whole command, the rate of the loop, and
the static offset of the station 5 degrees south of the epicenter: 6.6 mm (vertical) and 7.3 mm (north-south) were
observed and computed by normal modes. `arrivals` runs a source in the lower mantle with stations from 5 to 40 degrees,
and `times` compares its P and S pulses with the travel times of ObsPy's TauP (on any machine). `force` is the same
vertical force on the device and on the CPU, in single precision, at an epicentral distance of 100 degrees.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import erf

import lithowave as lw
from lithowave.globe_coordinates import ChunkMap, angular_distance, directions, geographic_latitude
from lithowave.output.seismograms import load_seismograms

BOLIVIA = Path(__file__).parents[1] / "examples" / "bolivia" / "bolivia.yaml"
SOURCE = (-67.25, -13.82)  # longitude and latitude, degrees
DEPTHS = {"source": 1000e3, "stations": 150e3}  # m: without reflections and triplications close to the direct waves
PULSE = {"sigma": 6.5, "delay": 32.0}  # s: a period of about 20 s
DISTANCES = np.linspace(5.0, 40.0, 10)  # degrees, along four azimuths


def bolivia(attenuation: bool, steps: int | None, folder: Path) -> dict[str, Any]:
    """Run the example, and return the record."""
    began = time.perf_counter()
    changes: dict[str, Any] = {"output.formats": []}
    if attenuation:
        changes["material"] = {"earth": "prem"}
    simulation = lw.Simulation.from_file(BOLIVIA, changes)
    if steps is not None:
        simulation = simulation.with_overrides({"duration": 0.2 * steps})
    result = simulation.run(output=folder, overwrite=True)
    wall, report = time.perf_counter() - began, result.report
    unknowns = report["plan"]["degrees_of_freedom"]
    record = {
        "case": f"bolivia{', attenuation' if attenuation else ''}", "elements": report["plan"]["element_count"],
        "gll_points": report["plan"]["gll_points"], "steps": report["plan"]["steps"],
        "time_step_s": report["plan"]["time_step_s"], "wall_s": wall, "loop_s": report["loop_s"],
        "setup_s": report["setup_s"], "outside_loop_s": wall - report["loop_s"],
        "dof_rate": unknowns * report["plan"]["steps"] / report["loop_s"],
        "host_memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "device_memory_bytes": report["plan"]["memory_bytes"],
    }  # fmt: skip
    if simulation.duration >= 1000.0:
        seismograms = result.seismograms
        late = seismograms.time > 0.5 * simulation.duration
        east, north, up = seismograms.data[0][:, late].mean(axis=1)
        record |= {"offset_north_mm": 1e3 * float(north), "offset_up_mm": 1e3 * float(up)}
    return record | facts(report)


def facts(report: Any) -> dict[str, Any]:
    """Return device, commit and date of a run."""
    return {
        "device": report["device"], "commit": report["commit"], "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }  # fmt: skip


def stations() -> list[dict[str, Any]]:
    """Return receivers along four azimuths."""
    origin = directions(*SOURCE)
    east, north, _ = ChunkMap(*SOURCE).axes(np.zeros(()), np.zeros(()))
    found = []
    for name, side in {"N": north, "E": east, "S": -north, "W": -east}.items():
        for distance in DISTANCES:
            place = np.cos(np.radians(distance)) * origin + np.sin(np.radians(distance)) * side
            longitude = float(np.degrees(np.arctan2(place[1], place[0])))
            latitude = float(geographic_latitude(np.degrees(np.arcsin(place[2]))))
            found.append({
                "name": f"{name}{distance:02.0f}", "longitude": longitude, "latitude": latitude,
                "depth": DEPTHS["stations"],
            })  # fmt: skip
    return found


def arrivals(elements: int, folder: Path) -> dict[str, Any]:
    """Run an explosion and a strike-slip source at once, and return the record."""
    changes = {
        "output.formats": [], "receivers": stations(), "duration": 780.0, "domain.chunk.elements": [elements, elements],
        "sources": [
            {"longitude": SOURCE[0], "latitude": SOURCE[1], "depth": DEPTHS["source"],
             "moment_tensor": {"xx": 1e20, "yy": 1e20, "zz": 1e20, "xy": 1e20}, "time_function": {"gaussian": PULSE}}
        ],
    }  # fmt: skip
    result = lw.Simulation.from_file(BOLIVIA, changes).run(output=folder, overwrite=True)
    return {"case": "arrivals", "elements": result.report["plan"]["element_count"], **facts(result.report)}


def times(folder: Path) -> dict[str, Any]:
    """Compare the pulses of `arrivals` with travel times."""
    from obspy.taup import TauPyModel

    model, seismograms = TauPyModel("prem"), load_seismograms(folder)
    origin, found = directions(*SOURCE), []
    for entry, motion in zip(stations(), seismograms.data, strict=True):
        place = entry["longitude"], entry["latitude"]
        distance = float(angular_distance(*map(np.asarray, place), SOURCE))
        up = directions(*place)
        east, north, _ = ChunkMap(*place).axes(np.zeros(()), np.zeros(()))
        away = up * (up @ origin) - origin
        radial = np.array([east @ away, north @ away]) / np.hypot(east @ away, north @ away)
        row = [entry["name"], distance]
        for phases in ("pP", "sS"):
            rays = model.get_travel_times(
                DEPTHS["source"] / 1e3, distance, list(phases), receiver_depth_in_km=DEPTHS["stations"] / 1e3
            )
            ray = min(rays, key=lambda one: one.time)
            angle = np.radians(ray.incident_angle)
            transverse = np.array([-radial[1], radial[0]]) @ motion[:2]
            along = np.sin(angle) * (radial @ motion[:2]) + np.cos(angle) * motion[2]
            expected = ray.time + PULSE["delay"]
            row.append(pulse_time(along if phases == "pP" else transverse, seismograms.time, expected) - expected)
        found.append(row)
        print(f"{row[0]}  {row[1]:5.1f} degrees   P {row[2]:+.2f} s   S {row[3]:+.2f} s")
    late = np.abs(np.array([row[2:] for row in found]))
    print(f"largest difference: P {late[:, 0].max():.2f} s, S {late[:, 1].max():.2f} s; median {np.median(late):.2f} s")
    return {"case": "times", "rows": found}


def pulse_time(trace: np.ndarray, time: np.ndarray, expected: float) -> float:
    """Return the time, s, of the pulse near the expected time.

    A moment tensor at a distance r has a far field, here a Gaussian, and a field in proportion to 1 / r^2, its
    integral, which moves the maximum of the sum. Both, and a constant, are fitted.
    """
    sigma, trials = PULSE["sigma"], expected + np.arange(-4.0, 4.0, 0.01)
    misfits = []
    for trial in trials:
        near = np.abs(time - trial) < 2.0 * sigma
        phase = (time[near] - trial) / sigma
        shapes = np.stack([np.exp(-0.5 * phase**2), erf(phase / np.sqrt(2.0)), np.ones_like(phase)], axis=1)
        rest = trace[near] - shapes @ np.linalg.lstsq(shapes, trace[near], rcond=None)[0]
        misfits.append(np.linalg.norm(rest) / np.linalg.norm(trace[near]))
    return float(trials[np.argmin(misfits)])


def force(elements: int) -> dict[str, Any]:
    """Return the difference of the device from the CPU for a vertical force and a distant receiver."""
    source, receiver = (-50.78, 42.17), (139.22, 37.42)
    middle = directions(*source) + directions(*receiver)
    middle /= np.linalg.norm(middle)
    latitude = float(geographic_latitude(np.degrees(np.arcsin(middle[2]))))
    center = (float(np.degrees(np.arctan2(middle[1], middle[0]))), latitude)
    x, y = ChunkMap(*center).to_local(*map(np.asarray, receiver))
    azimuth = float(np.degrees(np.arctan2(x, y))) - 45.0  # both places are near opposite corners
    entries = {
        "domain": {"chunk": {
            "center": center, "width": [90, 90], "depth": "2891 km", "azimuth": azimuth, "elements": [elements] * 2,
        }},
        "boundaries": {"bottom": "free"}, "material": {"earth": {"model": "prem", "attenuation": False}},
        "sources": [{
            "longitude": source[0], "latitude": source[1], "depth": "1837.8 km", "force": [0, 0, 1e15],
            "time_function": {"ricker": {"frequency": 1.0 / 250.0, "delay": 300.0}},
        }],
        "receivers": [{"name": "A", "longitude": receiver[0], "latitude": receiver[1], "depth": "22.78 km"}],
        "duration": 2500.0,
        "solver": {"method": "spectral_element", "max_frequency": 0.01, "points_per_wavelength": 5},
        "output": {"formats": [], "checkpoint": None, "sampling_interval": 5.0, "quantity": "displacement"},
    }  # fmt: skip
    traces, record = {}, {}
    for backend in ("cpu", "cuda"):
        simulation = lw.Simulation(compute={"backend": backend, "precision": "single"}, **entries)
        result = simulation.run(output=Path(f"out/force_{backend}"), overwrite=True)
        traces[backend], record = result.seismograms.data, facts(result.report)
    difference = np.abs(traces["cuda"] - traces["cpu"]).max(axis=(0, 2)) / np.abs(traces["cpu"]).max()
    distance = float(angular_distance(*map(np.asarray, receiver), source))
    print(f"difference of the device from the CPU, E, N, Z, over the largest displacement: {difference}")
    return {"case": "force", "distance_degrees": distance, "difference": difference.tolist(), **record}


def main() -> None:
    """Run a case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=("bolivia", "arrivals", "times", "force"))
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out/globe"))
    parser.add_argument("--attenuation", action="store_true")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--elements", type=int)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.case == "bolivia":
        record = bolivia(given.attenuation, given.steps, given.folder)
    elif given.case == "arrivals":
        record = arrivals(given.elements or 256, given.folder)
    elif given.case == "times":
        record = times(given.folder)
    else:
        record = force(given.elements or 32)
    print(json.dumps(record, indent=1))
    if given.json:
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
