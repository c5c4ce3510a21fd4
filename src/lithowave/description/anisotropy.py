"""Anisotropic elasticity: stiffness matrices, their rotation, and the speeds of plane waves.

Stiffness is a symmetric matrix (6, 6) in Pa, in Voigt's order; see `lithowave.physics.elasticity`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from lithowave.physics.elasticity import stiffness_tensor
from lithowave.physics.tensors import VOIGT_PAIRS

MODULI_COUNT = 21
"""Independent moduli: the upper triangle of the matrix."""

_UPPER = np.triu_indices(6)

_DIRECTIONS = 4000
"""Directions over a half sphere among which the extreme speeds are looked for first."""

_REFINEMENTS = 4

_ROUNDING = 1e-9
"""Moduli below this fraction of the largest one are zero: a rotation leaves such values."""
_CONE = 13


def thomsen_stiffness(
    vp: float,
    vs: float,
    rho: float,
    epsilon: float = 0.0,
    delta: float = 0.0,
    gamma: float = 0.0,
    axis: Sequence[float] = (0.0, 0.0, 1.0),
) -> np.ndarray:
    """Return the stiffness (6, 6) of a transversely isotropic medium, Pa (Thomsen 1986, Geophysics 51(10), 1954-1966).

    Along the symmetry axis C33 = rho vp^2 and C44 = rho vs^2; C11 = C33 (1 + 2 epsilon), C66 = C44 (1 + 2 gamma) and
    (C13 + C44)^2 = (C33 - C44)^2 + 2 delta C33 (C33 - C44), with C13 + C44 >= 0.

    Parameters
    ----------
    vp, vs : speeds of P and S waves along the symmetry axis, m/s.
    rho : density, kg/m^3.
    axis : direction (x, y, z) of the symmetry axis, of any length above 0.

    Raises
    ------
    ValueError : delta is so far below 0 that (C13 + C44)^2 would be negative, or the axis has no length.
    """
    c33, c44 = rho * vp**2, rho * vs**2
    c11, c66 = c33 * (1.0 + 2.0 * epsilon), c44 * (1.0 + 2.0 * gamma)
    square = (c33 - c44) * (c33 - c44 + 2.0 * delta * c33)
    if square < 0.0:
        raise ValueError("delta makes C13 imaginary")
    c13 = np.sqrt(square) - c44
    stiffness = np.diag([c11, c11, c33, c44, c44, c66])
    stiffness[0, 1] = stiffness[1, 0] = c11 - 2.0 * c66
    stiffness[:2, 2] = stiffness[2, :2] = c13
    return rotated_stiffness(stiffness, rotation_to(axis))


def stiffness_from_moduli(moduli: Sequence[float]) -> np.ndarray:
    """Return the symmetric matrix (6, 6) of 21 moduli, the upper triangle by rows (C11, C12, ..., C66)."""
    stiffness = np.zeros((6, 6))
    stiffness[_UPPER] = moduli
    return stiffness + np.triu(stiffness, 1).T


def aligned_moduli(stiffness: np.ndarray) -> tuple[float, ...]:
    """Return c11, c22, c33, c12, c13, c23, c44, c55 and c66: all moduli of a medium with symmetry axes x, y and z."""
    entries = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2), (3, 3), (4, 4), (5, 5))
    return tuple(float(stiffness[entry]) for entry in entries)


def is_orthorhombic(stiffness: np.ndarray) -> bool:
    """True if the symmetry axes of a medium are x, y and z: no modulus couples shear strain to another strain."""
    coupled = np.array(stiffness)
    coupled[:3, :3] = 0.0
    coupled[[3, 4, 5], [3, 4, 5]] = 0.0
    return bool(np.abs(coupled).max() <= _ROUNDING * np.abs(stiffness).max())


def is_transverse(stiffness: np.ndarray) -> bool:
    """True if a medium has a vertical symmetry axis."""
    c11, c22, _, c12, c13, c23, c44, c55, c66 = aligned_moduli(stiffness)
    differences = np.array([c11 - c22, c13 - c23, c44 - c55, c12 - (c11 - 2.0 * c66)])
    return is_orthorhombic(stiffness) and bool(np.abs(differences).max() <= _ROUNDING * np.abs(stiffness).max())


def rotation_to(axis: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return a rotation (3, 3) of the z axis to a direction (x, y, z); the identity for the z axis.

    Raises
    ------
    ValueError : the direction has no length.
    """
    direction = np.asarray(axis, dtype=float)
    length = np.linalg.norm(direction)
    if not length > 0.0:
        raise ValueError("the axis has no length")
    x, y, z = direction / length
    across = np.hypot(x, y)
    if across == 0.0:
        return np.diag([1.0, np.sign(z), np.sign(z)])
    east, north = x / across, y / across
    return np.array([[z * east, -north, x], [z * north, east, y], [-across, 0.0, z]])


def rotated_stiffness(stiffness: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Return the matrix (6, 6) of a medium rotated by a rotation (3, 3): c'_ijkl = R_ia R_jb R_kc R_ld c_abcd."""
    turn = "ia,jb,kc,ld,abcd->ijkl"
    tensor = np.einsum(turn, *[rotation] * 4, stiffness_tensor(stiffness), optimize=True)
    rows, columns = np.array(VOIGT_PAIRS).T
    turned = tensor[rows[:, None], columns[:, None], rows, columns]
    return 0.5 * (turned + turned.T)


def smallest_eigenvalue(stiffness: np.ndarray) -> float:
    """Return the smallest eigenvalue of a matrix (6, 6), Pa, which is positive for a stable solid.

    It belongs to the matrix in Voigt notation; a rotation of the medium changes its value, but not its sign.
    """
    return float(np.linalg.eigvalsh(stiffness)[0])


def christoffel_matrix(stiffness: np.ndarray, directions: ArrayLike) -> np.ndarray:
    """Return the Christoffel matrices (..., 3, 3) in Pa for unit vectors (..., 3): G_ik = c_ijkl n_j n_l."""
    normals = np.asarray(directions, dtype=float)
    return np.einsum("ijkl,...j,...l->...ik", stiffness_tensor(stiffness), normals, normals, optimize=True)


def phase_speeds(stiffness: np.ndarray, rho: float, directions: ArrayLike) -> np.ndarray:
    """Return phase speeds (..., 3) in m/s along unit vectors (..., 3), ascending: slow S, fast S, P."""
    squares = np.linalg.eigvalsh(christoffel_matrix(stiffness, directions)) / rho
    return np.sqrt(np.maximum(squares, 0.0))


def backward_waves(stiffness: np.ndarray, rho: float) -> np.ndarray:
    r"""Return for each axis the minimum of V_a n_a / c over all waves; negative if some waves travel backwards.

    Waves whose group velocity V and direction n have components of opposite sign along an axis a grow in a perfectly
    matched layer along it (Becache, Fauqueux & Joly 2003, J. Comput. Phys. 188, 399-433, condition C2). With the
    phase velocity c and the polarization g, V_j = C_ijkl g_i g_k n_l / (rho c).

    stiffness : (6, 6), Pa.
    """
    directions = _half_sphere(_DIRECTIONS)
    squares, vectors = np.linalg.eigh(christoffel_matrix(stiffness, directions) / rho)
    tensor = stiffness_tensor(stiffness) / rho
    group = np.einsum("ijkl,dim,dkm,dl->dmj", tensor, vectors, vectors, directions, optimize=True)
    return (group * directions[:, None] / squares[..., None]).min(axis=(0, 1))


def speed_range(stiffness: np.ndarray, rho: float) -> tuple[float, float]:
    """Return the minimum and the maximum phase speed over all directions, m/s.

    The extremum among some thousand directions, including the coordinate axes, is refined in increasingly narrow cones,
    to a relative accuracy of about 1e-8.
    """
    directions = _half_sphere(_DIRECTIONS)
    speeds = phase_speeds(stiffness, rho, directions)
    slowest, fastest = speeds[:, 0].argmin(), speeds[:, 2].argmax()
    low = -_refined(lambda n: -phase_speeds(stiffness, rho, n)[:, 0], directions[slowest])
    return low, _refined(lambda n: phase_speeds(stiffness, rho, n)[:, 2], directions[fastest])


def _refined(function: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> float:
    """Return the maximum of a function near a direction."""
    best, width = start, 2.0 * np.sqrt(2.0 * np.pi / _DIRECTIONS)
    value = float(function(best[None])[0])
    for _ in range(_REFINEMENTS):
        across = rotation_to(best)[:, :2]
        offsets = np.linspace(-width, width, _CONE)
        u, v = (offset.reshape(-1, 1) for offset in np.meshgrid(offsets, offsets))
        around = best + u * across[:, 0] + v * across[:, 1]
        around /= np.linalg.norm(around, axis=1, keepdims=True)
        values = function(around)
        largest = int(values.argmax())
        if values[largest] > value:
            best, value = around[largest], float(values[largest])
        width *= 2.5 / (_CONE - 1)
    return value


def _half_sphere(count: int) -> np.ndarray:
    """Return unit vectors (count + 3, 3), evenly spread over a half sphere, after the three axes."""
    z = (np.arange(count) + 0.5) / count
    angle = np.arange(count) * np.pi * (3.0 - np.sqrt(5.0))
    radius = np.sqrt(1.0 - z**2)
    return np.concatenate([np.eye(3), np.column_stack([radius * np.cos(angle), radius * np.sin(angle), z])])
