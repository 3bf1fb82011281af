"""Ufuncs: every one of NumPy's, their options ``out``, ``where`` and ``dtype``, their methods reduce, outer, at …"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradsmith.errors import MissingRule
from gradsmith.frontend import arithmetic, indexing
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import UFUNC_OPS, fold, loop_dtypes, operand, sample
from gradsmith.frontend.catalogue import _DEFINITIONS, METHODS, find, implements
from gradsmith.frontend.catalogue.operands import ABSENT, array, condition, deliver, refuse
from gradsmith.frontend.values import Array, Scalar, fresh, is_weak, ndim_of, result_dtype
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value
from gradsmith.ir.types import ArrayType, real_dtype

# ---- ufuncs without an operation of their own, from operations on Values of the loop's dtypes ------------------------


def _scaled(factor: float) -> Callable[[Value], Value]:
    return lambda x: fold("mul", [x, ir.const_like(factor, x)])


def _truth(x: Value) -> Value:
    return condition(Scalar(x, weak=False) if x.ndim == 0 else fresh(x))


def _logical(name: str) -> Callable[..., Value]:
    return lambda *xs: fold(name, [_truth(x) for x in xs])


def _reciprocal(x: Value) -> Value:
    if x.dtype.kind in "fc":
        return fold("div", [ir.const_like(1, x), x])
    return ir.where(fold("eq", [fold("mul", [x, x]), ir.const_like(1, x)]), x, ir.const_like(0, x))


def _heaviside(x: Value, half: Value) -> Value:
    zero, one = ir.const_like(0, x), ir.const_like(1, x)
    positive = ir.where(fold("gt", [x, zero]), one, ir.where(fold("eq", [x, zero]), half, zero))
    return ir.where(ir.isnan(x), ir.const_like(math.nan, x), positive)


def _logaddexp2(x: Value, y: Value) -> Value:
    half = ir.const_like(0.5, x)
    tie = half * x + half * y + ir.const_like(1, x)
    gap = fold("neg", [fold("abs", [fold("sub", [x, y])])])
    apart = fold("maximum", [x, y]) + fold("log1p", [fold("exp2", [gap])]) * ir.const_like(1 / math.log(2), x)
    return ir.where(fold("eq", [x, y]), tie, apart)


def _modf(x: Value) -> tuple[Value, Value]:
    zero = fold("copysign", [ir.const_like(0, x), x])
    fraction = ir.where(fold("isinf", [x]), zero, fold("fmod", [x, ir.const_like(1, x)]))
    return fraction, fold("trunc", [x])


def _frexp(x: Value) -> tuple[Value, Value]:
    exponent = ir.host("gradsmith.backends.hosted.exponent", [x], [ArrayType(np.dtype(np.int32), x.ndim)])
    return _ldexp(x, fold("neg", [exponent])), exponent


def _ldexp(x: Value, n: Value) -> Value:
    """x·2ⁿ with the factor in two parts, since 2ⁿ alone may overflow."""
    n = ir.cast(n, np.int64)
    low = fold("shr", [n, ir.i64(1)])
    parts = [fold("exp2", [ir.cast(part, x.dtype)]) for part in (low, fold("sub", [n, low]))]
    return fold("mul", [fold("mul", [x, parts[0]]), parts[1]])


def _spacing(x: Value) -> Value:
    a = fold("abs", [x])
    return fold("copysign", [fold("sub", [fold("nextafter", [a, ir.const_like(math.inf, x)]), a]), x])


def _integer_host(name: str) -> Callable[..., Value]:
    def emit(*xs: Value) -> Value:
        dtype = np.dtype(np.uint8) if name == "bitwise_count" else xs[0].dtype
        return ir.host(f"numpy.{name}", list(xs), [ArrayType(dtype, max(x.ndim for x in xs))])

    return emit


_COMPOSED: dict[np.ufunc, Callable[..., Value | tuple[Value, ...]]] = {
    np.square: lambda x: fold("mul", [x, x]),
    np.reciprocal: _reciprocal,
    np.positive: lambda x: x,
    np.deg2rad: _scaled(math.pi / 180),
    np.radians: _scaled(math.pi / 180),
    np.rad2deg: _scaled(180 / math.pi),
    np.degrees: _scaled(180 / math.pi),
    np.logical_and: _logical("and"),
    np.logical_or: _logical("or"),
    np.logical_xor: _logical("xor"),
    np.logical_not: _logical("not"),
    np.fabs: lambda x: fold("abs", [x]),
    np.float_power: lambda x, y: fold("pow", [x, y]),
    np.heaviside: _heaviside,
    np.logaddexp2: _logaddexp2,
    np.divmod: lambda x, y: (fold("floordiv", [x, y]), fold("mod", [x, y])),
    np.modf: _modf,
    np.frexp: _frexp,
    np.ldexp: _ldexp,
    np.spacing: _spacing,
    np.gcd: _integer_host("gcd"),
    np.lcm: _integer_host("lcm"),
    np.bitwise_count: _integer_host("bitwise_count"),
}
_WHOLE = (np.floor, np.ceil, np.trunc)
_ON_INTEGERS: dict[np.ufunc, Callable[[Value], Value]] = {
    **dict.fromkeys(_WHOLE, lambda x: x),
    np.conjugate: lambda x: x,
    np.isfinite: lambda x: fold("eq", [x, x]),
    np.isnan: lambda x: fold("ne", [x, x]),
    np.isinf: lambda x: fold("ne", [x, x]),
}


def compute(function: np.ufunc, operands: tuple[Any, ...]) -> tuple[Value, ...]:
    """The results of a ufunc for numbers and arrays, promoted as NumPy does."""
    if function not in _COMPOSED:
        if function in _ON_INTEGERS and operands[0].dtype.kind in "biu":
            return (_ON_INTEGERS[function](st.as_value(operands[0])),)
        return (arithmetic.ufunc_value(function, *operands),)
    dtypes = loop_dtypes(function, tuple(map(sample, operands)))
    if function in (np.logical_and, np.logical_or, np.logical_xor, np.logical_not):
        values = [st.as_value(x) for x in operands]
    else:
        values = [st.as_value(x, t) for x, t in zip(operands, dtypes, strict=False)]
    found = _COMPOSED[function](*values)
    return found if isinstance(found, tuple) else (found,)


def call_ufunc(
    function: np.ufunc,
    *args: Any,
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
    signature: Any = None,
) -> Any:
    """``function(*args, ...)`` with every option of a ufunc."""
    refuse(function.__name__, signature=signature)
    if not function.nin <= len(args) <= function.nargs:
        raise TypeError(f"{function.__name__}() takes from {function.nin} to {function.nargs} positional arguments")
    operands, rest = tuple(map(operand, args[: function.nin])), args[function.nin :]
    if rest:
        out = rest
    if dtype is not None:
        operands = tuple(_as_dtype(x, st.static(dtype)) for x in operands)
    values = compute(function, operands)
    outs = out if isinstance(out, tuple) else (out,) * function.nout if out is None else (out,)
    results = [deliver(v, o, function.__name__, where) for v, o in zip(values, outs, strict=True)]
    return results[0] if function.nout == 1 else tuple(results)


def _as_dtype(x: Any, dtype: Any) -> Any:
    value = st.as_value(x, dtype)
    return fresh(value) if isinstance(x, Array | np.ndarray) else Scalar(value, weak=False)


def _register_ufuncs() -> None:
    for function in {*UFUNC_OPS, *_COMPOSED}:
        implementation: Any = partial(call_ufunc, function)
        implementation.__name__ = function.__name__
        implements(function)(implementation)


_register_ufuncs()


def _conjugate_method(x: Any, out: Any = None, **options: Any) -> Any:
    if is_weak(x):
        return arithmetic.python_number(st.as_value(x) if x.dtype.kind != "c" else fold("conj", [x.value]))
    return call_ufunc(np.conjugate, x, out=out, **options)


METHODS["conj"] = METHODS["conjugate"] = _conjugate_method


# ---- rounding and selecting ------------------------------------------------------------------------------------------


@implements(np.round, np.around, method="round")
def round_(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    value, decimals = st.as_value(a), st.static(decimals)
    if value.dtype.kind == "b":
        value = ir.cast(value, np.float16)
    return deliver(round_value(value, decimals), out, "round")


def round_value(value: Value, decimals: int) -> Value:
    """Round half to even at ``decimals`` places: scaled, rounded, scaled back, as NumPy does."""
    if value.dtype.kind in "iu":
        if decimals >= 0:
            return value
        return ir.cast(round_value(ir.cast(value, np.float64), decimals), value.dtype)
    if value.dtype.kind == "c":
        return ir.emit("complex", round_value(ir.real(value), decimals), round_value(ir.imag(value), decimals))
    if decimals == 0:
        return fold("rint", [value])
    scale = ir.const_like(10.0 ** abs(decimals), value)
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    return fold(back, [fold("rint", [fold(there, [value, scale])]), scale])


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Any:
    return call_ufunc(np.trunc, x, out=out)


@implements(np.clip, method="clip")
def clip(
    a: Any,
    a_min: Any = ABSENT,
    a_max: Any = ABSENT,
    out: Any = None,
    *,
    min: Any = ABSENT,
    max: Any = ABSENT,
    where: Any = True,
    **options: Any,
) -> Any:
    refuse("clip", **options)
    low = _given(a_min, min)
    high = _given(a_max, max)
    a = operand(a)
    bounds = [operand(b) for b in (low, high) if b is not None]
    dtype = result_dtype(a, *bounds)
    x, lo, hi = (None if v is None else st.as_value(v, dtype) for v in (a, low, high))
    assert x is not None
    return deliver(clip_value(x, lo, hi), out, "clip", where)


def _given(old: Any, new: Any) -> Any:
    chosen = new if old is ABSENT else old
    return None if chosen is ABSENT else chosen


def clip_value(x: Value, low: Value | None, high: Value | None) -> Value:
    """``minimum(maximum(x, low), high)``, whose derivative is 1 at the bounds."""
    if low is not None:
        x = ir.where(_beyond("lt", x, low), low, x)
    if high is not None:
        x = ir.where(_beyond("gt", x, high), high, x)
    return x


def _beyond(name: str, x: Value, bound: Value) -> Value:
    """Whether x lies beyond the bound; a NaN bound is always taken."""
    beyond = fold(name, [x, bound])
    if bound.dtype.kind not in "fc" or (isinstance(bound, Const) and not np.any(np.isnan(bound.data))):
        return beyond
    return fold("or", [beyond, ir.isnan(bound)])


@implements(np.where)
def where(condition_: Any, x: Any = ABSENT, y: Any = ABSENT, /) -> Any:
    if x is ABSENT and y is ABSENT:
        return find(np.nonzero)(condition_)  # type: ignore[misc]
    if x is ABSENT or y is ABSENT:
        raise ValueError("either both or neither of x and y should be given")
    x, y = operand(x), operand(y)
    dtype = result_dtype(x, y)
    return array_result(ir.where(condition(condition_), st.as_value(x, dtype), st.as_value(y, dtype)))


def array_result(value: Value) -> Array:
    """The result of a function that gives an array even of 0 dimensions."""
    return fresh(value)


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    choices = [operand(c) for c in choicelist]
    dtype = result_dtype(*choices, operand(default))
    found = st.as_value(default, dtype)
    for c, choice in reversed(list(zip(condlist, choices, strict=True))):
        if operand(c).dtype.kind != "b":
            raise TypeError("invalid entry in condlist: should be boolean ndarray")
        found = ir.where(st.as_value(c), st.as_value(choice, dtype), found)
    return array_result(found)


# ---- complex ---------------------------------------------------------------------------------------------------------


@implements(np.real)
def real(val: Any) -> Any:
    return _part("real", val)


@implements(np.imag)
def imag(val: Any) -> Any:
    return _part("imag", val)


def _part(name: str, x: Any) -> Any:
    from gradsmith.frontend.catalogue.shaping import imag_part, real_part

    x = operand(x)
    return (real_part if name == "real" else imag_part)(x)


@implements(np.angle)
def angle(z: Any, deg: Any = False) -> Any:
    value = st.as_value(z)
    if value.dtype.kind == "c":
        y, x = ir.imag(value), ir.real(value)
    else:
        x = value if value.dtype.kind == "f" else ir.cast(value, np.float64)
        y = ir.zeros_like(x)
    result = fold("arctan2", [y, x])
    return deliver(_scaled(180 / math.pi)(result) if st.static(deg) else result)


@implements(np.isreal)
def isreal(x: Any) -> Any:
    return deliver(fold("eq", [_imaginary(x), ir.const_like(0, _imaginary(x))]))


@implements(np.iscomplex)
def iscomplex(x: Any) -> Any:
    return deliver(fold("ne", [_imaginary(x), ir.const_like(0, _imaginary(x))]))


def _imaginary(x: Any) -> Value:
    value = st.as_value(x)
    return ir.imag(value) if value.dtype.kind == "c" else ir.zeros_like(ir.cast(value, np.float64))


@implements(np.isposinf)
def isposinf(x: Any, out: Any = None) -> Any:
    value = st.as_value(x, result_dtype(operand(x), 1.0))
    return deliver(fold("eq", [value, ir.const_like(np.inf, value)]), out)


@implements(np.isneginf)
def isneginf(x: Any, out: Any = None) -> Any:
    value = st.as_value(x, result_dtype(operand(x), 1.0))
    return deliver(fold("eq", [value, ir.const_like(-np.inf, value)]), out)


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    value = st.as_value(x)
    if value.dtype.kind == "c":
        parts = [_replace_nonfinite(p, nan, posinf, neginf) for p in (ir.real(value), ir.imag(value))]
        result = ir.emit("complex", *parts)
    elif value.dtype.kind == "f":
        result = _replace_nonfinite(value, nan, posinf, neginf)
    else:
        result = value
    if not st.static(copy) and isinstance(x, Array):
        st.current().write_array(x, result)
        return x
    return deliver(result)


def _replace_nonfinite(x: Value, nan: Any, posinf: Any, neginf: Any) -> Value:
    limits = np.finfo(real_dtype(x.dtype))
    x = ir.where(ir.isnan(x), st.as_value(nan, x.dtype), x)
    for bound, replacement in ((np.inf, limits.max if posinf is None else posinf), (-np.inf, neginf)):
        replacement = limits.min if replacement is None else replacement
        x = ir.where(fold("eq", [x, ir.const_like(bound, x)]), st.as_value(replacement, x.dtype), x)
    return x


# ---- methods of ufuncs -----------------------------------------------------------------------------------------------

_REDUCE: dict[np.ufunc, Any] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
_ACCUMULATE: dict[np.ufunc, Any] = {np.add: np.cumsum, np.multiply: np.cumprod}


def ufunc_method(function: np.ufunc, name: str) -> Callable[..., Any]:
    """The implementation, or (as ``find_definition`` tells) the definition, of ``function.reduce``, ``.outer`` …"""
    if name == "__call__":
        return find(function) or _missing(function, name)
    if name == "outer":
        return partial(_outer, function)
    if name == "at":
        return partial(_at, function)
    if name == "reduce":
        return partial(_reduce, function) if function in _REDUCE else _loop(function, name)
    if name == "accumulate":
        return partial(_accumulate, function) if function in _ACCUMULATE else _loop(function, name)
    return _missing(function, name)


def _missing(function: np.ufunc, name: str) -> Callable[..., Any]:
    raise MissingRule(f"numpy.{function.__name__}.{name} has no rule")


def _reduce(
    function: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = ABSENT,
    where: Any = True,
) -> Any:
    options: dict[str, Any] = {"axis": axis, "out": out, "keepdims": keepdims, "where": where}
    if function in (np.add, np.multiply):
        options["dtype"] = dtype
    elif dtype is not None:
        array = _as_dtype(operand(array), dtype)
    if initial is not ABSENT:
        options["initial"] = initial
    return find(_REDUCE[function])(array, **options)  # type: ignore[misc]


def _accumulate(function: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    return find(_ACCUMULATE[function])(array, axis=axis, dtype=dtype, out=out)  # type: ignore[misc]


def _outer(function: np.ufunc, a: Any, b: Any, /, **options: Any) -> Any:
    a, b = operand(a), operand(b)
    if ndim_of(b) and ndim_of(a):
        a = indexing.getitem(array(a), (Ellipsis, *(None,) * ndim_of(b)))
    return call_ufunc(function, a, b, **options)


def _at(function: np.ufunc, target: Any, indices: Any, b: Any = ABSENT) -> None:
    """Unbuffered ``target[indices] op= b``: sums for add and subtract; others only where no index repeats."""
    target = array(target)
    index = indexing.resolve(indices, target.ndim)
    if function in (np.add, np.subtract):
        value = st.as_value(b, target.dtype)
        value = fold("neg", [value]) if function is np.subtract else value
        st.current().write_array(target, ir.add_at(target.value, value, index.spec, index.args))
        return
    if index.basic or set(index.spec) <= {"m", ":"}:
        old = indexing.getitem(target, indices)
        new = call_ufunc(function, old) if b is ABSENT else call_ufunc(function, old, b)
        indexing.setitem(target, indices, new)
        return
    raise MissingRule(f"numpy.{function.__name__}.at with an index array has no rule; write the loop out")


def _loop(function: np.ufunc, name: str) -> Callable[..., Any]:
    """A definition that runs a reduction or accumulation element by element along the axis."""
    from gradsmith.frontend.catalogue import definitions

    key = (function, name)
    if key not in _LOOPS:
        make = definitions.reduce_loop if name == "reduce" else definitions.accumulate_loop
        _LOOPS[key] = make(function)
        _DEFINITIONS[_LOOPS[key]] = _LOOPS[key]
    return _LOOPS[key]


_LOOPS: dict[tuple[np.ufunc, str], Callable[..., Any]] = {}
