"""The refusal of what a backend cannot do."""

from typing import Any

import pytest

from sglrun.backends.base import Capabilities, Request, SelectRequest
from sglrun.backends.refusal import refuse_choice, refuse_unsupported
from sglrun.errors import UnsupportedFeatureError
from sglrun.lang.prompt import ImageData, Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

PLAIN = Prompt().with_text("P")
TURN = Prompt().with_role_begin("assistant")
LITTLE = Capabilities(
    completion=False,
    prefill=False,
    regex=False,
    json_schema=False,
    choice_scores=False,
    unsupported_sampling=frozenset({"seed", "top_k"}),
)
MUCH = Capabilities(ebnf=True, images=True)


@pytest.mark.parametrize(
    ("prompt", "sampling", "feature"),
    [
        (PLAIN, {}, "a prompt without roles"),
        (TURN.with_text("Sure"), {}, "text inside assistant"),
        (TURN.with_image(ImageData(data=b"x")), {}, "text inside assistant|images"),
        (TURN, {"regex": "a"}, "regex='a'"),
        (TURN, {"json_schema": "{}"}, "json_schema"),
        (TURN, {"ebnf": "g"}, "ebnf"),
        (TURN, {"seed": 3}, "seed=3"),
        (TURN, {"top_k": 5}, "top_k=5"),
    ],
)
def test_each_feature_is_refused_by_name(
    prompt: Prompt, sampling: dict[str, Any], feature: str
) -> None:
    """What is not claimed is refused with its name and value, and passes if claimed."""
    asked = Request(
        prompt=prompt, sampling=SamplingParams.of(**sampling).over(DEFAULTS)
    )
    refuse_unsupported("m", MUCH, asked)

    with pytest.raises(UnsupportedFeatureError, match=f"m cannot do .*({feature})"):
        refuse_unsupported("m", LITTLE, asked)


def test_a_field_with_its_default_passes() -> None:
    """A sampling field that is not set away from its default asks for nothing."""
    refuse_unsupported("m", LITTLE, Request(prompt=TURN, sampling=DEFAULTS))


@pytest.mark.parametrize("more", [{"unconditional": True}, {"needs_scores": True}])
def test_a_choice_by_scores_wants_scores(more: dict[str, Any]) -> None:
    """A choice passes where options can be had; a draw or a method needs scores."""
    refuse_choice("m", LITTLE, SelectRequest(prompt=PLAIN, choices=("a",)))
    asked = SelectRequest(prompt=PLAIN, choices=("a",), **more)
    refuse_choice("m", MUCH, asked)

    with pytest.raises(UnsupportedFeatureError, match="no log-probabilities"):
        refuse_choice("m", LITTLE, asked)
