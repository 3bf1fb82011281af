"""Runs the source of a Program: arguments are checked and converted, errors name the user's line."""

from __future__ import annotations

import builtins
import itertools
import linecache
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from gradsmith.backends import effects, host
from gradsmith.backends.python.interface import Interface
from gradsmith.backends.python.names import identifier
from gradsmith.backends.python.writer import Writer
from gradsmith.errors import GuardFailed, add_location
from gradsmith.ir.program import Input, Location, Output, Program
from gradsmith.ir.types import ArrayType, Type

_numbers = itertools.count()
_PYTHON_TYPES = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def source(program: Program, interface: Interface | None = None) -> str:
    """``program`` as the source of one Python function on NumPy arrays that runs by itself.

    It takes its arguments and returns its result as ``interface`` says; without it, flat.
    """
    return Writer(program, shown=True, interface=interface).write()[0]


def compile(program: Program) -> Callable[..., Any]:
    """A callable that runs the source of ``program``.

    It takes the flat leaves and returns one object, or a tuple for several outputs. It returns ``NotImplemented`` if an
    argument does not fit ``program.inputs`` or a guard fails. Exceptions are those of Python and NumPy; they carry a
    note with the user's file and line.
    """
    writer = Writer(program)
    text, locations = writer.write()
    name = identifier(program.name) or "f"
    filename = f"<gradsmith {program.name} {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {}
    for known_as, x in writer.expressions.objects.items():
        namespace[known_as] = _executed(x) if isinstance(x, effects.Effect) else x
    try:
        code = builtins.compile(text, filename, "exec")
    except (SyntaxError, RecursionError, MemoryError):  # nested more deeply than Python's compiler takes
        from gradsmith.backends.native.fallback import interpreted

        return interpreted(program)
    exec(code, namespace)
    function = namespace[name]
    takes = [_taker(i, p.type) for i, p in zip(program.inputs, program.block.params, strict=True)]
    gives = [_giver(o, r.type) for o, r in zip(program.outputs, program.block.results, strict=True)]

    def run(*args: Any) -> Any:
        if len(args) != len(takes):
            return NotImplemented
        taken = [take(arg) for take, arg in zip(takes, args, strict=True)]
        if any(arg is NotImplemented for arg in taken):
            return NotImplemented
        try:
            with np.errstate(all="ignore"):
                results = function(*taken)
        except GuardFailed:
            return NotImplemented
        except Exception as error:
            add_location(error, _location(error.__traceback__, filename, locations))
            raise
        if len(gives) == 1:
            return gives[0](results)
        return tuple(give(result) for give, result in zip(gives, results, strict=True))

    weakref.finalize(run, linecache.cache.pop, filename, None)
    run.__name__ = run.__qualname__ = name
    run.__doc__ = text
    return run


def _executed(effect: effects.Effect) -> Callable[..., Any]:
    """What the source calls for an effect."""
    return lambda *args: [host.exact(x, t) for x, t in zip(effects.run(effect, args), effect.types, strict=True)]


def _location(trace: TracebackType | None, filename: str, locations: dict[int, Location]) -> Location | None:
    """The user's location of the innermost line of the generated source that an exception passed."""
    found = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            found = locations.get(trace.tb_lineno, found)
        trace = trace.tb_next
    return found


def _taker(given: Input, type: Type) -> Callable[[Any], Any]:
    """Checks an argument and converts it to what the source computes with; NotImplemented if it does not fit."""
    assert isinstance(type, ArrayType)
    dtype, ndim = type.dtype, type.ndim
    if given.kind == "py":
        python = _PYTHON_TYPES[dtype.kind]
        if python is int:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            return lambda arg: dtype.type(arg) if arg.__class__ is int and low <= arg <= high else NotImplemented
        return lambda arg: dtype.type(arg) if arg.__class__ is python else NotImplemented
    if given.kind == "np":
        return lambda arg: arg if arg.__class__ is dtype.type else NotImplemented
    if ndim == 0:
        return lambda arg: arg[()] if _is_array(arg, dtype, 0) else NotImplemented
    units = tuple(given.unit_axes)

    def take(arg: Any) -> Any:
        fits = _is_array(arg, dtype, ndim) and (not units or tuple(n == 1 for n in arg.shape) == units)
        return arg if fits else NotImplemented

    return take


def _is_array(arg: Any, dtype: np.dtype, ndim: int) -> bool:
    return arg.__class__ is np.ndarray and arg.dtype == dtype and arg.ndim == ndim


def _giver(output: Output, type: Type) -> Callable[[Any], Any]:
    """Converts a result to the object that the caller gets."""
    assert isinstance(type, ArrayType)
    dtype = type.dtype
    if output.kind == "py":
        python = _PYTHON_TYPES[dtype.kind]
        return lambda value: python(value)
    if output.kind == "np":
        return lambda value: np.asarray(value, dtype)[()]
    return lambda value: np.asarray(value, dtype)
