"""Agreement of methods: planned runs, misfits, and causes of differences in traces that were made with known errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.agreement import (
    BASE,
    FINER,
    WEAKEST,
    WIDER,
    Agreement,
    AgreementPlan,
    analyze,
    attribute,
    bounded_factors,
    misfit,
    outward_shift,
    plan_agreement,
    receiver_norms,
    receiver_position,
    reference_method,
)
from lithowave.cli import solver_settings

FD, SEM, DG = "finite_difference", "spectral_element", "discontinuous_galerkin"
TIME = np.arange(400) * 0.02


def describe(**changes: Any) -> lw.Simulation:
    content: dict[str, Any] = {
        "domain": {"x": [-6000, 6000], "y": [-5000, 5000], "z": [-4000, 0]},
        "material": {"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600}},
        "sources": [{"position": [0, 0, -2000], "force": [0, 0, 1e9], "time_function": {"gaussian": {"sigma": 0.2}}}],
        "receivers": [{"name": f"R{n}", "position": [x, 300.0, 0.0]} for n, x in enumerate((500.0, 2000.0, 5500.0))],
        "duration": 8.0,
        "solver": {"max_frequency": 2.0},
        "output": {"directory": "out/test"},
    }
    return lw.Simulation(**(content | changes))


def pulse(delay: float, width: float = 0.2) -> np.ndarray:
    """A Ricker wavelet in all components of three receivers, later and weaker from one to the next."""
    shape = np.zeros((3, 3, len(TIME)))
    for receiver in range(3):
        arrival = (TIME - delay - 0.5 * receiver) / width
        for component in range(3):
            shape[receiver, component] = (1 - 2 * arrival**2) * np.exp(-(arrival**2)) / (1 + receiver + component)
    return shape


TRUTH = pulse(2.0)
DISPERSION = 0.25 * np.gradient(TRUTH, TIME[1], axis=2) * 0.2  # of a wave that is late
NEARER = np.array([1.0, 1.5, 3.0])[:, None, None]  # the last receiver is near a face
REFLECTION = 0.1 * NEARER * pulse(4.2)


def result_of(traces: dict[tuple[str, str], np.ndarray], plan: AgreementPlan | None = None, **more: Any) -> Agreement:
    plan = plan or plan_agreement(describe(), [FD, SEM])
    positions = np.array([receiver.position for receiver in plan.simulation.acquisition.receivers], float)
    names = [receiver.name for receiver in plan.simulation.acquisition.receivers]
    options = {"tolerance": 0.05, "untested": {}, "walls": {}} | more
    return analyze(plan, traces, TIME, names, positions, "velocity", "m/s", **options)


def both(error: np.ndarray | float, **of_elements: np.ndarray | float) -> dict[tuple[str, str], np.ndarray]:
    """Traces of both methods: exact ones of finite differences, and those of elements with an error."""
    traces = {(FD, kind): TRUTH for kind in (BASE, FINER, WIDER)}
    traces |= {(SEM, kind): TRUTH + of_elements.get(kind, 0.0) for kind in (FINER, WIDER)}
    return traces | {(SEM, BASE): TRUTH + error}


def test_methods_that_agree() -> None:
    result = result_of(both(0.01 * REFLECTION))
    assert result.agreed and not result.findings and not result.attributions
    assert result.summary[0].startswith("The methods agree within 5% at every receiver")


def test_a_difference_at_a_node_of_the_radiation_pattern_is_marked() -> None:
    weak = np.array([1.0, 4e-3, 1.0])[:, None, None]
    traces = {key: weak * TRUTH for key in both(0.0)}
    error = np.array([0.0, 1e-3, 0.0])[:, None, None] * pulse(3.0)
    traces[SEM, BASE] = traces[SEM, BASE] + error
    [first, *_] = result_of(traces).summary
    assert "at XX.R1" in first and "moves only 0.27% of the strongest receiver" in first
    assert "moves only" not in result_of(both(REFLECTION)).summary[0]


def test_an_error_of_the_resolution_is_attributed_to_the_resolution() -> None:
    """An error of second order: with 1.4 times the points per wavelength it is half as large."""
    finer = DISPERSION / 1.4**2
    result = result_of(both(DISPERSION, finer=finer, wider=DISPERSION))
    [finding] = result.findings
    assert (finding.cause, finding.method) == ("resolution", SEM) and not result.agreed
    found = result.attributions[SEM, FD]
    assert found.shares[SEM, FINER] == pytest.approx(1.0, abs=1e-6) and abs(found.unexplained) < 1e-6
    assert found.factors[SEM, FINER] == pytest.approx(1.0 / (1.0 - 1.4**-2))
    assert finding.error == pytest.approx(result.pairs[SEM, FD].largest, rel=1e-6)
    points = 7 * np.sqrt(2 * finding.error / 0.05)  # for half the tolerance
    [value] = [float(text.split("=")[1].rstrip(".")) for text in finding.remedy.split() if "=" in text]
    assert points <= value <= points + 0.5 and f"--solver {SEM}.points_per_wavelength" in finding.remedy


def test_two_causes_in_two_methods_are_separated() -> None:
    traces = both(REFLECTION, finer=REFLECTION)
    traces[FD, BASE] = traces[FD, WIDER] = TRUTH - 2 * DISPERSION
    traces[FD, FINER] = TRUTH - 2 * DISPERSION / 1.4**4
    result = result_of(traces)
    assert {(one.cause, one.method) for one in result.findings} == {("resolution", FD), ("boundary", SEM)}
    [found] = result.attributions.values()
    assert sum(found.shares.values()) + found.unexplained == pytest.approx(1.0)
    assert found.unexplained_error < 0.02
    assert any("--set solver.points_per_wavelength=" in one.remedy for one in result.findings)


def test_what_no_control_run_changes_is_unexplained() -> None:
    result = result_of(both(REFLECTION, finer=REFLECTION, wider=REFLECTION))
    [finding] = result.findings
    assert finding.cause == "unexplained" and finding.method is None
    assert result.attributions[SEM, FD].unexplained == pytest.approx(1.0)


def test_a_common_error_of_methods_that_agree_is_found() -> None:
    """Both have the same reflections; the wider run of one of them shows it."""
    traces = {(method, kind): TRUTH + REFLECTION for method in (FD, SEM) for kind in (BASE, FINER)}
    traces[SEM, WIDER] = TRUTH
    result = result_of(traces)
    assert result.pairs[SEM, FD].largest == 0.0 and not result.agreed
    [finding] = result.findings
    assert (finding.cause, finding.method, finding.share) == ("boundary", SEM, None)
    assert "an error that they may have in common" in result.summary[0]


def test_the_reference_is_the_method_of_the_file_unless_another_is_better() -> None:
    plan = plan_agreement(describe(), [SEM, FD])
    assert plan.methods == (FD, SEM)  # that of the file first
    good, bad = both(REFLECTION, finer=REFLECTION), both(0.0)
    assert result_of(good).reference == FD
    bad[FD, BASE] = TRUTH + REFLECTION
    assert result_of(bad).reference == SEM
    assert reference_method(plan, {}) == FD


def test_a_receiver_without_motion_is_compared_with_the_strongest() -> None:
    reference = TRUTH.copy()
    reference[1] *= 1e-9
    noise = reference.copy()
    noise[1, 0] += 1e-6 * np.linalg.norm(reference[0]) / np.sqrt(len(TIME))
    found = misfit(noise, reference, 0.02)
    assert found.receivers[1] == pytest.approx(1e-6 / WEAKEST, rel=1e-2)
    assert receiver_norms(np.zeros((2, 3, 4))).tolist() == [0.0, 0.0]
    zero = misfit(np.zeros((2, 3, 20)), np.zeros((2, 3, 20)), 0.02, 2.0)
    assert zero.largest == 0.0 and zero.amplitude == 0.0


def test_factors_are_bounded_least_squares() -> None:
    random = np.random.default_rng(3)
    columns = random.normal(size=(3, 50))
    target = np.array([1.7, 0.2, 9.0]) @ columns
    factors = bounded_factors(columns, target, np.array([4.0, 4.0, 2.0]))
    assert factors[1] >= 1.0 and factors[2] == pytest.approx(2.0)
    inside = bounded_factors(columns, np.array([1.7, 1.2, 3.0]) @ columns, np.full(3, 4.0))
    assert inside == pytest.approx([1.7, 1.2, 3.0])
    same = attribute(np.zeros((1, 3, 5)), {"a": np.zeros((1, 3, 5))}, {"a": 2.0}, np.zeros(1))
    assert same.shares == {"a": 0.0} and same.unexplained_error == 0.0


def test_all_runs_resolve_the_same_frequency_at_the_same_samples() -> None:
    plan = plan_agreement(describe(solver={"spacing": 100, "order": 6, "time_step": 0.004}, output={
        "directory": "out/test", "sampling_interval": 0.04, "snapshots": {"interval": 0.1, "plane": {"z": 0}},
        "stress": True, "peak_motion": True, "formats": ["sac"],
    }))  # fmt: skip
    assert plan.frequency == pytest.approx(2900 / 900) and set(plan.methods) == {FD, SEM, DG}
    for run in plan.runs.values():
        simulation = run.simulation
        assert simulation.solver.max_frequency == plan.frequency
        assert simulation.output.sampling_interval == 0.04
        assert not (simulation.output.snapshots or simulation.output.stress or simulation.output.formats)
        assert run.directory == plan.directory / run.name and run.directory.parent.name == "test_agree"
    own, finer, wider = (plan.runs[FD, kind].simulation.solver for kind in (BASE, FINER, WIDER))
    assert (own.spacing, own.order, own.time_step) == (100, 6, 0.004)
    assert finer.spacing == pytest.approx(100 / 1.4) and finer.time_step <= 0.004 / 1.4
    assert 0.04 / finer.time_step == pytest.approx(round(0.04 / finer.time_step))
    assert (wider.spacing, wider.time_step) == (100, 0.004)
    assert plan.runs[SEM, BASE].points == 7 and plan.runs[SEM, BASE].simulation.solver.time_step is None
    assert plan.runs[SEM, FINER].points == pytest.approx(9.8)


def test_a_wider_box_moves_the_absorbing_faces_by_multiples_of_the_spacing() -> None:
    simulation = describe(boundaries={"x_min": "rigid", "absorption": "layer", "layer": {"cells": 10}})
    plan = plan_agreement(simulation, [FD, SEM])
    shift = outward_shift(simulation, 2.0)
    assert shift == 2500.0  # a wavelength of P waves
    wider = plan.runs[FD, WIDER].simulation
    spacing = wider.solver.spacing
    assert spacing == pytest.approx(4000 / np.ceil(4000 / (1450 / 8)))
    low, high = wider.domain.x
    assert low == -6000 and wider.domain.z[1] == 0
    moved = (high - 6000) / spacing
    assert moved == pytest.approx(round(moved)) and shift <= high - 6000 < shift + spacing
    assert plan.runs[FD, FINER].simulation.boundaries.layer.cells == 14
    assert plan.runs[SEM, FINER].simulation.boundaries.layer.cells == 10


def test_methods_that_cannot_run_the_description_are_excluded_with_the_reason() -> None:
    sea, rock = {"top": 0, "vp": 1500, "vs": 0, "rho": 1000}, {"top": -500, "vp": 5000, "vs": 2900, "rho": 2600}
    plan = plan_agreement(describe(material={"layers": [sea, rock]}, solver={"method": DG, "max_frequency": 2.0}))
    assert plan.methods == (DG, SEM) and "finite_difference needs vs > 0" in plan.excluded[FD]
    lossy = {"layers": [sea | {"qp": 500}, rock]}
    with pytest.raises(InputError, match="only discontinuous_galerkin can run this description"):
        plan_agreement(describe(material=lossy, solver={"method": DG, "max_frequency": 2.0}))
    oblique = {"epsilon": 0.1, "axis": [1, 0, 1]}
    anisotropic = {"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600, "anisotropy": oblique}}
    plan = plan_agreement(describe(material=anisotropic, solver={"method": SEM, "max_frequency": 2.0}))
    assert plan.methods == (SEM, DG) and "requires symmetry axes" in plan.excluded[FD]
    with pytest.raises(InputError, match="requires symmetry axes"):
        plan_agreement(describe(material=anisotropic, solver={"method": SEM, "max_frequency": 2.0}), [FD, SEM])


def test_keys_that_a_method_rejects_are_replaced_and_noted() -> None:
    plan = plan_agreement(describe(compute={"parts": [1, 1, 1], "moduli": "compact"}), [FD, SEM])
    assert plan.runs[FD, BASE].simulation.compute.moduli == "compact"
    assert plan.runs[SEM, BASE].simulation.compute.moduli == "full"
    assert any(note.startswith("compute.moduli: full with spectral_element") for note in plan.notes)


def test_settings_of_single_methods() -> None:
    settings = solver_settings([f"{SEM}.points_per_wavelength=9", f"{SEM}.degree=3", f"{FD}.points_per_wavelength=6"])
    assert settings == {SEM: {"points_per_wavelength": 9, "degree": 3}, FD: {"points_per_wavelength": 6}}
    plan = plan_agreement(describe(solver={"spacing": 100}), [FD, SEM], solver=settings)
    assert plan.runs[SEM, BASE].points == 9 and plan.runs[SEM, BASE].simulation.solver.degree == 3
    assert plan.runs[FD, BASE].points == 6
    with pytest.raises(InputError, match="did you mean 'spectral_element'"):
        plan_agreement(describe(), [FD, SEM], solver={"spectral_elements": {}})
    with pytest.raises(InputError, match="would change the experiment"):
        plan_agreement(describe(), [FD, SEM], solver={SEM: {"max_frequency": 3.0}})
    with pytest.raises(InputError, match="expected METHOD.KEY=VALUE"):
        solver_settings(["degree=3"])


@pytest.mark.parametrize(
    "changes, arguments, text",
    [
        ({"receivers": []}, {}, "there are no receivers"),
        ({}, {"methods": ["finite_differences", SEM]}, "did you mean 'finite_difference'"),
        ({}, {"methods": [FD]}, "at least two methods"),
        ({}, {"refinement": 1.0}, "allowed: 1.1 to 4"),
        ({"survey": {"shots": {"line": {"start": [0, 0, -9], "end": [500, 0, -9], "count": 2}}}}, {}, "has a survey"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: Any, arguments: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        plan_agreement(describe(**changes), **arguments)


def test_the_position_of_a_receiver_in_wavelengths() -> None:
    position = receiver_position(describe(), np.array([5500.0, 300.0, 0.0]), 2.0)
    assert (position.face, position.face_distance, position.reflecting_face) == ("x_max", 500.0, "x_max")
    assert position.text() == "0.34 wavelengths from x_max, 4 from the source"
    closed = describe(boundaries={"bottom": "rigid", "sides": "rigid"})
    assert receiver_position(closed, np.array([0.0, 0.0, 0.0]), 2.0).text() == "1.4 wavelengths from the source"


def test_an_untested_cause_is_stated() -> None:
    traces = {key: values for key, values in both(REFLECTION, finer=REFLECTION).items() if key[1] != WIDER}
    [finding] = result_of(traces, untested={(SEM, WIDER): "the topography ends there"}).findings
    assert "Not tested: spectral_element (wider): the topography ends there" in finding.text
