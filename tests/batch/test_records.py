"""Results as lines of JSON."""

import dataclasses
import datetime as dt
import enum
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.base import Usage
from sglrun.backends.secrets import Secrets
from sglrun.batch.records import index_of, json_text, render_record, with_index
from sglrun.batch.results import ErrorInfo, Layout, RowResult
from sglrun.batch.rows import Row

LAYOUTS: tuple[Layout, ...] = ("record", "flat")


def row_of(raw: Mapping[str, str], index: int = 17) -> Row:
    return Row(
        index=index,
        line=index + 1,
        content=b"",
        fields={name: json.loads(text) for name, text in raw.items()},
        raw=raw,
    )


OK = RowResult(
    row=row_of({"q": '"hi"', "id": '"t-018"', "lang": '"fr"', "n": "1.10"}),
    id='"t-018"',
    rest={"lang": '"fr"', "n": "1.10"},
    output={"label": "billing", "reply": "é"},
    usage=Usage(requests=2, prompt_tokens=412, cached_tokens=380, completion_tokens=31),
    finish_reasons={"label": "stop", "reply": "length"},
    seconds=0.84,
)
FAILED = RowResult(
    row=row_of({}, index=18),
    output={"label": "billing"},
    error=ErrorInfo(
        type="BadRequestError",
        message="prompt too long",
        variable="reply",
        http_status=400,
        where="prog.py:12",
    ),
    seconds=0.31,
)


def test_a_value_is_rendered_as_designed() -> None:
    """A record is one compact line, its members in the order of the design."""
    assert render_record(OK).decode() == (
        '{"index": 17, "id": "t-018", "status": "ok", "output": {"label": "billing", '
        '"reply": "é"}, "row": {"lang": "fr", "n": 1.10}, "usage": {"requests": 2, '
        '"prompt_tokens": 412, "cached_tokens": 380, "completion_tokens": 31}, '
        '"finish_reasons": {"label": "stop", "reply": "length"}, "seconds": 0.84, '
        '"attempts": 1}\n'
    )


def test_an_error_is_rendered_as_designed() -> None:
    """A record of an error tells what is known about it, and the output so far."""
    record = json.loads(render_record(FAILED))

    assert list(record) == [
        *("index", "status", "output", "row", "error", "usage", "seconds", "attempts")
    ]
    assert record["status"] == "error"
    assert record["error"] == {
        "type": "BadRequestError",
        "message": "prompt too long",
        "variable": "reply",
        "http_status": 400,
        "retryable": False,
        "where": "prog.py:12",
    }


def test_flat_adds_columns_to_the_row() -> None:
    """The flat layout is the row as given, then its variables, then one column more."""
    text = render_record(OK, layout="flat").decode()
    record = json.loads(text)

    assert text.startswith(
        '{"q": "hi", "id": "t-018", "lang": "fr", "n": 1.10, "label": "billing"'
    )
    assert record["_sglrun"]["index"] == 17
    assert record["_sglrun"]["status"] == "ok"


def test_a_column_of_an_earlier_run_is_replaced() -> None:
    """A variable wins over a field of its name, and details over those given."""
    result = RowResult(
        row=row_of({"a": "1", "_sglrun": '{"index": 5}'}), output={"a": 2}
    )
    record = json.loads(render_record(result, layout="flat"))

    assert record["a"] == 2
    assert record["_sglrun"]["index"] == 17


@dataclasses.dataclass
class Point:
    """A value of an author's own."""

    x: float


class Color(enum.Enum):
    """Another."""

    RED = "red"


class Odd:
    """One that JSON has no word for, and that cannot be printed."""

    def __repr__(self) -> str:
        """Fail."""
        raise RuntimeError

    __str__ = __repr__


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({1: "int", 1.5: "float", None: "none", False: "no"}, None),
        ({(1, 2): "tuple"}, {"(1, 2)": "tuple"}),
        ([math.nan, math.inf, 1.5], [None, None, 1.5]),
        ({"a": {3}}, {"a": [3]}),
        (b"by\xfftes", "by\\xfftes"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (Decimal("1.10"), "1.10"),
        (PurePosixPath("a/b"), "a/b"),
        (Color.RED, "red"),
        (Point(math.nan), {"x": None}),
        ([Point(1.0)], [{"x": 1.0}]),
        (range(3), [0, 1, 2]),
        ("half \ud800 pair", "half \ud800 pair"),
        ("end\u2028of\u2029line\x85", "end\u2028of\u2029line\x85"),
    ],
)
def test_every_value_is_json(value: object, written: object) -> None:
    """What JSON has no word for is written as documented, on one line of UTF-8."""
    line = render_record(RowResult(row=row_of({}), output={"v": value}))
    read = json.loads(line.decode("utf-8"))["output"]["v"]

    assert len(line.decode("utf-8").splitlines()) == 1
    if written is not None:
        assert read == written


def test_a_value_that_cannot_be_printed_is_named() -> None:
    """Rendering never runs what an author's class does to print itself."""
    assert json_text([Odd()]) == f'["<{Odd.__module__}.Odd>"]'


def test_a_value_inside_itself_ends() -> None:
    """A list that holds itself is cut off somewhere."""
    value: list[object] = []
    value.append(value)

    assert "nested too deeply" in json_text(value)


def test_a_line_break_of_the_input_is_no_line_break() -> None:
    """White space that ends lines elsewhere is a space in what is passed through."""
    line = render_record(RowResult(row=row_of({}), rest={"a": "[1,\r2]"}))

    assert b'"row": {"a": [1, 2]}' in line


@pytest.mark.parametrize("layout", LAYOUTS)
def test_secrets_do_not_appear(layout: Layout) -> None:
    """A key that a server echoed is not written, wherever it stands."""
    error = ErrorInfo(type="E", message="bad key sk-SECRET")
    result = RowResult(row=row_of({}), output={"a": "sk-SECRET"}, error=error)
    line = render_record(
        result, layout=layout, redacted=Secrets(["sk-SECRET", "status"]).redacted_json
    )

    assert b"SECRET" not in line
    assert index_of(line, layout) == 17
    assert b"bad key ***" in line


@given(
    st.dictionaries(st.text(), st.text() | st.floats() | st.integers()),
    st.dictionaries(st.text(), st.text()),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.sampled_from(LAYOUTS),
)
def test_the_index_can_be_changed(
    output: dict[str, object],
    fields: dict[str, str],
    index: int,
    other: int,
    layout: Layout,
) -> None:
    """A line with another index is the line of that row, whatever stands in it."""
    raw = {name: json.dumps(text) for name, text in fields.items()}

    def rendered(number: int) -> bytes:
        result = RowResult(row=row_of(raw, index=number), rest=raw, output=output)
        return render_record(result, layout=layout)

    assert index_of(rendered(index), layout) == index
    assert with_index(rendered(index), other, layout) == rendered(other)


def test_no_record_has_no_index() -> None:
    """A line that is no record is told as such."""
    assert index_of(b"hello\n", "record") is None
    assert index_of(b"{}\n", "flat") is None


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_that_is_not_printed(sign: int) -> None:
    """An integer of more digits than Python prints is told in hexadecimal, as text."""
    number = sign * 10**5000
    assert json.loads(json_text({"a": [number]})) == {"a": [hex(number)]}
    assert json.loads(json_text({number: 1, "b": math.nan})) == {
        hex(number): 1,
        "b": None,
    }


class Broken(Mapping[str, int]):
    """An author's object that cannot be read."""

    def __len__(self) -> int:
        """Return its size."""
        return 1

    def __iter__(self) -> Iterator[str]:
        """Fail."""
        raise RuntimeError("not now")

    def __getitem__(self, key: str) -> int:
        """Fail."""
        raise KeyError(key)


def test_an_object_that_cannot_be_read_is_told() -> None:
    """Whatever an object of the author does when it is read, the line is written."""
    assert json.loads(json_text({"a": Broken(), "b": 1})) == {
        "a": f"<{__name__}.Broken, which raises RuntimeError>",
        "b": 1,
    }
