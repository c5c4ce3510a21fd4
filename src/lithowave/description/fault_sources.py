"""Point sources of a finite fault in local coordinates."""

from __future__ import annotations

import numpy as np

from lithowave.description.domain import Domain
from lithowave.description.material import Material
from lithowave.description.refusals import refusal
from lithowave.description.slip_rates import SlipRates
from lithowave.faults import FiniteFault, SampledSources


def fault_sources(
    fault: FiniteFault, domain: Domain, material: Material, delay: float, at_sea_level: bool = False
) -> tuple[np.ndarray, SampledSources, SlipRates]:
    """Return positions (m, 3), m, moment tensors and time functions of the m point sources of a fault.

    Parameters
    ----------
    fault : subfaults; depths are below the surface of the domain, or if ``at_sea_level`` below z = 0.
    material : its shear modulus applies to subfaults whose file states none, and its bulk modulus to opening ones.
    delay : s, added to the times of the file.
    """
    x, y = domain.to_local(*fault.horizontal.T) if fault.geographic else fault.horizontal.T
    top = np.zeros(fault.count)
    if domain.surface is not None and not at_sea_level:
        top = domain.surface_at(x, y, [f"subfault {number}" for number in range(1, fault.count + 1)])
    positions = np.column_stack([x, y, top - fault.depth])
    shear, bulk = fault.shear_modulus, None
    unknown = np.isnan(shear)
    if unknown.any() or fault.slip[:, 2].any():
        if material.groups is not None:
            raise refusal(
                "the file does not state VS and DEN of all subfaults, and only the mesh has the material",
                "use an SRF file of version 2.0 with VS and DEN",
                at=("file",),
            )
        vp, vs, rho = material.sample(*positions.T)
        if np.any(unknown & (vs == 0.0)):
            number = int(np.flatnonzero(unknown & (vs == 0.0))[0])
            place = ", ".join(f"{value:.6g}" for value in positions[number])
            raise refusal(f"subfault {number + 1} is in a fluid, at ({place}) m", at=("file",))
        shear = np.where(unknown, rho * vs**2, shear)
        bulk = rho * (vp**2 - 4.0 / 3.0 * vs**2)
    sampled = fault.moment_rate_sources(shear, bulk)
    # Sources that act at the same time are neighbors in the list, so that a step can skip the others.
    order = np.argsort(sampled.start, kind="stable")
    counts = np.diff(sampled.offsets)[order]
    index = np.repeat(sampled.offsets[order], counts) + _within(counts)
    table = SlipRates(
        sampled.start[order] + delay,
        sampled.interval[order],
        np.append(0, np.cumsum(counts)),
        np.asarray(sampled.rates, dtype=np.float64)[index],
    )
    ordered = SampledSources(
        sampled.subfault[order], sampled.moment[order], table.start, table.interval, table.offsets, table.rates
    )
    return positions[ordered.subfault], ordered, table


def _within(counts: np.ndarray) -> np.ndarray:
    """Return 0 .. count - 1 for each count, concatenated."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
