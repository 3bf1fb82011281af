"""The NIST example: files are read right, models give NIST's residuals, digits are counted right."""

import re

import numpy as np
import pytest
from scipy.optimize._numdiff import approx_derivative

nist_strd = pytest.importorskip("examples.nist_strd")


@pytest.mark.parametrize("name", nist_strd.MODELS)
def test_model_and_data_give_the_certified_sum_of_squares(name: str) -> None:
    problem = nist_strd.read_problem(nist_strd.DATA / f"{name}.dat")
    text = (nist_strd.DATA / f"{name}.dat").read_text()
    found = re.search(r"Residual Sum of Squares:\s*(\S+)", text)
    assert found is not None
    residuals = nist_strd.MODELS[name](problem.certified, problem.x) - problem.y
    # Lanczos1's is 1e-25, less than the rounding of its parameters to 11 digits makes
    np.testing.assert_allclose(residuals @ residuals, float(found[1]), rtol=1e-8, atol=1e-19)


def test_all_problems_are_there() -> None:
    assert len(nist_strd.MODELS) == 27
    assert {path.stem for path in nist_strd.DATA.glob("*.dat")} == set(nist_strd.MODELS)


def test_nelson_has_two_predictors_and_a_logarithm() -> None:
    nelson = nist_strd.read_problem(nist_strd.DATA / "Nelson.dat")
    assert nelson.x.shape == (2, 128)
    assert nelson.y[0] == np.log(15.0)
    assert nelson.starts.tolist() == [[2, 0.0001, -0.01], [2.5, 5e-9, -0.05]]


def test_digits() -> None:
    certified = np.array([2.0, -4.0])
    assert nist_strd.agreeing_digits(certified, certified) == 11
    assert nist_strd.agreeing_digits(np.array([2.0, -4.0004]), certified) == pytest.approx(4)
    assert nist_strd.agreeing_digits(np.array([2.0, 9.0]), certified) == 0
    assert nist_strd.agreeing_digits(np.array([np.nan, -4.0]), certified) == 0


@pytest.mark.parametrize("name", nist_strd.MODELS)
def test_jacobian_is_that_of_differences(name: str) -> None:
    problem = nist_strd.read_problem(nist_strd.DATA / f"{name}.dat")
    model, b = nist_strd.MODELS[name], problem.certified
    expected = approx_derivative(lambda b: model(b, problem.x), b, method="3-point", rel_step=6e-6)
    actual = nist_strd.jacobian_of(model)(b, problem.x)
    assert actual.shape == expected.shape
    assert np.all(np.abs(actual - expected) <= 1e-6 * np.max(np.abs(expected), axis=0))
