"""Reading in an event loop: no wait takes a thread of the loop's, or its turn."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.base import Request
from sglrun.backends.mock import MockBackend
from sglrun.errors import BadRequestError
from sglrun.interpreter.text_stream import TextStream

WAIT_S = 5.0
NUM_READERS = 50
BOOM = BadRequestError("boom")

streamed_or_not = pytest.mark.parametrize("stream", [True, False])


@sgl.function
def ask(s: sgl.ProgramState) -> None:
    """Ask one question."""
    s += "Q" + sgl.gen("a")


def after(go: threading.Event) -> Callable[[Request], str]:
    """Return a model that answers once *go* is set, and too late says so."""
    return lambda _: " one two three" if go.wait(WAIT_S) else " late"


async def text_of(pieces: AsyncIterator[str]) -> str:
    """Return all *pieces* as one."""
    return "".join([piece async for piece in pieces])


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Return what *main* returns, which must not take long."""
    return asyncio.run(asyncio.wait_for(main, WAIT_S))


@contextmanager
def no_thread_left() -> Iterator[None]:
    """Keep the only thread of the running loop's default executor busy."""
    loop, free = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    blocked = loop.run_in_executor(None, free.wait)
    try:
        yield
        assert not blocked.done()
    finally:
        free.set()


@streamed_or_not
@pytest.mark.parametrize("name", [None, "a"])
def test_readers_need_no_thread_of_the_loop(name: str | None, stream: bool) -> None:  # noqa: FBT001
    """A default executor that is full stops no reader."""
    go = threading.Event()

    async def main() -> list[str]:
        state = ask.run(backend=MockBackend(after(go)), stream=stream)
        with no_thread_left():
            readers = [
                asyncio.create_task(text_of(state.text_async_iter(name)))
                for _ in range(3)
            ]
            await asyncio.sleep(0)
            go.set()
            return await asyncio.gather(*readers)

    said = " one two three" if name else "Q one two three"
    assert run(main()) == [said] * 3


def test_pairs_need_no_thread_of_the_loop() -> None:
    """Nor does a full executor stop who reads meta info beside the text."""
    go = threading.Event()

    async def main() -> list[Any]:
        state = ask.run(backend=MockBackend(after(go)), stream=True)
        with no_thread_left():
            asyncio.get_running_loop().call_soon(go.set)
            pairs = state.text_async_iter("a", return_meta_data=True)
            return [pair async for pair in pairs]

    got = run(main())

    assert "".join(text for text, _ in got) == " one two three"
    assert got[-1][1]["completion_tokens"] == 3


@streamed_or_not
def test_who_gives_up_keeps_no_loop_from_ending(stream: bool) -> None:  # noqa: FBT001
    """The loop ends while the generation of a cancelled reader goes on."""
    go = threading.Event()
    state = None

    async def main() -> None:
        nonlocal state
        state = ask.run(backend=MockBackend(after(go)), stream=stream)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(text_of(state.text_async_iter("a")), 0.01)

    asyncio.run(main())
    go.set()  # had the loop waited for the generation, this would come too late

    assert state is not None
    assert state["a"] == " one two three"


def test_many_read_while_bodies_use_the_loop() -> None:
    """Bodies that need the loop's threads get them, however many readers wait."""

    @sgl.function
    def look_up(s: sgl.ProgramState, loop: asyncio.AbstractEventLoop) -> None:
        async def found() -> str:
            await asyncio.sleep(0.01)
            return await loop.run_in_executor(None, lambda: "found")

        s += asyncio.run_coroutine_threadsafe(found(), loop).result(WAIT_S)
        s += sgl.gen("a")

    async def main() -> list[str]:
        loop, backend = asyncio.get_running_loop(), MockBackend(" OUT")
        states = [
            look_up.run(loop, backend=backend, stream=True) for _ in range(NUM_READERS)
        ]
        return await asyncio.gather(*(text_of(s.text_async_iter()) for s in states))

    assert run(main()) == ["found OUT"] * NUM_READERS


def test_early_and_late_readers_get_all_of_it() -> None:
    """Many readers have the same text, wherever they begin, and no thread."""
    stream = TextStream()
    words = [f"{number} " for number in range(200)]
    threads = set[int]()

    async def main() -> list[str]:
        readers: list[asyncio.Task[str]] = []
        for word in words:
            if len(readers) < NUM_READERS:
                readers += [asyncio.create_task(text_of(each())) for each in ways]
            await asyncio.sleep(0)
            threads.add(threading.active_count())
            writing = threading.Thread(target=stream.append, args=(word,))
            writing.start()
            writing.join()
        stream.close()
        readers.append(asyncio.create_task(text_of(stream.iterate())))
        return await asyncio.gather(*readers)

    ways = (stream.iterate, stream.iterate_pieces)
    before = threading.active_count()

    assert run(main()) == ["".join(words)] * (NUM_READERS + 1)
    assert max(threads) <= before


@streamed_or_not
def test_every_reader_gets_the_error(stream: bool) -> None:  # noqa: FBT001
    """A failure is raised for each reader, also with a full executor."""
    go = threading.Event()

    def refuse(_: Request) -> str:
        go.wait(WAIT_S)
        raise BOOM

    async def main() -> list[Any]:
        state = ask.run(backend=MockBackend(refuse), stream=stream)
        names = (None, "a", "a")
        with no_thread_left():
            asyncio.get_running_loop().call_soon(go.set)
            reading = (text_of(state.text_async_iter(name)) for name in names)
            return await asyncio.gather(*reading, return_exceptions=True)

    assert run(main()) == [BOOM] * 3


def test_the_text_comes_before_the_error() -> None:
    """What came before a failure is read first, then the cause is raised."""
    stream, got = TextStream(), list[str]()

    async def read() -> None:
        async for piece in stream.iterate():
            got.append(piece)

    async def main() -> None:
        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        stream.append("a")
        stream.close(BOOM)
        with no_thread_left(), pytest.raises(BadRequestError, match="boom"):
            await reading

    run(main())

    assert got == ["a"]


@streamed_or_not
def test_a_stop_iteration_ends_a_reader(stream: bool) -> None:  # noqa: FBT001
    """An author's error that no coroutine can raise does not leave it waiting."""
    backend = MockBackend(lambda _: next(iter([])))
    state = ask.run(backend=backend, stream=stream)

    with pytest.raises(RuntimeError, match="StopIteration"):
        run(text_of(state.text_async_iter()))


def test_others_have_their_turn() -> None:
    """A reader that always finds more leaves the loop to others between pieces."""
    stream = TextStream()
    stream.append("a")

    async def main() -> int:
        asyncio.get_running_loop().call_soon(stream.close)
        async for text in stream.iterate():
            stream.append(text + "a")
            if len(text) > NUM_READERS:
                break
        return len(text)

    assert run(main()) < NUM_READERS


def test_who_gave_up_is_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream forgets a reader that was cancelled."""
    stream, woken = TextStream(), list[Any]()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(text_of(stream.iterate()), 0.01)
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as patch:
            patch.setattr(loop, "call_soon_threadsafe", woken.append)
            stream.append("a")

    asyncio.run(main())

    assert woken == []


def test_a_closed_loop_does_not_break_the_writer() -> None:
    """Text is added though the loop of a reader was closed while it waited."""
    stream = TextStream()
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # told of the task that is left
    left = loop.create_task(text_of(stream.iterate()))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    stream.append("a")
    stream.close()

    assert list(stream) == ["a"]
    assert not left.done()
