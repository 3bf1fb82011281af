"""Runs a Program one operation at a time on NumPy values: the meaning of Programs, and the judge of the back ends."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import numpy as np

from gradsmith.backends import host
from gradsmith.errors import GuardFailed, located
from gradsmith.ir.program import Block, Const, Op, Program, Value

Env = MutableMapping[Value, Any]


def run(program: Program, args: Sequence[Any]) -> list[Any]:
    """The results of ``program`` for flat ``args`` as NumPy scalars and ndarrays."""
    env: Env = {p: host.exact(a, p.type) for p, a in zip(program.block.params, args, strict=True)}
    with np.errstate(all="ignore"):
        return run_block(program.block, env)


def run_block(block: Block, env: Env) -> list[Any]:
    """Run the operations of ``block``, whose parameters ``env`` already holds; returns its results."""
    for op in block.ops:
        run_op(op, env)
    return [read(r, env) for r in block.results]


def read(value: Value, env: Env) -> Any:
    return value.data if isinstance(value, Const) else env[value]


def run_op(op: Op, env: Env) -> None:
    """Run one operation, adding its results to ``env``."""
    args = [read(a, env) for a in op.args]
    run = _RUN.get(op.name) or (_sequence if op.name.startswith("seq_") else _array)
    outs = run(op, args, env)
    env.update(zip(op.results, outs, strict=True))


def update(op: Op, array: Any, env: Env) -> None:
    """Run ``set`` or ``add_at`` on ``array`` itself, which is then the result."""
    with located(op.loc):
        host.update(op, array, *(read(a, env) for a in op.args[1:]))


def _array(op: Op, args: list[Any], env: Env) -> Sequence[Any]:
    with located(op.loc):
        return host.evaluate(op, args)


def _if(op: Op, args: list[Any], env: Env) -> Sequence[Any]:
    return run_block(op.regions[0 if args[0] else 1], env)


def _for(op: Op, args: list[Any], env: Env) -> Sequence[Any]:
    indices = range(*map(int, args[:3]))
    carried = args[3:]
    body = op.regions[0]
    for i in reversed(indices) if op.attrs.get("reverse") else indices:
        env.update(zip(body.params, [np.int64(i), *carried], strict=True))
        carried = run_block(body, env)
    return carried


def _while(op: Op, args: list[Any], env: Env) -> Sequence[Any]:
    cond, body = op.regions
    carried = args
    while True:
        env.update(zip(cond.params, carried, strict=True))
        if not run_block(cond, env)[0]:
            return carried
        env.update(zip(body.params, carried, strict=True))
        carried = run_block(body, env)


def _check(op: Op, args: list[Any], env: Env) -> Sequence[Any]:
    if not args[0]:
        with located(op.loc):
            raise op.attrs["error"](op.attrs["message"].format(*args[1:]))
    return ()


def _guard(op: Op, args: list[Any], env: Env) -> Sequence[Any]:
    if not args[0]:
        raise GuardFailed
    return ()


def _sequence(op: Op, args: list[Any], env: Env) -> Sequence[Any]:
    if op.name == "seq_stack" and op.result.ndim == 1:
        return [np.array(args[0], op.result.dtype)]
    return _SEQUENCES[op.name](*args)


def _seq_add(s: tuple[Any, ...], i: Any, v: Any) -> list[Any]:
    return [(*s[: int(i)], s[int(i)] + v, *s[int(i) + 1 :])]


def _call(op: Op, args: list[Any], env: Env) -> Sequence[Any]:
    body = op.regions[0]
    env.update(zip(body.params, args, strict=True))
    return run_block(body, env)


_RUN: dict[str, Callable[[Op, list[Any], Env], Sequence[Any]]] = {
    "if": _if,
    "for": _for,
    "while": _while,
    "check": _check,
    "guard": _guard,
    "call": _call,
}
_SEQUENCES: dict[str, Callable[..., list[Any]]] = {
    "seq_new": lambda: [()],
    "seq_push": lambda s, v: [(*s, v)],
    "seq_pop": lambda s: [s[:-1], s[-1]],
    "seq_get": lambda s, i: [s[int(i)]],
    "seq_len": lambda s: [np.int64(len(s))],
    "seq_add": _seq_add,
    "seq_stack": lambda s: [np.stack(s)],
    "seq_unstack": lambda x: [tuple(x)],
    "seq_zeros": lambda s: [tuple(np.zeros_like(v)[()] for v in s)],
}
