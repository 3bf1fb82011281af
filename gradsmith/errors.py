"""Every error a user can meet. Each says what, where (the user's file and line), why, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gradsmith.ir.program import Location


class GradsmithError(Exception):
    """Base of the errors that gradsmith itself raises."""


class GradsmithWarning(UserWarning):
    """What a user should know although the result is right."""


class NotDifferentiable(GradsmithError, TypeError):
    """An input, an output or an operation that has no derivative, e.g. an integer argument or a non-scalar output."""


class MissingRule(GradsmithError, NotImplementedError):
    """A function that gradsmith has no rule for and cannot enter."""


class UnsupportedCode(GradsmithError, NotImplementedError):
    """A construct of Python that cannot be staged."""


class SourceUnavailable(GradsmithError, OSError):
    """A function whose Python source cannot be read."""


class TapeMismatch(GradsmithError, ValueError):
    """A strict tape was given arguments for which the function would not do what was recorded."""


class GuardFailed(Exception):
    """Internal: a specialisation does not fit this call; the function is staged anew."""


class CaughtError(Exception):
    """Internal: an error that the function handles was raised at run time; the function is staged anew."""


@contextmanager
def located(loc: Location | None) -> Iterator[None]:
    """Add the user's file and line to an exception that passes through."""
    try:
        yield
    except GuardFailed:
        raise
    except Exception as error:
        add_location(error, loc)
        raise


def add_location(error: BaseException, loc: Location | None) -> None:
    """Note the user's file and line on ``error``, once."""
    if loc is None or getattr(error, "__gradsmith_located__", False):
        return
    error.add_note(f"  at {loc}")
    error.__gradsmith_located__ = True  # type: ignore[attr-defined]
