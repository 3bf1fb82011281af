"""After a recording: what the user's objects still hold of it becomes ordinary numbers and arrays, as Python would have left.

Objects that can be changed (lists, dicts, attributes, closures, arguments of exceptions) get the number or array itself. What
else holds a recorded value (a generator that waits, a frame of a traceback, a cache of compiled code) keeps the object, which
turns into a :class:`Settled` one: it does all that the number or array does, and no longer belongs to a recording.
"""

from __future__ import annotations

import collections
import copy
import gc
import operator
import types
from collections.abc import Callable, Iterable
from contextlib import suppress
from sys import getrefcount
from typing import Any

import numpy as np

#: by the id of a recorded object, or of a tuple with one in it: what stands in its place from now on
Plain = dict[int, Any]


class Slots:
    """Where recorded and settled objects keep what they stand for."""

    __slots__ = ("_recorded", "_scope")

    _recorded: Any
    _scope: Any


class Settled(Slots):
    """A recorded number or array after its recording: everything goes to the number or array that it was."""

    __slots__ = ()

    @property
    def __class__(self) -> type:
        return type(self._recorded)

    @__class__.setter
    def __class__(self, cls: type) -> None:
        raise TypeError("the class of a recorded value cannot be changed")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorded, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._recorded, name, value)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return operator.pos, (self._recorded,)

    def __copy__(self) -> Any:
        return copy.copy(self._recorded)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self._recorded, memo)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self._recorded, dtype, copy=copy)


def _delegate(name: str, operator: bool) -> Callable[..., Any]:
    def method(self: Settled, *args: Any) -> Any:
        found = getattr(self._recorded, name, None)
        if found is None and not operator:
            raise TypeError(f"{type(self._recorded).__name__!r} object has no {name}")
        return found(*map(plain, args)) if found is not None else NotImplemented

    return method


def plain(x: Any) -> Any:
    """The number or array of a settled object; others as they are."""
    return x._recorded if type(x) is Settled else x


_BINARY = "add sub mul truediv floordiv mod pow matmul divmod and or xor lshift rshift".split()
_OPERATORS = [*_BINARY, *(f"r{name}" for name in _BINARY), *(f"i{name}" for name in _BINARY if name != "divmod")]
_COMPARISONS = "lt le gt ge eq ne".split()
_OTHERS = "neg pos abs invert round floor ceil trunc bool int float complex index hash repr str format".split()
for _names, _operator in (
    (_OPERATORS + _COMPARISONS, True),
    (_OTHERS + "len iter contains getitem setitem".split(), False),
):
    for _name in _names:
        setattr(Settled, f"__{_name}__", _delegate(f"__{_name}__", _operator))


def alive(made: list[Any]) -> list[Any]:
    """Those of the recorded objects that something else than this list refers to."""
    return [x for x in made if getrefcount(x) > 3]  # the list, the loop, the argument


def settle(objects: list[Any], value: Callable[[Any], Any], near: Iterable[Any], sure: bool) -> bool:
    """Put ordinary numbers and arrays in place of recorded ``objects``.

    Args:
        value: gives the number or array; None where there is none, and the object stays.
        near: what is likely to hold objects.
        sure: find out which objects are only held by garbage.

    Returns:
        Whether something that lives holds an object.
    """
    plain = {id(x): value(x) for x in objects}
    plain = {key: found for key, found in plain.items() if found is not None}
    for holder in near:
        _replace(holder, plain)
    left = alive(objects)
    kept = len(left) < len(objects)
    if left and sure and not kept:
        del left
        gc.collect()
        left = alive(objects)
        kept = bool(left)
    if left:
        del left
        _replace_everywhere(objects, plain)
        for x in alive(objects):
            if id(x) in plain:
                _RECORDED.__set__(x, plain[id(x)])
                _CLASS.__set__(x, Settled)
    return kept


_RECORDED = Slots.__dict__["_recorded"]
_CLASS = object.__dict__["__class__"]
_MAX_NESTING = 20


def _replace_everywhere(objects: list[Any], plain: Plain) -> None:
    """Replace the objects wherever the garbage collector finds them; tuples that hold them are made anew."""
    own = [objects]
    for _ in range(_MAX_NESTING):
        tuples = []
        for holder in gc.get_referrers(*objects):
            if any(holder is x for x in own) or isinstance(holder, types.FrameType):
                continue
            if isinstance(holder, tuple | frozenset):
                new = _rebuilt(holder, plain)
                if new is not None:
                    plain[id(holder)] = new
                    tuples.append(holder)
            elif type(holder) is dict and holder.keys() >= {"__module__", "__doc__"}:
                _replace_in_class(holder, plain)
            else:
                _replace(holder, plain)
        if not tuples:
            return
        objects = tuples
        own.append(tuples)


def _rebuilt(x: Any, plain: Plain) -> Any:
    items = [plain.get(id(y), y) for y in x]
    if type(x) in (tuple, frozenset):
        return type(x)(items)
    return type(x)(*items) if hasattr(x, "_fields") else None


def _replace(holder: Any, plain: Plain) -> None:
    """Replace what ``holder`` holds itself, whatever its class makes of being written to."""
    kind = type(holder)
    if issubclass(kind, list):
        for k, y in enumerate(list.__iter__(holder)):
            if id(y) in plain:
                list.__setitem__(holder, k, plain[id(y)])
    elif issubclass(kind, collections.deque):
        for k, y in enumerate(list(collections.deque.__iter__(holder))):
            if id(y) in plain:
                collections.deque.__setitem__(holder, k, plain[id(y)])
    elif issubclass(kind, dict):
        _replace_in_dict(holder, plain)
    elif issubclass(kind, set):
        for y in [y for y in set.__iter__(holder) if id(y) in plain]:
            set.remove(holder, y)
            set.add(holder, plain[id(y)])
    elif kind is types.CellType:
        with suppress(ValueError):  # not assigned yet
            if id(holder.cell_contents) in plain:
                holder.cell_contents = plain[id(holder.cell_contents)]
    elif issubclass(kind, BaseException) and id(holder.args) in plain:
        holder.args = plain[id(holder.args)]
    if not issubclass(kind, tuple | frozenset | types.ModuleType | types.FrameType | type):
        _replace_attributes(holder, plain)


def _replace_in_class(attributes: dict[str, Any], plain: Plain) -> None:
    """Replace attributes of a class, whose dict must not be written to behind its back."""
    for cls in gc.get_referrers(attributes):
        if isinstance(cls, type):
            for name, y in list(attributes.items()):
                if id(y) in plain:
                    setattr(cls, name, plain[id(y)])


def _replace_in_dict(holder: dict[Any, Any], plain: Plain) -> None:
    items = list(dict.items(holder))
    if any(id(k) in plain for k, _ in items):
        dict.clear(holder)
        for k, y in items:
            dict.__setitem__(holder, plain.get(id(k), k), plain.get(id(y), y))
        return
    for k, y in items:
        if id(y) in plain:
            dict.__setitem__(holder, k, plain[id(y)])


def _replace_attributes(holder: Any, plain: Plain) -> None:
    kind = type(holder)
    if kind.__dictoffset__:
        _replace_in_dict(object.__getattribute__(holder, "__dict__"), plain)
    for cls in kind.__mro__:
        for slot in vars(cls).values():
            if type(slot) is types.MemberDescriptorType:
                with suppress(AttributeError, TypeError):  # it is empty, or compiled code does not let it be written
                    if id(found := slot.__get__(holder)) in plain:
                        slot.__set__(holder, plain[id(found)])
