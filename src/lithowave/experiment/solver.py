"""The numerical method and its resolution."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from .base import DescriptionModel, refusal
from .units import Count, PositiveDuration, PositiveFrequency, PositiveLength, quantity

AVAILABLE_METHODS = ("finite_difference",)

RECOMMENDED_POINTS_PER_WAVELENGTH: Mapping[int, float] = {2: 20.0, 4: 8.0, 6: 6.0, 8: 5.0}
"""Grid points in the shortest wavelength at ``max_frequency``, by order in space: the default."""

SMALLEST_POINTS_PER_WAVELENGTH: Mapping[int, float] = {2: 10.0, 4: 5.0, 6: 4.0, 8: 3.5}
"""Fewer are refused: the phase error of a path of ten wavelengths would pass a tenth of a period."""

_FINITE_DIFFERENCE_ORDERS = (2, 4, 6, 8)
OTHER_METHODS_KEYS = ("degree", "mesh")


def _method(value: Any) -> Any:
    if value in ("spectral_element", "discontinuous_galerkin"):
        raise refusal(
            f"{value} is not available in this version", f"available: {', '.join(AVAILABLE_METHODS)}"
        )
    return value


class Solver(DescriptionModel):
    """Method, order and grid.

    The grid step is the shortest wavelength (slowest wave at ``max_frequency``) over
    ``points_per_wavelength``, or ``spacing`` where that is given.
    """

    method: Annotated[
        Literal["finite_difference", "spectral_element", "discontinuous_galerkin"], BeforeValidator(_method)
    ] = Field(
        default="finite_difference", description="The numerical method; finite_difference in this version."
    )
    max_frequency: PositiveFrequency | None = Field(
        default=None,
        description="Highest frequency that is to be resolved, Hz. May be left out where spacing is given.",
    )
    points_per_wavelength: quantity("number", gt=0) | None = Field(  # type: ignore[valid-type]
        default=None,
        description="Grid points in the shortest wavelength. Default for order 2, 4, 6, 8: 20, 8, 6, 5.",
    )
    spacing: PositiveLength | None = Field(
        default=None, description="Grid step in m, in place of points_per_wavelength."
    )
    order: Count = Field(
        default=4,
        description="Order of accuracy in space: 2, 4, 6 or 8.",
        json_schema_extra={"enum": list(_FINITE_DIFFERENCE_ORDERS)},
    )
    coefficients: Literal["taylor", "optimized"] = Field(
        default="taylor",
        description="Difference coefficients: of highest order, or optimized for small dispersion (order 4).",
    )
    passes: Literal["auto", "one", "two"] = Field(
        default="auto",
        description="Passes over memory for a step of finite differences; one is faster where a GPU has room for it.",
    )
    time_step: PositiveDuration | None = Field(
        default=None, description="Time step in s; null: the largest stable one times safety."
    )
    safety: quantity("number", gt=0, le=1) = Field(  # type: ignore[valid-type]
        default=0.9, description="The time step as a fraction of the stability limit."
    )
    degree: Count | None = Field(default=None, description="Polynomial degree (spectral_element only).")
    mesh: Path | None = Field(
        default=None, description="Unstructured mesh (spectral_element and discontinuous_galerkin only)."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key in OTHER_METHODS_KEYS:
            if getattr(self, key) is not None:
                raise refusal(
                    f"the key {key!r} does not apply to {self.method}",
                    "keys for finite_difference: order, coefficients, spacing, points_per_wavelength",
                    at=(key,),
                )
        if self.order not in _FINITE_DIFFERENCE_ORDERS:
            raise refusal(
                f"{self.order} is not an order of finite_difference", "choose 2, 4, 6 or 8", at=("order",)
            )
        if self.coefficients == "optimized" and self.order != 4:
            raise refusal(
                f"optimized coefficients are for order 4; the order is {self.order}",
                "use order 4, or coefficients: taylor",
                at=("coefficients",),
            )
        if self.spacing is None and self.max_frequency is None:
            raise refusal(
                "nothing says how fine the grid is to be",
                "give max_frequency (with points_per_wavelength if the default is not right), or spacing",
            )
        if self.spacing is not None and self.points_per_wavelength is not None:
            raise refusal(
                f"spacing ({self.spacing:.12g} m) and points_per_wavelength "
                f"({self.points_per_wavelength:.12g}) "
                "are both given",
                "give one of them; the other follows",
                at=("spacing",),
            )
        if self.spacing is None:
            self._check_points(self.points_per_wavelength)
        return self

    def _check_points(self, points: float | None) -> None:
        smallest = SMALLEST_POINTS_PER_WAVELENGTH[self.order]
        if points is None:
            # A default, not a choice of the user: it is not counted among the fields that were set.
            self.__dict__["points_per_wavelength"] = RECOMMENDED_POINTS_PER_WAVELENGTH[self.order]
        elif points < smallest:
            raise refusal(
                f"{points:.12g} points per wavelength are too few",
                f"order {self.order} needs at least {smallest:g}; "
                f"{RECOMMENDED_POINTS_PER_WAVELENGTH[self.order]:g} are recommended",
                at=("points_per_wavelength",),
            )
