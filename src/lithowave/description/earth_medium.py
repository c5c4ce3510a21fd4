"""Radial models of the Earth as media: the radius of a point is the radius of the Earth plus its z.

In a box, x and y are horizontal and the surface is flat. In a domain on the sphere, x and y are the coordinates along
the surface z = 0, and z is the height above it, so that the same function of z applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.media import DomainExtent, Sample, value_problem
from lithowave.description.perturbations import Perturbation, PlacedPerturbation
from lithowave.description.quality_values import MODULI, InverseQuality, quality_problem
from lithowave.description.stacked_layers import StackedLayers
from lithowave.earth.radial_model import COLUMNS, RADIUS, EarthProperties, RadialModel
from lithowave.earth.transverse import Love, phase_speed_range, transverse_moduli
from lithowave.errors import InputError

if TYPE_CHECKING:
    from lithowave.description.domain import Domain

EXAMINED = 17
"""Positions along x and y at which perturbations are examined."""


LEVEL = 1e-6
"""Difference of z, m, in levels of elements by round-off, up to which they have the same properties."""


def is_level(z: np.ndarray) -> bool:
    """Return whether z, m, (elements, k, j, i) are equal along the last two axes."""
    return z.ndim == 4 and z.size > 0 and bool(np.ptp(z, axis=(2, 3)).max() <= LEVEL)


@dataclass(frozen=True, eq=False)
class EarthMedium(StackedLayers):
    """A radial model, with or without three-dimensional perturbations.

    Attributes
    ----------
    model : properties as functions of the radius.
    sources : perturbations on longitude, latitude and depth, in the order in which they are applied.
    perturbations : the same, placed in a domain; a medium with sources has no values before `placed`.
    """

    model: RadialModel
    sources: tuple[Perturbation, ...] = ()
    perturbations: tuple[PlacedPerturbation, ...] = ()

    def placed(self, domain: Domain) -> EarthMedium:
        """Return the medium with its perturbations placed in a domain.

        Raises
        ------
        InputError : the domain has no geographic coordinates.
        """
        found = tuple(PlacedPerturbation.of(one, domain, index) for index, one in enumerate(self.sources))
        return replace(self, perturbations=found)

    @property
    def count(self) -> int:
        return len(self.model.layers)

    @cached_property
    def tops(self) -> np.ndarray:
        """z of the top of each layer, m, descending."""
        return np.array([one.top for one in self.model.layers]) - RADIUS

    @property
    def anisotropic_layers(self) -> np.ndarray:
        """True for each layer (layers,) whose speeds depend on the direction."""
        return np.array([one.is_anisotropic for one in self.model.layers])

    def boundaries(self, x: np.ndarray, y: np.ndarray) -> Iterator[np.ndarray | float]:
        yield from (np.inf, *self.tops[1:].tolist(), -np.inf)

    def layer_of(self, z: np.ndarray, *within: np.ndarray) -> np.ndarray:
        """Return the index of the layer at each z, m."""
        return self.model.layer_index(RADIUS + z, within)

    @property
    def concurrent(self) -> bool:
        return not self.sources

    def properties(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> EarthProperties:
        """Return the properties at points in m, of their broadcast shape.

        Raises
        ------
        InputError : the model has perturbations, and is not placed in a domain.
        """
        shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
        columns = self._at_distinct(lambda here: [getattr(here, name) for name in COLUMNS], z, *within)
        here = EarthProperties(*(np.broadcast_to(column, shape) for column in columns))
        if len(self.perturbations) < len(self.sources):
            raise InputError(
                "material.earth.perturbations", "have no positions in the box without a domain",
                "expected the material of a simulation, whose domain has geographic coordinates",
            )  # fmt: skip
        for one in self.perturbations:
            here = one.applied(here, x, y, z)
        return here

    def _at_distinct(
        self, evaluate: Callable[[EarthProperties], Sequence[np.ndarray]], z: np.ndarray, *within: np.ndarray
    ) -> np.ndarray:
        """Return values (columns, ...) at points, computed once for each z that occurs: elements have few.

        If z is the same along the last two of four axes, the result is a view with one value there.

        evaluate : function of the properties at the distinct z. within : see `StackedLayers`.
        """
        shape = np.broadcast_shapes(z.shape, *(one.shape for one in within))
        if is_level(z):
            z = z[..., :1, :1]
        z = np.broadcast_to(z, np.broadcast_shapes(z.shape, *(one.shape for one in within)))
        codes = [np.broadcast_to(within[0] * self.count + within[1], z.shape)] if within else []
        groups = [(None, z.reshape(-1))]
        if within:
            flat, place = z.reshape(-1), codes[0].reshape(-1)
            groups = [(one, flat[place == one]) for one in np.unique(within[0] * self.count + within[1])]
        found = np.empty((0, 0))
        for code, own in groups:
            distinct, index = np.unique(own, return_inverse=True)
            ends: tuple[int, ...] = () if code is None else divmod(int(code), self.count)
            radius = RADIUS + distinct
            here = self.model.properties(radius, self.model.layer_index(radius, [np.asarray(end) for end in ends]))
            values = np.stack(evaluate(here))
            if not found.size:
                found = np.empty((len(values), z.size))
            found[:, slice(None) if code is None else place == code] = values[:, index]
        found = found.reshape(-1, *z.shape)
        return found if z.shape == shape else np.broadcast_to(found, (len(found), *shape))

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> Sample:
        return self.sample_all(x, y, z, *within)[0]

    def sample_all(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[Sample, InverseQuality]:
        here = self.properties(x, y, z, *within)
        sample = tuple(np.array(values) for values in (here.vp, here.vs, here.rho))
        return sample, (np.array(here.inverse_qkappa), np.array(here.inverse_qmu))  # type: ignore[return-value]

    def sample_changed(
        self, change: Callable[[np.ndarray, np.ndarray, np.ndarray, InverseQuality], Sample],
        x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray,
    ) -> Sample:  # fmt: skip
        if self.sources:
            return super().sample_changed(change, x, y, z, *within)

        def changed(here: EarthProperties) -> Sample:
            return change(here.vp, here.vs, here.rho, (here.inverse_qkappa, here.inverse_qmu))

        shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
        return tuple(np.broadcast_to(one, shape) for one in self._at_distinct(changed, z, *within))  # type: ignore[return-value]

    def love(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> tuple[Love, np.ndarray]:
        """Return the moduli A, C, L, N and F, Pa, of a radial symmetry axis, and rho at points."""
        return self.love_changed(lambda here: here.love, x, y, z, *within)

    def love_changed(
        self, change: Callable[[EarthProperties], Love], x: np.ndarray, y: np.ndarray, z: np.ndarray,
        *within: np.ndarray,
    ) -> tuple[Love, np.ndarray]:  # fmt: skip
        """Return moduli A, C, L, N and F, Pa, that are a function of the properties, and rho at points."""
        if self.sources:
            here = self.properties(x, y, z, *within)
            return change(here), np.array(here.rho)
        shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
        found = self._at_distinct(lambda here: [*change(here), here.rho], z, *within)
        a, c, l, n, f, rho = (np.broadcast_to(one, shape) for one in found)  # noqa: E741
        return (a, c, l, n, f), rho

    def strongest_anisotropy(self, box: DomainExtent) -> tuple[np.ndarray, float]:
        """Return the 21 moduli, Pa, with a vertical axis, and rho of the medium that is most anisotropic in a box."""
        here, _ = self._examined(box)
        solid = here.vsv > 0.0
        ratios = np.stack([here.vph / here.vpv, here.vsh / np.where(solid, here.vsv, 1.0), here.eta])
        index = int(np.abs(np.log(np.where(solid, ratios, 1.0))).sum(axis=0).argmax())
        a, c, l, n, f = (modulus[index] for modulus in here.love)  # noqa: E741
        return transverse_moduli((a, c, l, n, f), np.array([0.0, 0.0, 1.0])), float(here.rho[index])

    def attenuates(self, box: DomainExtent) -> bool:
        return self.model.attenuates

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> InverseQuality:
        return self.sample_all(x, y, z, *within)[1]

    def validate_domain(self, box: DomainExtent) -> None:
        self.model.require_depth(-box.z[0])
        if len(self.perturbations) < len(self.sources):
            self.placed(box)  # type: ignore[arg-type]  # raises the error for which it is not placed
        here, place = self._examined(box)
        problem = value_problem(here.vp, here.vs, here.rho, lambda index: place(index[0]))
        if problem is None:
            qkappa, qmu = here.qkappa, here.qmu
            problem = quality_problem(MODULI, qkappa, qmu, here.vp, here.vs, lambda index: place(index[0]))
        if problem:
            raise InputError("material.earth", *problem)

    def slowest_between(self, box: DomainExtent) -> Callable[[float, float], float]:
        """Return the function of two z, m, that returns the speed of the slowest wave between them, m/s.

        In a fluid it is that of P waves. Perturbations, at the examined positions in the box, change it by the smallest
        ratio of the perturbed to the radial speed.
        """

        def radial(low: float, high: float) -> float:
            return self.model.speed_range(RADIUS + low, RADIUS + high)[0]

        if not self.sources:
            return radial
        x, y, z, layer = self._positions(box)
        here, plain = self.properties(x, y, z, layer, layer), self.model.properties(RADIUS + z, layer)
        fluid = plain.vs == 0.0
        ratio = np.where(fluid, here.vp / plain.vp, here.vs / np.where(fluid, 1.0, plain.vs)).min(axis=(0, 1))

        def perturbed(low: float, high: float) -> float:
            inside = (z >= low) & (z <= high)
            inside[np.abs(z - 0.5 * (low + high)).argmin()] = True
            return radial(low, high) * float(ratio[inside].min())

        return perturbed

    def _positions(self, box: DomainExtent) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return x (nx, 1, 1), y (ny, 1) and z (nz,), m, that are examined in a box, and the layer at each z."""
        low, high = RADIUS + max(box.z[0], -RADIUS), RADIUS + box.z[1]
        found = [(index, one) for index, one in enumerate(self.model.layers) if one.bottom < high and one.top > low]
        present = found or [(self.count - 1, self.model.layers[-1])]
        radii = [one.probes(low, high) for _, one in present]
        z = np.concatenate(radii) - RADIUS
        layer = np.concatenate([np.full(r.size, index) for (index, _), r in zip(present, radii, strict=True)])
        columns = EXAMINED if self.perturbations else 1
        x, y = (np.linspace(*ends, columns) for ends in (box.x, box.y))
        return x[:, None, None], y[:, None], z, layer

    def _examined(self, box: DomainExtent) -> tuple[EarthProperties, Callable[[int], str]]:
        """Return the properties at radii of all layers in a box, and a text for the location of each value."""
        x, y, z, layer = self._positions(box)
        here = self.properties(x, y, z, layer, layer)
        shape = (x.size, y.size, z.size)

        def place(index: int) -> str:
            i, j, k = np.unravel_index(index, shape)
            text = f"depth {-z[k] / 1e3:.6g} km"
            return f"x = {x[i, 0, 0]:zg} m, y = {y[j, 0]:zg} m, {text}" if self.perturbations else text

        return EarthProperties(**{key: np.ravel(one) for key, one in vars(here).items() if key[0] != "_"}), place

    def lines(self, box: DomainExtent) -> list[tuple[str, str]]:
        """Return (name, text) of the lines that `check` prints: depths and values of each layer in a domain."""
        rows, ends = [], [*self.tops.tolist(), self.model.bottom - RADIUS]
        for index, layer in enumerate(self.model.layers):
            high, low = min(ends[index], box.z[1]), max(ends[index + 1], box.z[0])
            if high <= low:
                continue
            radii = layer.probes(RADIUS + low, RADIUS + high)
            here = self.model.properties(radii, index)
            texts = [
                f"{name} {values.min():.5g}" + (f" to {values.max():.5g}" if np.ptp(values) else "") + f" {unit}"
                for name, values, unit in zip(
                    ("vp", "vs", "rho"), (here.vp, here.vs, here.rho), ("m/s", "m/s", "kg/m^3"), strict=True
                )
            ]
            kind = " (transversely isotropic)" if layer.is_anisotropic else ""
            kind += ", without perturbations" if self.sources else ""
            rows.append((f"depth {-high / 1e3:z.6g} to {-low / 1e3:z.6g} km", ", ".join(texts) + kind))
        return rows

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        here, place = self._examined(box)
        if not here.anisotropic.any():
            return (here.vp, here.vs, here.rho), place
        slowest, fastest = phase_speed_range(here.love, here.rho)
        return (fastest, np.where(here.vs > 0.0, slowest, 0.0), here.rho), place

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        here, _ = self._examined(box)
        return here.inverse_qkappa, here.inverse_qmu

    def at_frequency(self, frequency: float) -> EarthMedium:
        """Return the medium with the phase velocities at a frequency, Hz."""
        return replace(self, model=self.model.at_frequency(frequency))
