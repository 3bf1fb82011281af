"""Functions that make arrays, conversions between arrays, numbers and dtypes, and questions about types."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsmith.errors import MissingRule
from gradsmith.frontend import arithmetic
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import fold
from gradsmith.frontend.catalogue import METHODS, implements
from gradsmith.frontend.catalogue.operands import (
    array,
    axis_index,
    deliver,
    equal,
    integers,
    iota,
    lengths,
    most,
    prepend_axes,
    size,
)
from gradsmith.frontend.values import Array, Scalar, dtype_of, fresh, is_number, is_weak, promotion_sample, result_dtype
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value

# ---- filled arrays ---------------------------------------------------------------------------------------------------


def filled(shape: Any, number: Any, dtype: Any, contiguous: bool = True) -> Array:
    """An array of ``shape`` filled with a number, or with an array that broadcasts to it."""
    dims = lengths(shape)
    value = st.as_value(number, dtype)
    if value.ndim:
        return fresh(ir.broadcast_to(value, dims), contiguous)
    return fresh(ir.full(value, dims) if dims else value, contiguous or len(dims) < 2)


@implements(np.zeros, np.empty)
def zeros(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None) -> Array:
    return filled(shape, 0, np.dtype(st.static(dtype) or float), st.static(order) == "C")


@implements(np.ones)
def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Array:
    return filled(shape, 1, np.dtype(st.static(dtype) or float), st.static(order) == "C")


@implements(np.full)
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Array:
    return filled(shape, fill_value, st.static(dtype) or st.as_value(fill_value).dtype, st.static(order) == "C")


def _like(a: Any, number: Any, dtype: Any, shape: Any, order: str) -> Array:
    value = st.as_value(a)
    kind = np.dtype(dtype) if dtype is not None else value.dtype
    contiguous = order == "C" or (order != "F" and array(a).contiguous)
    return filled(tuple(st.integer(n) for n in ir.shape(value)) if shape is None else shape, number, kind, contiguous)


@implements(np.zeros_like, np.empty_like)
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Array:
    return _like(a, 0, st.static(dtype), shape, st.static(order))


@implements(np.ones_like)
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Array:
    return _like(a, 1, st.static(dtype), shape, st.static(order))


@implements(np.full_like)
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Array:
    return _like(a, fill_value, st.static(dtype), shape, st.static(order))


# ---- ranges ----------------------------------------------------------------------------------------------------------


@implements(np.arange)
def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None, like: Any = None
) -> Array:
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    parts = (_number(start), _number(stop), _number(step))
    common = np.result_type(*map(dtype_of, parts)) if any(not is_weak(p) for p in parts) else result_dtype(*parts)
    kind = np.dtype(st.static(dtype)) if dtype is not None else common
    work = np.dtype(np.int64) if common.kind in "iub" else np.dtype(common)
    first, last, delta = (st.as_value(p, work) for p in parts)
    st.current().check(fold("ne", [delta, ir.const_like(0, delta)]), ZeroDivisionError, "division by zero")
    count = _range_length(first, last, delta)
    if kind.kind in "iub":
        steps = iota(count)
        first, delta = ir.cast(first, np.int64), ir.cast(delta, np.int64)
    else:
        # NumPy takes the step from the first two elements
        first, delta = ir.cast(first, kind), ir.cast(delta, kind)
        delta = fold("sub", [fold("add", [first, delta]), first])
        steps = iota(count, kind)
    values = steps if _is_constant(delta, 1) else fold("mul", [steps, delta])
    values = values if _is_constant(first, 0) else fold("add", [values, first])
    return fresh(ir.cast(values, kind))


def _is_constant(x: Value, number: int) -> bool:
    return isinstance(x, Const) and bool(x.data == number)


def _number(x: Any) -> Any:
    return Scalar(x.value, weak=False) if isinstance(x, Array) else x


def _range_length(first: Value, last: Value, delta: Value) -> Value:
    span = last if _is_constant(first, 0) else fold("sub", [last, first])
    if span.dtype.kind == "f":
        return most(ir.cast(fold("ceil", [fold("div", [span, delta])]), np.int64), 0)
    if _is_constant(delta, 1):
        return most(span, 0)
    return most(fold("neg", [fold("floordiv", [fold("neg", [span]), delta])]), 0)


@implements(np.indices)
def indices(dimensions: Any, dtype: Any = int, sparse: Any = False) -> Any:
    dims = lengths(dimensions)
    n = len(dims)
    grids = []
    for k, length in enumerate(dims):
        grid = ir.index(iota(length, st.static(dtype)), [":" if j == k else "n" for j in range(n)])
        grids.append(grid if st.static(sparse) else ir.broadcast_to(grid, dims))
    if st.static(sparse):
        return tuple(map(fresh, grids))
    rows = [ir.index(g, ["n"] + [":"] * n) for g in grids]
    return fresh(rows[0] if n == 1 else ir.emit("concatenate", *rows, axis=0))


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: Any = True, sparse: Any = False, indexing: str = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(xi)
    flat = [ir.reshape(v, [size(v)]) for v in (st.as_value(x) for x in xi)]
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    dims = [ir.shape(flat[k])[0] for k in order]
    grids = []
    for k, x in enumerate(flat):
        grid = ir.index(x, [":" if order[j] == k else "n" for j in range(n)])
        grids.append(fresh(grid if st.static(sparse) else ir.broadcast_to(grid, dims)))
    return tuple(grids)


@implements(np.ix_)
def ix_(*args: Any) -> Any:
    out = []
    for k, x in enumerate(args):
        value = st.as_value(x)
        if value.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if value.dtype.kind == "b":
            value = ir.host("numpy.flatnonzero", [value], integers(1))
        out.append(fresh(ir.index(value, [":" if j == k else "n" for j in range(len(args))])))
    return tuple(out)


# ---- arrays from what there is ---------------------------------------------------------------------------------------


@implements(np.array)
def array_(
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: Any = "K",
    subok: Any = False,
    ndmin: Any = 0,
    ndmax: Any = 0,
    like: Any = None,
) -> Array:
    if isinstance(object, Array) and not copy:
        return _with_ndmin(array(object, st.static(dtype)), ndmin)
    value = prepend_axes(st.as_value(object, st.static(dtype)), ndmin)
    return fresh(value, contiguous=not isinstance(object, Array) or object.contiguous or order == "C")


def _with_ndmin(x: Array, ndmin: int) -> Array:
    from gradsmith.frontend.catalogue.shaping import with_unit_axes

    return with_unit_axes(x, ["n"] * (ndmin - x.ndim) + [":"] * x.ndim) if x.ndim < ndmin else x


@implements(np.asarray)
def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Array:
    if st.static(copy):
        return array_(a, dtype, order=order)
    return array(a, st.static(dtype))


@implements(np.asanyarray)
def asanyarray(a: Any, dtype: Any = None, order: Any = None, **options: Any) -> Array:
    return array(a, st.static(dtype))


@implements(np.asarray_chkfinite)
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Array:
    x = array(a, st.static(dtype))
    if x.dtype.kind in "fc":
        finite = fold("isfinite", [x.value])
        st.current().check(
            ir.reduce("all", finite, range(finite.ndim)), ValueError, "array must not contain infs or NaNs"
        )
    return x


@implements(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    x = array(a, st.static(dtype))
    if not x.contiguous:
        x = fresh(x.value)
        x.cell.ambiguous = "writing into numpy.ascontiguousarray(x): it may be x itself or a copy; write x.copy()"
    return _with_ndmin(x, 1)


@implements(np.asfortranarray)
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    x = array(a, st.static(dtype))
    if x.ndim > 1:
        x = fresh(x.value, contiguous=False)
        x.cell.ambiguous = "writing into numpy.asfortranarray(x): it may be x itself or a copy; write x.copy()"
    return x


@implements(np.require)
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Array:
    return array(a, st.static(dtype))


@implements(np.copy)
def copy_of(a: Any, order: Any = "K", subok: Any = False) -> Array:
    return array_(a, order=order)


@implements(np.ndarray.copy, method="copy")
def copy(a: Any, order: Any = "C") -> Any:
    return Scalar(a.value, weak=False) if isinstance(a, Scalar) else fresh(array(a).value, st.static(order) == "C")


@implements(*(getattr(np, name) for name in ("astype",) if hasattr(np, name)), method="astype")
def astype(x: Any, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: Any = True, copy: Any = True) -> Any:
    dtype = np.dtype(st.static(dtype))
    if dtype.kind not in "biufc":
        raise MissingRule(f"astype({dtype}) cannot be staged: only numbers can")
    if isinstance(x, Scalar):
        return Scalar(ir.cast(x.value, dtype), weak=False)
    x = array(x)
    if not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {dtype!r} according to the rule {casting!r}")
    if not st.static(copy) and x.dtype == dtype:
        return x
    return fresh(ir.cast(x.value, dtype), st.static(order) == "C" or x.contiguous)


def _register_number_classes() -> None:
    for kind in (np.bool_, *np.sctypeDict.values()):
        if np.dtype(kind).kind in "biufc":
            implements(kind)(_number_class(kind))


def _number_class(kind: type) -> Any:
    def construct(x: Any = 0, /) -> Any:
        return deliver(st.as_value(x, kind))

    construct.__name__ = kind.__name__
    return construct


_register_number_classes()


# ---- from arrays to numbers and lists --------------------------------------------------------------------------------


def item(x: Any, *args: Any) -> Any:
    """``x.item()``: a Python number."""
    value = x.value
    if args:
        key = args[0] if len(args) == 1 else args
        if not isinstance(key, tuple):
            value, key = ir.reshape(value, [size(value)]), (key,)
        value = ir.index(value, ["i"] * len(key), [st.index_value(k) for k in key])
    if value.ndim:
        one = equal(size(value), ir.i64(1))
        st.current().check(one, ValueError, "can only convert an array of size 1 to a Python scalar")
        value = ir.reshape(value, [])
    return arithmetic.python_number(ir.cast(value, _python_dtype(value.dtype)))


def _python_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype({"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64, "c": np.complex128}[dtype.kind])


def tolist(x: Any) -> Any:
    """Nested lists of Python numbers; the lengths become part of the specialisation."""
    value = ir.cast(x.value, _python_dtype(x.dtype))
    if not value.ndim:
        return arithmetic.python_number(value)
    dims = [st.static(st.integer(n)) for n in ir.shape(value)]

    def nested(index: tuple[int, ...]) -> Any:
        if len(index) == len(dims):
            return arithmetic.python_number(ir.index(value, ["i"] * len(index), index))
        return st.current().heap.born([nested((*index, k)) for k in range(dims[len(index)])])

    return nested(())


def fill(x: Array, value: Any) -> None:
    """``x.fill(value)``."""
    number = st.as_value(value, x.dtype)
    if number.ndim:
        number = ir.reshape(number, [])
    dims = ir.shape(x.value)
    st.current().write_array(x, ir.full(number, dims) if dims else number)


def view(x: Any, dtype: Any = None, type: Any = None) -> Any:
    """``x.view()``: the same elements; another dtype cannot be staged."""
    dtype = st.static(dtype)
    if type is not None or (dtype is not None and dtype is not np.ndarray and np.dtype(dtype) != x.dtype):
        raise MissingRule("view with another dtype or class cannot be staged; use astype")
    return Array(x.cell, x.views) if isinstance(x, Array) else x


def _nothing(x: Any, *args: Any, **options: Any) -> None:
    """Flags have no meaning in a Program."""


METHODS.update(item=item, tolist=tolist, fill=fill, view=view, setflags=_nothing)
METHODS["__copy__"] = copy
METHODS["__deepcopy__"] = lambda a, memo=None: copy(a)
METHODS["__array_namespace__"] = lambda a, api_version=None: np
METHODS["to_device"] = lambda a, device, stream=None: a
METHODS["__array__"] = lambda a, dtype=None, copy=None: asarray(a, dtype, copy=copy)


# ---- triangles of matrices -------------------------------------------------------------------------------------------


@implements(np.triu)
def triu(m: Any, k: Any = 0) -> Any:
    return _triangle(m, k, upper=True)


@implements(np.tril)
def tril(m: Any, k: Any = 0) -> Any:
    return _triangle(m, k, upper=False)


def _triangle(m: Any, k: Any, upper: bool) -> Array:
    value = st.as_value(m)
    if value.ndim == 1:
        n = ir.shape(value)[0]
        value = ir.broadcast_to(value, [n, n])
    if value.ndim < 2:
        raise ValueError("triu and tril need an array of at least 1 dimension")
    rows, columns = ir.shape(value)[-2:]
    shifted = fold("add", [ir.index(iota(rows), [":", "n"]), st.index_value(k)])
    keep = fold("ge" if upper else "le", [ir.index(iota(columns), ["n", ":"]), shifted])
    return fresh(ir.where(keep, value, ir.const_like(0, value)))


# ---- questions about types -------------------------------------------------------------------------------------------


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    return np.result_type(*(promotion_sample(x) if _has_number(x) else x for x in arrays_and_dtypes))


def _has_number(x: Any) -> bool:
    return isinstance(x, Array | np.ndarray) or is_number(x)


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    return np.can_cast(from_.dtype if isinstance(from_, Array | Scalar) else from_, to, casting)  # type: ignore[arg-type]


@implements(np.common_type)
def common_type(*arrays: Any) -> type:
    return np.common_type(*(np.empty(0, st.as_value(a).dtype) for a in arrays))


@implements(np.isscalar)
def isscalar(element: Any) -> bool:
    return isinstance(element, Scalar) or np.isscalar(element)


@implements(np.iterable)
def iterable(y: Any) -> bool:
    return y.ndim > 0 if isinstance(y, Array) else not isinstance(y, Scalar) and np.iterable(y)


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return st.as_value(x).dtype.kind == "c"


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return st.as_value(x).dtype.kind != "c"


@implements(np.finfo)
def finfo(dtype: Any) -> Any:
    return np.finfo(dtype.dtype if isinstance(dtype, Array | Scalar) else dtype)


@implements(np.iinfo)
def iinfo(int_type: Any) -> Any:
    return np.iinfo(int_type.dtype if isinstance(int_type, Array | Scalar) else int_type)


@implements(np.isfortran)
def isfortran(a: Any) -> bool:
    return isinstance(a, Array) and a.ndim > 1 and not a.contiguous


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: Any = False) -> Any:
    x, y = st.as_value(a1), st.as_value(a2)
    if x.ndim != y.ndim:
        return False
    for n, m in zip(ir.shape(x), ir.shape(y), strict=True):
        same = equal(n, m)
        if not (same if isinstance(same, bool) else st.static(Scalar(same, weak=True))):
            return False
    return arithmetic.python_number(_all_equal(x, y, bool(st.static(equal_nan))))


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    return arithmetic.python_number(_all_equal(st.as_value(a1), st.as_value(a2), False))


def _all_equal(x: Value, y: Value, equal_nan: bool) -> Value:
    common = np.result_type(x.dtype, y.dtype)
    x, y = ir.cast(x, common), ir.cast(y, common)
    same = fold("eq", [x, y])
    if equal_nan and common.kind in "fc":
        same = fold("or", [same, fold("and", [ir.isnan(x), ir.isnan(y)])])
    return ir.reduce("all", same, range(same.ndim))


@implements(np.lib.array_utils.normalize_axis_index)
def normalize_axis_index(axis: Any, ndim: Any, msg_prefix: Any = None) -> int:
    return axis_index(axis, ndim)


@implements(np.min_scalar_type)
def min_scalar_type(a: Any, /) -> np.dtype:
    if st.as_value(a).ndim == 0:
        raise MissingRule("numpy.min_scalar_type depends on a value known only at run time")
    return a.dtype


@implements(np.fromiter)
def fromiter(iter: Any, dtype: Any, count: Any = -1, *, like: Any = None) -> Array:
    items = iter if isinstance(iter, Array) else list(iter)
    n = st.static(count)
    return fresh(st.as_value(items if n < 0 or isinstance(items, Array) else items[:n], st.static(dtype)))


@implements(np.ndindex)
def ndindex(*shape: Any) -> Any:
    """The lengths become part of the specialisation."""
    return np.ndindex(*st.static(shape))


@implements(np.ndenumerate)
def ndenumerate(arr: Any) -> Any:
    x = array(arr)
    dims = st.static(tuple(st.integer(n) for n in ir.shape(x.value)))
    return [(k, Scalar(ir.index(x.value, ["i"] * x.ndim, k), weak=False)) for k in np.ndindex(*dims)]


@implements(np.shares_memory, np.may_share_memory)
def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    st.current().compares_arrays = True
    return isinstance(a, Array) and isinstance(b, Array) and a.cell is b.cell
