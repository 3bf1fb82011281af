"""Random Programs: native code against the interpreter, in the fast and in the checked version."""

import numpy as np
import pytest

from gradsmith.backends import native
from gradsmith.backends.native import fuse, split
from gradsmith.backends.native.fallback import interpreted
from gradsmith.ir.types import C128, F64, I64
from tests.backends.native.native_programs import outcome, same
from tests.programs import random_case


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    compare(seed, 15)


@pytest.mark.parametrize("seed", range(100, 112))
def test_random_programs_in_the_checked_version(seed: int) -> None:
    compare(seed, 15, checked=True)


@pytest.mark.parametrize("seed", range(200, 208))
def test_random_programs_in_short_loop_nests(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse, "LONGEST", 2)
    compare(seed, 25)


@pytest.mark.parametrize("seed", range(300, 320))
def test_random_programs_in_many_functions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "LONG", 0)
    monkeypatch.setattr(split, "PART", 1)
    compare(seed, 25, checked=seed % 2 == 1)


def compare(seed: int, size: int, checked: bool = False) -> None:
    """Three calls give what the interpreter gives, and leave the arguments alone."""
    program, args = random_case(seed, size, dtypes=(F64, F64, C128, I64))
    expected = outcome(interpreted(program), args)
    compiled = native.compile(program)
    if checked:
        compiled.__self__._use_checked()
    before = [np.array(a) for a in args]
    for _ in range(3):
        got = outcome(compiled, args)
        if isinstance(expected, Exception) or isinstance(got, Exception):
            assert type(got) is type(expected), (got, expected)
        else:
            same(got, expected, rtol=1e-9)
    for a, b in zip(args, before, strict=True):
        np.testing.assert_array_equal(a, b)
