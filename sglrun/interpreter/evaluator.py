"""The evaluator: what each expression means for a prompt and its variables.

Rule: one thread at a time; it never waits but for the backend, and it knows nothing of
queues, futures or forks.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

from sglrun.backends.base import (
    Backend,
    Request,
    Sample,
    SelectRequest,
    StreamedText,
)
from sglrun.backends.refusal import refuse_media
from sglrun.errors import ResponseError
from sglrun.interpreter.seeds import branch_seed, choice_seed
from sglrun.interpreter.text_stream import GeneratedText, TextStream, TextStreams
from sglrun.lang import ir
from sglrun.lang.choices import ChoiceScore, ChoicesDecision
from sglrun.lang.prompt import Prompt
from sglrun.lang.reasoning import ReasoningFormat, split_reasoning
from sglrun.lang.sampling import DEFAULTS, SamplingParams

Name = str | None


class Evaluator:
    """A prompt and variables that grow by one expression at a time.

    Attributes:
        prompt: everything said so far.
        values: the variables, in order of assignment.
        meta_info: what the backend told about each.
        finish_reasons: why each generation ended.
        assigned: the names assigned here, not inherited from before a fork.
        said: what was said here, answers as texts; not what stood before a fork.
        branch: the number of the fork that this is, after those of the forks around.
        streams: the texts as they grow, where the program is streamed.
    """

    def __init__(
        self,
        backend: Backend,
        sampling: SamplingParams,
        prompt: Prompt,
        streams: TextStreams | None = None,
    ) -> None:
        """Begin with *prompt* and no variables."""
        self._backend = backend
        self._sampling = sampling
        self.prompt = prompt
        self.values: dict[Name, object] = {}
        self.meta_info: dict[Name, object] = {}
        self.finish_reasons: dict[Name, str] = {}
        self.assigned: dict[Name, None] = {}
        self.said: list[ir.Piece] = []
        self.branch: tuple[int, ...] = ()
        self.streams = streams
        self._scope_starts: dict[str, int] = {}
        self._stream_text(prompt.text)

    def forked(self, number: int, streams: TextStreams | None) -> "Evaluator":
        """Return an evaluator that goes on from here on its own, fork *number*."""
        child = Evaluator(self._backend, self._sampling, self.prompt, streams)
        child.branch = (*self.branch, number)
        child.values = dict(self.values)
        child.meta_info = dict(self.meta_info)
        child.finish_reasons = dict(self.finish_reasons)
        if streams is not None:
            for name, value in child.values.items():
                streams.complete(name, value)
        return child

    def execute(self, piece: ir.Piece) -> tuple[object, ...]:
        """Execute *piece*; return the values of the variables that it defines.

        Raises:
            BackendError: the backend gave no usable answer.
            ProgramError: the piece does not fit here.
        """
        match piece:
            case ir.Gen() | ir.Select():
                return self._ask(piece)
            case ir.VarScopeBegin(name=name):
                self._scope_starts[name] = len(self.prompt.text)
            case ir.VarScopeEnd(name=name):
                text = self.prompt.text[self._scope_starts.pop(name) :]
                return (self.assign(name, text),)
            case _:
                self._advance(piece)
        return ()

    def assign(self, name: Name, value: object, text: str | None = None) -> object:
        """Give the variable *name* its *value*, whose *text* is streamed."""
        self.values[name] = value
        self.assigned[name] = None
        if self.streams is not None:
            self.streams.complete(name, value if text is None else text)
        return value

    def _advance(self, piece: ir.Text | ir.RoleBegin | ir.RoleEnd | ir.Image) -> None:
        before = len(self.prompt.text)
        self.said.append(piece)
        match piece:
            case ir.Text(value=value):
                self.prompt = self.prompt.with_text(value)
            case ir.RoleBegin(role=role):
                self.prompt = self.prompt.with_role_begin(role)
            case ir.RoleEnd(role=role):
                self.prompt = self.prompt.with_role_end(role)
            case ir.Image(image=image):
                self.prompt = self.prompt.with_image(image)
            case _:
                assert_never(piece)
        self._stream_text(self.prompt.text[before:])

    def _ask(self, piece: ir.Gen | ir.Select) -> tuple[object, ...]:
        backend = self._backend
        if self.prompt.media:
            refuse_media(backend, self.prompt)
        if isinstance(piece, ir.Gen):
            return self._generate(piece)
        return self._select(piece)

    def _generate(self, gen: ir.Gen) -> tuple[object, ...]:
        sampling = self._resolved(gen.sampling)
        request = Request(prompt=self.prompt, sampling=sampling, branch=self.branch)
        listener = self._listener(gen)
        completion = self._backend.generate(
            request, None if listener is None else listener.hear
        )
        thoughts, answers = _split(gen, completion.samples)
        self._answer(answers[0])
        if listener is not None:
            listener.complete(answers[0])
        values = [
            _value(gen, answer, sample.finish_reason)
            for answer, sample in zip(answers, completion.samples, strict=True)
        ]
        several = sampling.n > 1
        meta = [dict(sample.meta_info) for sample in completion.samples]
        self.meta_info[gen.name] = meta if several else meta[0]
        self.finish_reasons[gen.name] = completion.samples[0].finish_reason
        value = self.assign(gen.name, values if several else values[0], answers[0])
        if gen.name is None or gen.reasoning is None:
            return (value,)
        thought = thoughts if several else thoughts[0]
        return value, self.assign(ir.reasoning_name(gen.name), thought)

    def _listener(self, gen: ir.Gen) -> "_Listener | None":
        if self.streams is None:
            return None
        streams = (self.streams.whole, self.streams.begin(gen.name))
        return _Listener(streams, gen.reasoning)

    def _select(self, select: ir.Select) -> tuple[object, ...]:
        asked = select_request(self.prompt, select, branch=self.branch)
        selection = self._backend.select(asked)
        chosen, meta = selection.chosen, _CONSTRAINED
        if selection.scores:
            decision = select.method(
                selection.scores,
                temperature=select.temperature,
                seed=choice_seed(self._sampling.seed, asked),
            )
            chosen, meta = decision.choice, _select_meta(selection.scores, decision)
        if chosen not in select.choices:
            raise ResponseError(f"the backend chose {chosen!r}, which is no choice")
        self._answer(chosen)
        self._stream_text(GeneratedText(chosen))
        if select.name is None:
            return ()
        self.meta_info[select.name] = meta
        return (self.assign(select.name, chosen),)

    def _answer(self, text: str) -> None:
        self.prompt = self.prompt.with_text(text)
        self.said.append(ir.Text(text))

    def _resolved(self, own: SamplingParams) -> SamplingParams:
        sampling = own.over(self._of_run(), DEFAULTS)
        ends = self.prompt.template.stop
        if not ends:
            return sampling
        stop = tuple(dict.fromkeys((*sampling.stop, *ends)))
        return SamplingParams(stop=stop).over(sampling)

    def _of_run(self) -> SamplingParams:
        """Return the run's parameters as this branch has them."""
        seed = self._sampling.seed
        if seed is None or not self.branch:
            return self._sampling
        if "seed" in self._backend.capabilities.unsupported_sampling:
            return self._sampling  # what it is told of it names the run's own
        return replace(self._sampling, seed=branch_seed(seed, self.branch))

    def _stream_text(self, text: str) -> None:
        if self.streams is not None:
            self.streams.whole.append(text)


def select_request(
    prompt: Prompt, select: ir.Select, *, branch: tuple[int, ...] = ()
) -> SelectRequest:
    """Return what a backend is asked for *select* after *prompt*."""
    return SelectRequest(
        prompt=prompt,
        choices=select.choices,
        unconditional=select.method.requires_unconditional_logprobs,
        needs_scores=select.temperature > 0 or select.method.needs_scores,
        branch=branch,
    )


_CONSTRAINED: Mapping[str, object] = {"choices_method": "constrained"}


class _Listener:
    """Passes a generation on as it comes, its reasoning held back."""

    def __init__(
        self, streams: tuple[TextStream, ...], reasoning: ReasoningFormat | None
    ) -> None:
        self._streams = streams
        self._reasoning = reasoning
        self._heard = ""
        self._passed = 0

    def hear(self, text: str) -> None:
        self._heard += text
        answer = self._heard
        if self._reasoning is not None:
            _, answer = split_reasoning(answer, self._reasoning, complete=False)
        meta_info = text.meta_info if isinstance(text, StreamedText) else None
        self.complete(answer, meta_info)

    def complete(
        self, answer: str, meta_info: Mapping[str, object] | None = None
    ) -> None:
        for stream in self._streams:
            stream.append(GeneratedText(answer[self._passed :], meta_info))
        self._passed = len(answer)


def _split(gen: ir.Gen, samples: tuple[Sample, ...]) -> tuple[list[str], list[str]]:
    pairs = [_thought_and_answer(gen, sample) for sample in samples]
    return [thought for thought, _ in pairs], [answer for _, answer in pairs]


def _thought_and_answer(gen: ir.Gen, sample: Sample) -> tuple[str, str]:
    if gen.reasoning is None:
        return "", sample.text
    told = sample.meta_info.get("reasoning_content")
    if isinstance(told, str) and told:  # the server has told them apart already
        return told, sample.text
    return split_reasoning(sample.text, gen.reasoning)


def _value(gen: ir.Gen, text: str, finish_reason: str) -> object:
    parse = _parser(gen)
    if parse is None:
        return text
    try:
        return parse(text)
    except ValueError as exc:
        raise ResponseError(
            f"{gen.name!r} is not the value that was asked for: {exc} "
            f"(finish reason {finish_reason!r})"
        ) from exc


def _parser(gen: ir.Gen) -> Callable[[str], object] | None:
    if not gen.typed:
        return None
    if gen.dtype is not None:
        return gen.dtype.parse
    return json.loads if gen.sampling.json_schema is not None else None


def _select_meta(
    scores: tuple[ChoiceScore, ...], decision: ChoicesDecision
) -> Mapping[str, object]:
    tokens = [
        [(token.logprob, token.token_id, token.text) for token in score.tokens]
        for score in scores
    ]
    return {
        "normalized_prompt_logprobs": [score.mean for score in scores],
        "input_token_logprobs": tokens,
        "output_token_logprobs": [[] for _ in scores],
        "probabilities": list(decision.probabilities),
        **decision.details,
    }
