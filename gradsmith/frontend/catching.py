"""Exceptions as control flow: which way a ``try`` of the user's goes is specialised on.

A function is staged as if nothing that a ``try`` handles were raised. Should it be raised when the Program runs, the
call is staged anew, *carefully*: whatever may raise inside the ``try`` is computed for the arguments of the call, and
what raises does so while staging, with a guard that it does. What raises inside a branch or loop makes the stager
specialise the branch, or unroll the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradsmith.backends import host, hosted
from gradsmith.errors import CaughtError, UnsupportedCode
from gradsmith.frontend.values import Scalar
from gradsmith.ir import builder as ir
from gradsmith.ir import interpreter
from gradsmith.ir.ops import ELEMENTWISE, consumed_axes
from gradsmith.ir.program import Block, Location, Op, Value, free_values
from gradsmith.ir.types import BOOL, ArrayType

if TYPE_CHECKING:
    from gradsmith.frontend.stage import Stage


class Catch:
    """A ``try`` whose body is being staged: the exceptions that it handles, and how many regions are around it."""

    def __init__(self, kinds: tuple[type[BaseException], ...], depth: int):
        self.kinds = kinds
        self.depth = depth


class TryCarefully(Exception):
    """What a ``try`` handles was raised for the arguments of this call: the function must be staged carefully."""


class EvaluationFailed(Exception):
    """An operation raises an error for the arguments of this call that no ``try`` around the operation handles."""

    def __init__(self, error: Exception):
        self.error = error


class Builder(ir.Builder):
    """Emits a check before what may raise something that a ``try`` around it handles."""

    def __init__(self, stage: Stage):
        super().__init__(Block())
        self.stage = stage
        self._placed: tuple[Location | None, Location | None, Location | None] = (None, None, None)

    @property
    def place(self) -> Location | None:
        loc, frames = self.loc, self.stage.frames
        around = frames[-1].called_at if frames else None
        if loc is None or around is None or loc.caller is not None:
            return loc
        if self._placed[0] is not loc or self._placed[1] is not around:
            self._placed = loc, around, replace(loc, caller=around)
        return self._placed[2]

    def emit(self, name: str, args: Sequence[Value], name_hint: str = "", **attrs: Any) -> Any:
        if not self.stage.catching:
            return super().emit(name, args, name_hint, **attrs)
        error, check = _CHECKS.get(name, (None, None))
        if error is not None and check is not None and handler(self.stage, error) is not None:
            before = len(self.block.ops)
            check(self.stage, args, attrs)
            if error is ValueError and len(self.block.ops) > before:  # simplification has checks of shapes, too
                self.stage.caught.add(error)
        result = super().emit(name, args, name_hint, **attrs)
        if name == "host" and (catcher := _handler_of_host(self.stage)) is not None:
            _try_host(self.stage, self.block.ops[-1], catcher)
        return result


def handler(stage: Stage, kind: type[BaseException]) -> Catch | None:
    """The innermost ``try`` that handles exceptions of class ``kind``."""
    return next((c for c in reversed(stage.catching) if issubclass(kind, c.kinds)), None)


def check(
    stage: Stage, catch: Catch, condition: Value, error: type[Exception], message: str, args: Sequence[Value]
) -> None:
    """A check inside a ``try`` that handles its error."""
    if stage.careful and catch.depth == stage.depth and not stage.peek(condition):
        stage.builder.emit("guard", [ir.not_(condition)])
        stage.guarding = stage.builder.block
        raise guarded(error(message.format(*map(stage.peek, args))))
    stage.caught.add(CaughtError)
    stage.builder.emit("check", [condition], error=CaughtError, message=error.__name__)


def guarded(error: Exception) -> Exception:
    """An error for which a guard stands: a recording holds only for calls that raise it too."""
    error.__gradsmith_guarded__ = True  # type: ignore[attr-defined]
    return error


def settle(stage: Stage, first: int) -> None:
    """Raise JoinFailure if an operation emitted since the ``first`` raises something that is handled around it."""
    if not (stage.careful and any(c.depth == stage.depth for c in stage.catching)):
        return
    from gradsmith.frontend.flow import errors_of
    from gradsmith.frontend.joins import JoinFailure

    for op in stage.builder.block.ops[first:]:
        kinds = tuple(e for e in errors_of(op) if e is CaughtError or handler(stage, e) is not None)
        if not kinds or not (op.regions or op.name == "check"):
            continue
        for value in (*op.args, *(f for r in op.regions for f in free_values(r))):
            stage.peek(value)
        try:
            interpreter.run_op(op, dict(stage.known))
        except kinds:
            raise JoinFailure("an exception under a run-time condition that the function handles") from None


def guarded_peek(stage: Stage, op: Op, run: Callable[[Op], None]) -> None:
    """Run an operation that was emitted before; an error is not one of the ``try`` around the present place."""
    try:
        run(op)
    except Exception as error:
        if not stage.careful and (stage.catching or stage.caught):
            raise TryCarefully from error
        if not stage.catching:
            raise
        raise EvaluationFailed(error) from error


def check_guarded(stage: Stage) -> None:
    """An error is about to be handled: the guard that it is raised must stand in the present block."""
    guarding, stage.guarding = stage.guarding, None
    if guarding is not None and guarding is not stage.builder.block:
        raise UnsupportedCode("an error that is raised inside a derivative and handled outside of it")


def carry_guard(stage: Stage, block: Block, args: Sequence[Value]) -> None:
    """An error leaves a block of its own, which is given up: what guards it goes to the block around."""
    if stage.guarding is block:
        stage.builder.inline(block, args)
        stage.guarding = stage.builder.block


# ---- host functions -------------------------------------------------------------------------------------------------


def _handler_of_host(stage: Stage) -> Catch | None:
    return handler(stage, np.linalg.LinAlgError) or handler(stage, ValueError)


def _try_host(stage: Stage, op: Op, catch: Catch) -> None:
    """A host function inside a ``try``, which is kept although nobody may use its result."""
    if stage.careful and catch.depth == stage.depth:
        values = list(map(stage.peek, op.args))
        try:
            host.evaluate(op, values)
        except Exception as error:
            stage.builder.block.ops.remove(op)
            fails = stage.builder.emit("host", op.args, fn=_Fails(op), kwargs={}, types=(BOOL,))
            stage.builder.emit("guard", [fails])
            stage.guarding = stage.builder.block
            raise guarded(error) from None
    stage.caught |= {np.linalg.LinAlgError, ValueError}
    outer, stage.catching = stage.catching, []
    ran = stage.builder.emit("host", [op.results[0]], fn=hosted.SUCCEEDED, kwargs={}, types=(BOOL,))
    stage.builder.emit("guard", [ran])
    stage.catching = outer


class _Fails:
    """Whether an operation raises."""

    def __init__(self, op: Op):
        self.op = op
        self.__name__ = "raises"

    def __call__(self, *values: Any) -> np.bool_:
        try:
            host.evaluate(self.op, values)
        except Exception:
            return np.True_
        return np.False_


# ---- indices and shapes ---------------------------------------------------------------------------------------------


def _require(stage: Stage, condition: Value, error: type[Exception], message: str) -> None:
    stage.check(Scalar(condition, weak=True), error, message)


def _check_indices(first: int) -> Callable[[Stage, Sequence[Value], dict[str, Any]], None]:
    def check(stage: Stage, args: Sequence[Value], attrs: dict[str, Any]) -> None:
        if attrs.get("checked"):
            return
        axis = 0
        for entry, mine, count in consumed_axes(attrs["spec"], args[first:]):
            if entry in ("i", "a"):
                n, k = ir.emit("dim", args[0], axis=axis), ir.cast(mine[0], np.int64)
                inside = ir.emit("and", ir.elementwise("ge", k, ir.elementwise("neg", n)), ir.elementwise("lt", k, n))
                every = ir.reduce("all", inside, range(inside.ndim)) if inside.ndim else inside
                _require(stage, every, IndexError, f"index is out of bounds for axis {axis}")
            axis += count

    return check


def _check_broadcast(stage: Stage, args: Sequence[Value], attrs: dict[str, Any]) -> None:
    arrays = [a for a in args if isinstance(a.type, ArrayType) and a.ndim]
    for x, y in zip(arrays, arrays[1:], strict=False):
        if x is y:
            continue
        for n, m in zip(reversed(ir.shape(x)), reversed(ir.shape(y)), strict=False):
            if n is not m:
                one = ir.emit("or", ir.elementwise("eq", n, 1), ir.elementwise("eq", m, 1))
                _require(stage, ir.emit("or", ir.elementwise("eq", n, m), one), ValueError, _BROADCAST)


_BROADCAST = "operands could not be broadcast together"


def _product(lengths: Sequence[Value]) -> Value:
    total: Value = ir.i64(1)
    for n in lengths:
        total = ir.elementwise("mul", total, n)
    return total


def _check_reshape(stage: Stage, args: Sequence[Value], attrs: dict[str, Any]) -> None:
    same = ir.elementwise("eq", _product(ir.shape(args[0])), _product(args[1:]))
    _require(stage, same, ValueError, "cannot reshape array: the sizes differ")


def _check_broadcast_to(stage: Stage, args: Sequence[Value], attrs: dict[str, Any]) -> None:
    for n, m in zip(reversed(ir.shape(args[0])), reversed(args[1:]), strict=False):
        if n is not m:
            fits = ir.emit("or", ir.elementwise("eq", n, 1), ir.elementwise("eq", n, m))
            _require(stage, fits, ValueError, _BROADCAST)


def _check_concatenate(stage: Stage, args: Sequence[Value], attrs: dict[str, Any]) -> None:
    for x, y in zip(args, args[1:], strict=False):
        for k, (n, m) in enumerate(zip(ir.shape(x), ir.shape(y), strict=True)):
            if k != attrs["axis"] and n is not m:
                message = "all the input array dimensions except for the concatenation axis must match exactly"
                _require(stage, ir.elementwise("eq", n, m), ValueError, message)


#: operation → (what it may raise, what emits the check)
_CHECKS: dict[str, tuple[type[Exception], Callable[[Stage, Sequence[Value], dict[str, Any]], None]]] = {
    **{name: (ValueError, _check_broadcast) for name, (arity, _) in ELEMENTWISE.items() if arity > 1},
    "index": (IndexError, _check_indices(1)),
    "set": (IndexError, _check_indices(2)),
    "add_at": (IndexError, _check_indices(2)),
    "reshape": (ValueError, _check_reshape),
    "broadcast_to": (ValueError, _check_broadcast_to),
    "concatenate": (ValueError, _check_concatenate),
}
