"""Operators and ufuncs on front-end values: promotion as NumPy does it, and Python's own rules for Python numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from gradsmith.frontend import overflow
from gradsmith.frontend import stage as st
from gradsmith.frontend.values import (
    WEAK_SAMPLES,
    Array,
    Scalar,
    dtype_of,
    fresh,
    is_number,
    is_weak,
    number_or_array,
)
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value

#: Python operator → (NumPy ufunc, Python function)
BINARY: dict[str, tuple[np.ufunc, Callable[..., Any]]] = {
    "+": (np.add, operator.add),
    "-": (np.subtract, operator.sub),
    "*": (np.multiply, operator.mul),
    "/": (np.true_divide, operator.truediv),
    "//": (np.floor_divide, operator.floordiv),
    "%": (np.remainder, operator.mod),
    "**": (np.power, operator.pow),
    "@": (np.matmul, operator.matmul),
    "&": (np.bitwise_and, operator.and_),
    "|": (np.bitwise_or, operator.or_),
    "^": (np.bitwise_xor, operator.xor),
    "<<": (np.left_shift, operator.lshift),
    ">>": (np.right_shift, operator.rshift),
    "==": (np.equal, operator.eq),
    "!=": (np.not_equal, operator.ne),
    "<": (np.less, operator.lt),
    "<=": (np.less_equal, operator.le),
    ">": (np.greater, operator.gt),
    ">=": (np.greater_equal, operator.ge),
}
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})

#: ufunc → elementwise operation of the same meaning
UFUNC_OPS: dict[np.ufunc, str] = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.true_divide: "div",
    np.floor_divide: "floordiv",
    np.remainder: "mod",
    np.fmod: "fmod",
    np.power: "pow",
    np.negative: "neg",
    np.absolute: "abs",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
    np.invert: "not",
    np.left_shift: "shl",
    np.right_shift: "shr",
    np.equal: "eq",
    np.not_equal: "ne",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    np.conjugate: "conj",
    **{
        getattr(np, name): name
        for name in (
            "sign sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh "
            "arccosh arctanh floor ceil trunc rint maximum minimum fmax fmin copysign nextafter arctan2 hypot logaddexp "
            "isnan isinf isfinite signbit"
        ).split()
    },
}


@lru_cache(maxsize=4096)
def loop_dtypes(ufunc: np.ufunc, samples: tuple[Any, ...]) -> tuple[np.dtype, ...]:
    """dtypes of the loop NumPy runs: of every operand, then of the result. ``samples``: dtypes, or Python types if weak."""
    if all(isinstance(s, type) for s in samples):
        samples = tuple(np.dtype(s) for s in samples)
    return ufunc.resolve_dtypes((*samples, *(None,) * ufunc.nout))


def sample(x: Any) -> Any:
    """What stands for the operand in :func:`loop_dtypes`."""
    if is_weak(x):
        kind = type(WEAK_SAMPLES[dtype_of(x).kind])
        return np.dtype(bool) if kind is bool else kind
    return dtype_of(x)


def operand(x: Any) -> Any:
    """A number or array as it is; a list or tuple as the array NumPy makes of it."""
    if isinstance(x, Scalar | Array | np.ndarray) or is_number(x):
        return x
    if isinstance(x, list | tuple):
        return fresh(st.as_value(x))
    raise TypeError(f"unsupported operand type: {type(x).__name__}")


def ufunc(function: np.ufunc, *operands: Any) -> Scalar | Array:
    """``function(*operands)`` for a ufunc with an elementwise operation."""
    operands = tuple(map(operand, operands))
    return number_or_array(ufunc_value(function, *operands))


def ufunc_value(function: np.ufunc, *operands: Any) -> Value:
    """The Value of ``function(*operands)``."""
    dtypes = loop_dtypes(function, tuple(map(sample, operands)))
    values = [st.as_value(x, t) for x, t in zip(operands, dtypes, strict=False)]
    if function is np.power and dtypes[0].kind in "iu":
        _check_integer_power(values[1])
    if dtypes[0].kind == "b" and function in _ON_BOOLS:
        name = _ON_BOOLS[function]
        if name is None:
            return values[0]
    else:
        name = UFUNC_OPS[function]
    return fold(name, values)


#: arithmetic ufuncs whose loop on bools is a logical operation (None: the operand itself)
_ON_BOOLS: dict[np.ufunc, str | None] = {
    np.add: "or",
    np.multiply: "and",
    np.maximum: "or",
    np.minimum: "and",
    np.fmax: "or",
    np.fmin: "and",
    np.absolute: None,
    np.conjugate: None,
    np.floor: None,
    np.ceil: None,
    np.trunc: None,
}


def fold(name: str, values: list[Value]) -> Value:
    """Emit an elementwise operation; of scalar constants, compute it."""
    result = ir.emit
    if all(isinstance(v, Const) and v.ndim == 0 for v in values):
        from gradsmith.backends import host
        from gradsmith.ir.ops import infer
        from gradsmith.ir.program import Op

        op = Op(name, values, {}, (), infer(name, values, {}))
        with np.errstate(all="ignore"):
            return Const(host.evaluate(op, [v.data for v in values])[0], op.result.type)  # type: ignore[attr-defined,arg-type]
    return result(name, *values)


def _check_integer_power(exponent: Value) -> None:
    negative = fold("lt", [exponent, ir.const_like(0, exponent)])
    st.current().check(
        ir.not_(ir.reduce("any", negative, range(negative.ndim)))
        if not isinstance(negative, Const)
        else not np.any(negative.data),
        ValueError,
        "Integers to negative integer powers are not allowed.",
    )


def binary(symbol: str, x: Any, y: Any) -> Any:
    """``x symbol y`` where at least one operand is symbolic."""
    if is_number(x) and is_number(y) and is_weak(x) and is_weak(y):
        return _python_binary(symbol, x, y)
    if symbol == "@":
        from gradsmith.frontend.catalogue import find

        matmul = find(np.matmul)
        assert matmul is not None
        return matmul(operand(x), operand(y))
    return ufunc(BINARY[symbol][0], x, y)


def _python_binary(symbol: str, x: Any, y: Any) -> Any:
    """Python's own arithmetic on two Python numbers."""
    if symbol == "@":
        raise TypeError("unsupported operand type(s) for @: Python numbers")
    kinds = {dtype_of(x).kind, dtype_of(y).kind}
    dtype: np.dtype
    if symbol in "& | ^ << >>".split():
        if not kinds <= {"b", "i"}:
            raise TypeError(f"unsupported operand type(s) for {symbol}: 'float'")
        dtype = np.dtype(bool) if kinds == {"b"} and symbol in "&|^" else np.dtype(np.int64)
    else:
        dtype = np.dtype(np.complex128 if "c" in kinds else np.float64 if "f" in kinds else np.int64)
    if symbol == "/" and dtype.kind == "i":
        dtype = np.dtype(np.float64)
    if symbol in ("//", "%", "<", "<=", ">", ">=") and dtype.kind == "c":
        raise TypeError(f"{symbol} is not defined for complex numbers")
    a, b = st.as_value(x, dtype), st.as_value(y, dtype)
    if symbol in ("/", "//", "%"):
        _check_divisor(symbol, b, dtype)
    if symbol == "**":
        return _python_power(a, b, dtype)
    result = fold(UFUNC_OPS[BINARY[symbol][0]], [a, b])
    if dtype.kind == "i" and result.dtype.kind == "i":
        overflow.check(symbol, a, b, result)
    return python_number(result)


def _check_divisor(symbol: str, divisor: Value, dtype: np.dtype) -> None:
    message = {
        ("/", "f"): "float division by zero",
        ("/", "c"): "complex division by zero",
        ("//", "f"): "float floor division by zero",
        ("%", "f"): "float modulo",
    }.get((symbol, dtype.kind), "integer division or modulo by zero")
    st.current().check(fold("ne", [divisor, ir.const_like(0, divisor)]), ZeroDivisionError, message)


def _python_power(a: Value, b: Value, dtype: np.dtype) -> Any:
    stage = st.current()
    zero = ir.const_like(0, a)
    if dtype.kind == "i":
        if isinstance(b, Const) and b.data < 0:
            return _python_power(ir.cast(a, np.float64), ir.cast(b, np.float64), np.dtype(np.float64))
        if not isinstance(b, Const):
            stage.check(
                fold("ge", [b, zero]),
                NotImplementedError,
                "int ** int with a negative exponent that is known only at run time; write float(base) ** exponent",
            )
    elif dtype.kind == "f":
        if not isinstance(b, Const):
            whole = fold("eq", [ir.elementwise("floor", b), b])
            stage.check(ir.emit("or", whole, fold("ge", [a, zero])), ValueError, _COMPLEX_POWER)
        elif b.data != np.floor(b.data):
            stage.check(ir.not_(fold("lt", [a, zero])), ValueError, _COMPLEX_POWER)
        elif b.data < 0:
            stage.check(fold("ne", [a, zero]), ZeroDivisionError, "0.0 cannot be raised to a negative power")
    result = fold("pow", [a, b])
    if dtype.kind == "i":
        overflow.check("**", a, b, result)
    return python_number(result)


_COMPLEX_POWER = "a negative float to a fractional power is a complex number in Python; write complex(base) ** exponent"


def python_number(value: Value) -> Any:
    """A Python number: concrete when the Value is a constant."""
    if isinstance(value, Const):
        return value.data.item()
    return Scalar(value, weak=True)


def unary(symbol: str, x: Any) -> Any:
    """``-x``, ``+x``, ``~x`` for a symbolic x."""
    if symbol == "+":
        return fresh(x.value) if isinstance(x, Array) else x
    if is_weak(x):
        value = st.as_value(x, np.int64) if dtype_of(x).kind == "b" else x.value
        return python_number(fold("neg" if symbol == "-" else "not", [value]))
    return ufunc(np.negative if symbol == "-" else np.invert, x)


def truth(x: Any) -> Any:
    """``bool(x)``: a concrete bool, or a Python bool known at run time."""
    if isinstance(x, Scalar | Array):
        value = x.value
        if value.ndim:
            # NumPy allows an array of one element; of more it is ambiguous, which is known by its length
            size: Value = ir.i64(1)
            for n in ir.shape(value):
                size = fold("mul", [n, size])
            st.current().check(
                fold("eq", [size, ir.i64(1)]),
                ValueError,
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()",
            )
            value = ir.reshape(value, [])
        if value.dtype.kind != "b":
            value = fold("ne", [value, ir.const_like(0, value)])
        return python_number(value)
    return bool(x)


def logical_not(x: Any) -> Any:
    """``not x``."""
    t = truth(x)
    return not t if isinstance(t, bool) else python_number(fold("not", [t.value]))


def inplace(symbol: str, target: Array, y: Any) -> Array:
    """``target symbol= y``: writes the array's cell, so every name and view of it sees the new elements."""
    y = operand(y)
    old = fresh(target.value)
    if symbol == "@":
        new = binary("@", old, y).value
    else:
        new = ufunc_value(BINARY[symbol][0], old, y)
    assign(target, new, BINARY[symbol][0].__name__, old.cell.value)
    return target


def assign(target: Array, new: Value, what: str, old: Value | None = None) -> None:
    """Write ``new`` over the elements of ``target`` as an in-place operation of NumPy does (same_kind casts only).

    ``old``: the present elements, if they were read already.
    """
    if not np.can_cast(new.dtype, target.dtype, "same_kind"):
        raise TypeError(
            f"Cannot cast ufunc '{what}' output from {new.dtype!r} to {target.dtype!r} with casting rule 'same_kind'"
        )
    if new.ndim > target.ndim:
        raise ValueError(f"non-broadcastable output operand with {target.ndim} dimensions for a result with {new.ndim}")
    old = target.value if old is None else old
    shaped = _same_shape(new, old)
    new = ir.cast(new, target.dtype)
    if target.ndim and not shaped:
        new = ir.set_at(old, new, [":"] * target.ndim)
    st.current().write_array(target, new)


def _same_shape(new: Value, old: Value) -> bool:
    """Whether an elementwise result certainly has the shape of the operand ``old``."""
    if new is old:
        return True
    op = new.op
    return (
        op is not None
        and op.name in UFUNC_OPS.values()
        and all(a.ndim == 0 or a is old for a in op.args)
        and any(a is old for a in op.args)
    )
