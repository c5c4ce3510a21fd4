r"""Reference models of the Earth: PREM, ak135-f and IASP91, their travel times and ellipticity.

**ak135-f** (Kennett, Engdahl & Buland 1995, GJI 122, 108-124; density and Q: Montagner & Kennett 1996, GJI 125,
229-248). Above 120 km it is the variant with a continental crust instead of an ocean and sediments. Columns: depth
(km), vp, vs (km/s), density (g/cm^3), Qmu. The quality factor of P waves that is usually listed with the table
corresponds to an infinite Qkappa in solids; of the outer core it is 57822. Speeds refer to 1 Hz.

**PREM**: Dziewonski & Anderson (1981), Phys. Earth Planet. Inter. 25, 297-356, table 1. Speeds refer to a period of 1
s.

**IASP91**: Kennett & Engdahl (1991), GJI 105, 429-465, table 2. It has neither a density nor quality factors; the
density is that of ak135.

Travel times of seismic phases follow from ray theory with TauP in ObsPy. **Hydrostatic ellipticity** of the surfaces of
equal density of a rotating Earth: with the mass M(r) and the moment of inertia C(r) of the sphere below a radius r,
Radau's approximation is

.. math:: \eta = \frac{25}{4} \Bigl(1 - \frac{3\,C}{2\,M r^2}\Bigr)^2 - 1, \qquad
    \frac{d \ln\varepsilon}{d \ln r} = \eta, \qquad
    \varepsilon(a) = \frac{5}{2}\,\frac{\Omega^2 a^3}{G M(a)}\,\frac{1}{\eta(a) + 2}

(Dahlen & Tromp 1998, Theoretical Global Seismology, section 14.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from lithowave.earth.radial_model import (
    COLUMNS,
    RADIUS,
    EarthLayer,
    PolynomialProfile,
    Profile,
    RadialModel,
    TableProfile,
)
from lithowave.errors import InputError, MissingPackageError

OUTER_CORE_QKAPPA = 57822.0

TABLE = """\
0.00 5.8000 3.4600 2.7200 599.99
20.00 5.8000 3.4600 2.7200 599.99
20.00 6.5000 3.8500 2.9200 403.93
35.00 6.5000 3.8500 2.9200 403.93
35.00 8.0400 4.4800 3.3200 75.60
77.50 8.0450 4.4900 3.3450 75.60
120.00 8.0505 4.5000 3.4268 76.06
165.00 8.1750 4.5090 3.3711 76.55
210.00 8.3007 4.5184 3.3243 79.40
210.00 8.3007 4.5184 3.3243 133.72
260.00 8.4822 4.6094 3.3663 136.38
310.00 8.6650 4.6964 3.4110 139.38
360.00 8.8476 4.7832 3.4577 142.76
410.00 9.0302 4.8702 3.5068 146.57
410.00 9.3601 5.0806 3.9317 162.50
460.00 9.5280 5.1864 3.9273 164.87
510.00 9.6962 5.2922 3.9233 166.80
560.00 9.8640 5.3989 3.9218 168.78
610.00 10.0320 5.5047 3.9206 170.82
660.00 10.2000 5.6104 3.9201 172.93
660.00 10.7909 5.9607 4.2387 549.45
710.00 10.9222 6.0898 4.2986 543.48
760.00 11.0553 6.2100 4.3565 537.63
809.50 11.1355 6.2424 4.4118 531.91
859.00 11.2228 6.2799 4.4650 526.32
908.50 11.3068 6.3164 4.5162 520.83
958.00 11.3897 6.3519 4.5654 515.46
1007.50 11.4704 6.3860 4.5926 510.20
1057.00 11.5493 6.4182 4.6198 505.05
1106.50 11.6265 6.4514 4.6467 500.00
1156.00 11.7020 6.4822 4.6735 495.05
1205.50 11.7768 6.5131 4.7001 490.20
1255.00 11.8491 6.5431 4.7266 485.44
1304.50 11.9208 6.5728 4.7528 480.77
1354.00 11.9891 6.6009 4.7790 476.19
1403.50 12.0571 6.6285 4.8050 471.70
1453.00 12.1247 6.6554 4.8307 467.29
1502.50 12.1912 6.6813 4.8562 462.96
1552.00 12.2558 6.7070 4.8817 458.72
1601.50 12.3181 6.7323 4.9069 454.55
1651.00 12.3813 6.7579 4.9321 450.45
1700.50 12.4427 6.7820 4.9570 446.43
1750.00 12.5030 6.8056 4.9817 442.48
1799.50 12.5638 6.8289 5.0062 436.68
1849.00 12.6226 6.8517 5.0306 431.03
1898.50 12.6807 6.8743 5.0548 425.53
1948.00 12.7384 6.8972 5.0789 418.41
1997.50 12.7956 6.9194 5.1027 414.94
2047.00 12.8524 6.9416 5.1264 411.52
2096.50 12.9093 6.9625 5.1499 406.50
2146.00 12.9663 6.9852 5.1732 403.23
2195.50 13.0226 7.0069 5.1963 398.41
2245.00 13.0786 7.0286 5.2192 392.16
2294.50 13.1337 7.0504 5.2420 387.60
2344.00 13.1895 7.0722 5.2646 383.14
2393.50 13.2465 7.0932 5.2870 378.79
2443.00 13.3017 7.1144 5.3092 375.94
2492.50 13.3584 7.1368 5.3313 371.75
2542.00 13.4156 7.1584 5.3531 367.65
2591.50 13.4741 7.1804 5.3748 363.64
2640.00 13.5311 7.2031 5.3962 359.71
2690.00 13.5899 7.2253 5.4176 354.61
2740.00 13.6498 7.2485 5.4387 350.88
2740.00 13.6498 7.2485 5.6934 271.74
2789.67 13.6533 7.2593 5.7196 273.97
2839.33 13.6570 7.2700 5.7458 273.97
2891.50 13.6601 7.2817 5.7721 273.97
2891.50 8.0000 0.0000 9.9145 0.00
2939.33 8.0382 0.0000 9.9942 0.00
2989.66 8.1283 0.0000 10.0722 0.00
3039.99 8.2213 0.0000 10.1485 0.00
3090.32 8.3122 0.0000 10.2233 0.00
3140.66 8.4001 0.0000 10.2964 0.00
3190.99 8.4861 0.0000 10.3679 0.00
3241.32 8.5692 0.0000 10.4378 0.00
3291.65 8.6496 0.0000 10.5062 0.00
3341.98 8.7283 0.0000 10.5731 0.00
3392.31 8.8036 0.0000 10.6385 0.00
3442.64 8.8761 0.0000 10.7023 0.00
3492.97 8.9461 0.0000 10.7647 0.00
3543.30 9.0138 0.0000 10.8257 0.00
3593.64 9.0792 0.0000 10.8852 0.00
3643.97 9.1426 0.0000 10.9434 0.00
3694.30 9.2042 0.0000 11.0001 0.00
3744.63 9.2634 0.0000 11.0555 0.00
3794.96 9.3205 0.0000 11.1095 0.00
3845.29 9.3760 0.0000 11.1623 0.00
3895.62 9.4297 0.0000 11.2137 0.00
3945.95 9.4814 0.0000 11.2639 0.00
3996.28 9.5306 0.0000 11.3127 0.00
4046.62 9.5777 0.0000 11.3604 0.00
4096.95 9.6232 0.0000 11.4069 0.00
4147.28 9.6673 0.0000 11.4521 0.00
4197.61 9.7100 0.0000 11.4962 0.00
4247.94 9.7513 0.0000 11.5391 0.00
4298.27 9.7914 0.0000 11.5809 0.00
4348.60 9.8304 0.0000 11.6216 0.00
4398.93 9.8682 0.0000 11.6612 0.00
4449.26 9.9051 0.0000 11.6998 0.00
4499.60 9.9410 0.0000 11.7373 0.00
4549.93 9.9761 0.0000 11.7737 0.00
4600.26 10.0103 0.0000 11.8092 0.00
4650.59 10.0439 0.0000 11.8437 0.00
4700.92 10.0768 0.0000 11.8772 0.00
4751.25 10.1095 0.0000 11.9098 0.00
4801.58 10.1415 0.0000 11.9414 0.00
4851.91 10.1739 0.0000 11.9722 0.00
4902.24 10.2049 0.0000 12.0001 0.00
4952.58 10.2329 0.0000 12.0311 0.00
5002.91 10.2565 0.0000 12.0593 0.00
5053.24 10.2745 0.0000 12.0867 0.00
5103.57 10.2854 0.0000 12.1133 0.00
5153.50 10.2890 0.0000 12.1391 0.00
5153.50 11.0427 3.5043 12.7037 85.03
5204.61 11.0585 3.5187 12.7289 85.03
5255.32 11.0718 3.5314 12.7530 85.03
5306.04 11.0850 3.5435 12.7760 85.03
5356.75 11.0983 3.5551 12.7980 85.03
5407.46 11.1166 3.5661 12.8188 85.03
5458.17 11.1316 3.5765 12.8387 85.03
5508.89 11.1457 3.5864 12.8574 85.03
5559.60 11.1590 3.5957 12.8751 85.03
5610.31 11.1715 3.6044 12.8917 85.03
5661.02 11.1832 3.6126 12.9072 85.03
5711.74 11.1941 3.6202 12.9217 85.03
5762.45 11.2041 3.6272 12.9351 85.03
5813.16 11.2134 3.6337 12.9474 85.03
5863.87 11.2219 3.6396 12.9586 85.03
5914.59 11.2295 3.6450 12.9688 85.03
5965.30 11.2364 3.6498 12.9779 85.03
6016.01 11.2424 3.6540 12.9859 85.03
6066.72 11.2477 3.6577 12.9929 85.03
6117.44 11.2521 3.6608 12.9988 85.03
6168.15 11.2557 3.6633 13.0036 85.03
6218.86 11.2586 3.6653 13.0074 85.03
6269.57 11.2606 3.6667 13.0100 85.03
6320.29 11.2618 3.6675 13.0117 85.03
6371.00 11.2622 3.6678 13.0122 85.03
"""


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


@dataclass(frozen=True)
class Arrival:
    """An arrival of a phase: time, s, and angles, degrees, of the ray from the vertical at source and receiver."""

    phase: str
    time: float
    takeoff_angle: float
    incident_angle: float


def travel_times(
    model: str, source_depth: float, distance: float, phases: Sequence[str] = ("ttbasic",)
) -> list[Arrival]:
    """Return the arrivals at the surface in a spherical Earth, in the order of their times.

    Parameters
    ----------
    model : prem (isotropic, without ocean), ak135 or iasp91.
    source_depth : m.
    distance : epicentral distance, degrees.
    phases : names of TauP, such as P, S, pP, SS, PcP; ttbasic: the usual phases.

    Raises
    ------
    InputError : an unknown model, or a depth or a distance that cannot be.
    MissingPackageError : ObsPy is not installed.
    """
    if model not in NAMES:
        raise InputError("model", f"is {model!r}", f"allowed: {', '.join(NAMES)}")
    if not 0.0 <= source_depth <= 2_891_000.0:
        raise InputError("source_depth", f"is {source_depth:g} m", "allowed: 0 to 2,891,000 m, above the core")
    if not 0.0 <= distance <= 180.0:
        raise InputError("distance", f"is {distance:g} degrees", "allowed: 0 to 180 degrees")
    try:
        from obspy.taup import TauPyModel
    except ImportError:
        raise MissingPackageError("obspy", "the computation of travel times", "formats") from None
    found = TauPyModel(model).get_travel_times(source_depth / 1e3, distance, list(phases))
    return [
        Arrival(one.name, float(one.time), float(one.takeoff_angle), float(one.incident_angle))
        for one in sorted(found, key=lambda one: one.time)
    ]


GRAVITATION = 6.6743e-11  # m^3 / (kg s^2)
ROTATION = 7.292115e-5  # rad/s
POINTS = 4001


def ellipticity(model: RadialModel, radii: np.ndarray) -> np.ndarray:
    """Return the ellipticity, equatorial less polar radius over the mean radius.

    radii : m, in ascending order from 0 to the surface; shells between them have the density at their middle.
    """
    middle = 0.5 * (radii[1:] + radii[:-1])
    rho = model.properties(middle).rho
    mass = 4.0 / 3.0 * np.pi * np.append(0.0, np.cumsum(rho * np.diff(radii**3)))
    inertia = 8.0 / 15.0 * np.pi * np.append(0.0, np.cumsum(rho * np.diff(radii**5)))
    with np.errstate(invalid="ignore", divide="ignore"):
        eta = 6.25 * (1.0 - 1.5 * inertia / (mass * radii**2)) ** 2 - 1.0
    eta[0] = 0.0
    surface = 2.5 * ROTATION**2 * radii[-1] ** 3 / (GRAVITATION * mass[-1]) / (eta[-1] + 2.0)
    slope = 0.5 * (eta[1:] + eta[:-1]) / middle * np.diff(radii)
    return surface * np.exp(-np.append(np.cumsum(slope[::-1])[::-1], 0.0))


@cache
def earth_ellipticity() -> tuple[np.ndarray, np.ndarray]:
    """Return radii, m, and the ellipticity of the Earth there, with the densities of PREM."""
    radii = np.linspace(0.0, RADIUS, POINTS)
    return radii, ellipticity(reference_model("prem", ocean=True), radii)
