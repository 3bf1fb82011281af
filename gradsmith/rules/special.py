"""Partial derivatives of functions of ``scipy.special`` that are ``host`` operations, elementwise and real.

``PARTIALS[name]`` has one function of ``(z, *operands)`` per operand, as in :mod:`gradsmith.rules.elementwise`;
``None`` for an order or a shape parameter, where the derivative has no closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gradsmith import errors
from gradsmith.ir.builder import const_like, digamma, elementwise, exp, host, log, unbroadcast
from gradsmith.ir.program import Op, Value
from gradsmith.ir.types import ArrayType
from gradsmith.rules.elementwise import times
from gradsmith.rules.structural import Adjoints, plus

SpecialPartial: TypeAlias = Callable[..., Value] | None
SQRT_PI, SQRT_2PI = math.sqrt(math.pi), math.sqrt(2 * math.pi)


def special(name: str, *args: Any) -> Value:
    """A function of ``scipy.special`` for Values and numbers that broadcast."""
    like = next(a for a in reversed(args) if isinstance(a, Value))
    values = [a if isinstance(a, Value) else const_like(a, like) for a in args]
    return host(f"scipy.special.{name}", values, [ArrayType(like.dtype, max(v.ndim for v in values))])


def _bessel(name: str, sign: int) -> Callable[..., Value]:
    """``(f(n - 1, x) + sign f(n + 1, x)) / 2``"""
    return lambda z, n, x: 0.5 * (special(name, n - 1, x) + sign * special(name, n + 1, x))


def _beta(z: Value, a: Value, b: Value) -> Value:
    return z * (digamma(a) - digamma(a + b))


def _betaln(z: Value, a: Value, b: Value) -> Value:
    return digamma(a) - digamma(a + b)


def _gamma_density(z: Value, a: Value, x: Value) -> Value:
    return exp((a - 1) * log(x) - x - elementwise("gammaln", a))


def _beta_density(z: Value, a: Value, b: Value, x: Value) -> Value:
    return exp((a - 1) * log(x) + (b - 1) * elementwise("log1p", -x) - special("betaln", a, b))


PARTIALS: dict[str, tuple[SpecialPartial, ...]] = {
    "i0": (lambda z, x: special("i1", x),),
    "i1": (lambda z, x: 0.5 * (special("i0", x) + special("iv", 2, x)),),
    "iv": (None, _bessel("iv", 1)),
    "j0": (lambda z, x: -special("j1", x),),
    "j1": (lambda z, x: 0.5 * (special("j0", x) - special("jv", 2, x)),),
    "jv": (None, _bessel("jv", -1)),
    "y0": (lambda z, x: -special("y1", x),),
    "y1": (lambda z, x: special("y0", x) - z / x,),
    "yv": (None, _bessel("yv", -1)),
    "erfinv": (lambda z, x: 0.5 * SQRT_PI * exp(z * z),),
    "erfcinv": (lambda z, x: -0.5 * SQRT_PI * exp(z * z),),
    "erfcx": (lambda z, x: 2 * x * z - 2 / SQRT_PI,),
    "dawsn": (lambda z, x: 1 - 2 * x * z,),
    "ndtr": (lambda z, x: exp(-0.5 * (x * x)) / SQRT_2PI,),
    "log_ndtr": (lambda z, x: exp(-0.5 * (x * x) - z) / SQRT_2PI,),
    "ndtri": (lambda z, x: SQRT_2PI * exp(0.5 * (z * z)),),
    "logit": (lambda z, x: 1 / (x * (1 - x)),),
    "log_expit": (lambda z, x: elementwise("expit", -x),),
    "entr": (lambda z, x: -1 - log(x),),
    "beta": (_beta, lambda z, a, b: _beta(z, b, a)),
    "betaln": (_betaln, lambda z, a, b: _betaln(z, b, a)),
    "expi": (lambda z, x: exp(x) / x,),
    "exp1": (lambda z, x: -exp(-x) / x,),
    "gammainc": (None, _gamma_density),
    "gammaincc": (None, lambda z, a, x: -_gamma_density(z, a, x)),
    "betainc": (None, None, _beta_density),
}


def _partial(op: Op, k: int, z: Value, args: Sequence[Value]) -> Value:
    name = op.attrs["fn"].rpartition(".")[2]
    partial = PARTIALS[name][k]
    if partial is None:
        raise errors.MissingRule(f"scipy.special.{name} has no derivative with respect to operand {k + 1} ({op.loc})")
    return partial(z, *args)


def _pullback(op: Op, g: Adjoints, wanted: Sequence[bool]) -> list[Value | None]:
    out: list[Value | None] = []
    for k, (x, want) in enumerate(zip(op.args, wanted, strict=True)):
        part = times(g[0], _partial(op, k, op.result, op.args)) if want and g[0] is not None else None
        out.append(unbroadcast(part, x) if part is not None and len(op.args) > 1 else part)
    return out


def _pushforward(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> list[Value | None]:
    total: Value | None = None
    for k, tangent in enumerate(d):
        part = times(tangent, _partial(op, k, results[0], args)) if tangent is not None else None
        total = plus(total, part)
    return [total]


PULLBACKS = {f"scipy.special.{name}": _pullback for name in PARTIALS}
PUSHFORWARDS = {f"scipy.special.{name}": _pushforward for name in PARTIALS}
