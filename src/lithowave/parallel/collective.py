"""What several ranks do at once, and of which all must know whether it went well everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lithowave.errors import LithowaveError, OutputError
from lithowave.parallel.ranks import Ranks

Found = TypeVar("Found")


def collective_call(ranks: Ranks, work: Callable[[], Found]) -> Found:
    """What `work()` returns, which hands nothing around; where it fails on some rank, the first of these errors on all.

    Raises
    ------
    LithowaveError : of the first rank that has one.
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
        problem, problems = None, []  # an error refers to this frame


@contextmanager
def collective_section(ranks: Ranks) -> Iterator[None]:
    """All ranks enter, whatever each does inside, and leave when all are done; an error of one is an error of all.

    Inside nothing may be handed around among the ranks: one that fails would leave the others waiting.

    Raises
    ------
    Exception : this rank's own. OutputError : what the first of the others that failed tells.
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
        problem = None  # an error refers to this frame
    for rank, text in enumerate(texts):
        if text is not None:
            raise OutputError(f"rank {rank}: {text}")
