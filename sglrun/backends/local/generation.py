"""Generation: the job of writing texts after a prompt."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from sglrun.backends.base import OnText, Sample
from sglrun.backends.local.context import Logits
from sglrun.backends.local.grammar import Matcher
from sglrun.backends.local.job import Job, Lane
from sglrun.backends.local.radix import Tokens
from sglrun.backends.local.sampler import Sampler, log_total
from sglrun.backends.local.tokenizer import Tokenizer
from sglrun.backends.local.transcript import Transcript
from sglrun.lang.sampling import SamplingParams

# Tokens that must come, taken in one step: to look for a next one takes the engine as
# long as what must come is, and others wait for it.
_FORCED = 32

TokenScore = tuple[float | None, int, str | None]
"""A token's log-probability, its id and its text, as SGLang writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be written.

    Attributes:
        prompt: the tokens before it.
        sampling: complete.
        patterns: ``stop_regex``, compiled.
        matcher: makes the state of the constraint for one sample, if there is one.
        on_text: told of each piece of the first sample, on the engine's thread.
    """

    prompt: Tokens
    sampling: SamplingParams
    patterns: tuple[re.Pattern[str], ...] = ()
    matcher: Callable[[], Matcher] | None = None
    on_text: OnText | None = None


class Generation(Job):
    """The samples of one request."""

    def __init__(self, task: Task, tokenizer: Tokenizer) -> None:
        """Take what is to be written."""
        sampling = task.sampling
        cells = (sampling.max_new_tokens,) * sampling.n
        start = sampling.logprob_start_len if sampling.return_logprob else None
        scores_prompt = start is not None and 0 <= start < len(task.prompt)
        super().__init__(
            task.prompt,
            lane_cells=cells if sampling.max_new_tokens else (),
            wanted_from=max(0, (start or 0) - 1) if scores_prompt else None,
        )
        self._tokenizer = tokenizer
        self._writers = tuple(
            Writer(task, tokenizer, number=number) for number in range(sampling.n)
        )
        self._prompt_scores: list[TokenScore] = []
        if scores_prompt and start == 0:
            first = task.prompt[0]
            self._prompt_scores.append((None, first, _text(tokenizer, task, first)))
        self._task = task

    def read(self, position: int, logits: Logits) -> None:
        """Note what the prompt's next token scores; after the last, begin to write."""
        following = position + 1
        if following == len(self.prompt):
            for writer in self._writers if self.lane_cells else ():
                writer.write(logits)
            return
        token = self.prompt[following]
        text = _text(self._tokenizer, self._task, token)
        score = float(logits[token]) - log_total(logits)
        self._prompt_scores.append((score, token, text))

    def lanes(self) -> tuple[Lane, ...]:
        """Return a lane for each sample."""
        return self._writers if self.lane_cells else ()

    def close(self) -> None:
        """Free the state of the constraint."""
        for writer in self._writers:
            writer.close()

    def samples(self) -> tuple[Sample, ...]:
        """Return what was written, once the job is done."""
        shared: dict[str, object] = {
            "prompt_tokens": len(self.prompt),
            "cached_tokens": self.cached_tokens,
        }
        if self._task.sampling.return_logprob:
            shared["input_token_logprobs"] = list(self._prompt_scores)
        return tuple(writer.sample(shared) for writer in self._writers)

    @property
    def completion_tokens(self) -> int:
        """Tokens written, over all samples; a token that ends the text is one."""
        return sum(writer.count for writer in self._writers)


class Writer(Lane):
    """One sample, as it is written.

    Attributes:
        count: tokens written so far.
    """

    is_kept = True

    def __init__(self, task: Task, tokenizer: Tokenizer, *, number: int) -> None:
        """Begin sample *number* of *task*."""
        length = len(task.prompt)
        super().__init__(task.prompt, computed=length, wanted_from=length)
        sampling = task.sampling
        self._task = task
        self._tokenizer = tokenizer
        self._on_text = task.on_text if number == 0 else None
        self._ends = frozenset(sampling.stop_token_ids)
        if not sampling.ignore_eos:
            self._ends |= tokenizer.ends
        self._sampler = Sampler(
            sampling, number=number, prompt=_read(task, tokenizer), ends=self._ends
        )
        self._matcher = task.matcher() if task.matcher is not None else None
        self._transcript = Transcript(sampling.stop, task.patterns)
        self._finish: Mapping[str, object] = {"type": "length", "length": 0}
        self._scores: list[TokenScore] = []
        self._alternatives: list[list[TokenScore]] = []
        self.count = 0

    def read(self, position: int, logits: Logits) -> None:
        """Write on from the logits of the last token."""
        if position == len(self.tokens) - 1:
            self.write(logits)

    def write(self, logits: Logits) -> None:
        """Draw the next token, and take with it those that must follow."""
        token = self._next(logits)
        if self._task.sampling.return_logprob:
            self._score(logits, token)
        self._append(token)
        if self._matcher is not None:
            self._append_forced(self._matcher)
        self.wanted_from = len(self.tokens) - 1
        if self._on_text is not None:
            piece = self._transcript.take(complete=self.done)
            if piece:
                self._on_text(piece)

    def close(self) -> None:
        """Free the state of the constraint."""
        if self._matcher is not None:
            self._matcher.close()

    def sample(self, shared: Mapping[str, object]) -> Sample:
        """Return what was written, with what all samples have in common."""
        sampling = self._task.sampling
        meta_info: dict[str, object] = {
            **shared,
            "finish_reason": dict(self._finish),
            "completion_tokens": self.count,
        }
        if sampling.return_logprob:
            meta_info["output_token_logprobs"] = self._scores
        if sampling.return_logprob and sampling.top_logprobs_num:
            meta_info["output_top_logprobs"] = self._alternatives
        return Sample(
            text=self._transcript.text,
            finish_reason=str(self._finish["type"]),
            meta_info=meta_info,
        )

    def _next(self, logits: Logits) -> int:
        """Return the next token, drawn where there is a choice.

        Nothing is drawn for a token that must come, so that a seed gives one text,
        whether such tokens are taken at once or scored one by one.
        """
        matcher = self._matcher
        forced = None if matcher is None else matcher.forced()
        if forced is None:
            allowed = None if matcher is None else matcher.allowed()
            return self._sampler.draw(logits, allowed)
        self._sampler.accept(forced)
        return forced

    def _append_forced(self, matcher: Matcher) -> None:
        for _ in range(0 if self._task.sampling.return_logprob else _FORCED):
            forced = None if self.done else matcher.forced()
            if forced is None:
                return
            self._sampler.accept(forced)
            self._append(forced)

    def _append(self, token: int) -> None:
        self.tokens.append(token)
        self.count += 1
        if token in self._ends or (self._matcher and token in self._tokenizer.ends):
            self._end({"type": "stop", "matched": token})
        elif self._transcript.add(self._tokenizer.piece(token)):
            self._end({"type": "stop", "matched": self._transcript.matched})
        elif self._matcher and self._completes(self._matcher, token):
            self._end({"type": "stop", "matched": None})
        elif self.count >= self._task.sampling.max_new_tokens:
            self._end({"type": "length", "length": self.count})

    def _completes(self, matcher: Matcher, token: int) -> bool:
        matcher.consume(token)
        return matcher.is_complete()

    def _end(self, finish: Mapping[str, object]) -> None:
        self._finish = finish
        self.done = True

    def _score(self, logits: Logits, token: int) -> None:
        total = log_total(logits)
        text = _text(self._tokenizer, self._task, token)
        self._scores.append((float(logits[token]) - total, token, text))
        count = self._task.sampling.top_logprobs_num or 0
        if count:
            best = np.argpartition(logits, -count)[-count:]
            ids = [int(id_) for id_ in best[np.argsort(-logits[best])]]
            self._alternatives.append(
                [
                    (
                        float(logits[id_]) - total,
                        id_,
                        _text(self._tokenizer, self._task, id_),
                    )
                    for id_ in ids
                ]
            )


def _read(task: Task, tokenizer: Tokenizer) -> Iterator[int]:
    """Yield the prompt's tokens as the vocabulary has them, joined branches too."""
    return (token % tokenizer.size for token in task.prompt)


def _text(tokenizer: Tokenizer, task: Task, token: int) -> str | None:
    """Return the text of *token*, where the request wants the texts of tokens."""
    if not task.sampling.return_text_in_logprobs:
        return None
    return tokenizer.text(token)
