"""What a compiled function leaves behind outside of it: attributes, globals, closure variables, lists and dicts.

While a function is staged the objects from outside stay as they are: writes are journalled and taken back. Here the
journal's last word is kept as recipes, and a call of the compiled function ends with carrying them out.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gradsmith import tree
from gradsmith.errors import UnsupportedCode
from gradsmith.frontend.effects import Make, Operands
from gradsmith.frontend.heap import MISSING, Slot
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, Cell, Maybe, NotSpecialised, attribute_names, contains_symbolic, is_grown
from gradsmith.ir.program import Value

#: from (args, kwargs) of a call to an object in them
Reach = Callable[[Any], Any]
#: by the id of a stand-in: the object that it stands for
Places = dict[int, Reach]


class _Results(list[Any]):
    """The numbers and arrays that a call computed, its (args, kwargs), and the objects made of them so far."""

    def __init__(self, values: Sequence[Any], arguments: Any):
        super().__init__(values)
        self.arguments = arguments
        self.made: dict[int, Any] = {}


@dataclass
class State:
    """The writes of a call, in the order in which the function did them first."""

    values: list[Value]  # what the Program computes for them
    writes: list[tuple[Callable[[Any], Slot], Make]]  # for each the place, given (args, kwargs), and what it holds

    def write(self, values: Sequence[Any], arguments: Any) -> None:
        """Write to the user's objects what a call with ``arguments`` (args, kwargs) computed."""
        results = _Results(values, arguments)
        for slot, value in [(place(arguments), make(results)) for place, make in self.writes]:
            if value is not _AS_IT_WAS:
                slot.put(value)


_AS_IT_WAS = object()  # of a place that the function writes on some paths only


def state(stage: Stage, places: Places) -> State | None:
    """What the staged call has written to objects from outside; ``places``: those of its arguments, found before it."""
    outside = _Outside(stage, places)
    maker = _Maker(stage, outside)
    writes: list[tuple[Callable[[Any], Slot], Make]] = []
    before: dict[Slot, Any] = {}
    for slot, old in stage.heap.journal:
        if old is MISSING and slot in before and (place := outside.place(slot)):
            writes.append((place, _nothing))  # a key that comes back comes last
            before[slot] = before.pop(slot)
        before.setdefault(slot, old)
    for slot, old in before.items():
        now = slot.get()
        place = outside.place(slot) if now is not old else None
        if place is not None:
            writes.append((place, maker.content(slot, now)))
    return State(maker.values, writes) if writes else None


def _nothing(results: Sequence[Any]) -> Any:
    return MISSING


def places(arguments: Any) -> Places:
    """Where the objects and the arrays' cells in stand-ins of (args, kwargs) are found in a call."""
    found: Places = {}

    def walk(x: Any, reach: Reach) -> None:
        key = id(x.cell) if isinstance(x, Array) else id(x)
        if key in found:
            return
        if isinstance(x, list | tuple | dict | Array) or type(x) in tree.fields:
            found[key] = reach
        if isinstance(x, list | tuple | dict):
            for k, y in x.items() if isinstance(x, dict) else enumerate(x):
                walk(y, lambda given, k=k: reach(given)[k])
        elif type(x) in tree.fields:
            for name in attribute_names(x):
                walk(getattr(x, name), lambda given, name=name: getattr(reach(given), name))

    walk(arguments, lambda given: given)
    return found


def holds_twice(arguments: Any) -> bool:
    """Whether one list or dict is found in two places of (args, kwargs)."""
    met: set[int] = set()
    pending = [arguments]
    while pending:
        x = pending.pop()
        if isinstance(x, list | dict) and id(x) in met:
            return True
        if isinstance(x, list | tuple | dict):
            pending += x.values() if isinstance(x, dict) else x
        elif type(x) in tree.fields and id(x) not in met:
            pending += [getattr(x, name) for name in attribute_names(x)]
        met.add(id(x))
    return False


class _Outside:
    """Which of the user's objects a staged object stands for."""

    def __init__(self, stage: Stage, places: Places):
        self.stage = stage
        self.reach = dict(places)
        for found, stand_in in stage.copies.values():
            self.reach.setdefault(id(stand_in), self.reach.get(id(found)) or (lambda given, found=found: found))
        for c in stage.captures:
            if c.cell is not None:
                self.reach.setdefault(id(c.cell), lambda given, read=c.read: read())

    def place(self, slot: Slot) -> Callable[[Any], Slot] | None:
        """The user's place that a slot stands for, given (args, kwargs); None for what belongs to the call."""
        owner = slot.owner
        if isinstance(owner, Cell):
            return None  # arrays are written in place
        if owner is self.stage.outer:
            scope, name = self.stage.scopes[slot.key[0]], slot.key[1]
            is_cell = isinstance(scope, types.CellType)
            fixed = Slot("attr", scope, "cell_contents") if is_cell else Slot("key", scope, name)
            return lambda given: fixed
        if reach := self.reach.get(id(owner)):
            return lambda given: Slot(slot.kind, reach(given), slot.key)
        if slot.kind != "attr" or self.stage.heap.birth(owner) or _is_own(owner):
            return None
        return lambda given: slot


def _is_own(x: Any) -> bool:
    """Whether ``x`` is of the stager itself."""
    return (x if isinstance(x, type) else type(x)).__module__.startswith("gradsmith.frontend")


class _Maker(Operands):
    """How to make what the user finds: objects from outside are themselves, one new object stays one object."""

    def __init__(self, stage: Stage, outside: _Outside):
        super().__init__(stage)
        self._outside = outside
        self._makers: dict[int, Make] = {}

    def content(self, slot: Slot, now: Any) -> Make:
        """What ``slot`` holds after the call."""
        if now is MISSING:
            return _nothing
        if slot.kind == "list" and not is_grown(now):
            items = [self.make(y) for y in now]
            return lambda results: [item(results) for item in items]
        return self._optional(now) if isinstance(now, Maybe) else self.make(now)

    def _optional(self, now: Maybe) -> Make:
        defined = self.make(now.defined)
        value = self._optional(now.value) if isinstance(now.value, Maybe) else self.make(now.value)
        return lambda results: value(results) if defined(results) else _AS_IT_WAS

    def make(self, x: Any) -> Make:
        if isinstance(x, Array) and x.cell.merged:
            raise NotSpecialised("keeping an array outside of the call that is one from outside on some paths only")
        if not isinstance(x, Array) or x.views:
            return super().make(x)
        return self._from_outside(x.cell) or self._one(x.cell, super().make(x))

    def _container(self, x: Any) -> Make:
        if known := self._from_outside(x) or self._makers.get(id(x)):
            return known
        if type(x) is list:
            return self._new(x, list, x, lambda new, items: new.extend(items))
        if type(x) is dict:
            return self._new(x, dict, x.values(), lambda new, items: new.update(zip(x, items, strict=True)))
        if isinstance(x, tuple | BaseException):
            return super()._container(x)
        return self._object(x) if _is_own(x) or self.stage.heap.birth(x) else lambda results: x

    def _object(self, x: Any) -> Make:
        """An object that the call has made."""
        if _is_own(x):
            raise UnsupportedCode("keeping a function, class or iterator that the call makes outside of it")
        names = list(attribute_names(x))
        if not names and not contains_symbolic(x):
            return self._one(x, lambda results: copy.copy(x))
        if not names or isinstance(x, type | types.FunctionType):
            raise UnsupportedCode(f"keeping a {type(x).__name__} of run-time numbers outside of the call")

        def fill(new: Any, parts: Sequence[Any]) -> None:
            for name, part in zip(names, parts, strict=True):
                Slot("attr", new, name).put(part)

        return self._new(x, lambda: object.__new__(type(x)), [getattr(x, name) for name in names], fill)

    def _new(self, x: Any, create: Callable[[], Any], parts: Iterable[Any], fill: Callable[[Any, Any], None]) -> Make:
        """A new object each call, which its own parts may refer to."""
        makers: list[Make] = []

        def make(results: Any) -> Any:
            if id(x) not in results.made:
                results.made[id(x)] = new = create()
                fill(new, [part(results) for part in makers])
            return results.made[id(x)]

        self._makers[id(x)] = make
        makers += [self.make(y) for y in parts]
        return make

    def _one(self, x: Any, create: Make) -> Make:
        """One and the same object wherever ``x`` is kept."""

        def make(results: Any) -> Any:
            if id(x) not in results.made:
                results.made[id(x)] = create(results)
            return results.made[id(x)]

        return make

    def _from_outside(self, x: Any) -> Make | None:
        reach = self._outside.reach.get(id(x))
        return reach and (lambda results: reach(results.arguments))  # type: ignore[attr-defined]
