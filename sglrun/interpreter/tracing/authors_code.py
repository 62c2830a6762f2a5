"""The author's code: which functions are followed, and where their errors are handled.

Codes are kept by identity: to hash one takes as long as to run it.
"""

import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType

from sglrun.interpreter.tracing.calls import is_authors
from sglrun.interpreter.tracing.rewriting import (
    Rewritten,
    guarded_lines,
    is_rewritten,
    rewritten,
)


class AuthorsCode:
    """The functions of the author that one trace comes by; in its thread."""

    def __init__(self, operations: object, program_file: str) -> None:
        """Rewrite what *program_file*'s author wrote, so that *operations* follows."""
        self._operations = operations
        self._program_file = program_file
        self._codes: dict[int, tuple[CodeType, Rewritten | None]] = {}
        self._others: dict[int, CodeType] = {}
        self._guards: dict[str, frozenset[int]] = {}

    def followed(self, func: Callable[..., object]) -> Callable[..., object]:
        """Return *func*, rewritten where it is the author's."""
        if type(func) is not FunctionType:
            return func
        found = self._rewritten(func.__code__)
        return func if found is None else found.of(func)

    def is_followed(self, func: FunctionType) -> bool:
        """Return whether *func* has been rewritten."""
        return is_rewritten(func.__code__, self._operations)

    def is_plain(self, func: FunctionType) -> bool:
        """Return whether *func* changes nothing but what it has made itself."""
        found = self._rewritten(func.__code__)
        return found is not None and found.is_plain

    def is_missed(self, code: CodeType) -> bool:
        """Return whether *code* is the author's, but is not followed."""
        if self._others.get(id(code)) is code:
            return False
        own = is_authors(code.co_filename, self._program_file)
        if own and not is_rewritten(code, self._operations):
            return True
        self._others[id(code)] = code
        return False

    def is_guarded(self) -> bool:
        """Return whether an error, raised here, may be handled by the author's code."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - documented for this
        while frame is not None:
            file = frame.f_code.co_filename
            if is_rewritten(frame.f_code, self._operations):
                if file not in self._guards:
                    self._guards[file] = guarded_lines(file)
                if frame.f_lineno in self._guards[file]:
                    return True
            frame = frame.f_back
        return False

    def _rewritten(self, code: CodeType) -> Rewritten | None:
        if id(code) not in self._codes:
            found = None
            if is_authors(code.co_filename, self._program_file):
                own = is_rewritten(code, self._operations)
                found = None if own else rewritten(code, self._operations)
            self._codes[id(code)] = code, found
        return self._codes[id(code)][1]
