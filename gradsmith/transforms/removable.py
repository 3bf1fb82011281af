"""Branches that are taken at single points: the derivative there is that of the branch taken everywhere around.

``1.0 if x == 1 else x**2`` is x², written so that one value is known exactly: its derivative at 1 is 2, although the
branch taken there is constant. But ``0.0 if s == 0 else sqrt(s)`` guards a point where the other branch has no
derivative: then the branch that was taken counts. So the derivative at such a point is that of the other branch if it
is finite. What may be constant over an interval (``max(0.0, x)``) may be equal on all of it: the branch taken counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradsmith.ir.builder import Builder, elementwise, emit, reduce, where, zeros_like
from gradsmith.ir.ops import ELEMENTWISE, REDUCTIONS
from gradsmith.ir.program import Block, Const, Op, Value, copy_block, copy_op, free_values
from gradsmith.transforms.activity import Activity
from gradsmith.transforms.expand import bind

#: operations that may be run at the point although the program does not: they raise nothing and have no effects
_HARMLESS = (
    frozenset(ELEMENTWISE)
    | REDUCTIONS
    | {*("full", "iota", "dim", "transpose", "unbroadcast", "argmax", "argmin", "cumsum", "cumprod", "if")}
    | {*("index", "set", "add_at", "reshape", "broadcast_to", "concatenate", "matmul")}
)


def see_through(block: Block, seeds: Sequence[Value]) -> None:
    """Give branches on the equality of numbers that depend on ``seeds`` the derivative described above, in place."""
    if any(op.name == "if" for op in block.walk()):
        activity = Activity(block.ops)
        varied = activity.varied(seeds)
        resting = activity.varied(r for op in block.walk() for r in _may_rest(op, varied))
        _visit(block, varied - resting)


def _may_rest(op: Op, varied: set[Value]) -> list[Value]:
    """The results that vary, but may be constant around a point."""
    if op.name == "if":
        sides = zip(op.results, *(region.results for region in op.regions), strict=True)
        return [r for r, *found in sides if r in varied and not all(v in varied for v in found)]
    chosen = op.args[1:] if op.name == "where" else op.args
    if op.name in _CHOICES and not all(v in varied for v in chosen):
        return [r for r in op.results if r in varied]
    masked = any(v.op is not None and v.op.name == "cast" and v.op.args[0].dtype.kind == "b" for v in op.args)
    return [r for r in op.results if r in varied] if op.name == "mul" and masked else []


_CHOICES = frozenset({"where", "maximum", "minimum", "fmax", "fmin"})


def _visit(block: Block, varied: set[Value]) -> None:
    for k, op in enumerate(block.ops):
        for region in op.regions:
            if op.name != "call":
                _visit(region, varied)
        if op.name == "if" and (regions := _at_and_around(op, varied)) is not None:
            block.ops[k] = _with_rule(op, *regions)


def _at_and_around(op: Op, varied: set[Value]) -> tuple[Block, Block] | None:
    """The regions of an ``if`` at the points of equality and elsewhere; None if it is no branch on equality."""
    then, other = op.regions
    test = op.args[0].op
    if test is not None and test.name == "not":
        test, then, other = test.args[0].op, other, then
    if test is None or test.name not in ("eq", "ne") or not any(a in varied for a in test.args):
        return None
    at, around = (then, other) if test.name == "eq" else (other, then)
    harmless = all(inner.name in _HARMLESS for inner in around.walk())
    return (at, around) if harmless and any(r.type.inexact for r in op.results) else None


def _with_rule(op: Op, at: Block, around: Block) -> Op:
    """The branch as a call with a derivative rule."""
    free = [v for v in free_values(Block((), [op])) if v is not op.args[0]]
    equal_first = op.regions[0] is at
    operands = [op.args[0], *free]
    wrt = [k for k, v in enumerate(operands) if v.type.inexact]
    primal = Block((), [copy_op(op, {})], ())
    primal.results = primal.ops[0].results
    bind(primal, operands)
    sides = [_closed(side, free) for side in (at, around)]
    regions = [
        primal,
        _pullback(op, operands, wrt, sides, equal_first),
        _pushforward(op, operands, wrt, sides, equal_first),
    ]
    attrs = {"function": "a branch on equality", "wrt": wrt, "pullback": 1, "pushforward": 2}
    new = Op("call", operands, attrs, regions, (), op.loc)
    new.results, op.results = op.results, []
    for result in new.results:
        result.op = new
    return new


def _closed(side: Block, free: Sequence[Value]) -> Block:
    """A copy of a region whose parameters are the values it uses from outside."""
    block = copy_block(side, {})
    bind(block, free)
    return block


def _pullback(op: Op, operands: Sequence[Value], wrt: list[int], sides: list[Block], equal_first: bool) -> Block:
    from gradsmith.transforms.reverse import vjp

    params = [Value(v.type, v.name) for v in operands]
    results = [Value(r.type, r.name) for r in op.results]
    cotangents = [Value(r.type) for r in op.results if r.type.inexact]
    b = Builder(Block([*params, *results, *cotangents]))
    b.loc = op.loc

    def derivatives(side: Block) -> list[Value]:
        _, back = vjp(b, side, params[1:], [k - 1 for k in wrt])
        given = iter(cotangents)
        found = back([next(given) if r.type.inexact else None for r in op.results])
        return [zeros_like(params[k]) if g is None else g for k, g in zip(wrt, found, strict=True)]

    with b:
        b.block.results = _chosen(b, params[0], sides, derivatives, equal_first)
    return b.block


def _pushforward(op: Op, operands: Sequence[Value], wrt: list[int], sides: list[Block], equal_first: bool) -> Block:
    from gradsmith.transforms.forward import jvp

    params = [Value(v.type, v.name) for v in operands]
    tangents = [Value(operands[k].type) for k in wrt]
    b = Builder(Block([*params, *tangents]))
    b.loc = op.loc
    directions: list[Value | None] = [None] * len(operands)
    for k, t in zip(wrt, tangents, strict=True):
        directions[k] = t

    def derivatives(side: Block) -> list[Value]:
        values, found = jvp(b, side, params[1:], directions[1:])
        return [zeros_like(v) if t is None else t for v, t in zip(values, found, strict=True) if v.type.inexact]

    with b:
        copied = copy_op(op, dict(zip(operands, params, strict=True)))
        b.block.ops.append(copied)
        b.block.results = [*copied.results, *_chosen(b, params[0], sides, derivatives, equal_first)]
    return b.block


def _chosen(b: Builder, condition: Value, sides: list[Block], derivatives: object, equal_first: bool) -> list[Value]:
    """The derivatives of the side around, at the point only if they are finite."""
    at, around = sides
    with b.region() as point:
        own, others = derivatives(at), derivatives(around)  # type: ignore[operator]
        finite = Const(True)
        for d in others:
            each = elementwise("isfinite", d)
            finite = emit("and", finite, reduce("all", each, range(each.ndim)))
        point.results = [where(finite, d, o) for d, o in zip(others, own, strict=True)]
    with b.region() as elsewhere:
        elsewhere.results = derivatives(around)  # type: ignore[operator]
    regions = [point, elsewhere] if equal_first else [elsewhere, point]
    return b.emit_control("if", [condition], regions).results
