"""Exact motion in a homogeneous, isotropic solid with attenuation: point sources in a full space.

By the correspondence principle, the elastic solutions in the frequency domain hold with the complex velocities
alpha(w) = sqrt(M_P(w) / rho) and beta(w) = sqrt(mu(w) / rho) (Aki & Richards 2002, *Quantitative Seismology*, sections
4.2 to 4.3). With s = i w and time dependence exp(s t), a wave that has travelled a distance r has the factor
exp(-s r / alpha).

The inverse Fourier transform is evaluated on a line below the real axis, w - i eta: the spectrum is that of the motion
multiplied by exp(-eta t), so that the periodic repetitions of the discrete transform are damped to `WRAP_AROUND`, and
permanent offsets need no special treatment. Axes x East, y North, z Up; SI units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Modulus = Callable[[np.ndarray], np.ndarray]
"""Complex modulus, Pa, for complex angular frequencies, rad/s, with imaginary parts of at most 0."""

WRAP_AROUND = 1e-9
"""Factor of a motion that appears one period of the transform too early."""

_SMALL_SPECTRUM = 1e-9
_LARGEST_SPECTRUM = 1e-5
"""Spectra at the highest frequency, relative to the maximum: up to which the step is halved, and which is refused."""

_MOST_HALVINGS = 5


def constant_quality(modulus: float, quality: float, reference_frequency: float) -> Modulus:
    """Return the modulus of a medium with a Q independent of frequency (Kjartansson 1979, JGR 84(B9), 4737-4748).

    M(w) = rho c^2 cos^2(pi g / 2) (i w / w_ref)^(2 g), g = arctan(1/Q) / pi, with the phase velocity c at w_ref.

    Parameters
    ----------
    modulus : rho c^2, Pa. quality : Re M / Im M; may be infinite. reference_frequency : Hz.
    """
    exponent = np.arctan(1.0 / quality) / np.pi
    scale = modulus * np.cos(0.5 * np.pi * exponent) ** 2
    return lambda omega: scale * (1j * omega / (2.0 * np.pi * reference_frequency)) ** (2.0 * exponent)


def decay_rate(modulus: Modulus, rho: float, frequency: np.ndarray | float) -> np.ndarray:
    """Return the decay of the amplitude of plane waves per distance, -w Im sqrt(rho / M), 1/m, at frequencies in Hz."""
    omega = 2.0 * np.pi * np.asarray(frequency)
    return -omega * _slowness(modulus, rho, omega).imag


def _slowness(modulus: Modulus, rho: float, omega: np.ndarray) -> np.ndarray:
    return np.sqrt(rho / modulus(np.asarray(omega)))


def anelastic_force(
    receiver: Sequence[float],
    source: Sequence[float],
    force: Sequence[float],
    time_function: Any,
    times: np.ndarray,
    p_modulus: Modulus,
    s_modulus: Modulus,
    rho: float,
    quantity: str = "displacement",
) -> np.ndarray:
    """Return the motion from the point force F_j X(t) in a full space.

    4 pi rho u_i = (3 g_i g_j - d_ij) F_j r^-3 X N + g_i g_j F_j X e_P / (alpha^2 r) - (g_i g_j - d_ij) F_j X e_S /
    (beta^2 r), with e_P = exp(-s a), e_S = exp(-s b), a = r / alpha, b = r / beta, and N = integral of tau exp(-s tau)
    from a to b, which is (a/s + 1/s^2) e_P - (b/s + 1/s^2) e_S.

    Parameters
    ----------
    receiver, source : (x, y, z), m.
    force : (x, y, z), N.
    time_function : X(t): an object with ``amplitude(t)``, or a callable. It counts as zero before t = 0.
    times : (n,), s, equally spaced from 0 on or later.
    p_modulus, s_modulus : kappa + 4/3 mu and mu.
    quantity : ``"displacement"`` (m) or ``"velocity"`` (m/s).

    Returns
    -------
    (3, n) motion along x, y, z.

    Raises
    ------
    ValueError : receiver and source coincide, the times are not equally spaced, an unknown quantity, or a time function
        that is too rough for the transform.
    """
    path = _Path(receiver, source, getattr(time_function, "amplitude", time_function), times, p_modulus, s_modulus, rho)
    vector = np.asarray(force, dtype=float)
    along = path.direction * (path.direction @ vector)
    terms = (
        (3.0 * along - vector, path.near / path.distance**3),
        (along, path.p_wave * path.p_slowness**2 / path.distance),
        (vector - along, path.s_wave * path.s_slowness**2 / path.distance),
    )
    return path.motion(terms, {"displacement": 0, "velocity": 1}, quantity)


def anelastic_moment(
    receiver: Sequence[float],
    source: Sequence[float],
    moment: Sequence[float],
    moment_rate: Any,
    times: np.ndarray,
    p_modulus: Modulus,
    s_modulus: Modulus,
    rho: float,
    quantity: str = "displacement",
) -> np.ndarray:
    """Return the motion from a point moment tensor M_pq m(t) in a full space.

    The terms are those of Aki & Richards (2002), eq. 4.29, with the factors of `anelastic_force`: the near-field
    integral is N, and the waves are e_P and e_S.

    Parameters
    ----------
    moment : (xx, yy, zz, xy, xz, yz), N m.
    moment_rate : dm/dt, 1/s, of unit area: an object with ``rate(t)``, or a callable. It counts as zero before t = 0.

    Others, result and errors: as `anelastic_force`.
    """
    path = _Path(receiver, source, getattr(moment_rate, "rate", moment_rate), times, p_modulus, s_modulus, rho)
    xx, yy, zz, xy, xz, yz = (float(component) for component in moment)
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    across = tensor @ path.direction
    along = path.direction * (path.direction @ across)
    trace = path.direction * np.trace(tensor)
    r, s = path.distance, path.transform.s
    middle_p, middle_s = path.p_wave * (path.p_slowness / r) ** 2, path.s_wave * (path.s_slowness / r) ** 2
    terms = (
        (15.0 * along - 3.0 * trace - 6.0 * across, path.near / r**4),
        (6.0 * along - trace - 2.0 * across, middle_p),
        (3.0 * across + trace - 6.0 * along, middle_s),
        (along, s * path.p_wave * path.p_slowness**3 / r),
        (across - along, s * path.s_wave * path.s_slowness**3 / r),
    )
    return path.motion(terms, {"displacement": -1, "velocity": 0}, quantity)


class _Path:
    """Path from source to receiver: its geometry, and factors of waves along it at the frequencies of a transform."""

    def __init__(
        self,
        receiver: Sequence[float],
        source: Sequence[float],
        curve: Callable[[np.ndarray], np.ndarray],
        times: np.ndarray,
        p_modulus: Modulus,
        s_modulus: Modulus,
        rho: float,
    ) -> None:
        separation = np.asarray(receiver, dtype=float) - np.asarray(source, dtype=float)
        self.distance = float(np.linalg.norm(separation))
        if self.distance == 0.0:
            raise ValueError(f"receiver and source are both at {tuple(source)}: the motion there is unbounded")
        self.direction, self.rho = separation / self.distance, rho
        self.transform = _DampedTransform(curve, times)
        s, omega = self.transform.s, self.transform.omega
        self.p_slowness, self.s_slowness = (_slowness(modulus, rho, omega) for modulus in (p_modulus, s_modulus))
        self.p_wave, self.s_wave = (np.exp(-s * slow * self.distance) for slow in (self.p_slowness, self.s_slowness))
        p_time, s_time = self.p_slowness * self.distance, self.s_slowness * self.distance
        self.near = (p_time / s + s**-2) * self.p_wave - (s_time / s + s**-2) * self.s_wave

    def motion(
        self, terms: Sequence[tuple[np.ndarray, np.ndarray]], powers: dict[str, int], quantity: str
    ) -> np.ndarray:
        """Return the sum of vectors times factors, (3, n), with the source spectrum times s^power of the quantity."""
        if quantity not in powers:
            raise ValueError(f"quantity = {quantity!r}: must be one of {', '.join(powers)}")
        spectrum = self.transform.spectrum * self.transform.s ** powers[quantity] / (4.0 * np.pi * self.rho)
        return self.transform.inverse(sum(np.outer(vector, factor * spectrum) for vector, factor in terms))


class _DampedTransform:
    """Fourier transform of a time function on a line below the real axis, and the inverse transform at given times.

    Attributes
    ----------
    omega, s : (m,) complex angular frequency, rad/s, and i omega.
    spectrum : (m,) of the time function.
    """

    def __init__(self, curve: Callable[[np.ndarray], np.ndarray], times: np.ndarray) -> None:
        times = np.atleast_1d(np.asarray(times, dtype=float))
        step = times[-1] - times[-2] if times.size > 1 else 0.0
        if times[0] < 0.0 or step <= 0.0 or np.abs(np.diff(times) - step).max() > 1e-6 * step:
            raise ValueError("times must be two or more, equally spaced, and not negative")
        self._first, self._count = float(times[0]), times.size
        for halvings in range(_MOST_HALVINGS + 1):
            self._every = 2**halvings
            self._prepare(curve, step / self._every, float(times[-1]))
            size = np.abs(self.s * self.spectrum)
            rest = size[-size.size // 10 :].max() / size.max()
            if rest < _SMALL_SPECTRUM:
                return
        if rest > _LARGEST_SPECTRUM:
            raise ValueError(f"the time function is too rough: its spectrum is {rest:.2g} of its maximum at the end")

    def _prepare(self, curve: Callable[[np.ndarray], np.ndarray], step: float, end: float) -> None:
        self._step, self._size = step, 2 ** int(np.ceil(np.log2(2.0 * end / step + 4.0)))
        self._damping = -np.log(WRAP_AROUND) / (self._size * step)
        moments = step * np.arange(self._size)
        self.omega = 2.0 * np.pi * np.fft.rfftfreq(self._size, step) - 1j * self._damping
        self.s = 1j * self.omega
        self.spectrum = step * np.fft.rfft(curve(moments) * np.exp(-self._damping * moments))

    def inverse(self, spectrum: np.ndarray) -> np.ndarray:
        """Return the function of time, (..., n), that has a spectrum (..., m)."""
        shifted = spectrum * np.exp(self.s * self._first)
        values = np.fft.irfft(shifted, self._size)[..., : self._count * self._every : self._every] / self._step
        return values * np.exp(self._damping * self._step * self._every * np.arange(self._count))
