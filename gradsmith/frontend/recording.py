"""The tape: Python itself runs a function, with recording objects for its arguments; what they meet becomes the Program.

A :class:`RecordedNumber` or :class:`RecordedArray` wraps a front-end value of the running stage and behaves as a number or an
ndarray. Each use goes to the rules that staged code uses (the catalogue, ``objects``, ``indexing``), so there is one set of
rules. Where Python decides something by a recorded value (``if``, ``range(n)``, a dict key), the value of this call decides
and a guard is written down, so that the recording serves only calls that decide alike.
"""

from __future__ import annotations

import functools
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from gradsmith import tree
from gradsmith.backends import effects
from gradsmith.errors import GradsmithError, GradsmithWarning, UnsupportedCode, add_location
from gradsmith.frontend import arithmetic, calls, leftovers, objects, reading, rules
from gradsmith.frontend import builtins as staged
from gradsmith.frontend import stage as st
from gradsmith.frontend.generators import Handle
from gradsmith.frontend.joins import JoinFailure
from gradsmith.frontend.replacements import original, replaced, stand_in_of
from gradsmith.frontend.stage import NeedConcrete, Stage
from gradsmith.frontend.values import Array, Recorded, Scalar, Symbolic, contains_symbolic, fresh
from gradsmith.ir.program import Block, Const, Location, Value

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Scope:
    """The life of recorded values: the recording, or one derivative inside it, which emits into a block of its own."""

    __slots__ = ("recorder", "block", "open", "lasting")

    def __init__(self, recorder: Recorder, block: Block):
        self.lasting = False
        self.recorder = recorder
        self.block = block
        self.open = True


class Recorder:
    """Runs functions by Python on behalf of one stage."""

    def __init__(self, stage: Stage):
        self.stage = stage
        self.live = False  # whether the user's code is running, rather than gradsmith's
        self.running = 0  # functions run by Python that have not returned
        self.scopes: list[Scope] = []
        self.refused: GradsmithError | None = None  # raised again at the end, should the function catch it
        self.caught = False  # an operation raised an error that no guard stands for
        self.drew = False  # the function was given a random generator
        self.for_one_call = False  # the function changed what it reads from outside, or drew random numbers
        self.arrays = reading.Arrays(stage)
        self.outside: reading.Outside | None = None
        self.shown = False  # the function made text of a recorded number, which may decide something
        self._objects: list[Any] = []  # recorded objects since the outermost function began
        self._plain_arrays: dict[Value, np.ndarray] = {}
        self._locations: dict[tuple[types.CodeType, int], Location] = {}

    # ---- running ----------------------------------------------------------------------------------------------------

    def run(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """``f(*args, **kwargs)`` on front-end values, run by Python."""
        f = getattr(f, "py_func", f)  # a function compiled by numba keeps the Python function there
        with self._run_of(f, (args, kwargs)):
            return self._run(f, args, kwargs)

    def _run(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        leaves, structure = tree.flatten((tuple(args), kwargs))
        if leaves:
            wrapped = {id(x): self._passed(x) for x in leaves}  # one array passed twice is one object
            args, kwargs = tree.unflatten(structure, [wrapped[id(x)] for x in leaves])
        self.live = True
        try:
            result = f(*args, **kwargs)
        except Exception as error:
            where = self._raised_at(error)
            add_location(error, where)
            if self.refused not in (None, error):  # the function, or compiled code, made another error of it
                add_location(self.refused, where)
                raise self.refused from error
            if isinstance(error, TypeError) and ("Recorded" in str(error) or "JSON" in str(error)):
                error.add_note(_INSISTS)
            raise
        self.live = False
        if self.refused is not None:
            raise self.refused
        if any(isinstance(x, types.FunctionType) for x in tree.flatten(result)[0]):
            self.scopes[-1].lasting = True  # a pullback, say, which is called later
        unwrapped = self.unwrap_structure(result)
        self._note_births(unwrapped)
        return unwrapped

    def _passed(self, x: Any) -> Any:
        """What the function gets for an argument."""
        return self.wrap(x) if isinstance(x, Symbolic) else stand_in_of(x) or x

    def _note_births(self, x: Any) -> None:
        """The containers of a result are new: journals and checkpoints take them apart."""
        if isinstance(x, Symbolic) or not contains_symbolic(x):
            return
        if isinstance(x, tuple):
            parts: Iterable[Any] = x
        else:
            self.stage.heap.born(x)
            parts = x.values() if isinstance(x, dict) else x if isinstance(x, list) else vars(x).values()
        for part in parts:
            self._note_births(part)

    @contextmanager
    def _run_of(self, f: Any, arguments: Any) -> Iterator[None]:
        stage, outermost = self.stage, not self.running
        before = stage.engine, self.live, stage.builder.loc
        own = None
        if not self.scopes or self.scopes[-1].block is not stage.builder.block:
            own = Scope(self, stage.builder.block)
            self.scopes.append(own)
        if outermost:
            self.outside = reading.Outside(f)
            self.outside.add_argument(arguments)
        stage.engine = "tape"
        self.running += 1
        kept = succeeded = False
        try:
            if not outermost:
                yield
                return
            assert self.outside is not None
            with replaced(self.outside.scopes.values(), self.outside.holders()), _users_recursion():
                yield
            succeeded = True
        finally:
            self.running -= 1
            stage.engine, self.live, stage.builder.loc = before
            if own is not None:
                self.scopes.remove(own)
                own.open = own.lasting
            if outermost and not (own is not None and own.lasting):
                kept = self.release(succeeded)
        if outermost:
            self._settle(kept)

    def release(self, succeeded: bool = False) -> bool:
        """Put ordinary numbers and arrays where recorded ones are kept. Returns whether a run that succeeded keeps any."""
        made, self._objects = leftovers.alive(self._objects), []
        if not made:
            return False
        outside, ops = self.outside, self.stage.builder.block.ops
        first = len(ops)
        near = [] if outside is None else [*outside.scopes.values(), *outside.holders()]
        kept = leftovers.settle(made, self._plain, near, succeeded)
        del ops[first:]  # reads of views, which nothing uses
        return kept

    def _plain(self, x: Any) -> Any:
        """The number or array that a recorded one stands for; None if that is known only at run time."""
        found = x._recorded
        try:
            value = found.value
            known = self._plain_arrays.get(value)
            data = self.stage.peek(value) if known is None else known
        except Exception:  # of an operation that fails for this call, or is inside a derivative
            return None
        if isinstance(found, Scalar):
            return found.python_type(data) if found.weak else found.dtype.type(data)
        if known is None:
            own = value.op is None and found.cell.outside and not self.arrays.is_copy(data)
            known = self._plain_arrays[value] = data if own else np.array(data)
        return known

    def _settle(self, kept: bool) -> None:
        """Note what the recording relies on: that what was read stays; for one call only, if the function itself changed that."""
        outside, assumptions = self.outside, self.stage.assumptions
        assert outside is not None
        changed = self.arrays.settle()
        self.stage.compares_arrays = self.stage.compares_arrays or outside.compares
        acts = self.caught or self.drew or self.shown or kept
        if acts or not outside.complete or outside.changed() or changed & outside.names.keys():
            self.for_one_call = True
            assumptions.append((reading.once(), True))
        else:
            assumptions += outside.places + outside.contents(self.arrays.met())

    # ---- between recorded and front-end values ----------------------------------------------------------------------

    def wrap(self, x: Any) -> Any:
        """A front-end value as the object that Python sees."""
        kind = type(x)
        if kind is Scalar:
            if isinstance(x.value, Const):
                return x.value.data.item() if x.weak else x.value.data
            return self._new(RecordedNumber, x)
        if isinstance(x, Array):
            return self._new(RecordedArray, x)
        if kind in (list, tuple):
            return kind(map(self.wrap, x))
        if kind is dict:
            return {k: self.wrap(v) for k, v in x.items()}
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return kind(*map(self.wrap, x))
        if kind is objects.Method:
            return self._method(x)
        if kind is Handle:  # Python draws from it while it records
            self.drew = True
            return effects.object_of(self.stage.known[x.number.value])
        if hasattr(x, "__dict__") and not _is_opaque(x) and contains_symbolic(x):
            leaves, structure = tree.flatten(x)
            return x if tree.is_leaf(structure) else tree.unflatten(structure, [self.wrap(leaf) for leaf in leaves])
        return x

    def _new(self, cls: type, x: Any) -> Any:
        new: Any = object.__new__(cls)
        _set_recorded(new, x)
        _set_scope(new, self.scopes[-1])
        self._objects.append(new)
        return new

    def _method(self, method: objects.Method) -> Callable[..., Any]:
        def bound(*args: Any, **kwargs: Any) -> Any:
            return self.call(method, args, kwargs)

        bound.__name__ = method.name
        return bound

    def unwrap(self, x: Any) -> Any:
        """The front-end value of a recorded one, also in lists, tuples, dicts and slices; arrays of outside become inputs."""
        kind = type(x)
        if kind is RecordedNumber or kind is RecordedArray:
            scope = x._scope
            if not scope.open or scope.recorder is not self:
                self.refuse(_OUTLIVED)
            return x._recorded
        if kind is np.ndarray:
            return self.arrays.stand_in(x, self.outside.names if self.outside else {})
        if kind is leftovers.Settled:
            return self.unwrap(x._recorded)
        if kind in (list, tuple):
            new = kind(map(self.unwrap, x))
            return x if all(a is b for a, b in zip(x, new, strict=True)) else new
        if kind is dict:
            return {k: self.unwrap(v) for k, v in x.items()}
        if kind is slice:
            return slice(self.unwrap(x.start), self.unwrap(x.stop), self.unwrap(x.step))
        if hasattr(x, "__dict__") and not _is_opaque(x) and contains_symbolic(x):
            return self.unwrap_structure(x)
        return x

    def unwrap_structure(self, x: Any) -> Any:
        """:meth:`unwrap` for arguments and results of functions: also in dataclasses, named tuples and objects."""
        leaves, structure = tree.flatten(x)
        return tree.unflatten(structure, [self._unwrap_leaf(leaf) for leaf in leaves])

    def _unwrap_leaf(self, x: Any) -> Any:
        if isinstance(x, Recorded) or type(x) is np.ndarray:
            return self.unwrap(x)
        if not _is_opaque(x) and contains_symbolic(x):
            self.refuse(
                f"an object of type {type(x).__name__} that holds recorded values; use a dataclass, a tuple or a dict"
            )
        return original(x)

    # ---- operations -------------------------------------------------------------------------------------------------

    def perform(self, rule: Callable[..., Any], *args: Any) -> Any:
        """``rule(stage, *args)`` on the front-end values of recorded arguments; its result recorded."""
        stage, live = self.stage, self.live
        if not st.staging() or st.current() is not stage:
            if self.running:
                self.refuse(_ELSEWHERE)
            raise UnsupportedCode(_OUTLIVED)
        if live:
            stage.builder.loc = self._location()
        mark = stage.heap.mark()
        self.live = False
        try:
            result = rule(stage, *map(self.unwrap, args))
            if stage.heap.mark() > mark:
                self._check_written(mark)
            return self.wrap(result)
        except (NeedConcrete, JoinFailure) as error:
            self.refuse(str(error))
        except GradsmithError as error:
            self.refused = self.refused or error
            raise
        except (AttributeError, TypeError):
            raise  # decided by types, which stay
        except Exception as error:
            self.caught = self.caught or not hasattr(error, "__gradsmith_guarded__")
            raise
        finally:
            self.live = live

    def call(self, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A library function, or a method of an array, on recorded arguments."""
        return self.perform(_call, f, tuple(args), kwargs)

    def transform(self, emit: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A derivative called by recorded code: emitted where it is called."""

        def rule(stage: Stage) -> Any:
            own_args, own_kwargs = self.unwrap_structure((tuple(args), kwargs))
            return emit(stage, list(own_args), own_kwargs)

        return self.perform(rule)

    def made(self, x: np.ndarray) -> Any:
        """A new array of known elements, which recorded values may be written into."""
        return self.perform(lambda stage: fresh(Const(x), contiguous=x.flags.c_contiguous))

    def refuse(self, message: str) -> NoReturn:
        """Raise UnsupportedCode; the recording fails with it even if the function catches it."""
        error = UnsupportedCode(message)
        self.refused = self.refused or error
        raise error

    def _check_written(self, mark: int) -> None:
        cells = {slot.owner for slot in self.stage.heap.written(mark) if slot.kind == "cell"}
        if self.arrays.written(cells):
            self.refuse(_WRITTEN)

    def _location(self) -> Location | None:
        """The line of the user's code that is running."""
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and _internal(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return None
        rule = rules.of_code(frame.f_code)
        if rule is not None and not self.stage.rules.get(rule.function):
            self.refuse(f"{rule.function.__qualname__} has a rule, {_UNREACHED}")
        return self._location_of(frame.f_code, frame.f_lineno)

    def _raised_at(self, error: BaseException) -> Location | None:
        """The innermost line of the user's that the error passed."""
        found, entry = None, error.__traceback__
        while entry is not None:
            package = str(entry.tb_frame.f_globals.get("__name__")).split(".")[0]
            if package not in ("gradsmith", "numpy") and not reading.of_library(entry.tb_frame.f_code):
                found = self._location_of(entry.tb_frame.f_code, entry.tb_lineno)
            entry = entry.tb_next
        return found

    def _location_of(self, code: types.CodeType, line: int) -> Location:
        key = code, line
        if key not in self._locations:
            self._locations[key] = Location(key[0].co_filename, key[1], key[0].co_qualname)
        return self._locations[key]


@contextmanager
def _users_recursion() -> Iterator[None]:
    """The recursion that the user allows: unlike the stager's own, it may go through compiled code, which needs stack."""
    staging, depth = sys.getrecursionlimit(), 0
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(min(staging, depth + st.recursion_limit))
    try:
        yield
    finally:
        sys.setrecursionlimit(staging)


_NUMPY = os.path.dirname(np.__file__) + os.sep


def _internal(filename: str) -> bool:
    return filename.startswith((_PACKAGE, _NUMPY))


_INSISTS = (
    "  while gradsmith recorded the function: compiled code that insists on plain numbers or ndarrays (json, decimal …) does not "
    "accept recorded ones"
)
_UNREACHED = (
    "but is called by a way on which the tape does not see it (out of a tuple, say, or an object of a library); call it by a "
    "name, an attribute, or out of a list or a dict"
)
_OUTLIVED = (
    "a value recorded in an earlier call, or inside a derivative that has ended, was used: the function keeps it in an object, a "
    "list or a nonlocal name; return it instead"
)
_ELSEWHERE = (
    "a recorded value was used in another thread, or while another function is staged; use it in the function itself"
)
_WRITTEN = (
    "recorded values were written into an array that numpy made outside of the recording; make the array in the function with "
    "np.zeros, np.empty, np.array or np.copy, or pass it as an argument"
)


def _is_opaque(x: Any) -> bool:
    """Whether recorded values in ``x`` are of no concern: in a closure, or bound to a function as an argument."""
    return isinstance(x, _OPAQUE) or type(x).__module__.split(".")[0] == "gradsmith"


tree.count_as_numbers(Recorded)
_OPAQUE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType, type, functools.partial)


def active() -> Recorder | None:
    """The recorder of the innermost stage of this thread."""
    return st.current().recorder if st.staging() else None


def run(stage: Stage, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``f(*args, **kwargs)`` on front-end values, run by Python with recording objects."""
    if stage.recorder is None:
        stage.recorder = Recorder(stage)
        stage.recorded = True
    return stage.recorder.run(f, args, kwargs)


def first_possible(stage: Stage, *ways: Callable[[], Any]) -> Any:
    """What the first of the ways to run a function gives that a recording can take."""
    for way in ways[:-1]:
        point = stage.checkpoint()
        try:
            return way()
        except UnsupportedCode:
            stage.restore(point)
            if stage.recorder is not None:
                stage.recorder.refused = None
    return ways[-1]()


def warn(f: Any, reason: BaseException | str) -> None:
    """Say, once for a function (or its code, or its name), that the tape serves it and why."""
    key = getattr(f, "__code__", f)
    name = getattr(key, "co_qualname", f)
    if key in _warned:
        return
    _warned.add(key)
    where = "".join(getattr(reason, "__notes__", ()))
    warnings.warn(
        f"{name} is run by Python and recorded on a tape, one for each way it branches, because it cannot be staged from its "
        f"source: {reason}{where}",
        GradsmithWarning,
        stacklevel=5,
    )


_warned: set[Any] = set()  # code objects, and names of functions that have none


def _call(stage: Stage, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    first = len(stage.builder.block.ops)
    result = calls.call(stage, f, args, kwargs)
    if any(op.name == "host" for op in stage.builder.block.ops[first:]):
        _evaluate(stage, result)  # so that an error it raises is raised where Python raises it
    return result


def _evaluate(stage: Stage, x: Any) -> None:
    if isinstance(x, Scalar | Array):
        try:
            stage.peek(x.value)
        except NeedConcrete:
            return
    elif isinstance(x, tuple):
        for part in x:
            _evaluate(stage, part)


# ---- what Python sees -----------------------------------------------------------------------------------------------


def _perform(x: Any, rule: Callable[..., Any], *args: Any) -> Any:
    return x._scope.recorder.perform(rule, x, *args)


def _binary(symbol: str, reflected: bool = False) -> Any:
    def plain(x: Any, y: Any) -> Any:
        return _perform(x, _OPERATORS[symbol], y) if _operand(x, y) else NotImplemented

    def swapped(x: Any, y: Any) -> Any:
        return x._scope.recorder.perform(_OPERATORS[symbol], y, x) if _operand(x, y) else NotImplemented

    return swapped if reflected else plain


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
        if (recorder := active()) is not None and recorder.live:
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
            recorder.refuse(_WRITTEN)
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
        return bool(_perform(self, lambda stage, x: stage.concrete(arithmetic.truth(x))))

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
        return self._scope.recorder.call(_MATH["floor"], (self,), {})

    def __ceil__(self) -> Any:
        return self._scope.recorder.call(_MATH["ceil"], (self,), {})

    def __trunc__(self) -> Any:
        return self._scope.recorder.call(_MATH["trunc"], (self,), {})

    def __copy__(self) -> RecordedNumber:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordedNumber:
        return self


class RecordedArray(_Common):
    """An ndarray on the tape. Views and names of one array share its elements, as in NumPy."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
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
    _evaluate(stage, found)  # an index out of range is an error here, as in Python
    return found


def _math_functions() -> dict[str, Any]:
    import math

    return {name: getattr(math, name) for name in ("floor", "ceil", "trunc")}


_MATH = _math_functions()


_set_recorded, _set_scope = (leftovers.Slots.__dict__[name].__set__ for name in ("_recorded", "_scope"))
