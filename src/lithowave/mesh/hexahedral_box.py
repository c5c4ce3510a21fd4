"""Generated hexahedral meshes of layered boxes, whose element faces follow the interfaces.

The columns of meshes for tetrahedra merge, four into one, where wavelengths are longer below. A mesh with flat levels
is deformed such that they become surfaces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lithowave.backends.loops import over_parts
from lithowave.errors import InputError
from lithowave.mesh.box_planes import SIDES
from lithowave.mesh.hexahedra import PART, HexahedralMesh, check_jacobians
from lithowave.mesh.numbering import FACES
from lithowave.mesh.partition import Rectangle

# An interface: a constant z, m, or z(x, y) of arrays.
Interface = float | Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Slab:
    """A slab of a layer: 'even' elements, or a doubling of the element size along 'x' or 'y'; a 'merger' of four
    columns into one, of no height, at which elements do not conform (see `graded_box`)."""

    kind: str
    height: float


def layered_box(
    x: tuple[float, float],
    y: tuple[float, float],
    interfaces: Sequence[Interface],
    sizes: Sequence[tuple[float, float]],
) -> HexahedralMesh:
    """Return a conforming mesh of a layered box, whose element faces follow the interfaces.

    x, y : extent of the box, m.
    interfaces : from the top surface to the bottom, one more than layers; each a z, m, or a function z(x, y) of arrays.
    sizes : largest (horizontal, vertical) element size in each layer, m.

    In columns of vertices, the elements of a layer divide the distance between its interfaces evenly. If the layers
    below permit elements twice as wide, a slab of doublings along x and one along y are inserted at the top of the
    layer, if it is thick enough. In each slab four columns become two, by six quadrilaterals that are extruded along
    the other axis. With these 2-to-1 transitions the horizontal size is within a factor 2 of the target (3-to-1: a
    factor 3), and one template serves both directions.

    InputError: extents or sizes that are not positive, interfaces that touch or cross, inverted elements.
    """
    return plan_box(x, y, interfaces, sizes).build()


@dataclass(frozen=True)
class BoxPlan:
    """Plan of the mesh of a layered box.

    x, y : coordinates of the columns at the surface, m. slabs : of each layer, from its top. unit : number of columns
    along x and y that stay on one rank, since they merge further down. merged : of which this number is one column at
    the bottom.
    """

    x: np.ndarray
    y: np.ndarray
    interfaces: Sequence[Interface]
    slabs: list[list[Slab]]
    unit: int
    merged: int = 1

    @property
    def units(self) -> tuple[int, int]:
        """Numbers of column units along x and y."""
        return (len(self.x) - 1) // self.unit, (len(self.y) - 1) // self.unit

    @property
    def element_count(self) -> int:
        """Number of elements of the mesh."""
        columns = {"x": len(self.x) - 1, "y": len(self.y) - 1}
        count = 0
        for slab in (slab for layer in self.slabs for slab in layer):
            if slab.kind == "even":
                count += columns["x"] * columns["y"]
            elif slab.kind == "merger":
                columns = {axis: number // 2 for axis, number in columns.items()}
            else:  # six elements for four columns, which become two
                count += 6 * columns["x"] * columns["y"] // 4
                columns[slab.kind] //= 2
        return count

    def build(self, window: Rectangle | None = None) -> HexahedralMesh:
        """Return the mesh, or its part below a window of `units`; InputError: inverted elements."""
        box = Rectangle(0, self.units[0], 0, self.units[1]) if window is None else window
        ends = ((box.first_x, box.end_x), (box.first_y, box.end_y))
        lines = (
            GridLines(values, first * self.unit, end * self.unit + 1)
            for values, (first, end) in zip((self.x, self.y), ends, strict=True)
        )
        builder = BoxMeshBuilder(*lines, self.interfaces)
        for layer, slabs in enumerate(self.slabs):
            builder.add_layer(layer, slabs)
        mesh = builder.mesh()
        check_jacobians(mesh)
        return mesh


def plan_box(
    x: tuple[float, float],
    y: tuple[float, float],
    interfaces: Sequence[Interface],
    sizes: Sequence[tuple[float, float]],
) -> BoxPlan:
    """Return the plan of `layered_box`, with its arguments and errors."""
    check_box(x, y, interfaces, sizes)
    widest = np.minimum.accumulate([horizontal for horizontal, _ in sizes][::-1])[::-1]
    x_cells, y_cells = (x[1] - x[0]) / widest[0], (y[1] - y[0]) / widest[0]
    thicknesses = layer_thicknesses(x, y, interfaces, (int(np.ceil(x_cells)), int(np.ceil(y_cells))))
    slabs, levels = layer_plans(widest, thicknesses, [vertical for _, vertical in sizes])
    cells = [column_count(count, levels) for count in (x_cells, y_cells)]
    lines = (np.linspace(*ends, count + 1) for ends, count in zip((x, y), cells, strict=True))
    return BoxPlan(*lines, interfaces, slabs, column_unit(levels), 2**levels)


def check_box(
    x: tuple[float, float],
    y: tuple[float, float],
    interfaces: Sequence[Interface],
    sizes: Sequence[tuple[float, float]],
) -> None:
    """InputError: the extents, the number of layers or the sizes do not define a box."""
    for name, (low, high) in (("x", x), ("y", y)):
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError(f"mesh: {name}", f"[{low:zg}, {high:zg}] m", "the first must lie below the second")
    if not sizes or len(interfaces) != len(sizes) + 1:
        got = f"{len(interfaces)} interfaces and {len(sizes)} layers"
        raise InputError("mesh: interfaces", got, "allowed: one interface more than layers, at least one layer")
    for layer, pair in enumerate(sizes):
        if not all(np.isfinite(size) and size > 0 for size in pair):
            raise InputError(f"mesh: layer {layer}", f"element sizes {tuple(pair)} m", "they must be positive")


def layer_thicknesses(
    x: tuple[float, float], y: tuple[float, float], interfaces: Sequence[Interface], cells: tuple[int, int]
) -> list[float]:
    """Return the largest thickness of each layer, m, at the corners of `cells` columns.

    InputError: two interfaces touch or cross there, or one is not a number.
    """
    if not any(map(callable, interfaces)):
        cells = (1, 1)  # the same thickness everywhere
    grid = np.meshgrid(*(np.linspace(*ends, count + 1) for ends, count in zip((x, y), cells, strict=True)))
    depths = [heights(interface, *grid) for interface in interfaces]
    found = []
    for layer, (top, bottom) in enumerate(zip(depths[:-1], depths[1:], strict=True)):
        thickness = top - bottom
        if not (thickness > 0).all():  # NaN also fails
            place = np.unravel_index(np.argmax(~(thickness > 0)), thickness.shape)
            where = f"mesh: layer {layer}"
            got = f"at x = {grid[0][place]:zg} m, y = {grid[1][place]:zg} m its top is at z = {top[place]:zg} m"
            got += f" and its bottom at z = {bottom[place]:zg} m"
            raise InputError(where, got, "the bottom must lie below the top everywhere")
        found.append(float(thickness.max()))
    return found


_MOST_SLABS = 1_000_000  # of a layer


def layer_plans(
    widest: Sequence[float], thicknesses: Sequence[float], vertical: Sequence[float]
) -> tuple[list[list[Slab]], int]:
    """Return the slabs of each layer from its top, and the number of doublings of the horizontal size in total.

    widest : largest horizontal size of the layer and of all layers below, m, in ascending order.

    InputError: a layer has more slabs than any computer can store.
    """
    level, plans = 0, []
    for layer, (thickness, tallest) in enumerate(zip(thicknesses, vertical, strict=True)):
        plan: list[Slab] = []
        rest = thickness
        while layer and widest[layer] >= widest[0] * 2 ** (level + 1) * (1 - 1e-9):
            # With twice the width above, the vertices between are not closer to each other than those above.
            height = min(tallest, 2 * widest[0] * 2**level)
            if 1.5 * height > rest * (1 + 1e-9):
                break
            height = min(height, rest / 2)
            plan += [Slab("x", height), Slab("y", height)]
            rest -= 2 * height
            level += 1
        require_few_slabs(layer, rest, tallest)
        even = int(np.ceil(rest / tallest - 1e-6))
        if plan and rest < tallest / 4:
            even = 0  # the doublings are stretched
        plans.append(plan + [Slab("even", rest / max(even, 1))] * even)
    return plans, level


def require_few_slabs(layer: int, thickness: float, tallest: float) -> None:
    """InputError: a layer has more slabs than any computer can store. thickness, tallest : of layer and elements, m."""
    if not thickness / tallest <= _MOST_SLABS:
        got = f"has {thickness / tallest:.3g} elements of {tallest:.3g} m from its top to its bottom"
        hint = "use larger elements (solver.max_frequency or points_per_wavelength)"
        raise InputError(f"mesh: layer {layer + 1}", got, f"allowed: at most {_MOST_SLABS:,}", hint)


def column_count(cells: float, levels: int) -> int:
    """Return the number of columns at the surface: each doubling halves it, from a multiple of four."""
    unit = column_unit(levels)
    return int(np.ceil(cells / unit - 1e-6)) * unit


def column_unit(levels: int) -> int:
    """Return the number of columns at the surface that stay together with this number of doublings."""
    return 2 ** (levels + 1) if levels else 1


def heights(interface: Interface, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return z, m, of an interface."""
    z = interface(x, y) if callable(interface) else interface
    return np.broadcast_to(np.asarray(z, float), x.shape)


@dataclass(frozen=True)
class GridLines:
    """Coordinates x or y of the lines of the global box, m, and those of a subdomain: values[first:end]."""

    values: np.ndarray
    first: int
    end: int

    @property
    def own(self) -> np.ndarray:
        """Coordinates of the subdomain."""
        return self.values[self.first : self.end]

    def cells(self, together: int = 1) -> tuple[int, int]:
        """Return the first cell and the number of cells of the global box, in groups of `together` cells."""
        return self.first // together, (len(self.values) - 1) // together

    def halved(self) -> GridLines:
        """Return every second line."""
        return GridLines(self.values[::2], self.first // 2, self.end // 2 + 1)

    def inside(self) -> GridLines:
        """Return three of four lines: those inside groups of four cells."""
        chosen = np.arange(len(self.values)) % 4 != 0
        return GridLines(self.values[chosen], self.first // 4 * 3, self.end // 4 * 3)


class BoxMeshBuilder:
    """Vertices and elements of a layered box, or of a subdomain of it, built plane by plane from the top.

    A plane is an array of vertex indices [line of y, line of x]; `self.plane` is the last one. Vertices have global
    indices plane by plane, elements quadrilateral by quadrilateral (see `add_prisms`), row by row.
    """

    def __init__(self, x: GridLines, y: GridLines, interfaces: Sequence[Interface]) -> None:
        self.x, self.y, self.interfaces = x, y, interfaces
        self.vertices: list[np.ndarray] = []
        self.vertex_ids: list[np.ndarray] = []
        self.vertex_count = self.whole_vertices = 0
        self.elements: list[np.ndarray] = []
        self.element_ids: list[np.ndarray] = []
        self.whole_elements = 0
        self.materials: list[np.ndarray] = []
        self.divided: list[np.ndarray] | None = None
        self.top = self.plane = self.add_plane(0, 0.0)

    def add_plane(self, layer: int, depth: float, **lines: GridLines) -> np.ndarray:
        """Add vertices on the current lines, or the given x or y, at a fraction `depth` of the layer's thickness."""
        x, y = lines.get("x", self.x), lines.get("y", self.y)
        grid_x, grid_y = np.meshgrid(x.own, y.own)
        above = heights(self.interfaces[layer], grid_x, grid_y)
        below = heights(self.interfaces[layer + 1], grid_x, grid_y)
        z = (1 - depth) * above + depth * below
        plane = self.vertex_count + np.arange(z.size).reshape(z.shape)
        self.vertices.append(np.stack([grid_x, grid_y, z], axis=-1).reshape(-1, 3))
        self.vertex_ids.append(rows_in_whole(self.whole_vertices, (y.first, x.first), z.shape, len(x.values)))
        self.vertex_count += z.size
        self.whole_vertices += len(x.values) * len(y.values)
        return plane

    def add_layer(self, layer: int, plan: Sequence[Slab]) -> None:
        """Add the slabs of a layer."""
        edges = np.cumsum([0.0, *(slab.height for slab in plan)])
        edges /= edges[-1]
        edges[-1] = 1.0
        start = len(self.elements)
        for slab, above, below in zip(plan, edges[:-1], edges[1:], strict=True):
            if slab.kind == "even":
                self.add_even(layer, below)
            elif slab.kind == "merger":
                self.merge_columns()
            else:
                self.add_doubling(layer, slab.kind, (above + below) / 2, below)
        count = sum(len(part) for part in self.elements[start:])
        self.materials.append(np.full(count, layer, np.int64))

    def add_even(self, layer: int, depth: float) -> None:
        """Add one element below each cell of the last plane."""
        above, self.plane = self.plane, self.add_plane(layer, depth)
        below = self.plane
        self.add_prisms([(below[:, :-1], below[:, 1:], above[:, 1:], above[:, :-1])], self.x.cells(), self.y.cells())

    def merge_columns(self) -> None:
        """Let elements be twice as wide along x and y from here on, with vertices at the centers of edges and faces."""
        plane, self.divided = self.plane, self.divided or []
        corners, middle = plane[::2, ::2], plane[1::2, 1::2]
        sides = [(corners[:, :-1], corners[:, 1:], plane[::2, 1::2]), (corners[:-1], corners[1:], plane[1::2, ::2])]
        low, high = (corners[:-1, :-1], corners[1:, 1:]), (corners[:-1, 1:], corners[1:, :-1])
        for edges in (*sides, (*low, middle), (*high, middle)):
            self.divided.append(np.stack(edges, axis=-1).reshape(-1, 3))
        self.plane, self.x, self.y = corners, self.x.halved(), self.y.halved()

    def add_doubling(self, layer: int, axis: str, middle: float, depth: float) -> None:
        """Add elements that are twice as wide along an axis from here on. Four cells become two:

            t0--t1--t2--t3--t4
            |   |   |   |   |        t: the last plane, b: the next one, m: vertices between.
            |   m1--m2--m3  |
            |  /    |    \\  |
            b0------b1------b2
        """
        along_x = axis == "x"
        lines = self.x if along_x else self.y
        halved = self.plane if along_x else self.plane.T
        between = self.add_plane(layer, middle, **{axis: lines.inside()})
        setattr(self, axis, lines.halved())
        self.plane = self.add_plane(layer, depth)
        below = self.plane if along_x else self.plane.T
        t0, t4, (t1, t2, t3) = halved[:, :-1:4], halved[:, 4::4], (halved[:, place::4] for place in (1, 2, 3))
        m1, m2, m3 = (between if along_x else between.T).reshape(len(halved), -1, 3).transpose(2, 0, 1)
        b0, b1, b2 = below[:, :-1:2], below[:, 1::2], below[:, 2::2]
        left = [(b0, m1, t1, t0), (b0, b1, m2, m1), (m1, m2, t2, t1)]
        right = [(m3, b2, t4, t3), (b1, b2, m3, m2), (m2, m3, t3, t2)]
        self.add_prisms(left + right, lines.cells(4), (self.y if along_x else self.x).cells(), along_x)

    def add_prisms(
        self,
        quadrilaterals: Sequence[tuple[np.ndarray, ...]],
        cells: tuple[int, int],
        rows: tuple[int, int],
        along_x: bool = True,
    ) -> None:
        """Add elements from quadrilaterals in planes of x and z (or y and z), extruded from one line to the next.

        Each corner is an array [line, cell]; corners are in cyclic order from low left, seen with z upwards. cells,
        rows : first of this subdomain, and number in the global box.
        """
        for a, b, c, d in quadrilaterals:
            shape = (a.shape[0] - 1, a.shape[1])
            self.element_ids.append(rows_in_whole(self.whole_elements, (rows[0], cells[0]), shape, cells[1]))
            self.whole_elements += rows[1] * cells[1]
            if along_x:  # the other axis is local j
                corners = (a[:-1], b[:-1], b[1:], a[1:], d[:-1], c[:-1], c[1:], d[1:])
            else:  # the other axis is local i
                corners = (a[:-1], a[1:], b[1:], b[:-1], d[:-1], d[1:], c[1:], c[:-1])
            self.elements.append(np.stack(corners, axis=-1).reshape(-1, 8))

    def mesh(self) -> HexahedralMesh:
        """Return the mesh with the boundaries of the box."""
        vertices = np.concatenate(self.vertices)
        elements = np.concatenate(self.elements)
        sides = np.zeros(len(vertices), np.uint8)
        for bit, (column, line) in enumerate(((0, self.x), (1, self.y))):
            for high, end in enumerate((line.values[0], line.values[-1])):
                sides |= (vertices[:, column] == end).astype(np.uint8) << (2 * bit + high)
        sides[self.plane] |= 1 << SIDES.index("z_min")
        sides[self.top] |= 1 << SIDES.index("z_max")
        outer, on = faces_on_sides(elements, sides)
        found = {name: np.nonzero(on >> bit & 1) for bit, name in enumerate(SIDES)}
        boundaries = {name: np.stack([outer[element], face], axis=1) for name, (element, face) in found.items()}
        return HexahedralMesh(
            vertices, elements, np.concatenate(self.materials), boundaries,
            vertex_ids=np.concatenate(self.vertex_ids), element_ids=np.concatenate(self.element_ids),
            divided_edges=None if self.divided is None else np.concatenate(self.divided),
        )  # fmt: skip


def faces_on_sides(elements: np.ndarray, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements that touch the sides of a box, and the bits (n, 6) of the sides that contain their faces.

    sides : bits of the sides that contain each vertex.
    """

    def examine(part: slice) -> tuple[np.ndarray, np.ndarray]:
        own = sides[elements[part]]
        outer = np.flatnonzero(own.any(axis=1))
        return outer + part.start, np.bitwise_and.reduce(own[outer][:, FACES], axis=2)

    found = over_parts(examine, len(elements), PART)
    outer, on = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return outer, on


def rows_in_whole(base: int, first: tuple[int, int], shape: tuple[int, int], width: int) -> np.ndarray:
    """Return flat indices of a part [row, column] of an array of this width that is numbered by rows from `base`."""
    rows, columns = first[0] + np.arange(shape[0]), first[1] + np.arange(shape[1])
    return (base + rows[:, None] * width + columns).reshape(-1)


LESS = 1e-9  # relative differences of sizes that are rounding errors
TALLEST = 1.14  # largest height of cells over the size of their layer
GAIN = 1.1  # minimum reduction of the cost for which columns are narrower than required at the surface


def graded_box(
    x: tuple[float, float],
    y: tuple[float, float],
    interfaces: Sequence[Interface],
    sizes: Sequence[float],
    outside: Mapping[str, int] | None = None,
) -> BoxPlan:
    """Return the plan of a layered box whose columns are wider by powers of two in layers that permit it.

    x, y : extent of the box, m. interfaces : from the top surface to the bottom, one more than layers; each a z, m, or
    a function z(x, y) of arrays. sizes : edge of the largest cubes of each layer, m; narrower cells may be up to
    TALLEST times as high, if their volume is not larger. outside : number of elements at the bottom that will be added
    beyond faces (x_min, x_max, y_min, ...), for the cost.

    At an interface, or between two rows of elements, 2 x 2 columns merge into one directly, without elements in
    between: `tetrahedral_boxes.split_hexahedra` makes the tetrahedra there conforming. Columns are at most as wide as
    the sizes of their layer and of all layers below permit. Their width w at the surface may be smaller than required
    there, so that wider columns fit the layers below: it has the lowest cost, the number of elements times the largest
    ratio of the required size of a layer and the smallest edge of its elements, to which the time step is related.

    InputError: see `hexahedral_box.layered_box`.
    """
    check_box(x, y, interfaces, [(size, size) for size in sizes])
    widest = np.minimum.accumulate(np.asarray(sizes, float)[::-1])[::-1]
    extents = x[1] - x[0], y[1] - y[0]
    thicknesses = layer_thicknesses(x, y, interfaces, tuple(math.ceil(extent / widest[0]) for extent in extents))
    for layer, (thickness, size) in enumerate(zip(thicknesses, sizes, strict=True)):
        require_few_slabs(layer, thickness, size)

    def made(width: float) -> tuple[float, BoxPlan]:
        rows = _rows(width, widest, thicknesses, sizes)
        heights = [thickness / count for thickness, count in zip(thicknesses, rows, strict=True)]
        slabs, levels = _slabs(width, widest, rows, heights)
        columns = [math.ceil(extent / width / 2**levels - 1e-6) * 2**levels for extent in extents]
        lines = [np.linspace(*ends, count + 1) for ends, count in zip((x, y), columns, strict=True)]
        plan = BoxPlan(*lines, interfaces, slabs, 2**levels, 2**levels)
        return _extended(plan, outside or {}).element_count * _stiffness(plan, sizes, heights), plan

    # From the widest on; narrower ones must be better by more than the approximation of the cost.
    best, found = made(widest[0])
    for width in _widths(widest):
        cost, plan = made(width)
        if cost * GAIN < best:
            best, found = cost, plan
    return found


def _widths(widest: np.ndarray) -> list[float]:
    """Return widths at the surface with which columns of some layer are as wide as possible, in descending order."""
    found = {size / 2 ** math.ceil(math.log2(size / widest[0]) - LESS) for size in widest.tolist()}
    return sorted((width for width in found if width < widest[0] * (1 - LESS)), reverse=True)


def _rows(width: float, widest: np.ndarray, thicknesses: Sequence[float], sizes: Sequence[float]) -> list[int]:
    """Return the rows of cells of each layer: cells that are narrower than required may be higher."""
    found = []
    for thickness, size, most in zip(thicknesses, sizes, widest.tolist(), strict=True):
        while 2.0 * width <= most * (1 + LESS):
            width *= 2.0
        height = min(TALLEST * size, size**3 / width**2)
        found.append(math.ceil(thickness / height - 1e-6))
    return found


def _slabs(
    width: float, widest: np.ndarray, rows: Sequence[int], heights: Sequence[float]
) -> tuple[list[list[Slab]], int]:
    """Return the slabs of each layer from its top, and the number of mergers in total."""
    level, found = 0, []
    for layer, (count, height) in enumerate(zip(rows, heights, strict=True)):
        plan: list[Slab] = []
        for _ in range(count):
            if layer and width * 2 ** (level + 1) <= widest[layer] * (1 + LESS):
                plan.append(Slab("merger", 0.0))
                level += 1
            plan.append(Slab("even", height))
        found.append(plan)
    return found, level


def _extended(plan: BoxPlan, outside: Mapping[str, int]) -> BoxPlan:
    """Return a plan with the number of elements of this one with those beyond its faces."""
    x, y = (
        np.arange(len(lines) + plan.merged * (outside.get(f"{axis}_min", 0) + outside.get(f"{axis}_max", 0)))
        for axis, lines in (("x", plan.x), ("y", plan.y))
    )
    above, below = ([Slab("even", 1.0)] * outside.get(face, 0) for face in ("z_max", "z_min"))
    return replace(plan, x=x, y=y, slabs=[above, *plan.slabs, below])


def _stiffness(plan: BoxPlan, sizes: Sequence[float], heights: Sequence[float]) -> float:
    """Return the largest ratio of the required size of a layer and the smallest edge of its elements."""
    width, worst = min(plan.x[1] - plan.x[0], plan.y[1] - plan.y[0]), 1.0
    for slabs, size, height in zip(plan.slabs, sizes, heights, strict=True):
        for slab in slabs:
            if slab.kind == "merger":
                width *= 2.0
            else:
                worst = max(worst, size / min(width, height))
    return worst


MOVED_PART = 32_768  # points that are moved at a time
Elevation = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class LevelMap:
    """Map along z of flat levels to surfaces, linear between two levels.

    Points above the first level move with it; points below the last one do not move.

    Attributes
    ----------
    levels : z, m, in descending order.
    surfaces : functions z(x, y) of arrays, m, of all levels except the last one, which does not move.
    concurrent : several threads may evaluate the surfaces at the same time.
    """

    levels: Sequence[float]
    surfaces: Sequence[Elevation]
    concurrent: bool = False

    def displacement(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float, np.ndarray]:
        """Return the displacement (0, 0, dz), m, of points; x, y, z : arrays of one shape."""
        found = np.empty(z.shape)

        def move(part: slice) -> None:
            found[part] = self._elevation(x[part], y[part], z[part])

        over_parts(move, len(z), MOVED_PART, None if self.concurrent else 1)
        return 0.0, 0.0, found

    def _elevation(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        found = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape))
        above: np.ndarray | float = 0.0
        for level, below, surface in zip(self.levels, self.levels[1:], self.surfaces, strict=False):
            part = np.clip((z - below) / (level - below), 0.0, 1.0)
            found += (part - above) * (surface(x, y) - level)
            above = part
        return found

    def flattened(self, positions: np.ndarray) -> np.ndarray:
        """Return positions (n, 3), m, before they were moved."""
        x, y, z = positions.T
        tops = [surface(x, y) for surface in self.surfaces] + [np.full(len(z), self.levels[-1])]
        found = z.copy()
        above = z > tops[0]
        found[above] += (self.levels[0] - tops[0])[above]
        for (high, low), (level, below) in zip(_pairs(tops), _pairs(self.levels), strict=True):
            here = (z <= high) & (z > low)
            found[here] = (below + (z - low) * (level - below) / (high - low))[here]
        return np.column_stack([x, y, found])


def _pairs(values: Sequence) -> list[tuple]:
    return list(zip(values, values[1:], strict=False))
