"""Launches of CUDA kernels with a thread for each of a number of points, which all methods need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lithowave.solvers.common.kernel_arguments import ArgumentTable, named_arguments

WARP = 32  # threads
BLOCK = (256,)
FEW = (64,)  # threads of a block for kernels with much work per thread


class KernelLauncher:
    """Launch kernels of CUDA sources of a package, called with the argument lists of their CPU versions.

    Parameters
    ----------
    backend : the device.
    package : package of the sources.
    table : argument lists of the kernels, see `kernel_arguments`.
    defines : preprocessor definitions of all sources.
    """

    def __init__(
        self, backend: Any, package: str, table: ArgumentTable, defines: Mapping[str, str | int] = MappingProxyType({})
    ) -> None:
        self.backend, self.package, self.table, self.defines = backend, package, table, defines

    def named(self, kernel: str, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return the arguments of a call by name."""
        return named_arguments(self.table, kernel, arguments)

    def launch(
        self, file: str, kernel: str, size: tuple[int, ...], arguments: Mapping[str, Any],
        block: tuple[int, ...] = BLOCK,
    ) -> None:  # fmt: skip
        """Launch one thread for each of `size` points along x, y, z in blocks of `block` threads; none if a size is 0.

        arguments : values by parameter name, at least those of the kernel.
        """
        if min(size) > 0:
            grid = tuple(-(-count // width) for count, width in zip(size, (*block, 1, 1), strict=False))
            self.backend.program(self.package, file, self.defines).launch(kernel, grid, block, arguments)

    def by_name(self) -> dict[str, Callable[..., None]]:
        """Return the methods that launch kernels of the table."""
        return {name: getattr(self, name) for name in self.table if hasattr(self, name)}


class PointKernels(KernelLauncher):
    """Kernels over points that all element methods have, in one source.

    file : name of the source.
    """

    file = "points.cu"

    def points(self, kernel: str, count: int, arguments: Mapping[str, Any], block: tuple[int, ...] = BLOCK) -> None:
        """Launch a thread for each of `count` points."""
        self.launch(self.file, kernel, (count,), arguments, block)

    def inject(self, *arguments: Any) -> None:
        """See `point_kernels.inject`."""
        named = self.named("inject", arguments)
        count = named["target"].size
        self.points("inject", count, named | {"count": count, "sources": named["amplitude"].shape[1]}, FEW)

    def count_step(self, row: Any) -> None:
        """See `common.point_kernels.count_step`."""
        self.points("count_step", 1, {"row": row}, (1,))

    def surface_peaks(self, *arguments: Any) -> None:
        """See `point_kernels.surface_peaks`."""
        named = self.named("surface_peaks", arguments)
        size = named["displacement"].shape[1]
        self.points("surface_peaks", size, named | {"size": size})
