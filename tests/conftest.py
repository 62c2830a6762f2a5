"""What all tests share: a stand-in server, and a process that is as at its start."""

from collections.abc import Iterator
from dataclasses import fields

import pytest
from hypothesis import HealthCheck, settings

from sglrun.interpreter.global_config import GlobalConfig, global_config
from tests.stand_in import StandIn

# Property tests try the same in each run of the gate, however slow a machine is. With
# ``--hypothesis-profile=explore`` they look on, each time elsewhere.
_ANY_MACHINE = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("gate", _ANY_MACHINE, derandomize=True)
settings.register_profile("explore", _ANY_MACHINE, max_examples=2000)
settings.load_profile("gate")


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
