"""Expressions: the calls that an author writes, ``gen``, ``select`` and the roles."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sglrun.lang import authors_choices
from sglrun.lang.choices import token_length_normalized
from sglrun.lang.constraints import check_regex, dtype_of, json_schema_text
from sglrun.lang.ir import (
    Expr,
    ExprList,
    Gen,
    RoleBegin,
    RoleEnd,
    Select,
    as_expr,
    flatten,
)
from sglrun.lang.reasoning import reasoning_format
from sglrun.lang.sampling import SamplingParams


def gen(  # noqa: PLR0917 - the reference's signature, in its order
    name: str | None = None,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    n: int | None = None,
    stop: str | Iterable[str] | None = None,
    stop_token_ids: Iterable[int] | None = None,
    stop_regex: str | Iterable[str] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    frequency_penalty: float | None = None,
    presence_penalty: float | None = None,
    ignore_eos: bool | None = None,  # noqa: FBT001
    return_logprob: bool | None = None,  # noqa: FBT001
    logprob_start_len: int | None = None,
    top_logprobs_num: int | None = None,
    return_text_in_logprobs: bool | None = None,  # noqa: FBT001
    dtype: type | str | None = None,
    choices: Iterable[str] | None = None,
    choices_method: object = None,
    regex: str | None = None,
    json_schema: object = None,
    *,
    typed: bool = False,
    **more: Any,
) -> Gen | Select:
    r"""Return a generation; its text is read as ``s[name]``.

    The positional order is SGLang's. ``None`` takes the run's value, then the default
    (``sampling.DEFAULTS``).

    Args:
        name: the variable.
        max_tokens: upper bound on new tokens (``max_new_tokens``).
        min_tokens: lower bound on new tokens (``min_new_tokens``).
        n: samples; above 1 the variable is a list and the first sample goes on.
        stop: strings that end the generation; they are cut off.
        stop_token_ids: tokens that end it.
        stop_regex: patterns that end it.
        temperature: 0 takes the likeliest token.
        top_p: see ``SamplingParams``, as for the other numbers.
        top_k: the same.
        min_p: the same.
        frequency_penalty: the same.
        presence_penalty: the same.
        ignore_eos: the same.
        return_logprob: the same.
        logprob_start_len: the same.
        top_logprobs_num: the same.
        return_text_in_logprobs: the same.
        dtype: ``int``, ``float``, ``str`` or ``bool``, or its name: the text spells
            one.
        choices: makes this a ``select``.
        choices_method: how a choice is taken.
        regex: the whole text matches it.
        json_schema: the text is JSON that fits it: a dict, JSON text, a dataclass or
            a pydantic model.
        typed: store the value that ``dtype`` or ``json_schema`` spells, not its text.
        **more: ``repetition_penalty``, ``logit_bias``, ``seed``, ``ebnf`` or
            ``extra``.

    Raises:
        re.error: *regex* is not a pattern.
        TypeError: a value of the wrong kind.
        ValueError: a value out of range, no choices, or two constraints at once.
    """
    given = {
        "max_new_tokens": max_tokens,
        "min_new_tokens": min_tokens,
        "n": n,
        "stop": stop,
        "stop_token_ids": stop_token_ids,
        "stop_regex": stop_regex,
        "top_p": top_p,
        "top_k": top_k,
        "min_p": min_p,
        "frequency_penalty": frequency_penalty,
        "presence_penalty": presence_penalty,
        "ignore_eos": ignore_eos,
        "return_logprob": return_logprob,
        "logprob_start_len": logprob_start_len,
        "top_logprobs_num": top_logprobs_num,
        "return_text_in_logprobs": return_text_in_logprobs,
        **more,
    }
    if choices is not None:
        shape = {"dtype": dtype, "regex": regex, "json_schema": json_schema}
        ignored = [key for key, value in (given | shape).items() if value is not None]
        if ignored:
            warnings.warn(
                f"gen(choices=...) does not use {', '.join(ignored)}", stacklevel=2
            )
        return select(name, choices, temperature or 0.0, choices_method)
    return _gen(
        name,
        given | {"temperature": temperature},
        dtype,
        regex,
        json_schema,
        typed=typed,
    )


def _gen(
    name: str | None,
    given: dict[str, Any],
    dtype: type | str | None,
    regex: str | None,
    json_schema: object,
    *,
    typed: bool,
) -> Gen:
    shapes = {
        "dtype": dtype,
        "regex": regex,
        "json_schema": json_schema,
        "ebnf": given.get("ebnf"),
    }
    named = [key for key, value in shapes.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"a generation takes one of {' and '.join(named)}, not both")
    sampling = SamplingParams.of(**given)
    if dtype is not None:
        kind = dtype_of(dtype)
        stop = tuple(dict.fromkeys((*(sampling.stop or ()), *kind.stop)))
        shape = SamplingParams.of(regex=kind.regex, stop=stop or None)
        return Gen(name=name, sampling=shape.over(sampling), dtype=kind, typed=typed)
    if regex is not None:
        sampling = SamplingParams(regex=check_regex(regex)).over(sampling)
    if json_schema is not None:
        text = json_schema_text(json_schema)
        sampling = SamplingParams(json_schema=text).over(sampling)
    return Gen(name=name, sampling=sampling, typed=typed)


def gen_int(name: str | None = None, *args: Any, **kwargs: Any) -> Gen:
    """Return a generation that spells an integer; arguments as for ``gen``.

    The positional order is SGLang's: that of ``gen`` without ``min_tokens`` and the
    constraints.
    """
    return _gen_dtype(name, int, args, kwargs)


def gen_string(name: str | None = None, *args: Any, **kwargs: Any) -> Gen:
    """Return a generation that spells a quoted string; arguments as for ``gen_int``."""
    return _gen_dtype(name, str, args, kwargs)


_GEN_DTYPE_ORDER = (
    "max_tokens",
    "n",
    "stop",
    "stop_token_ids",
    "stop_regex",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "ignore_eos",
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
    "return_text_in_logprobs",
)


def _gen_dtype(
    name: str | None, dtype: type, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Gen:
    given = dict(zip(_GEN_DTYPE_ORDER, args, strict=False)) | kwargs
    made = gen(name, **given, dtype=dtype)
    assert isinstance(made, Gen), "only choices make a Select"  # noqa: S101
    return made


def select(
    name: str | None = None,
    choices: Iterable[str] | None = None,
    temperature: float = 0.0,
    choices_method: object = token_length_normalized,
) -> Select:
    """Return a choice among *choices*; the option taken is read as ``s[name]``.

    Args:
        name: the variable; without one the option is appended and not stored.
        choices: the options.
        temperature: 0 takes the best score; above, one is drawn by the scores.
        choices_method: one of the three methods, its name, or a callable such as
            SGLang's ``ChoicesSamplingMethod``, which cannot draw.

    Raises:
        TypeError: one string in the place of several, or no method.
        ValueError: no choices, a method that does not exist, or one that cannot draw.
    """
    if isinstance(choices, str):
        raise TypeError(f"choices takes several strings, such as [{choices!r}]")
    method = authors_choices.choices_method(choices_method)
    if temperature > 0 and isinstance(method, authors_choices.AuthorsMethod):
        raise ValueError(
            f"select({name!r}) takes an option by {method.name}, which has no scores "
            "to draw by; leave temperature out"
        )
    options = tuple(str(choice) for choice in choices or ())
    if not options:
        raise ValueError(f"select({name!r}) needs at least one choice")
    return Select(name=name, choices=options, method=method, temperature=temperature)


def separate_reasoning(expr: object, model_type: str | None = None) -> ExprList:
    """Return *expr* with the reasoning of its generations kept apart.

    ``s[name]`` and the text hold the answer only; the reasoning is read as
    ``s[f"{name}_reasoning_content"]``.

    Raises:
        ValueError: an unnamed generation, or a model type that is not known.
    """
    marks = reasoning_format(model_type)
    pieces = flatten(as_expr(expr))
    for piece in pieces:
        if isinstance(piece, Gen | Select) and piece.name is None:
            raise ValueError("separate_reasoning needs generations with a name")
    return ExprList(
        tuple(
            replace(piece, reasoning=marks) if isinstance(piece, Gen) else piece
            for piece in pieces
        )
    )


def _role(role: str) -> Callable[..., ExprList]:
    def turn(expr: object = None) -> ExprList:
        inner: tuple[Any, ...] = () if expr is None else flatten(as_expr(expr))
        return ExprList((RoleBegin(role), *inner, RoleEnd(role)))

    turn.__name__ = turn.__qualname__ = role
    turn.__doc__ = f"Return a turn of the role {role!r} around *expr*."
    return turn


system = _role("system")
user = _role("user")
assistant = _role("assistant")


def system_begin() -> Expr:
    """Return the beginning of a system turn."""
    return RoleBegin("system")


def system_end() -> Expr:
    """Return the end of a system turn."""
    return RoleEnd("system")


def user_begin() -> Expr:
    """Return the beginning of a user turn."""
    return RoleBegin("user")


def user_end() -> Expr:
    """Return the end of a user turn."""
    return RoleEnd("user")


def assistant_begin() -> Expr:
    """Return the beginning of an assistant turn."""
    return RoleBegin("assistant")


def assistant_end() -> Expr:
    """Return the end of an assistant turn."""
    return RoleEnd("assistant")
