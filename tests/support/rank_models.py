"""Descriptions of runs whose subdomains meet at sources and receivers, for tests of several ranks."""

from __future__ import annotations

from typing import Any

FD, SE, DG = "finite_difference", "spectral_element", "discontinuous_galerkin"

# The cut of two and of four ranks goes through the first source and receiver A; B stands near a corner.
BASIN: dict[str, Any] = {
    "domain": {"x": [0, 2400], "y": [0, 1800], "z": [-1500, 0]},
    "boundaries": {"layer": {"cells": 8}},
    "material": {
        "layers": [
            {"top": 0, "vp": 2500, "vs": 1400, "rho": 2200},
            {"top": -450, "vp": 4000, "vs": 2300, "rho": 2500},
        ]
    },
    "sources": [
        {"position": [1210, 910, -620], "moment_tensor": {"xy": 1e15, "zz": 2e14},
         "time_function": {"gaussian": {"sigma": 0.1, "delay": 0.3}}},
        {"position": [700, 930, -60], "force": [1e10, 0, 2e10],
         "time_function": {"gaussian": {"sigma": 0.1, "delay": 0.3}}},
    ],
    "receivers": [
        {"name": "A", "position": [1200, 900, 0]},
        {"name": "B", "position": [1185, 622, 0]},
        {"name": "C", "position": [2300, 1790, -700]},
    ],
    "duration": 0.9,
    "solver": {"method": "finite_difference", "order": 4, "spacing": 60},
    "compute": {"backend": "cpu"},
    "output": {
        "snapshots": [
            {"interval": 0.3, "plane": {"z": 0}}, {"interval": 0.4, "plane": {"y": 913.0}, "fields": ["stress"]}
        ],
        "peak_motion": True, "stress": True, "quantity": "displacement",
    },
}  # fmt: skip

SOFT, ROCK = {"vp": 2400, "vs": 1200, "rho": 2000}, {"vp": 5000, "vs": 2900, "rho": 2600}
PULSE = {"gaussian": {"sigma": 0.06, "delay": 0.2}}
# Elements become twice as wide below 300 m. Two cuts meet at the middle, where there are sources and receivers; others
# are on a cut, and inside: a source in an element that has no point on a cut acts at another time of the step.
ELEMENTS: dict[str, Any] = {
    "domain": {"x": [-1200, 1200], "y": [-1200, 1200], "z": [-1600, 0]},
    "material": {"layers": [{"top": 0, **SOFT}, {"top": -300, **ROCK}]},
    "sources": [
        {"position": [0, 0, -310], "double_couple": {"strike": 30, "dip": 60, "rake": 90, "mw": 4},
         "time_function": PULSE},
        {"position": [150, 0, -450], "force": [1e9, 2e9, 0], "time_function": PULSE},
        {"position": [-630, 610, -120], "moment_tensor": {"xy": 1e13, "zz": 2e13}, "time_function": PULSE},
    ],
    "receivers": [
        {"name": "MID", "position": [0, 0, 0]}, {"name": "CUT", "position": [0, 130, 0]},
        {"name": "IN", "position": [330, 250, 0]}, {"name": "LOW", "position": [0, 0, -150]},
    ],
    "duration": 0.5,
    "solver": {"method": "spectral_element", "max_frequency": 5.0, "degree": 3},
    "compute": {"backend": "cpu", "precision": "double"},
    "boundaries": {"absorption": "stacey"},
    "output": {
        "sampling_interval": 0.02, "stress": True, "peak_motion": True,
        "snapshots": [
            {"interval": 0.1, "plane": {"z": 0}},
            {"interval": 0.25, "volume": True, "stride": 2, "fields": ["stress", "pressure"]},
        ],
    },
}  # fmt: skip
# At degree 3, memory variables are at some points of the elements of the upper medium, and at all points of the others.
LOSSY: dict[str, Any] = {
    "material": {"layers": [{"top": 0, **SOFT, "qp": 60, "qs": 30}, {"top": -300, **ROCK, "qp": 16, "qs": 8}]},
    "output__stress": False, "output__snapshots": [{"interval": 0.1, "plane": {"z": 0}}],
}  # fmt: skip

GAUSSIAN = {"gaussian": {"sigma": 0.05, "delay": 0.1}}
# Water over two rocks, in five clusters. Sources and receivers in the middle, where ranks meet, whatever their number.
WATER: dict[str, Any] = {
    "domain": {"x": [-600, 600], "y": [-600, 600], "z": [-1200, 0]},
    "boundaries": {"top": "free", "sides": "absorbing", "bottom": "absorbing"},
    "material": {
        "layers": [
            {"top": 0, "vp": 1500, "vs": 0, "rho": 1000},
            {"top": -300, "vp": 3000, "vs": 1500, "rho": 2000},
            {"top": -700, "vp": 5000, "vs": 3050, "rho": 2600},
        ]
    },
    "sources": [
        {"position": [0, 0, -500], "moment_tensor": {"xx": 1e13, "yy": 1e13, "zz": 2e13, "xz": 4e12},
         "time_function": GAUSSIAN},
        {"position": [30, -20, -810], "force": [1e10, 0, 1e10], "time_function": GAUSSIAN},
        {"position": [-200, 170, -100], "moment_tensor": {"xx": 1e13, "yy": 1e13, "zz": 1e13},
         "time_function": GAUSSIAN},
    ],
    "receivers": [
        {"name": "A", "position": [0, 0, -450]}, {"name": "B", "position": [0, 0, 0]},
        {"name": "C", "position": [-510, 333, -280]}, {"name": "D", "position": [0, 350, -900]},
    ],
    "duration": 0.2,
    "solver": {"method": "discontinuous_galerkin", "max_frequency": 2.7, "order": 3, "local_time_steps": True,
               "points_per_wavelength": 8},
    "compute": {"backend": "cpu", "precision": "double"},
    "output": {
        "sampling_interval": 0.02, "checkpoint": None, "peak_motion": True, "stress": True,
        "snapshots": [{"interval": 0.1, "plane": {"z": -100}}, {"interval": 0.2, "volume": True, "stride": 2}],
    },
}  # fmt: skip
ANISOTROPIC = {
    "layers": [
        {"top": 0, "vp": 3000, "vs": 1500, "rho": 2000},
        {"top": -500, "vp": 3000, "vs": 1500, "rho": 2000,
         "anisotropy": {"epsilon": 0.2, "delta": 0.1, "gamma": 0.1}},
    ]
}  # fmt: skip
# One source next to a side, whose waves are in the absorbing layer after a few steps.
LAYERED_ANISOTROPIC = {
    "material": ANISOTROPIC, "solver__order": 2, "solver__points_per_wavelength": 10,
    "sources": [
        *WATER["sources"],
        {"position": [-590, 20, -650], "force": [1e10, 0, 1e10], "time_function": GAUSSIAN},
    ],
}  # fmt: skip
ATTENUATING = {
    "material": {
        "layers": [
            {"top": 0, "vp": 1500, "vs": 0, "rho": 1000},
            {"top": -300, "vp": 3000, "vs": 1500, "rho": 2000, "qp": 40, "qs": 20},
            {"top": -700, "vp": 5000, "vs": 2900, "rho": 2600, "qp": 200, "qs": 100},
        ]
    },
    "boundaries__absorption": "stacey",
}  # fmt: skip
