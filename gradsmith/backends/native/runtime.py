"""What compiled code needs at run time: contexts with pools of counted buffers, and calls back into Python.

A *context* serves one call at a time; idle ones are kept in a list that is only touched with the GIL held. Its words:
0 list of all its buffers · 1 bytes pooled · 2 number of the current call · 3 next idle context ·
4–11 values of an error · 15 headers without memory · 16… free buffers by size class (four to a power of two).

A *buffer* has a header: 0 reference count · 1 size class · 2 data · 3 next free · 4 next of all ·
5 length (sequences) · 6 number of the last call that used it.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy._core import _multiarray_umath as multiarray  # type: ignore[attr-defined]

from gradsmith.backends.native.engine import add_symbol, compile_module

CONTEXT_WORDS = 16 + 64 * 4
VALUES = 4  # first word of the values of an error
STATE = 12  # word that a host call sets to 0 when its results are there
DATA, LENGTH = 2, 5  # words of a buffer's header

#: bytes a context may keep in buffers that its last call did not use
KEEP = 64 << 20

DECLARATIONS = """
declare ptr @gradsmith_alloc(ptr nocapture, i64)
declare void @gradsmith_release(ptr nocapture, ptr)
declare void @gradsmith_retain(ptr)
declare i1 @gradsmith_unique(ptr)
declare i64 @gradsmith_grow(ptr nocapture, ptr)
declare ptr @gradsmith_acquire()
declare void @gradsmith_finish(ptr)
declare void @gradsmith_abort(ptr)
declare ptr @gradsmith_give(ptr, ptr)
declare void @gradsmith_host(ptr, i64, i64, ptr)
declare i64 @gradsmith_poll(ptr)
declare ptr @gradsmith_box_into(ptr, ptr, ptr, i32, ptr, i32, i64, ptr, ptr)
"""

# ruff: noqa: E501
_MODULE = """
@idle = internal global ptr null
declare ptr @calloc(i64, i64)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umax.i64(i64, i64)

define i64 @gradsmith_capacity(i64 %class) {
  %e = lshr i64 %class, 2
  %sub = and i64 %class, 3
  %five = add i64 %sub, 5
  %shift = sub i64 %e, 2
  %out = shl i64 %five, %shift
  ret i64 %out
}

ADVISE

define ptr @gradsmith_alloc(ptr %ctx, i64 %bytes) {
  %n = call i64 @llvm.umax.i64(i64 %bytes, i64 64)
  %m = sub i64 %n, 1
  %lz = call i64 @llvm.ctlz.i64(i64 %m, i1 true)
  %e = sub i64 63, %lz
  %e2 = sub i64 %e, 2
  %top = lshr i64 %m, %e2
  %sub = and i64 %top, 3
  %e4 = shl i64 %e, 2
  %class = or i64 %e4, %sub
  %slot.index = add i64 %class, 16
  %slot = getelementptr i64, ptr %ctx, i64 %slot.index
  %stamp.p = getelementptr i64, ptr %ctx, i64 2
  %stamp = load i64, ptr %stamp.p
  %h = load ptr, ptr %slot
  %none = icmp eq ptr %h, null
  br i1 %none, label %new, label %reuse
reuse:
  %next.p = getelementptr i64, ptr %h, i64 3
  %next = load ptr, ptr %next.p
  store ptr %next, ptr %slot
  br label %done
new:
  %huge = icmp ugt i64 %bytes, 1152921504606846976
  br i1 %huge, label %fail, label %sized
sized:
  %capacity = call i64 @gradsmith_capacity(i64 %class)
  %data = call ptr @malloc(i64 %capacity)
  %nodata = icmp eq ptr %data, null
  br i1 %nodata, label %fail, label %advise
advise:
  call void @advise(ptr %data, i64 %capacity)
  br label %header
header:
  %empty.p = getelementptr i64, ptr %ctx, i64 15
  %empty = load ptr, ptr %empty.p
  %noempty = icmp eq ptr %empty, null
  br i1 %noempty, label %fresh, label %recycled
recycled:
  %empty.next.p = getelementptr i64, ptr %empty, i64 3
  %empty.next = load ptr, ptr %empty.next.p
  store ptr %empty.next, ptr %empty.p
  br label %fill
fresh:
  %made = call ptr @calloc(i64 8, i64 8)
  %nomade = icmp eq ptr %made, null
  br i1 %nomade, label %undo, label %link
undo:
  call void @free(ptr %data)
  br label %fail
link:
  %all = load ptr, ptr %ctx
  %all.p = getelementptr i64, ptr %made, i64 4
  store ptr %all, ptr %all.p
  store ptr %made, ptr %ctx
  br label %fill
fill:
  %h2 = phi ptr [%empty, %recycled], [%made, %link]
  %class.p = getelementptr i64, ptr %h2, i64 1
  store i64 %class, ptr %class.p
  %data.p = getelementptr i64, ptr %h2, i64 2
  store ptr %data, ptr %data.p
  %pooled.p = getelementptr i64, ptr %ctx, i64 1
  %pooled = load i64, ptr %pooled.p
  %pooled2 = add i64 %pooled, %capacity
  store i64 %pooled2, ptr %pooled.p
  br label %done
done:
  %out = phi ptr [%h, %reuse], [%h2, %fill]
  store i64 1, ptr %out
  %len.p = getelementptr i64, ptr %out, i64 5
  store i64 0, ptr %len.p
  %used.p = getelementptr i64, ptr %out, i64 6
  store i64 %stamp, ptr %used.p
  ret ptr %out
fail:
  ret ptr null
}

define internal void @push(ptr %ctx, ptr %h) {
  %class.p = getelementptr i64, ptr %h, i64 1
  %class = load i64, ptr %class.p
  %index = add i64 %class, 16
  %slot = getelementptr i64, ptr %ctx, i64 %index
  %first = load ptr, ptr %slot
  %next.p = getelementptr i64, ptr %h, i64 3
  store ptr %first, ptr %next.p
  store ptr %h, ptr %slot
  ret void
}

define void @gradsmith_retain(ptr %h) {
  %none = icmp eq ptr %h, null
  br i1 %none, label %out, label %count
count:
  %rc = load i64, ptr %h
  %more = add i64 %rc, 1
  store i64 %more, ptr %h
  br label %out
out:
  ret void
}

; whether the caller's reference to a buffer (null: memory that is not counted) is the only one
define i1 @gradsmith_unique(ptr %h) {
  %none = icmp eq ptr %h, null
  br i1 %none, label %out, label %count
count:
  %rc = load i64, ptr %h
  %one = icmp eq i64 %rc, 1
  br label %out
out:
  %unique = phi i1 [false, %0], [%one, %count]
  ret i1 %unique
}

define void @gradsmith_release(ptr %ctx, ptr %h) {
  %none = icmp eq ptr %h, null
  br i1 %none, label %out, label %count
count:
  %rc = load i64, ptr %h
  %less = sub i64 %rc, 1
  store i64 %less, ptr %h
  %dead = icmp eq i64 %less, 0
  br i1 %dead, label %free, label %out
free:
  call void @push(ptr %ctx, ptr %h)
  br label %out
out:
  ret void
}

; double the capacity of a sequence's buffer, by exchanging memory with a larger one; 0 when there is memory for it
define i64 @gradsmith_grow(ptr %ctx, ptr %h) {
  %class.p = getelementptr i64, ptr %h, i64 1
  %class = load i64, ptr %class.p
  %capacity = call i64 @gradsmith_capacity(i64 %class)
  %double = shl i64 %capacity, 1
  %other = call ptr @gradsmith_alloc(ptr %ctx, i64 %double)
  %failed = icmp eq ptr %other, null
  br i1 %failed, label %bad, label %good
good:
  %data.p = getelementptr i64, ptr %h, i64 2
  %data = load ptr, ptr %data.p
  %new.p = getelementptr i64, ptr %other, i64 2
  %new = load ptr, ptr %new.p
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %data, i64 %capacity, i1 false)
  store ptr %new, ptr %data.p
  store ptr %data, ptr %new.p
  %other.class.p = getelementptr i64, ptr %other, i64 1
  %other.class = load i64, ptr %other.class.p
  store i64 %other.class, ptr %class.p
  store i64 %class, ptr %other.class.p
  call void @gradsmith_release(ptr %ctx, ptr %other)
  ret i64 0
bad:
  ret i64 1
}

; the memory of a buffer whose only reference the caller holds, for free() to release some day
define ptr @gradsmith_give(ptr %ctx, ptr %h) {
  %data.p = getelementptr i64, ptr %h, i64 2
  %data = load ptr, ptr %data.p
  store ptr null, ptr %data.p
  store i64 0, ptr %h
  %class.p = getelementptr i64, ptr %h, i64 1
  %class = load i64, ptr %class.p
  %capacity = call i64 @gradsmith_capacity(i64 %class)
  %pooled.p = getelementptr i64, ptr %ctx, i64 1
  %pooled = load i64, ptr %pooled.p
  %pooled2 = sub i64 %pooled, %capacity
  store i64 %pooled2, ptr %pooled.p
  %empty.p = getelementptr i64, ptr %ctx, i64 15
  %empty = load ptr, ptr %empty.p
  %next.p = getelementptr i64, ptr %h, i64 3
  store ptr %empty, ptr %next.p
  store ptr %h, ptr %empty.p
  ret ptr %data
}

declare ptr @gradsmith_py_PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; an ndarray with the elements at %ptr: it takes over a large buffer that nobody else uses, otherwise it is a copy
define ptr @gradsmith_box(ptr %ctx, ptr %owner, ptr %ptr, i32 %nd, ptr %dims, i32 %type, i64 %bytes) {
  %alone = call i1 @gradsmith_unique(ptr %owner)
  %large = icmp uge i64 %bytes, GIVE_BYTES
  %may = and i1 %alone, %large
  br i1 %may, label %whole, label %copy
whole:
  %data.p = getelementptr i64, ptr %owner, i64 2
  %data = load ptr, ptr %data.p
  %same = icmp eq ptr %data, %ptr
  br i1 %same, label %hand, label %copy
hand:
  %given = call ptr @gradsmith_give(ptr %ctx, ptr %owner)
  %taken = call ptr @gradsmith_py_PyArray_New(ptr ARRAY_TYPE, i32 %nd, ptr %dims, i32 %type, ptr null, ptr %given, i32 0, i32 1281, ptr null)
  %nogood = icmp eq ptr %taken, null
  br i1 %nogood, label %undo, label %own
undo:
  call void @free(ptr %given)
  ret ptr null
own:
  %flags.p = getelementptr i8, ptr %taken, i64 64
  %flags = load i32, ptr %flags.p
  %owndata = or i32 %flags, 4
  store i32 %owndata, ptr %flags.p
  ret ptr %taken
copy:
  %new = call ptr @gradsmith_py_PyArray_New(ptr ARRAY_TYPE, i32 %nd, ptr %dims, i32 %type, ptr null, ptr null, i32 0, i32 0, ptr null)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %out, label %fill
fill:
  %place.p = getelementptr i8, ptr %new, i64 16
  %place = load ptr, ptr %place.p
  call void @llvm.memcpy.p0.p0.i64(ptr %place, ptr %ptr, i64 %bytes, i1 false)
  call void @gradsmith_release(ptr %ctx, ptr %owner)
  br label %out
out:
  ret ptr %new
}

declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @Py_IncRef(ptr)

; the elements at %ptr written to %target if that is a fitting ndarray (C-contiguous, writeable), else a new ndarray
define ptr @gradsmith_box_into(ptr %ctx, ptr %owner, ptr %ptr, i32 %nd, ptr %dims, i32 %type, i64 %bytes, ptr %target, ptr %descr) {
  %none = icmp eq ptr %target, null
  br i1 %none, label %new, label %object
object:
  %class.p = getelementptr i64, ptr %target, i64 1
  %class = load ptr, ptr %class.p
  %array = icmp eq ptr %class, ARRAY_TYPE
  br i1 %array, label %look, label %new
look:
  %nd.p = getelementptr i64, ptr %target, i64 3
  %its.nd = load i32, ptr %nd.p
  %same.nd = icmp eq i32 %its.nd, %nd
  %descr.p = getelementptr i64, ptr %target, i64 7
  %its.descr = load ptr, ptr %descr.p
  %same.descr = icmp eq ptr %its.descr, %descr
  %flags.p = getelementptr i64, ptr %target, i64 8
  %flags = load i32, ptr %flags.p
  %laid = and i32 %flags, 1281
  %plain = icmp eq i32 %laid, 1281
  %fits1 = and i1 %same.nd, %same.descr
  %fits2 = and i1 %fits1, %plain
  br i1 %fits2, label %shape, label %new
shape:
  %shape.p = getelementptr i64, ptr %target, i64 4
  %lengths = load ptr, ptr %shape.p
  %axes = sext i32 %nd to i64
  br label %axis
axis:
  %k = phi i64 [0, %shape], [%k1, %next]
  %last = icmp eq i64 %k, %axes
  br i1 %last, label %write, label %compare
compare:
  %mine.p = getelementptr i64, ptr %dims, i64 %k
  %mine = load i64, ptr %mine.p
  %its.p = getelementptr i64, ptr %lengths, i64 %k
  %its = load i64, ptr %its.p
  %equal = icmp eq i64 %mine, %its
  br i1 %equal, label %next, label %new
next:
  %k1 = add i64 %k, 1
  br label %axis
write:
  %place.p = getelementptr i64, ptr %target, i64 2
  %place = load ptr, ptr %place.p
  call void @llvm.memmove.p0.p0.i64(ptr %place, ptr %ptr, i64 %bytes, i1 false)
  call void @gradsmith_release(ptr %ctx, ptr %owner)
  call void @Py_IncRef(ptr %target)
  ret ptr %target
new:
  %made = call ptr @gradsmith_box(ptr %ctx, ptr %owner, ptr %ptr, i32 %nd, ptr %dims, i32 %type, i64 %bytes)
  ret ptr %made
}

declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()

; run pending signal handlers: not 0, with the exception set, when one raised (Ctrl-C)
define i64 @gradsmith_poll(ptr %ctx) {
  %state = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  %out = sext i32 %raised to i64
  ret i64 %out
}

define ptr @gradsmith_acquire() {
  %ctx = load ptr, ptr @idle
  %none = icmp eq ptr %ctx, null
  br i1 %none, label %new, label %reuse
reuse:
  %next.p = getelementptr i64, ptr %ctx, i64 3
  %next = load ptr, ptr %next.p
  store ptr %next, ptr @idle
  ret ptr %ctx
new:
  %made = call ptr @calloc(i64 CONTEXT_WORDS, i64 8)
  ret ptr %made
}

; give back a context after a call: buffers that the call did not use are freed when much memory is pooled
define void @gradsmith_finish(ptr %ctx) {
  %stamp.p = getelementptr i64, ptr %ctx, i64 2
  %stamp = load i64, ptr %stamp.p
  %pooled.p = getelementptr i64, ptr %ctx, i64 1
  %pooled = load i64, ptr %pooled.p
  %much = icmp ugt i64 %pooled, KEEP_BYTES
  br i1 %much, label %clear, label %done
clear:
  ; rebuild the free lists from the buffers of this call alone
  %k = phi i64 [16, %0], [%k1, %clear]
  %slot = getelementptr i64, ptr %ctx, i64 %k
  store ptr null, ptr %slot
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, CONTEXT_WORDS
  br i1 %more, label %clear, label %walk
walk:
  %h = phi ptr [null, %clear], [%next, %step]
  %started = phi i1 [false, %clear], [true, %step]
  %first = load ptr, ptr %ctx
  %here = select i1 %started, ptr %h, ptr %first
  %end = icmp eq ptr %here, null
  br i1 %end, label %done, label %look
look:
  %data.p = getelementptr i64, ptr %here, i64 2
  %data = load ptr, ptr %data.p
  %nodata = icmp eq ptr %data, null
  br i1 %nodata, label %step, label %age
age:
  %used.p = getelementptr i64, ptr %here, i64 6
  %used = load i64, ptr %used.p
  %recent = icmp eq i64 %used, %stamp
  br i1 %recent, label %keep, label %drop
keep:
  call void @push(ptr %ctx, ptr %here)
  br label %step
drop:
  %gone = call ptr @gradsmith_give(ptr %ctx, ptr %here)
  call void @free(ptr %gone)
  br label %step
step:
  %next.p = getelementptr i64, ptr %here, i64 4
  %next = load ptr, ptr %next.p
  br label %walk
done:
  %stamp1 = add i64 %stamp, 1
  store i64 %stamp1, ptr %stamp.p
  %idle.first = load ptr, ptr @idle
  %link.p = getelementptr i64, ptr %ctx, i64 3
  store ptr %idle.first, ptr %link.p
  store ptr %ctx, ptr @idle
  ret void
}

; after an error: every buffer still referenced becomes free
define void @gradsmith_abort(ptr %ctx) {
  br label %walk
walk:
  %h.p = phi ptr [%ctx, %0], [%next.p, %step]
  %h = load ptr, ptr %h.p
  %end = icmp eq ptr %h, null
  br i1 %end, label %done, label %look
look:
  %rc = load i64, ptr %h
  %live = icmp sgt i64 %rc, 0
  br i1 %live, label %free, label %step
free:
  store i64 0, ptr %h
  call void @push(ptr %ctx, ptr %h)
  br label %step
step:
  %next.p = getelementptr i64, ptr %h, i64 4
  br label %walk
done:
  ret void
}
"""

#: results of so many bytes take over their buffer instead of being copied
GIVE = 16384

#: ask Linux for huge pages for large buffers, as NumPy does: fresh memory costs a fault for every page
_ADVISE_LINUX = """
declare i32 @madvise(ptr, i64, i32)
define internal void @advise(ptr %data, i64 %bytes) {
  %large = icmp uge i64 %bytes, 4194304
  br i1 %large, label %ask, label %out
ask:
  %address = ptrtoint ptr %data to i64
  %up = add i64 %address, 4095
  %page = and i64 %up, -4096
  %start = inttoptr i64 %page to ptr
  %size = sub i64 %bytes, 4096
  %ignored = call i32 @madvise(ptr %start, i64 %size, i32 14)
  br label %out
out:
  ret void
}
"""
_ADVISE_NOTHING = "define internal void @advise(ptr %data, i64 %bytes) {\n  ret void\n}"

#: whether NumPy may free memory that native code allocated: surely where a process has one C library
GIVES = sys.platform != "win32"

_HOST_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)

HostCall = Callable[[int, int], None]
#: the host calls of every compiled program, by number of the program: called with context and address of the slots
host_calls: dict[int, list[HostCall]] = {}
#: exceptions raised by callbacks, by context, until the entry raises them again
raised: dict[int, BaseException] = {}


def _host(context: int, program: int, call: int, slots: int) -> None:
    # an interrupt may come before the first line, or after the last: what ctypes would return then is not defined
    state = ctypes.c_int64.from_address(context + 8 * STATE)
    try:
        host_calls[program][call](context, slots)
        state.value = 0
    except BaseException as error:  # crosses native frames: kept here, raised again by the entry
        state.value = 1
        raised[context] = error


def numpy_function(slot: int) -> int:
    """The address of a function of NumPy's C API, by its slot in the API table."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(multiarray._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    address = table[slot]
    assert address
    return address


def _keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next call, as it does by itself once a process has freed a large array.

    A freed block of almost 32 MiB raises the sizes above which memory goes back to the system to their largest values.
    Else a call with several large results returns their pages and faults them in again, every time.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    libc.free(libc.malloc((32 << 20) - (64 << 10)))


class Runtime:
    """The compiled runtime functions, and those that Python calls itself."""

    def __init__(self) -> None:
        _keep_freed_memory()
        text = _MODULE.replace("ADVISE", _ADVISE_LINUX if sys.platform.startswith("linux") else _ADVISE_NOTHING)
        text = text.replace("CONTEXT_WORDS", str(CONTEXT_WORDS)).replace("KEEP_BYTES", str(KEEP))
        text = text.replace("GIVE_BYTES", str(GIVE if GIVES else -1))
        text = text.replace("ARRAY_TYPE", f"inttoptr (i64 {id(np.ndarray)} to ptr)")
        add_symbol("gradsmith_py_PyArray_New", numpy_function(93))
        add_symbol("gradsmith_py_PyArray_Scalar", numpy_function(60))
        names = [
            "alloc",
            "release",
            "retain",
            "unique",
            "grow",
            "give",
            "acquire",
            "finish",
            "abort",
            "box_into",
            "poll",
        ]
        self._engine, addresses = compile_module(text, [f"gradsmith_{n}" for n in names], level=0)
        for name, address in addresses.items():
            add_symbol(name, address)
        self._host = _HOST_CALLBACK(_host)
        callback = ctypes.cast(self._host, ctypes.c_void_p).value
        assert callback
        add_symbol("gradsmith_host", callback)
        prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self.alloc: Any = prototype(addresses["gradsmith_alloc"])


@functools.cache
def runtime() -> Runtime:
    """The runtime of this process, compiled at its first use."""
    return Runtime()


def data_of(header: int) -> int:
    """The address of the memory of a buffer."""
    return ctypes.c_uint64.from_address(header + 8 * DATA).value
