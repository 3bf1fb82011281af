"""What a function that Python runs reads from outside: a recording holds only while all of it stays.

Before the run the names that the function's code mentions are looked up (globals, closure cells, defaults, attributes of the
objects found there, and so on through the functions it calls). After it they must be unchanged; later calls check them again.
Arrays that meet recorded values are inputs of the Program, read again at each call.
"""

from __future__ import annotations

import collections.abc
import dis
import functools
import io
import logging
import random
import sysconfig
import types
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from gradsmith.errors import UnsupportedCode
from gradsmith.frontend.outside import is_library
from gradsmith.frontend.stage import Capture, Stage
from gradsmith.frontend.values import attribute_names, fresh
from gradsmith.ir.program import Const

Read = Callable[[], Any]

_MAX_PLACES = 4000
_MAX_ITEMS = 512
_MAX_ELEMENTS = 2_000_000
_VALUES = (int, float, complex, str, bytes, np.generic, np.dtype)


@functools.cache
def _library_folders() -> tuple[str, ...]:
    return tuple({sysconfig.get_path(k) for k in ("purelib", "platlib", "stdlib")})


def of_library(code: types.CodeType) -> bool:
    """Whether the code is of an installed package or of the standard library."""
    return code.co_filename.startswith(_library_folders())


#: modules whose functions do something at each call, or give something else; None: all of them
_ACTING: dict[str, set[str] | None] = {
    **dict.fromkeys(
        ("logging", "warnings", "_warnings", "time", "secrets", "uuid", "io", "_io", "subprocess", "socket")
    ),
    "datetime": {"now", "utcnow", "today"},
    "sys": {"stdout", "stderr", "stdin"},
    "os": {"environ", "getenv", "urandom", "system", "write"},
}
_ACTING_BUILTINS = {"print", "input", "open"}


class Outside:
    """The places that a function may read, each with what was found there."""

    def __init__(self, f: Any):
        self.places: list[tuple[Read, Any]] = []
        self.names: dict[int, str] = {}  # names of the arrays found
        self.scopes: dict[int, dict[str, Any]] = {}  # globals of the functions found
        self.cells: list[types.CellType] = []  # and their closures
        self.compares = False  # whether code asks if two objects are one
        self.catches = False  # whether code handles errors
        self.complete = True  # whether everything was looked at
        self._seen: dict[int, Any] = {}
        self._holders: list[Any] = []
        self._random: list[tuple[Callable[[], Any], Any]] = []
        for state in (random.getstate, _numpy_random_state):
            self._random.append((state, state()))
        self._visit(f, "function")

    def add_argument(self, x: Any) -> None:
        """Functions and classes of an argument are read from outside as well; its contents are not."""
        if isinstance(x, list | tuple):
            for item in x:
                self.add_argument(item)
        elif isinstance(x, dict):
            self.add_argument(list(x.values()))
        elif isinstance(x, types.FunctionType | types.MethodType | functools.partial | type):
            self._visit(x, "argument")
        elif not isinstance(x, (*_VALUES, np.ndarray)) and id(x) not in self._seen:
            self._seen[id(x)] = x
            self._visit(type(x), type(x).__name__)
            self.add_argument([getattr(x, name) for name in attribute_names(x)])

    def holders(self) -> list[Any]:
        """The objects in which the function finds others."""
        return [*self.cells, *self._holders]

    def changed(self) -> bool:
        """Whether anything is different from what it was, or a random number was drawn."""
        try:
            return not all(_same(read(), found) for read, found in self.places) or any(
                state() != before for state, before in self._random
            )
        except (LookupError, AttributeError, ValueError, TypeError):
            return True

    def _place(self, read: Read, found: Any, name: str) -> None:
        if len(self.places) >= _MAX_PLACES:
            self.complete = False
            return
        self.places.append((read, found))
        self._visit(found, name)

    def _visit(self, x: Any, name: str) -> None:
        from gradsmith.frontend import replacements

        x = replacements.original(x)  # another thread may be recording
        if x is None or isinstance(x, _VALUES) or id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if isinstance(x, np.ndarray):
            self.names[id(x)] = name
            self._array(x)
        elif isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self._visit(x.__func__, name)
            self._visit(x.__self__, name)
        elif isinstance(x, functools.partial):
            for part in (x.func, x.args, x.keywords):
                self._visit(part, name)
            self._holders.append(x)
        elif isinstance(x, list | tuple | dict | set | frozenset | collections.deque | types.MappingProxyType):
            self._container(x, name)
        elif isinstance(x, logging.Logger | logging.LoggerAdapter | io.IOBase | collections.abc.Iterator):
            self.complete = False
        elif isinstance(x, np.random.Generator):
            self._random.append((lambda: repr(x.bit_generator.state), repr(x.bit_generator.state)))
        elif isinstance(x, np.random.RandomState):
            self._random.append((lambda: repr(x.get_state()), repr(x.get_state())))
        elif isinstance(x, random.Random):
            self._random.append((x.getstate, x.getstate()))
        elif isinstance(x, type):
            self._class(x)
        elif not isinstance(x, types.ModuleType):
            self._object(x, name)

    def _array(self, x: np.ndarray) -> None:
        """Python may compute with the elements, whether or not recorded values meet them, too."""
        if x.size > _MAX_ELEMENTS or x.dtype.hasobject:
            self.complete = False
            return
        copy = x.copy()
        self.places.append(
            (lambda: bool(x.shape == copy.shape and x.dtype == copy.dtype and _equal_bits(x, copy)), True)
        )

    def _function(self, f: types.FunctionType) -> None:
        wrapped = getattr(f, "__wrapped__", None)
        if wrapped is not None:
            self._visit(wrapped, f.__name__)
        if is_library(f.__module__ or ""):
            return
        self.scopes[id(f.__globals__)] = f.__globals__
        self.cells += f.__closure__ or ()
        if of_library(f.__code__):
            return
        self._holders.append(f)
        self.compares = self.compares or _compares(f.__code__)
        self.catches = self.catches or _catches(f.__code__)
        names = dict.fromkeys(_names(f.__code__))
        if _acts(f.__code__, f.__globals__, names):
            self.complete = False  # Python runs it again at each call
        self._place(lambda: f.__code__, f.__code__, f.__name__)
        self._place(lambda: f.__defaults__, f.__defaults__, f.__name__)
        self._place(lambda: f.__kwdefaults__, f.__kwdefaults__, f.__name__)
        for name in list(vars(f)):
            self._place(lambda name=name: vars(f)[name], vars(f)[name], name)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                self._place(lambda cell=cell: cell.cell_contents, cell.cell_contents, name)
            except ValueError:
                continue  # not assigned yet: the function assigns it before it reads it, or fails
        scope = f.__globals__
        modules = []
        for name in [n for n in names if n in scope]:
            found = scope[name]
            if isinstance(found, types.ModuleType):
                modules += [found] if not is_library(found.__name__) else []
                continue
            self._place(lambda name=name: scope[name], found, name)
        for module in modules:
            self.scopes[id(vars(module))] = vars(module)
            for name in [n for n in names if n in vars(module)]:
                self._place(lambda m=module, name=name: getattr(m, name), getattr(module, name), name)

    def _container(self, x: Any, name: str) -> None:
        if len(x) > _MAX_ITEMS:
            self.complete = False
            return
        self._holders.append(x)
        if isinstance(x, list | tuple | collections.deque):
            self._place(lambda: len(x), len(x), name)
            keys: Any = range(len(x))
        else:
            self._place(lambda: list(x), list(x), name)
            keys = [] if isinstance(x, set | frozenset) else list(x)
        for k in keys:
            self._place(lambda k=k: x[k], x[k], name)

    def _class(self, cls: type) -> None:
        if is_library(cls.__module__) or cls.__module__ == "builtins":
            return
        self._holders.append(cls)
        for name, found in list(vars(cls).items()):
            if name.startswith("__") and (not isinstance(found, types.FunctionType) or _generated(cls, found)):
                continue
            self._place(lambda name=name: vars(cls)[name], found, name)
            for part in ("fget", "fset", "__func__"):
                self._visit(getattr(found, part, None), name)
        for base in cls.__bases__:
            self._visit(base, base.__name__)

    def _object(self, x: Any, name: str) -> None:
        cls = type(x)
        wrapped = getattr(x, "__wrapped__", None)
        if wrapped is not None:
            self._visit(wrapped, name)
        if cls.__module__ not in ("types", "argparse") and (is_library(cls.__module__) or cls.__module__ == "builtins"):
            return
        self._visit(cls, cls.__name__)
        self._holders.append(x)
        if hasattr(x, "__dict__"):  # an attribute that is new hides that of the class
            self._place(lambda: list(vars(x)), list(vars(x)), name)
        for attribute in attribute_names(x):
            self._place(lambda a=attribute: getattr(x, a), getattr(x, attribute), attribute)


def _generated(cls: type, method: types.FunctionType) -> bool:
    """Whether ``dataclass`` wrote the method."""
    return hasattr(cls, "__dataclass_fields__") and method.__code__.co_filename == "<string>"


def _catches(code: types.CodeType) -> bool:
    """Whether the code has a ``try`` or ``with``."""
    inner = any(_catches(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return inner or bool(code.co_exceptiontable)


def _compares(code: types.CodeType) -> bool:
    """Whether the code has an ``is`` or ``is not`` whose result is not a test for None."""
    inner = any(_compares(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return inner or dis.opmap["IS_OP"] in code.co_code[::2]


def _acts(code: types.CodeType, scope: dict[str, Any], names: Collection[str]) -> bool:
    """Whether the code, as far as its names tell, prints, logs, warns, or asks for the time and the like."""
    if any(name in _ACTING_BUILTINS and name not in scope for name in names):
        return True
    modules = set(_imported(code))
    for name in scope.keys() & names:
        found = scope[name]
        module = found.__name__ if isinstance(found, types.ModuleType) else getattr(found, "__module__", None)
        if isinstance(module, str) and (isinstance(found, types.ModuleType) or callable(found)):
            modules.add(module)
    acting = [_ACTING[m] for m in modules if m in _ACTING]
    return any(known is None or not known.isdisjoint(names) for known in acting)


def _imported(code: types.CodeType) -> Iterator[str]:
    """Modules that the code imports itself."""
    if dis.opmap["IMPORT_NAME"] in code.co_code[::2]:
        yield from (i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME")
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _imported(const)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


def _numpy_random_state() -> Any:
    state: Any = np.random.get_state()
    kind, keys, *rest = state
    return kind, keys.tobytes(), *rest


def _equal_bits(x: np.ndarray, y: np.ndarray) -> bool:
    return np.array_equal(x, y) or x.tobytes() == y.tobytes()  # NaN differs from itself


def _same(now: Any, found: Any) -> bool:
    from gradsmith.frontend import replacements

    if replacements.same(now, found):
        return True
    return type(now) is type(found) and isinstance(found, (*_VALUES, list)) and bool(now == found)


def once() -> Callable[[], bool]:
    """A function that says True at its first call only."""
    left = [False, True]
    return lambda: left.pop() if left else False


# ---- arrays ---------------------------------------------------------------------------------------------------------

_MAX_INPUTS = 256
_SMALL = 4096  # elements; the contents of larger arrays are compared at the end only


class _Met:
    """An ndarray that met recorded values, as it was then."""

    def __init__(self, array: np.ndarray, copy: np.ndarray, symbolic: Any, capture: Capture | None):
        self.array = array
        self.copy = copy
        self.symbolic = symbolic
        self.capture = capture
        self.again = False

    def same(self) -> bool:
        a, b = self.array, self.copy
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


class Arrays:
    """Ordinary ndarrays that meet recorded values: inputs of the Program, read again at each call."""

    def __init__(self, stage: Stage):
        self.stage = stage
        self._met: dict[int, _Met] = {}
        self._all: list[_Met] = []

    def stand_in(self, x: np.ndarray, names: dict[int, str]) -> Any:
        """The front-end array for ``x``."""
        if x.dtype.kind not in "biufc":
            return x
        met = self._met.get(id(x))
        if met is not None:
            if x.size > _SMALL:
                met.again = True
                return met.symbolic
            if met.same():
                return met.symbolic
        met = self._meet(x, names.get(id(x), "captured"))
        self._met[id(x)] = met
        self._all.append(met)
        return met.symbolic

    def _meet(self, x: np.ndarray, name: str) -> _Met:
        copy = x.copy(order="K")
        if len(self._all) >= _MAX_INPUTS:
            symbolic = fresh(Const(copy), contiguous=x.flags.c_contiguous)
            met = _Met(x, copy, symbolic, None)
            self.stage.assumptions.append((met.same, True))
            return met
        again = id(x) in self._met  # changed since it was met: another array for the Program
        symbolic = self.stage.capture(copy if again else x, lambda: x, name)
        self.stage.known[symbolic.value] = copy
        return _Met(x, copy, symbolic, self.stage.captures[-1])

    def is_copy(self, x: Any) -> bool:
        """Whether ``x`` is what is kept here of an array of outside."""
        return any(met.copy is x for met in self._all)

    def written(self, cells: set[Any]) -> bool:
        """Whether one of the cells belongs to an ndarray of outside."""
        return any(met.symbolic.cell in cells for met in self._all)

    def settle(self) -> set[int]:
        """At the end of a recording: arrays that Python changed since they were met count as they were then. Returns their ids."""
        changed = set()
        for met in self._all:
            if met.same():
                continue
            if met.again:
                raise UnsupportedCode(
                    "an array that meets recorded values was changed by the function while it was recorded; make it with a "
                    "function of numpy inside the recorded function, or make a changed copy"
                )
            changed.add(id(met.array))
            if met.capture is not None:
                met.capture.read = lambda copy=met.copy: copy
        return changed
