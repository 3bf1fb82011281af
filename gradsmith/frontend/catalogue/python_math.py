"""The modules math and cmath: Python numbers in, Python numbers out, and errors where Python raises them."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradsmith.frontend import arithmetic
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import fold, python_number
from gradsmith.frontend.catalogue import implements
from gradsmith.frontend.catalogue.creation import item
from gradsmith.frontend.values import Array, Scalar, dtype_of
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value
from gradsmith.ir.types import F64, ArrayType

DOMAIN = "math domain error"
RANGE = "math range error"


def real(x: Any) -> Value:
    """A float64 Value from a number (or an array of one element), as ``float(x)`` gives it."""
    if isinstance(x, Array | np.ndarray):
        x = item(x if isinstance(x, Array) else st.current().wrap(x))
    if not isinstance(x, Scalar | int | float | np.number | np.bool_):
        raise TypeError(f"must be real number, not {type(x).__name__}")
    if dtype_of(x).kind == "c":
        raise TypeError("must be real number, not complex")
    return st.as_value(x, np.float64)


def require(condition: Value, message: str = DOMAIN, error: type = ValueError) -> None:
    st.current().check(condition, error, message)


def _number(x: float) -> Const:
    return Const(x, F64)


def _not(x: Value) -> Value:
    return fold("not", [x])


def _finite_result(result: Value, *args: Value) -> None:
    """OverflowError where finite arguments give an infinite result."""
    bad = fold("isinf", [result])
    for x in args:
        bad = fold("and", [bad, fold("isfinite", [x])])
    require(_not(bad), RANGE, OverflowError)


# ---- functions of one number -----------------------------------------------------------------------------------------


def _finite(x: Value) -> Value:
    return _not(fold("isinf", [x]))


def _within(low: float, high: float, closed: bool) -> Callable[[Value], Value]:
    """NaN is not outside of anything."""
    below, above = ("lt", "gt") if closed else ("le", "ge")
    return lambda x: _not(fold("or", [fold(below, [x, _number(low)]), fold(above, [x, _number(high)])]))


def _above(low: float, closed: bool) -> Callable[[Value], Value]:
    return lambda x: _not(fold("lt" if closed else "le", [x, _number(low)]))


#: function → (operation, domain, whether it can overflow)
_UNARY: dict[Any, tuple[str, Callable[[Value], Value] | None, bool]] = {
    math.sqrt: ("sqrt", _above(0, True), False),
    math.exp: ("exp", None, True),
    math.expm1: ("expm1", None, True),
    math.log2: ("log2", _above(0, False), False),
    math.log10: ("log10", _above(0, False), False),
    math.log1p: ("log1p", _above(-1, False), False),
    math.sin: ("sin", _finite, False),
    math.cos: ("cos", _finite, False),
    math.tan: ("tan", _finite, False),
    math.asin: ("arcsin", _within(-1, 1, True), False),
    math.acos: ("arccos", _within(-1, 1, True), False),
    math.atan: ("arctan", None, False),
    math.sinh: ("sinh", None, True),
    math.cosh: ("cosh", None, True),
    math.tanh: ("tanh", None, False),
    math.asinh: ("arcsinh", None, False),
    math.acosh: ("arccosh", _above(1, True), False),
    math.atanh: ("arctanh", _within(-1, 1, False), False),
    math.fabs: ("abs", None, False),
    math.erf: ("erf", None, False),
    math.erfc: ("erfc", None, False),
    math.lgamma: ("gammaln", lambda x: _not(_pole(x)), False),
}
for _name, _op in (("cbrt", "cbrt"), ("exp2", "exp2")):
    if hasattr(math, _name):  # since Python 3.11
        _UNARY[getattr(math, _name)] = (_op, None, _op == "exp2")


def _pole(x: Value) -> Value:
    """Whether x is 0 or a negative integer."""
    return fold("and", [fold("le", [x, _number(0)]), fold("eq", [x, fold("floor", [x])])])


def _register_unary() -> None:
    for function, (op, domain, overflows) in _UNARY.items():
        implements(function)(_unary(op, domain, overflows))


def _unary(op: str, domain: Callable[[Value], Value] | None, overflows: bool) -> Callable[[Any], Any]:
    def call(x: Any, /) -> Any:
        value = real(x)
        if domain is not None:
            require(domain(value))
        result = fold(op, [value])
        if overflows:
            _finite_result(result, value)
        return python_number(result)

    return call


_register_unary()


@implements(math.log)
def log(x: Any, base: Any = None, /) -> Any:
    value = real(x)
    require(_above(0, False)(value))
    result = fold("log", [value])
    if base is not None:
        b = real(base)
        require(_above(0, False)(b))
        divisor = fold("log", [b])
        require(fold("ne", [divisor, _number(0)]), "float division by zero", ZeroDivisionError)
        result = fold("div", [result, divisor])
    return python_number(result)


@implements(math.gamma)
def gamma(x: Any, /) -> Any:
    value = real(x)
    require(_not(_pole(value)))
    result = fold("gamma", [value])
    _finite_result(result, value)
    return python_number(result)


@implements(math.degrees)
def degrees(x: Any, /) -> Any:
    return python_number(fold("mul", [real(x), _number(180 / math.pi)]))


@implements(math.radians)
def radians(x: Any, /) -> Any:
    return python_number(fold("mul", [real(x), _number(math.pi / 180)]))


@implements(math.isnan)
def isnan(x: Any, /) -> Any:
    return python_number(fold("isnan", [real(x)]))


@implements(math.isinf)
def isinf(x: Any, /) -> Any:
    return python_number(fold("isinf", [real(x)]))


@implements(math.isfinite)
def isfinite(x: Any, /) -> Any:
    return python_number(fold("isfinite", [real(x)]))


def _whole(op: str) -> Callable[[Any], Any]:
    def call(x: Any, /) -> Any:
        if dtype_of(x).kind in "biu" and not isinstance(x, Array):
            return python_number(st.as_value(x, np.int64))
        value = real(x)
        require(_finite(value), "cannot convert float infinity to integer", OverflowError)
        require(_not(fold("isnan", [value])), "cannot convert float NaN to integer")
        return python_number(ir.cast(fold(op, [value]), np.int64))

    return call


for _function, _op in ((math.floor, "floor"), (math.ceil, "ceil"), (math.trunc, "trunc")):
    implements(_function)(_whole(_op))


# ---- functions of several numbers ------------------------------------------------------------------------------------


@implements(math.pow)
def pow(x: Any, y: Any, /) -> Any:
    a, b = real(x), real(y)
    zero = _number(0)
    fraction = fold("and", [fold("ne", [b, fold("floor", [b])]), fold("isfinite", [a])])
    require(_not(fold("and", [fold("lt", [a, zero]), fraction])))
    require(_not(fold("and", [fold("eq", [a, zero]), fold("lt", [b, zero])])))
    result = fold("pow", [a, b])
    _finite_result(result, a, b)
    return python_number(result)


@implements(math.fmod)
def fmod(x: Any, y: Any, /) -> Any:
    a, b = real(x), real(y)
    _check_modulus(a, b)
    return python_number(fold("fmod", [a, b]))


def _check_modulus(a: Value, b: Value) -> None:
    bad = fold("or", [fold("isinf", [a]), fold("eq", [b, _number(0)])])
    missing = fold("or", [fold("isnan", [a]), fold("isnan", [b])])
    require(fold("or", [_not(bad), missing]))


@implements(math.remainder)
def remainder(x: Any, y: Any, /) -> Any:
    """The IEEE remainder, exact, by the algorithm of CPython."""
    x_value, y_value = real(x), real(y)
    _check_modulus(x_value, y_value)
    a, b = fold("abs", [x_value]), fold("abs", [y_value])
    m = fold("fmod", [a, b])
    c = b - m
    tie = m - _number(2.0) * fold("fmod", [_number(0.5) * (a - m), b])
    r = ir.where(m < c, m, ir.where(m > c, -c, tie))  # type: ignore[operator]
    r = ir.where(fold("isinf", [y_value]), a, r)
    return python_number(ir.where(fold("signbit", [x_value]), fold("neg", [r]), r))


@implements(math.copysign)
def copysign(x: Any, y: Any, /) -> Any:
    return python_number(fold("copysign", [real(x), real(y)]))


@implements(math.atan2)
def atan2(y: Any, x: Any, /) -> Any:
    return python_number(fold("arctan2", [real(y), real(x)]))


@implements(math.hypot)
def hypot(*coordinates: Any) -> Any:
    return python_number(_length([real(x) for x in coordinates]))


def _length(values: list[Value]) -> Value:
    if not values:
        return _number(0.0)
    total = fold("abs", [values[0]]) if len(values) == 1 else values[0]
    for v in values[1:]:
        total = fold("hypot", [total, v])
    return total


def _items(x: Any) -> list[Any]:
    """The elements of a list, a tuple or an array (whose length becomes part of the specialisation)."""
    if isinstance(x, Array):
        count = st.static(st.integer(ir.shape(x.value)[0]))
        return [Scalar(ir.index(x.value, ["i"], [k]), weak=False) for k in range(count)]
    return list(x)


@implements(math.dist)
def dist(p: Any, q: Any, /) -> Any:
    first, second = _items(p), _items(q)
    if len(first) != len(second):
        raise ValueError("both points must have the same number of dimensions")
    return python_number(_length([fold("sub", [real(a), real(b)]) for a, b in zip(first, second, strict=True)]))


@implements(math.fsum)
def fsum(seq: Any, /) -> Any:
    values = seq.value if isinstance(seq, Array) else st.as_value([_strong(real(x)) for x in seq])
    return python_number(ir.host("gradsmith.backends.hosted.fsum", [ir.cast(values, np.float64)], [F64]))


def _strong(x: Value) -> Scalar:
    return Scalar(x, weak=False)


@implements(math.prod)
def prod(iterable: Any, /, *, start: Any = 1) -> Any:
    total = start
    for x in _items(iterable):
        total = arithmetic.binary("*", total, x)
    return total


def _register_newer() -> None:
    """Functions of later Python versions."""
    if hasattr(math, "sumprod"):

        @implements(math.sumprod)
        def sumprod(p: Any, q: Any, /) -> Any:
            total: Any = 0
            for x, y in zip(_items(p), _items(q), strict=True):
                total = arithmetic.binary("+", total, arithmetic.binary("*", x, y))
            return total

    if hasattr(math, "fma"):

        @implements(math.fma)
        def fma(x: Any, y: Any, z: Any, /) -> Any:
            return python_number(fold("add", [fold("mul", [real(x), real(y)]), real(z)]))


_register_newer()


@implements(math.isclose)
def isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    x, y = real(a), real(b)
    gap = fold("abs", [fold("sub", [x, y])])
    largest = fold("maximum", [fold("abs", [x]), fold("abs", [y])])
    bound = fold("maximum", [fold("mul", [real(rel_tol), largest]), real(abs_tol)])
    close = fold("and", [fold("le", [gap, bound]), fold("isfinite", [largest])])
    return python_number(fold("or", [close, fold("eq", [x, y])]))


@implements(math.modf)
def modf(x: Any, /) -> Any:
    from gradsmith.frontend.catalogue.elementwise import compute

    return tuple(python_number(v) for v in compute(np.modf, (_strong(real(x)),)))


@implements(math.frexp)
def frexp(x: Any, /) -> Any:
    from gradsmith.frontend.catalogue.elementwise import compute

    mantissa, exponent = compute(np.frexp, (_strong(real(x)),))
    return python_number(mantissa), python_number(ir.cast(exponent, np.int64))


@implements(math.ldexp)
def ldexp(x: Any, i: Any, /) -> Any:
    from gradsmith.frontend.catalogue.elementwise import compute

    value = real(x)
    (result,) = compute(np.ldexp, (_strong(value), _strong(st.index_value(i))))
    _finite_result(result, value)
    return python_number(result)


@implements(math.nextafter)
def nextafter(x: Any, y: Any, /) -> Any:
    return python_number(fold("nextafter", [real(x), real(y)]))


@implements(math.ulp)
def ulp(x: Any, /) -> Any:
    a = fold("abs", [real(x)])
    return python_number(fold("sub", [fold("nextafter", [a, _number(math.inf)]), a]))


def _on_integers(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of integers that become part of the specialisation."""
    return lambda *args: function(*map(st.static, args))


for _integer_function in (math.gcd, math.lcm, math.comb, math.perm, math.factorial, math.isqrt):
    implements(_integer_function)(_on_integers(_integer_function))


# ---- cmath -----------------------------------------------------------------------------------------------------------

C128 = ArrayType(np.dtype(np.complex128))


def _complex_unary(op: str, *points: complex) -> Callable[[Any], Any]:
    """A function of a complex number that has no value at ``points``."""

    def call(z: Any, /) -> Any:
        value = st.as_value(z, np.complex128)
        for point in points:
            require(fold("ne", [value, Const(point, C128)]))
        return python_number(fold(op, [value]))

    return call


for _name, _op in {
    **{name: name for name in ("sqrt", "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{"asin": "arcsin", "acos": "arccos", "asinh": "arcsinh", "acosh": "arccosh"},
}.items():
    implements(getattr(cmath, _name))(_complex_unary(_op))
implements(cmath.atan)(_complex_unary("arctan", 1j, -1j))
implements(cmath.atanh)(_complex_unary("arctanh", 1, -1))
implements(cmath.log10)(_complex_unary("log10", 0))


@implements(cmath.log)
def complex_log(z: Any, base: Any = None, /) -> Any:
    value = st.as_value(z, np.complex128)
    require(fold("ne", [value, Const(0, C128)]))
    result = fold("log", [value])
    if base is not None:
        result = fold("div", [result, fold("log", [st.as_value(base, np.complex128)])])
    return python_number(result)


@implements(cmath.phase)
def phase(z: Any, /) -> Any:
    value = st.as_value(z, np.complex128)
    return python_number(fold("arctan2", [fold("imag", [value]), fold("real", [value])]))


@implements(cmath.polar)
def polar(z: Any, /) -> Any:
    return python_number(fold("abs", [st.as_value(z, np.complex128)])), phase(z)


@implements(cmath.rect)
def rect(r: Any, phi: Any, /) -> Any:
    radius, angle = real(r), real(phi)
    parts = [fold("mul", [radius, fold(op, [angle])]) for op in ("cos", "sin")]
    return python_number(fold("complex", parts))


def _complex_test(op: str, joined: str) -> Callable[[Any], Any]:
    def call(z: Any, /) -> Any:
        value = st.as_value(z, np.complex128)
        return python_number(fold(joined, [fold(op, [fold("real", [value])]), fold(op, [fold("imag", [value])])]))

    return call


implements(cmath.isnan)(_complex_test("isnan", "or"))
implements(cmath.isinf)(_complex_test("isinf", "or"))
implements(cmath.isfinite)(_complex_test("isfinite", "and"))
