"""Partial derivatives of functions of ``scipy.special`` that are ``host`` operations, elementwise and real.

``PARTIALS[name]`` has one function of ``(z, *operands)`` per operand, as in :mod:`gradsmith.rules.elementwise`;
``None`` for an order or a shape parameter, where the derivative has no closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gradsmith import errors
from gradsmith.ir.builder import abs_, const_like, digamma, elementwise, exp, host, log, sign, sin, unbroadcast, where
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


def _bessel(name: str, plus_or_minus: int) -> Callable[..., Value]:
    """``(f(n - 1, x) ± f(n + 1, x)) / 2``"""
    return lambda z, n, x: 0.5 * (special(name, n - 1, x) + plus_or_minus * special(name, n + 1, x))


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
    "gammaincinv": (None, lambda z, a, y: 1 / _gamma_density(y, a, z)),
    "betaincinv": (None, None, lambda z, a, b, y: 1 / _beta_density(y, a, b, z)),
    "i0e": (lambda z, x: special("i1e", x) - sign(x) * z,),
    "i1e": (lambda z, x: 0.5 * (special("i0e", x) + special("ive", 2, x)) - sign(x) * z,),
    "ive": (None, lambda z, n, x: _bessel("ive", 1)(z, n, x) - sign(x) * z),
    "k0": (lambda z, x: -special("k1", x),),
    "k1": (lambda z, x: -0.5 * (special("k0", x) + special("kv", 2, x)),),
    "kv": (None, lambda z, n, x: -_bessel("kv", 1)(z, n, x)),
    "k0e": (lambda z, x: z - special("k1e", x),),
    "k1e": (lambda z, x: z - 0.5 * (special("k0e", x) + special("kve", 2, x)),),
    "kve": (None, lambda z, n, x: z - _bessel("kve", 1)(z, n, x)),
    "erfi": (lambda z, x: 2 / SQRT_PI * exp(x * x),),
    "rgamma": (lambda z, x: -z * digamma(x),),
    "binom": (
        lambda z, n, k: z * (digamma(n + 1) - digamma(n - k + 1)),
        lambda z, n, k: z * (digamma(n - k + 1) - digamma(k + 1)),
    ),
    "xlogy": (lambda z, x, y: log(y), lambda z, x, y: _ratio(x, y)),
    "xlog1py": (lambda z, x, y: elementwise("log1p", y), lambda z, x, y: _ratio(x, 1 + y)),
    "rel_entr": (lambda z, x, y: log(x / y) + 1, lambda z, x, y: -x / y),
    "kl_div": (lambda z, x, y: log(x / y), lambda z, x, y: 1 - x / y),
    "zeta": (None, lambda z, s, q: -s * special("zeta", s + 1, q)),
    "expn": (None, lambda z, n, x: -special("expn", n - 1, x)),
    "exprel": (lambda z, x: _exprel(x),),
    "spence": (lambda z, x: _spence(x),),
    "ellipk": (lambda z, m: _elliptic(m, (special("ellipe", m) / (1 - m) - z) / 2, math.pi / 8),),
    "ellipe": (lambda z, m: _elliptic(m, (z - special("ellipk", m)) / 2, -math.pi / 8),),
    "hyp0f1": (None, lambda z, b, x: special("hyp0f1", b + 1, x) / b),
    "hyp1f1": (None, None, lambda z, a, b, x: a / b * special("hyp1f1", a + 1, b + 1, x)),
    "hyp2f1": (None, None, None, lambda z, a, b, c, x: a * b / c * special("hyp2f1", a + 1, b + 1, c + 1, x)),
    "huber": (None, lambda z, d, r: where(abs_(r) > d, d * sign(r), r)),
    "pseudo_huber": (lambda z, d, r: 2 * z / d - r * r / _hypotenuse(d, r), lambda z, d, r: d * r / _hypotenuse(d, r)),
    "boxcox": (lambda z, x, p: x ** (p - 1), lambda z, x, p: _boxcox(z, x, p)),
    "cosm1": (lambda z, x: -sin(x),),
    "exp10": (lambda z, x: math.log(10) * z,),
    "sindg": (lambda z, x: math.pi / 180 * special("cosdg", x),),
    "cosdg": (lambda z, x: -math.pi / 180 * special("sindg", x),),
}


def _ratio(x: Value, y: Value) -> Value:
    """``x / y``, and 0 at x = 0 whatever y is."""
    zero = elementwise("eq", x, 0)
    return where(zero, 0, x / where(zero, 1, y))


def _hypotenuse(d: Value, r: Value) -> Value:
    return elementwise("hypot", d, r)


def _exprel(x: Value) -> Value:
    """The derivative ``((x - 1) e^x + 1) / x²`` of (e^x - 1)/x; near 0, where it cancels, its series."""
    near = abs_(x) < 0.3
    s, far = where(near, x, 0), where(near, 1, x)
    series: Any = 1 / math.factorial(14) * 13 + 0 * s
    for k in range(12, 0, -1):
        series = k / math.factorial(k + 1) + s * series
    return where(near, series, ((far - 1) * exp(far) + 1) / (far * far))


def _spence(x: Value) -> Value:
    """``log(x) / (1 - x)``, and its limit at 1."""
    one = elementwise("eq", x, 1)
    far = where(one, 2, x)
    return where(one, -1, log(far) / (1 - far))


def _elliptic(m: Value, numerator: Value, limit: float) -> Value:
    """``numerator / m``, and its limit at 0."""
    zero = elementwise("eq", m, 0)
    return where(zero, limit, numerator / where(zero, 1, m))


def _boxcox(z: Value, x: Value, p: Value) -> Value:
    """The derivative of ``(x^p - 1) / p`` by p; its limit at 0 is log²x / 2."""
    zero = elementwise("eq", p, 0)
    safe = where(zero, 1, p)
    return where(zero, 0.5 * log(x) * log(x), (x**safe * log(x) - z) / safe)


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
