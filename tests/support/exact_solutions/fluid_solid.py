"""Plane waves at a plane interface of two fluids or solids: amplitude coefficients, and exact fields.

Every wave here is  v = A d f(t − s·(x − x₀)),  σ = −[λ (d·s) I + μ (d sᵀ + s dᵀ)] A f(t − s·(x − x₀)),  with the
slowness s = (p, 0, q), s·s = 1/c², and the polarization d, d·d = 1 (Aki & Richards 2002, chapter 5):

    P:  d = α s          SV:  d = β ŷ × s = β (q, 0, −p)

so P moves along its propagation direction, and SV along +x if it travels up, along −x if it travels down. All waves of
one problem share p. Beyond a critical angle q is imaginary and d complex, and f must be analytic for Im t < 0: a
harmonic f = exp(−iωt) then decays away from the interface. The motion is the real part.

The interface is z = 0 with z upwards; the media are `upper` and `lower`. Normal velocity and normal traction are
continuous; in addition, shear traction and tangential velocity are continuous (two solids), the shear traction is zero
(a fluid and a solid), or there is no further condition (two fluids). SI units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

COMPONENTS = ("xx", "yy", "zz", "xy", "xz", "yz", "vx", "vy", "vz")
"""Order of the values of a field: stresses (Pa), the shear ones as xy, xz, yz like `plane_waves`; velocities (m/s)."""

WAVES = ("upper P", "upper SV", "lower P", "lower SV")

_PAIRS = tuple(("xyz".index(name[0]), "xyz".index(name[1])) for name in COMPONENTS[:6])


@dataclass(frozen=True)
class Medium:
    """A homogeneous isotropic solid, or a fluid if ``vs = 0``. Velocities in m/s, density in kg/m³.

    Raises ValueError unless all are finite, rho > 0, vs ≥ 0 and vp² > 4/3 vs².
    """

    vp: float
    vs: float
    rho: float

    def __post_init__(self) -> None:
        sound = np.isfinite([self.vp, self.vs, self.rho]).all() and self.rho > 0.0 and self.vp > 0.0
        if not (sound and self.vs >= 0.0 and self.vp**2 > 4.0 / 3.0 * self.vs**2):
            raise ValueError(
                f"vp = {self.vp}, vs = {self.vs}, rho = {self.rho}: must be finite, rho > 0, vs ≥ 0, vp² > 4/3 vs²"
            )

    @property
    def fluid(self) -> bool:
        return self.vs == 0.0

    @property
    def lame_lambda(self) -> float:
        return self.rho * (self.vp**2 - 2.0 * self.vs**2)

    @property
    def rigidity(self) -> float:
        return self.rho * self.vs**2


@dataclass(frozen=True)
class PartialWave:
    """A wave: medium, slowness s (3,), s/m, and amplitude times polarization A d (3,); complex if evanescent."""

    medium: Medium
    slowness: np.ndarray
    polarization: np.ndarray

    def pattern(self) -> np.ndarray:
        """Return the factors (9,), complex, of f in each of `COMPONENTS`."""
        s, d, medium = self.slowness, self.polarization, self.medium
        tensor = medium.rigidity * (np.outer(d, s) + np.outer(s, d)) + medium.lame_lambda * (d @ s) * np.eye(3)
        return np.array([*(-tensor[pair] for pair in _PAIRS), *d])

    def turned(self, axes: np.ndarray, factor: complex = 1.0) -> PartialWave:
        """Return the wave in coordinates in which the rows of `axes` (3, 3) are its own axes, times a factor."""
        return PartialWave(self.medium, self.slowness @ axes, factor * self.polarization @ axes)


@dataclass(frozen=True)
class Harmonic:
    """f(t) = amplitude exp(−i ω t), ω in rad/s."""

    angular_frequency: float
    amplitude: complex = 1.0

    def __call__(self, t: np.ndarray) -> np.ndarray:
        return self.amplitude * np.exp(-1j * self.angular_frequency * np.asarray(t))


Waveform = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class InterfaceField:
    """An exact field on both sides of a plane interface, bounded everywhere; see `scattered_field`.

    Attributes
    ----------
    upper, lower : the waves of each side; an empty side is a vacuum, where the values are 0.
    waveform : f(t), m/s, on arrays; a `Harmonic` if a wave is evanescent.
    normal : (3,) unit normal of the interface, towards the upper medium.
    origin : (3,) a point of the interface, where all waves are f(t); m.

    Raises
    ------
    ValueError : evanescent waves with a waveform that is not defined at complex times.
    """

    upper: tuple[PartialWave, ...]
    lower: tuple[PartialWave, ...]
    waveform: Waveform
    normal: np.ndarray
    origin: np.ndarray

    def __post_init__(self) -> None:
        evanescent = any(np.any(wave.slowness.imag != 0.0) for wave in (*self.upper, *self.lower))
        if evanescent and not isinstance(self.waveform, Harmonic):
            raise ValueError(
                "waveform: some waves are evanescent here, which needs a Harmonic "
                f"rather than {self.waveform!r}"
            )

    def is_upper(self, points: np.ndarray) -> np.ndarray:
        """Return a mask (...) of the points (..., 3) above or on the interface."""
        return (np.asarray(points, dtype=float) - self.origin) @ self.normal >= 0.0

    def values(
        self, points: np.ndarray, time: np.ndarray | float, upper: np.ndarray | bool | None = None
    ) -> np.ndarray:
        """Return (..., 9) stress (Pa) and velocity (m/s), as `COMPONENTS`, at points (..., 3), m, and times (...), s.

        `upper` selects the side for points on the interface (the side of an element); default: by position. The
        tangential velocity and stress may jump across the interface.
        """
        points = np.asarray(points, dtype=float)
        side = self.is_upper(points) if upper is None else np.asarray(upper, dtype=bool)
        shape = np.broadcast_shapes(points.shape[:-1], np.shape(time), side.shape)
        points = np.broadcast_to(points, (*shape, 3)) - self.origin
        time, side = np.broadcast_to(time, shape), np.broadcast_to(side, shape)
        values = np.zeros((*shape, len(COMPONENTS)))
        for waves, here in ((self.upper, side), (self.lower, ~side)):
            for wave in waves:
                # Waves are evaluated on their own side only: evanescent ones would overflow on the other.
                delay = points[here] @ wave.slowness
                values[here] += np.multiply.outer(self.waveform(time[here] - delay), wave.pattern()).real
        return values


def interface_coefficients(
    slowness: np.ndarray | float, upper: Medium | None, lower: Medium, incident: str = "upper P"
) -> dict[str, np.ndarray]:
    """Return velocity (or displacement) amplitudes of the outgoing waves, for an incident wave of amplitude 1.

    Parameters
    ----------
    slowness : (...) horizontal slowness p = sin(angle of incidence) / speed, s/m; at most 1 / speed in size.
    upper, lower : media; ``upper = None`` is a vacuum (a free surface).
    incident : one of `WAVES`; it travels towards the interface.

    Returns
    -------
    (...) complex coefficient for each of `WAVES` that exists, travelling or decaying away from the interface.

    Raises
    ------
    ValueError : an incident wave that does not exist, or whose speed does not allow that slowness.
    """
    p = np.asarray(slowness, dtype=float)
    medium, _ = _medium_of(incident, upper, lower)
    if medium is None or ("SV" in incident and medium.fluid):
        raise ValueError(f"incident = {incident!r}: there is no such wave in that medium")
    speed = medium.vs if "SV" in incident else medium.vp
    if np.any(np.abs(p) * speed > 1.0):
        raise ValueError(f"slowness = {slowness}: must be at most 1/speed = {1.0 / speed:g} s/m for the {incident}")
    matrix, names = interface_matrix(p, upper, lower)
    given = _responses(p, incident, upper, lower, outgoing=False)
    rows = _conditions(upper, lower)
    right = -given[..., rows] / _scales(upper, lower)[rows]
    amplitudes = np.linalg.solve(matrix, right[..., None])[..., 0]
    return {name: amplitudes[..., column] for column, name in enumerate(names)}


def scattered_field(
    slowness: float,
    upper: Medium | None,
    lower: Medium,
    waveform: Waveform,
    incident: str = "upper P",
    *,
    origin: Sequence[float] = (0.0, 0.0, 0.0),
    axes: Sequence[Sequence[float]] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
) -> InterfaceField:
    """Return the field of a plane wave incident on the interface, including all reflected and transmitted waves.

    Parameters
    ----------
    slowness, upper, lower, incident : as `interface_coefficients`, with one slowness.
    waveform : velocity of the incident wave along its polarization at the origin, m/s. Any function below all critical
        angles; beyond one, a `Harmonic`.
    origin : a point of the interface, m.
    axes : rows are the unit vectors x (along the interface, in the plane of incidence), y, z (normal, to the upper
        medium) of this module, in the coordinates of the field's points.

    Raises
    ------
    ValueError : as `interface_coefficients` and `InterfaceField`; axes that are not orthonormal.
    """
    coefficients = interface_coefficients(slowness, upper, lower, incident)
    waves = {name: partial_wave(slowness, name, upper, lower) for name in coefficients}
    sides: dict[str, list[PartialWave]] = {"upper": [], "lower": []}
    frame = orthonormal(axes)
    arriving = partial_wave(slowness, incident, upper, lower, outgoing=False)
    sides[incident.split()[0]].append(arriving.turned(frame))
    for name, wave in waves.items():
        sides[name.split()[0]].append(wave.turned(frame, complex(coefficients[name])))
    start = np.asarray(origin, dtype=float)
    return InterfaceField(tuple(sides["upper"]), tuple(sides["lower"]), waveform, frame[2], start)


def partial_wave(
    slowness: float, name: str, upper: Medium | None, lower: Medium, *, outgoing: bool = True
) -> PartialWave:
    """Return the wave called `name` (one of `WAVES`) with unit amplitude, leaving the interface or arriving at it."""
    medium, _ = _medium_of(name, upper, lower)
    s, d = _vectors(np.asarray(slowness, dtype=float), name, upper, lower, outgoing)
    if np.all(s.imag == 0.0):
        s, d = s.real, d.real
    return PartialWave(medium, s, d)


def interface_matrix(
    slowness: np.ndarray | float, upper: Medium | None, lower: Medium
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the matrix (..., n, n) from outgoing amplitudes to the jump at the interface, and their names.

    Rows: tangential and normal velocity (m/s), normal and shear traction (over an impedance), if they apply. It is
    singular at the slowness of an interface wave.
    """
    p = np.asarray(slowness, dtype=float)
    names = tuple(name for name in WAVES if _exists(name, upper, lower))
    rows = _conditions(upper, lower)
    columns = [_responses(p, name, upper, lower)[..., rows] / _scales(upper, lower)[rows] for name in names]
    return np.stack(columns, axis=-1), names


def orthonormal(axes: Sequence[Sequence[float]]) -> np.ndarray:
    """Return the axes as (3, 3) array. Raises ValueError unless they are orthonormal to 1e-9."""
    frame = np.asarray(axes, dtype=float)
    if frame.shape != (3, 3) or np.abs(frame @ frame.T - np.eye(3)).max() > 1e-9:
        raise ValueError(f"axes = {frame.tolist()}: must be three unit vectors at right angles")
    return frame


def _medium_of(name: str, upper: Medium | None, lower: Medium) -> tuple[Medium | None, float]:
    """Return the medium of a wave, and the sign of z there."""
    if name not in WAVES:
        raise ValueError(f"wave = {name!r}: must be one of {', '.join(WAVES)}")
    return (upper, 1.0) if name.startswith("upper") else (lower, -1.0)


def _exists(name: str, upper: Medium | None, lower: Medium) -> bool:
    medium, _ = _medium_of(name, upper, lower)
    return medium is not None and ("SV" not in name or not medium.fluid)


def _conditions(upper: Medium | None, lower: Medium) -> list[int]:
    """Return which of tangential velocity, normal velocity, normal traction, shear traction are continuous."""
    solid_above, solid_below = upper is not None and not upper.fluid, not lower.fluid
    applies = (solid_above and solid_below, upper is not None, True, solid_above or solid_below)
    return [row for row, holds in enumerate(applies) if holds]


def _scales(upper: Medium | None, lower: Medium) -> np.ndarray:
    """Return (4,) units that scale velocities and tractions to similar size: the larger impedance."""
    impedance = max(medium.rho * medium.vp for medium in (upper, lower) if medium is not None)
    return np.array([1.0, 1.0, impedance, impedance])


def _vectors(
    p: np.ndarray, name: str, upper: Medium | None, lower: Medium, outgoing: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return (..., 3) complex slowness and polarization; an outgoing evanescent wave decays away from the interface."""
    medium, away = _medium_of(name, upper, lower)
    speed = medium.vs if "SV" in name else medium.vp
    # (1 − cp)(1 + cp) instead of 1 − c²p² avoids cancellation near grazing incidence.
    vertical = np.sqrt(((1.0 - speed * p) * (1.0 + speed * p)).astype(complex)) / speed
    q = vertical * (away if outgoing else -away)
    zero = np.zeros_like(q)
    s = np.stack([p + zero, zero, q], axis=-1)
    d = speed * (np.stack([q, zero, -p + zero], axis=-1) if "SV" in name else s)
    return s, d


def _responses(
    p: np.ndarray, name: str, upper: Medium | None, lower: Medium, *, outgoing: bool = True
) -> np.ndarray:
    """Return (..., 4) vx, vz, σzz, σxz at the interface of a wave of unit amplitude; negative for the lower side."""
    medium, side = _medium_of(name, upper, lower)
    s, d = _vectors(p, name, upper, lower, outgoing)
    along = np.sum(s * d, axis=-1)
    normal = -(medium.lame_lambda * along + 2.0 * medium.rigidity * d[..., 2] * s[..., 2])
    shear = -medium.rigidity * (d[..., 0] * s[..., 2] + d[..., 2] * s[..., 0])
    return side * np.stack([d[..., 0], d[..., 2], normal, shear], axis=-1)
