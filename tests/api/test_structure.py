"""Arguments of all shapes: objects that share objects or point back, slots, classes made from containers."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

engines = pytest.mark.parametrize("engine", ["source", "tape"])


class Node:
    def __init__(self, v: Any, parent: Any = None):
        self.v = v
        self.parent = parent
        self.children: list[Any] = []
        if parent is not None:
            parent.children.append(self)

    def weighted(self) -> Any:
        return self.v + (2.0 * self.parent.weighted() if self.parent is not None else 0.0)


class Bag:
    def __init__(self, **entries: Any):
        for name, value in entries.items():
            setattr(self, name, value)


def chain() -> tuple[Node, Node]:
    root = Node(1.0)
    return root, Node(3.0, Node(2.0, root))


@engines
def test_parent_pointers(engine: str) -> None:
    root, leaf = chain()
    gradient = gs.grad(lambda n: n.children[0].children[0].weighted() ** 2, engine=engine)
    for _ in range(2):
        g = gradient(root)
        assert type(g) is Node
        np.testing.assert_allclose([g.v, g.children[0].v, g.children[0].children[0].v], [8 * 11.0, 4 * 11.0, 2 * 11.0])
        assert g.children[0].parent is g
    g = gs.grad(lambda n: n.weighted() ** 2, engine=engine)(leaf)
    np.testing.assert_allclose([g.v, g.parent.v, g.parent.parent.v], [22.0, 44.0, 88.0])
    stepped = gs.tree_map(lambda p, q: p - q, root, gradient(root))
    assert stepped.v == 1.0 - 88.0 and stepped.children[0].parent is stepped


@engines
def test_one_object_in_two_places_is_one_object(engine: str) -> None:
    def product(m: Any) -> Any:
        return m.a.k * m.b.k

    def writes(m: Any) -> Any:
        m.a.k = m.a.k * 2
        return m.b.k * m.a.k

    def asks(m: Any) -> Any:
        return m.a.k**2 if m.a is m.b else m.a.k

    shared = Bag(k=3.0)
    one, two = Bag(a=shared, b=shared), Bag(a=Bag(k=3.0), b=Bag(k=4.0))
    expected: dict[Any, Any] = {
        product: {one: (6.0, 6.0), two: (4.0, 3.0)},
        writes: {one: (24.0, 24.0), two: (8.0, 6.0)},
        asks: {one: (6.0, 6.0), two: (1.0, 0.0)},
    }
    for f, by_model in expected.items():
        gradient = gs.grad(f, engine=engine)
        for m in (one, two, one, one, two, two, one):
            g = gradient(m)
            assert (g.a.k, g.b.k) == by_model[m] and (g.a is g.b) == (m is one)
    assert shared.k == 3.0


def test_every_transform_takes_models_that_share_objects() -> None:
    shared = Bag(k=np.ones(2))
    m = Bag(a=shared, b=shared)
    m.itself = m  # type: ignore[attr-defined]
    f = lambda m: np.sum(m.a.k**2 * m.b.k)  # noqa: E731
    _, back = gs.vjp(f, m)
    (g,) = back(1.0)
    assert g.a is g.b and g.itself is g
    np.testing.assert_allclose(g.a.k, [3.0, 3.0])
    assert gs.jvp(f, (m,), (g,))[1] == 18.0
    np.testing.assert_allclose(gs.hvp(f)(m, g).a.k, [18.0, 18.0])
    np.testing.assert_allclose(gs.jacobian(lambda m: m.a.k * m.b.k)(m).a.k, 2 * np.eye(2))
    np.testing.assert_allclose(gs.grad(lambda: f(m), wrt=m)().b.k, [3.0, 3.0])
    buffer = gs.grad(f)(m)
    buffer.a.k[:] = 0.0
    assert gs.grad(f)(m, out=buffer) is buffer
    np.testing.assert_allclose(buffer.a.k, [3.0, 3.0])
    assert gs.prepare(gs.grad(f), m)(m).a.k[0] == 3.0
    doubled = gs.grad(lambda m: f(gs.hook(m, lambda g: gs.tree_map(lambda t: 2 * t, g))))
    np.testing.assert_allclose(doubled(m).a.k, [6.0, 6.0])
    rows = Bag(a=Bag(k=np.ones((3, 2))))
    rows.b = rows.a  # type: ignore[attr-defined]
    np.testing.assert_allclose(gs.vmap(gs.grad(f))(rows).a.k, np.full((3, 2), 3.0))
    with pytest.raises(ValueError, match="structure"):
        gs.grad(f)(m, out=Bag(a=shared, b=Bag(k=np.ones(2)), itself=None))


class Slotted:
    __slots__ = ("x", "bias")

    def __init__(self) -> None:
        self.x = 2.0


class Mixed(Slotted):
    def __init__(self) -> None:
        super().__init__()
        self.y = 3.0


@engines
def test_slots(engine: str) -> None:
    gradient = gs.grad(lambda m: m.x * (m.bias if hasattr(m, "bias") else m.x), engine=engine)
    m = Slotted()
    g = gradient(m)
    assert type(g) is Slotted and g.x == 4.0 and not hasattr(g, "bias")
    m.bias = 5.0
    assert (gradient(m).x, gradient(m).bias) == (5.0, 2.0)
    del m.bias
    assert gradient(m).x == 4.0
    g = gs.grad(lambda m: m.x * m.y, engine=engine)(Mixed())
    assert type(g) is Mixed and (g.x, g.y) == (3.0, 2.0)


class Params(dict[str, Any]):
    __getattr__ = dict.__getitem__


class Upper(dict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key.upper())


class Attributes(dict[str, Any]):
    def __init__(self, **entries: Any):
        super().__init__(**entries)
        self.__dict__ = self


class Sequential(list[Any]):
    def __call__(self, x: Any) -> Any:
        for layer in self:
            x = np.tanh(layer.w * x)
        return x


class Triple(tuple[Any, ...]):
    pass


class Ordered(OrderedDict[str, Any]):
    pass


def test_classes_made_from_containers() -> None:
    g = gs.grad(lambda p: p.w * p["b"])(Params(w=2.0, b=3.0))
    assert type(g) is Params and g == {"w": 3.0, "b": 2.0}
    g = gs.grad(lambda p: p["w"] ** 2)(Upper(W=2.0))
    assert type(g) is Upper and g["w"] == 4.0
    g = gs.grad(lambda p: p.w**2 * p.b.c + p["w"])(Attributes(w=2.0, b=Attributes(c=3.0)))
    assert g.w == 13.0 and g["w"] == 13.0 and g.b.c == 4.0 and g.__dict__ is g
    x = np.array([0.5, 1.0])
    gradient = gs.grad(lambda net, x: np.sum(net(x)))
    for n in (1, 3):
        g = gradient(Sequential([Bag(w=x) for _ in range(n)]), x)
        assert type(g) is Sequential and len(g) == n and g[0].w.shape == (2,)
    g = gs.grad(lambda t: t[0] * t[1] * t[2])(Triple((1.0, 2.0, 3.0)))
    assert type(g) is Triple and g == (6.0, 3.0, 2.0)
    p = Ordered(b=2.0, a=3.0)
    p.move_to_end("b")
    g = gs.grad(lambda p: p["a"] * p["b"])(p)
    assert type(g) is Ordered and list(g.items()) == [("a", 2.0), ("b", 3.0)]


def test_simple_namespaces() -> None:
    m = types.SimpleNamespace(a=2.0, b=types.SimpleNamespace(c=3.0))
    g = gs.grad(lambda m: m.a * m.b.c)(m)
    assert type(g) is types.SimpleNamespace and g.a == 3.0 and g.b.c == 2.0


def test_dataclasses_with_more_or_less_than_their_fields() -> None:
    @dataclasses.dataclass
    class M:
        a: float
        late: Any = dataclasses.field(init=False)

        @functools.cached_property
        def square(self) -> float:
            return self.a**2

    m = M(3.0)
    gradient = gs.grad(lambda m: m.square * getattr(m, "extra", 1.0))
    assert gradient(m).a == 6.0 and not hasattr(gradient(m), "late")
    m.extra = 2.0  # type: ignore[attr-defined]
    assert gradient(m).a == 12.0 and gradient(m).extra == 9.0
    assert m.square == 9.0  # kept in the object from now on, and still a function of its fields
    assert gradient(m).a == 12.0


class Positive:
    """A descriptor that keeps its value under its own name, and refuses what a gradient may well be."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else instance.__dict__[self.name]

    def __set__(self, instance: Any, value: Any) -> None:
        if value is None or value <= 0:
            raise ValueError("must be positive")
        instance.__dict__[self.name] = value


class Normal:
    sigma = Positive()

    def __init__(self) -> None:
        self.sigma = 2.0


def test_attributes_that_a_descriptor_guards() -> None:
    gradient = gs.grad(lambda m: -np.log(m.sigma))
    for _ in range(3):
        assert gradient(Normal()).sigma == -0.5


class Compiled:
    def __init__(self) -> None:
        self.w = 2.0

    @gs.jit
    def scaled(self, x: Any) -> Any:
        return self.w * x

    @gs.grad
    def slope(self, x: Any) -> Any:
        return self.w**2 * x

    @gs.vmap
    def rows(self: Any, x: Any) -> Any:
        return self * x

    def both(self, x: Any) -> Any:
        return self.scaled(x) * self.slope(x).w


def test_methods_that_are_compiled() -> None:
    m = Compiled()
    assert m.scaled(3.0) == 6.0 and Compiled.scaled(m, 3.0) == 6.0
    assert m.slope(3.0).w == 12.0
    assert m.both(3.0) == 72.0
    assert gs.grad(lambda x: m.both(x))(3.0) == 48.0
    assert gs.grad(lambda m: m.both(3.0))(m).w == 4 * 9.0 * 2.0
    m.w = 3.0
    assert m.scaled(3.0) == 9.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Bag(w=1.0), r"Bag with \['w', 'parts'\] expected, not with \['w'\]"),
        (Bag(w=1.0, parts=[]), r"list at .parts with \[0\] expected, not with \[\]"),
        (Bag(w=1.0, parts=[2.0]), r"Bag at .parts\[0\] expected, not a number or an array"),
        ({"w": 1.0}, "Bag expected, not dict"),
    ],
)
def test_what_differs_between_structures(given: Any, message: str) -> None:
    m = Bag(w=1.0, parts=[Bag(b=2.0)])
    with pytest.raises(ValueError, match=message):
        gs.tree_map(lambda p, q: p, m, given)
    with pytest.raises(TypeError, match="tangents must have the structure.*" + message):
        gs.jvp(lambda m: m.w * m.parts[0].b, (m,), (given,))


def test_a_gradient_can_be_used_like_the_model() -> None:
    """What has no number in it (a layer without weights, a name, a function) is in the gradient what it is in the model."""

    class Activation:
        def parameters(self) -> list[np.ndarray]:
            return []

    class Dense:
        def __init__(self, n: int):
            self.w, self.n = np.arange(float(n)), n

        def parameters(self) -> list[np.ndarray]:
            return [self.w]

    class Net:
        def __init__(self) -> None:
            self.layers, self.name, self.function = [Dense(3), Activation(), Dense(2)], "net", np.sin

        def parameters(self) -> list[np.ndarray]:
            return [p for layer in self.layers for p in layer.parameters()]

    net = Net()
    gradient = gs.grad(lambda m: sum(np.sum(m.function(p)) for p in m.parameters()))(net)
    for g, p in zip(gradient.parameters(), net.parameters(), strict=True):
        np.testing.assert_allclose(g, np.cos(p))
    assert (gradient.name, gradient.function, gradient.layers[0].n) == ("net", np.sin, None)
    again = gs.grad(lambda m: np.sum(m.layers[0].w ** 2))(net, out=gradient)
    assert again.layers[0].w is gradient.layers[0].w
    np.testing.assert_allclose(again.layers[0].w, 2 * net.layers[0].w)
