"""The pretend model behind the stand-in server: its tokens, scores and answers.

A token is a word with the space before it, a line end, or a single character.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from sglrun.backends.instances import json_instance, regex_instance

Json = dict[str, Any]
Kind = Literal["sglang", "vllm", "llama-server", "openai", "anthropic"]

_TOKEN = re.compile(r" ?\w+|\n|.", re.DOTALL)


class RefusedError(Exception):
    """An answer other than 200: its status and JSON (or plain) body."""

    def __init__(self, status: int, body: Json | str) -> None:
        """Keep both."""
        super().__init__(status, body)
        self.status = status
        self.body = body


@dataclass
class PretendModel:
    """What the stand-in answers; tests set the fields, also while it runs.

    Attributes:
        kind: whose wire it speaks beside OpenAI's.
        model_path: what ``/model_info`` tells.
        model: the name in ``/v1/models``.
        answer: the text of every generation, or a function of prompt and payload.
        logprobs: log-probability of a token, by its text; others have -1.
        logprob: over ``logprobs``: a function of all tokens and a position.
        logprob_format: ``padded`` starts at ``logprob_start_len`` with a null (SGLang
            since 0.4.3), ``old`` starts one later.
        stream_form: whether events of ``/generate`` repeat the text so far.
        list_text: whether ``/generate`` takes a list (routers do not).
        old_info: whether only ``/get_model_info`` is there.
        has_tokenize: whether ``/tokenize`` is there.
        begins_prompts: whether a token of its own begins an empty prompt.
        ignore_constraints: whether constraints are dropped in silence.
        sees: whether it takes images, where it tells.
        refuse: a piece of a prompt that is answered by 400.
    """

    kind: Kind = "sglang"
    model_path: str = "x/none"
    model: str = "stand-in"
    models: tuple[str, ...] | None = None
    answer: str | Callable[[str, Json], str] = " OUT"
    logprobs: dict[str, float] = field(default_factory=dict)
    logprob: Callable[[list[str], int], float] | None = None
    logprob_format: Literal["padded", "old"] = "padded"
    stream_form: Literal["cumulative", "incremental"] = "cumulative"
    list_text: bool = True
    old_info: bool = False
    has_tokenize: bool = True
    begins_prompts: bool = True
    ignore_constraints: bool = False
    sees: bool = True
    refuse: str = "boom"

    def __post_init__(self) -> None:
        """Start with an empty vocabulary and an empty cache."""
        self._ids: dict[str, int] = {}
        self._cache: dict[str, Any] = {}
        self._lock = threading.Lock()

    def tokens(self, text: str) -> list[str]:
        """Return *text* in tokens."""
        return _TOKEN.findall(text)

    def ids(self, tokens: list[str]) -> list[int]:
        """Return the ids of *tokens*; a new token gets the next number."""
        with self._lock:
            return [self._ids.setdefault(t, 1000 + len(self._ids)) for t in tokens]

    def text(self, ids: list[int]) -> str:
        """Return the text of *ids*."""
        with self._lock:
            tokens = {number: token for token, number in self._ids.items()}
        return "".join(tokens[number] for number in ids)

    def score(self, tokens: list[str], at: int) -> float:
        """Return the log-probability of one token after those before it."""
        if self.logprob is not None:
            return self.logprob(tokens, at)
        return self.logprobs.get(tokens[at], -1.0)

    def cached(self, tokens: list[str]) -> int:
        """Return how many tokens an earlier prompt shares, and remember these."""
        shared = 0
        with self._lock:
            node = self._cache
            for token in tokens:
                shared += token in node
                node = node.setdefault(token, {})
        return max(min(shared, len(tokens) - 1), 0)

    def forget(self) -> None:
        """Empty the cache."""
        with self._lock:
            self._cache.clear()

    def written(self, prompt: str, payload: Json, limits: Json) -> tuple[str, Any]:
        """Return the text generated after *prompt*, and SGLang's finish reason."""
        if self.refuse in prompt:
            raise RefusedError(
                400, {"error": {"message": f"the prompt contains {self.refuse}"}}
            )
        given = self._constrained(limits)
        if given is None:
            given = (
                self.answer
                if isinstance(self.answer, str)
                else self.answer(prompt, payload)
            )
        reason: Json = {"type": "stop", "matched": 2}
        stops = limits.get("stop") or []
        for stop in [stops] if isinstance(stops, str) else stops:
            if stop in given:
                given = given[: given.index(stop)]
                reason = {"type": "stop", "matched": stop}
        limit = limits.get("max_new_tokens", 16)
        kept = self.tokens(given)[:limit]
        if kept != self.tokens(given) or limit == 0:
            reason = {"type": "length", "length": limit}
        return "".join(kept), reason

    def _constrained(self, limits: Json) -> str | None:
        if self.ignore_constraints:
            return None
        if limits.get("choice"):
            return str(
                self.answer if self.answer in limits["choice"] else limits["choice"][0]
            )
        if limits.get("regex"):
            return regex_instance(limits["regex"])
        if limits.get("json_schema"):
            return json_instance(limits["json_schema"])
        return None
