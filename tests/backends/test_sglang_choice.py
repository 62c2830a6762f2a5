"""A choice on SGLang's native server."""

from typing import Any

import pytest

from sglrun.backends.base import BackendOptions, SelectRequest
from sglrun.backends.sglang import SGLangBackend, create
from sglrun.errors import BadRequestError
from sglrun.lang.choices import (
    greedy_token_selection,
    token_length_normalized,
    unconditional_likelihood_normalized,
)
from sglrun.lang.prompt import ImageData, Prompt
from tests.stand_in import StandIn

PLAIN = Prompt().with_text("Q: hi\nA:")


def connected(server: StandIn) -> SGLangBackend:
    return create(BackendOptions(url=server.url, chat_template="default"))


@pytest.mark.parametrize("log_format", ["padded", "old"])
@pytest.mark.parametrize("list_text", [True, False])
def test_options_are_scored_by_their_own_tokens(
    stand_in: StandIn, log_format: Any, *, list_text: bool
) -> None:
    """Both forms of log-probabilities, with lists or not, give the same scores."""
    stand_in.model.logprob_format = log_format
    stand_in.model.list_text = list_text
    stand_in.model.logprobs = {" yes": -0.5, " no": -0.2, " way": -1.5, ":": -3.0}
    selection = connected(stand_in).select(
        SelectRequest(
            prompt=Prompt(text="The answer to this question is:"),
            choices=(" yes", " no way"),
            unconditional=True,
        )
    )

    assert [score.mean for score in selection.scores] == pytest.approx([-0.5, -0.85])
    assert [[t.text for t in s.tokens] for s in selection.scores] == [
        [" yes"],
        [" no", " way"],
    ]
    assert [s.unconditional for s in selection.scores] == [(0.0,), (0.0, -1.5)]
    assert token_length_normalized(selection.scores).choice == " yes"
    assert greedy_token_selection(selection.scores).choice == " no way"
    assert unconditional_likelihood_normalized(selection.scores).choice == " no way"


def test_zero_log_probabilities_are_kept(stand_in: StandIn) -> None:
    """A certain token counts as one, and equal options go to the first."""
    stand_in.model.logprob = lambda _tokens, _at: 0.0
    scores = (
        connected(stand_in)
        .select(SelectRequest(prompt=PLAIN, choices=(" a b", " c")))
        .scores
    )

    assert [score.mean for score in scores] == [0.0, 0.0]
    assert [len(score.tokens) for score in scores] == [2, 1]


def test_options_are_scored_on_an_empty_prompt(stand_in: StandIn) -> None:
    """Without a prompt the options are scored from their second token."""
    stand_in.model.logprobs = {" b": -2.0}
    scores = (
        connected(stand_in).select(SelectRequest(prompt=Prompt(), choices=("a b", "c")))
    ).scores

    assert [score.mean for score in scores] == [-1.0, 0.0]


@pytest.mark.parametrize("log_format", ["padded", "old"])
def test_an_option_may_melt_into_the_prompt(stand_in: StandIn, log_format: Any) -> None:
    """A token that prompt and option share is the option's, also far from the end."""
    stand_in.model.logprob_format = log_format
    backend = connected(stand_in)
    near = backend.select(
        SelectRequest(prompt=Prompt(text="It is un"), choices=("do", " x"))
    )
    far = backend.select(
        SelectRequest(prompt=Prompt(text="a b c d e f g!!!!!!!!"), choices=(" x",))
    )

    assert [[t.text for t in s.tokens] for s in near.scores] == [[" undo"], [" x"]]
    assert [t.text for t in far.scores[0].tokens] == [" x"]


@pytest.mark.parametrize(("melted", "own"), [(11, 1), (3, 9)])
def test_an_option_that_changes_much_of_the_prompt_is_scored(
    stand_in: StandIn, melted: int, own: int
) -> None:
    """Where tokens part before what was scored, the prompt is scored from its start."""

    def tokens(text: str) -> list[str]:
        if not text.endswith("Z"):
            return list(text)
        return [text[:melted], *text[melted:]]

    stand_in.model.tokens = tokens  # type: ignore[method-assign]
    selection = connected(stand_in).select(
        SelectRequest(prompt=Prompt(text="abcdefghij"), choices=("Z", "y"))
    )

    assert [len(score.tokens) for score in selection.scores] == [own, 1]
    assert selection.scores[0].tokens[-1].text.endswith("Z")


def test_an_option_without_tokens_is_refused(stand_in: StandIn) -> None:
    """An empty option has no probability."""
    with pytest.raises(BadRequestError, match="adds no token"):
        connected(stand_in).select(SelectRequest(prompt=PLAIN, choices=("", " x")))


def test_a_server_that_takes_no_lists_is_remembered(stand_in: StandIn) -> None:
    """After the first refusal, options go one by one at once."""
    stand_in.model.list_text = False
    backend = connected(stand_in)
    for _ in range(2):
        backend.select(SelectRequest(prompt=PLAIN, choices=(" a", " b")))
    lists = [sent for sent in stand_in.generations if isinstance(sent["text"], list)]

    assert len(lists) == 1


def test_images_are_sent_with_every_option(stand_in: StandIn) -> None:
    """Options after an image are scored one by one, each with the image."""
    asked = Prompt().with_image(ImageData(data=b"abc")).with_text("Is it red?")
    connected(stand_in).select(SelectRequest(prompt=asked, choices=(" yes", " no")))

    assert all(p["image_data"] == ["YWJj"] for p in stand_in.generations)


def test_the_cost_of_a_choice_is_all_its_requests(stand_in: StandIn) -> None:
    """Reading the prompt and scoring count, and the prompt is cached in between."""
    usage = (
        connected(stand_in)
        .select(SelectRequest(prompt=PLAIN, choices=(" a", " b")))
        .usage
    )

    assert usage.requests == 2
    assert usage.cached_tokens > 0
