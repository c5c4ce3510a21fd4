"""Shared by all tests: no display, and GPU tests that never pass without a GPU."""

from __future__ import annotations

import functools
import os
import sys

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
# A run may request up to four threads, also where there are fewer cores.
os.environ.setdefault("NUMBA_NUM_THREADS", str(max(4, os.cpu_count() or 1)))
# Tests start hundreds of processes; each would compile all modules again if the bytecode were not stored.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests of half a minute each whose like is tested by others here, or on a device: run with ./test --all.
LONG = (
    "test_cuda_runs.py::test_a_run_agrees_with_that_on_the_cpu[emulated-order 6-single]",
    "test_cuda_runs.py::test_a_run_agrees_with_that_on_the_cpu[emulated-rigid sides-single]",
    "test_chino_hills.py::test_short_form_against_the_stored_seismograms[double]",
    "test_spectral_element_devices.py::test_deterministic_runs_and_restarts_give_the_same_bits[emulated]",
    "test_spectral_element_devices.py::test_a_run_agrees_with_that_on_the_cpu[emulated-two kinds of elements-single]",
    "test_finite_difference.py::test_sources_just_below_the_surface[60.0]",
    "test_spectral_element_anisotropy.py::test_speeds_and_polarizations[tilted axis]",
    "test_cuda_twins.py::test_updates[ring-interior-6-double-emulated]",
    "test_discontinuous_galerkin_convergence.py::test_order_of_convergence[5-cpu]",
    "test_spectral_element_laws.py::test_energy_over_many_steps[free-50000]",
    "test_spectral_element_laws.py::test_energy_over_many_steps[rigid-50000]",
    "test_spectral_element_convergence.py::test_order_in_the_element_size[3-triquadratic]",
    "test_spectral_element_convergence.py::test_order_in_the_element_size[4-trilinear]",
    "test_spectral_element_convergence.py::test_order_in_the_element_size[5-affine]",
    "test_spectral_element_convergence.py::test_order_in_the_element_size[5-triquadratic]",
    "test_spectral_element_twins.py::test_steps_of_every_degree[6-single-emulated]",
    "test_spectral_element_twins.py::test_steps_of_every_degree[8-single-emulated]",
    "test_spectral_element_twins.py::test_steps_of_every_kind"
    "[Kind(map='affine', anisotropic=True, varying=False)-emulated]",
    "test_verification_spectral_element.py::test_random_sources_against_the_closed_form[2]",
    "test_verification_spectral_element.py::test_random_sources_against_the_closed_form[3]",
    "test_cuda_twins.py::test_updates[ring-surface-6-double-emulated]",
    "test_spectral_element_ranks.py::test_runs_on_ranks_give_the_results_of_one[layer]",
    "test_spectral_element_ranks.py::test_runs_on_ranks_give_the_results_of_one[rigid]",
    "test_spectral_element_ranks.py::test_a_restart_on_another_number_of_ranks[1-4]",
    "test_spectral_element_ranks.py::test_a_restart_on_another_number_of_ranks[2-1]",
    "test_finite_difference_ranks.py::test_a_restart_on_another_number_of_ranks[3-1]",
    "test_finite_difference_ranks.py::test_other_orders_in_double_precision[2]",
    "test_spectral_element_ranks.py::test_runs_on_ranks_give_the_results_of_one[stacey]",
    "test_spectral_element_ranks.py::test_a_restart_on_another_number_of_ranks[3-2]",
    "test_verification_layers.py::test_absorbing_layers_leave_nothing_and_do_not_grow",
    "test_spectral_element_convergence.py::test_decay_with_the_degree",
    "test_finite_difference.py::test_sources_just_below_the_surface[10.0]",
    "test_shallow_sources.py::test_explosions[discontinuous_galerkin:5-150.0-0.012]",
    "test_shallow_sources.py::test_explosions[spectral_element:4-150.0-0.1]",
    "test_shallow_sources.py::test_explosions[finite_difference:6-400.0-0.022]",
    "test_topography_example.py::test_the_mountain",
    "test_finite_difference_ranks.py::test_other_orders_in_double_precision[8]",
    "test_discontinuous_galerkin_ranks.py::test_anisotropic_rock",
    "test_spectral_element_anisotropy.py::test_speeds_and_polarizations[21 moduli]",
    "test_spectral_element_anisotropy.py::test_isotropic_moduli_as_anisotropic_ones[affine]",
    "test_cuda_twins.py::test_updates[ring-rigid-6-double-emulated]",
    "test_cuda_twins.py::test_updates[ring-surface-6-single-emulated]",
    "test_cuda_twins.py::test_updates[ring-interior-2-double-emulated]",
    "test_cuda_runs.py::test_a_run_agrees_with_that_on_the_cpu[emulated-everything-double]",
    "test_spectral_element_convergence.py::test_order_in_the_element_size[5-trilinear]",
    "test_spectral_element_convergence.py::test_order_in_the_element_size[4-affine]",
    "test_spectral_element_convergence.py::test_order_in_the_element_size[3-trilinear]",
    "test_spectral_element_twins.py::test_steps_of_every_degree[7-double-emulated]",
)


@functools.cache
def missing_gpu() -> str:
    """Why no CUDA device can be used here; empty where one can."""
    try:
        import cupy
    except ImportError as error:
        return f"CuPy is not there ({error})"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy's own error classes need a working driver to be told apart
        return f"no CUDA device ({error})"
    return "" if count > 0 else "no CUDA device"


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled CUDA emulations in pytest's cache, which all processes of the tests share."""
    if config.pluginmanager.has_plugin("cacheprovider"):
        os.environ.setdefault("LITHOWAVE_EMULATION_CACHE", str(config.cache.mkdir("emulation")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, so that no worker is left with one of them at the end."""
    items.sort(key=lambda item: item.path.name != "test_processors.py")


def pytest_runtest_setup(item: pytest.Item) -> None:
    everything = any(os.environ.get(f"LITHOWAVE_{name}") == "1" for name in ("ALL_TESTS", "WRITE_FIGURES"))
    if item.nodeid.endswith(LONG) and not everything:
        pytest.skip("takes half a minute: with ./test --all")
    if item.get_closest_marker("gpu") is None:
        return
    reason = missing_gpu()
    if not reason:
        return
    if os.environ.get("LITHOWAVE_REQUIRE_GPU") == "1":
        pytest.fail(f"LITHOWAVE_REQUIRE_GPU=1, but {reason}", pytrace=False)
    pytest.skip(reason)
