"""Moduli of attenuation at the carrying points of elements: the compiled loop against products of matrices."""

from __future__ import annotations

import numpy as np
import pytest

from element_kinds import kind_plan
from lithowave.solvers.spectral_element import (
    ElementKind,
    Losses,
    carried_moduli,
    carrier_indices,
    carrier_sets,
    determinant,
    jacobian_matrix,
    quadrature_weights,
    shares,
)


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_moduli_are_shared_among_carrying_points_and_corrected(number: int, varying: bool) -> None:
    kind = ElementKind("triquadratic", False, varying, mechanisms=3, carriers=number)
    made = kind_plan((2, 2, 2), 4, "double", kind)
    elements, body = np.arange(8), made.materials.losses.body
    shape = made.materials.values.shape[1:] if varying else (1,)
    inverse = np.random.default_rng(1).uniform(0.0, 0.02, (2, *shape))
    inverse[:, :1] = 0.0
    materials = made.materials
    object.__setattr__(materials, "losses", Losses(body, inverse))
    found, strength = carried_moduli(made.mesh, materials, 4, elements, number)
    volume = determinant(jacobian_matrix(made.mesh.element_nodes(elements), 4)).reshape(8, -1) * quadrature_weights(4)
    stiffness = np.stack(materials.isotropic_moduli(elements)).reshape(2, 8, -1)
    quality = (inverse if varying else inverse[:, materials.number]).reshape(stiffness.shape)
    indices = carrier_indices(4, number)
    carried = (body.weights(quality) * stiffness * volume) @ shares(4, number).T / volume[:, indices]
    kappa, mu = stiffness = np.broadcast_to(stiffness, (2, *volume.shape))[..., indices]
    ratio = carried / stiffness
    sphere = np.stack([3 * kappa, 1.2 * (kappa + 2 * mu)]) / (3 * kappa + 4 * mu)
    nu = np.array(carrier_sets(4)[number - 1].concentration)[:, None, None] * sphere
    real = np.tensordot(body.rates**2 / (body.rates**2 + body.rates[:, None] ** 2), ratio, axes=1)
    np.testing.assert_allclose(found, carried / (1.0 + nu * real) ** 2, rtol=1e-12, atol=1e-12 * carried.max())
    np.testing.assert_allclose(strength, ratio.sum(axis=0).max(axis=(0, 2)), rtol=1e-12, atol=1e-15)
