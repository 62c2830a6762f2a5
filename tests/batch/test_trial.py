"""The trial: constraints that a server cannot follow, found before the rows."""

from collections.abc import Callable

import pytest

import sglrun as sgl
from sglrun.backends.base import Capabilities, Request
from sglrun.backends.mock import MockBackend
from sglrun.batch.trial import Trial, try_constraints
from sglrun.errors import BackendUnavailableError, BadRequestError
from sglrun.interpreter.tracing.tracer import trace_program

ABLE = Capabilities(ebnf=True)
BAD = "(?=bad)"


def server(request: Request) -> str:
    """Answer as a server whose grammars have no look-ahead."""
    if request.sampling.regex == BAD:
        raise BadRequestError("look-ahead is not supported", http_status=400)
    return "7"


def trial(
    body: Callable[..., object],
    answer: Callable[[Request], str] = server,
    capabilities: Capabilities = ABLE,
) -> tuple[Trial, MockBackend]:
    backend = MockBackend(answer, capabilities=capabilities)
    traced = trace_program(sgl.function(body), template=backend.chat_template)
    return try_constraints(backend, traced.asked), backend


def bad(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(q) + sgl.assistant(sgl.gen("a"))
    forks = s.fork(2)
    forks += sgl.user("more") + sgl.assistant(sgl.gen("b", regex=BAD))
    forks.join()


def good(s: sgl.ProgramState, q: str) -> None:
    for name in "abc":
        s += q + sgl.gen(name, regex="[0-9]")
    s += q + sgl.gen("d", regex=f"{q}|x") + sgl.gen("e")
    if q == "never":
        s += sgl.gen("f", regex=BAD)


def test_a_constraint_that_the_server_refuses_is_named() -> None:
    """The line and what the server said; the same without it was answered."""
    found, backend = trial(bad)

    assert "test_trial.py:" in str(found.refused)
    assert "cannot follow this regex: look-ahead" in str(found.refused)
    tried = [request.sampling for request in backend.requests]
    assert [one.regex for one in tried] == [BAD, None]
    assert {one.max_new_tokens for one in tried} == {1}
    assert backend.requests[0].prompt.is_chat
    assert found.usage.requests == 1


def test_each_constraint_is_tried_once() -> None:
    """What a row decides is not tried, nor what only some rows come to."""
    found, backend = trial(good)

    assert found.refused is None
    assert [request.sampling.regex for request in backend.requests] == ["[0-9]"]
    assert not backend.requests[0].prompt.is_chat


@pytest.mark.parametrize("error", [BadRequestError, BackendUnavailableError])
def test_another_failure_is_left_to_the_rows(error: type[Exception]) -> None:
    """A server that refuses all, or does not answer, says nothing of a constraint."""

    def answer(request: Request) -> str:
        raise error("no")

    assert trial(bad, answer)[0].refused is None


def test_a_backend_that_knows_is_not_asked() -> None:
    """Where a check tells, no request is sent."""
    found, backend = trial(bad, capabilities=Capabilities(checks_constraints=True))

    assert found == Trial()
    assert backend.requests == []
