"""Save, recompute, re-read: where the backward sweep gets the primal values it refers to.

The backward sweep of a region refers to primal values freely. When it is complete, :meth:`Saver.resolve` replaces what
is defined in the primal region itself (what is defined further out is the enclosing region's affair):

- lengths of axes are expressed by what is known before the loop, the loop index is the backward loop's index;
- a minimum cut decides which values are saved; all others are recomputed from them at the start of the backward body;
- in an ``if`` a saved value becomes one more result of the ``if``;
- in a ``for`` that is not inside another loop a value of known shape gets a row per iteration in an array allocated
  before the loop; everything else is pushed on a sequence that is carried through all enclosing loops, and popped in
  the backward sweep in the opposite order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gradsmith.ir.builder import Builder, elementwise, emit, full, i64, index, set_at, static_int
from gradsmith.ir.describe import describe
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Block, Const, Op, Value, copy_op, free_values
from gradsmith.ir.types import I64, ArrayType, SeqType, Type
from gradsmith.transforms.activity import loop_slots
from gradsmith.transforms.edit import (
    add_carried,
    emitting_after,
    emitting_before,
    replace_values,
    rewrite_ops,
    sweep,
)
from gradsmith.transforms.mincut import minimum_cut
from gradsmith.transforms.shapes import Expr, Shapes, atoms, evaluate

#: operations cheap enough to be run again in the backward sweep
RECOMPUTED = frozenset(ELEMENTWISE) | {
    *("full", "iota", "dim", "reshape", "transpose", "broadcast_to", "index", "set", "add_at", "concatenate")
}

#: what a value is recomputed from; None if it can only be saved
Operands: TypeAlias = Callable[[Value], Sequence[Value] | None]


@dataclass(eq=False)
class Stack:
    """A saved value that is pushed in the forward and popped in the backward sweep.

    ``full`` is the filled sequence, ``entry`` what the backward sweep starts with: the sequence or, where it may not be
    used up, its length.
    """

    full: Value
    entry: Value


@dataclass(eq=False)
class Frame:
    """A primal region whose backward sweep is being built."""

    op: Op | None
    block: Block
    parent: Frame | None
    owned: set[Value]
    #: the backward loop's index (of a while loop: the number of the iteration)
    index: Value | None = None
    #: what the backward sweep carries for every stack: the value on entry and on leaving
    stacks: dict[Stack, list[Value]] = field(default_factory=dict)

    @staticmethod
    def of(op: Op, block: Block, parent: Frame, index: Value | None = None) -> Frame:
        owned = set(block.params)
        for inner in block.ops:
            owned.update(inner.results)
        return Frame(op, block, parent, owned, index)

    @property
    def chain(self) -> list[Frame]:
        """The frames from below the outermost one down to this one."""
        return [*self.parent.chain, self] if self.parent else []

    @property
    def is_loop(self) -> bool:
        return self.op is not None and self.op.name in ("for", "while")


def trip_count(start: Value, stop: Value, step: Value) -> Value:
    """The number of iterations of ``range(start, stop, step)``."""
    if static_int(step) == 1:
        span = stop if static_int(start) == 0 else stop - start
    else:
        span = -elementwise("floordiv", start - stop, step)  # type: ignore[operator]
    return elementwise("maximum", span, 0)


def iteration(op: Op, index: Value) -> Value:
    """The number of the iteration of a ``for`` whose loop index is ``index``."""
    start, _, step = op.args[:3]
    if static_int(step) == 1:
        return index if static_int(start) == 0 else index - start
    return elementwise("floordiv", index - start, step)


class Saver:
    """Saves values of the forward sweep for one backward sweep.

    ``linear``: the backward sweep runs once for each forward sweep, so sequences may be used up.
    """

    def __init__(self, b: Builder, shapes: Shapes, linear: bool):
        self.b = b
        self.shapes = shapes
        self.linear = linear
        self._counters: dict[Op, Value] = {}

    def resolve(self, frame: Frame, backward: Block) -> None:
        """Make ``backward``, the backward sweep of ``frame``, independent of the values defined in ``frame.block``."""
        sweep(backward)
        dims = self._forward_dims(frame, backward)
        with self.b.region() as prelude:
            mapping = self._substitutes(frame)
            needed = [v for v in free_values(backward) if v in frame.owned and v not in mapping]
            operands = self._operands(frame, mapping)
            saved = minimum_cut(needed, operands, _weight)
            for v in [*frame.block.params, *(r for op in frame.block.ops for r in op.results)]:
                if v in saved:
                    mapping[v] = self._save(frame, v)
            again = _to_recompute(needed, operands, saved)
            for op in frame.block.ops:
                if not again.isdisjoint(op.results):
                    self._recompute(op, mapping)
        backward.ops = prelude.ops + backward.ops
        replace_values(backward, mapping)
        sweep(backward)
        frame.block.ops = [op for op in frame.block.ops if op not in dims or op.result in saved]
        frame.owned.difference_update(d.result for d in dims if d.result not in saved)

    def _forward_dims(self, frame: Frame, backward: Block) -> list[Op]:
        """Replace lengths of primal arrays of ``frame`` by primal values, so that they are resolved like data."""
        primal: dict[tuple[Value, int], Value] = {}
        mapping: dict[Value, Value] = {}
        rewrite_ops(backward, lambda op: self._zeros(frame, op))
        for op in list(backward.walk()):
            if op.name not in ("dim", "seq_len") or op.args[0] not in frame.owned:
                continue
            key = op.args[0], op.attrs.get("axis", 0)
            if key not in primal:
                with emitting_after(self.b, frame.block, key[0]):
                    primal[key] = emit(op.name, key[0], **op.attrs)
                frame.owned.add(primal[key])
            mapping[op.result] = primal[key]
        replace_values(backward, mapping)
        sweep(backward)
        return [v.op for v in primal.values() if v.op is not None]

    def _zeros(self, frame: Frame, op: Op) -> list[Op] | None:
        """A sequence of zeros like a primal one that needs no more than its length, if its elements have one shape."""
        if op.name != "seq_zeros" or op.args[0] not in frame.owned:
            return None
        s = op.args[0]
        dims = self.shapes.elements(s)
        if dims is None:
            return None
        elem = s.type.elem  # type: ignore[union-attr]
        with self.b.region() as block:
            zeros = full(Const(0, ArrayType(elem.dtype)), [emit("seq_len", s), *map(evaluate, dims)])  # type: ignore[union-attr]
            self.b.block.ops.append(Op("seq_unstack", [zeros], {}, (), [s.type], op.loc))
        new = block.ops[-1]
        new.results, op.results = op.results, new.results
        new.results[0].op = new
        return block.ops

    def _substitutes(self, frame: Frame) -> dict[Value, Value]:
        """Parameters of a loop body that need not be saved: the index, what never changes, what counts iterations."""
        mapping: dict[Value, Value] = {}
        if not frame.is_loop:
            return mapping
        assert frame.op is not None and frame.index is not None
        if frame.op.name == "for":
            mapping[frame.block.params[0]] = frame.index
        inits, params = loop_slots(frame.op)
        for init, param, end in zip(inits, params, frame.block.results, strict=False):
            if end is param:
                mapping[param] = init
            elif (increment := _increment(param, end, frame)) is not None:
                number = frame.index if frame.op.name == "while" else iteration(frame.op, frame.index)
                if frame.op.attrs.get("reverse"):
                    number = trip_count(*frame.op.args[:3]) - i64(1) - number
                mapping[param] = init + number * increment
        return mapping

    def _operands(self, frame: Frame, mapping: dict[Value, Value]) -> Operands:
        def operands(v: Value) -> Sequence[Value] | None:
            if v.op is None or not _is_cheap(v.op) or isinstance(v.type, SeqType):
                return None
            used: Sequence[Value] = v.op.args
            if v.op.name == "dim":
                expr = self.shapes.dim(v.op.args[0], v.op.attrs["axis"])
                used = list(atoms(expr))
                if any(isinstance(a, Value) and a.ndim and a in frame.owned for a in used):
                    return None
            return [a for a in used if a in frame.owned and a not in mapping]

        return operands

    def _recompute(self, op: Op, mapping: dict[Value, Value]) -> None:
        self.b.loc = op.loc
        if op.name == "dim":
            length = evaluate(self.shapes.dim(op.args[0], op.attrs["axis"]))
            mapping[op.result] = mapping.get(length, length)
        else:
            self.b.block.ops.append(copy_op(op, mapping))

    # Saving -----------------------------------------------------------------------------------------------------------

    def _save(self, frame: Frame, v: Value) -> Value:
        """Save ``v`` in the forward sweep; returns it as read at the present place of the backward sweep."""
        assert frame.op is not None
        self.b.loc = frame.op.loc
        if not frame.is_loop:
            return self._escape(frame, v)
        nested = any(outer.is_loop for outer in frame.chain[:-1])
        rows = frame.op.name == "for" and (not nested or _updates_arrays_only(frame.op))
        if rows and isinstance(v.type, ArrayType):
            dims = [self.shapes.dim(v, k) for k in range(v.ndim)]
            if all(a not in frame.owned for dim in dims for a in atoms(dim)):
                return self._save_row(frame, v, dims)
        return self._push(frame, v)

    def _escape(self, frame: Frame, v: Value) -> Value:
        """``v``, defined in a branch, as one more result of the ``if``: empty when the other branch is taken."""
        assert frame.op is not None and frame.parent is not None
        for region in frame.op.regions:
            if region is frame.block:
                region.results.append(v)
                continue
            with self.b.region() as block:
                region.results.append(_empty(v.type))
            region.ops += block.ops
        result = frame.op.add_result(v.type, v.name)
        frame.parent.owned.add(result)
        return result

    def _save_row(self, frame: Frame, v: Value, dims: Sequence[Expr]) -> Value:
        loop = frame.op
        assert loop is not None and frame.parent is not None and frame.index is not None
        with emitting_before(self.b, frame.parent.block, loop):
            zero = Const(0, v.type.with_ndim(0))  # type: ignore[union-attr]
            rows = full(zero, [trip_count(*loop.args[:3]), *map(evaluate, dims)])
        carried = add_carried(loop, rows)
        carried.name = _saved(v)
        spec = ["i", *":" * v.ndim]
        with emitting_after(self.b, frame.block, v):
            number = iteration(loop, frame.block.params[0])
            frame.block.results[-1] = set_at(carried, v, spec, [number], checked=True, saved=True)
        loop.results[-1].name = carried.name
        frame.parent.owned.add(loop.results[-1])
        row = index(loop.results[-1], spec, [iteration(loop, frame.index)], checked=True)
        row.name = v.name
        return row

    def _push(self, frame: Frame, v: Value) -> Value:
        stack = self._new_stack(frame, v)
        if self.linear:
            rest, value = emit("seq_pop", frame.stacks[stack][0])
        else:
            rest = frame.stacks[stack][0] - i64(1)
            value = emit("seq_get", stack.full, rest)
        value.name = v.name
        frame.stacks[stack][1] = rest
        return value

    def _new_stack(self, frame: Frame, v: Value) -> Stack:
        """A sequence carried through all enclosing regions that ``v`` is pushed on at its definition."""
        chain = frame.chain
        outermost = chain[0]
        assert outermost.parent is not None and outermost.op is not None
        top = outermost.parent.block
        with emitting_before(self.b, top, outermost.op):
            sequence: Value = emit("seq_new", elem=v.type)
            sequence.name = _saved(v)
        for f in chain:
            assert f.op is not None
            if f.is_loop:
                sequence = add_carried(f.op, sequence)
            else:
                f.op.add_result(sequence.type)
                for region in f.op.regions:
                    region.results.append(sequence)
        with emitting_after(self.b, frame.block, v):
            frame.block.results[-1] = emit("seq_push", sequence, v, saved=True)
        for outer, inner in zip(chain[:-1], chain[1:], strict=True):
            assert inner.op is not None
            outer.block.results[-1] = inner.op.results[-1]
        entry = sequence = outermost.op.results[-1]
        if not self.linear:
            with emitting_after(self.b, top, sequence):
                entry = emit("seq_len", sequence)
        stack = Stack(sequence, entry)
        for f in chain:
            entry = Value(entry.type) if f.is_loop else entry
            f.stacks[stack] = [entry, entry]
        return stack

    def count_iterations(self, frame: Frame, loop: Op) -> Value:
        """The number of iterations that the while loop ``loop`` of ``frame`` has made."""
        if loop not in self._counters:
            number = add_carried(loop, i64(0))
            number.name = "count"
            body = loop.regions[1]
            with emitting_after(self.b, body, number):
                body.results[-1] = number + i64(1)
            self._counters[loop] = loop.results[-1]
            frame.owned.add(loop.results[-1])
        return self._counters[loop]


def _saved(v: Value) -> str:
    """A name for what keeps the values that ``v`` has had."""
    name = v.name or (describe(v.op, lambda a: a.name) if v.op is not None else "")
    if name.endswith("_saved"):
        return f"{name}_rows"
    return f"{name}_saved" if name else "saved"


def _updates_arrays_only(loop: Op) -> bool:
    """Whether a loop is innermost and carries arrays only: it may be vectorised, unless it pushes on a stack."""
    body = loop.regions[-1]
    return not any(op.regions for op in body.ops) and all(
        isinstance(p.type, ArrayType) and p.ndim for p in loop_slots(loop)[1]
    )


def _is_cheap(op: Op) -> bool:
    return op.name in RECOMPUTED or (op.name == "call" and not op.regions[0].ops)


def _to_recompute(needed: Iterable[Value], operands: Operands, saved: set[Value]) -> set[Value]:
    """``needed`` and all it is recomputed from, without what is saved."""
    again: set[Value] = set()
    pending = [v for v in needed if v not in saved]
    while pending:
        v = pending.pop()
        if v not in again:
            again.add(v)
            pending += [a for a in operands(v) or () if a not in saved]
    return again


def _weight(v: Value) -> int:
    """The relative cost of saving a value: its bytes, arrays counted as if every axis had 64 elements."""
    type, depth = v.type, 0
    while isinstance(type, SeqType):
        type, depth = type.elem, depth + 1
    return type.dtype.itemsize * 64 ** (type.ndim + depth)


def _increment(param: Value, end: Value, frame: Frame) -> Value | None:
    """``c`` if a carried integer becomes ``param + c`` in every iteration."""
    if param.type != I64 or end.op is None or end.op.name != "add" or param not in end.op.args:
        return None
    x, y = end.op.args
    c = y if x is param else x
    return None if c in frame.owned else c


def _empty(type: Type) -> Value:
    """Some value of ``type``, as small as possible."""
    if isinstance(type, SeqType):
        return emit("seq_new", elem=type.elem)
    zero = Const(0, type.with_ndim(0))
    return full(zero, [0] * type.ndim) if type.ndim else zero
