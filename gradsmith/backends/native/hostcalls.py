"""Operations that Python runs: the way out for whatever is not lowered.

Operands travel through 64-bit slots on the stack: a scalar in two of them, an array as pointer, lengths and strides.
Results come back the same way, arrays as a new buffer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from gradsmith.backends import effects, host
from gradsmith.backends.native import runtime
from gradsmith.backends.native.emit import Scope, reg_type
from gradsmith.backends.native.lower import Array, HostSite, Lowering, Root
from gradsmith.errors import add_location, located
from gradsmith.ir.program import Const, Op, Value
from gradsmith.ir.types import ArrayType


def lower(lo: Lowering, op: Op) -> None:
    """Emit a host call for ``op``."""
    em = lo.em
    site = HostSite(op)
    slot = 0
    for arg in op.args:
        site.args.append(slot)
        if not isinstance(arg, Const):
            slot = _pass(lo, arg, slot)
    for result in op.results:
        site.results.append(slot)
        assert isinstance(result.type, ArrayType)
        slot += 2 + result.ndim
    lo.slots = max(lo.slots, slot, 1)
    lo.host_sites.append(site)
    number = len(lo.host_sites) - 1
    place = em.word("%ctx", runtime.STATE)
    em.do(f"store i64 1, ptr {place}")  # nothing can be said of results before the call itself says it succeeded
    em.do(f"call void @gradsmith_host(ptr %ctx, i64 {lo.number}, i64 {number}, ptr %slots)")
    state = em.ins(f"load i64, ptr {place}")
    lo.require(em.ins(f"icmp eq i64 {state}, 0"), "host", op)
    for result, first in zip(op.results, site.results, strict=True):
        _take(lo, result, first)


def _pass(lo: Lowering, arg: Value, slot: int) -> int:
    em = lo.em
    if lo.is_scalar(arg):
        place, value, type = em.word("%slots", slot), lo.scalar(arg), reg_type(arg.dtype)
        if type == "i1":
            value, type = em.ins(f"zext i1 {value} to i8"), "i8"
        em.do(f"store {type} {value}, ptr {place}, align 8")
        return slot + 2
    a = lo.memory(arg)
    em.do(f"store ptr {a.ptr}, ptr {em.word('%slots', slot)}")
    for k, n in enumerate([*a.dims, *lo.strides_of(a)]):
        em.do(f"store i64 {n}, ptr {em.word('%slots', slot + 1 + k)}")
    return slot + 1 + 2 * len(a.dims)


def _take(lo: Lowering, result: Value, first: int) -> None:
    em = lo.em
    dtype = result.dtype
    if result.ndim == 0:
        lo.env[result] = em.load(dtype, em.word("%slots", first), lo.slot_scope)
        return
    owner = em.ins(f"load ptr, ptr {em.word('%slots', first)}")
    ptr = em.ins(f"load ptr, ptr {em.word('%slots', first + 1)}")
    dims = [em.ins(f"load i64, ptr {em.word('%slots', first + 2 + k)}") for k in range(result.ndim)]
    for dim, n in zip(lo.shapes.of(result), dims, strict=True):
        if lo.available(dim):
            lo.require_equal(n, lo.length(dim))
        lo.set_length(dim, n)
    lo.define(result, Array(dtype, ptr, lo.dims(result), None, Root(owner, True, Scope())))


#: scalars that ctypes reads and writes
_PLAIN: dict[np.dtype, Any] = {
    np.dtype(np.float64): ctypes.c_double,
    np.dtype(np.int64): ctypes.c_int64,
    np.dtype(np.bool_): ctypes.c_bool,
}


def python_side(site: HostSite, run: runtime.Runtime) -> runtime.HostCall:
    """The Python half of a host call: reads the operands, evaluates the operation, writes the results."""
    op = site.op
    readers = [_reader(arg, first) for arg, first in zip(op.args, site.args, strict=True)]
    writers = [_writer(result, first, run) for result, first in zip(op.results, site.results, strict=True)]

    if op.name == "effect":
        return _effect_side(op, readers, writers)

    def call(context: int, slots: int) -> None:
        args = [read(slots) for read in readers]
        with np.errstate(all="ignore"), located(op.loc):
            results = host.evaluate(op, args)
        for write, result in zip(writers, results, strict=True):
            write(context, slots, result)

    return call


def _effect_side(op: Op, readers: list[Any], writers: list[Any]) -> runtime.HostCall:
    """An effect, which may be run very often: drawing a number in a loop."""
    effect, loc = op.attrs["fn"], op.loc
    types = [None if r.ndim == 0 else r.type for r in op.results]

    def call(context: int, slots: int) -> None:
        args = [read(slots) for read in readers]
        try:
            results = effects.run(effect, args)
            for write, type, result in zip(writers, types, results, strict=True):
                write(context, slots, result if type is None else host.exact(result, type))
        except Exception as error:
            add_location(error, loc)
            raise

    return call


def _reader(arg: Value, first: int) -> Callable[[int], Any]:
    if isinstance(arg, Const):
        data = arg.data
        return lambda slots: data
    dtype, ndim = arg.dtype, arg.ndim
    if ndim == 0 and dtype in _PLAIN:
        place, scalar = _PLAIN[dtype].from_address, dtype.type
        return lambda slots: scalar(place(slots + 8 * first).value)
    if ndim == 0:
        return lambda slots: np.ndarray((), dtype, _memory(slots + 8 * first, 16))[()]
    layout = ctypes.c_int64 * (1 + 2 * ndim)

    def read(slots: int) -> np.ndarray:
        words = layout.from_address(slots + 8 * first)
        shape, strides = words[1 : 1 + ndim], words[1 + ndim :]
        return wrap(words[0], dtype, shape, strides)

    return read


def wrap(address: int, dtype: np.dtype, shape: list[int], strides: list[int]) -> np.ndarray:
    """A read-only ndarray over memory of native code; ``strides`` in elements."""
    if 0 in shape:
        return np.empty(shape, dtype)
    low = sum(min(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    memory = _memory(address + low * dtype.itemsize, (high - low + 1) * dtype.itemsize)
    steps = [s * dtype.itemsize for s in strides]
    out = np.ndarray(shape, dtype, memory, -low * dtype.itemsize, steps)
    out.flags.writeable = False
    return out


def _memory(address: int, size: int) -> Any:
    """A buffer object over ``size`` bytes at an address."""
    return (ctypes.c_char * size).from_address(address)


def _writer(result: Value, first: int, run: runtime.Runtime) -> Callable[[int, int, Any], None]:
    dtype, ndim = result.dtype, result.ndim
    if ndim == 0 and dtype in _PLAIN:
        plain = _PLAIN[dtype].from_address

        def write_plain(context: int, slots: int, value: Any) -> None:
            plain(slots + 8 * first).value = value

        return write_plain
    if ndim == 0:

        def write_scalar(context: int, slots: int, value: Any) -> None:
            data = np.asarray(value, dtype).tobytes()
            ctypes.memmove(slots + 8 * first, data, len(data))

        return write_scalar

    def write_array(context: int, slots: int, value: np.ndarray) -> None:
        header = run.alloc(context, value.nbytes)
        if not header:
            raise MemoryError
        address = runtime.data_of(header)
        if value.size:
            np.ndarray(value.shape, dtype, _memory(address, value.nbytes))[...] = value
        words = (ctypes.c_int64 * (2 + ndim)).from_address(slots + 8 * first)
        words[:] = [header, address, *value.shape]

    return write_array
