"""Errors of finite differences at a dipping and at a curved interface, against spectral elements that follow it.

    python benchmarks/dipping_interfaces.py [--backend cuda] [--json FILE]

The media, source and frequency are those of LOH.1 (2.5 Hz, sigma 0.12 s, 10 points per wavelength at order 4). The
interface dips by 10 degrees to the east, or is a hill with a height of 500 m and slopes of up to 12 degrees. The model
of finite differences is a function of position, and the same on a grid with a spacing of 20 m. The reference is
computed by spectral elements of degree 6 on a mesh whose faces lie on the interface, with 16 points per wavelength.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.output.run_folder import package_versions, source_commit

UPPER, LOWER = (4000.0, 2000.0, 2600.0), (6000.0, 3464.0, 2700.0)
SPACING = 80.0
WEST, EAST, BOTTOM = -1600.0, 5600.0, -4000.0
RECEIVERS = [[900, 0, 0], [0, 1900, 0], [1800, 2400, 0], [4000, 0, 0], [2400, 3200, 0], [3000, 4000, 0]]
Interface = Callable[[Any, Any], Any]


def dipping(x: Any, y: Any) -> Any:
    """Return z of a plane, m."""
    return -1000.0 - np.tan(np.radians(10.0)) * (x - 1500.0) + 0.0 * y


def curved(x: Any, y: Any) -> Any:
    """Return z of a hill, m."""
    return -1300.0 + 500.0 * np.exp(-((x - 1600.0) ** 2 + (y - 1400.0) ** 2) / (2 * 1500.0**2))


INTERFACES: dict[str, Interface] = {"dipping": dipping, "curved": curved}


def experiment(**parts: Any) -> lw.Simulation:
    """Return the source and the receivers in a model."""
    return lw.Simulation(
        domain={"x": [WEST, EAST], "y": [WEST, EAST], "z": [BOTTOM, 0]},
        sources=[
            {
                "position": [0, 0, -2400],
                "moment_tensor": {"xy": 1e18},
                "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}},
            }
        ],
        receivers=[{"network": "XX", "name": f"S{n:02}", "position": place} for n, place in enumerate(RECEIVERS)],
        duration=5.0,
        output={"sampling_interval": 0.01},
        **parts,
    )


def medium(interface: Interface) -> Callable[..., tuple[np.ndarray, ...]]:
    """Return vp, vs and rho as functions of position."""

    def values(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        above = z >= interface(x, y)
        return tuple(np.where(above, *pair) for pair in zip(UPPER, LOWER, strict=True))

    return values


def write_grid(path: Path, interface: Interface) -> Path:
    """Write the model on a grid with a spacing of a quarter of a cell."""
    step = SPACING / 4
    x, z = np.arange(WEST, EAST + step / 2, step), np.arange(BOTTOM, step / 2, step)
    above = z >= interface(x[:, None], x)[:, :, None]
    values = {
        name: np.where(above, *np.float32(pair))
        for name, *pair in zip(("vp", "vs", "rho"), UPPER, LOWER, strict=True)
    }
    np.savez(path, x=x, y=x, z=z, axes=["x", "y", "z"], **values)
    return path


def write_mesh(path: Path, interface: Interface, edge: float) -> Path:
    """Write hexahedra whose faces lie on the interface, as a Gmsh file with the groups upper and lower."""
    columns, upper, lower = round((EAST - WEST) / edge), 5, 9
    line = np.linspace(WEST, EAST, columns + 1)
    x, y = np.meshgrid(line, line, indexing="ij")
    middle = interface(x, y)
    shares = [np.arange(lower) / lower, np.arange(upper + 1) / upper]
    heights = [BOTTOM + (middle - BOTTOM) * share for share in shares[0]]
    heights += [middle * (1 - share) for share in shares[1]]
    levels, plane = len(heights), x.size
    points = np.stack([np.stack([x, y, z], axis=-1) for z in heights]).reshape(-1, 3)
    number = np.arange(points.shape[0]).reshape(levels, *x.shape) + 1

    def quads(face: np.ndarray) -> np.ndarray:
        corners = face[:-1, :-1], face[1:, :-1], face[1:, 1:], face[:-1, 1:]
        return np.stack([corner.reshape(-1) for corner in corners], axis=1)

    bottoms, tops = quads(number[0]), plane * np.arange(levels - 1)
    cells = np.concatenate([np.hstack([bottoms + offset, bottoms + offset + plane]) for offset in tops])
    group = np.repeat([1] * lower + [2] * upper, len(bottoms))
    sides = [number[0], number[:, 0], number[:, -1], number[:, :, 0], number[:, :, -1]]
    surfaces = [(3, quads(number[-1])), *((4, quads(side)) for side in sides)]
    rows = [np.column_stack([np.full(len(cells), 5), np.full(len(cells), 2), group, group, cells])]
    rows += [np.column_stack([np.full((len(s), 1), v) for v in (3, 2, tag, tag)] + [s]) for tag, s in surfaces]
    count = sum(len(block) for block in rows)
    with path.open("w", encoding="ascii") as file:
        file.write('$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$PhysicalNames\n4\n3 1 "lower"\n3 2 "upper"\n2 3 "free"\n')
        file.write(f'2 4 "absorbing"\n$EndPhysicalNames\n$Nodes\n{len(points)}\n')
        np.savetxt(file, np.column_stack([np.arange(1, len(points) + 1), points]), fmt="%d %.9g %.9g %.9g")
        file.write(f"$EndNodes\n$Elements\n{count}\n")
        first = 1
        for block in rows:
            np.savetxt(file, np.column_stack([np.arange(first, first + len(block)), block]), fmt="%d")
            first += len(block)
        file.write("$EndElements\n")
    return path


def reference(interface: Interface, backend: str, folder: Path, edge: float) -> lw.Result:
    """Return the result of spectral elements that follow the interface."""
    named = {name: dict(zip(("vp", "vs", "rho"), values, strict=True)) for name, values in
             (("upper", UPPER), ("lower", LOWER))}  # fmt: skip
    mesh = write_mesh(folder / f"mesh{edge:g}.msh", interface, edge)
    solver = {"method": "spectral_element", "degree": 6, "mesh": str(mesh)}
    simulation = experiment(
        material={"groups": named}, solver=solver, boundaries={"absorption": "layer"}, compute={"backend": backend}
    )
    return simulation.run(output=folder / f"elements{edge:g}")


def differences(found: lw.Result, truth: lw.Result) -> list[float]:
    """Return the relative L2 difference of the velocities of each receiver."""
    a, b = (result.seismograms for result in (found, truth))
    pairs = zip(a.data, b.data, strict=True)
    exact = ([np.interp(a.time, b.time, component) for component in each] for _, each in pairs)
    return [
        float(np.linalg.norm(one - known) / np.linalg.norm(known)) for one, known in zip(a.data, exact, strict=True)
    ]


def main() -> None:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--interfaces", nargs="+", default=list(INTERFACES), choices=list(INTERFACES))
    parser.add_argument("--laws", nargs="+", default=["isotropic", "auto", "orthorhombic"])
    parser.add_argument("--edge", type=float, default=300.0, help="of the elements of the reference, m [%(default)s]")
    parser.add_argument("--check-reference", type=float, help="also with elements of this edge, m")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    records, report = [], {}
    for name in chosen.interfaces:
        with tempfile.TemporaryDirectory() as place:
            folder, interface = Path(place), INTERFACES[name]
            truth = reference(interface, chosen.backend, folder, chosen.edge)
            runs = {}
            if chosen.check_reference:
                runs["spectral elements, other edge"] = reference(
                    interface, chosen.backend, folder, chosen.check_reference
                )
            materials = {"function": {"function": medium(interface)}}
            materials["grid"] = {"file": str(write_grid(folder / "model.npz", interface))}
            for law in chosen.laws:
                for kind, material in materials.items():
                    solver = {"order": 4, "spacing": SPACING, "effective_medium": law}
                    described = experiment(
                        material=lw.Material(**material), solver=solver, compute={"backend": chosen.backend}
                    )
                    runs[f"{law}, {kind}"] = described.run(output=folder / f"{law}_{kind}")
            for label, result in runs.items():
                each = differences(result, truth)
                report = result.report
                text = " ".join(f"{100 * value:5.2f}" for value in each)
                print(f"{name}, {label}: {text} % ({report['loop_s']:.2f} s)", flush=True)
                records.append({"case": name, "run": label, "errors": each})
    if chosen.json:
        common = {"device": report["device"], "versions": package_versions(), "commit": source_commit()}
        content = {"records": records, "date": report["started"], **common}
        chosen.json.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
