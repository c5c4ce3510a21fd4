"""Reference models of the Earth: PREM, ak135-f and IASP91.

PREM : Dziewonski & Anderson (1981), Phys. Earth Planet. Inter. 25, 297-356, table 1. Speeds refer to a period of 1 s.
ak135 : see `ak135_table`. Speeds refer to 1 Hz.
iasp91 : Kennett & Engdahl (1991), GJI 105, 429-465, table 2. It has neither a density nor quality factors; the
    density is that of ak135.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lithowave.earth.ak135_table import OUTER_CORE_QKAPPA, TABLE
from lithowave.earth.radial_model import (
    COLUMNS,
    RADIUS,
    EarthLayer,
    PolynomialProfile,
    Profile,
    RadialModel,
    TableProfile,
)

NAMES = ("prem", "ak135", "iasp91")
"""Names of `reference_model`."""

REFERENCE_FREQUENCY = 1.0  # Hz

_Rows = Sequence[tuple[float, Sequence[float], Sequence[float], Sequence[float]]]

# Radius of the bottom, km; polynomials of vp and vs, km/s, and rho, g/cm^3, in ascending powers; Qkappa, Qmu.
_LOWER_MANTLE_DENSITY = (7.9565, -6.4761, 5.5283, -3.0807)
_PREM = (
    (6368.0, (1.45,), (0.0,), (1.02,), 57823.0, np.inf),
    (6356.0, (5.8,), (3.2,), (2.6,), 57823.0, 600.0),
    (6346.6, (6.8,), (3.9,), (2.9,), 57823.0, 600.0),
    (6291.0, (4.1875, 3.9382), (2.1519, 2.3481), (2.691, 0.6924), 57823.0, 600.0),
    (6151.0, (4.1875, 3.9382), (2.1519, 2.3481), (2.691, 0.6924), 57823.0, 80.0),
    (5971.0, (20.3926, -12.2569), (8.9496, -4.4597), (7.1089, -3.8045), 57823.0, 143.0),
    (5771.0, (39.7027, -32.6166), (22.3512, -18.5856), (11.2494, -8.0298), 57823.0, 143.0),
    (5701.0, (19.0957, -9.8672), (9.9839, -4.9324), (5.3197, -1.4836), 57823.0, 143.0),
    (5600.0, (29.2766, -23.6027, 5.5242, -2.5514), (22.3459, -17.2473, -2.0834, 0.9783), _LOWER_MANTLE_DENSITY,
     57823.0, 312.0),
    (3630.0, (24.952, -40.4673, 51.4832, -26.6419), (11.1671, -13.7818, 17.4575, -9.2777), _LOWER_MANTLE_DENSITY,
     57823.0, 312.0),
    (3480.0, (15.3891, -5.3181, 5.5242, -2.5514), (6.9254, 1.4672, -2.0834, 0.9783), _LOWER_MANTLE_DENSITY,
     57823.0, 312.0),
    (1221.5, (11.0487, -4.0362, 4.8023, -13.5732), (0.0,), (12.5815, -1.2638, -3.6426, -5.5281), 57823.0, np.inf),
    (0.0, (11.2622, 0.0, -6.364), (3.6678, 0.0, -4.4475), (13.0885, 0.0, -8.8381), 1327.7, 84.6),
)  # fmt: skip

_PREM_TRANSVERSE = {
    "vpv": (0.8317, 7.218), "vph": (3.5908, 4.6172), "vsv": (5.8582, -1.4678), "vsh": (-1.0839, 5.7176),
    "eta": (3.3687, -2.4778),
}  # fmt: skip
"""Polynomials of PREM, km/s, between the radii 6151 and 6346.6 km."""

# Depth of the bottom, km; polynomials of vp and vs, km/s.
_IASP91 = (
    (20.0, (5.8,), (3.36,)),
    (35.0, (6.5,), (3.75,)),
    (120.0, (8.78541, -0.74953), (6.706231, -2.248585)),
    (210.0, (25.41389, -17.69722), (5.7502, -1.2742)),
    (410.0, (30.78765, -23.25415), (15.24213, -11.08552)),
    (660.0, (29.38896, -21.40656), (17.70732, -13.50652)),
    (760.0, (25.96984, -16.93412), (20.7689, -16.53147)),
    (2740.0, (25.1486, -41.1538, 51.9932, -26.6083), (12.9303, -21.259, 27.8988, -14.108)),
    (2889.0, (14.4947, -1.47089), (8.16616, -1.58206)),
    (5153.9, (10.03904, 3.75665, -13.67046), (0.0,)),
    (6371.0, (11.24094, 0.0, -4.09689), (3.56454, 0.0, -3.45241)),
)


def reference_model(name: str, *, ocean: bool = False, transverse: bool = False) -> RadialModel:
    """Return a reference model.

    Parameters
    ----------
    name : prem, ak135 or iasp91.
    ocean : True for the ocean of PREM; by default the upper crust extends up to the surface. The other models have
        no ocean.
    transverse : True for the transverse isotropy of PREM at depths of 24.4 to 220 km; by default the equivalent
        isotropic speeds of its authors.

    Raises
    ------
    ValueError : another name.
    """
    if name == "prem":
        model = _prem(transverse)
        return model if ocean else model.without_ocean()
    if name == "ak135":
        return _ak135()
    if name == "iasp91":
        return _iasp91()
    raise ValueError(f"{name!r} is not a reference model: {', '.join(NAMES)}")


def table_model(
    name: str, radius: np.ndarray, values: np.ndarray, frequency: float | None = None, notes: tuple[str, ...] = ()
) -> RadialModel:
    """Return a model from values (8, rows) of `COLUMNS` at descending radii, m; repeated radii divide layers."""
    breaks = np.flatnonzero(radius[1:] == radius[:-1]) + 1
    layers = [
        EarthLayer(float(r[0]), float(r[-1]), TableProfile(r[::-1].copy(), v[:, ::-1].copy()))
        for r, v in zip(np.split(radius, breaks), np.split(values, breaks, axis=1), strict=True)
    ]
    return RadialModel(name, tuple(layers), frequency, notes)


def _coefficients(polynomials: dict[str, Sequence[float]]) -> np.ndarray:
    """Return the coefficients (8, 4), SI, of polynomials in km/s and g/cm^3."""
    table = np.zeros((len(COLUMNS), 4))
    for name, polynomial in polynomials.items():
        unit = 1.0 if name == "eta" or name.startswith("inverse") else 1000.0
        table[COLUMNS.index(name), : len(polynomial)] = unit * np.array(polynomial)
    return table


def _isotropic(vp: Sequence[float], vs: Sequence[float]) -> dict[str, Sequence[float]]:
    return {"vpv": vp, "vph": vp, "vsv": vs, "vsh": vs, "eta": (1.0,)}


def _prem(transverse: bool) -> RadialModel:
    layers, top = [], RADIUS
    for bottom, vp, vs, rho, qkappa, qmu in _PREM:
        anisotropic = transverse and bottom in (6291.0, 6151.0)
        speeds = _PREM_TRANSVERSE if anisotropic else _isotropic(vp, vs)
        losses = {"inverse_qkappa": (1.0 / qkappa,), "inverse_qmu": (1.0 / qmu,)}
        low = 1000.0 * bottom
        layers.append(
            EarthLayer(top, low, PolynomialProfile(low, top, _coefficients({**speeds, "rho": rho, **losses})))
        )
        top = low
    return RadialModel("prem", tuple(layers), REFERENCE_FREQUENCY)


def _ak135() -> RadialModel:
    depth, vp, vs, rho, qmu = np.array([line.split() for line in TABLE.splitlines()], float).T
    fluid = vs == 0.0
    inverse_qmu = np.where(fluid, 0.0, 1.0 / np.where(fluid, 1.0, qmu))
    inverse_qkappa = np.where(fluid, 1.0 / OUTER_CORE_QKAPPA, 0.0)
    one = np.ones_like(vp)
    vp, vs, rho = 1000.0 * vp, 1000.0 * vs, 1000.0 * rho
    values = np.stack([vp, vp, vs, vs, one, rho, inverse_qkappa, inverse_qmu])
    return table_model("ak135", RADIUS - 1000.0 * depth, values, REFERENCE_FREQUENCY)


def _iasp91() -> RadialModel:
    density = _ak135()
    layers, top = [], RADIUS
    for depth, vp, vs in _IASP91:
        low = RADIUS - 1000.0 * depth
        own = density.layers[int(density.layer_index(0.5 * (top + low)))]
        layers.append(EarthLayer(top, low, _DensityOf(own.profile, low, top, _coefficients(_isotropic(vp, vs)))))
        top = low
    note = "iasp91 has no density and no quality factors: its density is that of ak135"
    return RadialModel("iasp91", tuple(layers), REFERENCE_FREQUENCY, (note,))


class _DensityOf(PolynomialProfile):
    """Polynomials with the density of another profile, that at its ends beyond them."""

    def __init__(self, other: Profile, low: float, high: float, coefficients: np.ndarray) -> None:
        super().__init__(low, high, coefficients)
        object.__setattr__(self, "other", other)

    def __call__(self, radius: np.ndarray) -> np.ndarray:
        values = super().__call__(radius)
        row = COLUMNS.index("rho")
        values[row] = self.other(np.clip(radius, self.low, self.high))[row]  # type: ignore[attr-defined]
        return values
