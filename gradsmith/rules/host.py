"""The rules of ``host`` operations, by the dotted name of the function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradsmith import errors
from gradsmith.ir.program import Op, Value
from gradsmith.rules import einsum, factorisations, fft, linalg, special, vectors
from gradsmith.rules.matrices import Rules
from gradsmith.rules.structural import Adjoints

_TABLES = (linalg, factorisations, vectors, einsum, fft, special)
PULLBACKS: Rules = {name: rule for module in _TABLES for name, rule in module.PULLBACKS.items()}
PUSHFORWARDS: Rules = {name: rule for module in _TABLES for name, rule in module.PUSHFORWARDS.items()}


def pullback(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Any]:
    """One contribution per operand of a ``host`` operation."""
    return _rule(PULLBACKS, op)(op, g, wanted)


def pushforward(
    op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints, used: Sequence[bool]
) -> Sequence[Value | None]:
    """One tangent per result of a ``host`` operation; ``used`` says which results matter."""
    if op.attrs["fn"] == "numpy.linalg.svd" and len(used) == 3 and not (used[0] or used[2]):
        return [None, *factorisations.svd_pushforward(op, args, results, d, vectors=False), None]
    return _rule(PUSHFORWARDS, op)(op, args, results, d)


def _rule(rules: Rules, op: Op) -> Callable[..., Any]:
    name = op.attrs["fn"]
    if name not in rules:
        raise errors.MissingRule(
            f"no derivative is known for {name} ({op.loc}): "
            "give it a rule, or keep the derivative away with stop_gradient"
        )
    return rules[name]
