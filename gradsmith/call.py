"""One call: signature of the arguments, guards, the cache of specialisations, and the compiled entry.

A *specialisation* is a Program staged for one signature (structure, dtypes, dimensions, static values) under assumptions about
what the function reads from outside. A call tries those of its signature; when none fits, the function is staged anew.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsmith import forms, tree
from gradsmith.backends import effects, native, python
from gradsmith.errors import GradsmithError, MissingRule, SourceUnavailable, UnsupportedCode, add_location
from gradsmith.explain import recomputation
from gradsmith.frontend import recording, recursion, rules
from gradsmith.frontend.catching import EvaluationFailed, TryCarefully
from gradsmith.frontend.generators import Handle, is_generator
from gradsmith.frontend.joins import JoinFailure
from gradsmith.frontend.outside import lift
from gradsmith.frontend.replacements import same
from gradsmith.frontend.stage import Capture, NeedConcrete, Stage, check_array, fits_int64
from gradsmith.frontend.state import State, holds_twice, places, state
from gradsmith.frontend.values import Array, Cell, NotSpecialised, Scalar, Text
from gradsmith.ir.program import Block, Input, Location, Output, Program, Value, free_values
from gradsmith.locking import new_lock
from gradsmith.results import Places, Result
from gradsmith.transforms.expand import expand
from gradsmith.transforms.simplify import simplify
from gradsmith.transforms.simplify.dce import remove_dead

#: what the emitter of a transform is: (stage, args, kwargs) → result, on front-end values
Emitter = Callable[[Stage, list[Any], dict[str, Any]], Any]


def _is_dynamic(leaf: Any) -> bool:
    return _is_dynamic_number(leaf) or isinstance(leaf, np.ndarray) or is_generator(leaf)


def _is_dynamic_number(leaf: Any) -> bool:
    """A number that is passed at each call. Bools, members of an enumeration and huge ints are part of the signature."""
    return type(leaf) in (float, complex) or (type(leaf) is int and fits_int64(leaf)) or isinstance(leaf, np.number)


def leaf_key(leaf: Any) -> Any:
    """What of a leaf a specialisation depends on."""
    if isinstance(leaf, np.ndarray):
        check_array(leaf)
        return leaf.dtype, tuple([n == 1 for n in leaf.shape]), leaf.flags.c_contiguous
    if _is_dynamic_number(leaf) or is_generator(leaf):
        return type(leaf)
    try:
        hash(leaf)
    except TypeError:
        return "object", type(leaf), id(leaf)
    return "static", type(leaf), leaf


def signature(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any], tree.Tree]:
    """(key, leaves, structure) of a call."""
    leaves, structure = tree.flatten((args, kwargs))
    return (structure, tuple(map(leaf_key, leaves)), _aliases(leaves)), leaves, structure


def _aliases(leaves: Sequence[Any]) -> tuple[int, ...]:
    """For every array passed more than once: the position of its first occurrence; empty when all differ."""
    arrays = [id(x) for x in leaves if isinstance(x, np.ndarray)]
    if len(set(arrays)) == len(arrays):
        return ()
    ids = list(map(id, leaves))
    return tuple(ids.index(i) for i in ids)


@dataclass
class Specialisation:
    """A compiled Program and how to call it."""

    program: Program
    entry: Callable[..., Any]
    dynamic: list[int]  # which leaves of the call are passed
    captures: list[Capture]
    holds: Callable[[], bool]  # whether the assumptions still hold
    ints: list[tuple[Callable[[], Any], int, str]]  # those of them about ints: how to read one, what it was, its name
    result: Result  # the user's result, made of what the entry returns
    staging_seconds: float
    compile_seconds: float
    kept: list[Any]  # objects that the key or the assumptions know by identity
    written: list[int | Capture]  # leaves and captured arrays that the call itself writes; the entry returns them, too
    state: State | None  # what else it leaves behind; the entry returns the numbers and arrays of it last
    writes: bool  # whether the function writes an argument, so that it matters which arguments share memory
    changes_given: bool  # whether it may write a list or dict of its arguments, so that it matters where that is found
    recorded: bool  # whether Python ran (parts of) the function
    caught: tuple[type[Exception], ...]  # errors that say that it does not fit, since the function handles them
    compares: bool  # whether it matters which arguments are the same array
    effects: bool  # whether it does more than compute its result
    recomputed: list[str]  # what checkpoints do not store, in words

    @property
    def not_fitting(self) -> tuple[type[Exception], ...]:
        """Errors of the entry that say that it does not fit."""
        return (Exception,) if self.recorded else self.caught

    def __call__(self, leaves: Sequence[Any], out: Any = None, arguments: Any = None) -> Any:
        """The result, in the arrays of ``out`` if given, or NotImplemented when this specialisation does not fit.

        ``arguments``: (args, kwargs), to write to; without it everything outside of the call stays as it is.
        """
        if not self.holds():
            return NotImplemented
        values = [leaves[k] for k in self.dynamic]
        if self.effects:
            effects.rewind()
            values = [effects.handle(x) if is_generator(x) else x for x in values]
        if self.captures:
            try:
                values += [c.read() for c in self.captures]
            except _GONE:
                return NotImplemented
        if self.writes:
            outside = [x for x in values[len(self.dynamic) :] if isinstance(x, np.ndarray)]
            if len({id(x) for x in outside}) < len(outside):
                return NotImplemented  # two places outside have come to hold one array
            _check_overlap(values[: len(self.dynamic)], outside)
        if self.changes_given and holds_twice(arguments):
            raise UnsupportedCode(
                "arguments that hold one list or dict in two places, of a function that changes it; pass copies"
            )
        if out is not None:
            return self.into(out, values, leaves, arguments)
        found = self.entry(*values)
        if found is NotImplemented:
            return found
        return self.result.build(self._write_back(found, leaves, arguments) if self.leaves_behind else found)

    def into(self, out: Any, values: list[Any], leaves: Sequence[Any] = (), arguments: Any = None) -> Any:
        """The result in the arrays of ``out``, for the arguments of the entry."""
        places = self.result.places(out)
        found = self._filled(places, values)
        if found is NotImplemented:
            return found
        if self.leaves_behind:
            found = self._write_back(found, leaves, arguments)
        return places.complete(found if len(places.arrays) != 1 else (found,))

    @property
    def leaves_behind(self) -> bool:
        """Whether the call changes what is outside of it."""
        return bool(self.written) or self.state is not None

    @property
    def shareable(self) -> bool:
        """Whether several threads gain by running it: native code that does nothing but compute."""
        native_code = type(self.entry) is types.BuiltinFunctionType
        return native_code and not (self.writes or self.state or self.effects or self.recorded)

    def _filled(self, places: Places, values: list[Any]) -> Any:
        """What the entry returns; native code writes into the places that fit."""
        if type(self.entry) is not types.BuiltinFunctionType:
            return self.entry(*values)
        extra = len(self.written) + (len(self.state.values) if self.state else 0)
        return self.entry(*values, *places.arrays, *[None] * extra)

    def _write_back(self, out: Any, leaves: Sequence[Any], arguments: Any) -> Any:
        """Write what the function wrote to what is outside of it; returns the entry's other results."""
        results = out if isinstance(out, tuple) else (out,)
        last = len(results) - (len(self.state.values) if self.state else 0)
        own = last - len(self.written)
        if arguments is not None:
            for target, new in zip(self.written, results[own:last], strict=True):
                np.copyto(leaves[target] if isinstance(target, int) else target.read(), new)
            if self.state is not None:
                self.state.write(results[last:], arguments)
        return results[0] if own == 1 else results[:own]


def _check_overlap(arguments: Sequence[Any], outside: Sequence[np.ndarray]) -> None:
    """One array in two arguments has been staged as one; all others must lie apart."""
    arrays = [*{id(x): x for x in arguments if isinstance(x, np.ndarray)}.values(), *outside]
    if any(np.may_share_memory(a, b) for n, a in enumerate(arrays) for b in arrays[:n]):
        raise UnsupportedCode(
            "arguments that share memory (one is a view of another, or also read from outside) of a function that writes its "
            "arguments; pass copies"
        )


class Cache:
    """The specialisations of one derivative of one function. Threads may share it."""

    def __init__(
        self,
        name: str,
        emit: Emitter,
        backend: str,
        code: types.CodeType | None = None,
        engine: str = "source",
        acts: bool = False,
    ):
        if engine not in ("source", "tape", "auto"):
            raise ValueError(f"engine must be 'source', 'tape' or 'auto', not {engine!r}")
        self.name = name
        self.parameters = code.co_varnames[: code.co_argcount] if code else ()
        self.subject: Any = code or name
        self.defined_at = Location(code.co_filename, code.co_firstlineno, code.co_qualname) if code else None
        self.emit = emit
        self.backend = backend
        self.acts = acts  # whether a call leaves behind what the function does, as a derivative does not
        self.engine = engine  # who reads the function; "auto" becomes "tape" when the source cannot be used
        self.fast: Callable[..., Any] | None = None  # tried first by positional calls
        self.latest: Specialisation | None = None  # the last one that was compiled
        self.by_form: Callable[..., Any] | None = (
            None  # tried next: by the structure of the last call, without walking it
        )
        self._found: dict[Any, list[Specialisation]] = {}
        self._varying: set[str] = set()  # ints outside that differed between calls: they are read at each call
        self._lock = new_lock()
        rules.listen(self)

    def clear(self) -> None:
        """Forget what was compiled."""
        self._found = {}
        self.fast = self.by_form = None

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any = None) -> Any:
        """The result for these arguments, in the arrays of ``out`` if given."""
        if self.by_form is not None:
            found = self.by_form((args, kwargs), out)
            if found is not NotImplemented:
                return found
        with effects.Execution():
            return self._call(args, kwargs, out)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any = None, writing: bool = True) -> Any:
        key, leaves, structure = signature(args, kwargs)
        arguments = (args, kwargs) if writing else None
        found = self._try(key, leaves, out, arguments)[1]
        if found is not NotImplemented:
            return found
        with self._lock:
            found = self._try(key, leaves, out, arguments)[1]  # another thread may have compiled it by now
            if found is not NotImplemented:
                return found
            careful = any(s.caught for s in self._found.get(key, ()))
            self._note_varying(self._found.get(key, ()))
            try:
                return self._compile_and_run(key, args, kwargs, leaves, structure, out, writing, careful)
            except TryCarefully:
                return self._compile_and_run(key, args, kwargs, leaves, structure, out, writing, careful=True)

    def _note_varying(self, compiled: Sequence[Specialisation]) -> None:
        """Find ints outside that are not what they were when these were compiled."""
        for s in compiled:
            for read, found, name in s.ints:
                try:
                    now = read()
                except (LookupError, AttributeError, ValueError, TypeError):
                    continue  # it is not there any more
                if type(now) is int and now != found:
                    self._varying.add(name)

    def _compile_and_run(
        self,
        key: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: list[Any],
        structure: tree.Tree,
        out: Any,
        writing: bool,
        careful: bool,
    ) -> Any:
        s = self._stage(leaves, structure, careful)
        # kept before it runs: a call that raises an error is compiled once all the same
        self._found[key] = [s, *self._found.get(key, ())][:_MAX_VARIANTS]
        self._set_fast(s, args, kwargs, leaves, structure)
        try:
            found = s(leaves, out, (args, kwargs) if writing else None)
        except s.caught as error:
            if careful:
                raise
            raise TryCarefully from error
        if found is NotImplemented:
            raise RuntimeError(
                f"{self.name}: what the function reads from outside changed while it was compiled; call it again"
            )
        return found

    def _try(
        self, key: Any, leaves: Sequence[Any], into: Any = None, arguments: Any = None
    ) -> tuple[Specialisation | None, Any]:
        """The first specialisation of ``key`` that fits, and its result; NotImplemented if there is none."""
        for s in self._found.get(key, ()):
            try:
                out = s(leaves, into, arguments)
            except s.not_fitting:
                continue  # the function may handle the error: Python runs it again
            if out is not NotImplemented:
                return s, out
        return None, NotImplemented

    def specialise(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Specialisation:
        """The specialisation that serves these arguments, which are left as they are."""
        return self._serve(args, kwargs)[0]

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Places:
        """Arrays for the results of calls with such arguments, which are left as they are."""
        s, result = self._serve(args, kwargs)
        return s.result.places(result)

    def _serve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Specialisation, Any]:
        """The specialisation that serves these arguments, and its result."""
        with effects.Execution():
            result = self._call(args, kwargs, writing=False)
            key, leaves, _ = signature(args, kwargs)
            s, again = self._try(key, leaves)
        return (self._found[key][0], result) if s is None else (s, again)  # None: a recording for one call

    def _set_fast(
        self,
        s: Specialisation,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: Sequence[Any],
        structure: tree.Tree,
    ) -> None:
        self.fast = self.by_form = None
        self.latest = s
        if s.writes or s.state or s.changes_given or s.effects or s.compares or _aliases(leaves):
            return  # what is tried first does not ask which arguments are one array
        self.by_form = _by_form(s, leaves, structure)
        flat = not kwargs and len(s.dynamic) == len(args) == structure.num_leaves
        if not flat or not s.result.direct or s.captures:
            return
        entry, holds = s.entry, s.holds
        if s.recorded or s.caught:
            self.fast = _without_errors(entry, holds, s.not_fitting)
        elif holds is _always:
            self.fast = entry
        else:
            self.fast = lambda *args: entry(*args) if holds() else NotImplemented

    def _stage(self, leaves: list[Any], structure: tree.Tree, careful: bool) -> Specialisation:
        if self.engine != "auto":
            return self._stage_by(self.engine, leaves, structure, careful)
        try:
            return self._stage_by("auto", leaves, structure, careful)
        except _NOT_FROM_SOURCE as reason:
            try:
                s = self._stage_by("tape", leaves, structure, careful)
            except (GradsmithError, TypeError, RecursionError):
                raise reason from None
            self.engine = "tape"
            recording.warn(self.subject, reason)
            return s

    def _staged(
        self, engine: str, leaves: list[Any], structure: tree.Tree, careful: bool, specialising: str = ""
    ) -> Staged:
        stage = Stage(engine)
        stage.careful, stage.specialising, stage.varying = careful, specialising, self._varying
        return stage_call(stage, self.emit, leaves, structure, self.parameters, self.defined_at, self.acts)

    def _specialised(
        self, engine: str, leaves: list[Any], structure: tree.Tree, careful: bool, reason: NotSpecialised
    ) -> Staged:
        """Stage again, specialising on more; unrolling what need not be unrolled makes long Programs, so it comes last."""
        for what in ("lists", "everything"):
            try:
                return self._staged(engine, leaves, structure, careful, specialising=what)
            except (GradsmithError, JoinFailure, NeedConcrete):
                continue
        raise reason from None

    def _stage_by(self, engine: str, leaves: list[Any], structure: tree.Tree, careful: bool = False) -> Specialisation:
        begin = time.perf_counter()
        try:
            staged = self._staged(engine, leaves, structure, careful)
        except NotSpecialised as reason:
            staged = self._specialised(engine, leaves, structure, careful, reason)
        stage, block, captures = staged.stage, staged.block, staged.stage.captures
        block.params += [c.value for c in captures]
        inputs = staged.inputs + [Input(c.kind, _units(c.read()), c.value.name) for c in captures]
        expand(block, lambda op: "recomputed" not in op.attrs, forget=True)
        program = simplify(Program(self.name, block, inputs, staged.outputs))
        recomputed = _expand_recomputed(block)
        captures = _prune(program, captures, len(staged.dynamic))
        simplified = time.perf_counter()
        entry = _compiler(self.backend)(program)
        done = time.perf_counter()
        generators = any(is_generator(leaves[k]) for k in staged.dynamic)
        return Specialisation(
            program,
            entry,
            staged.dynamic,
            captures,
            _holds(stage.assumptions),
            stage.ints,
            Result(staged.leaves, staged.structure, staged.symbolic),
            simplified - begin,
            done - simplified,
            [leaves[k] for k in range(len(leaves)) if k not in staged.dynamic],
            [target for target, _ in staged.written],
            staged.state,
            bool(staged.written) or stage.writes_arguments,
            stage.heap.changes_given,
            stage.recorded,
            tuple(stage.caught),
            stage.compares_arrays,
            generators or any(op.name == "effect" for op in block.walk()),
            recomputed,
        )


@dataclass
class Staged:
    """A call as a block: parameters for the dynamic leaves of the arguments; results of the call, then what it wrote,
    then what its state consists of."""

    stage: Stage
    block: Block
    inputs: list[Input]
    outputs: list[Output]
    dynamic: list[int]  # which leaves of the arguments are parameters
    leaves: list[Any]  # of the result
    structure: tree.Tree  # of the result
    symbolic: list[int]  # which leaves of the result the block computes
    written: list[
        tuple[int | Capture, Value]
    ]  # leaves and captured arrays that the call writes, with their elements after it
    state: State | None  # what else the call leaves behind


def stage_call(
    stage: Stage,
    emit: Emitter,
    leaves: list[Any],
    structure: tree.Tree,
    parameters: Sequence[str] = (),
    defined_at: Location | None = None,
    acting: bool = False,
) -> Staged:
    """Stage a call with these leaves of its arguments.

    ``acting``: the call assigns to attributes, globals and the like, as the function does.
    """

    def staged() -> Staged:
        with stage:
            try:
                return _staged(stage, emit, leaves, structure, parameters, defined_at, acting)
            finally:  # an interrupt, too, leaves the user's objects as they were
                stage.heap.restore()

    return recursion.deep(staged)


def _staged(
    stage: Stage,
    emit: Emitter,
    leaves: list[Any],
    structure: tree.Tree,
    parameters: Sequence[str],
    defined_at: Location | None,
    acting: bool,
) -> Staged:
    stand_ins, inputs, dynamic = _stand_ins(stage, leaves, structure, parameters)
    args, kwargs = tree.unflatten(structure, stand_ins)
    outside = places((args, kwargs)) if acting else None
    try:
        result = emit(stage, list(args), kwargs)
        left = None if outside is None else state(stage, outside)
    except BaseException as error:
        add_location(error, stage.builder.place or defined_at)
        if stage.caught and not stage.careful and isinstance(error, Exception):
            raise TryCarefully from error  # what is handled may be raised before this
        if isinstance(error, EvaluationFailed):
            raise error.error from None
        raise
    out_leaves, out_structure = tree.flatten(result)
    if any(isinstance(x, Text) for x in out_leaves):
        raise UnsupportedCode("the function returns a string with run-time numbers in it; return the numbers")
    if stage.loses_writes:
        raise NotSpecialised(
            "writing into an array that is an argument on some paths only, so that it is open whether to change the caller's"
        )
    symbolic = [k for k, x in enumerate(out_leaves) if isinstance(x, Scalar | Array)]
    block = stage.builder.block
    written = _written(stage, {x.cell: k for k, x in enumerate(stand_ins) if isinstance(x, Array)})
    kept = left.values if left else []
    block.results = [out_leaves[k].value for k in symbolic] + [value for _, value in written] + kept
    outputs = [Output(_kind(out_leaves[k])) for k in symbolic] + [Output("array")] * len(written)
    outputs += [Output("array" if v.ndim else "np") for v in kept]
    return Staged(stage, block, inputs, outputs, dynamic, out_leaves, out_structure, symbolic, written, left)


def _stand_ins(
    stage: Stage, leaves: list[Any], structure: tree.Tree, parameters: Sequence[str]
) -> tuple[list[Any], list[Input], list[int]]:
    """Front-end values for the leaves; descriptions of the dynamic ones, which become parameters of the block; which they are."""
    names = [argument_name(path, parameters) for path in tree.paths(tree.unflatten(structure, leaves))]
    stand_ins = list(leaves)
    inputs: list[Input] = []
    dynamic = [k for k, leaf in enumerate(leaves) if _is_dynamic(leaf)]
    for k in dynamic:
        leaf = effects.handle(leaves[k]) if is_generator(leaves[k]) else leaves[k]
        stand_ins[k], description = stage.add_input(leaf, names[k], data=True)
        inputs.append(description)
    stage.builder.block.params += [stand_ins[k].value for k in dynamic]
    first: dict[int, int] = {}
    for k in dynamic:
        if isinstance(leaves[k], np.ndarray):
            stand_ins[k] = stand_ins[first.setdefault(id(leaves[k]), k)]  # one array passed twice is one cell
        if is_generator(leaves[k]):
            stand_ins[k] = Handle(stand_ins[k], type(leaves[k]))
    for k, leaf in enumerate(leaves):
        if not _is_dynamic(leaf):
            stand_ins[k] = lift(stage, leaf, lambda leaf=leaf: leaf, names[k], ("argument", k))
    return stand_ins, inputs, dynamic


#: what the source front end raises for a function that the tape may still serve
_NOT_FROM_SOURCE = (SourceUnavailable, UnsupportedCode, MissingRule, JoinFailure, NeedConcrete, RecursionError)
_MAX_VARIANTS = 16


def _without_errors(
    entry: Callable[..., Any], holds: Callable[[], bool], errors: tuple[type[Exception], ...]
) -> Callable[..., Any]:
    """An entry whose errors mean that it does not fit, since the function may handle them."""

    def call(*args: Any) -> Any:
        try:
            return entry(*args) if holds() else NotImplemented
        except errors:
            return NotImplemented

    return call


def _expand_recomputed(block: Block) -> list[str]:
    """Put checkpoints in their place, now that nothing is merged with what the backward sweep runs again."""
    calls = [op for op in block.walk() if op.name == "call"]
    expand(block, lambda op: True)
    if calls:
        remove_dead(block)
    return [recomputation(op) for op in calls]


def _written(stage: Stage, leaf_of: dict[Cell, int]) -> list[tuple[int | Capture, Value]]:
    """Argument leaves and captured arrays that hold other elements now than before the call, with these."""
    places: dict[Cell, int | Capture] = {**leaf_of, **{c.cell: c for c in stage.captures if c.cell is not None}}
    cells = dict.fromkeys(slot.owner for slot, _ in stage.heap.journal if slot.kind == "cell")
    return [(places[cell], cell.value) for cell in cells if cell in places]


def argument_name(path: str, parameters: Sequence[str]) -> str:
    """A name for a leaf: ``[0][2]`` (of positional argument 2) → that parameter's name; ``[1]['w'][0]`` → ``w_0``."""
    keyword, first, *rest = [p.strip("[]'\"") for p in path.replace("[", " [").replace(".", " ").split()]
    if keyword == "0":
        first = parameters[int(first)] if int(first) < len(parameters) else f"arg{first}"
    name = "_".join([first, *rest])
    return name if name.isidentifier() else "arg"


def _units(x: Any) -> tuple[bool, ...]:
    return tuple(n == 1 for n in np.shape(x))


def _kind(x: Any) -> str:
    return "array" if isinstance(x, Array) else "py" if x.weak else "np"


def _prune(program: Program, captures: Sequence[Capture], first: int) -> list[Capture]:
    """Drop captures that the simplified Program does not use."""
    used = set(free_values(Block((), program.block.ops, program.block.results)))
    keep = [k for k, c in enumerate(captures) if c.value in used]
    program.block.params[first:] = [captures[k].value for k in keep]
    program.inputs[first:] = [program.inputs[first + k] for k in keep]
    return [captures[k] for k in keep]


def _compiler(backend: str) -> Callable[[Program], Callable[..., Any]]:
    if backend not in _BACKENDS:
        raise ValueError(f"backend must be 'native' or 'python', not {backend!r}")
    return _BACKENDS[backend]


_BACKENDS = {"native": native.compile, "python": python.compile}


def _always() -> bool:
    return True


def _holds(assumptions: Sequence[tuple[Callable[[], Any], Any]]) -> Callable[[], bool]:
    """A function that tells whether every assumption still holds."""
    if not assumptions:
        return _always
    identical = [(read, found) for read, found in assumptions if not isinstance(found, _COMPARED)]
    equal = [(read, found) for read, found in assumptions if isinstance(found, _COMPARED)]

    def holds() -> bool:
        try:
            for read, found in identical:
                if (now := read()) is not found and not same(now, found):
                    return False
            for read, found in equal:
                now = read()
                if now is not found and (type(now) is not type(found) or now != found) and not same(now, found):
                    return False
        except _GONE:
            return False
        return True

    return holds


#: what reading from outside raises when it is not there any more
_GONE = (LookupError, AttributeError, ValueError, TypeError)


def holding(assumptions: Sequence[tuple[Callable[[], Any], Any]]) -> bool:
    """Whether every assumption holds now."""
    return _holds(assumptions)()


_COMPARED = (int, float, complex, str, bytes, tuple, list, np.integer, np.bool_, np.dtype)


def _by_form(s: Specialisation, leaves: Sequence[Any], structure: tree.Tree) -> Callable[..., Any] | None:
    """A function from ((args, kwargs), out) to the result, or NotImplemented for calls that are not as the one before.

    The entry itself checks the arguments that are passed to it; the others must be the very same objects.
    """
    read = forms.reader(structure)
    if read is None:
        return None
    fixed = [(k, leaf) for k, leaf in enumerate(leaves) if k not in set(s.dynamic)]
    captured = [c.read for c in s.captures]
    entry, holds, dynamic, build, direct = s.entry, s.holds, s.dynamic, s.result.build, s.result.direct
    run = _without_errors(entry, _always, s.not_fitting) if s.not_fitting else entry

    def call(both: Any, out: Any) -> Any:
        found = read(both)
        if found is None or not holds():
            return NotImplemented
        if fixed:
            for k, leaf in fixed:
                if found[k] is not leaf:
                    return NotImplemented
            found = [found[k] for k in dynamic]
        if captured:
            try:
                found += [read_captured() for read_captured in captured]
            except _GONE:
                return NotImplemented
        if out is not None:
            try:
                return s.into(out, found)
            except s.not_fitting:
                return NotImplemented
        result = run(*found)
        return result if direct or result is NotImplemented else build(result)

    return call
