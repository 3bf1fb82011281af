"""How shown source takes its arguments and returns its result: as the function that it was made from, in the user's types."""

from __future__ import annotations

import ast
import os
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.backends.python.names import identifier
from gradsmith.ir.program import Program
from gradsmith.results import Result

LIKE = '''
def like(kind, **fields):
    """An object of a class, with these attributes; its ``__init__`` is not run."""
    new = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(new, name, value)
    return new
'''


@dataclass
class Interface:
    """The signature of shown source and its result."""

    parameters: list[str]  # with defaults, as they stand in the signature
    places: list[str]  # for every input of the Program the expression that reads it from the parameters
    result: Callable[[Sequence[str]], str]  # what is returned, given the texts of the parts of the result
    parts: int  # how many of the Program's results are parts of the result; after them:
    written: list[str]  # the arrays that take the next of the Program's results
    about: list[str]  # the lines of the docstring
    imports: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)

    @property
    def roots(self) -> list[str]:
        """The names of the parameters."""
        return [re.split(r"\W", p.lstrip("*"))[0] for p in self.parameters if p != "*"]


@dataclass(eq=False)
class Outside:
    """What a function reads from outside: where, and what it is now."""

    place: str
    value: Any


def interface(
    program: Program,
    arguments: tuple[Sequence[Any], dict[str, Any]],
    dynamic: Sequence[int],
    parameters: Sequence[str],
    outside: Sequence[Outside],
    result: Result,
    written: Sequence[int | Outside],
    about: str,
) -> Interface:
    """The interface of a Program whose inputs are the leaves ``dynamic`` of ``arguments`` (args, kwargs), then ``outside``.

    ``parameters``: the names of positional parameters. ``written``: the leaves, and arrays outside, that the last results
    are written to. ``about``: what the function is, in a line.
    """
    leaves = [_place(path, parameters) for path in tree.paths(arguments)]
    names = [_name(k, parameters) for k in range(len(arguments[0]))] + [identifier(k) for k in arguments[1]]
    outer = _outer(outside, names)
    signature = [*dict.fromkeys(p for p, _ in outer if p == "self"), *names]
    signature += [p for p, _ in outer if "=" in p and _root(p) in parameters]
    keywords = dict.fromkeys(p for p, _ in outer if p not in signature)
    signature += ["*", *keywords] if keywords else []
    new = Interface(
        signature,
        [leaves[k] for k in dynamic] + [place for _, place in outer],
        lambda texts: "",
        len(result.symbolic),
        [leaves[w] if isinstance(w, int) else outer[outside.index(w)][1] for w in written],
        [about, *_fixed(arguments, leaves, dynamic)],
    )
    built = _Built(new, arguments, parameters)
    new.result = lambda texts: built.text(result, texts)
    return new


def described(kind: str, function: Any, wrt: Sequence[int | str] | None, parameters: Sequence[str]) -> str:
    """One line on a function made from another: ``The gradient of loss (model.py:12) with respect to w.``"""
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    where = f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code is not None else ""
    what = f"{_KINDS.get(kind, kind.replace('_', ' ').capitalize() + ' of')} {'a lambda' if name == '<lambda>' else name}{where}"
    if not wrt:
        return f"{what}."
    wanted = [parameters[k] if isinstance(k, int) and -len(parameters) <= k < len(parameters) else str(k) for k in wrt]
    return f"{what} with respect to {' and '.join(filter(None, [', '.join(wanted[:-1]), wanted[-1]]))}."


_KINDS = {
    **{"grad": "The gradient of", "value_and_grad": "The value and the gradient of", "jit": "The same as"},
    **{"jacobian": "The Jacobian of", "hessian": "The Hessian of", "derivative": "The derivative of"},
    **{"hvp": "The product of the Hessian and a vector for", "vmap": "Along an axis:"},
}


def _place(path: str, parameters: Sequence[str]) -> str:
    """The expression for a leaf of (args, kwargs) whose path is ``path``."""
    found = re.match(r"\[([01])\]\[(.*?)\](.*)", path, re.DOTALL)
    assert found is not None
    name = _name(int(found[2]), parameters) if found[1] == "0" else identifier(ast.literal_eval(found[2]))
    return name + re.sub(r"\['(\w+)'\]", r'["\1"]', found[3])


def _name(k: int, parameters: Sequence[str]) -> str:
    return identifier(parameters[k] if k < len(parameters) else f"arg{k}")


def _root(text: str) -> str:
    return re.split(r"\W", text)[0]


def _outer(outside: Sequence[Outside], names: Sequence[str]) -> list[tuple[str, str]]:
    """For all that is read from outside: its parameter, and the expression that reads it."""
    out: list[tuple[str, str]] = []
    for found in outside:
        root, taken = _root(found.place), {*names, *(_root(p) for p, _ in out)}
        array = isinstance(found.value, np.ndarray)
        new = root not in taken or root in [p for p, _ in out]
        if _is_place(found.place) and found.place not in [q for _, q in out] and (root == "self" or (array and new)):
            out.append((root, found.place))
            continue
        name = identifier(found.place)
        while name in taken:
            name += "_"
        plain = isinstance(found.value, float | int) and not isinstance(found.value, np.generic)
        out.append((f"{name}={found.value!r}" if plain and np.isfinite(found.value) else name, name))
    return out


def _is_place(text: str) -> bool:
    """Whether ``text`` is a name, perhaps with attributes and items."""
    try:
        node: ast.AST = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name)


def _fixed(arguments: Any, leaves: Sequence[str], dynamic: Sequence[int]) -> list[str]:
    """A line on what the source takes for granted about its arguments."""
    values = tree.flatten(arguments)[0]
    plain = [
        f"{leaves[k]}={x!r}"
        for k, x in enumerate(values)
        if k not in set(dynamic) and isinstance(x, str | bool | int | bytes) and len(repr(x)) < 20
    ]
    arrays = {id(x): k for k, x in reversed(list(enumerate(values))) if isinstance(x, np.ndarray)}
    plain += [f"{leaves[k]} is {leaves[j]}" for k, x in enumerate(values) if (j := arrays.get(id(x), k)) != k]
    return [f"Made for {', '.join(plain[:4])}{', …' if len(plain) > 4 else ''}."] if plain else []


class _Text(str):
    """Source text in the place of a leaf."""


class _Built:
    """Results written as expressions that build them."""

    def __init__(self, interface: Interface, arguments: Any, parameters: Sequence[str]):
        self.interface = interface
        self.classes: dict[type, str] = {}  # how classes of objects are reached through the arguments
        self.objects: dict[int, str] = {}  # likewise objects that are no data
        for path, x in _walk(arguments, ""):
            if path.count("[") > 1:
                place = _place(path, parameters)
                self.classes.setdefault(type(x), place)
                self.objects.setdefault(id(x), place)

    def text(self, result: Result, texts: Sequence[str]) -> str:
        parts = dict(zip(result.symbolic, map(_Text, texts), strict=True))
        count = len(parts) + len(result.fixed)
        fixed = {k: x if x is None else _Text(self._object(x)) for k, x in result.fixed.items()}
        built = tree.unflatten(result.structure, [{**fixed, **parts}[k] for k in range(count)])
        if type(built) is tuple and built:
            return ", ".join(map(self._write, built)) + "," * (len(built) == 1)
        return self._write(built)

    def _write(self, x: Any) -> str:
        if isinstance(x, _Text):
            return str(x)
        if x is None:
            return "None"
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            fields = [f"{n}={self._write(y)}" for n, y in zip(x._fields, x, strict=True)]
            return f"{self._class(type(x))}({', '.join(fields)})"
        if isinstance(x, dict):
            return "{" + ", ".join(f"{_key(k)}: {self._write(y)}" for k, y in x.items()) + "}"
        if isinstance(x, list):
            return f"[{', '.join(map(self._write, x))}]"
        if isinstance(x, tuple):
            return f"({', '.join(map(self._write, x))}{',' * (len(x) == 1)})"
        names = tree.fields.get(type(x)) or list(getattr(x, "__dict__", ()))
        if LIKE not in self.interface.helpers:
            self.interface.helpers.append(LIKE)
        return f"like({', '.join([self._class(type(x)), *(f'{n}={self._write(getattr(x, n))}' for n in names)])})"

    def _class(self, cls: type) -> str:
        return f"type({self.classes[cls]})" if cls in self.classes else self._import(cls)

    def _object(self, x: Any) -> str:
        """An object of the result that is no number of the Program."""
        if isinstance(x, str | int | float | complex | bytes):
            return repr(x)
        if isinstance(x, np.ndarray | np.generic):
            return f"np.array({x.tolist()!r}, {x.dtype.name!r})" + "[()]" * isinstance(x, np.generic)
        if id(x) in self.objects:
            return self.objects[id(x)]
        return self._import(x) if isinstance(x, type | types.FunctionType) else "None"

    def _import(self, x: Any) -> str:
        line = f"from {x.__module__} import {x.__qualname__.split('.')[0]}"
        if line not in self.interface.imports:
            self.interface.imports.append(line)
        return str(x.__qualname__)


def _key(key: Any) -> str:
    return f'"{key}"' if isinstance(key, str) and key.isidentifier() else repr(key)


def _walk(x: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The objects in nested arguments, with their paths."""
    yield path, x
    if isinstance(x, dict):
        inner = [(f"{path}[{k!r}]", y) for k, y in x.items()]
    elif isinstance(x, tuple) and hasattr(x, "_fields"):
        inner = [(f"{path}.{n}", y) for n, y in zip(x._fields, x, strict=True)]
    elif isinstance(x, list | tuple):
        inner = [(f"{path}[{k}]", y) for k, y in enumerate(x)]
    elif type(x) in tree.fields:
        names = tree.fields[type(x)]
        inner = [(f"{path}.{n}", getattr(x, n)) for n in (x.__dict__ if names is None else names)]
    else:
        inner = []
    for where, y in inner:
        yield from _walk(y, where)
