"""The table of verification results, from the records of the test suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Results = Mapping[str, Mapping[str, Any]]


def number(value: float) -> str:
    """Return two digits, with an exponent for very small and very large values."""
    return (
        f"{value:.2g}"
        if 1e-3 <= abs(value) < 1e3
        else f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")
    )


def percent(value: float) -> str:
    """Return a fraction as a percentage with two digits."""
    return f"{float(f'{100 * value:.2g}'):g}%" if value >= 1e-5 else number(value)


def largest(results: Results, prefix: str, key: str) -> float | None:
    """Return the largest value of an entry over all results with this prefix, or None if there is none."""
    found = [float(entry[key]) for name, entry in results.items() if name.startswith(prefix) and key in entry]
    return max(found) if found else None


# (what is measured, prefix of the records, entry, format, limit that the tests require)
Rows = tuple[tuple[str, str, str, Callable[[float], str], str], ...]
ROWS: Rows = (
    (
        "full space, moment tensor and force off the grid, order 4, 10 points per wavelength: error",
        "full_space_order_4", "relative_l2", percent, "≤ 0.08%",
    ),
    ("the same at order 8: error", "full_space_order_8", "relative_l2", percent, "≤ 0.02%"),
    ("order of convergence observed at order 4", "convergence_order_4", "observed_order", number, "≥ 3.7"),
    (
        "LOH.1 (layer over half-space), order 4, 10 points per wavelength, largest over interface positions: error",
        "loh1_order_4", "relative_l2", percent, "≤ 0.88%",
    ),
    ("the same at order 8: error", "loh1_order_8", "relative_l2", percent, "≤ 0.88%"),
    (
        "LOH.3 (attenuation), to 4 km, one mechanism per node, order 4, 10 points per wavelength: error",
        "loh3_finite_difference", "relative_l2", percent, "≤ 0.9%",
    ),
    (
        "LOH.3, to 4 km, spectral elements of degree 4, 7 points per wavelength: error",
        "loh3_spectral_element", "relative_l2", percent, "≤ 0.9%",
    ),
    (
        "C-PML of ten cells, vp/vs = 4, grazing waves: energy after the waves have left, relative to its peak",
        "absorbing_layers", "energy_left", number, "≤ 2e-11",
    ),
    (
        "the same after 20,000 steps",
        "absorbing_layers", "energy_at_end", number, "no growth in the second half",
    ),
    (
        "seismograms next to the layers compared with those of a much larger box: difference",
        "layers_against_large_box", "relative_l2", percent, "≤ 0.02%",
    ),
    (
        "reciprocity of two forces, also at the surface: difference",
        "reciprocity", "relative_l2", number, "≤ 1e-7",
    ),
    (
        "source moved across a cell in ten increments: change of the error",
        "source_across_a_cell", "change", percent, "≤ 0.004%",
    ),
    (
        "closed box, strong contrast, 400 steps: energy drift",
        "energy_closed_box", "drift", number, "≤ 1e-10",
    ),
    (
        "Rayleigh waves at order 4, 10 points per wavelength: error of the velocity, all vp/vs",
        "rayleigh_speed_order_4", "error", percent, "≤ 0.3%",
    ),
    (
        "memory per grid point at order 4, excluding absorbing layers, bytes",
        "memory", "bytes_per_point_order_4", number, "≤ 56",
    ),
    (
        "spectral elements in a full space, degree 4, 7 points per wavelength: error",
        "full_space_degree_4", "relative_l2", percent, "≤ 0.24%",
    ),
    (
        "moment tensor on a vertex, an edge, a face or inside an element: change of the error",
        "source_across_an_element", "change", percent, "≤ 0.18%",
    ),
    ("strain at receivers, 7 points per wavelength: error", "element_strain", "relative_l2", percent, "≤ 0.9%"),
    (
        "P and S waves through straight, deformed and curved elements, degrees 2 to 5: degree + 1 minus the observed "
        "order",
        "element_order", "below", number, "≤ 0.3",
    ),
    ("P and S waves at degree 8, 2 x 2 x 2 elements: error", "decay_with_the_degree", "at_degree_8", number, "≤ 1e-6"),
    (
        "LOH.1 with spectral elements, degree 4, 7 points per wavelength: error",
        "loh1_degree_4", "relative_l2", percent, "≤ 0.3%",
    ),
    (
        "waves in anisotropic solids (tilted axis; 21 moduli): error of the phase velocities",
        "christoffel", "speed", number, "≤ 1e-4",
    ),
    ("the same: error of the polarizations", "christoffel", "polarization", number, "≤ 1e-4"),
    (
        "seismograms less than a wavelength from Stacey boundaries compared with those of a much larger box: "
        "difference",
        "element_sides_stacey", "all", percent, "—",
    ),
    (
        "the same with the absorbing layer",
        "element_sides_layer", "all", percent, "≤ 1/110 of the above",
    ),
    (
        "spectral elements in a closed box, strong contrast, single precision, 50,000 steps: energy drift",
        "element_energy", "drift", number, "≤ 1e-3",
    ),
    ("the same in double precision, 400 steps", "element_rounding_energy", "drift", number, "≤ 1e-12"),
    (
        "spectral elements, reciprocity of two forces: difference",
        "element_reciprocity", "relative_l2", number, "≤ 1e-12",
    ),
    (
        "spectral elements: estimated limit of the time step below the exact one by",
        "element_time_step", "below", percent, "0 to 5%",
    ),
    (
        "discontinuous Galerkin with the absorbing layer, less than a wavelength from the sides: difference from a "
        "much larger box",
        "tetrahedra_sides_auto", "all", percent, "≤ 0.6%",
    ),
    (
        "the same, grazing waves at vp / vs = 4, 20,000 steps: velocity left, relative to its maximum",
        "tetrahedra_quiet_20000", "at_end", number, "≤ 1.2e-8",
    ),
    (
        "P and S waves through unstructured tetrahedra, orders 2 to 7, four mesh widths: order minus the observed "
        "order",
        "tetrahedra_order", "below", number, "≤ 0.3",
    ),
    (
        "the three waves in a rock with 21 moduli compared with the Christoffel equation, order 5: observed order",
        "tetrahedra_christoffel_5", "order", number, "≥ 4.7",
    ),
    (
        "full space, unstructured tetrahedra of order 5, 6 points per wavelength: error",
        "full_space_order_5", "relative_l2", percent, "≤ 0.22%",
    ),
    (
        "LOH.1 with tetrahedra of order 5: error",
        "loh1_tetrahedra", "relative_l2", percent, "≤ 0.28%",
    ),
    (
        "water over rock, reflected and transmitted waves below the critical angle: error of the coefficients",
        "fluid_solid_steep", "error", percent, "≤ 0.5%",
    ),
    (
        "the same beyond the critical angle of P waves, including phases",
        "fluid_solid_beyond_critical", "error", percent, "≤ 0.5%",
    ),
    ("Scholte wave, 15 points per wavelength: error of the velocity", "scholte_speed", "error", percent, "≤ 0.5%"),
    (
        "spectral elements, water over mud and rock, plane waves in curved elements: largest error",
        "fluid_interface_grazing_triquadratic", "in_solid", percent, "≤ 0.6%",
    ),
    ("the same, Scholte wave: error", "scholte_wave_elements_triquadratic", "in_fluid", percent, "≤ 0.15%"),
    (
        "explosion in water with spectral elements: error",
        "explosion_in_water_elements", "relative_l2", percent, "≤ 0.5%",
    ),
    (
        "force in water with spectral elements: error",
        "force_in_water_elements_ricker", "relative_l2", percent, "≤ 0.45%",
    ),
    (
        "closed box of water and mud, spectral elements, 50,000 steps: energy drift",
        "fluid_energy_triquadratic_50000", "drift", number, "≤ 1e-10",
    ),
    ("sea with the absorbing layer: difference from a much larger box", "sides_of_a_sea", "layer", percent, "≤ 0.5%"),
    (
        "sea, spectral elements and discontinuous Galerkin: difference",
        "sea_elements_and_galerkin", "relative_l2", percent, "≤ 0.4%",
    ),
    (
        "the three methods in a half-space, seismograms at the surface: largest difference between two methods",
        "three_methods", "largest", percent, "≤ 0.85%",
    ),
)  # fmt: skip

# The same, for the section about examples of other programs.
OTHER_PROGRAMS = (
    (
        "closed box, to 0.15 Hz, first minute, spectral elements of degree 4",
        "other_programs_closed_box", "first_minute", percent, "≤ 0.13%",
    ),
    ("the same, 240 s", "other_programs_closed_box", "other_program", percent, "≤ 0.2%"),
    (
        "the same, to 0.07 Hz, first minute, discontinuous Galerkin of order 5",
        "other_programs_low_closed_box_tetrahedra", "other_program", percent, "≤ 0.098%",
    ),
    (
        "explosion in water, to 0.25 Hz, discontinuous Galerkin of order 5",
        "other_programs_water_layer_tetrahedra", "other_program", percent, "≤ 0.21%",
    ),
    (
        "the same, spectral elements of degree 4",
        "other_programs_water_layer_elements", "other_program", percent, "≤ 0.85%",
    ),
    (
        "strong attenuation, to 60 Hz, finite differences, 3 mechanisms",
        "other_programs_viscoelastic_3", "other_program", percent, "≤ 3.05%",
    ),
    (
        "the same, from the closed form of that program",
        "other_programs_viscoelastic_3", "its_closed_form", percent, "≤ 2.85%",
    ),
    ("the same, from constant Q", "other_programs_viscoelastic_3", "constant_q", percent, "≤ 1.75%"),
    (
        "the same with 6 mechanisms, from constant Q",
        "other_programs_viscoelastic_6", "constant_q", percent, "≤ 0.3%",
    ),
)  # fmt: skip


def results_table(results: Results, rows: Rows = ROWS) -> str:
    """Return the table in Markdown, with the rows that have been measured."""
    lines = ["| test | measured | required |", "| --- | --- | --- |"]
    for what, prefix, key, written, limit in rows:
        value = largest(results, prefix, key)
        if value is not None:
            lines.append(f"| {what} | {written(value)} | {limit} |")
    return "\n".join(lines)


def shallow_table(errors: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the errors of `benchmarks/shallow_sources.py`: one row per depth, one column per method and order."""
    titles = [
        f"{name.replace('_', ' ')}, {'degree' if name == 'spectral_element' else 'order'} {order}"
        for name, order in (key.split(":") for key in errors)
    ]
    lines = [["depth, m", *titles], ["---:"] * (len(titles) + 1)]
    for depth in next(iter(errors.values())):
        lines.append([depth, *(percent(found[depth]["error"]) for found in errors.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
