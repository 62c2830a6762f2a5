"""The context with its real model."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from sglrun.backends.local.attention import choose_attention
from sglrun.backends.local.context import CACHE_FULL, Context, Logits
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.model import Model
from sglrun.backends.local.step import Entry
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


@pytest.fixture(params=[0, 2000], ids=["flash", "blocks"])
def context(request: pytest.FixtureRequest, model: Model) -> Iterator[Context]:
    """A context that two texts fill, for prompts that have much in common or not."""
    settings = ContextSettings(cells=256, sequences=8)
    attention = choose_attention(model.library, settings, request.param)
    context = Context(model, Tokenizer(model).size, settings, attention=attention)
    yield context
    context.close()


@pytest.fixture
def text(model: Model) -> tuple[int, ...]:
    """The tokens of a text."""
    return Tokenizer(model).encode(TEXT)


def read(
    context: Context, tokens: Sequence[int], *, start: int = 0, sequence: int = 0
) -> Logits:
    """Compute *tokens* from position *start* on; return the last one's logits."""
    last = len(tokens) - 1
    entries = [Entry(t, start + n, sequence, n == last) for n, t in enumerate(tokens)]
    assert context.decode(entries) == 0
    return context.logits(last).copy()


def test_the_kernels_differ(model: Model) -> None:
    """The one that adds up blocks is taken where prompts have much in common.

    Less is enough where nothing is written, since few have to be computed at once.
    """
    ways = [
        choose_attention(
            model.library, ContextSettings(), prefix, only_scored=only_scored
        ).block
        for prefix, only_scored in (
            (1023, False),
            (255, True),
            (1024, False),
            (256, True),
        )
    ]

    inexact = choose_attention(model.library, ContextSettings(exact=False, batch=99))

    assert (inexact.batch, inexact.worth) == (99, 2_000)
    assert ways[:2] == [1, 1]
    assert ways[2:] == ([8, 8] if platform.machine() == "x86_64" else [1, 1])


def test_the_past_of_the_cache_changes_nothing(
    context: Context, text: tuple[int, ...]
) -> None:
    """A text scores the same to the bit wherever room for each part of it was found.

    The second part goes where room was left below the first, or above it once what
    is held was moved down; in neither case may a token lie before those it follows.
    """
    tokens = text[:LENGTH]
    alone = read(context, tokens)
    for other in (40, 67, 90):
        context.truncate(0, 0)
        read(context, tokens[:other], sequence=1)
        read(context, tokens[:64])
        context.fork(0, 2, 29)
        read(context, tokens[29:50], start=29, sequence=2)
        context.truncate(1, 0)
        among = read(context, tokens[64:], start=64)
        context.truncate(2, 0)

        assert np.array_equal(among, alone)


@pytest.mark.parametrize("at", [1, 37, 40, 47])
def test_who_goes_on_from_the_same_text_changes_nothing(
    at: int, context: Context, text: tuple[int, ...]
) -> None:
    """However many do, from wherever, and in whatever steps with others."""
    tokens = text[:56]
    alone = read(context, tokens)
    context.truncate(0, at)
    for sequence in (1, 2, 3):
        context.fork(0, sequence, at)
    ends: dict[int, Logits] = {}
    spans = {0: (at, 5), 1: (at, 13), 2: (at, 56), 3: (at, 2)}
    while spans:
        entries = [
            Entry(tokens[n], n, sequence, n == len(tokens) - 1)
            for sequence, (start, count) in spans.items()
            for n in range(start, min(start + count, len(tokens)))
        ]
        assert context.decode(entries) == 0
        ends |= {
            entry.sequence: context.logits(number).copy()
            for number, entry in enumerate(entries)
            if entry.wanted
        }
        spans = {
            sequence: (start + count, count)
            for sequence, (start, count) in spans.items()
            if start + count < len(tokens)
        }

    assert [bool(np.array_equal(each, alone)) for each in ends.values()] == [True] * 4


def test_what_is_moved_stays_what_it_was(
    context: Context, text: tuple[int, ...]
) -> None:
    """A fork goes on exactly from cells that were moved down under it."""
    tokens = text[:80]
    alone = read(context, tokens)
    context.truncate(0, 0)
    read(context, tokens[:60], sequence=1)
    read(context, tokens[:45])
    before = context._map.top
    context.truncate(1, 0)
    read(context, tokens[:3], sequence=1)
    context.fork(0, 2, 45)
    context.compact()

    assert context._map.top < before - 40
    assert np.array_equal(read(context, tokens[45:], start=45, sequence=2), alone)
    assert np.array_equal(read(context, tokens[3:], start=3, sequence=1), alone)


def test_what_is_full_says_so_and_goes_on(
    context: Context, text: tuple[int, ...]
) -> None:
    """Nothing has changed then, and there is room once something is let go of."""
    alone = read(context, text[:LENGTH])
    refused = [Entry(7, n, 1, wanted=False) for n in range(100)]
    full = context.decode(refused)
    again = context.decode(refused)
    context.truncate(0, 100)
    assert (full, again) == (CACHE_FULL, CACHE_FULL)
    assert context.decode(refused) == 0
    context.truncate(1, 0)

    assert np.array_equal(read(context, text[100:LENGTH], start=100), alone)


def test_a_moved_copy_leaves_the_others_as_they_are(
    context: Context, text: tuple[int, ...]
) -> None:
    """Cells that are copied to a later place change nothing in those they come from."""
    tokens = text[:LENGTH]
    alone = read(context, tokens[:80])
    context.truncate(0, 60)
    context.fork(0, 1, 40)
    moved = context.append(0, 1, range(20, 40), 20)
    after = read(context, tokens[60:80], start=60)
    joined = read(context, tokens[:5], start=60, sequence=1)
    context.compact()
    context.truncate(1, 60)
    moved_then = read(context, tokens[:5], start=60, sequence=1)

    assert moved
    assert np.array_equal(after, alone)
    assert np.array_equal(moved_then, joined)


def test_a_copy_that_fills_the_cache_is_turned_once_there_is_room(
    context: Context, text: tuple[int, ...]
) -> None:
    """That takes a step of its own, for which there may be no cells."""
    read(context, text[:100])
    context.fork(0, 1, 80)
    context.append(0, 1, range(60, 76), 20)
    alone = read(context, text[:5], start=96, sequence=1)
    context.truncate(1, 80)
    read(context, text[:136], sequence=2)
    filled = context.append(0, 1, range(60, 76), 20)
    five = [Entry(token, 96 + n, 1, n == 4) for n, token in enumerate(text[:5])]
    full = context.decode(five)
    context.truncate(2, 20)

    assert filled
    assert full == CACHE_FULL
    assert np.array_equal(read(context, text[:5], start=96, sequence=1), alone)


def test_one_token_by_itself_is_as_in_company(
    context: Context, text: tuple[int, ...]
) -> None:
    """However many in a row: what pads such steps is let go of in time."""
    alone = read(context, text[:60])
    context.truncate(0, 20)
    ones = [read(context, text[at : at + 1], start=at) for at in range(20, 60)]

    assert np.array_equal(ones[-1], alone)


def test_cells_that_were_let_go_of_are_cleared_away_in_time(
    model: Model, text: tuple[int, ...]
) -> None:
    """They are, once there are many of them beside those that are held."""
    context = Context(model, Tokenizer(model).size, ContextSettings(cells=2048))
    tops = []
    for sequence in range(9):
        read(context, text[:100], sequence=sequence)
    tops.append(context._map.top)
    for sequence in range(1, 8):
        context.truncate(sequence, 0)
        read(context, text[100 + sequence :][:1], start=99 + sequence, sequence=8)
        tops.append(context._map.top)
    context.close()

    assert tops[:5] == [900, 901, 902, 903, 500 + 4 + 1]  # with what pads a step


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
