"""Python's builtins, and methods of lists, dicts and sets, called in staged code."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import arithmetic, iterables, keys, managers, objects, records, recursion, yielding
from gradsmith.frontend import stage as st
from gradsmith.frontend.frames import FUNCTIONS
from gradsmith.frontend.heap import MISSING, Slot
from gradsmith.frontend.outside import assume_presence
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import (
    Array,
    Cell,
    Grown,
    Maybe,
    NotSpecialised,
    Scalar,
    Symbolic,
    Text,
    attribute_names,
    contains_symbolic,
    dtype_of,
    fresh,
    is_grown,
    is_number,
    is_weak,
)
from gradsmith.ir import builder as ir
from gradsmith.ir.types import ArrayType

_BUILTINS: dict[Any, Callable[..., Any]] = {}


def find(f: Any) -> Callable[..., Any] | None:
    """The staged version of a builtin (taking the stage first), or None."""
    try:
        return _BUILTINS.get(f)
    except TypeError:
        return None


def register(f: Any, implementation: Callable[..., Any]) -> None:
    """Say what calling ``f`` means in staged code; the implementation takes the stage first."""
    _BUILTINS[f] = implementation


def _staged(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for f in functions:
            _BUILTINS[f] = implementation
        return implementation

    return register


def _call(stage: Stage, f: Any, *args: Any) -> Any:
    from gradsmith.frontend.calls import call

    return call(stage, f, args, {})


# ---- types and attributes -------------------------------------------------------------------------------------------


@_staged(isinstance)
def _isinstance(stage: Stage, x: Any, kinds: Any) -> bool:
    if isinstance(x, Symbolic):
        return issubclass(objects.python_type(x), kinds)
    return isinstance(x, kinds)


@_staged(super)
def _super(stage: Stage, *args: Any) -> Any:
    return super(*args)


@_staged(type)
def _type(stage: Stage, x: Any, *rest: Any) -> Any:
    return type(x, *rest) if rest else objects.python_type(x)


@_staged(callable)
def _callable(stage: Stage, x: Any) -> bool:
    return isinstance(x, objects.Method) or (callable(x) and not isinstance(x, Symbolic))


@_staged(getattr)
def _getattr(stage: Stage, x: Any, name: str, *default: Any) -> Any:
    if default and type(own := objects.own_attribute(x, name)) is Maybe and not hasattr(type(x), name):
        return objects.either(stage, own, default[0])
    try:
        return objects.getattr_(stage, x, name)
    except AttributeError:
        if default:
            assume_presence(stage, x, name, False)
            return default[0]
        raise


@_staged(hasattr)
def _hasattr(stage: Stage, x: Any, name: str) -> Any:
    if isinstance(x, Symbolic):
        return hasattr(objects.python_type(x), name)
    try:
        found = objects.has_attribute(stage, x, name)
    except AttributeError:
        found = False
    if isinstance(found, bool):
        assume_presence(stage, x, name, found)
    return found


@_staged(setattr)
def _setattr(stage: Stage, x: Any, name: str, value: Any) -> None:
    objects.setattr_(stage, x, name, value)


@_staged(object.__getattribute__)
def _object_getattribute(stage: Stage, x: Any, name: str) -> Any:
    return objects.found_attribute(stage, x, name)


@_staged(object.__setattr__)
def _object_setattr(stage: Stage, x: Any, name: str, value: Any) -> None:
    objects.store_attribute(stage, x, name, value)


@_staged(vars)
def _vars(stage: Stage, x: Any) -> Any:
    return objects.getattr_(stage, x, "__dict__")


@_staged(delattr)
def _delattr(stage: Stage, x: Any, name: str) -> None:
    objects.delattr_(stage, x, name)


@_staged(id)
def _id(stage: Stage, x: Any) -> int:
    return id(x.cell) if isinstance(x, Array) and not x.views else id(x)


# ---- numbers --------------------------------------------------------------------------------------------------------


def _scalar(x: Any, what: str) -> Any:
    """A symbolic number from a symbolic number or an array of one element."""
    if isinstance(x, Array):
        size = ir.shape(x.value)
        stage = st.current()
        for n in size:
            stage.check(
                arithmetic.python_number(arithmetic.fold("eq", [n, ir.i64(1)])),
                TypeError,
                f"only length-1 arrays can be converted to Python scalars ({what})",
            )
        return Scalar(ir.reshape(x.value, []) if x.ndim else x.value, weak=False)
    return x


@_staged(float)
def _float(stage: Stage, x: Any = 0.0) -> Any:
    x = st.static(x) if isinstance(x, Text) else x
    if not isinstance(x, Symbolic):
        method = objects.special_method(x, "__float__")
        return _call(stage, method, x) if isinstance(method, FUNCTIONS) else float(x)
    x = _scalar(x, "float")
    if x.dtype.kind == "c":
        raise TypeError("float() argument must be a string or a real number, not 'complex'")
    return arithmetic.python_number(ir.cast(x.value, np.float64))


@_staged(complex)
def _complex(stage: Stage, re: Any = 0.0, im: Any = 0.0) -> Any:
    if not isinstance(re, Symbolic) and not isinstance(im, Symbolic):
        return complex(re, im)
    re, im = _scalar(re, "complex"), _scalar(im, "complex")
    if not isinstance(im, Symbolic) and im == 0.0:
        return arithmetic.python_number(st.as_value(re, np.complex128))
    if dtype_of(re).kind == "c" or dtype_of(im).kind == "c":
        return arithmetic.binary("+", re, arithmetic.binary("*", im, 1j))
    return arithmetic.python_number(ir.emit("complex", st.as_value(re, np.float64), st.as_value(im, np.float64)))


@_staged(int)
def _int(stage: Stage, x: Any = 0, *base: Any) -> Any:
    x = st.static(x) if isinstance(x, Text) else x
    if not isinstance(x, Symbolic):
        return int(x, *base)
    return arithmetic.python_number(ir.cast(_scalar(x, "int").value, np.int64))


@_staged(bool, operator.truth)
def _bool(stage: Stage, x: Any = False) -> Any:
    return objects.truth(stage, x)


@_staged(operator.not_)
def _not(stage: Stage, x: Any) -> Any:
    return arithmetic.logical_not(objects.truth(stage, x))


@_staged(operator.index)
def _index(stage: Stage, x: Any) -> Any:
    return st.integer(st.index_value(x)) if isinstance(x, Symbolic) else operator.index(x)


@_staged(abs, operator.abs)
def _abs(stage: Stage, x: Any) -> Any:
    if not isinstance(x, Symbolic):
        method = objects.special_method(x, "__abs__")
        return _call(stage, method, x) if isinstance(method, FUNCTIONS) else stage.wrap(abs(x))
    if isinstance(x, Scalar) and x.weak:
        value = x.value if x.dtype.kind != "b" else ir.cast(x.value, np.int64)
        return arithmetic.python_number(ir.elementwise("abs", value))
    return arithmetic.ufunc(np.absolute, x)


@_staged(round)
def _round(stage: Stage, x: Any, digits: Any = None) -> Any:
    if not isinstance(x, Symbolic):
        return round(x, digits)
    if digits is None and isinstance(x, Scalar | Array):
        value = x.value if x.dtype.kind in "iub" else ir.elementwise("rint", x.value)
        return arithmetic.python_number(ir.cast(value, np.int64))
    rounded = objects.call_catalogue(np.round, x, digits)
    return Scalar(rounded.value, is_weak(x)) if isinstance(rounded, Scalar) else rounded


@_staged(divmod)
def _divmod(stage: Stage, x: Any, y: Any) -> Any:
    for owner, name, other in ((x, "__divmod__", y), (y, "__rdivmod__", x)):
        if (method := objects.user_method(owner, name)) is not None:
            result = objects.call_method(stage, method, [owner, other])
            if result is not NotImplemented:
                return result
    return objects.binary(stage, "//", x, y), objects.binary(stage, "%", x, y)


@_staged(pow)
def _pow(stage: Stage, x: Any, y: Any, modulus: Any = None) -> Any:
    power = objects.binary(stage, "**", x, y)
    return power if modulus is None else objects.binary(stage, "%", power, modulus)


@_staged(sum)
def _sum(stage: Stage, xs: Any, start: Any = 0) -> Any:
    xs = iterables.taken(xs)
    if isinstance(xs, Array) or is_grown(xs):
        total = objects.call_catalogue(np.sum, fresh(st.as_value(xs)), axis=0)
        if isinstance(xs, list) and xs[0].weak and isinstance(total, Scalar):
            total = Scalar(total.value, weak=True)
        return total if not isinstance(start, Symbolic) and start == 0 else objects.binary(stage, "+", start, total)
    total = start
    for x in objects.iterate(stage, xs):
        total = objects.binary(stage, "+", total, x)
    return total


def _extreme(symbol: str, ufunc: np.ufunc, reduction: Any) -> Callable[..., Any]:
    def extreme(stage: Stage, *args: Any, key: Any = None, default: Any = MISSING) -> Any:
        single = len(args) == 1
        args = tuple(map(iterables.taken, args))
        if single and key is None and isinstance(args[0], Array):
            return objects.call_catalogue(reduction, args[0])
        if single and is_grown(args[0]):
            found = objects.call_catalogue(reduction, fresh(st.as_value(args[0])))
            return Scalar(found.value, args[0][0].weak)
        items = objects.iterate(stage, args[0]) if single else list(args)
        if not items:
            if default is not MISSING:
                return default
            raise ValueError(f"{reduction.__name__}() iterable argument is empty")
        best = items[0]
        for item in items[1:]:
            best = pick(stage, best, item, key)
        return best

    def pick(stage: Stage, a: Any, b: Any, key: Any) -> Any:
        if key is None and is_number(a) and is_number(b) and (isinstance(a, Scalar) or isinstance(b, Scalar)):
            weak = is_weak(a) and is_weak(b)
            dtype = np.result_type(dtype_of(a), dtype_of(b)) if weak else None
            if dtype is not None:
                return arithmetic.python_number(
                    arithmetic.fold(ufunc.__name__, [st.as_value(x, dtype) for x in (a, b)])
                )
            return arithmetic.ufunc(ufunc, a, b)
        keys = (a, b) if key is None else (_call(stage, key, a), _call(stage, key, b))
        t = objects.truth(stage, objects.compare(stage, symbol, keys[1], keys[0]))
        if isinstance(t, bool):
            return b if t else a
        from gradsmith.frontend.flow import JoinFailure, branch

        try:
            return branch(stage, t.value, lambda: b, lambda: a)
        except JoinFailure:
            if not stage.peekable(t.value):
                raise
            return b if stage.concrete(t) else a

    return extreme


_BUILTINS[max] = _extreme(">", np.maximum, np.max)
_BUILTINS[min] = _extreme("<", np.minimum, np.min)


@_staged(any)
def _any(stage: Stage, xs: Any) -> Any:
    return _fold_truth(stage, xs, "|", True)


@_staged(all)
def _all(stage: Stage, xs: Any) -> Any:
    return _fold_truth(stage, xs, "&", False)


def _fold_truth(stage: Stage, xs: Any, symbol: str, stop: bool) -> Any:
    xs = iterables.taken(xs)
    if isinstance(xs, Array) and xs.ndim == 1:
        return arithmetic.truth(objects.call_catalogue(np.any if stop else np.all, xs))
    result: Any = not stop
    for x in objects.iterate(stage, xs):
        t = objects.truth(stage, x)
        if t is stop:
            return stop
        if isinstance(t, Scalar):
            result = arithmetic.binary(symbol, result, t) if isinstance(result, Scalar) else t
    return result


# ---- containers and iteration ---------------------------------------------------------------------------------------


@_staged(len, operator.length_hint)
def _len(stage: Stage, x: Any) -> Any:
    return objects.length(stage, x)


@_staged(range)
def _range(stage: Stage, *args: Any) -> Any:
    if any(isinstance(a, Symbolic) for a in args):
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
        return iterables.Range(start, stop, step)
    return range(*args)


@_staged(zip)
def _zip(stage: Stage, *xs: Any, strict: bool = False) -> Any:
    if len(xs) > 1 and isinstance(xs[0], iterables.Once) and all(x is xs[0] for x in xs):
        items = objects.iterate(stage, xs[0])  # one iterator several times: its items in groups
        return iterables.Once(lambda: _zipped(stage, [items[k :: len(xs)] for k in range(len(xs))], strict))
    fresh = [k for k, x in enumerate(xs) if _runs(x)]
    if fresh and not strict:
        k = fresh[0]
        parts = [
            list(x) if isinstance(x, tuple) else x if _indexable(x) else objects.iterate(stage, x)
            for x in xs[:k] + xs[k + 1 :]
        ]
        return yielding.stage_generator(stage, yielding.zipped, parts[:k], xs[k], parts[k:])
    parts = [x.take(iterables.Once.LOST, whole=False) if isinstance(x, iterables.Once) else x for x in xs]
    return iterables.Once(lambda: _zipped(stage, parts, strict))


def _zipped(stage: Stage, parts: list[Any], strict: bool) -> Any:
    if any(isinstance(p, iterables.Pulled) for p in parts):
        found = [p if isinstance(p, iterables.Pulled) else objects.iterate(stage, p) for p in parts]
        most = min((len(p) for p in found if isinstance(p, list)), default=iterables.MAX_UNROLL) + strict
        parts = [p if isinstance(p, list) else p.rest(0, most) for p in found]
    if any(map(iterables.runs_as_loop, parts)):
        return iterables.Zip([x if _indexable(x) else objects.iterate(stage, x) for x in parts], strict)
    return stage.heap.born(list(zip(*(objects.iterate(stage, x) for x in parts), strict=strict)))


def _indexable(x: Any) -> bool:
    return isinstance(x, Array | list | tuple | range | iterables.Lazy)


@_staged(enumerate)
def _enumerate(stage: Stage, xs: Any, start: Any = 0) -> Any:
    xs = yielding.iterator_of(stage, xs)
    if _runs(xs):
        return yielding.stage_generator(stage, yielding.enumerated, xs, start)
    part = xs.take(iterables.Once.LOST) if isinstance(xs, iterables.Once) else xs

    def numbered() -> Any:
        if iterables.runs_as_loop(part):
            return iterables.Enumerate(part, start)
        return stage.heap.born(list(enumerate(objects.iterate(stage, part), stage.concrete(start))))

    return iterables.Once(numbered)


@_staged(reversed)
def _reversed(stage: Stage, xs: Any) -> Any:
    if isinstance(xs, iterables.Once):
        raise TypeError("'iterator' object is not reversible")

    def backwards() -> Any:
        if isinstance(xs, range):
            return xs[::-1]
        return (
            iterables.Reversed(xs) if iterables.runs_as_loop(xs) else stage.heap.born(objects.iterate(stage, xs)[::-1])
        )

    return iterables.Once(backwards)


@_staged(itertools.count)
def _count(stage: Stage, start: Any = 0, step: Any = 1) -> Any:
    if all(dtype_of(x).kind in "iu" for x in (start, step)) and (isinstance(step, Symbolic) or step > 0):
        return iterables.Once(lambda: iterables.counting(start, step))
    return yielding.stage_generator(stage, yielding.counted, start, step)


def _runs(xs: Any) -> bool:
    """Whether the items of ``xs`` come from a generator that has not run yet."""
    return isinstance(xs, yielding.Generated) and xs.fresh


class _Spread:
    """A function of one tuple of arguments."""

    def __init__(self, f: Any):
        self.f = f

    def __gradsmith_call__(self, stage: Stage, args: Any, kwargs: Any) -> Any:
        return _call(stage, self.f, *args[0])


@_staged(map)
def _map(stage: Stage, f: Any, *xs: Any) -> Any:
    items = _iter(stage, xs[0]) if len(xs) == 1 else _zip(stage, *xs)
    if _runs(items):
        return yielding.stage_generator(stage, yielding.mapped, f if len(xs) == 1 else _Spread(f), items)
    spread = (lambda x: (x,)) if len(xs) == 1 else tuple
    return iterables.Once(lambda: _collect(stage, items.take(), lambda x: _call(stage, f, *spread(x))))


@_staged(filter)
def _filter(stage: Stage, f: Any, xs: Any) -> Any:
    items = _iter(stage, xs)
    if _runs(items):
        return yielding.stage_generator(stage, yielding.filtered, f, items)

    def chosen() -> Any:
        out = []
        for x in objects.iterate(stage, items):
            t = objects.truth(stage, x if f is None else _call(stage, f, x))
            if stage.concrete(t):
                out.append(x)
        return stage.heap.born(out)

    return iterables.Once(chosen)


@_staged(next)
def _next(stage: Stage, xs: Any, default: Any = MISSING) -> Any:
    advance = xs.advance if isinstance(xs, iterables.Once) else lambda: _call(stage, type(xs).__next__, xs)
    if default is MISSING:
        return advance()
    try:
        return advance()
    except StopIteration:
        return default


def _collect(stage: Stage, xs: Any, f: Callable[[Any], Any]) -> Any:
    """``[f(x) for x in xs]``."""
    from gradsmith.frontend.frames import Frame
    from gradsmith.frontend.loops import for_each

    outer = stage.frames[-1]
    frame = Frame(stage, outer, outer.globals, outer.cells, outer.function)
    out = frame.vars["%list"] = stage.heap.born([])
    for_each(frame, xs, lambda x: container_method(stage, out, "append", [f(x)], {}))
    return out


@_staged(list)
def _list(stage: Stage, xs: Any = ()) -> Any:
    xs = iterables.taken(xs)
    if isinstance(xs, list):
        return stage.heap.born(list(xs))
    if iterables.runs_as_loop(xs) and not isinstance(xs, range):
        return _collect(stage, xs, lambda x: x)
    return stage.heap.born(objects.iterate(stage, xs))


@_staged(tuple)
def _tuple(stage: Stage, xs: Any = ()) -> Any:
    return tuple(objects.iterate(stage, xs))


@_staged(tuple.__new__)
def _tuple_new(stage: Stage, cls: type, xs: Any = ()) -> Any:
    return tuple.__new__(cls, objects.iterate(stage, xs))


@_staged(set)
def _set(stage: Stage, xs: Any = ()) -> Any:
    return stage.heap.born({st.static(x) for x in objects.iterate(stage, xs)})


@_staged(frozenset)
def _frozenset(stage: Stage, xs: Any = ()) -> Any:
    return frozenset(st.static(x) for x in objects.iterate(stage, xs))


@_staged(dict)
def _dict(stage: Stage, *args: Any, **kwargs: Any) -> Any:
    if args and not isinstance(args[0], dict):
        args = ([tuple(objects.iterate(stage, pair)) for pair in objects.iterate(stage, args[0])],)
    return stage.heap.born(dict(*(keys.settle(stage, a) for a in args), **kwargs))


@_staged(iter)
def _iter(stage: Stage, xs: Any) -> Any:
    if isinstance(xs, iterables.Once):
        return xs
    found = yielding.iterator_of(stage, xs)
    if found is not xs:
        return found if isinstance(found, iterables.Once) else _iter(stage, found)
    return iterables.Once(lambda: xs if _indexable(xs) else objects.iterate(stage, xs))


@_staged(sorted)
def _sorted(stage: Stage, xs: Any, key: Any = None, reverse: Any = False) -> Any:
    items = objects.iterate(stage, xs)
    keys = items if key is None else [_call(stage, key, x) for x in items]
    if not contains_symbolic(keys):
        backwards = stage.concrete(reverse)
        order = recursion.users(sorted, range(len(items)), key=lambda k: keys[k], reverse=backwards)
        return stage.heap.born([items[k] for k in order])
    if key is not None or not all(map(is_number, items)):
        return stage.heap.born([items[k] for k in _order(stage, keys, bool(stage.concrete(reverse)))])
    ordered = objects.call_catalogue(np.sort, fresh(st.as_value(items)))
    weak = all(map(is_weak, items))
    out = [Scalar(objects.getitem(stage, ordered, k).value, weak) for k in range(len(items))]
    return stage.heap.born(out[::-1] if stage.concrete(reverse) else out)


def _order(stage: Stage, keys: list[Any], descending: bool) -> list[int]:
    """The stable order of run-time keys in this call, specialised on by guards between neighbours."""

    def less(i: int, j: int) -> Any:
        first, second = (keys[j], keys[i]) if descending else (keys[i], keys[j])
        return objects.truth(stage, objects.compare(stage, "<", first, second))

    def known(t: Any) -> bool:
        return bool(stage.peek(t.value)) if isinstance(t, Scalar) else t

    def compared(i: int, j: int) -> int:
        return -1 if known(less(i, j)) else int(known(less(j, i)))

    order = sorted(range(len(keys)), key=functools.cmp_to_key(compared))
    for i, j in zip(order, order[1:], strict=False):
        stage.concrete(less(j, i) if i < j else less(i, j))
    return order


@_staged(slice)
def _slice(stage: Stage, *args: Any) -> Any:
    return slice(*args)


@_staged(copy.copy)
def _copy(stage: Stage, x: Any) -> Any:
    if isinstance(x, Array):
        return fresh(x.value)
    if isinstance(x, Symbolic):
        return x
    return stage.heap.born(copy.copy(x))


@_staged(copy.deepcopy)
def deepcopy(stage: Stage, x: Any, memo: Any = None) -> Any:
    def copied(y: Any) -> Any:
        if isinstance(y, Array):
            known = memory.get(id(y.cell))
            cell = memory[id(y.cell)] = known or Cell(y.cell.value, y.cell.contiguous)
            return Array(cell, y.views)
        if isinstance(y, Scalar | Grown | Maybe):
            return y
        if id(y) in memory:
            return memory[id(y)]
        if type(y) is list:
            out: Any = memory.setdefault(id(y), stage.heap.born([]))
            out += map(copied, y)
            return out
        if isinstance(y, tuple) and contains_symbolic(y):
            return type(y)(*map(copied, y)) if hasattr(y, "_fields") else type(y)(map(copied, y))
        if type(y) is dict:
            out = memory.setdefault(id(y), stage.heap.born({}))
            out.update((copied(k), copied(v)) for k, v in y.items())
            return out
        names = list(attribute_names(y))
        if not names or not contains_symbolic(y):
            return copy.deepcopy(y)
        out = memory.setdefault(id(y), stage.heap.born(object.__new__(type(y))))
        for k in names:
            object.__setattr__(out, k, copied(getattr(y, k)))
        return out

    memory: dict[int, Any] = {}
    return copied(x)


_BUILTINS[contextlib._GeneratorContextManager] = managers.manage
_BUILTINS[dataclasses.replace] = records.replace
_BUILTINS[dataclasses.asdict] = records.as_dict
_BUILTINS[dataclasses.astuple] = records.as_tuple


# ---- text and effects -----------------------------------------------------------------------------------------------


@_staged(str, repr, format)
def _str(stage: Stage, x: Any = "", spec: str = "") -> Any:
    if isinstance(x, Symbolic):
        return objects.format_pieces([(x, 0, spec)])
    return format(x, spec) if spec else str(x)


_BUILTINS[repr] = lambda stage, x: objects.format_pieces([(x, 114, "")])


def _operator(symbol: str) -> Callable[..., Any]:
    return lambda stage, x, y: objects.compare(stage, symbol, x, y)


for _symbol, (_, _function) in arithmetic.BINARY.items():
    _BUILTINS[_function] = _operator(_symbol)
_BUILTINS[operator.neg] = lambda stage, x: objects.unary(stage, "-", x)
_BUILTINS[operator.pos] = lambda stage, x: objects.unary(stage, "+", x)
_BUILTINS[operator.getitem] = lambda stage, x, key: objects.getitem(stage, x, key)
_BUILTINS[operator.setitem] = lambda stage, x, key, value: objects.setitem(stage, x, key, value)


# ---- methods of containers ------------------------------------------------------------------------------------------

_LIST_MUTATORS = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort", "__setitem__", "__delitem__"}
)
_DEQUE_MUTATORS = frozenset(
    {"append", "appendleft", "extend", "extendleft", "pop", "popleft", "rotate", "clear", "insert", "remove", "reverse"}
)
_DICT_MUTATORS = frozenset({"update", "pop", "setdefault", "clear", "popitem", "__setitem__", "__delitem__"})


def check_change(stage: Stage, owner: Any) -> None:
    """Refuse to change a container whose changes are not journalled, where that could not be taken back."""
    if stage.depth or not stage.heap.birth(owner):
        where = "under a run-time condition" if stage.depth else "that comes from outside the function"
        raise UnsupportedCode(f"changing a {type(owner).__name__} {where}; use a list or a dict")


_ORDERED_ONLY = frozenset({"move_to_end", "popitem", "copy"})


def journals(owner: Any, name: str) -> bool:
    """Whether the method of a container is staged by :func:`container_method`."""
    if isinstance(owner, collections.deque):
        return type(owner) is collections.deque and name in _DEQUE_MUTATORS and bool(st.current().heap.birth(owner))
    if type(owner) in (collections.defaultdict, collections.OrderedDict):
        return name not in _ORDERED_ONLY
    return type(owner) in (list, dict, set)


def _deque_method(stage: Stage, x: collections.deque[Any], name: str, args: list[Any]) -> Any:
    if name in ("extend", "extendleft"):
        args = [objects.iterate(stage, args[0])]
    elif name == "rotate":
        args = [stage.concrete(a) for a in args]
    elif name in ("insert", "__delitem__"):
        args = [stage.concrete(args[0]), *args[1:]]
    elif name == "remove":
        items = list(x)
        stage.heap.write(
            Slot("list", x), [y for k, y in enumerate(items) if k != _search(stage, items, "index", args[0])]
        )
        return None
    after = collections.deque(x, x.maxlen)
    result = getattr(after, name)(*args)
    stage.heap.write(Slot("list", x), list(after))
    return result


def container_method(stage: Stage, owner: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A method of a list, dict or set: changes are journalled."""
    if isinstance(owner, list):
        return _list_method(stage, owner, name, list(args), kwargs)
    if isinstance(owner, collections.deque):
        return _deque_method(stage, owner, name, list(args))
    if isinstance(owner, dict):
        return _dict_method(stage, owner, name, list(args), kwargs)
    args = [st.static(a) for a in args]
    if name in ("add", "discard", "remove", "update", "pop", "clear"):
        check_change(stage, owner)
    return getattr(owner, name)(*args, **kwargs)


def _list_method(stage: Stage, x: list[Any], name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    grown = is_grown(x)
    if name == "append" and grown:
        return _push(stage, x, args[0])
    if name == "extend":
        items = objects.iterate(stage, args[0])
        if grown:
            for item in items:
                _push(stage, x, item)
            return None
        args = [items]
    if name == "copy" and grown:
        return stage.heap.born(list(x))
    if grown:
        raise NotSpecialised(f"list.{name} on a list that grew in a loop; make an array of it first")
    if name == "sort":
        stage.heap.write(Slot("list", x), list(_sorted(stage, x, **kwargs)))
        return None
    if name in ("index", "count", "remove", "__contains__") and contains_symbolic([x, args]):
        return _search(stage, x, name, args[0])
    if name not in _LIST_MUTATORS:
        result = getattr(x, name)(*map(st.static, args), **kwargs)
        return stage.heap.born(result) if isinstance(result, list) else result
    items = list(x)
    if name in ("insert", "pop", "__delitem__"):
        args = [stage.concrete(args[0]), *args[1:]] if args else args
    result = getattr(items, name)(*args, **kwargs)
    stage.heap.write(Slot("list", x), items)
    return result


def _push(stage: Stage, x: list[Any], item: Any) -> None:
    from gradsmith.frontend.joins import JoinFailure, converted, hold

    grown: Grown = x[0]
    value, elem = st.as_value(item), grown.seq.type.elem  # type: ignore[union-attr]
    assert isinstance(elem, ArrayType)
    if value.ndim != elem.ndim:
        raise JoinFailure(f"a list of {elem} grows by {value.type}")
    dtype = np.result_type(value.dtype, elem.dtype)
    seq = ir.emit("seq_push", converted(grown.seq, dtype), ir.cast(value, dtype))
    stage.heap.write(Slot("list", x), [Grown(seq, grown.weak and is_weak(item))])
    hold(item)


def _search(stage: Stage, x: list[Any], name: str, wanted: Any) -> Any:
    hits = [
        k
        for k, item in enumerate(x)
        if item is wanted or stage.concrete(objects.truth(stage, objects.compare(stage, "==", item, wanted)))
    ]
    if name == "count":
        return len(hits)
    if name == "__contains__":
        return bool(hits)
    if not hits:
        raise ValueError("the value is not in the list")
    if name == "remove":
        stage.heap.write(Slot("list", x), x[: hits[0]] + x[hits[0] + 1 :])
        return None
    return hits[0]


def _dict_method(stage: Stage, x: dict[Any, Any], name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if name in ("get", "pop", "setdefault", "__contains__", "__getitem__", "__setitem__", "__delitem__") and args:
        args[0] = st.static(args[0])
    if name == "get" and type(found := x.get(args[0])) is Maybe:
        return objects.either(stage, found, args[1] if len(args) > 1 else None)
    if name == "__contains__":
        return keys.holds(stage, x, args[0])
    for y in (x, *args) if name != "get" else ():
        keys.settle(stage, y)
    if name not in _DICT_MUTATORS:
        result = getattr(x, name)(*args, **kwargs)
        return stage.heap.born(result) if isinstance(result, dict) else result
    after = dict(x)
    result = getattr(after, name)(*args, **kwargs)
    for key in [*x, *(k for k in after if k not in x)]:
        if after.get(key, MISSING) is not x.get(key, MISSING):
            stage.heap.write(Slot("key", x, key), after.get(key, MISSING))
    return result
