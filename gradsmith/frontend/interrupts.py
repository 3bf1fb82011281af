"""What must be put back must be put back, even if Ctrl-C comes in the middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def with_end(run: Callable[[], _T], end: Callable[[], None]) -> _T:
    """``run()``, and then ``end()``, which may be begun anew, to its end: an interrupt that comes meanwhile is raised afterwards.

    Unlike a ``with`` statement, which an interrupt may leave between what begins and the block, or before what ends is called.
    """
    interrupt: BaseException | None = None
    try:
        return run()
    finally:
        while True:
            try:
                end()
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
