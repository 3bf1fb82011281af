"""Every error a user can meet. Each says what, where (the user's file and line), why, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the user's code an error was raised."""

    location: Location | None  # in staged or compiled code, with the calls around it
    below: int  # how many entries its traceback had then: those of what this place called
    note: str


def add_location(error: BaseException, loc: Location | None) -> None:
    """Note the user's file and line on ``error``, once."""
    if loc is not None:
        _add_origin(error, loc, loc)


def add_run(error: BaseException, loc: Location | None, staged: Location | None) -> None:
    """As :func:`add_location`, for an error that passed frames of functions that Python ran, called by staged code at ``staged``."""
    if loc is not None:
        _add_origin(error, loc, staged)


def _add_origin(error: BaseException, loc: Location, staged: Location | None) -> None:
    if origin(error) is not None:
        return
    below, trace = 0, error.__traceback__
    while trace is not None:
        below, trace = below + 1, trace.tb_next
    note = f"  at {loc}"
    error.add_note(note)
    error.__gradsmith_origin__ = Origin(staged, below, note)  # type: ignore[attr-defined]


def call_around(error: BaseException, caller: Location | None) -> None:
    """Note where the function was called whose code is refused as a whole."""
    found = origin(error)
    if found is not None and found.location is not None and found.location.caller is None:
        location = replace(found.location, caller=caller)
        error.__gradsmith_origin__ = replace(found, location=location)  # type: ignore[attr-defined]


def origin(error: BaseException) -> Origin | None:
    """Where in the user's code an error was raised, if that is known."""
    return getattr(error, "__gradsmith_origin__", None)


def handled(error: BaseException, loc: Location | None) -> None:
    """Note that the user's code handles an error, raised at ``loc`` at the latest: it is the context of what it raises then."""
    add_location(error, loc)
    error.__gradsmith_handled__ = True  # type: ignore[attr-defined]


def is_handled(error: BaseException) -> bool:
    """Whether the user's code handled an error."""
    return hasattr(error, "__gradsmith_handled__")


def forget_origin(error: BaseException) -> None:
    """Take away what was noted on an error: its traceback says it."""
    found = origin(error)
    if found is not None:
        error.__notes__ = [note for note in error.__notes__ if note is not found.note]
        if not error.__notes__:
            del error.__notes__
        del error.__gradsmith_origin__  # type: ignore[attr-defined]
    if is_handled(error):
        del error.__gradsmith_handled__  # type: ignore[attr-defined]
