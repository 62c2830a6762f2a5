"""What all tests share: the stand-in server and how hypothesis runs."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.stand_in import StandIn

# One slow write to a disk exceeds the usual deadline of an example.
settings.register_profile("sglrun", deadline=None)
settings.load_profile("sglrun")


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    """A fresh stand-in server that speaks SGLang and OpenAI."""
    with StandIn() as server:
        yield server
