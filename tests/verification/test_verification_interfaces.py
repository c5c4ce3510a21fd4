"""Water over rock: reflected and transmitted plane waves, before and beyond the critical angles; the Scholte wave."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from exact_solutions.fluid_solid import Medium, PartialWave, interface_coefficients, partial_wave
from exact_solutions.interface_waves import scholte_speed, scholte_wave
from jittered_boxes import jittered, periodic_box
from lithowave.mesh import TetrahedralMesh
from lithowave.solvers.discontinuous_galerkin import DiscontinuousGalerkinSolver, ElementMaterials
from tetrahedral_waves import begin, energy_product, make_solver, run, transforms
from verification_tools import record

ORDER = 5
WATER, MUD = Medium(1500.0, 0.0, 1000.0), Medium(1900.0, 900.0, 1800.0)



def two_layers(counts: tuple[int, int, int], size: float, below: int) -> TetrahedralMesh:
    """A periodic, unstructured box of cubes of a size, m: those `below` are of material 1. Faces lie in between."""
    lengths = tuple(size * count for count in counts)
    mesh = periodic_box(counts, lengths, cut="six")
    middles = mesh.element_vertices(slice(None)).mean(axis=1)[:, 2]
    return jittered(replace(mesh, materials=(middles < below * size).astype(np.int64)), 0.15, 5).local()


def filled(mesh: TetrahedralMesh, media: tuple[Medium, Medium]) -> ElementMaterials:
    numbers = np.array([[medium.vp, medium.vs, medium.rho] for medium in media])[mesh.materials]
    return ElementMaterials.isotropic(*numbers.T)


# ------------------------------------------------------------------------------------- reflection and transmission

SIZE = 900.0  # m; five points to the edge of a cube


@dataclass(frozen=True)
class Case:
    """A packet of waves of one wavelength along the interface.

    rock. angles : of incidence, degrees, around that of the packet. wavelength : along the interface. water, below :
    heights of the layers. spread : standard deviation of the packet. start, stop : its height above the interface
    before and after. All heights and lengths in cubes.
    """

    rock: Medium
    angles: tuple[float, float, float]
    wavelength: int
    water: int
    below: int
    spread: float
    start: float
    stop: float

    @property
    def across(self) -> float:
        """Wavenumber along the interface, 1/m."""
        return 2.0 * np.pi / (self.wavelength * SIZE)

    @property
    def vertical(self) -> float:
        """Speed of the packet along z, m/s."""
        return WATER.vp * np.cos(np.radians(self.angles[1]))

    @property
    def duration(self) -> float:
        """From start to stop, s."""
        return (self.start + self.stop) * SIZE / self.vertical

    def frequencies(self) -> dict[float, float]:
        """Angular frequency of each angle, rad/s."""
        return {angle: self.across * WATER.vp / np.sin(np.radians(angle)) for angle in self.angles}

    def wave(self, name: str, frequency: float) -> PartialWave:
        """A wave of unit amplitude: "incident" or one of `fluid_solid.WAVES`."""
        incident = name == "incident"
        place = "upper P" if incident else name
        return partial_wave(self.across / frequency, place, WATER, self.rock, outgoing=not incident)


CASES = {
    "steep": Case(Medium(2000.0, 1150.0, 2000.0), (28.0, 30.0, 32.0), 4, 15, 18, 1.63, 7.0, 7.5),
    "beyond critical": Case(Medium(5000.0, 1200.0, 2400.0), (43.0, 45.0, 47.0), 3, 28, 27, 2.4, 10.5, 14.0),
}


def packet(vertical: float, spread: float, height: float) -> tuple[np.ndarray, ...]:
    """Wavenumbers along z, 1/m, and weights of a packet around one of them: a Gaussian of standard deviation `spread`,
    m, around a height, m."""
    deviation = 1.0 / spread
    numbers = vertical + np.linspace(-5.0, 5.0, 81) * deviation
    weights = np.exp(-0.5 * ((numbers - vertical) / deviation) ** 2 - 1j * numbers * height)
    return numbers, weights / np.abs(weights).sum()


def solver_with_packet(case: Case, backend: str) -> DiscontinuousGalerkinSolver:
    """A packet on its way down through the water, not yet at the interface."""
    mesh = two_layers((case.wavelength, 3, case.water + case.below), SIZE, case.below)
    middle = case.across / np.tan(np.radians(case.angles[1]))
    numbers, weights = packet(-middle, case.spread * SIZE, (case.below + case.start) * SIZE)
    waves = [case.wave("incident", WATER.vp * np.hypot(case.across, number)) for number in numbers]
    solver = make_solver(mesh, filled(mesh, (WATER, case.rock)), ORDER, case.duration, "single", backend=backend)

    def field(points: np.ndarray, elements: np.ndarray) -> np.ndarray:
        found = np.zeros((*points.shape[:-1], 9))
        inside = mesh.materials[elements] == 0
        x, z = points[inside][..., 0], points[inside][..., 2]
        total = sum(
            (weight * np.exp(1j * number * z))[..., None] * wave.pattern()
            for number, weight, wave in zip(numbers, weights, waves, strict=True)
        )
        found[inside] = (np.exp(1j * case.across * x)[..., None] * total).real
        return found

    begin(solver, field)
    return solver


def amplitude(solver: DiscontinuousGalerkinSolver, case: Case, name: str, frequency: float) -> complex:
    """Velocity of one wave of a frequency at the interface at time 0, if the present state is that after the run (of
    the incident wave: before it), in any unit.

    A transform over z is one over frequencies times the vertical part of the group velocity, c^2 q.
    """
    wave = case.wave(name, frequency)
    elements = np.flatnonzero(solver.plan.mesh.materials == (0 if wave.medium.fluid else 1))
    [found] = transforms(solver, frequency * wave.slowness[None].real, elements)
    pattern = wave.pattern()
    speed = wave.medium.vs if "SV" in name else wave.medium.vp
    found = energy_product(wave.medium, pattern, found) / energy_product(wave.medium, pattern, pattern)
    time = 0.0 if name == "incident" else case.duration
    delay = time + case.below * SIZE * wave.slowness[2].real
    return found / (speed**2 * abs(wave.slowness[2].real)) * np.exp(1j * frequency * delay)


@pytest.mark.parametrize(
    ("name", "backend"),
    [pytest.param(name, "cpu", marks=pytest.mark.slow) for name in CASES]
    + [pytest.param(name, "cuda", marks=pytest.mark.gpu) for name in CASES],
)
def test_reflection_and_transmission_over_the_angle(name: str, backend: str) -> None:
    """Each frequency of a packet has its own angle of incidence.

    Beyond the critical angle P waves in the rock do not travel: the others are measured, with their phases.
    """
    case = CASES[name]
    solver = solver_with_packet(case, backend)
    frequencies = case.frequencies()
    incident = {angle: amplitude(solver, case, "incident", frequency) for angle, frequency in frequencies.items()}
    run(solver)
    rows = []
    for angle, frequency in frequencies.items():
        for wave, exact in interface_coefficients(case.across / frequency, WATER, case.rock).items():
            if np.all(case.wave(wave, frequency).slowness.imag == 0.0):
                rows.append((angle, wave, amplitude(solver, case, wave, frequency) / incident[angle], exact))
    error = max(abs(found - exact) for _, _, found, exact in rows)
    table = [[angle, wave, abs(found), abs(exact)] for angle, wave, found, exact in rows]
    record(f"fluid_solid_{name.replace(' ', '_')}", error=float(error), angle_wave_found_exact=table)
    assert len(rows) == (9 if name == "steep" else 6)
    assert error <= 0.005


# ------------------------------------------------------------------------------------------------ the Scholte wave


def test_speed_of_the_scholte_wave() -> None:
    """Along a sea floor, three cubes in the wavelength, for two periods."""
    counts, rock, size = (3, 3, 15), 9, 100.0
    mesh = two_layers(counts, size, rock)
    length, level = counts[0] * size, rock * size
    wave = scholte_wave(WATER, MUD, length)
    speed = scholte_speed(WATER, MUD)
    periods = 2
    duration = periods * length / speed
    solver = make_solver(mesh, filled(mesh, (WATER, MUD)), ORDER, duration, "single")
    above = mesh.materials == 0

    def field(points: np.ndarray, elements: np.ndarray) -> np.ndarray:
        upper = np.broadcast_to(above[elements][:, None], points.shape[:-1])
        return wave.values(points - [0.0, 0.0, level], 0.0, upper)

    begin(solver, field)
    wavevector = np.array([[2.0 * np.pi / length, 0.0, 0.0]])
    before = [transforms(solver, wavevector, np.flatnonzero(side))[0] for side in (above, ~above)]
    run(solver)
    after = [transforms(solver, wavevector, np.flatnonzero(side))[0] for side in (above, ~above)]
    media = (WATER, MUD)
    ratio = sum(energy_product(m, a, b) for m, a, b in zip(media, before, after, strict=True)) / sum(
        energy_product(m, a, a) for m, a in zip(media, before, strict=True)
    )
    error = -float(np.angle(ratio)) / (2.0 * np.pi * periods)
    record("scholte_speed", error=abs(error), exact=speed, amplitude=abs(ratio))
    assert abs(error) <= 0.005
    assert abs(abs(ratio) - 1.0) <= 0.005
