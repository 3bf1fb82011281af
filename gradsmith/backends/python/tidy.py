"""What a person would write otherwise: rewrites of a Program that is only shown. Results stay equal to rounding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gradsmith.backends.hosted import SUCCEEDED
from gradsmith.ir.ops import ELEMENTWISE, infer
from gradsmith.ir.program import Block, Const, Op, Value, copy_op
from gradsmith.ir.types import F64, I64
from gradsmith.transforms.simplify.dce import remove_dead

_ROUNDS = 3
_LONGEST_LIST = 12  # elements of an array written as a list of them

#: the operations that replace one, of which the last gives its value; or a value that exists
Outcome: TypeAlias = "Sequence[Op] | Value | None"


def tidy(block: Block) -> None:
    """Rewrite ``block`` in place."""
    _drop_implied_checks(block, {})
    for _ in range(_ROUNDS):
        _Round(block).run(block)
        remove_dead(block)
    _fill_results(block)
    _repeat_leaves(block)
    remove_dead(block)


# --- checks that the NumPy code that follows makes itself ---


def _drop_implied_checks(block: Block, known: dict[Value, bool]) -> None:
    block.ops = [op for op in block.ops if not (op.name == "check" and _is_implied(op, known))]
    for op in block.ops:
        for region in op.regions:
            _drop_implied_checks(region, known)


def _is_implied(op: Op, known: dict[Value, bool]) -> bool:
    error = op.attrs["error"]
    if op.attrs.get("raised"):
        return False  # by the user's own statement
    if error is ZeroDivisionError or op.attrs["message"] == "list index out of range":
        return True
    if "fractional power" in op.attrs["message"]:
        return True
    lengths = issubclass(error, ValueError) and not isinstance(op.args[0], Const)
    return lengths and _of_lengths(op.args[0], known)


def _of_lengths(value: Value, known: dict[Value, bool]) -> bool:
    """Whether a number is computed from nothing but lengths of axes."""
    if value not in known:
        op = value.op
        known[value] = isinstance(value, Const) or (
            op is not None
            and (op.name == "dim" or (op.name in ELEMENTWISE and all(_of_lengths(a, known) for a in op.args)))
        )
    return known[value]


# --- algebra ---


class _Round:
    """One walk over a block and its regions."""

    def __init__(self, block: Block):
        self.uses: Counter[Value] = Counter(block.results)
        for op in block.walk():
            self.uses.update(op.args)
            for region in op.regions:
                self.uses.update(region.results)
        self.replaced: dict[Value, Value] = {}

    def run(self, block: Block) -> None:
        ops: list[Op] = []
        for op in block.ops:
            op.args = [self._now(a) for a in op.args]
            for region in op.regions:
                self.run(region)
            rule = _RULES.get(op.name)
            outcome = rule(self, op) if rule else None
            if op.name == "guard" and isinstance(op.args[0], Const) and op.args[0].data:
                continue
            if outcome is None:
                ops.append(op)
            elif isinstance(outcome, Value):
                self.replaced[op.result] = outcome
            else:
                ops += outcome
                new = outcome[-1].result
                new.name = new.name or op.result.name
                self.replaced[op.result] = new
        block.ops = ops
        block.results = [self._now(r) for r in block.results]

    def _now(self, value: Value) -> Value:
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def once(self, value: Value, *names: str) -> Op | None:
        """The operation that makes ``value``, if it is one of these and nobody else uses its result."""
        op = value.op
        return op if op is not None and op.name in names and self.uses[value] == 1 and not value.name else None


def _op(like: Op, name: str, *args: Value, **attrs: object) -> Op:
    return Op(name, args, attrs, (), infer(name, args, attrs), like.loc)


def _number(value: Value) -> float | None:
    """A finite real floating-point constant."""
    if isinstance(value, Const) and value.ndim == 0 and value.dtype.kind == "f" and np.isfinite(value.data):
        return float(value.data)
    return None


def _scaled(op: Op, factor: float, x: Value) -> Outcome:
    """``factor * x``."""
    if factor == 1.0:
        return x
    return [_op(op, "neg", x)] if factor == -1.0 else [_op(op, "mul", Const(factor, x.type.with_ndim(0)), x)]  # type: ignore[union-attr]


def _factor(round: _Round, value: Value) -> tuple[float, Value] | None:
    """``value`` as a number times another value."""
    if (negated := round.once(value, "neg")) is not None:
        return -1.0, negated.args[0]
    product = round.once(value, "mul")
    for x, y in (product.args, product.args[::-1]) if product is not None else ():
        if (number := _number(x)) is not None and y.type == value.type:
            return number, y
    return None


def _mul(round: _Round, op: Op) -> Outcome:
    for x, y in (op.args, op.args[::-1]):
        number = _number(x)
        if number is not None and y.type == op.result.type and (found := _factor(round, y)) is not None:
            return _scaled(op, number * found[0], found[1])
        if number is not None and (ratio := round.once(y, "div")) and (above := _number(ratio.args[0])) is not None:
            return [_op(op, "div", Const(number * above, ratio.args[0].type), ratio.args[1])]  # type: ignore[arg-type]
        if number is None and (ratio := round.once(x, "div")) and (above := _number(ratio.args[0])) is not None:
            if not isinstance(y, Const):
                scaled = [] if above == 1.0 else [_op(op, "mul", Const(above, y.type.with_ndim(0)), y)]  # type: ignore[union-attr]
                return [*scaled, _op(op, "div", scaled[0].result if scaled else y, ratio.args[1])]
    return None


def _neg(round: _Round, op: Op) -> Outcome:
    (x,) = op.args
    if (found := _factor(round, x)) is not None:
        return _scaled(op, -found[0], found[1])
    if (difference := round.once(x, "sub")) is not None:
        return [_op(op, "sub", *difference.args[::-1])]
    if (ratio := round.once(x, "div")) and (above := _number(ratio.args[0])) is not None:
        return [_op(op, "div", Const(-above, ratio.args[0].type), ratio.args[1])]  # type: ignore[arg-type]
    return None


def _add(round: _Round, op: Op) -> Outcome:
    x, y = op.args
    if x is y and x.dtype.kind == "f" and round.uses[x] == 2 and x.op is not None and x.op.name == "mul":
        for a, b in (x.op.args, x.op.args[::-1]):
            if (number := _number(a)) is not None and b.type == x.type:
                return _scaled(op, 2.0 * number, b)
    if x is y and x.dtype.kind == "f" and round.uses[x] == 2 and x.op is not None and x.op.name in ELEMENTWISE:
        if x.name == op.result.name:
            x.name = ""  # half of what has the name
            return [_op(op, "mul", Const(2.0, x.type.with_ndim(0)), x)]  # type: ignore[union-attr]
    for a, b in ((x, y), (y, x)):
        if _number(a) == 0.0 and b.type == op.result.type:
            return b
    first, second = round.once(x, "where"), round.once(y, "where")
    if first is not None and second is not None and first.args[0] is second.args[0]:
        sides = [
            b if _number(a) == 0.0 else a if _number(b) == 0.0 else None
            for a, b in zip(first.args[1:], second.args[1:], strict=True)
        ]
        if all(s is not None for s in sides):
            return [_op(op, "where", first.args[0], *(s for s in sides if s is not None))]
    return None


def _not(round: _Round, op: Op) -> Outcome:
    made = round.once(op.args[0], *_OPPOSITES)
    if made is None or (made.name not in ("eq", "ne") and made.args[0].dtype.kind == "f"):
        return None
    return [_op(op, _OPPOSITES[made.name], *made.args)]


_OPPOSITES = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def _where(round: _Round, op: Op) -> Outcome:
    """What is chosen again by the same condition is known."""
    c, *sides = op.args
    for k, side in enumerate(sides):
        if (inner := round.once(side, "where")) is not None and inner.args[0] is c:
            sides[k] = inner.args[1 + k]
    product = round.once(sides[0], "strong_mul", "mul")
    if product is not None and (inner := round.once(product.args[0], "where")) is not None and inner.args[0] is c:
        again = _op(product, product.name, inner.args[1], product.args[1])
        return [again, _op(op, "where", c, again.result, sides[1])]
    return [_op(op, "where", c, *sides)] if sides != op.args[1:] else None


# --- arrays ---


def _sum(round: _Round, op: Op) -> Outcome:
    """The sum of one element is the element."""
    part = round.once(op.args[0], "index")
    if part is None or op.args[0].ndim != 1 or op.attrs.get("keepdims") or list(op.attrs["axes"]) != [0]:
        return None
    if list(part.attrs["spec"]) != [("s", True, True, False)]:
        return None
    start, stop = (int(a.data) if isinstance(a, Const) else -1 for a in part.args[1:])
    if not 0 <= start == stop - 1:
        return None
    return [_op(op, "index", part.args[0], Const(start, I64), spec=["i"])]


def _seq_zeros(round: _Round, op: Op) -> Outcome:
    made = op.args[0].op
    return [_op(op, "seq_new", elem=made.attrs["elem"])] if made is not None and made.name == "seq_new" else None


def _host(round: _Round, op: Op) -> Outcome:
    """An error of a function that was called says so itself."""
    return Const(np.True_) if op.attrs["fn"] == SUCCEEDED else None


def _written(round: _Round, value: Value) -> tuple[Op, dict[int, Value]] | None:
    """The array of zeros that ``value`` was, and the elements written to it since, by their constant positions."""
    op = value.op
    if op is None:
        return None
    if op.name == "full":
        return (op, {}) if len(op.args) == 2 and _number(op.args[0]) == 0.0 else None
    if op.name != "set" or list(op.attrs["spec"]) != ["i"] or not isinstance(op.args[2], Const):
        return None
    found = _written(round, op.args[0]) if round.uses[op.args[0]] == 1 else None
    position = int(op.args[2].data)
    if found is None or position < 0 or position in found[1]:
        return None
    return found[0], {**found[1], position: op.args[1]}


def _add_at(round: _Round, op: Op) -> Outcome:
    """Adding to an element that is still zero is writing it."""
    x, v, *where = op.args
    if list(op.attrs["spec"]) != ["i"] or not isinstance(where[0], Const) or round.uses[x] != 1:
        return None
    found = _written(round, x)
    position = int(where[0].data)
    if found is None or not found[1] or position < 0 or position in found[1]:
        return None
    return [_op(op, "set", x, v, *where, **op.attrs)]


def _set(round: _Round, op: Op) -> Outcome:
    """An array all of whose elements are written is a list of them."""
    found = _written(round, op.result)
    if found is None or op.result.type != F64.with_ndim(1):
        return None
    zeros, elements = found
    length = zeros.args[1]
    if not isinstance(length, Const) or not len(elements) == int(length.data) <= _LONGEST_LIST:
        return None
    if sorted(elements) != list(range(len(elements))):
        return None
    wrapped = [_op(op, "index", elements[k], spec=["n"]) for k in sorted(elements)]
    return [*wrapped, _op(op, "concatenate", *(w.result for w in wrapped), axis=0)]


_RULES: dict[str, Callable[[_Round, Op], Outcome]] = {
    **{"mul": _mul, "neg": _neg, "add": _add, "where": _where, "not": _not, "sum": _sum, "seq_zeros": _seq_zeros},
    **{"add_at": _add_at, "set": _set, "host": _host},
}


def _fill_results(block: Block) -> None:
    """A number returned as an array is not a view of it."""
    for k, r in enumerate(block.results):
        if r.op is not None and r.op.name == "broadcast_to" and not r.op.args[0].ndim and r.op in block.ops:
            filled = _op(r.op, "full", *r.op.args)
            filled.result.name = r.name
            block.ops.insert(block.ops.index(r.op) + 1, filled)
            block.results[k] = filled.result


# --- leaves ---


def _repeat_leaves(block: Block) -> None:
    """Write ``len(x)`` as a float, and a number as an array of one element, where they are used."""
    ops: list[Op] = []
    for op in block.ops:
        for k, a in enumerate(op.args):
            if a.op is not None and _is_leaf(a.op):
                op.args[k] = copy_op(a.op, {}).result
                ops.append(op.args[k].op)  # type: ignore[arg-type]
        for region in op.regions:
            _repeat_leaves(region)
        ops.append(op)
    block.ops = ops


def _is_leaf(op: Op) -> bool:
    if len(op.results) != 1 or op.result.name:
        return False
    if op.name == "cast":
        return op.args[0].type == I64 and op.result.type == F64
    return op.name == "index" and list(op.attrs["spec"]) == ["n"]
