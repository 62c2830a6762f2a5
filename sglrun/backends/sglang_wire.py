"""SGLang's native wire: requests to ``/generate`` payloads, and replies back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sglrun.backends.base import (
    Completion,
    OnText,
    Request,
    Sample,
    StreamedText,
    Usage,
)
from sglrun.backends.pieces import doubtful
from sglrun.backends.reply import (
    a_count,
    a_list,
    a_text,
    an_object,
    an_optional_object,
    check_constraint,
    error_of_event,
    error_of_status,
    objects,
    token_logprob,
)
from sglrun.backends.streamed_logprobs import StreamedLogprobs
from sglrun.errors import ResponseError
from sglrun.lang.choices import TokenLogprob
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

Object = Mapping[str, object]
Payload = dict[str, object]

# These stand beside the sampling parameters, not among them.
_TOP_LEVEL = (
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
    "return_text_in_logprobs",
)
_RENAMED = {"seed": "sampling_seed"}
# Old servers answer 500 to names that they do not know, so these go only where needed.
_ONLY_IF_ANY = frozenset({"stop_regex", "stop_token_ids"})


def payload(request: Request) -> Payload:
    """Return what is posted to ``/generate`` for *request*."""
    given = request.sampling.given()
    extra = given.pop("extra", {})
    top = {name: given.pop(name) for name in _TOP_LEVEL if name in given}
    params = {
        _RENAMED.get(name, name): value
        for name, value in given.items()
        if value or name not in _ONLY_IF_ANY
    }
    return {**prompt_fields(request.prompt), "sampling_params": params, **top, **extra}


def prompt_fields(prompt: Prompt) -> Payload:
    """Return the fields of *prompt*: its text, its images and its videos in order."""
    fields: Payload = {"text": prompt.text}
    for name, media in ("image_data", prompt.images), ("video_data", prompt.videos):
        if media:
            fields[name] = [each.url or each.base64 for each in media]
    return fields


def prefill_payload(prompt: Mapping[str, object]) -> Payload:
    """Return what has the server read *prompt*, its fields, and write nothing."""
    params = {"max_new_tokens": 0, "temperature": 0}
    return {**prompt, "sampling_params": params}


def parse_completion(reply: object, request: Request) -> Completion:
    """Return the completion in *reply*, one object or a list of ``n``.

    Raises:
        BackendError: the server gave up, or *reply* is not what was asked.
    """
    answers = parse_answers(reply, request.sampling.n)
    sampling = request.sampling
    samples = tuple(_sample(answer) for answer in answers)
    check_constraint(sampling, [s.text for s in samples if _is_whole(s, sampling)])
    return Completion(samples=samples, usage=parse_usage(answers))


def parse_answers(reply: object, count: int) -> Sequence[Object]:
    """Return the *count* answers in *reply*.

    Raises:
        BackendError: one of them reports that it was given up, or the count is wrong.
    """
    answers = (
        objects(reply, "the reply")
        if isinstance(reply, list)
        else [an_object(reply, "the reply")]
    )
    for answer in answers:
        _check(answer)
    if len(answers) != count:
        raise ResponseError(f"the server gave {len(answers)} of {count} answers")
    return answers


def parse_usage(answers: Sequence[Object], *, prompts: int = 1) -> Usage:
    """Return what *answers* cost; those to one prompt read it once.

    Args:
        answers: the answers to one request.
        prompts: how many prompts they answer.
    """
    metas = [an_optional_object(answer.get("meta_info")) for answer in answers]
    per_prompt = metas[:: max(len(metas) // prompts, 1)]
    return Usage(
        requests=1,
        prompt_tokens=sum(a_count(meta.get("prompt_tokens")) for meta in per_prompt),
        cached_tokens=sum(a_count(meta.get("cached_tokens")) for meta in per_prompt),
        completion_tokens=sum(a_count(meta.get("completion_tokens")) for meta in metas),
    )


def input_tokens(answer: Object) -> Sequence[TokenLogprob]:
    """Return the prompt tokens of *answer* whose log-probabilities were asked for."""
    meta = an_object(answer.get("meta_info"), "meta_info")
    given = a_list(meta.get("input_token_logprobs"), "input_token_logprobs")
    return [token_logprob(entry) for entry in given]


def assemble(
    events: Iterable[Object], request: Request, on_text: OnText
) -> Sequence[Object]:
    """Return the whole answers that *events* bring in pieces.

    A server repeats the text so far in each event, or sends only what is new; which of
    the two is seen from the text itself and the count of tokens.

    Args:
        events: the events of the stream.
        request: what was asked.
        on_text: gets the new pieces of the first sample.

    Raises:
        BackendError: an event reports an error, or the stream ends in the middle.
    """
    stops = request.sampling.stop
    streamed = [_Streamed(stops=stops) for _ in range(request.sampling.n)]
    for event in events:
        _check(event)
        index = a_count(event.get("index"))
        if index < len(streamed):
            piece = streamed[index].add(event)
            if piece and index == 0:
                on_text(StreamedText(piece, streamed[index].told_meta_info()))
    return [one.whole() for one in streamed]


@dataclass(slots=True, kw_only=True)
class _Streamed:
    """One sample that comes in pieces.

    What may be the beginning of a stop string is told only when it turns out to be
    none, because the server cuts the stop string at the end.
    """

    stops: tuple[str, ...]
    text: str = ""
    told: int = 0
    last: Object = field(default_factory=dict)
    is_incremental: bool = False
    logprobs: StreamedLogprobs = field(default_factory=StreamedLogprobs)

    def add(self, event: Object) -> str:
        """Take *event*; return what is new of the text and sure to stay."""
        given = a_text(event.get("text"), "an event's text")
        if self._only_adds(event, given):
            self.is_incremental = True
            given = self.text + given
        self.text = given
        self.last = event
        self.logprobs.take(self._meta_info())
        sure = len(given) - (0 if _ended(event) else doubtful(given, self.stops))
        piece = given[self.told : sure]
        self.told = max(self.told, sure)
        return piece

    def told_meta_info(self) -> Object:
        """Return what the server told with the piece that was added last."""
        return self.logprobs.told(self._meta_info())

    def _meta_info(self) -> Object:
        return an_optional_object(self.last.get("meta_info"))

    def whole(self) -> Object:
        """Return the answer as it would have come at once.

        Raises:
            ResponseError: its end is missing.
        """
        if not _ended(self.last):
            raise ResponseError(
                f"the stream ended in the middle, after {self.text[-60:]!r}"
            )
        meta_info = self.logprobs.whole(self._meta_info())
        return {**self.last, "text": self.text, "meta_info": meta_info}

    def _only_adds(self, event: Object, given: str) -> bool:
        ids = event.get("output_ids")
        count = a_count(
            an_optional_object(event.get("meta_info")).get("completion_tokens")
        )
        if isinstance(ids, list) and count:
            return len(ids) < count
        # Without ids, the text so far begins the next, or is cut at a stop string.
        was_cut = _ended(event) and self.text.startswith(given)
        goes_on = given.startswith(self.text) or (bool(given) and was_cut)
        return self.is_incremental or not goes_on


def _ended(event: Object) -> bool:
    return bool(an_optional_object(event.get("meta_info")).get("finish_reason"))


def _check(answer: Object) -> None:
    if answer.get("error"):
        raise error_of_event(answer, "the generation")
    meta = an_optional_object(answer.get("meta_info"))
    reason = an_optional_object(meta.get("finish_reason"))
    if reason.get("type") == "abort":
        status = a_count(reason.get("status_code")) or None
        said = reason.get("message") or "no reason given"
        raise error_of_status(status, f"the server gave the generation up: {said}")


def _sample(answer: Object) -> Sample:
    meta = an_optional_object(answer.get("meta_info"))
    reason = meta.get("finish_reason")
    word = reason.get("type") if isinstance(reason, dict) else reason
    return Sample(
        text=a_text(answer.get("text"), "the answer's text"),
        finish_reason=str(word or "unknown"),
        meta_info=meta,
    )


def _is_whole(sample: Sample, sampling: SamplingParams) -> bool:
    """Tell whether a generation ended by itself; a stop string may cut it anywhere."""
    reason = an_optional_object(sample.meta_info.get("finish_reason"))
    if sample.finish_reason != "stop":
        return False
    if "matched" in reason:
        return not isinstance(reason["matched"], str)
    return not sampling.stop
