"""Finite faults: subfaults with slip-rate functions, their moment rates, and a generator of kinematic ruptures."""

from __future__ import annotations

from lithowave.faults.rupture import planar_rupture
from lithowave.faults.subfaults import FaultPlane, FiniteFault, SampledSources
from lithowave.rooms import public_names

__all__ = ["FaultPlane", "FiniteFault", "SampledSources", "planar_rupture"]

__getattr__, _others = public_names(
    __name__, {"rupture": "random_slip von_karman_spectrum", "subfaults": "regularized_yoffe selected_segments"}
)
__all__ += _others
