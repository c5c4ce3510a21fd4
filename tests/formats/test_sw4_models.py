"""Material files of SW4: rfile (rasters) and sfile (between surfaces), their placement, and damaged files."""

from __future__ import annotations

import struct

import h5py
import numpy as np
import pytest
from pyproj import Transformer
from support.model_files import SIMULATION

import lithowave as lw
from lithowave import InputError
from lithowave.readers import read_model

ORIGIN, AZIMUTH = (-119.59, 33.87), 30.0
PROJECTION = "+proj=tmerc +ellps=WGS84 +lon_0=-119.59 +lat_0=33.87 +units=m +no_defs"
RFILE_BLOCKS = ((2000.0, 500.0, -1000.0, 7), (4000.0, 2000.0, 2000.0, 4), (8000.0, 4000.0, 8000.0, 6))
SIZE = 80e3


def trend(x, y, depth):
    """rho, vp, vs, qp, qs of a model that is linear in the coordinates of the file, m."""
    vs = 2500.0 + 0.005 * x + 0.003 * y + 0.03 * depth
    return np.stack([2000.0 + 0.1 * vs, 1.75 * vs, vs, 0.1 * vs, 0.05 * vs], axis=-1)


def elevation(x, y):
    return 300.0 + 0.004 * x - 0.002 * y


def axis(spacing):
    return spacing * np.arange(round(SIZE / spacing) + 1)


def rfile(path, order="<", precision=8, attenuation=1, air=True, head=None, text=PROJECTION, components=None):
    """Write an rfile with a topography and three blocks of different resolution; air has the value -999."""
    components = components or (5 if attenuation else 3)
    x = axis(RFILE_BLOCKS[0][0])
    blocks = [((x[1], 1.0, 0.0), elevation(x[:, None], x)[:, :, None, None])]
    for spacing, step, top, count in RFILE_BLOCKS:
        x, depth = axis(spacing), top + step * np.arange(count)
        values = trend(x[:, None, None], x[:, None], depth)[..., :components]
        above = -depth > elevation(x[:, None, None], x[:, None]) + 1e-3
        values[above & np.full(values.shape[:3], air)] = -999.0
        blocks.append(((spacing, step, top), values))
    magic = {"magic": 1, "precision": precision, "attenuation": attenuation, "count": len(blocks)} | (head or {})
    data = struct.pack(order + "iii", magic["magic"], magic["precision"], magic["attenuation"])
    data += struct.pack(order + "ddd", AZIMUTH, *ORIGIN) + struct.pack(order + "i", len(text)) + text.encode()
    data += struct.pack(order + "i", magic["count"])
    for spacings, values in blocks:
        data += struct.pack(order + "ddd", *spacings) + struct.pack(order + "iiii", values.shape[3], *values.shape[:3])
    data += b"".join(values.astype(f"{order}f{precision}").tobytes() for _, values in blocks)
    path.write_bytes(data)
    return path


TOPS = (lambda x, y: -elevation(x, y), lambda x, y: 3000.0 + 0.01 * x, lambda x, y: 10000.0 + 0.0 * x * y)
BOTTOM = 30000.0


def sfile(path, attenuation=1, coarse=False, change=None, kind="f8"):
    """Write an sfile with three blocks, whose values are linear in x, y and depth."""
    with h5py.File(path, "w") as file:
        file.attrs["Origin longitude, latitude, azimuth"] = np.array([*ORIGIN, AZIMUTH])
        file.attrs["Coarsest horizontal grid spacing"] = 4000.0
        file.attrs["Attenuation"], file.attrs["ngrids"] = np.int32(attenuation), np.int32(3)
        file.attrs["Min, max depth"] = np.array([-700.0, BOTTOM])
        surfaces = (*TOPS, lambda x, y: BOTTOM + 0.0 * x * y)
        for number, (spacing, count) in enumerate(((1000.0, 5), (2000.0, 6), (4000.0, 7))):
            x = axis(spacing)
            top, bottom = (surfaces[number + end](x[:, None], x) for end in (0, 1))
            depth = top[..., None] + np.linspace(0, 1, count) * (bottom - top)[..., None]
            values = trend(x[:, None, None], x[:, None], depth)
            group = file.create_group(f"Material_model/grid_{number}")
            group.attrs["Horizontal grid size"], group.attrs["Number of components"] = spacing, np.int32(5)
            for index, name in enumerate(("Rho", "Cp", "Cs", "Qp", "Qs")[: 5 if attenuation else 3]):
                group[name] = values[..., index].astype(kind)
        for number, surface in enumerate(surfaces):
            x = axis(4000.0 if coarse else (1000.0, 1000.0, 2000.0, 4000.0)[number])
            file[f"Z_interfaces/z_values_{number}"] = np.broadcast_to(surface(x[:, None], x), (x.size, x.size))
        if change:
            change(file)
    return path


def simulation(path, **changes):
    parts = {**SIMULATION, "domain": {**SIMULATION["domain"], **changes}}
    return lw.Simulation(material={"file": str(path)}, **parts)


def file_coordinates(made, x, y):
    """Coordinates of the file, by a transformation written independently: distances along and across the azimuth."""
    east, north = Transformer.from_crs("EPSG:4326", PROJECTION, always_xy=True).transform(
        *made.domain.to_geographic(x, y)
    )
    along = np.exp(1j * np.radians(90.0 - AZIMUTH))
    turned = (east + 1j * north) / along
    return turned.real, -turned.imag


def points(made, count=60, depth=(0.0, 20e3)):
    rng = np.random.default_rng(4)
    x, y = rng.uniform(-20e3, 20e3, (2, count))
    return x, y, -rng.uniform(*depth, count)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("precision, tolerance", [(4, 3e-7), (8, 1e-12)])
@pytest.mark.parametrize("attenuation", [0, 1])
def test_rfiles(tmp_path, order, precision, tolerance, attenuation):
    """All byte orders and precisions, three resolutions, rotated axes: exact for a linear model."""
    made = simulation(rfile(tmp_path / "m.rfile", order, precision, attenuation))
    x, y, z = points(made)
    expected = np.moveaxis(trend(*file_coordinates(made, x, y), -z), -1, 0)
    vp, vs, rho = made.material.sample(x, y, z)
    for found, wanted in ((rho, expected[0]), (vp, expected[1]), (vs, expected[2])):
        np.testing.assert_allclose(found, wanted, rtol=tolerance)
    assert made.has_attenuation is bool(attenuation)
    plane = made.material.sample(x, y[:, None], -1234.0)[0]
    np.testing.assert_allclose(np.diag(plane), made.material.sample(x, y, np.full(60, -1234.0))[0], rtol=1e-12)


def test_air_in_rfiles_takes_the_value_of_the_ground(tmp_path):
    made = simulation(rfile(tmp_path / "m.rfile"))
    above, below = made.material.sample(0.0, 0.0, 900.0)[1], made.material.sample(0.0, 0.0, 0.0)[1]
    assert 2000.0 < above <= below and above == pytest.approx(float(below), rel=0.01)
    assert made.material.extreme_places(made.domain)["vs_min"].startswith("x = ")


def test_rfiles_without_a_projection_have_the_transverse_mercator_one(tmp_path):
    first, second = (simulation(rfile(tmp_path / f"{len(text)}", text=text)) for text in ("", PROJECTION))
    x, y, z = points(first)
    np.testing.assert_allclose(first.material.sample(x, y, z), second.material.sample(x, y, z), rtol=1e-9)


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("attenuation", [0, 1])
def test_sfiles(tmp_path, attenuation, coarse):
    """Values are exact in blocks between linear surfaces, of resolutions different from those of the surfaces."""
    made = simulation(sfile(tmp_path / "m.sfile", attenuation, coarse))
    x, y, z = points(made)
    a, b = file_coordinates(made, x, y)
    expected = np.moveaxis(trend(a, b, -z), -1, 0)
    vp, vs, rho = made.material.sample(x, y, z)
    for found, wanted in ((rho, expected[0]), (vp, expected[1]), (vs, expected[2])):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    surface = made.material.sample(x, y, np.full(60, 3e3))[1]
    np.testing.assert_allclose(surface, trend(a, b, -elevation(a, b))[:, 2], rtol=1e-9)
    extremes = made.material_extremes
    assert extremes["vs_min"] <= vs.min() and extremes["vs_max"] >= vs.max() and extremes["vs_max"] < 1.2 * vs.max()
    if attenuation:
        bulk, shear = made.material.medium.inverse_quality(x, y, z)
        np.testing.assert_allclose(1.0 / shear, expected[4], rtol=0.05)  # 1/Q is interpolated
        assert (bulk > 0).any()


def test_interfaces_separate_the_blocks(tmp_path):
    """Blocks of different constant values: the change is at the interface, on its lower side."""

    def steps(file):
        for number, value in enumerate((2000.0, 2500.0, 3000.0)):
            file[f"Material_model/grid_{number}/Cs"][...] = value
            file[f"Material_model/grid_{number}/Cp"][...] = 1.8 * value

    made = simulation(sfile(tmp_path / "m.sfile", change=steps))
    x, y, _ = points(made, 20)
    depth = TOPS[1](*file_coordinates(made, x, y))
    for shift, value in ((1.0, 2000.0), (-1.0, 2500.0)):
        np.testing.assert_allclose(made.material.sample(x, y, -depth + shift)[1], value)


def test_a_surface_below_the_top_of_the_domain_is_reported(tmp_path):
    def lower(file):
        file["Z_interfaces/z_values_0"][...] += 1000.0

    assert not [text for text in simulation(sfile(tmp_path / "a")).warnings() if "below the top" in text]
    made = simulation(sfile(tmp_path / "b", change=lower))
    (text,) = (text for text in made.warnings() if "below the top of the domain" in text)
    x, y = np.meshgrid(np.linspace(-20e3, 20e3, 41), np.linspace(-20e3, 20e3, 41))
    lowest = elevation(*file_coordinates(made, x, y)).min() - 1000.0
    assert float(text.split("is up to ")[1].split()[0]) == pytest.approx(-lowest, abs=1.0)


def test_placement_is_required(tmp_path):
    for path in (rfile(tmp_path / "m.rfile"), sfile(tmp_path / "m.sfile")):
        with pytest.raises(InputError, match="is on a map with a geographic origin; the domain needs a geographic"):
            simulation(path, crs=None)
        with pytest.raises(InputError, match="covers z = .* it must cover the domain, -60000 to 0 m"):
            simulation(path, z=[-60e3, 0])
        with pytest.raises(InputError, match="covers x = 0 to 80000 m"):
            simulation(path, x=[-90e3, 20e3])


def swapped(data):
    return data[:4][::-1] + data[4:]


def packed(offset, code, *numbers):
    def change(data):
        piece = struct.pack("<" + code, *numbers)
        return data[:offset] + piece + data[offset + len(piece) :]

    return change


BLOCK = 12 + 24 + 4 + len(PROJECTION) + 4


@pytest.mark.parametrize(
    "change, pattern",
    [
        (lambda data: b"", "the file is empty"),
        (lambda data: data[:3], "the file format is unknown"),
        (lambda data: data[:20], "byte 12: the file ends before the origin"),
        (lambda data: data[: BLOCK + 30], "the file ends before the header of block 1"),
        (lambda data: data[:-1], "the header describes .* bytes, but the file has"),
        (packed(0, "i", 2), "the file format is unknown"),
        (swapped, "the file format is unknown"),
        (packed(8, "i", 9), "byte 8: attenuation is 9"),
        (packed(12, "d", np.nan), "byte 12: azimuth, longitude and latitude are nan"),
        (packed(36, "i", 2**30), "byte 36: the length of the projection is 1073741824"),
        (packed(BLOCK - 4, "i", 0), "the number of blocks is 0"),
        (packed(BLOCK, "d", -5.0), "spacings and top of block 1"),
        (packed(BLOCK + 24, "i", 7), "block 1 has 7 components"),
        (packed(BLOCK + 28, "i", 2**31 - 1), "the header describes .* bytes, but the file has"),
        (packed(BLOCK + 40 + 24, "iii", 2**30, 2**30, 2**30), "block 2 has 1073741824 components"),
        (lambda data: data.replace(b"+proj=tmerc", b"+proj=trash"), "projection: '.*proj=trash.*cannot be used"),
    ],
)
def test_damaged_rfiles_are_refused(tmp_path, change, pattern):
    path = tmp_path / "bad.rfile"
    path.write_bytes(change(rfile(path, precision=4).read_bytes()))
    with pytest.raises(InputError, match=pattern) as caught:
        read_model(path)
    assert "bad.rfile" in str(caught.value)


def test_impossible_values_are_refused_with_their_position(tmp_path):
    whole = rfile(tmp_path / "m.rfile", precision=4, attenuation=0).read_bytes()
    for value, pattern in ((np.nan, "has no value at x = "), (-999.0, "has no value at x = "), (0.0, "= 0 at x = ")):
        data = np.frombuffer(whole, "<f4", offset=len(whole) % 4).copy()
        data[data.size // 3 :: 50] = value
        (tmp_path / "bad").write_bytes(whole[: len(whole) % 4] + data.tobytes())
        with pytest.raises(InputError, match=pattern):
            simulation(tmp_path / "bad")


def delete(name):
    return lambda file: file.__delitem__(name)


def replace(name, values):
    def change(file):
        del file[name]
        file[name] = values

    return change


def attribute(group, name, value):
    def change(file):
        file[group].attrs[name] = value

    return change


GRID = "Material_model/grid_1"


@pytest.mark.parametrize(
    "change, pattern",
    [
        (delete(f"{GRID}/Cs"), "Material_model/grid_1/Cs: the array is missing"),
        (delete("Z_interfaces/z_values_3"), "Z_interfaces/z_values_3: the array is missing"),
        (replace(f"{GRID}/Cs", np.ones((3, 3, 3))), r"Cs: has the shape \(3, 3, 3\), Cp has"),
        (replace(f"{GRID}/Cs", np.full((41, 41, 6), b"x")), "Cs: cannot be read: it contains"),
        (replace("Z_interfaces/z_values_1", np.full((9, 9), np.nan)), "z_values_1: has points without a value"),
        (replace("Z_interfaces/z_values_1", np.full((9, 9), 2e4)), "z_values_2: is above z_values_1 at point"),
        (attribute("/", "ngrids", 4), "Material_model/grid_3/Cp: the array is missing"),
        (attribute("/", "ngrids", 10**9), "ngrids: is 1000000000"),
        (attribute(GRID, "Horizontal grid size", 999.0), "Material_model/grid_1: extends over 39960 x 39960 m"),
        (replace(f"{GRID}/Cs", np.ones((3, 3))), r"Cs: has the shape \(3, 3\); expected 3 dimensions"),
        (attribute("/", "ngrids", "three"), "ngrids: the attribute is 'three'; expected a whole number"),
        (attribute("/", "Origin longitude, latitude, azimuth", [1.0, 2.0]), "azimuth: is .*expected three numbers"),
        (attribute(GRID, "Horizontal grid size", -1.0), "grid_1: Horizontal grid size: the attribute is -1.0"),
        (lambda file: file[GRID].attrs.__delitem__("Horizontal grid size"), "grid size: the attribute is None"),
    ],
)  # fmt: skip
def test_damaged_sfiles_are_refused(tmp_path, change, pattern):
    with pytest.raises(InputError, match=pattern) as caught:
        read_model(sfile(tmp_path / "bad.sfile", change=change))
    assert "bad.sfile" in str(caught.value)
