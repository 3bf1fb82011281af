"""The operations of a Program: their meaning and the types of their results.

Unless said otherwise an operation means what the NumPy function of the same name means for operands that already have
equal dtypes: all promotion is explicit (``cast``). Operands are immutable; every operation gives a new value.

Elementwise operations work on any number of dimensions and broadcast like NumPy: one operation serves scalars and arrays.

==================  ==================================================================================================
operation           meaning
==================  ==================================================================================================
*elementwise*       the names in ``ELEMENTWISE``: ``add(x, y)``, ``sin(x)``, ``where(c, x, y)`` …
``cast(x)``         attrs ``dtype``. complex → real takes the real part, float → int truncates, any → bool is ``!= 0``
``strong_mul(g,d)`` ``0`` where ``g == 0`` else ``g * d``: the product of an adjoint with a partial that may be infinite

``full(v, *dims)``  array of shape ``dims`` (int64 scalars) filled with the scalar ``v``
``iota(n)``         ``arange(n)`` in attrs ``dtype``
``dim(x)``          length of axis attrs ``axis`` of ``x``, int64
``reshape(x,*dims)``      C order; dims are ≥ 0 (a −1 has been resolved); raises ValueError on a wrong size
``transpose(x)``    attrs ``perm``
``broadcast_to(x,*dims)``
``unbroadcast(x,*dims)``  the transpose of ``broadcast_to``: sums over leading axes and over axes where dims is 1, to shape dims
``index(x,*args)``  ``x[...]``. attrs ``spec``: a tuple of entries, one for each consumed axis or group of axes, in order:
                    ``"i"`` an integer scalar (one arg; negative counts from the end; IndexError when out of range),
                    ``":"`` the whole axis, ``("s", a, b, c)`` a Python slice, where a, b, c are bools telling which of
                    start, stop, step are given, as one int64 arg each in this order, with Python's clamping,
                    ``"n"`` numpy.newaxis, ``"a"`` an integer array (one arg of ndim ≥ 0), ``"m"`` a bool array of ndim ≥ 1
                    (one arg, consumes its ndim axes). All axes are mentioned (no Ellipsis). Semantics of mixed
                    entries are NumPy's. attrs ``checked`` = True: indices are known to be in range.
``set(x,v,*args)``  ``x`` with ``x[...] = v``; attrs ``spec`` as above; v broadcasts
``add_at(x,v,*args)``     ``x`` with ``x[...] += v``, repeated indices add up (``numpy.add.at``)
``concatenate(*xs)``      attrs ``axis``

``sum prod max min any all (x)``   attrs ``axes`` (sorted, non-negative), ``keepdims``
``argmax argmin (x)``              attrs ``axis``; int64
``cumsum cumprod (x)``             attrs ``axis``
``matmul(x, y)``    as numpy.matmul, operands of ndim ≥ 1
``host(*args)``     a function of ``HOST`` (attrs ``fn``: its dotted name, or a Python callable; attrs ``kwargs``: static
                    keyword arguments; attrs ``types``: result types) run by Python on ndarrays / NumPy scalars; pure

``seq_new()``       empty sequence, attrs ``elem``
``seq_push(s, v)``  ``s`` with v at its end                 ``seq_pop(s)``   → (s without its last element, that element)
``seq_get(s, i)``   element i (0 ≤ i < len)                 ``seq_len(s)``   int64
``seq_add(s, i, v)``  ``s`` with v added to element i       ``seq_stack(s)`` array of the elements along a new first axis
``seq_unstack(x)``  sequence of ``x[0], x[1], …``           ``seq_zeros(s)`` sequence of zeros shaped like the elements of s
                    A sequence is used linearly: no use of a sequence after a push, pop or add on it.

``if(c)``           regions then, else (no parameters); results of both have equal types
``for(start, stop, step, *init)``  region body (i, *carried) → carried, for i in ``range(start, stop, step)`` (step ≠ 0), backwards
                    over the same indices when attrs ``reverse``. Results: carried after the last iteration
``while(*init)``    regions cond (*carried) → bool, body (*carried) → carried. Results: carried at the end
``check(c, *args)`` raises attrs ``error`` (an exception class) with attrs ``message`` (a format string for args) unless c
``guard(c)``        gives up this specialisation (no result, no error) unless c: the caller stages the function anew
``detach(x)``       ``x``, with a derivative of zero
``effect(*args)``   attrs ``fn``: an ``Effect`` (``backends/effects.py``), a Python callable from the operands, as NumPy values,
                    to a sequence of results. Runs exactly once for each time it is reached, in program order; never removed, merged
                    or run again
``call(*args)``     region 0, whose parameters are the operands, and which uses no other values: its results. Simplification leaves
                    it alone; ``transforms/expand.py`` puts the region in its place before a back end sees it. Its derivative
                    may be given by further regions, which use no other values either; attrs say where they are:
                    ``forward``: operands → results of region 0, then *residuals*: what runs instead when a pullback is needed;
                    ``pullback``: operands, all results of ``forward`` (else of region 0), cotangents of the inexact results of
                    region 0 → cotangents of the operands attrs ``wrt``; no derivative reaches other operands
                    ``pushforward``: operands, tangents of the operands ``wrt`` → results, tangents of the inexact results.
                    attrs ``body``: a mode for which no region is given differentiates region 0. attrs ``checkpoint``: no rule;
                    the backward sweep runs region 0 again. attrs ``function``: its name. A derivative turns a call with a pullback
                    into one of ``forward``: attrs ``residuals`` of its last results are the residuals
==================  ==================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradsmith.ir.program import Op, Value
from gradsmith.ir.types import BOOL, I64, ArrayType, SeqType, Type, real_dtype

#: operand count and result: "same" dtype as the (last) operand, "bool", or "real" (the real dtype of the operand)
ELEMENTWISE: dict[str, tuple[int, str]] = {
    # arithmetic
    **dict.fromkeys(["neg", "sign", "sqrt", "cbrt"], (1, "same")),
    "abs": (1, "real"),
    **dict.fromkeys(["add", "sub", "mul", "div", "floordiv", "mod", "fmod", "pow", "strong_mul"], (2, "same")),
    **dict.fromkeys(["maximum", "minimum", "fmax", "fmin", "copysign", "nextafter"], (2, "same")),
    **dict.fromkeys(["floor", "ceil", "trunc", "rint"], (1, "same")),
    # exponential and trigonometric
    **dict.fromkeys(["exp", "exp2", "expm1", "log", "log2", "log10", "log1p"], (1, "same")),
    **dict.fromkeys(["sin", "cos", "tan", "arcsin", "arccos", "arctan"], (1, "same")),
    **dict.fromkeys(["sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"], (1, "same")),
    **dict.fromkeys(["arctan2", "hypot", "logaddexp"], (2, "same")),
    # special functions
    **dict.fromkeys(["erf", "erfc", "gamma", "gammaln", "digamma", "expit"], (1, "same")),
    "polygamma": (2, "same"),
    # complex
    "conj": (1, "same"),
    **dict.fromkeys(["real", "imag"], (1, "real")),
    "complex": (2, "complex"),
    # bits; on bools: logical
    **dict.fromkeys(["and", "or", "xor", "shl", "shr"], (2, "same")),
    "not": (1, "same"),
    # comparison
    **dict.fromkeys(["eq", "ne", "lt", "le", "gt", "ge"], (2, "bool")),
    **dict.fromkeys(["isnan", "isinf", "isfinite", "signbit"], (1, "bool")),
    "where": (3, "same"),
    "cast": (1, "cast"),
    "detach": (1, "same"),
}

REDUCTIONS = frozenset({"sum", "prod", "max", "min", "any", "all"})
CONTROL = frozenset({"if", "for", "while"})
#: operations that must not be removed although nobody uses a result
EFFECTS = frozenset({"check", "guard", "effect"})
COMPLEX_OF = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}


def infer(name: str, args: Sequence[Value], attrs: dict[str, Any]) -> tuple[Type, ...]:
    """Result types of an operation without regions. Raises TypeError for operands the operation does not take."""
    if name in ELEMENTWISE:
        return (_elementwise(name, [_array(name, a) for a in args], attrs),)
    if name in _INFER:
        return _INFER[name](args, attrs)
    raise TypeError(f"unknown operation {name!r}")


def consumed_axes(spec: Sequence[Any], args: Sequence[Value]) -> list[tuple[Any, list[Value], int]]:
    """Pairs every entry of an index spec with its arguments and the number of axes it consumes."""
    rest = list(args)
    out = []
    for entry in spec:
        count = sum(entry[1:]) if isinstance(entry, tuple) else int(entry in ("i", "a", "m"))
        mine, rest = rest[:count], rest[count:]
        out.append((entry, mine, mine[0].ndim if entry == "m" else 0 if entry == "n" else 1))
    if rest:
        raise TypeError(f"index: {len(rest)} arguments too many for spec {spec}")
    return out


def index_ndim(ndim: int, spec: Sequence[Any], args: Sequence[Value]) -> int:
    """Number of dimensions of ``x[...]`` for ``x`` of ``ndim`` dimensions."""
    parts = consumed_axes(spec, args)
    consumed = sum(n for _, _, n in parts)
    if consumed != ndim:
        raise TypeError(f"index: spec {spec} consumes {consumed} axes of an array with {ndim}")
    kept = sum(isinstance(e, tuple) or e in (":", "n") for e, _, _ in parts)
    advanced = [1 if e == "m" else a[0].ndim for e, a, _ in parts if e in ("a", "m")]
    return kept + max(advanced, default=0)


def distinct_places(op: Op) -> bool:
    """Whether the index arrays of an index, set or add_at certainly name no place twice: one of them counts 0, 1, 2 …"""
    given = consumed_axes(op.attrs["spec"], op.args[1 if op.name == "index" else 2 :])
    arrays = [args[0] for entry, args, _ in given if entry == "a"]
    counts = [a for a in arrays if a.op is not None and a.op.name == "iota"]
    if not counts or any(entry == "m" for entry, _, _ in given) or any(a.ndim != 1 for a in arrays):
        return False
    length = counts[0].op.args[0].op  # type: ignore[union-attr]
    measured = length.args[0] if length is not None and length.name == "dim" else None
    return all(a is counts[0] or (a is measured and a.ndim == 1) for a in arrays)


def _array(name: str, value: Value) -> ArrayType:
    if not isinstance(value.type, ArrayType):
        raise TypeError(f"{name}: operand must be a scalar or an array, not {value.type}")
    return value.type


def _elementwise(name: str, types: list[ArrayType], attrs: dict[str, Any]) -> ArrayType:
    arity, kind = ELEMENTWISE[name]
    if len(types) != arity:
        raise TypeError(f"{name} takes {arity} operands, not {len(types)}")
    same = types[1:] if name == "where" else types
    if len({t.dtype for t in same}) != 1:
        raise TypeError(f"{name}: operands of different dtypes {', '.join(map(str, types))}")
    if name == "where" and types[0].dtype != BOOL.dtype:
        raise TypeError(f"where: condition must be bool, not {types[0]}")
    dtype = {
        "same": lambda: types[-1].dtype,
        "bool": lambda: BOOL.dtype,
        "real": lambda: real_dtype(types[0].dtype),
        "complex": lambda: COMPLEX_OF[types[0].dtype],
        "cast": lambda: np.dtype(attrs["dtype"]),
    }[kind]()
    return ArrayType(dtype, max(t.ndim for t in types))


def _reduced(args: Sequence[Value], attrs: dict[str, Any], dtype: np.dtype | None = None) -> tuple[Type, ...]:
    x = _array("reduction", args[0])
    axes = attrs["axes"]
    if list(axes) != sorted(set(axes)) or any(not 0 <= a < x.ndim for a in axes):
        raise TypeError(f"reduction: bad axes {axes} for {x}")
    return (ArrayType(dtype or x.dtype, x.ndim if attrs.get("keepdims") else x.ndim - len(axes)),)


def _matmul(args: Sequence[Value], attrs: dict[str, Any]) -> tuple[Type, ...]:
    x, y = (_array("matmul", a) for a in args)
    if x.dtype != y.dtype or min(x.ndim, y.ndim) < 1:
        raise TypeError(f"matmul: {x} @ {y}")
    return (x.with_ndim(max(x.ndim, y.ndim, 2) - (x.ndim == 1) - (y.ndim == 1)),)


def _index(args: Sequence[Value], attrs: dict[str, Any]) -> tuple[Type, ...]:
    x = _array("index", args[0])
    return (x.with_ndim(index_ndim(x.ndim, attrs["spec"], args[1:])),)


def _update(args: Sequence[Value], attrs: dict[str, Any]) -> tuple[Type, ...]:
    x, v = _array("set", args[0]), _array("set", args[1])
    if x.dtype != v.dtype:
        raise TypeError(f"set/add_at: writing {v} into {x}")
    index_ndim(x.ndim, attrs["spec"], args[2:])
    return (x,)


def _seq(args: Sequence[Value]) -> SeqType:
    if not isinstance(args[0].type, SeqType):
        raise TypeError(f"not a sequence: {args[0].type}")
    return args[0].type


def _same(args: Sequence[Value], attrs: dict[str, Any]) -> tuple[Type, ...]:
    return (args[0].type,)


_INFER: dict[str, Any] = {
    "full": lambda a, k: (a[0].type.with_ndim(len(a) - 1),),
    "iota": lambda a, k: (ArrayType(np.dtype(k["dtype"]), 1),),
    "dim": lambda a, k: (I64,),
    "reshape": lambda a, k: (a[0].type.with_ndim(len(a) - 1),),
    "broadcast_to": lambda a, k: (a[0].type.with_ndim(len(a) - 1),),
    "unbroadcast": lambda a, k: (a[0].type.with_ndim(len(a) - 1),),
    "transpose": _same,
    "index": _index,
    "set": _update,
    "add_at": _update,
    "concatenate": _same,
    **dict.fromkeys(["sum", "prod", "max", "min"], _reduced),
    **dict.fromkeys(["any", "all"], lambda a, k: _reduced(a, k, BOOL.dtype)),
    **dict.fromkeys(["argmax", "argmin"], lambda a, k: (ArrayType(I64.dtype, a[0].ndim - 1),)),
    **dict.fromkeys(["cumsum", "cumprod"], _same),
    "matmul": _matmul,
    "host": lambda a, k: tuple(k["types"]),
    "effect": lambda a, k: tuple(k["fn"].types),
    "seq_new": lambda a, k: (SeqType(k["elem"]),),
    "seq_push": _same,
    "seq_pop": lambda a, k: (_seq(a), _seq(a).elem),
    "seq_get": lambda a, k: (_seq(a).elem,),
    "seq_len": lambda a, k: (I64,),
    "seq_add": _same,
    "seq_stack": lambda a, k: (_seq(a).elem.with_ndim(_seq(a).elem.ndim + 1),),  # type: ignore[union-attr]
    "seq_unstack": lambda a, k: (SeqType(a[0].type.with_ndim(a[0].ndim - 1)),),
    "seq_zeros": _same,
    "check": lambda a, k: (),
    "guard": lambda a, k: (),
}
