"""Radial models of the Earth: layers from the surface downwards, transverse isotropy, gravity, and files.

The properties of a layer are functions of the radius. Files have the headers of AxiSEM, which lithowave reads. The five
moduli of Love (1927) of a medium with a symmetry axis are A = rho vph^2, C = rho vpv^2, L = rho vsv^2, N = rho vsh^2
and F = eta (A - 2 L), where v denotes waves along the axis or polarized along it, and h the others (Dziewonski &
Anderson 1981, Phys. Earth Planet. Inter. 25, 297-356, section 2). """
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from lithowave.errors import InputError
from lithowave.physics import VOIGT_PAIRS

Love = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""A, C, L, N and F, Pa."""

_ANGLES = 91  # between the symmetry axis and the equator, at which speeds are compared


def love_moduli(
    vpv: np.ndarray, vph: np.ndarray, vsv: np.ndarray, vsh: np.ndarray, eta: np.ndarray, rho: np.ndarray
) -> Love:
    """Return A, C, L, N and F, Pa, of speeds in m/s and a density in kg/m^3."""
    a, c, l, n = rho * vph**2, rho * vpv**2, rho * vsv**2, rho * vsh**2  # noqa: E741
    return a, c, l, n, eta * (a - 2.0 * l)


def voigt_average_of_love(love: Love) -> tuple[np.ndarray, np.ndarray]:
    """Return the bulk and the shear modulus, Pa, of the isotropic average of a transversely isotropic medium.

    kappa = (4 A + C + 4 F - 4 N) / 9, mu = (A + C - 2 F + 5 N + 6 L) / 15 (Babuska & Cara 1991, Seismic Anisotropy in
    the Earth, section 2.3).
    """
    a, c, l, n, f = love  # noqa: E741
    return (4.0 * (a + f - n) + c) / 9.0, (a + c - 2.0 * f + 5.0 * n + 6.0 * l) / 15.0


def largest_softness(love: Love) -> np.ndarray:
    """Return the largest ratio (...) of the energy of a strain in the isotropic average to that in the medium.

    The ratios are mu / L, mu / N, and, for strains that are equal along the equator, the roots of a quadratic equation.
    """
    a, c, l, n, f = love  # noqa: E741
    kappa, mu = voigt_average_of_love(love)
    lam, flat = kappa - 2.0 / 3.0 * mu, 2.0 * (a - n)  # of xx = yy, and zz: [[flat, 2 f], [2 f, c]] / 2 in the medium
    determinant = flat * c - 2.0 * f * f
    middle = flat * (lam + 2.0 * mu) + 2.0 * (lam + mu) * c - 4.0 * f * lam
    average = 2.0 * (lam + mu) * (lam + 2.0 * mu) - 2.0 * lam * lam
    root = np.sqrt(np.maximum(middle * middle - 4.0 * determinant * average, 0.0))
    return np.maximum(np.maximum(mu / l, mu / n), 0.5 * (middle + root) / determinant)


def love_with_isotropic_change(love: Love, kappa: np.ndarray, mu: np.ndarray) -> Love:
    """Return the moduli of a medium whose isotropic average is increased by kappa and mu, Pa."""
    a, c, l, n, f = love  # noqa: E741
    normal = kappa + 4.0 / 3.0 * mu
    return a + normal, c + normal, l + mu, n + mu, f + kappa - 2.0 / 3.0 * mu


def transverse_moduli(love: Love, axis: np.ndarray) -> np.ndarray:
    r"""Return the 21 moduli (21, ...), Pa, of transversely isotropic media whose symmetry axes have any direction.

    .. math::
        c_{ijkl} = (A - 2 N) \delta_{ij} \delta_{kl} + N (\delta_{ik} \delta_{jl} + \delta_{il} \delta_{jk})
            + (F - A + 2 N) (\delta_{ij} s_k s_l + s_i s_j \delta_{kl})
            + (L - N) (\delta_{ik} s_j s_l + \delta_{il} s_j s_k + \delta_{jk} s_i s_l + \delta_{jl} s_i s_k)
            + (A + C - 2 F - 4 L) s_i s_j s_k s_l

    Parameters
    ----------
    love : A, C, L, N and F, Pa, of shapes that broadcast to (...).
    axis : unit vectors s of the symmetry axes, (..., 3).

    The moduli are the upper triangle, by rows, of the matrix in the order xx, yy, zz, yz, xz, xy.
    """
    a, c, l, n, f = love  # noqa: E741
    s, d = np.moveaxis(np.asarray(axis, float), -1, 0), np.eye(3)
    lam, normal, shear, along = a - 2.0 * n, f - a + 2.0 * n, l - n, a + c - 2.0 * f - 4.0 * l
    moduli = np.empty((21, *np.broadcast_shapes(np.shape(a), s.shape[1:])))
    number = 0
    for row, (i, j) in enumerate(VOIGT_PAIRS):
        for k, m in VOIGT_PAIRS[row:]:
            moduli[number] = (
                lam * (d[i, j] * d[k, m])
                + n * (d[i, k] * d[j, m] + d[i, m] * d[j, k])
                + normal * (d[i, j] * s[k] * s[m] + s[i] * s[j] * d[k, m])
                + shear * (d[i, k] * s[j] * s[m] + d[i, m] * s[j] * s[k])
                + shear * (d[j, k] * s[i] * s[m] + d[j, m] * s[i] * s[k])
                + along * (s[i] * s[j] * s[k] * s[m])
            )
            number += 1
    return moduli


def phase_speed_range(love: Love, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum and the maximum phase speed (...), m/s, over directions one degree apart.

    With x and z along the equator and the axis, the squares of the speeds times rho of the waves polarized in their
    plane are the eigenvalues of [[A x^2 + L z^2, (F + L) x z], [(F + L) x z, L x^2 + C z^2]], and that of the others is
    N x^2 + L z^2. A fluid has one wave: the minimum is the speed of P waves.
    """
    a, c, l, n, f = (np.asarray(modulus, float)[..., None] for modulus in love)  # noqa: E741
    angle = np.linspace(0.0, 0.5 * np.pi, _ANGLES)
    x, z = np.sin(angle) ** 2, np.cos(angle) ** 2
    first, second, mixed = a * x + l * z, l * x + c * z, (f + l) ** 2 * x * z
    mean, half = 0.5 * (first + second), np.sqrt(0.25 * (first - second) ** 2 + mixed)
    shear = np.minimum(mean - half, n * x + l * z)
    slowest = np.where((l > 0.0).any(axis=-1), shear.min(axis=-1), (mean + half).min(axis=-1))
    return np.sqrt(slowest / rho), np.sqrt((mean + half).max(axis=-1) / rho)


RADIUS = 6_371_000.0
"""Radius of the Earth in reference models, m."""

COLUMNS = ("vpv", "vph", "vsv", "vsh", "eta", "rho", "inverse_qkappa", "inverse_qmu")
"""Properties of a profile, in SI; 1/Q is 0 without attenuation."""

PROBES = 33
"""Radii in a part of a layer at which its extreme values are taken."""


@dataclass(frozen=True)
class EarthProperties:
    """Properties at points, arrays of one shape: speeds in m/s, density in kg/m^3.

    vpv, vph, vsv, vsh : of waves that are radial (v) or horizontal (h), see `lithowave.earth.radial_model`; equal in an
    isotropic medium. eta : F / (A - 2 L), 1 in an isotropic medium. inverse_qkappa, inverse_qmu : 1/Q; 0 without
    attenuation.
    """

    vpv: np.ndarray
    vph: np.ndarray
    vsv: np.ndarray
    vsh: np.ndarray
    eta: np.ndarray
    rho: np.ndarray
    inverse_qkappa: np.ndarray
    inverse_qmu: np.ndarray

    @property
    def love(self) -> Love:
        """A, C, L, N and F, Pa."""
        return love_moduli(self.vpv, self.vph, self.vsv, self.vsh, self.eta, self.rho)

    @property
    def anisotropic(self) -> np.ndarray:
        """True at points at which speeds depend on the direction."""
        return np.asarray((self.vpv != self.vph) | (self.vsv != self.vsh) | (self.eta != 1.0))

    @property
    def vp(self) -> np.ndarray:
        """Speed of P waves, m/s; in an anisotropic medium that of its isotropic (Voigt) average."""
        return self._isotropic[0]

    @property
    def vs(self) -> np.ndarray:
        """Speed of S waves, m/s, 0 in a fluid; in an anisotropic medium that of its isotropic (Voigt) average."""
        return self._isotropic[1]

    @cached_property
    def _isotropic(self) -> tuple[np.ndarray, np.ndarray]:
        anisotropic = self.anisotropic
        if not anisotropic.any():
            return self.vpv, self.vsv
        kappa, mu = voigt_average_of_love(self.love)
        vp, vs = np.sqrt((kappa + 4.0 / 3.0 * mu) / self.rho), np.sqrt(mu / self.rho)
        return np.where(anisotropic, vp, self.vpv), np.where(anisotropic, vs, self.vsv)

    @property
    def qkappa(self) -> np.ndarray:
        """Quality factor of the bulk modulus; infinite without attenuation."""
        return _inverse(self.inverse_qkappa)

    @property
    def qmu(self) -> np.ndarray:
        """Quality factor of the shear modulus; infinite without attenuation, and in a fluid."""
        return _inverse(self.inverse_qmu)

    def at_frequency_ratio(self, ratio: float) -> EarthProperties:
        """Return the properties at another frequency, from those at a reference frequency times 1 / ratio.

        Moduli are multiplied by 1 + 2 ln(ratio) / (pi Q) with a Q that does not depend on frequency (Kanamori &
        Anderson 1977, Rev. Geophys. 15, 105-112). Qkappa applies to kappa, and Qmu to the shear moduli: in an
        anisotropic medium the increments of its isotropic average are added, so that eta changes.
        """
        step = 2.0 * np.log(ratio) / np.pi
        a, c, l, n, f = self.love  # noqa: E741
        kappa, mu = voigt_average_of_love((a, c, l, n, f))
        change = step * self.inverse_qkappa * kappa, step * self.inverse_qmu * mu
        a, c, l, n, f = love_with_isotropic_change((a, c, l, n, f), *change)  # noqa: E741
        isotropic = ~self.anisotropic
        eta = np.where(isotropic, 1.0, f / (a - 2.0 * l))
        vpv, vph, vsv, vsh = (np.sqrt(modulus / self.rho) for modulus in (c, a, l, n))
        return EarthProperties(vpv, vph, vsv, vsh, eta, self.rho, self.inverse_qkappa, self.inverse_qmu)


def _inverse(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / np.asarray(values, float))


class Profile(Protocol):
    """Properties of a layer as functions of the radius."""

    @property
    def nodes(self) -> np.ndarray:
        """Radii, m, ascending, between which the properties are smooth; the first and last one are its ends."""
        ...

    def __call__(self, radius: np.ndarray) -> np.ndarray:
        """Return the properties `COLUMNS` (8, ...) at radii in m; beyond the ends those at the ends."""
        ...


@dataclass(frozen=True, eq=False)
class PolynomialProfile:
    """Polynomials of the normalized radius x = r / `RADIUS`: ``coefficients`` (8, powers), SI, ascending powers."""

    low: float
    high: float
    coefficients: np.ndarray

    @property
    def nodes(self) -> np.ndarray:
        """The ends."""
        return np.array([self.low, self.high])

    def __call__(self, radius: np.ndarray) -> np.ndarray:
        """Return the properties; see `Profile`."""
        x = np.clip(radius, self.low, self.high) / RADIUS
        return np.polynomial.polynomial.polyval(x, self.coefficients.T)


@dataclass(frozen=True, eq=False)
class TableProfile:
    """Linear interpolation: ``nodes`` radii, m, ascending; ``values`` (8, nodes)."""

    nodes: np.ndarray
    values: np.ndarray

    def __call__(self, radius: np.ndarray) -> np.ndarray:
        """Return the properties; see `Profile`."""
        return np.stack([np.interp(radius, self.nodes, column) for column in self.values])


@dataclass(frozen=True, eq=False)
class EarthLayer:
    """A layer between two radii, m. Where it exceeds the range of its profile, it has the values at the end of that."""

    top: float
    bottom: float
    profile: Profile

    @property
    def thickness(self) -> float:
        """Thickness, m."""
        return self.top - self.bottom

    @cached_property
    def _ends(self) -> EarthProperties:
        return EarthProperties(*self.profile(np.unique([self.bottom, *self.profile.nodes, self.top])))

    @property
    def is_fluid(self) -> bool:
        """True if there are no S waves."""
        return not self._ends.vsv.any()

    @property
    def is_anisotropic(self) -> bool:
        """True if speeds depend on the direction."""
        return bool(self._ends.anisotropic.any())

    def probes(self, low: float = 0.0, high: float = np.inf) -> np.ndarray:
        """Return radii, m, between two radii, which include its ends and the nodes of the profile."""
        ends = max(self.bottom, low), min(self.top, high)
        inside = self.profile.nodes[(self.profile.nodes > ends[0]) & (self.profile.nodes < ends[1])]
        return np.unique([*np.linspace(*ends, PROBES), *inside])

    def speed_range(self, low: float = 0.0, high: float = np.inf) -> tuple[float, float]:
        """Return the speed of the slowest and the fastest wave between two radii, m/s: of a fluid, of P waves."""
        here = EarthProperties(*self.profile(self.probes(low, high)))
        slowest, fastest = phase_speed_range(here.love, here.rho)
        return float(slowest.min()), float(fastest.max())


@dataclass(frozen=True, eq=False)
class RadialModel:
    """A model of the Earth whose properties depend on the radius only.

    Attributes
    ----------
    name : of the model, or of its file.
    layers : from the surface downwards, each beginning where the one before ends.
    reference_frequency : frequency, Hz, at which the speeds are phase velocities; None if it is not known.
    notes : what a user should know, sentences without a period.
    """

    name: str
    layers: tuple[EarthLayer, ...]
    reference_frequency: float | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError("a model has at least one layer")
        for upper, lower in zip(self.layers, self.layers[1:], strict=False):
            if upper.bottom != lower.top:
                raise ValueError(f"a layer ends at {upper.bottom} m, and the next one begins at {lower.top} m")
        if any(not layer.thickness > 0.0 for layer in self.layers):
            raise ValueError("every layer must have a thickness above 0")

    @property
    def radius(self) -> float:
        """Radius of the surface, m."""
        return self.layers[0].top

    @property
    def bottom(self) -> float:
        """Radius at which the model ends, m."""
        return self.layers[-1].bottom

    @property
    def discontinuities(self) -> np.ndarray:
        """Radii between the layers, m, from the surface downwards."""
        return np.array([layer.top for layer in self.layers[1:]])

    @property
    def attenuates(self) -> bool:
        """True if the model has quality factors."""
        return any(layer.profile(layer.probes())[6:].any() for layer in self.layers)

    def layer_index(self, radius: ArrayLike, within: Sequence[np.ndarray] = ()) -> np.ndarray:
        """Return the index of the layer at each radius, m; at a discontinuity that of the layer below it.

        within : the first and the last layer to which a point may belong, such as those of its element.
        """
        found = np.searchsorted(-self.discontinuities, -np.asarray(radius, float), side="right")
        return np.clip(found, *within) if len(within) else found

    def properties(self, radius: ArrayLike, layer: ArrayLike | None = None) -> EarthProperties:
        """Return the properties at radii in m.

        Above the surface and below the end of the model they are those at its ends.

        Parameters
        ----------
        layer : index of the layer of each point, of a shape that broadcasts against that of ``radius``; default:
            `layer_index`. With an index, the properties at a discontinuity are those of this layer. Outside the layer
            they are those at its nearest end.
        """
        radius = np.asarray(radius, float)
        index = self.layer_index(radius) if layer is None else np.asarray(layer)
        radius, index = np.broadcast_arrays(radius, index)
        values = np.empty((len(COLUMNS), *radius.shape))
        for number in np.unique(index).tolist():
            here, one = index == number, self.layers[number]
            values[:, here] = one.profile(np.clip(radius[here], one.bottom, one.top))
        return EarthProperties(*values)

    def speed_range(self, low: float, high: float) -> tuple[float, float]:
        """Return the speed of the slowest and the fastest wave, m/s, between two radii: of a fluid, of P waves."""
        if (low, high) not in self._speed_ranges:  # meshes of a model are planned several times
            self._speed_ranges[low, high] = self._speed_range(low, high)
        return self._speed_ranges[low, high]

    @cached_property
    def _speed_ranges(self) -> dict[tuple[float, float], tuple[float, float]]:
        return {}

    def _speed_range(self, low: float, high: float) -> tuple[float, float]:
        found = [one.speed_range(low, high) for one in self.layers if one.top > low and one.bottom < high]
        if not found:
            raise ValueError(f"the model has no layer between {low} and {high} m")
        return min(one[0] for one in found), max(one[1] for one in found)

    def truncated(self, depth: float) -> RadialModel:
        """Return the model from the surface down to a depth, m.

        Raises
        ------
        InputError : the model does not reach the depth.
        """
        self.require_depth(depth)
        bottom = self.radius - depth
        kept = [replace(one, bottom=max(one.bottom, bottom)) for one in self.layers if one.top > bottom]
        return replace(self, layers=tuple(kept))

    def require_depth(self, depth: float, where: str = "material.earth") -> None:
        """Require that the model covers the depths from 0 to a depth, m.

        Raises
        ------
        InputError : it ends above this depth.
        """
        reach = self.radius - self.bottom
        if depth > reach * (1.0 + 1e-9):
            raise InputError(
                where,
                f"{self.name} ends at the depth {reach / 1e3:.6g} km, and the domain at {depth / 1e3:.6g} km",
                "the model must cover the domain",
                "reduce the depth of the domain, or use a model of the entire Earth such as prem",
            )

    def without_ocean(self) -> RadialModel:
        """Return the model without fluid layers at its surface: the first solid layer extends up to the surface.

        Raises
        ------
        InputError : all layers are fluid.
        """
        solid = next((number for number, one in enumerate(self.layers) if not one.is_fluid), None)
        if solid is None:
            raise InputError("material.earth", f"{self.name} has no solid layer", "expected a model with a solid layer")
        first = replace(self.layers[solid], top=self.radius)
        return replace(self, layers=(first, *self.layers[solid + 1 :]))

    def without_layers_thinner_than(self, thickness: float) -> RadialModel:
        """Return the model with layers of less than a thickness, m, removed.

        The layer below a removed layer extends up to its top; the layer above the last one extends down to its bottom.
        """
        kept: list[EarthLayer] = []
        top = self.radius
        for one in self.layers:
            if one.thickness >= thickness:
                kept.append(replace(one, top=top))
                top = one.bottom
        if not kept:
            raise InputError(
                "material.earth.minimum_thickness", f"all layers of {self.name} are thinner than {thickness:g} m",
                "at least one layer must remain", "reduce it",
            )  # fmt: skip
        kept[-1] = replace(kept[-1], bottom=self.bottom)
        return replace(self, layers=tuple(kept))

    def isotropic(self) -> RadialModel:
        """Return the model with the isotropic (Voigt) averages of anisotropic layers."""
        return self._changed(_Isotropic, [one.is_anisotropic for one in self.layers])

    def elastic(self) -> RadialModel:
        """Return the model without quality factors."""
        return self._changed(_Elastic)

    def at_frequency(self, frequency: float) -> RadialModel:
        """Return the model with the phase velocities at a frequency, Hz; see `EarthProperties.at_frequency_ratio`.

        Raises
        ------
        InputError : the frequency to which the speeds of the model refer is not known.
        """
        if self.reference_frequency is None:
            raise InputError(
                "material.earth.frequency", f"the reference frequency of {self.name} is not known",
                "expected a model with a known reference frequency, such as prem",
            )  # fmt: skip
        ratio = frequency / self.reference_frequency
        changed = self._changed(lambda profile: _AtFrequency(profile, ratio))
        return replace(changed, reference_frequency=frequency)

    def _changed(self, change: type | object, which: Iterable[bool] | None = None) -> RadialModel:
        """Return the model with changed profiles, of all layers or of those for which ``which`` is True."""
        chosen = [True] * len(self.layers) if which is None else list(which)
        layers = (
            replace(one, profile=change(one.profile)) if use else one  # type: ignore[operator]
            for one, use in zip(self.layers, chosen, strict=True)
        )
        return replace(self, layers=tuple(layers))


@dataclass(frozen=True, eq=False)
class _Changed:
    """A profile whose values are those of another one, changed."""

    profile: Profile

    @property
    def nodes(self) -> np.ndarray:
        return self.profile.nodes


class _Isotropic(_Changed):
    def __call__(self, radius: np.ndarray) -> np.ndarray:
        here = EarthProperties(*self.profile(radius))
        one = np.ones_like(here.rho)
        return np.stack([here.vp, here.vp, here.vs, here.vs, one, here.rho, here.inverse_qkappa, here.inverse_qmu])


class _Elastic(_Changed):
    def __call__(self, radius: np.ndarray) -> np.ndarray:
        values = self.profile(radius)
        values[6:] = 0.0
        return values


@dataclass(frozen=True, eq=False)
class _AtFrequency(_Changed):
    ratio: float

    def __call__(self, radius: np.ndarray) -> np.ndarray:
        found = EarthProperties(*self.profile(radius)).at_frequency_ratio(self.ratio)
        return np.stack([getattr(found, name) for name in COLUMNS])


GRAVITATIONAL_CONSTANT = 6.6743e-11
"""m^3 / (kg s^2), CODATA 2018."""

EARTH_CONSTANT = 3.986004418e14
"""Gravitational constant times the mass of the Earth, m^3/s^2."""

_STEPS = 1000  # in each layer, with two quadrature points each


@dataclass(frozen=True, eq=False)
class RadialGravity:
    """The acceleration of gravity g(r), m/s^2, towards the center.

    radii : m, ascending. masses : gravitational constant times the mass below them, m^3/s^2.
    """

    radii: np.ndarray
    masses: np.ndarray

    @classmethod
    def of(cls, model: RadialModel) -> RadialGravity:
        """Return the gravity of a model, below whose surface is the mass of the Earth.

        The mass below a radius is that of the Earth minus the mass of the model above it.
        """
        radii, shells = [np.array([model.radius])], [np.zeros(1)]
        for index, layer in enumerate(model.layers):
            edges = np.linspace(layer.top, max(layer.bottom, 1e-3 * layer.top), _STEPS + 1)
            middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[:-1] - edges[1:])
            points = middle + np.array([[-1.0], [1.0]]) * half / np.sqrt(3.0)
            density = model.properties(points, index).rho
            radii.append(edges[1:])
            shells.append(4.0 * np.pi * GRAVITATIONAL_CONSTANT * half * (density * points**2).sum(axis=0))
        masses = EARTH_CONSTANT - np.cumsum(np.concatenate(shells))
        return cls(np.concatenate(radii)[::-1], masses[::-1])

    def __call__(self, radius: np.ndarray) -> np.ndarray:
        """Return g at radii, m."""
        return np.interp(radius, self.radii, self.masses) / np.asarray(radius) ** 2


SAMPLES = 21
"""Radii of a layer without nodes inside, such as one with polynomials."""

_INFINITE = 1e9  # quality factor without attenuation, which files cannot state
_NAMES = ("radius", "rho", "vpv", "vsv", "qka", "qmu", "vph", "vsh", "eta")


def write_axisem(model: RadialModel, path: str | Path) -> Path:
    """Write a model in SI, from the surface downwards, and return the file.

    Tables are written with their rows, other layers at `SAMPLES` radii. Quality factors without attenuation
    are written as 1e9, and Qmu of fluids as 0.
    """
    path = Path(path)
    lines = ["ANELASTIC T", "ANISOTROPIC T", "UNITS m", "COLUMNS " + " ".join(_NAMES)]
    if model.reference_frequency is not None:
        lines.insert(0, f"REFERENCE_FREQUENCY {model.reference_frequency!r}")
    for layer in model.layers:
        radius = _radii(layer)
        here = EarthProperties(*layer.profile(radius))
        bulk, shear = (np.minimum(quality, _INFINITE) for quality in (here.qkappa, here.qmu))
        shear = np.where(here.vsv > 0.0, shear, 0.0)
        rows = np.column_stack([radius, here.rho, here.vpv, here.vsv, bulk, shear, here.vph, here.vsh, here.eta])
        lines += [" ".join(f"{value:.17g}" for value in row) for row in rows.tolist()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _radii(layer: EarthLayer) -> np.ndarray:
    """Return the radii of the rows of a layer, m, descending."""
    nodes = layer.profile.nodes
    inside = nodes[(nodes > layer.bottom) & (nodes < layer.top)]
    if inside.size:
        return np.array([layer.top, *inside[::-1], layer.bottom])
    return np.linspace(layer.top, layer.bottom, SAMPLES)
