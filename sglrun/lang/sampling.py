"""Sampling parameters: what one generation may be asked, and their defaults.

Rule: the fields and their defaults are written here and nowhere else. ``None`` means
"not set"; names are SGLang's.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Self

# A field with an entry in DEFAULTS is typed as what it holds in a request, where it is
# always set; only parameters that are still to be laid over others hold this.
_UNSET: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How one completion is drawn. Every field may be unset (``None``).

    Attributes:
        max_new_tokens: upper bound on generated tokens; 0 only reads the prompt.
        min_new_tokens: end-of-text is not drawn before this many tokens.
        n: independent samples of one prompt.
        stop: strings that end the generation and are cut from it.
        stop_token_ids: further end-of-text tokens.
        stop_regex: patterns that end the generation.
        temperature: below 1e-6 the likeliest token is taken.
        top_p: share of probability kept, in (0, 1].
        top_k: tokens kept; -1 keeps all.
        min_p: least probability relative to the likeliest token, in [0, 1].
        frequency_penalty: in [-2, 2].
        presence_penalty: in [-2, 2].
        repetition_penalty: 1.0 is off.
        logit_bias: token id to a number added to its logit.
        seed: makes drawing repeatable where the backend can.
        ignore_eos: go on after end-of-text.
        regex: the whole generation must match.
        json_schema: JSON text of a schema that the generation must fit.
        ebnf: a grammar that the generation must fit.
        return_logprob: report log-probabilities of the generated tokens.
        logprob_start_len: first prompt position whose log-probability is reported.
        top_logprobs_num: alternatives reported at each position.
        return_text_in_logprobs: report the text of those tokens too.
        extra: fields passed to the server as they are.
    """

    max_new_tokens: int = _UNSET
    min_new_tokens: int = _UNSET
    n: int = _UNSET
    stop: tuple[str, ...] = _UNSET
    stop_token_ids: tuple[int, ...] = _UNSET
    stop_regex: tuple[str, ...] = _UNSET
    temperature: float = _UNSET
    top_p: float = _UNSET
    top_k: int = _UNSET
    min_p: float = _UNSET
    frequency_penalty: float = _UNSET
    presence_penalty: float = _UNSET
    repetition_penalty: float = _UNSET
    logit_bias: Mapping[int, float] | None = None
    seed: int | None = None
    ignore_eos: bool = _UNSET
    regex: str | None = None
    json_schema: str | None = None
    ebnf: str | None = None
    return_logprob: bool | None = None
    logprob_start_len: int | None = None
    top_logprobs_num: int | None = None
    return_text_in_logprobs: bool | None = None
    extra: Mapping[str, object] | None = None

    @classmethod
    def of(cls, **values: object) -> Self:
        """Return parameters from what an author or a user wrote.

        ``None`` leaves a field unset; a lone string or any iterable becomes a tuple.

        Raises:
            TypeError: a name or a kind of value that no parameter has.
            ValueError: a value outside what the parameter allows.
        """
        for name in values:
            if name not in _NAMES:
                raise TypeError(f"there is no parameter {name!r}{_meant(name)}")
        clean = {
            name: _TO_TUPLE[name](name, value) if name in _TO_TUPLE else value
            for name, value in values.items()
            if value is not None
        }
        params = cls(**clean)  # type: ignore[arg-type]
        for name, (low, high) in _RANGES.items():
            number = getattr(params, name)
            if number is not None and not low <= number <= high:
                raise ValueError(f"{name} must be from {low} to {high}, not {number!r}")
            if number == 0 and name in _NEVER_ZERO:
                raise ValueError(f"{name} must not be {number!r}")
        return params

    def given(self) -> dict[str, Any]:
        """Return the fields that are set, by name, in the order of declaration."""
        values = zip(_NAMES, _values_of(self), strict=True)
        return {name: value for name, value in values if value is not None}

    def over(self, *bases: Self) -> Self:
        """Return these parameters laid over *bases*: the first that sets one wins."""
        given: dict[str, Any] = {}
        for params in (*reversed(bases), self):
            given |= params.given()
        return type(self)(**given)


_NAMES = tuple(field.name for field in fields(SamplingParams))
_values_of = attrgetter(*_NAMES)


def _meant(name: str) -> str:
    close = difflib.get_close_matches(name, _NAMES, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


DEFAULTS = SamplingParams(
    max_new_tokens=128,
    min_new_tokens=0,
    n=1,
    stop=(),
    stop_token_ids=(),
    stop_regex=(),
    temperature=1.0,
    top_p=1.0,
    top_k=-1,
    min_p=0.0,
    frequency_penalty=0.0,
    presence_penalty=0.0,
    repetition_penalty=1.0,
    ignore_eos=False,
)


INFINITY = float("inf")

# The limits that SGLang's server checks, so that a wrong value fails at its line.
_RANGES: dict[str, tuple[float, float]] = {
    "max_new_tokens": (0, INFINITY),
    "min_new_tokens": (0, INFINITY),
    "n": (1, INFINITY),
    "temperature": (0, INFINITY),
    "top_p": (0, 1),
    "top_k": (-1, INFINITY),
    "min_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "repetition_penalty": (0, 2),
}
_NEVER_ZERO = frozenset({"top_p", "top_k"})


def _strings(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} takes a string or several, not {value!r}")
    items = tuple(value)
    for item in items:
        if not isinstance(item, str):
            raise TypeError(f"{name} takes strings, not {item!r}")
    return items


def _integers(name: str, value: object) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,)
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} takes an integer or several, not {value!r}")
    return tuple(int(item) for item in value)


_TO_TUPLE: dict[str, Callable[[str, object], tuple[object, ...]]] = {
    "stop": _strings,
    "stop_regex": _strings,
    "stop_token_ids": _integers,
}
