"""Parameters of tests of which the default run takes only some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_except(usual: Iterable[Any], every: Iterable[Any]) -> list[Any]:
    """Return all values, or tuples of values, as parameters of a test; those that are not usual are marked slow."""
    usual = list(usual)
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=() if one in usual else pytest.mark.slow)
        for one in every
    ]
