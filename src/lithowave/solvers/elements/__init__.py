"""Code that the element methods share: meshes, location of points, samples of the fields, plans."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "layers": "cell_layers layer_code layers_of",
    "locations":
        "PointCells PointLocations SURFACE_TOLERANCE SpreadSources locate_sources require_located resolve_owners "
        "unit_ball",
    "solver": "surface_grid",
    "warnings":
        "HEXAHEDRA TETRAHEDRA averaged_discontinuities faces_of_hexahedra faces_of_tetrahedra layer_warnings "
        "reflection_warnings unresolved_interfaces upper_points_of_hexahedra upper_points_of_tetrahedra",
})
