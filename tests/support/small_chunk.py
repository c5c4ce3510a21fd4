"""A run in a chunk of the globe of about two seconds."""

from __future__ import annotations

from typing import Any

import lithowave as lw

CENTER, WIDTH, AZIMUTH = (179.0, -18.0), (6.0, 5.0), 25.0
SOURCE = {"longitude": 179.6, "latitude": -18.4, "depth": 60e3}
STATIONS = {"A": (-179.3, -19.0), "B": (178.0, -17.0), "C": (179.2, -16.5)}  # on both sides of the date line


def small_chunk(folder: Any, **changes: Any) -> lw.Simulation:
    """Return the simulation; changes : of its entries."""
    entries: dict[str, Any] = {
        "title": "small chunk",
        "domain": {"chunk": {"center": CENTER, "width": WIDTH, "depth": 200e3, "azimuth": AZIMUTH}},
        "material": {"homogeneous": {"vp": 8000.0, "vs": 4500.0, "rho": 3300.0}},
        "sources": [
            {**SOURCE, "double_couple": {"strike": 30, "dip": 60, "rake": 90, "mw": 7},
             "time_function": {"gaussian": {"sigma": 8.0, "delay": 32.0}}},
        ],
        "receivers": [{"name": name, "longitude": a, "latitude": b} for name, (a, b) in STATIONS.items()],
        "duration": 110.0,
        "solver": {"method": "spectral_element", "max_frequency": 0.05, "points_per_wavelength": 4},
        "compute": {"backend": "cpu", "threads": 1},
        "output": {
            "directory": str(folder), "sampling_interval": 1.0, "quantity": "displacement", "formats": ["sac", "asdf"],
            "peak_motion": True, "progress_interval": 60.0,
            "snapshots": [
                {"interval": 25.0, "plane": {"z": 0.0}},
                {"interval": 50.0, "plane": {"x": 1e5}, "stride": 2},
                {"interval": 50.0, "volume": True, "stride": 4},
            ],
        },
    }  # fmt: skip
    return lw.Simulation(**{**entries, **changes})
