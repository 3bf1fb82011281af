"""Editing a Program while it is built: splice operations in, add carried values, replace values, sweep dead code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from gradsmith.ir.builder import Builder
from gradsmith.ir.ops import EFFECTS
from gradsmith.ir.program import Block, Op, Value, free_values


@contextmanager
def emitting_before(b: Builder, block: Block, op: Op) -> Iterator[None]:
    """What is emitted goes into ``block`` just before ``op``."""
    with b.region() as ops:
        yield
    at = block.ops.index(op)
    block.ops[at:at] = ops.ops


@contextmanager
def emitting_after(b: Builder, block: Block, value: Value) -> Iterator[None]:
    """What is emitted goes into ``block`` right after the definition of ``value`` (to the start for a parameter)."""
    with b.region() as ops:
        yield
    at = block.ops.index(value.op) + 1 if value.op in block.ops else 0
    block.ops[at:at] = ops.ops


def add_carried(loop: Op, init: Value) -> Value:
    """One more carried value of a loop, unchanged by the body so far; returns the body's parameter."""
    loop.args.append(init)
    for region in loop.regions:
        region.params.append(Value(init.type))
    body = loop.regions[-1]
    body.results.append(body.params[-1])
    loop.add_result(init.type)
    return body.params[-1]


def replace_values(block: Block, mapping: Mapping[Value, Value]) -> None:
    """Replace uses of values in ``block`` and the regions below it."""
    for op in block.ops:
        op.args = [mapping.get(a, a) for a in op.args]
        for region in op.regions:
            replace_values(region, mapping)
    block.results = [mapping.get(r, r) for r in block.results]


def rewrite_ops(block: Block, rewrite: Callable[[Op], list[Op] | None]) -> None:
    """Put in place of every operation of ``block`` and the regions below it what ``rewrite`` gives, unless None."""
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            rewrite_ops(region, rewrite)
        new = rewrite(op)
        ops += [op] if new is None else new
    block.ops = ops


def sweep(block: Block) -> None:
    """Remove the operations of ``block`` itself whose results nobody uses."""
    used = set(block.results)
    kept = []
    for op in reversed(block.ops):
        if not used.isdisjoint(op.results) or runs_effects(op):
            kept.append(op)
            used.update(op.args)
            for region in op.regions:
                used.update(free_values(region))
    block.ops = kept[::-1]


def runs_effects(op: Op) -> bool:
    """Whether running ``op`` does more than compute its results."""
    regions = op.regions[:1] if op.name == "call" else op.regions
    return op.name in EFFECTS or any(runs_effects(inner) for region in regions for inner in region.ops)
