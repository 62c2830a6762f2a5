"""Sampling parameters: what one generation may be asked, and their defaults.

Rule: the fields and their defaults are written here and nowhere else. ``None`` means
"not set"; names are SGLang's.
"""

import difflib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Self, SupportsFloat, SupportsIndex

# A field with an entry in DEFAULTS is typed as what it holds in a request, where it is
# always set; only parameters that are still to be laid over others hold this.
_UNSET: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How one completion is drawn. Every field may be unset (``None``).

    Attributes:
        max_new_tokens: upper bound on generated tokens; 0 only reads the prompt.
        min_new_tokens: end-of-text is not drawn before this many tokens, which are no
            more than ``max_new_tokens``.
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
        repetition_penalty: 1.0 is off; in (0, 2].
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

        ``None`` leaves a field unset; a lone string or any iterable becomes a tuple,
        and a float that is whole an integer, where one is wanted.

        Raises:
            TypeError: a name or a kind of value that no parameter has.
            ValueError: a value outside what the parameter allows.
        """
        for name in values:
            if name not in _NAMES:
                raise TypeError(f"there is no parameter {name!r}{_meant(name)}")
        clean: dict[str, Any] = {
            name: _READ[name](name, value) if name in _READ else value
            for name, value in values.items()
            if value is not None
        }
        params = cls(**clean)
        for name, (low, high) in _RANGES.items():
            number = getattr(params, name)
            if number is not None and not low <= number <= high:
                span = _span(low, high)
                raise ValueError(f"{name} must be {span}, not {number!r}")
            if name in _NEVER_ZERO and number == 0:
                raise ValueError(f"{name} must not be {number!r}")
        params._check_lengths()
        return params

    def _check_lengths(self) -> None:
        """Raise ``ValueError`` if less may be written than has to be."""
        least: Any = self.min_new_tokens
        most: Any = self.max_new_tokens
        if least is None or most is None or _stands_in(least) or _stands_in(most):
            return
        if least > most:
            raise ValueError(
                f"min_new_tokens must be at most max_new_tokens={most!r}, not {least!r}"
            )

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


_LARGEST = sys.float_info.max

# The limits that SGLang's server checks, so that a wrong value fails at its line.
_RANGES: dict[str, tuple[float, float]] = {
    "max_new_tokens": (0, _LARGEST),
    "min_new_tokens": (0, _LARGEST),
    "n": (1, _LARGEST),
    "temperature": (0, _LARGEST),
    "top_p": (0, 1),
    "top_k": (-1, _LARGEST),
    "min_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "repetition_penalty": (0, 2),
    "top_logprobs_num": (0, _LARGEST),
}
_NEVER_ZERO = frozenset({"top_p", "top_k", "repetition_penalty"})


def _span(low: float, high: float) -> str:
    return f"from {low} to {high}" if high < _LARGEST else f"finite, from {low} up"


def _stands_in(value: object) -> bool:
    """Return whether *value* is a tracer's stand-in, of a kind that nobody knows yet.

    It is text of a class of its own, and must not be asked what else it is.
    """
    return isinstance(value, str) and type(value) is not str


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


def _integer(name: str, value: object) -> object:
    if _stands_in(value) or isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} takes an integer, not {value!r}")
    return value.__index__()


def _number(name: str, value: object) -> object:
    if _stands_in(value) or isinstance(value, int | float):
        return value
    if not isinstance(value, SupportsFloat):
        raise TypeError(f"{name} takes a number, not {value!r}")
    return float(value)


def _integers(name: str, value: object) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,)
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} takes an integer or several, not {value!r}")
    return tuple(_token_id(name, item) for item in value)


def _token_id(name: str, value: object) -> int:
    try:
        # JSON has only texts for keys.
        number = int(value) if isinstance(value, str) else _integer(name, value)
    except ValueError as exc:
        raise TypeError(f"{name} takes token ids, not {value!r}") from exc
    assert isinstance(number, int), "a stand-in is a text"  # noqa: S101
    return number


def _biases(name: str, value: object) -> object:
    if _stands_in(value):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} takes token ids with a number each, not {value!r}")
    return dict(_bias(_token_id(name, key), value[key]) for key in value)


def _bias(token: int, value: object) -> tuple[int, object]:
    number = _number(f"logit_bias of token {token}", value)
    if token < 0:
        raise ValueError(f"logit_bias of token {token}: token ids begin at 0")
    if isinstance(number, float) and (math.isnan(number) or number > _LARGEST):
        raise ValueError(f"logit_bias of token {token} must not be {number!r}")
    return token, number


_READ: dict[str, Callable[[str, object], Any]] = {
    "max_new_tokens": _integer,
    "min_new_tokens": _integer,
    "n": _integer,
    "stop": _strings,
    "stop_token_ids": _integers,
    "stop_regex": _strings,
    "temperature": _number,
    "top_p": _number,
    "top_k": _integer,
    "min_p": _number,
    "frequency_penalty": _number,
    "presence_penalty": _number,
    "repetition_penalty": _number,
    "logit_bias": _biases,
    "seed": _integer,
    "logprob_start_len": _integer,
    "top_logprobs_num": _integer,
}
