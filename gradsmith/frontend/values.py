"""What names hold while a function is staged: concrete Python objects, or the symbolic values of this module.

A :class:`Scalar` is a Python number (weak) or a NumPy scalar (strong) of the Program. An :class:`Array` is a reference to a
:class:`Cell`, which holds the array's current immutable Value, perhaps seen through views. Two names bound to one ndarray hold
one Array, or two Arrays with one Cell; a write goes to the Cell and is seen through both.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from gradsmith import tree
from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import layout
from gradsmith.ir.program import Const, Value
from gradsmith.ir.types import ArrayType

_births = itertools.count(1)


def next_birth() -> int:
    """A serial number; what was born later has the larger one."""
    return next(_births)


class Symbolic:
    """Base of the symbolic values. Python's own operators must never see one: every use goes through the stager."""

    __slots__ = ()
    __array_ufunc__ = None

    def _leak(self, *args: Any) -> NoReturn:
        raise UnsupportedCode(
            "a value that is known only at run time reached code that gradsmith does not stage (compiled code, or a "
            "library function without a rule); give the function a rule or compute the value outside"
        )

    __bool__ = __iter__ = __len__ = __index__ = __float__ = __int__ = __complex__ = __array__ = _leak
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _leak
    __getitem__ = __setitem__ = __lt__ = __le__ = __gt__ = __ge__ = __pow__ = __rpow__ = __neg__ = _leak
    __matmul__ = __rmatmul__ = __mod__ = __floordiv__ = __and__ = __or__ = _leak
    __copy__ = __deepcopy__ = _leak

    def __eq__(self, other: object) -> bool:
        return True if self is other else self._leak()

    __hash__ = object.__hash__


class Recorded:
    """Base of the objects that stand for symbolic values while Python itself runs a function (``recording.py``)."""

    __slots__ = ()


class Scalar(Symbolic):
    """A number. ``weak``: a Python number (int, float, complex or bool by its dtype), else a NumPy scalar."""

    __slots__ = ("value", "weak")

    def __init__(self, value: Value, weak: bool):
        self.value = value
        self.weak = weak

    @property
    def dtype(self) -> np.dtype:
        return self.value.dtype

    @property
    def python_type(self) -> type:
        """The class that ``type(x)`` gives in the user's program."""
        return (
            {"b": bool, "i": int, "u": int, "f": float, "c": complex}[self.dtype.kind] if self.weak else self.dtype.type
        )

    def __repr__(self) -> str:
        return f"<number {self.value.name or ''}: {self.python_type.__name__}, known at run time>"


class Text(Symbolic):
    """A string with run-time numbers in it: ``template`` with ``values`` filled in."""

    __slots__ = ("template", "values")

    def __init__(self, template: str, values: list[Any]):
        self.template = template
        self.values = values

    def __repr__(self) -> str:
        return f"<text {self.template!r}, known at run time>"


class Cell:
    """The current contents of one ndarray. ``ambiguous`` says why a write is not allowed: it may be one of two arrays.

    ``shared``: an object, a list or other code may hold it, too. ``outside``: it is an array of the caller's; ``merged``: it
    may be one on some paths.
    """

    __slots__ = ("value", "birth", "ambiguous", "contiguous", "shared", "outside", "merged")

    def __init__(self, value: Value, contiguous: bool = True, ambiguous: str = ""):
        self.value = value
        self.birth = next_birth()
        self.ambiguous = ambiguous
        self.contiguous = contiguous
        self.shared = False
        self.outside = False
        self.merged = False
        layout.note(value, contiguous)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """How a view looks at its base: ``read(base)`` gives the view, ``write(base, new)`` the base with the view replaced.

    ``dtype`` is given where it is not that of the base (the real part of a complex array).
    """

    read: Callable[[Value], Value]
    write: Callable[[Value, Value], Value]
    ndim: int
    contiguous: bool = False
    dtype: np.dtype | None = None


class Array(Symbolic):
    """An ndarray: the elements of a cell, seen through a chain of views."""

    __slots__ = ("cell", "views")

    def __init__(self, cell: Cell, views: tuple[View, ...] = ()):
        self.cell = cell
        self.views = views

    @property
    def dtype(self) -> np.dtype:
        changed = [v.dtype for v in self.views if v.dtype is not None]
        return changed[-1] if changed else self.cell.value.dtype

    @property
    def ndim(self) -> int:
        return self.views[-1].ndim if self.views else self.cell.value.ndim

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps, as far as known."""
        return all(v.contiguous for v in self.views) and self.cell.contiguous

    @property
    def value(self) -> Value:
        """The current elements, as an immutable Value of the Program."""
        value = self.cell.value
        for view in self.views:
            value = view.read(value)
        return value

    def __repr__(self) -> str:
        return f"<array {self.cell.value.name or ''}: {ArrayType(self.dtype, self.ndim)}, known at run time>"


tree.count_as_numbers(Scalar, Array)


class Flat(Array):
    """``x.flat``: written elements are those of ``x``, but slices are copies."""

    __slots__ = ()


class NotSpecialised(UnsupportedCode):
    """Something that can be staged when every branch and loop that leads to it is specialised on or unrolled."""


class Grown(Symbolic):
    """The contents of a list that grew in a loop of the Program: the list holds this one object for all its items."""

    __slots__ = ("seq", "weak")

    def __init__(self, seq: Value, weak: bool):
        self.seq = seq
        self.weak = weak  # whether numbers in it are Python numbers


def is_grown(x: Any) -> bool:
    """Whether ``x`` is a list that grew in a loop of the Program."""
    return isinstance(x, list) and bool(x) and isinstance(x[0], Grown)


class Maybe:
    """What a name holds that only some paths assign: reading it checks ``defined`` at run time."""

    __slots__ = ("value", "defined")

    def __init__(self, value: Any, defined: Any):
        self.value = value
        self.defined = defined


def fresh(value: Value, contiguous: bool | None = None) -> Array:
    """A new array with the elements ``value``; ``contiguous`` says that its order is not the one that NumPy keeps."""
    return Array(Cell(value, layout.c_ordered(value) if contiguous is None else contiguous))


def number_or_array(value: Value) -> Scalar | Array:
    """What a NumPy function returns for the Value: a NumPy scalar for 0 dimensions, else a new array."""
    return Scalar(value, weak=False) if value.ndim == 0 else fresh(value)


WEAK_SAMPLES = {"b": True, "i": 1, "u": 1, "f": 1.0, "c": 1j}


def is_number(x: Any) -> bool:
    """Whether ``x`` is a number: concrete (Python or NumPy) or symbolic."""
    return isinstance(x, Scalar | int | float | complex | np.number | np.bool_)


def is_weak(x: Any) -> bool:
    """Whether ``x`` is a Python number for the purposes of NumPy's promotion."""
    return x.weak if isinstance(x, Scalar) else isinstance(x, int | float | complex) and not isinstance(x, np.generic)


def dtype_of(x: Any) -> np.dtype:
    """dtype of a number or array, concrete or symbolic."""
    if isinstance(x, Scalar | Array | np.ndarray | np.generic):
        return x.dtype
    return np.dtype(np.int64) if type(x) is int else np.asarray(x).dtype  # an int may be too large for any dtype


def ndim_of(x: Any) -> int:
    """Number of dimensions of a number or array, concrete or symbolic."""
    return x.ndim if isinstance(x, Array | np.ndarray) else 0


def promotion_sample(x: Any) -> Any:
    """What stands for ``x`` in ``numpy.result_type``: a Python number if weak, else its dtype."""
    return WEAK_SAMPLES[dtype_of(x).kind] if is_weak(x) else dtype_of(x)


def result_dtype(*operands: Any) -> np.dtype:
    """dtype of NumPy's result for the operands (NEP 50 promotion)."""
    return np.result_type(*map(promotion_sample, operands))


def arrays_in(x: Any) -> Iterator[Array]:
    """The arrays in containers."""
    if isinstance(x, Array):
        yield x
    elif isinstance(x, list | tuple):
        for y in x:
            yield from arrays_in(y)
    elif isinstance(x, dict):
        for y in x.values():
            yield from arrays_in(y)
    elif isinstance(x, Maybe):
        yield from arrays_in(x.value)


def share(x: Any) -> None:
    """Note that something else than variables holds the arrays in ``x``."""
    for array in arrays_in(x):
        array.cell.shared = True


def contains_symbolic(x: Any) -> bool:
    """Whether a symbolic value can be reached from ``x`` through containers, attributes and closures.

    The nearest objects are looked at first, and no more than ``_MAX_REACH``: what lies further is of a large library
    (a compiler, a logger), and a symbolic value that reaches native code all the same raises an error there.
    """
    if isinstance(x, Symbolic | Recorded):
        return True
    level, seen = [x], {id(x)}
    while level and len(seen) <= _MAX_REACH:
        following: list[Any] = []
        for y in level:
            if y is None or isinstance(y, _ATOMS):
                continue
            for child in _children(y):
                if isinstance(child, Symbolic | Recorded):
                    return True
                if id(child) not in seen:
                    seen.add(id(child))
                    following.append(child)
        level = following
    return False


_MAX_REACH = 20_000
_ATOMS = (int, float, complex, str, bytes, np.generic, np.ndarray, np.dtype, type, type(np), type(len), np.ufunc)


def _children(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [*x.keys(), *x.values()]
    if isinstance(x, list | tuple | set | frozenset | collections.deque):
        return list(x)
    if isinstance(x, slice):
        return [x.start, x.stop, x.step]
    if isinstance(x, types.MethodType):
        return [x.__self__, x.__func__]
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    children = list(tree.own_dict(x).values())
    if isinstance(x, types.FunctionType):
        for cell in x.__closure__ or ():
            try:
                children.append(cell.cell_contents)
            except ValueError:
                continue  # a closure variable that is not assigned yet
        return children + [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
    return children + list(_slots_held(x).values())


def attribute_names(x: Any) -> Iterator[str]:
    """The attributes that an object itself has, in its ``__dict__`` or in slots."""
    yield from tree.own_dict(x)
    yield from _slots_held(x)


def _slots_held(x: Any) -> dict[str, Any]:
    """What the slots of an object hold, without asking the ``__getattr__`` of its class."""
    cls: Any = type(x)
    held: dict[str, Any] = {}
    for name, member in _slots(cls).items():
        with contextlib.suppress(AttributeError):
            held[name] = member.__get__(x)
    return held


@functools.lru_cache(maxsize=4096)
def _slots(cls: Any) -> dict[str, types.MemberDescriptorType]:
    """The slots of a class and its bases."""
    members = [item for c in cls.__mro__ if "__slots__" in vars(c) for item in vars(c).items()]
    return {name: member for name, member in members if isinstance(member, types.MemberDescriptorType)}


def constant(value: Value) -> bool:
    return isinstance(value, Const)
