"""The state of one staging: the Program being built, the heap, what was read from outside, and what was assumed.

Catalogue code reaches the running stage with :func:`current` and turns front-end values into Values with :func:`as_value`.
"""

from __future__ import annotations

import threading
from collections import ChainMap, deque
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gradsmith.backends import host
from gradsmith.errors import UnsupportedCode, add_location
from gradsmith.frontend import catching
from gradsmith.frontend.heap import Heap, Slot
from gradsmith.frontend.values import Array, Grown, NotSpecialised, Scalar, Symbolic, Text, fresh, is_weak
from gradsmith.ir import builder as ir
from gradsmith.ir import interpreter
from gradsmith.ir.ops import CONTROL
from gradsmith.ir.program import Block, Const, Input, Location, Op, Value, free_values
from gradsmith.ir.types import I64, ArrayType

if TYPE_CHECKING:
    from gradsmith.frontend.recording import Recorder

_active = threading.local()


class NeedConcrete(UnsupportedCode):
    """A value known only at run time is needed while staging, and cannot be had here (it changes in a loop)."""

    def __init__(self, value: Value):
        super().__init__(
            "this needs a value while the function is staged (as a size, an axis, a list index or a branch that changes "
            "structure), but it is known only at run time"
        )
        self.value = value


class Capture:
    """A value read from outside the function (closure, global, attribute): an input that is read again at each call."""

    def __init__(self, symbolic: Scalar | Array, read: Callable[[], Any], kind: str):
        self.value = symbolic.value
        self.cell = symbolic.cell if isinstance(symbolic, Array) else None
        self.read = read
        self.kind = kind


class Stage:
    """One staging of one function for one signature of arguments."""

    def __init__(self, engine: str = "source") -> None:
        self.builder: ir.Builder = catching.Builder(self)
        self.heap = Heap()
        self.outer: dict[Any, Any] = self.heap.born(
            {}
        )  # what was assigned to closure cells and globals, which themselves stay
        self.scopes: dict[int, Any] = {}  # these cells and dicts of globals by id
        self.captures: list[Capture] = []
        self.assumptions: list[tuple[Callable[[], Any], Any]] = []  # read() must still give this object
        self.ints: list[tuple[Callable[[], Any], int, str]] = []  # those of them that are ints, with their names
        self.varying: Set[str] = frozenset()  # ints that differ from call to call, by name
        self.known: dict[Value, Any] = {}  # inputs with the arguments of this call: what peek computes with
        self.data: set[Value] = set()  # values known to depend on differentiable inputs
        self.indices: set[Value] = set()  # indices of loops
        self._acts: dict[Op, bool] = {}  # whether an operation runs effects
        self._clean: set[Value] = set()
        self._varying: dict[Value, bool] = {}  # whether a Value depends on an input at all
        self._owned: set[Value] = set()  # arrays in ``known`` that nothing else refers to
        self._arrays: dict[int, tuple[np.ndarray, Array]] = {}
        self._assumed: set[tuple[int, str]] = set()
        self.lifted: dict[Any, tuple[Any, Any]] = self.heap.born(
            {}
        )  # outside places that were read: (what was found, its stand-in)
        self.copies: dict[int, tuple[Any, Any]] = {}  # outside containers and their staged copies
        self.origins: dict[int, tuple[Any, Callable[[], Any], str]] = {}  # outside objects and how to reach them again
        self.wanted: set[int] = set()  # outside arrays that are differentiated with respect to, by id
        self.readable = False  # the Program is for people: no loop is unrolled to save evaluations
        self.writes_arguments = False  # a function under differentiation writes its arguments
        self.decided: dict[int, Any] = {}  # unrolled loops that are specialised on where they end
        self.loses_writes = False  # an array is written that is the caller's on some paths only
        self.compares_arrays = False  # what is computed depends on whether two names stand for one array
        self.rules: dict[Any, int] = {}  # derivative rules that are being staged, and how often inside themselves
        self.ignoring: list[Any] = []  # blocks without derivatives around the present place
        self.duplications = 0  # branches with their continuation staged twice, around the present place
        self._memos: dict[int, tuple[Block, dict[Any, Any]]] = {}  # by block: what functions under lru_cache gave in it
        self.calls = 0  # how many calls were staged
        self.frames: list[Any] = []  # the staged calls that are running, outermost first
        self.depth = 0  # structured regions around the present place
        self.catching: list[catching.Catch] = []  # the ``try`` statements around the present place, outermost first
        # what is specialised on or unrolled because else there is no way: loops in which a list grows ("lists"); also
        # branches and loops after which a name may be one of two arrays ("everything")
        self.specialising = ""
        self.careful = False  # what these handle is tried out with the arguments of this call
        self.guarding: Block | None = None  # where the guard of the error that is being raised stands
        self.caught: set[type[Exception]] = set()  # what the Program raises where the function handles it
        self.live: list[tuple[dict[str, Any], Any]] = []  # names of frames around a generator that may be read later
        self.engine = engine  # who runs the functions under differentiation: "source", "tape", or "auto"
        self.recorder: Recorder | None = None  # the tape, once a function is run by Python
        self.recorded = False  # what is staged comes from running a function by Python

    def __enter__(self) -> Stage:
        stack = _stages()
        stack.append(self)
        self.builder.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.recorder is not None:
            self.recorder.release()
        self.builder.__exit__()
        _stages().pop()

    # ---- inputs -------------------------------------------------------------------------------------------------

    def add_input(self, argument: Any, name: str, data: bool) -> tuple[Any, Input]:
        """A parameter of the Program for ``argument``: (its symbolic stand-in, its description)."""
        array = np.asarray(argument)
        if array.dtype.kind not in "biufc":
            raise TypeError(f"{name}: cannot stage an array of dtype {array.dtype}")
        value = Value(ArrayType(array.dtype if not is_weak(argument) else _weak_dtype(argument), array.ndim), name)
        self.known[value] = host.exact(argument, value.type)
        if data and value.type.inexact:
            self.data.add(value)
        if isinstance(argument, np.ndarray):
            symbolic: Any = fresh(value, contiguous=argument.flags.c_contiguous)
            symbolic.cell.outside = True
            symbolic.cell.birth = 0  # wherever it is met first
            symbolic.cell.shared = not data
            return symbolic, Input("array", tuple(n == 1 for n in argument.shape), name)
        return Scalar(value, weak=is_weak(argument)), Input("py" if is_weak(argument) else "np", (), name)

    def capture(self, found: Any, read: Callable[[], Any], name: str) -> Any:
        """The symbolic stand-in of a float or array found outside; one and the same for one ndarray."""
        if isinstance(found, np.ndarray):
            known = self.captured(found)
            if known is not None:
                self._assume_still_one(known, read)
                return known
            if found.dtype.kind not in "biufc":
                return found
        symbolic, description = self.add_input(found, name, data=id(found) in self.wanted)
        self.captures.append(Capture(symbolic, read, description.kind))
        if isinstance(found, np.ndarray):
            self._arrays[id(found)] = (found, symbolic)
        return symbolic

    def captured(self, found: np.ndarray) -> Array | None:
        """The stand-in of an outside array that was read before."""
        known = self._arrays.get(id(found))
        return known[1] if known is not None and known[0] is found else None

    def _assume_still_one(self, known: Array, read: Callable[[], Any]) -> None:
        """Guard: an array that was found in two places is one and the same there."""
        for capture in self.captures:
            if capture.cell is known.cell:
                self.assumptions.append((lambda capture=capture: read() is capture.read(), True))
                return

    def assume(self, read: Callable[[], Any], found: Any, name: str = "") -> None:
        """Guard: this specialisation holds only while ``read()`` gives ``found`` (same object, or equal number/string).

        One guard is enough for what has the same ``name``.
        """
        key = (id(found), name)
        if not name or key not in self._assumed:
            self._assumed.add(key)
            self.assumptions.append((read, found))

    def read_int(self, found: int, read: Callable[[], Any], name: str) -> Any:
        """An int found outside: part of the specialisation, or an input if it differed in calls before."""
        if name in self.varying and fits_int64(found):
            return self.capture(found, read, name)
        self.assume(read, found)
        self.ints.append((read, found, name))
        return found

    def wrap(self, x: Any) -> Any:
        """A concrete result of native code, with every ndarray in it made an array of the Program."""
        if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
            if id(x) not in self._arrays:
                check_array(x)
                self._arrays[id(x)] = (x, fresh(Const(x), contiguous=x.flags.c_contiguous))
                self._arrays[id(x)][1].cell.birth = 0
            return self._arrays[id(x)][1]
        if type(x) in (list, tuple):
            wrapped = type(x)(map(self.wrap, x))
            if all(a is b for a, b in zip(x, wrapped, strict=True)):
                return x
            return self.heap.born(wrapped) if isinstance(x, list) else wrapped
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return type(x)(*map(self.wrap, x))
        return x

    # ---- what is known while staging ----------------------------------------------------------------------------

    def depends_on_data(self, value: Value) -> bool:
        """Whether ``value`` may depend on a differentiable argument (or on a loop's state)."""
        pending = [value]
        while pending:
            v = pending[-1]
            if v in self.data or v in self._clean or isinstance(v, Const):
                pending.pop()
                continue
            if v.op is None:
                (self._clean if v in self.known else self.data).add(v)
                continue
            if self.acts(v.op):
                self.data.add(v)
                continue
            operands = [*v.op.args, *(f for r in v.op.regions for f in free_values(r))]
            if v.op.name == "dim":
                operands = []
            todo = [a for a in operands if a not in self.data and a not in self._clean and not isinstance(a, Const)]
            if todo:
                pending += todo
            else:
                (self.data if any(a in self.data for a in operands) else self._clean).add(v)
        return value in self.data

    def peek(self, value: Value) -> Any:
        """The value for the arguments of this call, by running the operations that it depends on.

        Raises :class:`NeedConcrete` when it depends on the state of a loop that is being staged.
        """
        pending = [value]
        while pending:
            v = pending[-1]
            if isinstance(v, Const) or v in self.known:
                pending.pop()
                continue
            if v.op is None or self.acts(v.op):
                raise NeedConcrete(value)
            length = _given_length(v.op)
            operands = [length] if length else [*v.op.args, *(f for r in v.op.regions for f in free_values(r))]
            todo = [a for a in operands if not isinstance(a, Const) and a not in self.known]
            if todo:
                pending += todo
            elif length:
                self.known[v] = interpreter.read(length, self.known)
            else:
                catching.guarded_peek(self, v.op, self._run)
        self._owned.discard(value)
        return interpreter.read(value, self.known)

    def _run(self, op: Op) -> None:
        """Compute the results of ``op`` from what is known. An array that only an update needs is updated in place."""
        with np.errstate(all="ignore"):
            if op.name in ("set", "add_at") and op.args[0] in self._owned:
                self._owned.remove(op.args[0])
                array = self.known.pop(op.args[0])
                interpreter.update(op, array, self.known)
                self.known[op.result] = array
            elif op.regions:
                env = ChainMap({}, self.known)
                interpreter.run_op(op, env)
                self.known.update((r, env[r]) for r in op.results)
            else:
                interpreter.run_op(op, self.known)
        if op.name.startswith("seq_"):
            self._owned.difference_update(op.args)
            return
        for result in op.results:
            found = self.known[result]
            if isinstance(found, np.ndarray):
                shared = (
                    found.base is not None or op.name in CONTROL or any(self.known.get(a) is found for a in op.args)
                )
                self.known[result] = found.copy() if shared else found
                self._owned.add(result)

    def peekable(self, value: Value) -> bool:
        """Whether :meth:`peek` can succeed."""
        pending, seen = [value], set()
        while pending:
            v = pending.pop()
            if v in seen or isinstance(v, Const) or v in self.known:
                continue
            seen.add(v)
            if v.op is None or self.acts(v.op):
                return False
            length = _given_length(v.op)
            pending += [length] if length else [*v.op.args, *(f for r in v.op.regions for f in free_values(r))]
        return True

    def acts(self, op: Op) -> bool:
        """Whether ``op`` runs effects, so that it must not run while the function is staged."""
        if op not in self._acts:
            inner = (self.acts(i) for region in op.regions for i in region.ops)
            self._acts[op] = op.name == "effect" or any(inner)
        return self._acts[op]

    def concrete(self, x: Any) -> Any:
        """``x`` as a concrete number, specialising on it (with a guard) if it is symbolic."""
        if isinstance(x, Array):
            if x.ndim:
                found = self.peek(x.value)
                self._guard_equal(x.value, found)
                return found
            x = Scalar(x.value, weak=False)
        if not isinstance(x, Scalar):
            return x
        found = self.peek(x.value)
        self._guard_equal(x.value, found)
        return x.python_type(found) if x.weak else found

    def _guard_equal(self, value: Value, found: Any) -> None:
        if isinstance(value, Const) or not self._has_inputs(value):
            return
        if value.dtype.kind == "b" and value.ndim == 0:
            self.builder.emit("guard", [value if found else ir.not_(value)])
            return
        if value.dtype.kind in "fc":
            raise NeedConcrete(value)
        same = ir.elementwise("eq", value, Const(found, value.type))  # type: ignore[arg-type]
        self.builder.emit("guard", [ir.reduce("all", same, range(same.ndim))])

    def _has_inputs(self, value: Value) -> bool:
        """Whether ``value`` depends on an input."""
        varying, pending = self._varying, [value]
        while pending:
            v = pending[-1]
            if v in varying:
                pending.pop()
            elif v.op is None:
                varying[v] = not isinstance(v, Const)
            elif self.acts(v.op):
                varying[v] = True
            else:
                operands = [*v.op.args, *(f for r in v.op.regions for f in free_values(r))]
                if any(varying.get(a, False) for a in operands):
                    varying[v] = True
                    continue
                todo = [a for a in operands if a not in varying]
                pending += todo
                if not todo:
                    varying[v] = False
        return varying[value]

    def is_constant(self, x: Any) -> bool:
        """Whether a symbolic ``x`` depends on no input at all, so that Python may compute with it while staging."""
        return isinstance(x, Scalar | Array) and not self._has_inputs(x.value)

    # ---- regions ------------------------------------------------------------------------------------------------

    def checkpoint(self) -> tuple[int, int]:
        """The present place in the block and in the journal, for :meth:`restore`."""
        return len(self.builder.block.ops), self.heap.mark()

    def memo(self) -> dict[Any, Any]:
        """What functions under ``lru_cache`` gave in the present block; as young as the block, so nobody joins it."""
        block = self.builder.block
        if id(block) not in self._memos:
            self._memos[id(block)] = block, self.heap.born({})
        return self._memos[id(block)][1]

    def restore(self, point: tuple[int, int]) -> None:
        """Take back all operations and heap writes since ``point``, which was taken in the same block."""
        del self.builder.block.ops[point[0] :]
        self.heap.rollback(point[1])

    @contextmanager
    def region(self, params: Sequence[Value] = ()) -> Iterator[Block]:
        """A block of a structured operation as the place to emit into."""
        loc, frames = self.builder.loc, len(self.frames)
        self.depth += 1
        try:
            with self.builder.region(params) as block:
                yield block
        except Exception as error:
            add_location(error, self.builder.place)
            raise
        finally:
            self.depth -= 1
            self.builder.loc = loc
            del self.frames[frames:]

    def called_at(self, quiet: bool) -> Location | None:
        """Where a function that is called now is called: for gradsmith's own code, where the code around it is called."""
        if quiet:
            return self.frames[-1].called_at if self.frames else None
        return self.builder.place

    @contextmanager
    def run_by(self, engine: str) -> Iterator[None]:
        """Let ``engine`` run the functions under differentiation."""
        outer, self.engine = self.engine, engine
        try:
            yield
        finally:
            self.engine = outer

    @contextmanager
    def reopen(self, block: Block) -> Iterator[None]:
        """Emit at the end of ``block`` again."""
        outer, self.builder.block = self.builder.block, block
        try:
            yield
        finally:
            self.builder.block = outer

    # ---- checks -------------------------------------------------------------------------------------------------

    def check(self, condition: Any, error: type, message: str, *args: Any) -> None:
        """Raise ``error(message.format(*args))`` at run time unless ``condition`` (a bool, symbolic or not)."""
        if isinstance(condition, Scalar):
            condition = condition.value
        if isinstance(condition, Const):
            condition = bool(condition.data)
        if isinstance(condition, Value) and self.recorder is not None and self.recorder.running and not self.depth:
            try:
                holds = self.peek(condition)
            except NeedConcrete:
                pass
            else:
                self._guard_equal(condition, holds)
                if not holds:
                    raise catching.guarded(error(message.format(*(self.peek(as_value(a)) for a in args))))
                return
        catch = catching.handler(self, error)
        if isinstance(condition, Value):
            if catch is not None:
                catching.check(self, catch, condition, error, message, list(map(as_value, args)))
                return
            self.builder.emit("check", [condition, *map(as_value, args)], error=error, message=message)
        elif not condition:
            if self.depth == 0 or (catch is not None and catch.depth == self.depth):
                raise error(message.format(*args))
            if catch is not None:
                catching.check(self, catch, Const(False), error, message, ())
                return
            self.builder.emit("check", [Const(False), *map(as_value, args)], error=error, message=message)

    def name_of(self, thing: Any) -> str:
        """The user's name for an array (its cell) or a list: that of a variable of a running call that holds it."""
        for frame in reversed(self.frames):
            for name, x in frame.vars.items():
                if x is thing or (isinstance(x, Array) and x.cell is thing and not x.views):
                    return name
        return ""

    def write_array(self, target: Array, new: Value) -> None:
        """Replace the elements of ``target`` (through its views) by ``new``."""
        if target.cell.ambiguous:
            raise NotSpecialised(target.cell.ambiguous)
        self.loses_writes |= target.cell.merged

        def through(base: Value, views: Sequence[Any]) -> Value:
            if not views:
                return new
            inner = views[0].read(base) if len(views) > 1 else base
            return views[0].write(base, through(inner, views[1:]))

        written = through(target.cell.value, target.views)
        if written.op is not None and not written.name:
            written.name = self.name_of(target.cell)
        self.heap.write(Slot("cell", target.cell), written)

    @property
    def loc(self) -> Location | None:
        return self.builder.loc


def _given_length(op: Op) -> Value | None:
    """The length of an axis that an operation gives its result, whatever its elements are."""
    if op.name == "dim" and (made := op.args[0].op) is not None and made.name in ("reshape", "full", "broadcast_to"):
        return made.args[1 + op.attrs["axis"]]
    return None


def check_array(x: np.ndarray) -> None:
    """Raise TypeError for an array that staged code does not compute with as NumPy does."""
    if x.dtype.kind not in "biufc":
        raise TypeError(f"an array of dtype {x.dtype}: only bool, integer, float and complex arrays can be used")
    if type(x) is not np.ndarray:
        raise TypeError(f"an array of class {type(x).__name__}: only plain arrays can be used; pass np.asarray(x)")


def _weak_dtype(x: Any) -> np.dtype:
    kind = bool if isinstance(x, bool) else int if isinstance(x, int) else float if isinstance(x, float) else complex
    return np.dtype({bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}[kind])


def _stages() -> list[Stage]:
    if not hasattr(_active, "stack"):
        _active.stack = []
    return _active.stack


def current() -> Stage:
    """The stage that is running in this thread."""
    return _stages()[-1]


def staging() -> bool:
    """Whether a function is being staged in this thread."""
    return bool(_stages())


# ---- from front-end values to Values --------------------------------------------------------------------------------


def as_value(x: Any, dtype: Any = None) -> Value:
    """The Value of a number, an array, or a nested list of them; cast to ``dtype`` if given."""
    if isinstance(x, Scalar | Array):
        value = x.value
    elif isinstance(x, Value):
        value = x
    elif isinstance(x, list | tuple | deque):
        value = _stack(list(x) if isinstance(x, deque) else x)
    elif isinstance(x, np.ndarray):
        value = current().wrap(x).value
    elif isinstance(x, int | float | complex | np.generic):
        if type(x) is int and not fits_int64(x):
            if dtype is None or np.dtype(dtype).kind not in "fc":
                raise OverflowError(f"the integer {x} needs more than 64 bits; compute with floats")
            x = float(x)
        value = Const(x, ArrayType(_weak_dtype(x))) if is_weak(x) else Const(x)
    else:
        raise TypeError(f"expected a number or an array, not {type(x).__name__}")
    return value if dtype is None else ir.cast(value, dtype)


def fits_int64(x: int) -> bool:
    return -(2**63) <= x < 2**63


def _stack(items: Sequence[Any]) -> Value:
    """``numpy.array(items)``."""
    if not items:
        return Const(np.array([]))
    if isinstance(items[0], Grown):
        return ir.emit("seq_stack", items[0].seq)
    if not any(isinstance(i, Symbolic | list | tuple) for i in items):
        return Const(np.array(items))
    values = [as_value(i) for i in items]
    dtype = np.result_type(*(v.dtype for v in values))
    ndims = {v.ndim for v in values}
    if len(ndims) != 1:
        raise ValueError("setting an array element with a sequence: the elements have different numbers of dimensions")
    rows = [ir.index(ir.cast(v, dtype), ["n"] + [":"] * v.ndim) for v in values]
    return rows[0] if len(rows) == 1 else ir.emit("concatenate", *rows, axis=0)


def static(x: Any) -> Any:
    """``x`` with every symbolic number in it made concrete, by specialising (with a guard): for axes, flags, shapes as structure."""
    if isinstance(x, Scalar | Array):
        return current().concrete(x)
    if isinstance(x, Text):
        return x.template.format(*map(current().concrete, x.values))
    if isinstance(x, tuple):
        return tuple(map(static, x))
    if isinstance(x, list):
        return list(map(static, x))
    return x


def index_value(x: Any) -> Value:
    """An int64 Value from an integer, concrete or symbolic: for lengths and indices, which stay dynamic."""
    if isinstance(x, Array) and x.ndim == 0:
        x = Scalar(x.value, weak=False)
    if isinstance(x, Scalar):
        if x.dtype.kind not in "iub":
            raise TypeError(f"'{x.python_type.__name__}' object cannot be interpreted as an integer")
        return ir.cast(x.value, np.int64)
    return Const(x.__index__(), I64)


def integer(value: Value) -> Scalar | int:
    """A Python int from an int64 Value."""
    return int(value.data) if isinstance(value, Const) else Scalar(value, weak=True)
