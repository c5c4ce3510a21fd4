"""Choice of the constitutive law of the finite differences for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.anisotropy import is_transverse
from lithowave.description.media import LayeredMedium, elastic_moduli
from lithowave.errors import InputError
from lithowave.mesh.grid import Grid
from lithowave.solvers.finite_difference.fields import LAWS

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

CONTRAST = 1.2  # ratio of moduli at a distance of one grid spacing from which a gridded medium has interfaces
COLUMNS = 33  # columns along x and y at which a gridded medium or a function is examined

Choice = tuple[str, str]  # name of the law, and the reason as text


def choose_law(simulation: Simulation, grid: Grid) -> Choice:
    """Return the constitutive law for a model, a name in `fields.LAWS`, and why.

    The isotropic law is accurate where the medium is uniform within a cell, or where interfaces are midway between
    nodes; other interfaces need the transverse law, and anisotropic media the law with their symmetry.

    Raises
    ------
    InputError : the model is anisotropic, and ``solver.effective_medium`` names a law without this anisotropy.
    """
    requested = simulation.solver.effective_medium
    required, reason = _symmetry(simulation)
    if requested == "auto":
        return (required, reason) if required != "isotropic" else _for_interfaces(simulation, grid)
    if LAWS[requested].number < LAWS[required].number:
        allowed = [name for name, law in LAWS.items() if law.number >= LAWS[required].number]
        raise InputError(
            "solver.effective_medium",
            f"{requested} is not sufficient: {reason}",
            f"allowed here: auto, {', '.join(allowed)}",
        )
    return requested, "solver.effective_medium"


def _symmetry(simulation: Simulation) -> Choice:
    """Return the law that the anisotropy of the media requires."""
    law, reason = "isotropic", "isotropic media"
    for path, properties in simulation.material.properties.items():
        if properties.is_anisotropic:
            place = "material." + ".".join(map(str, path))
            if not is_transverse(properties.stiffness_matrix()):
                return "orthorhombic", f"{place} is anisotropic without a vertical symmetry axis"
            law, reason = "transverse", f"{place} is anisotropic"
    return law, reason


def _for_interfaces(simulation: Simulation, grid: Grid) -> Choice:
    medium = simulation.material.medium
    if isinstance(medium, LayeredMedium):
        top = _first_cut(medium, simulation, grid)
        if top is None:
            return "isotropic", "no interface cuts a cell"
        return "transverse", f"interface at z = {top:g} m"
    ratio, (x, y, z) = _largest_contrast(simulation, grid.spacing)
    if ratio < CONTRAST:
        return "isotropic", "smooth medium"
    return "transverse", f"moduli change by a factor of {ratio:.2g} per cell near ({x:.4g}, {y:.4g}, {z:.4g}) m"


def _first_cut(medium: LayeredMedium, simulation: Simulation, grid: Grid) -> float | None:
    """Return z of the first interface in the domain that is not midway between planes of nodes."""
    low, high = simulation.domain.z
    nodes = float(grid.whole.nodes(2)[0])
    for top in medium.tops[1:]:
        if low < top < high and abs((top - nodes) / grid.spacing % 1.0 - 0.5) > 1e-6:
            return top
    return None


def _largest_contrast(simulation: Simulation, spacing: float) -> tuple[float, tuple[float, float, float]]:
    """Return the largest ratio of moduli one grid spacing apart along z at sampled columns, and its location."""
    domain = simulation.domain
    count = 2 * int(np.ceil((domain.z[1] - domain.z[0]) / spacing)) + 1
    x, y = (np.linspace(*ends, COLUMNS) for ends in (domain.x, domain.y))
    z = np.linspace(*domain.z, count)
    largest, place = 1.0, (float(x[0]), float(y[0]), float(z[0]))
    for row in y:
        kappa, mu, _ = elastic_moduli(*simulation.material.medium.sample(x[:, None], np.asarray(row), z))
        for values in (kappa + 4.0 / 3.0 * mu, mu):
            step = np.abs(np.log(values[:, 2:] / values[:, :-2]))
            i, k = np.unravel_index(int(step.argmax()), step.shape)
            if np.exp(step[i, k]) > largest:
                largest, place = float(np.exp(step[i, k])), (float(x[i]), float(row), float(z[k + 1]))
    return largest, place
