"""Attributes of arrays, and functions that rearrange elements: views where NumPy gives views, new arrays where it copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from gradsmith.errors import MissingRule, UnsupportedCode
from gradsmith.frontend import arithmetic, indexing
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import fold
from gradsmith.frontend.catalogue import METHODS, attribute, implements
from gradsmith.frontend.catalogue.operands import (
    ABSENT,
    array,
    axes,
    axis_index,
    condition,
    deliver,
    equal,
    holds,
    integers,
    iota,
    is_one,
    least,
    lengths,
    minus,
    most,
    plus,
    prepend_axes,
    product,
    refuse,
    size,
    times,
)
from gradsmith.frontend.values import Array, Scalar, fresh, is_grown, ndim_of
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value
from gradsmith.ir.types import real_dtype

# ---- attributes ------------------------------------------------------------------------------------------------------


@attribute("shape")
@implements(np.shape)
def shape(a: Any) -> tuple[Any, ...]:
    return tuple(st.integer(n) for n in ir.shape(st.as_value(a)))


@attribute("ndim")
@implements(np.ndim)
def ndim(a: Any) -> int:
    return st.as_value(a).ndim


@attribute("size")
def size_attribute(a: Any) -> Any:
    return st.integer(size(st.as_value(a)))


@implements(np.size)
def size_of(a: Any, axis: Any = None) -> Any:
    value = st.as_value(a)
    if axis is None:
        return st.integer(size(value))
    return st.integer(product([ir.shape(value)[k] for k in axes(axis, value.ndim)]))


@implements(len)
def length(x: Any) -> Any:
    if not isinstance(x, Array):
        return len(x)
    if x.ndim == 0:
        raise TypeError("len() of unsized object")
    return st.integer(ir.shape(x.value)[0])


@attribute("dtype")
def dtype(x: Any) -> np.dtype:
    return x.dtype


@attribute("itemsize")
def itemsize(x: Any) -> int:
    return x.dtype.itemsize


@attribute("nbytes")
def nbytes(x: Any) -> Any:
    return st.integer(times(size(x.value), x.dtype.itemsize))


@attribute("T")
def transposed(x: Any) -> Any:
    return transpose(x)


@attribute("mT")
def matrix_transposed(x: Any) -> Any:
    if x.ndim < 2:
        raise ValueError("matrix transpose with ndim < 2 is undefined")
    return swapaxes(x, -1, -2)


@attribute("real")
def real_part(x: Any) -> Any:
    if x.dtype.kind != "c":
        return x
    if isinstance(x, Scalar):
        return Scalar(ir.real(x.value), x.weak)
    return indexing.view(
        x, ir.real, lambda b, new: ir.emit("complex", new, ir.imag(b)), x.ndim, dtype=real_dtype(x.dtype)
    )


@attribute("imag")
def imag_part(x: Any) -> Any:
    if x.dtype.kind != "c":
        zeros = ir.zeros_like(x.value)
        return Scalar(zeros, x.weak) if isinstance(x, Scalar) else read_only(fresh(zeros))
    if isinstance(x, Scalar):
        return Scalar(ir.imag(x.value), x.weak)
    return indexing.view(
        x, ir.imag, lambda b, new: ir.emit("complex", ir.real(b), new), x.ndim, dtype=real_dtype(x.dtype)
    )


@attribute("flat")
def flat(x: Any) -> Array:
    x = array(x)
    return reshaped_view(x, [size(x.value)], True)


@attribute("base")
def base(x: Any) -> Any:
    return Array(x.cell) if isinstance(x, Array) and x.views else None


def read_only(x: Array) -> Array:
    """A view of ``x`` that cannot be written through."""
    return indexing.view(x, lambda b: b, _refuse_write, x.ndim, x.contiguous)


def _refuse_write(base: Value, new: Value) -> NoReturn:
    raise ValueError("assignment destination is read-only")


# ---- reshape and its kin ---------------------------------------------------------------------------------------------


@implements(np.reshape)
def reshape(a: Any, /, shape: Any = ABSENT, order: Any = "C", *, copy: Any = None, newshape: Any = ABSENT) -> Any:
    target = newshape if shape is ABSENT else shape
    a = array(a)
    if st.static(order) == "F":
        reverse = fresh(transpose(a).value)
        dims = target if isinstance(target, tuple | list) else (target,)
        return transpose(reshape(reverse, tuple(reversed(dims))))
    result = _reshape(a, target)
    return fresh(result.value) if st.static(copy) else result


def _reshape_method(a: Any, *shape: Any, order: Any = "C", copy: Any = None) -> Any:
    return reshape(a, shape[0] if len(shape) == 1 else shape, order, copy=copy)


METHODS["reshape"] = _reshape_method


def _reshape(a: Array, target: Any) -> Array:
    if isinstance(target, Array) and target.ndim or isinstance(target, np.ndarray):
        target = [st.integer(n) for n in lengths(target)]
    target = target if isinstance(target, tuple | list) else (target,)
    return reshaped_view(a, resolved_shape(a.value, [st.index_value(n) for n in target]), a.contiguous)


def resolved_shape(x: Value, dims: Sequence[Value]) -> list[Value]:
    """``dims`` with a −1 replaced by what is left of the elements of ``x``. ValueError when the sizes do not agree."""
    dims = list(dims)
    total = size(x)
    message = "cannot reshape array of size {} into the given shape"
    stage = st.current()
    unknown = [k for k, n in enumerate(dims) if ir.static_int(n) == -1 or _negative(n)]
    if len(unknown) > 1:
        raise ValueError("can only specify one unknown dimension")
    if unknown:
        rest = product([n for k, n in enumerate(dims) if k != unknown[0]])
        if ir.static_int(rest) == 1:
            dims[unknown[0]] = total
            return dims
        # an empty array gets an axis of length 0, a rest of 0 is an error
        stage.check(holds(equal(rest, ir.i64(0)), negate=True), ValueError, message, total)
        dims[unknown[0]] = fold("floordiv", [total, most(rest, 1)])
    stage.check(holds(equal(product(dims), total)), ValueError, message, total)
    return dims


def _negative(n: Value) -> bool:
    """Whether a length known only at run time is the −1 of an unknown dimension: only an argument can be."""
    if isinstance(n, Const) or (n.op is not None and n.op.name in ("dim", "seq_len", "mul", "add", "floordiv")):
        return False
    return bool(st.static(Scalar(ir.elementwise("lt", n, 0), weak=True)))


def reshaped_view(a: Array, dims: Sequence[Value], is_view: bool) -> Array:
    """``a`` in the shape ``dims``: a view of a contiguous array, otherwise an array that cannot be written."""
    if not is_view:
        result = fresh(ir.reshape(a.value, dims))
        result.cell.ambiguous = (
            "writing into a reshaped array whose elements were not contiguous: it may be a view or a copy; "
            "write .copy() to say that it is a copy"
        )
        return result
    if isinstance(a.value, Const) and all(isinstance(n, Const) for n in dims) and not a.views:
        own = [ir.i64(n) for n in a.value.data.shape]  # type: ignore[attr-defined]
    else:
        own = ir.shape(a.value)
    return indexing.view(
        a, lambda b: ir.reshape(b, dims), lambda b, new: ir.reshape(new, own), len(dims), contiguous=True
    )


@implements(np.ravel, method="ravel")
def ravel(a: Any, order: Any = "C") -> Any:
    return reshape(a, -1, "F" if st.static(order) == "F" else "C")


def flatten(a: Any, order: Any = "C") -> Any:
    return fresh(ravel(a, order).value)


METHODS["flatten"] = flatten


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    value = ravel(a).value
    dims = lengths(new_shape)
    return fresh(ir.reshape(cycled(value, product(dims)), dims))


def cycled(value: Value, count: Value) -> Value:
    """The elements of a 1-d array, repeated until there are ``count``."""
    return ir.index(value, ["a"], [fold("mod", [iota(count), most(size(value), 1)])])


# ---- axes ------------------------------------------------------------------------------------------------------------


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    if isinstance(a, Scalar):
        return a
    a = array(a)
    axes = st.static(axes)
    if axes is None:
        perm = tuple(reversed(range(a.ndim)))
    else:
        axes = (axes,) if isinstance(axes, int) else tuple(axes)
        if len(axes) != a.ndim:
            raise ValueError("axes don't match array")
        perm = tuple(normalize_axis_index(k, a.ndim) for k in axes)
        if len(set(perm)) != a.ndim:
            raise ValueError("repeated axis in transpose")
    return _permuted(a, perm)


def _permuted(a: Array, perm: tuple[int, ...]) -> Array:
    if perm == tuple(range(a.ndim)):
        return indexing.view(a, lambda b: b, lambda b, new: new, a.ndim, contiguous=True)
    inverse = tuple(np.argsort(perm).tolist())
    return indexing.view(a, lambda b: ir.transpose(b, perm), lambda b, new: ir.transpose(new, inverse), a.ndim)


def _transpose_method(a: Any, *axes: Any) -> Any:
    return transpose(a, None if not axes or axes == (None,) else axes[0] if isinstance(axes[0], tuple | list) else axes)


METHODS["transpose"] = _transpose_method


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    return matrix_transposed(array(x))


@implements(np.swapaxes, method="swapaxes")
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    a = array(a)
    i, j = axis_index(axis1, a.ndim), axis_index(axis2, a.ndim)
    perm = list(range(a.ndim))
    perm[i], perm[j] = perm[j], perm[i]
    return _permuted(a, tuple(perm))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    a = array(a)
    src = normalize_axis_tuple(st.static(source), a.ndim, "source")
    dst = normalize_axis_tuple(st.static(destination), a.ndim, "destination")
    if len(src) != len(dst):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [n for n in range(a.ndim) if n not in src]
    for d, s in sorted(zip(dst, src, strict=True)):
        order.insert(d, s)
    return _permuted(a, tuple(order))


@implements(np.rollaxis)
def rollaxis(a: Any, axis: Any, start: Any = 0) -> Any:
    a = array(a)
    axis, start = axis_index(axis, a.ndim), st.static(start)
    start = start + a.ndim if start < 0 else start
    order = [n for n in range(a.ndim) if n != axis]
    order.insert(start - 1 if axis < start else start, axis)
    return _permuted(a, tuple(order))


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    a, axis = array(a), st.static(axis)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    new = set(axes(axis, a.ndim + count))
    return with_unit_axes(a, ["n" if k in new else ":" for k in range(a.ndim + count)])


def with_unit_axes(a: Array, spec: Sequence[str]) -> Array:
    """The view ``a[spec]`` for a spec of ":" and "n"."""
    drop = ["i" if entry == "n" else ":" for entry in spec]
    zeros = [0] * drop.count("i")
    return indexing.view(
        a, lambda b: ir.index(b, spec), lambda b, new: ir.index(new, drop, zeros), len(spec), contiguous=True
    )


@implements(np.squeeze, method="squeeze")
def squeeze(a: Any, axis: Any = None) -> Any:
    if isinstance(a, Scalar):
        return a
    a = array(a)
    dims = ir.shape(a.value)
    if axis is None:
        gone = {k for k, n in enumerate(dims) if is_one(n)}
    else:
        gone = set(axes(axis, a.ndim))
        for k in gone:
            st.current().check(
                holds(equal(dims[k], ir.i64(1))),
                ValueError,
                "cannot select an axis to squeeze out which has size not equal to one",
            )
    drop = ["i" if k in gone else ":" for k in range(a.ndim)]
    back = ["n" if k in gone else ":" for k in range(a.ndim)]
    zeros = [0] * len(gone)
    return indexing.view(
        a, lambda b: ir.index(b, drop, zeros), lambda b, new: ir.index(new, back), a.ndim - len(gone), contiguous=True
    )


def _at_least(n: int, arrays: Sequence[Any]) -> Any:
    results = []
    for x in arrays:
        x = array(x)
        if x.ndim < n:
            spec = {
                (1, 0): ["n"],
                (2, 0): ["n", "n"],
                (2, 1): ["n", ":"],
                (3, 0): ["n", "n", "n"],
                (3, 1): ["n", ":", "n"],
                (3, 2): [":", ":", "n"],
            }[n, x.ndim]
            x = with_unit_axes(x, spec)
        results.append(x)
    return results[0] if len(results) == 1 else tuple(results)


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    return _at_least(1, arys)


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    return _at_least(2, arys)


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    return _at_least(3, arys)


# ---- broadcasting ----------------------------------------------------------------------------------------------------


@implements(np.broadcast_to)
def broadcast_to(array_: Any, shape: Any, subok: Any = False) -> Any:
    a, dims = array(array_), lengths(shape)
    if a.ndim > len(dims):
        raise ValueError("input operand has more dimensions than allowed by the axis remapping")
    return indexing.view(a, lambda b: ir.broadcast_to(b, dims), _refuse_write, len(dims), contiguous=not dims)


def common_shape(values: Sequence[Value]) -> list[Value]:
    """The lengths of the axes of the values broadcast together. ValueError when they do not fit."""
    if len(values) == 1:
        return ir.shape(values[0])
    ones = [ir.full(False, ir.shape(v), bool) if v.ndim else Const(False) for v in values]
    total = ones[0]
    for one in ones[1:]:
        total = ir.elementwise("or", total, one)
    return ir.shape(total)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: Any = False) -> Any:
    arrays = [array(x) for x in args]
    dims = [st.integer(n) for n in common_shape([a.value for a in arrays])]
    return tuple(broadcast_to(a, tuple(dims)) for a in arrays)


@implements(np.broadcast_shapes)
def broadcast_shapes(*shapes: Any) -> Any:
    falses = [ir.full(False, lengths(s), bool) if not isinstance(s, tuple) or s else Const(False) for s in shapes]
    return tuple(st.integer(n) for n in common_shape(falses))


# ---- joining ---------------------------------------------------------------------------------------------------------


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    if is_grown(arrays):
        return deliver(_concatenated(fresh(st.as_value(arrays)), st.static(axis), st.static(dtype)), out)
    parts = _sequence(arrays)
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if st.static(axis) is None:
        parts, axis = [ravel(p) for p in parts], 0
    ndims = {p.ndim for p in parts}
    if 0 in ndims:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    if len(ndims) > 1:
        raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
    return deliver(joined([p.value for p in parts], axis_index(axis, parts[0].ndim), st.static(dtype)), out)


def _concatenated(whole: Array, axis: int | None, dtype: Any) -> Value:
    """The items of ``whole`` (the stack of a list that grew in a loop) joined along ``axis`` of theirs."""
    if whole.ndim == 1:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    k = 0 if axis is None else axis_index(axis, whole.ndim - 1)
    moved = moveaxis(whole, 0, k).value
    dims = ir.shape(moved)
    value = ir.reshape(moved, [*dims[:k], times(dims[k], dims[k + 1]), *dims[k + 2 :]])
    if axis is None:
        value = ravel(fresh(value)).value
    return value if dtype is None else ir.cast(value, np.dtype(dtype))


def joined(values: Sequence[Value], axis: int, dtype: Any = None) -> Value:
    common = np.result_type(*(v.dtype for v in values)) if dtype is None else np.dtype(dtype)
    values = [ir.cast(v, common) for v in values]
    return values[0] if len(values) == 1 else ir.emit("concatenate", *values, axis=axis)


def _sequence(arrays: Any) -> list[Array]:
    """The arrays of a list, a tuple, or an array (along its first axis)."""
    if is_grown(arrays):
        raise UnsupportedCode("joining a list that grew in a loop in this way; make an array of it with np.stack first")
    if isinstance(arrays, Array | np.ndarray):
        whole = array(arrays)
        count = st.static(length(whole))
        return [array(indexing.getitem(whole, k)) for k in range(count)]
    return [array(x) for x in arrays]


@implements(np.stack)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    if isinstance(arrays, Array) or is_grown(arrays):
        value = moveaxis(array(arrays), 0, axis).value
        return deliver(value if dtype is None else ir.cast(value, np.dtype(st.static(dtype))), out)
    parts = _sequence(arrays)
    if not parts:
        raise ValueError("need at least one array to stack")
    if len({p.ndim for p in parts}) > 1:
        raise ValueError("all input arrays must have the same shape")
    k = axis_index(axis, parts[0].ndim + 1)
    values = [expand_dims(p, k).value for p in parts]
    return deliver(joined(values, k, st.static(dtype)), out)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    if is_grown(tup):
        whole = array(tup, dtype)
        return concatenate(tup, 0, dtype=dtype) if whole.ndim > 2 else expand_dims(whole, 1) if whole.ndim == 1 else whole
    return concatenate([atleast_2d(p) for p in _sequence(tup)], 0, dtype=dtype)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    if is_grown(tup):
        whole = array(tup, dtype)
        return whole if whole.ndim == 1 else concatenate(tup, min(whole.ndim - 2, 1), dtype=dtype)
    parts = [atleast_1d(p) for p in _sequence(tup)]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype)


@implements(np.dstack)
def dstack(tup: Any) -> Any:
    return concatenate([atleast_3d(p) for p in _sequence(tup)], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Any:
    if is_grown(tup):
        whole = array(tup)
        return concatenate(tup, 1) if whole.ndim > 2 else fresh(transpose(_at_least(2, [whole])).value)
    columns = [p if p.ndim >= 2 else transpose(_at_least(2, [p])) for p in _sequence(tup)]
    return concatenate(columns, 1)


@implements(np.block)
def block(arrays: Any) -> Any:
    depth = _depth(arrays)
    ndim = max(depth, *(ndim_of(x) if not isinstance(x, list) else 0 for x in _leaves(arrays)), 0)
    return fresh(_block(arrays, depth, ndim))


def _depth(x: Any) -> int:
    return 1 + max((_depth(y) for y in x), default=0) if isinstance(x, list) else 0


def _leaves(x: Any) -> list[Any]:
    return [leaf for y in x for leaf in _leaves(y)] if isinstance(x, list) else [x]


def _block(x: Any, depth: int, ndim: int) -> Value:
    if not isinstance(x, list):
        return prepend_axes(st.as_value(x), ndim)
    if not x:
        raise ValueError("List depths are mismatched: an empty list cannot be a block")
    return joined([_block(y, depth - 1, ndim) for y in x], ndim - depth)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    if axis is None:
        return concatenate((ravel(arr), ravel(values)), 0)
    return concatenate((arr, values), axis)


# ---- repeating -------------------------------------------------------------------------------------------------------


@implements(np.repeat, method="repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    a = array(a)
    if axis is None:
        a, axis = ravel(a), 0
    k = axis_index(axis, a.ndim)
    value, counts = a.value, st.as_value(repeats)
    if counts.ndim == 0:
        return fresh(_repeated(value, k, ir.cast(counts, np.int64)))
    dims = ir.shape(value)
    counts = ir.broadcast_to(ir.cast(counts, np.int64), [dims[k]])
    where = ir.host("numpy.repeat", [iota(dims[k]), counts], integers(1))
    return fresh(ir.index(value, [":"] * k + ["a"] + [":"] * (value.ndim - k - 1), [where]))


def _repeated(value: Value, axis: int, count: Value) -> Value:
    dims = ir.shape(value)
    st.current().check(
        arithmetic.fold("ge", [count, ir.i64(0)]), ValueError, "repeats may not contain negative values."
    )
    wide = ir.index(value, [":"] * (axis + 1) + ["n"] + [":"] * (value.ndim - axis - 1))
    wide = ir.broadcast_to(wide, [*dims[: axis + 1], count, *dims[axis + 1 :]])
    return ir.reshape(wide, [*dims[:axis], times(dims[axis], count), *dims[axis + 1 :]])


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    counts = lengths(reps)
    value = st.as_value(A)
    ndim = max(value.ndim, len(counts))
    value = prepend_axes(value, ndim)
    counts = [ir.i64(1)] * (ndim - len(counts)) + counts
    dims = ir.shape(value)
    if not ndim:
        return fresh(value)
    wide = ir.index(value, ["n", ":"] * ndim)
    wide = ir.broadcast_to(wide, [n for pair in zip(counts, dims, strict=True) for n in pair])
    return fresh(ir.reshape(wide, [times(c, n) for c, n in zip(counts, dims, strict=True)]))


# ---- reversing and rolling -------------------------------------------------------------------------------------------


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    m = array(m)
    chosen = axes(axis, m.ndim)
    return indexing.getitem(m, (*(slice(None, None, -1) if k in chosen else slice(None) for k in range(m.ndim)), ...))


@implements(np.fliplr)
def fliplr(m: Any) -> Any:
    if array(m).ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Any) -> Any:
    if array(m).ndim < 1:
        raise ValueError("Input must be >= 1-d.")
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Any:
    m = array(m)
    a, b = normalize_axis_tuple(st.static(axes), m.ndim)
    turns = st.static(k) % 4
    if turns == 0:
        return flip(m, ())
    if turns == 2:
        return flip(m, (a, b))
    return swapaxes(flip(m, b), a, b) if turns == 1 else flip(swapaxes(m, a, b), b)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    a, axis = array(a), st.static(axis)
    if axis is None:
        return fresh(ir.reshape(_rolled(ravel(a).value, st.index_value(shift), 0), ir.shape(a.value)))
    pairs = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = shift if isinstance(shift, tuple | list) else (shift,) * len(pairs)
    value = a.value
    for s, k in zip(shifts if len(shifts) > 1 else (*shifts,) * len(pairs), pairs, strict=True):
        value = _rolled(value, st.index_value(s), axis_index(k, a.ndim))
    return fresh(value)


def _rolled(value: Value, shift: Value, axis: int) -> Value:
    n = ir.shape(value)[axis]
    shift = fold("mod", [shift, most(n, 1)])
    cut = minus(n, shift)
    pre, post = [":"] * axis, [":"] * (value.ndim - axis - 1)
    tail = ir.index(value, [*pre, ("s", True, False, False), *post], [cut])
    head = ir.index(value, [*pre, ("s", False, True, False), *post], [cut])
    return ir.emit("concatenate", tail, head, axis=axis)


# ---- splitting -------------------------------------------------------------------------------------------------------


def _split(ary: Any, sections: Any, axis: Any, exact: bool) -> list[Any]:
    ary = array(ary)
    k = axis_index(axis, ary.ndim)
    total = ir.shape(ary.value)[k]
    stops: list[Any]
    if isinstance(sections, list | tuple | np.ndarray) or ndim_of(sections):
        if isinstance(sections, Array):
            sections = st.static(sections)
        stops = [*sections, None]
    else:
        stops = _section_stops(total, st.static(sections), exact)
    starts = [0, *stops[:-1]]
    return [indexing.getitem(ary, (slice(None),) * k + (slice(a, b),)) for a, b in zip(starts, stops, strict=True)]


def _section_stops(total: Value, count: int, exact: bool) -> list[Any]:
    if count <= 0:
        raise ValueError("number sections must be larger than 0.")
    if exact:
        rest = fold("mod", [total, ir.i64(count)])
        st.current().check(
            holds(equal(rest, ir.i64(0))), ValueError, "array split does not result in an equal division"
        )
    short = fold("floordiv", [total, ir.i64(count)])
    longer = minus(total, times(short, count))
    return [st.integer(plus(times(short, n), least(longer, n))) for n in range(1, count)] + [None]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    return _split(ary, indices_or_sections, axis, exact=True)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    return _split(ary, indices_or_sections, axis, exact=False)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> Any:
    if array(ary).ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if array(ary).ndim > 1 else 0)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> Any:
    if array(ary).ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> Any:
    if array(ary).ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


@implements(np.unstack)
def unstack(x: Any, /, *, axis: Any = 0) -> Any:
    moved = moveaxis(x, axis, 0)
    return tuple(indexing.getitem(moved, k) for k in range(st.static(length(moved))))


# ---- diagonals -------------------------------------------------------------------------------------------------------


@implements(np.diagonal, method="diagonal")
def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    a = array(a)
    if a.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    perm = diagonal_axes(a.ndim, axis1, axis2)
    rows, columns = diagonal_indices(*(ir.shape(a.value)[k] for k in perm[-2:]), st.index_value(offset))
    spec = [":"] * (a.ndim - 2) + ["a", "a"]
    return indexing.view(a, lambda b: ir.index(ir.transpose(b, perm), spec, [rows, columns]), _refuse_write, a.ndim - 1)


def diagonal_axes(ndim: int, axis1: Any, axis2: Any) -> tuple[int, ...]:
    """The permutation that puts the two axes last."""
    i, j = axis_index(axis1, ndim), axis_index(axis2, ndim)
    if i == j:
        raise ValueError("axis1 and axis2 cannot be the same")
    return (*(k for k in range(ndim) if k not in (i, j)), i, j)


def diagonal_indices(n: Value, m: Value, offset: Value) -> tuple[Value, Value]:
    """Rows and columns of the diagonal ``offset`` of an n × m matrix."""
    down, right = most(fold("neg", [offset]), 0), most(offset, 0)
    count = most(least(minus(n, down), minus(m, right)), 0)
    steps = iota(count)
    rows = steps if ir.static_int(down) == 0 else fold("add", [steps, down])
    return rows, steps if ir.static_int(right) == 0 else fold("add", [steps, right])


# ---- picking and placing ---------------------------------------------------------------------------------------------


@implements(np.take, method="take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    a = array(a)
    if axis is None:
        a, axis = ravel(a), 0
    k = axis_index(axis, a.ndim)
    where = _wrapped(st.as_value(indices), ir.shape(a.value)[k], st.static(mode))
    spec = [":"] * k + ["i" if where.ndim == 0 else "a"] + [":"] * (a.ndim - k - 1)
    return deliver(ir.index(a.value, spec, [where]), out)


def _wrapped(where: Value, n: Value, mode: str) -> Value:
    if where.dtype.kind not in "iub":
        raise TypeError("Cannot cast array data from float to int64 according to the rule 'safe'")
    where = ir.cast(where, np.int64)
    if mode == "wrap":
        return fold("mod", [where, n])
    if mode == "clip":
        return fold("minimum", [fold("maximum", [where, ir.i64(0)]), minus(n, 1)])
    if mode != "raise":
        raise ValueError("clipmode must be one of 'clip', 'raise', or 'wrap'")
    return where


@implements(np.put, method="put")
def put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    a = array(a)
    where = ravel(fresh(_wrapped(st.as_value(ind), size(a.value), st.static(mode)))).value
    new = cycled(ravel(fresh(st.as_value(v, a.dtype))).value, size(where))
    changed = ir.set_at(ir.reshape(a.value, [size(a.value)]), new, ["a"], [where])
    st.current().write_array(a, ir.reshape(changed, ir.shape(a.value)))


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    arr = array(arr)
    chosen = condition(mask)
    count = ir.reduce("sum", ir.cast(chosen, np.int64), range(chosen.ndim))
    new = cycled(ravel(fresh(st.as_value(vals, arr.dtype))).value, count)
    st.current().write_array(arr, ir.set_at(arr.value, new, ["m"], [chosen]))


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    a = array(a)
    flat_values = ravel(fresh(st.as_value(values, a.dtype))).value
    new = ir.reshape(cycled(flat_values, size(a.value)), ir.shape(a.value))
    st.current().write_array(a, ir.where(condition(mask), new, a.value))


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    dst = array(dst)
    value = st.as_value(src)
    weak_fits = not isinstance(src, Array | np.ndarray | np.generic) and value.ndim == 0
    if not weak_fits and not np.can_cast(value.dtype, dst.dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {value.dtype!r} to {dst.dtype!r} according to the rule '{casting}'"
        )
    value = ir.cast(value, dst.dtype)
    if where is not True:
        value = ir.where(condition(where), value, dst.value)
    arithmetic.assign(dst, value, "copyto")


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: Any = False) -> None:
    a = array(a)
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    dims = ir.shape(a.value)
    if st.static(wrap):
        raise MissingRule("numpy.fill_diagonal with wrap=True cannot be staged; leave the option out")
    for n in dims[1:] if a.ndim > 2 else []:
        st.current().check(holds(equal(dims[0], n)), ValueError, "All dimensions of input must be of equal length")
    steps = iota(least(dims[0], dims[1]))
    values = st.as_value(val, a.dtype)
    if values.ndim:
        values = cycled(ravel(fresh(values)).value, size(steps))
    st.current().write_array(a, ir.set_at(a.value, values, ["a"] * a.ndim, [steps] * a.ndim))


@implements(np.compress, method="compress")
def compress(condition_: Any, a: Any = ABSENT, axis: Any = None, out: Any = None) -> Any:
    if isinstance(condition_, Array) and a is not ABSENT and not isinstance(a, Array):
        condition_, a = a, condition_  # the method's order: x.compress(condition)
    a = array(a)
    if axis is None:
        a, axis = ravel(a), 0
    k = axis_index(axis, a.ndim)
    where = ir.host("numpy.flatnonzero", [condition(condition_)], integers(1))
    return deliver(ir.index(a.value, [":"] * k + ["a"] + [":"] * (a.ndim - k - 1), [where]), out)


@implements(np.extract)
def extract(condition_: Any, arr: Any) -> Any:
    return compress(ravel(condition_), ravel(arr), 0)


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    arr = array(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    k = axis_index(axis, arr.ndim)
    n = ir.shape(arr.value)[k]
    if isinstance(obj, slice):
        every = indexing.getitem(fresh(iota(n)), obj).value
    else:
        every = st.as_value(obj)
    if every.dtype.kind == "b":
        keep = ir.not_(every)
    else:
        spec = ["i" if every.ndim == 0 else "a"]
        keep = ir.set_at(ir.full(True, [n], bool), Const(False), spec, [ir.cast(every, np.int64)])
    return compress(fresh(keep), arr, k)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Positions of the new elements are integers; the rest keeps its order."""
    arr = array(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    k = axis_index(axis, arr.ndim)
    n = ir.shape(arr.value)[k]
    positions = indexing.getitem(fresh(iota(n)), obj).value if isinstance(obj, slice) else st.as_value(obj)
    if positions.dtype.kind not in "iu":
        raise MissingRule("numpy.insert needs integer positions to be staged")
    new = prepend_axes(st.as_value(values, arr.dtype), arr.ndim)
    if positions.ndim == 0 or ir.static_int(ir.shape(positions)[0]) == 1:
        # one position takes all the values, however many
        if positions.ndim == 0:
            new = ir.transpose(new, _first_to(new.ndim, k))
            positions = ir.index(positions, ["n"])
        positions = ir.broadcast_to(positions, [ir.shape(new)[k]])
    count = ir.shape(positions)[0]
    total = plus(n, count)
    where = ir.host("gradsmith.backends.hosted.insert_positions", [ir.cast(positions, np.int64), n], integers(1))
    keep = ir.set_at(ir.full(True, [total], bool), Const(False), ["a"], [where])
    old = ir.host("numpy.flatnonzero", [keep], integers(1))
    dims = ir.shape(arr.value)
    result = ir.full(0, [*dims[:k], total, *dims[k + 1 :]], arr.dtype)
    pre, post = [":"] * k, [":"] * (arr.ndim - k - 1)
    result = ir.set_at(result, arr.value, [*pre, "a", *post], [old])
    return fresh(ir.set_at(result, new, [*pre, "a", *post], [where]))


def _first_to(ndim: int, axis: int) -> tuple[int, ...]:
    order = list(range(1, ndim))
    order.insert(axis, 0)
    return tuple(order)


# ---- positions (integers: no derivative) -----------------------------------------------------------------------------


@implements(np.nonzero, method="nonzero")
def nonzero(a: Any) -> Any:
    value = condition(a)
    if value.ndim == 0:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    if value.ndim == 1:
        return (fresh(ir.host("numpy.flatnonzero", [value], integers(1))),)
    return tuple(fresh(v) for v in ir.host("numpy.nonzero", [value], integers(*[1] * value.ndim)))


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    return fresh(ir.host("numpy.flatnonzero", [condition(a)], integers(1)))


@implements(np.argwhere)
def argwhere(a: Any) -> Any:
    return fresh(ir.host("numpy.argwhere", [condition(a)], integers(2)))


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    keys, values = st.as_value(a), st.as_value(v)
    if sorter is not None:
        keys = ir.index(keys, ["a"], [ir.cast(st.as_value(sorter), np.int64)])
    common = np.result_type(keys.dtype, values.dtype)
    found = ir.host(
        "numpy.searchsorted",
        [ir.cast(keys, common), ir.cast(values, common)],
        integers(values.ndim),
        side=st.static(side),
    )
    return deliver(found)


METHODS["searchsorted"] = searchsorted


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: Any = False) -> Any:
    values = st.as_value(x)
    return deliver(
        ir.host("numpy.digitize", [values, st.as_value(bins)], integers(values.ndim), right=bool(st.static(right)))
    )


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: Any = "C") -> Any:
    if st.static(order) != "C":
        raise MissingRule("numpy.unravel_index with order='F' cannot be staged")
    rest, out = ir.cast(st.as_value(indices), np.int64), []
    for n in reversed(lengths(shape)):
        out.append(fold("mod", [rest, n]))
        rest = fold("floordiv", [rest, n])
    return tuple(deliver(v) for v in reversed(out))


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Any:
    refuse("ravel_multi_index", mode=None if mode == "raise" else mode, order=None if order == "C" else order)
    total: Value = ir.i64(0)
    for i, n in zip(multi_index, lengths(dims), strict=True):
        total = fold("add", [fold("mul", [total, n]), ir.cast(st.as_value(i), np.int64)])
    return deliver(total)
