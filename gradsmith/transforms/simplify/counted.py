"""``while i < n: …; i += c`` as a ``for``: its trip count is known before it runs, and so is the range of its index."""

from __future__ import annotations

from typing import NamedTuple

from gradsmith.ir.program import Block, Const, Op, Value
from gradsmith.ir.types import I64

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


class Count(NamedTuple):
    """Carried value ``position`` starts at ``start`` and moves by ``step`` while it is before ``stop`` (or on it)."""

    position: int
    start: Value
    stop: Value
    step: int
    inclusive: bool


def counter(op: Op) -> Count | None:
    """The counter of a ``while`` whose condition compares it with a value from outside, and nothing else."""
    condition, body = op.regions
    if len(condition.ops) != 1 or condition.results[0].op is not condition.ops[0]:
        return None
    (test,) = condition.ops
    if test.name not in _MIRRORED or any(a.type != I64 for a in test.args):
        return None
    comparison, (index, stop) = test.name, test.args
    if index not in condition.params:
        comparison, (stop, index) = _MIRRORED[comparison], test.args
    if index not in condition.params or stop in condition.params:
        return None
    position = condition.params.index(index)
    step = _step(body, position)
    if step is None or (step > 0) != (comparison in ("lt", "le")):
        return None
    return Count(position, op.args[position], stop, step, comparison in ("le", "ge"))


def _step(body: Block, position: int) -> int | None:
    """The constant that an iteration adds to a carried value; None if it does something else."""
    param, new = body.params[position], body.results[position]
    if new.op is None or new.op.name not in ("add", "sub"):
        return None
    x, y = new.op.args
    if x is param and isinstance(y, Const):
        return int(y.data) * (1 if new.op.name == "add" else -1)
    if y is param and isinstance(x, Const) and new.op.name == "add":
        return int(x.data)
    return None


def as_for(op: Op, count: Count, stop: Value) -> Op:
    """The ``for`` that does what ``op`` does, without the counter as a carried value; ``stop`` is exclusive."""
    body = op.regions[1]
    others = [k for k in range(len(op.results)) if k != count.position]
    body.params = [body.params[count.position], *(body.params[k] for k in others)]
    body.results = [body.results[k] for k in others]
    args = [count.start, stop, Const(count.step, I64), *(op.args[k] for k in others)]
    loop = Op("for", args, {}, [body], [op.results[k].type for k in others], op.loc)
    for result, k in zip(loop.results, others, strict=True):
        result.name = op.results[k].name
    return loop
