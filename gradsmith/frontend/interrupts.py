"""What must be put back must be put back, even if Ctrl-C comes in the middle."""

from __future__ import annotations

from collections.abc import Callable


def finish(action: Callable[[], None]) -> None:
    """Run ``action``, which may be begun anew, to its end. An interrupt that comes meanwhile is raised afterwards."""
    interrupt: BaseException | None = None
    while True:
        try:
            action()
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
