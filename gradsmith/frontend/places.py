"""Places where Python code finds objects: globals, closures, containers, attributes, defaults of parameters."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

ABSENT: Any = object()  # what an empty place holds


class Place:
    """Somewhere that an object is found and may be put: ``name`` (or an index) in ``owner``."""

    __slots__ = ("owner", "kind", "name")

    def __init__(self, owner: Any, kind: str, name: Any):
        self.owner = owner
        self.kind = kind
        self.name = name

    @property
    def key(self) -> tuple[int, str, Any]:
        """Equal for equal places, as long as the owner lives."""
        return id(self.owner), self.kind, self.name

    def get(self) -> Any:
        owner, kind, name = self.owner, self.kind, self.name
        try:
            if kind == "cell":
                return owner.cell_contents
            if kind == "class":
                return vars(owner)[name]
            if kind == "default":
                return owner.__defaults__[name]
            return name.__get__(owner) if kind == "slot" else owner[name]
        except (LookupError, AttributeError, ValueError, TypeError):
            return ABSENT

    def put(self, x: Any) -> None:
        owner, kind, name = self.owner, self.kind, self.name
        if kind == "cell":
            owner.cell_contents = x
        elif kind == "class":
            type.__setattr__(owner, name, x)
        elif kind == "default":
            owner.__defaults__ = (*owner.__defaults__[:name], x, *owner.__defaults__[name + 1 :])
        elif kind == "slot":
            name.__set__(owner, x)
        elif kind == "key" and x is ABSENT:
            dict.pop(owner, name, None)
        else:
            (dict if kind == "key" else list).__setitem__(owner, name, x)

    def adapted(self, new: Any, old: Any) -> Any:
        """``new`` as it must be put here to be found as ``old`` is: a function in a class becomes a method otherwise."""
        if self.kind == "class" and isinstance(new, types.FunctionType) and not isinstance(old, types.FunctionType):
            return staticmethod(new)
        return new


def places_in(x: Any) -> Iterator[Place]:
    """The places of an object that can be written to."""
    if isinstance(x, types.CellType):
        yield Place(x, "cell", None)
    elif isinstance(x, dict):
        yield from [Place(x, "key", name) for name in list(x)]
    elif type(x) is list:
        yield from [Place(x, "item", k) for k in range(len(x))]
    elif isinstance(x, type):
        if x.__flags__ & _HEAP_TYPE:
            yield from [Place(x, "class", name) for name in list(vars(x)) if not name.startswith("__")]
    elif isinstance(x, types.FunctionType):
        yield from [Place(x, "default", k) for k in range(len(x.__defaults__ or ()))]
        yield from places_in(x.__kwdefaults__ or {})
    elif not isinstance(x, types.ModuleType):
        yield from _attributes(x)


_HEAP_TYPE = 1 << 9


def _attributes(x: Any) -> Iterator[Place]:
    if type(x).__dictoffset__:
        attributes = object.__getattribute__(x, "__dict__")
        yield from [Place(attributes, "key", name) for name in list(attributes)]
    for cls in type(x).__mro__:
        for slot in list(vars(cls).values()) if cls.__flags__ & _HEAP_TYPE else ():
            if isinstance(slot, types.MemberDescriptorType):
                yield Place(x, "slot", slot)
