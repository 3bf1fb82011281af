"""Pullback and pushforward of ``numpy.einsum``, a host operation with the subscripts as a static keyword.

The adjoint of one operand is an einsum of the result's adjoint with all other operands. An axis that only this operand
has is filled with ones, a letter that it has twice (a diagonal) becomes an identity matrix.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

from gradsmith.ir.builder import const_like, elementwise, emit, full, host, index, unbroadcast, where
from gradsmith.ir.program import Op, Value
from gradsmith.ir.types import ArrayType
from gradsmith.rules.structural import Adjoints, conj_, plus

NAME = "numpy.einsum"


def terms(subscripts: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """The letters of every operand and of the result: ellipses and an implied result spelt out."""
    left, arrow, result = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    unused = [c for c in string.ascii_letters if c not in subscripts]
    counts = [n - len(term.replace("...", "")) if "..." in term else 0 for term, n in zip(inputs, ndims, strict=True)]
    extra = "".join(unused[: max(counts, default=0)])
    if not arrow:
        letters = left.replace("...", "").replace(",", "")
        result = "..." * ("..." in left) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    spelt = [term.replace("...", extra[len(extra) - n :]) for term, n in zip(inputs, counts, strict=True)]
    return spelt, result.replace("...", extra)


def einsum(inputs: Sequence[str], result: str, operands: Sequence[Value]) -> Value:
    dtype = operands[0].dtype
    return host(NAME, operands, [ArrayType(dtype, len(result))], subscripts=f"{','.join(inputs)}->{result}")


def _pullback(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    inputs, result = terms(op.attrs["kwargs"]["subscripts"], [a.ndim for a in op.args])
    assert g[0] is not None
    return [_operand(op, g[0], k, inputs, result) if want else None for k, want in enumerate(wanted)]


def _operand(op: Op, g: Value, k: int, inputs: list[str], result: str) -> Value:
    x = op.args[k]
    names = [result, *inputs[:k], *inputs[k + 1 :]]
    values = [g, *(conj_(a) for j, a in enumerate(op.args) if j != k)]
    known = set("".join(names))
    unused = iter(c for c in string.ascii_letters if c not in known and c not in inputs[k])
    target = ""
    for axis, letter in enumerate(inputs[k]):
        if letter in target:
            twin = next(unused)
            names.append(letter + twin)
            values.append(_identity(x, axis))
            letter = twin
        elif letter not in known:
            names.append(letter)
            values.append(full(const_like(1, x), [emit("dim", x, axis=axis)]))
        target += letter
    out = einsum(names, target, values)
    return unbroadcast(out, x) if "..." in op.attrs["kwargs"]["subscripts"] and x.ndim else out


def _identity(x: Value, axis: int) -> Value:
    n = emit("dim", x, axis=axis)
    i = emit("iota", n, dtype=n.dtype)
    return where(elementwise("eq", index(i, [":", "n"]), index(i, ["n", ":"])), const_like(1, x), const_like(0, x))


def _pushforward(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    total: Value | None = None
    for k, tangent in enumerate(d):
        if tangent is not None:
            operands = [tangent if j == k else a for j, a in enumerate(args)]
            part = host(NAME, operands, [r.type for r in results], **op.attrs["kwargs"])
            total = plus(total, part)
    return [total]


PULLBACKS = {NAME: _pullback}
PUSHFORWARDS = {NAME: _pushforward}
