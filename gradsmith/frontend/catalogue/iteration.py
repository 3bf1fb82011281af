"""``itertools`` and ``functools``: generators in plain Python, staged in place of the compiled ones."""

from __future__ import annotations

import functools
import itertools
import operator
from typing import Any

from gradsmith.frontend.catalogue import defines, implements


@defines(itertools.accumulate)
def accumulate(iterable: Any, func: Any = operator.add, *, initial: Any = None) -> Any:
    total = initial
    first = initial is None
    if not first:
        yield total
    for x in iterable:
        total = x if first else func(total, x)
        first = False
        yield total


@defines(itertools.chain)
def chain(*iterables: Any) -> Any:
    for xs in iterables:
        yield from xs


@defines(itertools.chain.from_iterable)
def chain_from_iterable(iterables: Any) -> Any:
    for xs in iterables:
        yield from xs


@defines(itertools.islice)
def islice(iterable: Any, *bounds: Any) -> Any:
    part = slice(*bounds)
    start = 0 if part.start is None else part.start
    step = 1 if part.step is None else part.step
    stop = part.stop
    if stop is not None and stop <= start:
        return
    k = 0
    for x in iterable:
        if k >= start and (k - start) % step == 0:
            yield x
        k = k + 1
        if stop is not None and k >= stop:
            return


@defines(itertools.pairwise)
def pairwise(iterable: Any) -> Any:
    before = None
    first = True
    for x in iterable:
        if not first:
            yield before, x
        before = x
        first = False


@defines(itertools.takewhile)
def takewhile(predicate: Any, iterable: Any) -> Any:
    for x in iterable:
        if not predicate(x):
            return
        yield x


@defines(itertools.dropwhile)
def dropwhile(predicate: Any, iterable: Any) -> Any:
    dropping = True
    for x in iterable:
        if dropping and predicate(x):
            continue
        dropping = False
        yield x


@defines(itertools.filterfalse)
def filterfalse(predicate: Any, iterable: Any) -> Any:
    for x in iterable:
        if not (x if predicate is None else predicate(x)):
            yield x


@defines(itertools.starmap)
def starmap(function: Any, iterable: Any) -> Any:
    for args in iterable:
        yield function(*args)


@defines(itertools.compress)
def compress(data: Any, selectors: Any) -> Any:
    for x, chosen in zip(data, selectors):  # noqa: B905
        if chosen:
            yield x


@defines(itertools.cycle)
def cycle(iterable: Any) -> Any:
    items = []
    for x in iterable:
        items.append(x)
        yield x
    while len(items) > 0:
        for x in items:
            yield x


@defines(itertools.repeat)
def repeat(object: Any, times: Any = None) -> Any:
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


@defines(itertools.groupby)
def groupby(iterable: Any, key: Any = None) -> Any:
    group: list[Any] = []
    current = None
    for x in iterable:
        k = x if key is None else key(x)
        if len(group) > 0 and k != current:
            yield current, group
            group = []
        current = k
        group.append(x)
    if len(group) > 0:
        yield current, group


@defines(itertools.zip_longest)
def zip_longest(*iterables: Any, fillvalue: Any = None) -> Any:
    columns = [list(xs) for xs in iterables]
    for k in range(max(map(len, columns), default=0)):
        yield tuple(column[k] if k < len(column) else fillvalue for column in columns)


@defines(functools.reduce)
def reduce(function: Any, iterable: Any, *initial: Any) -> Any:
    items = iter(iterable)
    if initial:
        total = initial[0]
    else:
        try:
            total = next(items)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    for x in items:
        total = function(total, x)
    return total


def _combine(function: Any) -> None:
    """Combinations of concrete positions: the items may be anything."""

    @implements(function)
    def combine(*iterables: Any, **options: Any) -> Any:
        from gradsmith.frontend import objects
        from gradsmith.frontend.iterables import Once
        from gradsmith.frontend.stage import current

        stage = current()
        if function is itertools.product:
            args: list[Any] = [objects.iterate(stage, xs) for xs in iterables]
        else:
            args = [objects.iterate(stage, iterables[0]), *map(stage.concrete, iterables[1:])]
        options = {name: stage.concrete(value) for name, value in options.items()}
        return Once(lambda: stage.heap.born(list(function(*args, **options))))


for _function in (
    itertools.product,
    itertools.permutations,
    itertools.combinations,
    itertools.combinations_with_replacement,
):
    _combine(_function)
