"""Programs built by hand, their derivatives, and finite differences to judge them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith.ir.builder import Builder, conj, const_like, current, real, sum_
from gradsmith.ir.checker import check
from gradsmith.ir.interpreter import run
from gradsmith.ir.program import Block, Const, Input, Op, Output, Program, Value
from gradsmith.ir.types import ArrayType
from gradsmith.transforms import forward, reverse


def array_type(x: Any) -> ArrayType:
    x = np.asarray(x)
    return ArrayType(x.dtype, x.ndim)


def build(f: Callable[..., Any], args: Sequence[Any]) -> Program:
    """The Program of ``f(*values)`` for parameters typed as ``args``; ``f`` emits with the builder's functions."""
    params = [Value(array_type(a), f"x{k}") for k, a in enumerate(args)]
    b = Builder(Block(params))
    with b:
        out = f(*params)
    b.block.results = list(out) if isinstance(out, tuple | list) else [out]
    return program(b.block)


def program(block: Block) -> Program:
    return check(Program("f", block, [Input() for _ in block.params], [Output() for _ in block.results]))


def grad_program(p: Program, wrt: Sequence[int] | None = None, value: bool = False) -> Program:
    """The gradient of the sum of all (real, scalar) results of ``p``; with ``value`` the primal results come first."""
    wrt = [k for k, x in enumerate(p.block.params) if x.type.inexact] if wrt is None else wrt
    params = [Value(x.type, x.name) for x in p.block.params]
    b = Builder(Block(params))
    results, pullback = reverse.vjp(b, p.block, params, wrt)
    with b:
        seeds = [const_like(1, r) if r.type.inexact else None for r in results]
        adjoints = pullback(seeds)
        out = [a if a is not None else reverse.zeros_like(params[k]) for k, a in zip(wrt, adjoints, strict=True)]
    b.block.results = [*results, *out] if value else out
    return program(b.block)


def jvp_program(p: Program, wrt: Sequence[int] | None = None) -> Program:
    """The tangents of all inexact results; takes the arguments, then one tangent for each of ``wrt``."""
    wrt = [k for k, x in enumerate(p.block.params) if x.type.inexact] if wrt is None else wrt
    params = [Value(x.type, x.name) for x in p.block.params]
    dots = [Value(params[k].type, f"d{k}") for k in wrt]
    b = Builder(Block([*params, *dots]))
    tangents: list[Value | None] = [None] * len(params)
    for k, dot in zip(wrt, dots, strict=True):
        tangents[k] = dot
    results, out = forward.jvp(b, p.block, params, tangents)
    with b:
        pairs = [(r, t) for r, t in zip(results, out, strict=True) if r.type.inexact]
        b.block.results = [t if t is not None else reverse.zeros_like(r) for r, t in pairs]
    return program(b.block)


def count(p: Program | Block, name: str) -> int:
    """How often an operation occurs, regions included."""
    block = p.block if isinstance(p, Program) else p
    return sum(op.name == name for op in block.walk())


def ops_named(block: Block, name: str) -> list[Op]:
    return [op for op in block.walk() if op.name == name]


def total(values: Sequence[Any]) -> Any:
    return sum(np.sum(v) for v in values if np.asarray(v).dtype.kind in "fc")


def directional(f: Callable[..., Any], args: Sequence[Any], directions: Sequence[Any], h: float = 1e-6) -> Any:
    """The central difference of ``f(*args)`` along ``directions`` (``None``: not moved), extrapolated once."""

    def at(step: float) -> Any:
        moved = zip(args, directions, strict=True)
        return f(*(a if d is None else np.asarray(a) + step * np.asarray(d) for a, d in moved))

    def slope(step: float) -> Any:
        return (at(step) - at(-step)) / (2 * step)

    return (4 * slope(h / 2) - slope(h)) / 3


def agrees(f: Any, args: Any, directions: Any, h: float, value: Any, tol: float) -> bool:
    """Whether ``value`` is the directional derivative; smaller steps are tried where ``f`` may have a jump nearby."""

    def error(step: float) -> float:
        expected = directional(f, args, directions, step)
        return float(np.max(np.abs(value - expected) / (1 + np.max(np.abs(expected), initial=0)), initial=0))

    return error(h) <= tol or error(h / 10) <= tol or error(h / 100) <= 10 * tol


def inner(g: Sequence[Any], d: Sequence[Any]) -> float:
    """The real inner product of cotangents and tangents."""
    return float(sum(np.sum(np.real(np.conj(a) * b)) for a, b in zip(g, d, strict=True)))


def random_like(rng: np.random.Generator, x: Any) -> Any:
    x = np.asarray(x)
    out = rng.normal(size=x.shape)
    if x.dtype.kind == "c":
        out = out + 1j * rng.normal(size=x.shape)
    return np.asarray(out, x.dtype)[()]


def check_derivatives(
    p: Program, args: Sequence[Any], tol: float = 1e-6, second: bool = False, h: float = 1e-5
) -> None:
    """Reverse and forward mode of ``p``, whose inexact results are real scalars, against finite differences."""
    rng = np.random.default_rng(0)
    wrt = [k for k, x in enumerate(p.block.params) if x.type.inexact]
    gradient, tangent = grad_program(p), jvp_program(p)
    g = run(gradient, args)
    dirs = [random_like(rng, args[k]) for k in wrt]
    full: list[Any] = [None] * len(args)
    for k, d in zip(wrt, dirs, strict=True):
        full[k] = d
    by_reverse = inner(g, dirs)
    by_forward = total(run(tangent, [*args, *dirs]))
    assert abs(by_forward - by_reverse) <= 1e-9 * (1 + abs(by_reverse)), (by_reverse, by_forward)
    assert agrees(lambda *a: total(run(p, a)), args, full, h, by_reverse, tol)
    for k, a in zip(wrt, g, strict=True):
        assert np.shape(a) == np.shape(args[k]) and np.asarray(a).dtype == p.block.params[k].dtype
    if second:
        check_second(p, gradient, args, wrt, dirs, full, tol, h)


def check_second(
    p: Program, gradient: Program, args: Any, wrt: Any, dirs: Any, full: Any, tol: float, h: float
) -> None:
    """Forward over reverse and reverse over reverse against a finite difference of the gradient."""
    hvp = jvp_program(gradient, wrt)
    by_forward = run(hvp, [*args, *dirs])

    def weighted(*values: Value) -> Value:
        """Σ gradient · direction, a scalar Program of the arguments."""
        out = current().inline(gradient.block, values)
        terms = []
        for a, d in zip(out, dirs, strict=True):
            product = real(conj(a) * Const(d)) if a.dtype.kind == "c" else a * Const(d)
            terms.append(sum_(product, range(product.ndim)))
        acc = terms[0]
        for term in terms[1:]:
            acc = acc + term
        return acc

    again = grad_program(build(weighted, args), wrt)
    by_reverse = run(again, args)
    for j in range(len(wrt)):
        np.testing.assert_allclose(by_forward[j], by_reverse[j], rtol=1e-7, atol=1e-7)
        assert agrees(lambda *a, j=j: run(gradient, a)[j], args, full, h, by_reverse[j], tol)
