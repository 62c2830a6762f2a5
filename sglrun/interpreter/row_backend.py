"""The backend of one row of a batch: it refuses once nobody can get the row's state."""

from collections.abc import Callable

from sglrun.backends.base import (
    Backend,
    Completion,
    OnText,
    Request,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.backends.passing import PassingBackend
from sglrun.errors import RunStoppedError
from sglrun.lang.prompt import Prompt


class RowBackend(PassingBackend):
    """Passes on what a row asks, until its batch is left."""

    def __init__(self, backend: Backend, is_left: Callable[[], bool]) -> None:
        """Pass on to *backend*; *is_left* tells that nobody reads the batch on."""
        super().__init__(backend)
        self._is_left = is_left
        self._is_given = False

    def give(self) -> None:
        """Note that the reader has the state, and may go on with it at any time."""
        self._is_given = True

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Pass on.

        Raises:
            RunStoppedError: the batch was left.
        """
        self._refuse_if_left()
        return super().generate(request, on_text)

    def select(self, request: SelectRequest) -> Selection:
        """Pass on.

        Raises:
            RunStoppedError: the batch was left.
        """
        self._refuse_if_left()
        return super().select(request)

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Pass on.

        Raises:
            RunStoppedError: the batch was left.
        """
        self._refuse_if_left()
        return super().cache_prefix(prompt, only_scored=only_scored)

    def _refuse_if_left(self) -> None:
        if self._is_left() and not self._is_given:
            raise RunStoppedError(
                "the batch was left before this row had ended; it asks nothing more"
            )
