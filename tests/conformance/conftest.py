"""What the conformance tests share: SGLang's server, stood in for."""

from collections.abc import Iterator

import pytest

from sglrun.backends.base import BackendOptions
from sglrun.backends.sglang import SGLangBackend, create
from tests.stand_in import StandIn


@pytest.fixture
def backend(stand_in: StandIn) -> Iterator[SGLangBackend]:
    """The native backend on the stand-in server, with the default template."""
    options = BackendOptions(url=stand_in.url, chat_template="default")
    with create(options) as connected:
        yield connected
