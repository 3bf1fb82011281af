"""One compiled program: its machine code, and the slow paths its entry calls back for."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np

from gradsmith.backends import effects
from gradsmith.backends.native import entry, runtime, split
from gradsmith.backends.native.dispatch import lower_unit
from gradsmith.backends.native.emit import Line, Scope, rendered, representable
from gradsmith.backends.native.engine import compile_module
from gradsmith.backends.native.fallback import fits, interpreted
from gradsmith.backends.native.fission import TILE
from gradsmith.backends.native.hostcalls import python_side
from gradsmith.backends.native.lower import CHECKED, Array, Lowering, Root, Site, Unsupported
from gradsmith.errors import add_location
from gradsmith.ir.program import Block, Const, Program, Value
from gradsmith.ir.types import ArrayType, SeqType, Type

_numbers = itertools.count(1)

_INTRINSICS = {
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    "declare i64 @llvm.smin.i64(i64, i64)",
    "declare i64 @llvm.smax.i64(i64, i64)",
    "declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)",
}


def lower_program(program: Program, number: int, checked: bool) -> tuple[Lowering, str]:
    """The lowering of ``program`` and the text of its body function."""
    _check_types(program.block)
    lo = Lowering(program, number, checked, lower_unit)
    owned: dict[Value, Root] = {}
    for k, param in enumerate(program.block.params):
        if param.ndim == 0:
            lo.env[param] = f"%a{k}"
            continue
        for axis, dim in enumerate(lo.shapes.of(param)):
            lo.set_length(dim, f"%a{k}.{axis}")
        lo.env[param] = Array(param.dtype, f"%a{k}", lo.dims(param), None, Root(None, False, lo.input_scope))
    lo.region(program.block, owned, lambda: _store_results(lo))
    functions, body, metadata = _body(lo)
    lo.uses_context = "%ctx" in functions or "%ctx" in body
    params = ["ptr noalias %ctx", *(f"{t} {n}" for t, n in entry.body_parameters(lo)), "ptr noalias %out"]
    slots = f"  %slots = alloca [{lo.slots} x i64], align 16\n" if lo.slots else ""
    slots += f"  %buffers = alloca [{8 * TILE * lo.buffers} x i8], align 64\n" if lo.buffers else ""
    text = f"define internal i64 @body({', '.join(params)}) {{\nstart:\n{slots}{body}\n}}\n"
    return lo, functions + text + '!0 = !{!"branch_weights", i32 1048575, i32 1}\n' + "\n".join(metadata) + "\n"


def _body(lo: Lowering) -> tuple[str, str, list[str]]:
    """The functions that a long body is split into, the lines of the body, and metadata."""
    pieces = split.split(lo.em.lines, lo.marks)
    parts, metadata = _rendered(lo, pieces)
    if len(parts) > 1:
        # the frame may hold pointers into these
        others = [("ptr", name) for name in ("%ctx", "%out", "%slots", "%buffers", "%frame")]
        if (found := split.functions(parts, [*entry.body_parameters(lo), *others])) is not None:
            return "\n".join(found[0]), "\n".join(found[1]), metadata
        parts, metadata = _rendered(lo, [("start", [line for _, lines in pieces for line in lines])])
    return "", "\n".join(parts[0].lines), metadata


def _rendered(lo: Lowering, pieces: list[tuple[str, list[Line]]]) -> tuple[list[split.Part], list[str]]:
    """Pieces as text, each with its end and the ways to fail that it needs, and their metadata."""
    em = lo.em
    parts: list[split.Part] = []
    metadata: list[str] = []
    for label, lines in pieces:
        em.lines = [*lines, split.END]
        lo.emit_failures(split.targets(lines))
        texts, aliases = rendered(em.lines, 1 + len(metadata))
        parts.append(split.Part(label, texts))
        metadata += aliases
    return parts, [*metadata, *em.metadata]


def _check_types(block: Block) -> None:
    values: list[Value] = list(block.params)
    for op in block.walk():
        values += [
            *op.results,
            *(a for a in op.args if isinstance(a, Const)),
            *(p for r in op.regions for p in r.params),
        ]
    if any(op.name == "call" for op in block.walk()):
        raise Unsupported("a call that was not put in its place")
    for value in values:
        if not _holds(value.type):
            raise Unsupported(str(value.type))


def _holds(type: Type) -> bool:
    return _holds(type.elem) if isinstance(type, SeqType) else isinstance(type, ArrayType) and representable(type.dtype)


def _store_results(lo: Lowering) -> None:
    """Store the results of the Program where the entry finds them."""
    em = lo.em
    results = lo.program.block.results
    slots = entry.result_slots(results)
    scope = Scope()
    claimed = lo.claims(results, [False] * len(results))
    for value, given, first in zip(results, claimed, slots, strict=False):
        if isinstance(given, str):
            em.store(value.dtype, given, em.word("%out", first), scope)
        else:
            assert isinstance(given, Array)
            em.do(f"store ptr {given.root.owner or 'null'}, ptr {em.word('%out', first)}")
            em.do(f"store ptr {given.ptr}, ptr {em.word('%out', first + 1)}")
            for axis, n in enumerate(given.dims):
                em.do(f"store i64 {n}, ptr {em.word('%out', first + 2 + axis)}")


def module_text(lo: Lowering, body: str, name: str, redirect: str) -> str:
    """The whole module: body, entry, declarations."""
    entry_text = entry.Entry(lo, name, redirect).text()
    text = body + entry_text
    declarations = [*sorted(_INTRINSICS | lo.scalars.intrinsics), *lo.declared.values(), lo.functions.text()]
    declarations += [f"@{redirect} = global ptr null", *(["@cut = internal global i64 0"] if lo.cuts else [])]
    return "\n".join([runtime.DECLARATIONS, entry.DECLARATIONS, *declarations, text])


class Version:
    """Machine code of a program: the fast or the checked one."""

    def __init__(self, program: Program, checked: bool):
        run = runtime.runtime()
        number = next(_numbers)
        self.lowering, body = lower_program(program, number, checked)
        self.sites = self.lowering.sites
        self._keep = self.lowering.keep_alive
        name, redirect = f"gradsmith_entry_{number}", f"gradsmith_redirect_{number}"
        runtime.host_calls[number] = [python_side(site, run) for site in self.lowering.host_sites]
        self.number = number
        self.ir = module_text(self.lowering, body, name, redirect)
        self._engine, addresses = compile_module(self.ir, [name], interleave=self.lowering.interleave)
        self.address = addresses[name]
        self._redirect = self._engine.get_global_value_address(redirect)
        del self.lowering

    def redirect(self, address: int) -> None:
        """Let the entry of this version jump to another one from now on."""
        ctypes.c_uint64.from_address(self._redirect).value = address

    def __del__(self, host_calls: Any = runtime.host_calls) -> None:  # the module may be gone when Python ends
        host_calls.pop(getattr(self, "number", 0), None)


class NativeProgram:
    """What the entry is bound to. Calling it answers the entry's questions:

    ``self(-1 - k, array)`` prepares argument k; ``self(code, context, *args)`` handles an early end of the call.
    """

    def __init__(self, program: Program):
        self.program = program
        self.interpreted = interpreted(program)
        self.has_effects = any(op.name == "effect" for op in program.block.walk())
        self.fast = Version(program, checked=False)
        self.checked: Version | None = None
        self._definition = entry.MethodDefinition(program.name.encode(), self.fast.address, 0x80, b"")

    def function(self) -> Any:
        """The Python function: a builtin whose self is this object, which therefore lives as long as it."""
        return entry.bind(self._definition, self)

    def __call__(self, code: int, *args: Any) -> Any:
        if code < 0:
            return self._prepare(-1 - code, args[0])
        context, *leaves = args
        if code > CHECKED:
            assert self.checked is not None
            return self._early_end(self.checked.sites[code - CHECKED - 1], context, leaves)
        return self._early_end(self.fast.sites[code - 1], context, leaves)

    def _prepare(self, k: int, array: np.ndarray) -> Any:
        """An argument as a contiguous, aligned array in native byte order."""
        param = self.program.block.params[k]
        if not fits(array, param, self.program.inputs[k]):
            return NotImplemented
        return np.require(array, param.dtype, ["C_CONTIGUOUS", "ALIGNED"]).view(np.ndarray)

    def _early_end(self, site: Site, context: int, args: list[Any]) -> Any:
        if site.kind == "guard":
            return NotImplemented
        if self.has_effects and site.kind in ("deopt", "unsafe"):
            effects.rewind()
        if site.kind == "deopt":
            return self.interpreted(*args)
        if site.kind == "unsafe":
            self._use_checked()
            return self.function()(*args)
        raise self._error(site, context)

    def _error(self, site: Site, context: int) -> BaseException:
        error: BaseException
        if site.kind == "memory":
            error = MemoryError()
        elif site.kind == "host":
            interrupt: BaseException = KeyboardInterrupt()  # it came before the call had begun
            error = runtime.raised.pop(context, interrupt)
        else:
            assert site.op is not None
            words = (ctypes.c_int64 * 8).from_address(context + 8 * runtime.VALUES)
            if site.kind == "index":
                message = f"index {words[0]} is out of bounds for axis {site.axis} with size {words[1]}"
                error = IndexError(message)
            else:
                # without values there may be no context to read them from: the arguments come first in the zip
                values = [_from_word(w, a.dtype) for a, w in zip(site.op.args[1:], words, strict=False)]
                error = site.op.attrs["error"](site.op.attrs["message"].format(*values))
        if site.op is not None:
            add_location(error, site.op.loc)
        return error

    def _use_checked(self) -> None:
        """Compile the checked version, and use it from now on."""
        if self.checked is None:
            self.checked = Version(self.program, checked=True)
            self.fast.redirect(self.checked.address)


def _from_word(word: int, dtype: np.dtype) -> Any:
    """A scalar from the 64 bits in which native code passed it."""
    wide = np.array(word, np.int64).view(np.float64) if dtype.kind in "fc" else np.array(word, np.int64)
    return wide.astype(dtype)[()]
