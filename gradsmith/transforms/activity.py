"""Which values a derivative flows through: *varied* (they depend on the inputs), *useful* (outputs depend on them)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Block, Const, Op, Value
from gradsmith.ir.types import SeqType
from gradsmith.rules import elementwise, structural

#: from every value to the values that a derivative reaches in one step
Graph = Mapping[Value, Sequence[Value]]


def differentiable(op: Op, operand: int) -> bool:
    """Whether the results of an operation without regions have a derivative with respect to that operand."""
    if op.name in ELEMENTWISE:
        return elementwise.flows(op.name, operand)
    if op.name in structural.CONSTANT:
        return False
    return operand in structural.DIFFERENTIABLE.get(op.name, (operand,))


class Activity:
    """The derivative's data flow through the operations ``ops``, regions included.

    A value carried by a loop is one slot: its result stands for it, and reaches the parameter and is reached from it.
    """

    def __init__(self, ops: Sequence[Op]):
        self.forward: dict[Value, list[Value]] = defaultdict(list)
        self.backward: dict[Value, list[Value]] = defaultdict(list)
        for source, target in _dependences(ops):
            if source.type.inexact and target.type.inexact and not isinstance(source, Const):
                self.forward[source].append(target)
                self.backward[target].append(source)
        for old, new in _versions(ops):  # an adjoint of a sequence is built from its last version on
            self.backward[old].append(new)

    def varied(self, seeds: Iterable[Value]) -> set[Value]:
        """Every value that depends on ``seeds``."""
        return reach(self.forward, seeds)

    def useful(self, seeds: Iterable[Value]) -> set[Value]:
        """Every value that ``seeds`` depend on."""
        return reach(self.backward, seeds)


def reach(graph: Graph, seeds: Iterable[Value], within: set[Value] | None = None) -> set[Value]:
    """Everything reached from ``seeds``; with ``within``, steps are taken only from its members (and the seeds)."""
    pending = list(seeds)
    found = set(pending)
    while pending:
        for value in graph.get(pending.pop(), ()):
            if value not in found:
                found.add(value)
                if within is None or value in within:
                    pending.append(value)
    return found


def _dependences(ops: Iterable[Op]) -> Iterator[tuple[Value, Value]]:
    for op in ops:
        if op.name == "call":
            yield from ((a, r) for a in op.args for r in op.results)
            continue
        for region in op.regions:
            yield from _dependences(region.ops)
        if op.name == "if":
            for region in op.regions:
                yield from zip(region.results, op.results, strict=True)
        elif op.regions:
            yield from _carried(op)
        else:
            yield from ((a, r) for k, a in enumerate(op.args) if differentiable(op, k) for r in op.results)


def _carried(op: Op) -> Iterator[tuple[Value, Value]]:
    inits, params = loop_slots(op)
    body = op.regions[-1]
    for init, param, end, result in zip(inits, params, body.results, op.results, strict=True):
        yield init, result
        yield end, result
        yield result, param
        yield param, result


def _versions(ops: Iterable[Op]) -> Iterator[tuple[Value, Value]]:
    """Sequences and their next versions."""
    for op in ops:
        for region in op.regions:
            yield from _versions(region.ops)
        if op.name in ("seq_push", "seq_pop", "seq_add"):
            yield op.args[0], op.results[0]
        elif op.name in ("for", "while"):
            slots = zip(loop_slots(op)[0], op.regions[-1].results, op.results, strict=True)
            yield from ((old, new) for a, y, new in slots for old in (a, y) if isinstance(new.type, SeqType))
        elif op.name == "if":
            ends = [pair for region in op.regions for pair in zip(region.results, op.results, strict=True)]
            yield from ((old, new) for old, new in ends if isinstance(new.type, SeqType))


def loop_slots(op: Op) -> tuple[list[Value], list[Value]]:
    """The initial values and the body parameters of what a loop carries."""
    return (op.args[3:], op.regions[0].params[1:]) if op.name == "for" else (op.args, op.regions[1].params)


def defined_inside(block: Block) -> set[Value]:
    """Every value defined in ``block`` or in a region below it."""
    out = set(block.params)
    for op in block.walk():
        out.update(op.results)
        for region in op.regions:
            out.update(region.params)
    return out
