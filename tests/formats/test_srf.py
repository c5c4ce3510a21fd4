"""Standard Rupture Format: files made here with other code than the package's, HDF5, round trips, damaged files."""

from __future__ import annotations

import math
import warnings

import h5py
import numpy as np
import pytest

from geographic_runs import described
from lithowave import InputError, LithowaveWarning
from lithowave.faults import FiniteFault, planar_rupture
from lithowave.readers import read_srf, write_srf

PLANE = "PLANE 1\n-117.7 33.9 3 2 6.0 4.0\n 40 60 1.5 0.0 2.0\n"


def made_subfaults(count=6, seed=1, components=(0, 1, 2)):
    """Subfaults as text, in the units of the format: a list of dictionaries, with the sampled slip rates as text."""
    generator = np.random.default_rng(seed)
    subfaults = []
    for index in range(count):
        entry = {
            "LON": f"{-117.7 + 0.01 * index:.5f}", "LAT": f"{33.9 - 0.003 * index:.5f}",
            "DEP": f"{1.5 + 0.7 * index:.4f}", "STK": f"{generator.integers(0, 360)}",
            "DIP": f"{generator.integers(5, 90)}", "AREA": f"{generator.uniform(3.5e10, 4.5e10):.5e}",
            "TINIT": f"{generator.uniform(0, 5):.4f}", "DT": f"{generator.uniform(0.01, 0.2):.5e}",
            "VS": f"{generator.uniform(1e5, 4e5):.5e}", "DEN": f"{generator.uniform(2.0, 3.3):.5e}",
            "RAKE": f"{generator.integers(-180, 180)}",
        }  # fmt: skip
        for component in range(3):
            samples = int(generator.integers(3, 25)) if component in components else 0
            rates = [f"{value:.5e}" for value in generator.uniform(0.0, 90.0, samples) * (-1) ** component]
            numbers = [float(rate) for rate in rates]
            slip = float(entry["DT"]) * sum(0.5 * (a + b) for a, b in zip(numbers, numbers[1:], strict=False))
            entry |= {f"SR{component + 1}": rates, f"SLIP{component + 1}": f"{slip:.6f}"}
        subfaults.append(entry)
    return subfaults


def srf_text(subfaults, version, blocks=1, plane=PLANE, per_line=6):
    """The text of a file, with comments, in several POINTS blocks."""
    first = ["LON", "LAT", "DEP", "STK", "DIP", "AREA", "TINIT", "DT"] + (["VS", "DEN"] if version == "2.0" else [])
    text = f"{version}\n# made by a test\n#\n{plane}"
    for block in range(blocks):
        chosen = subfaults[block * len(subfaults) // blocks : (block + 1) * len(subfaults) // blocks]
        text += f"POINTS {len(chosen)}\n"
        for entry in chosen:
            text += "  ".join(entry[name] for name in first) + "\n" + entry["RAKE"]
            for component in "123":
                text += f"  {entry['SLIP' + component]}  {len(entry['SR' + component])}"
            text += "   # slip in cm\n"
            for component in "123":
                rates = entry["SR" + component]
                rows = [rates[start : start + per_line] for start in range(0, len(rates), per_line)]
                text += "".join("  ".join(row) + "\n" for row in rows)
    return text


def rotation(strike, dip, rake):
    """Columns in East, North, Up: slip direction, direction of u2 and normal, by rotations of a horizontal fault."""
    strike, dip, rake = np.radians([strike, dip, rake])
    turn = np.array([[math.sin(strike), -math.cos(strike), 0], [math.cos(strike), math.sin(strike), 0], [0, 0, 1]])
    tilt = np.array([[1, 0, 0], [0, math.cos(dip), -math.sin(dip)], [0, math.sin(dip), math.cos(dip)]])
    slide = np.array([[math.cos(rake), -math.sin(rake), 0], [math.sin(rake), math.cos(rake), 0], [0, 0, 1]])
    return turn @ tilt @ slide  # along the strike, then up dip, then the rake in the plane


def expected_moment(entry, component, shear, bulk):
    """Tensor (3, 3) in N m of one component by the definition M_ij = C_ijkl n_k s_l A."""
    axes = rotation(float(entry["STK"]), float(entry["DIP"]), float(entry["RAKE"]))
    normal, slip = axes[:, 2], axes[:, component]
    rates = np.array([float(rate) for rate in entry[f"SR{component + 1}"]])
    size = 1e-2 * np.trapezoid(rates) * float(entry["DT"]) * 1e-4 * float(entry["AREA"])
    lame, eye = bulk - 2 * shear / 3, np.eye(3)
    stiffness = lame * np.einsum("ij,kl", eye, eye)
    stiffness += shear * (np.einsum("ik,jl", eye, eye) + np.einsum("il,jk", eye, eye))
    return size * np.einsum("ijkl,k,l", stiffness, normal, slip)


def voigt(tensor):
    return np.array([tensor[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))])


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_moments_and_slip_functions_are_those_of_the_file(tmp_path, version, blocks):
    subfaults = made_subfaults()
    path = tmp_path / "fault.srf"
    path.write_text(srf_text(subfaults, version, blocks))
    fault = read_srf(path)
    for name, factor, values in (
        ("LON", 1, fault.horizontal[:, 0]), ("LAT", 1, fault.horizontal[:, 1]), ("DEP", 1e3, fault.depth),
        ("STK", 1, fault.strike), ("DIP", 1, fault.dip), ("RAKE", 1, fault.rake), ("AREA", 1e-4, fault.area),
        ("TINIT", 1, fault.start), ("DT", 1, fault.interval), ("SLIP1", 1e-2, fault.slip[:, 0]),
        ("SLIP2", 1e-2, fault.slip[:, 1]), ("SLIP3", 1e-2, fault.slip[:, 2]),
        *((("VS", 1e-2, fault.vs), ("DEN", 1e3, fault.density)) if version == "2.0" else ()),
    ):  # fmt: skip
        np.testing.assert_allclose(values, [factor * float(entry[name]) for entry in subfaults], rtol=4e-16)
    if version == "1.0":
        assert np.isnan(fault.vs).all() and np.isnan(fault.density).all()
    shear = np.array([0.1 * float(entry["DEN"]) * float(entry["VS"]) ** 2 for entry in subfaults])  # dyn/cm2 to Pa
    bulk = 2.1 * shear
    sources = fault.moment_rate_sources(None if version == "2.0" else shear, bulk)
    assert sources.count == 18 and list(sources.subfault) == sorted([*range(6)] * 3)
    total = np.zeros(6)
    for number, (index, component) in enumerate((i, c) for i in range(6) for c in range(3)):
        entry = subfaults[index]
        moment = voigt(expected_moment(entry, component, shear[index], bulk[index]))
        total += moment
        np.testing.assert_allclose(sources.moment[number], moment, rtol=1e-12, atol=1e-13 * np.abs(moment).max())
        rates = sources.rates[sources.offsets[number] : sources.offsets[number + 1]]
        assert np.trapezoid(rates) * sources.interval[number] == pytest.approx(1.0, abs=1e-14)
        samples = 1e-2 * np.array([float(rate) for rate in entry[f"SR{component + 1}"]])
        np.testing.assert_allclose(rates * fault.released_slip[index, component], samples, rtol=1e-14)
        assert sources.start[number] == float(entry["TINIT"]) and sources.interval[number] == float(entry["DT"])
    np.testing.assert_allclose(sources.moment.sum(axis=0), total, rtol=1e-12)


def test_both_versions_and_hdf5_describe_the_same_fault(tmp_path):
    subfaults = made_subfaults()
    faults = [read_srf(path) for path in three_files(tmp_path, subfaults)]
    for other in faults[1:]:
        for name in "horizontal depth strike dip rake area start interval slip rates offsets".split():
            single = other is faults[2]
            np.testing.assert_allclose(getattr(other, name), getattr(faults[0], name), rtol=1.2e-7 if single else 0)
    assert faults[2].rates.dtype == np.float32 and faults[0].rates.dtype == np.float64
    np.testing.assert_allclose(faults[2].vs, faults[1].vs, rtol=1e-7)
    first, second = faults[0].planes[0], faults[2].planes[0]
    assert (first.count_strike, first.count_dip, first.length, first.width) == (3, 2, 6000.0, 4000.0)
    assert (first.strike, first.dip, first.top_depth, first.hypocenter_dip) == (40.0, 60.0, 1500.0, 2000.0)
    assert second.longitude == pytest.approx(first.longitude, rel=1e-7) and second.count_strike == 3


def three_files(directory, subfaults):
    """The same fault as text of both versions and as HDF5."""
    paths = [directory / name for name in ("one.srf", "two.srf", "three.h5")]
    paths[0].write_text(srf_text(subfaults, "1.0"))
    paths[1].write_text(srf_text(subfaults, "2.0", per_line=1))
    write_hdf5(paths[2], subfaults)
    return paths


def write_hdf5(path, subfaults, names=None, **changes):
    """SRF-HDF5 as the converter of SW4 lays it out, with all three components; ``changes`` replace or remove parts."""
    reals = ["LON", "LAT", "DEP", "STK", "DIP", "AREA", "TINIT", "DT", "VS", "DEN", "RAKE"]
    kinds = [(name, "f4") for name in reals]
    for component in "123":
        kinds += [("SLIP" + component, "f4"), ("NT" + component, "i4")]
    points = np.zeros(len(subfaults), dtype=[((names or {}).get(name, name), kind) for name, kind in kinds])
    for index, entry in enumerate(subfaults):
        for name, _ in kinds:
            value = len(entry["SR" + name[2]]) if name.startswith("NT") else float(entry[name])
            points[(names or {}).get(name, name)][index] = value
    planes = [("ELON", "f4"), ("ELAT", "f4"), ("NSTK", "i4"), ("NDIP", "i4")]
    planes += [(name, "f4") for name in ("LEN", "WID", "STK", "DIP", "DTOP", "SHYP", "DHYP")]
    parts = {
        "VERSION": np.float32(2.0),
        "PLANE": np.array([(-117.7, 33.9, 3, 2, 6.0, 4.0, 40.0, 60.0, 1.5, 0.0, 2.0)], dtype=planes),
        "POINTS": points,
    }
    for component in "123":
        rates = [float(rate) for entry in subfaults for rate in entry["SR" + component]]
        parts["SR" + component] = np.array(rates, dtype="f4")
    parts |= changes
    with h5py.File(path, "w") as file:
        for name, value in parts.items():
            if value is not None and name in ("VERSION", "PLANE"):
                file.attrs.create(name, value)
            elif value is not None:
                file.create_dataset(name, data=value)


def test_long_names_of_hdf5_fields_and_absent_components(tmp_path):
    subfaults = made_subfaults(components=(0,))
    long = {"LON": "LONGITUDE", "LAT": "LATITUDE", "DEP": "DEPTH"}
    write_hdf5(tmp_path / "long.h5", subfaults, long, SR2=None, SR3=None)
    fault = read_srf(tmp_path / "long.h5")
    np.testing.assert_allclose(fault.depth, [1e3 * float(entry["DEP"]) for entry in subfaults], rtol=1e-7)
    assert fault.moment_rate_sources().count == 6 and not fault.slip[:, 1:].any()


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_round_trip(tmp_path, version):
    original = planar_rupture(
        strike=200, dip=35, rake=70, length=9e3, width=6e3, top_depth=500, mw=5.9, subfaults=(9, 6), vs=3300,
        density=2650, longitude=13.4, latitude=42.3,
    )  # fmt: skip
    write_srf(original, tmp_path / "a.srf", version)
    fault = read_srf(tmp_path / "a.srf")
    for name in ("depth", "strike", "dip", "rake", "area", "interval", "slip", "rates", "offsets"):
        np.testing.assert_allclose(getattr(fault, name), getattr(original, name), rtol=6e-9, err_msg=name)
    np.testing.assert_allclose(fault.start, original.start, rtol=6e-9, atol=6e-9)
    np.testing.assert_allclose(fault.horizontal, original.horizontal, rtol=0, atol=6e-9)
    assert fault.planes[0].count_dip == 6 and fault.planes[0].hypocenter_dip == pytest.approx(3600.0)
    assert np.isnan(fault.vs).all() if version == "1.0" else fault.magnitude() == pytest.approx(5.9, abs=1e-8)
    write_srf(fault, tmp_path / "b.srf", version)
    again = read_srf(tmp_path / "b.srf")
    np.testing.assert_array_equal(again.rates, fault.rates)
    np.testing.assert_array_equal(again.horizontal, fault.horizontal)


def test_the_forms_of_a_file_are_the_same_sources_of_a_simulation(tmp_path):
    """The shear modulus of version 1.0 is that of the material, which is chosen as that of version 2.0."""
    subfaults = [entry | {"VS": "3.20000e+05", "DEN": "2.60000e+00"} for entry in made_subfaults(components=(0, 1))]
    sources = []
    for path in three_files(tmp_path, subfaults):
        simulation = described(
            crs={"longitude": -117.7, "latitude": 33.9}, sources=[{"file": path}],
            material={"homogeneous": {"vp": 5600, "vs": 3200, "rho": 2600}},
        )  # fmt: skip
        sources.append(sorted(simulation.point_sources(), key=lambda source: (source.name, source.moment)))
    assert [len(group) for group in sources] == [12, 12, 12]
    for group in sources[1:]:
        tolerance = 1e-13 if group is sources[1] else 1e-6
        for source, expected in zip(group, sources[0], strict=True):
            assert source.name == expected.name
            np.testing.assert_allclose(source.moment, expected.moment, rtol=tolerance, atol=tolerance * 1e18)
            np.testing.assert_allclose(source.position, expected.position, atol=0.5)  # single precision degrees


def test_slip_that_differs_from_its_samples(tmp_path):
    subfaults = made_subfaults(components=(0,))
    stated = float(subfaults[3]["SLIP1"])
    (tmp_path / "a.srf").write_text(srf_text(subfaults, "2.0"))
    whole = read_srf(tmp_path / "a.srf")
    subfaults[3]["SLIP1"] = f"{1.019 * stated:.6f}"
    (tmp_path / "b.srf").write_text(srf_text(subfaults, "2.0"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near = read_srf(tmp_path / "b.srf")
    np.testing.assert_array_equal(near.rates, whole.rates)
    assert near.slip[3, 0] == pytest.approx(1.019e-2 * stated, rel=1e-6)
    subfaults[3]["SLIP1"] = f"{4.0 * stated:.6f}"
    text = srf_text(subfaults, "2.0")
    (tmp_path / "c.srf").write_text(text)
    line = next(number for number, row in enumerate(text.splitlines(), 1) if f" {subfaults[3]['SLIP1']} " in row)
    with pytest.warns(
        LithowaveWarning, match=rf"1 of 6 slip components .* scaled .*SLIP1 of subfault 4 \(line {line}\)"
    ):
        far = read_srf(tmp_path / "c.srf")
    np.testing.assert_allclose(far.released_slip[3, 0], 4e-2 * stated, rtol=1e-6)
    np.testing.assert_array_equal(far.rates[: far.offsets[9]], whole.rates[: far.offsets[9]])


def fault_of(folder, *subfaults, vs="3.5e5"):
    """The fault of subfaults given by SLIP1, its samples in cm/s and DT."""
    text = f"2.0\nPOINTS {len(subfaults)}\n"
    for index, (slip, rates, interval) in enumerate(subfaults):
        text += f"0.00{index} 0.000 5.0 0 90 4.0e8 1.0 {interval} {vs} 2.7\n0 {slip} {len(rates)} 0 0 0 0\n"
        text += " ".join(map(str, rates)) + "\n" * bool(rates)
    (folder / "fault.srf").write_text(text)
    return read_srf(folder / "fault.srf")


@pytest.mark.parametrize(
    "rates", [[140.0], [0.0, 92.7417], [100.0, 0.0], [3.0, 7.0, 5.0], [0.0, 10.0, 0.0], [0, 90, 90, 3]]
)
def test_slip_is_the_sum_of_the_samples_times_their_interval(tmp_path, rates):
    """The rule of the generators; samples keep their times, and the rate is linear to zero outside."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fault = fault_of(tmp_path, (f"{0.1 * sum(rates):.6g}", rates, 0.1), (30.0, [0, 100, 150, 50], 0.1))
    np.testing.assert_allclose(fault.released_slip[:, 0], [1e-3 * sum(rates), 0.3], rtol=1e-5)
    sources = fault.moment_rate_sources()
    assert sources.total_moment == pytest.approx(2700 * 3500.0**2 * 4e4 * (1e-3 * sum(rates) + 0.3), rel=1e-5)
    times = 1.0 + 0.1 * np.arange(-1, len(rates) + 1)
    chosen = slice(sources.offsets[0], sources.offsets[1])
    own = sources.start[0] + sources.interval[0] * np.arange(sources.offsets[1])
    found = np.interp(times, own, sources.rates[chosen], left=0.0, right=0.0) * 0.1 * sum(rates)
    np.testing.assert_allclose(found, [0.0, *rates, 0.0], rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("rates", [[], [0.0, 0.0, 0.0]])
@pytest.mark.parametrize("vs", ["3.5e5", "0"])
def test_slip_without_samples_costs_its_moment(tmp_path, rates, vs):
    size = rf"moment {2700 * 3500.0**2 * 4e4 * 0.1:.4g} N m" if vs != "0" else r"area times slip 4000 m\^3"
    with pytest.warns(LithowaveWarning, match=rf"1 of 2 slip .*: {size.replace('+', '.')}, 25% .*\(line 7\), 10 cm"):
        fault = fault_of(tmp_path, (30.0, [0, 100, 150, 50], 0.1), (10.0, rates, 0.1), vs=vs)
    assert fault.count == 2 and fault.slip[1, 0] == 0.0
    assert fault.moment_rate_sources(3e10).total_moment == pytest.approx(3e10 * 4e4 * 0.3, rel=1e-6)
    with pytest.raises(InputError, match="all samples of the slip rate are zero"):
        fault_of(tmp_path, (10.0, rates, 0.1))


def test_a_fault_that_slips_at_time_0_is_delayed(tmp_path):
    fault_of(tmp_path, (14.0, [140.0], 0.1))
    path = tmp_path / "fault.srf"
    path.write_text(path.read_text().replace(" 1.0 0.1 ", " 0.0 0.1 "))
    simulation = described(crs={"longitude": 0, "latitude": 0}, sources=[{"file": str(path)}])
    assert simulation.sources[0].delay == 0.1
    assert simulation.acquisition.sources[0].time_function.support() == pytest.approx((0.0, 0.2))


def test_area_that_differs_from_that_of_the_planes(tmp_path):
    subfaults = made_subfaults()
    for entry in subfaults:
        entry["AREA"] = "4.0e4"  # in the unit m2 of another program
    (tmp_path / "a.srf").write_text(srf_text(subfaults, "2.0"))
    with pytest.warns(LithowaveWarning, match=r"AREA of all subfaults adds up to 2.4e-05 km2.*24 km2.*1e10 cm2"):
        read_srf(tmp_path / "a.srf")


def changed(line, old, new):
    """A change of one line (from 1) of the text of `damaged_text`."""

    def change(lines):
        assert old in lines[line - 1], lines[line - 1]
        lines[line - 1] = lines[line - 1].replace(old, new, 1)
        return lines

    return change


def without(line):
    return lambda lines: lines[: line - 1] + lines[line:]


def upto(count):
    return lambda lines: lines[:count]


# Lines: 1 version, 2 and 3 comments, 4 to 6 planes, 7 POINTS, 8 and 9 headers of subfault 1, 10 and 11 its samples.
DAMAGED = {
    "no subfaults": (upto(6), r":6: SRF: the file ends without subfaults.*POINTS n"),
    "only the version": (upto(1), r":1: SRF: the file ends without subfaults"),
    "numbers of 5000 digits": (changed(7, "2", "1" * 5000), r":7: POINTS: .* is not valid"),
    "planes of 5000 digits": (changed(4, "1", "1" * 5000), r":4: PLANE: .* is not valid"),
    "samples of 5000 digits": (changed(9, " 8 ", f" {'1' * 5000} "), r":9: NT1: .* is not valid"),
    "unknown version": (changed(1, "2.0", "3.0"), r":1: version: .*'3.0'.*available: 1.0 and 2.0"),
    "other version": (changed(1, "2.0", "1.0"), r":8: SRF: 10 words .*expected 8: LON .*version 2.0 has VS and DEN"),
    "unknown block": (changed(7, "POINTS", "POINT"), r":7: SRF: 'POINT 2' does not begin a block.*PLANE n or POINTS n"),
    "negative number of subfaults": (changed(7, "2", "-2"), r":7: POINTS: '-2' is not valid; must be an integer"),
    "more subfaults announced": (changed(7, "2", "3"), r"SRF: the file ends, where subfault 3 of 3 is expected"),
    "fewer subfaults announced": (changed(7, "2", "1"), r":12: SRF: .* does not begin a block"),
    "planes of another size": (changed(5, " 2 1 ", " 2 2 "), r"POINTS: the file has 2 subfaults, .* add up to 4"),
    "plane of zero length": (changed(5, "6.0", "0.0"), r":5: PLANE 1.LEN: 0; must be positive"),
    "plane cut": (without(6), r":6: SRF: 2 words .*expected 5: STK DIP DTOP SHYP DHYP"),
    "not a number": (changed(8, "-117.7", "west"), r":8: LON: 'west0000' is not a finite number"),
    "header cut": (changed(8, "-117.70000", ""), r":8: SRF: 9 words on this line; expected 10: LON LAT"),
    "latitude": (changed(8, "33.90000", "133.90000"), r":8: LAT of subfault 1: 133.9 degrees; must be at least -90"),
    "depth above the surface": (changed(8, "1.5000", "-1.5000"), r":8: DEP of subfault 1: -1.5 km; must be at least 0"),
    "zero area": (changed(8, "AREA", "0"), r":8: AREA of subfault 1: 0 cm2; must be greater than 0 m2"),
    "nan": (changed(8, "AREA", "nan"), r":8: AREA of subfault 1: nan is not a finite number"),
    "underscore": (changed(8, "AREA", "1_0"), r":8: SRF: '1_0' is not a finite number"),
    "negative start": (changed(8, "TINIT", "-1"), r":8: TINIT of subfault 1: -1 s; must be at least 0 s"),
    "dip": (changed(8, "DIP", "95"), r":8: DIP of subfault 1: 95 degrees; must be .* at most 90 degrees"),
    "vs in m/s": (changed(8, "VS", "3500"), r":8: VS of subfault 1: 3500 cm/s is 35 m/s; .*convert VS to cm/s"),
    "density in kg/m3": (changed(8, "DEN", "2700"), r":8: DEN of subfault 1: 2700 g/cm3; must be .*at most 15000 kg"),
    "negative number of samples": (changed(9, " 8 ", " -8 "), r":9: NT1: '-8' is not valid"),
    "fewer samples announced": (changed(9, " 8 ", " 7 "), r":11: NT1: this line has 1 more values than NT1 = 7"),
    "more samples announced": (changed(9, " 8 ", " 9 "), r":12: NT1: this line has 9 more values than NT1 = 9"),
    "samples without slip": (changed(9, "0.0 0   #", "0.0 2   #"), r":12: NT3: .* more values than NT3 ="),
    "slip of the other sign": (changed(9, " 1", " -1"), r":9: SLIP1 of subfault 1: -1.* must have the same sign"),
    "sample is a word": (changed(11, "2.0", "two"), r":11: slip rate: 'two' is not a finite number"),
    "samples run together": (changed(10, "1.0 ", "1.0-"), r":10: slip rate: '1.0-\S+' is not a finite number|NT1"),
    "line of samples missing": (without(10), r":11: NT1: this line has 4 more values"),
    "last samples missing": (upto(14), r":14: SRF: the file ends, where the sample 7 of 8 \(NT1\) is expected"),
}  # fmt: skip


def damaged_text():
    rates = "0.0 1.0 2.0 3.0 2.5 2.0\n2.0 0.0\n"
    text = "2.0\n# a\n# b\nPLANE 1\n-117.7 33.9 2 1 6.0 4.0\n40 60 1.5 0 2\nPOINTS 2\n"
    for lon in ("-117.70000", "-117.69000"):
        text += f"{lon} 33.90000 1.5000 40 DIP AREA TINIT DT VS DEN\nRAKE 1.25 8 0.0 0 0.0 0   # cm\n{rates}"
    return text


FILLED = {"DIP": "60", "AREA": "1.2e11", "TINIT": "0.5", "DT": "0.1", "VS": "3.4e5", "DEN": "2.7", "RAKE": "90"}


def filled(lines):
    """Replace the names that a change has left."""
    for number, line in enumerate(lines):
        words = line.split(" ")
        lines[number] = " ".join(FILLED.get(word, word) for word in words)
    return "\n".join(lines) + "\n"


def test_the_file_that_is_damaged_below_is_valid(tmp_path):
    (tmp_path / "a.srf").write_text(filled(damaged_text().splitlines()))
    fault = read_srf(tmp_path / "a.srf")
    assert fault.count == 2 and fault.released_slip[0, 0] == pytest.approx(0.0125)
    assert (fault.duration, fault.hypocenter, fault.depth.min()) == (pytest.approx(0.7), 0, 1500.0)


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_refused_with_line_and_reason(tmp_path, name):
    change, pattern = DAMAGED[name]
    path = tmp_path / "fault.srf"
    path.write_text(filled(change(damaged_text().splitlines())))
    with pytest.raises(InputError, match=pattern) as refused:
        read_srf(path)
    assert str(refused.value).startswith(str(path))


@pytest.mark.parametrize(
    "content, pattern",
    [
        (b"", "empty"),
        (b"\n# 1\n", "empty"),
        (b"2.0\n\x00\x01", ":2: .*neither text nor HDF5"),
        (bytes(range(1, 256)) * 9, "version"),
    ],
)
def test_files_that_are_not_srf(tmp_path, content, pattern):
    (tmp_path / "a.srf").write_bytes(content)
    with pytest.raises(InputError, match=pattern):
        read_srf(tmp_path / "a.srf")
    for path in (tmp_path / "missing.srf", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_srf(path)


def points_with(name, value):
    def change(parts):
        points = parts.copy()
        points[name][1] = value
        return points

    return change


HDF5_DAMAGED = {
    "no version": ({"VERSION": None}, r"VERSION: the attribute is missing"),
    "version is a word": ({"VERSION": "two"}, r"VERSION: 'two'"),
    "no subfaults": ({"POINTS": None}, r"POINTS: is missing"),
    "points without fields": ({"POINTS": np.zeros((6, 17))}, r"POINTS: has the type float64; expected a compound type"),
    "no samples": ({"SR1": None}, r"SR1: is missing, while NT1 .* add up to"),
    "component lost": ({"SR3": None}, r"SR3: is missing, while NT3 .* add up to"),
    "samples cut": ({"SR1": np.ones(5)}, r"SR1: has 5 samples, while NT1 of the subfaults add up to"),
    "samples are text": ({"SR1": "rates"}, r"SR1: is not a dataset of real numbers"),
    "negative count": ({"POINTS": points_with("NT1", -1)}, r"POINTS\[1\].NT1: -1 is not a number of samples"),
    "nan": ({"POINTS": points_with("DEP", np.nan)}, r"POINTS\[1\].DEP: nan is not a finite number"),
    "no slip": ({"SR1": 0.0, "SR2": 0.0, "SR3": 0.0}, r"all samples of the slip rate are zero"),
    "samples not finite": ({"SR2": np.inf}, r"POINTS\[0\].NT2: inf in the samples of u2 is not a finite number"),
}


@pytest.mark.parametrize("name", HDF5_DAMAGED)
def test_damaged_hdf5_files_are_refused(tmp_path, name):
    changes, pattern = HDF5_DAMAGED[name]
    subfaults, path = made_subfaults(), tmp_path / "fault.h5"
    write_hdf5(path, subfaults)
    with h5py.File(path) as file:
        whole = {key: file[key][()] for key in file}
    done = {}
    for key, value in changes.items():
        if callable(value):
            value = value(whole[key])
        elif isinstance(value, float) and key.startswith("SR"):
            value = np.full_like(whole[key], value)
        done[key] = value
    write_hdf5(path, subfaults, **done)
    with pytest.raises(InputError, match=pattern) as refused:
        read_srf(path)
    assert str(refused.value).startswith(str(path))


def test_faults_in_python_are_checked(tmp_path):
    (tmp_path / "a.srf").write_text(srf_text(made_subfaults(components=(0, 2)), "1.0"))
    fault = read_srf(tmp_path / "a.srf")
    with pytest.raises(
        InputError, match=r"shear_modulus\[0\]: nan Pa at 6 of 6 .*give shear_modulus from the material"
    ):
        fault.moment_rate_sources()
    with pytest.raises(InputError, match="6 subfaults open along the normal .*bulk"):
        fault.moment_rate_sources(3e10)
    values = {name: getattr(fault, name) for name in fault.__dataclass_fields__}
    for name, value, pattern in (
        ("depth", fault.depth[:-1], r"FiniteFault.strike: an array of shape \(6,\); expected \(5,\)"),
        ("slip", 2 * fault.slip, r"slip1\[0\]: .* release .* agree within 2%"),
        ("offsets", fault.offsets[::-1], "do not partition"),
        ("area", -fault.area, r"area\[0\]: .*must be greater than 0 m2"),
        ("horizontal", fault.horizontal * np.inf, r"longitude\[0\]"),
    ):
        with pytest.raises(InputError, match=pattern):
            FiniteFault(**(values | {name: value}))
    flat = values | {"rates": np.r_[[0.0, 1.0, 0.0, -1.0, 0.0], fault.rates[fault.offsets[1] :]]}
    flat["offsets"] = np.r_[0, fault.offsets[1:] - fault.offsets[1] + 5]
    flat["slip"] = fault.slip.copy()
    flat["slip"][0, 0] = 0.0
    with pytest.raises(InputError, match=r"rates\[0\]: .*u1 have the integral 0"):
        FiniteFault(**flat).moment_rate_sources(3e10, 5e10)


def test_faults_that_cannot_be_written(tmp_path):
    fault = planar_rupture(
        strike=0, dip=90, rake=0, length=1e3, width=1e3, top_depth=0, mw=4, subfaults=(1, 1), vs=3e3, density=2700,
        position=(0, 0),
    )  # fmt: skip
    for version, words in (("2.0", "local coordinates"), ("3.0", "version: '3.0'")):
        with pytest.raises(InputError, match=words):
            write_srf(fault, tmp_path / "a.srf", version)
