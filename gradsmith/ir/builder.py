"""Builds Programs: one method-free way to emit operations, plus operators on Values so that rules read as mathematics.

Inside ``with builder:`` the functions of this module and the operators of :class:`Value` emit into that builder's current
block, so a derivative rule is written ``g * cos(x)``. Python numbers among the operands take the dtype of the others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradsmith.ir.ops import infer
from gradsmith.ir.program import Block, Const, Location, Op, Value, copy_op
from gradsmith.ir.types import I64, ArrayType, Type

_active = threading.local()


class Builder:
    """Emits operations at the end of ``block``; ``loc`` is attached to each of them."""

    def __init__(self, block: Block | None = None):
        self.block = block if block is not None else Block()
        self.loc: Location | None = None

    @property
    def place(self) -> Location | None:
        """``loc``, with the calls around it as far as they are known."""
        return self.loc

    def __enter__(self) -> Builder:
        _stack().append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _stack().pop()

    def emit(self, name: str, args: Sequence[Value], name_hint: str = "", **attrs: Any) -> Any:
        """Emit an operation without regions; returns its result, a list of results, or None."""
        op = Op(name, args, attrs, (), infer(name, args, attrs), self.place)
        self.block.ops.append(op)
        if name_hint and op.results:
            op.results[0].name = name_hint
        return op.results[0] if len(op.results) == 1 else op.results or None

    def emit_control(self, name: str, args: Sequence[Value], regions: Sequence[Block], **attrs: Any) -> Op:
        """Emit ``if``, ``for`` or ``while``; result types are those of the last region's results."""
        op = Op(name, args, attrs, regions, [r.type for r in regions[-1].results], self.place)
        self.block.ops.append(op)
        return op

    @contextmanager
    def region(self, params: Sequence[Value] = ()) -> Iterator[Block]:
        """A fresh Block with ``params`` as the place to emit into; set its ``results`` before leaving."""
        outer, self.block = self.block, Block(params)
        try:
            yield self.block
        finally:
            self.block = outer

    def inline(self, block: Block, args: Sequence[Value], mapping: dict[Value, Value] | None = None) -> list[Value]:
        """Emit a copy of the operations of ``block`` with ``args`` for its parameters; returns its results."""
        mapping = {} if mapping is None else mapping
        mapping.update(zip(block.params, args, strict=True))
        for op in block.ops:
            self.block.ops.append(copy_op(op, mapping))
        return [mapping.get(r, r) for r in block.results]


def _stack() -> list[Builder]:
    if not hasattr(_active, "stack"):
        _active.stack = []
    return _active.stack


def current() -> Builder:
    """The builder of the innermost ``with builder:`` of this thread."""
    return _stack()[-1]


def emit(name: str, *args: Any, **attrs: Any) -> Any:
    """Emit ``name`` into the current builder; Python and NumPy constants among ``args`` become :class:`Const`."""
    return current().emit(name, [a if isinstance(a, Value) else Const(a) for a in args], **attrs)


def const_like(number: Any, like: Value) -> Const:
    """A scalar constant with the dtype of ``like``."""
    return Const(number, ArrayType(like.dtype))


def i64(number: int) -> Const:
    return Const(number, I64)


def as_index(value: Any) -> Value:
    """An int64 scalar Value from an int or a Value."""
    return value if isinstance(value, Value) else i64(int(value))


def static_int(value: Any) -> int | None:
    """The value of an int or an integer constant; None when it is known only at run time."""
    if isinstance(value, Const) and value.ndim == 0:
        return int(value.data)
    return None if isinstance(value, Value) else int(value)


def elementwise(name: str, *args: Any, **attrs: Any) -> Value:
    """Emit an elementwise operation; bare numbers take the dtype of the Values among the operands."""
    like = next(a for a in reversed(args) if isinstance(a, Value))
    return current().emit(name, [a if isinstance(a, Value) else const_like(a, like) for a in args], **attrs)


def cast(x: Value, dtype: Any) -> Value:
    """``x`` as ``dtype``; emits nothing when it already is."""
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    if isinstance(x, Const):
        data = x.data.real if x.dtype.kind == "c" and dtype.kind != "c" else x.data
        with np.errstate(all="ignore"):
            return Const(np.asarray(data).astype(dtype), ArrayType(dtype, x.ndim))
    return emit("cast", x, dtype=dtype)


def shape(x: Value) -> list[Value]:
    """The lengths of the axes of ``x`` as int64 Values."""
    if isinstance(x, Const):
        return [i64(n) for n in np.shape(x.data)]
    return [emit("dim", x, axis=k) for k in range(x.ndim)]


def full(value: Any, dims: Sequence[Any], dtype: Any = None) -> Value:
    """An array of shape ``dims`` filled with a scalar."""
    scalar = value if isinstance(value, Value) else Const(value, ArrayType(np.dtype(dtype)))
    return emit("full", scalar, *map(as_index, dims))


def zeros_like(x: Value) -> Value:
    """Zeros of the type and shape of ``x`` (a scalar constant for a scalar)."""
    zero = const_like(0, x)
    return emit("full", zero, *shape(x)) if x.ndim else zero


def broadcast_to(x: Value, dims: Sequence[Any]) -> Value:
    return emit("broadcast_to", x, *map(as_index, dims)) if len(dims) else x


def unbroadcast(x: Value, like: Value) -> Value:
    """``x`` summed to the shape of ``like``."""
    if like.ndim == 0:
        return sum_(x, range(x.ndim)) if x.ndim else x
    return emit("unbroadcast", x, *shape(like))


def reshape(x: Value, dims: Sequence[Any]) -> Value:
    return emit("reshape", x, *map(as_index, dims))


def transpose(x: Value, perm: Sequence[int]) -> Value:
    return x if list(perm) == list(range(x.ndim)) else emit("transpose", x, perm=tuple(perm))


def sum_(x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    return reduce("sum", x, axes, keepdims)


def reduce(name: str, x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    axes = tuple(sorted(axes))
    return emit(name, x, axes=axes, keepdims=keepdims) if axes else x


def index(x: Value, spec: Sequence[Any], args: Sequence[Any] = (), **attrs: Any) -> Value:
    return emit("index", x, *map(as_index, args), spec=tuple(spec), **attrs)


def set_at(x: Value, v: Value, spec: Sequence[Any], args: Sequence[Any] = (), **attrs: Any) -> Value:
    return emit("set", x, v, *map(as_index, args), spec=tuple(spec), **attrs)


def add_at(x: Value, v: Value, spec: Sequence[Any], args: Sequence[Any] = (), **attrs: Any) -> Value:
    return emit("add_at", x, v, *map(as_index, args), spec=tuple(spec), **attrs)


def host(fn: str, args: Sequence[Value], types: Sequence[Type], **kwargs: Any) -> Any:
    """Emit a host call: ``fn`` is a dotted name such as ``numpy.linalg.solve`` that ``backends/host.py`` knows."""
    return current().emit("host", list(args), fn=fn, types=tuple(types), kwargs=kwargs)


def where(c: Value, x: Any, y: Any) -> Value:
    return elementwise("where", c, x, y)


def _unary(name: str) -> Any:
    def f(x: Value) -> Value:
        return elementwise(name, x)

    f.__name__ = name
    return f


exp, log, sqrt, cbrt = map(_unary, ["exp", "log", "sqrt", "cbrt"])
sin, cos, tan, sinh, cosh, tanh = map(_unary, ["sin", "cos", "tan", "sinh", "cosh", "tanh"])
abs_, sign, conj, real, imag, not_ = map(_unary, ["abs", "sign", "conj", "real", "imag", "not"])
expit, digamma, isnan = map(_unary, ["expit", "digamma", "isnan"])


def _install_operators() -> None:
    def forward(name: str) -> Any:
        return lambda x, y: elementwise(name, x, y)

    def backward(name: str) -> Any:
        return lambda x, y: elementwise(name, y, x)

    for python, name in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow"}.items():
        setattr(Value, f"__{python}__", forward(name))
        setattr(Value, f"__r{python}__", backward(name))
    for python, name in {"and": "and", "or": "or", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}.items():
        setattr(Value, f"__{python}__", forward(name))
    Value.__neg__ = lambda x: elementwise("neg", x)  # type: ignore[method-assign]


_install_operators()
