"""The public names of a package: those that its users, other packages and the tests import from it.

A package states them by module in its `__init__`. A module is imported when one of its names is used first, so that
importing a package is fast, and its modules can be divided and merged without changes elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def public_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """Return the functions `__getattr__` and the list `__all__` of a package.

    modules : names, separated by spaces, by module of the package.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, list(homes)
