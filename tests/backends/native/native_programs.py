"""Builds small Programs and compares native code with the interpreter."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith.backends import native
from gradsmith.backends.native.fallback import interpreted
from gradsmith.ir.builder import Builder
from gradsmith.ir.checker import check
from gradsmith.ir.program import Block, Input, Output, Program, Value
from gradsmith.ir.types import ArrayType


def kind_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "array"
    return "np" if isinstance(value, np.generic) else "py"


def type_of(value: Any) -> ArrayType:
    array = np.asarray(value)
    return ArrayType(array.dtype, array.ndim)


def program(
    args: Sequence[Any], define: Callable[..., Any], outputs: Sequence[str] | None = None, units: bool = True
) -> Program:
    """A Program for arguments like ``args`` whose body ``define`` emits."""
    params = [Value(type_of(a), f"x{k}") for k, a in enumerate(args)]
    builder = Builder(Block(params))
    with builder:
        made = define(*params)
    results = list(made) if isinstance(made, list | tuple) else [made]
    builder.block.results = results
    inputs = []
    for arg in args:
        axes = tuple(n == 1 for n in np.shape(arg)) if units and isinstance(arg, np.ndarray) else ()
        inputs.append(Input(kind_of(arg), axes))
    kinds = outputs or ["array" if r.ndim else "np" for r in results]
    return check(Program("f", builder.block, inputs, [Output(k) for k in kinds]))


def same(a: Any, b: Any, rtol: float = 1e-13) -> None:
    """Assert that two results are equal in type, shape and (up to rounding) value."""
    assert type(a) is type(b), (type(a), type(b))
    if isinstance(a, tuple):
        for x, y in zip(a, b, strict=True):
            same(x, y, rtol)
        return
    x, y = np.asarray(a), np.asarray(b)
    assert x.dtype == y.dtype and x.shape == y.shape, (x.dtype, y.dtype, x.shape, y.shape)
    if x.dtype.kind in "fc":
        if x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1) == 4:
            rtol = max(rtol, 3e-6)
        if x.dtype == np.float16:
            rtol = 3e-3
        scale = np.abs(y[np.isfinite(y)]).max(initial=0.0)
        np.testing.assert_allclose(
            x, y, rtol=rtol, atol=rtol * float(scale) * (1e-3 if rtol < 1e-7 else 1), equal_nan=True
        )
    else:
        np.testing.assert_array_equal(x, y)


def outcome(f: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The result of a call, or its exception."""
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    except Exception as error:
        return error


def agrees(
    args: Sequence[Any], define: Callable[..., Any], *others: Sequence[Any], units: bool = True, **options: Any
) -> Any:
    """Native code and the interpreter agree on ``args`` and ``others``; returns the compiled function."""
    made = program(args, define, units=units)
    return check_program(made, [args, *others], **options)


def check_program(made: Program, calls: Sequence[Sequence[Any]], **options: Any) -> Any:
    compiled, reference = native.compile(made), interpreted(made)
    for args in calls:
        before = copy.deepcopy(list(args))
        expected = outcome(reference, args)
        for _ in range(2):
            got = outcome(compiled, args)
            if isinstance(expected, Exception):
                assert type(got) is type(expected), (got, expected)
            else:
                if isinstance(got, Exception):
                    raise got
                same(got, expected, **options)
        for a, b in zip(args, before, strict=True):
            np.testing.assert_array_equal(a, b)
    return compiled
