"""What a numerical method cannot do, keys that it does not use, and implausible values of the material."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from lithowave.description.experiment import Experiment
from lithowave.description.material import Material
from lithowave.description.text import Problem
from lithowave.description.units import si_unit, with_unit
from lithowave.errors import InputError
from lithowave.globe_coordinates import RADIUS
from lithowave.media.earth import EarthMedium
from lithowave.media.elasticity import (
    DIMENSIONS,
    RANGES,
    ElasticProperties,
    allowed,
    is_implausible,
    is_orthorhombic,
    likely_unit,
    unit_question,
)

Path = tuple[str | int, ...]

_ELEMENT_METHODS = ("spectral_element", "discontinuous_galerkin")
_LAYER_KEYS = ("reflection", "kappa", "frequency")


@dataclass(frozen=True)
class Feature:
    """A feature that some methods do not support.

    Attributes
    ----------
    methods : those that can.
    asked : the places in a description that ask for it.
    got, allowed : what is refused with another method, and what that allows; ``{method}`` stands for its name.
    hint : added to the names of the methods that can; None where these are no help.
    """

    methods: tuple[str, ...]
    asked: Callable[[Experiment], Iterable[Path]]
    got: str
    allowed: str
    hint: str | None = ""

    def problems(self, experiment: Experiment) -> Iterator[Problem]:
        """Yield a problem for each entry that requires the feature, if the method does not support it."""
        method = experiment.solver.method
        if method in self.methods:
            return
        hint = "" if self.hint is None else supporting_methods(self.methods) + self.hint
        for path in self.asked(experiment):
            yield Problem(path, self.got.format(method=method), self.allowed.format(method=method), hint)


def supporting_methods(methods: tuple[str, ...]) -> str:
    """Return the methods that support a feature as a hint: ``method: spectral_element can``."""
    return f"method: {' or '.join(methods)} can"


def _entry(*path: str, given: Callable[[Experiment], bool]) -> Callable[[Experiment], list[Path]]:
    """Return the function that returns `path` for a description in which the entry is given."""
    return lambda experiment: [path] if given(experiment) else []


def _oblique_anisotropy(experiment: Experiment) -> Iterator[Path]:
    for path, properties in experiment.material.properties.items():
        if properties.is_anisotropic and not is_orthorhombic(properties.stiffness_matrix()):
            yield ("material", *path, "anisotropy" if properties.stiffness is None else "stiffness")


def _fluid(experiment: Experiment) -> Iterator[Path]:
    try:
        slowest = experiment.material_extremes["vs_min"]
    except (ValueError, InputError):
        return  # reported by the check of the material
    if slowest <= 0.0:
        yield ("material",)


def _lossy_fluid(experiment: Experiment) -> Iterator[Path]:
    if experiment.solver.method == "spectral_element":
        for path, properties in experiment.material.properties.items():
            if properties.is_fluid and properties.has_attenuation:
                yield ("material", *path, "qp")


FEATURES = (
    Feature(
        ("spectral_element",),
        _entry("domain", "chunk", given=lambda experiment: experiment.domain.chunk is not None),
        "{method} has no curved elements, of which a chunk of the globe consists",
        "{method} requires a box: x, y and z, with crs for longitudes and latitudes",
    ),
    Feature(
        _ELEMENT_METHODS,
        _entry("domain", "topography", given=lambda experiment: experiment.domain.topography is not None),
        "{method} has a flat surface only", "the free surface is z = 0", ": they follow the ground",
    ),
    Feature(
        _ELEMENT_METHODS,
        _entry("boundaries", "absorption", given=lambda experiment: experiment.boundaries.absorption == "stacey"),
        "stacey is not available with {method}", "allowed here: auto, layer", None,
    ),
    Feature(
        _ELEMENT_METHODS, _oblique_anisotropy, "{method} requires symmetry axes along x, y and z",
        "allowed here: an axis along x, y or z, or a stiffness whose moduli c14 to c46 and c56 are 0",
    ),
    Feature(
        ("spectral_element",),
        _entry(
            "material", "earth", "anisotropy",
            given=lambda experiment: experiment.material.earth is not None and experiment.material.earth.anisotropy,
        ),
        "{method} does not support radial models with anisotropy",
        "allowed here: false, the equivalent isotropic model",
    ),
    Feature(
        ("spectral_element",), _entry("output", "strain", given=lambda experiment: experiment.output.strain),
        "{method} does not record strain", "allowed here: false",
    ),
    Feature(
        ("finite_difference",),
        _entry("compute", "moduli", given=lambda experiment: experiment.compute.moduli == "compact"),
        "compact moduli are for finite_difference only", "allowed here: full", None,
    ),
    Feature(
        ("finite_difference",),
        _entry("compute", "parts", given=lambda experiment: experiment.compute.parts is not None),
        "{method} shares out elements, not a grid", "allowed here: null", None,
    ),
    Feature(_ELEMENT_METHODS, _fluid, "a fluid (vs = 0) stands in the domain", "{method} needs vs > 0"),
    Feature(
        ("discontinuous_galerkin",), _lossy_fluid, "{method} does not attenuate waves in fluids (vs = 0)",
        "allowed here: a fluid without qp",
    ),
)  # fmt: skip
"""What some methods can and others cannot."""


def find_limits(experiment: Experiment) -> Iterator[Problem]:
    """Return all features in the description that the method does not support."""
    for feature in FEATURES:
        yield from feature.problems(experiment)
    yield from _anisotropy_in_bounded_layers(experiment)
    if experiment.material.groups is not None and experiment.solver.mesh is None:
        yield Problem(
            ("material", "groups"),
            "groups are those of a mesh, and there is none",
            f"give solver: {{method: {' or '.join(_ELEMENT_METHODS)}, mesh: ...}}",
            "without a mesh use layers, homogeneous, file or section",
        )
    if experiment.domain.chunk is not None:
        yield from _limits_of_chunks(experiment)
    if experiment.physics.gravity:
        yield from _limits_of_gravity(experiment)
    if experiment.domain.topography is not None and experiment.solver.mesh is not None:
        yield Problem(
            ("domain", "topography"),
            "solver.mesh and a topography are both given",
            "the mesh has its own surface",
        )


def _limits_of_chunks(experiment: Experiment) -> Iterator[Problem]:
    """Yield a problem for each entry that a piece of the globe does not support."""
    if experiment.solver.mesh is not None:
        yield Problem(("solver", "mesh"), "solver.mesh and domain.chunk are both given", "the mesh has its own shape")
    if experiment.boundaries.absorption == "layer":
        yield Problem(
            ("boundaries", "absorption"), "layer is not available in a chunk, whose sides converge",
            "allowed in a chunk: auto, stacey", "enlarge the chunk: the reflections arrive later, and are weaker",
        )  # fmt: skip
    if experiment.survey is not None and experiment.survey.moving_receivers:
        yield Problem(
            ("survey", "moving_receivers"), "true is given, and receivers are not moved along the surface of a sphere",
            "allowed in a chunk: false", "give the receivers of all shots, or a box with crs",
        )  # fmt: skip
    if "segy" in experiment.output.formats:
        yield Problem(
            ("output", "formats"), "segy stores plane coordinates, and a chunk has none",
            "allowed in a chunk: miniseed, sac, asdf",
        )  # fmt: skip
    if any(part.is_anisotropic for part in experiment.material.properties.values()):
        yield Problem(
            ("material",), "anisotropic layers have fixed axes, and the vertical axis of a chunk turns",
            "allowed here: isotropic layers",
        )  # fmt: skip


def _limits_of_gravity(experiment: Experiment) -> Iterator[Problem]:
    """Yield a problem if gravity is not available in the domain or the material."""
    domain, material = experiment.domain, experiment.material
    path, allowed = ("physics", "gravity"), "allowed here: false"
    medium = None if material.earth is None else material.medium
    if domain.chunk is None or not isinstance(medium, EarthMedium):
        yield Problem(
            path, "true requires a chunk of a radial model of the Earth, from which the acceleration follows", allowed,
            "give domain.chunk and material.earth, with solver.method: spectral_element",
        )  # fmt: skip
        return
    if domain.chunk.ellipticity:
        yield Problem(
            path, "true is given, and the surfaces of equal depth are ellipsoids", "allowed with ellipticity: false",
            "set domain.chunk.ellipticity: false; its effect on arrival times is below 0.3%",
        )  # fmt: skip
    low = RADIUS + domain.z[0]
    fluid = next((one for one in medium.model.layers if one.is_fluid and one.top > low + 1e-3), None)
    if fluid is not None:
        depths = f"{(RADIUS - fluid.top) / 1e3:.6g} to {(RADIUS - fluid.bottom) / 1e3:.6g} km"
        yield Problem(
            path, f"true is given, and the model is fluid at depths of {depths}", "allowed with gravity: solid layers",
            "set material.earth.ocean: false, and domain.chunk.depth above the outer core",
        )  # fmt: skip


def _anisotropy_in_bounded_layers(experiment: Experiment) -> Iterator[Problem]:
    """Yield a problem for each anisotropic layer of a model that the method samples as an isotropic medium."""
    material, method = experiment.material, experiment.solver.method
    if not material.bounded:
        return
    varies = any(layer.varies for layer in material.layers or ())
    if method in _ELEMENT_METHODS and not varies:
        return
    for path, properties in material.properties.items():
        if properties.is_anisotropic:
            if varies:
                got, hint = "is anisotropic, and the material has a gradient", "divide the gradient into layers"
            else:
                got = f"is anisotropic, and {method} samples layers with surfaces as isotropic media"
                hint = supporting_methods(_ELEMENT_METHODS)
            yield Problem(("material", *path), got, "allowed here: isotropic layers", hint)


def find_unused_keys(experiment: Experiment) -> Iterator[str]:
    """Return a sentence for each changed key of the absorbing layers that this method ignores."""
    layer, method = experiment.boundaries.layer, experiment.solver.method
    absorption = experiment.absorption
    used = {
        ("finite_difference", "layer"): ("cells", *_LAYER_KEYS),
        ("spectral_element", "layer"): ("elements", *_LAYER_KEYS),
        ("discontinuous_galerkin", "layer"): ("elements", "reflection", "frequency"),
    }.get((method, absorption), ())
    fields = type(layer).model_fields
    changed = [key for key in fields if key not in used and getattr(layer, key) != fields[key].default]
    if not changed:
        return
    hint = "; it counts with absorption: layer" if absorption == "stacey" and "cells" not in changed else ""
    keys = ", ".join(f"boundaries.layer.{key}" for key in changed)
    yield f"{keys}: without effect with {method}{hint}."


_UNIT_KEYS = {"speed": "speed_unit", "density": "density_unit"}
_ALLOW = "If the values are meant, set material.allow_implausible: true"


def implausible_values(experiment: Experiment) -> Iterator[Problem]:
    """Yield a problem for each property of the material outside `RANGES`, unless the description allows them."""
    material = experiment.material
    if material.allow_implausible:
        return
    for path, properties in material.properties.items():
        yield from _property_problems(("material", *path), properties)
    if not material.properties or any(layer.varies for layer in material.layers or ()):
        yield from _sampled_problems(experiment)


def _property_problems(path: tuple[str | int, ...], properties: ElasticProperties) -> Iterator[Problem]:
    names = [name for name in RANGES if is_implausible(name, getattr(properties, name))]
    if properties.stiffness is not None and names:
        if "rho" not in names:
            speeds = f"{properties.vs:.4g} to {properties.vp:.4g} m/s"
            got = f"these moduli and rho = {properties.rho:g} kg/m^3 give wave speeds of {speeds}, which is implausible"
            yield Problem((*path, "stiffness"), got, allowed("vp"), f"Numbers are in Pa; text may be in GPa. {_ALLOW}")
            return
        names = ["rho"]  # the speeds follow from it
    for name in names:
        value = getattr(properties, name)
        got = f"{with_unit(value, DIMENSIONS[name])} is implausible"
        yield Problem((*path, name), got, allowed(name), f"{unit_question(name, value)} {_ALLOW}".strip())


def _sampled_problems(experiment: Experiment) -> Iterator[Problem]:
    """Yield the problems of a gridded model, a section or a function, from their values in the domain."""
    material, extremes = experiment.material, experiment.material_extremes
    ends = {name: (extremes[f"{name}_min"], extremes[f"{name}_max"]) for name in RANGES}
    if all(ends["vs"]) and not any(is_implausible(name, end) for name, pair in ends.items() for end in pair):
        return
    arrays, place = material.medium.values_in(experiment.domain.ground)  # vs is 0 in a fluid
    for name, values in zip(RANGES, arrays, strict=True):
        indices = np.flatnonzero(values) if name == "vs" else np.arange(values.size)  # without fluids
        if not indices.size:
            continue
        low, high = (int(indices[find(values[indices])]) for find in (np.argmin, np.argmax))
        worst = next((index for index in (low, high) if is_implausible(name, values[index])), None)
        if worst is None:
            continue
        unit = si_unit(DIMENSIONS[name])
        values_text = f"{values[low]:.6g} to {values[high]:.6g} {unit}"
        got = f"{_origin(material, name)} is {values_text} in the domain; {values[worst]:.6g} {unit} is implausible"
        unit_hint = _unit_hint(material, name, float(values[low]), float(values[high]))
        path = ("material", material.kind, name) if material.section else ("material", material.kind)
        yield Problem(path, f"{got} ({place(worst)})", allowed(name), f"{unit_hint}{_ALLOW}")


def _origin(material: Material, name: str) -> str:
    """Return where the values come from, with the unit that a file states."""
    if material.section is not None:
        key = _UNIT_KEYS[DIMENSIONS[name]]
        return f"{name} of {getattr(material.section, name)} ({key}: {getattr(material.section, key)})"
    if material.file is None and material.dataset is None:
        return name
    model = material.medium.model  # type: ignore[attr-defined]
    units = model.units.get(name)
    return f"{name} of {model.path} ({f'units: {units}' if units else 'without the attribute units'})"


def _unit_hint(material: Material, name: str, low: float, high: float) -> str:
    """Return the question whether the numbers are of another unit, as a sentence; empty if none explains them."""
    dimension = DIMENSIONS[name]
    unit = likely_unit(name, low, high)
    if not unit:
        return ""
    if material.section is not None:
        return f"did you mean {_UNIT_KEYS[dimension]}: {unit}? "
    if material.file is not None or material.dataset is not None:
        return f'Are the numbers in {unit}? Then give {name} the attribute units = "{unit}", or convert it to SI. '
    if material.earth is not None:
        return ""
    return f"Does the function return {unit}? It must return {si_unit(dimension)}. "
