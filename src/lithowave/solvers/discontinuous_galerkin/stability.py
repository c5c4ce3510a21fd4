r"""Largest stable time steps of elements.

Beyond its limit, the step of order N amplifies modes that change sign in each step. Most of them are dissipated at the
faces, at rates proportional to the wave velocity over the heights h_f of an element above its faces f. With its fastest
wave v,

.. math::
    \Delta t = \frac{C_N\,\bigl(1 + a\,(1 - \varphi)\bigr)}{(2 N - 1)\,v}
    \Bigl[\sum_f \frac{1 + b_f}{h_f^2}\Bigr]^{-1/2}, \qquad
    b_f = \beta\,\Bigl|\frac{Z^+ - Z^-}{Z^+ + Z^-}\Bigr|, \qquad Z = \rho v,

between two elements, `BOUNDARY` at free and rigid faces, 0 at absorbing ones. phi is 0 for a regular tetrahedron and 1
for a flat one: (3 s - 1) / 2 with the ratio s of the largest eigenvalue of G = sum of n_f n_f^T / h_f^2 to its trace. a
depends on (vs / vp)^2: a fluid dissipates pressure at all faces of an element at the same time.

The constants are fits to about 1,000 limits measured by `benchmarks/galerkin_limits.py`, of which none is exceeded.
"""

from __future__ import annotations

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.solvers.discontinuous_galerkin.geometry import make_geometry
from lithowave.solvers.discontinuous_galerkin.materials import ElementMaterials
from lithowave.solvers.discontinuous_galerkin.riemann import ABSORBING

FLAT = {2: 0.67, 3: 0.688, 4: 0.655, 5: 0.603, 6: 0.555, 7: 0.507}  # C_N
RIGIDITIES, REGULAR = [0.0, 1 / 9, 1 / 4, 4 / 9, 0.7], [-0.19, 0.0, 0.2, 0.1, -0.04]  # (vs / vp)^2, and a for it
CONTRAST, BOUNDARY = 0.6, 0.2  # beta, and b_f at free and rigid faces
PART = 4096  # elements that a thread processes at a time


def stable_time_steps(
    order: int, mesh: TetrahedralMesh, materials: ElementMaterials, neighbors: np.ndarray
) -> np.ndarray:
    """Return the largest stable step (elements,), s, of this rank's elements; see the module.

    neighbors : (elements, 4), the element across each face, or the kind of the face (`riemann.KINDS`); materials
    contains these elements.
    """
    found = np.empty(mesh.element_count)
    speed = materials.fastest_speed
    impedance = materials.rho * speed

    def compute(part: slice) -> None:
        geometry = make_geometry(mesh.element_vertices(part))
        stiffness = np.empty((len(geometry.lifts), 2))
        measure_faces(part.start, geometry.lifts, geometry.normals, neighbors, impedance, stiffness)
        total, flatness = stiffness.T
        number = FLAT[order] * (1.0 + regular_gains(materials, part) * (1.0 - flatness))
        found[part] = number / ((2 * order - 1) * speed[part] * np.sqrt(total))

    over_parts(compute, mesh.element_count, PART)
    return found


def regular_gains(materials: ElementMaterials, part: slice) -> np.ndarray:
    """Return a of some elements: in anisotropic ones its minimum."""
    anisotropic = materials.anisotropic[part]
    modulus = np.where(anisotropic, 1.0, materials.lam[part] + 2.0 * materials.mu[part])
    gains = np.interp(materials.mu[part] / modulus, RIGIDITIES, REGULAR)
    return np.where(anisotropic, min(REGULAR), gains)


@exact_part
def measure_faces(first, lifts, normals, neighbors, impedance, found):  # pragma: no cover - compiled
    """Compute the sum over faces, 1/m^2, and phi of some elements. first : the first of them. lifts : 1 / h_f."""
    for n in range(len(lifts)):
        total, xx, yy, zz, xy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        own = impedance[first + n]
        for face in range(4):
            across, square = neighbors[first + n, face], lifts[n, face] ** 2
            more = 0.0 if across == ABSORBING else BOUNDARY
            if across >= 0:
                more = CONTRAST * abs(impedance[across] - own) / (impedance[across] + own)
            total += square * (1.0 + more)
            x, y, z = normals[n, face]
            xx, yy, zz = xx + square * x * x, yy + square * y * y, zz + square * z * z
            xy, xz, yz = xy + square * x * y, xz + square * x * z, yz + square * y * z
        mean = (xx + yy + zz) / 3.0
        xx, yy, zz = xx / mean - 1.0, yy / mean - 1.0, zz / mean - 1.0
        xy, xz, yz = xy / mean, xz / mean, yz / mean
        # The eigenvalues of this deviator are 2 p cos(angle + 2 k pi / 3).
        p = np.sqrt((xx * xx + yy * yy + zz * zz + 2.0 * (xy * xy + xz * xz + yz * yz)) / 6.0)
        determinant = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
        cosine = determinant / (2.0 * p * p * p) if p > 1e-12 else 0.0
        largest = 2.0 * p * np.cos(np.arccos(min(1.0, max(-1.0, cosine))) / 3.0)
        found[n, 0], found[n, 1] = total, min(1.0, 0.5 * largest)
