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
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from gradsmith import tree
from gradsmith.backends import effects
from gradsmith.errors import GradsmithError, GradsmithWarning, UnsupportedCode, add_run
from gradsmith.frontend import arithmetic, calls, leftovers, objects, passed, reading, recursion, rules
from gradsmith.frontend import stage as st
from gradsmith.frontend.catching import Catch
from gradsmith.frontend.generators import Handle
from gradsmith.frontend.joins import JoinFailure
from gradsmith.frontend.recorded import WRITTEN, RecordedArray, RecordedNumber, evaluate
from gradsmith.frontend.replacements import original, stand_in_of, with_stand_ins
from gradsmith.frontend.stage import NeedConcrete, Stage
from gradsmith.frontend.values import Array, Recorded, Scalar, Symbolic, contains_symbolic, fresh
from gradsmith.ir.program import Block, Const, Location, Op, Value
from gradsmith.ir.types import BOOL, F64, I64, ArrayType

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
        self._locations: dict[tuple[types.CodeType, int], Location] = {}  # by line
        self._lines: dict[tuple[types.CodeType, int], Location] = {}  # by instruction

    # ---- running ----------------------------------------------------------------------------------------------------

    def run(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """``f(*args, **kwargs)`` on front-end values, run by Python."""
        f = getattr(f, "py_func", f)  # a function compiled by numba keeps the Python function there
        stage, outermost = self.stage, not self.running
        before = stage.engine, self.live, stage.builder.loc, stage.careful, stage.catching
        own = None
        if not self.scopes or self.scopes[-1].block is not stage.builder.block:
            own = Scope(self, stage.builder.block)
            self.scopes.append(own)
        if outermost:
            self._look_around(f, (args, kwargs))
        stage.engine = "tape"
        self.running += 1
        kept = succeeded = False
        try:
            result = self._run_outermost(f, args, kwargs) if outermost else self._run(f, args, kwargs)
            succeeded = True
        finally:
            self.running -= 1
            stage.engine, self.live, stage.builder.loc, stage.careful, stage.catching = before
            if own is not None:
                self.scopes.remove(own)
                own.open = own.lasting
            if outermost and not (own is not None and own.lasting):
                kept = self.release(succeeded)
        if outermost:
            self._settle(kept)
        return result

    def _look_around(self, f: Any, arguments: Any) -> None:
        """Find what the function may read, and whether it handles errors."""
        stage = self.stage
        self.outside = recursion.users(reading.Outside, f)
        self.outside.add_argument(arguments)
        if self.outside.catches:  # which errors are raised decides what is recorded
            stage.careful, stage.catching = True, [*stage.catching, Catch((Exception,), stage.depth)]

    def _run_outermost(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """:meth:`_run` with stand-ins where the function looks."""
        outside = self.outside
        assert outside is not None
        return with_stand_ins(
            outside.scopes.values(), outside.holders(), lambda: recursion.users(self._run, f, args, kwargs)
        )

    def _run(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        given = tuple(args), kwargs
        leaves, structure = tree.flatten(given)
        if leaves:
            wrapped = {id(x): self._passed(x) for x in leaves}  # one array passed twice is one object
            args, kwargs = tree.unflatten(structure, [wrapped[id(x)] for x in leaves])
        copies = passed.Passed(given, (args, kwargs))
        staged = self.stage.builder.place if self.running == 1 else None  # else Python runs what is around it, too
        self.live = True
        try:
            result = f(*args, **kwargs)
        except Exception as error:
            where = self._raised_at(error)
            add_run(error, where, staged)
            if self.refused not in (None, error):  # the function, or compiled code, made another error of it
                add_run(self.refused, where, staged)
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
        copies.write_back(self.stage.heap, self._unwrap_leaf)
        return unwrapped

    def _passed(self, x: Any) -> Any:
        """What the function gets for an argument."""
        if isinstance(x, Symbolic):
            return self.wrap(x)
        if rules.find(x) is not None and self.stage.rules.get(x):
            return x  # its rule is being evaluated, and needs the function itself
        return stand_in_of(x) or x

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

    def release(self, succeeded: bool = False) -> bool:
        """Put ordinary numbers and arrays where recorded ones are kept. Returns whether a run that succeeded keeps any."""
        made = leftovers.alive(self._objects)
        if not made:
            self._objects = []
            return False
        self._objects = made  # until it is done: after an interrupt the stage does it again when it ends
        outside, ops = self.outside, self.stage.builder.block.ops
        first = len(ops)
        near = [] if outside is None else [*outside.scopes.values(), *outside.holders()]
        kept = leftovers.settle(made, self._plain, near, succeeded)
        del ops[first:]  # reads of views, which nothing uses
        self._objects = []
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
            assumptions += outside.places

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

    def quick(self, how: tuple[str, ArrayType, Callable[[float, float], Any]], x: Any, y: Any) -> Any:
        """An operation on two numbers, of which one at least is recorded; None unless both are floats.

        The same as :meth:`perform` of the operator, which takes many times as long.
        """
        a, b = self._float(x), self._float(y)
        if a is None or b is None or not self._is_current():
            return None
        name, type, compute = how
        known = self.stage.known
        data_a: Any = a.data if isinstance(a, Const) else known.get(a)
        data_b: Any = b.data if isinstance(b, Const) else known.get(b)
        found = None if data_a is None or data_b is None else type.dtype.type(compute(data_a, data_b))
        return self._emitted(Op(name, (a, b), None, (), (type,), self._location()), found, _is_weak(x) and _is_weak(y))

    def quick_item(self, x: Any, k: int) -> Any:
        """``x[k]`` of a recorded array with one dimension; None unless the element is known to be there."""
        array = x._recorded
        value = array.cell.value
        if array.views or type(array) is not Array or value.ndim != 1 or not x._scope.open or not self._is_current():
            return None
        known = self.stage.known.get(value)
        if known is None or not -len(known) <= k < len(known):
            return None
        number = ArrayType(value.dtype)
        op = Op("index", (value, Const(k, I64)), {"spec": ("i",)}, (), (number,), self._location())
        return self._emitted(op, known[k], False)

    def _is_current(self) -> bool:
        """Whether recorded code is running, in this thread."""
        return self.live and st.staging() and st.current() is self.stage and not self.stage.catching

    def _emitted(self, op: Op, known: Any, weak: bool) -> Any:
        """The result of an operation, a number, which is ``known`` for this call if not None."""
        self.stage.builder.block.ops.append(op)
        if known is not None:
            self.stage.known[op.results[0]] = known
        return self._new(RecordedNumber, Scalar(op.results[0], weak))

    def _float(self, x: Any) -> Value | None:
        """A float64 number as a Value; None for anything else."""
        kind = type(x)
        if kind is RecordedNumber:
            scope, value = x._scope, x._recorded.value
            return value if value.type.dtype is F64.dtype and scope.open and scope.recorder is self else None
        return Const(x, F64) if kind is float or kind is np.float64 else None

    def decide(self, x: Any) -> bool:
        """``bool(x)`` of a recorded number or array: that of this call, with a guard."""
        stage, value = self.stage, x._recorded.value
        known = stage.known.get(value) if value.type == BOOL else None
        if known is None or not x._scope.open or not self._is_current():
            return bool(self.perform(lambda stage, x: stage.concrete(arithmetic.truth(x)), x))
        stage.builder.loc = self._location()
        return bool(stage.concrete(x._recorded))

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
            self.refuse(WRITTEN)

    def _location(self) -> Location | None:
        """The line of the user's code that is running."""
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and _internal(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return None
        known = self._lines.get((frame.f_code, frame.f_lasti))
        if known is not None:
            return known
        rule = rules.of_code(frame.f_code)
        if rule is not None and not self.stage.rules.get(rule.function):
            self.refuse(f"{rule.function.__qualname__} has a rule, {_UNREACHED}")
        found = self._location_of(frame.f_code, frame.f_lineno)
        if rule is None:
            self._lines[frame.f_code, frame.f_lasti] = found
        return found

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


_NUMPY = os.path.dirname(np.__file__) + os.sep


@functools.lru_cache(maxsize=1024)
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


def _is_weak(x: Any) -> bool:
    return x._recorded.weak if type(x) is RecordedNumber else type(x) is float


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
        stacklevel=_users_level(),
    )


def _users_level() -> int:
    """How many frames above the caller the innermost line of the user's code is, for ``warnings.warn``."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _internal(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    return level


_warned: set[Any] = set()  # code objects, and names of functions that have none


def _call(stage: Stage, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    first = len(stage.builder.block.ops)
    result = calls.call(stage, f, args, kwargs)
    if any(op.name == "host" for op in stage.builder.block.ops[first:]):
        evaluate(stage, result)  # so that an error it raises is raised where Python raises it
    return result


_set_recorded, _set_scope = (leftovers.Slots.__dict__[name].__set__ for name in ("_recorded", "_scope"))
