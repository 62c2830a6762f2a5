"""Pieces of a text that comes in a stream: which of them may be told, and when."""

from collections.abc import Callable, Iterable

from sglrun.backends.base import OnText


def after_prefix(prefix: str, on_text: OnText) -> Callable[[str], None]:
    """Return a receiver that drops *prefix*, if the text begins with it."""
    held = ""
    done = not prefix

    def tell(piece: str) -> None:
        nonlocal held, done
        if done:
            on_text(piece)
            return
        held += piece
        if held != prefix and prefix.startswith(held):
            return
        done = True
        if rest := held.removeprefix(prefix):
            on_text(rest)

    return tell


def before_stop(text: str, stops: Iterable[str]) -> tuple[str, str | None]:
    """Return *text* up to the first of *stops* that is whole, and which that was."""
    found = [
        (text.index(stop) + len(stop), -len(stop), stop)
        for stop in stops
        if stop in text
    ]
    if not found:
        return text, None
    end, size, stop = min(found)
    return text[: end + size], stop


def until_stop(stops: tuple[str, ...], on_text: OnText) -> Callable[[str], None]:
    """Return a receiver that tells nothing from the first of *stops* on.

    What may be the beginning of a stop string is told when it turns out to be none;
    call it with ``""`` at the end to have the rest told.
    """
    text = ""
    told = 0

    def tell(piece: str) -> None:
        nonlocal text, told
        text += piece
        kept, stop = before_stop(text, stops)
        sure = len(kept) - (doubtful(kept, stops) if piece and stop is None else 0)
        if sure > told:
            on_text(kept[told:sure])
            told = sure

    return tell


def doubtful(text: str, stops: Iterable[str]) -> int:
    """Return how many characters at the end of *text* may begin one of *stops*."""
    longest = max(map(len, stops), default=1)
    for size in range(min(longest - 1, len(text)), 0, -1):
        if any(stop.startswith(text[-size:]) for stop in stops):
            return size
    return 0
