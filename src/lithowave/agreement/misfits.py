"""Misfits between the seismograms of two runs, and the shares of single causes in their difference.

All traces are arrays (n_receivers, 3, n_samples) at the same times, low-passed in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from lithowave.verification.misfits import frequency_band, relative_l2, time_shift, wavelet_misfits

WEAKEST = 1.0e-3
"""Norm of a receiver relative to the strongest one, below which misfits are relative to this fraction of the latter."""


@dataclass(frozen=True)
class Misfit:
    """Misfits of the traces u of a run relative to the traces r of another.

    Attributes
    ----------
    overall : relative L2 misfit over all receivers and components.
    components : (n, 3), ||u_c - r_c|| / ||r||, with ||r|| over all components of the receiver, so that a silent
        component has a small misfit; ||r|| is at least `WEAKEST` times that of the strongest receiver.
    receivers : (n,), the same over all components.
    worst : index of the receiver with the largest misfit.
    shift : time shift at this receiver, s; positive if u is late.
    amplitude : ||u|| / ||r|| - 1 at this receiver.
    envelope, phase : envelope and phase misfits at this receiver, maximum over the components; None without ObsPy.
    """

    overall: float
    components: np.ndarray
    receivers: np.ndarray
    worst: int
    shift: float
    amplitude: float
    envelope: float | None = None
    phase: float | None = None

    @property
    def largest(self) -> float:
        """Largest relative L2 misfit of a receiver."""
        return float(self.receivers[self.worst])

    @property
    def worst_component(self) -> str:
        """The component with the largest misfit at the worst receiver: E, N or Z."""
        return "ENZ"[int(np.argmax(self.components[self.worst]))]

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return all misfits as plain values for JSON. names : of the receivers."""
        rows = [
            {"name": name, "relative_l2": float(self.receivers[index])}
            | {f"relative_l2_{axis}": float(self.components[index, k]) for k, axis in enumerate("ENZ")}
            for index, name in enumerate(names)
        ]
        return {
            "overall_relative_l2": self.overall, "largest_relative_l2": self.largest, "worst": names[self.worst],
            "worst_component": self.worst_component, "time_shift_s": self.shift, "amplitude": self.amplitude,
            "envelope_misfit": self.envelope, "phase_misfit": self.phase, "receivers": rows,
        }  # fmt: skip


def receiver_norms(reference: np.ndarray) -> np.ndarray:
    """Return (n,) norms over components and samples, at least `WEAKEST` times the largest."""
    norms = np.sqrt(np.sum(reference**2, axis=(1, 2)))
    return np.maximum(norms, WEAKEST * norms.max(initial=0.0))


def misfit(traces: np.ndarray, reference: np.ndarray, interval: float, highest: float | None = None) -> Misfit:
    """Return the misfits of `traces` relative to `reference`.

    Parameters
    ----------
    interval : sampling interval, s.
    highest : maximum frequency of the envelope and phase misfits, Hz; None omits these.
    """
    norms = receiver_norms(reference)
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.sqrt(np.sum((traces - reference) ** 2, axis=2))
        components = np.where(difference == 0.0, 0.0, difference / norms[:, None])
    receivers = np.sqrt(np.sum(components**2, axis=1))
    worst = int(np.argmax(receivers))
    ours, theirs = traces[worst], reference[worst]
    envelope, phase = _wavelets(ours, theirs, interval, highest)
    norm = float(np.linalg.norm(theirs))
    return Misfit(
        overall=relative_l2(traces, reference),
        components=components,
        receivers=receivers,
        worst=worst,
        shift=time_shift(ours, theirs, interval),
        amplitude=float(np.linalg.norm(ours)) / norm - 1.0 if norm else 0.0,
        envelope=envelope,
        phase=phase,
    )


def _wavelets(
    traces: np.ndarray, reference: np.ndarray, interval: float, highest: float | None
) -> tuple[float | None, float | None]:
    if highest is None or find_spec("obspy") is None or reference.shape[-1] < 16 or not reference.any():
        return None, None
    band = frequency_band(reference, interval, max_frequency=highest)
    envelope, phase = wavelet_misfits(traces, reference, interval, band)
    return float(envelope.max()), float(phase.max())


@dataclass(frozen=True)
class Attribution:
    """The shares of single causes in the difference of two runs.

    Attributes
    ----------
    shares : for each cause, its share in the squared difference; shares and `unexplained` add up to 1.
    factors : for each cause, the factor from the measured change to the estimated error.
    errors : for each cause, the largest error at a receiver relative to the reference, ||D|| sqrt(share) with D and the
        share of this receiver.
    unexplained, unexplained_error : the same for no known cause.
    """

    shares: Mapping[Any, float]
    factors: Mapping[Any, float]
    errors: Mapping[Any, float]
    unexplained: float
    unexplained_error: float

    def causes(self, smallest: float = 0.2) -> list[Any]:
        """Return the causes with at least this share, the largest first."""
        chosen = [cause for cause, share in self.shares.items() if share >= smallest]
        return sorted(chosen, key=lambda cause: -self.shares[cause])


def attribute(
    difference: np.ndarray,
    changes: Mapping[Any, np.ndarray],
    largest: Mapping[Any, float],
    norms: np.ndarray,
) -> Attribution:
    r"""Return the shares of the causes of a difference between two runs.

    The difference D of two runs is the difference of their errors. A control run k, which lacks a part of one error,
    changes the traces by v_k. The estimated error is c_k v_k: c_k = 1 for a control run that removes the error, and
    c_k = 1 / (1 - r^-p), according to Richardson, for a run with r times as many points per wavelength and an error of
    order p. The factors minimize ||D - \sum_k c_k v_k|| for 1 <= c_k <= `largest[k]`. The share of a cause with c_k = 1
    is <D, v_k> / <D, D>. That of the others is <D', c_k v_k> / <D, D> with D' = D - \sum_j v_j over all causes j with
    c_j = 1: a finer run also changes the discretization of absorbing layers, which is no error of the resolution. The
    rest is unexplained. All inner products weight each receiver with its inverse squared norm. A change that is
    uncorrelated with the difference, for example the reflections of faces that were moved, has no share.

    Parameters
    ----------
    difference : D, (n_receivers, 3, n_samples).
    changes : v_k of each cause, with the sign that it has in D.
    largest : upper bound of each factor, at least 1.
    norms : (n_receivers,), of the reference.
    """
    weights = np.where(norms > 0.0, 1.0 / np.where(norms > 0.0, norms, 1.0), 0.0)[:, None, None]
    target = (weights * difference).ravel()
    names = list(changes)
    columns = np.array([(weights * changes[name]).ravel() for name in names]).reshape(len(names), target.size)
    factors = bounded_factors(columns, target, np.array([largest[name] for name in names]))
    total = float(target @ target)
    parts = factors[:, None] * columns
    fixed = np.array([largest[name] == 1.0 for name in names], dtype=bool)
    remainder = target - parts[fixed].sum(axis=0)
    products = parts * np.where(fixed[:, None], target, remainder)
    shares = products.sum(axis=1) / total if total else np.zeros(len(names))

    def largest_error(product: np.ndarray) -> float:
        return float(np.sqrt(np.maximum(product.reshape(len(norms), -1).sum(axis=1), 0.0).max(initial=0.0)))

    return Attribution(
        shares=dict(zip(names, shares.tolist(), strict=True)),
        factors=dict(zip(names, factors.tolist(), strict=True)),
        errors={name: largest_error(product) for name, product in zip(names, products, strict=True)},
        unexplained=float(1.0 - shares.sum()),
        unexplained_error=largest_error(target**2 - products.sum(axis=0)),
    )


def bounded_factors(columns: np.ndarray, target: np.ndarray, largest: np.ndarray, sweeps: int = 100) -> np.ndarray:
    """Return the factors c, 1 <= c_k <= largest_k, that minimize ||target - c @ columns||, by coordinate descent.

    columns : (m, n). target : (n,). largest : (m,), at least 1.
    """
    gram, moments = columns @ columns.T, columns @ target
    factors = np.ones(len(columns))
    for _ in range(sweeps):
        before = factors.copy()
        for k in range(len(columns)):
            if gram[k, k] > 0.0:
                rest = moments[k] - gram[k] @ factors + gram[k, k] * factors[k]
                factors[k] = np.clip(rest / gram[k, k], 1.0, largest[k])
        if np.abs(factors - before).max(initial=0.0) < 1e-9:
            break
    return factors
