"""Media: material properties as functions of position."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "anelasticity": "Anelasticity make_anelasticity",
    "bounded_layers": "BoundedLayers",
    "earth": "EarthMedium",
    "elasticity":
        "ElasticProperties VOIGT_PAIRS aligned_moduli backward_waves phase_speeds rotated_stiffness rotation_to "
        "smallest_eigenvalue speed_range stiffness_from_moduli thomsen_stiffness",
    "gridded": "GriddedMedium",
    "medium": "FunctionMedium RecentResults",
})
