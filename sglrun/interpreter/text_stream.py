"""Text streams: texts that grow in one thread while others read them."""

import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Self, TypeVar

R = TypeVar("R")


def _alarm() -> tuple[Callable[[], Awaitable[object]], Callable[[], None]]:
    """Return how a task of this event loop waits, and how any thread wakes it."""
    # Who awaits has loaded it; for all others it is a fifth of the time to start.
    import asyncio  # noqa: PLC0415

    loop, rung = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(rung.set)

    return rung.wait, wake


async def in_thread(work: Callable[[], R]) -> R:
    """Return what *work* returns in a thread of its own; the event loop goes on.

    It is none of the loop's threads, which stay free for others; a loop that ends does
    not wait for it.
    """
    wait, wake = _alarm()
    done: Future[R] = Future()
    done.add_done_callback(lambda _: wake())
    context = contextvars.copy_context()

    def run() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as exc:  # noqa: BLE001 - handed to who awaits
            done.set_exception(exc)

    threading.Thread(target=run, name="sglrun-reader", daemon=True).start()
    await wait()
    return done.result()


class GeneratedText(str):
    """A piece of text that a model wrote; the author's pieces are plain strings.

    Attributes:
        meta_info: what the backend told with it, where it tells anything before the
            end.
    """

    __slots__ = ("meta_info",)
    meta_info: Mapping[str, object] | None

    def __new__(cls, text: str, meta_info: Mapping[str, object] | None = None) -> Self:
        """Return *text* with *meta_info* beside it."""
        made = super().__new__(cls, text)
        made.meta_info = meta_info
        return made


class TextStream:
    """Text in the order it came; each reader gets all of it, from the beginning.

    Safe from any thread. A reader waits for more until the stream is closed, and raises
    the cause if it was closed with one.
    """

    def __init__(self) -> None:
        """Begin empty and open."""
        self._changed = threading.Condition()
        self._pieces: list[str] = []
        self._closed = False
        self._cause: BaseException | None = None
        self._alarms: set[Callable[[], None]] = set()  # of the tasks that wait

    def append(self, text: str) -> None:
        """Add *text*; ignored after the close."""
        if not text:
            return
        with self._changed:
            if not self._closed:
                self._pieces.append(text)
                self._wake_all()

    def append_rest(self, whole: str) -> None:
        """Add what of *whole* has not come yet."""
        with self._changed:
            came = sum(map(len, self._pieces))
        self.append(whole[came:])

    def close(self, cause: BaseException | None = None) -> None:
        """End the stream; only the first call counts."""
        with self._changed:
            if not self._closed:
                self._closed, self._cause = True, cause
                self._wake_all()

    def read(self, position: int) -> tuple[str, int, bool]:
        """Wait for pieces after *position*.

        Returns:
            What came since, the next position, and whether that was the end.

        Raises:
            BaseException: the cause that the stream was closed with, after its text.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._has_more(position))
            text = "".join(self._pieces[position:])
            if not text and self._cause is not None:
                raise self._cause
            ended = self._closed and self._cause is None
            return text, len(self._pieces), ended

    def __iter__(self) -> Iterator[str]:
        """Iterate over the text as it comes."""
        position, ended = 0, False
        while not ended:
            text, position, ended = self.read(position)
            if text:
                yield text

    def pieces(self) -> Iterator[str]:
        """Iterate over the pieces as they come, those of a model as such."""
        position, ended = 0, False
        while not ended:
            _, following, ended = self.read(position)
            with self._changed:
                came = self._pieces[position:following]
            yield from came
            position = following

    async def iterate_pieces(self) -> AsyncIterator[str]:
        """Iterate over the pieces as they come, without holding the event loop."""
        position, ended = 0, False
        while not ended:
            await self._more(position)
            _, following, ended = self.read(position)
            with self._changed:
                came = self._pieces[position:following]
            for piece in came:
                yield piece
            position = following

    async def iterate(self) -> AsyncIterator[str]:
        """Iterate over the text as it comes, without holding the event loop."""
        position, ended = 0, False
        while not ended:
            await self._more(position)
            text, position, ended = self.read(position)
            if text:
                yield text

    async def _more(self, position: int) -> None:
        """Wait until ``read`` returns at once; other tasks have a turn in any case."""
        wait, wake = _alarm()
        with self._changed:
            if self._has_more(position):
                wake()
            else:
                self._alarms.add(wake)
        try:
            await wait()
        finally:
            with self._changed:
                self._alarms.discard(wake)

    def _has_more(self, position: int) -> bool:
        return len(self._pieces) > position or self._closed

    def _wake_all(self) -> None:
        self._changed.notify_all()
        alarms, self._alarms = self._alarms, set()
        for wake in alarms:
            wake()


class TextStreams:
    """The streams of one program: its whole text, and each of its variables.

    A variable that is assigned twice has two streams; readers get the newest.
    """

    def __init__(self) -> None:
        """Begin with nothing said."""
        self.whole = TextStream()
        self._lock = threading.Lock()
        self._newest: dict[str | None, TextStream] = {}
        self._expected: dict[str | None, deque[TextStream]] = {}
        self._growing: dict[str | None, TextStream] = {}
        self._closed = False
        self._cause: BaseException | None = None

    def of(self, name: str | None) -> TextStream:
        """Return the newest stream of the variable *name*, which may not have begun."""
        with self._lock:
            stream = self._newest.setdefault(name, TextStream())
            if self._closed and name not in self._expected:
                stream.close(self._cause or _never_came(name))
            return stream

    def expect(self, name: str | None) -> None:
        """Note that *name* will get a value after those that were noted before."""
        with self._lock:
            self._expect(name)

    def begin(self, name: str | None) -> TextStream:
        """Return the stream of the value of *name* that was noted first."""
        with self._lock:
            if not self._expected.get(name):
                self._expect(name)
            stream = self._expected[name].popleft()
            self._growing[name] = stream
            return stream

    def complete(self, name: str | None, value: object) -> None:
        """End the stream of *name*, whose whole *value* is known now."""
        with self._lock:
            stream = self._growing.get(name)
        stream = stream or self.begin(name)
        text = value[0] if isinstance(value, list) and value else value
        stream.append_rest(str(text))
        stream.close()
        with self._lock:
            self._growing.pop(name, None)

    def close(self, cause: BaseException | None) -> None:
        """End every stream; one whose variable never came ends with ``KeyError``."""
        self.whole.close(cause)
        with self._lock:
            self._closed, self._cause = True, self._cause or cause
            left = [
                *self._newest.items(),
                *self._growing.items(),
                *(
                    (n, each)
                    for n, several in self._expected.items()
                    for each in several
                ),
            ]
        for name, stream in left:
            stream.close(cause or _never_came(name))

    def _expect(self, name: str | None) -> None:
        if name in self._expected:  # the newest belongs to a value noted before
            self._newest[name] = TextStream()
        newest = self._newest.setdefault(name, TextStream())
        self._expected.setdefault(name, deque()).append(newest)


def _never_came(name: str | None) -> KeyError:
    return KeyError(f"no variable {name!r}")
