"""What requests may take."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.base import Capabilities, Request, SelectRequest, Usage
from sglrun.backends.mock import MockBackend
from sglrun.batch.needs import NeedCounter
from sglrun.errors import BackendUnreachableError
from sglrun.lang.prompt import ImageData, Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

NO_TOKENIZER = MockBackend(capabilities=Capabilities())


def request(text: str, **sampling: object) -> Request:
    return Request(
        prompt=Prompt(text=text), sampling=SamplingParams.of(**sampling).over(DEFAULTS)
    )


@given(st.text())
def test_a_text_has_at_most_one_token_a_byte(text: str) -> None:
    """Without a tokenizer no text can have more tokens than are held back for it."""
    most = NeedCounter(NO_TOKENIZER).of_request(request(text)).most

    assert most.prompt_tokens >= len(text.encode("utf-8", "replace"))
    assert most.completion_tokens == 128


def test_a_tokenizer_is_used_where_there_is_one() -> None:
    """An exact count is held back, and what a template adds."""
    exact = NeedCounter(MockBackend()).of_request(request("a b c " * 100))
    bound = NeedCounter(NO_TOKENIZER).of_request(request("a b c " * 100))

    assert exact.most.prompt_tokens < 350
    assert bound.most.prompt_tokens > 600


def test_a_tokenizer_that_is_down_is_done_without() -> None:
    """That a server cannot count now stops nothing."""

    class Down(MockBackend):
        def count_tokens(self, text: str) -> int:
            raise BackendUnreachableError(text)

    need = NeedCounter(Down()).of_request(request("a" * 500))

    assert need.most.prompt_tokens >= 500


def test_every_sample_is_counted() -> None:
    """Samples may be as many requests, one more where a server gives only one."""
    most = (
        NeedCounter(NO_TOKENIZER).of_request(request("q", n=3, max_new_tokens=10)).most
    )

    assert most.requests == 4
    assert most.completion_tokens == 40


def test_a_limit_passed_to_the_server_counts() -> None:
    """A longer limit that goes to the server as it is, is what may be generated."""
    given = request("q", max_new_tokens=10, extra={"max_tokens": 5000})

    assert NeedCounter(NO_TOKENIZER).of_request(given).most.completion_tokens == 5000


def test_images_are_counted() -> None:
    """An image takes as many tokens as models need for large ones."""
    asked = request("q")
    seen = replace(asked.prompt, media=(ImageData(data=b"x"),))
    most = NeedCounter(NO_TOKENIZER).of_request(replace(asked, prompt=seen)).most

    assert most.prompt_tokens > 16_000


def test_a_choice_reads_the_prompt_for_each_option() -> None:
    """Options that are scored cost the prompt each; one that is written, once."""
    choice = SelectRequest(prompt=Prompt(text="q" * 100), choices=("a", "b", "c"))
    scored = NeedCounter(NO_TOKENIZER).of_select(choice).most
    written = (
        NeedCounter(MockBackend(capabilities=Capabilities(choice_scores=False)))
        .of_select(choice)
        .most
    )

    assert scored.prompt_tokens > 900
    assert written.prompt_tokens < 350


def test_answers_teach_what_texts_have() -> None:
    """A rate is fed by an estimate that answers correct, upwards only."""
    counter = NeedCounter(NO_TOKENIZER)
    asked = request("x" * 4000)
    before = counter.of_request(asked).tokens
    counter.learn(asked.prompt, Usage(requests=1, prompt_tokens=3000))
    taught = counter.of_request(asked).tokens
    counter.learn(asked.prompt, Usage(requests=1, prompt_tokens=10))

    assert before < 1700
    assert taught > 2900
    assert counter.of_request(asked).tokens == taught


def test_requests_alone_need_no_tokenizer() -> None:
    """Where only requests are limited, nothing is counted."""

    class Silent(MockBackend):
        def count_tokens(self, text: str) -> int:
            raise AssertionError(text)

    need = NeedCounter(Silent(), tokens=False).of_request(request("q"))

    assert need.most.requests == 1
