"""The backend for an address alone: what answers there decides."""

from typing import Any

import pytest

from sglrun.backends import create_backend
from sglrun.backends.base import BackendOptions, Secret
from sglrun.errors import (
    AuthenticationError,
    BackendError,
    BackendUnreachableError,
    ConfigError,
)
from tests import stand_in as faults
from tests.stand_in import StandIn


def kind_at(url: str, **options: Any) -> str:
    made = create_backend("auto", BackendOptions(url=url, **options))
    made.close()
    return made.kind


@pytest.mark.parametrize(
    ("kind", "backend"),
    [("sglang", "sglang"), ("vllm", "openai"), ("llama-server", "openai")],
)
@pytest.mark.parametrize("end", ["", "/", "/health", "/generate"])
def test_the_server_is_asked(
    stand_in: StandIn, kind: Any, backend: str, end: str
) -> None:
    """SGLang's own way where it is there, OpenAI's shape elsewhere."""
    stand_in.model.kind = kind

    assert kind_at(stand_in.url + end, chat_template="chatml") == backend


@pytest.mark.parametrize("end", ["/v1", "/v1/", "/v1/chat/completions", "/v1/models"])
def test_an_address_of_a_shape_is_taken_at_its_word(
    stand_in: StandIn, end: str
) -> None:
    """With ``/v1`` it is OpenAI's shape, on SGLang too, however it was copied."""
    assert kind_at(stand_in.url + end) == "openai"


def test_old_sglang_is_known(stand_in: StandIn) -> None:
    """Servers that have only the older name are asked by that."""
    stand_in.model.old_info = True

    assert kind_at(stand_in.url, chat_template="chatml") == "sglang"


def test_a_page_for_people_is_no_api(stand_in: StandIn) -> None:
    """A site that answers with a page to everything is told as what it is."""
    stand_in.fail_always(faults.html_200)

    with pytest.raises((BackendError, ConfigError), match="/v1"):
        kind_at(stand_in.url)


def test_a_key_that_is_refused_is_told_at_once(stand_in: StandIn) -> None:
    """Without the right key nothing is guessed."""
    stand_in.api_key = "right"

    with pytest.raises(AuthenticationError, match="--api-key-env"):
        kind_at(stand_in.url, api_key=Secret(value="wrong"))


def test_nothing_there_is_told_at_once() -> None:
    """An address where nobody listens is asked once."""
    with pytest.raises(BackendUnreachableError, match="nothing listens"):
        kind_at("http://127.0.0.1:9")


def test_a_server_that_hangs_up_may_want_tls(stand_in: StandIn) -> None:
    """Plain HTTP to a port of TLS is hung up on; the advice is to try ``https``."""
    stand_in.fail_always(faults.reset)

    with pytest.raises(BackendError, match="https:// in place of http"):
        kind_at(stand_in.url)


def test_without_an_address_there_is_nothing_to_ask() -> None:
    """The option is named."""
    with pytest.raises(ConfigError, match="--url"):
        create_backend("auto", BackendOptions())
