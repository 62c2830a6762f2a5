"""Errors as words and exit codes."""

import pytest

from sglrun.cli.failures import exit_code, lines
from sglrun.errors import (
    AuthenticationError,
    ConfigError,
    ResultsLockedError,
    RunInterruptedError,
    RunStoppedError,
    SglrunError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SglrunError("x"), 1),
        (ConfigError("x"), 2),
        (AuthenticationError("x"), 3),
        (RunStoppedError("x"), 3),
        (OSError(28, "No space left on device"), 3),
        (ResultsLockedError("x"), 4),
        (RunInterruptedError("x", signal_number=15), 143),
        (ZeroDivisionError("x"), 70),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    """Each kind of error ends a command with its own code."""
    assert exit_code(error) == code


def test_an_error_is_a_line_and_its_notes() -> None:
    """A known error is told without a traceback, its advice below it."""
    error = ConfigError("what happened")
    error.add_note("what to do")

    assert list(lines(error)) == ["sglrun: error: what happened", "  what to do"]


def test_a_bug_says_so() -> None:
    """An error that nobody raised on purpose is told as ours, with its traceback."""
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    told = list(lines(caught.value))

    assert told[0] == "Traceback (most recent call last):"
    assert told[-2].startswith("sglrun: error: this is a bug in sglrun: ZeroDivision")


def test_verbose_tells_where_a_known_error_came_from() -> None:
    """With ``-v`` the traceback of a known error is told, too."""
    with pytest.raises(ConfigError) as caught:
        raise ConfigError("x")
    told = list(lines(caught.value, verbose=True))

    assert told[0] == "Traceback (most recent call last):"
    assert told[-1] == "sglrun: error: x"
