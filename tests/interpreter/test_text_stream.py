"""Text streams: reading what still grows."""

import asyncio
import threading

import pytest

from sglrun.interpreter.text_stream import TextStream, TextStreams

WAIT_S = 10.0


def test_every_reader_gets_all_of_it() -> None:
    """A stream can be read twice, from the beginning each time."""
    stream = TextStream()
    for piece in ("a", "", "b"):
        stream.append(piece)
    stream.close()

    assert "".join(stream) == "".join(stream) == "ab"


def test_a_reader_waits_for_more() -> None:
    """Text is read as soon as it comes, before the end."""
    stream = TextStream()
    reader = iter(stream)
    stream.append("a")
    first = next(reader)
    got: list[str] = []
    waiting = threading.Thread(target=lambda: got.extend(reader))
    waiting.start()
    stream.append("b")
    stream.close()
    waiting.join(WAIT_S)

    assert (first, "".join(got)) == ("a", "b")


def test_the_cause_comes_after_the_text() -> None:
    """A stream that ends with a cause gives its text first, for every reader."""
    stream, cause = TextStream(), ValueError("why")
    stream.append("a")
    stream.close(cause)
    for _ in range(2):
        got: list[str] = []
        with pytest.raises(ValueError, match="why"):
            got.extend(map(str, iter_into(stream, got)))

        assert got == ["a"]


def iter_into(stream: TextStream, got: list[str]) -> list[str]:
    for piece in stream:
        got.append(piece)  # noqa: PERF402 - what came before an exception counts
    return []


def test_only_the_first_close_counts() -> None:
    """After the end nothing is added and no cause is told."""
    stream = TextStream()
    stream.close()
    stream.append("late")
    stream.close(ValueError("late"))

    assert list(stream) == []


def test_reading_does_not_hold_the_event_loop() -> None:
    """While one task reads, others go on; both get all of the text."""
    stream = TextStream()

    async def read() -> str:
        return "".join([piece async for piece in stream.iterate()])

    async def write() -> None:
        stream.append("a")
        await asyncio.sleep(0)
        stream.append("b")
        stream.close()

    async def all_of_it() -> tuple[str, str]:
        one, other, _ = await asyncio.gather(read(), read(), write())
        return one, other

    assert asyncio.run(all_of_it()) == ("ab", "ab")


def test_the_rest_completes_a_stream() -> None:
    """What has come is not repeated when the whole value is known."""
    streams = TextStreams()
    streams.begin("a").append("one")
    streams.complete("a", "one two")

    assert list(streams.of("a")) == ["one", " two"] or "".join(streams.of("a")) == (
        "one two"
    )


def test_a_new_value_has_a_stream_of_its_own() -> None:
    """A variable's second value does not go on where the first ended."""
    streams = TextStreams()
    streams.complete("a", "one")
    first = streams.of("a")
    streams.begin("a").append("two")
    streams.complete("a", "two")

    assert ("".join(first), "".join(streams.of("a"))) == ("one", "two")


def test_the_newest_value_is_read() -> None:
    """A reader gets the value that was asked for last, though it has not begun."""
    streams = TextStreams()
    early = streams.of("a")
    streams.expect("a")
    streams.expect("a")
    late = streams.of("a")
    streams.begin("a").append("on")
    streams.complete("a", "one")
    streams.complete("a", "two")

    assert ("".join(early), "".join(late)) == ("one", "two")


def test_a_failure_ends_values_that_have_not_begun() -> None:
    """A value that was asked for and never came ends with the cause."""
    streams, cause = TextStreams(), ValueError("why")
    streams.expect("a")
    first = streams.of("a")
    streams.expect("a")
    streams.close(cause)

    for stream in (first, streams.of("a")):
        with pytest.raises(ValueError, match="why"):
            list(stream)


def test_the_first_of_several_samples_is_streamed() -> None:
    """A list of samples is read as the first of them."""
    streams = TextStreams()
    streams.complete("a", ["one", "two"])

    assert "".join(streams.of("a")) == "one"


@pytest.mark.parametrize("before", [True, False])
def test_a_variable_that_never_came_is_a_key_error(before: bool) -> None:  # noqa: FBT001
    """Asked for before the end or after it, such a name raises and never waits."""
    streams = TextStreams()
    early = streams.of("never") if before else None
    streams.close(None)
    stream = early or streams.of("never")

    with pytest.raises(KeyError, match="never"):
        list(stream)


@pytest.mark.parametrize("before", [True, False])
def test_a_failure_ends_every_stream(before: bool) -> None:  # noqa: FBT001
    """All streams, also those asked for later, end with the cause."""
    streams, cause = TextStreams(), ValueError("why")
    early = streams.of("a") if before else None
    streams.close(cause)
    streams.close(None)

    for stream in (streams.whole, early or streams.of("a")):
        with pytest.raises(ValueError, match="why"):
            list(stream)
