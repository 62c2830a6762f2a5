"""Pictures: the images and videos that an author adds to a program.

Rule: no library of images is imported; an image object is asked to write itself.
"""

import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from sglrun.lang.ir import Image
from sglrun.lang.prompt import ImageData, VideoData


class Picture(Protocol):
    """An image object that can write itself, as those of PIL can."""

    @property
    def save(self) -> Callable[..., object]:
        """Writes it to a file in a format."""
        ...


Source = str | os.PathLike[str] | bytes | bytearray


def image(source: Source | Picture) -> Image:
    """Return an image: from a path, its bytes, its URL, or an object such as PIL's.

    Images may stand anywhere in a turn, any number of them. An object is sent as PNG.

    Raises:
        OSError: the path cannot be read, or the object cannot be written as PNG.
        TypeError: *source* is none of these.
    """
    if not isinstance(source, str | os.PathLike | bytes | bytearray):
        source = _png(source)
    if _is_url(source):
        return Image(ImageData(url=str(source)))
    data = _read(source)
    return Image(ImageData(data=data, media_type=_kind(data, "image/png")))


def video(source: Source, num_frames: int | None = None) -> Image:
    """Return a video: from a path, its bytes or its URL.

    Args:
        source: where it is.
        num_frames: how many of its frames the model is to see; as many as the server
            takes by itself, if ``None``.

    Raises:
        OSError: the path cannot be read.
        TypeError: *source* is none of these.
        ValueError: no frames.
    """
    if not isinstance(source, str | os.PathLike | bytes | bytearray):
        raise TypeError(
            f"a video is a path, bytes or a URL, not {source!r} "
            f"({type(source).__name__})"
        )
    if num_frames is not None and num_frames < 1:
        raise ValueError(f"num_frames must be at least 1, not {num_frames!r}")
    if _is_url(source):
        return Image(VideoData(url=str(source), num_frames=num_frames))
    data = _read(source)
    kind = _kind(data, "video/mp4")
    return Image(VideoData(data=data, media_type=kind, num_frames=num_frames))


def _is_url(source: Source) -> bool:
    begins = ("http://", "https://", "data:")
    return isinstance(source, str) and source.startswith(begins)


def _read(source: Source) -> bytes:
    if isinstance(source, bytes | bytearray):
        return bytes(source)
    return Path(source).read_bytes()


def _png(picture: Any) -> bytes:
    if not callable(getattr(picture, "save", None)):
        raise TypeError(
            f"an image is a path, bytes, a URL or a PIL image, not {picture!r} "
            f"({type(picture).__name__})"
        )
    written = BytesIO()
    picture.save(written, format="PNG")
    return written.getvalue()


def _kind(data: bytes, usual: str) -> str:
    kinds = (kind for magic, kind in _MAGIC if data.startswith(magic))
    return next(kinds, usual)


_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
