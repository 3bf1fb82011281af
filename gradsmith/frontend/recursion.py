"""Python's recursion limit while gradsmith stages: high for its own frames, the user's for what Python runs."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

from gradsmith.frontend.interrupts import finish
from gradsmith.locking import new_lock

_STAGING_DEPTH = 60_000  # Python frames; staged calls are limited separately

limit = sys.getrecursionlimit()  # the user's, while it is raised
_running: set[object] = set()  # the stagings that have not ended
_lock = new_lock()


@contextmanager
def deep() -> Iterator[None]:
    """Room for staging: one call of the user's takes several frames of the stager's. The last thread lowers it again."""
    global limit
    this = object()
    try:
        with _lock:
            if not _running:
                limit = sys.getrecursionlimit()
                sys.setrecursionlimit(max(limit, _STAGING_DEPTH))
            _running.add(this)
        yield
    finally:
        finish(lambda: _end(this))


def _end(staging: object) -> None:
    with _lock:
        _running.discard(staging)
        if not _running:
            sys.setrecursionlimit(limit)


@contextmanager
def users() -> Iterator[None]:
    """The recursion that the user allows: unlike the stager's own, it may go through compiled code, which needs stack.

    The limit is that of all threads: it is left alone while others stage.
    """
    staging, depth = sys.getrecursionlimit(), 0
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    if len(_running) > 1 or depth + limit >= staging:
        yield
        return
    sys.setrecursionlimit(depth + limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(staging)
