"""The back ends that the tests of Python's language run on."""

from tests.edge_cases.conftest import backend  # noqa: F401
