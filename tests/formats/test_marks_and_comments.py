"""Text files of all kinds with the mark of UTF-8, comments, Windows line ends and letters outside ASCII."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from lithowave.readers import (
    TETRAHEDRA,
    UTF8_MARK,
    read_events,
    read_mesh_file,
    read_model,
    read_radial_model,
    read_samples,
    read_shots,
    read_srf,
    read_station_table,
    read_stations,
    read_stationxml,
)

CORNERS = [(x, y, z) for z in (0, 10) for y in (32, 34) for x in (130, 132)]
ROWS = "".join(f"{x} {y} {z} 5.8 3.2 2.6\n" for x, y, z in CORNERS)
CMT = (
    "PDE 2012 3 4 10 20 30.00 46.300 -121.900 6.0 4.0 4.0 TEST\nevent name:     T1\ntime shift:      0.0\n"
    "half duration:   1.0\nlatitude:       46.3\nlongitude:    -121.9\ndepth:           6.0\nMrr: 1.0e+23\n"
    "Mtt: 1.0e+23\nMpp: 1.0e+23\nMrt: 0.0e+23\nMrp: 0.0e+23\nMtp: 0.0e+23\n"
)
SRF = "2.0\nPOINTS 1\n0.0 0.0 5.0 0 90 4.0e8 1.0 0.1 3.5e5 2.7\n0 30.0 4 0 0 0 0\n0 100 150 50\n"
FILES = {
    "model.txt": (
        "# lon lat depth(km) vp(km/s) vs(km/s) rho(g/cm^3)\n" + ROWS, "#", lambda path: read_model(path)[0].vp,
    ),
    "earth.txt": (
        "depth(km) vp(km/s) vs(km/s) rho(g/cm^3)\n0 6 3.5 2.7\n35 6 3.5 2.7\n35 8 4.5 3.3\n2891 13 7 5.5\n2891 8 0 10\n"
        "6371 11 0 13\n", "#", lambda path: read_radial_model(path).radius,
    ),
    "samples.txt": ("0 0\n0.1 1\n0.2 0\n", "#", lambda path: read_samples(path).values),
    "shots.csv": ("x,y,z\n10,20,-5\n", "#", lambda path: [one.place for one in read_shots(path)]),
    "points.csv": (
        "station,x,y\nA,10,20\n", "#", lambda path: [one.horizontal for one in read_station_table(path).records],
    ),
    "STATIONS": ("A XX 46.3 -121.9 0.0 0.0\n", "#", lambda path: [one.first for one in read_stations(path)]),
    "CMTSOLUTION": (CMT, "#", lambda path: read_events(path)[0].depth),
    "fault.srf": (SRF, "#", lambda path: read_srf(path).rates),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_marks_comments_and_line_ends(tmp_path, name):
    text, comment, read = FILES[name]
    (tmp_path / name).write_text(text)
    plain = read(tmp_path / name)
    commented = f"{comment} modèle de référence\n{text}"
    for content in (
        UTF8_MARK + text.encode(), UTF8_MARK + commented.encode(), commented.encode(), commented.encode("latin-1"),
        UTF8_MARK + commented.replace("\n", "\r\n").encode(),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        np.testing.assert_array_equal(read(tmp_path / name), plain)


def test_marks_before_other_formats(tmp_path):
    """The simulation file, XML and meshes."""
    text = (
        "domain: {x: [-1e3, 1e3], y: [-1e3, 1e3], z: [-2e3, 0]}\n"
        "material: {homogeneous: {vp: 3000, vs: 1700, rho: 2300}}\n"
        "sources: [{position: [0, 0, -9], force: [0, 0, 1], time_function: {gaussian: {sigma: 1}}}]\nduration: 1\n"
        "schema_version: 1\nsolver: {max_frequency: 1}\n"
    )
    (tmp_path / "a.yaml").write_bytes(UTF8_MARK + text.encode())
    assert lw.Simulation.from_file(tmp_path / "a.yaml").duration == 1
    xml = (
        '<?xml version="1.0"?><FDSNStationXML xmlns="http://www.fdsn.org/xml/station/1" schemaVersion="1.1"><Source>a'
        '</Source><Created>2020-01-01T00:00:00</Created><Network code="XX"><Station code="A"><Latitude>1</Latitude>'
        "<Longitude>2</Longitude><Elevation>3</Elevation><Site><Name>a</Name></Site></Station></Network></FDSNStationXML>"
    )
    (tmp_path / "a.xml").write_bytes(UTF8_MARK + xml.encode())
    assert read_stationxml(tmp_path / "a.xml").records[0].horizontal == (2.0, 1.0)
    gmsh = (
        "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n4\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n$EndNodes\n$Elements\n1\n"
        "1 4 2 1 1 1 2 3 4\n$EndElements\n"
    )
    (tmp_path / "a.msh").write_bytes(UTF8_MARK + gmsh.encode())
    assert read_mesh_file(tmp_path / "a.msh", TETRAHEDRA).elements.shape == (1, 4)


@pytest.mark.parametrize("quality", [False, True])
def test_the_tomography_file_of_specfem(tmp_path, quality):
    """x fastest, z upwards; values in SI. The order of the points is that of the file, whatever it is."""
    x, y, z = np.linspace(0, 2000, 3), np.linspace(-500, 500, 2), np.linspace(-3000, 0, 4)
    rows = [
        (a, b, c, 3000 + a - 0.1 * c, 1500 + 0.2 * b, 2300, *((200, 100) if quality else ()))
        for c in z for b in y for a in x
    ]  # fmt: skip
    header = "0 -500 -3000 2000 500 0\n1000 1000 1000\n3 2 4\n3000 5300 1400 1600 2300 2300\n# points\n"
    (tmp_path / "tomography_model.xyz").write_text(header + "".join(" ".join(map(str, row)) + "\n" for row in rows))
    (model,) = read_model(tmp_path / "tomography_model.xyz")
    np.testing.assert_array_equal(model.vp, 3000 + x[:, None, None] - 0.1 * z + 0 * y[:, None])
    np.testing.assert_allclose(model.vs[0, :, 0], 1500 + 0.2 * y)
    assert model.frame.kind == "local" and sorted(model.quality) == (["qp", "qs"] if quality else [])
    (tmp_path / "bad.xyz").write_text(header + "1 2 3 4 5 6 7\n")
    with pytest.raises(lw.InputError, match="bad.xyz:6: columns: .* SPECFEM tomography file .* another number"):
        read_model(tmp_path / "bad.xyz")
