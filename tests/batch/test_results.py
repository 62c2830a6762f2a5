"""Results."""

from sglrun.batch.results import ErrorInfo, backend_cause, error_info
from sglrun.errors import BackendUnavailableError, ForkError, ProgramError
from sglrun.interpreter.failure import Failure


def test_a_fork_tells_what_its_branch_met() -> None:
    """The status and the prospects of a branch's error are those of the row."""
    cause = BackendUnavailableError("503", http_status=503)
    error = ForkError("branch 2 of a fork of 3 failed: 503", index=2)
    error.__cause__ = cause
    failure = Failure(cause=error, variable="a", where="prog.py:3")

    assert backend_cause(error) is cause
    assert error_info(failure) == ErrorInfo(
        type="ForkError",
        message="branch 2 of a fork of 3 failed: 503",
        variable="a",
        http_status=503,
        retryable=True,
        where="prog.py:3",
    )


def test_an_error_without_words_has_its_name() -> None:
    """An exception that says nothing is told by its class."""
    assert error_info(Failure(cause=ValueError())).message == "ValueError"
    assert backend_cause(ProgramError("no backend")) is None
