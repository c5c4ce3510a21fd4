"""Finite faults: subfaults with slip-rate functions, their moment rates, and a generator of kinematic ruptures."""

from lithowave.faults.rupture import planar_rupture
from lithowave.faults.sampled_sources import SampledSources
from lithowave.faults.subfaults import FaultPlane, FiniteFault

__all__ = ["FaultPlane", "FiniteFault", "SampledSources", "planar_rupture"]
