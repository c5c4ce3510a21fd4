"""Gridded models as text with named columns."""

from __future__ import annotations

import numpy as np
import pytest
from support.model_files import DEPTH, LATITUDE, LONGITUDE, SIMULATION, speed

import lithowave as lw
from lithowave import InputError
from lithowave.readers import read_model

X, Y, Z = np.array([0.0, 100.0, 300.0]), np.array([-50.0, 50.0]), np.array([-400.0, -100.0, 0.0])
NAMES = "# x y z vp vs rho"


def table(x=X, y=Y, z=Z):
    a, b, c = (each.ravel() for each in np.meshgrid(x, y, z, indexing="ij"))
    return np.column_stack([a, b, c, 4000 + a + 2 * b - c, 2000 + 0.5 * a, 2500 + 0.1 * b])


def write(path, rows=None, header=NAMES, separator=" ", columns=None, seed=3):
    """Write points in random order."""
    rows = np.random.default_rng(seed).permutation(table() if rows is None else rows)
    lines = [header, *(separator.join(f"{value:.10g}" for value in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def check(model):
    for name, axis in (("x", X), ("y", Y), ("z", Z)):
        np.testing.assert_array_equal(getattr(model, name), axis)
    np.testing.assert_allclose(model.vp, 4000 + X[:, None, None] + 2 * Y[:, None] - Z, rtol=1e-9)
    np.testing.assert_allclose(model.vs, np.broadcast_to(2000 + 0.5 * X[:, None, None], (3, 2, 3)), rtol=1e-9)
    np.testing.assert_allclose(model.rho, np.broadcast_to(2500 + 0.1 * Y[:, None], (3, 2, 3)), rtol=1e-9)


@pytest.mark.parametrize(
    "header", [NAMES, "x,y,z,Vp,Vs,density", "# made by hand\n# x(m) y[m] z (m) vp(m/s) vs rho[kg/m^3]"]
)
@pytest.mark.parametrize("separator", [" ", ",", "\t", "; "])
def test_named_columns_in_any_order_of_rows(tmp_path, header, separator):
    check(*read_model(write(tmp_path / "m.txt", header=header, separator=separator)))


def test_units_of_columns(tmp_path):
    rows = table() * np.array([1e-3, 1e-3, -1e-3, 1e-3, 1e-3, 1e-3])
    check(*read_model(write(tmp_path / "m.txt", rows, "x(km) y(km) depth(km) vp(km/s) vs(km/s) rho(g/cm^3)")))


def test_community_models_on_longitude_latitude_and_depth(tmp_path):
    lon, lat, depth = (each.ravel() for each in np.meshgrid(LONGITUDE, LATITUDE, 1e3 * DEPTH, indexing="ij"))
    vp = 1e3 * speed(lon, lat, depth / 1e3)
    rows = np.column_stack([lon, lat, depth, vp, vp / 1.8, 0.45 * vp])
    path = write(tmp_path / "ucvm.txt", rows, "# lon lat depth(m) vp vs rho")
    made = lw.Simulation(material={"file": str(path)}, **SIMULATION)
    expected = 1e3 * speed(*made.domain.to_geographic(-7e3, 5e3), 3.0)
    assert made.material.sample(-7e3, 5e3, -3e3)[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    "change, pattern",
    [
        ({"header": "# a model"}, ":1: columns: the columns have no names; .*lon lat depth vp vs rho.*cannot be"),
        ({"header": "# x y vp vs rho q"}, ":1: columns: the columns are x, y, vp.*expected longitude and latitude or"),
        ({"header": "# x y z vp vs vs"}, ":1: columns: the column vs is there twice"),
        ({"header": "# x y z vp vs"}, ":2: columns: has 6 columns; expected 5: x, y, z, vp, vs"),
        ({"header": "# lon lat depth vp vs rho"}, "depth: has no units"),
        ({"header": f"{NAMES}\n\n1 2 3 4 5 six"}, ":3: columns: '1 2 3 4 5 six' contains text"),
        ({"rows": table()[:-1]}, r"points: the point x = 300, y = 50, z = 0 is missing \(1 such points; .* 3 x 2 x 3"),
        ({"rows": np.vstack([table(), table()[:1]])}, "points: the point x = 0, y = -50, z = -400 is there twice"),
        ({"rows": np.random.default_rng(1).uniform(0, 1, (500, 6))}, "its 500 points have 500 x 500 x 500 different"),
        ({"rows": table(x=X[:1], y=np.arange(9.0))}, "x: is 0 at all points"),
        ({"rows": np.where(table() == 300.0, np.nan, table())}, "x: has a coordinate without a value"),
        ({"rows": np.where(table() == table()[4, 3], np.nan, table())}, "vp: has no value at x = 0 m"),
    ],
)  # fmt: skip
def test_refused_texts(tmp_path, change, pattern):
    with pytest.raises(InputError, match=f"m.txt.*{pattern}|m.txt{pattern}"):
        read_model(write(tmp_path / "m.txt", **change))
