"""The journal of heap writes: what lets the stager take back one branch, stage the other, and know what a loop carries."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterable
from typing import Any

from gradsmith import tree
from gradsmith.frontend.values import Cell, next_birth, share


class Missing:
    """Marks a slot that holds nothing: an unassigned name, an absent key or attribute."""

    def __repr__(self) -> str:
        return "<nothing>"

    def __deepcopy__(self, memo: object) -> Missing:
        return self


MISSING = Missing()
_BEFORE = -1  # older than everything that is made during staging
_SLOT = types.MemberDescriptorType | types.GetSetDescriptorType


class Slot:
    """One place on the heap: kind "key" (an item of a dict), "attr", "cell" (an array's contents) or "list" (all
    items of a list or deque)."""

    __slots__ = ("kind", "owner", "key")

    def __init__(self, kind: str, owner: Any, key: Any = None):
        self.kind = kind
        self.owner = owner
        self.key = key

    def __hash__(self) -> int:
        return hash((self.kind, id(self.owner), self.key))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Slot) and self.kind == other.kind and self.owner is other.owner and self.key == other.key
        )

    def get(self) -> Any:
        """What the slot holds now, or MISSING."""
        if self.kind == "key":
            return self.owner.get(self.key, MISSING)
        if self.kind == "attr":
            own = tree.own_dict(self.owner)
            if self.key in own:
                return own[self.key]
            slot = None if isinstance(self.owner, type) else getattr(type(self.owner), self.key, None)
            if not isinstance(slot, _SLOT):
                return MISSING
            try:
                return slot.__get__(self.owner)
            except AttributeError:
                return MISSING
        if self.kind == "cell":
            return self.owner.value
        return list(self.owner)

    def put(self, value: Any) -> None:
        """Write without a journal entry."""
        if self.kind == "key":
            if value is MISSING:
                self.owner.pop(self.key, None)
            else:
                self.owner[self.key] = value
        elif self.kind == "attr":
            if isinstance(self.owner, type):
                type.__delattr__(self.owner, self.key) if value is MISSING else type.__setattr__(
                    self.owner, self.key, value
                )
            elif type(self.owner).__dictoffset__ and not isinstance(getattr(type(self.owner), self.key, None), _SLOT):
                own = tree.own_dict(self.owner)
                own.pop(self.key, None) if value is MISSING else own.__setitem__(self.key, value)
            elif value is MISSING:
                object.__delattr__(self.owner, self.key)
            else:
                object.__setattr__(self.owner, self.key, value)
        elif self.kind == "cell":
            self.owner.value = value
        elif isinstance(self.owner, list):
            self.owner[:] = value
        else:
            self.owner.clear()
            self.owner.extend(value)

    @property
    def grows(self) -> bool:
        """Whether it may hold the items of a list that grows in a loop of the Program."""
        return self.kind == "list" and isinstance(self.owner, list)

    def __repr__(self) -> str:
        if self.kind == "key" and isinstance(self.key, str):
            return f"'{self.key}'"
        return {"attr": f"attribute '{self.key}'", "cell": "an array", "list": "a list"}.get(
            self.kind, f"key {self.key!r}"
        )


class Heap:
    """Journalled writes. ``mark`` and ``rollback`` bracket what may have to be taken back."""

    def __init__(self) -> None:
        self.journal: list[tuple[Slot, Any]] = []
        self._writes: Counter[Slot] = Counter()  # how many entries of the journal a slot has
        self._stand_ins: list[tuple[Slot, Any]] = []  # places from outside that hold stand-ins, with what belongs there
        self.changes_given = False  # a list or dict from before staging was written, also where that was taken back
        self._scopes: set[int] = set()  # dicts of variables
        self._orders: dict[int, list[Any]] = {}  # by place in the journal: the keys of a dict before it lost one
        self._births: dict[int, tuple[int, Any]] = {}  # the object is kept so that its id stays its own

    def write(self, slot: Slot, value: Any) -> None:
        """Put ``value`` into ``slot`` and remember what was there."""
        old = slot.get()
        if value is MISSING and old is not MISSING and (held := self._ordered(slot)) is not None:
            self._orders[len(self.journal)] = list(held)
        self.journal.append((slot, old))
        self._writes[slot] += 1
        slot.put(value)
        if slot.kind != "cell" and id(slot.owner) not in self._scopes:
            share(value)
            if slot.kind != "attr" and self.birth(slot.owner) <= 0:
                self.changes_given = True

    def born(self, x: Any) -> Any:
        """Register a container made during staging; returns it."""
        self._births[id(x)] = (next_birth(), x)
        return x

    def own_attributes(self, x: Any) -> dict[str, Any]:
        """The ``__dict__`` of an object, which is as old as the object."""
        own = tree.own_dict(x)
        if id(x) in self._births:
            self._births[id(own)] = (self._births[id(x)][0], own)
        return own

    def stands_in(self, x: Any) -> Any:
        """Register a container that stands for one from outside, wherever it is met first; returns it."""
        self._births[id(x)] = (_BEFORE, x)
        return x

    def scope(self) -> dict[str, Any]:
        """A dict for the variables of a call."""
        variables: dict[str, Any] = self.born({})
        self._scopes.add(id(variables))
        return variables

    def birth(self, x: Any) -> int:
        """Serial number of a container's or cell's creation; 0 for what existed before staging."""
        if isinstance(x, Cell):
            return x.birth
        return self._births.get(id(x), (0, None))[0]

    def mark(self) -> int:
        return len(self.journal)

    def written(self, mark: int) -> dict[Slot, Any]:
        """Slots written since ``mark``, each with its present value."""
        return {slot: slot.get() for slot, _ in self.journal[mark:]}

    def orders(self, mark: int) -> list[tuple[dict[Any, Any], list[Any]]]:
        """The dicts written (and objects that lost an attribute) since ``mark``, each with its keys in their order."""
        entries = enumerate(self.journal[mark:], mark)
        written = [self._ordered(slot) for n, (slot, _) in entries if slot.kind == "key" or n in self._orders]
        return [(x, list(x)) for x in {id(x): x for x in written if x is not None}.values()]

    def _ordered(self, slot: Slot) -> dict[Any, Any] | None:
        """The dict that a slot is an item of (or the ``__dict__`` of the object), but no dict of variables."""
        if slot.kind == "key":
            return None if id(slot.owner) in self._scopes else slot.owner
        if slot.kind == "attr" and not isinstance(slot.owner, type):
            own = tree.own_dict(slot.owner)
            return own if slot.key in own else None
        return None

    def rollback(self, mark: int) -> None:
        """Undo every write since ``mark``."""
        while len(self.journal) > mark:
            slot, old = self.journal.pop()
            self._writes[slot] -= 1
            slot.put(old)
            if (order := self._orders.pop(len(self.journal), None)) is not None:
                held = self._ordered(slot)
                assert held is not None
                restored = {key: held[key] for key in order}
                held.clear()
                held.update(restored)

    def restore(self) -> None:
        """Undo everything: objects from outside are as they were."""
        self.rollback(0)
        while self._stand_ins:
            slot, old = self._stand_ins.pop()
            slot.put(old)

    def stand_in(self, slot: Slot, value: Any) -> None:
        """Let a place from outside hold its stand-in, on every path, until :meth:`restore`."""
        self._stand_ins.append((slot, slot.get()))
        self._writes[slot] += 1
        slot.put(value)

    def assigned(self, slot: Slot) -> bool:
        """Whether what the slot holds now was written during staging."""
        return self._writes[slot] > 0

    def apply(self, writes: Iterable[tuple[Slot, Any]]) -> None:
        for slot, value in writes:
            self.write(slot, value)
