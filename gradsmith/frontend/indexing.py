"""``x[key]`` and ``x[key] = v`` for arrays: basic indices give views, arrays of integers or bools give copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import stage as st
from gradsmith.frontend.values import Array, Flat, Scalar, View, fresh
from gradsmith.ir import builder as ir
from gradsmith.ir.ops import index_ndim
from gradsmith.ir.program import Const, Op, Value


class Index:
    """A key resolved against a number of dimensions: an index spec and its arguments."""

    def __init__(self, spec: list[Any], args: list[Value], ndim: int):
        self.spec = tuple(spec)
        self.args = args
        self.ndim = index_ndim(ndim, spec, args)

    @property
    def basic(self) -> bool:
        return not {"a", "m"} & {e for e in self.spec if isinstance(e, str)}

    def read(self, x: Value) -> Value:
        if isinstance(x, Const) and all(isinstance(a, Const) for a in self.args):
            return _constant_index(x, self)
        return ir.index(x, self.spec, self.args)

    def write(self, x: Value, v: Value) -> Value:
        return ir.set_at(x, v, self.spec, self.args)


def _constant_index(x: Const, index: Index) -> Value:
    from gradsmith.backends import host

    op = Op("index", [x, *index.args], {"spec": index.spec}, (), [x.type.with_ndim(index.ndim)])  # type: ignore[union-attr]
    (found,) = host.evaluate(op, [x.data, *(a.data for a in index.args)])  # type: ignore[attr-defined]
    return Const(found, op.result.type)  # type: ignore[arg-type]


def resolve(key: Any, ndim: int) -> Index:
    """The index spec for the Python index ``key`` of an array of ``ndim`` dimensions."""
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = [_array_key(k) for k in keys]
    consumed = sum(_consumes(k) for k in keys)
    if consumed > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {consumed} were indexed")
    ellipses = [n for n, k in enumerate(keys) if k is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = ellipses[0] if ellipses else len(keys)
    keys[at : at + 1] = [slice(None)] * (ndim - consumed)
    spec: list[Any] = []
    args: list[Value] = []
    for k in keys:
        _append(k, spec, args)
    return Index(spec, args, ndim)


def _array_key(k: Any) -> Any:
    """Lists and ndarrays among the keys as arrays; 0-d integer arrays as numbers."""
    if isinstance(k, bool | np.bool_) or (isinstance(k, Scalar) and k.dtype.kind == "b"):
        raise IndexError("a single bool as an index is not supported; index with None, or with a bool array")
    if isinstance(k, list | np.ndarray):
        value = st.as_value(k)
        k = fresh(ir.cast(value, np.int64) if value.dtype.kind == "f" and not np.size(k) else value)
    if isinstance(k, Array):
        if k.dtype.kind not in "iub":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        if k.ndim == 0:
            return Scalar(k.value, weak=False)
    return k


def _consumes(k: Any) -> int:
    if k is None or k is Ellipsis:
        return 0
    return k.ndim if isinstance(k, Array) and k.dtype.kind == "b" else 1


def _append(k: Any, spec: list[Any], args: list[Value]) -> None:
    if k is None:
        spec.append("n")
    elif isinstance(k, slice):
        parts = [k.start, k.stop, k.step]
        if all(p is None for p in parts):
            spec.append(":")
        else:
            spec.append(("s", *(p is not None for p in parts)))
            args += [st.index_value(p) for p in parts if p is not None]
    elif isinstance(k, Array):
        spec.append("m" if k.dtype.kind == "b" else "a")
        args.append(k.value if k.dtype.kind == "b" else ir.cast(k.value, np.int64))
    else:
        try:
            args.append(st.index_value(k))
        except (TypeError, AttributeError):
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are "
                "valid indices"
            ) from None
        spec.append("i")


def getitem(x: Array, key: Any) -> Any:
    """``x[key]``: a number, a view, or (with an array among the keys) a new array."""
    index = resolve(key, x.ndim)
    if index.basic and (index.ndim or _has_ellipsis(key)) and not isinstance(x, Flat):
        return view(x, index.read, index.write, index.ndim, contiguous=_keeps_order(index.spec, x))
    value = index.read(x.value)
    return Scalar(value, weak=False) if index.ndim == 0 else fresh(value)


def _has_ellipsis(key: Any) -> bool:
    return key is Ellipsis or (isinstance(key, tuple) and any(k is Ellipsis for k in key))


def _keeps_order(spec: Sequence[Any], x: Array) -> bool:
    """Whether a view of a C-contiguous array is C-contiguous: integers, then at most one slice of step 1, then whole axes."""
    rest = [e for e in spec if e != "n"]
    while rest and rest[0] == "i":
        rest.pop(0)
    if rest and isinstance(rest[0], tuple) and not rest[0][3]:
        rest.pop(0)
    return all(e == ":" for e in rest)


def setitem(x: Array, key: Any, v: Any) -> None:
    """``x[key] = v``: writes the array's cell through its views; v is cast and broadcast as NumPy does."""
    index = resolve(key, x.ndim)
    value = st.as_value(v)
    if value.dtype.kind == "c" and x.dtype.kind != "c":
        raise TypeError("a complex value cannot be written into an array of real numbers; take its real part")
    value = ir.cast(value, x.dtype)
    while value.ndim > index.ndim:
        stage = st.current()
        length = ir.shape(value)[0]
        one = length.data == 1 if isinstance(length, Const) else Scalar(ir.elementwise("eq", length, 1), weak=True)
        stage.check(one, ValueError, "could not broadcast input array into the indexed elements")
        value = ir.index(value, ["i"] + [":"] * (value.ndim - 1), [0])
    if all(e == ":" for e in index.spec) and value is x.value:
        return
    if value.ndim:
        _check_broadcast(value, index.read(x.value))
    st.current().write_array(x, index.write(x.value, value))


def _check_broadcast(value: Value, place: Value) -> None:
    """Checked apart from the write, which may turn out not to be needed when only a derivative is asked for."""
    lengths = ir.shape(value), ir.shape(place)[place.ndim - value.ndim :]
    for n, m in zip(*lengths, strict=True):
        if n is not m:
            fits = ir.emit("or", ir.elementwise("eq", n, m), ir.elementwise("eq", n, 1))
            message = "could not broadcast an input array of length {} into {} elements"
            st.current().check(Scalar(fits, weak=True), ValueError, message, Scalar(n, weak=True), Scalar(m, weak=True))


def view(x: Array, read: Any, write: Any, ndim: int, contiguous: bool = False, dtype: np.dtype | None = None) -> Array:
    """A view of ``x``: reads through ``read(base)``, writes through ``write(base, new)``."""
    return Array(x.cell, (*x.views, View(read, write, ndim, contiguous, dtype)))


def maybe_view(x: Array, value: Value, what: str) -> Array:
    """An array with the elements ``value`` of which it is not known whether it is a view of ``x`` or a copy.

    It cannot be written, nor read once ``x`` was written.
    """
    seen = x.cell.value

    def refuse(when: str) -> NoReturn:
        raise UnsupportedCode(f"{when} {what}: it may be a view or a copy; write .copy() to say that it is a copy")

    def read(base: Value) -> Value:
        if x.cell.value is not seen:
            refuse("writing an array and then reading")
        return value

    return view(x, read, lambda base, new: refuse("writing into"), value.ndim, contiguous=True, dtype=value.dtype)
