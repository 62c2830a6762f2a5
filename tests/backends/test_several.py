"""Several servers of one model, as one backend."""

from collections.abc import Iterator
from typing import Any

import pytest

from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions, Request, SelectRequest
from sglrun.backends.mock import MockBackend
from sglrun.backends.several import REST_S, SeveralServers
from sglrun.errors import (
    BackendUnavailableError,
    BackendUnreachableError,
    BadRequestError,
    ConfigError,
)
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS
from tests import stand_in as faults
from tests.stand_in import StandIn

GONE = "http://127.0.0.1:1"


@pytest.fixture
def servers() -> Iterator[tuple[StandIn, StandIn]]:
    with StandIn() as one, StandIn() as other:
        yield one, other


def opened(*urls: str, name: str = "sglang", **options: Any) -> Backend:
    given = BackendOptions(
        url=urls[0], more_urls=urls[1:], chat_template="chatml", **options
    )
    return create_backend(name, given)


def request(text: str = "q") -> Request:
    return Request(prompt=Prompt().with_text(text), sampling=DEFAULTS)


def counts(servers: tuple[StandIn, StandIn]) -> list[int]:
    return [len(server.generations) for server in servers]


@pytest.mark.parametrize("name", ["sglang", "openai", "auto"])
def test_rows_are_shared_and_stay_where_they_began(
    servers: tuple[StandIn, StandIn], name: str
) -> None:
    """Rows go to the servers in turn, with all their requests."""
    with opened(*(server.url for server in servers), name=name) as backend:
        for number in range(4):
            row = backend.of_row()
            for step in range(3):
                row.generate(request(f"row {number} step {step}"))

    assert counts(servers) == [6, 6]
    for server in servers:
        prompts = [
            str(sent.get("text", sent.get("prompt"))) for sent in server.generations
        ]
        assert len({prompt.split(" step")[0] for prompt in prompts}) == 2


def test_every_server_reads_the_prefix(servers: tuple[StandIn, StandIn]) -> None:
    """What all rows begin with is read once by each, and forgotten by each."""
    with opened(*(server.url for server in servers)) as backend:
        usage = backend.cache_prefix(Prompt().with_text("one two three"))
        flushed = backend.flush_cache()
        told = backend.get_server_info()

    assert counts(servers) == [1, 1]
    assert (usage.requests, usage.prompt_tokens) == (2, 6)
    assert flushed
    assert all(server.url in told for server in servers)


def test_a_server_that_goes_away_is_left_out(servers: tuple[StandIn, StandIn]) -> None:
    """Its rows go on at another one, and nothing more is sent to it for a while."""
    one, other = servers
    with opened(one.url, other.url) as backend:
        row = backend.of_row()
        row.generate(request())
        one.fail(faults.reset)
        with pytest.raises(BackendUnavailableError):
            row.generate(request())
        answered = [row.generate(request()) for _ in range(3)]
        chosen = backend.select(SelectRequest(prompt=Prompt(text="q"), choices=(" a",)))

    assert len(answered) == 3
    assert chosen.scores
    assert len(one.generations) == 2


def test_a_server_that_cannot_be_reached_costs_no_try() -> None:
    """Nothing was sent there, so the request goes to the next at once."""
    with StandIn() as other:
        with StandIn() as one:
            backend = opened(one.url, other.url)
            rows = [backend.of_row() for _ in range(2)]
            for row in rows:
                row.generate(request())
        for row in (*rows, backend.of_row()):
            row.generate(request())
        backend.close()

        assert [len(server.generations) for server in (one, other)] == [1, 4]


def test_all_gone_is_an_error() -> None:
    """With no server left the last one's error is told."""
    with StandIn() as one, StandIn() as other:
        backend = opened(one.url, other.url)
    with pytest.raises(BackendUnreachableError, match="nothing listens"):
        backend.generate(request())
    backend.close()


def test_a_refused_request_is_not_sent_elsewhere(
    servers: tuple[StandIn, StandIn],
) -> None:
    """What one refuses the other would too."""
    with (
        opened(*(server.url for server in servers)) as backend,
        pytest.raises(BadRequestError),
    ):
        backend.generate(request("boom"))

    assert sum(counts(servers)) == 1


def test_servers_must_answer_alike(servers: tuple[StandIn, StandIn]) -> None:
    """Another model is named, with both addresses."""
    servers[1].model.model = "other"

    with pytest.raises(ConfigError, match=r"the model differs: .*'stand-in'.*'other'"):
        opened(*(server.url for server in servers))


def test_one_that_is_not_there_is_left_out() -> None:
    """A run begins with those that are there, and says which is not."""
    with StandIn() as server, pytest.warns(UserWarning, match="left out"):
        backend = opened(GONE, server.url)
    with (
        pytest.raises(BackendUnreachableError),
        pytest.warns(UserWarning, match="left"),
    ):
        opened(GONE, GONE)
    backend.close()


class Broken(MockBackend):
    """A server whose connections break."""

    def generate(self, *_: object) -> Any:
        """Break."""
        raise BackendUnavailableError("reset")


def test_a_rest_ends() -> None:
    """After a while a server that broke is tried again."""
    now = [0.0]
    backend = SeveralServers(
        {"a": Broken("x"), "b": MockBackend("fine")}, clock=lambda: now[0]
    )
    with pytest.raises(BackendUnavailableError):
        backend.generate(request())
    resting = backend.generate(request()).samples[0].text
    now[0] = REST_S + 1
    outcomes = []
    for _ in range(2):
        try:
            outcomes.append(backend.generate(request()).samples[0].text)
        except BackendUnavailableError:
            outcomes.append("broken")

    assert resting == "fine"
    assert "broken" in outcomes
