"""Calls of methods that do not keep their object alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any


def weak_call(method: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """Return a function that calls a bound method with these arguments and does not keep the object of it alive.

    An object that stores such a function of its own is freed with its last reference, without a garbage collection.
    """
    assert isinstance(method, MethodType)
    reference = weakref.WeakMethod(method)
    return lambda: reference()(*arguments)
