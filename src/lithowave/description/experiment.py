"""An experiment: what follows from a description, resolved once.

All parts of lithowave below the description, from its checks to the solvers, read this object. It is not changed after
it has been made: the experiment in the unrelaxed material, for example, is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from lithowave.description.acquisition import Acquisition, resolve
from lithowave.description.boundaries import Boundaries
from lithowave.description.domain import Domain
from lithowave.description.material import Material
from lithowave.description.outputs import Output
from lithowave.description.receivers import Receivers
from lithowave.description.solver import Compute, Physics, Solver
from lithowave.description.sources import Source
from lithowave.description.survey import Survey
from lithowave.errors import InputError
from lithowave.labels import shifted_time
from lithowave.media.anelasticity import Anelasticity, make_anelasticity
from lithowave.readers.meshes import SURFACE_NAMES

if TYPE_CHECKING:
    from lithowave.mesh.imported import MeshOfFile

SHAPES = {"spectral_element": "hexahedra", "discontinuous_galerkin": "tetrahedra"}
"""Shape of the elements of each method that imports meshes."""


def mesh_of(solver: Solver, boundaries: Boundaries) -> MeshOfFile | None:
    """Return the mesh file of a solver, which is not read yet; None without one, and for methods without meshes."""
    if solver.mesh is None or solver.method not in SHAPES:
        return None
    from lithowave.mesh.imported import MeshOfFile

    states = ((file, file.stat()) for file in solver.mesh.files)
    return MeshOfFile(
        SHAPES[solver.method],
        solver.mesh.file,
        tuple((str(file), state.st_mtime_ns, state.st_size) for file, state in states),
        tuple(solver.mesh.surfaces.items()),
        frozenset(name for name in SURFACE_NAMES if boundaries.kind_of(name) == "free"),
    )


def with_mesh(domain: Domain, solver: Solver, boundaries: Boundaries) -> Domain:
    """Return a domain whose surface and ends are those of the mesh file of a solver; the same domain without one."""
    if domain.topography is not None or domain.chunk is not None:
        return domain  # together with a mesh they are refused
    return domain.with_mesh(mesh_of(solver, boundaries))


@dataclass(frozen=True, eq=False)
class Experiment:
    """The parts of a description with every default, and what follows from several of them.

    Parameters
    ----------
    domain : the box, or the chunk; with the ends and the surface of an imported mesh. material : in this domain.
    sources, receivers : as described. located : their points, if they are known. directory : to which relative names of
    input files refer. Others : parts of the description.
    """

    title: str
    domain: Domain
    boundaries: Boundaries
    material: Material
    physics: Physics
    sources: list[Source]
    receivers: list[Receivers]
    survey: Survey | None
    duration: float
    solver: Solver
    compute: Compute
    output: Output
    directory: Path
    located: Acquisition | None = None

    @classmethod
    def of(cls, simulation: Any, **changes: Any) -> Self:
        """Return the experiment of a description whose parts are resolved. changes : parts that replace those."""
        names = (part.name for part in fields(cls) if part.name != "located")
        return cls(**{name: getattr(simulation, name) for name in names} | changes)

    @cached_property
    def unrelaxed(self) -> Experiment:
        """The experiment in the unrelaxed material, which is elastic; itself without attenuation."""
        return self if self.anelasticity is None else in_material(self, self.anelasticity.material)

    @cached_property
    def material_extremes(self) -> Mapping[str, float]:
        """Minimum and maximum wave speeds and density of the model: ``vp_min``, ``vp_max``, ``slowest`` ..."""
        return self.material.extremes(self.domain.ground)

    @cached_property
    def has_attenuation(self) -> bool:
        """True if the material has quality factors."""
        return self.material.medium.attenuates(self.domain.ground)

    @cached_property
    def anelasticity(self) -> Anelasticity | None:
        """The attenuation of the material: relaxation mechanisms and unrelaxed material; None if it is elastic."""
        return make_anelasticity(self.material, self.domain.ground, self.resolved_frequency)

    @property
    def shortest_wavelength(self) -> float | None:
        """Shortest wavelength at ``solver.max_frequency``, m; None without a frequency or a valid material."""
        try:
            slowest = self.material_extremes["slowest"]
        except (ValueError, InputError):
            return None
        return None if self.solver.max_frequency is None else slowest / self.solver.max_frequency

    @property
    def resolved_frequency(self) -> float | None:
        """``solver.max_frequency``, or the frequency that ``solver.spacing`` resolves, Hz; None without both."""
        if self.solver.max_frequency is not None:
            return self.solver.max_frequency
        if self.solver.spacing is None:
            return None
        shortest = self.solver.recommended_points * self.solver.spacing / self.solver.steps_per_spacing
        return self.material_extremes["slowest"] / shortest

    @property
    def highest_frequency(self) -> float:
        """Frequency, Hz, of the shortest relevant wavelength: of the simulation file, or of its sources."""
        if self.resolved_frequency:
            return self.resolved_frequency
        return max((one.time_function.maximum_frequency() for one in self.acquisition.sources), default=1.0)

    @property
    def absorption(self) -> Literal["layer", "stacey"]:
        """Type of absorbing boundaries; in a chunk of the globe, whose sides converge, there are no layers."""
        return "stacey" if self.domain.chunk is not None else self.boundaries.resolved_absorption()

    @property
    def origin_time(self) -> str | None:
        """UTC origin time of the event in ISO format, from the source files; None without such a file."""
        return next((stated for source in self.sources for stated in source.origin_times()), None)

    @property
    def origin_delay(self) -> float:
        """Origin time on the time axis of the simulation, s: the ``delay`` of the source files, or 0 without them."""
        return next((source.delay or 0.0 for source in self.sources if source.event_key is not None), 0.0)

    @property
    def start_time(self) -> str | None:
        """UTC time of t = 0 in ISO format, ``origin_delay`` before the origin time; None if the event has no date."""
        return None if self.origin_time is None else shifted_time(self.origin_time, -self.origin_delay)

    @cached_property
    def acquisition(self) -> Acquisition:
        """All point sources and receivers in local coordinates, resolved once."""
        return self.located or resolve(self.domain, self.material, self.sources, self.receivers)


def in_material(experiment: Experiment, material: Material) -> Experiment:
    """Return the experiment in another material, such as an unrelaxed one; its sources remain the same."""
    return Experiment.of(experiment, material=material, located=experiment.acquisition)
