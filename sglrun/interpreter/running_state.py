"""A running state: what the caller of a streamed program holds while its body runs.

The body has a state of its own, which waits for nothing but what was added; both have
one executor.
"""

import threading
from collections.abc import Mapping
from typing import Any

from sglrun.interpreter.evaluator import Name
from sglrun.interpreter.executor import StreamExecutor
from sglrun.interpreter.state import ProgramState


class RunningState(ProgramState):
    """A state that is complete once the body has ended.

    What waits, waits for that too: a variable that the body has not come to yet is
    waited for, and a text is whole.
    """

    def __init__(self, executor: StreamExecutor) -> None:
        """Wrap *executor*, whose program's body is about to begin."""
        super().__init__(executor)
        self._ended = threading.Event()

    def end(self, ret_value: object) -> None:
        """Note that the body has ended and what it returned."""
        self.ret_value = ret_value
        self._ended.set()

    def __getitem__(self, name: Name) -> Any:
        """Wait for the variable *name* and return it.

        Raises:
            KeyError: the body has ended and nothing assigns it.
            BackendError: what made it fail, or whatever failed first.
        """
        try:
            return super().__getitem__(name)
        except KeyError:
            self._ended.wait()
        return super().__getitem__(name)

    get_var = __getitem__

    def __repr__(self) -> str:
        """Return the text, once the body has ended and it is complete."""
        self._ended.wait()
        return super().__repr__()

    def error(self) -> BaseException | None:
        """Wait for the end of the program; return the first cause of a failure."""
        self._ended.wait()
        return super().error()

    def sync(self) -> None:
        """Wait for the end of the program; raise the first cause of a failure."""
        self._ended.wait()
        super().sync()

    def text(self) -> str:
        """Wait for the end of the program, then return the whole text."""
        self._ended.wait()
        return super().text()

    def messages(self) -> list[dict[str, object]]:
        """Wait for the end of the program, then return the turns."""
        self._ended.wait()
        return super().messages()

    def variables(self) -> Mapping[Name, object]:
        """Wait for the end of the program, then return the variables with values."""
        self._ended.wait()
        return super().variables()

    def finish_reasons(self) -> Mapping[Name, str]:
        """Wait for the end of the program, then return why generations ended."""
        self._ended.wait()
        return super().finish_reasons()

    def get_meta_info(self, name: Name) -> Any:
        """Wait for the variable *name*; return what the backend told about it."""
        self[name]
        return super().get_meta_info(name)
