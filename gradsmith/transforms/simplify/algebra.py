"""Exact algebra: rules that replace one operation by a value that already exists or by a simpler operation.

A rule takes the context (what is known of shapes and ranges) and an operation with simplified operands, and returns
the Value that equals its result, a new Op to use instead, or None. Exact means: equal for every IEEE operand, NaN,
infinities and signed zeros included (so ``x + 0.0`` stays, ``x - 0.0`` goes). Only where a zero meets an adjoint
(``strong_mul``, adding into a buffer of zeros) the sign of a zero is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from gradsmith.ir.ops import ELEMENTWISE, infer
from gradsmith.ir.program import Const, Op, Value
from gradsmith.ir.types import BOOL, I64
from gradsmith.transforms.simplify.folding import fold
from gradsmith.transforms.simplify.motion import names_once
from gradsmith.transforms.simplify.ranges import Ranges
from gradsmith.transforms.simplify.shapes import Key, Shapes, index_dims


class Context(Protocol):
    """What rules may ask."""

    shapes: Shapes
    ranges: Ranges

    def materialise(self, key: Key) -> Value | None:
        """A Value that holds the length named by ``key``, if one can be had without new operations."""


Outcome: TypeAlias = Value | Op | None
Rule: TypeAlias = Callable[[Context, Op], Outcome]


def apply_rules(context: Context, op: Op) -> Outcome:
    """The first outcome of a rule for ``op``."""
    for rule in RULES.get(op.name, ()):
        outcome = rule(context, op)
        if outcome is not None:
            return outcome
    return None


def new_op(like: Op, name: str, args: Sequence[Value], **attrs: Any) -> Op:
    """An operation at the place of ``like``."""
    op = Op(name, args, attrs, (), infer(name, args, attrs), like.loc)
    op.results[0].name = like.results[0].name
    return op


def _producer(value: Value, *names: str) -> Op | None:
    op = value.op
    return op if op is not None and op.name in names else None


def _scalar(value: Value, number: Any) -> bool:
    """Whether ``value`` is the scalar constant ``number`` (zeros: positive zero only)."""
    if not isinstance(value, Const) or value.ndim:
        return False
    return bool(value.data == number) and not (number == 0 and np.signbit(np.real(value.data)))


def _is_zero(value: Value) -> bool:
    return isinstance(value, Const) and value.ndim == 0 and bool(value.data == 0)


def _fits(op: Op, value: Value) -> bool:
    """Whether ``value`` has the type of the result of ``op``, hence the shape if the other operand is a scalar."""
    return value.type == op.results[0].type


def _same_shape(context: Context, op: Op, value: Value) -> bool:
    return _fits(op, value) and (value.ndim == 0 or context.shapes.dims(value) == context.shapes.dims(op.results[0]))


# --- elementwise


def _strip_broadcasts(context: Context, op: Op) -> Outcome:
    """Elementwise operations broadcast: ``f(broadcast_to(s, n), x)`` is ``f(s, x)`` if x has that shape."""
    if op.results[0].type.ndim == 0 or len(op.args) < 2:  # type: ignore[union-attr]
        return None
    for k, arg in enumerate(op.args):
        producer = _producer(arg, "broadcast_to", "full")
        if producer is None:
            continue
        args = [*op.args]
        args[k] = producer.args[0]
        all_dims = [context.shapes.dims(a) for a in args]
        if max(map(len, all_dims)) == op.results[0].type.ndim:  # type: ignore[union-attr]
            if context.shapes.broadcast(all_dims, lambda axis: None) == context.shapes.dims(op.results[0]):
                return new_op(op, op.name, args, **op.attrs)
    return None


def _constant_broadcast(context: Context, op: Op) -> Outcome:
    """``f(broadcast_to(c, n), d)`` of constants is a constant, broadcast."""
    wide = [made for a in op.args if a.ndim and (made := _producer(a, "broadcast_to"))]
    if len(wide) != 1 or sum(a.ndim > 0 for a in op.args) != 1:
        return None
    scalars = [a if a.ndim == 0 else wide[0].args[0] for a in op.args]
    number = fold(Op(op.name, scalars, op.attrs, (), infer(op.name, scalars, op.attrs), op.loc))
    return None if number is None else new_op(op, "broadcast_to", [number, *wide[0].args[1:]])


def _add(context: Context, op: Op) -> Outcome:
    x, y = op.args
    integer = x.dtype.kind in "iu"
    for a, b in ((x, y), (y, x)):
        if _is_zero(b) and _fits(op, a) and (integer or (a.dtype.kind == "f" and not _scalar(b, 0))):
            return a
    if negated := _producer(y, "neg"):
        return new_op(op, "sub", [x, negated.args[0]])
    if negated := _producer(x, "neg"):
        return new_op(op, "sub", [y, negated.args[0]])
    return None


def _sub(context: Context, op: Op) -> Outcome:
    x, y = op.args
    if _scalar(y, 0) and _fits(op, x) and x.dtype.kind in "iuf":
        return x
    if x is y and x.dtype.kind in "iu" and x.ndim == 0:
        return Const(0, op.results[0].type)  # type: ignore[arg-type]
    if negated := _producer(y, "neg"):
        return new_op(op, "add", [x, negated.args[0]])
    return None


def _integer_sum(context: Context, op: Op) -> Outcome:
    """``(x + a) + b`` → ``x + (a + b)`` for integers with constants a and b."""
    x, b = op.args
    inner = _producer(x, "add", "sub")
    if x.type != I64 or not isinstance(b, Const) or inner is None or not isinstance(inner.args[1], Const):
        return None
    total = int(inner.args[1].data) * (1 if inner.name == "add" else -1) + int(b.data) * (1 if op.name == "add" else -1)
    if total == 0:
        return inner.args[0]
    return new_op(op, "add" if total > 0 else "sub", [inner.args[0], Const(abs(total), I64)])


def _mul(context: Context, op: Op) -> Outcome:
    x, y = op.args
    for a, b in ((x, y), (y, x)):
        if _scalar(b, 1) and _fits(op, a):
            return a
        if _scalar(b, -1) and _fits(op, a) and a.dtype.kind in "if":
            return new_op(op, "neg", [a])
        if (negated := _producer(a, "neg")) and isinstance(b, Const) and b.ndim == 0 and b.dtype.kind in "if":
            return new_op(op, "mul", [negated.args[0], Const(-b.data, b.type)])  # type: ignore[arg-type]
        if _scalar(b, 0) and a.dtype.kind in "iub" and op.results[0].type.ndim == 0:  # type: ignore[union-attr]
            return b
    return None


def _div(context: Context, op: Op) -> Outcome:
    x, y = op.args
    if _scalar(y, 1) and _fits(op, x) and x.dtype.kind in "fc":
        return x
    if _scalar(y, -1) and _fits(op, x) and x.dtype.kind == "f":
        return new_op(op, "neg", [x])
    return None


def _floordiv(context: Context, op: Op) -> Outcome:
    x, y = op.args
    return x if _scalar(y, 1) and _fits(op, x) and x.dtype.kind in "iu" else None


def _pow(context: Context, op: Op) -> Outcome:
    x, y = op.args
    if _scalar(y, 1) and _fits(op, x):
        return x
    if _is_zero(y) and op.results[0].type.ndim == 0:  # type: ignore[union-attr]
        return Const(1, op.results[0].type)  # type: ignore[arg-type]
    return None


def _strong_mul(context: Context, op: Op) -> Outcome:
    g, d = op.args
    if _is_zero(g) and op.results[0].type.ndim == 0:  # type: ignore[union-attr]
        return g
    if _scalar(d, 1) and _fits(op, g):
        return g
    certain = isinstance(g, Const) and bool(np.all(g.data != 0))
    return new_op(op, "mul", [g, d]) if certain or _finite(d) else None


def _finite(value: Value, depth: int = 3) -> bool:
    """Whether every element is certainly finite (so that zero times it is zero)."""
    if isinstance(value, Const):
        return bool(np.isfinite(value.data).all())
    if value.dtype.kind in "biu":
        return True
    op = value.op
    if op is None or depth == 0:
        return False
    if op.name == "cast":
        return op.args[0].dtype.kind in "biu"
    if op.name == "where":
        return _finite(op.args[1], depth - 1) and _finite(op.args[2], depth - 1)
    return op.name in ("full", "broadcast_to", "neg", "index", "reshape", "transpose") and _finite(
        op.args[0], depth - 1
    )


def _involution(context: Context, op: Op) -> Outcome:
    inner = _producer(op.args[0], op.name)
    return inner.args[0] if inner else None


def _neg(context: Context, op: Op) -> Outcome:
    """``-(c * x)`` → ``(-c) * x`` for a constant c."""
    inner = _producer(op.args[0], "mul", "div")
    if inner is None or op.args[0].dtype.kind != "f":
        return None
    x, y = inner.args
    if isinstance(x, Const) and x.ndim == 0:
        return new_op(op, inner.name, [Const(-x.data, x.type), y])  # type: ignore[arg-type]
    if isinstance(y, Const) and y.ndim == 0 and inner.name == "mul":
        return new_op(op, inner.name, [x, Const(-y.data, y.type)])  # type: ignore[arg-type]
    return None


def _real_part(context: Context, op: Op) -> Outcome:
    (x,) = op.args
    if x.dtype.kind != "c":
        if op.name in ("real", "conj"):
            return x
        return Const(0, x.type) if x.ndim == 0 else None  # type: ignore[arg-type]
    if (inner := _producer(x, "complex")) and op.name in ("real", "imag"):
        part = inner.args[0 if op.name == "real" else 1]
        return part if _same_shape(context, op, part) else None
    return _involution(context, op) if op.name == "conj" else None


def _cast(context: Context, op: Op) -> Outcome:
    (x,) = op.args
    if x.type == op.results[0].type:
        return x
    inner = _producer(x, "cast")
    if inner is None or not _lossless(inner.args[0].dtype, x.dtype):
        return None
    origin = inner.args[0]
    return origin if origin.type == op.results[0].type else new_op(op, "cast", [origin], dtype=op.attrs["dtype"])


def _lossless(narrow: np.dtype, wide: np.dtype) -> bool:
    """Whether a cast keeps every value, so that casting on is casting from the origin."""
    if narrow.kind == "b":
        return True
    same = narrow.kind == wide.kind or narrow.kind + wide.kind in ("ui", "fc")
    return same and np.can_cast(narrow, wide, "safe")


def _where(context: Context, op: Op) -> Outcome:
    c, x, y = op.args
    if isinstance(c, Const) and c.ndim == 0:
        chosen = x if c.data else y
        return chosen if _same_shape(context, op, chosen) else None
    if x is y or (isinstance(x, Const) and isinstance(y, Const) and _same_constant(x, y)):
        return x if _same_shape(context, op, x) else None
    if negated := _producer(c, "not"):
        return new_op(op, "where", [negated.args[0], y, x])
    if op.results[0].type == BOOL and _scalar(x, True) and _scalar(y, False):
        return c
    if op.results[0].type == BOOL and (_scalar(y, False) or _scalar(x, True)):
        return new_op(op, "and", [c, x]) if _scalar(y, False) else new_op(op, "or", [c, y])
    if (equal := _producer(c, "eq")) and x is equal.args[0] and x.type == I64 and isinstance(equal.args[1], Const):
        return new_op(op, "where", [c, equal.args[1], y])
    return None


def _same_constant(x: Const, y: Const) -> bool:
    return x.type == y.type and np.shape(x.data) == np.shape(y.data) and x.data.tobytes() == y.data.tobytes()


def _logical(context: Context, op: Op) -> Outcome:
    """``and`` and ``or`` on bools, with a constant or with itself."""
    x, y = op.args
    if x.dtype.kind != "b":
        return None
    neutral = op.name == "and"
    for a, b in ((x, y), (y, x)):
        if _scalar(b, neutral) and _fits(op, a):
            return a
        if _scalar(b, not neutral) and op.results[0].type.ndim == 0:  # type: ignore[union-attr]
            return b
    return x if x is y else None


def _compare(context: Context, op: Op) -> Outcome:
    """Comparisons of integers that are decided: with itself, or of a length with a bound."""
    x, y = op.args
    if x.type != I64 or y.type != I64:
        return None
    if x is y:
        return Const(op.name in ("eq", "le", "ge"))
    for a, b, up, down in ((x, y, "ge", "lt"), (y, x, "le", "gt")):
        if isinstance(b, Const) and op.name in (up, down) and context.ranges.at_least(a, int(b.data)):
            return Const(op.name == up)
    return None


def _extremum(context: Context, op: Op) -> Outcome:
    x, y = op.args
    if x is y:
        return x
    for a, b in ((x, y), (y, x)):
        if a.type == I64 and isinstance(b, Const) and b.type == I64 and context.ranges.at_least(a, int(b.data)):
            return a if op.name == "maximum" else b
    return None


# --- shapes


def _dim(context: Context, op: Op) -> Outcome:
    key = context.shapes.dims(op.args[0])[op.attrs["axis"]]
    if (value := context.materialise(key)) is not None:
        return value
    if isinstance(key, tuple) and isinstance(key[0], Value) and key != (op.args[0], op.attrs["axis"]):
        return new_op(op, "dim", [key[0]], axis=key[1])
    return None


def _reshape(context: Context, op: Op) -> Outcome:
    x, *dims = op.args
    if x.ndim == len(dims) and _has_dims(context, x, dims):
        return x
    if inner := _producer(x, "reshape"):
        return new_op(op, "reshape", [inner.args[0], *dims])
    return None


def _broadcast_to(context: Context, op: Op) -> Outcome:
    x, *dims = op.args
    if x.ndim == len(dims) and _has_dims(context, x, dims):
        return x
    inner = _producer(x, "broadcast_to", "full")
    if inner and (inner.args[0].ndim == 0 or inner.name == "broadcast_to"):
        return new_op(op, "broadcast_to", [inner.args[0], *dims])
    return None


def _has_dims(context: Context, x: Value, dims: Sequence[Value]) -> bool:
    return context.shapes.dims(x) == tuple(map(context.shapes.length, dims))


def _unbroadcast(context: Context, op: Op) -> Outcome:
    """Nothing, or plain sums, when it is known which axes were broadcast."""
    x, *dims = op.args
    have, want = context.shapes.dims(x), tuple(map(context.shapes.length, dims))
    lead = len(have) - len(want)
    ones = [k for k, (h, w) in enumerate(zip(have[lead:], want, strict=True)) if w == 1 and h != 1]
    if any(h != w and w != 1 for h, w in zip(have[lead:], want, strict=True)) or (lead and ones):
        return None
    if lead:
        return new_op(op, "sum", [x], axes=tuple(range(lead)), keepdims=False)
    return new_op(op, "sum", [x], axes=tuple(ones), keepdims=True) if ones else x


def _transpose(context: Context, op: Op) -> Outcome:
    perm, (x,) = op.attrs["perm"], op.args
    if list(perm) == list(range(len(perm))):
        return x
    if inner := _producer(x, "transpose"):
        return new_op(op, "transpose", [inner.args[0]], perm=tuple(inner.attrs["perm"][k] for k in perm))
    return None


def _reduction(context: Context, op: Op) -> Outcome:
    return op.args[0] if not op.attrs["axes"] and _fits(op, op.args[0]) else None


# --- indexing


def _index(context: Context, op: Op) -> Outcome:
    x, *args = op.args
    spec = op.attrs["spec"]
    if all(e == ":" for e in spec):
        return x
    if (total := _producer(x, "sum", "prod", "max", "min")) and total.attrs.get("keepdims"):
        reduced = [axis for axis, e in enumerate(op.attrs["spec"]) if e == "i"]
        if all(e in ("i", ":") for e in op.attrs["spec"]) and all(_is_zero(a) for a in args):
            if reduced == list(total.attrs["axes"]):
                return new_op(op, total.name, total.args, **{**total.attrs, "keepdims": False})
    if (update := _producer(x, "set")) and _same_place(update, op, args) and names_once(op):
        v = update.args[1]
        return v if _same_shape(context, op, v) else None
    filled = _producer(x, "full", "broadcast_to")
    if filled and filled.args[0].ndim == 0 and all(e == "i" for e in spec) and context.ranges.proves(op):
        return filled.args[0]
    return None


def _same_place(update: Op, op: Op, args: Sequence[Value]) -> bool:
    """Whether ``update`` writes (or reads) exactly where ``op``, with index arguments ``args``, reads or writes."""
    theirs = update.args[1 if update.name == "index" else 2 :]
    return update.attrs["spec"] == op.attrs["spec"] and all(
        a is b or (isinstance(a, Const) and isinstance(b, Const) and _same_constant(a, b))
        for a, b in zip(theirs, args, strict=True)
    )


def _update_value(context: Context, op: Op) -> Outcome:
    """A value written need not be broadcast first."""
    x, v, *args = op.args
    producer = _producer(v, "broadcast_to", "full")
    if producer is None and (whole := _producer(v, "set")) and all(e == ":" for e in whole.attrs["spec"]):
        v, producer = (
            whole.args[0],
            Op("broadcast_to", [whole.args[1]]),
        )  # writing all of an array broadcasts to its shape
    if producer and context.shapes.dims(v) == index_dims(context.shapes, op, op.results[0]):
        return new_op(op, op.name, [x, producer.args[0], *args], **op.attrs)
    return None


def _set(context: Context, op: Op) -> Outcome:
    x, v, *args = op.args
    if all(e == ":" for e in op.attrs["spec"]):
        return v if _same_shape(context, op, v) else None
    if all(e in (":", "n") for e in op.attrs["spec"]):
        if context.shapes.dims(v) != index_dims(context.shapes, op, op.results[0]):
            return None
        first = Const(0, I64)
        spec = ["i" if e == "n" else ":" for e in op.attrs["spec"]]
        return new_op(op, "index", [v, *[first] * spec.count("i")], spec=spec, checked=True)
    if (update := _producer(x, "set")) and _same_place(update, op, args) and names_once(op):
        return new_op(op, "set", [update.args[0], v, *args], **op.attrs)
    if (own := _producer(v, "index")) and own.args[0] is x and _same_place(own, op, args) and names_once(op):
        return x
    return None


def _add_at(context: Context, op: Op) -> Outcome:
    """Adding into zeros is writing, when every element is named at most once."""
    x, v, *args = op.args
    if not names_once(op):
        return None
    filled = _producer(x, "full")
    if filled and _is_zero(filled.args[0]):
        return new_op(op, "set", [x, v, *args], **op.attrs)
    update = _producer(x, "set")
    if update and _is_zero(update.args[1]) and _same_place(update, op, args):
        return new_op(op, "set", [update.args[0], v, *args], **op.attrs)
    return new_op(op, "add", [x, v]) if all(e == ":" for e in op.attrs["spec"]) and _covers(context, x, v) else None


def _covers(context: Context, x: Value, v: Value) -> bool:
    dims = [context.shapes.dims(x), context.shapes.dims(v)]
    return context.shapes.broadcast(dims, lambda axis: None) == dims[0]


def _compare_choice(context: Context, op: Op) -> Outcome:
    """A choice between two constants, compared with a third, is its condition, the opposite, or known."""
    x, y = op.args
    made = _producer(x, "if", "where")
    if made is None or x.ndim or not isinstance(y, Const) or y.ndim:
        return None
    k = made.results.index(x)
    options = made.args[1:] if made.name == "where" else [region.results[k] for region in made.regions]
    if not all(isinstance(c, Const) for c in options) or made.args[0].ndim:
        return None
    then, other = (bool(c.data == y.data) == (op.name == "eq") for c in options if isinstance(c, Const))
    if then == other:
        return Const(then, BOOL)
    return made.args[0] if then else new_op(op, "not", [made.args[0]])


def _table() -> dict[str, list[Rule]]:
    rules: dict[str, list[Rule]] = {name: [_strip_broadcasts, _constant_broadcast] for name in ELEMENTWISE}
    for names, rule in [
        ("add", _add), ("add sub", _integer_sum), ("sub", _sub), ("mul", _mul), ("div", _div), ("floordiv", _floordiv),
        ("pow", _pow), ("strong_mul", _strong_mul), ("neg not", _involution), ("neg", _neg),
        ("real imag conj", _real_part), ("cast", _cast), ("where", _where), ("and or", _logical),
        ("eq ne lt le gt ge", _compare), ("eq ne", _compare_choice), ("maximum minimum", _extremum), ("dim", _dim), ("reshape", _reshape),
        ("broadcast_to", _broadcast_to), ("unbroadcast", _unbroadcast), ("transpose", _transpose),
        ("sum prod max min", _reduction), ("index", _index), ("set add_at", _update_value), ("set", _set),
        ("add_at", _add_at),
    ]:  # fmt: skip
        for name in names.split():
            rules.setdefault(name, []).append(rule)
    return rules


RULES = _table()
