"""Interface waves: Rayleigh (vacuum and solid), Scholte (fluid and solid).

They are waves of `exact_solutions.fluid_solid` without an incident wave: outgoing, evanescent amplitudes
without a jump at the interface, travelling along x with a speed c below those of all body waves. With

    ξ = c²/β²,  γ_α = √(1 − c²/α²),  γ_β = √(1 − c²/β²),  R(c) = 4 γ_α γ_β − (2 − ξ)²

the speeds are the roots of (Rayleigh 1885; Scholte 1947, *Geophysical Journal* 5, 120; Aki & Richards 2002, chapter 5)

    Rayleigh  R(c) = 0
    Scholte   γ_f R(c) = (ρ_f/ρ_s) ξ² γ_α      with γ_f = √(1 − c²/c_f²) of the fluid

SI units; neither is dispersive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from exact_solutions.fluid_solid import (
    Harmonic,
    InterfaceField,
    Medium,
    Waveform,
    interface_matrix,
    orthonormal,
    partial_wave,
)

STRAIGHT = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def rayleigh_speed(vp: float, vs: float) -> float:
    """Return the Rayleigh wave speed of a solid, m/s, to round-off. ValueError unless vs > 0 and vp² > 4/3 vs²."""
    solid = Medium(vp, vs, 1.0)
    if solid.fluid:
        raise ValueError("vs = 0: a fluid has no Rayleigh wave")
    return vs * float(np.sqrt(_root(lambda xi: _rayleigh(xi, (vs / vp) ** 2), 0.0, 1.0)))


def scholte_speed(fluid: Medium, solid: Medium) -> float:
    """Return the Scholte wave speed of a fluid and a solid, m/s, to round-off; it exists for all pairs.

    It is below the fluid's speed and the solid's Rayleigh speed. Raises ValueError unless the media are a fluid and a
    solid.
    """
    if not fluid.fluid or solid.fluid:
        raise ValueError(f"fluid = {fluid}, solid = {solid}: the first must have vs = 0, the second vs > 0")
    in_solid, in_fluid = (solid.vs / solid.vp) ** 2, (solid.vs / fluid.vp) ** 2
    ratio = fluid.rho / solid.rho

    def secular(xi: float) -> float:
        fluid_decay = np.sqrt(max(1.0 - in_fluid * xi, 0.0))
        return fluid_decay * _rayleigh(xi, in_solid) - ratio * xi * np.sqrt(1.0 - in_solid * xi)

    return solid.vs * float(np.sqrt(_root(secular, 0.0, min(1.0, 1.0 / in_fluid))))


def rayleigh_wave(solid: Medium, wavelength: float, amplitude: float = 1.0) -> InterfaceField:
    """Return the Rayleigh wave below the free surface z = 0, harmonic with a period of one wavelength (m) along x."""
    speed = rayleigh_speed(solid.vp, solid.vs)
    return guided_wave(speed, None, solid, _harmonic(speed, wavelength, amplitude))


def scholte_wave(fluid: Medium, solid: Medium, wavelength: float, amplitude: float = 1.0) -> InterfaceField:
    """Return the Scholte wave at z = 0 below the fluid, harmonic with a period of one wavelength (m) along x."""
    speed = scholte_speed(fluid, solid)
    return guided_wave(speed, fluid, solid, _harmonic(speed, wavelength, amplitude))


def guided_wave(
    speed: float,
    upper: Medium | None,
    lower: Medium,
    waveform: Waveform,
    *,
    origin: Sequence[float] = (0.0, 0.0, 0.0),
    axes: Sequence[Sequence[float]] = STRAIGHT,
) -> InterfaceField:
    """Return the field of the interface wave of this speed (from this module), travelling along +x.

    Parameters
    ----------
    speed : m/s.
    upper, lower : media; ``upper = None`` is a vacuum.
    waveform : normal velocity at the origin, m/s, whose real part is used: a `Harmonic`.
    origin, axes : as `fluid_solid.scattered_field`. If axes[2] points down, the upper medium is below.

    Raises
    ------
    ValueError : a speed at which the two media have no interface wave (to 1e-8).
    """
    matrix, names = interface_matrix(1.0 / speed, upper, lower)
    _, sizes, vectors = np.linalg.svd(matrix)
    if not sizes[-1] < 1e-8 * sizes[0]:
        raise ValueError(f"speed = {speed} m/s: {upper} and {lower} have no interface wave of this speed")
    waves = {name: partial_wave(1.0 / speed, name, upper, lower) for name in names}
    amplitudes = dict(zip(names, vectors[-1].conj(), strict=True))
    normal_velocity = sum(amplitudes[name] * waves[name].polarization[2] for name in names if "lower" in name)
    frame = orthonormal(axes)
    turned = {name: waves[name].turned(frame, amplitudes[name] / normal_velocity) for name in names}
    above, below = (tuple(turned[name] for name in names if name.startswith(side)) for side in ("upper", "lower"))
    return InterfaceField(above, below, waveform, frame[2], np.asarray(origin, dtype=float))


def _harmonic(speed: float, wavelength: float, amplitude: float) -> Harmonic:
    return Harmonic(2.0 * np.pi * speed / wavelength, amplitude)


def _rayleigh(xi: float, ratio: float) -> float:
    """Return R(c)/ξ with ratio = β²/α², without cancellation for small ξ, where it is 2(1 − ratio)."""
    product = np.sqrt((1.0 - ratio * xi) * (1.0 - xi))
    return 4.0 - xi - 4.0 * (1.0 + ratio - ratio * xi) / (1.0 + product)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of a function that is positive at `low` and negative at `high`, by bisection to the last bit."""
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if function(middle) > 0.0 else (low, middle)
    return low
