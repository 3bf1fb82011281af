"""Calls in Programs: parts of random Programs put into calls have the derivatives of the whole; effects stay."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradsmith.backends import native, python
from gradsmith.backends.effects import Effect
from gradsmith.ir.builder import Builder, cos, current, elementwise, emit, i64, sin
from gradsmith.ir.checker import MalformedProgram, check
from gradsmith.ir.interpreter import run
from gradsmith.ir.program import Block, Input, Op, Output, Program, Value, free_values
from gradsmith.ir.types import F64, I64, SeqType
from gradsmith.transforms.edit import replace_values
from gradsmith.transforms.expand import close, expand
from gradsmith.transforms.reverse import add_pullback
from gradsmith.transforms.simplify import simplify
from tests.transforms.helpers import build, count, grad_program, jvp_program, random_like
from tests.transforms.random_programs import random_program

QUICK: dict[str, Any] = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
KINDS: list[dict[str, Any]] = [{"checkpoint": True}, {"body": True}, {"pullback": True}]


def blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from blocks(region)


def outline(block: Block, first: int, last: int, kind: dict[str, Any]) -> None:
    """Put the operations from ``first`` up to ``last`` of a block into a call."""
    ops = block.ops[first:last]
    inside = {r for op in ops for r in op.results}
    used = set(block.results)
    for op in block.ops[last:]:
        used.update(op.args)
        for inner in op.regions:
            used.update(free_values(inner))
    results = [v for v in inside if v in used]
    region = Block((), ops, results)
    operands = close(region)
    if any(isinstance(v.type, SeqType) for v in (*operands, *results)):
        for k, param in enumerate(region.params):  # undo: sequences are no operands
            replace_values(region, {param: operands[k]})
        return
    attrs: dict[str, Any] = {"function": "part", **kind}
    if "checkpoint" not in kind:
        attrs["wrt"] = tuple(k for k, v in enumerate(operands) if v.type.inexact)
    attrs.pop("pullback", None)
    call = Op("call", operands, attrs, [region], [v.type for v in results])
    if "pullback" in kind:
        add_pullback(call)
    for old, new in zip(results, list(call.results), strict=True):
        stand_in = Value(old.type, old.name, old.op)  # the region keeps a value of its own; users keep theirs
        assert old.op is not None
        old.op.results[old.op.results.index(old)] = stand_in
        for b in blocks(region):
            for op in b.ops:
                op.args = [stand_in if a is old else a for a in op.args]
            b.results = [stand_in if r is old else r for r in b.results]
        call.results[call.results.index(new)] = old
        old.op = call
    block.ops[first:last] = [call]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: next(iter(kind)))
@settings(max_examples=5, **QUICK)
@given(seed=st.integers(0, 10**9))
def test_calls_have_the_derivatives_of_what_they_hold(kind: dict[str, Any], seed: int) -> None:
    rng = random.Random(seed)
    plain, args = random_program(rng)
    called = copy.deepcopy(plain)
    for block in list(blocks(called.block)):
        for _ in range(2):
            if len(block.ops) > 3:
                first = rng.randrange(len(block.ops) - 1)
                outline(block, first, first + rng.randint(1, 6), kind)
    check(called)
    assert count(called, "call")
    np.testing.assert_allclose(run(called, args), run(plain, args), rtol=1e-14)
    gradient, expected = grad_program(called), grad_program(plain)
    for a, b in zip(run(gradient, args), run(expected, args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    directions = [random_like(np.random.default_rng(0), a) for a in args]
    forward = run(jvp_program(called), [*args, *directions])
    np.testing.assert_allclose(forward, run(jvp_program(plain), [*args, *directions]), rtol=1e-9, atol=1e-12)
    second, wanted = (run(jvp_program(p), [*args, *directions]) for p in (gradient, expected))
    for a, b in zip(second, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    expand(gradient.block, lambda op: True, forget=True)
    check(gradient)
    assert not count(gradient, "call")
    for a, b in zip(run(simplify(gradient), args), run(expected, args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def noted(log: list[Any], name: str = "note") -> Effect:
    def note(*values: Any) -> list[Any]:
        log.append(values)
        return [np.float64(len(log))]

    return Effect(name, note, (F64,))


@pytest.mark.parametrize("compile", [native.compile, python.compile])
def test_effects_are_neither_merged_nor_dropped_nor_moved(compile: Any) -> None:
    log: list[Any] = []
    effect = noted(log)

    def f(x: Value) -> Value:
        emit("effect", sin(x), fn=effect)  # not used
        a = emit("effect", x, fn=effect)
        b = emit("effect", x, fn=effect)  # equal operands
        i, s = Value(I64, "i"), Value(F64, "s")
        with current().region([i, s]) as body:
            r = emit("effect", x, fn=effect)  # invariant
            body.results = [s + r]
        loop = current().emit_control("for", [i64(0), i64(3), i64(1), a + b], [body])
        return loop.result + cos(x)

    p = simplify(build(f, [1.0]))
    assert count(p, "effect") == 4
    value = compile(p)(np.array(1.0))
    assert value == 2 + 3 + 4 + 5 + 6 + np.cos(1.0)
    assert [v[0] for v in log] == [np.sin(1.0), *[1.0] * 5]


def test_simplification_leaves_calls_alone_and_drops_those_that_nobody_needs() -> None:
    def f(x: Value) -> Value:
        def part(pure: bool) -> Op:
            y = Value(F64)
            with current().region([y]) as region:
                if not pure:
                    emit("effect", y, fn=noted([]))
                region.results = [elementwise("mul", sin(y), sin(y))]
            return current().emit_control("call", [x], [region], checkpoint=True, function="part")

        part(True)
        part(False)
        return part(True).result + part(True).result + sin(x)

    p = simplify(build(f, [1.0]))
    check(p)
    assert count(p, "call") == 3  # an effect, and two that are not merged
    assert sum(op.name == "sin" for op in p.block.ops) == 1


def test_checker_refuses_what_is_not_closed() -> None:
    x, y = Value(F64, "x"), Value(F64)
    b = Builder(Block([x]))
    with b:
        with b.region([y]) as region:
            region.results = [x + y]
        op = b.emit_control("call", [x], [region], checkpoint=True, function="part")
    b.block.results = op.results
    with pytest.raises(MalformedProgram, match="from outside"):
        check(Program("p", b.block, [Input()], [Output()]))
