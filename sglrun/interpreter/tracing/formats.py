"""Formats: how values that are not known become parts of texts.

``%``, ``str.format``, ``join``, ``replace`` and ``json.dumps``, which would put their
text into one that nobody can tell from the author's.
"""

import json
import re
import string
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from sglrun.interpreter.tracing.follower import Follower
from sglrun.interpreter.tracing.placeholder import Placeholder
from sglrun.interpreter.tracing.value import Value

_SPEC = re.compile(
    r"%(?:%|(?:\((?P<name>[^()]*)\))?[#0\- +]*\d*(?:\.\d+)?[hlL]?[diouxXeEfFgGcrsa])"
)
_FORMATTER = string.Formatter()


def percent(follower: Follower, template: str, given: Any) -> str:
    """Return ``template % given``, in which something is unknown."""
    specs = list(_SPEC.finditer(template))
    asking = [spec for spec in specs if spec[0] != "%%"]
    by_name = bool(asking) and all(spec["name"] is not None for spec in asking)
    plain = all(spec["name"] is None for spec in asking)
    number = len(given) if type(given) is tuple else 1
    fits = by_name or (plain and number == len(asking))
    if "%" in _SPEC.sub("", template) or not fits:  # a width that is given, an error
        return _percent_whole(template, given)
    values = iter(given if type(given) is tuple else (given,))
    parts: list[str] = []
    at = 0
    for spec in specs:
        parts.append(template[at : spec.start()])
        at = spec.end()
        if spec[0] == "%%":
            parts.append("%")
        elif spec["name"] is None:
            parts.append(_percent(spec[0], next(values)))
        else:
            own = spec[0].replace(f"({spec['name']})", "", 1)
            parts.append(_percent(own, given[spec["name"]]))
    return follower.text(*parts, template[at:])


def _percent_whole(template: str, given: Any) -> str:
    made: str = (
        given.step("rmod", template) if type(given) is Placeholder else template % given
    )
    return made


def _percent(spec: str, value: Any) -> str:
    return (
        value.step("percent", spec) if type(value) is Placeholder else spec % (value,)
    )


def call(
    follower: Follower,
    method: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    value: Value,
) -> Any:
    """Call *method* of a constant text, which is given *value* among others."""
    template, name = method.__self__, method.__name__
    if name == "format":
        return _format(follower, template, args, kwargs, count())
    if name == "format_map":
        return _format(follower, template, (), args[0], count())
    if name == "replace" and not kwargs:
        old, new, *most = args
        # Where nothing is replaced, the new text still has to be one.
        if type(old) is str and old and old in template and not most:
            return joined(follower, new, template.split(old))
    follower.ask(f"{name!r} in constant text of", value)
    return method(*args, **kwargs)


def joined(follower: Follower, separator: str, given: Any) -> str:
    """Return ``separator.join(given)``."""
    if type(given) is Placeholder:
        return given.step("joined", separator)
    items = list(given)
    if not any(type(item) is Placeholder for item in (separator, *items)):
        return separator.join(items)
    strange = [item for item in items if not isinstance(item, str)]
    if strange:
        return separator.join(strange)  # which raises
    return follower.text(*_between(separator, items))


def _between(separator: str, items: list[str]) -> Iterator[str]:
    for number, item in enumerate(items):
        if number:
            yield separator
        yield item


def _format(
    follower: Follower,
    template: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    numbers: Iterator[int],
) -> str:
    parts: list[str] = []
    for literal, field, spec, conversion in _FORMATTER.parse(template):
        parts.append(literal)
        if field is None:
            continue
        if field[:1] in ("", ".", "["):
            field = f"{next(numbers)}{field}"  # noqa: PLW2901
        value, _ = _FORMATTER.get_field(field, args, kwargs)
        own = _format(follower, spec, args, kwargs, numbers) if spec else ""
        parts.append(follower.formatted(value, conversion, own))
    return follower.text(*parts)


def dumped(follower: Follower, given: Any, options: Mapping[str, Any]) -> str | None:
    """Return ``json.dumps(given)``; ``None`` if that is not known how."""
    if options.keys() - {"ensure_ascii"}:
        return None
    ascii_only = bool(options.get("ensure_ascii", True))
    marks: list[Placeholder] = []

    def stood_for(each: Any) -> Any:
        if type(each) is Placeholder:
            marks.append(each.step("json", ascii_only))
            return str.__str__(marks[-1])
        if type(each) in (list, tuple):
            return list(map(stood_for, each))
        if type(each) is dict:
            return {key: stood_for(item) for key, item in each.items()}
        return each

    if type(given) not in (Placeholder, list, tuple, dict):
        return None
    text = json.dumps(stood_for(given), ensure_ascii=ascii_only)
    parts: list[str] = []
    for mark in marks:
        before, _, text = text.partition(f'"{str.__str__(mark)}"')
        parts += [before, mark]
    return follower.text(*parts, text)
