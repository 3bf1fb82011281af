"""Solving, inverses, determinants and triangular systems.

Notation: ``ᴴ`` conjugate transpose, ``ā`` the adjoint of ``a``, ``da`` its tangent, ``∘`` the elementwise product.
Formulas: Giles, "Collected matrix derivative results for forward and reverse mode AD" (2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradsmith.ir.builder import (
    broadcast_to,
    conj,
    const_like,
    elementwise,
    emit,
    host,
    imag,
    index,
    real,
    shape,
    sum_,
    unbroadcast,
)
from gradsmith.ir.program import Op, Value
from gradsmith.rules.matrices import (
    Rules,
    column,
    complexified,
    inverse,
    lower,
    matrixwise,
    mm,
    row,
    solve,
    t,
)
from gradsmith.rules.structural import Adjoints, conj_, h


def _solve(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    (a, b), z, gz = op.args, op.result, g[0]
    assert gz is not None
    vector = b.ndim == 1
    if vector:
        gz, z = column(gz), column(z)
    gb = solve(h(a), gz)
    ga = -unbroadcast(mm(gb, h(z)), a) if wanted[0] else None
    if vector:
        gb = index(gb, [":"] * (gb.ndim - 1) + ["i"], [0])
    return [ga, unbroadcast(gb, b) if gb.ndim > b.ndim or b.ndim > 2 else gb]


def _solve_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    (a, b), z = args, results[0]
    vector = b.ndim == 1
    right = None if d[1] is None else column(d[1]) if vector else d[1]
    if d[0] is not None:
        moved = mm(d[0], column(z) if vector else z)
        right = -moved if right is None else right - moved
    assert right is not None
    dz = solve(a, right)
    return [index(dz, [":"] * (dz.ndim - 1) + ["i"], [0]) if vector else broadcast_to(dz, shape(z))]


def _inv(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    zh = h(op.result)
    return [-mm(mm(zh, g[0]), zh)]  # type: ignore[arg-type]


def _inv_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    return [-mm(mm(results[0], d[0]), results[0])]  # type: ignore[arg-type]


COFACTORS = "gradsmith.backends.hosted.cofactors"


def _cofactors(a: Value) -> Value:
    """``det(a) a⁻ᵀ``, finite for singular matrices too."""
    return host(COFACTORS, [a], [a.type])


def _det(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    return [matrixwise(g[0]) * conj_(_cofactors(op.args[0]))]  # type: ignore[arg-type]


def _det_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    a = args[0]
    return [sum_(_cofactors(a) * d[0], [a.ndim - 2, a.ndim - 1])]


def _cofactors_pull(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    a, c, gc = op.args[0], op.result, g[0]
    w = conj_(t(inverse(a)))
    c = conj_(c)
    return [matrixwise(sum_(gc * c, [a.ndim - 2, a.ndim - 1])) * w - mm(mm(w, t(gc)), c)]  # type: ignore[operator,arg-type]


def _cofactors_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    a, c, da = args[0], results[0], d[0]
    assert da is not None
    w = t(inverse(a))
    return [matrixwise(sum_(w * da, [a.ndim - 2, a.ndim - 1])) * c - mm(mm(c, t(da)), w)]


def _slogdet(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    a, (sign, _), (gsign, glog) = op.args[0], op.results, g
    total = None if glog is None else complexified(glog, a)
    if gsign is not None and a.dtype.kind == "c":
        turn = elementwise("complex", 0, -imag(conj(gsign) * sign))
        total = turn if total is None else total + turn
    return [None if total is None else matrixwise(total) * h(inverse(a))]


def _slogdet_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    a, sign = args[0], results[0]
    trace = sum_(t(inverse(a)) * d[0], [a.ndim - 2, a.ndim - 1])
    if a.dtype.kind != "c":
        return [None, trace]
    return [sign * elementwise("complex", 0, imag(trace)), real(trace)]


_TRANS = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}


def _triangle(x: Value, kwargs: dict[str, Any]) -> Value:
    """The entries that ``solve_triangular`` reads."""
    k = -1 if kwargs.get("unit_diagonal") else 0
    return lower(x, k) if kwargs.get("lower") else t(lower(t(x), k))


def _operated(x: Value, trans: int) -> Value:
    return x if trans == 0 else t(x) if trans == 1 else h(x)


def _solve_triangular(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    (a, b), z, kwargs, gz = op.args, op.result, op.attrs["kwargs"], g[0]
    assert gz is not None
    trans = _TRANS[kwargs.get("trans", 0)]
    # the adjoint system has the matrix op(a)ᴴ
    matrix, adjoint = {0: (a, 2), 1: (conj_(a), 0), 2: (a, 0)}[trans]
    gb = host("scipy.linalg.solve_triangular", [matrix, gz], [gz.type], **{**kwargs, "trans": adjoint})
    if not wanted[0]:
        return [None, gb]
    outer = -mm(column(gb), conj_(row(z))) if b.ndim == 1 else -mm(gb, h(z))
    return [_triangle(_operated(outer, trans), kwargs), gb]


def _solve_triangular_push(
    op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints
) -> Sequence[Value | None]:
    a, z, kwargs = args[0], results[0], op.attrs["kwargs"]
    right = d[1]
    if d[0] is not None:
        moved = mm(_operated(_triangle(d[0], kwargs), _TRANS[kwargs.get("trans", 0)]), z)
        right = -moved if right is None else right - moved
    return [host("scipy.linalg.solve_triangular", [a, right], [z.type], **kwargs)]  # type: ignore[list-item]


def _expm(op: Op, a: Value, direction: Value) -> Value:
    """The derivative of the matrix exponential in a direction: a block of the exponential of a block matrix."""
    zero = direction * const_like(0, direction)
    axis = a.ndim - 1
    top = emit("concatenate", a, direction, axis=axis)
    blocks = emit("concatenate", top, emit("concatenate", zero, a, axis=axis), axis=axis - 1)
    n = emit("dim", a, axis=axis)
    until, behind = ("s", False, True, False), ("s", True, False, False)
    return index(host("scipy.linalg.expm", [blocks], [a.type]), [*":" * (axis - 1), until, behind], [n, n])


PULLBACKS: Rules = {
    "numpy.linalg.solve": _solve,
    "numpy.linalg.inv": _inv,
    "numpy.linalg.det": _det,
    COFACTORS: _cofactors_pull,
    "numpy.linalg.slogdet": _slogdet,
    "scipy.linalg.expm": lambda op, g, wanted: [_expm(op, h(op.args[0]), g[0])],
    "scipy.linalg.solve_triangular": _solve_triangular,
}

PUSHFORWARDS: Rules = {
    "numpy.linalg.solve": _solve_push,
    "numpy.linalg.inv": _inv_push,
    "numpy.linalg.det": _det_push,
    COFACTORS: _cofactors_push,
    "numpy.linalg.slogdet": _slogdet_push,
    "scipy.linalg.expm": lambda op, args, results, d: [_expm(op, args[0], d[0])],
    "scipy.linalg.solve_triangular": _solve_triangular_push,
}
