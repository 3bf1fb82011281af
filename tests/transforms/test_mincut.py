"""The minimum cut that decides what is saved."""

from __future__ import annotations

from gradsmith.transforms.mincut import minimum_cut


def cut(needed, operands, weight=None):
    return minimum_cut(needed, lambda v: operands.get(v, ()), lambda v: (weight or {}).get(v, 1))


def test_a_needed_source_is_saved():
    assert cut(["x", "y"], {"x": None, "y": ["x"]}) == {"x"}


def test_what_is_available_needs_nothing():
    assert cut(["y"], {"y": ["z"], "z": []}) == set()


def test_one_result_instead_of_many_operands():
    assert cut(["s"], {"s": ["a", "b"], "a": None, "b": None}) == {"s"}


def test_a_light_value_instead_of_a_heavy_one():
    graph = {"row": None, "element": ["row"], "result": ["element", "other"], "other": None}
    assert cut(["result", "other"], graph, {"row": 1000, "element": 8, "result": 8, "other": 8}) == {"other", "result"}


def test_of_equal_cuts_the_one_that_recomputes_least():
    assert cut(["c"], {"a": None, "b": ["a"], "c": ["b"]}) == {"c"}


def test_a_bottleneck():
    graph = {"a": None, "b": None, "m": ["a", "b"], "p": ["m"], "q": ["m"], "r": ["m"]}
    assert cut(["p", "q", "r"], graph) == {"m"}
