"""Pullbacks and pushforwards of the structural operations: indexing, shapes, reductions, products, sequences.

A pullback takes the operation, the adjoints of its results (``None``: zero) and which operands want an adjoint; it
gives one contribution for each of the leading operands: a Value of the operand's type, a :class:`Scatter` or ``None``.
A pushforward takes the operation, its new operands and results, and the operands' tangents; it gives the tangents of
the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gradsmith.errors import MissingRule
from gradsmith.ir.builder import (
    add_at,
    broadcast_to,
    cast,
    conj,
    const_like,
    current,
    elementwise,
    emit,
    full,
    i64,
    index,
    reduce,
    reshape,
    set_at,
    shape,
    sum_,
    transpose,
    unbroadcast,
    where,
)
from gradsmith.ir.ops import distinct_places
from gradsmith.ir.program import Const, Op, Value
from gradsmith.ir.types import ArrayType, SeqType

FLIP = ("s", False, False, True)
FROM = ("s", True, False, False)
UNTIL = ("s", False, True, False)


@dataclass
class Scatter:
    """An adjoint that is zero but in one region: ``value`` is added to ``x[spec(args)]``."""

    value: Value
    spec: tuple[Any, ...]
    args: Sequence[Value]
    checked: bool = False

    def into(self, buffer: Value | None, like: Value) -> Value:
        """``buffer`` (``None``: zeros shaped as ``like``) with the region added."""
        attrs = {"checked": True} if self.checked else {}
        if buffer is None and "a" not in self.spec:  # no element is met twice: the first contribution is written
            return set_at(zeros_like(like), self.value, self.spec, self.args, **attrs)
        if buffer is not None and self._cleared(buffer):  # zeroed and then added to: one write
            assert buffer.op is not None
            return set_at(buffer.op.args[0], self.value, self.spec, self.args, **attrs)
        target = buffer if buffer is not None else zeros_like(like)
        return add_at(target, self.value, self.spec, self.args, **attrs)

    def _cleared(self, buffer: Value) -> bool:
        op = buffer.op
        return (
            op is not None
            and op.name == "set"
            and "a" not in self.spec
            and _is_zero(op.args[1])
            and op.attrs["spec"] == self.spec
            and all(map(_same_value, op.args[2:], self.args))
        )


@dataclass
class SequenceScatter:
    """Adjoints of the elements of a sequence: ``value`` for element ``at``, all of ``value[k]`` when that is None."""

    value: Value
    at: Value | None

    def into(self, buffer: Value | None, like: Value) -> Value:
        if self.at is not None:
            return emit("seq_add", buffer if buffer is not None else zeros_like(like), self.at, self.value)
        if buffer is None:
            return emit("seq_unstack", self.value)
        b = current()
        k, s = Value(i64(0).type), Value(buffer.type)
        with b.region([k, s]) as body:
            body.results = [emit("seq_add", s, k, index(self.value, ["i", *":" * (self.value.ndim - 1)], [k]))]
        return b.emit_control("for", [i64(0), emit("seq_len", buffer), i64(1), buffer], [body]).result


Contribution: TypeAlias = Value | Scatter | SequenceScatter | None
Adjoints: TypeAlias = Sequence[Value | None]
Pullback: TypeAlias = Callable[[Op, Adjoints, Sequence[bool]], Sequence[Contribution]]
Pushforward: TypeAlias = Callable[[Op, Sequence[Value], Sequence[Value], Adjoints], Sequence[Value | None]]


def zeros_like(x: Value) -> Value:
    """Zeros of the type and shape of ``x``, an array, a scalar or a sequence."""
    if isinstance(x.type, SeqType):
        return emit("seq_zeros", x)
    zero = const_like(0, x)
    return full(zero, shape(x)) if x.ndim else zero


def plus(x: Value | None, y: Value | None) -> Value | None:
    """The sum of two adjoints or tangents, ``None`` being zero."""
    return y if x is None else x if y is None else x + y


def _is_zero(value: Value) -> bool:
    return isinstance(value, Const) and value.ndim == 0 and value.data == 0


def _same_value(a: Value, b: Value) -> bool:
    return a is b or (isinstance(a, Const) and isinstance(b, Const) and a.ndim == b.ndim == 0 and a.data == b.data)


def like(g: Value, x: Value) -> Value:
    """``g``, which ``x`` was broadcast to, summed to the shape of ``x``."""
    if x.ndim > g.ndim:  # NumPy lets a written value have additional leading axes of length one
        extra = x.ndim - g.ndim
        return reshape(unbroadcast(g, index(x, ["i"] * extra + [":"] * g.ndim, [0] * extra)), shape(x))
    return unbroadcast(g, x)


# Indexing -------------------------------------------------------------------------------------------------------------


def _index(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    assert g[0] is not None
    if not op.args[0].ndim:  # a number with new axes
        return [sum_(g[0], range(g[0].ndim))]
    return [Scatter(g[0], op.attrs["spec"], op.args[1:], op.attrs.get("checked", False))]


def _region(op: Op, g: Value) -> Value:
    """``g`` at the region that ``set`` or ``add_at`` writes."""
    attrs = {"checked": True} if op.attrs.get("checked") else {}
    return index(g, op.attrs["spec"], op.args[2:], **attrs)


def _set(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    """The adjoint of the written value is left in the shape of the region."""
    (adjoint,) = g
    assert adjoint is not None
    attrs = {"checked": True} if op.attrs.get("checked") else {}
    written = cleared = None
    if wanted[1]:
        written = _region(op, adjoint)
        if "a" in op.attrs["spec"] and not distinct_places(op):
            written = where(_survives(op, written), written, 0)
    if wanted[0]:
        cleared = set_at(adjoint, const_like(0, adjoint), op.attrs["spec"], op.args[2:], **attrs)
    return [cleared, written]


def _survives(op: Op, written: Value) -> Value:
    """Which of the written elements are still there afterwards: a repeated index keeps the last one only."""
    dims = shape(written)
    size: Value = i64(1)
    for n in dims:
        size = size * n
    number = reshape(emit("iota", size, dtype=size.dtype), dims)
    owner = set_at(full(i64(0), shape(op.args[0])), number, op.attrs["spec"], op.args[2:])
    return elementwise("eq", _region(op, owner), number)


def _add_at(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    assert g[0] is not None
    return [g[0], _region(op, g[0]) if wanted[1] else None]


def _concatenate(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    assert g[0] is not None
    axis = op.attrs["axis"]
    spec = [("s", True, True, False) if k == axis else ":" for k in range(g[0].ndim)]
    out: list[Contribution] = []
    start: Value = i64(0)
    for x, want in zip(op.args, wanted, strict=True):
        stop = start + emit("dim", x, axis=axis)
        out.append(index(g[0], spec, [start, stop]) if want else None)
        start = stop
    return out


# Reductions -----------------------------------------------------------------------------------------------------------


def _kept(op: Op, value: Value, x: Value) -> Value:
    """A result of a reduction with its axes back as axes of length one."""
    if op.attrs.get("keepdims") or value.ndim == x.ndim:
        return value
    axes = op.attrs["axes"]
    return index(value, ["n" if k in axes else ":" for k in range(x.ndim)]) if value.ndim else value


def _sum(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    assert g[0] is not None
    (x,) = op.args
    return [broadcast_to(_kept(op, g[0], x), shape(x))]


def _shares(op: Op, x: Value, z: Value) -> Value:
    """The partial of a maximum or minimum: ties share equally."""
    attains = cast(elementwise("eq", x, _kept(op, z, x)), x.dtype)
    return attains / reduce("sum", attains, op.attrs["axes"], keepdims=True)


def _extremum(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    assert g[0] is not None
    (x,) = op.args
    return [emit("strong_mul", _kept(op, g[0], x), _shares(op, x, op.result))]


def _others(x: Value, axes: Sequence[int]) -> Value:
    """For every element the product of all others along ``axes``: right with any number of zeros, differentiable."""
    kept = [k for k in range(x.ndim) if k not in axes]
    perm = [*kept, *axes]
    moved = transpose(x, perm)
    dims = shape(moved)
    size: Value = i64(1)
    for n in dims[len(kept) :]:
        size = size * n
    flat = reshape(moved, [*dims[: len(kept)], size])
    last = flat.ndim - 1
    out = _before(flat, last) * _flip(_before(_flip(flat, last), last), last)
    return transpose(reshape(out, dims), [perm.index(k) for k in range(x.ndim)])


def _flip(x: Value, axis: int) -> Value:
    return index(x, [FLIP if k == axis else ":" for k in range(x.ndim)], [-1])


def _before(x: Value, axis: int) -> Value:
    """The product of the elements before each element along ``axis``."""
    first = [emit("minimum", emit("dim", x, axis=k), i64(1)) if k == axis else n for k, n in enumerate(shape(x))]
    spec = [UNTIL if k == axis else ":" for k in range(x.ndim)]
    products = emit("cumprod", index(x, spec, [-1]), axis=axis)
    return emit("concatenate", full(const_like(1, x), first), products, axis=axis)


def _prod(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    assert g[0] is not None
    (x,) = op.args
    return [_kept(op, g[0], x) * conj_(_others(x, op.attrs["axes"]))]


def conj_(x: Value) -> Value:
    """The conjugate; real values are their own."""
    return conj(x) if x.dtype.kind == "c" else x


def _cumsum(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    assert g[0] is not None
    axis = op.attrs["axis"]
    return [_flip(emit("cumsum", _flip(g[0], axis), axis=axis), axis)]


def _linear_recurrence(a: Value, c: Value, axis: int, reverse: bool) -> Value:
    """``s[k] = a[k] * s[k - 1] + c[k]`` along ``axis`` (``a[k + 1] * s[k + 1]`` in reverse), zero before the first."""
    b = current()
    spec = ["i" if j == axis else ":" for j in range(c.ndim)]
    n = emit("dim", c, axis=axis)
    rest = [m for j, m in enumerate(shape(c)) if j != axis]
    zero = full(const_like(0, c), rest) if rest else const_like(0, c)
    k, carried, out = Value(n.type), Value(zero.type), Value(c.type)
    with b.region([k, carried, out]) as body:
        value = carried + index(c, spec, [k]) if reverse else carried * index(a, spec, [k]) + index(c, spec, [k])
        body.results = [value * index(a, spec, [k]) if reverse else value, set_at(out, value, spec, [k])]
    return b.emit_control("for", [i64(0), n, i64(1), zero, zeros_like(c)], [body], reverse=reverse).results[1]


def _cumprod(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    assert g[0] is not None
    (x,), axis = op.args, op.attrs["axis"]
    # x̄[j] = prod(x[:j]) * s[j] with s[j] = ḡ[j] + x[j + 1] * s[j + 1]
    return [conj_(_before(x, axis)) * _linear_recurrence(conj_(x), g[0], axis, reverse=True)]


# Matrix product -------------------------------------------------------------------------------------------------------


def h(x: Value) -> Value:
    """The conjugate transpose of the last two axes."""
    return conj_(transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]))


def _matmul(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    (adjoint,), (x, y) = g, op.args
    assert adjoint is not None
    return [
        _matmul_left(adjoint, x, y) if wanted[0] else None,
        _matmul_right(adjoint, x, y) if wanted[1] else None,
    ]


def _outer(x: Value, y: Value) -> Value:
    """``x[..., :, None] * y[..., None, :]``"""
    return index(x, [":"] * x.ndim + ["n"]) * index(y, [":"] * (y.ndim - 1) + ["n", ":"])


def _matmul_left(g: Value, x: Value, y: Value) -> Value:
    if y.ndim == 1:
        return g * conj_(y) if x.ndim == 1 else _outer(g, conj_(y))
    if x.ndim == 1:
        return emit("matmul", conj_(y), g) if y.ndim == 2 else _stacked_row(g, y, x)
    gx = emit("matmul", g, h(y))
    return gx if x.ndim == y.ndim == 2 else unbroadcast(gx, x)


def _stacked_row(g: Value, y: Value, x: Value) -> Value:
    """The adjoint of a vector ``x`` in ``x @ y`` with a stack of matrices ``y``."""
    gx = emit("matmul", conj_(y), index(g, [":"] * g.ndim + ["n"]))
    return unbroadcast(index(gx, [":"] * (gx.ndim - 1) + ["i"], [0]), x)


def _matmul_right(g: Value, x: Value, y: Value) -> Value:
    if x.ndim == 1:
        return conj_(x) * g if y.ndim == 1 else _outer(_leading(conj_(x), y), g)
    if y.ndim == 1:
        if x.ndim == 2:
            return emit("matmul", h(x), g)
        gy = emit("matmul", h(x), index(g, [":"] * g.ndim + ["n"]))
        return unbroadcast(index(gy, [":"] * (gy.ndim - 1) + ["i"], [0]), y)
    gy = emit("matmul", h(x), g)
    return gy if x.ndim == y.ndim == 2 else unbroadcast(gy, y)


def _leading(x: Value, y: Value) -> Value:
    """The vector ``x`` with the leading axes of ``y``, as axes of length one."""
    return index(x, ["n"] * (y.ndim - 2) + [":"])


# Pushforwards ---------------------------------------------------------------------------------------------------------


def _linear(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    """An operation that is linear in its first operand alone."""
    return [emit(op.name, d[0], *args[1:], **op.attrs)]


def _set_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    base = d[0] if d[0] is not None else zeros_like(args[0])
    value = d[1] if d[1] is not None else const_like(0, args[0])
    return [emit(op.name, base, value, *args[2:], **op.attrs)]


def _concatenate_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    parts = [t if t is not None else zeros_like(x) for x, t in zip(args, d, strict=True)]
    return [emit("concatenate", *parts, **op.attrs)]


def _extremum_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    assert d[0] is not None
    return [reduce("sum", emit("strong_mul", d[0], _shares(op, args[0], results[0])), **_reduction(op))]


def _prod_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    assert d[0] is not None
    return [reduce("sum", d[0] * _others(args[0], op.attrs["axes"]), **_reduction(op))]


def _reduction(op: Op) -> dict[str, Any]:
    return {"axes": op.attrs["axes"], "keepdims": op.attrs.get("keepdims", False)}


def _cumprod_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    assert d[0] is not None
    axis = op.attrs["axis"]
    # y'[k] = y'[k - 1] * x[k] + prod(x[:k]) * x'[k]
    return [_linear_recurrence(args[0], _before(args[0], axis) * d[0], axis, reverse=False)]


def _matmul_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    left = emit("matmul", d[0], args[1]) if d[0] is not None else None
    right = emit("matmul", args[0], d[1]) if d[1] is not None else None
    return [plus(left, right)]


PULLBACKS: dict[str, Pullback] = {
    "index": _index,
    "set": _set,
    "add_at": _add_at,
    "reshape": lambda op, g, wanted: [reshape(g[0], shape(op.args[0]))],  # type: ignore[arg-type]
    "transpose": lambda op, g, wanted: [transpose(g[0], _inverse(op.attrs["perm"]))],  # type: ignore[arg-type]
    "broadcast_to": lambda op, g, wanted: [unbroadcast(g[0], op.args[0])],  # type: ignore[arg-type]
    "unbroadcast": lambda op, g, wanted: [broadcast_to(g[0], shape(op.args[0]))],  # type: ignore[arg-type]
    "full": lambda op, g, wanted: [sum_(g[0], range(g[0].ndim))],  # type: ignore[arg-type,union-attr]
    "concatenate": _concatenate,
    "sum": _sum,
    "prod": _prod,
    "max": _extremum,
    "min": _extremum,
    "cumsum": _cumsum,
    "cumprod": _cumprod,
    "matmul": _matmul,
}

PUSHFORWARDS: dict[str, Pushforward] = {
    **dict.fromkeys(["index", "reshape", "transpose", "broadcast_to", "unbroadcast", "full", "sum", "cumsum"], _linear),
    **dict.fromkeys(["set", "add_at"], _set_push),
    "concatenate": _concatenate_push,
    "prod": _prod_push,
    **dict.fromkeys(["max", "min"], _extremum_push),
    "cumprod": _cumprod_push,
    "matmul": _matmul_push,
}

#: operands that have a derivative; of all other operations every operand has
DIFFERENTIABLE = {"index": (0,), "set": (0, 1), "add_at": (0, 1), "full": (0,)}
#: operations whose results are never differentiable or that have none
CONSTANT = frozenset({"iota", "dim", "any", "all", "argmax", "argmin", "check", "guard"}) | {
    *("seq_new", "seq_len", "seq_zeros")
}


def _inverse(perm: Sequence[int]) -> list[int]:
    return [list(perm).index(k) for k in range(len(perm))]


# Sequences ------------------------------------------------------------------------------------------------------------


def _or_zeros(tangent: Value | None, x: Value) -> Value:
    return tangent if tangent is not None else zeros_like(x)


def _seq_push(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    return emit("seq_pop", g[0])


def _seq_pop(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    rest, element = op.results
    return [emit("seq_push", _or_zeros(g[0], rest), _or_zeros(g[1], element))]


def _seq_add(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Contribution]:
    value = like(emit("seq_get", g[0], op.args[1]), op.args[2]) if wanted[2] else None
    return [g[0], None, value]


PULLBACKS |= {
    "seq_push": _seq_push,
    "seq_pop": _seq_pop,
    "seq_add": _seq_add,
    "seq_get": lambda op, g, wanted: [SequenceScatter(g[0], op.args[1]), None],  # type: ignore[arg-type]
    "seq_stack": lambda op, g, wanted: [SequenceScatter(g[0], None)],  # type: ignore[arg-type]
    "seq_unstack": lambda op, g, wanted: [emit("seq_stack", g[0])],
}
PUSHFORWARDS |= {
    "seq_push": lambda op, a, r, d: [emit("seq_push", d[0], _or_zeros(d[1], a[1]))],
    "seq_pop": lambda op, a, r, d: emit("seq_pop", d[0]),
    "seq_add": lambda op, a, r, d: [emit("seq_add", d[0], a[1], _or_zeros(d[2], a[2]))],
    "seq_get": _linear,
    "seq_stack": _linear,
    "seq_unstack": _linear,
}


def missing(op: Op) -> MissingRule:
    """The error for an operation without a rule."""
    if op.name == "effect":
        return MissingRule(
            f"what {op.attrs['fn'].name}() gives at each call has no derivative with respect to its arguments ({op.loc}): "
            "keep the derivative away with stop_gradient"
        )
    return MissingRule(f"no derivative is known for {op.name} ({op.loc})")


def is_array(value: Value) -> bool:
    return isinstance(value.type, ArrayType)
