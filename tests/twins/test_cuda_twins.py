"""Every CUDA kernel against its CPU twin on random input: on a device, and emulated where there is none."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from cuda_devices import DEVICES, closeness, make_device, rounding
from finite_difference_plans import plan_on_grid, uniform_solver
from lithowave.backends import make_backend
from lithowave.errors import InputError
from lithowave.solvers.finite_difference import (
    FIELDS,
    LAWS,
    PACKAGE,
    FiniteDifferenceSolver,
    OnePassScheme,
    axis_layers,
    bricks_of,
    choose_attenuation,
    smoothing_of,
    uniform_simulation,
    with_passes,
)
from lithowave.solvers.finite_difference.plan import plan
from slow_variants import slow_except

ALL = "x_min x_max y_min y_max z_min z_max".split()
# Grid points; kinds of the faces that are not absorbing; cells of the layers. Odd sizes: tiles and vectors do not fit.
CASES = {
    "interior": ((75, 21, 19), {}, 0),
    "surface": ((70, 37, 30), {"z_max": "free"}, 5),
    "rigid": ((41, 23, 27), {"z_max": "free", "x_min": "rigid", "y_max": "rigid", "z_min": "rigid"}, 4),
    "closed": ((30, 22, 24), dict.fromkeys(ALL, "rigid"), 0),
    "one layer": ((67, 20, 22), {face: "rigid" for face in ALL if face != "x_max"}, 7),
    "thick": ((35, 35, 35), {}, 17),
}


RANGES = {"density": (1800.0, 3000.0), "c11": (6e10, 9e10), "c22": (6e10, 9e10), "c33": (6e10, 9e10)}


def case_plan(case: str, order: int, precision: str, cases: Mapping[str, Any] = CASES) -> Any:
    shape, closed, cells = cases[case]
    faces = dict.fromkeys(ALL, "absorbing") | closed
    layers = tuple(
        tuple(cells if faces[f"{axis}_{side}"] == "absorbing" else 0 for side in ("min", "max")) for axis in "xyz"
    )
    return plan_on_grid(shape, order, precision, layers, **faces)


def in_soft_ground(plan: Any) -> Any:
    """The plan with smoothing in the layers, several times in a step."""
    layer = dataclasses.replace(plan.layer, viscosity=0.0156, wavelength=10 * plan.grid.spacing)
    return dataclasses.replace(plan, layer=layer)


def fill(solvers: list[FiniteDifferenceSolver], seed: int) -> None:
    """The same random fields, memory variables and material in all of them."""
    generator = np.random.default_rng(seed)
    first = solvers[0]
    halo = first.plan.halo
    inner = tuple(slice(halo, -halo) for _ in range(3))
    arrays = {}
    for name in FIELDS:
        values = np.zeros(first.plan.padded_shape())
        scale = 1.0 if name.startswith("v") else 1e7
        values[inner] = scale * generator.standard_normal([n - 2 * halo for n in values.shape])
        arrays[name] = values
    for solver in solvers:
        for name, values in arrays.items():
            solver.backend.assign(solver.fields_by_name[name], values)
    for name in first.material.arrays:
        low, high = RANGES.get(name, (2e-11, 9e-11) if name.startswith("compliance") else (1e10, 4e10))
        values = first.backend.download(first.material.arrays[name]).astype(float).copy()
        random = generator.uniform(low, high, values.shape)
        values = np.where(values > 1e-3, np.where(values > 1e9 * high, values, random), random)
        for solver in solvers:
            solver.backend.assign(solver.material.arrays[name], values)
    if first.plan.attenuation:
        fill_mechanisms(solvers, generator)
    layers = [axis_layers(first.grid, axis, first.plan.layer, first.plan.schedule.time_step) for axis in range(3)]
    for kind, arrays in first.step.memory.items():
        for axis, array in enumerate(arrays):
            values = 1e-3 * generator.standard_normal(array.shape) * (1e7 if kind == "velocity" else 1.0)
            used = (np.abs(layers[axis].half[0]) + np.abs(layers[axis].node[0])) > 0  # others have no memory
            values *= np.repeat(used, 3, axis=0) if axis == 0 else used[(..., *[None] * axis)]
            for solver in solvers:
                solver.backend.assign(solver.step.memory[kind][axis], values)


def fill_mechanisms(solvers: list[FiniteDifferenceSolver], generator: np.random.Generator) -> None:
    """The same random memory variables and fractions in all of them."""
    shape = solvers[0].plan.memory_shape()
    codes = generator.integers(0, 2**32, shape, np.uint32) & np.uint32(0x7FFFFFFF)
    values = {name: 1e6 * generator.standard_normal(shape) for name in solvers[0].plan.law_fields.memory}
    for solver in solvers:
        solver.backend.assign(solver.material.fractions, codes)
        for name, memory in values.items():
            solver.backend.assign(solver.fields_by_name[name], memory)


def assert_same_state(cuda: FiniteDifferenceSolver, cpu: FiniteDifferenceSolver, tolerance: float) -> None:
    expected = cpu.state()
    for name, piece in cuda.state().items():
        assert closeness(piece.values, expected[name].values) < tolerance, name


USUAL = {("ring", case, 4, "single") for case in CASES} | {("direct", "surface", 4, "single")}


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize(
    ("engine", "case", "order", "precision"),
    slow_except(USUAL, itertools.product(["ring", "direct"], CASES, [2, 4, 6, 8], ["single", "double"])),
)
def test_updates(kind: str, engine: str, case: str, order: int, precision: str) -> None:
    """Both halves of a step with all that belongs to them, layers, closures, free surface and rigid faces."""
    compare_updates(kind, engine, case_plan(case, order, precision), precision)


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize(
    ("engine", "case", "law", "precision"),
    slow_except(
        [("ring", "surface", "transverse", "single"), ("direct", "rigid", "orthorhombic", "single")],
        itertools.product(["ring", "direct"], ["surface", "rigid"], list(LAWS)[1:], ["single", "double"]),
    ),
)
def test_updates_of_every_law(kind: str, engine: str, case: str, law: str, precision: str) -> None:
    the_plan = dataclasses.replace(case_plan(case, 4, precision), law=law)
    compare_updates(kind, engine, the_plan, precision)


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize(
    ("engine", "case", "law", "mode", "precision"),
    slow_except(
        [("ring", "surface", "isotropic", "coarse", "single")],
        itertools.product(["ring", "direct"], ["surface", "rigid"], LAWS, ["coarse", "full"], ["single", "double"]),
    ),
)
def test_updates_with_attenuation(
    kind: str, engine: str, case: str, law: str, mode: str, precision: str
) -> None:
    """Stresses and memory variables of the interior, layers, closures and the free surface."""
    compare_updates(kind, engine, attenuating(case_plan(case, 4, precision), mode, law), precision)


def attenuating(the_plan: Any, mode: str, law: str = "isotropic") -> Any:
    """A plan with attenuation; rates are high, so that the memory variables change in every step."""
    highest = 0.2 / the_plan.schedule.time_step
    lossy = uniform_simulation(the_plan).with_overrides({
        "material.homogeneous.qp": 50, "material.homogeneous.qs": 50, "solver.memory_variables": mode,
        "material.attenuation": {"band": [0.01 * highest, highest]},
    })  # fmt: skip
    return dataclasses.replace(the_plan, law=law, attenuation=choose_attenuation(lossy))


def compare_updates(kind: str, engine: str, case: Any, precision: str) -> None:
    device = make_device(kind, precision, capability=(9, 0) if engine == "ring" else (8, 0))
    if engine == "direct":
        device.copy_engine = False
    the_plan = dataclasses.replace(case, box=None)
    cuda = uniform_solver(the_plan, device)
    cpu = uniform_solver(the_plan, make_backend("cpu", precision, 1))
    fill([cuda, cpu], seed=case.order)
    for solver in (cuda, cpu):
        solver.step.advance_stress(solver.fields_by_name, solver.step.regions.stress)
    assert_same_state(cuda, cpu, rounding(precision))
    for solver in (cuda, cpu):
        solver.step.advance_velocity(solver.fields_by_name, solver.step.regions.velocity)
    assert_same_state(cuda, cpu, 3 * rounding(precision))


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("seed", range(1, 4))
def test_updates_in_any_order_of_threads(kind: str, seed: int) -> None:
    """A missing barrier shows as a difference between schedules."""
    device = make_device(kind, "single", seed=seed)
    the_plan = in_soft_ground(case_plan("surface", 4, "single"))
    assert smoothing_of(the_plan).times > 1
    cuda = uniform_solver(the_plan, device)
    cpu = uniform_solver(the_plan, make_backend("cpu", "single", 1))
    fill([cuda, cpu], seed=seed)
    for solver in (cuda, cpu):
        solver.advance(0)
        solver.advance(1)
        solver.advance(2)
    assert_same_state(cuda, cpu, 1e-5)


PASS_CASES = {
    "whole": ((75, 41, 50), {}, 0),
    "surface": ((140, 61, 47), {"z_max": "free"}, 5),
    "rigid": ((101, 63, 45), {"z_max": "free", "x_min": "rigid", "y_max": "rigid", "z_min": "rigid"}, 4),
    "deep": ((128, 22, 130), {}, 0),
}


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize(
    ("case", "order", "law"),
    slow_except(
        [*((case, 4, "isotropic") for case in ("whole", "surface", "rigid")), ("whole", 4, "transverse")],
        itertools.product(PASS_CASES, [2, 4], LAWS),
    ),
)
def test_one_pass(kind: str, case: str, order: int, law: str) -> None:
    """Steps in one pass over memory are those of the CPU, and can be stopped and gone on with; in the layers of soft
    ground, too."""
    plan = case_plan(case, order, "single", PASS_CASES)
    compare_one_pass(kind, in_soft_ground(plan) if case == "surface" else plan, law)


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize(
    ("passes", "law", "lossy", "order"),
    slow_except(
        [("one", "transverse", False, 4), ("two", "transverse", False, 4), ("one", "isotropic", True, 4)],
        itertools.product(["one", "two"], LAWS, [False, True], [2, 4]),
    ),
)
def test_material_of_equal_columns(kind: str, passes: str, law: str, lossy: bool, order: int) -> None:
    """In a layered medium all tiles but those at the far ends read the material of one column of tiles; those of the
    pass and those around it that of one column."""
    case = case_plan("surface", order, "single", PASS_CASES)
    the_plan = dataclasses.replace(attenuating(case, "coarse") if lossy else case, law=law)
    device = make_device(kind, "single")
    cuda = uniform_solver(with_passes(the_plan, device, passes), device)
    cuda.step.kernels = device.kernels(PACKAGE, order=order, law=the_plan.law_fields, equal_columns=True)
    cpu = uniform_solver(dataclasses.replace(the_plan, box=None), make_backend("cpu", "single", 1))
    fill([cuda, cpu], seed=4)
    inside = slice(order // 2, -order // 2)
    for solver in (cuda, cpu):
        random = np.random.default_rng(5)
        for array in solver.material.arrays.values():
            values = solver.backend.download(array).copy()
            values[:, inside, inside] = values[:, 5:6, 5:6] * random.uniform(0.8, 1.2, (len(values), 1, 1))
            solver.backend.assign(array, values)
    for step in range(3):
        cuda.advance(step)
        cpu.advance(step)
    assert_same_state(cuda, cpu, 1e-5)
    kept_of = [cuda.kernels.update_stress._kept, cuda.kernels.update_velocity._kept]
    for how, kept in (one for each in kept_of for one in each.values()):
        assert how.equal == (how.inside == how.edge)
        assert most_at(device.download(kept["tiles"])[:, 9:], (0, 0) if how.equal else (32, order))
    if passes == "one":
        assert cuda.kernels.one_pass.shape.equal
        assert all(any(how.equal for how, _ in each.values()) for each in kept_of)
        for kept in cuda.kernels.one_pass._kept.values():
            assert most_at(device.download(kept["tiles"])[:, 9:], (32, order))


def most_at(places: np.ndarray, place: tuple[int, int]) -> bool:
    """Return whether more than half of the places are this one."""
    return (places == place).all(axis=1).mean() > 0.5


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize(
    ("case", "order", "law"),
    slow_except([("whole", 4, "isotropic")], itertools.product(["whole", "surface"], [2, 4], LAWS)),
)
def test_one_pass_with_attenuation(kind: str, case: str, order: int, law: str) -> None:
    compare_one_pass(kind, attenuating(case_plan(case, order, "single", PASS_CASES), "coarse"), law)


def compare_one_pass(kind: str, case: Any, law: str) -> None:
    device = make_device(kind, "single", multiprocessors=3)
    the_plan = with_passes(dataclasses.replace(case, law=law), device, "one")
    cuda = uniform_solver(the_plan, device)
    cpu = uniform_solver(dataclasses.replace(the_plan, box=None), make_backend("cpu", "single", 1))
    assert isinstance(cuda.scheme, OnePassScheme)
    fill([cuda, cpu], seed=case.order)
    for step in range(5):
        if step == 3:  # as after a restart, in the other set
            cuda.restore({name: piece.values for name, piece in cuda.state().items()})
        cuda.advance(step)
        cpu.advance(step)
        assert_same_state(cuda, cpu, 3e-6 * (step + 1))


def test_one_pass_is_refused_where_it_is_not_possible() -> None:
    description = {
        "domain": {axis: [-2000, 2000] for axis in "xyz"},
        "boundaries": {"top": "absorbing", "layer": {"cells": 4}},
        "material": {"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600}},
        "duration": 1.0,
        "solver": {"spacing": 50, "passes": "one"},
    }
    pulse = {"gaussian": {"sigma": 0.1, "delay": 0.5}}
    moment = {"position": [0, 0, 0], "moment_tensor": {"xy": 1e15}, "time_function": pulse}
    simulation = lw.Simulation(**description, sources=[moment])
    assert plan(simulation, make_device("emulated", "single")).passes == "one"
    with pytest.raises(InputError, match=r"solver.passes: one pass is not possible here: it needs a CUDA device"):
        plan(simulation, make_backend("cpu", "single", 1))
    force = {"position": [0, 0, 0], "force": [0, 0, 1e9], "time_function": pulse}
    pushed = lw.Simulation(**description, sources=[force])
    with pytest.raises(InputError, match="a force acts inside the box"):
        plan(pushed, make_device("emulated", "single"))
    automatic = pushed.with_overrides({"solver.passes": "auto"})
    assert plan(automatic, make_device("emulated", "single")).passes == "two"


@pytest.fixture(params=DEVICES)
def twins(request: pytest.FixtureRequest) -> tuple[Any, Any, list[Any], list[Any]]:
    """The point kernels of both devices, and nine random fields on each."""
    generator = np.random.default_rng(5)
    found = []
    device, cpu = make_device(request.param, "single"), make_backend("cpu", "single", 1)
    host = [generator.standard_normal((14, 12, 37)) for _ in FIELDS]
    for backend in (device, cpu):
        fields = [backend.field((14, 12, 37), 2) for _ in FIELDS]
        for field, values in zip(fields, host, strict=True):
            backend.assign(field, values)
        modules = ("kernels",)
        found.append((backend, backend.kernels(PACKAGE, *modules, order=4), fields))
    return tuple(found)


def places(backend: Any, field: Any, seed: int, count: int) -> np.ndarray:
    """Random elements of a field as places in its memory."""
    k, j, i = (np.random.default_rng(seed).integers(0, n, count) for n in field.shape)
    strides = [step // field.itemsize for step in field.strides]
    return k * strides[0] + j * strides[1] + i * strides[2]


def test_inject(twins: Any) -> None:
    results = []
    generator = np.random.default_rng(1)
    begin = np.array([0, 3, 4, 9, 100, 101])
    weight, owner = generator.standard_normal(101), generator.integers(0, 4, 101)
    amplitude = generator.standard_normal((6, 4))
    for backend, kernel, fields in twins:
        lists = (
            backend.upload(np.array([0, 0, 3, 8, 8]), np.int64),
            backend.upload(np.sort(places(backend, fields[0], 2, 5)), np.int64),
            backend.upload(begin, np.int64), backend.upload(weight, np.float64), backend.upload(owner, np.int64),
            backend.upload(amplitude, np.float64),
        )  # fmt: skip
        row = backend.upload(np.array([2]), np.int64)
        kernel.inject(tuple(fields), *lists, row)
        kernel.count_step(row)
        kernel.inject(tuple(fields), *lists, row)
        results.append([backend.download(field).copy() for field in fields] + [backend.download(row)])
    for value, expected in zip(*results, strict=True):
        assert closeness(value, expected) < 1e-6
    assert results[0][-1][0] == 3


def test_inject_moments(twins: Any) -> None:
    """Sources in some of four bricks at the ends of the grid, of which the first one and the last two do not act."""
    results, generator, count = [], np.random.default_rng(4), 9
    shape = np.array([33, 8, 10])  # without the halo
    low = generator.integers(-3, (shape - 4)[:, None], (count, 3, 2))
    weight, moment = generator.standard_normal((count, 3, 2, 8)), generator.standard_normal((count, 6))
    inside = low[..., None] + np.arange(8)
    weight[(inside < 0) | (inside >= shape[:, None, None])] = 0.0
    amplitude = generator.standard_normal((4, count))
    amplitude[:, [0, 7, 8]] = 0.0
    table, begin, source = bricks_of(np.maximum(low.min(axis=2), 0), np.minimum(low.max(axis=2) + 8, shape), shape)
    for backend, kernel, fields in twins:
        whole = [backend.upload(values, np.int64) for values in (table + 2, begin, source, low + 2)]
        reals = [backend.upload(values, np.float64) for values in (weight, moment, amplitude[:, 1:7].ravel())]
        marks = [backend.upload(np.array(values), np.int64) for values in ([1, 7], [1])]
        before = [backend.download(field).copy() for field in fields]
        kernel.inject_moments(tuple(fields), *whole, *reals, *marks)
        results.append([backend.download(field) - old for field, old in zip(fields, before, strict=True)])
    for value, expected in zip(*results, strict=True):
        assert closeness(value, expected) < 1e-6
    expected = np.zeros((6, *(shape[::-1] + 4)))
    halves = [(0, 0, 0)] * 3 + [(1, 1, 0), (1, 0, 1), (0, 1, 1)]
    for s, (component, (x, y, z)) in itertools.product(range(count), enumerate(halves)):
        lines = np.einsum("k,j,i->kji", weight[s, 2, z], weight[s, 1, y], weight[s, 0, x])
        for k, j, i in np.argwhere(lines):
            place = (component, low[s, 2, z] + k + 2, low[s, 1, y] + j + 2, low[s, 0, x] + i + 2)
            expected[place] += amplitude[1, s] * moment[s, component] * lines[k, j, i]
    assert closeness(np.array(results[1][3:]), expected) < 1e-6 and not np.any(results[1][:3])


def test_sample(twins: Any) -> None:
    results = []
    sizes = np.array([1, 512, 0, 40, 7, 64, 33, 512, 2])
    begin = np.concatenate([[0], np.cumsum(sizes)])
    weight = np.random.default_rng(3).standard_normal(begin[-1])
    for backend, kernel, fields in twins:
        out = backend.zeros((4, 3, 3), np.float64)
        number = backend.upload(np.random.default_rng(5).integers(0, 9, begin[-1]), np.int64)
        index = backend.upload(places(backend, fields[0], 4, begin[-1]), np.int64)
        slot = backend.upload(np.array([2]), np.int64)
        weights = backend.upload(weight, np.float64), backend.upload(begin, np.int64)
        kernel.sample(tuple(fields), number, index, *weights, out, slot)
        results.append(backend.download(out).copy())
    assert closeness(results[0], results[1]) < 1e-12
    assert np.all(results[0][[0, 1, 3]] == 0) and np.abs(results[0][2]).max() > 1


def test_interpolate(twins: Any) -> None:
    results = []
    generator = np.random.default_rng(6)
    for backend, kernel, fields in twins:
        generator = np.random.default_rng(6)
        lines = []
        for extent, count in zip(fields[0].shape, (3, 11, 35), strict=True):
            lines.append(backend.upload(generator.integers(0, extent - 1, count), np.int64))
            lines.append(backend.upload(generator.uniform(0, 1, count)))
        out = backend.zeros((3, 11, 35, 2))
        kernel.interpolate(fields[1], *lines, out, 1)
        results.append(backend.download(out).copy())
    assert closeness(results[0], results[1]) < 1e-6
    assert np.all(results[0][..., 0] == 0) and np.abs(results[0][..., 1]).max() > 1


def test_surface_peaks(twins: Any) -> None:
    results = []
    generator = np.random.default_rng(7)
    reading = [generator.uniform(0, 1, shape) for shape in ((2, 8, 33), (8, 33), (8, 33))]
    reading.append(np.array([1.125, -0.0417, 0.5625, -0.0625, 0.07]))
    for backend, kernel, fields in twins:
        arrays = [backend.zeros((3, 8, 33)) for _ in range(3)]
        how = [backend.upload(array) for array in reading]
        for plane in (7, 9, 10):
            kernel.surface_peaks(*fields[:3], plane, 2, *how, backend.scalar(0.01), *arrays)
        results.append([backend.download(array).copy() for array in arrays])
    for value, expected in zip(*results, strict=True):
        assert closeness(value, expected) < 1e-6 and np.abs(expected).max() > 0


def test_boxes_go_into_a_buffer_and_come_back(twins: Any) -> None:
    """What ranks send: boxes of several fields one behind the other, and the same boxes filled from a buffer."""
    boxes = [
        (0, (2, 2, 2), (10, 8, 4)), (2, (2, 2, 31), (10, 8, 4)), (1, (2, 9, 2), (10, 1, 33)), (8, (0, 0, 0), (1, 1, 1))
    ]  # fmt: skip
    results = []
    for backend, kernel, fields in twins:
        plane, pitch, _ = backend.field_strides((14, 12, 37), 2)
        rows, at = [], 0
        for number, (k, j, i), shape in boxes:
            rows.append((number, k * plane + j * pitch + i, *shape, at, plane, pitch))
            at += int(np.prod(shape))
        table, buffer = backend.upload(np.array(rows), np.int64), backend.zeros(at)
        kernel.pack(tuple(fields), table, buffer)
        packed = backend.download(buffer).copy()
        expected = np.concatenate([
            backend.download(fields[number])[tuple(slice(f, f + n) for f, n in zip(first, shape, strict=True))].ravel()
            for number, first, shape in boxes
        ])  # fmt: skip
        assert np.array_equal(packed, expected)
        backend.assign(buffer, -2.0 * packed)
        kernel.unpack(tuple(fields), table, buffer)
        results.append([backend.download(field).copy() for field in fields])
    for value, expected in zip(*results, strict=True):
        assert np.array_equal(value, expected)


@pytest.mark.parametrize("value", [7.5, -7.5, np.inf, -np.inf, np.nan])
def test_largest_magnitude(twins: Any, value: float) -> None:
    for backend, kernel, fields in twins:
        values = backend.download(fields[1]).copy()
        values[3, 4, 5] = value
        backend.assign(fields[1], values)
        out = backend.zeros(64)
        kernel.largest_magnitude(*fields[:3], out)
        found = backend.download(out)
        if np.isfinite(value):
            assert found.max() == np.float32(7.5)
        else:
            assert not np.isfinite(found).all()
