"""What all tests share: a stand-in server, and a process that is as at its start."""

from collections.abc import Iterator
from dataclasses import fields

import pytest
from hypothesis import settings

from sglrun.interpreter.global_config import GlobalConfig, global_config
from tests.stand_in import StandIn

# One slow write to a disk exceeds the usual deadline of an example.
settings.register_profile("sglrun", deadline=None)
settings.load_profile("sglrun")


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    """A fresh stand-in server that speaks SGLang and OpenAI."""
    with StandIn() as server:
        yield server


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    """Whatever a test sets for the whole process is gone after it."""
    yield
    fresh = GlobalConfig()
    for field in fields(GlobalConfig):
        setattr(global_config, field.name, getattr(fresh, field.name))
