"""Generated code for values of a known structure: takes them apart and puts them together without walking them.

``optree`` finds out what the structure of a value is; most calls have the structure of the call before. For a structure
seen before, a *form* is a few lines of Python made for it alone:

    def read(x):                          def make(a0, a1):
        if type(x) is not Layer:              new = object.__new__(Layer)
            return None                       set_attribute(new, 'W', a0)
        ...                                   ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np
import optree

from gradsmith import tree
from gradsmith.frontend import builtins as staged
from gradsmith.frontend import mapping
from gradsmith.frontend.values import Recorded

Reader = Callable[[Any], "list[Any] | None"]
Maker = Callable[..., Any]

#: structures of more nodes than this are walked: their code would take longer to compile than it ever saves
_LARGEST = 400
_CONTAINERS = (tuple, list, dict)


@functools.lru_cache(maxsize=1024)
def reader(structure: tree.Tree) -> Reader | None:
    """A function from a value to its leaves, or to None if the value has another structure; None if there is none."""
    if not _has_form(structure):
        return None
    return _Reading().function(structure)


def maker(structure: tree.Tree, fixed: Mapping[int, Any], shared: bool = False) -> Maker | None:
    """A function from the leaves that are not ``fixed`` to a value of the structure; None if there is none.

    ``shared``: values may share containers that hold nothing but fixed leaves.
    """
    if not _has_form(structure):
        return None
    return _Making(fixed, shared).function(structure)


def _has_form(structure: tree.Tree) -> bool:
    return structure.num_nodes <= _LARGEST and all(map(_is_plain, _nodes(structure)))


def _nodes(structure: tree.Tree) -> Iterator[tree.Tree]:
    yield structure
    for child in structure.children():
        yield from _nodes(child)


def _is_plain(node: tree.Tree) -> bool:
    if node.kind in (optree.PyTreeKind.LEAF, optree.PyTreeKind.NONE, optree.PyTreeKind.NAMEDTUPLE):
        return True
    if node.type in _CONTAINERS:
        return True
    return node.type in tree.fields and tree.is_regular(node)


_NUMBERS = (int, float, complex, np.ndarray, np.generic, Recorded)
#: by class: the structure of the value of that class that was last mapped over, and its form
_last: dict[type, tuple[tree.Tree, Reader, Maker]] = {}


def _form_of(x: Any) -> tuple[tree.Tree, Reader, Maker]:
    """The structure of ``x`` with functions that read and make values of it."""
    known = _last.get(type(x))
    if known is not None and known[1](x) is not None:
        return known
    structure = tree.flatten(x)[1]
    read, make = reader(structure), maker(structure, {})
    if read is None or make is None or read(x) is None:  # too large to have a form, or its leaves are not plain
        walk = functools.partial(tree.flatten_up_to, structure)
        return structure, walk, lambda *leaves: tree.unflatten(structure, leaves)
    _last[type(x)] = structure, read, make
    return _last[type(x)]


def tree_map(f: Callable[..., Any], x: Any, *others: Any) -> Any:
    """``f`` applied to every number and array in ``x``, with the leaves at the same places in ``others``.

    Args:
        f: takes a leaf of ``x`` and one of each of ``others``.
        x: a number, an array, or containers, dataclasses and plain objects that hold them.
        others: of the structure of ``x``; where one has None (no gradient) the leaf of ``x`` is kept as it is.

    Returns:
        A new object of the structure of ``x``.

    >>> import gradsmith as gs
    >>> gs.tree_map(lambda p, g: p - 0.5 * g, {"w": 2.0, "n": 3}, {"w": 1.0, "n": None})
    {'w': 1.5, 'n': 3}
    """
    structure, read, make = _form_of(x)
    rows = [read(x), *(read(other) or tree.flatten_up_to(structure, other) for other in others)]
    mapped = [
        f(*place) if isinstance(place[0], _NUMBERS) and not _has_none(place) else place[0]
        for place in zip(*rows, strict=True)
    ]
    return make(*mapped)


staged.register(tree_map, mapping.tree_map)


def _has_none(place: tuple[Any, ...]) -> bool:
    for x in place:
        if x is None:
            return True
    return False


class _Code:
    """Lines of a function, and the objects that they refer to by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.objects: dict[str, Any] = {"set_attribute": object.__setattr__}
        self.numbers = count()

    def refer(self, x: Any, prefix: str = "c") -> str:
        name = f"{prefix}{next(self.numbers)}"
        self.objects[name] = x
        return name

    def compiled(self, head: str) -> Any:
        text = "\n    ".join([f"def generated({head}):", *self.lines])
        exec(compile(text, "<gradsmith form>", "exec"), self.objects)
        return self.objects["generated"]


class _Reading(_Code):
    def __init__(self) -> None:
        super().__init__()
        self.met: list[str] = []  # objects

    def function(self, structure: tree.Tree) -> Reader:
        leaves: list[str] = []
        self._read(structure, "x", leaves)
        if len(self.met) > 1:
            self._unless(f"len({{{', '.join(f'id({x})' for x in self.met)}}}) == {len(self.met)}")
        if leaves:
            self.objects["atoms"] = tree.ATOMS
            self._unless(" and ".join(f"type({leaf}) in atoms" for leaf in leaves))
        self.lines.append(f"return [{', '.join(leaves)}]")
        return self.compiled("x")

    def _unless(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def _read(self, node: tree.Tree, x: str, leaves: list[str]) -> None:
        if node.kind == optree.PyTreeKind.LEAF:
            leaves.append(x)
            return
        if node.kind == optree.PyTreeKind.NONE:
            self._unless(f"{x} is None")
            return
        self._unless(f"type({x}) is {self.refer(node.type)}")
        children = [f"x{next(self.numbers)}" for _ in range(node.num_children)]
        targets = "".join(f"{child}, " for child in children)
        if node.type is dict:
            self._read_dict(x, node.entries(), targets)
        elif node.type in tree.fields:
            self._read_object(x, node, children, targets)
        else:
            self._unless(f"len({x}) == {len(children)}")
            if children:
                self.lines.append(f"{targets}= {x}")
        for child, name in zip(node.children(), children, strict=True):
            self._read(child, name, leaves)

    def _read_dict(self, x: str, keys: list[Any], targets: str) -> None:
        self._unless(f"tuple({x}) == {self.refer(tuple(keys))}" if keys else f"not {x}")
        if keys:
            self.lines.append(f"{targets}= {x}.values()")

    def _read_object(self, x: str, node: tree.Tree, children: list[str], targets: str) -> None:
        self.met.append(x)
        names = tree.fields[node.type]  # type: ignore[index]
        if names is None:
            self.lines.append(f"d = {x}.__dict__")
            self._read_dict("d", node.entries(), targets)
        else:
            if hasattr(node.type, "__dict__") and "__dict__" in dir(node.type):
                self._unless(f"len({x}.__dict__) <= {len(names)}")
            self.lines += [f"{child} = {x}.{name}" for child, name in zip(children, names, strict=True)]


class _Making(_Code):
    def __init__(self, fixed: Mapping[int, Any], shared: bool):
        super().__init__()
        self.fixed = fixed
        self.shared = shared
        self.leaf = count()
        self.parameters: list[str] = []

    def function(self, structure: tree.Tree) -> Maker:
        self.lines.append(f"return {self._made(structure)}")
        return self.compiled(", ".join(self.parameters))

    def _made(self, node: tree.Tree) -> str:
        """An expression for the value of a node; objects are made by statements before it."""
        if node.kind == optree.PyTreeKind.LEAF:
            return self._leaf(next(self.leaf))
        if node.kind == optree.PyTreeKind.NONE:
            return "None"
        if self.shared and (constant := self._constant(node)) is not None:
            return constant
        children = [self._made(child) for child in node.children()]
        listed = "".join(f"{child}, " for child in children)
        if node.type is tuple:
            return f"({listed})"
        if node.type is list:
            return f"[{listed}]"
        if node.type is dict:
            return f"{{{', '.join(f'{self.refer(k)}: {v}' for k, v in zip(node.entries(), children, strict=True))}}}"
        cls = self.refer(node.type)
        if node.type not in tree.fields:
            return f"{cls}({listed})"  # a named tuple
        new = f"o{next(self.numbers)}"
        self.lines.append(f"{new} = {self.refer(tree.new(node.type))}()")
        for name, child in zip(node.entries(), children, strict=True):
            described = tree.is_described(node.type, name)  # type: ignore[arg-type]
            put = f"{new}.__dict__[{name!r}] = {child}" if described else f"set_attribute({new}, {name!r}, {child})"
            self.lines.append(put)
        return new

    def _constant(self, node: tree.Tree) -> str | None:
        """A value of the node made once and for all, if all of its leaves are fixed."""
        first = next(self.leaf)
        self.leaf = count(first)
        leaves = range(first, first + node.num_leaves)
        if not all(k in self.fixed for k in leaves):
            return None
        self.leaf = count(first + node.num_leaves)
        return self.refer(tree.unflatten(node, [self.fixed[k] for k in leaves]))

    def _leaf(self, k: int) -> str:
        if k in self.fixed:
            return self.refer(self.fixed[k])
        self.parameters.append(f"a{k}")
        return self.parameters[-1]
