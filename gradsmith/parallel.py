"""The rows of a ``vmap`` shared between threads: compiled code runs without the interpreter's lock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.locking import new_lock

#: seconds of work from which a call is shared: handing it to a thread takes some ten microseconds
WORTH = 2e-3
_TRIALS = 3

_lock = new_lock()
_pool: ThreadPoolExecutor | None = None


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="gradsmith")
        return _pool


def _forget_threads() -> None:
    """A forked process has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


@dataclass
class _Rows:
    """Arguments of a call by row."""

    leaves: list[Any]
    structure: tree.Tree
    mapped: list[bool]  # which leaves have a row for every entry
    length: int

    @property
    def key(self) -> tuple[Any, ...]:
        return self.structure, tuple((x.shape, x.dtype) if isinstance(x, np.ndarray) else type(x) for x in self.leaves)

    def block(self, start: int, stop: int) -> Any:
        rows = [x[start:stop] if m else x for x, m in zip(self.leaves, self.mapped, strict=True)]
        return tree.unflatten(self.structure, rows)


@dataclass
class _Outcome:
    """What a call with certain shapes returns, and how long it takes one thread, and all of them."""

    structure: tree.Tree
    arrays: list[tuple[tuple[int, ...], np.dtype]]
    alone: list[float] = field(default_factory=list)
    shared: list[float] = field(default_factory=list)

    @property
    def worth_sharing(self) -> bool:
        """Both ways are tried a few times: work that waits for memory gains nothing by another thread."""
        if len(self.alone) < _TRIALS:
            return False
        return len(self.shared) < _TRIALS or min(self.shared) < 0.9 * min(self.alone)


class Splitter:
    """Decides whether a call is shared between threads, and does it.

    ``always``: also when it does not pay. Calls with new shapes are first run by one thread, to see what they return and
    how long they take.
    """

    def __init__(self, axes: int | None | Sequence[int | None], always: bool):
        self.axes = axes
        self.always = always
        self._known: dict[Any, _Outcome] = {}

    def note(self, args: Sequence[Any], result: Any, seconds: float) -> None:
        """Remember what a call by one thread returned."""
        if seconds < WORTH and not self.always:
            return
        rows, (leaves, structure) = self._rows(args), tree.flatten(result)
        if rows is None or not all(type(x) is np.ndarray and len(x) == rows.length for x in leaves):
            return
        outcome = _Outcome(structure, [(x.shape, x.dtype) for x in leaves])
        trials = self._known.setdefault(rows.key, outcome).alone
        if len(trials) < _TRIALS:
            trials.append(seconds)

    def call(self, run: Callable[..., Any], args: Sequence[Any]) -> Any:
        """The result of ``run(*args)``, or NotImplemented if one thread shall do it."""
        if not self._known or cores() < 2:
            return NotImplemented
        rows = self._rows(args)
        outcome = None if rows is None else self._known.get(rows.key)
        if rows is None or outcome is None or rows.length < 2 * cores():
            return NotImplemented
        if not (self.always or outcome.worth_sharing):
            return NotImplemented
        start = time.perf_counter()
        results = [np.empty(shape, dtype) for shape, dtype in outcome.arrays]

        def part(start: int, stop: int) -> None:
            out = tree.unflatten(outcome.structure, [x[start:stop] for x in results])
            run(*rows.block(start, stop), out=out)

        edges = [rows.length * k // cores() for k in range(cores() + 1)]
        spans = list(zip(edges[:-1], edges[1:], strict=True))
        others: list[Future[None]] = [_threads().submit(part, *span) for span in spans[1:]]
        try:
            part(*spans[0])
        finally:
            errors = [other.exception() for other in others]  # waits: they write into the results
        for error in errors:
            if error is not None:
                raise error
        if len(outcome.shared) < _TRIALS:
            outcome.shared.append(time.perf_counter() - start)
        return tree.unflatten(outcome.structure, results)

    def _rows(self, args: Sequence[Any]) -> _Rows | None:
        """The arguments, if every mapped leaf is an ndarray that is mapped over its first axis."""
        axes = [self.axes] * len(args) if self.axes is None or isinstance(self.axes, int) else list(self.axes)
        if len(axes) != len(args) or any(axis not in (0, None) for axis in axes):
            return None
        leaves, structure = tree.flatten(tuple(args))
        mapped = [axis == 0 for axis, arg in zip(axes, args, strict=True) for _ in tree.flatten(arg)[0]]
        rows = [x for x, m in zip(leaves, mapped, strict=True) if m]
        if not rows or not all(type(x) is np.ndarray and x.ndim for x in rows) or len({len(x) for x in rows}) != 1:
            return None
        return _Rows(leaves, structure, mapped, len(rows[0]))
