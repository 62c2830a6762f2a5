"""The runtime: a loaded model and all that works on it, from the load to the end."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.engine import Engine
from sglrun.backends.local.footprint import check_memory
from sglrun.backends.local.grammar import Grammars
from sglrun.backends.local.model import Model
from sglrun.backends.local.tokenizer import Tokenizer
from sglrun.errors import BackendError


class Runtime:
    """A model in memory, with its tokenizer, its engine and its constraints.

    Attributes:
        model: the weights.
        tokenizer: its vocabulary.
        engine: the thread that computes.
    """

    _first_in: ClassVar[int | None] = None  # the process that had the first

    def __init__(self, path: Path, settings: ContextSettings) -> None:
        """Load the model at *path* and start its thread.

        Raises:
            ConfigError: the engine's library cannot be used here.
            BackendError: this process was forked from one that had an engine.
            ModelError: the file is no model that it reads, or memory is short; the
                message says how much it takes.
        """
        self._process = Runtime._first_in = Runtime._first_in or os.getpid()
        self._need_own_process()
        check_memory(path, settings)
        self.model = Model(path, exact=settings.exact)
        self.tokenizer = Tokenizer(self.model)
        self.engine = Engine(self.model, self.tokenizer, settings)
        # All below is written under the condition only.
        self._changed = threading.Condition()
        self._calls = 0
        self._is_closed = False
        self._grammars: Grammars | None = None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the memory from being freed while a call works with it.

        Raises:
            BackendError: it is freed, or about to be, or is another process's.
        """
        self._need_own_process()
        with self._changed:
            if self._is_closed:
                raise BackendError("the embedded engine is closed")
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def grammars(self) -> Grammars:
        """Return the constraints; made when they are first asked for."""
        with self._changed:
            if self._grammars is None:
                self._grammars = Grammars(self.model, self.tokenizer)
            return self._grammars

    def close(self) -> None:
        """Fail what is running, wait for the calls to leave, and free the memory.

        In a process that was forked meanwhile nothing is done: there is no thread.
        """
        if os.getpid() != self._process:
            return
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
        self.engine.close()
        with self._changed:
            self._changed.wait_for(lambda: not self._calls)
        if self._grammars is not None:
            self._grammars.close()
        self.model.close()

    def _need_own_process(self) -> None:
        """Check that threads and memory are those of this process.

        Raises:
            BackendError: it was forked from the one that has them.
        """
        if os.getpid() != self._process:
            raise BackendError(
                f"the embedded engine was started in process {self._process}, from "
                f"which this one, {os.getpid()}, was forked: start processes with "
                "'spawn', or the engine only after the fork"
            )
