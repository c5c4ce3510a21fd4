"""Descriptions and files with values that no computation expects: refused by their place, without a traceback."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lithowave as lw
from lithowave.readers import read_srf
from small_run import SMALL, lithowave, write_small


def refused(tmp_path, text: str | bytes) -> str:
    path = tmp_path / "case.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    output = lithowave("check", path, status=2)
    assert "Traceback" not in output
    return output


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("title: small", "title: sm\0all", "special characters are not allowed"),
        ("title: small", 'title: "sm\\0all"', "there is a NUL character"),
        ("directory: out", 'directory: "o\\0ut"', "there is a NUL character"),
        ("network: XX, name: S01", 'network: "X\\0X", name: S01', "there is a NUL character"),
        ("duration: 0.8", f"duration: {'9' * 5000}", "the integer has 5000 digits; allowed: 300"),
        ("duration: 0.8", f"duration: {'9' * 305}", "the integer has 305 digits"),
        ("duration: 0.8", f"duration: {'9' * 300}", "duration"),
        ("duration: 0.8", "duration: 1e400", "duration"),
        ("duration: 0.8", "duration: 1e300", "steps of"),
        ("title: small", "title: " + "[" * 3000 + "]" * 3000, "too many nested groups"),
        ("title: small", "title: " + "{a: " * 3000 + "1" + "}" * 3000, "too many nested groups"),
        ("sampling_interval: 0.02", "sampling_interval: 1e-300", "output.sampling_interval: a duration"),
        ("x: [-600, 600], y", "x: [-1e300, 1e300], y", "domain.x"),
        ("count: 3", f"count: {'9' * 100}", "receivers[1]"),
    ],
)  # fmt: skip
def test_values_are_refused_by_their_place(tmp_path, old, new, words):
    assert old in SMALL
    assert words in " ".join(refused(tmp_path, SMALL.replace(old, new, 1)).split())


def test_a_description_that_is_not_text(tmp_path):
    assert "is not text in UTF-8" in refused(tmp_path, b"\xff\xfe\0t\0")
    assert "--set title" in lithowave("check", write_small(tmp_path), "--set", f"title={'[' * 3000}", status=2)
    assert "--set duration" in lithowave("check", write_small(tmp_path), "--set", f"duration={'9' * 5000}", status=2)


def test_a_short_sampling_interval_is_computed_or_refused(tmp_path):
    text = lithowave("check", write_small(tmp_path), "--set", "output.sampling_interval=1e-12", status=2)
    assert "output.sampling_interval: a duration of 0.8 s has 8e+11 steps" in " ".join(text.split())


@pytest.mark.parametrize("method", ["finite_difference", "spectral_element", "discontinuous_galerkin"])
def test_a_time_step_of_a_billion_steps_is_refused(tmp_path, method):
    words = ("check", write_small(tmp_path), "--set", f"solver.method={method}", "--set")
    text = " ".join(lithowave(*words, "solver.time_step=1e-12", status=2).split())
    assert "solver.time_step: a duration of 0.8 s has 8e+11 steps of 1e-12 s; allowed: at most 1e+09 steps" in text
    stable = float(re.search(r"omit it to use ([\d.]+) s, which is stable", text).group(1))
    assert 1e-5 < stable < 0.1


def test_a_nul_in_python(tmp_path):
    simulation = lw.Simulation.from_file(write_small(tmp_path))
    with pytest.raises(lw.InputError, match="title: contains a NUL character"):
        simulation.with_overrides({"title": "a\0b"})
    with pytest.raises(lw.InputError, match="file: contains a NUL character"):
        lw.Receivers(file="a\0b")


GROUPS = """
domain: {x: [-500, 500], y: [-500, 500], z: [-1000, 0]}
material: {groups: {rock: {vp: 3000, vs: 1700, rho: 2300}}}
sources: [{position: [0, 0, -600], force: [0, 0, 1.0e9], time_function: {gaussian: {sigma: 0.6}}}]
duration: 2
"""


@pytest.mark.parametrize("kind", ["msh", "vtu", "exo", "tetrahedra"])
def test_a_mesh_without_groups_together_with_groups(tmp_path, kind):
    x = np.array([[-500, -500], [500, -500], [500, 500], [-500, 500]], float)
    points = np.vstack([np.column_stack([x, np.full(4, z)]) for z in (-1000.0, 0.0)])
    method, name = "spectral_element", f"mesh.{kind}"
    if kind == "msh":
        nodes = "\n".join(f"{n} {a} {b} {c}" for n, (a, b, c) in enumerate(points, 1))
        cell = "1 5 0 " + " ".join(map(str, range(1, 9)))
        (tmp_path / name).write_text(
            f"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n8\n{nodes}\n$EndNodes\n$Elements\n1\n{cell}\n$EndElements\n"
        )
    elif kind == "exo":
        import h5py

        with h5py.File(tmp_path / name, "w") as file:
            for axis, values in zip("xyz", points.T, strict=True):
                file[f"coord{axis}"] = values
            file["connect1"] = np.arange(1, 9, dtype=np.int32)[None]
            file["connect1"].attrs["elem_type"] = "HEX8"
    else:
        meshio = pytest.importorskip("meshio")
        cells = [("hexahedron", np.arange(8)[None])]
        if kind == "tetrahedra":
            method, name = "discontinuous_galerkin", "mesh.vtu"
            corners = [[0, 1, 2, 6], [0, 2, 3, 6], [0, 3, 7, 6], [0, 7, 4, 6], [0, 4, 5, 6], [0, 5, 1, 6]]
            cells = [("tetra", np.array(corners))]
        meshio.Mesh(points, cells).write(tmp_path / name)
    text = refused(tmp_path, f"{GROUPS}solver: {{method: {method}, mesh: {name}, max_frequency: 0.5}}\n")
    assert "material.groups" in text and ("has no groups of elements" in text or kind == "exo"), text


@pytest.mark.parametrize("key", ["section", "receivers"])
def test_a_segy_file_of_headers_alone(tmp_path, key):
    pytest.importorskip("segyio")
    header = bytearray(3600)
    header[3216:3226] = b"".join(value.to_bytes(2, "big") for value in (2000, 0, 100, 0, 5))
    for name in ("a.segy", "vp.segy", "vs.segy", "rho.segy"):
        (tmp_path / name).write_bytes(header)
    if key == "receivers":
        text = SMALL.replace("receivers:\n", "receivers:\n  - {file: a.segy}\n")
    else:
        section = "section: {vp: vp.segy, vs: vs.segy, rho: rho.segy}"
        text = SMALL.replace("homogeneous: {vp: 5000, vs: 2900, rho: 2600}", section)
    assert ".segy" in refused(tmp_path, text)


@pytest.mark.parametrize("place", ["POINTS 1", "PLANE 1", "0.3 10 0 0 0 0 0"])
def test_srf_counts_of_5000_digits(tmp_path, place):
    text = "2.0\nPLANE 1\n-117.7 33.9 1 1 6.0 4.0\n 40 60 1.5 0.0 2.0\nPOINTS 1\n"
    text += "-117.7 33.9 5 40 60 1e10 0 0.1 3e5 2.7\n0.3 10 0 0 0 0 0\n"
    longer = place.replace(" 1", " " + "1" * 5000) if place[0] == "P" else place.replace("10 0", "10 " + "1" * 5000)
    assert place in text
    (tmp_path / "fault.srf").write_text(text.replace(place, longer))
    with pytest.raises(lw.InputError, match="is not valid"):
        read_srf(tmp_path / "fault.srf")
