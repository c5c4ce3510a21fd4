"""External meshes of SPECFEM3D: a folder with text files of nodes, hexahedra, materials and surfaces.

``mesh_file`` has the number of elements, then lines with ID and eight nodes; ``nodes_coords_file`` has the number of
nodes, then ID, x, y and z in m; ``materials_file`` has ID and material of each element. Files of surfaces have a number
of faces, then the ID of the element and the four nodes of each. Groups are the numbers of the materials.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lithowave.errors import InputError, issue_warning
from lithowave.readers.cell_tables import CellBlock, CellFile, place_finder, text_numbers, whole_numbers
from lithowave.readers.text import UTF8_MARK

MESH_FILE = "mesh_file"
_NODES, _MATERIALS, _LAYERS = "nodes_coords_file", "materials_file", "absorbing_cpml_file"
_SURFACES = {
    "absorbing_surface_file_xmin": "x_min", "absorbing_surface_file_xmax": "x_max",
    "absorbing_surface_file_ymin": "y_min", "absorbing_surface_file_ymax": "y_max",
    "absorbing_surface_file_bottom": "z_min",
    "free_or_absorbing_surface_file_zmax": "z_max", "free_surface_file": "z_max",
}  # fmt: skip
_WHAT = "mesh"


def specfem_files(path: Path) -> list[Path]:
    """Return the existing files of the mesh whose ``mesh_file`` is given, this one first."""
    others = (path.with_name(name) for name in (_NODES, _MATERIALS, *_SURFACES))
    return [path, *(other for other in others if other.is_file())]


def read_specfem_mesh(path: Path) -> CellFile:
    """Return the contents of the folder of a ``mesh_file``.

    ValueError: a file is damaged. InputError: a file is missing, or elements have other than eight nodes.
    """
    folder = path.parent
    rows = _table(path, None)
    if rows.shape[1] != 9:
        got = f"the elements of {MESH_FILE} have {rows.shape[1] - 1} nodes"
        raise InputError(_WHAT, got, "expected 8", "export the mesh with 8 nodes per element (HEX8)", file=path)
    nodes = _table(folder / _NODES, 4)
    node_places = place_finder(whole_numbers(nodes[:, 0]), "node")
    ids, corners = whole_numbers(rows[:, 0]), node_places(whole_numbers(rows[:, 1:]))
    materials = whole_numbers(_table(folder / _MATERIALS, 2, counted=False))
    places = place_finder(ids, "element")(materials[:, 0])
    if len(materials) != len(ids) or (places < 0).any() or len(np.unique(places)) != len(ids):
        raise ValueError(f"{_MATERIALS} does not list each of the {len(ids)} elements once")
    tags = np.empty(len(ids), np.int64)
    tags[places] = materials[:, 1]
    # Undefined materials of SPECFEM3D have negative numbers; groups are numbered from 1 here, in the order of these.
    numbers, index = np.unique(tags, return_inverse=True)
    cells = [CellBlock("hexahedron", ids, corners, index.reshape(-1) + 1)]
    names = {number: str(material) for number, material in enumerate(numbers.tolist(), 1)}
    surface_names: dict[int, str] = {}
    for name, boundary in _SURFACES.items():
        if not (folder / name).is_file() or boundary in surface_names.values():
            continue
        faces = whole_numbers(_table(folder / name, 5))
        if len(faces):
            surface_names[len(surface_names) + 1] = boundary
            tag = np.full(len(faces), len(surface_names))
            cells.append(CellBlock("quad", faces[:, 0], node_places(faces[:, 1:]), tag))
    if (folder / _LAYERS).is_file():
        issue_warning(
            f"{path}: the elements of {_LAYERS} are ordinary elements here. lithowave adds absorbing layers outside "
            "the mesh; a mesh without these elements saves their time."
        )
    return np.ascontiguousarray(nodes[:, 1:]), cells, names, surface_names


def _table(path: Path, width: int | None, counted: bool = True) -> np.ndarray:
    """Return the numbers of a file, whose first line states the number of rows if ``counted``.

    width : numbers per row; None: that of the first row.
    """
    try:
        data = path.read_bytes().removeprefix(UTF8_MARK)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(_WHAT, f"{path.name} cannot be read: {reason}", "it belongs to the mesh", file=path) from None
    first, _, rest = data.partition(b"\n") if counted else (b"", b"", data)
    if counted and not first.strip().isdigit():
        raise ValueError(f"{path.name} does not begin with the number of its rows")
    values = text_numbers(rest, float, 1 + counted)
    count = int(first) if counted else len(values) // (width or 1)
    columns = width or (len(rest.lstrip().partition(b"\n")[0].split()) if count else 9)
    if len(values) != count * columns:
        raise ValueError(f"{path.name} should have {count} rows of {columns} numbers, but has {len(values)} numbers")
    return values.reshape(count, columns)
