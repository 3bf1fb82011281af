"""LLVM assembly as text: instructions with fresh names, labels, phis, constants, memory accesses with alias scopes."""

from __future__ import annotations

import functools
import platform
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import llvmlite.binding as binding
import numpy as np

#: metadata below this number is numbered by whoever assembles the module
_FIRST_NODE = 100_000

#: an index-like number: known when emitting (int) or an SSA name of type i64 (str)
Ix = int | str


def reg_type(dtype: np.dtype) -> str:
    """The LLVM type of a scalar in a register. A complex number is a vector of its two parts."""
    if dtype.kind == "b":
        return "i1"
    if dtype.kind in "iu":
        return f"i{8 * dtype.itemsize}"
    if dtype.kind == "f":
        return {2: "half", 4: "float", 8: "double"}[dtype.itemsize]
    return {8: "<2 x float>", 16: "<2 x double>"}[dtype.itemsize]


def mem_type(dtype: np.dtype) -> str:
    """The LLVM type of an array element."""
    return "i8" if dtype.kind == "b" else reg_type(dtype)


def representable(dtype: np.dtype) -> bool:
    """Whether values of ``dtype`` exist in native code at all."""
    if dtype == np.float16 and not _half_precision():
        return False
    return dtype.isnative and (dtype.kind in "biu" or dtype.str[1:] in ("f2", "f4", "f8", "c8", "c16"))


@functools.cache
def _half_precision() -> bool:
    """Whether this machine converts half precision; LLVM would call library functions that are not there."""
    return platform.machine() in ("arm64", "aarch64") or bool(binding.get_host_cpu_features().get("f16c"))


def float_literal(value: float, type: str) -> str:
    if type == "half":
        return f"0xH{np.float16(value).view(np.uint16):04X}"
    if type == "float":
        value = float(np.float32(value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def literal(value: Any, dtype: np.dtype) -> str:
    """A scalar constant of ``dtype`` as LLVM text."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return str(int(value))
    type = reg_type(dtype)
    if dtype.kind == "f":
        return float_literal(float(value), type)
    part = type[5:-1]
    return f"<{part} {float_literal(float(value.real), part)}, {part} {float_literal(float(value.imag), part)}>"


class Scope:
    """A set of memory that never overlaps the memory of other scopes; scopes that may share memory are joined."""

    __slots__ = ("parent",)

    def __init__(self) -> None:
        self.parent: Scope | None = None

    def find(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def join(self, other: Scope) -> None:
        a, b = self.find(), other.find()
        if a is not b:
            a.parent = b


class Phi:
    """A phi whose incoming values are added while its predecessors are emitted."""

    __slots__ = ("name", "type", "incoming")

    def __init__(self, name: str, type: str):
        self.name = name
        self.type = type
        self.incoming: list[tuple[str, str]] = []

    def add(self, value: Ix, label: str) -> None:
        self.incoming.append((str(value), label))

    def __str__(self) -> str:
        return f"  {self.name} = phi {self.type} " + ", ".join(f"[{v}, %{b}]" for v, b in self.incoming)


class Access:
    """A load or store line whose alias metadata is known only when all scopes are."""

    __slots__ = ("text", "scope", "group")

    def __init__(self, text: str, scope: Scope, group: int | None):
        self.text = text
        self.scope = scope
        self.group = group  # metadata number of the parallel loop it is in


Line: TypeAlias = str | Phi | Access


class Emitter:
    """The body of one LLVM function under construction."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.label = "start"
        self.placed = 0  # where the current block begins in ``lines``
        self.count = 0
        self.group: int | None = None  # accesses emitted now belong to a loop whose iterations are independent
        self.metadata: list[str] = []

    def node(self, text: str) -> int:
        """A new metadata node; SELF in ``text`` stands for its own number."""
        number = _FIRST_NODE + len(self.metadata)
        self.metadata.append(f"!{number} = {text.replace('SELF', f'!{number}')}")
        return number

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def new_label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def ins(self, text: str) -> str:
        """Emit an instruction with a result; returns its name."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Emit an instruction without a result."""
        self.lines.append(f"  {text}")

    def place(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label
        self.placed = len(self.lines)

    def br(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def cond_br(self, cond: str, yes: str, no: str, likely: bool = False) -> None:
        self.lines.append(f"  br i1 {cond}, label %{yes}, label %{no}" + (", !prof !0" if likely else ""))

    def phi(self, type: str) -> Phi:
        phi = Phi(self.fresh(), type)
        self.lines.append(phi)
        return phi

    def load(self, dtype: np.dtype, ptr: str, scope: Scope) -> str:
        name = self.fresh()
        self.lines.append(
            Access(f"  {name} = load {mem_type(dtype)}, ptr {ptr}, align {alignment(dtype)}", scope, self.group)
        )
        return self.ins(f"icmp ne i8 {name}, 0") if dtype.kind == "b" else name

    def store(self, dtype: np.dtype, value: str, ptr: str, scope: Scope) -> None:
        if dtype.kind == "b":
            value = self.ins(f"zext i1 {value} to i8")
        self.lines.append(
            Access(f"  store {mem_type(dtype)} {value}, ptr {ptr}, align {alignment(dtype)}", scope, self.group)
        )

    def gep(self, type: str, ptr: str, offset: Ix) -> str:
        return ptr if offset == 0 else self.ins(f"getelementptr inbounds {type}, ptr {ptr}, i64 {offset}")

    def word(self, ptr: str, index: Ix) -> str:
        """The address of a 64-bit word of a structure."""
        return self.gep("i64", ptr, index)

    # index arithmetic, folded when the numbers are known

    def add(self, a: Ix, b: Ix) -> Ix:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.ins(f"add nsw i64 {a}, {b}")

    def sub(self, a: Ix, b: Ix) -> Ix:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.ins(f"sub nsw i64 {a}, {b}")

    def mul(self, a: Ix, b: Ix) -> Ix:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.ins(f"mul nsw i64 {a}, {b}")

    def min(self, a: Ix, b: Ix) -> Ix:
        return self._extremum("smin", min, a, b)

    def max(self, a: Ix, b: Ix) -> Ix:
        return self._extremum("smax", max, a, b)

    def _extremum(self, name: str, fold: Any, a: Ix, b: Ix) -> Ix:
        if isinstance(a, int) and isinstance(b, int):
            return fold(a, b)
        return a if a == b else self.ins(f"call i64 @llvm.{name}.i64(i64 {a}, i64 {b})")

    def product(self, numbers: Sequence[Ix]) -> Ix:
        out: Ix = 1
        for n in numbers:
            out = self.mul(out, n)
        return out

    def loop(self, hint: str, count: Ix) -> CountedLoop:
        return CountedLoop(self, hint, count)

    def text(self, first_metadata: int) -> tuple[str, list[str]]:
        """The function body, and the metadata it refers to (that of aliases numbered from ``first_metadata``)."""
        lines, metadata = rendered(self.lines, first_metadata)
        return "\n".join(lines), [*self.metadata, *metadata]


def rendered(lines: Sequence[Line], first_metadata: int) -> tuple[list[str], list[str]]:
    """Lines as text, and the alias metadata they refer to, numbered from ``first_metadata``."""
    numbers: dict[Scope, int] = {}
    for line in lines:
        if isinstance(line, Access):
            numbers.setdefault(line.scope.find(), len(numbers))
    # every access would list every other scope: with very many the lists cost more than they gain
    scoped = 1 < len(numbers) <= 100
    base = first_metadata + 1
    out = []
    for line in lines:
        if isinstance(line, Access):
            k = numbers[line.scope.find()]
            own, others = base + len(numbers) + 2 * k, base + len(numbers) + 2 * k + 1
            text = line.text if line.group is None else f"{line.text}, !llvm.access.group !{line.group}"
            out.append(text + (f", !alias.scope !{own}, !noalias !{others}" if scoped else ""))
        else:
            out.append(str(line))
    if not scoped:
        return out, []
    meta = [f'!{first_metadata} = distinct !{{!{first_metadata}, !"storage"}}']
    meta += [f"!{base + k} = distinct !{{!{base + k}, !{first_metadata}}}" for k in range(len(numbers))]
    for k in range(len(numbers)):
        others_of_k = ", ".join(f"!{base + j}" for j in range(len(numbers)) if j != k)
        meta.append(f"!{base + len(numbers) + 2 * k} = !{{!{base + k}}}")
        meta.append(f"!{base + len(numbers) + 2 * k + 1} = !{{{others_of_k}}}")
    return out, meta


class CountedLoop:
    """``for i in range(count)``: used as a context manager around the emission of the body.

    ``carry(type, init)`` before entering declares an accumulator; ``loop.next(k, value)`` inside gives its next value.
    """

    def __init__(self, em: Emitter, hint: str, count: Ix):
        self.em = em
        self.count = count
        self.head, self.body, self.exit = (em.new_label(f"{hint}.{part}") for part in ("head", "body", "exit"))
        self.inits: list[tuple[str, str]] = []
        self.phis: list[Phi] = []
        self.nexts: list[str] = []
        self.index = ""
        self.parallel = False  # no iteration reads what another one writes

    def carry(self, type: str, init: str) -> int:
        self.inits.append((type, init))
        return len(self.inits) - 1

    def value(self, k: int) -> str:
        return self.phis[k].name

    def next(self, k: int, value: str) -> None:
        self.nexts[k] = value

    def __enter__(self) -> CountedLoop:
        em, before = self.em, self.em.label
        em.br(self.head)
        em.place(self.head)
        self._counter = em.phi("i64")
        self._counter.add(0, before)
        self.index = self._counter.name
        for type, init in self.inits:
            phi = em.phi(type)
            phi.add(init, before)
            self.phis.append(phi)
        self.nexts = [p.name for p in self.phis]
        em.cond_br(em.ins(f"icmp slt i64 {self.index}, {self.count}"), self.body, self.exit)
        em.place(self.body)
        return self

    def __exit__(self, *exc: object) -> None:
        em = self.em
        self._counter.add(em.ins(f"add nuw nsw i64 {self.index}, 1"), em.label)
        for phi, value in zip(self.phis, self.nexts, strict=True):
            phi.add(value, em.label)
        note = ""
        if self.parallel and em.group is not None:
            accesses = em.node(f'!{{!"llvm.loop.parallel_accesses", !{em.group}}}')
            note = f", !llvm.loop !{em.node(f'distinct !{{SELF, !{accesses}}}')}"
        em.do(f"br label %{self.head}{note}")
        em.place(self.exit)


def alignment(dtype: np.dtype) -> int:
    return dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
