"""Recorded numbers and arrays: what Python sees while it runs a function for the tape.

Each wraps a front-end value of the running stage and hands every use to the recorder, which emits it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from gradsmith.frontend import arithmetic, leftovers, objects
from gradsmith.frontend import builtins as staged
from gradsmith.frontend import stage as st
from gradsmith.frontend.stage import NeedConcrete, Stage
from gradsmith.frontend.values import Array, Recorded, Scalar, fresh
from gradsmith.ir.types import BOOL, F64, ArrayType

WRITTEN = (
    "recorded values were written into an array that numpy made outside of the recording; make the array in the function with "
    "np.zeros, np.empty, np.array or np.copy, or pass it as an argument"
)


def evaluate(stage: Stage, x: Any) -> None:
    """Compute ``x`` for the arguments of this call."""
    if isinstance(x, Scalar | Array):
        try:
            stage.peek(x.value)
        except NeedConcrete:
            return
    elif isinstance(x, tuple):
        for part in x:
            evaluate(stage, part)


def _perform(x: Any, rule: Callable[..., Any], *args: Any) -> Any:
    return x._scope.recorder.perform(rule, x, *args)


def _binary(symbol: str, reflected: bool = False) -> Any:
    def plain(x: Any, y: Any) -> Any:
        if quick is not None and type(x) is RecordedNumber:
            found = x._scope.recorder.quick(quick, x, y)
            if found is not None:
                return found
        return _perform(x, _OPERATORS[symbol], y) if _operand(x, y) else NotImplemented

    def swapped(x: Any, y: Any) -> Any:
        if quick is not None and type(x) is RecordedNumber:
            found = x._scope.recorder.quick(quick, y, x)
            if found is not None:
                return found
        return x._scope.recorder.perform(_OPERATORS[symbol], y, x) if _operand(x, y) else NotImplemented

    quick = QUICK.get(symbol)
    return swapped if reflected else plain


#: operators of two floats that never raise: the operation, its result type, and how Python computes it
QUICK: dict[str, tuple[str, ArrayType, Callable[[float, float], Any]]] = {
    "+": ("add", F64, float.__add__),
    "-": ("sub", F64, float.__sub__),
    "*": ("mul", F64, float.__mul__),
    "<": ("lt", BOOL, float.__lt__),
    "<=": ("le", BOOL, float.__le__),
    ">": ("gt", BOOL, float.__gt__),
    ">=": ("ge", BOOL, float.__ge__),
}


def _operator(symbol: str) -> Callable[..., Any]:
    return lambda stage, x, y: arithmetic.binary(symbol, x, y)


_OPERATORS = {symbol: _operator(symbol) for symbol in arithmetic.BINARY}


def _operand(x: Any, y: Any) -> bool:
    if isinstance(y, _OPERANDS):
        return True
    return type(y) in (list, tuple) and type(x) is RecordedArray


_OPERANDS = (Recorded, int, float, complex, np.generic, np.ndarray)


def _inplace(symbol: str) -> Any:
    def method(x: Any, y: Any) -> Any:
        if not _operand(x, y):
            return NotImplemented
        _perform(x, update, y)
        return x

    def update(stage: Stage, x: Any, y: Any) -> None:
        arithmetic.inplace(symbol, x, y)

    return method


def _unary(function: Callable[..., Any]) -> Any:
    return lambda x: _perform(x, function)


def _staged(builtin: Any) -> Any:
    return lambda x, *args: _perform(x, staged.find(builtin), *args)  # type: ignore[arg-type]


def _concrete(stage: Stage, x: Any) -> Any:
    return stage.concrete(x)


def _frozen(stage: Stage, x: Any) -> Any:
    """The present elements of what does not depend on inputs, or (with a guard) of integers and bools; None for others."""
    if stage.is_constant(x):
        return stage.peek(x.value)
    return stage.concrete(x) if x.dtype.kind in "iub" else None


class Text(str):
    """A recorded number or array as text. A number that is read from it would not depend on the inputs."""

    __slots__ = ()

    def __float__(self) -> float:
        recorder = st.current().recorder if st.staging() else None
        if recorder is not None and recorder.live:
            recorder.refuse("float() of the text of a recorded number, which loses how it depends on the inputs")
        return float(str.__str__(self))

    def __int__(self) -> int:
        return int(str.__str__(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return str, (str.__str__(self),)


def _shown(stage: Stage, x: Any) -> Any:
    """What text is made of. Text may decide something: text of an integer is guarded, other text serves one call only."""
    if x.dtype.kind in "iub":
        found = stage.concrete(x)
    else:
        found = stage.peek(x.value)
        stage.recorder.shown |= not stage.is_constant(x)  # type: ignore[union-attr]
    return x.python_type(found) if isinstance(x, Scalar) else np.array(found)


class _Common(leftovers.Slots, Recorded):
    """What recorded numbers and arrays have in common."""

    __slots__ = ()

    @property
    def __class__(self) -> type:  # what isinstance believes
        return objects.python_type(self._recorded)

    @__class__.setter
    def __class__(self, cls: type) -> None:
        raise TypeError("the class of a recorded value cannot be changed")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _perform(self, objects.getattr_, name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out", ())
        recorder = self._scope.recorder
        if any(type(o) is np.ndarray for o in out):
            recorder.refuse(WRITTEN)
        result = recorder.call(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs)
        return out[0] if len(out) == 1 and out[0] is not None else result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._scope.recorder.call(function, args, kwargs)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        found = _perform(self, _frozen)
        if found is None:
            self._leak("an ndarray of it")
        array = np.array(found, dtype)
        array.flags.writeable = False  # what is written to it would be lost
        return array

    def _leak(self, what: str) -> NoReturn:
        self._scope.recorder.refuse(
            f"Python needs {what}, which loses how the number depends on the inputs (float(x), a function of math imported by name, "
            "an ordinary array that it is written into, or compiled code without a rule): leave float() out, use the function of "
            "numpy, make arrays with np.zeros or np.array inside the function"
        )

    def __float__(self) -> float:
        found = _perform(self, _frozen)
        return self._leak("a plain float") if found is None else float(found)

    def __complex__(self) -> complex:
        found = _perform(self, _frozen)
        return self._leak("a plain complex number") if found is None else complex(found)

    def __int__(self) -> int:
        return int(_perform(self, lambda stage, x: stage.concrete(staged.find(int)(stage, x))))  # type: ignore[misc]

    def __index__(self) -> int:
        return int(_perform(self, lambda stage, x: stage.concrete(st.integer(st.index_value(x)))))

    def __bool__(self) -> bool:
        return bool(self._scope.recorder.decide(self))

    def __repr__(self) -> str:
        recorder = self._scope.recorder
        if not recorder.running or not st.staging() or st.current() is not recorder.stage:
            return f"<{objects.python_type(self._recorded).__name__} recorded by gradsmith>"  # to a debugger, say
        return Text(repr(_perform(self, _shown)))

    def __str__(self) -> str:
        return Text(str(_perform(self, _shown)))

    def __format__(self, spec: str) -> str:
        return Text(format(_perform(self, _shown), spec))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self._leak("to store it (pickle)")

    def __pow__(self, y: Any, modulus: Any = None) -> Any:
        if not _operand(self, y):
            return NotImplemented
        return _perform(self, staged.find(pow), y, modulus)  # type: ignore[arg-type]

    __add__, __radd__ = _binary("+"), _binary("+", True)
    __sub__, __rsub__ = _binary("-"), _binary("-", True)
    __truediv__, __rtruediv__ = _binary("/"), _binary("/", True)
    __floordiv__, __rfloordiv__ = _binary("//"), _binary("//", True)
    __mod__, __rmod__ = _binary("%"), _binary("%", True)
    __rpow__ = _binary("**", True)
    __mul__, __rmul__ = _binary("*"), _binary("*", True)
    __matmul__, __rmatmul__ = _binary("@"), _binary("@", True)
    __and__, __rand__ = _binary("&"), _binary("&", True)
    __or__, __ror__ = _binary("|"), _binary("|", True)
    __xor__, __rxor__ = _binary("^"), _binary("^", True)
    __lshift__, __rlshift__ = _binary("<<"), _binary("<<", True)
    __rshift__, __rrshift__ = _binary(">>"), _binary(">>", True)
    __lt__, __le__, __gt__, __ge__ = _binary("<"), _binary("<="), _binary(">"), _binary(">=")
    __eq__, __ne__ = _binary("=="), _binary("!=")
    __neg__ = _unary(lambda stage, x: objects.unary(stage, "-", x))
    __pos__ = _unary(lambda stage, x: objects.unary(stage, "+", x))
    __invert__ = _unary(lambda stage, x: objects.unary(stage, "~", x))
    __abs__ = _staged(abs)
    __divmod__ = _staged(divmod)
    __rdivmod__ = lambda x, y: x._scope.recorder.perform(staged.find(divmod), y, x)  # noqa: E731
    __hash__: Any = None


class RecordedNumber(_Common):
    """A Python number, or a NumPy scalar, on the tape."""

    __slots__ = ()

    __round__ = _staged(round)

    def __hash__(self) -> int:
        if self._recorded.dtype.kind in "fc":
            self._leak("its hash (as a key of a dict or an element of a set)")
        return hash(_perform(self, _concrete))

    def __floor__(self) -> Any:
        return self._scope.recorder.call(math.floor, (self,), {})

    def __ceil__(self) -> Any:
        return self._scope.recorder.call(math.ceil, (self,), {})

    def __trunc__(self) -> Any:
        return self._scope.recorder.call(math.trunc, (self,), {})

    def __copy__(self) -> RecordedNumber:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordedNumber:
        return self


class RecordedArray(_Common):
    """An ndarray on the tape. Views and names of one array share its elements, as in NumPy."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int:
            found = self._scope.recorder.quick_item(self, key)
            if found is not None:
                return found
        return _perform(self, _item, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _perform(self, objects.setitem, key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        _perform(self, objects.setattr_, name, value)

    def __len__(self) -> int:
        return int(_perform(self, lambda stage, x: stage.concrete(objects.length(stage, x))))

    def __iter__(self) -> Iterator[Any]:
        # item by item: what the loop writes into the array is seen by its later iterations
        return (self[k] for k in range(len(self)))

    def __contains__(self, x: Any) -> bool:
        return bool(_perform(self, lambda stage, own, y: stage.concrete(objects.compare(stage, "in", y, own)), x))

    def __copy__(self) -> Any:
        return _perform(self, lambda stage, x: fresh(x.value, x.contiguous))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.__copy__()

    __iadd__, __isub__, __imul__, __itruediv__ = _inplace("+"), _inplace("-"), _inplace("*"), _inplace("/")
    __ifloordiv__, __imod__, __ipow__, __imatmul__ = _inplace("//"), _inplace("%"), _inplace("**"), _inplace("@")
    __iand__, __ior__, __ixor__ = _inplace("&"), _inplace("|"), _inplace("^")
    __ilshift__, __irshift__ = _inplace("<<"), _inplace(">>")


def _item(stage: Stage, x: Any, key: Any) -> Any:
    found = objects.getitem(stage, x, key)
    evaluate(stage, found)  # an index out of range is an error here, as in Python
    return found
