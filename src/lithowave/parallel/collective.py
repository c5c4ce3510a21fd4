"""Sections that all ranks execute together, in which an error on one rank is raised on all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lithowave.errors import LithowaveError, OutputError
from lithowave.parallel.ranks import Ranks

Outcome = TypeVar("Outcome")


def collective_call(ranks: Ranks, work: Callable[[], Outcome]) -> Outcome:
    """Return `work()`, which must not communicate; if it fails on some ranks, raise the first of these errors on all.

    Raises
    ------
    LithowaveError : the error of the lowest failed rank.
    """
    found, problem = None, None
    try:
        found = work()
    except LithowaveError as error:
        problem = error
    try:
        problems = [one for one in ranks.all_gather(problem) if one is not None]
        if problems:
            raise problems[0]
        return found  # type: ignore[return-value]
    finally:
        problem, problems = None, []  # the traceback of an error refers to this frame


@contextmanager
def collective_section(ranks: Ranks) -> Iterator[None]:
    """Execute the block on all ranks, and leave it when all ranks are done; an error on one rank is an error on all.

    The block must not communicate: a rank that fails would leave the other ranks waiting.

    Raises
    ------
    Exception : the error of this rank. OutputError : else the text of the lowest failed rank.
    """
    problem: Exception | None = None
    try:
        yield
    except Exception as error:
        problem = error
    texts = ranks.all_gather(None if problem is None else str(problem) or type(problem).__name__)
    try:
        if problem is not None:
            raise problem
    finally:
        problem = None  # the traceback of an error refers to this frame
    for rank, text in enumerate(texts):
        if text is not None:
            raise OutputError(f"rank {rank}: {text}")
