"""scipy.special: operations of the Program where there is one, host operations with rules, and definitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.special

from gradsmith.errors import MissingRule
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import fold, loop_dtypes, operand, sample
from gradsmith.frontend.catalogue import defines, implements
from gradsmith.frontend.catalogue.operands import deliver
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Value
from gradsmith.ir.types import ArrayType

#: functions that are operations of the Program
_OPERATIONS = {name: name for name in "erf erfc gamma gammaln digamma expit cbrt exp2 expm1 log1p".split()}
_OPERATIONS["psi"] = "digamma"
#: elementwise functions called on the host, in ``gradsmith/rules/special.py`` with their partial derivatives
_HOSTED = """erfinv erfcinv erfcx erfi dawsn ndtr log_ndtr ndtri rgamma i0 i1 i0e i1e j0 j1 y0 y1 k0 k1 k0e k1e jv yv
    iv kv ive kve beta betaln xlogy xlog1py entr rel_entr kl_div gammainc gammaincc gammaincinv betainc betaincinv expi
    exp1 expn exprel spence ellipk ellipe log_expit logit huber pseudo_huber boxcox cosm1 binom hyp1f1 hyp2f1 hyp0f1
    exp10 sindg cosdg""".split()


def _elementwise(function: Any, emit: Callable[[list[Value], ArrayType], Value]) -> Callable[..., Any]:
    def call(*args: Any, out: Any = None, where: Any = True, dtype: Any = None, **options: Any) -> Any:
        if not function.nin <= len(args) <= function.nargs:
            raise TypeError(
                f"{function.__name__}() takes {function.nin} positional arguments but {len(args)} were given"
            )
        if len(args) > function.nin:
            out = args[function.nin]
        operands = tuple(map(operand, args[: function.nin]))
        types = loop_dtypes(function, tuple(map(sample, operands)))
        if types[-1].kind == "c":
            raise MissingRule(f"scipy.special.{function.__name__} of complex numbers has no rule")
        values = [st.as_value(x, types[-1] if t.kind in "iu" else t) for x, t in zip(operands, types, strict=False)]
        return deliver(emit(values, ArrayType(types[-1], max(v.ndim for v in values))), out, function.__name__, where)

    call.__name__ = function.__name__
    return call


def _operation(name: str, values: list[Value], result: ArrayType) -> Value:
    return fold(name, values)


def _host(name: str, values: list[Value], result: ArrayType) -> Value:
    return ir.host(name, values, [result])


def _register() -> None:
    for name, op in _OPERATIONS.items():
        function = getattr(scipy.special, name)
        implements(function)(_elementwise(function, partial(_operation, op)))
    for name in _HOSTED:
        function = getattr(scipy.special, name, None)
        if function is None:
            continue  # of a later SciPy
        implements(function)(_elementwise(function, partial(_host, f"scipy.special.{name}")))


_register()


@implements(scipy.special.polygamma)
def polygamma(n: Any, x: Any) -> Any:
    value = st.as_value(x)
    value = value if value.dtype.kind == "f" else ir.cast(value, np.float64)
    return deliver(ir.emit("polygamma", st.as_value(n, value.dtype), value))


@implements(scipy.special.zeta)
def zeta(x: Any, q: Any = None, out: Any = None) -> Any:
    s = st.as_value(x, np.float64)
    second = st.as_value(1.0 if q is None else q, np.float64)
    return deliver(ir.host("scipy.special.zeta", [s, second], [ArrayType(s.dtype, max(s.ndim, second.ndim))]), out)


# ---- definitions -----------------------------------------------------------------------------------------------------


def _level(a: Any, axis: Any) -> Any:
    """The integer nearest to the maximum: a shift that keeps exp in range and whose derivative is zero."""
    top = np.max(a, axis=axis, keepdims=True)
    return np.rint(np.where(np.isfinite(top), top, 0))


@defines(scipy.special.logsumexp)
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: Any = False, return_sign: Any = False) -> Any:
    a = np.atleast_1d(a)
    if a.dtype.kind in "biu":
        a = a.astype(float)
    axes = tuple(range(a.ndim)) if axis is None else axis
    if b is not None:
        b = np.asarray(b)
        a, b = np.broadcast_arrays(np.where(b == 0, -np.inf, a), b)
    shift = _level(a, axes)
    level = shift if keepdims else np.squeeze(shift, axis=axes)
    if b is None and not return_sign:
        # one largest element apart, so that results near 0 keep their relative accuracy
        flat = axis is None
        rows = np.reshape(a, (-1,)) if flat else a
        if flat or np.ndim(axis) == 0:
            k = 0 if flat else axis
            first = np.expand_dims(np.argmax(rows, axis=k), k)
            place = np.reshape(np.arange(rows.shape[k]), (-1,) + (1,) * (rows.ndim - 1 - k % rows.ndim))
            d = rows - (np.reshape(shift, (1,)) if flat else shift)
            rest = np.sum(np.where(place == first, np.expm1(d), np.exp(d)), axis=k, keepdims=keepdims)
            rest = np.reshape(rest, level.shape)
            nothing = rest <= -1
            return (np.where(nothing, -np.inf, np.log1p(np.where(nothing, 0, rest))) + level)[()]
    total = np.exp(a - shift) if b is None else b * np.exp(a - shift)
    total = np.sum(total, axis=axes, keepdims=keepdims)
    sign = np.sign(total)
    size = np.abs(total) if return_sign else total
    zero = size == 0
    out = (np.where(zero, -np.inf, np.log(np.where(zero, 1, size))) + level)[()]
    return (out, sign) if return_sign else out


@defines(scipy.special.softmax)
def softmax(x: Any, axis: Any = None) -> Any:
    x = np.asarray(x)
    e = np.exp(x - _level(x, tuple(range(x.ndim)) if axis is None else axis))
    return e / np.sum(e, axis=axis, keepdims=True)


@defines(scipy.special.log_softmax)
def log_softmax(x: Any, axis: Any = None) -> Any:
    x = np.asarray(x)
    d = x - _level(x, tuple(range(x.ndim)) if axis is None else axis)
    return d - np.log(np.sum(np.exp(d), axis=axis, keepdims=True))


@defines(scipy.special.multigammaln)
def multigammaln(a: Any, d: Any) -> Any:
    a = np.asarray(a)
    result = d * (d - 1) * 0.25 * np.log(np.pi)
    for j in range(d):
        result = result + scipy.special.gammaln(a - j / 2)
    return result


@defines(scipy.special.inv_boxcox)
def inv_boxcox(y: Any, lmbda: Any) -> Any:
    zero = np.equal(lmbda, 0)
    safe = np.where(zero, 1, lmbda)
    return np.where(zero, np.exp(y), np.exp(np.log1p(safe * y) / safe))[()]


def _register_newer() -> None:
    """Functions of later SciPy versions."""
    if hasattr(scipy.special, "softplus"):

        @defines(scipy.special.softplus)
        def softplus(x: Any, /, out: Any = None) -> Any:
            return np.logaddexp(0, x)


_register_newer()
