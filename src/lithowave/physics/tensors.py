"""The two orders of the six components of a symmetric tensor with the axes x, y, z.

Stiffness matrices have Voigt's order xx, yy, zz, yz, xz, xy. Moment tensors, and the stresses and strains of outputs,
have the *tensor order* xx, yy, zz, xy, xz, yz.
"""

from __future__ import annotations

import numpy as np

VOIGT_PAIRS = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))
"""The two axes of each component in Voigt's order."""

TENSOR_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
"""The two axes of each component in the tensor order."""

VOIGT_INDEX = np.array([[0, 5, 4], [5, 1, 3], [4, 3, 2]])
"""Index in Voigt's order of the component of each pair of axes."""

TENSOR_INDEX = np.array([[0, 3, 4], [3, 1, 5], [4, 5, 2]])
"""Index in the tensor order of the component of each pair of axes."""

SWAPPED = np.array([0, 1, 2, 5, 4, 3])
"""Index in one order of each component of the other order; it is its own inverse."""


def tensor_components(tensor: np.ndarray) -> np.ndarray:
    """Return the components (..., 6) of symmetric tensors (..., 3, 3) in the tensor order."""
    first, second = np.transpose(TENSOR_PAIRS)
    return tensor[..., first, second]
