"""The context with its real model."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from sglrun.backends.local.context import Context, Entry, Logits
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.model import Model
from sglrun.backends.local.tokenizer import Tokenizer

pytestmark = pytest.mark.engine

LENGTH = 160
TEXT = "".join(f"{n} ships lay in the harbour, {n * 7} at sea. " for n in range(40))


@pytest.fixture(scope="module")
def model(model_path: Path) -> Iterator[Model]:
    """The weights."""
    model = Model(model_path)
    yield model
    model.close()


@pytest.fixture
def context(model: Model) -> Iterator[Context]:
    """A context that two texts fill."""
    settings = ContextSettings(cells=256, sequences=8)
    context = Context(model, Tokenizer(model).size, settings)
    yield context
    context.close()


def read(
    context: Context, tokens: Sequence[int], *, start: int = 0, sequence: int = 0
) -> Logits:
    """Compute *tokens* from position *start* on; return the last one's logits."""
    last = len(tokens) - 1
    entries = [Entry(t, start + n, sequence, n == last) for n, t in enumerate(tokens)]
    if len(entries) > context.room:
        context.compact()
    assert context.decode(entries) == 0
    return context.logits(last).copy()


def test_the_past_of_the_cache_changes_nothing(model: Model, context: Context) -> None:
    """A text scores the same to the bit wherever room for each part of it was found.

    The second part goes where room was left below the first, or above it once what
    is held was moved down; in neither case may a token lie before those it follows.
    """
    tokens = Tokenizer(model).encode(TEXT)[:LENGTH]
    alone = read(context, tokens)
    for other in (40, 90):
        context.truncate(0, 0)
        read(context, tokens[:other], sequence=1)
        read(context, tokens[:64])
        context.fork(0, 2, 32)
        read(context, tokens[32:50], start=32, sequence=2)
        context.truncate(1, 0)
        among = read(context, tokens[64:], start=64)
        context.truncate(2, 0)

        assert np.array_equal(among, alone)


def test_what_is_moved_stays_what_it_was(model: Model, context: Context) -> None:
    """A fork goes on exactly from cells that were moved down under it."""
    tokens = Tokenizer(model).encode(TEXT)[:LENGTH]
    alone = read(context, tokens[:80])
    read(context, tokens[:60], sequence=1)
    context.truncate(0, 40)
    context.fork(0, 2, 40)
    context.compact()

    assert context.room == 256 - 2 - 40 - 60
    assert np.array_equal(read(context, tokens[40:80], start=40, sequence=2), alone)


def test_a_moved_copy_leaves_the_others_as_they_are(
    model: Model, context: Context
) -> None:
    """Cells that are copied to a later place change nothing in those they come from."""
    tokens = Tokenizer(model).encode(TEXT)[:LENGTH]
    alone = read(context, tokens[:80])
    context.truncate(0, 60)
    context.fork(0, 1, 40)
    moved = context.append(0, 1, range(20, 40), 20)
    after = read(context, tokens[60:80], start=60)
    read(context, tokens[:5], start=60, sequence=1)
    context.compact()

    assert moved
    assert np.array_equal(after, alone)


def test_cells_that_were_let_go_of_are_cleared_away_in_time(model: Model) -> None:
    """They are, once there are many of them beside those that are held."""
    tokens = Tokenizer(model).encode(TEXT)
    context = Context(model, Tokenizer(model).size, ContextSettings(cells=2048))
    read(context, tokens[:100])
    for sequence in range(1, 9):
        read(context, tokens[:100], sequence=sequence)
    context.tidy()
    whole = context.room
    for sequence in range(1, 7):
        context.truncate(sequence, 0)
    read(context, tokens[:300], sequence=1)
    cluttered = context.room
    context.tidy()
    cleared = context.room
    context.close()

    assert (whole, cluttered, cleared) == (2046 - 900, 2046 - 1200, 2046 - 600)


NO_ROOM = """
import resource, sys
from pathlib import Path
from sglrun.backends.local.context import Context
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.model import Model
from sglrun.errors import ModelError
model = Model(Path(sys.argv[1]))
limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (limit + 200_000_000, -1))
try:
    Context(model, 49152, ContextSettings())
except ModelError as exc:
    print(exc)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit that Linux knows")
def test_where_there_is_no_room_that_is_said(model_path: Path) -> None:
    """The library's own words tell how much it wanted."""
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM, str(model_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert "no room for 16,384 tokens (--ctx-size): insufficient mem" in done.stdout
