"""Tapes: a function run once by Python, and what its arguments met kept as a Program to be replayed and differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsmith import api, call, tracebacks, tree
from gradsmith.errors import TapeMismatch
from gradsmith.frontend import derive
from gradsmith.frontend import stage as st
from gradsmith.frontend.calls import enter
from gradsmith.frontend.reading import once
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, Scalar
from gradsmith.ir.program import Location, Value
from gradsmith.locking import new_lock

ArgNums = int | Sequence[int] | None


@tracebacks.shortened
def record(f: Callable[..., Any], *args: Any, strict: bool = False) -> Tape:
    """Run ``f(*args)`` once, with recording numbers and arrays, and keep what was computed as a :class:`Tape`.

    Any Python is allowed in ``f``: Python itself runs it, and only operations on the arguments are recorded. Where Python decides
    by a recorded value (``if``, ``while``, ``range(n)``), the tape holds for arguments that decide alike.

    Args:
        f: a function of positional arguments; no source is needed.
        args: numbers, arrays, and containers of them.
        strict: raise :class:`TapeMismatch` for arguments that the tape does not hold for, instead of recording again.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> def energy(x):
    ...     return np.sum(x**2) if x[0] > 0 else np.sum(x**4)
    >>> tape = gs.record(energy, np.array([1.0, 2.0])).compile()
    >>> tape.value(np.array([3.0, 4.0]))
    np.float64(25.0)
    >>> tape.gradient(np.array([3.0, 4.0]))
    array([6., 8.])
    >>> tape.gradient(np.array([-1.0, 0.5]))  # the other branch: recorded again
    array([-4. ,  0.5])
    """
    return Tape(f, args, strict)


class Tape:
    """A recorded function. ``value``, ``gradient``, ``jacobian`` and ``hessian`` replay it for other arguments.

    What the function read from outside is part of the recording: numbers and objects must stay as they were (else the function is
    recorded again), arrays that met recorded values are read again at every replay. Before :meth:`compile` replays run as NumPy
    code; after it as machine code.
    """

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], strict: bool = False):
        self._function = f
        self._strict = strict
        self._backend = "python"
        self._recordings: list[_Recording] = []
        self._lock = new_lock()
        self._made: dict[Any, api.Compiled] = {}
        self.__name__ = getattr(f, "__name__", type(f).__name__)
        self._record(tuple(args))
        inexact = [k for k, arg in enumerate(args) if any(_is_inexact(x) for x in tree.flatten(arg)[0])]
        self._all: int | list[int] = inexact[0] if len(args) == 1 and inexact else inexact

    def __repr__(self) -> str:
        operations = ", ".join(str(len(r.staged.block.ops)) for r in self._recordings)
        return f"<tape of {self.__name__}: {operations} operations>"

    def compile(self) -> Tape:
        """Replay as machine code from now on (compiled at the first call of each of the methods); returns the tape."""
        with self._lock:
            if self._backend != "native":
                self._backend = "native"
                self._made.clear()
        return self

    def value(self, *args: Any, out: Any = None) -> Any:
        """What the function returns; written into the arrays of ``out`` if given."""
        return self._replay(self._derived("value", None), args, out)

    def gradient(self, *args: Any, argnums: ArgNums = None, out: Any = None) -> Any:
        """The gradient of the function, which returns a real number.

        Args:
            argnums: the arguments to differentiate with respect to; all with floats in them by default.
            out: arrays (in the structure of the result) to write the gradient into.

        Returns:
            A gradient in the structure of the argument for a function of one argument, or a single ``argnums``; else a tuple.
        """
        return self._replay(self._derived("gradient", argnums), args, out)

    def jacobian(self, *args: Any, argnums: ArgNums = None, out: Any = None) -> Any:
        """The Jacobian, of shape result.shape + argument.shape; arguments as for :meth:`gradient`."""
        return self._replay(self._derived("jacobian", argnums), args, out)

    def hessian(self, *args: Any, argnums: ArgNums = None, out: Any = None) -> Any:
        """The Hessian, of shape argument.shape + argument.shape; arguments as for :meth:`gradient`."""
        return self._replay(self._derived("hessian", argnums), args, out)

    def _replay(self, derived: api.Compiled, args: tuple[Any, ...], out: Any) -> Any:
        try:
            return derived(*args) if out is None else derived(*args, out=out)
        except Exception as error:
            tracebacks.shorten(error)
            raise

    # ---- derivatives of the recording -------------------------------------------------------------------------------

    def _derived(self, kind: str, argnums: ArgNums) -> api.Compiled:
        chosen = argnums if argnums is None or isinstance(argnums, int) else tuple(argnums)
        found = self._made.get((kind, chosen))
        if found is None:
            with self._lock:
                found = self._make(kind, self._all if chosen is None else chosen)
                self._made[kind, chosen] = found
        return found

    def _make(self, kind: str, argnums: Any) -> api.Compiled:
        replay = _Replay(self)
        options: dict[str, Any] = {"backend": self._backend, "engine": "source"}
        if kind == "value":
            return api.jit(replay, **options)
        transforms: dict[str, Callable[..., api.Compiled]] = {
            "gradient": api.grad,
            "jacobian": api.jacobian,
            "hessian": api.hessian,
        }
        return transforms[kind](replay, argnums, **options)

    def _record(self, args: tuple[Any, ...]) -> _Recording:
        key, leaves, structure = call.signature(args, {})

        def emit(stage: Stage, args: list[Any], kwargs: dict[str, Any]) -> Any:
            return enter(stage, self._function, args, kwargs)

        code = getattr(self._function, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code else ()
        apart = _apart(leaves)
        staged = call.stage_call(Stage("tape"), emit, apart, structure, names)
        if apart is not leaves and (staged.written or staged.stage.compares_arrays):  # it matters that they are one
            staged = call.stage_call(Stage("tape"), emit, leaves, structure, names)
        recorder = staged.stage.recorder
        recording = _Recording(key, staged, recorder is not None and recorder.for_one_call)
        lasting = [r for r in self._recordings if not r.for_one_call]
        self._recordings = [recording, *lasting][:_MAX_RECORDINGS]
        return recording

    def _replayed(self, stage: Stage, args: Sequence[Any], again: set[_Recording]) -> Any:
        """The recording that holds for the arguments of this call, emitted into the stage."""
        leaves, structure = tree.flatten((tuple(args), {}))
        concrete = [_concrete(stage, x) for x in leaves]
        key = call.signature(*tree.unflatten(structure, concrete))[0]
        reason = "the types, dtypes, dimensions or structure of the arguments differ from those recorded"
        with self._lock:
            for recording in self._recordings:
                if recording.key != key:
                    continue
                if recording.for_one_call:
                    reason = _ONE_CALL
                    continue
                found, why = recording.emit(stage, leaves, checked=recording in again)
                if why is None:
                    again.add(recording)
                    return found
                reason = why
            if self._strict:
                raise TapeMismatch(f"the tape of {self.__name__} does not hold for this call: {reason}")
            recording = self._record(tree.unflatten(structure, concrete)[0])
            again.add(recording)
            return recording.emit(stage, leaves, checked=False)[0]


_MAX_RECORDINGS = 16
_ONE_CALL = (
    "the function does something at each call: it changes what it reads, draws random numbers, or makes text of numbers"
)


class _Replay:
    """The recorded function as something to be differentiated."""

    def __init__(self, tape: Tape):
        self.tape = tape
        self.__name__ = tape.__name__
        self._emitted: set[_Recording] = set()  # recordings that were compiled before: did they fail, or raise?

    def __call__(self, *args: Any) -> Any:
        return self.tape.value(*args)

    def __gradsmith_call__(self, stage: Stage, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if kwargs:
            raise TypeError("a tape takes the positional arguments of the recorded function")
        stage.recorded = not self.tape._strict
        return self.tape._replayed(stage, args, self._emitted)


@dataclass(eq=False)
class _Recording:
    """One run of the function: for which signature, and what was computed."""

    key: Any
    staged: call.Staged
    for_one_call: bool  # the call that made it

    def emit(self, stage: Stage, leaves: Sequence[Any], checked: bool) -> tuple[Any, str | None]:
        """(The result on these leaves, None), or (None, why the recording does not hold for this call).

        ``checked``: also make sure that replaying it raises no error, which the function might handle.
        """
        staged = self.staged
        assumptions: list[Any] = [(once(), True)] if self.for_one_call else staged.stage.assumptions
        if not self.for_one_call and not call.holding(assumptions):
            return None, "what the function reads from outside has changed"
        point = stage.checkpoint()
        mapping, captured = self._captures(stage)
        results = stage.builder.inline(staged.block, [st.as_value(leaves[k]) for k in staged.dynamic], mapping)
        why = _mismatch(stage, point[0], results if checked else ())
        if why is not None:
            stage.restore(point)
            return None, why
        stage.assumptions += assumptions
        own = len(staged.symbolic)
        for (target, _), new in zip(staged.written, results[own:], strict=True):
            stage.write_array(leaves[target] if isinstance(target, int) else captured[target], new)
        out = list(staged.leaves)
        for k, value in zip(staged.symbolic, results[:own], strict=True):
            out[k] = derive.stand_in(value, out[k])
        return tree.unflatten(staged.structure, out), None

    def _captures(self, stage: Stage) -> tuple[dict[Value, Value], dict[Any, Any]]:
        mapping, captured = {}, {}
        for c in self.staged.stage.captures:
            symbolic = stage.capture(c.read(), c.read, c.value.name)
            mapping[c.value], captured[c] = symbolic.value, symbolic
        return mapping, captured


def _mismatch(stage: Stage, first: int, results: Sequence[Value]) -> str | None:
    """Why the operations emitted since ``first`` do not stand for this call: a guard fails, or an operation raises."""
    for op in list(stage.builder.block.ops[first:]):
        if op.name == "guard" and not _holds(stage, op.args[0]):
            return f"a branch, a length or another decision went the other way{_at(op.loc)}"
    for value in results:
        try:
            stage.peek(value)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def _holds(stage: Stage, condition: Value) -> bool:
    try:
        return bool(stage.peek(condition))
    except st.NeedConcrete:
        return True  # decided when the Program runs
    except Exception:
        return False


def _at(loc: Location | None) -> str:
    return f" at {loc}" if loc else ""


def _apart(leaves: list[Any]) -> list[Any]:
    """The leaves, with an array that is passed twice as two arrays, which have gradients of their own."""
    arrays = [id(x) for x in leaves if isinstance(x, np.ndarray)]
    if len(set(arrays)) == len(arrays):
        return leaves
    seen: set[int] = set()
    out = []
    for leaf in leaves:
        twice = isinstance(leaf, np.ndarray) and id(leaf) in seen
        seen.add(id(leaf))
        out.append(leaf.copy(order="K") if twice else leaf)
    return out


def _concrete(stage: Stage, x: Any) -> Any:
    """The argument of this call behind a front-end value."""
    if isinstance(x, Scalar):
        found = stage.peek(x.value)
        return x.python_type(found) if x.weak else x.dtype.type(found)
    return stage.peek(x.value) if isinstance(x, Array) else x


def _is_inexact(x: Any) -> bool:
    return isinstance(x, float | complex | np.inexact) or (isinstance(x, np.ndarray) and x.dtype.kind in "fc")
