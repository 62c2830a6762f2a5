"""The evaluator: what expressions mean for a prompt and its variables."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.base import (
    Backend,
    Capabilities,
    Completion,
    OnText,
    Request,
    Sample,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.backends.mock import MockBackend
from sglrun.errors import ResponseError, UnsupportedFeatureError
from sglrun.interpreter.evaluator import Evaluator
from sglrun.interpreter.text_stream import TextStreams
from sglrun.lang import ir
from sglrun.lang.chat_template import get_chat_template
from sglrun.lang.prompt import ImageData, Prompt
from sglrun.lang.sampling import SamplingParams


class Choosing(Backend):
    """Chooses by writing, without scores."""

    kind = "choosing"
    model = "choosing"

    def __init__(self, chosen: str) -> None:
        self._chosen = chosen

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Refuse."""
        raise AssertionError(request, on_text)

    def select(self, request: SelectRequest) -> Selection:
        """Write the option that was given at the start, whatever *request* has."""
        del request
        return Selection(chosen=self._chosen, usage=Usage())


class Hearing(Backend):
    """Notes the seed that it is told, whatever it can do."""

    kind = "hearing"
    model = "hearing"
    seed: int | None = None

    def __init__(self, *unsupported: str) -> None:
        self.capabilities = Capabilities(unsupported_sampling=frozenset(unsupported))

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Note the seed."""
        del on_text
        self.seed = request.sampling.seed
        return Completion(
            samples=(Sample(text="", finish_reason="stop"),), usage=Usage()
        )


def new(
    backend: Backend, streams: TextStreams | None = None, **sampling: Any
) -> Evaluator:
    prompt = Prompt(template=backend.chat_template)
    return Evaluator(backend, SamplingParams.of(**sampling), prompt, streams)


def execute(evaluator: Evaluator, expr: ir.Expr) -> None:
    for piece in ir.flatten(expr):
        evaluator.execute(piece)


def test_parameters_are_complete_in_a_request() -> None:
    """The generation's parameters lie over the run's, and those over the defaults."""
    backend = MockBackend("x")
    execute(new(backend, top_p=0.5, n=1), sgl.gen("a", max_tokens=3))
    sampling = backend.requests[0].sampling

    assert (sampling.max_new_tokens, sampling.top_p, sampling.top_k) == (3, 0.5, -1)


def test_a_templates_stops_are_added_once() -> None:
    """The ends of a turn are among the stops of every generation, never twice."""
    template = get_chat_template("chatml")
    backend = MockBackend("x", chat_template=template)
    execute(new(backend), sgl.gen("a", stop=["\n", "<|im_end|>"]) + sgl.gen("b"))

    assert [request.sampling.stop for request in backend.requests] == [
        ("\n", "<|im_end|>"),
        ("<|im_end|>",),
    ]


@dataclass
class Point:
    """A schema."""

    x: int


@pytest.mark.parametrize(
    ("expr", "answer", "value"),
    [
        (sgl.gen("a", dtype=int, typed=True), "42", 42),
        (sgl.gen("a", dtype=bool, typed=True), "True", True),
        (sgl.gen("a", json_schema=Point, typed=True), '{"x": 1}', {"x": 1}),
        (sgl.gen("a", typed=True), "text", "text"),
        (sgl.gen("a", dtype=int), "42", "42"),
        (sgl.gen("a", n=2, dtype=int, typed=True), ["1", "2"], [1, 2]),
    ],
)
def test_a_value_is_typed_where_asked(expr: ir.Gen, answer: Any, value: Any) -> None:
    """The variable holds what the text spells, the prompt holds the text."""
    evaluator = new(MockBackend([answer]))
    execute(evaluator, expr)
    first = answer if isinstance(answer, str) else answer[0]

    assert evaluator.values == {"a": value}
    assert evaluator.prompt.text == first


@pytest.mark.parametrize(
    ("expr", "answer"),
    [
        (sgl.gen("a", dtype=int, typed=True), "forty"),
        (sgl.gen("a", json_schema=Point, typed=True), '{"x": '),
    ],
)
def test_a_text_that_spells_no_value_is_an_error(expr: ir.Gen, answer: str) -> None:
    """A value that was asked for and did not come is told with why it ended."""
    with pytest.raises(ResponseError, match=r"'a' is not the value.*reason 'stop'"):
        execute(new(MockBackend(answer)), expr)


def test_several_samples_are_a_list() -> None:
    """Each sample has its text and meta info; the first one goes on."""
    evaluator = new(MockBackend([["one", "two words"]]))
    execute(evaluator, "p " + sgl.gen("a", n=2))

    assert evaluator.values == {"a": ["one", "two words"]}
    assert evaluator.prompt.text == "p one"
    assert [meta["completion_tokens"] for meta in evaluator.meta_info["a"]] == [1, 2]  # type: ignore[attr-defined]
    assert evaluator.finish_reasons == {"a": "stop"}


def test_a_choice_without_scores() -> None:
    """A backend that writes its choice is taken by its word, which the meta says."""
    evaluator = new(Choosing("yes"))
    execute(evaluator, "p " + sgl.select("c", ["yes", "no"]))

    assert evaluator.prompt.text == "p yes"
    assert evaluator.meta_info["c"] == {"choices_method": "constrained"}


def test_a_choice_that_was_not_offered_is_an_error() -> None:
    """What the backend makes up is no choice."""
    with pytest.raises(ResponseError, match="chose 'maybe', which is no choice"):
        execute(new(Choosing("maybe")), sgl.select("c", ["yes", "no"]))


def test_scores_are_told() -> None:
    """Meta info has the scores, the tokens and a distribution over the options."""
    evaluator = new(MockBackend(scores={"yes": -0.1, "no way": -2.0}))
    execute(evaluator, sgl.select("c", ["yes", "no way"]))
    meta: Any = evaluator.meta_info["c"]

    assert evaluator.values == {"c": "yes"}
    assert meta["normalized_prompt_logprobs"] == [-0.1, -2.0]
    assert [len(tokens) for tokens in meta["input_token_logprobs"]] == [1, 2]
    assert sum(meta["probabilities"]) == pytest.approx(1.0)


def test_a_drawn_choice_follows_the_seed() -> None:
    """The run's seed makes a choice above temperature 0 repeatable."""
    expr = sgl.select("c", list("abcdefgh"), temperature=5.0)
    drawn = []
    for _ in range(3):
        evaluator = new(MockBackend(scores=lambda _: [-1.0] * 8), seed=11)
        execute(evaluator, expr)
        drawn.append(evaluator.values["c"])

    assert len(set(drawn)) == 1


def test_choices_of_a_seeded_run_are_drawn_apart() -> None:
    """Of two equal options, each is drawn by about half of the prompts."""
    expr = sgl.select("c", ["x", "y"], temperature=1.0)
    drawn = []
    for number in range(100):
        evaluator = new(MockBackend(scores=lambda _: [-1.0] * 2), seed=1)
        execute(evaluator, f"Row {number}: " + expr)
        drawn.append(evaluator.values["c"])

    assert 30 < drawn.count("x") < 70


def test_a_backend_without_seeds_is_told_the_runs_own() -> None:
    """What is left out is named as the user gave it, in branches too."""
    asked = []
    for backend in (Hearing(), Hearing("seed")):
        execute(new(backend, seed=3).forked(0, None), sgl.gen("a"))
        asked.append(backend.seed)

    assert asked[0] != 3
    assert asked[1] == 3


@pytest.mark.parametrize("ask", [sgl.gen("a"), sgl.select("a", ["x"])])
def test_an_image_needs_a_model_that_sees(ask: ir.Expr) -> None:
    """A request with an image to a model without eyes is refused by name."""
    backend = MockBackend("x", capabilities=Capabilities(images=False))

    with pytest.raises(UnsupportedFeatureError, match=r"'mock'.*takes no images"):
        execute(new(backend), sgl.user(sgl.image(b"\x89PNG")) + ask)

    assert (backend.requests, backend.selections) == ([], [])


def test_an_image_is_part_of_the_prompt() -> None:
    """A model that sees is sent the images so far."""
    backend = MockBackend("x")
    execute(new(backend), sgl.user(sgl.image("https://e.org/a.png")) + sgl.gen("a"))

    assert backend.requests[0].prompt.images == (ImageData(url="https://e.org/a.png"),)


def test_reasoning_is_not_streamed() -> None:
    """While it is generated, the text shows the answer and never the reasoning."""
    streams = TextStreams()
    backend = MockBackend("<think>why not</think> an answer")
    evaluator = new(backend, streams)
    execute(evaluator, "Q " + sgl.separate_reasoning(sgl.gen("a"), "qwen3"))
    streams.close(None)

    assert "".join(streams.whole) == evaluator.prompt.text == "Q an answer"
    assert "".join(streams.of("a")) == "an answer"
    assert evaluator.values["a_reasoning_content"] == "why not"


def test_reasoning_of_several_samples() -> None:
    """Each sample has its own reasoning."""
    evaluator = new(MockBackend([["<think>1</think>a", "<think>2</think>b"]]))
    execute(evaluator, sgl.separate_reasoning(sgl.gen("a", n=2), "qwen3"))

    assert evaluator.values == {"a": ["a", "b"], "a_reasoning_content": ["1", "2"]}


def test_a_fork_has_its_own_variables() -> None:
    """A forked evaluator knows what was before and assigns for itself."""
    evaluator = new(MockBackend("x"))
    execute(evaluator, sgl.gen("a"))
    child = evaluator.forked(0, None)
    execute(child, sgl.gen("b"))

    assert child.values == {"a": "x", "b": "x"}
    assert list(child.assigned) == ["b"]
    assert evaluator.values == {"a": "x"}
    assert json.dumps(child.meta_info["a"]) == json.dumps(evaluator.meta_info["a"])


@pytest.mark.parametrize("family", ["deepseek-r1", "qwen3", "gpt-oss"])
@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_that_the_server_has_told_apart_is_taken_as_it_is(
    family: str,
    stream: bool,  # noqa: FBT001 - a test's parameter
) -> None:
    """Where a server tells what the model thought, its text is all answer."""

    class Separating(MockBackend):
        def generate(
            self, request: Request, on_text: OnText | None = None
        ) -> Completion:
            made = super().generate(request, on_text)
            told = {"reasoning_content": "why"}
            samples = tuple(replace(each, meta_info=told) for each in made.samples)
            return replace(made, samples=samples)

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "Q" + sgl.separate_reasoning(sgl.gen("a"), family)

    state = program.run(backend=Separating("ans"), stream=stream)

    assert "".join(state.text_iter("a")) == "ans"
    assert (state["a"], state["a_reasoning_content"]) == ("ans", "why")
    assert state.text() == "Qans"
