"""Rows of an input."""

import bz2
import gzip
import io
import json
import lzma
import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given as for_all
from hypothesis import strategies as st

from sglrun.batch.rows import Row, given, read_rows
from sglrun.batch.sources import Source
from sglrun.errors import InputError
from sglrun.interpreter.function import function
from sglrun.interpreter.program import Program
from sglrun.interpreter.state import ProgramState

ReadAll = Callable[[bytes], list[Row]]


@pytest.fixture
def read_all(tmp_path: Path) -> ReadAll:
    """Return a function from the bytes of a file to its rows."""

    def read(content: bytes) -> list[Row]:
        path = tmp_path / "in.jsonl"
        path.write_bytes(content)
        with read_rows(str(path)) as rows:
            return list(rows)

    return read


def program_of(func: Callable[..., object]) -> Program:
    made = function(func)
    assert isinstance(made, Program)
    return made


def asks(s: ProgramState, q: object, n: object = 1) -> None:
    del s, q, n


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b'\xef\xbb\xbf{"q":"a"}\n', ["a"]),
        (b"\xef\xbb\xbf\n", []),
        (b'{"q":"a"}\r\n{"q":"b"}\r\n', ["a", "b"]),
        (b'{"q":"a"}\n{"q":"b"}', ["a", "b"]),
        (b'\n \t\r\n{"q":"a"}\n\n', ["a"]),
        ('{"q":"a\u2028b"}\n'.encode(), ["a\u2028b"]),
        (b'{"q":\r"a"}\n', ["a"]),
        (b'{"q":"\\u0000"}\n', ["\0"]),
        (b'{"q":"\\ud800"}\n', ["\ud800"]),
        (b'{"q":"' + b"x" * 5_000_000 + b'"}\n', ["x" * 5_000_000]),
        (b"", []),
    ],
)
def test_odd_bytes_are_read(
    read_all: ReadAll, content: bytes, values: list[str]
) -> None:
    """Marks, line ends and blank lines around rows change nothing."""
    rows = read_all(content)

    assert [row.error for row in rows] == [None] * len(values)
    assert [row.fields["q"] for row in rows] == values


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"q": ', ":2:7: not JSON: "),
        (b"[1]", ":2:1: not a row: "),
        (b'"str"', ":2:1: not a row: "),
        (b"null", ":2:1: not a row: "),
        (b'{"q": NaN}', ":2:7: not JSON: NaN is no number"),
        (b'{"q": "\xff"}', ":2:8: not UTF-8: "),
        (b'{"q": "a\0b"}', ":2:9: not JSON: "),
        (b'{"q": 1,}', ":2:9: not JSON: "),
        (b'{"q": 1} {"q": 2}', ":2:10: not JSON: "),
        (b'{"q": ' + b"[" * 100_000, ":2:1: not a row: nested too deeply"),
    ],
)
def test_a_line_that_is_no_row_is_named(
    read_all: ReadAll, line: bytes, told: str
) -> None:
    """A line that is no row gives a row with its place and reason; others go on."""
    rows = read_all(b"\n" + line + b'\n{"q":"next"}\n')

    assert told in str(rows[0].error)
    assert [row.line for row in rows] == [2, 3]
    assert rows[1].fields == {"q": "next"}


def test_fields_keep_their_spelling(read_all: ReadAll) -> None:
    """The JSON text of each field is as it was written; of equal names the last."""
    line = b'{"a": 1.10, "b": 9223372036854775809, "c": {"y":1, "x": [ 2 ]}, "a": 1e2}'
    (row,) = read_all(line)

    assert dict(row.raw) == {
        "a": "1e2",
        "b": "9223372036854775809",
        "c": '{"y":1, "x": [ 2 ]}',
    }
    assert row.fields["b"] == 9223372036854775809


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@for_all(st.dictionaries(st.text(), JSON), st.sampled_from([None, 1]))
def test_every_object_is_a_row(fields: dict[str, object], indent: int | None) -> None:
    """Whatever JSON an object holds, its values and texts come back."""
    text = json.dumps(fields, indent=indent).replace("\n", "\r")
    read, write = os.pipe()
    os.write(write, text.encode())
    os.close(write)
    with read_rows(f"/dev/fd/{read}") as rows:
        (row,) = rows
    os.close(read)

    assert row.fields == fields
    assert {name: json.loads(text) for name, text in row.raw.items()} == fields


def packed_gzip(content: bytes) -> bytes:
    return gzip.compress(content)


def packed_zstd(content: bytes) -> bytes:
    half = len(content) // 2
    pack = zstandard.ZstdCompressor().compress
    return pack(content[:half]) + pack(content[half:])


@pytest.mark.parametrize("pack", [packed_gzip, packed_zstd])
def test_packed_inputs_are_unpacked(
    read_all: ReadAll, pack: Callable[[bytes], bytes]
) -> None:
    """Both gzip and zstd are unpacked, whatever the file is called."""
    content = b"".join(b'{"q": %d}\n' % number for number in range(1000))

    assert [row.fields["q"] for row in read_all(pack(content))] == list(range(1000))


@pytest.mark.parametrize("pack", [packed_gzip, packed_zstd])
def test_a_torn_packed_input_keeps_what_was_read(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """Where a packed input breaks off is an error with its place, after whole lines."""
    lines = [os.urandom(40).hex() for _ in range(2000)]
    content = "".join(f'{{"q": "{line}"}}\n' for line in lines).encode()
    packed = pack(content)
    path = tmp_path / "in.gz"
    path.write_bytes(packed[: len(packed) * 3 // 4])
    good: list[object] = []
    with (
        read_rows(str(path)) as reader,
        pytest.raises(InputError, match="the compressed input ends or breaks") as told,
    ):
        good.extend(row.fields["q"] for row in reader)

    assert good == lines[: len(good)]
    assert len(good) > 500
    assert told.value.line == len(good) + 1


@pytest.mark.parametrize(
    ("tail", "told"),
    [
        (b"garbage", "Not a gzipped file"),
        (b"\x1f\x8b", "ended before"),
        (gzip.compress(b"x")[:-1], "ended before"),
        (gzip.compress(b"x")[:-8] + bytes(8), "CRC check failed"),
    ],
)
def test_damage_after_the_first_part_is_told(
    tmp_path: Path, tail: bytes, told: str
) -> None:
    """A second part that is damaged is told after the rows of the first."""
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress(b'{"q": 1}\n') + tail)
    rows: list[Row] = []
    with read_rows(str(path)) as reader, pytest.raises(InputError, match=told):
        rows.extend(reader)

    assert [row.fields for row in rows] == [{"q": 1}]


def test_parts_and_padding_of_gzip_are_read(read_all: ReadAll) -> None:
    """A gzip file may have many parts, as ``cat`` makes them, and zeros at its end."""
    parts = [gzip.compress(b'{"q": %d}\n' % number) for number in range(3)]

    assert [row.fields["q"] for row in read_all(b"".join(parts) + bytes(512))] == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (bz2.compress(b"{}\n"), "packed with bzip2.* bzcat IN"),
        (lzma.compress(b"{}\n"), "packed with xz.* xzcat IN"),
        (b"PK\x03\x04rest", "a zip archive.* unzip -p IN"),
        ("{}\n".encode("utf-16"), "UTF-16.* iconv -f UTF-16"),
        ("\ufeff{}\n".encode("utf-16-be"), "UTF-16.* iconv -f UTF-16"),
    ],
)
def test_a_form_that_is_not_read_is_named(
    read_all: ReadAll, head: bytes, told: str
) -> None:
    """What is no JSON lines at all is one error that says what makes lines of it."""
    with pytest.raises(InputError, match=told):
        read_all(head)


@pytest.mark.parametrize("pack", [packed_gzip, packed_zstd, bytes])
def test_a_pipe_may_bring_its_first_bytes_one_by_one(
    pack: Callable[[bytes], bytes],
) -> None:
    """How an input is packed does not depend on how much of it comes at first."""
    content = pack(b'{"q": 1}\n{"q": 2}\n')
    read, write = os.pipe()

    def produce() -> None:
        for number in range(len(content)):
            os.write(write, content[number : number + 1])
            while select.select([read], [], [], 0)[0]:  # until it is taken
                os.sched_yield()
        os.close(write)

    producer = threading.Thread(target=produce)
    producer.start()
    with read_rows(f"/dev/fd/{read}") as reader:
        rows = [row.fields["q"] for row in reader]
    producer.join(20)
    os.close(read)

    assert rows == [1, 2]


def test_a_line_without_end_is_not_held(
    read_all: ReadAll, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a line that is too long only the beginning is read; the next ones run."""
    monkeypatch.setattr("sglrun.batch.sources.LONGEST_LINE", 100_000)
    rows = read_all(b'{"q":"' + b"x" * 500_000 + b'"}\n{"q":' + b" " * 200_000 + b"1}")

    assert [row.line for row in rows] == [1, 2]
    assert all("a line of more than " in str(row.error) for row in rows)
    assert all(len(row.content) < 100_000 for row in rows)


def test_a_line_of_the_greatest_length_is_read(
    read_all: ReadAll, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is for longer lines only, wherever their end falls."""
    monkeypatch.setattr("sglrun.batch.sources.LONGEST_LINE", 10)
    rows = read_all(b'{"q":123}\n{"q":12}\n{"q":1234}\n{"q":1}')

    assert [row.error is None for row in rows] == [True, True, False, True]


@pytest.mark.parametrize("value", [b"8" * 5_000, b'[{"y": -' + b"8" * 5_000 + b"}]"])
def test_an_integer_that_python_cannot_read(read_all: ReadAll, value: bytes) -> None:
    """A field with too long an integer is passed on as written, and cannot be taken."""
    (row,) = read_all(b'{"q": 1, "x": ' + value + b', "n": 2}')

    assert row.error is None
    assert row.raw["x"] == value.decode()
    assert row.fields == {"q": 1, "n": 2}
    assert row.error_for(program_of(asks)) is None

    (row,) = read_all(b'{"n": 1, "n": ' + value + b', "q": 2}')

    assert ":1:15: 'n' has an integer of more than 4,300 digits" in str(
        row.error_for(program_of(asks))
    )

    (row,) = read_all(b'{"n": ' + value + b', "n": 1, "q": 2}')

    assert row.error_for(program_of(asks)) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [("absent.jsonl", "No such file"), (".", "Is a directory"), ("a\0b", "null")],
)
def test_an_input_that_cannot_be_opened(tmp_path: Path, name: str, reason: str) -> None:
    """An input that cannot be opened is refused at once, by name and reason."""
    with pytest.raises(InputError, match=reason):
        read_rows(str(tmp_path / name))


def test_nothing_is_read_ahead(tmp_path: Path) -> None:
    """A row of a FIFO is there before the next is written."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    first_is_read = threading.Event()

    def produce() -> None:
        with path.open("wb", 0) as file:
            file.write(b'{"q": 1}\n')
            assert first_is_read.wait(20)
            file.write(b'{"q": 2}\n')

    producer = threading.Thread(target=produce)
    producer.start()
    with read_rows(str(path)) as reader:
        rows = iter(reader)
        first = next(rows)
        first_is_read.set()
        rest = list(rows)
    producer.join(20)

    assert [row.fields["q"] for row in (first, *rest)] == [1, 2]


def test_stdin_is_read_and_stays_open() -> None:
    """``-`` is stdin, which is not closed with the reader."""
    read, write = os.pipe()
    before = os.dup(0)
    os.dup2(read, 0)
    os.write(write, b'{"q": 1}\n')
    os.close(write)
    try:
        with read_rows("-") as reader:
            rows = list(reader)
        os.fstat(0)
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(read)

    assert [row.fields for row in rows] == [{"q": 1}]


def test_an_input_is_told_by_any_name(tmp_path: Path) -> None:
    """A file has one identity by its name, a link and another link."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"")
    (tmp_path / "soft").symlink_to(path)
    (tmp_path / "hard").hardlink_to(path)
    identities = set()
    for name in ("in.jsonl", "soft", "hard"):
        with Source(str(tmp_path / name)) as source:
            identities.add(source.identity)

    assert len(identities) == 1


def test_a_row_is_split_by_what_the_program_takes(read_all: ReadAll) -> None:
    """Arguments are values; the id and the rest are kept as they were written."""
    (row,) = read_all(b'{"q":"hi","id":7.0,"lang":"fr","n":2}')
    split = given(row, program_of(asks))

    assert split.arguments == {"q": "hi", "n": 2}
    assert split.id == "7.0"
    assert split.rest == {"lang": '"fr"'}


def test_an_id_that_is_an_argument_is_no_id(read_all: ReadAll) -> None:
    """A program that takes ``id`` gets it as any other argument."""

    def takes_id(s: ProgramState, id: object) -> None:  # noqa: A002
        del s, id

    (row,) = read_all(b'{"id":7}')
    split = given(row, program_of(takes_id))

    assert split.arguments == {"id": 7}
    assert split.id is None


def test_a_bound_argument_is_not_taken_from_a_row(read_all: ReadAll) -> None:
    """What is bound stays so; a field of its name is passed through."""
    (row,) = read_all(b'{"q":"row","n":2}')
    split = given(row, program_of(asks).bind(q="bound"))

    assert split.arguments == {"n": 2}
    assert split.rest == {"q": '"row"'}


def test_zstd_without_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the optional library a zstd input is one line that says what to do."""
    path = tmp_path / "in.zst"
    path.write_bytes(packed_zstd(b"{}\n"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with read_rows(str(path)) as rows, pytest.raises(InputError, match=r"sglrun\[zstd"):
        list(rows)


def test_a_read_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that the system cannot read on is an error with its place."""
    with Source("/dev/null") as source:

        def broken() -> io.BytesIO:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(source, "_unpacked", broken)
        with pytest.raises(InputError, match="/dev/null:1: cannot read on: Input"):
            list(source)
