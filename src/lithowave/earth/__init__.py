"""Radial models of the Earth: properties as functions of the radius, reference models, and transverse isotropy.

The package depends only on NumPy (`travel_times` requires ObsPy). ``lithowave.readers.radial_models`` reads models from
files, and ``material.earth`` uses them in simulations.
"""

from __future__ import annotations

from lithowave.earth.radial_model import (
    RADIUS,
    EarthLayer,
    EarthProperties,
    RadialModel,
    transverse_moduli,
    write_axisem,
)
from lithowave.earth.reference_models import NAMES, Arrival, reference_model, travel_times
from lithowave.rooms import public_names

__all__ = [
    "NAMES", "RADIUS", "Arrival", "EarthLayer", "EarthProperties", "RadialModel", "reference_model",
    "transverse_moduli", "travel_times", "write_axisem",
]  # fmt: skip

__getattr__, _others = public_names(__name__, {
    "radial_model":
        "EARTH_CONSTANT GRAVITATIONAL_CONSTANT PolynomialProfile RadialGravity largest_softness love_moduli "
        "phase_speed_range voigt_average_of_love",
    "reference_models": "earth_ellipticity ellipticity",
})
__all__ += _others
