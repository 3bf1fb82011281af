"""Sorting, convolution and exact sums: host operations on vectors."""

from __future__ import annotations

from collections.abc import Sequence

from gradsmith import errors
from gradsmith.ir.builder import (
    broadcast_to,
    host,
    index,
    shape,
    sum_,
)
from gradsmith.ir.program import Op, Value
from gradsmith.rules.matrices import (
    Rules,
)
from gradsmith.rules.structural import Adjoints, Pullback, Pushforward, conj_, plus

SORTED_LIKE, UNSORTED_LIKE = "gradsmith.backends.hosted.sorted_like", "gradsmith.backends.hosted.unsorted_like"


def _order_by(fn: str, key: Value, x: Value, axis: int) -> Value:
    return host(fn, [key, x], [x.type], axis=axis)


def _sort(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    return [_order_by(UNSORTED_LIKE, op.args[0], g[0], op.attrs["kwargs"].get("axis", -1))]  # type: ignore[arg-type]


def _sort_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    return [_order_by(SORTED_LIKE, args[0], d[0], op.attrs["kwargs"].get("axis", -1))]  # type: ignore[arg-type]


def _moves(inverse_fn: str) -> tuple[Pullback, Pushforward]:
    """Rules of a permutation of the second operand that the first one gives (and that ties average)."""

    def pull(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
        return [None, _order_by(inverse_fn, op.args[0], g[0], op.attrs["kwargs"]["axis"])]  # type: ignore[arg-type]

    def push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
        return [None if d[1] is None else _order_by(op.attrs["fn"], args[0], d[1], op.attrs["kwargs"]["axis"])]

    return pull, push


CONVOLVE, FSUM = "numpy.convolve", "gradsmith.backends.hosted.fsum"


def _flipped(x: Value) -> Value:
    return index(x, [("s", False, False, True)], [-1])


def _convolve(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    """Of mode "full", and of the mode "valid" of a longer with a shorter vector that its adjoints are."""
    (x, y), gz = op.args, g[0]
    assert gz is not None
    mode = op.attrs["kwargs"].get("mode", "full")

    def valid(u: Value, v: Value) -> Value:
        return host(CONVOLVE, [u, v], [u.type], mode="valid")

    def adjoint(other: Value) -> Value:
        return valid(gz, _flipped(conj_(other)))

    if mode == "full":
        return [adjoint(y) if wanted[0] else None, adjoint(x) if wanted[1] else None]
    if mode != "valid":
        raise errors.MissingRule(f"no derivative is known for numpy.convolve with mode={mode!r} ({op.loc})")
    gx = host(CONVOLVE, [gz, _flipped(conj_(y))], [gz.type]) if wanted[0] else None
    return [gx, _flipped(valid(conj_(x), _flipped(gz))) if wanted[1] else None]


def _convolve_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    total: Value | None = None
    for k, tangent in enumerate(d):
        if tangent is not None:
            operands = [tangent, args[1]] if k == 0 else [args[0], tangent]
            total = plus(total, host(CONVOLVE, operands, [results[0].type], **op.attrs["kwargs"]))
    return [total]


PULLBACKS: Rules = {
    "numpy.sort": _sort,
    SORTED_LIKE: _moves(UNSORTED_LIKE)[0],
    UNSORTED_LIKE: _moves(SORTED_LIKE)[0],
    CONVOLVE: _convolve,
    FSUM: lambda op, g, wanted: [broadcast_to(g[0], shape(op.args[0]))],
}

PUSHFORWARDS: Rules = {
    "numpy.sort": _sort_push,
    SORTED_LIKE: _moves(UNSORTED_LIKE)[1],
    UNSORTED_LIKE: _moves(SORTED_LIKE)[1],
    CONVOLVE: _convolve_push,
    FSUM: lambda op, args, results, d: [sum_(d[0], range(d[0].ndim))],
}
