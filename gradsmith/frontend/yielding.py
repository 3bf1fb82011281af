"""Generator functions in staged code.

A loop over a generator runs the generator's body, and the loop's own body at each ``yield``: nothing is stored, and a
generator without end is no trouble when the loop is left. Whoever asks for single items (``next``, an iterator that is
used again) gets them from a list of what the generator yields; that is refused where running it ahead could be noticed.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import arithmetic, objects
from gradsmith.frontend import stage as st
from gradsmith.frontend.aliases import CONTINUE, FALL, JUMP, RETURN, RETURNED
from gradsmith.frontend.flow import INTERNAL, DeadPath, conditional
from gradsmith.frontend.frames import Code, Frame, StagedFunction
from gradsmith.frontend.heap import Slot
from gradsmith.frontend.iterables import Once
from gradsmith.frontend.joins import JoinFailure
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, Scalar, _children
from gradsmith.ir import builder as ir

#: how many items of a generator are run ahead when they are asked for one by one
MAX_AHEAD = 256


class Outside(BaseException):
    """An exception of the code around a generator, on its way through the generator, which does not see it."""

    def __init__(self, error: Exception):
        self.error = error


class _Enough(BaseException):
    """As many items were yielded as are wanted."""


def run(frame: Frame, code: Code, on_yield: Callable[[Any], Any], interruptible: bool) -> None:
    """Stage the body of a generator. ``on_yield(x)`` tells whether to stop (a bool, symbolic or not)."""
    stage = frame.stage
    frames, loc = len(stage.frames), stage.builder.loc
    frame.on_yield, frame.interruptible = on_yield, interruptible
    stage.heap.write(Slot("key", frame.vars, JUMP), FALL)
    frame.called_at = stage.called_at(code.scope.quiet)
    stage.frames.append(frame)
    code.body(frame)
    del stage.frames[frames:]
    stage.builder.loc = loc


def give(frame: Frame, x: Any) -> None:
    """``yield x``: hand ``x`` out, and leave the generator if nobody wants more."""
    stage, slot = frame.stage, Slot("key", frame.vars, JUMP)
    assert frame.on_yield is not None
    jump = slot.get()
    if isinstance(jump, Scalar):
        raise JoinFailure("two yields in one expression, the first of which may be the last")
    if jump != FALL:
        return
    stop = frame.on_yield(x)
    if isinstance(stop, Scalar):
        stage.heap.write(slot, Scalar(ir.where(stop.value, ir.i64(RETURNED), ir.i64(FALL)), weak=True))
    elif stop:
        stage.heap.write(slot, RETURNED)


def give_all(frame: Frame, xs: Any) -> Any:
    """``yield from xs``: what a generator returns."""
    if isinstance(xs, Generated) and xs.fresh:
        jump = Slot("key", frame.vars, JUMP)

        def pass_on(x: Any) -> Any:
            give(frame, x)
            left = jump.get()
            return arithmetic.binary("!=", left, FALL) if isinstance(left, Scalar) else left != FALL

        xs.push(pass_on, frame.interruptible)
        return xs.returned()
    from gradsmith.frontend.loops import Facts, for_each

    stops = frame.interruptible
    for_each(frame, xs, lambda x: give(frame, x), facts=Facts(jumps=stops, returns=stops))
    return xs.returned() if isinstance(xs, Generated) else None


class Generated(Once):
    """What a generator function returns."""

    def __init__(self, frame: Frame, code: Code):
        super().__init__(lambda: self._collect(None))
        self.frame = frame
        self.code = code
        self.more = False  # whether the generator would go on after ``items``
        self.mark = 0  # of the journal, when the items were collected

    @property
    def fresh(self) -> bool:
        """Whether no item was asked for yet."""
        return self.items is None and self.position == 0 and not isinstance(self.position, Scalar)

    def push(self, on_yield: Callable[[Any], Any], interruptible: bool) -> None:
        """Call ``on_yield`` with each item, while the generator runs."""
        self.move(self.LOST)
        run(self.frame, self.code, on_yield, interruptible)
        if not interruptible:
            self.move(self.ALL)

    def advance(self) -> Any:
        if self.fresh:
            if _listens(self.code):
                raise UnsupportedCode("single items of a generator that uses what is sent to it (the value of `yield`)")
            stage = st.current()
            start, first = stage.heap.mark(), len(stage.builder.block.ops)
            items = self._collect(MAX_AHEAD)
            stage.heap.write(Slot("attr", self, "items"), items)
            if len(items) != 1 or self.more:
                self._check_apart(start, first)
            stage.heap.write(Slot("attr", self, "mark"), stage.heap.mark())
        elif self.mark:
            self._check_unchanged()
        if self.position == self.ALL or self._has(self.position):
            return super().advance()
        self.move(self.ALL)
        raise StopIteration(self.returned())

    def returned(self) -> Any:
        """What the generator returned, once it has ended."""
        from gradsmith.frontend.calls import result_of

        return result_of(self.frame) if RETURN in self.frame.vars else None

    def _has(self, k: int) -> bool:
        if self.more and k >= len(self.items):
            raise UnsupportedCode(f"more than {MAX_AHEAD} items of a generator asked for one by one; use a for loop")
        return super()._has(k)

    def _collect(self, most: int | None) -> list[Any]:
        """What is yielded, as a list; at most so many items."""
        stage, depth = st.current(), st.current().depth
        items = self.frame.vars["%yields"] = stage.heap.born([])
        self._marks: list[tuple[int, Any]] = []

        def keep(x: Any) -> bool:
            if stage.depth == depth and len(items) >= (most or MAX_ITEMS):
                raise _Enough
            self._marks.append((stage.heap.mark(), x))
            _append(stage, items, x)
            return False

        try:
            run(self.frame, self.code, keep, interruptible=False)
        except _Enough:
            if most is None:
                raise UnsupportedCode(f"a generator of more than {MAX_ITEMS} items, or without end") from None
            stage.heap.write(Slot("attr", self, "more"), True)
        return items

    # running ahead must not be noticed

    def _check_apart(self, start: int, first: int) -> None:
        """Raise UnsupportedCode if the generator, run ahead of its consumer, changed something that both see."""
        stage = st.current()
        journal, own = stage.heap.journal, {id(self.frame.vars), id(self)}
        born = stage.heap.birth(self)
        written = [s.owner for s, _ in journal[start:] if stage.heap.birth(s.owner) < born and id(s.owner) not in own]
        for mark, x in self._marks:
            seen = _reach([x])
            written += [slot.owner for slot, _ in journal[mark:] if id(slot.owner) in seen]
        acts = any(stage.acts(op) for op in stage.builder.block.ops[first:])
        if written or acts:
            raise UnsupportedCode(
                "items asked for one by one of a generator that changes what others see too (or prints); use a for loop"
            )

    def _check_unchanged(self) -> None:
        """Raise UnsupportedCode if something that the generator reads has changed since it was run."""
        stage = st.current()
        names = {n.id for n in ast.walk(self.code.node) if isinstance(n, ast.Name)}
        seen = _reach(v for k, v in self.frame.vars.items() if k != "%yields")
        around: dict[int, Frame] = {}
        parent = self.frame.parent
        while parent is not None:
            around[id(parent.vars)] = parent
            seen |= _reach(parent.vars.get(name) for name in names)
            parent = parent.parent
        for slot, _ in stage.heap.journal[self.mark :]:
            if slot.owner is self or slot.owner is self.items:
                continue
            name = slot.key[1] if slot.owner is stage.outer else slot.key if id(slot.owner) in around else None
            if id(slot.owner) in seen or name in names:
                raise UnsupportedCode(
                    f"{slot} changes between two items of a generator that reads it; use a for loop, not next()"
                )


def _listens(code: Code) -> bool:
    """Whether the generator uses the value of a ``yield``."""
    nodes = list(ast.walk(code.node))
    alone = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    return any(isinstance(n, ast.Yield) and id(n) not in alone for n in nodes)


#: how many items a generator may yield to fill a list
MAX_ITEMS = 20_000


def _append(stage: Stage, items: list[Any], x: Any) -> None:
    from gradsmith.frontend.builtins import container_method

    container_method(stage, items, "append", [x], {})


def _reach(roots: Iterable[Any]) -> set[int]:
    """Ids of the containers, objects and cells that can be reached from ``roots`` without going through functions."""
    found: set[int] = set()
    pending = list(roots)
    while pending:
        x = pending.pop()
        if isinstance(x, Array):
            found.add(id(x.cell))
        elif not isinstance(x, _ENDS) and id(x) not in found and not callable(x):
            found.add(id(x))
            pending += _children(x)
    return found


_ENDS = (Scalar, StagedFunction, Frame, type, str, bytes, int, float, complex, type(None))


# ---- loops ----------------------------------------------------------------------------------------------------------


def for_each_yielded(frame: Frame, xs: Generated, each: Callable[[Any], None], facts: Any) -> Any:
    """The loop ``for x in xs: each(x)``, run inside the generator; returns the jump that it ends with."""
    stage, slot = frame.stage, Slot("key", frame.vars, JUMP)
    depth, catching = stage.depth, len(stage.catching)

    def step(x: Any) -> Any:
        stage.heap.write(slot, FALL)
        inner = stage.catching
        stage.catching = inner[:catching]  # the generator's own ``try`` does not see what the loop raises
        try:
            if stage.depth > depth:
                if conditional(stage, lambda: each(x))[1]:
                    raise DeadPath
            else:
                each(x)
        except INTERNAL:
            raise
        except Exception as error:
            raise Outside(error) from error
        finally:
            stage.catching = inner
        return _stops(stage, slot) if facts.jumps else False

    stage.live.append((frame.vars, facts.live))
    try:
        xs.push(step, facts.jumps)
    except Outside as outside:
        raise outside.error from None
    finally:
        stage.live.pop()
    return slot.get()


def _stops(stage: Stage, slot: Slot) -> Any:
    """Whether the loop was left; the jump with ``continue`` done."""
    jump = slot.get()
    if not isinstance(jump, Scalar):
        if jump == CONTINUE:
            stage.heap.write(slot, FALL)
        return jump not in (CONTINUE, FALL)
    running = Scalar(ir.where(ir.elementwise("eq", jump.value, CONTINUE), ir.i64(FALL), jump.value), weak=True)
    stage.heap.write(slot, running)
    return arithmetic.binary("!=", running, FALL)


# ---- generators that stand for Python's own iterators ---------------------------------------------------------------
# These are staged from their source like the user's code.


def from_next(iterator: Any) -> Any:
    """The items of an object with ``__next__``."""
    while True:
        try:
            x = iterator.__next__()
        except StopIteration:
            return
        yield x


def from_getitem(sequence: Any) -> Any:
    """The items of an object that has ``__getitem__`` but no ``__iter__``."""
    for k in itertools.count():
        try:
            x = sequence[k]
        except IndexError:
            return
        yield x


def counted(start: Any, step: Any) -> Any:
    x = start
    while True:
        yield x
        x = x + step


def enumerated(xs: Any, start: Any) -> Any:
    k = start
    for x in xs:
        yield k, x
        k = k + 1


def mapped(f: Any, xs: Any) -> Any:
    for x in xs:
        yield f(x)


def filtered(f: Any, xs: Any) -> Any:
    for x in xs:
        if x if f is None else f(x):
            yield x


def zipped(before: Any, xs: Any, after: Any) -> Any:
    """``zip(*before, xs, *after)``, where only the items of ``xs`` are not there yet."""
    k = 0
    for part in before:
        if len(part) == 0:
            return
    for x in xs:
        for part in after:
            if len(part) <= k:
                return
        yield (*[part[k] for part in before], x, *[part[k] for part in after])
        k = k + 1
        for part in before:
            if len(part) <= k:
                return


def stage_generator(stage: Stage, definition: Callable[..., Any], *args: Any) -> Any:
    """The iterator that one of the definitions above makes of front-end values."""
    from gradsmith.frontend.calls import call_source

    return call_source(stage, definition, args, {})


def iterator_of(stage: Stage, x: Any) -> Any:
    """What a loop runs over for an object of the user's: what its methods give; other things as they are."""
    iterate = objects.user_method(x, "__iter__")
    if iterate is not None:
        x = objects.call_method(stage, iterate, [x])
    if objects.user_method(x, "__next__") is not None:
        return stage_generator(stage, from_next, x)
    if (
        iterate is None
        and objects.user_method(x, "__getitem__") is not None
        and not isinstance(x, list | tuple | dict | str)
    ):
        return stage_generator(stage, from_getitem, x)
    return x


class IteratorMethod:
    """A method of an iterator."""

    def __init__(self, owner: Once, name: str):
        self.owner = owner
        self.name = name

    def __gradsmith_call__(self, stage: Stage, args: Any, kwargs: Any) -> Any:
        if self.name == "__iter__":
            return self.owner
        if self.name == "close":
            self.owner.move(Once.ALL)
            return None
        if self.name == "__next__" or (self.name == "send" and list(args) == [None]):
            return self.owner.advance()
        raise UnsupportedCode(f"{self.name}() of a generator")
