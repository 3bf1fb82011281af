"""The Python entry of a compiled program: a METH_FASTCALL function that reads objects, runs the body and makes objects.

It is bound to a :class:`~gradsmith.backends.native.program.NativeProgram` (its ``self``), which it calls for what is
not the fast path: preparing unusual arrays, raising errors, changing to another version.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gradsmith.backends.native.emit import Emitter, Scope, mem_type, reg_type
from gradsmith.backends.native.lower import Lowering
from gradsmith.ir.program import Input, Output, Value

#: total number of elements of the arguments from which a program without loops releases the GIL
RELEASE_FROM = 20000

DECLARATIONS = """
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyComplex_FromDoubles(double, double)
declare ptr @PyErr_Occurred()
declare ptr @PyTuple_New(i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @gradsmith_py_PyArray_Scalar(ptr, ptr, ptr)
declare ptr @gradsmith_py_PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
"""


def address(obj: Any) -> str:
    """The address of a Python object that lives as long as the process, as LLVM text."""
    return f"inttoptr (i64 {id(obj)} to ptr)"


def body_parameters(lo: Lowering) -> list[tuple[str, str]]:
    """Types and names of the body's parameters for the Program's inputs."""
    out = []
    for k, param in enumerate(lo.program.block.params):
        if param.ndim == 0:
            out.append((reg_type(param.dtype), f"%a{k}"))
            continue
        out.append(("ptr noalias readonly", f"%a{k}"))
        out += [("i64", f"%a{k}.{axis}") for axis, n in enumerate(lo.shapes.of(param)) if not isinstance(n, int)]
    return out


def result_slots(results: list[Value]) -> list[int]:
    """The first 64-bit slot of each result in the body's output (and, last, their number)."""
    out = [0]
    for value in results:
        out.append(out[-1] + (2 if value.ndim == 0 else 2 + value.ndim))
    return out


class Entry:
    """Emits the entry function of one program."""

    def __init__(self, lo: Lowering, name: str, redirect: str):
        self.lo = lo
        self.em = Emitter()
        self.name = name
        self.redirect = redirect
        self.scope = Scope()
        self.elements: str | None = None  # total number of elements of the arguments
        self.exits: list[tuple[str, str]] = []
        self.ctx = "null"
        self.targets = "@no_targets"
        self.slots = result_slots(lo.program.block.results)

    def text(self) -> str:
        em, lo = self.em, self.lo
        params = lo.program.block.params
        em.do("%temps = alloca [" + str(max(1, len(params))) + " x ptr]")
        em.do(f"%out = alloca [{max(2, self.slots[-1])} x i64], align 16")
        em.do("%argv = alloca [" + str(len(params) + 2) + " x ptr]")
        em.do("%overflow = alloca i32")
        for k, param in enumerate(params):
            if param.ndim:
                em.do(f"store ptr null, ptr {em.word('%temps', k)}")
        self._redirect()
        self._targets(len(params), len(lo.program.block.results))
        args = []
        for k, (param, spec) in enumerate(zip(params, lo.program.inputs, strict=True)):
            args += self._unpack(k, param, spec)
        self._run(args)
        self._ends()
        body, _ = em.text(0)
        none = f"@no_targets = internal constant [{len(lo.program.block.results)} x ptr] zeroinitializer\n"
        return (
            f"{none}define ptr @{self.name}(ptr %self, ptr %args, i64 %nargs) optnone noinline {{\nstart:\n{body}\n}}\n"
        )

    def _redirect(self) -> None:
        em = self.em
        other = em.ins(f"load ptr, ptr @{self.redirect}")
        away, here = em.new_label("away"), em.new_label("here")
        em.cond_br(em.ins(f"icmp eq ptr {other}, null"), here, away, likely=True)
        em.place(away)
        em.do(f"ret ptr {em.ins(f'tail call ptr {other}(ptr %self, ptr %args, i64 %nargs)')}")
        em.place(here)

    def _targets(self, params: int, results: int) -> None:
        """After the arguments there may be, for every result, an array to write it to (or another object: none)."""
        em = self.em
        into = em.ins(f"icmp eq i64 %nargs, {params + results}")
        plain = em.ins(f"icmp eq i64 %nargs, {params}")
        self._unless(em.ins(f"or i1 {into}, {plain}"), "reject")
        self.targets = em.ins(f"select i1 {into}, ptr {em.word('%args', params)}, ptr @no_targets")

    def _unless(self, cond: str, label: str) -> None:
        good = self.em.new_label("ok")
        self.em.cond_br(cond, good, label, likely=True)
        self.em.place(good)

    # arguments

    def _unpack(self, k: int, param: Value, spec: Input) -> list[str]:
        em = self.em
        obj = em.ins(f"load ptr, ptr {em.word('%args', k)}")
        if spec.kind == "py":
            return [f"{reg_type(param.dtype)} {self._unpack_python(obj, param.dtype)}"]
        type = em.ins(f"load ptr, ptr {em.word(obj, 1)}")
        if spec.kind == "np":
            self._unless(em.ins(f"icmp eq ptr {type}, {address(param.dtype.type)}"), "reject")
            return [f"{reg_type(param.dtype)} {em.load(param.dtype, em.word(obj, 2), self.scope)}"]
        return self._unpack_array(k, obj, type, param, spec)

    def _unpack_python(self, obj: str, dtype: np.dtype) -> str:
        em = self.em
        if dtype.kind == "b":
            true = em.ins(f"icmp eq ptr {obj}, {address(True)}")
            false = em.ins(f"icmp eq ptr {obj}, {address(False)}")
            self._unless(em.ins(f"or i1 {true}, {false}"), "reject")
            return true
        type = em.ins(f"load ptr, ptr {em.word(obj, 1)}")
        if dtype.kind in "iu":
            return self._unpack_int(obj, type, dtype)
        # exactly: np.float64 is a float too, but it computes and is answered as a NumPy scalar
        self._unless(em.ins(f"icmp eq ptr {type}, {address(float if dtype.kind == 'f' else complex)}"), "reject")
        if dtype.kind == "f":
            return self._narrow(em.ins(f"load double, ptr {em.word(obj, 2)}"), "double", reg_type(dtype))
        value = em.ins(f"load <2 x double>, ptr {em.word(obj, 2)}, align 8")
        return self._narrow(value, "<2 x double>", reg_type(dtype))

    def _narrow(self, value: str, source: str, target: str) -> str:
        return value if source == target else self.em.ins(f"fptrunc {source} {value} to {target}")

    def _unpack_int(self, obj: str, type: str, dtype: np.dtype) -> str:
        em = self.em
        self._unless(em.ins(f"icmp eq ptr {type}, {address(int)}"), "reject")
        value = em.ins(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {obj}, ptr %overflow)")
        over = em.ins("load i32, ptr %overflow")
        self._unless(em.ins(f"icmp eq i32 {over}, 0"), "reject")
        if dtype.itemsize == 8:
            if dtype.kind == "u":
                self._unless(em.ins(f"icmp sge i64 {value}, 0"), "reject")
            return value
        limits = np.iinfo(dtype)
        low, high = em.ins(f"icmp sge i64 {value}, {limits.min}"), em.ins(f"icmp sle i64 {value}, {limits.max}")
        self._unless(em.ins(f"and i1 {low}, {high}"), "reject")
        return em.ins(f"trunc i64 {value} to {reg_type(dtype)}")

    def _unpack_array(self, k: int, obj: str, type: str, param: Value, spec: Input) -> list[str]:
        em = self.em
        look, odd, good = em.new_label("array"), em.new_label("odd"), em.new_label("plain")
        em.cond_br(em.ins(f"icmp eq ptr {type}, {address(np.ndarray)}"), look, "reject", likely=True)
        em.place(look)
        ndim = em.ins(f"load i32, ptr {em.word(obj, 3)}")
        self._unless(em.ins(f"icmp eq i32 {ndim}, {param.ndim}"), "reject")
        descr = em.ins(f"load ptr, ptr {em.word(obj, 7)}")
        flags = em.ins(f"load i32, ptr {em.word(obj, 8)}")
        plain = em.ins(f"icmp eq ptr {descr}, {address(param.dtype)}")
        # C-contiguous and aligned
        laid = em.ins(f"icmp eq i32 {em.ins(f'and i32 {flags}, 257')}, 257")
        before = em.label
        em.cond_br(em.ins(f"and i1 {plain}, {laid}"), good, odd, likely=True)
        em.place(odd)
        made = self._call_self(-1 - k, [obj])
        self._unless(em.ins(f"icmp ne ptr {made}, null"), "failed")
        em.do(f"store ptr {made}, ptr {em.word('%temps', k)}")
        fine = em.new_label("made")
        em.cond_br(em.ins(f"icmp ne ptr {made}, {address(NotImplemented)}"), fine, "reject")
        em.place(fine)
        em.br(good)
        em.place(good)
        array = em.phi("ptr")
        array.add(obj, before)
        array.add(made, fine)
        data = em.ins(f"load ptr, ptr {em.word(array.name, 2)}")
        if not param.ndim:
            return [f"{reg_type(param.dtype)} {em.load(param.dtype, data, self.scope)}"]
        return [f"ptr {data}", *self._lengths(array.name, param, spec)]

    def _lengths(self, array: str, param: Value, spec: Input) -> list[str]:
        em = self.em
        shape = em.ins(f"load ptr, ptr {em.word(array, 4)}")
        out = []
        size = "1"
        for axis, n in enumerate(self.lo.shapes.of(param)):
            length = em.ins(f"load i64, ptr {em.word(shape, axis)}")
            if spec.unit_axes:
                self._unless(em.ins(f"icmp {'eq' if spec.unit_axes[axis] else 'ne'} i64 {length}, 1"), "reject")
            if not isinstance(n, int):
                out.append(f"i64 {length}")
            size = em.ins(f"mul i64 {size}, {length}")
        self.elements = size if self.elements is None else em.ins(f"add i64 {self.elements}, {size}")
        return out

    def _call_self(self, code: int | str, args: list[str]) -> str:
        """Call the bound NativeProgram with a number and objects."""
        em = self.em
        number = em.ins(f"call ptr @PyLong_FromLongLong(i64 {code})")
        for k, arg in enumerate([number, *args]):
            em.do(f"store ptr {arg}, ptr {em.word('%argv', k)}")
        out = em.ins(f"call ptr @PyObject_Vectorcall(ptr %self, ptr %argv, i64 {1 + len(args)}, ptr null)")
        em.do(f"call void @Py_DecRef(ptr {number})")
        return out

    # the call

    def _run(self, args: list[str]) -> None:
        em, lo = self.em, self.lo
        if lo.uses_context:
            self.ctx = em.ins("call ptr @gradsmith_acquire()")
            self._unless(em.ins(f"icmp ne ptr {self.ctx}, null"), "failed")
        state = self._release_gil()
        code = em.ins(f"call i64 @body({', '.join([f'ptr {self.ctx}', *args, 'ptr %out'])})")
        self._restore_gil(state)
        if lo.sites:
            good, bad = em.new_label("good"), em.new_label("bad")
            em.cond_br(em.ins(f"icmp eq i64 {code}, 0"), good, bad, likely=True)
            em.place(bad)
            self._fail(code)
            em.place(good)
        self._box()

    def _release_gil(self) -> str | None:
        em = self.em
        if self.lo.has_loops:
            return em.ins("call ptr @PyEval_SaveThread()")
        if self.elements is None:
            return None
        large = em.ins(f"icmp ugt i64 {self.elements}, {RELEASE_FROM}")
        save, go, before = em.new_label("save"), em.new_label("go"), em.label
        em.cond_br(large, save, go)
        em.place(save)
        state = em.ins("call ptr @PyEval_SaveThread()")
        em.br(go)
        em.place(go)
        phi = em.phi("ptr")
        phi.add("null", before)
        phi.add(state, save)
        return phi.name

    def _restore_gil(self, state: str | None) -> None:
        em = self.em
        if state is None:
            return
        if self.lo.has_loops:
            em.do(f"call void @PyEval_RestoreThread(ptr {state})")
            return
        restore, done = em.new_label("restore"), em.new_label("restored")
        em.cond_br(em.ins(f"icmp eq ptr {state}, null"), done, restore)
        em.place(restore)
        em.do(f"call void @PyEval_RestoreThread(ptr {state})")
        em.br(done)
        em.place(done)

    def _fail(self, code: str) -> None:
        """Let the NativeProgram decide what an early end means; it sees the arguments again."""
        em = self.em
        raised = em.ins("call ptr @PyErr_Occurred()")
        ask, interrupted = em.new_label("ask"), em.new_label("interrupted")
        em.cond_br(em.ins(f"icmp eq ptr {raised}, null"), ask, interrupted, likely=True)
        em.place(interrupted)  # a signal handler raised
        self._abandon()
        self._leave("null")
        em.place(ask)
        context = em.ins(f"call ptr @PyLong_FromLongLong(i64 {em.ins(f'ptrtoint ptr {self.ctx} to i64')})")
        originals = [em.ins(f"load ptr, ptr {em.word('%args', k)}") for k in range(len(self.lo.program.block.params))]
        answer = self._call_self(code, [context, *originals])
        em.do(f"call void @Py_DecRef(ptr {context})")
        self._abandon()
        self._leave(answer)

    def _abandon(self) -> None:
        """Give back the context of a call that failed."""
        if self.lo.uses_context:
            self.em.do(f"call void @gradsmith_abort(ptr {self.ctx})")
            self.em.do(f"call void @gradsmith_finish(ptr {self.ctx})")

    def _leave(self, result: str) -> None:
        self.exits.append((result, self.em.label))
        self.em.br("leave")

    # results

    def _box(self) -> None:
        em, lo = self.em, self.lo
        results, outputs = lo.program.block.results, lo.program.outputs
        objects: list[str] = []
        tuple_: str | None = None
        if len(results) != 1:
            tuple_ = em.ins(f"call ptr @PyTuple_New(i64 {len(results)})")
            self._check_box(tuple_, None)
        for k, (value, spec) in enumerate(zip(results, outputs, strict=True)):
            made = self._box_array(k, value) if value.ndim else self._box_scalar(k, value.dtype, spec)
            self._check_box(made, tuple_)
            objects.append(made)
            if tuple_ is not None:
                em.do(f"store ptr {made}, ptr {em.word(tuple_, 3 + k)}")
        if lo.uses_context:
            em.do(f"call void @gradsmith_finish(ptr {self.ctx})")
        self._leave(tuple_ or objects[0])

    def _check_box(self, made: str, container: str | None) -> None:
        """After a failed allocation of a result: drop what was made."""
        em = self.em
        good, bad = em.new_label("boxed"), em.new_label("unboxed")
        em.cond_br(em.ins(f"icmp ne ptr {made}, null"), good, bad, likely=True)
        em.place(bad)
        if container is not None:
            em.do(f"call void @Py_DecRef(ptr {container})")
        self._abandon()
        self._leave("null")
        em.place(good)

    def _box_array(self, k: int, value: Value) -> str:
        em = self.em
        first = self.slots[k]
        owner = em.ins(f"load ptr, ptr {em.word('%out', first)}")
        ptr = em.ins(f"load ptr, ptr {em.word('%out', first + 1)}")
        dims = em.word("%out", first + 2)
        size = str(value.dtype.itemsize)
        for axis in range(value.ndim):
            size = em.ins(f"mul i64 {size}, {em.ins(f'load i64, ptr {em.word(dims, axis)}')}")
        args = (
            f"ptr {self.ctx}, ptr {owner}, ptr {ptr}, i32 {value.ndim}, ptr {dims}, i32 {value.dtype.num}, i64 {size}"
        )
        target = em.ins(f"load ptr, ptr {em.word(self.targets, k)}")
        return em.ins(f"call ptr @gradsmith_box_into({args}, ptr {target}, ptr {address(value.dtype)})")

    def _box_scalar(self, k: int, dtype: np.dtype, spec: Output) -> str:
        em = self.em
        place = em.word("%out", self.slots[k])
        if spec.kind == "np":
            return em.ins(
                f"call ptr @gradsmith_py_PyArray_Scalar(ptr {place}, ptr {address(np.dtype(dtype))}, ptr null)"
            )
        if spec.kind == "array":
            return self._box_zero_dim(place, dtype)
        value = em.load(dtype, place, self.scope)
        if dtype.kind == "f":
            wide = value if dtype.itemsize == 8 else em.ins(f"fpext {reg_type(dtype)} {value} to double")
            return em.ins(f"call ptr @PyFloat_FromDouble(double {wide})")
        if dtype.kind == "c":
            wide = value if dtype.itemsize == 16 else em.ins(f"fpext <2 x float> {value} to <2 x double>")
            re, im = (em.ins(f"extractelement <2 x double> {wide}, i32 {part}") for part in (0, 1))
            return em.ins(f"call ptr @PyComplex_FromDoubles(double {re}, double {im})")
        if dtype.kind == "b":
            out = em.ins(f"select i1 {value}, ptr {address(True)}, ptr {address(False)}")
            em.do(f"call void @Py_IncRef(ptr {out})")
            return out
        signed = dtype.kind == "i"
        if dtype.itemsize < 8:
            value = em.ins(f"{'sext' if signed else 'zext'} {reg_type(dtype)} {value} to i64")
        return em.ins(f"call ptr @PyLong_From{'' if signed else 'Unsigned'}LongLong(i64 {value})")

    def _box_zero_dim(self, place: str, dtype: np.dtype) -> str:
        em = self.em
        new = f"ptr {address(np.ndarray)}, i32 0, ptr null, i32 {dtype.num}, ptr null, ptr null, i32 0, i32 0, ptr null"
        out = em.ins(f"call ptr @gradsmith_py_PyArray_New({new})")
        fill, done = em.new_label("fill"), em.new_label("filled")
        em.cond_br(em.ins(f"icmp ne ptr {out}, null"), fill, done, likely=True)
        em.place(fill)
        data = em.ins(f"load ptr, ptr {em.word(out, 2)}")
        type = mem_type(dtype)
        em.do(f"store {type} {em.ins(f'load {type}, ptr {place}, align 1')}, ptr {data}, align 1")
        em.br(done)
        em.place(done)
        return out

    def _ends(self) -> None:
        """The common end: drop prepared copies of arguments."""
        em = self.em
        em.place("reject")
        em.do(f"call void @Py_IncRef(ptr {address(NotImplemented)})")
        self._leave(address(NotImplemented))
        em.place("failed")
        self._leave("null")
        em.place("leave")
        result = em.phi("ptr")
        for value, label in self.exits:
            result.add(value, label)
        for k, param in enumerate(self.lo.program.block.params):
            if param.ndim:
                temp = em.ins(f"load ptr, ptr {em.word('%temps', k)}")
                em.do(f"call void @Py_DecRef(ptr {temp})")
        em.do(f"ret ptr {result.name}")


class MethodDefinition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("meth", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


def bind(definition: MethodDefinition, bound: Any) -> Any:
    """A builtin function with ``bound`` as its self; ``definition`` must live as long as it."""
    new = ctypes.pythonapi.PyCMethod_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.POINTER(MethodDefinition), ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p]
    return new(ctypes.byref(definition), bound, None, None)
