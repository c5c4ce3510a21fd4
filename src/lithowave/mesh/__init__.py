"""Meshes: generated and imported, their numbering, partition and quality."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "arrays": "distinct",
    "box_planes": "Exterior",
    "checks": "check_holes close_pairs components described",
    "extrusion":
        "extruded_hexahedra extruded_tetrahedra hexahedron_sizes outward_steps plane_sides tetrahedron_sizes",
    "free_surface": "FreeSurface MeshOutline",
    "gmsh_writing": "right_handed write_gmsh",
    "grid": "BlockPartition Grid best_blocks build_grid cut_grid layer_line products_of_three",
    "hexahedra":
        "HexahedralMesh NODE_STEPS check_jacobians corner_jacobians curved jacobians lattice lattice_slopes "
        "shape_tables",
    "hexahedral_box": "BoxPlan LevelMap graded_box layered_box plan_box",
    "hexahedral_checks": "MeshFaces check_mesh gll_points jacobian_range",
    "imported": "read_hexahedral_mesh read_tetrahedral_mesh",
    "level_sets": "cut_along",
    "numbering":
        "CORNERS FACES exterior_quadrilaterals identify morton_order number_faces number_points on_surface "
        "shared_count",
    "partition":
        "Rectangle balanced_parts bisect_grid color_elements first_colors groups_of_color merged partition_graph",
    "shared": "find_shared_faces shared_points",
    "tetrahedra": "EDGES TETRAHEDRON_FACES TetrahedralMesh exterior_triangles face_vertices make_mesh triple_keys",
    "tetrahedral_boxes": "CUTS around cornered_elements deformed moved refined split_hexahedra tetrahedral_box",
    "tetrahedral_checks": "check_tetrahedra triangle_distances",
})
