"""Python's object model for staged code: operators, attributes, items and iteration on symbolic and concrete objects."""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import operator
import re
import string
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.errors import MissingRule, UnsupportedCode
from gradsmith.frontend import arithmetic, indexing, keys, recursion
from gradsmith.frontend import stage as st
from gradsmith.frontend.frames import FUNCTIONS, Frame, StagedFunction
from gradsmith.frontend.generators import Handle
from gradsmith.frontend.heap import MISSING, Slot
from gradsmith.frontend.joins import HELD
from gradsmith.frontend.outside import assume_not_its_own, assume_of_class, lift_attribute, lift_item
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import (
    Array,
    Cell,
    Maybe,
    NotSpecialised,
    Scalar,
    Symbolic,
    Text,
    contains_symbolic,
    fresh,
    is_grown,
    is_number,
)
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Value


def give_name(x: Any, name: str) -> None:
    """The user's name for a Value that has none yet."""
    value = x.value if isinstance(x, Scalar) else x.cell.value if isinstance(x, Array) and not x.views else None
    if isinstance(value, Value) and not value.name and value.op is not None:
        value.name = name


# ---- operators ------------------------------------------------------------------------------------------------------

_DUNDERS = {
    **{"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul"},
    **{"&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift"},
    **{"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"},
}
_REFLECTED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def binary(stage: Stage, symbol: str, x: Any, y: Any) -> Any:
    """``x symbol y``."""
    if isinstance(x, Text) or isinstance(y, Text):
        if symbol == "+" and isinstance(x, Text | str) and isinstance(y, Text | str):
            return format_pieces([p if isinstance(p, str) else (p, 0, "") for p in (x, y)])
        if symbol != "%" or isinstance(x, Text):
            x, y = (st.static(p) if isinstance(p, Text) else p for p in (x, y))
    if _overrides(x, symbol) or _overrides(y, symbol):
        return _dispatch(stage, symbol, x, y)
    symbolic = isinstance(x, Symbolic) or isinstance(y, Symbolic)
    if symbolic:
        if symbol == "*" and isinstance(x, list | tuple | str) and _counts(y):
            return binary(stage, symbol, x, stage.concrete(y))
        if symbol == "*" and isinstance(y, list | tuple | str) and _counts(x):
            return binary(stage, symbol, stage.concrete(x), y)
        if _numeric(x) and _numeric(y):
            return arithmetic.binary(symbol, x, y)
    if symbol == "%" and isinstance(x, str) and contains_symbolic(y):
        return format_percent(x, y)
    if not symbolic and _plain(x) and _plain(y):
        return _native_binary(stage, symbol, x, y)
    return _dispatch(stage, symbol, x, y)


def _numeric(x: Any) -> bool:
    return isinstance(x, Scalar | Array | np.ndarray) or is_number(x) or (isinstance(x, list | tuple) and len(x) > 0)


def _counts(x: Any) -> bool:
    """Whether ``x`` is an integer: a sequence times it is repeated."""
    return isinstance(x, Scalar) and x.dtype.kind in "iu"


def _plain(x: Any) -> bool:
    return isinstance(x, _PLAIN) or x is None


_PLAIN = (
    int,
    float,
    complex,
    str,
    bytes,
    np.generic,
    list,
    tuple,
    dict,
    set,
    frozenset,
    np.dtype,
    type,
    types.GenericAlias,
)


def _overrides(x: Any, symbol: str) -> bool:
    """Whether the class of ``x`` is made from list, tuple, dict … and has an operator of its own."""
    if not isinstance(x, list | tuple | dict | set | str) or type(x) in (list, tuple, dict, set, str):
        return False
    names = _DUNDERS[symbol], _DUNDERS[_REFLECTED[symbol]] if symbol in _REFLECTED else "r" + _DUNDERS[symbol]
    return any(user_method(x, f"__{name}__") is not None for name in names)


def _native_binary(stage: Stage, symbol: str, x: Any, y: Any) -> Any:
    if isinstance(x, list) and (is_grown(x) or is_grown(y)):
        raise NotSpecialised("adding to a list that grew in a loop; append to it in the loop")
    result = arithmetic.BINARY[symbol][1](keys.settle(stage, x), keys.settle(stage, y))
    return stage.heap.born(result) if isinstance(result, list | dict | set) else result


def _dispatch(stage: Stage, symbol: str, x: Any, y: Any) -> Any:
    """Python's protocol of ``__op__`` and ``__rop__`` for objects of other classes."""
    from gradsmith.frontend.calls import call

    name = _DUNDERS[symbol]
    reflected = f"__{_DUNDERS[_REFLECTED[symbol]] if symbol in _REFLECTED else 'r' + name}__"
    attempts = [(x, f"__{name}__", y), (y, reflected, x)]
    if type(y) is not type(x) and issubclass(type(y), type(x)) and hasattr(type(y), reflected):
        attempts.reverse()
    for owner, dunder, other in attempts:
        method = special_method(owner, dunder)
        if method is None or isinstance(owner, Symbolic):
            continue
        if _plain(owner) and not _plain(other) and not isinstance(method, FUNCTIONS):
            continue
        if method is object.__ne__ and isinstance(equal := special_method(owner, "__eq__"), FUNCTIONS):
            result = call(stage, equal, [owner, other], {})
            if result is not NotImplemented:
                return arithmetic.logical_not(truth(stage, result))
        if method is getattr(object, dunder, None):
            continue
        if isinstance(other, Symbolic) and not isinstance(method, FUNCTIONS):
            continue
        result = call(stage, method, [owner, other], {})
        if result is not NotImplemented:
            return stage.wrap(result)
    if symbol in ("==", "!="):
        return (x is y) == (symbol == "==")
    raise TypeError(f"unsupported operand type(s) for {symbol}: {type_name(x)!r} and {type_name(y)!r}")


def type_name(x: Any) -> str:
    """Name of the class that the user's program sees."""
    return python_type(x).__name__


def python_type(x: Any) -> type:
    """``type(x)`` in the user's program."""
    if isinstance(x, Scalar):
        return x.python_type
    if isinstance(x, Array):
        return np.ndarray
    if isinstance(x, Handle):
        return x.kind
    if isinstance(x, Text):
        return str
    return types.FunctionType if isinstance(x, StagedFunction) else type(x)


def unary(stage: Stage, symbol: str, x: Any) -> Any:
    """``-x``, ``+x``, ``~x``."""
    if isinstance(x, Symbolic):
        return arithmetic.unary(symbol, x)
    functions: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
    function = functions[symbol]
    method = special_method(x, {"-": "__neg__", "+": "__pos__", "~": "__invert__"}[symbol])
    if isinstance(method, FUNCTIONS):
        from gradsmith.frontend.calls import call

        return call(stage, method, [x], {})
    return function(x)


def compare(stage: Stage, symbol: str, x: Any, y: Any) -> Any:
    """``x symbol y`` for comparisons, identity and membership."""
    if symbol in ("is", "is not"):
        return _identical(x, y) == (symbol == "is")
    x, y = (st.static(p) if isinstance(p, Text) else p for p in (x, y))
    if symbol in ("in", "not in"):
        found = _contains(stage, y, x)
        return found if symbol == "in" else arithmetic.logical_not(found)
    own = _overrides(x, symbol) or _overrides(y, symbol)
    if isinstance(x, tuple | list) and isinstance(y, tuple | list) and type(x) is type(y) and not own:
        return (_compare_sequences if symbol in ("==", "!=") else _order_sequences)(stage, symbol, x, y)
    if isinstance(x, Symbolic) and not _numeric(y) or isinstance(y, Symbolic) and not _numeric(x):
        if symbol in ("==", "!=") and (_plain(x) or _plain(y)):
            return symbol == "!="
    return binary(stage, symbol, x, y)


def _identical(x: Any, y: Any) -> bool:
    if isinstance(x, Array) and isinstance(y, Array):
        st.current().compares_arrays = True
    if isinstance(x, Array) and isinstance(y, Array) and x is not y:
        if x.cell.ambiguous or y.cell.ambiguous:
            raise NotSpecialised("`is` on an array that may be one of two arrays, depending on a run-time condition")
        return x.cell is y.cell and not x.views and not y.views
    return x is y


def _compare_sequences(stage: Stage, symbol: str, x: Sequence[Any], y: Sequence[Any]) -> Any:
    if len(x) != len(y):
        return symbol == "!="
    equal: Any = True
    for a, b in zip(x, y, strict=True):
        t = truth(stage, compare(stage, "==", a, b))
        if t is False:
            return symbol == "!="
        equal = t if equal is True else equal if t is True else arithmetic.binary("&", equal, t)
    return equal if symbol == "==" else arithmetic.logical_not(equal)


def _order_sequences(stage: Stage, symbol: str, x: Sequence[Any], y: Sequence[Any]) -> Any:
    """``x symbol y`` by the first items that differ."""
    if not x or not y:
        return arithmetic.BINARY[symbol][1](len(x), len(y))
    equal = truth(stage, compare(stage, "==", x[0], y[0]))
    if equal is True:
        return _order_sequences(stage, symbol, x[1:], y[1:])
    first = truth(stage, compare(stage, symbol[0], x[0], y[0]))
    if equal is False:
        return first
    rest = _order_sequences(stage, symbol, x[1:], y[1:])
    return arithmetic.binary("|", first, arithmetic.binary("&", equal, rest))


def _contains(stage: Stage, container: Any, x: Any) -> Any:
    from gradsmith.frontend.iterables import Once

    method = special_method(container, "__contains__")
    if isinstance(method, FUNCTIONS) and not isinstance(container, Symbolic):
        return truth(stage, call_method(stage, method, [container, x]))
    if isinstance(container, Once):
        container = iterate(stage, container.take(Once.LOST))
    if isinstance(container, Array):
        return arithmetic.truth(call_catalogue(np.any, arithmetic.binary("==", container, x)))
    if isinstance(x, Symbolic) or (
        isinstance(container, list | tuple) and any(isinstance(c, Symbolic) for c in container)
    ):
        if isinstance(container, dict | set | frozenset | str | range):
            x = stage.concrete(x)
            return keys.holds(stage, container, x) if isinstance(container, dict) else x in container
        found: Any = False
        for c in iterate(stage, container):
            t = True if _identical(c, x) else truth(stage, compare(stage, "==", x, c))
            if t is True:
                return True
            found = t if found is False else found if t is False else arithmetic.binary("|", found, t)
        return found
    return keys.holds(stage, container, x) if isinstance(container, dict) else x in container


def truth(stage: Stage, x: Any) -> Any:
    """``bool(x)``: concrete, or a symbolic Python bool."""
    if isinstance(x, Scalar | Array):
        return arithmetic.truth(x)
    if is_grown(x):
        return arithmetic.binary("!=", length(stage, x), 0)
    x = st.static(x) if isinstance(x, Text) else keys.settle(stage, x)
    for dunder in ("__bool__", "__len__"):
        method = special_method(x, dunder)
        if isinstance(method, FUNCTIONS):
            from gradsmith.frontend.calls import call

            return arithmetic.truth(call(stage, method, [x], {}))
    return bool(x)


def call_catalogue(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the implementation of a library function."""
    from gradsmith.frontend.calls import call

    return call(st.current(), function, list(args), kwargs)


# ---- attributes -----------------------------------------------------------------------------------------------------


class Method:
    """A bound ndarray or NumPy-scalar method of a symbolic value."""

    def __init__(self, owner: Any, implementation: Callable[..., Any], name: str):
        self.owner = owner
        self.implementation = implementation
        self.name = name


def getattr_(stage: Stage, x: Any, name: str) -> Any:
    """``x.name``."""
    if not isinstance(x, Symbolic | super | type) and (method := user_method(x, "__getattribute__")):
        return call_method(stage, method, [x, name])
    return found_attribute(stage, x, name)


def found_attribute(stage: Stage, x: Any, name: str) -> Any:
    """``object.__getattribute__(x, name)``, or what the ``__getattr__`` of the class gives."""
    from gradsmith.frontend.iterables import Once
    from gradsmith.frontend.yielding import IteratorMethod

    if isinstance(x, Text):
        x = st.static(x)
    if isinstance(x, Symbolic):
        return _symbolic_attribute(stage, x, name)
    if isinstance(x, np.generic | np.ndarray):
        return stage.wrap(getattr(x, name))
    if isinstance(x, Once):
        return IteratorMethod(x, name)
    if isinstance(x, super):
        return _super_attribute(stage, x, name)
    found = inspect.getattr_static(type(x), name, MISSING)
    if found is not MISSING and not isinstance(x, type) and _computes(type(x), found):
        return _computed_attribute(stage, x, name, found)
    if found is MISSING and (fallback := user_method(x, "__getattr__")) and not _holds(x, name):
        return call_method(stage, fallback, [x, name])
    if name == "__dict__" and stage.heap.birth(x) and not isinstance(x, type):
        return keys.settle(stage, stage.heap.own_attributes(x))
    value = getattr(x, name)
    if found is not MISSING and not _holds(x, name):
        assume_not_its_own(stage, x, name)
    if type(value) is Maybe and found is not MISSING and _holds(x, name):
        return _own_or_default(stage, x, name, value, found)
    if type(value) is Maybe:
        stage.check(value.defined, AttributeError, f"{type(x).__name__!r} object has no attribute {name!r}")
        value = value.value
    owner = x if found is MISSING or isinstance(x, type) or _holds(x, name) else _defining_class(x, name)
    return stage.wrap(lift_attribute(stage, owner, name, value))


def _own_or_default(stage: Stage, x: Any, name: str, own: Maybe, default: Any) -> Any:
    """An attribute that only some paths set, which the class has, too."""
    return either(stage, own, lift_attribute(stage, _defining_class(x, name), name, default))


def either(stage: Stage, x: Any, default: Any) -> Any:
    """``x`` where it is defined, else ``default``."""
    from gradsmith.frontend.flow import JoinFailure, branch

    if not isinstance(x, Maybe):
        return x
    defined = st.as_value(x.defined)
    try:
        return branch(stage, defined, lambda: either(stage, x.value, default), lambda: default)
    except JoinFailure:
        if not stage.peekable(defined):
            raise
        return either(stage, x.value, default) if stage.concrete(Scalar(defined, weak=True)) else default


def call_method(stage: Stage, f: Any, args: Sequence[Any]) -> Any:
    """``f(*args)``."""
    from gradsmith.frontend.calls import call

    return call(stage, f, args, {})


def user_method(x: Any, name: str) -> Any:
    """The method ``name`` of the class of ``x`` if it is a Python function of the user's, else None."""
    method = special_method(x, name)
    return method if isinstance(method, FUNCTIONS) and not _library_type(type(x)) else None


def special_method(x: Any, name: str) -> Any:
    """The method of the class of ``x`` that Python calls for an operator or a builtin function, or None."""
    method = getattr(type(x), name, None)
    if isinstance(method, FUNCTIONS):
        assume_of_class(st.current(), type(x), name)
    return method


def own_attribute(x: Any, name: str) -> Any:
    """What the object itself, not its class, has as an attribute (not in a slot), or MISSING."""
    return tree.own_dict(x).get(name, MISSING)


def has_attribute(stage: Stage, x: Any, name: str) -> Any:
    """``hasattr(x, name)`` of an object that is not symbolic; a symbolic bool if only some paths have set it."""
    own = own_attribute(x, name)
    if type(own) is Maybe and not hasattr(type(x), name) and type(own.value) is not Maybe:
        return own.defined
    found = inspect.getattr_static(type(x), name, MISSING)
    if isinstance(x, type) or not (
        user_method(x, "__getattr__") or (found is not MISSING and _computes(type(x), found))
    ):
        return hasattr(x, name)
    getattr_(stage, x, name)
    return True


def _holds(x: Any, name: str) -> bool:
    """Whether the object itself, not its class, has the attribute."""
    return own_attribute(x, name) is not MISSING


def _defining_class(x: Any, name: str) -> Any:
    """Where a plain number or array that a class gives its instances is read from; ``x`` itself for all else."""
    cls = next(c for c in type(x).__mro__ if name in c.__dict__)
    return cls if isinstance(cls.__dict__[name], float | complex | np.ndarray | int) else x


def _computes(cls: type, found: Any) -> bool:
    """Whether reading the attribute ``found`` of a class runs code of the user's."""
    if isinstance(found, property):
        return isinstance(found.fget, FUNCTIONS) and not _library_type(cls)
    if isinstance(found, functools.cached_property):
        return True
    getter = getattr(type(found), "__get__", None)
    return (
        isinstance(getter, types.FunctionType) and not isinstance(found, FUNCTIONS) and not _library_type(type(found))
    )


def _computed_attribute(stage: Stage, x: Any, name: str, found: Any) -> Any:
    assume_of_class(stage, type(x), name)
    if isinstance(found, property):
        return call_method(stage, found.fget, [x])
    if isinstance(found, functools.cached_property):
        if not _holds(x, name):
            stage.heap.write(Slot("attr", x, name), call_method(stage, found.func, [x]))
        return lift_attribute(stage, x, name, x.__dict__[name])
    if _holds(x, name) and not hasattr(type(found), "__set__"):
        return lift_attribute(stage, x, name, x.__dict__[name])
    return call_method(stage, type(found).__get__, [found, x, type(x)])


def _super_attribute(stage: Stage, x: Any, name: str) -> Any:
    """``super().name``: properties of a base class are staged."""
    order = x.__self_class__.__mro__
    for cls in order[order.index(x.__thisclass__) + 1 :]:
        if name in cls.__dict__:
            found = cls.__dict__[name]
            assume_of_class(stage, cls, name)
            if isinstance(found, property) and isinstance(found.fget, FUNCTIONS):
                return call_method(stage, found.fget, [x.__self__])
            break
    return getattr(x, name)


def _library_type(cls: type) -> bool:
    from gradsmith.frontend.outside import is_library

    return is_library(cls.__module__)


def _symbolic_attribute(stage: Stage, x: Any, name: str) -> Any:
    from gradsmith.frontend import catalogue

    catalogue.load()
    if name == "__class__":
        return python_type(x)
    if isinstance(x, Handle):
        from gradsmith.frontend import randomness

        return randomness.attribute(stage, x, name)
    if isinstance(x, Scalar) and x.weak:
        return _python_number_attribute(x, name)
    if name in catalogue.ATTRIBUTES:
        return catalogue.ATTRIBUTES[name](x)
    if name in catalogue.METHODS:
        return Method(x, catalogue.METHODS[name], name)
    owner = python_type(x)
    if hasattr(owner, name):
        raise MissingRule(f"{owner.__name__}.{name} has no rule; use a NumPy function, or give it a rule")
    raise AttributeError(f"{owner.__name__!r} object has no attribute {name!r}")


def _python_number_attribute(x: Scalar, name: str) -> Any:
    kind = x.dtype.kind
    if name == "real":
        return Scalar(ir.real(x.value), weak=True) if kind == "c" else x
    if name == "imag":
        return Scalar(ir.imag(x.value), weak=True) if kind == "c" else 0.0 if kind == "f" else 0
    if name == "conjugate":
        return Method(x, lambda y: Scalar(ir.conj(y.value), weak=True) if kind == "c" else y, name)
    if name == "is_integer" and kind == "f":
        return Method(
            x, lambda y: arithmetic.python_number(ir.elementwise("eq", ir.elementwise("floor", y.value), y.value)), name
        )
    if kind in "iub" and hasattr(int, name):
        return getattr(st.current().concrete(x), name)
    if hasattr(x.python_type, name):
        raise MissingRule(f"{type_name(x)}.{name} of a number that depends on the inputs has no rule")
    raise AttributeError(f"{type_name(x)!r} object has no attribute {name!r}")


def setattr_(stage: Stage, x: Any, name: str, value: Any) -> None:
    """``x.name = value``."""
    if isinstance(x, Array):
        if name == "shape":
            raise UnsupportedCode("assigning to x.shape; write x = x.reshape(...)")
        if name in ("real", "imag"):
            part = getattr_(stage, x, name)
            indexing.setitem(part, Ellipsis, value)
            return
    if _is_frozen(x):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    if method := user_method(x, "__setattr__"):
        call_method(stage, method, [x, name, value])
    else:
        store_attribute(stage, x, name, value)


def _is_frozen(x: Any) -> bool:
    """Whether ``x`` is of a frozen dataclass, whose generated methods refuse to change it."""
    params = getattr(type(x), "__dataclass_params__", None)
    return params is not None and params.frozen


def store_attribute(stage: Stage, x: Any, name: str, value: Any) -> None:
    """``object.__setattr__(x, name, value)``: through properties and descriptors."""
    found = inspect.getattr_static(type(x), name, None)
    if isinstance(found, property):
        if found.fset is None:
            raise AttributeError(f"property {name!r} of {type(x).__name__!r} object has no setter")
        call_method(stage, found.fset, [x, value])
        return
    if isinstance(setter := getattr(type(found), "__set__", None), types.FunctionType) and not isinstance(x, type):
        call_method(stage, setter, [found, x, value])
        return
    if not isinstance(x, type) and not type(x).__dictoffset__ and found is None:
        raise AttributeError(f"{type(x).__name__!r} object has no attribute {name!r}")
    give_name(value, name)
    _stand_in(stage, x, name)
    stage.heap.write(Slot("attr", x, name), value)


def _stand_in(stage: Stage, x: Any, name: str) -> None:
    """Before an attribute is written on some paths: the others go on with what an object from outside holds."""
    slot = Slot("attr", x, name)
    if stage.depth and not stage.heap.birth(x) and not stage.heap.assigned(slot):
        found = slot.get()
        if found is not MISSING:
            stage.heap.stand_in(slot, stage.wrap(lift_attribute(stage, x, name, found)))


def delattr_(stage: Stage, x: Any, name: str) -> None:
    """``del x.name``."""
    if _is_frozen(x):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    if method := user_method(x, "__delattr__"):
        call_method(stage, method, [x, name])
        return
    found = inspect.getattr_static(type(x), name, None)
    if isinstance(found, property):
        if found.fdel is None:
            raise AttributeError(f"property {name!r} of {type(x).__name__!r} object has no deleter")
        call_method(stage, found.fdel, [x])
        return
    slot = Slot("attr", x, name)
    if slot.get() is MISSING:
        raise AttributeError(f"{type(x).__name__!r} object has no attribute {name!r}")
    _stand_in(stage, x, name)
    stage.heap.write(slot, MISSING)


# ---- items ----------------------------------------------------------------------------------------------------------


def length(stage: Stage, x: Any) -> Any:
    """``len(x)``."""
    x = st.static(x) if isinstance(x, Text) else x
    if isinstance(x, Array):
        if x.ndim == 0:
            raise TypeError("len() of unsized object")
        return st.integer(ir.shape(x.value)[0])
    if is_grown(x):
        return Scalar(ir.emit("seq_len", x[0].seq), weak=True)
    if hasattr(type(x), "staged_length"):
        return x.staged_length()
    keys.settle(stage, x)
    if isinstance(x, Scalar):
        raise TypeError(f"object of type {type_name(x)!r} has no len()")
    method = special_method(x, "__len__")
    if isinstance(method, FUNCTIONS):
        from gradsmith.frontend.calls import call

        return call(stage, method, [x], {})
    return len(x)


def getitem(stage: Stage, x: Any, key: Any) -> Any:
    """``x[key]``."""
    x = st.static(x) if isinstance(x, Text) else x
    if isinstance(x, Array):
        return indexing.getitem(x, key)
    if isinstance(x, np.ndarray):
        return indexing.getitem(stage.wrap(x), key)
    if is_grown(x):
        return _grown_item(stage, x, key)
    if hasattr(type(x), "staged_item"):
        return x.staged_item(stage.concrete(key) if not isinstance(key, Scalar) else key)
    if isinstance(x, list | tuple) and isinstance(key, Scalar) and not stage.peekable(key.value) and len(x) > 1:
        return _table_lookup(stage, x, key)
    if isinstance(x, Scalar) and not x.weak:
        return indexing.getitem(fresh(x.value), key)
    if isinstance(x, Symbolic):
        raise TypeError(f"{type_name(x)!r} object is not subscriptable")
    method = special_method(x, "__getitem__")
    if isinstance(method, FUNCTIONS):
        from gradsmith.frontend.calls import call

        return call(stage, method, [x, key], {})
    if isinstance(key, slice):
        key = slice(*map(stage.concrete, (key.start, key.stop, key.step)))
    key = st.static(key) if not isinstance(key, slice) else key
    if isinstance(x, dict) and type(x) is not dict and key not in x:
        return _missing_item(stage, x, key)
    value = x[key]
    if type(value) is Maybe:
        stage.check(value.defined, KeyError, repr(key))
        value = value.value
    if isinstance(x, list) and isinstance(key, slice):
        return stage.heap.born(value)
    return value if isinstance(x, list | tuple | dict | str) else lift_item(stage, x, key, value)


def _missing_item(stage: Stage, x: dict[Any, Any], key: Any) -> Any:
    """``x[key]`` of a dict of a derived class without that key."""
    method = special_method(x, "__missing__")
    if isinstance(method, FUNCTIONS):
        return call_method(stage, method, [x, key])
    if not isinstance(x, collections.defaultdict) or x.default_factory is None:
        return x[key]
    from gradsmith.frontend.calls import call

    value = call(stage, x.default_factory, [], {})
    stage.heap.write(Slot("key", x, key), value)
    return value


def _table_lookup(stage: Stage, x: Sequence[Any], key: Scalar) -> Any:
    """``numbers[i]`` with an index that changes in a loop: the list as an array."""
    if not all(is_number(v) for v in x):
        raise st.NeedConcrete(key.value)
    table = fresh(st.as_value(list(x)))
    item = indexing.getitem(table, key)
    weak = all(not isinstance(v, np.generic) and (not isinstance(v, Scalar) or v.weak) for v in x)
    return Scalar(item.value, weak)


def _grown_item(stage: Stage, x: list[Any], key: Any) -> Any:
    if isinstance(key, slice):
        raise NotSpecialised("slicing a list that grew in a loop; make an array of it with np.array or np.stack first")
    grown = x[0]
    n = ir.emit("seq_len", grown.seq)
    i = st.index_value(key)
    i = ir.where(ir.elementwise("lt", i, 0), ir.elementwise("add", i, n), i)
    inside = ir.emit("and", ir.elementwise("ge", i, 0), ir.elementwise("lt", i, n))
    stage.check(Scalar(inside, weak=True), IndexError, "list index out of range")
    value = ir.emit("seq_get", grown.seq, i)
    return Scalar(value, grown.weak) if value.ndim == 0 else Array(Cell(value, ambiguous=HELD))


def setitem(stage: Stage, x: Any, key: Any, value: Any) -> None:
    """``x[key] = value``."""
    if isinstance(x, Array | np.ndarray):
        indexing.setitem(x if isinstance(x, Array) else stage.wrap(x), key, value)
        return
    if isinstance(x, Scalar):
        raise TypeError(f"{type_name(x)!r} object does not support item assignment")
    method = special_method(x, "__setitem__")
    if isinstance(method, FUNCTIONS):
        call_method(stage, method, [x, key, value])
    elif isinstance(x, list | collections.deque):
        if is_grown(x):
            raise NotSpecialised("assigning an item of a list that grew in a loop; use an array")
        key = key if isinstance(key, slice) else stage.concrete(key)
        items = list(x)
        items[key] = iterate(stage, value) if isinstance(key, slice) else value
        stage.heap.write(Slot("list", x), items)
    elif isinstance(x, dict):
        stage.heap.write(Slot("key", x, st.static(key)), value)
    else:
        raise UnsupportedCode(f"assigning an item of a {type(x).__name__}")


def delitem(stage: Stage, x: Any, key: Any) -> None:
    """``del x[key]``."""
    method = special_method(x, "__delitem__")
    if isinstance(method, FUNCTIONS):
        call_method(stage, method, [x, key])
        return
    key = st.static(key)
    if isinstance(x, list | collections.deque) and not is_grown(x):
        items = list(x)
        del items[key]
        stage.heap.write(Slot("list", x), items)
    elif isinstance(x, dict):
        if key not in x:
            raise KeyError(key)
        stage.heap.write(Slot("key", x, key), MISSING)
    else:
        raise UnsupportedCode(f"deleting an item of a {type_name(x)}")


def iterate(stage: Stage, x: Any) -> list[Any]:
    """The items of ``x`` as a list: unpacking, and loops that unroll. Run-time lengths are specialised on."""
    from gradsmith.frontend.iterables import Pulled, taken

    x = taken(st.static(x) if isinstance(x, Text) else keys.settle(stage, x))
    if isinstance(x, Pulled):
        return x.rest()
    if isinstance(x, Array):
        n = int(stage.concrete(length(stage, x)))
        return [indexing.getitem(x, k) for k in range(n)]
    if is_grown(x):
        n = int(stage.concrete(length(stage, x)))
        return [_grown_item(stage, x, k) for k in range(n)]
    if hasattr(type(x), "staged_item"):
        n = int(stage.concrete(x.staged_length()))
        return [x.staged_item(k) for k in range(n)]
    if isinstance(x, Scalar):
        raise TypeError(f"{type_name(x)!r} object is not iterable" if x.weak else "iteration over a 0-d array")
    from gradsmith.frontend.yielding import iterator_of

    found = iterator_of(stage, x)
    if found is not x:
        return iterate(stage, found)
    return [stage.wrap(item) for item in x]


# ---- text -----------------------------------------------------------------------------------------------------------


def make_text(template: str, values: list[Any]) -> Text | str:
    """A :class:`Text`, or a plain string when nothing in it is symbolic."""
    return Text(template, values) if values else template.format()


def _escape(s: str) -> str:
    return s.replace("{", "{{").replace("}", "}}")


def format_pieces(pieces: list[Any]) -> Text | str:
    """An f-string from its literal parts and its (value, conversion, spec) parts."""
    template, values = "", []
    for piece in pieces:
        if isinstance(piece, str):
            template += _escape(piece)
            continue
        value, conversion, spec = piece
        if isinstance(value, Text):
            template += value.template
            values += value.values
        elif isinstance(value, Symbolic):
            template += "{" + (f"!{chr(conversion)}" if conversion > 0 else "") + (f":{spec}" if spec else "") + "}"
            values.append(value)
        else:
            if conversion > 0:
                conversions: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}
                value = recursion.users(conversions[chr(conversion)], value)
            template += _escape(recursion.users(format, value, spec))
    return make_text(template, values)


_CONVERSION = re.compile(r"%([-+ #0]*)(\d*)(\.\d+)?([a-zA-Z%])")


def format_percent(template: str, x: Any) -> Text | str:
    """``template % x`` with run-time numbers."""
    items = iter(x if isinstance(x, tuple) else (x,))
    pieces: list[Any] = []
    end = 0
    for match in _CONVERSION.finditer(template):
        pieces.append(template[end : match.start()])
        end = match.end()
        if match.group(4) == "%":
            pieces.append("%")
            continue
        item = next(items)
        pieces.append(_converted(item, match) if isinstance(item, Symbolic) else match.group() % item)
    return format_pieces([*pieces, template[end:]])


def format_method(template: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Text | str:
    """``template.format(*args, **kwargs)`` with run-time numbers."""
    pieces: list[Any] = []
    count = 0
    for literal, field, spec, conversion in string.Formatter().parse(template):
        pieces.append(literal)
        if field is None:
            continue
        if field == "":
            field, count = str(count), count + 1
        if "{" in (spec or "") or not (field.isdigit() or field.isidentifier()):
            raise UnsupportedCode(f"the field {{{field}:{spec}}} of a text with run-time numbers; write an f-string")
        item = args[int(field)] if field.isdigit() else kwargs[field]
        pieces.append((item, ord(conversion) if conversion else -1, spec or ""))
    return format_pieces(pieces)


def _converted(item: Any, match: re.Match[str]) -> tuple[Any, int, str]:
    """The piece of an f-string for a conversion of a run-time number."""
    flags, width, precision, kind = match.groups()
    whole = isinstance(item, Scalar) and item.dtype.kind in "biu"
    if "#" in flags or not (kind in "eEfFgGsr" or (whole and kind in "di")):
        raise UnsupportedCode(f"{match.group()!r} of a run-time number; write an f-string")
    sign = "+" if "+" in flags else " " if " " in flags else ""
    align = "<" if "-" in flags else "" if "0" in flags or not width else ">"
    zero = "0" if "0" in flags and not align else ""
    letter = "" if kind in "sr" else "d" if kind == "i" else kind
    return item, 114 if kind == "r" else 0, f"{align}{sign}{zero}{width}{precision or ''}{letter}"


def make_super(frame: Frame) -> Any:
    """``super()`` without arguments inside a method."""
    owner = frame.owner or frame
    cls = _class_around(owner)
    if cls is None:
        raise RuntimeError("super(): no arguments")
    first = next(iter(owner.vars.values()))
    return super(cls, first)


def _class_around(frame: Frame) -> type | None:
    """The class in whose body the running method is defined."""
    around: Frame | None = frame
    while around is not None:
        if around.cls is not None:
            return around.cls
        around = around.parent
    cell = frame.cells.get("__class__")
    return None if cell is None else cell.cell_contents
