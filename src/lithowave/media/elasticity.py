"""Elastic properties of one medium, isotropic or not, with quality factors; plausible ranges of speeds and densities.

Stiffness is a symmetric matrix (6, 6) in Pa, in Voigt's order; see `lithowave.physics`. Values outside the plausible
ranges are most often in another unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from lithowave.description.base import DescriptionModel
from lithowave.description.text import refusal, shown
from lithowave.description.units import (
    Direction,
    NonNegativeSpeed,
    Number,
    PositiveDensity,
    PositiveSpeed,
    Pressure,
    QualityFactor,
    si_unit,
    with_unit,
)
from lithowave.media.medium import MODULI, WAVES, inverse_quality_of, quality_problem, value_problem
from lithowave.physics import VOIGT_PAIRS, isotropic_stiffness, lame_moduli, stiffness_tensor, voigt_average

MODULI_COUNT = 21
"""Independent moduli: the upper triangle of the matrix."""

_UPPER = np.triu_indices(6)

_DIRECTIONS = 4000
"""Directions over a half sphere among which the extreme speeds are looked for first."""

_REFINEMENTS = 4

_ROUNDING = 1e-9
"""Moduli below this fraction of the largest one are zero: a rotation leaves such values."""
_CONE = 13


def thomsen_stiffness(
    vp: float,
    vs: float,
    rho: float,
    epsilon: float = 0.0,
    delta: float = 0.0,
    gamma: float = 0.0,
    axis: Sequence[float] = (0.0, 0.0, 1.0),
) -> np.ndarray:
    """Return the stiffness (6, 6) of a transversely isotropic medium, Pa (Thomsen 1986, Geophysics 51(10), 1954-1966).

    Along the symmetry axis C33 = rho vp^2 and C44 = rho vs^2; C11 = C33 (1 + 2 epsilon), C66 = C44 (1 + 2 gamma) and
    (C13 + C44)^2 = (C33 - C44)^2 + 2 delta C33 (C33 - C44), with C13 + C44 >= 0.

    Parameters
    ----------
    vp, vs : speeds of P and S waves along the symmetry axis, m/s.
    rho : density, kg/m^3.
    axis : direction (x, y, z) of the symmetry axis, of any length above 0.

    Raises
    ------
    ValueError : delta is so far below 0 that (C13 + C44)^2 would be negative, or the axis has no length.
    """
    c33, c44 = rho * vp**2, rho * vs**2
    c11, c66 = c33 * (1.0 + 2.0 * epsilon), c44 * (1.0 + 2.0 * gamma)
    square = (c33 - c44) * (c33 - c44 + 2.0 * delta * c33)
    if square < 0.0:
        raise ValueError("delta makes C13 imaginary")
    c13 = np.sqrt(square) - c44
    stiffness = np.diag([c11, c11, c33, c44, c44, c66])
    stiffness[0, 1] = stiffness[1, 0] = c11 - 2.0 * c66
    stiffness[:2, 2] = stiffness[2, :2] = c13
    return rotated_stiffness(stiffness, rotation_to(axis))


def stiffness_from_moduli(moduli: Sequence[float]) -> np.ndarray:
    """Return the symmetric matrix (6, 6) of 21 moduli, the upper triangle by rows (C11, C12, ..., C66)."""
    stiffness = np.zeros((6, 6))
    stiffness[_UPPER] = moduli
    return stiffness + np.triu(stiffness, 1).T


def aligned_moduli(stiffness: np.ndarray) -> tuple[float, ...]:
    """Return c11, c22, c33, c12, c13, c23, c44, c55 and c66: all moduli of a medium with symmetry axes x, y and z."""
    entries = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2), (3, 3), (4, 4), (5, 5))
    return tuple(float(stiffness[entry]) for entry in entries)


def is_orthorhombic(stiffness: np.ndarray) -> bool:
    """True if the symmetry axes of a medium are x, y and z: no modulus couples shear strain to another strain."""
    coupled = np.array(stiffness)
    coupled[:3, :3] = 0.0
    coupled[[3, 4, 5], [3, 4, 5]] = 0.0
    return bool(np.abs(coupled).max() <= _ROUNDING * np.abs(stiffness).max())


def is_transverse(stiffness: np.ndarray) -> bool:
    """True if a medium has a vertical symmetry axis."""
    c11, c22, _, c12, c13, c23, c44, c55, c66 = aligned_moduli(stiffness)
    differences = np.array([c11 - c22, c13 - c23, c44 - c55, c12 - (c11 - 2.0 * c66)])
    return is_orthorhombic(stiffness) and bool(np.abs(differences).max() <= _ROUNDING * np.abs(stiffness).max())


def rotation_to(axis: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return a rotation (3, 3) of the z axis to a direction (x, y, z); the identity for the z axis.

    Raises
    ------
    ValueError : the direction has no length.
    """
    direction = np.asarray(axis, dtype=float)
    length = np.linalg.norm(direction)
    if not length > 0.0:
        raise ValueError("the axis has no length")
    x, y, z = direction / length
    across = np.hypot(x, y)
    if across == 0.0:
        return np.diag([1.0, np.sign(z), np.sign(z)])
    east, north = x / across, y / across
    return np.array([[z * east, -north, x], [z * north, east, y], [-across, 0.0, z]])


def rotated_stiffness(stiffness: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Return the matrix (6, 6) of a medium rotated by a rotation (3, 3): c'_ijkl = R_ia R_jb R_kc R_ld c_abcd."""
    turn = "ia,jb,kc,ld,abcd->ijkl"
    tensor = np.einsum(turn, *[rotation] * 4, stiffness_tensor(stiffness), optimize=True)
    rows, columns = np.array(VOIGT_PAIRS).T
    turned = tensor[rows[:, None], columns[:, None], rows, columns]
    return 0.5 * (turned + turned.T)


def smallest_eigenvalue(stiffness: np.ndarray) -> float:
    """Return the smallest eigenvalue of a matrix (6, 6), Pa, which is positive for a stable solid.

    It belongs to the matrix in Voigt notation; a rotation of the medium changes its value, but not its sign.
    """
    return float(np.linalg.eigvalsh(stiffness)[0])


def christoffel_matrix(stiffness: np.ndarray, directions: ArrayLike) -> np.ndarray:
    """Return the Christoffel matrices (..., 3, 3) in Pa for unit vectors (..., 3): G_ik = c_ijkl n_j n_l."""
    normals = np.asarray(directions, dtype=float)
    return np.einsum("ijkl,...j,...l->...ik", stiffness_tensor(stiffness), normals, normals, optimize=True)


def phase_speeds(stiffness: np.ndarray, rho: float, directions: ArrayLike) -> np.ndarray:
    """Return phase speeds (..., 3) in m/s along unit vectors (..., 3), ascending: slow S, fast S, P."""
    squares = np.linalg.eigvalsh(christoffel_matrix(stiffness, directions)) / rho
    return np.sqrt(np.maximum(squares, 0.0))


def backward_waves(stiffness: np.ndarray, rho: float) -> np.ndarray:
    r"""Return for each axis the minimum of V_a n_a / c over all waves; negative if some waves travel backwards.

    Waves whose group velocity V and direction n have components of opposite sign along an axis a grow in a perfectly
    matched layer along it (Becache, Fauqueux & Joly 2003, J. Comput. Phys. 188, 399-433, condition C2). With the
    phase velocity c and the polarization g, V_j = C_ijkl g_i g_k n_l / (rho c).

    stiffness : (6, 6), Pa.
    """
    directions = _half_sphere(_DIRECTIONS)
    squares, vectors = np.linalg.eigh(christoffel_matrix(stiffness, directions) / rho)
    tensor = stiffness_tensor(stiffness) / rho
    group = np.einsum("ijkl,dim,dkm,dl->dmj", tensor, vectors, vectors, directions, optimize=True)
    return (group * directions[:, None] / squares[..., None]).min(axis=(0, 1))


def speed_range(stiffness: np.ndarray, rho: float) -> tuple[float, float]:
    """Return the minimum and the maximum phase speed over all directions, m/s.

    The extremum among some thousand directions, including the coordinate axes, is refined in increasingly narrow cones,
    to a relative accuracy of about 1e-8.
    """
    directions = _half_sphere(_DIRECTIONS)
    speeds = phase_speeds(stiffness, rho, directions)
    slowest, fastest = speeds[:, 0].argmin(), speeds[:, 2].argmax()
    low = -_refined(lambda n: -phase_speeds(stiffness, rho, n)[:, 0], directions[slowest])
    return low, _refined(lambda n: phase_speeds(stiffness, rho, n)[:, 2], directions[fastest])


def _refined(function: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> float:
    """Return the maximum of a function near a direction."""
    best, width = start, 2.0 * np.sqrt(2.0 * np.pi / _DIRECTIONS)
    value = float(function(best[None])[0])
    for _ in range(_REFINEMENTS):
        across = rotation_to(best)[:, :2]
        offsets = np.linspace(-width, width, _CONE)
        u, v = (offset.reshape(-1, 1) for offset in np.meshgrid(offsets, offsets))
        around = best + u * across[:, 0] + v * across[:, 1]
        around /= np.linalg.norm(around, axis=1, keepdims=True)
        values = function(around)
        largest = int(values.argmax())
        if values[largest] > value:
            best, value = around[largest], float(values[largest])
        width *= 2.5 / (_CONE - 1)
    return value


def _half_sphere(count: int) -> np.ndarray:
    """Return unit vectors (count + 3, 3), evenly spread over a half sphere, after the three axes."""
    z = (np.arange(count) + 0.5) / count
    angle = np.arange(count) * np.pi * (3.0 - np.sqrt(5.0))
    radius = np.sqrt(1.0 - z**2)
    return np.concatenate([np.eye(3), np.column_stack([radius * np.cos(angle), radius * np.sin(angle), z])])


RANGES = {"vp": (30.0, 30_000.0), "vs": (30.0, 30_000.0), "rho": (300.0, 25_000.0)}
"""Smallest and largest plausible value, m/s and kg/m^3: from dry snow and loose soil to the core of the Earth."""

DIMENSIONS = {"vp": "speed", "vs": "speed", "rho": "density"}
_LARGE_UNITS = {"speed": "km/s", "density": "g/cm^3"}  # both are 1000 SI units


def is_implausible(name: str, value: float) -> bool:
    """True if a value (SI) of vp, vs or rho is outside its range; vs = 0 is that of a fluid."""
    low, high = RANGES[name]
    return not low <= value <= high and not (name == "vs" and value == 0.0)


def unit_question(name: str, value: float) -> str:
    """Return ``did you mean 3.2 km/s (3200 m/s)?`` for an implausible value; empty if no usual unit explains it."""
    unit = likely_unit(name, value, value) if is_implausible(name, value) else ""
    if not unit:
        return ""
    si = si_unit(DIMENSIONS[name])
    meaning = f"{value:g} {unit} ({1000.0 * value:g} {si})" if unit != si else f"{value / 1000.0:g} {si}"
    return f"did you mean {meaning}?"


def likely_unit(name: str, low: float, high: float) -> str:
    """Return the unit of which the numbers most likely are: the large one if a thousandfold is plausible, the SI unit
    if a thousandth is; else nothing."""
    dimension = DIMENSIONS[name]
    for factor, unit in ((1e3, _LARGE_UNITS[dimension]), (1e-3, si_unit(dimension))):
        if not is_implausible(name, factor * low) and not is_implausible(name, factor * high):
            return unit
    return ""


def allowed(name: str) -> str:
    """Return the plausible range of a property as text."""
    low, high = RANGES[name]
    fluid = ", or 0 in a fluid" if name == "vs" else ""
    return f"allowed: {low:g} to {with_unit(high, DIMENSIONS[name])}{fluid}"


def _moduli(value: object) -> object:
    items = value.tolist() if hasattr(value, "tolist") else value
    expected = (
        f"expected {MODULI_COUNT} moduli in Pa: the upper triangle, by rows, of the 6 x 6 matrix in the order "
        "xx, yy, zz, yz, xz, xy"
    )
    if not isinstance(items, (list, tuple)):
        raise refusal(f"{shown(value)} is not a list of moduli", expected)
    if len(items) != MODULI_COUNT:
        raise refusal(f"has {len(items)} item{'' if len(items) == 1 else 's'}", expected)
    return items


class Anisotropy(DescriptionModel):
    """Transverse isotropy after Thomsen (1986), Geophysics 51(10), 1954-1966; vp and vs apply along the axis."""

    epsilon: Number = Field(default=0.0, description="P anisotropy: (C11 - C33) / (2 C33).")
    delta: Number = Field(
        default=0.0,
        description="((C13 + C44)^2 - (C33 - C44)^2) / (2 C33 (C33 - C44)): P waves close to the axis.",
    )
    gamma: Number = Field(default=0.0, description="SH anisotropy: (C66 - C44) / (2 C44).")
    axis: Direction = Field(
        default=(0.0, 0.0, 1.0), description="Direction [x, y, z] of the symmetry axis; its length is not used."
    )

    @model_validator(mode="after")
    def _has_axis(self) -> Self:
        if not any(self.axis):
            raise refusal("the axis has no length", "at least one component must differ from 0", at=("axis",))
        return self


class ElasticProperties(DescriptionModel):
    """Wave speeds and density of a medium: isotropic with vp^2 > 4/3 vs^2, or with ``anisotropy``.

    A ``stiffness`` replaces vp and vs, which are then the maximum and the minimum phase velocity.

    With ``qp`` and ``qs``, the medium attenuates waves (see ``material.attenuation``); without them it is elastic. In
    an anisotropic medium they are those of the isotropic average of the stiffness. Instead, ``qkappa`` and ``qmu`` may
    be given: qs = qmu and 1/qp = (1 - L)/qkappa + L/qmu with L = 4/3 vs^2/vp^2.
    """

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["vp", "vs"]}, {"required": ["stiffness"]}]})

    vp: PositiveSpeed | None = Field(default=None, description="P-wave velocity, m/s.")
    vs: NonNegativeSpeed | None = Field(
        default=None, description="S-wave velocity, m/s; 0 denotes a fluid (not with finite_difference)."
    )
    rho: PositiveDensity = Field(description="Density, kg/m^3.")
    anisotropy: Anisotropy | None = Field(
        default=None,
        description="Transverse isotropy with vp and vs along its axis (finite_difference: an axis along x, y or z).",
    )
    stiffness: Annotated[tuple[Pressure, ...], BeforeValidator(_moduli)] | None = Field(
        default=None,
        description="Instead of vp and vs: 21 moduli in Pa, the upper triangle by rows of the 6 x 6 matrix in the "
        "order xx, yy, zz, yz, xz, xy (finite_difference: with symmetry axes x, y and z).",
    )
    qp: QualityFactor | None = Field(
        default=None, description="Quality factor of P waves; in a solid together with qs. Default: no attenuation."
    )
    qs: QualityFactor | None = Field(
        default=None, description="Quality factor of S waves; qp must be at most qs / (4/3 vs^2/vp^2)."
    )
    qkappa: QualityFactor | None = Field(
        default=None, description="Instead of qp: quality factor of the bulk modulus; in a solid together with qmu."
    )
    qmu: QualityFactor | None = Field(default=None, description="Instead of qs: quality factor of the shear modulus.")

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.stiffness is not None:
            self._check_alone()
            self._check_stable("stiffness")
            slowest, fastest = self.speed_range
            # What follows, not a choice of the user: not counted among the fields that were set.
            self._settle(vp=fastest, vs=slowest)
            self._check_quality()
            return self
        for key in ("vp", "vs"):
            if getattr(self, key) is None:
                raise refusal("is missing", "this key is required (or stiffness instead of vp and vs)", at=(key,))
        if self.is_anisotropic:
            self._check_stable("anisotropy")
        else:
            self._check_bulk_modulus()
        self._check_quality()
        return self

    def _check_alone(self) -> None:
        extra = self._given("vp", "vs", "anisotropy")
        if extra:
            allowed = "stiffness replaces vp, vs and anisotropy"
            raise refusal(f"stiffness and {extra[0]} are both given", allowed, at=(extra[0],))

    def _check_stable(self, key: str) -> None:
        try:
            smallest = smallest_eigenvalue(self.stiffness_matrix())
        except ValueError as error:
            limit = f"{'least' if self.vp > self.vs else 'most'} {0.5 * ((self.vs / self.vp) ** 2 - 1.0):.6g}"
            raise refusal(
                f"{error}: delta = {self.anisotropy.delta:g} with vp = {self.vp:g} m/s and vs = {self.vs:g} m/s",
                f"delta must be at {limit}",
                at=(key, "delta"),
            ) from None
        if not smallest > 0.0:
            raise refusal(
                f"the stiffness is not positive definite: its smallest eigenvalue is {smallest:.6g} Pa",
                "all eigenvalues must be above 0: deformation takes energy",
                at=(key,),
            )

    def _check_bulk_modulus(self) -> None:
        problem = value_problem(*(np.array([value]) for value in (self.vp, self.vs, self.rho)), lambda _: "")
        if problem:
            least = 2.0 / np.sqrt(3.0) * self.vs
            question = unit_question("vp", self.vp)
            raise refusal(problem[0].strip(), problem[1], question or f"for this vs, vp must be above {least:.6g} m/s")

    def _check_quality(self) -> None:
        if self.qkappa is not None or self.qmu is not None:
            self._check_moduli_quality()
        if self.qp is None and self.qs is None:
            return
        self._require_both(WAVES)
        problem = quality_problem(WAVES, *self._quality_arrays, lambda _: "")
        if problem:
            raise refusal(*problem, at=("qp",))

    def _require_both(self, names: tuple[str, str]) -> None:
        """Require both quality factors of a solid, and the first one only of a fluid."""
        first, second = names
        if self.is_fluid and getattr(self, second) is not None:
            got = f"{getattr(self, second):.12g} is given, but vs = 0 denotes a fluid"
            raise refusal(got, f"a fluid has the quality factor {first} only", at=(second,))
        for key, other in (names, names[::-1]):
            if getattr(self, key) is None and not (self.is_fluid and key == second):
                raise refusal(f"is missing, while {other} is given", "a solid has both or none", at=(key,))

    def _check_moduli_quality(self) -> None:
        """Refuse qkappa and qmu that are incomplete or in addition to qp and qs, and set the qp and qs that follow."""
        for key in WAVES:
            if key in self.model_fields_set and getattr(self, key) is not None:
                given = "qkappa" if self.qkappa is not None else "qmu"
                raise refusal(f"{given} and {key} are both given", "give qp and qs, or qkappa and qmu", at=(key,))
        self._require_both(MODULI)
        vp, vs = self.isotropic_speeds
        share = 4.0 / 3.0 * (vs / vp) ** 2
        loss = (1.0 - share) / self.qkappa + (share / self.qmu if self.qmu is not None else 0.0)
        # What follows, not a choice of the user: not counted among the fields that were set.
        self._settle(qp=1.0 / loss, qs=self.qmu)

    @property
    def _quality_arrays(self) -> tuple[np.ndarray | None, ...]:
        values = (self.qp, self.qs, *self.isotropic_speeds)
        return tuple(None if value is None else np.array([value]) for value in values)

    @model_serializer(mode="wrap")
    def _only_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        derived = () if self.stiffness is None else ("vp", "vs")
        derived += () if self.qkappa is None else WAVES
        return {key: value for key, value in handler(self).items() if value is not None and key not in derived}

    @property
    def is_anisotropic(self) -> bool:
        """True if a stiffness is given, or an anisotropy that is not all zero."""
        given = self.anisotropy
        return self.stiffness is not None or (given is not None and any((given.epsilon, given.delta, given.gamma)))

    @property
    def is_fluid(self) -> bool:
        """True if there are no S waves: vs is 0."""
        return self.vs == 0.0

    @property
    def has_attenuation(self) -> bool:
        """True if quality factors are given."""
        return self.qp is not None

    @property
    def isotropic_speeds(self) -> tuple[float, float]:
        """vp and vs of an isotropic medium; of an anisotropic one, those of the Voigt average of its stiffness, m/s."""
        if not self.is_anisotropic:
            return self.vp, self.vs
        kappa, mu = voigt_average(self.stiffness_matrix())
        return float(np.sqrt((kappa + 4.0 / 3.0 * mu) / self.rho)), float(np.sqrt(mu / self.rho))

    @cached_property
    def inverse_quality(self) -> tuple[float, float]:
        """1/Qkappa and 1/Qmu, the inverse quality factors of the bulk and the shear modulus; 0 in an elastic medium."""
        if not self.has_attenuation:
            return 0.0, 0.0
        if self.qkappa is not None:
            return 1.0 / self.qkappa, 0.0 if self.qmu is None else 1.0 / self.qmu
        bulk, shear = inverse_quality_of(WAVES, *self._quality_arrays)
        return float(bulk[0]), float(shear[0])

    def stiffness_matrix(self) -> np.ndarray:
        """Return the stiffness (6, 6) in Pa, rows and columns xx, yy, zz, yz, xz, xy, also of an isotropic medium."""
        if self.stiffness is not None:
            return stiffness_from_moduli(self.stiffness)
        if not self.is_anisotropic:
            return isotropic_stiffness(*lame_moduli(self.vp, self.vs, self.rho))  # type: ignore[type-var]
        given = self.anisotropy
        return thomsen_stiffness(self.vp, self.vs, self.rho, given.epsilon, given.delta, given.gamma, given.axis)

    @cached_property
    def speed_range(self) -> tuple[float, float]:
        """The slowest and the fastest phase speed over all directions, m/s.

        (vs, vp) of an isotropic solid, (vp, vp) of a fluid, which has one wave.
        """
        if self.is_fluid:
            return self.vp, self.vp
        if not self.is_anisotropic:
            return self.vs, self.vp
        return speed_range(self.stiffness_matrix(), self.rho)
