"""Attributes of arrays, and functions that rearrange elements: views where NumPy gives views, else new arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import indexing
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import fold
from gradsmith.frontend.catalogue import METHODS, attribute, implements
from gradsmith.frontend.catalogue.operands import (
    ABSENT,
    array,
    axes,
    axis_index,
    equal,
    holds,
    iota,
    is_one,
    least,
    lengths,
    minus,
    most,
    product,
    size,
    times,
)
from gradsmith.frontend.values import Array, Flat, Scalar, fresh
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
    elements = reshaped_view(x, [size(x.value)], True)
    return Flat(elements.cell, elements.views)


@attribute("flags")
def flags(x: Any) -> Any:
    """The flags of a new array of the same order."""
    sample = np.empty((2,) * x.ndim, x.dtype)
    return (sample if not isinstance(x, Array) or x.contiguous else sample.T).flags


@attribute("device")
def device(x: Any) -> str:
    return "cpu"


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
    if _is_fortran(a, st.static(order)):
        reverse = fresh(transpose(a).value)
        dims = target if isinstance(target, tuple | list) else (target,)
        return transpose(reshape(reverse, tuple(reversed(dims))))
    result = _reshape(a, target)
    return fresh(result.value) if st.static(copy) else result


def _is_fortran(a: Array, order: str) -> bool:
    """Whether elements are read in Fortran order."""
    if order in ("K", "A") and a.ndim > 1:
        raise UnsupportedCode(f'order "{order}" depends on how the array lies in memory; write "C" or "F"')
    return order == "F"


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
        return indexing.maybe_view(a, ir.reshape(a.value, dims), "a reshaped array whose elements were not contiguous")
    if isinstance(a.value, Const) and all(isinstance(n, Const) for n in dims) and not a.views:
        own: list[Value] = [ir.i64(n) for n in a.value.data.shape]  # type: ignore[attr-defined]
    else:
        own = ir.shape(a.value)
    return indexing.view(
        a, lambda b: ir.reshape(b, dims), lambda b, new: ir.reshape(new, own), len(dims), contiguous=True
    )


def perhaps_view(x: Any, elements: Any, what: str) -> Any:
    """For definitions: ``elements``, where NumPy gives a view of ``x`` (see :func:`indexing.maybe_view`)."""
    return elements


@implements(perhaps_view)
def _perhaps_view(x: Any, elements: Any, what: str) -> Any:
    return indexing.maybe_view(x, elements.value, what)


@implements(np.ravel, method="ravel")
def ravel(a: Any, order: Any = "C") -> Any:
    return reshape(a, -1, order)


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


# ---- diagonals -------------------------------------------------------------------------------------------------------


@implements(np.diagonal, method="diagonal")
def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    a = array(a)
    if a.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    perm = diagonal_axes(a.ndim, axis1, axis2)
    n, m = (ir.shape(a.value)[k] for k in perm[-2:])
    rows, columns = diagonal_indices(n, m, st.index_value(offset))
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
