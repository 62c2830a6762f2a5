"""The mock backend."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sglrun.backends.base import (
    BackendOptions,
    Capabilities,
    Request,
    SelectRequest,
)
from sglrun.backends.mock import Answers, MockBackend, create
from sglrun.errors import (
    BadRequestError,
    ConfigError,
    RateLimitError,
    UnsupportedFeatureError,
)
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams


def request(text: str = "Q: hi\nA:", /, **sampling: Any) -> Request:
    return Request(
        prompt=Prompt(text=text), sampling=SamplingParams.of(**sampling).over(DEFAULTS)
    )


def test_without_a_script_the_same_request_gets_the_same_answer() -> None:
    """An answer is made up from the prompt, and again the same."""
    backend = MockBackend()
    first, second = (backend.generate(request()) for _ in range(2))

    assert first == second
    assert first.samples[0].text == "answer to Q: hi A:"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("one", ["one", "one"]),
        (["one", "two"], ["one", "two"]),
        ({"x": "no", "A:": "after A"}, ["after A", "after A"]),
        ({"Q:": "early", "hi\n": "late"}, ["late"]),
        (lambda r: r.prompt.text.upper(), ["Q: HI\nA:"]),
    ],
)
def test_a_script_may_be_text_list_mapping_or_function(
    answers: Answers, expected: list[str]
) -> None:
    """Every form of script gives its answers in order of arrival."""
    backend = MockBackend(answers)

    assert [backend.generate(request()).samples[0].text for _ in expected] == expected


@pytest.mark.parametrize("answers", [["only"], {"nowhere": "x"}])
def test_a_script_that_has_no_answer_says_so(answers: Answers) -> None:
    """A request beyond the script is refused with the end of its prompt."""
    backend = MockBackend(answers)
    if isinstance(answers, list):
        backend.generate(request())

    with pytest.raises(BadRequestError, match=r"mock.*hi\\nA:"):
        backend.generate(request())


def test_a_scripted_exception_is_raised() -> None:
    """An exception in the script takes the place of the answer."""
    failure = RateLimitError("slow down", retry_after_s=1.5)

    with pytest.raises(RateLimitError) as caught:
        MockBackend([failure]).generate(request())

    assert caught.value is failure


@pytest.mark.parametrize(
    ("sampling", "text", "reason"),
    [
        ({"max_new_tokens": 2}, "one two", "length"),
        ({"max_new_tokens": 3}, "one two three.", "stop"),
        ({"max_new_tokens": 0}, "", "length"),
        ({"stop": ["three", " two"]}, "one", "stop"),
        ({"stop_regex": "t[hw]"}, "one ", "stop"),
    ],
)
def test_answers_are_cut_as_a_model_would(
    sampling: dict[str, Any], text: str, reason: str
) -> None:
    """Stop strings and the token limit cut the answer, and the reason says which."""
    sample = MockBackend("one two three.").generate(request(**sampling)).samples[0]

    assert (sample.text, sample.finish_reason) == (text, reason)


def test_samples_are_n_texts() -> None:
    """``n`` gives as many samples, from one text, from several, or made up."""
    asked = request(n=3)
    made_up = MockBackend().generate(asked).samples

    assert len({sample.text for sample in made_up}) == 3
    assert [s.text for s in MockBackend("a").generate(asked).samples] == ["a"] * 3
    scripted = MockBackend([["a", "b", "c"]]).generate(asked).samples
    assert [s.text for s in scripted] == ["a", "b", "c"]


def test_made_up_answers_fit_their_constraint() -> None:
    """A pattern and a schema are satisfied by the answer made up for them."""
    backend = MockBackend()
    pattern = r"[0-9]{3}-[0-9]{4}"
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
    matched = backend.generate(request(regex=pattern)).samples[0].text
    parsed = backend.generate(request(json_schema=schema)).samples[0].text

    assert re.fullmatch(pattern, matched)
    assert json.loads(parsed) == {}


@pytest.mark.parametrize("sampling", [{"regex": "(?=b)a"}, {"ebnf": 'root ::= "a"'}])
def test_a_constraint_that_is_not_understood_is_refused(
    sampling: dict[str, Any],
) -> None:
    """The mock never answers what the constraint forbids."""
    with pytest.raises(BadRequestError, match="cannot make up"):
        MockBackend().generate(request(**sampling))


def test_pieces_joined_are_the_text() -> None:
    """Streaming gives the answer in several pieces."""
    pieces: list[str] = []
    completion = MockBackend(" a b\n c ").generate(request(), pieces.append)

    assert len(pieces) > 1
    assert "".join(pieces) == completion.samples[0].text == " a b\n c "


def test_scores_follow_the_script() -> None:
    """The option that the script scores highest has the highest mean."""
    asked = SelectRequest(
        prompt=Prompt(text="P"), choices=("yes", "no way"), unconditional=True
    )
    by_option = MockBackend(scores={"yes": -1.0, "no way": -0.5}).select(asked)
    by_function = MockBackend(scores=lambda _: [-0.1, -0.2]).select(asked)

    assert [score.mean for score in by_option.scores] == [-1.0, -0.5]
    assert by_option.scores[1].unconditional == (0.0, -1.0)
    assert [score.mean for score in by_function.scores] == [-0.1, -0.2]


def test_made_up_scores_are_the_same_each_time() -> None:
    """Without a script the same choice is taken again."""
    asked = SelectRequest(prompt=Prompt(text="P"), choices=("a", "b", ""))

    assert MockBackend().select(asked) == MockBackend().select(asked)


def test_a_cached_prefix_counts_until_it_is_flushed() -> None:
    """Prompts that begin with a cached prefix report its words as cached."""
    backend = MockBackend("x")
    backend.cache_prefix(Prompt(text="one two "))
    cached = backend.generate(request("one two three")).usage
    backend.flush_cache()
    again = backend.generate(request("one two three")).usage

    assert (cached.prompt_tokens, cached.cached_tokens) == (3, 2)
    assert again.cached_tokens == 0


def test_everything_asked_is_kept() -> None:
    """Requests from many threads are all kept, and none waits for another's answer."""
    meeting = threading.Barrier(4, timeout=10)

    def answer(_: Request) -> str:
        meeting.wait()
        return "met"

    backend = MockBackend(answer)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(backend.generate, [request(str(i)) for i in range(4)]))

    assert sorted(r.prompt.text for r in backend.requests) == list("0123")


def test_log_probabilities_are_reported_when_asked() -> None:
    """``return_logprob`` gives a triple for each token."""
    sample = MockBackend("a b").generate(request(return_logprob=True)).samples[0]

    assert sample.meta_info["output_token_logprobs"] == [
        [-0.5, 0, "a"],
        [-0.5, 1, " b"],
    ]


def test_options_name_model_and_template() -> None:
    """The command line's options reach the backend; a wrong template is named."""
    with create(BackendOptions(model="m", chat_template="chatml")) as backend:
        assert (backend.model, backend.chat_template.name) == ("m", "chatml")

    assert backend.closed
    with pytest.raises(ConfigError, match="chatmll"):
        create(BackendOptions(chat_template="chatmll"))


def test_without_scores_an_option_is_taken() -> None:
    """A mock that claims no scores gives the option alone, as some servers do."""
    backend = MockBackend(
        scores={"a": -2.0, "b": -1.0}, capabilities=Capabilities(choice_scores=False)
    )
    asked = SelectRequest(prompt=Prompt(text="P"), choices=("a", "b"))

    assert backend.select(asked).chosen == "b"
    assert backend.select(asked).scores == ()


def test_what_is_not_claimed_is_refused() -> None:
    """A program can be tested against what a backend lacks."""
    backend = MockBackend(capabilities=Capabilities(regex=False, select=False))

    with pytest.raises(UnsupportedFeatureError, match=r"the mock cannot do regex='a'"):
        backend.generate(request(regex="a"))
    with pytest.raises(UnsupportedFeatureError, match="cannot do select among"):
        backend.select(SelectRequest(prompt=Prompt(text="P"), choices=("a", "b")))
