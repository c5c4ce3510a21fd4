"""Exact motion in a homogeneous, isotropic, unbounded elastic solid, from a point force and a moment tensor.

Aki & Richards (2002), *Quantitative Seismology*, eqs 4.23 and 4.29, with near, intermediate and far terms.
Axes x East, y North, z Up; SI units. This module shares no code with the solvers.

With r the distance, γ the unit vector from source to receiver, a = r/α and b = r/β the arrival times of P
and S, the near-field terms contain ∫ τ X(t − τ) dτ over [a, b]. It is computed from the function itself, not
from its antiderivatives: the integral of the moment is transformed to one of the moment *rate*,

    ∫ τ M(t − τ) dτ = b²/2 M(t − b) − a²/2 M(t − a) + ½ ∫ τ² Ṁ(t − τ) dτ,

and that of the derivative of a force to one of the force,

    ∫ τ Ẋ(t − τ) dτ = a X(t − a) − b X(t − b) + ∫ X(t − τ) dτ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from exact_solutions.quadrature import TimeCurve, antiderivative, differentiate, integrate

QUANTITIES = ("displacement", "velocity")


def full_space_force(
    receiver: Sequence[float],
    source: Sequence[float],
    force: Sequence[float],
    time_function: Any,
    times: np.ndarray,
    vp: float,
    vs: float,
    rho: float,
    quantity: str = "displacement",
    *,
    derivative: TimeCurve | None = None,
    breakpoints: Sequence[float] = (),
) -> np.ndarray:
    """Return the motion from the point force F_j X(t) (Aki & Richards 2002, eq. 4.23).

    4πρ u_i = (3γ_iγ_j − δ_ij) F_j r⁻³ ∫ τ X(t − τ) dτ
            + γ_iγ_j F_j X(t − r/α)/(α² r) − (γ_iγ_j − δ_ij) F_j X(t − r/β)/(β² r)

    Parameters
    ----------
    receiver, source : (x, y, z), m.
    force : (x, y, z), N.
    time_function : X(t), dimensionless: an object with ``amplitude(t)``, or a callable. It counts as zero
        before t = 0, as in a simulation.
    times : (n,), s.
    vp, vs, rho : m/s, m/s, kg/m³.
    quantity : ``"displacement"`` (m) or ``"velocity"`` (m/s).
    derivative : Ẋ(t), 1/s, used for the velocity; default: X is differentiated numerically to 1e-6 or
        better.
    breakpoints : times at which X or a derivative of it jumps, s. The delta function that a jump of X itself
        adds to the velocity is omitted.

    Returns
    -------
    (3, n) motion along x, y, z. Error below 1e-8 of the peak (displacement).

    Raises
    ------
    ValueError : receiver and source coincide, a wrong medium or quantity, or a time function too rough for
        the quadrature (see `quadrature.integrate` and `quadrature.differentiate`).
    """
    path = _Path(receiver, source, times, vp, vs, rho, quantity)
    curve = _from_start(_curve_of(time_function, "amplitude"))
    force_vector = np.asarray(force, dtype=float)
    along = path.direction * (path.direction @ force_vector)

    at_p, at_s = curve(path.times - path.p_time), curve(path.times - path.s_time)
    if quantity == "displacement":
        near = path.weighted_integral(curve, 1, breakpoints)
        far_p, far_s = at_p, at_s
    else:
        integral = path.weighted_integral(curve, 0, breakpoints)
        near = path.p_time * at_p - path.s_time * at_s + integral
        far_p, far_s = path.derivatives(_curve_of(time_function, "amplitude"), derivative)
    r = path.distance
    motion = np.outer(3.0 * along - force_vector, near) / r**3
    motion += np.outer(along, far_p) / (vp**2 * r)
    motion -= np.outer(along - force_vector, far_s) / (vs**2 * r)
    return motion / (4.0 * np.pi * rho)


def full_space_moment(
    receiver: Sequence[float],
    source: Sequence[float],
    moment: Sequence[float],
    moment_rate: Any,
    times: np.ndarray,
    vp: float,
    vs: float,
    rho: float,
    quantity: str = "displacement",
    *,
    derivative: TimeCurve | None = None,
    breakpoints: Sequence[float] = (),
) -> np.ndarray:
    """Return the motion from a point moment tensor M_pq m(t) with rate ṁ(t) (Aki & Richards 2002, eq. 4.29).

    4πρ u_n = (15γ_nγ_pγ_q − 3γ_nδ_pq − 3γ_pδ_nq − 3γ_qδ_np) M_pq r⁻⁴ ∫ τ m(t − τ) dτ
            + (6γ_nγ_pγ_q − γ_nδ_pq − γ_pδ_nq − γ_qδ_np) M_pq m(t − r/α)/(α² r²)
            − (6γ_nγ_pγ_q − γ_nδ_pq − γ_pδ_nq − 2γ_qδ_np) M_pq m(t − r/β)/(β² r²)
            + γ_nγ_pγ_q M_pq ṁ(t − r/α)/(α³ r) − (γ_nγ_p − δ_np)γ_q M_pq ṁ(t − r/β)/(β³ r)

    Parameters
    ----------
    receiver, source : (x, y, z), m.
    moment : (xx, yy, zz, xy, xz, yz), N m.
    moment_rate : ṁ(t), 1/s, of unit area: an object with ``rate(t)``, or a callable. It counts as zero
        before t = 0, as in a simulation.
    times : (n,), s.
    vp, vs, rho : m/s, m/s, kg/m³.
    quantity : ``"displacement"`` (m) or ``"velocity"`` (m/s).
    derivative : m̈(t), 1/s², used for the velocity; default: ṁ is differentiated numerically to 1e-6 or
        better.
    breakpoints : times at which ṁ or a derivative of it jumps, s. The delta function that a jump of ṁ itself
        adds to the velocity is omitted.

    Returns
    -------
    (3, n) motion along x, y, z. Error below 1e-8 of the peak (displacement).

    Raises
    ------
    ValueError : as `full_space_force`.
    """
    path = _Path(receiver, source, times, vp, vs, rho, quantity)
    rate = _from_start(_curve_of(moment_rate, "rate"))
    xx, yy, zz, xy, xz, yz = (float(component) for component in moment)
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    across = tensor @ path.direction
    along = path.direction * (path.direction @ across)
    trace = path.direction * np.trace(tensor)

    rate_p, rate_s = rate(path.times - path.p_time), rate(path.times - path.s_time)
    if quantity == "displacement":
        middle_p, middle_s = path.antiderivatives(rate, breakpoints)
        squares = path.s_time**2 * middle_s - path.p_time**2 * middle_p
        near = 0.5 * (squares + path.weighted_integral(rate, 2, breakpoints))
        far_p, far_s = rate_p, rate_s
    else:
        near = path.weighted_integral(rate, 1, breakpoints)
        middle_p, middle_s = rate_p, rate_s
        far_p, far_s = path.derivatives(_curve_of(moment_rate, "rate"), derivative)
    r = path.distance
    motion = np.outer(15.0 * along - 3.0 * trace - 6.0 * across, near) / r**4
    motion += np.outer(6.0 * along - trace - 2.0 * across, middle_p) / (vp * r) ** 2
    motion -= np.outer(6.0 * along - trace - 3.0 * across, middle_s) / (vs * r) ** 2
    motion += np.outer(along, far_p) / (vp**3 * r)
    motion -= np.outer(along - across, far_s) / (vs**3 * r)
    return motion / (4.0 * np.pi * rho)


class _Path:
    """Path from source to receiver: its geometry, its arrival times, and time functions along it."""

    def __init__(
        self,
        receiver: Sequence[float],
        source: Sequence[float],
        times: np.ndarray,
        vp: float,
        vs: float,
        rho: float,
        quantity: str,
    ) -> None:
        separation = np.asarray(receiver, dtype=float) - np.asarray(source, dtype=float)
        self.distance = float(np.linalg.norm(separation))
        self.times = np.atleast_1d(np.asarray(times, dtype=float))
        if self.distance == 0.0:
            raise ValueError(
                f"receiver and source are both at {tuple(source)}: the motion there is unbounded"
            )
        if not (rho > 0.0 and vs > 0.0 and vp**2 > 4.0 / 3.0 * vs**2):
            raise ValueError(f"vp = {vp}, vs = {vs}, rho = {rho}: all must be > 0, and vp² > 4/3 vs²")
        if quantity not in QUANTITIES:
            raise ValueError(f"quantity = {quantity!r}: must be one of {', '.join(QUANTITIES)}")
        self.direction = separation / self.distance
        self.p_time, self.s_time = self.distance / vp, self.distance / vs
        # A function sampled finely enough for plots is smooth over a few samples; a single time gives no scale.
        gaps = np.diff(np.unique(self.times))
        self.time_scale = 4.0 * float(np.median(gaps)) if gaps.size else (self.s_time - self.p_time) / 64.0

    def weighted_integral(self, curve: TimeCurve, power: int, breakpoints: Sequence[float]) -> np.ndarray:
        """Return (n,) ∫ τ^power curve(t − τ) dτ over [r/α, r/β], integrated over s = t − τ."""
        lower, upper = self.times - self.s_time, self.times - self.p_time
        edges = (0.0, *breakpoints)
        return integrate(curve, lower, upper, self.time_scale, edges, reference=self.times, power=power)

    def antiderivatives(
        self, curve: TimeCurve, breakpoints: Sequence[float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the integrals of the curve from 0 to t − r/α and to t − r/β, (n,) each."""
        both = np.concatenate((self.times - self.p_time, self.times - self.s_time))
        values = antiderivative(curve, both, 0.0, self.time_scale, breakpoints)
        return values[: self.times.size], values[self.times.size :]

    def derivatives(self, curve: TimeCurve, derivative: TimeCurve | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives of the curve at t − r/α and at t − r/β, (n,) each; zero before 0."""
        both = np.concatenate((self.times - self.p_time, self.times - self.s_time))
        if derivative is None:
            values = differentiate(curve, both, self.time_scale)
        else:
            values = np.asarray(derivative(both), dtype=float)
        values = np.where(both < 0.0, 0.0, values)
        return values[: self.times.size], values[self.times.size :]


def _curve_of(time_function: Any, normalisation: str) -> TimeCurve:
    """Return the time function of an object with ``rate`` and ``amplitude``, or the callable itself."""
    curve = getattr(time_function, normalisation, time_function)
    if not callable(curve):
        raise ValueError(f"time function = {time_function!r}: must have {normalisation}(t), or be callable")
    return curve


def _from_start(curve: TimeCurve) -> TimeCurve:
    """Return the curve, set to zero before t = 0."""
    return lambda times: np.where(times < 0.0, 0.0, curve(times))
