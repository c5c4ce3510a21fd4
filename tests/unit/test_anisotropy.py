"""Anisotropic stiffness against closed forms: Thomsen's parameters, rotation, phase speeds and their extremes."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from lithowave.media import (
    phase_speeds,
    rotated_stiffness,
    rotation_to,
    smallest_eigenvalue,
    speed_range,
    thomsen_stiffness,
)
from lithowave.physics import isotropic_stiffness, lame_moduli

# Mesaverde mudshale (Thomsen 1986, table 1), and the axis of a dipping bed.
VP, VS, RHO, EPSILON, DELTA, GAMMA = 4529.0, 2703.0, 2520.0, 0.034, 0.211, 0.046
TILTED = (1.0, -2.0, 0.5)
# Silicon, GPa and kg/m^3: cubic, so that its extreme speeds are known in closed form.
C11, C12, C44, SILICON = 165.7e9, 63.9e9, 79.6e9, 2329.0
RANDOM = np.random.default_rng(3)


def directions(count: int) -> np.ndarray:
    vectors = RANDOM.normal(size=(count, 3))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def cubic() -> np.ndarray:
    stiffness = np.diag([C11 - C12] * 3 + [C44] * 3)
    stiffness[:3, :3] += C12
    return stiffness


def thomsen(**changes: object) -> np.ndarray:
    return thomsen_stiffness(VP, VS, RHO, EPSILON, DELTA, GAMMA, **changes)


def speeds_at(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, SV and SH at angles from the axis: Thomsen's equations 10, exact, in terms of the moduli."""
    c33, c44 = RHO * VP**2, RHO * VS**2
    c11, c66 = c33 * (1 + 2 * EPSILON), c44 * (1 + 2 * GAMMA)
    cross = 2 * DELTA * c33 * (c33 - c44) + (c33 - c44) ** 2  # (c13 + c44)^2
    s, c = np.sin(angle) ** 2, np.cos(angle) ** 2
    middle = (c11 + c44) * s + (c33 + c44) * c
    root = np.sqrt(((c11 - c44) * s - (c33 - c44) * c) ** 2 + 4 * cross * s * c)
    return tuple(np.sqrt(x / RHO) for x in (0.5 * (middle + root), 0.5 * (middle - root), c66 * s + c44 * c))


def test_isotropic_is_thomsen_without_anisotropy():
    stiffness = isotropic_stiffness(*lame_moduli(VP, VS, RHO))
    np.testing.assert_allclose(thomsen_stiffness(VP, VS, RHO, axis=TILTED), stiffness, rtol=1e-12, atol=1e-3)
    speeds = phase_speeds(stiffness, RHO, directions(20))
    np.testing.assert_allclose(speeds, np.tile([VS, VS, VP], (20, 1)), rtol=1e-12)
    assert smallest_eigenvalue(stiffness) == pytest.approx(RHO * VS**2)
    assert stiffness[0, 1] == pytest.approx(RHO * (VP**2 - 2 * VS**2))


@pytest.mark.parametrize("axis", [(0, 0, 1), (0, 0, -3), (1, 0, 0), TILTED])
def test_phase_speeds_depend_on_the_angle_from_the_axis_only(axis):
    normals = directions(200)
    cosine = normals @ np.array(axis) / np.linalg.norm(axis)
    expected = np.sort(speeds_at(np.arccos(cosine)), axis=0).T
    np.testing.assert_allclose(phase_speeds(thomsen(axis=axis), RHO, normals), expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [(0, 0, 1), TILTED])
def test_extreme_speeds_of_a_cubic_crystal(axis):
    """P is fastest along [111], a shear wave along [110] slowest."""
    stiffness = rotated_stiffness(cubic(), rotation_to(axis))
    slowest, fastest = speed_range(stiffness, SILICON)
    assert fastest == pytest.approx(np.sqrt((C11 + 2 * C12 + 4 * C44) / 3 / SILICON), rel=1e-8)
    assert slowest == pytest.approx(np.sqrt((C11 - C12) / 2 / SILICON), rel=1e-8)
    assert smallest_eigenvalue(cubic()) == pytest.approx(C44) and smallest_eigenvalue(stiffness) > 0.0


# --- in a description


def moduli(stiffness: np.ndarray) -> list[float]:
    return stiffness[np.triu_indices(6)].tolist()


def test_a_stiffness_stands_in_place_of_speeds():
    crystal = lw.ElasticProperties(stiffness=moduli(cubic()), rho=SILICON)
    assert crystal.is_anisotropic and (crystal.vs, crystal.vp) == speed_range(cubic(), SILICON)
    np.testing.assert_array_equal(crystal.stiffness_matrix(), cubic())
    assert crystal.model_dump() == {"rho": SILICON, "stiffness": tuple(moduli(cubic()))}
    texts = [f"{value / 1e9!r} GPa" for value in moduli(cubic())]
    np.testing.assert_allclose(
        lw.ElasticProperties(stiffness=texts, rho=SILICON).stiffness_matrix(), cubic(), rtol=1e-15
    )
    assert lw.ElasticProperties(stiffness=np.array(moduli(cubic())), rho=SILICON) == crystal


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"vp": VP, "rho": RHO}, ["vs: is missing", "stiffness"]),
        ({"vp": 3000, "vs": 2900, "rho": RHO}, ["vp = 3000 m/s", "4/3 vs^2"]),
        ({"vp": VP, "vs": 0, "rho": RHO, "anisotropy": {"epsilon": 0.1}}, ["anisotropy: ", "not positive definite"]),
        ({"vp": VP, "vs": VS, "rho": RHO, "anisotropy": {"gamma": -0.6}}, ["smallest eigenvalue is -"]),
        ({"vp": VP, "vs": VS, "rho": RHO, "anisotropy": {"delta": -0.4}}, ["anisotropy.delta: ", "at least -0.3219"]),
        ({"vp": VP, "vs": VS, "rho": RHO, "anisotropy": {"axis": [0, 0, 0]}}, ["anisotropy.axis: ", "no length"]),
        ({"vp": VP, "vs": VS, "rho": RHO, "anisotropy": {"axis": [0, 1]}}, ["has 2 items", "[x, y, z]"]),
        ({"vp": VP, "vs": VS, "rho": RHO, "anisotropy": {"epsilom": 1}}, ["did you mean 'epsilon'?"]),
        ({"rho": RHO, "stiffness": [1e9] * 20}, ["stiffness: has 20 items", "expected 21", "yz, xz, xy"]),
        ({"rho": RHO, "stiffness": 5}, ["stiffness: 5 is not a list"]),
        ({"rho": RHO, "stiffness": ["1 m/s"] * 21}, ["is a speed", "a pressure"]),
        ({"rho": RHO, "stiffness": [1e9] * 21}, ["stiffness: ", "smallest eigenvalue", "above 0"]),
        ({"rho": RHO, "vp": VP, "stiffness": moduli(cubic())}, ["vp: stiffness and vp are both given"]),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(lw.InputError) as refused:
        lw.ElasticProperties(**given)
    for word in words:
        assert word in str(refused.value), str(refused.value)


def test_extremes_are_over_directions_and_layers():
    domain = lw.Domain(x=[0, 1], y=[0, 1], z=[-1000, 0])
    isotropic = {"vp": 4000, "vs": 2600, "rho": 2600}
    shale = {"top": -500, "vp": VP, "vs": VS, "rho": RHO, "anisotropy": {"epsilon": 0.2, "gamma": -0.2}}
    material = lw.Material(layers=[{"top": 0, **isotropic}, shale])
    extremes, places = material.extremes(domain), material.extreme_places(domain)
    assert extremes["vp_max"] == pytest.approx(VP * np.sqrt(1.4), rel=1e-8)
    assert extremes["vs_min"] == pytest.approx(VS * np.sqrt(0.6), rel=1e-8)
    assert places["vp_max"] == "layers[1], z = -1000 to -500 m"
    assert [part.is_anisotropic for part in material.layers] == [False, True]


def test_groups_are_materials_without_places():
    domain = lw.Domain(x=[0, 1], y=[0, 1], z=[-1000, 0])
    crystal = {"rho": SILICON, "stiffness": moduli(cubic())}
    material = lw.Material(groups={"rock": {"vp": 4000, "vs": 2300, "rho": 2600}, "crystal": crystal})
    assert material.kind == "groups" and list(material.groups) == ["rock", "crystal"]
    material.validate_domain(domain)
    extremes = material.extremes(domain)
    assert extremes["vs_min"] == 2300.0 and extremes["vp_max"] == material.groups["crystal"].vp
    assert material.extreme_places(domain)["vp_max"] == "group crystal"
    assert lw.Material(**material.model_dump()) == material
    with pytest.raises(lw.InputError, match=r"material\.groups: .*the mesh defines"):
        material.sample(0.0, 0.0, 0.0)
    with pytest.raises(lw.InputError, match=r"groups: the list of groups is empty"):
        lw.Material(groups={})
    with pytest.raises(lw.InputError, match=r"groups\.rock\.vp: is missing"):
        lw.Material(groups={"rock": {"vs": 2300, "rho": 2600}})
