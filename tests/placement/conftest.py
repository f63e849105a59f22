"""A core of placement for tests of one replica."""

import pytest
from support.played import Played


@pytest.fixture
def played() -> Played:
    """Give a core that knows one node with two cards of 100 MiB."""
    return Played()
