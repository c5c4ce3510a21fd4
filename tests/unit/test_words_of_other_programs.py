"""Words of other programs in the simulation file: quality factors of moduli, spherical tensors, dyn cm."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from lithowave.description import MomentTensor
from lithowave.media import ElasticProperties

MEDIUM = {"vp": 3000.0, "vs": 1700.0, "rho": 2300.0}
PARTS = {
    "domain": {"x": [-1e3, 1e3], "y": [-1e3, 1e3], "z": [-2e3, 0]}, "duration": 1, "solver": {"max_frequency": 1},
    "sources": [{"position": [0, 0, -500], "moment_tensor": {"xy": 1e15}, "time_function": {"gaussian": {"sigma": 1}}}],
}  # fmt: skip


def simulation(**changes):
    return lw.Simulation(**{"material": {"homogeneous": MEDIUM}, **PARTS, **changes})


def source(**changes):
    (made,) = simulation(sources=[{**PARTS["sources"][0], **changes}]).acquisition.sources
    return made


@pytest.mark.parametrize("qkappa", [57.0, 9999.0])
def test_quality_factors_of_moduli(qkappa):
    """1/qp = (1 - L)/qkappa + L/qmu; the losses of the moduli are those that are given."""
    medium = ElasticProperties(**MEDIUM, qkappa=qkappa, qmu=40.0)
    share = 4.0 / 3.0 * (1700.0 / 3000.0) ** 2
    assert medium.qs == 40.0 and 1.0 / medium.qp == pytest.approx((1.0 - share) / qkappa + share / 40.0)
    assert medium.inverse_quality == pytest.approx((1.0 / qkappa, 1.0 / 40.0))
    same = ElasticProperties(**MEDIUM, qp=medium.qp, qs=medium.qs)
    assert same.inverse_quality == pytest.approx(medium.inverse_quality, rel=1e-9, abs=1e-15)
    assert ElasticProperties(**medium.model_dump()) == medium
    layers = [{"top": 0, **MEDIUM, "qkappa": qkappa, "qmu": 40}, {"top": -500, **MEDIUM, "qp": medium.qp, "qs": 40}]
    material = simulation(material={"layers": layers}).material
    bulk, shear = material.medium.inverse_quality(np.zeros(2), np.zeros(2), np.array([-100.0, -900.0]))
    np.testing.assert_allclose(bulk, 1.0 / qkappa, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(shear, 1.0 / 40.0)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"qkappa": 100, "qs": 50}, "qs: qkappa and qs are both given"),
        ({"qkappa": 100}, "qmu: is missing, while qkappa is given"),
        ({"qmu": 100}, "qkappa: is missing, while qmu is given"),
        ({"vs": 0, "qkappa": 100, "qmu": 50}, "qmu: 50 is given, but vs = 0 denotes a fluid"),
    ],
)
def test_quality_factors_that_do_not_fit(keys, words):
    with pytest.raises(lw.InputError, match=words):
        ElasticProperties(**{**MEDIUM, **keys})


def test_spherical_tensors():
    """xx = pp, yy = tt, zz = rr, xy = -tp, xz = rp, yz = -rt; 1 dyn cm = 1e-7 N m."""
    spherical = {"rr": "1e24 dyn cm", "tt": "2e24 dyn cm", "pp": "-3e24 dyn cm", "rt": "4e24 dyn cm", "rp": 5e17}
    spherical["tp"] = 6e17
    tensor = MomentTensor(**spherical)
    assert tensor.components == (-3e17, 2e17, 1e17, -6e17, 5e17, -4e17)
    assert MomentTensor(**tensor.model_dump()) == tensor and "rr" not in tensor.model_dump()
    assert source(moment_tensor=spherical).moment == tensor.components
    made = simulation(sources=[{**PARTS["sources"][0], "moment_tensor": {"rr": 1e15}}])
    assert made.with_overrides({"duration": 2}).sources[0].moment_tensor.zz == 1e15
    for keys, words in (({"rr": 1, "xx": 1}, "xx and rr are both given"), ({"rr": 0}, "all components are zero")):
        with pytest.raises(lw.InputError, match=words):
            MomentTensor(**keys)


def test_a_moment_of_a_shape():
    wavelet = {"ricker": {"frequency": 0.5, "quantity": "moment"}}
    assert source(time_function=wavelet).time_function.is_moment
    with pytest.raises(lw.InputError, match="quantity: moment is given with a force"):
        source(time_function=wavelet, force=[0, 0, 1], moment_tensor=None)
    again = simulation(sources=[{**PARTS["sources"][0], "time_function": wavelet}])
    assert "quantity: moment" in again.to_yaml()
    assert "quantity" not in simulation().to_yaml().partition("time_function")[2].partition("receivers")[0]
