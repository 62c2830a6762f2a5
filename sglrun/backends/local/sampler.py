"""The sampler: which token is drawn from the logits of one generation.

A request's own seed and prompt decide, and nothing of its neighbours in a step.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from sglrun.backends.local.context import Logits
from sglrun.errors import BadRequestError
from sglrun.lang.sampling import SamplingParams

Mask = NDArray[np.bool_]
Weights = NDArray[np.float32]

_GREEDY_BELOW = 1e-6
_SEED_BITS = (1 << 64) - 1
# Tokens among which the nucleus is looked for first; sorting all takes longer.
_LIKELY = 1024
# Beyond so much a bias or a penalty changes nothing more, and scores stay numbers.
_FARTHEST = 1e30
# Weights that are added up one by one; more are added up by blocks first.
_BLOCK = 256


class Sampler:
    """Draws the tokens of one sample, in order."""

    def __init__(
        self,
        sampling: SamplingParams,
        *,
        number: int,
        prompt: Iterable[int],
        ends: frozenset[int],
    ) -> None:
        """Begin sample *number* of a request after *prompt*.

        *ends* are the tokens that end an answer, the request's own among them.
        """
        self._sampling = sampling
        self._ends = ends
        is_penalized = sampling.repetition_penalty != 1
        is_read = is_penalized or sampling.seed is not None
        tokens = tuple(prompt) if is_read else ()  # a long one takes its time
        self._random = np.random.default_rng(
            None
            if sampling.seed is None
            else np.random.SeedSequence(
                [sampling.seed & _SEED_BITS, number, _digest(tokens)]
            )
        )
        self._is_greedy = sampling.temperature < _GREEDY_BELOW or sampling.top_k == 1
        self._drawn: Counter[int] = Counter()
        self._seen = set(tokens) if is_penalized else set()

    def draw(self, logits: Logits, allowed: Mask | None) -> int:
        """Return the next token; one of *allowed*, where that is given.

        Raises:
            BadRequestError: parameters rule every token out.
        """
        scores = self._adjusted(logits)
        if allowed is not None:
            scores = np.where(allowed, scores, -np.inf)
            if not np.isfinite(scores.max()):  # what is allowed was ruled out above
                scores = np.where(allowed, logits, -np.inf)
        if not np.isfinite(scores.max()):
            raise BadRequestError(
                "every token of the model is ruled out, as one that would end the text "
                "before min_new_tokens: lower it, or name fewer stop_token_ids"
            )
        token = int(scores.argmax()) if self._is_greedy else self._drawn_from(scores)
        self.accept(token)
        return token

    def accept(self, token: int) -> None:
        """Count *token* as drawn."""
        self._drawn[token] += 1
        if self._sampling.repetition_penalty != 1:
            self._seen.add(token)

    def _adjusted(self, logits: Logits) -> Logits:
        """Return the logits after penalties, biases and the least length."""
        sampling = self._sampling
        bans_ends = self._drawn.total() < sampling.min_new_tokens
        penalizes = sampling.frequency_penalty or sampling.presence_penalty
        if not (bans_ends or penalizes or self._seen or sampling.logit_bias):
            return logits
        scores = logits.copy()
        if self._seen:
            ids = np.fromiter(self._seen, np.intp)
            factor = np.float32(sampling.repetition_penalty)
            seen = scores[ids]
            with np.errstate(over="ignore"):
                seen = np.where(seen > 0, seen / factor, seen * factor)
            scores[ids] = np.clip(seen, -_FARTHEST, _FARTHEST)
        if penalizes and self._drawn:
            ids = np.fromiter(self._drawn, np.intp)
            counts = np.fromiter(self._drawn.values(), np.float32)
            scores[ids] -= (
                sampling.frequency_penalty * counts + sampling.presence_penalty
            )
        for token, bias in (sampling.logit_bias or {}).items():
            scores[int(token)] += min(max(bias, -_FARTHEST), _FARTHEST)
        if bans_ends:
            # A stop token that the vocabulary has not is never drawn anyway.
            scores[[end for end in self._ends if 0 <= end < len(scores)]] = -np.inf
        return scores

    def _drawn_from(self, scores: Logits) -> int:
        sampling = self._sampling
        temperature = np.float32(sampling.temperature)
        weights = np.exp((scores - scores.max()) / temperature)
        ids = None
        if sampling.top_k > 0 or sampling.top_p < 1:
            ids = _nucleus(weights, sampling.top_k, sampling.top_p)
            weights = weights[ids]
        if sampling.min_p > 0:
            weights[weights < sampling.min_p * weights.max()] = 0
        at = _index_at(weights, self._random.random())
        return at if ids is None else int(ids[at])


def _digest(tokens: tuple[int, ...]) -> int:
    """Return a number of *tokens*, so that prompts do not share what they draw."""
    data = np.asarray(tokens, "<i8").tobytes()
    return int.from_bytes(blake2b(data, digest_size=16).digest(), "little")


def log_total(logits: Logits) -> float:
    """Return the natural log of the sum of exponentials of *logits*.

    A token's log-probability is its logit less that.
    """
    top = logits.max()
    return float(top) + float(np.log(_total(np.exp(logits - top))))


def _total(weights: Weights) -> float:
    return float(weights.sum(dtype=np.float64))


def _index_at(weights: Weights, part: float) -> int:
    """Return the index at which *weights* come to *part* of their sum, below 1."""
    starts = np.arange(0, len(weights), _BLOCK)
    sums = np.cumsum(np.add.reduceat(weights, starts, dtype=np.float64))
    point = min(part * sums[-1], np.nextafter(sums[-1], 0))
    block = int(np.searchsorted(sums, point, side="right"))
    within = weights[starts[block] :][:_BLOCK]
    ids = np.flatnonzero(within)
    before = sums[block - 1] if block else 0
    inside = np.cumsum(within[ids], dtype=np.float64)
    at = int(np.searchsorted(inside, point - before, side="right"))
    return int(starts[block] + ids[min(at, len(ids) - 1)])


def _nucleus(weights: Weights, top_k: int, top_p: float) -> NDArray[np.intp]:
    """Return the tokens that *top_k* and *top_p* leave; of equal ones the first."""
    size = len(weights)
    if 0 < top_k < size:
        likeliest = _largest(weights, top_k)
        enough = top_p * _total(likeliest)
    else:
        enough = top_p * _total(weights)
        likeliest = _largest(weights, min(_LIKELY, size))
        if _total(likeliest) < enough:
            likeliest = _largest(weights, size)
    cumulated = np.cumsum(likeliest, dtype=np.float64)
    count = min(int(np.searchsorted(cumulated, enough)) + 1, len(likeliest))
    least = likeliest[count - 1]
    more = np.flatnonzero(weights > least)
    same = np.flatnonzero(weights == least)[: count - len(more)]
    return np.sort(np.concatenate((more, same)))


def _largest(weights: Weights, count: int) -> Weights:
    """Return the *count* largest, largest first."""
    rest = len(weights) - count
    return np.sort(np.partition(weights, rest)[rest:] if rest else weights)[::-1]
