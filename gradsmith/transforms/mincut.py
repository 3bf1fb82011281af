"""The cheapest set of values to save so that all needed ones can be recomputed: a minimum vertex cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node")
LARGE = 3000


def minimum_cut(
    needed: Iterable[Node],
    operands: Callable[[Node], Sequence[Node] | None],
    weight: Callable[[Node], int],
) -> set[Node]:
    """Which values to save.

    ``operands`` gives what a value is recomputed from, ``None`` if it can only be saved. Of cuts of equal weight the
    one nearest to the needed values is taken: it leaves the least to recompute.
    """
    needed = list(dict.fromkeys(needed))
    saved = {v for v in needed if operands(v) is None}
    edges = _graph([v for v in needed if v not in saved], operands, saved)
    sources = [v for v in edges if operands(v) is None]
    if not sources:
        return saved
    if len(edges) > LARGE:
        return saved | set(sources)
    return saved | _cut(edges, sources, [v for v in needed if v not in saved], weight)


def _graph(
    needed: Sequence[Node], operands: Callable[[Node], Sequence[Node] | None], saved: set[Node]
) -> dict[Node, list[Node]]:
    """For every value that takes part the values it is recomputed from, without those that are saved anyway."""
    edges: dict[Node, list[Node]] = {}
    pending = list(needed)
    while pending:
        v = pending.pop()
        if v not in edges:
            edges[v] = [a for a in operands(v) or () if a not in saved]
            pending += edges[v]
    return edges


def _cut(
    edges: Mapping[Node, Sequence[Node]], sources: Sequence[Node], needed: Sequence[Node], weight: Callable[[Node], int]
) -> set[Node]:
    # every value is split into (v, 0) -> (v, 1) with its weight as the capacity
    infinite = 1 + sum(map(weight, edges))
    capacity: dict[object, dict[object, int]] = {"source": {}, "sink": {}}
    for v in edges:
        capacity[v, 0] = {(v, 1): weight(v)}
        capacity[v, 1] = {(v, 0): 0}
    arcs: list[tuple[object, object]] = [("source", (v, 0)) for v in sources]
    arcs += [((v, 1), "sink") for v in needed] + [((a, 1), (v, 0)) for v, args in edges.items() for a in args]
    for tail, head in arcs:
        capacity[tail][head] = infinite
        capacity[head].setdefault(tail, 0)
    while (came_from := _path(capacity, "source", "sink")) is not None:
        path, node = [], "sink"  # type: tuple[list[tuple[object, object]], object]
        while node != "source":
            path.append((came_from[node], node))
            node = came_from[node]
        flow = min(capacity[tail][head] for tail, head in path)
        for tail, head in path:
            capacity[tail][head] -= flow
            capacity[head][tail] += flow
    reaches = _reaching(capacity, "sink")
    return {v for v in edges if (v, 1) in reaches and (v, 0) not in reaches}


def _path(capacity: Mapping[object, Mapping[object, int]], start: object, goal: object) -> dict[object, object] | None:
    """A shortest path with capacity left, as predecessors."""
    came_from: dict[object, object] = {start: start}
    pending = deque([start])
    while pending:
        node = pending.popleft()
        for head, left in capacity[node].items():
            if left > 0 and head not in came_from:
                came_from[head] = node
                if head == goal:
                    return came_from
                pending.append(head)
    return None


def _reaching(capacity: Mapping[object, Mapping[object, int]], goal: object) -> set[object]:
    """The nodes from which ``goal`` can still be reached."""
    found = {goal}
    pending = [goal]
    while pending:
        node = pending.pop()
        for tail in capacity[node]:
            if tail not in found and capacity[tail].get(node, 0) > 0:
                found.add(tail)
                pending.append(tail)
    return found
