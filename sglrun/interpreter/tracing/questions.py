"""Questions: functions of Python's own that look at values, and what they say here.

Rule: a table from functions to what is done in their place.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from sglrun.interpreter.tracing import formats
from sglrun.interpreter.tracing.follower import Follower
from sglrun.interpreter.tracing.placeholder import Placeholder


def _is_instance(_: Follower, given: Any, kinds: Any) -> bool:
    if type(given) is not Placeholder:
        return isinstance(given, kinds)
    likely = isinstance("", kinds)
    return likely if given.value.is_text else given.ask("the type of", usual=likely)


def _type(_: Follower, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 1 or type(args[0]) is not Placeholder:
        return type(*args, **kwargs)
    if not args[0].value.is_text:
        args[0].ask("the type of")
    return str


def _str(follower: Follower, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        return follower.spelled(str, args[0])
    value = follower.first(args)
    return str(*args, **kwargs) if value is None else follower.give(str, value)


def _int(_: Follower, *args: Any, **kwargs: Any) -> Any:
    if args and type(args[0]) is Placeholder:
        args[0].ask("the number of")
        return 1
    return int(*args, **kwargs)


def _has_attribute(follower: Follower, given: Any, name: Any) -> bool:
    if type(given) is Placeholder:
        return given.ask("an attribute of", usual=False)
    return hasattr(given, follower.seen(name))


def _attribute(follower: Follower, given: Any, name: Any, *default: Any) -> Any:
    if type(given) is Placeholder and default:
        given.ask("an attribute of")
    return getattr(given, follower.seen(name), *default)


def _callable(_: Follower, given: Any) -> bool:
    if type(given) is Placeholder:
        return given.ask("the type of", usual=False)
    return callable(given)


def _dumps(follower: Follower, *args: Any, **kwargs: Any) -> Any:
    value = follower.first((*args, kwargs))
    if value is None:
        return json.dumps(*args, **kwargs)
    text = formats.dumped(follower, args[0], kwargs) if len(args) == 1 else None
    return follower.give(json.dumps, value) if text is None else text


def _sleep(follower: Follower, *_: Any) -> None:
    """Lose no time."""


def _only_known(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls *func*, which returns nothing, where all is known."""

    def call(follower: Follower, *args: Any, **kwargs: Any) -> None:
        if follower.first((*args, kwargs)) is None:
            func(*args, **kwargs)

    return call


# By identity: not all that can be called can be a key.
OWN: Mapping[int, Callable[..., Any]] = {
    id(isinstance): _is_instance,
    id(type): _type,
    id(str): _str,
    id(int): _int,
    id(repr): lambda follower, given: follower.spelled(repr, given),
    id(ascii): lambda follower, given: follower.spelled(ascii, given),
    id(format): lambda follower, given, spec="": follower.formatted(given, None, spec),
    id(hasattr): _has_attribute,
    id(getattr): _attribute,
    id(callable): _callable,
    id(json.dumps): _dumps,
    id(print): _only_known(print),
    id(time.sleep): _sleep,
}
