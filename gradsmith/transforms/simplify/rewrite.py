"""One walk over a Program in program order: algebra, common subexpressions, loop invariants, known control flow."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradsmith.ir.checker import CONSUMES_SEQUENCE
from gradsmith.ir.ops import CONTROL, EFFECTS, ELEMENTWISE
from gradsmith.ir.program import Block, Const, Op, Program, Value
from gradsmith.ir.types import BOOL, I64, ArrayType, SeqType
from gradsmith.transforms.simplify import motion
from gradsmith.transforms.simplify.algebra import apply_rules
from gradsmith.transforms.simplify.counted import Count, as_for, counter
from gradsmith.transforms.simplify.dce import keep_carried
from gradsmith.transforms.simplify.folding import fold
from gradsmith.transforms.simplify.ranges import Ranges
from gradsmith.transforms.simplify.shapes import Key, Shapes

_COMMUTATIVE = frozenset({"add", "mul", "eq", "ne", "and", "or", "xor"})
_INDEXED = frozenset({"index", "set", "add_at"})
_FALSE = Const(False, BOOL)
_SHORT_TEST = 3  # operations in a branch that are done in any case, to have no branch
_LARGE_CONST = 4096  # bytes; larger constants are compared by identity


@dataclass
class _Frame:
    """A block being rewritten."""

    loop: bool  # a loop's body or condition, out of which invariants may move
    certain: bool = False  # whether it runs at least once whenever its operation is reached
    clean: bool = True  # whether nothing kept in it so far can raise
    learned: int = 0  # mark of the facts about shapes known at its entry
    ops: list[Op] = field(default_factory=list)
    entered: list[Hashable] = field(default_factory=list)  # expressions known in this block and below
    holding: list[Value] = field(default_factory=list)  # conditions that are known after a check of them


class Rewriter:
    """Rewrites the blocks of a Program in place."""

    def __init__(self, program: Program):
        self.replaced: dict[Value, Value] = {}
        self.shapes = Shapes(program, self.replaced)
        self.ranges = Ranges(self.shapes)
        self.again = False  # whether another round may find more
        self.mismatches: dict[
            Op, list[tuple[Key, Key]]
        ] = {}  # top-level operations that raise unless lengths are equal
        self._known: dict[Hashable, Value | None] = {}
        self._frames: list[_Frame] = []
        self._depth: dict[Value, int] = {}
        self._rows: dict[Value, Value] = {}  # arrays saved in a loop all of whose rows are this value
        self._choices: dict[Value, list[Op]] = {}  # for a condition: what was chosen by it

    def run(self, block: Block) -> None:
        self._block(block, _Frame(loop=False))

    def materialise(self, key: Key) -> Value | None:
        """A Value that holds the length named by ``key``, if there is one."""
        if isinstance(key, int):
            return Const(np.int64(key))
        return key if isinstance(key, Value) else None

    # --- blocks and operations ---

    def _block(self, block: Block, frame: _Frame) -> None:
        frame.learned = self.shapes.mark()
        self._frames.append(frame)
        depth = len(self._frames) - 1
        for param in block.params:
            self._depth[param] = depth
        for op in block.ops:
            self._op(op)
        block.ops = frame.ops
        block.results = [self._resolve(r) for r in block.results]
        self._frames.pop()
        for key in frame.entered:
            del self._known[key]
        for condition in frame.holding:
            del self.replaced[condition]
        self.shapes.forget(frame.learned)

    def _op(self, op: Op) -> None:
        replaced = self.replaced
        op.args = [self._resolve(a) for a in op.args]
        if op.name in CONTROL:
            self._control(op)
            return
        if op.name in ("effect", "call"):
            self._append(op)
            return
        if op.name in EFFECTS:
            self._check(op)
            return
        if op.name in ELEMENTWISE and len(op.args) > 1 and (shapes := self.shapes.contradiction(op.args)):
            message = f"operands could not be broadcast together with shapes {shapes}"
            self._check(Op("check", [_FALSE], {"error": ValueError, "message": message}, loc=op.loc))
        outcome = self._constant_row(op) or fold(op) or apply_rules(self, op)
        if isinstance(outcome, Op):
            self._op(outcome)
            outcome = replaced.get(outcome.results[0], outcome.results[0])
        if outcome is not None:
            self._replace(op.results[0], outcome)
            return
        key = ("dim", self.shapes.dims(op.args[0])[op.attrs["axis"]]) if op.name == "dim" else _expression(op)
        if key is not None and (earlier := self._known.get(key)) is not None:
            for old, new in zip(op.results, earlier.op.results, strict=True):  # type: ignore[union-attr]
                self._replace(old, new)
            return
        self._place(op, key)

    def _resolve(self, value: Value) -> Value:
        """What ``value`` was replaced by; twice, since that may be the condition of a branch, known inside it."""
        value = self.replaced.get(value, value)
        return self.replaced.get(value, value)

    def _replace(self, old: Value, new: Value) -> None:
        if old is new:
            return
        self.replaced[old] = new
        if old.name and not new.name and not isinstance(new, Const):
            new.name = old.name

    def _place(self, op: Op, key: Hashable | None) -> None:
        """Append ``op`` to the current block, or to an outer one if it is invariant in the loops between."""
        if op.name in _INDEXED and not op.attrs.get("checked") and self.ranges.proves(op):
            if any(e == "i" for e in op.attrs["spec"]):
                op.attrs["checked"] = True
        depth = self._destination(op)
        frame = self._frames[depth]
        frame.ops.append(op)
        for result in op.results:
            self._depth[result] = depth
            self.shapes.dims(result)
        if key is not None:
            self._known[key] = op.results[0]
            frame.entered.append(key)
        if len(op.args) > 1:
            self._facts(op, depth)
        if op.name == "where" and not op.args[0].ndim and depth == len(self._frames) - 1:
            self._choices.setdefault(op.args[0], []).append(op)
        if frame.clean and frame.certain and not motion.cannot_raise(op, self.shapes, self.ranges):
            frame.clean = False

    def _facts(self, op: Op, depth: int) -> None:
        if op.name in ELEMENTWISE and depth == len(self._frames) - 1:
            learned = self.shapes.learn(op.args)
            if learned and depth == 0:
                self.mismatches[op] = learned

    def _destination(self, op: Op) -> int:
        """The depth of the block ``op`` goes to."""
        depth = best = len(self._frames) - 1
        if depth == 0 or motion.fixed(op):
            return depth
        needed = max((self._depth.get(a, 0) for a in op.args if not isinstance(a, Const)), default=0)
        safe = None
        while depth > needed:
            frame = self._frames[depth]
            if not frame.loop and not motion.cheap(op):
                break
            if not (frame.certain and frame.clean):
                if motion.uses_shapes(op) and self.shapes.mark() != frame.learned:
                    break
                if safe is None:
                    safe = motion.cannot_raise(op, self.shapes, self.ranges)
                if not safe:
                    break
            depth -= 1
            if frame.loop:
                best = depth
        return best

    # --- effects and control ---

    def _check(self, op: Op) -> None:
        """A check that holds disappears; so does one that repeats an earlier one. Equal lengths are noted."""
        condition = op.args[0]
        if isinstance(condition, Const) and condition.data:
            return
        key = (op.name, condition)
        if key in self._known:
            return
        frame = self._frames[-1]
        frame.clean = False
        frame.ops.append(op)
        self._known[key] = None
        frame.entered.append(key)
        self._holds(condition, True)
        if condition.op is not None and condition.op.name == "eq":
            x, y = condition.op.args
            self.shapes.learn_equal(*map(self.shapes.length, (x, y)))
            if len(self._frames) == 1 and x.type == I64 and isinstance(y, Const) and op.name == "guard":
                self.replaced.setdefault(x, y)

    def _holds(self, condition: Value, value: bool) -> None:
        """A condition is known from here on, in this block and below."""
        if condition not in self.replaced and not isinstance(condition, Const):
            self.replaced[condition] = Const(value, BOOL)
            self._frames[-1].holding.append(condition)
            if condition.op is not None and condition.op.name == "not":
                self._holds(condition.op.args[0], not value)

    def _control(self, op: Op) -> None:
        if op.name == "if":
            self._if(op)
            return
        self._invariant_carried(op)
        if op.name == "for" and all(isinstance(a, Const) for a in op.args[:3]):
            bounds = [int(a.data) for a in op.args[:3] if isinstance(a, Const)]
            trips = len(range(*bounds)) if bounds[2] else 2
            if trips == 0:
                self._become(op, op.args[3:])
                return
            if trips == 1:
                self._inline(op.regions[0], [op.args[0], *op.args[3:]])
                self._become(op, op.regions[0].results)
                return
            self._loop(op, certain=True)
        else:
            self._loop(op, certain=False)

    def _become(self, op: Op, values: list[Value]) -> None:
        """``values`` take the place of the results of ``op``."""
        self.again = True
        for result, value in zip(op.results, values, strict=True):
            self._replace(result, self.replaced.get(value, value))

    def _inline(self, region: Block, args: list[Value]) -> None:
        """Rewrite the operations of a region in the current block."""
        for param, arg in zip(region.params, args, strict=True):
            self._replace(param, arg)
        for inner in region.ops:
            self._op(inner)

    def _invariant_carried(self, op: Op) -> None:
        """A carried value that the body hands on unchanged is its initial value."""
        body = op.regions[-1]
        first = len(body.params) - len(op.results)
        initial = op.args[len(op.args) - len(op.results) :]
        keep = []
        for k, (param, result, init) in enumerate(zip(body.params[first:], body.results, initial, strict=True)):
            if not (result is param or _same(result, init)):
                keep.append(k)
                continue
            for value in (param, op.results[k], *(r.params[k] for r in op.regions[:-1])):
                self._replace(value, init)
        if len(keep) < len(op.results):
            keep_carried(op, keep)

    def _loop(self, op: Op, certain: bool) -> None:
        self.shapes.enter_loop(op)
        if op.name == "for":
            self.ranges.enter_loop(op)
        for region in op.regions:
            condition = op.name == "while" and region is op.regions[0]
            self._block(region, _Frame(loop=True, certain=certain or condition))
        body = op.regions[-1]
        params = body.params[len(body.params) - len(op.results) :]
        initial = op.args[len(op.args) - len(op.results) :]
        if any(r is p or _same(r, i) for r, p, i in zip(body.results, params, initial, strict=True)):
            self.again = True
        self._note_constant_rows(op, params)
        if op.name == "while" and isinstance(stop := op.regions[0].results[0], Const) and not stop.data:
            self._become(op, initial)
            return
        if op.name == "while" and (count := counter(op)) is not None:
            self._counted(op, count)
            return
        self._append(op)

    def _counted(self, op: Op, count: Count) -> None:
        """A ``while`` that counts becomes a ``for``."""
        sign = 1 if count.step > 0 else -1
        start, stop = count.start, count.stop
        if count.inclusive:
            stop = self._emit(op, "add", stop, Const(sign, I64))
        loop = as_for(op, count, stop)
        self._append(loop)
        if abs(count.step) == 1:
            last = self._emit(op, "maximum" if sign > 0 else "minimum", start, stop)
        else:
            span = self._emit(op, "add", self._emit(op, "sub", stop, start), Const(count.step - sign, I64))
            trips = self._emit(op, "maximum", self._emit(op, "floordiv", span, Const(count.step, I64)), Const(0, I64))
            last = self._emit(op, "add", start, self._emit(op, "mul", trips, Const(count.step, I64)))
        results = list(loop.results)
        results.insert(count.position, last)
        self._become(op, results)

    def _emit(self, like: Op, name: str, *args: Value) -> Value:
        """The value of a new operation on int64 scalars at the current place."""
        op = Op(name, args, {}, (), [I64], like.loc)
        self._op(op)
        return self._resolve(op.result)

    def _note_constant_rows(self, op: Op, params: list[Value]) -> None:
        """Rows saved in a loop that are all the same value, from outside of it, need not be read."""
        depth = len(self._frames) - 1
        for result, end, param in zip(op.results, op.regions[-1].results, params, strict=True):
            if end.op is None or end.op.name != "set" or not end.op.attrs.get("saved") or end.op.args[0] is not param:
                continue
            row = end.op.args[1]
            if isinstance(row, Const) or self._depth.get(row, depth + 1) <= depth:
                self._rows[result] = row

    def _constant_row(self, op: Op) -> Value | None:
        row = self._rows.get(op.args[0]) if op.name == "index" else None
        if row is None or list(op.attrs["spec"]) != ["i", *":" * (op.args[0].ndim - 1)]:
            return None
        self.again = True
        return row

    def _append(self, op: Op) -> None:
        """Append an operation that is neither moved nor merged; regions of control operations have been rewritten."""
        frame = self._frames[-1]
        frame.clean = False
        frame.ops.append(op)
        for result in op.results:
            self._depth[result] = len(self._frames) - 1
        if op.name == "if":
            self._choices.setdefault(op.args[0], []).append(op)

    def _if(self, op: Op) -> None:
        condition = op.args[0]
        if isinstance(condition, Const):
            chosen = op.regions[0 if condition.data else 1]
            self._inline(chosen, [])
            self._become(op, chosen.results)
            return
        if condition.op is not None and condition.op.name == "not":
            op.args, op.regions = condition.op.args[:], op.regions[::-1]
            self._if(op)
            return
        ops = self._frames[-1].ops
        before = ops[-1] if ops and ops[-1].name == "if" and ops[-1].args[0] is condition else None
        for k, region in enumerate(op.regions):
            known = self._chosen(condition, k, before)
            self.replaced.update(known)
            self._block(region, _Frame(loop=False))
            for value in known:
                del self.replaced[value]
        if before is not None:
            self._join(before, op)
            return
        if _is_test(op):
            for region in op.regions:
                self._inline(region, [])
                region.ops, region.results = [], [self._resolve(r) for r in region.results]
        self.shapes.leave_if(op)
        then, other = (region.results for region in op.regions)
        simple = not any(region.ops for region in op.regions)
        keep = []
        for k, (x, y) in enumerate(zip(then, other, strict=True)):
            if _same(x, y):
                self._replace(op.results[k], x)
            elif simple and isinstance(x.type, ArrayType) and x.ndim == 0:
                select = Op("where", [condition, x, y], {}, (), [x.type], op.loc)
                select.results[0].name = op.results[k].name
                self._op(select)
                self._replace(op.results[k], self.replaced.get(select.results[0], select.results[0]))
            else:
                keep.append(k)
        if len(keep) < len(op.results):
            keep_carried(op, keep)
        if keep or not simple:
            self._append(op)

    def _chosen(self, condition: Value, k: int, before: Op | None) -> dict[Value, Value]:
        """What is known where ``condition`` holds (k = 0) or not (1): itself, and what it has chosen.

        Values of a region are known in the same region of the next ``if``, which it will be joined with: ``before``.
        """
        known: dict[Value, Value] = {condition: Const(k == 0, BOOL)}
        for op in self._choices.get(condition, ()):
            chosen = [op.args[1 + k]] if op.name == "where" else op.regions[k].results
            for result, value in zip(op.results, chosen, strict=True):
                if value.type != result.type:
                    continue  # a number that broadcasts
                outside = isinstance(value, Const) or self._depth.get(value, 0) <= self._depth[result]
                linear = isinstance(result.type, SeqType)  # used once: by the operation that chose it
                if (op is before or (outside and not linear)) and result not in self.replaced:
                    known[result] = value
        return known

    def _join(self, before: Op, op: Op) -> None:
        """Let the ``if`` before ``op``, on the same condition, do what ``op`` does, too.

        A sequence that it handed to ``op``, which is used once, is no result any more.
        """
        used_up = {value for region in op.regions for value in _consumed(region)}
        handed = [
            isinstance(r.type, SeqType) and any(region.results[k] in used_up for region in before.regions)
            for k, r in enumerate(before.results)
        ]
        if any(handed):
            keep_carried(before, [k for k, gone in enumerate(handed) if not gone])
        for region, more in zip(before.regions, op.regions, strict=True):
            region.ops += more.ops
            region.results += more.results
        before.results += op.results
        for result in op.results:
            result.op = before
            self._depth[result] = len(self._frames) - 1
        op.results = []
        self.shapes.leave_if(before)
        self.again = True


def _consumed(block: Block) -> set[Value]:
    """What a block and the regions in it hand on or use up."""
    found = set(block.results)
    for op in block.walk():
        if op.name in CONSUMES_SEQUENCE or op.regions:
            found.update(op.args, *(region.results for region in op.regions))
    return found


def _is_test(op: Op) -> bool:
    """Whether an ``if`` is written for ``and`` or ``or``: it gives one bool, after cheap steps if at all."""
    if [r.type for r in op.results] != [BOOL] or not any(isinstance(r.results[0], Const) for r in op.regions):
        return False
    steps = [inner for region in op.regions for inner in region.ops]
    return len(steps) <= _SHORT_TEST and all(inner.name in ELEMENTWISE and motion.cheap(inner) for inner in steps)


def _same(x: Value, y: Value) -> bool:
    return x is y or (isinstance(x, Const) and isinstance(y, Const) and _const_key(x) == _const_key(y))


def _expression(op: Op) -> Hashable | None:
    """Equal for operations that compute equal values; None for operations that are not merged."""
    if op.name == "full" or not op.results or (op.name.startswith("seq_") and op.name not in ("seq_get", "seq_len")):
        return None
    args: list[Any] = [_const_key(a) if isinstance(a, Const) else a for a in op.args]
    if op.name in _COMMUTATIVE:
        args.sort(key=hash)
    if not op.attrs:
        return (op.name, *args)
    attrs = tuple((k, _hashable(v)) for k, v in sorted(op.attrs.items()) if k != "checked")
    return (op.name, attrs, *args)


def _const_key(value: Const) -> Hashable:
    if np.asarray(value.data).nbytes > _LARGE_CONST:
        return value
    return (value.type, np.shape(value.data), value.data.tobytes())


def _hashable(attr: Any) -> Hashable:
    if isinstance(attr, dict):
        return tuple((k, _hashable(v)) for k, v in sorted(attr.items()))
    if isinstance(attr, list | tuple):
        return tuple(map(_hashable, attr))
    return attr if isinstance(attr, Hashable) else ("attr", id(attr))
