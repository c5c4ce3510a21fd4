"""The numerical method and its resolution, the device and the parallel execution, and terms of the equations of motion.

Levels of accuracy (``solver.accuracy``) are points per wavelength with measured errors of seismograms. Errors are
relative L2 differences from a reference, the largest of several problems with waves up to ``max_frequency`` along paths
of about ten wavelengths: layers below a free surface, a half-space and a full space (`benchmarks/cost_and_error.py`;
table in docs/performance.md). They include reflections of absorbing layers at their default thickness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from lithowave.description.base import DescriptionModel, InputFile, existing_file, keys_as_text
from lithowave.description.text import refusal
from lithowave.description.units import (
    Count,
    PositiveDuration,
    PositiveFrequency,
    PositiveLength,
    WholeNumber,
    quantity,
)
from lithowave.readers.meshes import IGNORED, SURFACE_NAMES
from lithowave.readers.other_meshes import MESH_FILE, specfem_files

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

RECOMMENDED_POINTS_PER_WAVELENGTH: Mapping[int, float] = {2: 20.0, 4: 8.0, 6: 9.0, 8: 9.0}
"""Finite differences: grid points in the shortest wavelength at ``max_frequency``, by order: the default. Higher orders
need as many points as order 4 because the free surface and interfaces are of second order."""

SMALLEST_POINTS_PER_WAVELENGTH: Mapping[int, float] = {2: 10.0, 4: 5.0, 6: 4.0, 8: 3.5}
"""Fewer are refused: the phase error of a path of ten wavelengths would pass a tenth of a period."""

RECOMMENDED_POINTS_BY_DEGREE: Mapping[int, float] = {2: 12.0, 3: 9.0, 4: 7.0, 5: 6.0, 6: 5.5, 7: 5.0, 8: 5.0}
"""Spectral elements: degree times the shortest wavelength over the element size: the default."""

SMALLEST_POINTS_BY_DEGREE: Mapping[int, float] = {2: 6.0, 3: 5.0, 4: 4.0, 5: 4.0, 6: 3.5, 7: 3.5, 8: 3.5}
"""Fewer are refused."""

RECOMMENDED_POINTS_BY_ORDER: Mapping[int, float] = {2: 24.0, 3: 14.0, 4: 10.0, 5: 7.0, 6: 7.0, 7: 7.0}
"""Discontinuous Galerkin: order times the shortest wavelength over the size of elements (the edge of the cubes that
are split into tetrahedra): the default."""

SMALLEST_POINTS_BY_ORDER: Mapping[int, float] = {2: 10.0, 3: 7.0, 4: 5.0, 5: 4.0, 6: 4.0, 7: 4.0}
"""Fewer are refused."""


@dataclass(frozen=True)
class MethodKeys:
    """The keys of ``solver`` for one method.

    Attributes
    ----------
    accuracy : the key that sets the accuracy: ``order`` or ``degree``.
    default : its value where none is given.
    tuning : all keys that only tune this method.
    recommended, smallest : points in the shortest wavelength by accuracy: the default, and below which it is refused.
    in_elements : whether ``spacing`` is the size of elements, with as many steps as the accuracy says, or a grid step.
    has_mesh : whether the method takes a ``mesh``.
    choices : the values of the accuracy in words.
    curved : whether elements follow surfaces between their corners.
    """

    accuracy: str
    default: int
    tuning: tuple[str, ...]
    recommended: Mapping[int, float]
    smallest: Mapping[int, float]
    in_elements: bool
    has_mesh: bool
    choices: str
    curved: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of ``solver`` that not every method has."""
        return (*self.tuning, "mesh") if self.has_mesh else self.tuning


METHODS: Mapping[str, MethodKeys] = {
    "finite_difference": MethodKeys(
        accuracy="order", default=4,
        tuning=("order", "passes", "effective_medium", "memory_variables", "time_dispersion_correction"),
        recommended=RECOMMENDED_POINTS_PER_WAVELENGTH, smallest=SMALLEST_POINTS_PER_WAVELENGTH, in_elements=False,
        has_mesh=False, choices="2, 4, 6 or 8",
    ),
    "spectral_element": MethodKeys(
        accuracy="degree", default=4,
        tuning=("degree", "refine_sources", "memory_variables", "time_dispersion_correction"),
        recommended=RECOMMENDED_POINTS_BY_DEGREE, smallest=SMALLEST_POINTS_BY_DEGREE, in_elements=True, has_mesh=True,
        curved=True, choices="2 to 8",
    ),
    "discontinuous_galerkin": MethodKeys(
        accuracy="order", default=5, tuning=("order", "local_time_steps", "refine_sources"),
        recommended=RECOMMENDED_POINTS_BY_ORDER, smallest=SMALLEST_POINTS_BY_ORDER, in_elements=True, has_mesh=True,
        choices="2 to 7",
    ),
}  # fmt: skip
"""The numerical methods."""

PARAMETERS_BY_METHOD: Mapping[str, tuple[str, ...]] = {name: method.tuning for name, method in METHODS.items()}
"""Keys of ``solver`` that only tune their method. A ``mesh`` is not one: without it the ground would be another."""

_OWN_KEYS = tuple(dict.fromkeys(key for method in METHODS.values() for key in method.keys))
"""All keys that some method lacks."""

_ORDERS: list[Any] = sorted({*SMALLEST_POINTS_PER_WAVELENGTH, *SMALLEST_POINTS_BY_ORDER})


def _foreign_key(key: str, method: str, at: tuple[str, ...]) -> PydanticCustomError:
    own = (*METHODS[method].keys, "spacing", "points_per_wavelength")
    return refusal(f"the key {key!r} does not apply to {method}", f"keys for {method}: {', '.join(own)}", at=at)


def _mesh(value: object, info: ValidationInfo) -> object:
    # Before the file is looked for: with a method without meshes it is the key that is wrong.
    method = info.data.get("method")
    if value is not None and method is not None and not METHODS[method].has_mesh:
        raise _foreign_key("mesh", method, ())
    return value


SurfaceKind = Literal[*SURFACE_NAMES, IGNORED]  # type: ignore[valid-type]


def _mesh_file(value: object, info: ValidationInfo) -> Path:
    """Return the file of a mesh: that which is named, or the mesh_file in a folder of SPECFEM3D."""
    if isinstance(value, (str, Path)) and str(value).strip():
        inside = Path((info.context or {}).get("directory", ".")) / Path(value).expanduser() / MESH_FILE
        value = inside if inside.is_file() else value
    return existing_file(value, info)


class ImportedMesh(DescriptionModel):
    """A mesh file, and the boundaries of its surface groups; the name of the file alone is also allowed.

    Groups are boundaries by their names: those that ``surfaces`` allows, and usual ones such as ``xmin``,
    ``boundary_xneg`` or ``free_surface``. Groups of other names are ignored inside the mesh. On its exterior, such
    groups and sides without a group are boundaries by the planes of the bounding box, with a warning.
    """

    file: InputFile = Field(
        description="File with hexahedra (spectral_element: .msh, .vtu, .exo, or the mesh folder of SPECFEM3D) or "
        "tetrahedra (discontinuous_galerkin: .msh, .neu, .vtu, .exo)."
    )
    surfaces: Annotated[dict[str, SurfaceKind], BeforeValidator(keys_as_text)] = Field(
        default_factory=dict,
        description="For each surface group, by its name or number, its condition (free, absorbing, rigid), its side "
        "of the box, whose condition is that of boundaries (x_min, ..., top, bottom, sides), or ignored.",
    )

    @property
    def files(self) -> list[Path]:
        """All files of the mesh; a folder of SPECFEM3D has several."""
        return specfem_files(self.file) if self.file.name == MESH_FILE else [self.file]

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object, info: ValidationInfo) -> object:
        # The file is looked for here, so that its error has the key of the mesh.
        return {"file": _mesh_file(value, info)} if isinstance(value, (str, Path)) else value

    @field_validator("file", mode="before")
    @classmethod
    def _of_folder(cls, value: object, info: ValidationInfo) -> object:
        return _mesh_file(value, info)

    @model_serializer(mode="wrap")
    def _as_name(self, handler: SerializerFunctionWrapHandler) -> Any:
        return handler(self) if self.surfaces else self.file


class _OrPath:
    """Annotation of a mesh in the JSON schema: the name of its file is also allowed."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        return {"anyOf": [{"type": "string", "format": "path"}, *found.get("anyOf", [found])]}


class Solver(DescriptionModel):
    """Numerical method, order, and resolution of the grid or mesh.

    The grid spacing of finite differences is the shortest wavelength (slowest wave at ``max_frequency``) divided by
    ``points_per_wavelength``, or ``spacing`` if this key is given. A spectral element is ``degree`` times as large,
    because its edge contains this number of intervals between points. With discontinuous Galerkin, the cubes that are
    split into tetrahedra are ``order`` times as large. An imported ``mesh`` has its own element sizes.
    """

    method: Literal["finite_difference", "spectral_element", "discontinuous_galerkin"] = Field(
        default="finite_difference",
        description="The numerical method: finite_difference, spectral_element or discontinuous_galerkin.",
    )
    max_frequency: PositiveFrequency | None = Field(
        default=None,
        description="Maximum frequency to resolve, Hz; optional if spacing or mesh is given.",
    )
    points_per_wavelength: quantity("number", gt=0) | None = Field(  # type: ignore[valid-type]
        default=None,
        description="Points per shortest wavelength. Defaults: 20, 8, 9, 9 for finite differences of order 2, 4, 6, 8; "
        "12, 9, 7, 6, 5.5, 5, 5 for spectral elements of degree 2 to 8; 24, 14, 10, 7, 7, 7 for discontinuous "
        "Galerkin of order 2 to 7.",
    )
    accuracy: Literal["draft", "standard", "fine"] | None = Field(
        default=None,
        description="Instead of points_per_wavelength, spacing and mesh: the error of seismograms at which the points "
        "per wavelength aim. draft: 2%; standard: 0.3% (finite_difference: 0.5%), the default points; fine: 0.05%. "
        "`lithowave check` states the estimated error and the time of the three levels.",
    )
    spacing: PositiveLength | None = Field(
        default=None,
        description="Instead of points_per_wavelength: grid spacing (finite_difference), element size "
        "(spectral_element) or size of the cubes that are split into tetrahedra (discontinuous_galerkin), m.",
    )
    order: Annotated[int, WholeNumber()] = Field(
        default=METHODS["finite_difference"].default,
        description="Order of accuracy: 2, 4, 6 or 8 in space (finite_difference); 2 to 7 in space and time, default "
        "5 (discontinuous_galerkin).",
        json_schema_extra={"enum": _ORDERS},
    )
    passes: Literal["auto", "one", "two"] = Field(
        default="auto",
        description="Passes over memory per step (finite_difference); one is faster on a GPU with enough memory.",
    )
    effective_medium: Literal["auto", "isotropic", "transverse", "orthorhombic"] = Field(
        default="auto",
        description="Constitutive law of the grid (finite_difference), which determines how cells with more than one "
        "medium are averaged. isotropic: harmonic means, for smooth media; transverse: with a vertical symmetry axis, "
        "accurate at interfaces that are about horizontal; orthorhombic: also at vertical interfaces; auto: the first "
        "of these that the model requires.",
    )
    memory_variables: Literal["auto", "coarse", "full"] = Field(
        default="auto",
        description="Storage of the memory variables of attenuation (finite_difference, spectral_element). full: the "
        "mechanisms of material.attenuation at every point; coarse, with less memory and time: of eight mechanisms, "
        "one at each node of every cube of 2 x 2 x 2 nodes of a grid, without regard to "
        "material.attenuation.mechanisms, or all mechanisms at some points of an element, 13 of 125 at degree 4, and "
        "at all of them around sources; auto: coarse where the quality factors of bulk and shear moduli are at least "
        "about 20.",
    )
    time_step: PositiveDuration | None = Field(
        default=None, description="Time step, s; null: safety times the stability limit."
    )
    safety: quantity("number", gt=0, le=1) = Field(  # type: ignore[valid-type]
        default=0.98, description="Time step as a fraction of the stability limit."
    )
    time_dispersion_correction: StrictBool | None = Field(
        default=None,
        description="true: the error of the time steps is removed from time functions before the run and from "
        "seismograms after it (finite_difference, spectral_element); snapshots and peak motion keep it; null: true.",
    )
    local_time_steps: StrictBool | None = Field(
        default=None,
        description="true: local time stepping, in which small elements take shorter time steps than large ones; "
        "false: one time step for all elements; null: local if it saves at least a sixth of the updates "
        "(discontinuous_galerkin only).",
    )
    refine_sources: StrictBool | None = Field(
        default=None,
        description="Smaller elements around sources in generated meshes (spectral_element: if receivers are near; "
        "discontinuous_galerkin: always); null: true.",
    )
    degree: Annotated[int, WholeNumber(ge=2, le=8)] | None = Field(
        default=None, description="Polynomial degree, 2 to 8, default 4 (spectral_element only)."
    )
    mesh: Annotated[ImportedMesh | None, BeforeValidator(_mesh), _OrPath()] = Field(
        default=None,
        description="Mesh file with hexahedra (spectral_element) or tetrahedra (discontinuous_galerkin): its name, or "
        "{file: ..., surfaces: {...}}.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key in self.foreign_keys:
            if key in self.model_fields_set and getattr(self, key) is not None:
                raise _foreign_key(key, self.method, (key,))
        self._check_order()
        self._check_level()
        if self.mesh is not None:
            self._check_mesh()
        else:
            self._check_resolution()
        return self

    def _check_mesh(self) -> None:
        for key in ("spacing", "points_per_wavelength"):
            if getattr(self, key) is not None:
                raise refusal(f"mesh and {key} are both given", "the mesh has its own sizes of elements", at=(key,))

    def _check_level(self) -> None:
        """Refuse a level of accuracy beside other keys of the resolution, or without measurements; set its points."""
        if self.accuracy is None:
            return
        points = self.recommended_points
        if self.accuracy != "standard":
            measured = level_points(self.method, self._accuracy, self.accuracy)
            if measured is None:
                orders = ", ".join(map(str, POINTS[self.method]))
                raise refusal(
                    f"{self.accuracy} was not measured for {self.order_text}",
                    f"allowed for {self._method.accuracy} {orders}, or use points_per_wavelength", at=("accuracy",),
                )  # fmt: skip
            points = measured
        for key in ("mesh", "spacing", "points_per_wavelength"):
            value = getattr(self, key)
            if value is not None and not (key == "points_per_wavelength" and abs(value - points) < 1e-9 * points):
                text = "mesh" if key == "mesh" else f"{key} ({value:.12g})"
                raise refusal(
                    f"accuracy ({self.accuracy}) and {text} are both given",
                    f"give one of them: accuracy chooses {points:g} points per wavelength here", at=("accuracy",),
                )  # fmt: skip
        self._settle(points_per_wavelength=points)

    def _check_order(self) -> None:
        key = self._method.accuracy
        if key not in self.model_fields_set or self._accuracy is None:
            # A default, not a choice of the user: it is not counted among the fields that were set.
            self._settle(**{key: self._method.default})
        if self._accuracy not in self._method.smallest:
            raise refusal(
                f"{self._accuracy} is not {'an order' if key == 'order' else 'a degree'} of {self.method}",
                f"choose {self._method.choices}",
                at=(key,),
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
            self._settle(points_per_wavelength=self.recommended_points)
        elif points < self.smallest_points:
            raise refusal(
                f"{points:.12g} points per wavelength are too few",
                f"{self.order_text} needs at least {self.smallest_points:g}; {self.recommended_points:g} are "
                "recommended",
                at=("points_per_wavelength",),
            )

    @property
    def _method(self) -> MethodKeys:
        return METHODS[self.method]

    @property
    def _accuracy(self) -> int:
        return getattr(self, self._method.accuracy)

    @property
    def foreign_keys(self) -> tuple[str, ...]:
        """The keys of ``solver`` that only other methods have."""
        return tuple(key for key in _OWN_KEYS if key not in self._method.keys)

    @property
    def order_text(self) -> str:
        """Order or degree as text: ``order 4``, ``degree 4``."""
        return f"{self._method.accuracy} {self._accuracy}"

    def estimated_error(self, points: float) -> float | None:
        """Return the measured relative error of seismograms for points per wavelength; None if it is not known."""
        return estimated_error(self.method, self._accuracy, points)

    def accuracy_levels(self) -> dict[str, float]:
        """Return the points per wavelength of the levels of accuracy; empty if they were not measured."""
        found = {level: level_points(self.method, self._accuracy, level) for level in LEVELS}
        return {level: points for level, points in found.items() if points is not None}

    @property
    def recommended_points(self) -> float:
        """Points in the shortest wavelength that are usual for this method and order or degree."""
        return self._method.recommended[self._accuracy]

    @property
    def smallest_points(self) -> float:
        """Points in the shortest wavelength below which a simulation is refused."""
        return self._method.smallest[self._accuracy]

    @property
    def steps_per_spacing(self) -> int:
        """Steps from point to point in one ``spacing``: 1 of a grid, the degree or order in an element."""
        return self._accuracy if self._method.in_elements else 1

    def resolution_points(self, wavelength: float) -> float | None:
        """Return the points per wavelength (m) of ``spacing``; None without ``spacing``.

        Finite differences: wavelength / spacing. Spectral elements: degree * wavelength / spacing. Discontinuous
        Galerkin: order * wavelength / spacing.
        """
        return None if self.spacing is None else self.steps_per_spacing * wavelength / self.spacing

    def grid_spacing(self, slowest: float, depth: float) -> float:
        """Return the spacing of a uniform grid, m: ``spacing``, or else the largest one with the points per wavelength
        of the slowest wave (m/s) that divides the depth extent (m), so that the bottom is at the requested depth."""
        if self.spacing is not None:
            return self.spacing
        assert self.max_frequency is not None
        largest = slowest / self.max_frequency / (self.points_per_wavelength or self.recommended_points)
        return depth / math.ceil(depth / largest - 1e-9)


LEVELS = ("draft", "standard", "fine")

TARGETS: Mapping[str, float] = {"draft": 0.02, "standard": 0.003, "fine": 0.0005}
"""Relative errors at which the levels aim; with finite differences, the standard level at 0.005."""

Table = Mapping[int, tuple[tuple[float, float], ...]]

MEASURED: Mapping[str, Table] = {
    "finite_difference": {
        4: ((5.4, 0.0177), (6, 0.0136), (8, 0.0070), (11, 0.0037), (16, 0.0018)),
        6: ((6, 0.0168), (9, 0.0073), (12, 0.0037)),
        8: ((5, 0.0296), (8, 0.0081), (12, 0.0037)),
    },
    "spectral_element": {4: ((5, 0.0155), (6, 0.0060), (7, 0.0040), (9, 0.0014), (11, 0.0005))},
    "discontinuous_galerkin": {5: ((4, 0.0196), (5, 0.0108), (6, 0.0075), (7, 0.0028))},
}
"""(points per wavelength, relative error) by method and by order or degree, in ascending order of points."""

POINTS: Mapping[str, Mapping[int, tuple[float, float, float]]] = {
    "finite_difference": {4: (5.4, 8.0, 16.0)},
    "spectral_element": {4: (5.0, 7.0, 11.0)},
    "discontinuous_galerkin": {5: (4.0, 7.0, 9.0)},
}
"""Points per wavelength of the levels, by method and by order or degree; standard: the default."""


def level_points(method: str, order: int, level: str) -> float | None:
    """Return the points per wavelength of a level for an order or degree; None if it was not measured."""
    points = POINTS[method].get(order)
    return None if points is None else points[LEVELS.index(level)]


def estimated_error(method: str, order: int, points: float) -> float | None:
    """Return the relative error of seismograms, interpolated between measurements; None beyond them.

    The logarithm of the error is a linear function of that of the points per wavelength between two measurements.
    """
    table = MEASURED[method].get(order, ())
    if not table or not 0.99 * table[0][0] <= points <= 1.01 * table[-1][0]:
        return None
    pairs = list(zip(table, table[1:], strict=False))
    (low, high) = next(((a, b) for a, b in pairs if points <= b[0]), pairs[-1])
    part = math.log(points / low[0]) / math.log(high[0] / low[0])
    return math.exp((1 - part) * math.log(low[1]) + part * math.log(high[1]))


def error_text(error: float) -> str:
    """Return an error as text: ``0.3%``, ``2%``."""
    return f"{100 * error:.1g}%"


class Compute(DescriptionModel):
    """Device, precision, threads and parallel execution."""

    backend: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="cpu, cuda, or auto: a CUDA device if one is usable, else the CPU."
    )
    precision: Literal["single", "double"] = Field(
        default="single", description="Floating-point precision of the wavefield and of the seismograms."
    )
    moduli: Literal["full", "compact"] = Field(
        default="full",
        description="compact: store the material in 16 bits per value on a GPU, and use the same rounded values on a "
        "CPU (finite_difference only).",
    )
    deterministic: StrictBool = Field(
        default=False,
        description="true: bitwise identical results in every run; slower on a GPU with spectral_element. The other "
        "methods always give bitwise identical results.",
    )
    threads: Count | None = Field(
        default=None,
        description="Threads per rank of the CPU backend, and of the preparation of a run on any device; null: all "
        "cores, shared equally by the ranks of a machine.",
    )
    parts: tuple[Count, Count, Count] | None = Field(
        default=None,
        description="Numbers of subdomains along x, y, z (finite_difference only); null: automatic.",
    )
    transport: Literal["auto", "peer", "nccl", "host"] = Field(
        default="auto",
        description="Communication between CUDA devices. peer: copy engines of the devices (one machine); nccl: NCCL; "
        "host: page-locked main memory and MPI; auto: the first of these that all ranks can use.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.moduli == "compact" and self.precision == "double":
            raise refusal("compact moduli are for single precision", "use precision: single", at=("moduli",))
        return self


class Physics(DescriptionModel):
    """Terms of the equations of motion that are omitted by default."""

    gravity: StrictBool = Field(
        default=False,
        description="true: the gravity of a radial model of the Earth acts on the displaced medium, without changes of "
        "the potential (Cowling approximation); with spectral_element, in a chunk of solid layers of material.earth.",
    )
