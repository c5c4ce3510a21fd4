"""Material arrays of one rank on its device."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.parallel.ranks import Ranks
from lithowave.solvers.finite_difference.attenuation import (
    LAST_CODE,
    PLANES_KEPT,
    GridAttenuation,
    code_planes,
    unrelaxed_simulation,
)
from lithowave.solvers.finite_difference.fields import VELOCITIES
from lithowave.solvers.finite_difference.medium import Planes, medium_planes, speeds
from lithowave.solvers.finite_difference.passes import column_shift
from lithowave.solvers.finite_difference.quantization import Quantization, quantize

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation
    from lithowave.solvers.finite_difference.grid_plan import GridPlan


class GridMaterial:
    """Arrays of the table of fields that contain material.

    arrays : material arrays by name. moduli : those of the law, in its order. fractions : codes of the fractions of
    mechanisms; None without attenuation. relaxation : as in `attenuation`, for the argument `law` of kernels.
    quantizations : quantizations by name; empty unless the material is stored in codes.

    Parameters
    ----------
    plan : grid and storage. simulation : material. ranks : ranks that agree on the quantization.
    """

    def __init__(self, plan: GridPlan, simulation: Simulation, backend: Any, ranks: Ranks) -> None:
        self.fields = plan.law_fields
        elastic = unrelaxed_simulation(simulation)

        def planes() -> Iterator[Planes]:
            return medium_planes(elastic, plan.grid, plan.halo, self.fields)

        self.backend = backend
        self.quantizations: dict[str, Quantization] = {}
        if plan.moduli == "compact":
            self.quantizations = quantize(planes(), self.fields.material, ranks)
        self.stores_codes = bool(self.quantizations) and backend.stores_codes
        dtype, shape = np.uint16 if self.stores_codes else backend.dtype, plan.padded_shape()
        shift = column_shift(plan)
        self.arrays = {field.name: backend.field(shape, plan.halo, dtype, shift) for field in self.fields.material}
        before: Planes | None = None
        for k, values in enumerate(planes()):
            for name, array in self.arrays.items():  # most planes of a layered medium are the previous one
                backend.assign(array[k], array[k - 1] if values is before else self._stored(name, values[name]))
            before = values
        self.moduli = tuple(self.arrays[name] for name in self.fields.moduli)
        self.fractions, self.relaxation = None, None
        if plan.attenuation is not None:
            self._store_mechanisms(plan, plan.attenuation, simulation)

    def _store_mechanisms(
        self, plan: GridPlan, attenuation: GridAttenuation, simulation: Simulation
    ) -> None:
        backend, planes = self.backend, plan.padded_shape()[0]
        self.fractions = backend.field(plan.memory_shape(), plan.halo, np.uint32, column_shift(plan))
        recent: deque[tuple[int, np.ndarray]] = deque(maxlen=PLANES_KEPT)
        for k, codes in enumerate(code_planes(attenuation, simulation, plan.grid, plan.halo)):
            before = next((index for index, known in recent if known is codes), None)
            for number, values in enumerate(codes):
                same = None if before is None else self.fractions[number * planes + before]
                backend.assign(self.fractions[number * planes + k], values if same is None else same)
            if before is None:
                recent.append((k, codes))
        table = attenuation.relaxation(plan.schedule.time_step, plan.grid, plan.halo)
        grids = tuple(np.uint64(number * planes) for number in range(attenuation.stored))
        self.relaxation = backend.upload(table), backend.scalar(attenuation.largest / LAST_CODE)
        self.grids = grids

    def law(self, memory: Sequence[Any]) -> tuple[Any, ...]:
        """Return the argument `law` of kernels, for these arrays of memory variables; none without attenuation."""
        if self.relaxation is None:
            return self.moduli
        return *memory, self.fractions, *self.relaxation, *self.moduli, *self.grids

    @property
    def scales(self) -> dict[str, tuple[float, float]] | None:
        """Scales (low, step) of the codes of each array; None if the arrays hold values."""
        if not self.stores_codes:
            return None
        return {name: (code.low, code.step) for name, code in self.quantizations.items()}

    def errors(self) -> dict[str, float]:
        """Return the maximum error of each array due to its storage, by the name in run.json."""
        fields = self.fields.material if self.quantizations else ()
        return {field.report: self.quantizations[field.name].error() for field in fields}

    def _stored(self, name: str, plane: np.ndarray) -> np.ndarray:
        """Return a plane as the kernels read it; on a CPU codes become the values that they represent."""
        if name not in self.quantizations:
            return plane
        codes = self.quantizations[name].encode(plane)
        return codes if self.stores_codes else self.quantizations[name].decode(codes)

    def values(self, name: str, section: Any) -> np.ndarray:
        """Return values of a section of an array in main memory, in double precision."""
        host = self.backend.download(section)
        return self.quantizations[name].decode(host) if self.stores_codes else host.astype(float)

    def buoyancy(self, name: str, index: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
        """Return 1/rho, m^3/kg, as the update of velocity `name` uses it.

        index : in the flattened arrays. strides : of the arrays along x, y, z, in elements.
        """
        pitch, plane = strides[1:]
        pair = np.zeros(index.shape)
        for position in (index, index + strides[VELOCITIES.index(name)]):
            k, j, i = position // plane, position % plane // pitch, position % pitch
            for number in np.unique(k):
                here = k == number
                pair[here] += self.values("density", self.arrays["density"][int(number)])[j[here], i[here]]
        return 2.0 / pair

    def describe(self, k: int, j: int, i: int) -> str:
        """Return the velocities and the density at a node as text."""
        values = {name: float(self.values(name, array[k, j])[i]) for name, array in self.arrays.items()}
        vp, vs = speeds(values)
        return f"vp = {vp:.5g} m/s, vs = {vs:.5g} m/s, rho = {values['density']:.5g} kg/m^3"
