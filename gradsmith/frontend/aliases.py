"""Which names refer to one array, list or dict.

Where paths meet (after a branch, at the head of a loop), a name that two paths bind to different arrays is bound to a new
one. That is right as long as nobody else refers to either of the two: else a write through one name would not be seen
through the other, and it is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradsmith.frontend.frames import Frame, StagedFunction
from gradsmith.frontend.heap import Slot
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Cell, Maybe, arrays_in

JUMP, RETURN = "%jump", "%return"
FALL, BREAK, CONTINUE, RETURNED = 0, 1, 2, 3
AMBIGUOUS = (
    "writing into an array that may be one of two arrays, depending on a run-time condition or the loop iteration; make the "
    "names refer to different arrays with .copy(), or write before they meet"
)


def containers_in(x: Any) -> Iterator[Any]:
    """The lists and dicts in ``x``."""
    if isinstance(x, Maybe):
        yield from containers_in(x.value)
    if isinstance(x, list | dict):
        yield x
    if isinstance(x, list | tuple | dict):
        for y in x.values() if isinstance(x, dict) else x:
            yield from containers_in(y)


def parts_ways(stage: Stage, a: Any, b: Any, birth: int, contents: bool = False) -> bool:
    """Whether joining two objects would copy a list or dict from before ``birth``, which other names may refer to."""
    if a is b:
        return False
    pair = [x.value if isinstance(x, Maybe) else x for x in (a, b)]
    if not contents and any(isinstance(x, list | dict) and stage.heap.birth(x) < birth for x in pair):
        return True
    if len({type(x) for x in pair}) > 1 or not isinstance(pair[0], list | tuple | dict) or len(pair[0]) != len(pair[1]):
        return any(stage.heap.birth(c) < birth for x in pair for c in containers_in(x) if not (contents and c is x))
    items = [list(x.values()) if isinstance(x, dict) else x for x in pair]
    return any(parts_ways(stage, x, y, birth) for x, y in zip(*items, strict=True))


def snapshot(x: Any) -> Any:
    """``x`` with copies of the lists and dicts in it, which may be changed."""
    if type(x) in (list, tuple):
        return type(x)(map(snapshot, x))
    return {k: snapshot(v) for k, v in x.items()} if type(x) is dict else x


def variables(stage: Stage, wanted: Callable[[Slot], bool]) -> list[Any]:
    """What the variables of the running calls (and of calls that closures still know) hold, if they may be read later."""
    frames: dict[int, Frame] = {}
    pending = list(stage.frames)
    while pending:
        frame = pending.pop()
        if frame is None or id(frame) in frames:
            continue
        frames[id(frame)] = frame
        pending.append(frame.parent)
        pending += [f.frame for v in frame.vars.values() for f in _functions_in(v)]
    values: list[Any] = []
    for frame in frames.values():
        jump = frame.vars.get(JUMP)
        if type(jump) is int and jump == RETURNED:
            values.append(frame.vars.get(RETURN))
        else:
            values += [v for name, v in frame.vars.items() if wanted(Slot("key", frame.vars, name))]
    return values


def _functions_in(x: Any) -> Iterable[StagedFunction]:
    if isinstance(x, StagedFunction):
        yield x
    elif isinstance(x, list | tuple):
        for y in x:
            yield from _functions_in(y)
    elif isinstance(x, dict):
        for y in x.values():
            yield from _functions_in(y)


class References:
    """How many variables refer to every array and container at one place, as does ``more``."""

    def __init__(self, stage: Stage, wanted: Callable[[Slot], bool], more: Any = None):
        values = [*variables(stage, wanted), more]
        self.cells = Counter(a.cell for v in values for a in arrays_in(v))
        self.containers = Counter(id(c) for v in values for c in containers_in(v))

    def several(self, cell: Cell) -> bool:
        """Whether more than one name may refer to the cell."""
        return cell.shared or self.cells[cell] > 1
