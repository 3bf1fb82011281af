"""Python's recursion limit while gradsmith stages: high for its own frames, the user's for what Python runs."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

from gradsmith.frontend.interrupts import with_end
from gradsmith.locking import new_lock

_T = TypeVar("_T")
_STAGING_DEPTH = 60_000  # Python frames; staged calls are limited separately

limit = sys.getrecursionlimit()  # the user's, while it is raised
_running: set[object] = set()  # the stagings that have not ended
_lock = new_lock()


def deep(run: Callable[[], _T]) -> _T:
    """``run()`` with room for staging: one call of the user's takes several frames of the stager's. The last thread lowers the
    limit again."""
    this = object()

    def staging() -> _T:
        _begin(this)
        return run()

    return with_end(staging, lambda: _end(this))


def _begin(staging: object) -> None:
    global limit
    with _lock:
        if not _running:
            limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(limit, _STAGING_DEPTH))
        _running.add(staging)


def _end(staging: object) -> None:
    with _lock:
        _running.discard(staging)
        if not _running:
            sys.setrecursionlimit(limit)


def users(f: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """``f(*args, **kwargs)`` with the recursion that the user allows: unlike the stager's own, it may go through compiled code,
    which needs stack.

    The limit is that of all threads: it is left alone while others stage.
    """
    staging, depth = sys.getrecursionlimit(), 0
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    if len(_running) > 1 or depth + limit >= staging:
        return f(*args, **kwargs)

    def run() -> _T:
        sys.setrecursionlimit(depth + limit)
        return f(*args, **kwargs)

    return with_end(run, lambda: sys.setrecursionlimit(staging))
