"""Control flow on values known only at run time: ``if``, ``for`` and ``while`` operations from staged Python.

A branch or loop body is any Python callable that stages code. The journal of the heap tells which slots it wrote; those are
joined after a branch, and carried by a loop. Loops are staged again until the descriptions of what they carry are stable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gradsmith.errors import GradsmithError
from gradsmith.frontend import catching, iterables
from gradsmith.frontend import stage as st
from gradsmith.frontend.aliases import (
    AMBIGUOUS,
    BREAK,
    CONTINUE,
    FALL,
    JUMP,
    References,
    containers_in,
    parts_ways,
    snapshot,
)
from gradsmith.frontend.heap import MISSING, Slot
from gradsmith.frontend.joins import Desc, JoinFailure, Number, describe, join, unchanged
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import (
    Array,
    Cell,
    Scalar,
    arrays_in,
    dtype_of,
    is_number,
    is_weak,
    next_birth,
)
from gradsmith.ir import builder as ir
from gradsmith.ir import interpreter
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Block, Const, Op, Value, free_values
from gradsmith.ir.types import I64, ArrayType


class Endless(JoinFailure):
    """A loop that nothing ends."""


class DeadPath(Exception):
    """The staged path ends here: an exception is raised on it at run time."""


#: exceptions of the stager, which no ``except`` of staged code sees
INTERNAL = (
    *(JoinFailure, st.NeedConcrete, DeadPath, GradsmithError, RecursionError),
    *(catching.TryCarefully, catching.EvaluationFailed),
)


# ---- branches -------------------------------------------------------------------------------------------------------


class _Branch:
    def __init__(
        self,
        stage: Stage,
        wanted: Callable[[Slot], bool],
        block: Block,
        writes: dict[Slot, Any],
        result: Any,
        dead: bool,
        orders: list[tuple[dict[Any, Any], list[Any]]],
    ):
        self.stage = stage
        self.wanted = wanted
        self.block = block
        self.orders = orders  # of the keys of dicts that it writes
        self.writes = writes
        self.result = result
        self.dead = dead

    def get(self, slot: Slot) -> Any:
        return self.writes[slot] if slot in self.writes else slot.get()

    @functools.cached_property
    def names(self) -> References:
        """Who refers to what at its end; to be asked before anything is written after the branch."""
        mark = self.stage.heap.mark()
        self.stage.heap.apply(self.writes.items())
        names = References(self.stage, self.wanted, self.result)
        self.stage.heap.rollback(mark)
        return names


def _stage_branch(stage: Stage, body: Callable[[], Any], birth: int, wanted: Callable[[Slot], bool]) -> _Branch:
    mark = stage.heap.mark()
    with stage.region() as block:
        result, dead = conditional(stage, body)
    writes, orders = stage.heap.written(mark), stage.heap.orders(mark)
    stage.heap.rollback(mark)
    for slot, value in writes.items():
        if stage.heap.birth(slot.owner) >= birth:  # made in the branch: the other one does not know it
            slot.put(value)
    return _Branch(stage, wanted, block, writes, result, dead, orders)


def errors_of(op: Op) -> list[type[Exception]]:
    """What ``op`` may raise at run time."""
    if op.regions:
        return [error for region in op.regions for inner in region.ops for error in errors_of(inner)]
    if op.name == "check":
        return [op.attrs["error"]]
    arrays = [a for a in op.args if isinstance(a.type, ArrayType) and a.ndim]
    errors: list[type[Exception]] = []
    if (
        op.name in ("index", "set", "add_at")
        and not op.attrs.get("checked")
        and {"i", "a"} & set(map(str, op.attrs["spec"]))
    ):
        errors.append(IndexError)
    if op.name == "host":
        errors += [ValueError, np.linalg.LinAlgError]
    if (
        op.name in _SHAPED
        or (op.name in ELEMENTWISE and len(arrays) > 1)
        or (op.name in ("set", "add_at") and len(arrays) > 1)
    ):
        errors.append(ValueError)
    return errors


_SHAPED = frozenset({"reshape", "broadcast_to", "matmul", "concatenate", "seq_stack"})


def conditional(stage: Stage, body: Callable[[], Any]) -> tuple[Any, bool]:
    """Stage code that runs on a run-time condition: (its result, whether it certainly raises).

    What Python raises while staging it is raised at run time, when the path is taken.
    """
    try:
        return body(), False
    except DeadPath:
        return MISSING, True
    except INTERNAL:
        raise
    except Exception as error:
        if (catch := catching.handler(stage, type(error))) is not None:
            catching.check(stage, catch, Const(False), type(error), "", ())
            return MISSING, True
        text = str(error).replace("{", "{{").replace("}", "}}")
        stage.builder.emit("check", [Const(False)], error=type(error), message=text)
        return MISSING, True


def branch(
    stage: Stage,
    condition: Value,
    then: Callable[[], Any],
    otherwise: Callable[[], Any],
    wanted: Callable[[Slot], bool] = lambda slot: True,
) -> Any:
    """Stage an ``if`` operation; returns the joined result of the two callables. Slots that either writes are joined.

    ``wanted(slot)``: whether a slot may be read later.

    Raises :class:`JoinFailure` (with everything taken back) when a slot has no common description.
    """
    point, birth = stage.checkpoint(), next_birth()
    try:
        branches = [_stage_branch(stage, side, birth, wanted) for side in (then, otherwise)]
    except (JoinFailure, st.NeedConcrete):
        stage.restore(point)
        raise
    except RecursionError as endless:
        stage.restore(point)
        raise JoinFailure("a recursion without end on one path") from endless
    dead = [b.dead for b in branches]
    if any(dead):
        try:
            result = _one_sided(stage, condition, branches, dead)
        except DeadPath:
            _settle(stage, point)
            _raise_now(stage, point[0])
            raise
        except JoinFailure:
            stage.restore(point)
            raise
        _settle(stage, point)
        return result
    slots = [s for s in {**branches[0].writes, **branches[1].writes} if stage.heap.birth(s.owner) < birth]
    notes = [s for s in slots if _is_note(s)]
    slots = [s for s in slots if not _is_note(s) and wanted(s)]
    try:
        joined = [(s, *_join_branches(stage, [b.get(s) for b in branches], s, birth)) for s in slots]
        result, results_found = _join_branches(stage, [b.result for b in branches], None, birth)
        if stage.specialising == "everything" and any(
            _several(found, branches) or any(cell.ambiguous for cell in _parted(found))
            for found in (*(f for _, _, f in joined), results_found)
        ):
            raise JoinFailure("an array that may be one of two")
    except JoinFailure:
        stage.restore(point)
        raise
    for b in branches:
        mark = stage.heap.mark()
        stage.heap.apply(b.writes.items())
        with stage.reopen(b.block):
            for slot, desc, _ in joined:
                b.block.results += desc.leaves(b.get(slot))
            b.block.results += result.leaves(b.result)
        stage.heap.rollback(mark)
    op = stage.builder.emit_control("if", [condition], [b.block for b in branches])
    _settle(stage, point)
    values = iter(op.results)
    for note in notes:
        stage.heap.write(note, AMBIGUOUS)
    outcomes: list[tuple[Slot | None, Desc, list[Any]]] = [*joined, (None, result, results_found)]
    for (place, desc, found), several in zip(outcomes, [_several(f, branches) for _, _, f in outcomes], strict=True):
        doubtful = [*several, *(cell for cell in _parted(found) if cell.ambiguous)]
        for cell in doubtful:
            if cell.birth < birth:
                stage.heap.write(Slot("attr", cell, "ambiguous"), AMBIGUOUS)
        new = _rebuilt(desc, values, found, AMBIGUOUS if doubtful else "")
        if place is None:
            try:
                _check_orders(order for b in branches for order in b.orders)
            except JoinFailure:
                stage.restore(point)
                raise
            return new
        stage.heap.write(place, new)
    raise AssertionError("the result is joined last")


def _check_orders(orders: Iterable[tuple[dict[Any, Any], list[Any]]]) -> None:
    """Raise JoinFailure if a dict does not have its keys in the order that a path left them in."""
    for x, order in orders:
        kept = set(order)
        if [key for key in x if key in kept] != [key for key in order if key in x]:
            raise JoinFailure("a dict whose keys are in another order on another path")


def _settle(stage: Stage, point: tuple[int, int]) -> None:
    """Take back what was staged since ``point`` if it raises something that the function handles."""
    try:
        catching.settle(stage, point[0])
    except (JoinFailure, st.NeedConcrete):
        stage.restore(point)
        raise


def _raise_now(stage: Stage, first: int) -> None:
    """Every path raises: raise what the operations from the ``first`` on raise for the arguments of this call.

    Where the function may handle it, it is staged anew for the path that is taken.
    """
    if not stage.careful and any(catch.depth == stage.depth for catch in stage.catching):
        raise catching.TryCarefully
    if stage.depth == 0:
        env = dict(stage.known)
        for op in stage.builder.block.ops[first:]:
            for value in (*op.args, *(f for r in op.regions for f in free_values(r))):
                if value not in env and not isinstance(value, Const):
                    env[value] = stage.peek(value)
            interpreter.run_op(op, env)


def _one_sided(stage: Stage, condition: Value, branches: list[_Branch], dead: list[bool]) -> Any:
    """A branch that raises: a check, after which the other branch goes on in the block around."""
    ops = stage.builder.block.ops
    for b, raises, fails in zip(branches, dead, (True, False), strict=True):
        if not raises:
            continue
        before, last = b.block.ops[:-1], next(iter(b.block.ops[-1:]), None)
        if last is not None and last.name == "check" and all(op.name in _PURE for op in before):
            ops += before
            if isinstance(last.args[0], Const):
                last.args[0] = ir.not_(condition) if fails else condition
                ops.append(last)
                continue
            del ops[len(ops) - len(before) :]
        regions = [b.block, Block()] if fails else [Block(), b.block]
        stage.builder.emit_control("if", [condition], regions)
    live = [b for b in branches if not b.dead]
    if not live:
        raise DeadPath
    ops += live[0].block.ops
    stage.heap.apply(live[0].writes.items())
    _check_orders(live[0].orders)
    return live[0].result


_PURE = frozenset(ELEMENTWISE) | {"dim"}


def _is_note(slot: Slot) -> bool:
    """Whether the slot is a cell's mark that it may be one of two arrays."""
    return slot.kind == "attr" and isinstance(slot.owner, Cell)


def _join_branches(stage: Stage, found: list[Any], slot: Slot | None, birth: int) -> tuple[Desc, list[Any]]:
    contents = slot is not None and slot.kind == "list"  # of one list, on both paths
    if parts_ways(stage, found[0], found[1], birth, contents):
        raise JoinFailure(f"{slot or 'the result'} holds one of two lists or dicts that can be reached otherwise")
    try:
        return join(found[0], found[1], slot is not None and slot.grows), found
    except JoinFailure as failure:
        raise JoinFailure(f"{slot or 'the result'} holds {failure}") from None


def _parted(found: list[Any]) -> list[Cell]:
    """Cells that two objects, one of each branch, refer to."""
    return [] if found[0] is found[1] else [a.cell for x in found for a in arrays_in(x)]


def _several(found: list[Any], branches: list[_Branch]) -> list[Cell]:
    """Cells that two objects, one of each branch, refer to and another name as well."""
    if found[0] is found[1]:
        return []
    return [a.cell for x, b in zip(found, branches, strict=True) for a in arrays_in(x) if b.names.several(a.cell)]


def _callers(found: Iterable[Any]) -> bool:
    """Whether one of different objects has an array that is (or may be) the caller's."""
    different = len({id(x) for x in found}) > 1
    return different and any(a.cell.outside or a.cell.merged for x in found for a in arrays_in(x))


def _rebuilt(desc: Desc, values: Iterator[Value], found: Iterable[Any], ambiguous: str) -> Any:
    """The object that stands for one of ``found``."""
    new = desc.rebuild(values, ambiguous)
    if _callers(found):
        for array in arrays_in(new):
            array.cell.merged = True
    return new


# ---- loops ----------------------------------------------------------------------------------------------------------


class Loop:
    """A loop to stage.

    ``bounds``: (start, stop, step) of a ``for``, or None for a ``while``. ``body(i)`` stages one iteration (i is None in a
    while), ``test()`` the condition of a while. ``frame_vars`` holds the jump flag; ``jumps``: the body may break or return.
    ``assigned``: names (slots) that the body assigns; ``accumulated``: those it updates by augmented assignment.
    ``wanted(slot)``: whether the next iteration or the code after the loop may read a slot.
    """

    def __init__(
        self,
        stage: Stage,
        frame_vars: dict[str, Any],
        body: Callable[[Any], None],
        bounds: tuple[Value, Value, Value] | None = None,
        test: Callable[[], Any] | None = None,
        jumps: bool = False,
        assigned: Iterable[Slot] = (),
        accumulated: Iterable[Slot] = (),
        wanted: Callable[[Slot], bool] = lambda slot: True,
        index_name: str = "i",
    ):
        self.stage = stage
        self.vars = frame_vars
        self.body = body
        self.bounds = bounds
        self.test = test
        self.jumps = jumps
        self.assigned = list(assigned)
        self.accumulated = set(accumulated)
        self.wanted = wanted
        self.index_name = index_name
        self.jump = Slot("key", frame_vars, JUMP)
        self.descs: dict[Slot, Desc] = {}
        self.ambiguous: dict[Slot, str] = {}  # slots whose array must not be written, and why
        self.notes: dict[Slot, str] = {}  # the same for cells from before the loop
        self.orders: list[tuple[dict[Any, Any], list[Any]]] = []  # of the keys of dicts that the body writes
        self.shared: dict[Slot, None] = {}  # slots that hold lists or dicts with other names
        self.merged: set[Slot] = set()  # slots whose array may be one of the caller's
        self.always = False  # the condition of a while loop that may be left by a jump is the constant True
        self.eager: set[Slot] = set()  # slots taken to be carried before the body was staged

    def run(self) -> Value | None:
        """Stage the loop and leave its results in the slots. Returns the final jump code if the body may jump.

        Raises :class:`JoinFailure` or :class:`~gradsmith.frontend.stage.NeedConcrete`, with everything taken back, when it
        cannot be a loop of the Program.
        """
        self.endless = self.bounds is not None and not self.jumps and iterables.endless(self.bounds[1])
        self.birth = next_birth()
        self.entry_names = References(self.stage, self.wanted)
        self.entry_mark = self.stage.heap.mark()
        self._start()
        point = self.stage.checkpoint()
        for _ in range(_MAX_ROUNDS):
            try:
                stable, emit = self._round()
            except (JoinFailure, st.NeedConcrete):
                self.stage.restore(point)
                raise
            if stable and self.endless:
                self.stage.restore(point)
                raise Endless("a loop without end")
            if stable and self.stage.specialising == "everything" and (self.ambiguous or self.merged):
                self.stage.restore(point)
                raise JoinFailure("an array that may be one of two")
            if stable:
                try:
                    jump = emit()
                except JoinFailure:
                    self.stage.restore(point)
                    raise
                _settle(self.stage, point)
                return jump
            self.stage.restore(point)
        raise JoinFailure("what the loop carries does not settle")

    def _start(self) -> None:
        for slot in self.assigned:
            entry = slot.get()
            if (
                entry is MISSING
                or not self.wanted(slot)
                or (slot in self.accumulated and isinstance(entry, Array | list))
            ):
                continue  # ``array += …`` writes the array in place: its cell is found by the journal
            number = is_number(entry) and (slot in self.accumulated or dtype_of(entry).kind in "fc")
            self.descs[slot] = Number(dtype_of(entry), is_weak(entry)) if number else describe(entry)
            self._meet(slot, entry, self.entry_names)
            self.eager.add(slot)

    def _meet(self, slot: Slot, x: Any, names: References) -> None:
        """Note of the arrays in ``x``, one of the objects that the slot may hold, what must not be written."""
        for array in arrays_in(x):
            cell = array.cell
            self.merged |= {slot} if cell.outside or cell.merged else set()
            if cell.ambiguous:
                self.ambiguous.setdefault(slot, cell.ambiguous)
            if names.several(cell):
                self.ambiguous.setdefault(slot, AMBIGUOUS)
                if cell.birth < self.birth:
                    self.notes.setdefault(Slot("attr", cell, "ambiguous"), AMBIGUOUS)
        if any(names.containers[id(c)] > 1 for c in containers_in(x)):
            self.shared[slot] = None

    # one round: stage condition and body with the present descriptions

    def _round(self) -> tuple[bool, Callable[[], Value | None]]:
        as_while = self.bounds is None or self.jumps
        init = [leaf for slot, desc in self.descs.items() for leaf in desc.leaves(slot.get())]
        types = [t for desc in self.descs.values() for t in desc.types()]
        extra = ([I64] if self.bounds else []) + ([I64] if self.jumps else [])
        blocks = []
        if as_while:
            with self._region([*extra, *types]) as (block, params):
                self._bind(params[len(extra) :])
                block.results = [self._condition(params[: len(extra)])]
            blocks.append(block)
            self.endless = isinstance(block.results[0], Const) and bool(block.results[0].data)
            with self._region([*extra, *types]) as (block, params):
                stable = self._stage_body(params[: len(extra)], params[len(extra) :], block)
        else:
            with self._region([I64, *types]) as (block, params):
                stable = self._stage_body(params[:1], params[1:], block)
        blocks.append(block)

        def emit() -> Value | None:
            start = ([self.bounds[0]] if self.bounds else []) + ([ir.i64(FALL)] if self.jumps else [])
            if as_while:
                op = self.stage.builder.emit_control("while", [*start, *init], blocks)
                results = op.results[len(extra) :]
            else:
                assert self.bounds is not None
                op = self.stage.builder.emit_control("for", [*self.bounds, *init], blocks)
                results = op.results
            for result, param in zip(results, blocks[-1].params[len(blocks[-1].params) - len(results) :], strict=True):
                result.name = param.name
            self._finish(results)
            _check_orders(self.orders)
            return op.results[len(extra) - 1] if self.jumps else None

        return stable, emit

    def _region(self, types: list[Any]) -> Any:
        return _LoopRegion(self.stage, [Value(t) for t in types])

    def _bind(self, params: list[Value]) -> None:
        position = 0
        for slot, desc in self.descs.items():
            count = len(desc.types())
            if slot.kind == "cell":
                name = self.stage.name_of(slot.owner) or slot.owner.value.name
            else:
                name = str(slot.key or "") or self.stage.name_of(slot.owner)
            if count == 1 and name.isidentifier():
                params[position].name = name
            self.stage.heap.write(slot, self._rebuilt(slot, desc, iter(params[position : position + count])))
            position += count
        self.stage.heap.apply(self.notes.items())
        self.heads = {slot: slot.get() for slot in self.descs}
        self.contents = {slot: snapshot(head) for slot, head in self.heads.items()}

    def _rebuilt(self, slot: Slot, desc: Desc, values: Iterator[Value]) -> Any:
        new = desc.rebuild(values, self.ambiguous.get(slot, ""))
        for array in arrays_in(new) if slot in self.merged else ():
            array.cell.merged = True
        return new

    def _condition(self, extra: list[Value]) -> Value:
        """Whether another iteration follows."""
        stage = self.stage
        mark = stage.heap.mark()
        go: Any = True
        if self.bounds is not None:
            _, stop, step = self.bounds
            up = ir.elementwise("lt", extra[0], stop)
            if isinstance(step, Const):
                go = Scalar(up if step.data > 0 else ir.elementwise("gt", extra[0], stop), weak=True)
            else:
                go = Scalar(
                    ir.where(ir.elementwise("gt", step, 0), up, ir.elementwise("gt", extra[0], stop)), weak=True
                )
        if self.jumps:
            running = ir.elementwise("eq", extra[-1], FALL)
            if self.bounds is not None:
                return ir.emit("and", st.as_value(go), running)
            return st.as_value(branch(stage, running, self._test, lambda: False), np.bool_)
        assert self.test is not None
        value = st.as_value(self.test(), np.bool_)
        if any(stage.heap.birth(s.owner) < self.birth for s in stage.heap.written(mark)):
            raise JoinFailure("the condition of a while loop that writes variables or arrays")
        return value

    def _test(self) -> Any:
        assert self.test is not None
        t = self.test()
        self.always = t is True
        return t

    def _stage_body(self, extra: list[Value], params: list[Value], block: Block) -> bool:
        stage = self.stage
        self._bind(params)
        if self.jumps:
            stage.heap.write(self.jump, FALL)
        mark = stage.heap.mark()
        index = None
        if self.bounds is not None:
            extra[0].name = self.index_name
            index = Scalar(extra[0], weak=True)
            stage.indices.add(extra[0])
        _, dead = conditional(stage, lambda: self.body(index))
        if dead:
            stage.heap.rollback(mark)
        self.orders = stage.heap.orders(mark)
        jump = self.jump.get()
        if self.always and not dead and not isinstance(jump, Scalar) and jump in (FALL, CONTINUE, MISSING):
            self.endless = True
        stable = self._widen(stage.heap.written(mark))
        if not stable:
            return False
        results = [leaf for slot, desc in self.descs.items() for leaf in desc.leaves(slot.get())]
        state: list[Value] = []
        if self.bounds is not None and self.jumps:
            state.append(ir.elementwise("add", extra[0], self.bounds[2]))
        if self.jumps:
            state.append(ir.i64(BREAK) if dead else _after_iteration(jump))
        block.results = state + results
        return True

    def _widen(self, written: dict[Slot, Any]) -> bool:
        """Extend the descriptions by what the body left in the slots; False when it must be staged again."""
        stable = True
        changed = {id(slot.owner) for slot in written}
        for slot in self.shared:
            if any(id(c) in changed for c in containers_in(self.heads[slot])):
                raise JoinFailure(f"{slot} holds a list or dict with another name, and the loop assigns and changes it")
        for slot, end in written.items():
            if slot in self.descs or slot == self.jump or self.stage.heap.birth(slot.owner) >= self.birth:
                continue
            if _is_note(slot):
                if end and slot not in self.notes:
                    self.notes[slot], stable = end, False
                continue
            entry = self._entry(slot)
            if entry is end or not self.wanted(slot):
                continue
            try:
                self.descs[slot] = join(entry, end, growing=slot.grows)
            except JoinFailure as failure:
                raise JoinFailure(f"{slot} holds {failure}") from None
            if slot.kind != "cell":
                self._meet(slot, entry, self.entry_names)
            stable = False
        for slot, head in self.heads.items():
            desc = self.descs[slot]
            end = slot.get()
            if end is head and slot in self.eager and ([*arrays_in(head)] or [*containers_in(head)]):
                del self.descs[slot]  # always the same object, which may be written
                self.eager.discard(slot)
                stable = False
                continue
            if end is head and not isinstance(end, list | dict):
                continue
            try:
                joined = unchanged(join(self.contents[slot], end, growing=slot.grows), desc)
            except JoinFailure as failure:
                raise JoinFailure(f"{slot} holds {failure}") from None
            if joined.signature() != desc.signature():
                self.descs[slot] = joined
                stable = False
        return self._aliases() and stable

    def _entry(self, slot: Slot) -> Any:
        """What the slot held before the loop: the oldest journal entry since then, or its present content."""
        for written, old in self.stage.heap.journal[self.entry_mark :]:
            if written == slot:
                return old
        return slot.get()

    def _aliases(self) -> bool:
        """Mark slots whose arrays may be one another in a later iteration; False when a new one was found."""
        before = len(self.ambiguous), len(self.notes), len(self.merged)
        names = References(self.stage, self.wanted)
        for slot in self.descs:
            if slot.kind != "cell":
                self._meet(slot, slot.get(), names)
        return before == (len(self.ambiguous), len(self.notes), len(self.merged))

    def _finish(self, results: list[Value]) -> None:
        values = iter(results)
        for slot, desc in self.descs.items():
            self.stage.heap.write(slot, self._rebuilt(slot, desc, values))
        self.stage.heap.apply(self.notes.items())


class _LoopRegion:
    """A region whose heap writes are taken back at its end."""

    def __init__(self, stage: Stage, params: list[Value]):
        self.stage = stage
        self.params = params

    def __enter__(self) -> tuple[Block, list[Value]]:
        self.mark = self.stage.heap.mark()
        self.context = self.stage.region(self.params)
        return self.context.__enter__(), self.params

    def __exit__(self, *exc: Any) -> None:
        self.context.__exit__(*exc)
        self.stage.heap.rollback(self.mark)


def _after_iteration(jump: Any) -> Value:
    """The jump code that the next test of the loop sees: ``continue`` has done its work."""
    if isinstance(jump, Scalar):
        return ir.where(ir.elementwise("eq", jump.value, CONTINUE), ir.i64(FALL), jump.value)
    return ir.i64(FALL if jump in (CONTINUE, MISSING) else jump)


_MAX_ROUNDS = 24
