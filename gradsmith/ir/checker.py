"""Verifies that a Program is well formed: types, dominance, single assignment, linear use of sequences."""

from __future__ import annotations

from collections.abc import Sequence

from gradsmith.ir.ops import CONTROL, infer
from gradsmith.ir.program import Block, Const, Op, Program, Value, free_values
from gradsmith.ir.types import BOOL, I64, SeqType, Type

#: operations after which their first operand, a sequence, may not be used again
CONSUMES_SEQUENCE = frozenset({"seq_push", "seq_pop", "seq_add"})


class MalformedProgram(Exception):
    """A pass produced a Program that breaks a rule of the representation: a bug in gradsmith."""


def check(program: Program) -> Program:
    """Raise :class:`MalformedProgram` if ``program`` is not well formed; returns it."""
    if len(program.inputs) != len(program.block.params) or len(program.outputs) != len(program.block.results):
        raise MalformedProgram("inputs/outputs do not match the parameters/results of the block")
    _block(program.block, set(), set())
    return program


def _block(block: Block, outer: set[Value], consumed: set[Value]) -> None:
    visible = set(outer)
    _define(block.params, visible)
    for op in block.ops:
        for arg in op.args:
            _use(arg, visible, consumed, op)
        _types(op)
        branches = []
        for region in op.regions:
            inner = set(consumed)
            _block(region, visible, inner)
            branches.append(inner)
        consumed.update(*branches)
        if op.name in CONSUMES_SEQUENCE:
            consumed.add(op.args[0])
        if op.name in CONTROL:
            consumed.update(a for a in op.args if isinstance(a.type, SeqType))
        for result in op.results:
            if result.op is not op:
                raise MalformedProgram(f"result of {op.name} does not know its operation")
        _define(op.results, visible)
    for result in block.results:
        _use(result, visible, consumed, None)


def _define(values: Sequence[Value], visible: set[Value]) -> None:
    for value in values:
        if value in visible:
            raise MalformedProgram(f"{value} is defined twice")
        visible.add(value)


def _use(value: Value, visible: set[Value], consumed: set[Value], op: Op | None) -> None:
    where = f"{op.name} ({op.loc})" if op else "the block's results"
    if not isinstance(value, Const) and value not in visible:
        raise MalformedProgram(f"{value} is used in {where} before it is defined")
    if value in consumed:
        raise MalformedProgram(f"sequence {value} is used in {where} after it was consumed")


def _types(op: Op) -> None:
    if op.name not in CONTROL and op.name != "call":
        if op.regions:
            raise MalformedProgram(f"{op.name} has regions")
        try:
            expected = infer(op.name, op.args, op.attrs)
        except TypeError as error:
            raise MalformedProgram(f"{op.name} ({op.loc}): {error}") from None
        _equal(op, "results", [r.type for r in op.results], expected)
        return
    results = [r.type for r in op.results]
    if op.name == "call":
        _call(op, results)
        return
    if op.name == "if":
        _equal(op, "condition", [op.args[0].type], [BOOL])
        for region in op.regions:
            _equal(op, "region parameters", [p.type for p in region.params], [])
            _equal(op, "region results", [r.type for r in region.results], results)
        return
    bounds = 3 if op.name == "for" else 0
    carried = [a.type for a in op.args[bounds:]]
    index: list[Type] = [I64] if bounds else []
    _equal(op, "bounds", [a.type for a in op.args[:bounds]], [I64] * bounds)
    body = op.regions[-1]
    _equal(op, "body parameters", [p.type for p in body.params], index + carried)
    _equal(op, "body results", [r.type for r in body.results], carried)
    _equal(op, "results", results, carried)
    if op.name == "while":
        _equal(op, "condition parameters", [p.type for p in op.regions[0].params], carried)
        _equal(op, "condition results", [r.type for r in op.regions[0].results], [BOOL])


def _call(op: Op, results: list[Type]) -> None:
    args: list[Type] = [a.type for a in op.args]
    own = results[: len(results) - op.attrs.get("residuals", 0)]
    primals = [r.type for r in op.regions[op.attrs.get("forward", 0)].results]
    inexact = [t for t in own if t.inexact]
    moving = [args[k] for k in op.attrs.get("wrt", ())]
    signatures = {
        "body": (args, results),
        "forward": (args, primals),
        "pullback": ([*args, *primals, *inexact], moving),
        "pushforward": ([*args, *moving], [*own, *inexact]),
    }
    for what, (params, ends) in signatures.items():
        if what != "body" and what not in op.attrs:
            continue
        region = op.regions[0 if what == "body" else op.attrs[what]]
        if free_values(region):
            raise MalformedProgram(f"call ({op.loc}): {what} uses values from outside")
        _equal(op, f"parameters of {what}", [p.type for p in region.params], params)
        _equal(op, f"results of {what}", [r.type for r in region.results], ends)
    _equal(op, "the first results of forward", primals[: len(own)], own)


def _equal(op: Op, what: str, found: Sequence[object], expected: Sequence[object]) -> None:
    if list(found) != list(expected):
        names = ", ".join(map(str, found)), ", ".join(map(str, expected))
        raise MalformedProgram(f"{op.name} ({op.loc}): {what} are ({names[0]}), expected ({names[1]})")
