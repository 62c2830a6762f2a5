"""SGLang's own wire on a real server: what was broken in its frontend works here.

The rows are those of the conformance suite. See ``servers`` for the server.
"""

import json
import math
import re
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions, SelectRequest
from sglrun.errors import BackendTimeoutError, BadRequestError, UnsupportedFeatureError
from sglrun.lang.choices import CHOICES_METHODS
from sglrun.lang.prompt import Prompt
from tests.live.conftest import Rack

pytestmark = pytest.mark.live

PARIS = "The capital of France is"
# Prompts and options whose tokens melt into each other in every way.
CASES = [
    (PARIS, (" Paris", " London", " Berlin and more")),
    ("Is water wet? Answer:", (" yes", " no way")),
    ("Q: 2+2=\n", ("4", "5", "44")),
    ("The word is 'hel", ("lo'", "p'", "met'")),
    ("Ends with lines\n\n", ("A", "B\n", "\nC")),
    ("Trailing space ", ("word", "other words", " double")),
    ("x" * 40, ("y", "xx", "xyz")),
    ("Repondez: \u00e9", ("\u00e9", "tait", "a\u0301")),
    ("", ("a", "hello there")),
]


@pytest.fixture(scope="module")
def url(rack: Rack) -> str:
    return rack.address("sglang")


@pytest.fixture(scope="module")
def backend(url: str) -> Iterator[Backend]:
    """The backend, found by the address alone."""
    options = BackendOptions(url=url, chat_template="chatml", timeout_s=180)
    made = create_backend("auto", options)
    assert made.kind == "sglang"
    yield made
    made.close()


def asked(url: str, path: str, payload: object) -> Any:
    """Return the server's own answer, by no code of ours."""
    request = urllib.request.Request(  # noqa: S310 - our own address
        url + path,
        json.dumps(payload).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=180) as reply:  # noqa: S310
        return json.load(reply)


def fully_scored(url: str, prompt: str, choice: str) -> list[float]:
    """Return the log-probabilities of the option, all of the text being scored."""
    told = asked(
        url,
        "/generate",
        {
            "text": prompt + choice,
            "sampling_params": {"max_new_tokens": 0},
            "return_logprob": True,
            "logprob_start_len": 0,
        },
    )
    entries = told["meta_info"]["input_token_logprobs"]
    ids = asked(url, "/tokenize", {"model": "smollm2", "prompt": prompt})["tokens"]
    start = 0
    while start < min(len(ids), len(entries)) and ids[start] == entries[start][1]:
        start += 1
    return [logprob or 0.0 for logprob, *_ in entries[start:]]


@pytest.mark.parametrize(("prompt", "choices"), CASES)
def test_select_is_exact(
    backend: Backend, url: str, prompt: str, choices: tuple[str, ...]
) -> None:
    """Rows 38, 39, 40, 43: scores are those of the whole text, by each method."""
    given = SelectRequest(
        prompt=Prompt().with_text(prompt), choices=choices, unconditional=True
    )
    scores = backend.select(given).scores

    for score in scores:
        exact = fully_scored(url, prompt, score.choice)
        assert [t.logprob for t in score.tokens] == pytest.approx(exact, abs=1e-3)
    for method in CHOICES_METHODS.values():
        assert method(scores).choice in choices


@pytest.fixture(scope="module")
def by_v1(url: str) -> Iterator[Backend]:
    """The same server by the address of OpenAI's shape."""
    made = create_backend("auto", BackendOptions(url=f"{url}/v1", timeout_s=180))
    assert (made.kind, made.server) == ("openai", "sglang")
    yield made
    made.close()


@pytest.mark.parametrize(("prompt", "choices"), CASES)
def test_select_by_v1_is_exact(
    by_v1: Backend, url: str, prompt: str, choices: tuple[str, ...]
) -> None:
    """Reached by ``/v1``, options are scored the native way."""
    given = SelectRequest(
        prompt=Prompt().with_text(prompt), choices=choices, unconditional=True
    )

    for score in by_v1.select(given).scores:
        exact = fully_scored(url, prompt, score.choice)
        assert [t.logprob for t in score.tokens] == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("begun", ["", "It is"])
def test_select_in_a_chat_by_v1_is_exact(by_v1: Backend, url: str, begun: str) -> None:
    """In a chat the options are scored after the turns as the server writes them."""
    question = {"role": "user", "content": "What is the capital of France?"}
    asked_for = {"model": "smollm2", "messages": [question]}
    ids = asked(url, "/tokenize", asked_for)["tokens"]
    told = {"model": "smollm2", "tokens": ids, "skip_special_tokens": False}
    written = asked(url, "/detokenize", told)["text"] + begun
    prompt = Prompt().with_role_begin("user").with_text(question["content"])
    prompt = prompt.with_role_end("user").with_role_begin("assistant").with_text(begun)
    given = SelectRequest(prompt=prompt, choices=(" Paris", " London"))

    for score in by_v1.select(given).scores:
        exact = fully_scored(url, written, score.choice)
        assert [t.logprob for t in score.tokens] == pytest.approx(exact, abs=1e-3)


@sgl.function
def choosing(s: sgl.ProgramState, method: Any, temperature: float) -> None:
    """Choose a capital."""
    s += PARIS + sgl.select(
        "city",
        [" London", " Paris"],
        choices_method=method,
        temperature=temperature,
    )


@pytest.mark.parametrize("name", CHOICES_METHODS)
def test_rows_38_to_40_methods(backend: Backend, name: str) -> None:
    """Each method takes the option that the model holds likeliest."""
    state = choosing.run(CHOICES_METHODS[name], 0.0, backend=backend)

    assert state["city"] == " Paris"


def test_row_41_select_temperature(backend: Backend) -> None:
    """Above temperature 0 an option is drawn."""
    method = CHOICES_METHODS["token_length_normalized"]
    state = choosing.run(method, 0.7, backend=backend)

    assert state["city"] in (" London", " Paris")


def test_row_37_samples(backend: Backend) -> None:
    """``n`` gives a list, and the first sample goes on."""

    @sgl.function
    def sampled(s: sgl.ProgramState) -> None:
        s += PARIS + sgl.gen("a", n=3, max_tokens=4) + "."

    state = sampled.run(backend=backend)

    assert len(state["a"]) == 3
    assert state.text() == PARIS + state["a"][0] + "."


def test_row_45_unnamed_select(backend: Backend) -> None:
    """The option stands in the text."""

    @sgl.function
    def unnamed(s: sgl.ProgramState) -> None:
        s += PARIS
        s += sgl.select(choices=[" London", " Paris"])

    assert unnamed.run(backend=backend).text() == f"{PARIS} Paris"


def test_rows_102_and_103_images(backend: Backend, tmp_path: Any) -> None:
    """A model that sees nothing is not sent images, and that is said by name."""
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")

    @sgl.function
    def seeing(s: sgl.ProgramState) -> None:
        s += sgl.user(sgl.image(str(tmp_path / "a.png")) + "What is it?")
        s += sgl.assistant(sgl.gen("a"))

    error = seeing.run(backend=backend).error()

    assert isinstance(error, UnsupportedFeatureError)
    assert "images" in str(error)


@pytest.mark.parametrize(
    ("constraint", "fits"),
    [
        ({"regex": r"[0-9]{3}-[0-9]{4}"}, lambda t: re.fullmatch(r"\d{3}-\d{4}", t)),
        ({"regex": "(yes|no)[.!]?"}, lambda t: re.fullmatch("(yes|no)[.!]?", t)),
        ({"ebnf": 'root ::= " Paris" | " Rome"'}, lambda t: t in (" Paris", " Rome")),
        ({"dtype": int}, int),
        ({"dtype": bool}, lambda t: t in ("True", "False")),
        (
            {"json_schema": '{"enum": ["a", "b"]}'},
            lambda t: json.loads(t) in ("a", "b"),
        ),
    ],
)
def test_constraints_are_kept(
    backend: Backend, constraint: dict[str, Any], fits: Any
) -> None:
    """A generation held to a pattern, grammar, type or schema fits it."""

    @sgl.function
    def held(s: sgl.ProgramState) -> None:
        s += PARIS + sgl.gen("a", max_tokens=24, temperature=0, **constraint)

    state = held.run(backend=backend)

    assert fits(state["a"]) not in (None, False)


@pytest.mark.parametrize("constraint", [{"regex": "(?<=a)b"}, {"ebnf": "root := ("}])
def test_a_constraint_that_cannot_be_is_the_rows_fault(
    backend: Backend, constraint: dict[str, Any]
) -> None:
    """The server's words say what is wrong with it."""

    @sgl.function
    def held(s: sgl.ProgramState) -> None:
        s += PARIS + sgl.gen("a", **constraint)

    with pytest.raises(BadRequestError, match="Failed to compile"):
        held.run(backend=backend).sync()


def test_an_empty_prompt_does_not_end_the_server(backend: Backend, url: str) -> None:
    """A prompt of no tokens is refused before it is sent: it would end the server."""

    @sgl.function
    def empty(s: sgl.ProgramState) -> None:
        s += sgl.gen("a", max_tokens=2)

    with pytest.raises(BadRequestError, match="empty prompt"):
        empty.run(backend=backend).sync()
    assert asked(url, "/tokenize", {"model": "smollm2", "prompt": "a"})["count"] == 1


def test_a_request_that_is_given_up_is_given_up_there(url: str) -> None:
    """After a timeout the server is told to stop, before it sees that nobody waits."""
    options = BackendOptions(url=url, chat_template="chatml", timeout_s=2)
    hasty = create_backend("sglang", options)

    @sgl.function
    def long(s: sgl.ProgramState) -> None:
        s += "A long story: " + sgl.gen("a", max_tokens=1500, ignore_eos=True)

    with pytest.raises(BackendTimeoutError):
        long.run(backend=hasty).sync()
    given_up = time.monotonic()
    hasty.close()
    options = BackendOptions(url=url, chat_template="chatml", timeout_s=60)
    with create_backend("sglang", options) as patient:
        assert flushed(patient)
    # It looks for connections that are gone every 4 s.
    assert time.monotonic() - given_up < 3


def flushed(backend: Backend) -> bool:
    """Tell whether the cache can be emptied, which it cannot while anything runs."""
    return any(backend.flush_cache() for _ in range(2000))


def test_a_prefix_is_read_once(backend: Backend) -> None:
    """With precache every row reads the shared prefix from the cache."""
    shots = "".join(
        f"Message: where is parcel {i}?\nKind: shipping\n" for i in range(12)
    )

    @sgl.function
    def sorting(s: sgl.ProgramState, text: str) -> None:
        s += f"Sort messages.\n{shots}Message: " + text + "\nKind:"
        s += sgl.gen("kind", max_tokens=2, temperature=0)

    assert flushed(backend)
    prefix = Prompt().with_text(f"Sort messages.\n{shots}Message: ")
    spent = backend.cache_prefix(prefix)
    state = sorting.run("where is my order?", backend=backend)
    cached = state.get_meta_info("kind")["cached_tokens"]

    assert math.isclose(cached, spent.prompt_tokens, abs_tol=2)


@pytest.mark.parametrize("server", ["sglang", "sglang-incremental"])
def test_row_85_streams(rack: Rack, server: str) -> None:
    """Whether events repeat the text or only add to it, each piece is told once."""
    options = BackendOptions(
        url=rack.address(server), chat_template="chatml", timeout_s=180
    )

    @sgl.function
    def streamed(s: sgl.ProgramState) -> None:
        s += PARIS + sgl.gen("a", max_tokens=8, temperature=0, stop="2018")

    with create_backend("sglang", options) as made:
        state = streamed.run(backend=made, stream=True)
        told = "".join(state.text_iter())
        whole = streamed.run(backend=made)["a"]

    assert told == PARIS + whole == PARIS + state["a"]
