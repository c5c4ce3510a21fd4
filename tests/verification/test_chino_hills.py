"""A short, coarse form of the Chino Hills example, against seismograms that are kept in the repository.

The grid step is 2.5 km, three times that of the example, and the source is smoother in proportion (its
spectrum falls to 5% at 0.25 Hz), so that the run takes a second or two. Two references, both computed by this
package:

``fine``: the same source with half the grid step. The difference is the error of the coarse grid, 5.4 points in
a wavelength at order 4: at most 5% over all stations together.
``coarse``: the very run of this test in double precision. In double the difference is rounding, at most 1e-9
unless something has changed; in single precision it is at most 1e-4.

``attenuating``: the same run in double precision with the quality factors of `attenuation.yaml`, stored in single
precision: at most 1e-6.

``PYTHONPATH=src:tests/support python tests/verification/test_chino_hills.py`` computes both again: right only after a
change that was meant to change seismograms.
"""

from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave.output import SourceTable
from lithowave.readers import read_cmtsolutions, write_srf
from slow_variants import slow_except
from verification_tools import relative_l2, velocities

EXAMPLE = Path(__file__).parents[2] / "examples" / "chino_hills" / "chino_hills.yaml"
ATTENUATING = EXAMPLE.with_name("attenuation.yaml")
REFERENCE = Path(__file__).parents[1] / "data" / "chino_hills_2008" / "short.npz"
SHORT = {
    "duration": 36.0,
    "sources.0.time_function": {"gaussian": {"sigma": 1.56, "delay": 0.0}},
    "sources.0.delay": 6.0,
    "solver.max_frequency": 0.25,
    "output.sampling_interval": 0.5,
}
FINE = {**SHORT, "solver.max_frequency": 0.5}
FINE_LIMIT = 0.05
ELEMENTS_LIMIT = 0.05
COARSE_LIMITS = {"double": 1e-9, "single": 1e-4}


def short_form(overrides: dict, precision: str) -> lw.Simulation:
    return lw.Simulation.from_file(EXAMPLE, {**overrides, "compute.precision": precision})


def test_the_example_is_accepted_without_a_warning() -> None:
    simulation = lw.Simulation.from_file(EXAMPLE)
    assert simulation.warnings() == []
    assert len(simulation.receiver_list()) == 18
    assert simulation.solver.max_frequency >= 0.5
    assert simulation.start_time == "2008-07-29T18:42:13.000000Z"
    # No station is near a side, where a reader would suspect the absorbing layers.
    inner = [(low + 15e3, high - 15e3) for low, high in (simulation.domain.x, simulation.domain.y)]
    for receiver in simulation.receiver_list():
        assert all(low < value < high for value, (low, high) in zip(receiver.position, inner, strict=False))


def test_all_texts_have_the_magnitude_of_the_moment_tensor() -> None:
    (event,) = read_cmtsolutions(EXAMPLE.with_name("CMTSOLUTION"))
    readme = " ".join(EXAMPLE.with_name("README.md").read_text(encoding="utf-8").split())
    page = (EXAMPLE.parents[2] / "docs" / "chino_hills.md").read_text(encoding="utf-8")
    for text in (readme, page, EXAMPLE.read_text(encoding="utf-8")):
        assert re.search(r"Mw (\d\.\d)\b(?!\d)", text)[1] == f"{event.magnitude:.1f}"
    assert f"is Mw {event.magnitude:.2f}" in readme and f"{event.scalar_moment:.3g}".replace("+", "") in readme
    sources = SourceTable.from_points(lw.Simulation.from_file(EXAMPLE).point_sources())
    assert sources.moment_magnitude == pytest.approx(event.magnitude, rel=1e-12)  # the title of the map


@pytest.mark.parametrize("precision", slow_except(["single"], ["double", "single"]))
def test_short_form_against_the_stored_seismograms(precision: str) -> None:
    reference = np.load(REFERENCE)
    simulation = short_form(SHORT, precision)
    assert [receiver.name for receiver in simulation.receiver_list()] == list(reference["names"])
    time, computed = velocities(simulation)
    assert time == pytest.approx(reference["time"])
    assert relative_l2(computed, reference["fine"]) <= FINE_LIMIT
    assert relative_l2(computed, reference["coarse"]) <= COARSE_LIMITS[precision]


def test_the_variant_with_attenuation_differs_only_in_its_quality_factors() -> None:
    elastic, attenuating = (lw.Simulation.from_file(file) for file in (EXAMPLE, ATTENUATING))
    assert attenuating.warnings() == []
    changed = {"title": elastic.title, "output": elastic.output, "material": elastic.material}
    assert attenuating.model_copy(update=changed) == elastic
    assert elastic.output == attenuating.output.model_copy(update={"directory": elastic.output.directory})
    for layer, same in zip(attenuating.material.layers, elastic.material.layers, strict=True):
        assert layer.qs == pytest.approx(50e-3 * layer.vs) and layer.qp == pytest.approx(2 * layer.qs)
        assert layer.model_copy(update={"qp": None, "qs": None}) == same


def finite_fault(folder: Path, monkeypatch: pytest.MonkeyPatch, overrides: dict) -> lw.Simulation:
    """The variant with a finite fault, in a folder of its own."""
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    write_srf(importlib.import_module("make_fault").fault(), folder / "fault.srf")
    for name in ("STATIONS", "finite_fault.yaml"):
        shutil.copy(EXAMPLE.with_name(name), folder)
    return lw.Simulation.from_file(folder / "finite_fault.yaml", overrides)


def test_the_finite_fault_differs_only_in_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point, fault = lw.Simulation.from_file(EXAMPLE), finite_fault(tmp_path, monkeypatch, {})
    assert fault.warnings() == []
    changed = {"title": point.title, "output": point.output, "sources": point.sources}
    moved = [part.model_copy(update={"file": EXAMPLE.with_name("STATIONS")}) for part in fault.receivers]
    assert fault.model_copy(update=changed | {"receivers": moved}) == point
    tables = [SourceTable.from_points(one.point_sources()) for one in (point, fault)]
    assert len(tables[1]) == 980
    moments = [float(table.scalar_moments.sum()) for table in tables]
    assert moments[1] == pytest.approx(moments[0], rel=1e-6)
    assert fault.sources[0].fault.hypocenter >= 0 and fault.start_time is None


def test_long_periods_of_the_finite_fault_are_those_of_the_point_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spectra at 0.05 Hz: measured 18.7%, at 0.1 Hz 50%. The rupture is a double couple 2.5 km farther west."""
    changes = {key: value for key, value in SHORT.items() if not key.startswith("sources")}
    time, extended = velocities(finite_fault(tmp_path, monkeypatch, changes | {"sources.0.delay": 6.0}))
    _, point = velocities(short_form(SHORT, "single"))
    wave = np.exp(-2j * np.pi * 0.05 * time)
    first, second = (np.abs(data @ wave) for data in (extended, point))
    assert relative_l2(first, second) < 0.2


@pytest.mark.slow
def test_spectral_elements_against_the_stored_seismograms() -> None:
    """The same file by the other method, on elements of 10 km: what differs is mostly the coarse sides of the box."""
    simulation = lw.Simulation.from_file(EXAMPLE, {**SHORT, "solver.method": "spectral_element"})
    assert simulation.solver.degree == 4 and simulation.boundaries.absorption == "layer"
    time, computed = velocities(simulation)
    reference = np.load(REFERENCE)
    assert time == pytest.approx(reference["time"])
    assert relative_l2(computed, reference["fine"]) <= ELEMENTS_LIMIT


def test_the_stored_seismograms_are_those_of_the_earthquake() -> None:
    """Nothing comes before P, and P pushes up where the moment tensor says so, away from its nodal planes."""
    reference, simulation = np.load(REFERENCE), short_form(SHORT, "double")
    source = simulation.point_sources()[0]
    xx, yy, zz, xy, xz, yz = source.moment
    moment = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) / max(map(abs, source.moment))
    away = np.array([receiver.position for receiver in simulation.receiver_list()]) - source.position
    distance = np.linalg.norm(away, axis=1)
    pattern = np.einsum("ri,ij,rj->r", away, moment, away) / distance**2
    peaks = np.abs(reference["fine"]).max(axis=(1, 2))
    assert 5e-5 < peaks.min() < peaks.max() == peaks[np.argmin(distance)] < 1e-2
    for trace, peak, length in zip(reference["fine"], peaks, distance, strict=True):
        # No layer is faster than 8 km/s.
        assert np.abs(trace[:, reference["time"] < length / 8000.0]).max() < 5e-3 * peak
    clear = np.flatnonzero(np.abs(pattern) > 0.38)
    assert len(clear) >= 6
    for index in clear:
        vertical = reference["fine"][index, 2]
        first = vertical[np.argmax(np.abs(vertical) > 0.03 * peaks[index])]
        assert np.sign(first) == np.sign(pattern[index]), reference["names"][index]


def write_reference() -> None:
    """Compute and store both references."""
    runs = {"coarse": short_form(SHORT, "double"), "fine": short_form(FINE, "double")}
    runs["attenuating"] = lw.Simulation.from_file(ATTENUATING, {**SHORT, "compute.precision": "double"})
    found = {name: velocities(simulation) for name, simulation in runs.items()}
    np.savez_compressed(
        REFERENCE,
        names=[receiver.name for receiver in runs["fine"].receiver_list()],
        time=found["fine"][0],
        coarse=found["coarse"][1],
        fine=found["fine"][1].astype(np.float32),
        attenuating=found["attenuating"][1].astype(np.float32),
    )


if __name__ == "__main__":
    write_reference()
