"""The bundled model, loaded once for all tests of the embedded engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sglrun.backends.local import store
from sglrun.backends.local.backend import LocalBackend
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.grammar import Grammars
from sglrun.backends.local.model import Model
from sglrun.backends.local.tokenizer import Tokenizer

# Small, so that a test may fill it in a moment.
SETTINGS = ContextSettings(cells=1024, sequences=64)


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The bundled model's file, fetched if this machine has not got it."""
    lines: list[str] = []
    return store.pull(lines.append)


@pytest.fixture(scope="session")
def shared_backend(model_path: Path) -> Iterator[LocalBackend]:
    """One backend for the whole session."""
    backend = LocalBackend(model_path, settings=SETTINGS)
    yield backend
    backend.close()


@pytest.fixture
def backend(shared_backend: LocalBackend) -> LocalBackend:
    """The backend with nothing cached."""
    shared_backend.flush_cache()
    return shared_backend


@pytest.fixture(scope="session")
def tokenizer_and_grammars(model_path: Path) -> Iterator[tuple[Tokenizer, Grammars]]:
    """The bundled model's vocabulary, and the grammar engine over it."""
    model = Model(model_path)
    tokenizer = Tokenizer(model)
    grammars = Grammars(model, tokenizer)
    yield tokenizer, grammars
    grammars.close()
    model.close()
