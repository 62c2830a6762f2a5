"""Reasoning: what a model thought, and what it answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.lang.reasoning import (
    REASONING_FORMATS,
    reasoning_format,
    split_reasoning,
)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("qwen3", "<think>why</think> ans", ("why", "ans")),
        ("qwen3", "<think>\n<think>why\n</think>\n\nans\n", ("why", "ans")),
        ("qwen3", " plain ", ("", " plain ")),
        ("qwen3", "<think>no end", ("no end", "")),
        ("qwen3", "<think>a<tool_call>b", ("a", "<tool_call>b")),
        ("qwen3", "before <think>x</think>", ("", "before <think>x</think>")),
        ("deepseek-r1", "why</think>ans", ("why", "ans")),
        ("deepseek-r1", "<think>why</think>ans", ("why", "ans")),
        ("deepseek-r1", "all of it", ("all of it", "")),
        ("deepseek-v3", "all of it", ("", "all of it")),
        ("kimi", "◁think▷why◁/think▷ans", ("why", "ans")),
        ("glm45", "<think>why</think>ans", ("why", "ans")),
        ("qwen3-thinking", "why</think>ans</think>", ("why", "ans</think>")),
        ("step3", "why</think>", ("why", "")),
        (
            "gpt-oss",
            (
                "<|channel|>analysis<|message|>why<|end|>"
                "<|start|>assistant<|channel|>final<|message|>ans"
            ),
            ("why", "ans"),
        ),
        ("gpt-oss", "<|channel|>analysis<|message|>why<|end|>", ("why", "")),
        ("gpt-oss", "<|channel|>final<|message|>ans", ("", "ans")),
        ("gpt-oss", "ans", ("", "ans")),
    ],
)
def test_families_mark_their_reasoning(
    name: str, text: str, expected: tuple[str, str]
) -> None:
    """Reasoning and answer are told apart as each family marks them."""
    assert split_reasoning(text, reasoning_format(name)) == expected


@pytest.mark.parametrize("wrong", [None, "gpt2"])
def test_an_unknown_family_lists_the_known(wrong: str | None) -> None:
    """A model type that is not known is answered with those that are."""
    with pytest.raises(ValueError, match="one of: deepseek-r1, deepseek-v3, glm45"):
        reasoning_format(wrong)


def test_the_case_of_a_name_does_not_count() -> None:
    """Names are found as people write them."""
    assert reasoning_format("Qwen3") is REASONING_FORMATS["qwen3"]


PIECES = st.sampled_from(
    [
        *("<think>", "</think>", "<th", "ink>", "</", "<tool_call>", "a", " ", "\n"),
        *("<|channel|>analysis", "<|channel|>final", "<|message|>", "<|end|>", "b c"),
        "<|start|>assistant",
    ]
)


@given(st.lists(PIECES, max_size=8), st.sampled_from(sorted(REASONING_FORMATS)))
def test_a_growing_answer_only_grows(pieces: list[str], name: str) -> None:
    """What is passed on of an answer while it grows is a beginning of the whole one."""
    marks, text = REASONING_FORMATS[name], "".join(pieces)
    _, whole = split_reasoning(text, marks)
    shown = [
        split_reasoning(text[:end], marks, complete=False)[1]
        for end in range(len(text) + 1)
    ]

    assert all(whole.startswith(answer) for answer in shown)
    assert shown == sorted(shown, key=len)
