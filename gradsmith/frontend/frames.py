"""Scopes (what a name means, decided when code is compiled) and frames (what names hold while a call is staged)."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from gradsmith.frontend.heap import MISSING, Slot
from gradsmith.frontend.source import FunctionNode, function_node
from gradsmith.frontend.stage import Stage
from gradsmith.ir.program import Location


@dataclass
class Scope:
    """The names of one function, lambda or comprehension, and the scope around it."""

    local: set[str]
    parent: Scope | None
    filename: str
    function: str
    globals_declared: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    quiet: bool = False  # code of gradsmith's own: errors are located at the user's line that called it
    is_class: bool = False  # the body of a class, whose names functions inside do not see

    def depth_of(self, name: str) -> int | None:
        """How many frames out a name of an enclosing staged function lives; None when it is a cell or a global."""
        depth, scope = 0, self
        while True:
            if name in scope.local and (depth == 0 or not scope.is_class):
                return depth
            if name in scope.globals_declared or scope.parent is None:
                return None
            scope, depth = scope.parent, depth + 1

    def location(self, node: ast.AST) -> Location | None:
        return None if self.quiet else Location(self.filename, getattr(node, "lineno", 0), self.function)


class Frame:
    """One staged call: ``vars`` holds its names; ``parent`` is the frame of the function that it is defined in."""

    __slots__ = (
        *("stage", "vars", "parent", "globals", "cells", "function", "owner"),
        *("on_yield", "interruptible", "cls", "code", "functions", "depth", "called_at"),
    )

    def __init__(
        self, stage: Stage, parent: Frame | None, globals_: dict[str, Any], cells: dict[str, Any], function: str
    ):
        self.stage = stage
        self.vars: dict[str, Any] = stage.heap.scope()
        self.parent = parent
        self.globals = globals_
        self.cells = cells  # closure cells of a function that was not defined by staged code
        self.function = function
        self.owner: Any = None  # the frame of the function around a comprehension
        self.code: Code | None = (
            None  # of a call: what is run, the functions among its arguments, the regions around it
        )
        self.functions: tuple[Any, ...] = ()
        self.depth = stage.depth
        self.called_at: Location | None = None  # where it was called, and the calls around that
        self.on_yield: Callable[[Any], Any] | None = None  # of a generator: takes what is yielded; whether to stop
        self.interruptible = False  # whether ``on_yield`` may ask the generator to stop
        self.cls: type | None = None  # of the body of a class: the class

    def outer(self, depth: int) -> Frame:
        frame = self
        for _ in range(depth):
            assert frame.parent is not None
            frame = frame.parent
        return frame


@dataclass
class Code:
    """A compiled function body: shared by all functions made from one ``def`` or ``lambda``."""

    node: FunctionNode
    scope: Scope
    body: Callable[[Frame], Any]  # stages the body; returns the value of a lambda, else leaves it in the frame
    name: str
    docs: str | None = None
    is_generator: bool = False

    @property
    def is_lambda(self) -> bool:
        return isinstance(self.node, ast.Lambda)


class Wrapper:
    """Base of callables that wrap a function and are staged by ``__gradsmith_call__``; methods may be such."""


class StagedFunction:
    """A function defined by staged code: its body, the frame around it and its defaults."""

    # in slots, because functools.update_wrapper copies the __dict__ of one function into another's
    __slots__ = ("code", "frame", "defaults", "kwdefaults", "__dict__")

    def __init__(self, code: Code, frame: Frame, defaults: list[Any], kwdefaults: dict[str, Any]):
        self.code = code
        self.frame = frame
        self.defaults = defaults
        self.kwdefaults = kwdefaults
        self.__name__ = self.__qualname__ = code.name
        self.__doc__ = code.docs
        self.__module__ = frame.globals.get("__name__", "")  # type: ignore[misc]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Native code (functools.partial, sorted, a decorator) calls back into the stager."""
        from gradsmith.frontend.calls import call_staged

        return call_staged(self, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)


#: functions that staged code calls as methods
FUNCTIONS = (types.FunctionType, StagedFunction, Wrapper)

_OWN = __name__.split(".")[0]


@lru_cache(maxsize=4096)
def compiled(code: types.CodeType, module: str) -> Code:
    """The compiled body of a function that exists outside staged code."""
    from gradsmith.frontend.statements import compile_function

    node = function_node(code)
    quiet = module == _OWN or module.startswith(_OWN + ".")
    return compile_function(node, None, code.co_filename, code.co_qualname, quiet)


def outer_slot(frame: Frame, name: str) -> Slot:
    """Where staged code keeps what it assigns to a closure cell or a global: the user's own stays as it is."""
    scope = frame.cells.get(name, frame.globals)
    frame.stage.scopes[id(scope)] = scope
    return Slot("key", frame.stage.outer, (id(scope), name))


def load_assigned(frame: Frame, name: str) -> Any:
    """What a closure cell or global holds that the function assigns too: an int there is read again at each call."""
    slot = outer_slot(frame, name)
    if slot.get() is MISSING:
        read = _reader(frame, name)
        counter = type(read()) is int
        slot.put(frame.stage.capture(read(), read, name) if counter else load_global(frame, name))
    return slot.get()


def _reader(frame: Frame, name: str) -> Callable[[], Any]:
    """What reads a closure cell or global outside; raises NameError when it holds nothing."""
    if name not in frame.cells:
        scope = frame.globals
        if name not in scope:
            raise NameError(f"name '{name}' is not defined")
        return lambda: scope[name]
    cell = frame.cells[name]
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        raise NameError(f"cannot access free variable '{name}' where it is not associated with a value") from None
    return lambda: cell.cell_contents


def load_global(frame: Frame, name: str) -> Any:
    """A global or builtin, read from outside (so guarded, and an input if it is a float or an array)."""
    from gradsmith.frontend.outside import lift

    if frame.stage.outer and (assigned := outer_slot(frame, name).get()) is not MISSING:
        return assigned
    if name not in frame.cells and name not in frame.globals and hasattr(builtins, name):
        return getattr(builtins, name)
    read = _reader(frame, name)
    return lift(frame.stage, read(), read, name, (id(frame.cells.get(name, frame.globals)), name))
