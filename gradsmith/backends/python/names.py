"""Python variables for the values of a Program: the user's names, used again when the old value is dead."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Collection, Iterator
from itertools import chain, count

from gradsmith.ir.program import Value
from gradsmith.ir.types import Type

_RESERVED = {*keyword.kwlist, *dir(builtins), "np", "scipy", "gradsmith"}


def identifier(name: str) -> str:
    """``name`` made a valid Python identifier that hides nothing; '' stays ''."""
    name = re.sub(r"\W+", "_", name).strip("_") if not name.isidentifier() else name
    if name[:1].isdigit():
        return f"v{name}"
    return f"{name}_" if name in _RESERVED or re.fullmatch(r"_c\d+", name) else name


class Names:
    """The variables in use at the current place: which value each holds.

    ``distinct``: a name that is not the user's stands for one thing; else variables are used again, which frees memory.
    ``users``: names that the user gave, which only their values get.
    """

    def __init__(self, reserved: set[str], users: Collection[str] = (), distinct: bool = False):
        self.distinct = distinct
        self._users = set(users)
        self.variable: dict[Value, str] = {}
        self.holder: dict[str, Value | None] = dict.fromkeys(reserved)  # None: never free
        self._used: dict[str, Type] = {}
        self._elements: set[str] = set()  # names such as x_i, which say what they stand for
        self._last: dict[str, int] = {}  # for each description the number of its last temporary

    def snapshot(self) -> dict[str, Value | None]:
        """The state of the variables, to :meth:`restore` after a region."""
        return dict(self.holder)

    def restore(self, state: dict[str, Value | None]) -> None:
        self.holder = state

    def assign(
        self,
        value: Value,
        alive: Callable[[Value], bool],
        prefer: str = "",
        described: str = "",
        element: bool = False,
    ) -> str:
        """A variable that holds ``value`` from now on; see :meth:`choose`."""
        return self.hold(self.choose(value, alive, prefer, described=described, element=element), value)

    def reserve(self, name: str) -> None:
        """Never give ``name`` to another value."""
        self.holder[name] = None

    def choose(
        self,
        value: Value,
        alive: Callable[[Value], bool],
        prefer: str = "",
        avoid: Collection[str] = (),
        described: str = "",
        element: bool = False,
    ) -> str:
        """A variable for ``value``: ``prefer``, else its name, else what it is ``described`` as.

        It is one that is not in use, or that holds a value that is dead. ``element``: the description says what it is.
        """
        base = identifier(value.name) or ("" if described else prefer)
        own = identifier(described) or "value"
        if element:
            self._elements.add(own)
        candidates: Iterator[str] = filter(None, (prefer, base))
        if base:
            candidates = chain(candidates, (f"{base}_{k}" for k in count(1)))
        else:
            candidates = chain(candidates, self._temporaries(own, value))
        return next(c for c in candidates if c not in avoid and self._free(c, alive))

    def _temporaries(self, own: str, value: Value) -> Iterator[str]:
        """``own``, ``own_1``, …: those that ``value`` may take."""
        again = own in self._elements if self.distinct else getattr(value.type, "ndim", 0) > 0
        first = 0 if again else self._last.get(own, -1) + 1  # a new one each time: go on after the last
        for k in count(first):
            name = f"{own}_{k}" if k else own
            if self._may_take(name, value):
                self._last[own] = max(k, self._last.get(own, -1))
                yield name

    def _may_take(self, name: str, value: Value) -> bool:
        """Whether ``value`` may take a temporary: a new one, or to free memory that of an array of its type."""
        if name in self._users:
            return False
        if name not in self._used:
            return True
        if self.distinct:
            return name in self._elements
        return value.type == self._used[name] and getattr(value.type, "ndim", 0) > 0

    def hold(self, name: str, value: Value) -> str:
        """``name`` now holds ``value``."""
        self.holder[name] = value
        self._used[name] = value.type
        self.variable[value] = name
        return name

    def _free(self, name: str, alive: Callable[[Value], bool]) -> bool:
        if name not in self.holder:
            return True
        holder = self.holder[name]
        return holder is not None and not alive(holder)
