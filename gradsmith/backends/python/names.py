"""Python variables for the values of a Program: the user's names, used again when the old value is dead."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Collection
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
    """The variables in use at the current place: which value each holds."""

    def __init__(self, reserved: set[str]):
        self.variable: dict[Value, str] = {}
        self.holder: dict[str, Value | None] = dict.fromkeys(reserved)  # None: never free
        self._used: dict[str, Type] = {}

    def snapshot(self) -> dict[str, Value | None]:
        """The state of the variables, to :meth:`restore` after a region."""
        return dict(self.holder)

    def restore(self, state: dict[str, Value | None]) -> None:
        self.holder = state

    def assign(self, value: Value, alive: Callable[[Value], bool], prefer: str = "") -> str:
        """A variable that holds ``value`` from now on; see :meth:`choose`."""
        return self.hold(self.choose(value, alive, prefer), value)

    def choose(
        self, value: Value, alive: Callable[[Value], bool], prefer: str = "", avoid: Collection[str] = ()
    ) -> str:
        """A variable for ``value``: ``prefer``, else its name, else a fresh one; free if what it holds is dead."""
        base = identifier(value.name)
        temporaries = (f"t{k}" for k in count() if self._memory(f"t{k}", value))
        numbered = (f"{base}_{k}" for k in count(1)) if base else temporaries
        candidates = chain(filter(None, (prefer, base)), numbered)
        return next(c for c in candidates if c not in avoid and self._free(c, alive))

    def _memory(self, name: str, value: Value) -> bool:
        """Whether ``value`` may take a temporary: a new one, or to free memory that of an array of its type."""
        return name not in self._used or (value.type == self._used[name] and getattr(value.type, "ndim", 0) > 0)

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
