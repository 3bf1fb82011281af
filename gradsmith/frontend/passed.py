"""The lists, dicts and objects that a recorded function gets as arguments: copies with recorded numbers in them.

What the function writes to a copy is written, when it has returned, to what the copy was made from, as staged code would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gradsmith import tree
from gradsmith.frontend.heap import MISSING, Heap, Slot
from gradsmith.frontend.values import Recorded, attribute_names, contains_symbolic


class Passed:
    """The copies among some arguments, with what they held at first."""

    def __init__(self, given: Any, copy: Any):
        self._given: dict[int, Any] = {}  # by the id of a copy: what it was made from
        self._copies: list[tuple[Any, dict[Slot, Any]]] = []
        self._pair(given, copy)

    def _pair(self, given: Any, copy: Any) -> None:
        if copy is given or id(copy) in self._given or not _is_structure(copy):
            return
        self._given[id(copy)] = given
        self._copies.append((copy, {slot: slot.get() for slot in _slots(copy)}))
        parts = _parts(copy)
        for key, part in _parts(given).items():
            if key in parts:
                self._pair(part, parts[key])

    def write_back(self, heap: Heap, unwrap: Callable[[Any], Any]) -> None:
        """Write the changes; ``unwrap`` gives the front-end value of a recorded one, and of any other leaf."""
        made: dict[int, Any] = {}
        for copy, before in self._copies:
            now = {slot: slot.get() for slot in _slots(copy)}
            kept = [slot for slot in before if slot in now]
            if [*kept, *(slot for slot in now if slot not in before)] != list(now):
                kept = []  # one was deleted and came back, last
            for slot in before:
                if slot not in kept:
                    heap.write(Slot(slot.kind, self._given[id(copy)], slot.key), MISSING)
            for slot, value in now.items():
                if slot not in kept or not _is_same(value, before[slot]):
                    own = Slot(slot.kind, self._given[id(copy)], slot.key)
                    heap.write(own, self._content(value, heap, unwrap, made, own.kind))

    def _content(self, x: Any, heap: Heap, unwrap: Callable[[Any], Any], made: dict[int, Any], kind: str) -> Any:
        """What a slot holds, with front-end values in it: one object for each that the function has made."""

        def converted(x: Any) -> Any:
            if id(x) in self._given:
                return self._given[id(x)]
            if id(x) in made:
                return made[id(x)]
            if not _is_structure(x) or not (contains_symbolic(x) or type(x) in (list, tuple, dict)):
                return unwrap(x)
            if isinstance(x, tuple):
                return type(x)(*map(converted, x)) if hasattr(x, "_fields") else tuple(map(converted, x))
            new = made[id(x)] = heap.born(object.__new__(type(x)) if type(x) in tree.fields else type(x)())
            for slot in _slots(x):
                value = slot.get()
                items = map(converted, value) if slot.kind == "list" else None
                Slot(slot.kind, new, slot.key).put(converted(value) if items is None else list(items))
            return new

        return [converted(y) for y in x] if kind == "list" else converted(x)


def _is_structure(x: Any) -> bool:
    return isinstance(x, list | tuple | dict) or (not isinstance(x, Recorded) and tree.is_object(x))


def _slots(x: Any) -> Iterator[Slot]:
    """The places in a container or an object that can be written to."""
    if isinstance(x, dict):
        yield from (Slot("key", x, key) for key in x)
    elif isinstance(x, list):
        yield Slot("list", x)
    elif not isinstance(x, tuple):
        yield from (Slot("attr", x, name) for name in attribute_names(x))


def _parts(x: Any) -> dict[Any, Any]:
    if isinstance(x, list | tuple):
        return dict(enumerate(x))
    return x if isinstance(x, dict) else {slot.key: slot.get() for slot in _slots(x)}


def _is_same(x: Any, y: Any) -> bool:
    """Whether a slot still holds the very same."""
    if isinstance(x, list) and isinstance(y, list):  # the items of a list, or a list
        return x is y or (len(x) == len(y) and all(a is b for a, b in zip(x, y, strict=True)))
    return x is y
