"""The contract of a compiled program, kept by the interpreter: for programs and calls that native code gives up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradsmith.errors import GuardFailed
from gradsmith.ir import interpreter
from gradsmith.ir.program import Input, Output, Program, Value

_PYTHON: dict[str, type] = {"f": float, "i": int, "u": int, "b": bool, "c": complex}


def fits(value: Any, param: Value, spec: Input) -> bool:
    """Whether an argument is what the Program was made for."""
    dtype, ndim = param.dtype, param.ndim
    if spec.kind == "py":
        exact = value.__class__ is _PYTHON[dtype.kind]
        return exact and (dtype.kind not in "iu" or _in_range(value, dtype))
    if spec.kind == "np":
        return type(value) is dtype.type
    if type(value) is not np.ndarray or value.ndim != ndim or value.dtype.newbyteorder("=") != dtype:
        return False
    return not spec.unit_axes or all((n == 1) == unit for n, unit in zip(value.shape, spec.unit_axes, strict=True))


def _in_range(value: int, dtype: np.dtype) -> bool:
    return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)


def boxed(value: Any, result: Value, spec: Output) -> Any:
    """A result as the kind of object that the caller gets."""
    if result.ndim or spec.kind == "array":
        return np.array(value)
    return value.item() if spec.kind == "py" else value


def interpreted(program: Program) -> Callable[..., Any]:
    """A callable for ``program`` with the contract of the back ends, run by the interpreter."""

    def call(*args: Any) -> Any:
        params = program.block.params
        if len(args) != len(params) or not all(map(fits, args, params, program.inputs)):
            return NotImplemented
        try:
            results = interpreter.run(program, args)
        except GuardFailed:
            return NotImplemented
        out = tuple(map(boxed, results, program.block.results, program.outputs))
        return out[0] if len(out) == 1 else out

    call.__name__ = program.name
    return call
