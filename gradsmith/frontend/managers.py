"""Context managers of ``contextlib`` in staged code."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import yielding
from gradsmith.frontend.heap import MISSING, Slot
from gradsmith.frontend.stage import Stage

#: the code of what ``@contextmanager`` puts in place of a generator function
HELPER: types.CodeType = contextlib.contextmanager(lambda: iter(())).__code__  # type: ignore[attr-defined]


class Managed:
    """What a function under ``@contextmanager`` returns: the body of its generator surrounds that of a ``with``."""

    def __init__(self, function: Any, args: Any, kwargs: dict[str, Any]):
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def surround(self, stage: Stage, body: Callable[[Any], None]) -> None:
        """Run the generator, and ``body(x)`` at its ``yield x``. It sees what the body raises."""
        generator = _call(stage, self.function, *self.args, **self.kwargs)
        if not isinstance(generator, yielding.Generated):
            raise UnsupportedCode("a context manager whose generator cannot be staged")
        entered = Slot("key", generator.frame.vars, "%entered")

        def at_yield(x: Any) -> bool:
            if entered.get() is not MISSING:
                raise RuntimeError("generator didn't stop")
            stage.heap.write(entered, True)
            body(x)
            return False

        generator.push(at_yield, interruptible=False)
        if entered.get() is MISSING:
            raise RuntimeError("generator didn't yield")

    def __gradsmith_call__(self, stage: Stage, args: Any, kwargs: Any) -> Any:
        """``@manager()``: the decorated function."""
        return Decorated(self, *args)


class Decorated:
    """A function that runs inside a context."""

    def __init__(self, manager: Managed, function: Any):
        self.manager = manager
        self.function = function

    def __gradsmith_call__(self, stage: Stage, args: Any, kwargs: Any) -> Any:
        result: list[Any] = stage.heap.born([])
        self.manager.surround(
            stage, lambda x: stage.heap.write(Slot("list", result), [_call(stage, self.function, *args, **kwargs)])
        )
        return result[0] if result else None


def _call(stage: Stage, f: Any, *args: Any, **kwargs: Any) -> Any:
    from gradsmith.frontend.calls import call

    return call(stage, f, args, kwargs)


def manage(stage: Stage, function: Any, args: Any, kwargs: dict[str, Any]) -> Managed:
    """``contextlib._GeneratorContextManager``."""
    return Managed(function, args, kwargs)


# ---- managers written in Python, staged in place of those of contextlib ---------------------------------------------


class Null:
    """``contextlib.nullcontext``."""

    def __init__(self, enter_result: Any = None):
        self.enter_result = enter_result

    def __enter__(self) -> Any:
        return self.enter_result

    def __exit__(self, *error: Any) -> None:
        pass


class Closing:
    """``contextlib.closing``."""

    def __init__(self, thing: Any):
        self.thing = thing

    def __enter__(self) -> Any:
        return self.thing

    def __exit__(self, *error: Any) -> None:
        self.thing.close()


class Exits:
    """``contextlib.ExitStack`` for managers that are objects, and callbacks."""

    def __init__(self) -> None:
        self.exits: list[Any] = []

    def __enter__(self) -> Exits:
        return self

    def enter_context(self, manager: Any) -> Any:
        entered = manager.__enter__()
        self.exits.append(manager.__exit__)
        return entered

    def push(self, leave: Any) -> Any:
        self.exits.append(leave.__exit__ if hasattr(leave, "__exit__") else leave)
        return leave

    def callback(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        def leave(*error: Any) -> None:
            function(*args, **kwargs)

        self.exits.append(leave)
        return function

    def pop_all(self) -> Exits:
        other = Exits()
        other.exits = self.exits
        self.exits = []
        return other

    def close(self) -> None:
        self.__exit__(None, None, None)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        handled = False
        while len(self.exits) > 0:
            leave = self.exits.pop()
            if leave(kind, error, trace) and kind is not None:
                handled, kind, error, trace = True, None, None, None
        return handled


REPLACED: dict[type, type] = {contextlib.nullcontext: Null, contextlib.closing: Closing, contextlib.ExitStack: Exits}
