"""Effects: what a compiled call does besides computing, exactly once and in program order.

A compiled call may be given up half way and started again: a guard fails, or native code hands the call to its checked
version. An :class:`Execution` therefore keeps what the effects of one call have returned. Started again, the call does
the same up to the same place, and gets the kept results instead of running the effects a second time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsmith.ir.types import Type


@dataclass(frozen=True, eq=False)
class Effect:
    """What an ``effect`` operation runs: ``run(*operands)`` gives the sequence of its results, which have ``types``.

    ``text`` is how it is written in shown source, with ``{}`` for every operand.
    """

    name: str
    run: Callable[..., Sequence[Any]]
    types: tuple[Type, ...] = ()
    text: str = ""

    @property
    def __name__(self) -> str:
        return self.name


class Execution:
    """One call by the user of a function with effects, however often it is started."""

    __slots__ = ("log", "position", "objects", "outer")

    def __init__(self) -> None:
        self.log: list[Sequence[Any]] = []
        self.position = 0
        self.objects: dict[int, Any] = {}
        self.outer: Execution | None = None

    def __enter__(self) -> Execution:
        self.outer = _active.execution
        _active.execution = self
        return self

    def __exit__(self, *exc: object) -> None:
        _active.execution = self.outer

    def run(self, effect: Effect, args: Sequence[Any]) -> Sequence[Any]:
        position = self.position
        if position == len(self.log):
            self.log.append(_run(effect, args))
        self.position = position + 1
        return self.log[position]


class _Active(threading.local):
    """The innermost running call of this thread, and the objects that have a handle outside any call."""

    execution: Execution | None = None

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}


_active = _Active()


def rewind() -> None:
    """The call is started again from its beginning."""
    if _active.execution is not None:
        _active.execution.position = 0


def run(effect: Effect, args: Sequence[Any]) -> Sequence[Any]:
    """Run an effect, unless this call has run it before it was started again."""
    execution = _active.execution
    return _run(effect, args) if execution is None else execution.run(effect, args)


def _run(effect: Effect, args: Sequence[Any]) -> Sequence[Any]:
    # the memory of arrays is reused by compiled code, but the effect may keep them
    return effect.run(*[np.array(a) if isinstance(a, np.ndarray) else a for a in args])


def handle(x: Any) -> int:
    """An integer that stands for an object in the running call."""
    execution = _active.execution
    objects = _active.objects if execution is None else execution.objects
    objects[id(x)] = x
    return id(x)


def object_of(number: Any) -> Any:
    """The object that a handle stands for."""
    number, execution = int(number), _active.execution
    while execution is not None:
        if number in execution.objects:
            return execution.objects[number]
        execution = execution.outer
    return _active.objects[number]
