"""Partial derivatives of the elementwise operations: one table, used by forward and reverse mode.

``PARTIALS[name]`` has one entry per operand: ``None`` (the derivative is zero everywhere it exists), a number, or a
function of ``(z, *operands)``, ``z`` being the result, that gives the partial derivative. A *boolean* partial selects:
the derivative is passed where it is true. Functions of a complex variable that are not holomorphic are in
``REAL_LINEAR`` as a pair (pushforward, pullback), each taking the tangent or cotangent and then ``z, *operands``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradsmith.ir.builder import (
    abs_,
    broadcast_to,
    cast,
    conj,
    const_like,
    cos,
    cosh,
    digamma,
    elementwise,
    exp,
    expit,
    imag,
    isnan,
    log,
    real,
    shape,
    sign,
    sin,
    sinh,
    sqrt,
    where,
)
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Const, Op, Value
from gradsmith.rules.structural import plus

Partial: TypeAlias = Callable[..., Any] | float | None


def _eq(x: Value, y: Any) -> Value:
    return elementwise("eq", x, y)


def _nonzero(x: Value) -> Value:
    """``x``, with 1 in place of 0: a denominator whose zeros give the derivative 0."""
    return where(_eq(x, 0), 1, x)


def _constant(y: Value) -> float | None:
    """The value of a scalar constant that is real."""
    if isinstance(y, Const) and y.ndim == 0 and y.dtype.kind in "fc" and np.imag(y.data) == 0:
        return float(np.real(y.data))
    return None


def _pow_base(z: Value, x: Value, y: Value) -> Any:
    p = _constant(y)
    if p is None:
        return where(_eq(y, 0), 0, y * x ** (y - 1))
    if p in (0.0, 1.0):
        return p
    if p == 0.5:
        return 0.5 / z
    return p * x if p == 2.0 else p * x ** (p - 1.0)


def _pow_exponent(z: Value, x: Value, y: Value) -> Value:
    return z * log(_nonzero(x))


def _logaddexp(x: Value, y: Value) -> Value:
    # equal infinities share the derivative; the difference of equal finite numbers stays differentiable
    both = _eq(x, y) & elementwise("isinf", x)
    return expit(where(both, 0, x - y))


def _arccosh(z: Value, x: Value) -> Value:
    return 1 / (sqrt(x - 1) * sqrt(x + 1))


def _share(wins: Callable[[Value, Value], Value]) -> tuple[Partial, Partial]:
    """Partials of a choice between two operands where ties share equally."""

    def weight(x: Value, y: Value) -> Value:
        return where(wins(x, y), 1, where(_eq(x, y), const_like(0.5, x), 0))

    return lambda z, x, y: weight(x, y), lambda z, x, y: weight(y, x)


def _greater(x: Value, y: Value) -> Value:
    return x > y


def _less(x: Value, y: Value) -> Value:
    return x < y


def _over_nan(wins: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda x, y: elementwise("or", wins(x, y), isnan(y))


LN2, LN10, TWO_OVER_SQRT_PI = math.log(2), math.log(10), 2 / math.sqrt(math.pi)
ZERO1: tuple[Partial, ...] = (None,)
ZERO2: tuple[Partial, ...] = (None, None)

PARTIALS: dict[str, tuple[Partial, ...]] = {
    # arithmetic
    "neg": (-1,),
    "add": (1, 1),
    "sub": (1, -1),
    "mul": (lambda z, x, y: y, lambda z, x, y: x),
    "div": (lambda z, x, y: 1 / y, lambda z, x, y: -z / y),
    "pow": (_pow_base, _pow_exponent),
    "strong_mul": (lambda z, x, y: y, lambda z, x, y: x),
    "floordiv": ZERO2,
    "mod": (1, lambda z, x, y: -elementwise("floordiv", x, y)),
    "fmod": (1, lambda z, x, y: -elementwise("trunc", x / y)),
    "sqrt": (lambda z, x: 0.5 / z,),
    "cbrt": (lambda z, x: 1 / (3 * (z * z)),),
    # choices and steps
    "maximum": _share(_greater),
    "minimum": _share(_less),
    "fmax": _share(_over_nan(_greater)),
    "fmin": _share(_over_nan(_less)),
    "where": (None, lambda z, c, x, y: c, lambda z, c, x, y: elementwise("not", c)),
    "copysign": (lambda z, x, y: sign(x) * elementwise("copysign", 1, y), None),
    "nextafter": (1, None),
    **dict.fromkeys(["floor", "ceil", "trunc", "rint", "detach"], ZERO1),
    # exponentials and logarithms
    "exp": (lambda z, x: z,),
    "exp2": (lambda z, x: LN2 * z,),
    "expm1": (lambda z, x: z + 1,),
    "log": (lambda z, x: 1 / x,),
    "log2": (lambda z, x: 1 / (LN2 * x),),
    "log10": (lambda z, x: 1 / (LN10 * x),),
    "log1p": (lambda z, x: 1 / (1 + x),),
    "logaddexp": (lambda z, x, y: _logaddexp(x, y), lambda z, x, y: _logaddexp(y, x)),
    # trigonometric and hyperbolic
    "sin": (lambda z, x: cos(x),),
    "cos": (lambda z, x: -sin(x),),
    "tan": (lambda z, x: 1 + z * z,),
    "arcsin": (lambda z, x: 1 / sqrt((1 - x) * (1 + x)),),
    "arccos": (lambda z, x: -1 / sqrt((1 - x) * (1 + x)),),
    "arctan": (lambda z, x: 1 / (1 + x * x),),
    "sinh": (lambda z, x: cosh(x),),
    "cosh": (lambda z, x: sinh(x),),
    "tanh": (lambda z, x: (1 - z) * (1 + z),),
    "arcsinh": (lambda z, x: 1 / sqrt(x * x + 1),),
    "arccosh": (_arccosh,),
    "arctanh": (lambda z, x: 1 / ((1 - x) * (1 + x)),),
    "hypot": (lambda z, x, y: x / _nonzero(z), lambda z, x, y: y / _nonzero(z)),
    "arctan2": (
        lambda z, y, x: x / _nonzero(elementwise("hypot", x, y)) / _nonzero(elementwise("hypot", x, y)),
        lambda z, y, x: -y / _nonzero(elementwise("hypot", x, y)) / _nonzero(elementwise("hypot", x, y)),
    ),
    # special functions
    "erf": (lambda z, x: TWO_OVER_SQRT_PI * exp(-(x * x)),),
    "erfc": (lambda z, x: -TWO_OVER_SQRT_PI * exp(-(x * x)),),
    "gamma": (lambda z, x: z * digamma(x),),
    "gammaln": (lambda z, x: digamma(x),),
    "digamma": (lambda z, x: elementwise("polygamma", 1, x),),
    "polygamma": (None, lambda z, n, x: elementwise("polygamma", n + 1, x)),
    "expit": (lambda z, x: z * (1 - z),),
    # integers and truth values
    **dict.fromkeys(["and", "or", "xor", "shl", "shr", "eq", "ne", "lt", "le", "gt", "ge"], ZERO2),
    **dict.fromkeys(["not", "isnan", "isinf", "isfinite", "signbit"], ZERO1),
}


def _sign(d: Value, z: Value, x: Value) -> Value | None:
    """``z = x / |x|``: the part of ``d`` that is orthogonal to ``z``, over ``|x|``. Zero for real ``x``."""
    if x.dtype.kind != "c":
        return None
    along = cast(real(conj(z) * d), x.dtype)
    return times(d - z * along, cast(1 / _nonzero(abs_(x)), x.dtype))


def _abs_pushforward(d: Value, z: Value, x: Value) -> Value:
    return real(conj(sign(x)) * d) if x.dtype.kind == "c" else d * sign(x)


def _complex_pullback(g: Value, z: Value, re: Value, im: Value) -> tuple[Value, Value]:
    return real(g), imag(g)


def _complex_pushforward(d: Sequence[Value | None], z: Value, re: Value, im: Value) -> Value:
    zero = const_like(0, re)
    return elementwise("complex", d[0] if d[0] is not None else zero, d[1] if d[1] is not None else zero)


RealLinear: TypeAlias = tuple[Callable[..., Any], Callable[..., Any]]
REAL_LINEAR: dict[str, RealLinear] = {
    "sign": (_sign, _sign),
    "abs": (_abs_pushforward, lambda g, z, x: cast(g, x.dtype) * sign(x)),
    "conj": (lambda d, z, x: conj(d), lambda g, z, x: conj(g)),
    "real": (lambda d, z, x: real(d), lambda g, z, x: cast(g, x.dtype)),
    "imag": (lambda d, z, x: imag(d), lambda g, z, x: elementwise("complex", 0, g)),
    "cast": (lambda d, z, x: cast(d, z.dtype), lambda g, z, x: cast(g, x.dtype)),
}

#: operations that may give inf or nan for finite operands
SINGULAR = frozenset(
    {"div", "pow", "mod", "fmod", "floordiv", "sqrt", "log", "log2", "log10", "log1p", "exp", "exp2", "expm1"}
    | {"sinh", "cosh", "arcsin", "arccos", "arccosh", "arctanh", "gamma", "gammaln", "digamma", "polygamma", "host"}
)
#: operations that pass an exactly zero adjoint on
PASSES_ZEROS = frozenset({"mul", "strong_mul", "neg", "cast", "conj", "real", "imag", "complex", "index"}) | {
    *("reshape", "transpose", "broadcast_to", "unbroadcast")
}
#: operations whose result consists of elements of their operands
MOVES = frozenset({"index", "reshape", "transpose", "broadcast_to", "concatenate"})
VISIT_LIMIT = 40


def times(g: Value, p: Any) -> Value | None:
    """The adjoint or tangent ``g`` times the partial ``p``: exactly 0 where ``g`` is 0 even if ``p`` is not finite."""
    if not isinstance(p, Value):
        return None if p == 0 else g if p == 1 else -g if p == -1 else g * p
    if _constant(g) == 1 and not p.dtype.kind == "b":
        return p
    if p.dtype.kind == "b":
        return where(p, g, 0)
    return g * p if _finite(p, data=not _masked(g)) else elementwise("strong_mul", g, p)


def _finite(value: Value, data: bool) -> bool:
    """Whether ``value`` is finite by its definition; ``data``: what comes from outside is taken as finite."""
    pending, seen = [value], {value}
    while pending:
        v = pending.pop()
        if isinstance(v, Const):
            if v.dtype.kind in "fc" and not np.isfinite(v.data).all():
                return False
        elif v.op is None or (v.op.name not in ELEMENTWISE and v.op.name not in MOVES):
            if not data or (v.op is not None and v.op.name == "host"):
                return False
        elif v.op.name in SINGULAR and not _regular(v.op):
            return False
        elif v.op.name == "cast" and v.op.args[0].dtype.kind in "bi":
            continue
        else:
            if len(seen) > VISIT_LIMIT:
                return False
            pending += [a for a in v.op.args if a not in seen]
            seen.update(v.op.args)
    return True


def _regular(op: Op) -> bool:
    """Whether a constant operand keeps a singular operation finite: ``x / 2``, ``x ** 3``."""
    c = _constant(op.args[1]) if len(op.args) == 2 else None
    return c is not None and ((op.name == "div" and c != 0) or (op.name == "pow" and c >= 1 and c.is_integer()))


def _masked(g: Value) -> bool:
    """Whether ``g`` has been set to zero by a selection (a ``where`` with a constant zero)."""
    pending, seen = [g], {g}
    while pending and len(seen) <= VISIT_LIMIT:
        v = pending.pop()
        if v.op is None:
            continue
        if v.op.name == "where" and any(_constant(a) == 0 for a in v.op.args[1:]):
            return True
        if v.op.name in PASSES_ZEROS or v.op.name == "where":
            pending += [a for a in v.op.args if a not in seen]
            seen.update(v.op.args)
    return False


def flows(name: str, operand: int) -> bool:
    """Whether the elementwise operation has a derivative with respect to that operand."""
    return name in REAL_LINEAR or name == "complex" or PARTIALS[name][operand] is not None


def pushforward(op: Op, z: Value, args: Sequence[Value], tangents: Sequence[Value | None]) -> Value | None:
    """The tangent of ``z``, the result of ``op`` for operands ``args`` with ``tangents``."""
    total: Value | None = None
    if op.name == "complex":
        total = _complex_pushforward(tangents, z, args[0], args[1])
    elif op.name in REAL_LINEAR:
        return REAL_LINEAR[op.name][0](tangents[0], z, *args)
    else:
        for tangent, partial in zip(tangents, PARTIALS[op.name], strict=True):
            part = None if tangent is None else _push(tangent, _evaluate(partial, z, args))
            total = plus(total, part)
    without = [a for a, t in zip(args, tangents, strict=True) if t is None and a.ndim]
    if total is not None and (without or total.ndim < z.ndim):
        total = broadcast_to(total, shape(z))
    return total


def _push(tangent: Value, p: Any) -> Value | None:
    """``tangent * p``: exactly 0 where either is 0, as for the adjoint of the same chain."""
    out = times(tangent, p)
    if isinstance(p, Value) and p.dtype.kind != "b" and out is not None and not _finite(tangent, data=True):
        return where(_eq(p, 0), 0, out)
    return out


def pullback(op: Op, g: Value, wanted: Sequence[bool]) -> list[Value | None]:
    """The adjoint of every wanted operand for the adjoint ``g`` of the result, each in the shape of the result."""
    z, args = op.result, op.args
    if op.name == "complex":
        return list(_complex_pullback(g, z, args[0], args[1]))
    if op.name in REAL_LINEAR:
        return [REAL_LINEAR[op.name][1](g, z, *args)]
    out: list[Value | None] = []
    for want, partial in zip(wanted, PARTIALS[op.name], strict=True):
        p = _evaluate(partial, z, args) if want else 0
        out.append(times(g, conj(p) if isinstance(p, Value) and p.dtype.kind == "c" else p))
    return out


def _evaluate(partial: Partial, z: Value, args: Sequence[Value]) -> Any:
    return partial(z, *args) if callable(partial) else partial or 0
