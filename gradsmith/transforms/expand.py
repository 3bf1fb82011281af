"""Calls put in their place: the region of a ``call`` instead of the operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradsmith.ir.program import Block, Const, Op, Value, free_values
from gradsmith.transforms.edit import replace_values


def expand(block: Block, chosen: Callable[[Op], bool], forget: bool = False) -> None:
    """Inline the chosen calls of ``block``, in regions too.

    ``forget``: there is no further derivative, so every ``detach`` becomes its operand.
    """
    _expand(block, chosen, forget, {})


def _expand(block: Block, chosen: Callable[[Op], bool], forget: bool, mapping: dict[Value, Value]) -> None:
    ops: list[Op] = []
    for op in block.ops:
        op.args = [mapping.get(a, a) for a in op.args]
        if op.name == "detach" and forget:
            mapping[op.result] = op.args[0]
            continue
        if op.name != "call" or not chosen(op):
            for region in op.regions:
                _expand(region, chosen, forget, mapping)
            ops.append(op)
            continue
        body = op.regions[0]
        mapping.update(zip(body.params, op.args, strict=True))
        _expand(body, chosen, forget, mapping)
        ops += body.ops
        for old, new in zip(op.results, body.results, strict=True):
            mapping[old] = new
            if old.name and not new.name and not isinstance(new, Const):
                new.name = old.name
    block.ops = ops
    block.results = [mapping.get(r, r) for r in block.results]


def has_residuals(op: Op) -> bool:
    """Whether a derivative of the call has been taken: its results include residuals, it is ordinary code now."""
    return "residuals" in op.attrs


def close(block: Block) -> list[Value]:
    """Make the values that ``block`` uses from outside its last parameters; returns them."""
    free = free_values(block)
    bind(block, free, at=len(block.params))
    return free


def bind(block: Block, values: Sequence[Value], at: int = 0) -> None:
    """Insert parameters at ``at`` that stand for ``values``, which ``block`` uses from outside."""
    params = [Value(v.type, v.name) for v in values]
    replace_values(block, dict(zip(reversed(values), reversed(params), strict=True)))
    block.params[at:at] = params
