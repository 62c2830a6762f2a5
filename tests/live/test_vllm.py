"""OpenAI's shape on a real vLLM server: exact choices, constraints, its prefix cache.

See ``servers`` for the server.
"""

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions, Request, SelectRequest
from sglrun.lang.choices import CHOICES_METHODS
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams
from tests.live.conftest import Rack

pytestmark = pytest.mark.live

PARIS = "The capital of France is"
CASES = [
    (PARIS, (" Paris", " London", " Berlin and more")),
    ("Is water wet? Answer:", (" yes", " no way")),
    ("Q: 2+2=\n", ("4", "5", "44")),
    ("The word is 'hel", ("lo'", "p'", "met'")),
    ("Ends with lines\n\n", ("A", "B\n", "\nC")),
    ("Trailing space ", ("word", "other words", " double")),
]


@pytest.fixture(scope="module")
def url(rack: Rack) -> str:
    return rack.address("vllm")


@pytest.fixture(scope="module")
def backend(url: str) -> Iterator[Backend]:
    """The backend, found by the address alone."""
    made = create_backend("auto", BackendOptions(url=url, timeout_s=240))
    assert made.kind == "openai"
    assert made.capabilities.choice_scores
    yield made
    made.close()


def asked(url: str, path: str, payload: object) -> Any:
    """Return the server's own answer, by no code of ours."""
    request = urllib.request.Request(  # noqa: S310 - our own address
        url + path,
        json.dumps({"model": "smollm2", **payload}).encode(),  # type: ignore[dict-item]
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=240) as reply:  # noqa: S310
        return json.load(reply)


def fully_scored(url: str, prompt: str, choice: str) -> list[float]:
    """Return the log-probabilities of the option, all of the text being scored."""
    payload = {"prompt": prompt + choice, "max_tokens": 1, "prompt_logprobs": 0}
    told = asked(url, "/v1/completions", payload)["choices"][0]["prompt_logprobs"]
    before, whole = (
        asked(url, "/tokenize", {"prompt": text})["tokens"]
        for text in (prompt, prompt + choice)
    )
    start = 0
    while start < min(len(before), len(whole)) and before[start] == whole[start]:
        start += 1
    return [
        entry[str(token)]["logprob"] if entry else 0.0
        for entry, token in zip(told[start:], whole[start:], strict=True)
    ]


@pytest.mark.parametrize(("prompt", "choices"), CASES)
def test_select_is_exact(
    backend: Backend, url: str, prompt: str, choices: tuple[str, ...]
) -> None:
    """Scores are those of the whole text, and each method takes an option."""
    given = SelectRequest(
        prompt=Prompt().with_text(prompt), choices=choices, unconditional=True
    )
    scores = backend.select(given).scores

    for score in scores:
        exact = fully_scored(url, prompt, score.choice)
        assert [t.logprob for t in score.tokens] == pytest.approx(exact, abs=1e-2)
    for method in CHOICES_METHODS.values():
        assert method(scores).choice in choices


@pytest.mark.parametrize("begun", ["", "It is"])
def test_select_in_a_chat_is_exact(backend: Backend, url: str, begun: str) -> None:
    """In a chat the options are scored after the turns as the server writes them."""
    question = [{"role": "user", "content": "What is the capital of France?"}]
    ids = asked(url, "/tokenize", {"messages": question})["tokens"]
    written = asked(url, "/detokenize", {"tokens": ids})["prompt"] + begun
    prompt = Prompt().with_role_begin("user").with_text(question[0]["content"])
    prompt = prompt.with_role_end("user").with_role_begin("assistant").with_text(begun)
    given = SelectRequest(prompt=prompt, choices=(" Paris", " London"))

    for score in backend.select(given).scores:
        exact = fully_scored(url, written, score.choice)
        assert [t.logprob for t in score.tokens] == pytest.approx(exact, abs=1e-2)


@pytest.mark.parametrize(
    ("constraint", "fits"),
    [
        ({"regex": r"[0-9]{3}-[0-9]{4}"}, lambda t: re.fullmatch(r"\d{3}-\d{4}", t)),
        ({"ebnf": 'root ::= " Paris" | " Rome"'}, lambda t: t in (" Paris", " Rome")),
        ({"dtype": int}, int),
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

    assert fits(held.run(backend=backend)["a"]) not in (None, False)


def test_a_prefix_is_read_once(backend: Backend) -> None:
    """A prefix of some blocks is not computed again; the server caches whole ones."""
    shots = "".join(
        f"Message: where is parcel {i}?\nKind: shipping\n" for i in range(30)
    )
    prefix = Prompt().with_text(f"Sort each message.\n{shots}Message: ")
    spent = backend.cache_prefix(prefix)

    sampling = SamplingParams.of(max_new_tokens=2).over(DEFAULTS)
    row = Request(prompt=prefix.with_text("where is my order?\n"), sampling=sampling)
    usage = backend.generate(row).usage

    assert spent.prompt_tokens > 256
    assert usage.cached_tokens >= 256
