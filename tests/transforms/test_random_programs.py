"""Random Programs: reverse and forward mode against each other and against finite differences, to second order."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradsmith.ir.interpreter import run
from tests.transforms.helpers import check_derivatives, grad_program
from tests.transforms.random_programs import random_program

QUICK = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=20, **QUICK)
@given(st.integers(0, 10**9))
def test_first_and_second_derivatives(seed):
    p, args = random_program(random.Random(seed))
    check_derivatives(p, args, tol=2e-5, second=True, h=1e-4)


@settings(max_examples=15, **QUICK)
@given(st.integers(0, 10**9))
def test_forward_results_are_unchanged_by_what_is_saved(seed):
    p, args = random_program(random.Random(seed), depth=3)
    both = grad_program(p, value=True)
    np.testing.assert_array_equal(run(both, args)[0], run(p, args)[0])
    for with_value, alone in zip(run(both, args)[1:], run(grad_program(p), args), strict=True):
        np.testing.assert_array_equal(with_value, alone)
