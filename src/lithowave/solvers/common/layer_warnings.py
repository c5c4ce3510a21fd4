"""Warnings about thin material layers and about media in which waves grow; thicknesses of layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lithowave.description.anisotropy import backward_waves
from lithowave.description.bounded_layers import BoundedLayers
from lithowave.description.earth_medium import EarthMedium

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation


# Frequency shift and friction of a layer damp waves that grow slowly: runs of spectral elements with -0.13 were stable.
GROWTH_TOLERANCE = 0.05

# Relative L2 difference of the seismograms from those of a larger box: in the first example of the README 2.0% (worst
# receiver 3.3%), and next to a side of a homogeneous box of order 3 2.1% (4.9%).
DAMPED_ERROR = "2% (5% at single receivers) near the sides"

THINNEST = 0.05
"""Thickness of a layer in grid spacings below which a smaller spacing is not a remedy."""


def grid_warnings(plan: Any, simulation: Simulation) -> list[str]:
    """Return the warnings of a finite-difference plan about the model."""
    return [*averaged_layers(simulation, plan.grid.spacing), *growing_waves(plan, simulation)]


def growing_waves(plan: Any, simulation: Simulation) -> Iterator[str]:
    """Yield a warning for each anisotropic medium in which waves may grow in the absorbing layers of a plan."""
    for medium in backward_media(simulation, [axis for axis in range(3) if any(plan.grid.whole.layers[axis])]):
        yield (
            f"{medium.place}: some waves may grow in the absorbing layers along {medium.axis}: {medium.reason}. If the "
            "run becomes unstable, use solver.method: discontinuous_galerkin, whose layers damp such media."
        )


def damped_media(simulation: Simulation, axes: Sequence[int]) -> Iterator[str]:
    """Yield a warning for each anisotropic medium because of which the layers along some axes are damped."""
    for medium in backward_media(simulation, axes):
        yield (
            f"{medium.place}: some waves would grow in perfectly matched layers along {medium.axis}: {medium.reason}. "
            f"The absorbing layers are damped instead; they changed seismograms by {DAMPED_ERROR} in "
            "two measured models. For a smaller error, enlarge the domain, or use solver.method: spectral_element."
        )


class BackwardMedium(NamedTuple):
    """Key of a medium in which waves travel backwards along an axis; the smallest ratio of group to phase velocity."""

    place: str
    axis: str
    ratio: float

    @property
    def reason(self) -> str:
        """Why waves may grow in a perfectly matched layer along the axis."""
        return (
            f"their group velocity along {self.axis} is opposite to their phase velocity, by up to "
            f"{-100 * self.ratio:.2g}% of it"
        )


def backward_media(simulation: Simulation, axes: Sequence[int]) -> Iterator[BackwardMedium]:
    """Yield the anisotropic media in which waves may grow in perfectly matched layers along some axes."""
    for path, properties in simulation.material.properties.items():
        if properties.is_anisotropic and axes:
            found = backward_waves(properties.stiffness_matrix(), properties.rho)
            worst = min(axes, key=lambda axis: found[axis])
            if found[worst] < -GROWTH_TOLERANCE:
                yield BackwardMedium(".".join(("material", *map(str, path))), "xyz"[worst], float(found[worst]))


def layer_thicknesses(simulation: Simulation) -> Iterator[tuple[int, float]]:
    """Yield the index and the smallest thickness, m, of each layer in the domain that has a lower end there.

    Of a layer that pinches out it is the largest thickness.
    """
    domain, medium = simulation.domain, simulation.material.medium
    if simulation.material.layers is not None and isinstance(medium, BoundedLayers):
        for one in medium.ranges(domain)[:-1]:
            if one.depths is not None:
                yield one.index, one.thickest if one.absent else one.thinnest
        return
    top = domain.z[1] if domain.surface is None else domain.surface.low
    if isinstance(medium, EarthMedium):
        tops = medium.tops.tolist()
    else:
        tops = [layer.top for layer in simulation.material.layers or []]
    for index, (upper, lower) in enumerate(zip(tops, tops[1:], strict=False)):
        thickness = min(upper, top) - lower
        if thickness > 0.0 and upper > domain.z[0] and lower > domain.z[0]:
            yield index, thickness


def layer_name(simulation: Simulation, index: int) -> str:
    """Return the key of a layer, with its depths if it belongs to a radial model."""
    medium = simulation.material.medium
    if not isinstance(medium, EarthMedium):
        return f"material.layers[{index}]"
    top, bottom = (0.0 - medium.tops[number] / 1e3 for number in (index, index + 1))
    return f"material.earth: layer at a depth of {top:g} to {bottom:g} km"


def averaged_layers(simulation: Simulation, spacing: float) -> list[str]:
    """Return a warning for each layer thinner than the grid spacing of finite differences.

    Layers of 0.5 and 0.9 grid spacings, with vs lower by 28%, changed seismograms by 12% and 18% (relative L2 norm);
    the averages missed 13% and 14% of these changes.
    """
    return [
        f"{layer_name(simulation, index)}: {thickness:g} m thick, {thickness / spacing:.0%} of the grid spacing "
        f"({spacing:.4g} m). Finite differences average it with its neighbors; the error is about 15% of the effect of "
        f"this layer on the seismograms. {_thin_remedy(thickness, spacing)}"
        for index, thickness in layer_thicknesses(simulation)
        if thickness < spacing * (1.0 - 1e-6)
    ]


def _thin_remedy(thickness: float, spacing: float) -> str:
    """Return what to do about a layer thinner than the grid spacing."""
    if thickness < THINNEST * spacing:  # the required grid would be larger than any machine
        return "Merge it with a neighbor, or give it a minimum thickness."
    return f"Use solver.spacing: {thickness:.4g} or less to resolve it."
