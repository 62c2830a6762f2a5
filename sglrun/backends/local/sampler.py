"""The sampler: which token is drawn from the logits of one generation.

A request's own seed decides, and nothing of its neighbours in a step.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sglrun.backends.local.context import Logits
from sglrun.lang.sampling import SamplingParams

Mask = NDArray[np.bool_]

_GREEDY_BELOW = 1e-6
_SEED_BITS = (1 << 64) - 1
# Tokens among which the nucleus is looked for before all are sorted.
_LIKELY = 1024


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
        self._ends = np.fromiter(ends, np.intp)
        self._random = np.random.default_rng(
            None
            if sampling.seed is None
            else np.random.SeedSequence([sampling.seed & _SEED_BITS, number])
        )
        self._is_greedy = sampling.temperature < _GREEDY_BELOW or sampling.top_k == 1
        self._drawn: Counter[int] = Counter()
        self._seen = set(prompt) if sampling.repetition_penalty != 1 else set()

    def draw(self, logits: Logits, allowed: Mask | None) -> int:
        """Return the next token; one of *allowed*, where that is given."""
        scores = self._adjusted(logits)
        if allowed is not None:
            scores = np.where(allowed, scores, -np.inf)
            if not np.isfinite(scores.max()):  # what is allowed was ruled out above
                scores = np.where(allowed, logits, -np.inf)
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
            scores[ids] = np.where(seen > 0, seen / factor, seen * factor)
        if penalizes and self._drawn:
            ids = np.fromiter(self._drawn, np.intp)
            counts = np.fromiter(self._drawn.values(), np.float32)
            scores[ids] -= (
                sampling.frequency_penalty * counts + sampling.presence_penalty
            )
        for token, bias in (sampling.logit_bias or {}).items():
            scores[int(token)] += bias
        if bans_ends:
            scores[self._ends] = -np.inf
        return scores

    def _drawn_from(self, scores: Logits) -> int:
        sampling = self._sampling
        scaled = scores.astype(np.float64) / sampling.temperature
        weights = np.exp(scaled - scaled.max())
        if sampling.top_k > 0 or sampling.top_p < 1:
            ids = _nucleus(weights, sampling.top_k, sampling.top_p)
        else:
            ids = np.arange(len(weights))
        kept = weights[ids]
        if sampling.min_p > 0:
            kept = np.where(kept >= sampling.min_p * kept.max(), kept, 0)
        cumulated = np.cumsum(kept)
        point = self._random.random() * cumulated[-1]
        at = int(np.searchsorted(cumulated, point, side="right"))
        return int(ids[min(at, len(ids) - 1)])


def log_softmax(logits: Logits) -> NDArray[np.float64]:
    """Return the natural-log probability of every token."""
    exact = logits.astype(np.float64)
    exact -= exact.max()
    exact -= np.log(np.exp(exact).sum())
    return exact


def logprob(logits: Logits, token: int) -> float:
    """Return the natural-log probability of *token*."""
    top = float(logits.max())
    total = float(np.exp((logits - np.float32(top)).astype(np.float64)).sum())
    return float(logits[token]) - top - float(np.log(total))


def _nucleus(
    weights: NDArray[np.float64], top_k: int, top_p: float
) -> NDArray[np.intp]:
    """Return the likeliest tokens, likeliest first, that *top_k* and *top_p* leave."""
    size = len(weights)
    count = min(top_k, size) if top_k > 0 else size
    total = weights.sum() if count == size else None
    looked_at = min(count, _LIKELY)
    while True:
        ids = _largest(weights, looked_at)
        cumulated = np.cumsum(weights[ids])
        if looked_at == count and total is None:
            total = cumulated[-1]
        if total is not None:
            enough = int(np.searchsorted(cumulated, top_p * total)) + 1
            if enough <= looked_at or looked_at == count:
                return ids[:enough]
        looked_at = count


def _largest(weights: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    if count < len(weights):
        ids = np.argpartition(weights, -count)[-count:]
    else:
        ids = np.arange(len(weights))
    # Stable, so that equal weights come in the same order everywhere.
    ids.sort()
    return ids[np.argsort(-weights[ids], kind="stable")]
