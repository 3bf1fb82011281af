"""Growable sequences: a buffer of records, its length in the header.

A record is the element itself for scalars; for arrays it is (owner, pointer, lengths…); for sequences the inner header.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradsmith.backends.native import runtime
from gradsmith.backends.native.emit import CountedLoop, Ix, Scope, literal, mem_type
from gradsmith.backends.native.lower import Array, Lowered, Lowering, Root, Sequence_, SequenceRoot, Unsupported
from gradsmith.ir.program import Op, Value
from gradsmith.ir.types import ArrayType, SeqType, Type


def record_size(elem: Type) -> int:
    """Bytes of a record."""
    if isinstance(elem, SeqType):
        return 8
    return elem.dtype.itemsize if elem.ndim == 0 else 8 * (2 + elem.ndim)


def _root(lo: Lowering, header: str, elem: Type, scope: Scope | None = None) -> SequenceRoot:
    return SequenceRoot(header, True, scope or Scope(), None, lambda lo, root: free(lo, root.owner or "null", elem))


def free(lo: Lowering, header: str, elem: Type) -> None:
    """Give up a sequence and the references its elements hold."""
    if isinstance(elem, SeqType) or elem.ndim:
        _each(lo, header, elem, lambda record: _drop_element(lo, record, elem))
    lo.em.do(f"call void @gradsmith_release(ptr %ctx, ptr {header})")


def _drop_element(lo: Lowering, record: str, elem: Type) -> None:
    owner = lo.em.ins(f"load ptr, ptr {record}")
    if isinstance(elem, SeqType):
        free(lo, owner, elem.elem)
    else:
        lo.em.do(f"call void @gradsmith_release(ptr %ctx, ptr {owner})")


def _each(lo: Lowering, header: str, elem: Type, body: Callable[[str], None]) -> None:
    """Emit a loop over the records of a sequence."""
    em = lo.em
    data = _data(lo, header)
    with em.loop("each", _length(lo, header)) as loop:
        body(em.gep("i8", data, em.mul(loop.index, record_size(elem))))


def _data(lo: Lowering, header: str) -> str:
    return lo.em.ins(f"load ptr, ptr {lo.em.word(header, runtime.DATA)}")


def _length(lo: Lowering, header: str) -> str:
    return lo.em.ins(f"load i64, ptr {lo.em.word(header, runtime.LENGTH)}")


def _sequence(lo: Lowering, value: Value) -> tuple[str, Sequence_]:
    out = lo.env[value]
    assert isinstance(out, Sequence_) and out.root.owner is not None
    return out.root.owner, out


def _consume(lo: Lowering, value: Value) -> Sequence_:
    """A sequence whose reference passes to the result of the operation that changes it."""
    _, out = _sequence(lo, value)
    if out.root.holder is None:
        raise Unsupported("an inner sequence that changes in place")
    assert isinstance(out.root, SequenceRoot)
    del lo.owned[out.root.holder]
    return Sequence_(out.elem, SequenceRoot(out.root.owner, True, out.root.scope, None, out.root.free))


def _new(lo: Lowering, op: Op) -> bool:
    elem = op.attrs["elem"]
    header = lo.buffer(16 * record_size(elem))
    lo.define(op.result, Sequence_(elem, _root(lo, header, elem)))
    return True


def _record(lo: Lowering, header: str, index: Ix, elem: Type) -> str:
    return lo.em.gep("i8", _data(lo, header), lo.em.mul(index, record_size(elem)))


def _store(lo: Lowering, record: str, elem: Type, value: Lowered, scope: Scope) -> None:
    em = lo.em
    if isinstance(value, str):
        assert isinstance(elem, ArrayType)
        em.store(elem.dtype, value, record, scope)
        return
    em.do(f"store ptr {value.root.owner or 'null'}, ptr {record}")
    if isinstance(value, Array):
        em.do(f"store ptr {value.ptr}, ptr {em.word(record, 1)}")
        for k, n in enumerate(value.dims):
            em.do(f"store i64 {n}, ptr {em.word(record, 2 + k)}")


def _read(lo: Lowering, record: str, elem: Type, scope: Scope, dims: Sequence[Ix] | None = None) -> Lowered:
    """The element in a record; the reference stays with the record."""
    em = lo.em
    if isinstance(elem, SeqType):
        return Sequence_(elem.elem, _root(lo, em.ins(f"load ptr, ptr {record}"), elem.elem))
    if elem.ndim == 0:
        return em.load(elem.dtype, record, scope)
    owner, ptr = em.ins(f"load ptr, ptr {record}"), em.ins(f"load ptr, ptr {em.word(record, 1)}")
    found: list[Ix] = [em.ins(f"load i64, ptr {em.word(record, 2 + k)}") for k in range(elem.ndim)]
    return Array(elem.dtype, ptr, found, None, Root(owner, False, lo.element_scope))


def _define_element(lo: Lowering, result: Value, element: Lowered) -> None:
    if isinstance(element, Array):
        for dim, n in zip(lo.shapes.of(result), element.dims, strict=True):
            lo.set_length(dim, n)
        element.dims = lo.dims(result)
    lo.define(result, element)


def _push(lo: Lowering, op: Op) -> bool:
    em = lo.em
    (value,) = lo.claims([op.args[1]], [False])
    sequence = _consume(lo, op.args[0])
    header = sequence.root.owner
    assert header is not None
    if not isinstance(value, str):
        lo.element_scope.join(value.root.scope)
    length = _length(lo, header)
    size = record_size(sequence.elem)
    size_class = em.ins(f"load i64, ptr {em.word(header, 1)}")
    capacity = _capacity(lo, size_class)
    needed = em.mul(em.add(length, 1), size)
    full, ready = em.new_label("full"), em.new_label("push")
    em.cond_br(em.ins(f"icmp ule i64 {needed}, {capacity}"), ready, full, likely=True)
    em.place(full)
    failed = em.ins(f"call i64 @gradsmith_grow(ptr %ctx, ptr {header})")
    lo.require(em.ins(f"icmp eq i64 {failed}, 0"), "memory")
    em.br(ready)
    em.place(ready)
    _store(lo, _record(lo, header, length, sequence.elem), sequence.elem, value, sequence.root.scope)
    em.do(f"store i64 {em.add(length, 1)}, ptr {em.word(header, runtime.LENGTH)}")
    lo.define(op.result, sequence)
    return True


def _capacity(lo: Lowering, size_class: str) -> str:
    """Bytes of a size class: (5 + class % 4) << (class / 4 - 2)"""
    em = lo.em
    shift = em.ins(f"sub i64 {em.ins(f'lshr i64 {size_class}, 2')}, 2")
    low = em.ins(f"and i64 {size_class}, 3")
    return em.ins(f"shl i64 {em.ins(f'add i64 {low}, 5')}, {shift}")


def _pop(lo: Lowering, op: Op) -> bool:
    em = lo.em
    sequence = _consume(lo, op.args[0])
    header = sequence.root.owner
    assert header is not None
    length = _length(lo, header)
    lo.require(em.ins(f"icmp ne i64 {length}, 0"), "deopt")
    shorter = em.sub(length, 1)
    em.do(f"store i64 {shorter}, ptr {em.word(header, runtime.LENGTH)}")
    element = _read(lo, _record(lo, header, shorter, sequence.elem), sequence.elem, sequence.root.scope)
    lo.define(op.results[0], sequence)
    _define_element(lo, op.results[1], element)
    return True


def _get(lo: Lowering, op: Op) -> bool:
    header, sequence = _sequence(lo, op.args[0])
    i, length = lo.number_of(op.args[1]), _length(lo, header)
    # negative and too large indices are Python's affair
    lo.require(lo.em.ins(f"icmp ult i64 {i}, {length}"), "deopt")
    element = _read(lo, _record(lo, header, i, sequence.elem), sequence.elem, sequence.root.scope)
    if isinstance(element, Sequence_):
        lo.env[op.result] = element  # read only: the reference stays with the outer sequence
        return True
    if isinstance(element, Array):
        lo.retain(element.root)
    _define_element(lo, op.result, element)
    return True


def _len(lo: Lowering, op: Op) -> bool:
    lo.env[op.result] = _length(lo, _sequence(lo, op.args[0])[0])
    return True


def _add(lo: Lowering, op: Op) -> bool:
    em = lo.em
    header, sequence = _sequence(lo, op.args[0])
    elem, i = sequence.elem, lo.number_of(op.args[1])
    if isinstance(elem, SeqType):
        raise Unsupported("adding to an inner sequence")
    lo.require(em.ins(f"icmp ult i64 {i}, {_length(lo, header)}"), "deopt")
    record = _record(lo, header, i, elem)
    old = _read(lo, record, elem, sequence.root.scope)
    if isinstance(old, str):
        total = lo.scalars.apply("add", elem.dtype, [old, lo.scalar(op.args[2])])
        em.store(elem.dtype, total, record, sequence.root.scope)
    else:
        assert isinstance(old, Array)
        given = lo.array(op.args[2])
        for m, n in zip(old.dims, given.dims, strict=True):
            lo.require_equal(m, n)
        target = lo.made_unique(old)
        lo.element_scope.join(target.root.scope)
        _add_elements(lo, target, given)
        _store(lo, record, elem, target, sequence.root.scope)
    lo.define(op.result, _consume(lo, op.args[0]))
    return True


def _add_elements(lo: Lowering, target: Array, given: Array) -> None:
    em, type = lo.em, mem_type(target.dtype)
    loops: list[CountedLoop] = []
    a, b = target.ptr, given.ptr
    for n, s, t in zip(target.dims, lo.strides_of(target), lo.strides_of(given), strict=True):
        loop = em.loop("add", n)
        loop.__enter__()
        loops.append(loop)
        a = em.gep(type, a, em.mul(loop.index, s))
        b = b if given.splat is not None else em.gep(type, b, em.mul(loop.index, t))
    old = em.load(target.dtype, a, target.root.scope)
    more = given.splat or em.load(given.dtype, b, given.root.scope)
    em.store(target.dtype, lo.scalars.apply("add", target.dtype, [old, more]), a, target.root.scope)
    for loop in reversed(loops):
        loop.__exit__()


def _stack(lo: Lowering, op: Op) -> bool:
    em = lo.em
    header, sequence = _sequence(lo, op.args[0])
    elem = sequence.elem
    assert isinstance(elem, ArrayType)
    length = _length(lo, header)
    shapes = lo.shapes.of(op.result)
    lo.set_length(shapes[0], length)
    if elem.ndim:
        lo.require(em.ins(f"icmp ne i64 {length}, 0"), "deopt")
        first = _read(lo, _data(lo, header), elem, sequence.root.scope)
        assert isinstance(first, Array)
        for dim, n in zip(shapes[1:], first.dims, strict=True):
            lo.set_length(dim, n)
    out = lo.alloc(elem.dtype, lo.dims(op.result))
    if elem.ndim == 0:
        size = em.mul(length, elem.dtype.itemsize)
        em.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {out.ptr}, ptr {_data(lo, header)}, i64 {size}, i1 false)")
    else:
        count = em.product(out.dims[1:])
        data = _data(lo, header)
        with em.loop("stack", length) as loop:
            record = em.gep("i8", data, em.mul(loop.index, record_size(elem)))
            element = _read(lo, record, elem, sequence.root.scope)
            assert isinstance(element, Array)
            for m, n in zip(element.dims, out.dims[1:], strict=True):
                lo.require(em.ins(f"icmp eq i64 {m}, {n}"), "deopt")
            place = em.gep(mem_type(elem.dtype), out.ptr, em.mul(loop.index, count))
            lo.copy_elements(element, Array(elem.dtype, place, element.dims, None, out.root))
    lo.define(op.result, out)
    return True


def _with_room(lo: Lowering, elem: Type, length: Ix) -> Sequence_:
    """A sequence of ``length`` records that are still to be written."""
    header = lo.buffer(lo.em.mul(lo.em.max(length, 16), record_size(elem)))
    lo.em.do(f"store i64 {length}, ptr {lo.em.word(header, runtime.LENGTH)}")
    return Sequence_(elem, _root(lo, header, elem))


def _unstack(lo: Lowering, op: Op) -> bool:
    em = lo.em
    x = op.args[0]
    assert isinstance(op.result.type, SeqType)
    elem = op.result.type.elem
    assert isinstance(elem, ArrayType)
    a = lo.memory(x)
    flat = lo.contiguous(a)
    out = _with_room(lo, elem, a.dims[0])
    header = out.root.owner or "null"
    if elem.ndim == 0:
        size = em.mul(a.dims[0], elem.dtype.itemsize)
        em.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {_data(lo, header)}, ptr {flat.ptr}, i64 {size}, i1 false)")
    else:
        count = em.product(a.dims[1:])
        lo.element_scope.join(flat.root.scope)
        flat.root.unique = False
        with em.loop("unstack", a.dims[0]) as loop:
            place = em.gep(mem_type(elem.dtype), flat.ptr, em.mul(loop.index, count))
            lo.retain(flat.root)
            row = Array(elem.dtype, place, a.dims[1:], None, flat.root)
            _store(lo, _record(lo, header, loop.index, elem), elem, row, out.root.scope)
    if flat is not a:
        lo.release(flat.root)
    lo.define(op.result, out)
    return True


def _zeros(lo: Lowering, op: Op) -> bool:
    em = lo.em
    header, sequence = _sequence(lo, op.args[0])
    elem = sequence.elem
    if isinstance(elem, SeqType):
        raise Unsupported("zeros of a sequence of sequences")
    length = _length(lo, header)
    out = _with_room(lo, elem, length)
    data, new = _data(lo, header), _data(lo, out.root.owner or "null")
    zero = literal(elem.dtype.type(0), elem.dtype)
    with em.loop("zeros", length) as loop:
        place = em.gep("i8", new, em.mul(loop.index, record_size(elem)))
        if elem.ndim == 0:
            em.store(elem.dtype, zero, place, out.root.scope)
        else:
            like = _read(lo, em.gep("i8", data, em.mul(loop.index, record_size(elem))), elem, sequence.root.scope)
            assert isinstance(like, Array)
            blank = lo.filled(Array(elem.dtype, "null", like.dims, None, like.root, zero))
            lo.element_scope.join(blank.root.scope)
            _store(lo, place, elem, blank, out.root.scope)
    lo.define(op.result, out)
    return True


HANDLERS: dict[str, Callable[[Lowering, Op], bool]] = {
    **{"seq_new": _new, "seq_push": _push, "seq_pop": _pop, "seq_get": _get, "seq_len": _len, "seq_add": _add},
    **{"seq_stack": _stack, "seq_unstack": _unstack, "seq_zeros": _zeros},
}
