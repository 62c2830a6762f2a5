"""Reasoning: telling what a model thought from what it answers.

The tags are those that the models' own templates use; the names are SGLang's.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningFormat:
    """How a family of models marks its reasoning.

    Attributes:
        name: what ``separate_reasoning`` calls it.
        begin: the tag before the reasoning.
        end: the tag after it.
        forced: the text begins inside the reasoning, with or without ``begin``.
        also_ends: texts that end the reasoning and belong to the answer.
        closes: what may stand between the reasoning and ``end``.
        answers: the tag before an answer without reasoning.
    """

    name: str
    begin: str = "<think>"
    end: str = "</think>"
    forced: bool = False
    also_ends: tuple[str, ...] = ()
    closes: str = ""
    answers: str = ""


REASONING_FORMATS: Mapping[str, ReasoningFormat] = {
    each.name: each
    for each in (
        ReasoningFormat(name="deepseek-r1", forced=True),
        ReasoningFormat(name="deepseek-v3"),
        ReasoningFormat(name="glm45", also_ends=("<tool_call>",)),
        # Where the server keeps special tokens; the marks are those of the template in
        # llama.cpp's openai-gpt-oss-120b.jinja.
        ReasoningFormat(
            name="gpt-oss",
            begin="<|channel|>analysis<|message|>",
            end="<|start|>assistant<|channel|>final<|message|>",
            closes="<|end|>",
            answers="<|channel|>final<|message|>",
        ),
        ReasoningFormat(name="kimi", begin="◁think▷", end="◁/think▷"),
        ReasoningFormat(name="qwen3", also_ends=("<tool_call>",)),
        ReasoningFormat(name="qwen3-thinking", forced=True),
        ReasoningFormat(name="step3", forced=True),
    )
}


def reasoning_format(name: str | None) -> ReasoningFormat:
    """Return the format called *name*.

    Raises:
        ValueError: there is none.
    """
    found = REASONING_FORMATS.get(name.lower()) if name is not None else None
    if found is None:
        known = ", ".join(sorted(REASONING_FORMATS))
        raise ValueError(f"unknown reasoning model type {name!r} (one of: {known})")
    return found


def split_reasoning(
    text: str, marks: ReasoningFormat, *, complete: bool = True
) -> tuple[str, str]:
    """Return the reasoning and the answer in *text*.

    Where *text* may still grow (not *complete*), the answer is held back as far as more
    text could change it, so that it only ever grows.
    """
    body, begun = text.lstrip(), marks.forced
    while body.startswith(marks.begin):
        body, begun = body[len(marks.begin) :].lstrip(), True
    if not begun and marks.answers and body.startswith(marks.answers):
        return "", body.removeprefix(marks.answers).strip()
    if not begun:
        opens = any(tag.startswith(body) for tag in (marks.begin, marks.answers))
        return "", "" if opens and not complete else text
    ends = {body.find(end): end for end in (marks.end, *marks.also_ends)}
    at = min((place for place in ends if place >= 0), default=-1)
    thought = (body if at < 0 else body[:at]).strip().removesuffix(marks.closes)
    answer = "" if at < 0 else body[at:].removeprefix(marks.end)
    return thought.strip(), answer.strip()
