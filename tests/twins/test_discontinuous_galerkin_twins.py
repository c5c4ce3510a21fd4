"""CUDA kernels of the discontinuous Galerkin method against their CPU twins: on a device, and emulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuda_devices import DEVICES, closeness, make_device
from lithowave.backends import make_backend
from lithowave.physics import SWAPPED
from lithowave.rheology import QualityLaw, fit_body
from lithowave.solvers.discontinuous_galerkin import (
    ALIKE,
    ARGUMENTS,
    FASTER,
    ORDERS,
    SLOWER,
    AbsorbingLayer,
    DiscontinuousGalerkinPlan,
    DiscontinuousGalerkinSolver,
    ElementMaterials,
    basis_values,
    launches,
    locate_points,
    mode_count,
)
from lithowave.solvers.elements import surface_grid
from tetrahedra_plans import (
    ANISOTROPIC_ORDER,
    ORDER,
    advanced,
    box,
    described_plan,
    experiment,
    make_solver,
    noise,
    random_clusters,
    rocks,
    small_plan,
    source,
)

SINGLE, DOUBLE = 1e-5, 1e-13  # of the largest value
KINDS = ("free", "absorbing", "rigid")


def mixed_plan(order: int, precision: str, anisotropic: float = 0.0, mixed: bool = True) -> DiscontinuousGalerkinPlan:
    """Fluids and solids, outer faces of all kinds, and three clusters or one."""
    mesh = box((3, 2, 2))
    cluster = random_clusters(mesh) if mixed else None
    materials = rocks(mesh.element_count, anisotropic=anisotropic)
    return small_plan(mesh, materials, order, precision, kinds=KINDS, cluster=cluster)


def compare(
    order: int, precision: str, device: str, anisotropic: float = 0.0, mixed: bool = True, **options: Any
) -> None:
    """Three steps of a device against those of the CPU in double precision: then only the device rounds."""
    plan = mixed_plan(order, precision, anisotropic, mixed)
    before = noise(plan)
    expected = advanced(make_solver(plan, make_backend("cpu", "double", 2)), before, 3)
    found = advanced(make_solver(plan, make_device(device, precision, **options)), before, 3)
    assert closeness(found, expected) < (SINGLE if precision == "single" else DOUBLE)


@pytest.mark.parametrize("device", DEVICES)
def test_steps_of_isotropic_elements(device: str) -> None:
    """In three kinds of blocks on a device: those with neighbours in other clusters are compiled apart."""
    plan = mixed_plan(ORDER, "double")
    assert {group.mixed for group in make_solver(plan).tables.arrangement.groups} == {ALIKE, SLOWER, FASTER}
    compare(ORDER, "double", device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_steps_of_anisotropic_elements(device: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little shared memory, as of high orders, threads in any order, and one block at a time."""
    shapes = launches.SHAPES | {"single": launches.SHAPES["single"] | {ANISOTROPIC_ORDER: (1, 1, 1)}}
    monkeypatch.setattr(launches, "SHAPES", shapes)
    monkeypatch.setattr(launches, "BLOCK_BYTES", 10 << 10)
    options = {"seed": seed, "multiprocessors": 1 + seed} if device == "emulated" else {}
    compare(ANISOTROPIC_ORDER, "single", device, anisotropic=0.5, **options)


def layered_plan(
    order: int, precision: str, anisotropic: float = 0.0, mixed: bool = True, matched: bool = True
) -> DiscontinuousGalerkinPlan:
    """Layers beyond two faces that overlap, of solids and fluids, and three clusters or one."""
    mesh = box((3, 2, 2))
    layer = AbsorbingLayer(((0, 2), (0, 1), (-2, 0)), {"x_max": 1.0, "y_max": 0.7}, matched, 4.0, 1e-3, 0.5)
    materials = rocks(mesh.element_count, anisotropic=anisotropic)
    cluster = random_clusters(mesh) if mixed else None
    return small_plan(mesh, materials, order, precision, kinds=KINDS, cluster=cluster, layer=layer)


def compare_layers(
    order: int, precision: str, device: str, anisotropic: float = 0.0, mixed: bool = True, matched: bool = True
) -> None:
    """As `compare`; the memory variables also."""
    plan = layered_plan(order, precision, anisotropic, mixed, matched)
    kinds = {group.kind for group in make_solver(plan).tables.arrangement.groups}
    assert {(False, False, 0), (False, True, 0)} <= kinds and ((True, True, 0) in kinds) == (anisotropic > 0)
    states = []
    for backend in (make_backend("cpu", "double", 2), make_device(device, precision)):
        solver = make_solver(plan, backend)
        values = advanced(solver, noise(plan), 3)
        states.append((values, solver.freeze_memory()().astype(float)))
    limit = SINGLE if precision == "single" else DOUBLE
    assert closeness(states[1][0], states[0][0]) < limit
    if matched:
        assert np.abs(states[0][1]).max() > 0
        assert closeness(states[1][1], states[0][1]) < limit
    else:
        assert not states[0][1].any() and not states[1][1].any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("anisotropic", [0.0, pytest.param(0.05, marks=pytest.mark.slow)])
def test_steps_of_absorbing_layers(device: str, anisotropic: float) -> None:
    compare_layers(ANISOTROPIC_ORDER if anisotropic else ORDER, "double", device, anisotropic)


@pytest.mark.slow
def test_layers_of_isotropic_media_described_by_moduli() -> None:
    """The laws of anisotropic media, with gains, are those of isotropic ones if their moduli are."""
    plan = layered_plan(ANISOTROPIC_ORDER, "double")
    own, every = plan.materials, np.arange(plan.element_count)
    stiffness = own.matrix(every)[:, SWAPPED][:, :, SWAPPED]
    speeds = {name: getattr(own, f"{name}_speed") * np.sqrt(own.rho) for name in ("fastest", "slowest")}
    same = replace(plan, materials=replace(own, number=every, stiffness=stiffness, **speeds))
    solvers = [make_solver(one) for one in (plan, same)]
    found = [(advanced(solver, noise(plan), 3), solver.freeze_memory()()) for solver in solvers]
    assert np.abs(found[0][1]).max() > 0
    for one, other in zip(*found, strict=True):
        assert closeness(other, one) < DOUBLE


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_steps_of_damped_layers(device: str) -> None:
    compare_layers(ANISOTROPIC_ORDER, "double", device, 0.05, matched=False)


def attenuating_plan(
    order: int, precision: str, mechanisms: int = 3, layer: bool = False, **options: Any
) -> DiscontinuousGalerkinPlan:
    """As `mixed_plan` or `layered_plan`; every third element is elastic."""
    plan = (layered_plan if layer else mixed_plan)(order, precision, **options)
    body = fit_body(QualityLaw(), (0.02, 2.0), mechanisms, (0.01, 0.2))
    losses = np.random.default_rng(3).uniform(0.01, 0.2, (plan.element_count, 2))
    losses[::3] = 0.0
    return replace(plan, materials=replace(plan.materials, body=body, inverse_quality=losses))


def compare_attenuation(device: str, *description: Any, **options: Any) -> None:
    """As `compare_layers`; also the memory variables of attenuation, and a restart on the other device."""
    plan = attenuating_plan(*description, **options)
    precision = description[1]
    limit = SINGLE if precision == "single" else DOUBLE
    backends = make_backend("cpu", "double", 2), make_device(device, precision)
    solvers = [make_solver(plan, backend) for backend in backends]
    for _ in range(2):
        for solver in solvers:
            solver.set_coefficients(noise(plan))
        for step in range(3):
            for solver in solvers:
                solver.advance(step)
        states = [{name: part.values for name, part in solver.state().items()} for solver in solvers]
        assert np.abs(states[0]["relaxation"]).max() > 0
        for name, values in states[1].items():
            assert closeness(values, states[0][name]) < limit, name
        solvers.reverse()
        for solver, state in zip(solvers, states, strict=True):
            solver.restore(state)
        for solver, state in zip(solvers, states, strict=True):
            for name, part in solver.state().items():
                assert closeness(part.values, state[name]) < limit


@pytest.mark.parametrize("device", DEVICES)
def test_steps_with_attenuation(device: str) -> None:
    compare_attenuation(device, ORDER, "double")


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("matched", [True, False])
def test_steps_of_anisotropic_elements_with_attenuation(device: str, matched: bool) -> None:
    compare_attenuation(device, ANISOTROPIC_ORDER, "double", 2, True, anisotropic=0.3, matched=matched)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("order", ORDERS)
def test_steps_of_all_orders_with_attenuation(device: str, order: int, precision: str) -> None:
    compare_attenuation(device, order, precision, mixed=order == 5, layer=order == 3)


@pytest.mark.parametrize("device", [DEVICES[0], pytest.param("emulated", marks=pytest.mark.slow)])
@pytest.mark.parametrize("anisotropic", [pytest.param(0.0, marks=pytest.mark.slow), 0.05])
def test_steps_of_layers_with_little_shared_memory(
    device: str, anisotropic: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ANISOTROPIC_ORDER if anisotropic else ORDER
    shapes = launches.SHAPES | {"double": launches.SHAPES["double"] | {order: (1, 1, 1)}}
    monkeypatch.setattr(launches, "SHAPES", shapes)
    monkeypatch.setattr(launches, "BLOCK_BYTES", 30 << 10)
    compare_layers(order, "double", device, anisotropic, mixed=False)


@pytest.mark.parametrize("device", DEVICES)
def test_steps_in_two_kernels(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of high orders, for one block at a time."""
    monkeypatch.setitem(launches.SPLIT_ORDERS, "double", ORDER)
    monkeypatch.setattr(launches, "SPLIT_BLOCKS", 1)
    compare_layers(ORDER, "double", device)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("anisotropic", [0.0, 0.05])
@pytest.mark.parametrize("order", ORDERS)
def test_layers_of_every_order(order: int, anisotropic: float, mixed: bool, precision: str) -> None:
    compare_layers(order, precision, "device", anisotropic, mixed)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("anisotropic", [0.0, 0.05])
@pytest.mark.parametrize("order", ORDERS)
def test_steps_of_every_order(order: int, anisotropic: float, mixed: bool, precision: str) -> None:
    compare(order, precision, "device", anisotropic, mixed)


# ----------------------------------------------------------------------------------------- kernels over points


@pytest.fixture(params=DEVICES)
def pair(request: pytest.FixtureRequest) -> Callable[[str], list[Any]]:
    """The CPU and a device in a precision."""
    return lambda precision: [make_backend("cpu", precision, 2), make_device(request.param, precision)]


def point_kernel(backend: Any, name: str, arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    """All arrays after a call."""
    kernels = backend.kernels(launches.PACKAGE, "kernels", order=ORDER, precision=backend.precision)
    whole = ("target", "begin", "owner", "row", "base", "slot")
    there = {}
    for key, value in arrays.items():
        if np.ndim(value) == 0:
            there[key] = backend.scalar(value)
        else:
            kind = np.int64 if key in whole else np.float64 if key in ("weight", "amplitude") else None
            there[key] = backend.upload(np.array(value), kind)
    getattr(kernels, name)(*(there[key] for key in ARGUMENTS[name]))
    return {key: backend.download(value) for key, value in there.items() if np.ndim(arrays[key])}


def agree(found: list[dict[str, np.ndarray]], precision: str) -> None:
    for name in found[0]:
        limit = 3e-6 if precision == "single" else 1e-14
        assert closeness(found[1][name], found[0][name].astype(float)) < limit, name


@pytest.mark.parametrize("precision", ["single", "double"])
def test_inject_and_count_step(pair: Callable[[str], list[Any]], precision: str) -> None:
    random = np.random.default_rng(0)
    sizes = random.integers(1, 4, 150)
    begin = np.append(0, np.cumsum(sizes))
    arrays = {
        "array": random.normal(size=(20, 5, 4)), "target": random.permutation(400)[:150], "begin": begin,
        "weight": random.normal(size=begin[-1]), "owner": random.integers(0, 6, begin[-1]),
        "amplitude": random.normal(size=(8, 6)), "row": np.array([3]),
    }  # fmt: skip
    found = [point_kernel(backend, "inject", arrays) for backend in pair(precision)]
    agree(found, precision)
    expected = arrays["array"].ravel().copy()
    shares = arrays["weight"] * arrays["amplitude"][3, arrays["owner"]]
    expected[arrays["target"]] += np.add.reduceat(shares, begin[:-1])
    np.testing.assert_allclose(found[0]["array"].ravel(), expected, atol=1e-6)
    for backend in pair(precision):
        np.testing.assert_array_equal(point_kernel(backend, "count_step", {"row": np.array([7])})["row"], [8])


@pytest.mark.parametrize("precision", ["single", "double"])
def test_pack_and_unpack_traces(pair: Callable[[str], list[Any]], precision: str) -> None:
    """What one side packs, the other has after unpacking, in the array of its parity; nothing else changes."""
    random, modes, tick = np.random.default_rng(5), 6, 5
    even, odd = (random.normal(size=(60, 3, 8)) for _ in range(2))
    traces = np.column_stack([random.permutation(60)[:40], random.integers(0, 4, 40)])
    parity = (tick >> traces[:, 1] & 1)[:, None, None]
    expected = np.where(parity, odd[traces[:, 0]], even[traces[:, 0]])[..., :modes]
    for backend in pair(precision):
        kernels = backend.kernels(launches.PACKAGE, "kernels", order=ORDER, precision=precision)
        arrays = [backend.upload(even.copy()), backend.upload(odd.copy())]
        slots, buffer = backend.upload(traces, np.int32), backend.zeros(40 * 3 * modes)
        kernels.pack_traces(*arrays, slots, tick, modes, buffer)
        found = backend.download(buffer).reshape(40, 3, modes)
        np.testing.assert_array_equal(found, expected.astype(backend.dtype))
        backend.assign(buffer, -np.array(found).ravel())
        kernels.unpack_traces(*arrays, slots, tick, modes, buffer)
        for number, before in enumerate((even, odd)):
            after = before.astype(backend.dtype)
            mine = parity[:, 0, 0] == number
            after[traces[mine, 0], :, :modes] *= -1
            np.testing.assert_array_equal(backend.download(arrays[number]), after)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_surface_peaks(pair: Callable[[str], list[Any]], precision: str) -> None:
    random, places, step = np.random.default_rng(1), 300, 0.125
    motion = random.normal(size=(6, 3, places))
    found = []
    for backend in pair(precision):
        state = {"displacement": np.zeros((6, places)), **{f"peak_{what}": np.zeros((3, places)) for what in (
            "velocity", "displacement")}}  # fmt: skip
        for velocity in motion:
            state = point_kernel(backend, "surface_peaks", {"velocity": velocity[None], "time_step": step, **state})
            state.pop("velocity")
        found.append(state)
    agree(found, precision)
    before = np.concatenate([np.zeros((1, 3, places)), motion[:-1]])
    moved = np.cumsum(step / 2 * (motion + before), axis=0)
    for name, values in (("peak_velocity", motion), ("peak_displacement", moved)):
        sizes = np.linalg.norm(values[:, :2], axis=1), np.abs(values[:, 2]), np.linalg.norm(values, axis=1)
        np.testing.assert_allclose(found[0][name], [size.max(axis=0) for size in sizes], rtol=1e-5)


@pytest.mark.parametrize("poison", [None, np.nan, np.inf])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_largest_velocity_is_that_of_the_coefficients(
    pair: Callable[[str], list[Any]], precision: str, poison: float | None
) -> None:
    plan = described_plan((3, 3, 3), ORDER, precision)
    values = np.random.default_rng(2).normal(size=(plan.element_count, 9, mode_count(ORDER)))
    values[:, :6] *= 100  # stress is of no account
    if poison is not None:
        values[100, 7, 2] = poison
    for backend in pair(precision):
        solver = make_solver(plan, backend)
        solver.set_coefficients(values)
        expected = np.sqrt(6 * (values[:, 6:] ** 2).sum(axis=2).max())
        assert solver.largest_velocity() == pytest.approx(np.inf if poison else expected, rel=1e-6)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_fields_at_points_are_those_of_the_polynomials(pair: Callable[[str], list[Any]], precision: str) -> None:
    plan = described_plan((3, 3, 3), ORDER, precision)
    vertices = plan.mesh.vertices
    places = np.concatenate([np.random.default_rng(3).uniform(20, 280, (30, 3)) * [1, 1, -1], vertices[[0, 30]]])
    values = np.random.default_rng(4).normal(size=(plan.element_count, 9, mode_count(ORDER)))
    every = locate_points(plan.mesh, places)
    at = np.einsum("kn,nqk->nq", basis_values(plan.order, every.reference), values[every.element])
    expected = np.array([at[every.point == point].mean(axis=0) for point in range(len(places))])
    for backend in pair(precision)[precision == "single" :]:  # for time not on the CPU too
        solver = make_solver(plan, backend, experiment(receivers=places))
        solver.start_records(3, stress=True)
        solver.set_coefficients(values)
        solver.record(0)
        solver.record(1)
        found = solver.records(2).wait()
        limit = 1e-5 if precision == "single" else 1e-12
        for slot in range(2):
            np.testing.assert_allclose(found["velocity"][slot], expected[:, 6:], atol=limit)
            np.testing.assert_allclose(found["stress"][slot], expected[:, :6], atol=limit)


# ----------------------------------------------------------------------------------------------- a small run


def whole_plan() -> DiscontinuousGalerkinPlan:
    mesh = box((3, 2, 2))
    ones = np.ones(mesh.element_count)
    cluster = random_clusters(mesh)
    ripple = 1 + 0.1 * np.sin(np.arange(mesh.element_count))
    materials = ElementMaterials.isotropic(3 * ripple, 1.5 * ripple, 2 * ones)
    made = small_plan(mesh, materials, ORDER, kinds=("free", "absorbing"), cluster=cluster)
    return replace(made, surface_spacing=0.5)


STEPS, STOP = 24, 11


def whole_run(
    plan: DiscontinuousGalerkinPlan, backend: Any, begin: int = 0, state: dict[str, np.ndarray] | None = None,
    end: int = STEPS,
) -> tuple[dict[str, np.ndarray], DiscontinuousGalerkinSolver]:  # fmt: skip
    """Everything that a run reads: from a state at a step, to another step."""
    corner = plan.mesh.vertices[plan.mesh.elements[40, 0]]  # in many elements
    sources = [
        source([1.4, 0.9, -0.6], 0.05, force=(1.0, 2.0, -1.0)), source(corner, 0.06, moment=(1, 2, 3, -1, 0.5, 0.2)),
        source([2.2, 1.3, -1.5], 0.04, moment=(-1, 0, 1, 1, 2, 0.3)),
    ]  # fmt: skip
    receivers = [[1.0, 1.0, -1.0], [0.3, 1.2, -0.1], [2.5, 0.7, -1.4], corner, [1.5, 0.5, 0.0]]
    solver = make_solver(plan, backend, experiment(sources, receivers))
    solver.start_peaks()
    solver.start_records(STEPS, stress=True)
    if state is not None:
        solver.restore(state)
    rows = []
    for step in range(begin, end):
        slot = (step - begin) % 5
        solver.record(slot)
        if slot == 4 or step == end - 1:
            rows.append(solver.records(slot + 1).wait())
        solver.advance(step)
        solver.update_peaks()
    selection = SimpleNamespace(plane=None, stride=1, fields=("velocity",))
    snapshot = solver.snapshot_grid(selection)
    found = {f"peak {name}": values for name, values in solver.peaks().items()}
    for names in (("velocity",), ("velocity", "stress", "pressure")):
        found |= {f"{len(names)} {name}": values for name, values in solver.fields(snapshot, names).wait().items()}
    found |= {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    return found | {"largest": np.array(solver.largest_velocity()), "coefficients": solver.host_coefficients()}, solver


def values_of(solver: DiscontinuousGalerkinSolver) -> dict[str, np.ndarray]:
    """The state as it is read back on one rank."""
    state, places = solver.state(), solver.state_selections()
    assert state.keys() == places.keys()
    for name, piece in state.items():
        np.testing.assert_array_equal(piece.selection.keys, places[name].keys)
    return {name: piece.values for name, piece in state.items()}


@pytest.mark.parametrize("device", DEVICES)
def test_a_whole_run(device: str) -> None:
    plan = whole_plan()
    options = {"graphs": True} if device == "emulated" else {}
    (found, _), (expected, solver) = (
        whole_run(plan, backend)
        for backend in (make_device(device, "double", **options), make_backend("cpu", "double", 2))
    )
    assert len(found) == 14 and expected["velocity"].shape == (STEPS, 5, 3)
    for name, values in expected.items():
        assert np.abs(values).max() > 0 and np.isfinite(values).all()
        assert closeness(found[name], values) < 1e-12, name
    assert len(solver.sources) > 1  # in several clusters
    # The snapshot and the records are of the same fields.
    places = surface_grid(plan)[2]
    np.testing.assert_array_equal(expected["peak points"], np.arange(len(places)))
    assert expected["peak velocity"].shape == (3, len(places))
    mean = expected["3 stress"][..., :3].mean(axis=-1)
    np.testing.assert_allclose(expected["3 pressure"], -mean, atol=1e-12 * np.abs(mean).max())
    np.testing.assert_array_equal(expected["1 velocity"], expected["3 velocity"])


@pytest.mark.parametrize("device", [*DEVICES, "cpu"])
def test_a_run_goes_on_from_a_state_to_the_same_bits(device: str) -> None:
    """From an even and from an odd step."""
    plan = whole_plan()

    def backend() -> Any:
        return make_backend("cpu", "double", 2) if device == "cpu" else make_device(device, "double")

    whole, _ = whole_run(plan, backend())
    for stop in (STOP, STOP + 1) if device != "emulated" else (STOP,):
        _, solver = whole_run(plan, backend(), end=stop)
        rest, _ = whole_run(plan, backend(), stop, values_of(solver))
        for name, values in rest.items():
            expected = whole[name][stop:] if name in ("velocity", "stress", "pressure") else whole[name]
            np.testing.assert_array_equal(values, expected, err_msg=name)


def test_high_orders_have_room_for_what_they_share() -> None:
    """Of a multiprocessor of an H200: 227 KiB for a block, 228 for as many as it should hold."""
    for precision, order in product(("single", "double"), ORDERS):
        for kind in product((False, True), (ALIKE, SLOWER, FASTER), (False, True), (0, 3)):
            shape = launches.block_shape(order, precision, *kind)
            size = launches.shared_bytes(precision, shape)
            assert shape.rows > 0 and size <= 227 * 1024 and shape.blocks * (size + 1024) <= 228 * 1024
