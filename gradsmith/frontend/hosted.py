"""Functions that Python runs while compiled code runs: pure ones with a rule, and effects with a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import effects
from gradsmith.frontend import stage as st
from gradsmith.frontend.frames import StagedFunction
from gradsmith.frontend.stage import NeedConcrete, Stage
from gradsmith.frontend.values import Array, Scalar, fresh, is_number, is_weak
from gradsmith.ir.program import Value
from gradsmith.ir.types import ArrayType


class HostFunction:
    """A Python function of the operands of a ``host`` operation, which returns one result or a tuple."""

    def __init__(self, name: str, run: Callable[..., Sequence[Any]], single: bool):
        self.__name__ = name
        self._run = run
        self._single = single

    def __call__(self, *values: Any) -> Any:
        out = self._run(*values)
        return out[0] if self._single else out


class _Call:
    """A call of a Python function: its operands, how to run it, and what it returns."""

    def __init__(self, stage: Stage, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], like: Any):
        operands = effects.Operands(stage)
        make_args = [operands.make(x) for x in args]
        make_kwargs = {k: operands.make(x) for k, x in kwargs.items()}
        self.name = getattr(f, "__name__", type(f).__name__)
        self.operands = operands.values
        self.shown = ", ".join([*map(operands.shown, args), *(f"{k}={operands.shown(x)}" for k, x in kwargs.items())])

        def apply(values: Sequence[Any]) -> Any:
            return f(*(make(values) for make in make_args), **{k: make(values) for k, make in make_kwargs.items()})

        self.sample = like if like is not None else _sample(stage, self.name, apply, operands.values)
        self.leaves, self.structure = tree.flatten(self.sample)
        self.moving = [k for k, x in enumerate(self.leaves) if is_number(x) or isinstance(x, Array | np.ndarray)]
        self.types = [_type_of(self.leaves[k]) for k in self.moving]

        def run(*values: Any) -> Sequence[Any]:
            leaves, structure = tree.flatten(apply(values))
            if structure != self.structure:
                raise TypeError(f"{self.name} returned {structure}, where {self.structure} was expected")
            return [self._checked(leaves[k], type) for k, type in zip(self.moving, self.types, strict=True)]

        self.run = run

    def _checked(self, x: Any, type: ArrayType) -> Any:
        found = np.asarray(x)
        if found.ndim != type.ndim or not np.can_cast(found.dtype, type.dtype, "same_kind"):
            raise TypeError(f"{self.name} returned {ArrayType(found.dtype, found.ndim)}, where {type} was expected")
        return found

    def result(self, values: Sequence[Value]) -> Any:
        leaves = list(self.leaves)
        for k, value in zip(self.moving, values, strict=True):
            array = isinstance(self.leaves[k], Array | np.ndarray)
            leaves[k] = fresh(value) if array else Scalar(value, is_weak(self.leaves[k]))
        return tree.unflatten(self.structure, leaves)


def _type_of(x: Any) -> ArrayType:
    value = st.as_value(x)
    assert isinstance(value.type, ArrayType)
    return value.type


def _sample(stage: Stage, name: str, apply: Callable[[Sequence[Any]], Any], operands: Sequence[Value]) -> Any:
    """The function called once on the arguments of this call."""
    try:
        values = [stage.peek(v) for v in operands]
    except NeedConcrete:
        raise UnsupportedCode(
            f"what {name} returns is found out by calling it once, but here its arguments change in a loop; say what "
            "it returns with like=, e.g. define_rule(f, ..., like=0.0)"
        ) from None
    return apply(values)


def pure(stage: Stage, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], like: Any = None) -> Any:
    """``f(*args, **kwargs)`` run by Python; equal calls may be merged, and one that nobody needs is dropped."""
    c = _Call(stage, f, args, kwargs, like)
    function = HostFunction(c.name, c.run, len(c.types) == 1)
    made = stage.builder.emit("host", c.operands, fn=function, types=tuple(c.types), kwargs={})
    return c.result([made] if isinstance(made, Value) else made or [])


def effect(stage: Stage, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], like: Any) -> Any:
    """``f(*args, **kwargs)`` run by Python exactly once during each call, in order."""
    if isinstance(f, StagedFunction):
        raise UnsupportedCode(
            "host(f) of a function defined inside a differentiated one, where it is not Python's: move it out"
        )
    if like is None:
        effects.call_python(stage, f, args, kwargs)
        return None
    c = _Call(stage, f, args, kwargs, like)
    return c.result(effects.emit(stage, c.name, c.run, c.operands, c.types, f"{c.name}({c.shown})"))
