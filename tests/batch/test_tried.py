"""The tried backend of scripts."""

import pytest

from sglrun.backends.base import Request
from sglrun.backends.mock import MockBackend
from sglrun.batch.tried import TriedBackend
from sglrun.errors import AuthenticationError, BackendUnreachableError
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS

REQUEST = Request(prompt=Prompt(text="q"), sampling=DEFAULTS)


@pytest.mark.parametrize(
    "error", [BackendUnreachableError("refused"), AuthenticationError("401")]
)
def test_no_error_ends_a_script(error: Exception) -> None:
    """What would end a run is raised to the script, which may ask again."""
    backend = TriedBackend(
        MockBackend(["one", error, "two"]), max_in_flight=1, retries=0
    )
    backend.generate(REQUEST)
    with pytest.raises(type(error)):
        backend.generate(REQUEST)

    assert backend.generate(REQUEST).samples[0].text == "two"
