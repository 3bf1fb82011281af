"""What staged code does besides computing: printing, logging, warnings, and Python functions run at every call.

Such a call becomes an ``effect`` operation. When it runs, the arguments are the objects that Python would have passed:
numbers and arrays in place of symbolic values, texts with their numbers filled in.
"""

from __future__ import annotations

import builtins
import logging
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith.backends import effects
from gradsmith.errors import UnsupportedCode
from gradsmith.frontend.builtins import register
from gradsmith.frontend.generators import Handle
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, Grown, Maybe, Scalar, Symbolic, Text, contains_symbolic, is_grown
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Value
from gradsmith.ir.types import Type

#: makes an object from the operands of an effect
Make = Callable[[Sequence[Any]], Any]


def emit(
    stage: Stage,
    name: str,
    run: Callable[..., Sequence[Any]],
    args: Sequence[Value],
    types: Sequence[Type] = (),
    text: str = "",
) -> list[Value]:
    """Emit an effect; returns its results."""
    effect = effects.Effect(name, run, tuple(types), text)
    stage.builder.emit("effect", args, fn=effect)
    return stage.builder.block.ops[-1].results


def call_python(
    stage: Stage, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], name: str = ""
) -> None:
    """``f(*args, **kwargs)`` at every call, in order; what it returns is not used."""
    operands = Operands(stage)
    make_args = [operands.make(x) for x in args]
    make_kwargs = {k: operands.make(x) for k, x in kwargs.items()}

    def run(*values: Any) -> Sequence[Any]:
        f(*(make(values) for make in make_args), **{k: make(values) for k, make in make_kwargs.items()})
        return ()

    shown = [operands.shown(x) for x in args] + [f"{k}={operands.shown(x)}" for k, x in kwargs.items()]
    name = name or getattr(f, "__name__", "effect")
    emit(stage, name, run, operands.values, (), f"{name}({', '.join(shown)})")


class Operands:
    """Collects the symbolic values in the arguments of an effect."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.values: list[Value] = []

    def _operand(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def make(self, x: Any) -> Make:
        """How to make the object that Python would have for ``x`` from the operands."""
        if isinstance(x, Scalar):
            k = self._operand(x.value)
            if not x.weak:
                return lambda values: values[k]
            python = x.python_type
            return lambda values: python(values[k])
        if isinstance(x, Array):
            k = self._operand(x.value)
            return lambda values: np.asarray(values[k])
        if isinstance(x, Handle):
            k = self._operand(x.number.value)
            return lambda values: effects.object_of(values[k])
        if isinstance(x, Text):
            template, parts = x.template, [self.make(v) for v in x.values]
            return lambda values: template.format(*(part(values) for part in parts))
        if is_grown(x):
            return self._grown(x[0])
        if isinstance(x, Symbolic | Maybe):
            raise UnsupportedCode(f"an effect with {x!r} as an argument")
        return self._container(x)

    def _grown(self, grown: Grown) -> Make:
        k, weak = self._operand(ir.emit("seq_stack", grown.seq)), grown.weak
        return lambda values: values[k].tolist() if weak else list(values[k])

    def _container(self, x: Any) -> Make:
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            items = [self.make(y) for y in x]
            return lambda values: type(x)(*(item(values) for item in items))
        if type(x) in (list, tuple):
            items = [self.make(y) for y in x]
            return lambda values: type(x)(item(values) for item in items)
        if type(x) is dict:
            pairs = {k: self.make(y) for k, y in x.items()}
            return lambda values: {k: y(values) for k, y in pairs.items()}
        if isinstance(x, BaseException) and contains_symbolic(list(x.args)):
            args = [self.make(y) for y in x.args]
            return lambda values: type(x)(*(a(values) for a in args))
        if not contains_symbolic(x) or not hasattr(x, "__dict__") or isinstance(x, type | types.FunctionType):
            return lambda values: x
        fields = {k: self.make(y) for k, y in vars(x).items()}

        def copy(values: Sequence[Any]) -> Any:
            new = object.__new__(type(x))
            for k, y in fields.items():
                object.__setattr__(new, k, y(values))
            return new

        return copy

    @staticmethod
    def shown(x: Any) -> str:
        """``x`` as it is written in shown source, ``{}`` for every operand."""

        def literal(text: str) -> str:
            return text.replace("{", "{{").replace("}", "}}")

        if isinstance(x, Text):
            filled = ", ".join("{}" for _ in x.values)
            return f"{literal(repr(x.template))}.format({filled})"
        if isinstance(x, Symbolic):
            return "{}"
        if type(x) in (list, tuple):
            inner = ", ".join(map(Operands.shown, x))
            return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' * (len(x) == 1)})"
        if type(x) is dict:
            return "{{" + ", ".join(f"{literal(repr(k))}: {Operands.shown(y)}" for k, y in x.items()) + "}}"
        return "..." if contains_symbolic(x) else literal(getattr(x, "__name__", "") or repr(x))


# ---- printing, warnings, logging ------------------------------------------------------------------------------------


def _print(stage: Stage, *args: Any, **kwargs: Any) -> None:
    call_python(stage, builtins.print, args, kwargs)


def _warn(
    stage: Stage, message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **options: Any
) -> None:
    """``warnings.warn``, attributed to the user's line."""
    frame, loc = stage.frames[-1], stage.loc
    registry = frame.globals.setdefault("__warningregistry__", {})
    where = (loc.filename, loc.line) if loc else ("<gradsmith>", 0)
    module = frame.globals.get("__name__", "")

    def warn(message: Any, category: Any = None) -> None:
        kind = type(message) if isinstance(message, Warning) else category or UserWarning
        warnings.warn_explicit(message, kind, *where, module=module, registry=registry, source=source)

    call_python(stage, warn, [message] if category is None else [message, category], {})


register(print, _print)
register(warnings.warn, _warn)

_LEVELS = ("debug", "info", "warning", "warn", "error", "critical", "fatal", "exception", "log")
for _level in _LEVELS:
    if hasattr(logging, _level):
        _function = getattr(logging, _level)
        register(_function, lambda stage, *args, _f=_function, **kwargs: call_python(stage, _f, args, kwargs))


def bound(f: Any) -> Callable[..., Any] | None:
    """The staged version (taking the stage first) of a bound method that has effects: of a logger."""
    if isinstance(f.__self__, logging.Logger | logging.LoggerAdapter) and f.__name__ in _LEVELS:
        return lambda stage, *args, **kwargs: call_python(stage, f, args, kwargs)
    return None
