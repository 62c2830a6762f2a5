"""The scoring of options on SGLang's ``/generate``, for texts and for token ids."""

from collections.abc import Mapping, Sequence

from sglrun.backends import sglang_choice as choice
from sglrun.backends.alignment import own_start
from sglrun.backends.base import Selection, SelectRequest, Usage
from sglrun.backends.http.client import HttpClient
from sglrun.backends.sglang_wire import (
    Object,
    Payload,
    parse_answers,
    parse_usage,
    prefill_payload,
    prompt_fields,
)
from sglrun.errors import BadRequestError
from sglrun.lang.choices import ChoiceScore
from sglrun.lang.prompt import Prompt

_UNPROCESSABLE = 422


class Scoring:
    """Scores options at one server; for many threads."""

    def __init__(self, http: HttpClient, *, takes_lists: bool = True) -> None:
        """Ask nothing yet.

        Args:
            http: the server's own address.
            takes_lists: whether one request may have several texts.
        """
        self._http = http
        # Written by any thread, and only ever to False.
        self._takes_lists = takes_lists

    def read(self, prompt: Mapping[str, object]) -> Usage:
        """Have the server read *prompt*, its fields; nothing is generated."""
        reply = self._http.post_json("/generate", prefill_payload(prompt))
        return parse_usage(parse_answers(reply, 1))

    def of_text(self, request: SelectRequest) -> Selection:
        """Return the scores of options after a text, which is read once before them."""
        usage = Usage()
        start = 0
        if request.prompt.text:
            usage = self.read(prompt_fields(request.prompt))
            start = choice.first_start(usage.prompt_tokens)
        prompt, options, cost = self._scored_from(request, start)
        scores = choice.scores(request.choices, prompt, options)
        return self._finished(request, scores, usage + cost)

    def of_tokens(
        self,
        request: SelectRequest,
        prompt: Sequence[int],
        wholes: Sequence[Sequence[int]],
    ) -> Selection:
        """Return the scores of options after a prompt that is in tokens already.

        Args:
            request: what is asked.
            prompt: the tokens of the prompt.
            wholes: those of the prompt with each option.
        """
        starts = [
            own_start(prompt, whole, text)
            for whole, text in zip(wholes, request.choices, strict=True)
        ]
        usage = self.read({"input_ids": list(prompt)}) if prompt else Usage()
        asked = [list(whole) for whole in wholes]
        fields = choice.scoring_fields(max(min(starts) - 1, 0))
        answers = self._answers("input_ids", asked, fields)
        scores = tuple(
            choice.score_from(start, text, choice.parse_scored(answer))
            for start, text, answer in zip(
                starts, request.choices, answers, strict=True
            )
        )
        usage += parse_usage(answers, prompts=len(answers))
        return self._finished(request, scores, usage)

    def _finished(
        self, request: SelectRequest, scores: Sequence[ChoiceScore], usage: Usage
    ) -> Selection:
        if not request.unconditional:
            return Selection(scores=tuple(scores), usage=usage)
        ids = [[token.token_id for token in score.tokens] for score in scores]
        answers = self._answers("input_ids", ids, choice.scoring_fields(0))
        usage += parse_usage(answers, prompts=len(answers))
        scores = choice.with_unconditional(scores, answers)
        return Selection(scores=scores, usage=usage)

    def _scored_from(
        self, request: SelectRequest, start: int
    ) -> tuple[choice.Scored, Sequence[choice.Scored], Usage]:
        spent = Usage()
        if start > 0:
            try:
                prompt, options, spent = self._scored(request, start)
            except BadRequestError:
                # An option may make of the prompt fewer tokens than this start.
                pass
            else:
                if not choice.needs_all(prompt, options):
                    return prompt, options, spent
        prompt, options, cost = self._scored(request, 0)
        return prompt, options, spent + cost

    def _scored(
        self, request: SelectRequest, start: int
    ) -> tuple[choice.Scored, Sequence[choice.Scored], Usage]:
        text = request.prompt.text
        texts = [*([text] if text else []), *(text + c for c in request.choices)]
        fields = {**choice.scoring_fields(start), **_images(request.prompt)}
        answers = self._answers("text", texts, fields)
        scored = [choice.parse_scored(answer) for answer in answers]
        options = scored[-len(request.choices) :]
        prompt = scored[0] if text else choice.Scored(start=0, tokens=())
        return prompt, options, parse_usage(answers, prompts=len(answers))

    def _answers(
        self, name: str, prompts: Sequence[object], fields: Payload
    ) -> Sequence[Object]:
        # Images of one prompt are a list too, and would be taken for one each.
        if self._takes_lists and "image_data" not in fields:
            try:
                asked = {name: list(prompts), **fields}
                reply = self._http.post_json("/generate", asked)
            except BadRequestError as exc:
                if exc.http_status != _UNPROCESSABLE:
                    raise
                # A router in front of the server takes one text at a time.
                self._takes_lists = False
            else:
                return parse_answers(reply, len(prompts))
        one_by_one = [
            self._http.post_json("/generate", {**fields, name: prompt})
            for prompt in prompts
        ]
        return [parse_answers(reply, 1)[0] for reply in one_by_one]


def _images(prompt: Prompt) -> Payload:
    return {k: v for k, v in prompt_fields(prompt).items() if k == "image_data"}
