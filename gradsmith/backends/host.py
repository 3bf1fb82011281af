"""Every operation as one Python function on NumPy scalars and ndarrays.

The interpreter runs Programs with it, native code calls it for operations it does not lower, and it says what ``host``
functions exist.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from gradsmith.backends import effects
from gradsmith.ir.ops import consumed_axes
from gradsmith.ir.program import Op


def host_function(fn: Any) -> Callable[..., Any]:
    """The Python function of a ``host`` operation, given by its dotted name or itself."""
    return _named(fn) if isinstance(fn, str) else fn


@cache
def _named(name: str) -> Callable[..., Any]:
    """The Python function behind a dotted name."""
    if name in HOST:
        return HOST[name]
    module, _, attribute = name.rpartition(".")
    while True:
        try:
            owner = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, outer = module.rpartition(".")
            attribute = f"{outer}.{attribute}"
    for part in attribute.split("."):
        owner = getattr(owner, part)
    return owner  # type: ignore[return-value]


#: host functions that are not simply a public function of NumPy or SciPy
HOST: dict[str, Callable[..., Any]] = {
    "numpy.einsum": lambda *operands, subscripts: np.einsum(subscripts, *operands, optimize=len(operands) > 2),
}


def make_index(spec: Sequence[Any], op: Op, values: Sequence[Any]) -> tuple[Any, ...]:
    """The Python index for an index spec; ``values`` are the evaluated index arguments."""
    rest = list(values)
    first = 1 if op.name == "index" else 2
    out: list[Any] = []
    for entry, args, _ in consumed_axes(spec, op.args[first:]):
        mine, rest = rest[: len(args)], rest[len(args) :]
        if entry == ":":
            out.append(slice(None))
        elif entry == "n":
            out.append(None)
        elif isinstance(entry, tuple):
            given = iter(mine)
            out.append(slice(*(int(next(given)) if present else None for present in entry[1:])))
        else:
            out.append(int(mine[0]) if entry == "i" else mine[0])
    return tuple(out)


def _updated(op: Op, x: Any, v: Any, *args: Any) -> Any:
    out = np.array(x)
    update(op, out, v, *args)
    return out


def update(op: Op, out: Any, v: Any, *args: Any) -> None:
    """The update ``set`` or ``add_at`` of ``out`` in place."""
    where = make_index(op.attrs["spec"], op, args)
    if op.name == "set":
        out[where] = v
    elif {"a", "m"} & {e for e in op.attrs["spec"] if isinstance(e, str)}:
        np.add.at(out, where, v)
    else:
        out[where] += v


def unbroadcast(x: Any, shape: Sequence[int]) -> Any:
    """``x`` summed over the axes along which an array of ``shape`` was broadcast."""
    x = np.asarray(x)
    x = x.sum(axis=tuple(range(x.ndim - len(shape)))) if x.ndim > len(shape) else x
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and x.shape[k] != 1)
    return x.sum(axis=axes, keepdims=True) if axes else x


def strong_mul(g: Any, d: Any) -> Any:
    """``g * d``, and exactly 0 where ``g`` is 0 even if ``d`` is infinite or NaN."""
    with np.errstate(all="ignore"):
        return np.where(np.equal(g, 0), np.zeros((), np.result_type(g)), np.multiply(g, d))


def cast(x: Any, dtype: Any) -> Any:
    """``x`` converted to ``dtype`` by the rules of the ``cast`` operation."""
    if np.iscomplexobj(x) and np.dtype(dtype).kind != "c":
        x = np.real(x) if np.dtype(dtype).kind != "b" else x != 0
    return np.asarray(x).astype(dtype)


def _shl(x: Any, y: Any) -> Any:
    return np.left_shift(x, y)


_NUMPY_NAMES = {
    **{"neg": "negative", "abs": "absolute", "sub": "subtract", "mul": "multiply", "div": "true_divide"},
    **{"floordiv": "floor_divide", "mod": "remainder", "pow": "power", "conj": "conjugate"},
    **{"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "invert", "shl": "left_shift"},
    **{"shr": "right_shift", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"},
    **{"gt": "greater", "ge": "greater_equal", "detach": "positive"},
}
SPECIAL = ["erf", "erfc", "gamma", "gammaln", "digamma", "expit", "polygamma"]


def numpy_name(op: str) -> str:
    """The NumPy function with the meaning of an elementwise operation."""
    return _NUMPY_NAMES.get(op, op)


@cache
def elementwise_function(name: str) -> Callable[..., Any]:
    if name in SPECIAL:
        import scipy.special  # takes longer to import than all of gradsmith

        return getattr(scipy.special, name)
    return getattr(np, numpy_name(name))


def _reduction(name: str) -> Callable[..., Any]:
    f = getattr(np, name)
    return lambda op, x: f(x, axis=op.attrs["axes"], keepdims=op.attrs.get("keepdims", False))


def _along_axis(name: str) -> Callable[..., Any]:
    f = getattr(np, name)
    return lambda op, x: f(x, axis=op.attrs["axis"])


_EVALUATE: dict[str, Callable[..., Any]] = {
    "strong_mul": lambda op, g, d: strong_mul(g, d),
    "complex": lambda op, re, im: np.asarray(re) + 1j * np.asarray(im),
    "cast": lambda op, x: cast(x, op.attrs["dtype"]),
    "full": lambda op, v, *dims: np.full(tuple(map(int, dims)), v),
    "iota": lambda op, n: np.arange(int(n), dtype=op.attrs["dtype"]),
    "dim": lambda op, x: np.int64(np.shape(x)[op.attrs["axis"]]),
    "reshape": lambda op, x, *dims: np.reshape(x, tuple(map(int, dims))),
    "transpose": lambda op, x: np.transpose(x, op.attrs["perm"]),
    "broadcast_to": lambda op, x, *dims: np.broadcast_to(x, tuple(map(int, dims))),
    "unbroadcast": lambda op, x, *dims: unbroadcast(x, tuple(map(int, dims))),
    "index": lambda op, x, *args: x[make_index(op.attrs["spec"], op, args)],
    "set": _updated,
    "add_at": _updated,
    "concatenate": lambda op, *xs: np.concatenate(xs, axis=op.attrs["axis"]),
    **{name: _reduction(name) for name in ("sum", "prod", "max", "min", "any", "all")},
    **{name: _along_axis(name) for name in ("argmax", "argmin", "cumsum", "cumprod")},
    "matmul": lambda op, x, y: np.matmul(x, y),
    "host": lambda op, *args: host_function(op.attrs["fn"])(*args, **op.attrs["kwargs"]),
}


def evaluate(op: Op, args: Sequence[Any]) -> list[Any]:
    """Results of an array operation (no control flow, no sequences) for evaluated operands, with exactly their types."""
    if op.name == "effect":
        outs = effects.run(op.attrs["fn"], args)
        return [exact(value, r.type) for value, r in zip(outs, op.results, strict=True)]
    f = _EVALUATE.get(op.name)
    out = f(op, *args) if f else elementwise_function(op.name)(*args)
    outs = out if len(op.results) > 1 else [out]
    return [exact(value, r.type) for value, r in zip(outs, op.results, strict=True)]


def exact(value: Any, type: Any) -> Any:
    """``value`` as an ndarray of the type's dtype, or a NumPy scalar for ``ndim == 0``."""
    value = np.asarray(value, dtype=type.dtype)
    if value.ndim != type.ndim:
        raise AssertionError(f"operation gave {value.ndim} dimensions where its type says {type}")
    return value[()] if type.ndim == 0 else value
