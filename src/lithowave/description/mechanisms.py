"""Moment tensors in x East, y North, z Up; components in the order xx, yy, zz, xy, xz, yz."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from lithowave.description.base import DescriptionModel
from lithowave.description.refusals import refusal
from lithowave.description.units import Moment, PositiveMoment, quantity
from lithowave.physics.moments import double_couple, moment_of_magnitude

MomentTuple = tuple[float, float, float, float, float, float]


_COMPONENTS = ("xx", "yy", "zz", "xy", "xz", "yz")
_SPHERICAL = ("rr", "tt", "pp", "rt", "rp", "tp")


class MomentTensor(DescriptionModel):
    """The six components, N m; omitted components are zero.

    Instead of the axes x (East), y (North) and z (Up), the components may refer to r (Up), t (South) and p (East), as
    in catalogs: xx = pp, yy = tt, zz = rr, xy = -tp, xz = rp, yz = -rt. Values in dyn cm need the unit:
    ``1e25 dyn cm``.

    East and North are true at a position on the Earth, else x and y.
    """

    xx: Moment = Field(default=0.0, description="East-East, N m.")
    yy: Moment = Field(default=0.0, description="North-North, N m.")
    zz: Moment = Field(default=0.0, description="Up-Up, N m.")
    xy: Moment = Field(default=0.0, description="East-North, N m.")
    xz: Moment = Field(default=0.0, description="East-Up, N m.")
    yz: Moment = Field(default=0.0, description="North-Up, N m.")
    rr: Moment | None = Field(default=None, description="Instead of x, y, z: Up-Up, N m.")
    tt: Moment | None = Field(default=None, description="South-South, N m.")
    pp: Moment | None = Field(default=None, description="East-East, N m.")
    rt: Moment | None = Field(default=None, description="Up-South, N m.")
    rp: Moment | None = Field(default=None, description="Up-East, N m.")
    tp: Moment | None = Field(default=None, description="South-East, N m.")

    @model_validator(mode="after")
    def _in_local_axes(self) -> Self:
        given = [name for name in _SPHERICAL if getattr(self, name) is not None]
        if not given:
            return self
        if others := [name for name in _COMPONENTS if name in self.model_fields_set]:
            allowed = "give xx, yy, zz, xy, xz, yz, or rr, tt, pp, rt, rp, tp"
            raise refusal(f"{others[0]} and {given[0]} are both given", allowed, at=(given[0],))
        rr, tt, pp, rt, rp, tp = (float(getattr(self, name) or 0.0) for name in _SPHERICAL)
        values = dict(zip(_COMPONENTS, (pp, tt, rr, 0.0 - tp, rp, 0.0 - rt), strict=True))
        # Stored and written in the local axes only, as if these had been given.
        self.__dict__.update(values, **dict.fromkeys(_SPHERICAL))
        self.model_fields_set.clear()
        self.model_fields_set.update(_COMPONENTS)
        return self

    @model_serializer(mode="wrap")
    def _components_only(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if key in _COMPONENTS}

    @model_validator(mode="after")
    def _not_zero(self) -> Self:
        if not any(self.components):
            raise refusal("all components are zero", "give at least one of xx, yy, zz, xy, xz and yz, in N m")
        return self

    @property
    def components(self) -> MomentTuple:
        """(xx, yy, zz, xy, xz, yz), N m."""
        return (self.xx, self.yy, self.zz, self.xy, self.xz, self.yz)


class DoubleCouple(DescriptionModel):
    """Slip on a fault plane, after Aki & Richards: the plane dips to the right of the strike direction."""

    strike: quantity("angle", ge=-360, le=360) = Field(  # type: ignore[valid-type]
        description="Clockwise from North, degrees: true North at a position on the Earth, else y."
    )
    dip: quantity("angle", ge=0, le=90) = Field(description="Angle down from the horizontal, degrees.")  # type: ignore[valid-type]
    rake: quantity("angle", ge=-360, le=360) = Field(  # type: ignore[valid-type]
        description="Slip direction of the hanging wall relative to the strike, positive upwards, degrees."
    )
    m0: PositiveMoment | None = Field(default=None, description="Scalar moment, N m; alternative to mw.")
    mw: quantity("number", ge=-10, le=11) | None = Field(  # type: ignore[valid-type]
        default=None, description="Moment magnitude, (log10 m0 - 9.1) / 1.5; alternative to m0."
    )

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.m0 is None) == (self.mw is None):
            got = "m0 and mw are both given" if self.m0 is not None else "neither m0 nor mw is given"
            raise refusal(got, "give one of them: m0 in N m, or mw")
        return self

    @property
    def scalar_moment(self) -> float:
        """M0 in N m: 10^(1.5 mw + 9.1) where the magnitude is given (IASPEI standard)."""
        return self.m0 if self.m0 is not None else moment_of_magnitude(float(self.mw or 0.0))

    @property
    def components(self) -> MomentTuple:
        """(xx, yy, zz, xy, xz, yz), N m."""
        xx, yy, zz, xy, xz, yz = (self.scalar_moment * double_couple(self.strike, self.dip, self.rake)).tolist()
        return (xx, yy, zz, xy, xz, yz)
