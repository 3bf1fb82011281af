"""The back ends that the tests of the API run on."""

from tests.edge_cases.conftest import backend

__all__ = ["backend"]
