"""Which way a loop is staged: as a loop of the Program, with its first iteration peeled, or unrolled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import arithmetic, iterables, objects, yielding
from gradsmith.frontend import stage as st
from gradsmith.frontend.aliases import BREAK, CONTINUE, FALL, JUMP, RETURNED
from gradsmith.frontend.flow import Endless, JoinFailure, Loop, branch
from gradsmith.frontend.frames import Frame
from gradsmith.frontend.heap import Slot
from gradsmith.frontend.iterables import MAX_UNROLL
from gradsmith.frontend.liveness import Names
from gradsmith.frontend.stage import NeedConcrete
from gradsmith.frontend.values import NotSpecialised, Scalar, is_grown
from gradsmith.ir import builder as ir

MAX_REGIONS = 60  # run-time conditions around one another


#: iterations of a loop that nothing but an exception ends
MAX_ENDLESS = 2000


@dataclass
class Facts:
    """What is known of a loop from its source."""

    assigned: Iterable[str] = ()
    accumulated: Iterable[str] = ()
    jumps: bool = False  # break or return inside
    returns: bool = False
    index_name: str = "i"
    live: Names | None = None  # names that the next iteration or the code after the loop may read; None: all
    yields: bool = False  # yields inside, where the generator may be left

    def inside(self, frame: Frame) -> Facts:
        """The facts for a loop in ``frame``."""
        return replace(self, jumps=True, returns=True) if self.yields and frame.interruptible else self


def _slots(frame: Frame, names: Iterable[str]) -> list[Slot]:
    return [Slot("key", frame.vars, name) for name in names if name in frame.vars]


def _loop(frame: Frame, facts: Facts, **kwargs: Any) -> Any:
    from gradsmith.frontend.expressions import wanted

    loop = Loop(
        frame.stage,
        frame.vars,
        jumps=facts.jumps,
        assigned=_slots(frame, facts.assigned),
        accumulated=_slots(frame, facts.accumulated),
        wanted=wanted(frame, facts.live),
        index_name=facts.index_name,
        **kwargs,
    )
    return loop.run()


def for_each(
    frame: Frame,
    xs: Any,
    each: Callable[[Any], None],
    assigned: Iterable[str] = (),
    facts: Facts | None = None,
    orelse: Callable[[], None] | None = None,
) -> None:
    """Run ``each(x)`` for the items of ``xs``; then ``orelse`` unless the loop was left by ``break``."""
    facts = (facts or Facts(assigned, live=frozenset())).inside(frame)
    xs = yielding.iterator_of(frame.stage, xs)
    if isinstance(xs, yielding.Generated) and xs.fresh:
        _after(frame, yielding.for_each_yielded(frame, xs, each, facts), facts, orelse)
        return
    items = xs.take(iterables.Once.LOST, whole=False) if isinstance(xs, iterables.Once) else xs
    jump = _each(frame, items, each, facts)
    if isinstance(xs, iterables.Once) and not facts.jumps:
        xs.move(iterables.Once.ALL)
    _after(frame, jump, facts, orelse)


def _each(frame: Frame, xs: Any, each: Callable[[Any], None], facts: Facts) -> Any:
    stage = frame.stage
    if not iterables.runs_as_loop(xs):
        return _unroll(frame, _items(stage, xs), 0, each, facts)
    point = stage.checkpoint()
    try:
        return _for(frame, xs, each, facts)
    except (JoinFailure, NeedConcrete) as failure:
        stage.restore(point)
        reason = failure
    if isinstance(reason, JoinFailure):
        try:
            return _peel(frame, xs, each, facts)
        except (JoinFailure, NeedConcrete):
            stage.restore(point)
    if iterables.endless(iterables.loop_bounds(xs)[1]) and facts.jumps:
        return _unroll(frame, _Indexed(xs), 0, each, facts)
    try:
        length = int(stage.concrete(objects.length(stage, xs)))
    except NeedConcrete:
        raise reason from None
    if length > MAX_UNROLL:
        raise reason
    return _unroll(frame, _Indexed(xs, length), 0, each, facts)


def _for(frame: Frame, xs: Any, each: Callable[[Any], None], facts: Facts) -> Any:
    bounds = iterables.loop_bounds(xs)
    return _loop(frame, facts, body=lambda i: each(iterables.loop_item(xs, i)), bounds=bounds)


def _peel(frame: Frame, xs: Any, each: Callable[[Any], None], facts: Facts) -> Any:
    """The first iteration by itself (it may differ, e.g. a None seed), then a loop over the rest."""
    stage = frame.stage
    some = objects.compare(stage, ">", objects.length(stage, xs), 0)
    if isinstance(some, Scalar):
        some = stage.concrete(some)
    if not some:
        return FALL
    each(iterables.item(xs, 0))
    jump = _current_jump(frame)
    if isinstance(jump, Scalar):
        raise JoinFailure("the first iteration differs from the others and may leave the loop")
    if jump in (BREAK, RETURNED):
        return jump
    stage.heap.write(Slot("key", frame.vars, JUMP), FALL)
    rest = iterables.Range(xs.start, xs.stop, xs.step) if isinstance(xs, range) else xs
    rest = rest.tail() if isinstance(rest, iterables.Range) else iterables.Tail(rest)
    return _for(frame, rest, each, facts)


class _Live:
    """A list whose items are looked up as the loop goes on: its body may append some."""

    def __init__(self, items: list[Any]):
        self._items = items

    def has(self, k: int) -> bool:
        if is_grown(self._items):
            raise NotSpecialised("a loop over a list that grows in it on a run-time condition")
        return k < len(self._items)

    def __getitem__(self, k: int) -> Any:
        return self._items[k]


class _Indexed:
    """Items that are read when their turn comes: the body may write the array they are in. No length: there is no end."""

    def __init__(self, xs: Any, length: int | None = None):
        self._xs = xs
        self._length = length

    def has(self, k: int) -> bool:
        return self._length is None or k < self._length

    def __getitem__(self, k: int) -> Any:
        return iterables.item(self._xs, k)


def _items(stage: st.Stage, xs: Any) -> _Live | iterables.Pulled:
    if isinstance(xs, iterables.Pulled):
        return xs
    return _Live(xs if isinstance(xs, list) else objects.iterate(stage, xs))


def _current_jump(frame: Frame) -> Any:
    return frame.vars.get(JUMP, FALL)


def _unroll(
    frame: Frame, items: _Live | _Indexed | iterables.Pulled, k: int, each: Callable[[Any], None], facts: Facts
) -> Any:
    """Run ``each`` for the items from the k-th on."""
    stage = frame.stage
    slot = Slot("key", frame.vars, JUMP)
    while items.has(k):
        if k >= MAX_UNROLL:
            raise UnsupportedCode(f"a loop that would have to be unrolled more than {MAX_UNROLL} times")
        each(items[k])
        k += 1
        jump = _current_jump(frame)
        if isinstance(jump, Scalar):
            running = arithmetic.python_number(_normal(jump))
            stage.heap.write(slot, running)
            going = arithmetic.binary("==", running, FALL)
            if items.has(k):
                if stage.depth >= MAX_REGIONS:
                    raise UnsupportedCode(
                        "a loop over the many items of a container that is left on a run-time condition"
                    )
                _fork_rest(frame, going, items, k, each, facts)
            return _current_jump(frame)
        if jump == CONTINUE:
            stage.heap.write(slot, FALL)
        elif jump in (BREAK, RETURNED):
            return jump
    return FALL


def _fork_rest(frame: Frame, going: Scalar, items: Any, k: int, each: Callable[[Any], None], facts: Facts) -> None:
    """The iterations from the k-th on, if the loop was not left."""
    stage = frame.stage
    if id(items) not in stage.decided:
        try:
            branch(stage, going.value, lambda: _continue(frame, items, k, each, facts), lambda: None)
            return
        except JoinFailure:
            if not stage.peekable(going.value):
                raise
            stage.decided[id(items)] = items  # the iterations around this one will fail in the same way
    if stage.concrete(going):
        _continue(frame, items, k, each, facts)


def _continue(frame: Frame, items: Any, k: int, each: Callable[[Any], None], facts: Facts) -> None:
    frame.stage.heap.write(Slot("key", frame.vars, JUMP), FALL)
    jump = _unroll(frame, items, k, each, facts)
    if jump is not _current_jump(frame):
        frame.stage.heap.write(Slot("key", frame.vars, JUMP), jump)


def _normal(jump: Scalar) -> Any:
    return ir.where(ir.elementwise("eq", jump.value, CONTINUE), ir.i64(FALL), jump.value)


def _after(frame: Frame, jump: Any, facts: Facts, orelse: Callable[[], None] | None) -> None:
    """The jump flag and the ``else`` part once the loop is over."""
    from gradsmith.frontend.expressions import fork

    stage = frame.stage
    slot = Slot("key", frame.vars, JUMP)
    if not isinstance(jump, Scalar) and hasattr(jump, "type"):
        jump = arithmetic.python_number(jump)
    if not isinstance(jump, Scalar):
        if jump is None:
            jump = FALL
        if _current_jump(frame) is not FALL or jump == RETURNED:
            stage.heap.write(slot, RETURNED if jump == RETURNED else FALL)
        if orelse is not None and jump == FALL:
            orelse()
        return
    if facts.returns:
        left = ir.where(ir.elementwise("eq", jump.value, RETURNED), jump.value, ir.i64(FALL))
        stage.heap.write(slot, Scalar(left, weak=True))
    else:
        stage.heap.write(slot, FALL)
    if orelse is not None:
        fork(frame, arithmetic.binary("==", jump, FALL), orelse, lambda: None)


def while_(
    frame: Frame,
    test: Callable[[], Any],
    body: Callable[[], None],
    facts: Facts,
    orelse: Callable[[], None] | None = None,
) -> None:
    """A while loop; ``test()`` gives a concrete bool or a symbolic one."""
    stage, facts = frame.stage, facts.inside(frame)
    point = stage.checkpoint()
    first = test()
    stage.restore(point)
    reason: Exception | None = None
    if isinstance(first, Scalar) or (first and facts.jumps):
        try:
            _after(frame, _loop(frame, facts, body=lambda i: body(), test=test), facts, orelse)
            return
        except (JoinFailure, NeedConcrete) as failure:
            stage.restore(point)
            reason = failure
    _after(frame, _run_while(frame, test, body, facts, reason), facts, orelse)


def _run_while(frame: Frame, test: Any, body: Callable[[], None], facts: Facts, reason: Exception | None) -> Any:
    """Iterate while staging: concrete tests, and run-time ones by specialising on them."""
    stage = frame.stage
    slot = Slot("key", frame.vars, JUMP)
    point = stage.checkpoint()
    for count in range(MAX_ENDLESS if isinstance(reason, Endless) else MAX_UNROLL):
        t = test()
        if isinstance(t, Scalar):
            if reason is None:
                return _loop_or_unroll(frame, point, test, body, facts)
            if not stage.peekable(t.value):
                raise reason
            t = bool(stage.concrete(t))
        if not t:
            return FALL
        if count == 8 and reason is None:
            return _loop_or_unroll(frame, point, test, body, facts)
        body()
        jump = _current_jump(frame)
        if isinstance(jump, Scalar):
            if reason is not None:
                if not stage.peekable(jump.value):
                    raise reason
                jump = stage.concrete(jump)
                stage.heap.write(slot, jump)
            else:
                return _loop_or_unroll(frame, point, test, body, facts)
        if jump == CONTINUE:
            stage.heap.write(slot, FALL)
        elif jump in (BREAK, RETURNED):
            return jump
    if isinstance(reason, Endless):
        raise UnsupportedCode("a while loop without end")
    raise UnsupportedCode(f"a while loop that would have to be unrolled more than {MAX_UNROLL} times")


def _loop_or_unroll(frame: Frame, point: tuple[int, int], test: Any, body: Callable[[], None], facts: Facts) -> Any:
    """Start over as a loop of the Program: the loop turned out to be long, or to depend on run-time values."""
    frame.stage.restore(point)
    try:
        return _loop(frame, facts, body=lambda i: body(), test=test)
    except (JoinFailure, NeedConcrete) as failure:
        frame.stage.restore(point)
        return _run_while(frame, test, body, facts, failure)
