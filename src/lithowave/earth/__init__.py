"""Radial models of the Earth: properties as functions of the radius, reference models, and transverse isotropy.

The package depends only on NumPy (`travel_times` requires ObsPy). ``lithowave.readers.radial_models`` reads models from
files, and ``material.earth`` uses them in simulations.
"""

from lithowave.earth.radial_model import RADIUS, EarthLayer, EarthProperties, RadialModel
from lithowave.earth.reference_models import NAMES, reference_model
from lithowave.earth.transverse import transverse_moduli
from lithowave.earth.travel_times import Arrival, travel_times
from lithowave.earth.writing import write_axisem

__all__ = [
    "NAMES", "RADIUS", "Arrival", "EarthLayer", "EarthProperties", "RadialModel", "reference_model",
    "transverse_moduli", "travel_times", "write_axisem",
]  # fmt: skip
