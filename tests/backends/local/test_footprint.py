"""The memory that a model takes."""

import logging
import struct
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.local import gguf
from sglrun.backends.local.backend import LocalBackend
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.footprint import (
    Footprint,
    check_memory,
    read_footprint,
    size_text,
)
from sglrun.backends.local.step import Entry
from sglrun.errors import ModelError

GB = 10**9
SETTINGS = ContextSettings()


def whole(key: str, value: int) -> gguf.Entry:
    return gguf.Entry(key, gguf.UINT32, struct.pack("<I", value))


def wholes(key: str, *values: int) -> gguf.Entry:
    data = struct.pack(f"<IQ{len(values)}i", 5, len(values), *values)
    return gguf.Entry(key, gguf.ARRAY, data)


def model(path: Path, *entries: gguf.Entry, data_bytes: int = 0) -> Path:
    """Write the header of a model of an architecture of our own, and some data."""
    architecture = struct.pack("<Q", 4) + b"ours"
    named = gguf.Entry("general.architecture", gguf.STRING, architecture)
    vocabulary = gguf.Tensor("token_embd.weight", (64, 1000), 0, 0)
    with path.open("wb") as file:
        gguf.write_header(file, (named, *entries), [vocabulary], 32)
        file.write(bytes(data_bytes))
    return path


SIZES = (
    whole("ours.block_count", 3),
    whole("ours.embedding_length", 64),
    whole("ours.attention.head_count", 4),
)


@pytest.mark.parametrize(
    ("entries", "numbers"),
    [
        (SIZES, 3 * 4 * (16 + 16)),
        ((*SIZES, whole("ours.attention.head_count_kv", 2)), 3 * 2 * 32),
        ((*SIZES, wholes("ours.attention.head_count_kv", 2, 0, 1)), 3 * 32),
        (
            (
                *SIZES,
                whole("ours.attention.key_length", 24),
                whole("ours.attention.value_length", 8),
            ),
            3 * 4 * 32,
        ),
        ((), 0),
    ],
)
def test_what_a_token_takes_is_read_from_the_file(
    entries: tuple[gguf.Entry, ...], numbers: int, tmp_path: Path
) -> None:
    """Two bytes for each number of a key and a value, of all heads and layers."""
    path = model(tmp_path / "a.gguf", *entries)

    heads = 4 if entries else 1
    assert read_footprint(path) == Footprint(
        weights=path.stat().st_size,
        token=2 * numbers,
        logits=4 * 1000,
        scores=4 * heads,
    )


def test_the_scores_of_a_pass_are_counted_where_they_may_be_written() -> None:
    """For each token of it and each cell, unless nothing has to be exact."""
    without = Footprint(weights=0, token=1000, logits=0, scores=0)
    taken = [
        replace(without, scores=36).working(settings) - without.working(settings)
        for settings in (SETTINGS, replace(SETTINGS, exact=False))
    ]

    assert taken == [36 * 64 * SETTINGS.cells, 0]


def test_a_model_in_parts_takes_what_they_take(tmp_path: Path) -> None:
    """The sizes of all files of a model add up; those of others do not."""
    first = model(tmp_path / "a-00001-of-00002.gguf", *SIZES)
    (tmp_path / "a-00002-of-00002.gguf").write_bytes(bytes(5000))
    (tmp_path / "b-00002-of-00002.gguf").write_bytes(bytes(7000))

    assert read_footprint(first).weights == first.stat().st_size + 5000


@pytest.mark.engine
def test_a_token_of_the_bundled_model_takes_as_much(
    backend: LocalBackend, model_path: Path
) -> None:
    """What is told is what the library writes when it is asked for its cells."""
    context = backend._runtime.engine._context
    entries = [Entry(9, at, 0, wanted=False) for at in range(100)]
    context.decode(entries)
    size = context._library.llama_state_seq_get_size(context._handle, 0)
    context.truncate(0, 0)

    assert size == pytest.approx(100 * read_footprint(model_path).token, rel=0.01)


def test_the_memory_is_told_before_a_model_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what it takes and what is free."""
    path = model(tmp_path / "a.gguf", *SIZES, data_bytes=2_000_000)
    caplog.set_level(logging.INFO, "sglrun")
    check_memory(path, SETTINGS, lambda: 24 * GB)
    check_memory(path, SETTINGS, lambda: None)

    takes = "a.gguf takes 2 MB for its weights and 31 MB to hold 16,384 tokens"
    assert caplog.messages == [f"{takes}; 24.0 GB of memory are free", takes]


def test_weights_that_do_not_fit_are_warned_of(tmp_path: Path) -> None:
    """They can be read from the disk again, so the run may go on."""
    path = model(tmp_path / "a.gguf", *SIZES, data_bytes=2_000_000)
    with pytest.warns(UserWarning, match=r"32 MB of memory are free: .* is slow"):
        check_memory(path, SETTINGS, lambda: 32_000_000)


def test_what_cannot_fit_is_refused_with_what_would(tmp_path: Path) -> None:
    """The message says how much is taken, how much is there, and what to do."""
    path = model(tmp_path / "a.gguf", *SIZES)
    with pytest.raises(ModelError, match=r"9 MB of memory are free: --ctx-size 4096"):
        check_memory(path, SETTINGS, lambda: 9_000_000)
    with pytest.raises(ModelError, match="free some, or take a smaller model"):
        check_memory(path, SETTINGS, lambda: 100_000)


def test_fewer_tokens_are_shared_by_fewer_sequences() -> None:
    """Each may hold one token twice, which must not take a small context."""
    small = SETTINGS.resized(1024)

    assert (small.sequences, small.tokens) == (64, 960)
    assert SETTINGS.resized(SETTINGS.cells) == SETTINGS


@given(
    cells=st.integers(1024, 200_000),
    left=st.integers(0, 3 * 10**8),
    exact=st.booleans(),
)
def test_what_is_advised_fits(
    tmp_path_factory: pytest.TempPathFactory, *, cells: int, left: int, exact: bool
) -> None:
    """The size that is advised passes, and is the largest of its steps that does."""
    path = model(tmp_path_factory.getbasetemp() / "advised.gguf", *SIZES)
    settings = ContextSettings(exact=exact).resized(cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_memory(path, settings, lambda: left)
        except ModelError as exc:
            words = str(exc).split("--ctx-size ")[1:]
        else:
            return
        advised = int(words[0].split()[0]) if words else 0
        assert advised < cells
        if advised:
            check_memory(path, settings.resized(advised), lambda: left)
        if advised + 1024 <= cells:
            with pytest.raises(ModelError):
                check_memory(path, settings.resized(advised + 1024), lambda: left)


@pytest.mark.parametrize("data", [b"", b"GGUF\x03\0\0\0", b"PK\x03\x04" + bytes(99)])
def test_what_is_no_model_is_left_to_the_engine(data: bytes, tmp_path: Path) -> None:
    """Only the engine refuses a file, so that it is refused once."""
    path = tmp_path / "a.gguf"
    path.write_bytes(data)
    check_memory(path, SETTINGS, lambda: 0)
    check_memory(tmp_path / "absent.gguf", SETTINGS, lambda: 0)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 MB"), (145_000_000, "145 MB"), (1_000_000_000, "1.0 GB")],
)
def test_sizes_are_said_as_people_say_them(size: int, text: str) -> None:
    """In megabytes, and from a thousand on in gigabytes."""
    assert size_text(size) == text
