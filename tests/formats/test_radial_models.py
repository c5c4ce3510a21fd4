"""Files of radial models: all formats, round trips, and files with every kind of damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.earth import RADIUS, EarthProperties, RadialModel, reference_model, write_axisem
from lithowave.readers import read_radial_model

ND = """\
# a comment, and a layer of 20 km above a mantle
0.0   5.8 3.4 2.7 1300 600
20.0  5.8 3.4 2.7 1300 600
mantle
20.0  8.0 4.5 3.3 180  80
700.0 9.5 5.2 3.9 350 143
outer-core
700.0 8.0 0.0 9.9 57822 0.0
900.0 8.5 0.0 10.1 57822 0.0
"""
TVEL = """\
a model - P
a model - S
0.0   5.8 3.4 2.7
20.0  5.8 3.4 2.7
20.0  8.0 4.5 3.3
700.0 9.5 5.2 3.9
"""
BM = """\
# comment
NAME         two_layers
ANELASTIC       T
ANISOTROPIC     T
UNITS        m
COLUMNS       radius      rho      vpv      vsv      qka      qmu      vph      vsh      eta
  6371.d3  2700. 5800. 3400. 57827. 600. 5800. 3400. 1.
  6351000. 2700. 5800. 3400. 57827. 600. 5800. 3400. 1.
# Discontinuity
  6351000. 3300. 8000. 4400. 57827. 80.  8200. 4600. 0.9
  5671000. 3900. 9500. 5200. 57827. 143. 9500. 5200. 1.0
"""
DECK = """\
two layers
  1    1.00000  1
 4  0  0
 5671000. 3900. 9500. 5200. 57827. 143. 9500. 5200. 1.0
 6351000. 3300. 8000. 4400. 57827. 80.  8200. 4600. 0.9
 6351000. 2700. 5800. 3400. 57827. 600. 5800. 3400. 1.
 6371000. 2700. 5800. 3400. 57827. 600. 5800. 3400. 1.
"""
TABLE = """\
# depth(km)  rho (g/cm^3)  vp[km/s]  vs(km/s)  qkappa  qmu
0   2.7 5.8 3.4 57827 600
20  2.7 5.8 3.4 57827 600
20  3.3 8.0 4.4 57827 80
700 3.9 9.5 5.2 57827 143
"""
CSV = """\
radius(m),vp(m/s),vs(m/s),rho(kg/m^3)
5671000,9500,5200,3900
6351000,8000,4400,3300
6351000,5800,3400,2700
6371000,5800,3400,2700
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def at(model: RadialModel, depth: float, layer: int | None = None) -> EarthProperties:
    return model.properties(np.array([RADIUS - depth]), layer)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.nd", ND), ("a.tvel", TVEL), ("a.bm", BM), ("a.txt", BM), ("a.deck", DECK), ("a.txt", TABLE), ("a.csv", CSV)],
)
def test_every_format_has_the_same_layers(tmp_path: Path, name: str, text: str) -> None:
    model = read_radial_model(written(tmp_path, name, text))
    assert model.discontinuities[0] == RADIUS - 20e3 and model.reference_frequency == 1.0 and model.notes == ()
    np.testing.assert_allclose([at(model, 5e3).vpv, at(model, 5e3).vsv, at(model, 5e3).rho], [[5800], [3400], [2700]])
    np.testing.assert_allclose(at(model, 20e3, 0).vpv, 5800.0)
    np.testing.assert_allclose(at(model, 20e3, 1).vpv, 8000.0)
    np.testing.assert_allclose(at(model, 360e3, 1).vpv, 8750.0)  # linear between rows
    np.testing.assert_allclose(at(model, 360e3, 1).rho, 3600.0)


def test_values_of_each_format(tmp_path: Path) -> None:
    nd = read_radial_model(written(tmp_path, "a.nd", ND))
    assert nd.bottom == RADIUS - 900e3 and [one.is_fluid for one in nd.layers] == [False, False, True]
    share = 4.0 / 3.0 * (4.5 / 8.0) ** 2
    np.testing.assert_allclose(at(nd, 20e3, 1).qmu, 80.0)
    np.testing.assert_allclose(1.0 / at(nd, 20e3, 1).qkappa, (1.0 / 180.0 - share / 80.0) / (1.0 - share), rtol=1e-12)
    np.testing.assert_allclose(at(nd, 800e3).qkappa, 57822.0)
    assert at(nd, 800e3).qmu == np.inf
    assert not read_radial_model(written(tmp_path, "a.tvel", TVEL)).attenuates
    for name, text in (("a.bm", BM), ("a", DECK)):
        model = read_radial_model(written(tmp_path, name, text))
        assert [one.is_anisotropic for one in model.layers] == [False, True]
        here = at(model, 20e3, 1)
        found = [here.vpv, here.vph, here.vsv, here.vsh, here.eta, here.qmu, here.qkappa]
        np.testing.assert_allclose(np.ravel(found), [8000, 8200, 4400, 4600, 0.9, 80, 57827])
    bare = DECK.replace("1    1.00000  1", "1   -1.0 1")
    assert read_radial_model(written(tmp_path, "a", bare)).reference_frequency is None
    km = BM.replace("UNITS        m", "UNITS km").replace("6371.d3", "6371.d0").replace("000.", ".")
    km = km.replace("2700.", "2.7").replace("5800.", "5.8").replace("3400.", "3.4").replace("3300.", "3.3")
    km = km.replace("3900.", "3.9").replace("9500.", "9.5").replace("5200.", "5.2").replace("4400.", "4.4")
    km = km.replace(" 8. ", " 8.0 ").replace("8200.", "8.2").replace("4600.", "4.6")
    np.testing.assert_allclose(at(read_radial_model(written(tmp_path, "a.bm", km)), 360e3).vpv, 8750.0)


def test_a_quality_factor_of_p_waves_that_cannot_be_is_reported(tmp_path: Path) -> None:
    model = read_radial_model(written(tmp_path, "a.nd", ND.replace("1300 600", "1800 600")))
    assert at(model, 5e3).qkappa == np.inf and at(model, 5e3).qmu == 600.0
    assert "a.nd:2: qp is larger than possible with this qs in 2 rows" in model.notes[0]


@pytest.mark.parametrize("transverse", [False, True])
def test_written_models_are_read_again(tmp_path: Path, transverse: bool) -> None:
    model = reference_model("prem", ocean=True, transverse=transverse).truncated(3_000_000.0)
    again = read_radial_model(write_axisem(model, tmp_path / "prem.bm"))
    np.testing.assert_array_equal(again.discontinuities, model.discontinuities)
    assert [one.is_fluid for one in again.layers] == [one.is_fluid for one in model.layers]
    for index, layer in enumerate(model.layers):
        r = layer.probes()
        expected, found = layer.profile(r), again.layers[index].profile(r)
        np.testing.assert_allclose(found[:6], expected[:6], rtol=1e-4)  # linear between 21 radii
        np.testing.assert_allclose(found[6:], expected[6:], rtol=1e-12, atol=1.1e-9)
    twice = read_radial_model(write_axisem(again, tmp_path / "again.bm"))
    for one, other in zip(again.layers, twice.layers, strict=True):
        np.testing.assert_allclose(other.profile(one.probes()), one.profile(one.probes()), rtol=1e-14)


def test_titles_of_decks_and_names_of_discontinuities_are_any_text(tmp_path: Path) -> None:
    expected = read_radial_model(written(tmp_path, "a.deck", DECK))
    for title in ("# r rho vp vs", "", "! 100%"):
        model = read_radial_model(written(tmp_path, "b.deck", DECK.replace("two layers", title)))
        np.testing.assert_array_equal(model.discontinuities, expected.discontinuities)
    model = read_radial_model(written(tmp_path, "a.nd", ND.replace("mantle", "Upper_mantle-2")))
    np.testing.assert_array_equal(model.discontinuities, RADIUS - np.array([20e3, 700e3]))


# Changes of a file, the line that is refused (0: the file), and a part of the message.
DAMAGE = {
    "empty": ("a.nd", "", 0, "is empty"),
    "no format": ("a.txt", "1 2 3\n4 5 6\n", 1, "has no known format"),
    "too few columns": ("a.nd", ND.replace(" 1300 600", "").replace(" 5.8 3.4 2.7", " 5.8 3.4"), 2, "has 3 columns"),
    "a missing column": ("a.nd", ND.replace("8.0 4.5 3.3", "8.0 4.5"), 5, "has 5 columns; expected 6"),
    "text in a row": ("a.tvel", TVEL.replace("8.0 4.5", "8.0 fast"), 5, "'fast' is not a number"),
    "not finite": ("a.tvel", TVEL.replace("9.5", "nan"), 6, "is not"),
    "unknown units": ("a.bm", BM.replace("UNITS        m", "UNITS feet"), 5, "UNITS: is 'feet'"),
    "header after rows": ("a.bm", BM + "UNITS m\n", 12, "'UNITS' is not a number"),
    "not ordered": ("a.nd", ND.replace("700.0 9.5", "10.0 9.5"), 6, "is not monotonic"),
    "three equal": ("a.tvel", TVEL + "700.0 9.6 5.3 3.9\n700.0 9.7 5.3 3.9\n800 9.7 5.4 3.9\n", 8, "three rows"),
    "no thickness": ("a.tvel", TVEL + "700.0 9.6 5.3 3.9\n", 7, "no thickness"),
    "one row": ("a.tvel", TVEL[:41], 0, "has 1 row"),
    "meters as km": ("a.nd", ND.replace("700.0", "700000.0").replace("900.0", "900000.0"), 9, "beyond the center"),
    "swapped columns": ("a.tvel", TVEL.replace("8.0 4.5", "4.5 8.0"), 5, "vp: is too low for vs"),
    "fluid on one side": ("a.nd", ND.replace("900.0 8.5 0.0", "900.0 8.5 4.0"), 9, "vs is 0 on one side"),
    "no quality": ("a.nd", ND.replace("180  80", "180  0"), 5, "qs: is 0; must be above 0"),
    "another planet": ("a.bm", BM.replace("6371.d3", "6372.d3"), 7, "begins at the radius 6372 km"),
    "no units": ("a.bm", BM.replace("UNITS        m\n", ""), 6, "UNITS: is missing"),
    "unknown column": ("a.bm", BM.replace("eta", "xi "), 6, "'xi' is not a known column"),
    "a column twice": ("a.txt", TABLE.replace("qkappa", "qmu"), 1, "the column qmu appears twice"),
    "flag without columns": ("a.bm", BM.replace(" qka ", " qp  ").replace(" qmu ", " qs  "), 6, "lacks qkappa, qmu"),
    "columns without flag": ("a.bm", BM.replace("ANISOTROPIC     T", "ANISOTROPIC F"), 4, "ANISOTROPIC: is F"),
    "unknown flag": ("a.bm", BM.replace("ANISOTROPIC     T", "ANISOTROPIC maybe"), 4, "ANISOTROPIC: is 'maybe'"),
    "unknown header": ("a.bm", BM.replace("NAME  ", "MODEL "), 2, "MODEL: is not a header"),
    "header twice": ("a.bm", BM.replace("UNITS        m", "UNITS m\nUNITS km"), 6, "UNITS: appears twice"),
    "no rows": ("a.bm", BM[: BM.index("  6371")], 0, "has no rows"),
    "eta": ("a.bm", BM.replace("4600. 0.9", "4600. 9.0"), 10, "eta: is 9; allowed: 0.5 to 1.5"),
    "count of a deck": ("a.txt", DECK.replace(" 4  0  0", " 5  0  0"), 3, "states 5 rows, and the file has 4"),
    "isotropic deck": ("a.txt", DECK.replace("  1    1.0", "  0    1.0"), 2, "ifanis is 0, and line 5 has"),
    "polynomial deck": ("a.txt", DECK.replace("1.00000  1", "1.00000  0"), 2, "ifdeck is 0"),
    "truncated deck": ("a.txt", DECK[:-20], 7, "has 5 columns; expected 9"),
    "table without units": ("a.txt", TABLE.replace("vp[km/s]", "vp"), 1, "'vp' has no unit; expected a unit"),
    "depth and radius": ("a.txt", TABLE.replace("qkappa", "radius(km)"), 1, "neither radius nor depth, or both"),
    "half of the quality": ("a.txt", TABLE.replace("qkappa", "qp"), 1, "have qmu, qp"),
    "no density": ("a.csv", CSV.replace("rho(kg/m^3)", "eta"), 1, "lack rho"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_files_are_refused_with_their_line(tmp_path: Path, case: str) -> None:
    name, text, line, message = DAMAGE[case]
    path = written(tmp_path, name, text)
    with pytest.raises(InputError) as caught:
        read_radial_model(path)
    assert f"{path}:{line}: " in str(caught.value) if line else str(path) in str(caught.value)
    assert message in str(caught.value)


PARTS = {
    "domain": {"x": [-3e5, 3e5], "y": [-3e5, 3e5], "z": [-6e5, 0]}, "sources": [], "duration": 1.0,
    "solver": {"method": "spectral_element", "max_frequency": 0.02},
}  # fmt: skip


def test_a_file_is_the_material_of_a_simulation(tmp_path: Path) -> None:
    path = written(tmp_path, "a.bm", BM)
    simulation = lw.Simulation(material={"earth": str(path)}, **PARTS)
    assert simulation.material.input_files() == [path]
    vp, vs, rho = simulation.material.sample(0.0, 0.0, np.array([-5e3, -20e3, -360e3]))
    np.testing.assert_allclose(rho, [2700.0, 3300.0, 3600.0])
    np.testing.assert_allclose(vp[[0, 2]], [5800.0, at(simulation.material.earth.radial_model, 360e3).vp[0]])
    again = lw.Simulation.from_text(simulation.to_yaml())
    assert again.material == simulation.material
    with pytest.raises(InputError, match=r"material.earth.model: .*b.bm:10: row: 'x' is not a number"):
        lw.Simulation(material={"earth": str(written(tmp_path, "b.bm", BM.replace("8000.", "x")))}, **PARTS)
    with pytest.raises(InputError, match="ends at the depth 700 km, and the domain at 800 km"):
        lw.Simulation(material={"earth": str(path)}, **{**PARTS, "domain": {**PARTS["domain"], "z": [-8e5, 0]}})
