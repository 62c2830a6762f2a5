"""The mock backend: scripted answers, for programs under test and for dry runs.

Words count as tokens. Everything it is asked is kept, so that a test can look.
"""

import itertools
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from sglrun.backends.base import (
    Backend,
    BackendOptions,
    Capabilities,
    Completion,
    OnText,
    Request,
    Sample,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.backends.instances import json_instance, regex_instance
from sglrun.backends.named_template import named_template
from sglrun.backends.refusal import refuse_choice, refuse_unsupported
from sglrun.errors import BadRequestError
from sglrun.lang.chat_template import DEFAULT_TEMPLATE, ChatTemplate
from sglrun.lang.choices import ChoiceScore, TokenLogprob
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

Answer = str | Sequence[str] | Exception
"""A text, one text for each of ``n`` samples, or an exception that is raised."""

Answers = Callable[[Request], Answer] | Mapping[str, Answer] | Sequence[Answer] | str
Scores = Callable[[SelectRequest], Sequence[float]] | Mapping[str, float]

_TOKEN = re.compile(r"\s*\S+(?:\s+\Z)?|\s+\Z")
_ECHOED_WORDS = 6


class MockBackend(Backend):
    """A backend that answers from a script and remembers what it was asked.

    Attributes:
        requests: every generation asked for, in order of arrival.
        selections: every choice asked for, in order of arrival.
        prefixes: the texts given to ``cache_prefix``, in order of arrival.
        scored_prefixes: those of them after which nothing is generated.
        closed: whether ``close`` was called.
    """

    kind = "mock"

    def __init__(
        self,
        answers: Answers | None = None,
        *,
        scores: Scores | None = None,
        model: str = "mock",
        chat_template: ChatTemplate = DEFAULT_TEMPLATE,
        capabilities: Capabilities | None = None,
        remembers: bool = True,
    ) -> None:
        """Take the script.

        Args:
            answers: a function of the request; or one text for all; or answers given
                out in order of arrival; or a mapping from a piece of text to the
                answer that follows it, where the piece that ends latest in the prompt
                decides. Scripted answers are given as they are, cut only by ``stop``
                and ``max_new_tokens``. Without a script, a short answer is made up
                that fits the request's constraint, the same for the same request.
            scores: the mean log-probability of each option of a ``select``, by a
                function or by option; without it, scores are made up from the text.
            model: the name in results.
            chat_template: how roles are written in the prompt's text.
            capabilities: what to claim; everything by default. What is not claimed
                is refused, and without ``choice_scores`` a ``select`` gets only the
                option that is taken.
            remembers: keep what is asked; a run of many rows does without.
        """
        self.model = model
        self.chat_template = chat_template
        self.capabilities = capabilities or _EVERYTHING
        self.requests: list[Request] = []
        self.selections: list[SelectRequest] = []
        self.prefixes: list[str] = []
        self.scored_prefixes: list[str] = []
        self.closed = False
        self._remembers = remembers
        self._scores = scores
        self._lock = threading.Lock()
        self._answer = self._answerer(answers)

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the scripted answer to *request*; raises the one that is scripted.

        Raises:
            BadRequestError: no answer is left, or none can be made up.
        """
        if self._remembers:
            self.requests.append(request)
        self.check(request)
        answer = self._answer(request)
        if isinstance(answer, Exception):
            raise answer
        texts = [answer] * request.sampling.n if isinstance(answer, str) else answer
        samples = tuple(_sample(text, request.sampling) for text in texts)
        if on_text is not None:
            for piece in _TOKEN.findall(samples[0].text):
                on_text(piece)
        return Completion(samples=samples, usage=self._usage(request.prompt, samples))

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if the capabilities cover it."""
        if isinstance(request, Request):
            refuse_unsupported("the mock", self.capabilities, request)
        else:
            refuse_choice("the mock", self.capabilities, request)

    def select(self, request: SelectRequest) -> Selection:
        """Return the scripted scores of the options, or the best of them."""
        if self._remembers:
            self.selections.append(request)
        self.check(request)
        means = self._means(request)
        usage = self._usage(request.prompt, ())
        if not self.capabilities.choice_scores:
            best = max(range(len(means)), key=means.__getitem__)
            return Selection(chosen=request.choices[best], usage=usage)
        return Selection(
            scores=tuple(
                _score(choice, mean, unconditional=request.unconditional)
                for choice, mean in zip(request.choices, means, strict=True)
            ),
            usage=usage,
        )

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Count later prompts that begin with *prompt* as cached so far."""
        usage = self._usage(prompt, ())
        with self._lock:
            self.prefixes.append(prompt.text)
            if only_scored:
                self.scored_prefixes.append(prompt.text)
        return usage

    def count_tokens(self, text: str) -> int:
        """Return the number of words of *text*."""
        return len(_TOKEN.findall(text))

    def flush_cache(self) -> bool:
        """Forget the prefixes."""
        with self._lock:
            self.prefixes.clear()
            self.scored_prefixes.clear()
        return True

    def get_server_info(self) -> Mapping[str, object]:
        """Return the model's name."""
        return {"model": self.model}

    def close(self) -> None:
        """Note that the backend is closed."""
        self.closed = True

    def _answerer(self, answers: Answers | None) -> Callable[[Request], Answer]:
        if answers is None:
            return _made_up
        if callable(answers):
            return answers
        if isinstance(answers, Mapping):
            return lambda request: _following(answers, request)
        if isinstance(answers, str):
            return lambda _: answers
        given = tuple(answers)
        left = iter(given)
        return lambda request: self._next(left, len(given), request)

    def _next(self, left: Iterator[Answer], count: int, request: Request) -> Answer:
        with self._lock:
            answer = next(left, None)
        if answer is None:
            raise BadRequestError(
                f"the mock's {count} scripted answers are used up; nothing is left "
                f"for {request.prompt.text[-60:]!r}"
            )
        return answer

    def _means(self, request: SelectRequest) -> Sequence[float]:
        if callable(self._scores):
            return self._scores(request)
        scores = self._scores or {}
        return [
            scores.get(choice, _made_up_score(request.prompt.text, choice))
            for choice in request.choices
        ]

    def _usage(self, prompt: Prompt, samples: Sequence[Sample]) -> Usage:
        with self._lock:
            cached = [text for text in self.prefixes if prompt.text.startswith(text)]
        return Usage(
            requests=1,
            prompt_tokens=self.count_tokens(prompt.text),
            cached_tokens=max(map(self.count_tokens, cached), default=0),
            completion_tokens=sum(self.count_tokens(s.text) for s in samples),
        )


_EVERYTHING = Capabilities(
    ebnf=True,
    images=True,
    videos=True,
    video_frames=True,
    prefix_cache=True,
    token_counts=True,
    checks_constraints=True,
)


def create(options: BackendOptions) -> MockBackend:
    """Return a mock backend without a script, which does not remember.

    Raises:
        ConfigError: the chat template is unknown.
    """
    template = DEFAULT_TEMPLATE
    if options.chat_template is not None:
        template = named_template(options.chat_template)
    return MockBackend(
        model=options.model or "mock", chat_template=template, remembers=False
    )


def _following(answers: Mapping[str, Answer], request: Request) -> Answer:
    text = request.prompt.text
    ends = {key: at + len(key) for key in answers if (at := text.rfind(key)) >= 0}
    if not ends:
        raise BadRequestError(
            f"the mock's script has no answer after {text[-60:]!r} "
            f"(it knows: {', '.join(map(repr, answers))})"
        )
    return answers[max(ends, key=ends.__getitem__)]


def _made_up(request: Request) -> Answer:
    sampling = request.sampling
    try:
        if sampling.regex is not None:
            return regex_instance(sampling.regex)
        if sampling.json_schema is not None:
            return json_instance(sampling.json_schema)
    except ValueError as exc:
        raise BadRequestError(f"the mock cannot make up an answer: {exc}") from exc
    if sampling.ebnf is not None:
        raise BadRequestError(
            "the mock cannot make up an answer for a grammar; script its answers"
        )
    asked = [m.text for m in request.prompt.messages if m.role == "user"]
    words = (asked[-1] if asked else request.prompt.text).split()[-_ECHOED_WORDS:]
    return [
        " ".join((f"answer {number + 1} to" if number else "answer to", *words))
        for number in range(sampling.n)
    ]


def _made_up_score(prompt: str, choice: str) -> float:
    seed = f"{prompt}\0{choice}".encode("utf-8", "surrogatepass")
    return -0.001 * (1 + zlib.crc32(seed) % 4000)


def _sample(text: str, sampling: SamplingParams) -> Sample:
    ends = [at for stop in sampling.stop if (at := text.find(stop)) >= 0]
    ends += [m.start() for p in sampling.stop_regex if (m := re.search(p, text))]
    whole = text[: min(ends, default=len(text))]
    tokens = _TOKEN.findall(whole)
    kept = tokens[: sampling.max_new_tokens]
    finish_reason = "stop" if len(kept) == len(tokens) else "length"
    if sampling.max_new_tokens == 0:
        finish_reason = "length"
    meta_info: dict[str, object] = {
        "finish_reason": {"type": finish_reason},
        "completion_tokens": len(kept),
    }
    if sampling.return_logprob:
        meta_info["output_token_logprobs"] = [
            [-0.5, token_id, token] for token_id, token in zip(itertools.count(), kept)
        ]
    return Sample(text="".join(kept), finish_reason=finish_reason, meta_info=meta_info)


def _score(choice: str, mean: float, *, unconditional: bool) -> ChoiceScore:
    tokens = _TOKEN.findall(choice) or [choice]
    return ChoiceScore(
        choice=choice,
        tokens=tuple(
            TokenLogprob(mean, token_id, token) for token_id, token in enumerate(tokens)
        ),
        unconditional=(0.0, *(-1.0 for _ in tokens[1:])) if unconditional else None,
    )
