"""What a user sees of an error: the call of gradsmith, then the functions of theirs that it was raised in, as if Python had run them.

Staged and compiled functions have no Python frames of their own. Errors carry where they come from (``errors.add_location``); at
the boundary of the public functions that becomes entries of the traceback, and the frames of gradsmith are left out.
"""

from __future__ import annotations

import dis
import functools
import os
import sysconfig
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import scipy

from gradsmith.errors import CaughtError, GuardFailed, Origin, forget_origin, is_handled, origin
from gradsmith.frontend.catching import EvaluationFailed, TryCarefully
from gradsmith.frontend.flow import DeadPath
from gradsmith.frontend.joins import JoinFailure
from gradsmith.frontend.stage import NeedConcrete
from gradsmith.frontend.values import NotSpecialised
from gradsmith.ir.program import Location

F = TypeVar("F", bound=Callable[..., Any])

#: set to 1, every frame is shown
FULL_TRACEBACK = "GRADSMITH_FULL_TRACEBACK"

#: what no user raises or sees
_INTERNAL = (
    CaughtError,
    GuardFailed,
    EvaluationFailed,
    TryCarefully,
    DeadPath,
    JoinFailure,
    NeedConcrete,
    NotSpecialised,
)
_Entry = tuple[types.FrameType, int, int]  # frame, instruction, line
_RAISE = dis.opmap["RAISE_VARARGS"]
_entries: set[types.CodeType] = set()  # of public functions


def keep(f: Callable[..., Any]) -> None:
    """Let the frame of a public function stay where the user's own code called it."""
    _entries.add(f.__code__)


def shortened(f: F) -> F:
    """A public function that shortens the tracebacks of the errors that it raises."""

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    keep(run)
    return cast(F, run)


def shorten(error: BaseException) -> None:
    """Leave only the user's frames in the traceback of an error, and of those that it was raised from.

    To be called by the function that the user called, in an ``except`` clause that raises the error again.
    """
    if os.environ.get(FULL_TRACEBACK, "0") not in ("", "0"):
        return
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        e = pending.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e.__cause__, _INTERNAL):
            e.__cause__ = None
        if e.__context__ is not None:
            e.__context__ = _of_user(e.__context__)
        pending += [e.__cause__, e.__context__]
        e.__traceback__ = _without_own(e.__traceback__, origin(e), called=e is error)
        forget_origin(e)


def _of_user(error: BaseException | None) -> BaseException | None:
    """The first error of a chain that the user's code handled, rather than gradsmith's."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        trace = error.__traceback__
        if is_handled(error) or (trace is not None and not _is_own(trace.tb_frame.f_code.co_filename)):
            return error
        error = error.__context__
    return None


def _without_own(trace: types.TracebackType | None, where: Origin | None, called: bool) -> types.TracebackType | None:
    """A traceback without frames of gradsmith but the first, if ``called``; with the calls that ``where`` knows."""
    entries = list(_entries_of(trace))
    if where is None and (not any(map(_own_entry, entries)) or _is_defect(entries)):
        return trace
    kept: list[_Entry] = []
    begin = -1 if where is None else max(len(entries) - where.below, int(called))
    shown = False  # whether the frame before is the user's
    for k, t in enumerate(entries):
        if k == begin and where is not None:
            kept += _staged(where.location, kept)
        own, library = _own_entry(t), _is_library(t.tb_frame.f_code)
        if (
            (called and k == 0)
            or (own and shown and t.tb_frame.f_code in _entries)
            or (not own and (shown or not library))
        ):
            kept.append((t.tb_frame, t.tb_lasti, t.tb_lineno))
        shown = not own and (shown or not library)
    if begin >= len(entries) and where is not None:
        kept += _staged(where.location, kept)
    return _linked(kept)


def _is_defect(entries: Sequence[types.TracebackType]) -> bool:
    """Whether an error seems to be none of the user's but of gradsmith, which nobody raised: it is shown as it is."""
    last = entries[-1]
    raised = last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE
    return _own_entry(last) and not raised and all(_own_entry(t) or _is_library(t.tb_frame.f_code) for t in entries)


def _linked(entries: Sequence[_Entry]) -> types.TracebackType | None:
    trace = None
    for frame, instruction, line in reversed(entries):
        trace = types.TracebackType(trace, frame, instruction, line)
    return trace


def _entries_of(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


# ---- frames of staged functions -------------------------------------------------------------------------------------


def _staged(location: Location | None, around: Sequence[_Entry]) -> list[_Entry]:
    """Frames for a place in the user's code and the calls around it, outermost first; without one that is there for real."""
    chain = []
    while location is not None:
        chain.append(location)
        location = location.caller
    frames = [_frame(at) for at in reversed(chain)]
    if frames and around:
        code, first = around[-1][0].f_code, frames[0].f_code
        if (code.co_filename, around[-1][2], code.co_name) == (first.co_filename, first.co_firstlineno, first.co_name):
            del frames[0]
    return [(frame, frame.f_lasti, frame.f_lineno) for frame in frames]


def _frame(at: Location) -> types.FrameType:
    """A frame that has ended, of a function with this name and file, at this line."""
    name = at.function or "<module>"
    code = _CODE.replace(
        co_filename=at.filename,
        co_name=name.rpartition(".")[2],
        co_qualname=name,
        co_firstlineno=at.line,
        co_linetable=_ONE_LINE,
    )
    return types.FunctionType(code, {})().gi_frame  # which, other than the frame of a call, holds on to no caller


def _one_line(code: types.CodeType) -> bytes:
    """A line table that has the first line, and no columns, for all instructions (see CPython's Objects/locations.md)."""
    table, units = b"", len(code.co_code) // 2
    while units:
        length = min(units, 8)
        table += bytes([0x80 | 13 << 3 | (length - 1), 0])
        units -= length
    return table


def _template() -> Iterator[None]:
    yield


_CODE = _template.__code__
_ONE_LINE = _one_line(_CODE)


# ---- whose code is it? ----------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _is_own(filename: str) -> bool:
    return filename.startswith((_PACKAGE, "<gradsmith ")) or f"{os.sep}llvmlite{os.sep}" in filename


def _own_entry(t: types.TracebackType) -> bool:
    return _is_own(t.tb_frame.f_code.co_filename)


def _is_library(code: types.CodeType) -> bool:
    """Whether the code is NumPy's, SciPy's or Python's: where gradsmith calls it, the user did not."""
    name = code.co_filename
    return name.startswith(_LIBRARIES) or (name.startswith(_STANDARD) and not name.startswith(_INSTALLED))


_PACKAGE = os.path.dirname(__file__) + os.sep
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = tuple({sysconfig.get_path(k) + os.sep for k in ("purelib", "platlib")})
_LIBRARIES = ("<frozen ", "<__array_function__", *(m.__path__[0] + os.sep for m in (np, scipy)))
