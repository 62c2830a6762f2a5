"""Speculation: one request for several generations."""

import warnings

import pytest

import sglrun as sgl
from sglrun.backends.base import Capabilities, Completion, OnText, Request
from sglrun.backends.mock import MockBackend
from sglrun.errors import BadRequestError, UnsupportedFeatureError
from sglrun.interpreter.speculation import SpeculatingBackend
from sglrun.lang.prompt import Prompt

PLAIN_API = Capabilities(prefill=False)


@sgl.function(num_api_spec_tokens=64)
def written(s: sgl.ProgramState) -> None:
    """Three fields of a text."""
    s += "Name:" + sgl.gen("name", stop="\n") + "\nBorn:" + sgl.gen("born", stop="\n")
    s += "\nJob:" + sgl.gen("job", stop="\n") + "\n"


@sgl.function(num_api_spec_tokens=64)
def told(s: sgl.ProgramState) -> None:
    """Two fields of a turn."""
    s += sgl.user("Who?")
    s += sgl.assistant(
        "Name:" + sgl.gen("name", stop="\n") + "\nJob:" + sgl.gen("job", stop="\n")
    )


def test_one_request_answers_a_text_that_fits() -> None:
    """Later generations take what the model wrote already, at no further cost."""
    backend = MockBackend([" Ada\nBorn: 1815\nJob: poet"], capabilities=PLAIN_API)
    state = written.run(backend=backend)
    values = [state[name] for name in ("name", "born", "job")]

    assert values == [" Ada", " 1815", " poet"]
    assert state.text() == "Name: Ada\nBorn: 1815\nJob: poet\n"
    assert state.get_meta_info("born")["completion_tokens"] == 1
    (request,) = backend.requests
    assert request.sampling.max_new_tokens == 128
    assert request.sampling.stop == ()


def test_the_budget_is_asked_for_where_it_is_more() -> None:
    """A generation that wants less than the budget asks for the budget."""
    backend = MockBackend([" Ada\nBorn: 1815\nJob: poet"], capabilities=PLAIN_API)
    written.run(backend=backend, max_new_tokens=8).sync()

    assert backend.requests[0].sampling.max_new_tokens == 64


def test_a_text_that_does_not_fit_is_asked_for_again() -> None:
    """Where the model leaves the program's text, the next generation asks anew."""
    backend = MockBackend(
        [" Ada\nAge: 3", " 1815\nJob: poet\n"], capabilities=PLAIN_API
    )
    state = written.run(backend=backend)

    assert [state["name"], state["born"], state["job"]] == [" Ada", " 1815", " poet"]
    assert [request.prompt.text for request in backend.requests] == [
        "Name:",
        "Name: Ada\nBorn:",
    ]


def test_a_limit_holds_for_what_is_written_ahead() -> None:
    """An answer longer than its own limit is asked for within it, which is said."""

    @sgl.function(num_api_spec_tokens=64)
    def short(s: sgl.ProgramState) -> None:
        s += "N:" + sgl.gen("n", max_tokens=2, stop="\n")

    backend = MockBackend(" one two three\n", capabilities=PLAIN_API)
    with pytest.warns(UserWarning, match="speculation missed"):
        state = short.run(backend=backend, use_thread=False)

    assert state["n"] == " one two"


def test_one_request_answers_a_turn() -> None:
    """A chat model writes the whole turn, the program's own words in it too."""
    backend = MockBackend(["Name: Ada\nJob: poet"], capabilities=PLAIN_API)
    state = told.run(backend=backend)

    assert [state["name"], state["job"]] == [" Ada", " poet"]
    assert state.messages()[-1]["content"] == "Name: Ada\nJob: poet"
    (request,) = backend.requests
    assert request.prompt.role == "assistant"
    assert request.prompt.open_parts == ()


def test_a_turn_is_tried_three_times() -> None:
    """A reply that begins otherwise is asked for again, three times in all."""
    replies = ["I think", "Well,", "\nName: Ada\nJob: poet"]
    backend = MockBackend(replies, capabilities=PLAIN_API)
    state = told.run(backend=backend)

    assert state["job"] == " poet"
    assert len(backend.requests) == 3


def test_a_turn_that_never_fits_is_refused_with_its_reason() -> None:
    """What the backend says of the program's text comes with what was tried."""

    class Refusing(MockBackend):
        def generate(
            self, request: Request, on_text: OnText | None = None
        ) -> Completion:
            if request.prompt.open_parts:
                raise UnsupportedFeatureError("no prefill")
            return super().generate(request, on_text)

    backend = Refusing("I think", capabilities=PLAIN_API)
    with pytest.warns(UserWarning, match="speculation missed"):
        error = told.run(backend=backend).error()

    assert str(error) == "no prefill"
    assert error is not None
    assert "asked 3 times to write the whole turn" in error.__notes__[0]


def test_streams_carry_what_is_written_ahead() -> None:
    """A streamed program gives the same text."""
    backend = MockBackend(["Name: Ada\nJob: poet"], capabilities=PLAIN_API)
    state = told.run(backend=backend, stream=True)

    assert "".join(state.text_iter("job")) == " poet"
    assert "".join(state.text_iter()).endswith("Name: Ada\nJob: poet\n")


def test_what_cannot_be_taken_from_a_text_is_asked_for() -> None:
    """Several samples, a pattern and a choice go to the model as they are."""

    @sgl.function(num_api_spec_tokens=64)
    def mixed(s: sgl.ProgramState) -> None:
        s += "A:" + sgl.gen("a", stop="\n")
        s += "\nB:" + sgl.gen("b", regex="[0-9]", stop="\n")
        s += "\nC:" + sgl.gen("c", n=2, stop="\n")
        s += "\nD:" + sgl.gen("d")
        s += sgl.select("e", ["x", "y"])

    backend = MockBackend(
        [" 1\nB:2\nC:3\nD:4", "5", ["6", "7"], "8"],
        capabilities=PLAIN_API,
        scores={"x": -1.0, "y": -2.0},
    )
    state = mixed.run(backend=backend)

    assert [state[name] for name in "abcde"] == [" 1", "5", ["6", "7"], "8", "x"]


def test_branches_keep_their_own_texts() -> None:
    """Each branch takes what was written after its own text."""

    @sgl.function(num_api_spec_tokens=64)
    def branching(s: sgl.ProgramState) -> None:
        forks = s.fork(2)
        forks += lambda i: f"{i}:" + sgl.gen("a", stop="\n") + "\nB:"
        forks += sgl.gen("b", stop="\n")
        forks.join()

    backend = MockBackend(
        lambda request: f" a{request.prompt.text[0]}\nB: b{request.prompt.text[0]}\n",
        capabilities=PLAIN_API,
    )
    state = branching.run(backend=backend)

    assert (state["a"], state["b"]) == ([" a0", " a1"], [" b0", " b1"])
    assert len(backend.requests) == 2


def test_a_backend_that_keeps_prompts_is_asked_each_time() -> None:
    """Where asking again costs little it is done, and said."""
    backend = MockBackend(" one\nBorn: two\n")
    with pytest.warns(UserWarning, match="speculates on no 'mock' backend"):
        state = written.run(backend=backend)
    state.sync()

    assert len(backend.requests) == 3


def test_a_program_without_a_budget_does_not_speculate() -> None:
    """Nothing is asked for ahead, and nothing is said."""

    @sgl.function
    def plain(s: sgl.ProgramState) -> None:
        s += "A:" + sgl.gen("a", stop="\n")

    backend = MockBackend(" 1\nB", capabilities=PLAIN_API)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain.run(backend=backend).sync()

    assert backend.requests[0].sampling.stop == ("\n",)


def test_the_rest_of_the_backend_shows_through() -> None:
    """What has nothing to do with generations is the backend's own."""
    inner = MockBackend(capabilities=Capabilities(prefix_cache=False))
    backend = SpeculatingBackend(inner, 8)

    assert backend.count_tokens("a b") == 2
    assert backend.get_server_info() == {"model": "mock"}
    assert backend.cache_prefix(Prompt().with_text("Hi")).requests == 1


def test_a_failure_is_the_programs() -> None:
    """What the backend raises while it writes ahead reaches the reader."""
    backend = MockBackend([BadRequestError("too long")], capabilities=PLAIN_API)

    with pytest.raises(BadRequestError, match="too long"):
        _ = written.run(backend=backend)["name"]
