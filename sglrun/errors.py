"""Every error raised on purpose, drawn as a tree.

The number is the exit code of the command that ends with it. ``retryable``: the
same call may succeed later. ``fatal``: no other row can succeed either, so the run
ends.

* SglrunError 1
  * UsageError 2
    * ConfigError 2
    * ProgramLoadError 2
    * InputError 2
    * ModelError 2
    * ResultsError 2
      * ResultsLockedError 4
  * BackendError 1
    * BackendUnavailableError 1 retryable
      * BackendUnreachableError 1 retryable fatal
    * BackendTimeoutError 1 retryable
    * RateLimitError 1 retryable
    * AuthenticationError 1 fatal
    * ModelNotFoundError 1 fatal
    * BadRequestError 1
    * ResponseError 1 retryable
    * UnsupportedFeatureError 1
  * ProgramError 1
    * ForkError 1
    * ScopeError 1
  * RowError 1
  * RunStoppedError 3
  * RunInterruptedError 130

Rule: what code needs to know about an error is an attribute, never a word in its
message; nobody reads a message or compares class names.
"""

import signal


class SglrunError(Exception):
    """What went wrong, with the value, where, and what to do next."""

    exit_code: int = 1


class UsageError(SglrunError):
    """The command, its options or its files cannot be used as given."""

    exit_code = 2


class ConfigError(UsageError):
    """An option, an environment variable or a configuration file is wrong."""


class ProgramLoadError(UsageError):
    """No such file, no program in it, or more than one and none named."""


class InputError(UsageError):
    """The rows cannot be read.

    Attributes:
        path: the file, as the user named it.
        line: the 1-based line, where one line is at fault.
    """

    def __init__(
        self, message: str, *, path: str = "", line: int | None = None
    ) -> None:
        """Keep *path* and *line* beside the message."""
        super().__init__(message)
        self.path = path
        self.line = line


class ModelError(UsageError):
    """A model of the embedded engine is missing, damaged or of another format."""


class ResultsError(UsageError):
    """The results file exists, belongs to another run, or cannot be written."""


class ResultsLockedError(ResultsError):
    """Another run is writing these results now."""

    exit_code = 4


class BackendError(SglrunError):
    """A model could not answer a request.

    Attributes:
        http_status: the status of the answer, where there was one.
        retry_after_s: how long the server asked to wait, in seconds.
    """

    retryable: bool = False
    fatal: bool = False

    def __init__(
        self,
        message: str,
        *,
        http_status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        """Keep the facts of the answer beside the message."""
        super().__init__(message)
        self.http_status = http_status
        self.retry_after_s = retry_after_s


class BackendUnavailableError(BackendError):
    """The server cannot answer now: 5xx, a reset or broken connection."""

    retryable = True


class BackendUnreachableError(BackendUnavailableError):
    """Nothing answers at this address: refused, no such host, TLS refused."""

    fatal = True


class BackendTimeoutError(BackendError):
    """The answer did not come in time."""

    retryable = True


class RateLimitError(BackendError):
    """The server asks to slow down."""

    retryable = True


class AuthenticationError(BackendError):
    """The key is missing, wrong or not allowed to do this."""

    fatal = True


class ModelNotFoundError(BackendError):
    """The server does not know the model that the run names."""

    fatal = True


class BadRequestError(BackendError):
    """The server refuses this request, and would refuse it again."""


class ResponseError(BackendError):
    """The answer is not what the protocol says."""

    retryable = True


class UnsupportedFeatureError(BackendError):
    """The backend cannot do exactly what the program asks."""


class ProgramError(SglrunError):
    """The program is wrong where it stands: a nested role, a missing argument."""


class ForkError(ProgramError):
    """A branch of a fork failed; its cause is ``__cause__``.

    Attributes:
        index: the 0-based branch.
    """

    def __init__(self, message: str, *, index: int) -> None:
        """Keep the branch beside the message."""
        super().__init__(message)
        self.index = index


class ScopeError(ProgramError):
    """A variable is read inside the ``var_scope`` that is still writing it."""


class RowError(SglrunError):
    """A line of the input is not a row of this program."""


class RunStoppedError(SglrunError):
    """The run ended before its last row; what is finished is kept."""

    exit_code = 3


class RunInterruptedError(SglrunError):
    """A signal ended the run; what is finished is kept.

    Attributes:
        signal_number: the signal; the exit code is 128 more, as shells have it.
    """

    exit_code = 128 + signal.SIGINT

    def __init__(self, message: str, *, signal_number: int = signal.SIGINT) -> None:
        """Derive the exit code from *signal_number*."""
        super().__init__(message)
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
