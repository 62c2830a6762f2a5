"""The error tree."""

import re

import pytest

from sglrun import errors

TREE = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.SglrunError)
}


def test_the_docstring_draws_the_tree() -> None:
    """The tree in the module's docstring is the tree in its code."""
    drawn = re.findall(
        r"^( *)\* (\w+) +(\d+)( +retryable)?( +fatal)?$",
        str(errors.__doc__),
        re.MULTILINE,
    )
    root_depth = len(errors.SglrunError.__mro__)

    assert {
        name: (len(indent) // 2, int(code), bool(retryable), bool(fatal))
        for indent, name, code, retryable, fatal in drawn
    } == {
        name: (
            len(cls.__mro__) - root_depth,
            cls.exit_code,
            getattr(cls, "retryable", False),
            getattr(cls, "fatal", False),
        )
        for name, cls in TREE.items()
    }


@pytest.mark.parametrize("name", TREE)
def test_every_error_is_named_and_described(name: str) -> None:
    """An error's name ends in Error, and its docstring says what happened."""
    assert name.endswith("Error")
    assert TREE[name].__doc__


def test_facts_are_attributes() -> None:
    """What code needs of an error stands beside its message."""
    limited = errors.RateLimitError("slow down", http_status=429, retry_after_s=2.5)
    stopped = errors.RunInterruptedError("stopped", signal_number=15)

    assert (limited.http_status, limited.retry_after_s) == (429, 2.5)
    assert (limited.retryable, limited.fatal) == (True, False)
    assert stopped.exit_code == 143
    assert errors.InputError("bad", path="in.jsonl", line=3).line == 3
    assert errors.ForkError("bad", index=1).index == 1
