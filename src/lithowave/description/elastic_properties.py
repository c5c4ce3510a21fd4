"""Wave speeds, density and quality factors of one medium, isotropic or not."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from lithowave.description.anisotropy import (
    MODULI_COUNT,
    smallest_eigenvalue,
    speed_range,
    stiffness_from_moduli,
    thomsen_stiffness,
)
from lithowave.description.base import DescriptionModel
from lithowave.description.media import value_problem
from lithowave.description.plausibility import unit_question
from lithowave.description.quality_values import MODULI, WAVES, inverse_quality_of, quality_problem
from lithowave.description.refusals import refusal, shown
from lithowave.description.units import (
    Direction,
    NonNegativeSpeed,
    Number,
    PositiveDensity,
    PositiveSpeed,
    Pressure,
    QualityFactor,
)
from lithowave.physics.elasticity import isotropic_stiffness, lame_moduli, voigt_average


def _moduli(value: Any) -> Any:
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

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["vp", "vs"]}, {"required": ["stiffness"]}]}
    )

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
    qmu: QualityFactor | None = Field(
        default=None, description="Instead of qs: quality factor of the shear modulus."
    )

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.stiffness is not None:
            self._check_alone()
            self._check_stable("stiffness")
            slowest, fastest = self.speed_range
            # What follows, not a choice of the user: not counted among the fields that were set.
            self.__dict__.update(vp=fastest, vs=slowest)
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
        extra = [key for key in ("vp", "vs", "anisotropy") if getattr(self, key) is not None]
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
        if self.is_fluid and self.qs is not None:
            got = f"{self.qs:.12g} is given, but vs = 0 denotes a fluid"
            raise refusal(got, "a fluid has the quality factor qp only", at=("qs",))
        for key, other in (WAVES, WAVES[::-1]):
            if getattr(self, key) is None and not self.is_fluid:
                raise refusal(f"is missing, while {other} is given", "a solid has both or none", at=(key,))
        problem = quality_problem(WAVES, *self._quality_arrays, lambda _: "")
        if problem:
            raise refusal(*problem, at=("qp",))

    def _check_moduli_quality(self) -> None:
        """Refuse qkappa and qmu that are incomplete or in addition to qp and qs, and set the qp and qs that follow."""
        for key in WAVES:
            if key in self.model_fields_set and getattr(self, key) is not None:
                given = "qkappa" if self.qkappa is not None else "qmu"
                raise refusal(f"{given} and {key} are both given", "give qp and qs, or qkappa and qmu", at=(key,))
        if self.is_fluid and self.qmu is not None:
            got = f"{self.qmu:.12g} is given, but vs = 0 denotes a fluid"
            raise refusal(got, "a fluid has the quality factor qkappa only", at=("qmu",))
        for key, other in (MODULI, MODULI[::-1]):
            if getattr(self, key) is None and not (self.is_fluid and key == "qmu"):
                raise refusal(f"is missing, while {other} is given", "a solid has both or none", at=(key,))
        vp, vs = self.isotropic_speeds
        share = 4.0 / 3.0 * (vs / vp) ** 2
        loss = (1.0 - share) / self.qkappa + (share / self.qmu if self.qmu is not None else 0.0)
        # What follows, not a choice of the user: not counted among the fields that were set.
        self.__dict__.update(qp=1.0 / loss, qs=self.qmu)

    @property
    def _quality_arrays(self) -> tuple[np.ndarray | None, ...]:
        values = (self.qp, self.qs, *self.isotropic_speeds)
        return tuple(None if value is None else np.array([value]) for value in values)

    @model_serializer(mode="wrap")
    def _only_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        derived = () if self.stiffness is None else ("vp", "vs")
        derived += () if self.qkappa is None else WAVES
        return {
            key: value for key, value in handler(self).items() if value is not None and key not in derived
        }

    @property
    def is_anisotropic(self) -> bool:
        """True if a stiffness is given, or an anisotropy that is not all zero."""
        given = self.anisotropy
        return self.stiffness is not None or (
            given is not None and any((given.epsilon, given.delta, given.gamma))
        )

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
            return isotropic_stiffness(*lame_moduli(self.vp, self.vs, self.rho))
        given = self.anisotropy
        return thomsen_stiffness(
            self.vp, self.vs, self.rho, given.epsilon, given.delta, given.gamma, given.axis
        )

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
