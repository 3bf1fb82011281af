"""What a function reads from outside may change between two calls: the next call sees it, on both engines."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

SOURCE = """
import functools
import numpy as np

G, K, FLAG, NAME = 2.0, 3, True, "a"
ARRAY, ITEMS, CONFIG, MEMBERS = np.arange(3.0), [1.0, 2.0], {"mode": "a", "w": 1.5}, {1, 2}


def helper(x):
    return x * 2.0


class Base:
    def shift(self, x):
        return x + 1.0


class Model(Base):
    rate = 2.0
    table = np.ones(3)

    def __init__(self):
        self.w = 2.0

    def act(self, x):
        return np.tanh(x)

    def shift(self, x):
        return super().shift(x) * 2.0

    @property
    def scale(self):
        return 3.0

    @staticmethod
    def fixed(x):
        return x * 2

    @classmethod
    def of_class(cls, x):
        return x * cls.rate

    def __call__(self, x):
        return self.w * x

    def __getitem__(self, k):
        return self.w + k


class Space:
    pass


MODEL, SPACE = Model(), Space()
SPACE.a, SPACE.k, SPACE.inner = 1.0, 2, Space()
SPACE.inner.z = 4.0


def reads_number(x): return x * G
def reads_int(x): return x**K
def reads_array(x): return np.sum(ARRAY) * x + ARRAY[-1] * len(ARRAY) + (ARRAY.dtype.kind == "f")
def reads_dict(x): return x * CONFIG["w"] * len(CONFIG) if CONFIG["mode"] == "a" else x * x
def reads_list(x): return sum(ITEMS) * x * len(ITEMS)
def reads_set(x): return x * len(MEMBERS)
def reads_flags(x): return (x if FLAG else x * x) if NAME == "a" else x**3
def calls_function(x): return helper(x)
def calls_method(x): return MODEL.act(x) * MODEL.scale
def calls_base_method(x): return MODEL.shift(x)
def calls_special_methods(x): return MODEL(x) * MODEL[1]
def calls_class_functions(x): return MODEL.fixed(x) + MODEL.of_class(x)
def makes_an_object(x): return Model().w * x
def reads_class_attribute(x): return MODEL.rate * x + Model.rate
def reads_class_array(x): return np.sum(MODEL.table * x)
def reads_attributes(x): return x * SPACE.a**SPACE.k + SPACE.inner.z * x
def asks_for_attribute(x): return x * (3.0 if hasattr(SPACE, "extra") else 1.0)
def asks_with_default(x): return x * getattr(SPACE, "extra", 1.0)
def has_defaults(x, a=2.0, b=(1, 2)): return x * a + x * b[0]
def has_keyword_defaults(x, *, a=2.0): return x * a


PARTIAL = functools.partial(has_defaults, a=5.0)


def make():
    c, h = 2.0, helper

    def closure(x):
        return h(x) * c

    def change(value=2.0, function=helper):
        nonlocal c, h
        c, h = value, function

    closure.change = change
    return closure
"""


def put(name: str, value: Any, owner: str = "") -> Callable[[Any], None]:
    """A change: assign an attribute of the module, or of an object in it."""

    def change(module: Any) -> None:
        target = module
        for part in filter(None, owner.split(".")):
            target = getattr(target, part)
        setattr(target, name, value)

    return change


def run(code: str) -> Callable[[Any], None]:
    """A change: a statement run in the module."""
    return lambda module: exec(code, vars(module))


#: function → changes, made one after the other
CHANGES: dict[str, list[Callable[[Any], None]]] = {
    "reads_number": [put("G", 3.0), put("G", 4), put("G", np.float32(2)), run("del G"), put("G", 5.0)],
    "reads_int": [put("K", 2), put("K", 2.5), put("K", True)],
    "reads_array": [
        *(
            run("ARRAY[0] = 9.0"),
            put("ARRAY", np.ones(5)),
            put("ARRAY", np.arange(4)),
            put("ARRAY", np.ones((2, 1))[0]),
        ),
        put("ARRAY", np.ones(2, np.float32)),
    ],
    "reads_dict": [run("CONFIG['w'] = 5.0"), run("CONFIG['new'] = 1"), run("CONFIG['mode'] = 'b'"), run("CONFIG = {}")],
    "reads_list": [run("ITEMS.append(5.0)"), run("ITEMS[0] = 7.0"), put("ITEMS", [1.0])],
    "reads_set": [run("MEMBERS.add(9)"), put("MEMBERS", {1})],
    "reads_flags": [put("FLAG", False), put("NAME", "b")],
    "calls_function": [put("helper", lambda x: x * 7.0), put("helper", np.cos)],
    "calls_method": [
        put("act", lambda self, x: x * x, "Model"),
        put("act", lambda x: x + 1.0, "MODEL"),
        put("scale", property(lambda self: 9.0), "Model"),
        put("scale", 4.0, "Model"),
    ],
    "calls_base_method": [put("shift", lambda self, x: x * 5.0, "Base"), put("shift", lambda self, x: x, "Model")],
    "calls_special_methods": [
        put("w", 9.0, "MODEL"),
        put("__call__", lambda self, x: x - 1.0, "Model"),
        put("__getitem__", lambda self, k: k * 8.0, "Model"),
    ],
    "calls_class_functions": [
        put("fixed", staticmethod(lambda x: x * 5), "Model"),
        put("of_class", classmethod(lambda cls, x: x * 8), "Model"),
    ],
    "makes_an_object": [put("__init__", lambda self: setattr(self, "w", 6.0), "Model")],
    "reads_class_attribute": [put("rate", 5.0, "Model"), put("rate", 6.0, "MODEL")],
    "reads_class_array": [
        run("Model.table[0] = 5.0"),
        put("table", np.ones(4), "Model"),
        put("table", np.ones(2), "MODEL"),
    ],
    "reads_attributes": [
        *(put("a", 3.0, "SPACE"), put("k", 3, "SPACE"), put("z", 1.0, "SPACE.inner")),
        put("inner", types.SimpleNamespace(z=2.0), "SPACE"),
    ],
    "asks_for_attribute": [put("extra", 1.0, "SPACE"), run("del SPACE.extra")],
    "asks_with_default": [put("extra", 5.0, "SPACE"), run("del SPACE.extra")],
    "has_defaults": [
        put("__defaults__", (5.0, (1, 2)), "has_defaults"),
        put("__defaults__", (5, (3,)), "has_defaults"),
    ],
    "has_keyword_defaults": [run("has_keyword_defaults.__kwdefaults__['a'] = 7.0")],
    "PARTIAL": [run("PARTIAL.keywords['a'] = 9.0")],
    "closure": [run("closure.change(5.0)"), run("closure.change(5)"), run("closure.change(2.0, np.cos)")],
}


def module() -> Any:
    made = types.ModuleType("changing")
    exec(compile(SOURCE, FILE, "exec"), vars(made))
    made.closure = made.make()
    return made


@pytest.fixture(autouse=True, scope="module")
def source_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    global FILE
    path = tmp_path_factory.mktemp("changing") / "changing.py"
    path.write_text(SOURCE)
    FILE = str(path)


FILE = ""


@pytest.mark.parametrize("engine", ["source", "tape"])
@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_at_the_next_call(name: str, backend: str, engine: str) -> None:
    changing, x = module(), 0.7
    f = getattr(changing, name)
    compiled = gs.value_and_grad(f, backend=backend, engine=engine)
    for change in (lambda module: None, *CHANGES[name]):
        change(changing)
        for _ in range(2):
            try:
                expected = f(x)
            except Exception as error:
                with pytest.raises(type(error)):
                    compiled(x)
            else:
                value, slope = compiled(x)
                assert value == pytest.approx(expected, rel=1e-6)
                assert slope == pytest.approx((f(x + 1e-3) - f(x - 1e-3)) / 2e-3, rel=1e-4)


def test_a_redefined_function_is_another_function() -> None:
    def first(x: float) -> float:
        return x * x

    old = gs.grad(first)
    assert old(3.0) == 6.0
    first.__code__ = (lambda x: x**3).__code__
    assert old(3.0) == 27.0


def test_a_function_of_the_same_name_and_file_is_not_served_from_a_cache(tmp_path: Any) -> None:
    path = tmp_path / "again.py"
    gradients = []
    for k in (2, 3, 4):
        text = f"def f(x):\n    return x ** {k}\n"
        path.write_text(text)
        scope: dict[str, Any] = {}
        exec(compile(text, str(path), "exec"), scope)
        gradients.append(gs.grad(scope["f"]))
        assert gradients[-1](2.0) == k * 2.0 ** (k - 1)
    assert [g(2.0) for g in gradients] == [4.0, 12.0, 32.0]


def test_an_instance_attribute_that_a_method_of_the_differentiated_object_finds() -> None:
    class Scaled:
        factor = 2.0

        def value(self, x: float) -> float:
            return self.factor * x

    scaled = Scaled()
    gradient = gs.grad(functools.partial(scaled.value))
    assert gradient(1.0) == 2.0
    scaled.factor = 5.0
    assert gradient(1.0) == 5.0
