"""Nested arguments and results ↔ flat lists of leaves (by optree).

Tuples, lists, dicts (and classes made from them), named tuples and dataclasses are structure, and so are plain objects that
hold numbers or arrays: a model, its list of layers. Whatever else is a leaf. An object that is reached again, by another
way or from within itself (a parent pointer), is the same object in what is made of the structure.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import optree

_NAMESPACE = "gradsmith"
#: registered classes of objects: the names of their fields, or None if instances consist of the attributes they have
fields: dict[type, list[str] | None] = {}
#: registered classes made from list, tuple or dict
containers: set[type] = set()

# a dict is iterated in the order of its keys, so that is part of its structure; the manager must live to stay in force
_ordered = optree.dict_insertion_ordered(True, namespace=_NAMESPACE)
_ordered.__enter__()

Tree = optree.PyTreeSpec
_T = TypeVar("_T")


def flatten(x: Any) -> tuple[list[Any], Tree]:
    """The leaves of ``x``, and the structure they came from. None is structure, not a leaf."""
    return _flatten(x)[:2]


def _flatten(x: Any) -> tuple[list[Any], Tree, dict[int, int]]:
    """The leaves, the structure, and numbers for the objects that occur several times."""
    while True:
        several: dict[int, int] = {}
        leaves, tree = _walk(several, optree.tree_flatten, x, namespace=_NAMESPACE)
        new = {type(leaf): leaf for leaf in leaves if type(leaf) not in ATOMS and _is_structure(leaf)}
        for cls, leaf in new.items():
            _register(cls, leaf)
        if not new:
            if several:
                leaves, tree = _walk(several, optree.tree_flatten, x, namespace=_NAMESPACE)
            return leaves, tree, several


def flatten_up_to(tree: Tree, x: Any) -> list[Any]:
    """What ``x``, which begins with the structure ``tree``, has in place of its leaves; ValueError if it does not."""
    leaves, structure, several = _flatten(x)
    if structure == tree:
        return leaves
    if not several:
        try:
            return _walk({}, tree.flatten_up_to, x)
        except ValueError:
            pass  # said more clearly below
    return list(_up_to(tree, x, "", set()))


def _up_to(node: Tree, x: Any, path: str, met: set[int]) -> Iterator[Any]:
    """:func:`flatten_up_to`, in order; ``path`` is the way to ``x``."""
    cls: Any = node.type
    if node.kind == optree.PyTreeKind.LEAF:
        yield x
        return
    where = f" at {path}" if path else ""
    if x is not None if cls is None else type(x) is not cls:
        found_type = "a number or an array" if type(x) in _NUMBERS else type(x).__name__
        raise ValueError(f"{'None' if cls is None else cls.__name__}{where} expected, not {found_type}")
    is_object = cls in fields
    found = {} if id(x) in met else parts(x) or {}
    if is_object or cls in containers:
        met.add(id(x))
    entries = node.entries()
    if found.keys() != set(entries):
        raise ValueError(f"{cls.__name__}{where} with {list(entries)} expected, not with {list(found)}")
    for child, entry in zip(node.children(), entries, strict=True):
        yield from _up_to(child, found[entry], f"{path}.{entry}" if is_object else f"{path}[{entry!r}]", met)


def unflatten(tree: Tree, leaves: Iterable[Any]) -> Any:
    """The structure ``tree`` with ``leaves``; objects and dataclasses are made without running their ``__init__``."""
    outer, _visit.made = _visit.made, {}
    try:
        return optree.tree_unflatten(tree, leaves)
    finally:
        _visit.made = outer


def accessors(x: Any) -> list[optree.PyTreeAccessor]:
    """For each leaf of ``x`` the way to it."""
    return _walk(_flatten(x)[2], optree.tree_accessors, x, namespace=_NAMESPACE)


def paths(x: Any) -> list[str]:
    """For each leaf of ``x`` how Python code reaches it: ``""`` for a leaf itself, else ``"[0]['w']"``."""
    return [accessor.codify("") for accessor in accessors(x)]


def is_leaf(tree: Tree) -> bool:
    """Whether the structure is a single leaf."""
    return optree.treespec_is_leaf(tree)


class _Visit(threading.local):
    """The objects that this thread has met on a walk over a value, or made on the way back."""

    met: dict[int, Any] = {}
    several: dict[int, int] = {}  # those met again, numbered
    made: dict[int, Any] = {}  # by number


_visit = _Visit()


def _walk(several: dict[int, int], walk: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """``walk(*args, **kwargs)``, on which objects met again are noted in ``several``, and known if they are in it."""
    outer = _visit.met, _visit.several
    _visit.met, _visit.several = {}, several
    try:
        return walk(*args, **kwargs)
    finally:
        _visit.met, _visit.several = outer


#: classes whose instances are leaves without a closer look
ATOMS = {float, int, bool, complex, str, bytes, np.ndarray, np.float64, np.float32, np.int64, types.FunctionType}
_OPAQUE = frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "gradsmith", "optree", "builtins"}


def _opaque(cls: type) -> bool:
    return cls.__module__.split(".")[0] in _OPAQUE and cls is not types.SimpleNamespace


def _is_structure(x: Any) -> bool:
    """Whether a leaf of optree's is structure here: a dataclass, or an object of a user's class that holds numbers."""
    cls: Any = type(x)
    if cls in fields or cls in containers:
        return False
    if dataclasses.is_dataclass(cls):
        return True
    if isinstance(x, type) or _opaque(cls) or (isinstance(x, list | tuple | dict) and not _is_container(x)):
        return False
    return cls.__reduce_ex__ is object.__reduce_ex__ and _holds_numbers(x, set())


def is_object(x: Any) -> bool:
    """Whether ``x`` is structure that consists of its attributes, also when no such object was met before."""
    cls = type(x)
    if cls not in fields and cls not in ATOMS and _is_structure(x):
        _register(cls, x)
    return cls in fields


#: classes of numbers; those that stand for numbers while a function is staged join in
_NUMBERS: list[type] = [float, complex, np.inexact]


def count_as_numbers(*classes: type) -> None:
    """Let objects that hold instances of ``classes`` be structure."""
    _NUMBERS.extend(classes)


def _holds_numbers(x: Any, seen: set[int]) -> bool:
    if isinstance(x, tuple(_NUMBERS)) or (isinstance(x, np.ndarray) and x.dtype.kind in "fc"):
        return True
    if type(x) in ATOMS or x is None or isinstance(x, type) or id(x) in seen:
        return False
    seen.add(id(x))
    if isinstance(x, dict):
        return any(_holds_numbers(y, seen) for y in x.values())
    if isinstance(x, list | tuple):
        return any(_holds_numbers(y, seen) for y in x)
    return not _opaque(type(x)) and any(_holds_numbers(y, seen) for y in _attributes(x).values())


# ---- objects --------------------------------------------------------------------------------------------------------


def own_dict(x: Any) -> dict[str, Any]:
    """The ``__dict__`` of an object, empty if it has none; without asking its class's ``__getattribute__``."""
    if isinstance(x, threading.local):
        return x.__dict__  # of this thread
    try:
        return object.__getattribute__(x, "__dict__")
    except AttributeError:
        return {}


@functools.cache
def _slots(cls: Any) -> dict[str, types.MemberDescriptorType]:
    found = [(name, member) for c in reversed(cls.__mro__) if not _opaque(c) for name, member in vars(c).items()]
    members = {name: member for name, member in found if isinstance(member, types.MemberDescriptorType)}
    return {name: member for name, member in members.items() if name != "__dict__"}


@functools.cache
def _derived(cls: Any) -> frozenset[str]:
    """Attributes that are computed from the others."""
    found = [(name, x) for c in reversed(cls.__mro__) for name, x in vars(c).items()]
    return frozenset(name for name, x in dict(found).items() if isinstance(x, functools.cached_property))


def _attributes(x: Any) -> dict[str, Any]:
    """What an object consists of: its slots that are set, and its ``__dict__``."""
    cls: Any = type(x)
    out = {name: getattr(x, name) for name in fields.get(cls) or () if hasattr(x, name)}
    for name, member in _slots(cls).items():
        try:
            out.setdefault(name, member.__get__(x))
        except AttributeError:
            continue
    derived = _derived(cls)
    for name, value in own_dict(x).items():
        if name not in derived:
            out.setdefault(name, value)
    return out


def parts(x: Any) -> dict[Any, Any] | None:
    """The parts of ``x``, one level down, by attribute, key or index; None for a leaf."""
    structure = _flatten(x)[1]
    if structure.kind == optree.PyTreeKind.LEAF:
        return None
    if type(x) in fields or type(x) in containers:
        return _parts(x)
    children, _, entries, _ = optree.tree_flatten_one_level(x, namespace=_NAMESPACE)
    return dict(zip(entries, children, strict=True))


def _parts(x: Any) -> dict[Any, Any]:
    return _items(x) if type(x) in containers else _attributes(x)


def is_regular(node: Tree) -> bool:
    """Whether the parts of an object are the fields of its dataclass, or the entries of its ``__dict__``."""
    names, entries = fields[node.type], node.entries()  # type: ignore[index]
    if not entries:
        return False  # perhaps met before
    return not _slots(node.type) if names is None else names == entries  # type: ignore[arg-type]


def new(cls: type) -> Callable[[], Any]:
    """A function that makes an empty instance of ``cls`` without running its ``__init__``."""
    return functools.partial(_builtin_base(cls).__new__, cls)


def _builtin_base(cls: type) -> Any:
    return next(c for c in cls.__mro__ if not c.__flags__ & _MADE_BY_PYTHON)


_MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def _is_container(x: Any) -> bool:
    """Whether an instance of a class made from list, tuple or dict consists of its items."""
    cls: Any = type(x)
    own = own_dict(x)
    fits = _builtin_base(cls) in (list, tuple, dict, OrderedDict) and not hasattr(cls, "_fields")
    return fits and not _slots(cls) and (not own or own is x)


def _items(x: Any) -> dict[Any, Any]:
    base = _builtin_base(type(x))
    return dict(base.items(x)) if isinstance(x, dict) else dict(enumerate(base.__iter__(x)))


#: what optree keeps of an object: its number if it occurs several times, the names of its parts (None if it was met
#: before), and whether it is a dict whose items are its attributes
_Mark = tuple[int | None, tuple[Any, ...] | None, bool]


def _register(cls: type, instance: Any) -> None:
    """Make instances of ``cls`` structure."""
    is_container = isinstance(instance, list | tuple | dict) and not dataclasses.is_dataclass(cls)
    fill = _fill_container if is_container else _fill_object
    once = issubclass(cls, tuple)  # a tuple has no identity to speak of
    empty = new(cls)

    def split(x: Any) -> tuple[Iterable[Any], _Mark, tuple[Any, ...]]:
        met, several = _visit.met, _visit.several
        if id(x) in met and not once:
            return (), (several.setdefault(id(x), len(several)), None, False), ()
        met[id(x)] = x
        found = _parts(x)
        return found.values(), (several.get(id(x)), tuple(found), is_container and bool(own_dict(x))), tuple(found)

    def join(mark: _Mark, children: Sequence[Any]) -> Any:
        number, names, is_own_dict = mark
        if once:
            return tuple.__new__(cls, children)
        made = empty() if number is None else _visit.made.get(number)
        if made is None:
            made = _visit.made[number] = empty()  # type: ignore[index]
        if names is not None:
            fill(made, dict(zip(names, children, strict=True)))
        if is_own_dict:
            made.__dict__ = made
        return made

    entry = optree.GetItemEntry if is_container else optree.GetAttrEntry
    optree.register_pytree_node(cls, split, join, path_entry_type=entry, namespace=_NAMESPACE)  # type: ignore[arg-type]
    if is_container:
        containers.add(cls)
    else:
        fields[cls] = [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else None


def _fill_container(new: list[Any] | dict[Any, Any], parts: dict[Any, Any]) -> None:
    base = _builtin_base(type(new))
    if isinstance(new, list):
        base.extend(new, parts.values())
        return
    for key, value in parts.items():
        base.__setitem__(new, key, value)


def _fill_object(new: Any, parts: dict[str, Any]) -> None:
    cls: Any = type(new)
    for name, value in parts.items():
        if is_described(cls, name):
            new.__dict__[name] = value
        else:
            object.__setattr__(new, name, value)


@functools.cache
def is_described(cls: Any, name: str) -> bool:
    """Whether a property or another descriptor, but no slot, guards an attribute that is in the ``__dict__``."""
    found = inspect.getattr_static(cls, name, None)
    return hasattr(type(found), "__set__") and name not in _slots(cls)
