"""The runtime: a loaded model and all that works on it, from the load to the end."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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

    def __init__(self, path: Path, settings: ContextSettings) -> None:
        """Load the model at *path* and start its thread.

        Raises:
            ConfigError: the engine's library cannot be used here.
            ModelError: the file is no model that it reads, or memory is short; the
                message says how much it takes.
        """
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
            BackendError: it is freed, or about to be.
        """
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
        """Fail what is running, wait for the calls to leave, and free the memory."""
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
