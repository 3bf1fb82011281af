"""Every case of the table gives NumPy's own result (values, dtypes, shapes, kinds of object), also at other lengths."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.testing import check_grads
from tests.catalogue_cases import CASES, Case, samples


def leaves(result: Any) -> list[Any]:
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def expect(got: Any, expected: Any) -> None:
    """Equal to a few ulp, with the same dtype, shape and kind of object."""
    got, expected = leaves(got), leaves(expected)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        if not isinstance(e, int):  # bool and int are exact below
            assert type(g) is type(e), f"{type(g)} instead of {type(e)}"
        assert np.shape(g) == np.shape(e)
        assert np.asarray(g).dtype == np.asarray(e).dtype
        if np.asarray(e).dtype.kind in "fc":
            coarse = np.asarray(e).dtype.itemsize < 8
            np.testing.assert_allclose(g, e, rtol=3e-6 if coarse else 1e-11, atol=1e-6 if coarse else 1e-13)
        else:
            np.testing.assert_array_equal(g, e)


def copies(args: list[Any]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in args]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_value(case: Case) -> None:
    """Staged at one set of arguments, right there and at another with other lengths."""
    compiled = gs.jit(case.function, backend="python")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for variant in (0, 1):
            args = samples(case, variant)
            expect(compiled(*copies(args)), case.function(*copies(args)))


def in_double(x: Any) -> Any:
    """float32 arguments as float64: differences in single precision judge nothing."""
    return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x


#: one kind of numbers is enough where others only differ in promotion
DIFFERENTIABLE = [c for c in CASES if c.differentiable and not set(c.kinds) & set("0gf")]


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=lambda c: c.name)
def test_derivative(case: Case) -> None:
    """Forward and reverse mode against central differences."""
    args = samples(case, 0)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        check_grads(case.function, args, 1, atol=1e-6, rtol=1e-6, eps=1e-6, backend="python")


@pytest.mark.parametrize("case", [c for c in CASES if c.differentiable and "f" in c.kinds], ids=lambda c: c.name)
def test_derivative_in_single_precision(case: Case) -> None:
    """The derivative of a float32 argument is float32, and that of float64 to its precision."""
    args = samples(case, 0)
    tangents = [np.ones_like(x) for x in args]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        value, got = gs.jvp(case.function, args, tangents, backend="python")
        wide = [in_double(x) for x in args]
        _, expected = gs.jvp(case.function, wide, [np.ones_like(x) for x in wide], backend="python")
    for v, g, e in zip(leaves(value), leaves(got), leaves(expected), strict=True):
        assert np.asarray(g).dtype == np.asarray(v).dtype
        np.testing.assert_allclose(g, e, rtol=2e-4, atol=1e-4)
