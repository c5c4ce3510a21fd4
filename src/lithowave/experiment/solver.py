"""The numerical method and its resolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from .base import DescriptionModel, InputFile, refusal
from .units import Count, PositiveDuration, PositiveFrequency, PositiveLength, WholeNumber, quantity

AVAILABLE_METHODS = ("finite_difference", "spectral_element")

RECOMMENDED_POINTS_PER_WAVELENGTH: Mapping[int, float] = {2: 20.0, 4: 8.0, 6: 6.0, 8: 5.0}
"""Finite differences: grid points in the shortest wavelength at ``max_frequency``, by order: the default."""

SMALLEST_POINTS_PER_WAVELENGTH: Mapping[int, float] = {2: 10.0, 4: 5.0, 6: 4.0, 8: 3.5}
"""Fewer are refused: the phase error of a path of ten wavelengths would pass a tenth of a period."""

RECOMMENDED_POINTS_BY_DEGREE: Mapping[int, float] = {2: 12.0, 3: 9.0, 4: 7.0, 5: 6.0, 6: 5.5, 7: 5.0, 8: 5.0}
"""Spectral elements: degree times the shortest wavelength over the element size: the default."""

SMALLEST_POINTS_BY_DEGREE: Mapping[int, float] = {2: 6.0, 3: 5.0, 4: 4.0, 5: 4.0, 6: 3.5, 7: 3.5, 8: 3.5}
"""Fewer are refused."""

DEFAULT_DEGREE = 4

_FINITE_DIFFERENCE_ORDERS = (2, 4, 6, 8)
_FINITE_DIFFERENCE_KEYS = ("order", "coefficients", "passes")
_SPECTRAL_ELEMENT_KEYS = ("degree", "mesh")

PARAMETERS_BY_METHOD: Mapping[str, tuple[str, ...]] = {
    "finite_difference": _FINITE_DIFFERENCE_KEYS,
    "spectral_element": ("degree",),
}
"""Keys of ``solver`` that only tune their method. A ``mesh`` is not one: without it the ground would be another."""


def _method(value: Any) -> Any:
    if value == "discontinuous_galerkin":
        raise refusal(
            f"{value} is not available in this version", f"available: {', '.join(AVAILABLE_METHODS)}"
        )
    return value


def _foreign_key(key: str, method: str, at: tuple[str, ...]) -> PydanticCustomError:
    own = _SPECTRAL_ELEMENT_KEYS if method == "spectral_element" else _FINITE_DIFFERENCE_KEYS[:2]
    return refusal(
        f"the key {key!r} does not apply to {method}",
        f"keys for {method}: {', '.join(own)}, spacing, points_per_wavelength",
        at=at,
    )


def _mesh(value: Any, info: ValidationInfo) -> Any:
    # Before the file is looked for: with another method it is the key that is wrong.
    if value is not None and info.data.get("method") == "finite_difference":
        raise _foreign_key("mesh", "finite_difference", ())
    return value


class Solver(DescriptionModel):
    """Method, order and grid or mesh.

    The grid step of finite differences is the shortest wavelength (slowest wave at ``max_frequency``) over
    ``points_per_wavelength``, or ``spacing`` where that is given. An element of the spectral elements is ``degree``
    times as large: it has that many steps from point to point along a side, which are not equal. A ``mesh`` has its
    own sizes.
    """

    method: Annotated[
        Literal["finite_difference", "spectral_element", "discontinuous_galerkin"], BeforeValidator(_method)
    ] = Field(
        default="finite_difference", description="The numerical method: finite_difference or spectral_element."
    )
    max_frequency: PositiveFrequency | None = Field(
        default=None,
        description="Highest frequency that is to be resolved, Hz. May be left out where spacing or mesh is given.",
    )
    points_per_wavelength: quantity("number", gt=0) | None = Field(  # type: ignore[valid-type]
        default=None,
        description="Points in the shortest wavelength. Default of finite differences for order 2, 4, 6, 8: 20, 8, 6, "
        "5; of spectral elements for degree 2 to 8: 12, 9, 7, 6, 5.5, 5, 5.",
    )
    spacing: PositiveLength | None = Field(
        default=None,
        description="In place of points_per_wavelength: grid step (finite_difference) or size of an element "
        "(spectral_element), m.",
    )
    order: Count = Field(
        default=4,
        description="Order of accuracy in space: 2, 4, 6 or 8 (finite_difference only).",
        json_schema_extra={"enum": list(_FINITE_DIFFERENCE_ORDERS)},
    )
    coefficients: Literal["taylor", "optimized"] = Field(
        default="taylor",
        description="Difference coefficients: of highest order, or optimized for small dispersion (order 4; "
        "finite_difference only).",
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
    degree: Annotated[int, WholeNumber(ge=2, le=8)] | None = Field(
        default=None, description="Polynomial degree, 2 to 8 (spectral_element only); 4 unless given."
    )
    mesh: Annotated[InputFile | None, BeforeValidator(_mesh)] = Field(
        default=None, description="File with an unstructured mesh of hexahedra (spectral_element only)."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key in self.foreign_keys:
            if key in self.model_fields_set and getattr(self, key) is not None:
                raise _foreign_key(key, self.method, (key,))
        if self.method == "finite_difference":
            self._check_order()
        elif self.degree is None:
            # A default, not a choice of the user: it is not counted among the fields that were set.
            self.__dict__["degree"] = DEFAULT_DEGREE
        if self.mesh is not None:
            self._check_mesh()
        else:
            self._check_resolution()
        return self

    def _check_mesh(self) -> None:
        for key in ("spacing", "points_per_wavelength"):
            if getattr(self, key) is not None:
                raise refusal(
                    f"mesh and {key} are both given", "the mesh has its own sizes of elements", at=(key,)
                )

    def _check_order(self) -> None:
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

    def _check_resolution(self) -> None:
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

    def _check_points(self, points: float | None) -> None:
        if points is None:
            # A default, not a choice of the user: it is not counted among the fields that were set.
            self.__dict__["points_per_wavelength"] = self.recommended_points
        elif points < self.smallest_points:
            raise refusal(
                f"{points:.12g} points per wavelength are too few",
                f"{self.accuracy} needs at least {self.smallest_points:g}; {self.recommended_points:g} are recommended",
                at=("points_per_wavelength",),
            )

    @property
    def foreign_keys(self) -> tuple[str, ...]:
        """The keys of ``solver`` that only other methods have."""
        return _FINITE_DIFFERENCE_KEYS if self.method == "spectral_element" else _SPECTRAL_ELEMENT_KEYS

    @property
    def accuracy(self) -> str:
        """Order or degree as text: ``order 4``, ``degree 4``."""
        return f"degree {self.degree}" if self.method == "spectral_element" else f"order {self.order}"

    @property
    def recommended_points(self) -> float:
        """Points in the shortest wavelength that are usual for this method and order or degree."""
        if self.method == "spectral_element":
            return RECOMMENDED_POINTS_BY_DEGREE[self.degree]
        return RECOMMENDED_POINTS_PER_WAVELENGTH[self.order]

    @property
    def smallest_points(self) -> float:
        """Points in the shortest wavelength below which a simulation is refused."""
        if self.method == "spectral_element":
            return SMALLEST_POINTS_BY_DEGREE[self.degree]
        return SMALLEST_POINTS_PER_WAVELENGTH[self.order]

    @property
    def steps_per_spacing(self) -> int:
        """Steps from point to point in one ``spacing``: 1 of a grid, the degree in an element."""
        return self.degree if self.method == "spectral_element" else 1

    def resolution_points(self, wavelength: float) -> float | None:
        """Points that ``spacing`` gives in a wavelength (m); None where there is no ``spacing``.

        Finite differences: wavelength / spacing. Spectral elements: degree * wavelength / spacing.
        """
        return None if self.spacing is None else self.steps_per_spacing * wavelength / self.spacing
