"""CUDA kernels of the spectral elements against their CPU twins: on a device, and emulated where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cuda_devices import DEVICES, closeness, make_device
from element_kinds import kind_plan, quiet_solver
from fluid_boxes import fluid_points, sea_plan
from lithowave.backends import make_backend
from lithowave.backends.interface import Backend
from lithowave.solvers.spectral_element import (
    BLOCKS,
    DAMPED,
    ELEMENTS_FILE,
    ElementKind,
    HexahedralSamples,
    SpectralElementSolver,
    carrier_count,
    elements,
    fill_with_noise,
    launches,
)
from slow_variants import slow_except

KINDS = [
    ElementKind(shape, anisotropic, varying)
    for shape in ("cuboid", "affine", "trilinear", "upright", "triquadratic")
    for anisotropic, varying in ((False, False), (False, True), (True, False), (True, True))
]
FLUIDS = [
    ElementKind(shape, False, varying, fluid=True)
    for shape in ("cuboid", "affine", "trilinear", "upright", "triquadratic") for varying in (False, True)
]  # fmt: skip
USUAL = (
    ElementKind("cuboid", False, False), ElementKind("affine", False, False), ElementKind("trilinear", False, True),
    ElementKind("upright", False, True), ElementKind("triquadratic", True, True),
)  # fmt: skip
SINGLE, DOUBLE = 1e-5, 1e-13  # of the largest value


@pytest.fixture(autouse=True)
def _blocks_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block reads points that the one before it moves."""
    monkeypatch.setattr(launches, "BLOCKS_AHEAD", 1)


def device_twin(device: str, precision: str) -> Backend:
    """A device; if it is emulated, its blocks begin as soon as they fit, and take turns in any order."""
    backend = make_device(device, precision)
    if device == "emulated":
        backend.seed = 2
    return backend


def solvers(device: str, kind: ElementKind, degree: int, precision: str, **more: Any) -> list[SpectralElementSolver]:
    plan = kind_plan((3, 4, 3), degree, precision, kind, **more)
    made = [quiet_solver(plan, backend) for backend in (
        make_backend("cpu", precision, 2), device_twin(device, precision))]  # fmt: skip
    for solver in made:
        fill_with_noise(solver)
    return made


def compare(made: list[SpectralElementSolver], precision: str) -> None:
    states = [solver.state() for solver in made]
    limit = SINGLE if precision == "single" else DOUBLE
    for name, piece in states[0].items():
        np.testing.assert_array_equal(states[1][name].selection.keys, piece.selection.keys)
        for first in range(0, piece.values.shape[1], 3):  # displacements and momenta have scales of their own
            found, expected = (state[name].values[:, first : first + 3] for state in reversed(states))
            assert closeness(found, expected.astype(float)) < limit, (name, first)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", slow_except((*USUAL, FLUIDS[-1]), KINDS + FLUIDS), ids=str)
def test_steps_of_every_kind(device: str, kind: ElementKind) -> None:
    made = solvers(device, kind, 4, "single")
    assert made[0].plan.kinds[0] == [kind]
    for step in range(3):
        for solver in made:
            solver.advance(step)
    compare(made, "single")


GRAVITY = [
    ElementKind("triquadratic", True, True, gravity=True),
    ElementKind("triquadratic", False, True, gravity=True, mechanisms=3, carriers=1),
    ElementKind("triquadratic", True, True, gravity=True, mechanisms=3, carriers=2),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", slow_except(GRAVITY[:1], GRAVITY), ids=str)
def test_steps_with_gravity(device: str, kind: ElementKind) -> None:
    """Accelerations of 0.1 vs^2 over the size of the elements change the motion by more than the precision."""
    made = solvers(device, kind, 4, "double")
    (light,) = solvers(device, replace(kind, gravity=False), 4, "double")[:1]
    for step in range(3):
        for solver in (*made, light):
            solver.advance(step)
    compare(made, "double")
    motion, elastic = (solver.state()["motion"].values for solver in (made[0], light))
    assert closeness(motion, elastic) > 1e-3


LAYERS = [
    ElementKind("triquadratic", False, True, 1), ElementKind("trilinear", True, False, 2),
    ElementKind("affine", False, False, 4), ElementKind("affine", True, False, 5),
    ElementKind("affine", False, False, 6), ElementKind("triquadratic", False, True, 7),
    ElementKind("trilinear", False, True, 2, fluid=True), ElementKind("affine", False, False, 5, fluid=True),
    ElementKind("triquadratic", False, False, 7, fluid=True),
    ElementKind("triquadratic", True, True, 3), ElementKind("trilinear", False, True, DAMPED),
    ElementKind("affine", True, False, DAMPED),
]  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", slow_except((LAYERS[3], LAYERS[7], LAYERS[10]), LAYERS), ids=str)
def test_steps_in_an_absorbing_layer(device: str, kind: ElementKind) -> None:
    made = solvers(device, kind, 4, "double", absorbing=False)
    (own,) = made[0].plan.kinds[0]
    compiled = [key for key in made[1].backend._programs if ELEMENTS_FILE in key]
    assert compiled  # before the first step
    for step in range(3):
        for solver in made:
            solver.advance(step)
    assert [key for key in made[1].backend._programs if ELEMENTS_FILE in key] == compiled
    compare(made, "double")
    state = made[0].state()
    assert np.abs(state[f"{'fluid_' if kind.fluid else ''}layer_elements_{own.filters}"].values).max() > 0.0
    for solver in made:  # what a checkpoint holds of the layer returns to its place
        solver.restore({name: piece.values for name, piece in state.items()})
        for name, piece in solver.state().items():
            np.testing.assert_array_equal(piece.values, state[name].values)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layer", slow_except("x", ["", "x", "xy"]))
@pytest.mark.parametrize("precision", slow_except(["single"], ["single", "double"]))
def test_a_fluid_and_a_solid(device: str, precision: str, layer: str) -> None:
    """Coupled points, on Stacey sides and in a layer; records of velocity and stress in both media."""
    plan = sea_plan(2, "affine", precision, layer)
    made = [quiet_solver(plan, backend) for backend in (
        make_backend("cpu", precision, 2), device_twin(device, precision))]  # fmt: skip
    found = []
    for solver in made:
        fill_with_noise(solver)
        positions = np.array([[310, 420, -260], [310, 420, -740], [100, 800, -500], [777, 300, -100]])
        solver.receivers = HexahedralSamples(solver, solver.plan.locate(positions, solver.plan.inside_tolerance))
        solver.start_records(3, stress=True)
        for step in range(3):
            solver.advance(step)
            solver.record(step)
        found.append(solver.records(3).wait() | {"largest": np.array(solver.largest_velocity())})
    limit, state = SINGLE if precision == "single" else DOUBLE, made[0].state()
    for name, piece in made[1].state().items():
        np.testing.assert_array_equal(piece.selection.keys, state[name].selection.keys)
        assert closeness(piece.values, state[name].values.astype(float)) < limit, name
    for name in ("displacement", "momentum"):  # both media have units of their own
        one, other = (solver.backend.download(getattr(solver, name))[:-1, :3] for solver in made)
        for part in (fluid := fluid_points(plan), ~fluid):
            assert closeness(other[part], one[part].astype(float)) < limit, name
    assert sum(pairs.count for pairs in made[0].pairs) == len(plan.interface.fluid) == 81
    assert [pairs.count > 0 for pairs in made[0].pairs] == [True, bool(layer)]
    assert closeness(found[1].pop("largest"), found[0].pop("largest")) < limit
    for name in found[0]:
        for receiver in range(4):
            one, other = (records[name][:, receiver] for records in found)
            assert np.abs(one).max() > 0.0 and closeness(other, one) < limit, (name, receiver)
    for solver in made:
        solver.restore({name: piece.values for name, piece in state.items()})
        for name, piece in solver.state().items():
            np.testing.assert_array_equal(piece.values, state[name].values)


RELAXING = [
    (4, ElementKind("affine", False, False, 0, 3, 1)), (4, ElementKind("triquadratic", False, True, 0, 3, 1)),
    (4, ElementKind("affine", True, False, 0, 2, 2)), (4, ElementKind("affine", True, True, 0, 3, 1)),
    (4, ElementKind("affine", False, False, 5, 3, 1)), (4, ElementKind("trilinear", False, True, 0, 1, 2)),
    *((degree, ElementKind("affine", False, False, 0, 3, 1)) for degree in BLOCKS if degree != 4),
    (6, ElementKind("triquadratic", False, True, 0, 3, 2)), (8, ElementKind("affine", True, False, 0, 8, 2)),
]  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("degree", "kind"), slow_except(RELAXING[:1], RELAXING), ids=str)
def test_steps_with_attenuation(device: str, degree: int, kind: ElementKind) -> None:
    made = solvers(device, kind, degree, "double", absorbing=False)
    assert [own.carriers for own in made[0].plan.kinds[0]] == [kind.carriers]
    for step in range(3):
        for solver in made:
            solver.advance(step)
    compare(made, "double")
    state, name = made[0].state(), f"relaxation_{kind.carriers}"
    points = carrier_count(degree, kind.carriers)
    assert state[name].values.shape == (36, 6 * kind.mechanisms * points)
    assert np.abs(state[name].values).max() > 0.0
    for solver in made:  # a checkpoint of one device continues on the other
        solver.restore({name: piece.values for name, piece in state.items()})
        for name, piece in solver.state().items():
            np.testing.assert_array_equal(piece.values, state[name].values)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("degree", BLOCKS)
def test_steps_of_every_degree(device: str, degree: int, precision: str) -> None:
    made = solvers(device, ElementKind("triquadratic", False, True), degree, precision)
    for step in range(2):
        for solver in made:
            solver.advance(step)
    compare(made, precision)


@pytest.mark.parametrize("device", DEVICES)
def test_colours_give_the_same_in_every_run(device: str) -> None:
    kind = ElementKind("trilinear", False, True)
    results = []
    for seed in (0, 5):
        made = solvers(device, kind, 4, "single", deterministic=True)
        if device == "emulated":
            made[1].backend.seed = seed
        for step in range(3):
            for solver in made:
                solver.advance(step)
        compare(made, "single")
        results.append(made[1].state()["motion"].values)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", slow_except(["single"], ["single", "double"]))
def test_records_and_the_watch(device: str, precision: str) -> None:
    made = solvers(device, ElementKind("trilinear", False, True), 4, precision)
    found = []
    for solver in made:
        solver.receivers = placed(solver)
        solver.start_records(2, stress=True)
        for step in range(2):
            solver.advance(step)
            solver.record(step)
        found.append(solver.records(2).wait() | {"largest": np.array(solver.largest_velocity())})
    for name in found[0]:
        assert closeness(found[1][name], found[0][name]) < (SINGLE if precision == "single" else DOUBLE), name


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("kind", slow_except([USUAL[1]], [USUAL[1], FLUIDS[-1]]), ids=str)
def test_points_move_during_the_forces_on_earlier_elements(
    device: str, kind: ElementKind, precision: str, monkeypatch
) -> None:
    monkeypatch.setattr(elements, "LEAST_BLOCKS", 7)
    monkeypatch.setattr(launches, "BLOCKS_AHEAD", 4)
    plan = kind_plan((5, 6, 5), 4, precision, kind)
    made = [quiet_solver(plan, backend) for backend in (
        make_backend("cpu", precision, 2), device_twin(device, precision))]  # fmt: skip
    cpu, gpu = (solver.tables for solver in made)
    assert cpu.moved_first == plan.shared
    (group,) = gpu.groups
    moves = made[1].backend.download(group.moves).astype(np.int64)
    assert len(moves) == 31 and moves[-1] == plan.shared and gpu.moved_first == moves[0] < 0.5 * plan.shared
    assert 0 <= np.diff(moves).min() and np.diff(moves).max() <= 2 * 128
    points = np.zeros((30, 5, 125), np.int64)  # elements keep their order
    points.reshape(150, 125)[:] = np.where(plan.numbers < plan.shared, plan.numbers, -1).reshape(150, 125)
    if precision == "single":
        assert group.begin.tolist() == [0, 30]
        known = moves[np.maximum(np.arange(30) - 4, 0)]
    else:
        assert len(group.begin) == 4 and group.begin[-1] == 30
        known = np.repeat(moves[group.begin[:-1]], np.diff(group.begin))
    assert (points.max(axis=(1, 2)) < known).all()
    for solver in made:
        fill_with_noise(solver)
        for step in range(3):
            solver.advance(step)
    compare(made, precision)


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_wait_for_the_points_that_others_move(device: str, monkeypatch) -> None:
    """Without waiting, the results are wrong."""
    plan = kind_plan((5, 6, 5), 4, "single", USUAL[1])

    def moved(backend: Backend) -> np.ndarray:
        solver = quiet_solver(plan, backend)
        fill_with_noise(solver)
        for step in range(4):
            solver.advance(step)
        return solver.state()["motion"].values.astype(float)

    def errors() -> list[float]:
        found = []
        for seed in (0, 2, 4, 6):  # with these, emulated blocks begin in ascending order, as those of a device
            backend = device_twin(device, "single")
            backend.seed = seed
            found.append(closeness(moved(backend)[:, :3], expected[:, :3]))
        return found

    expected = moved(make_backend("cpu", "single", 2))
    assert max(errors()) < SINGLE
    if device == "emulated":
        usual = launches.defines
        monkeypatch.setattr(launches, "defines", lambda *own: usual(*own) | {"WAITS": 0})
        assert max(errors()) > 1e3 * SINGLE


def placed(solver: SpectralElementSolver) -> Any:
    random = np.random.default_rng(3)
    vertices = solver.plan.mesh.vertices
    inside = vertices.mean(axis=0) + 0.2 * np.ptp(vertices, axis=0) * random.uniform(-1, 1, (7, 3))
    positions = np.concatenate([inside, vertices[[0, 20]]])
    return HexahedralSamples(solver, solver.plan.locate(positions, solver.plan.inside_tolerance).first_only())
