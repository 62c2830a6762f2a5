"""Pictures: the images that an author adds to a program.

Rule: no library of images is imported; an image object is asked to write itself.
"""

import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn, Protocol

from sglrun.errors import UnsupportedFeatureError
from sglrun.lang.ir import Image
from sglrun.lang.prompt import ImageData


class Picture(Protocol):
    """An image object that can write itself, as those of PIL can."""

    @property
    def save(self) -> Callable[..., object]:
        """Writes it to a file in a format."""
        ...


def image(source: str | os.PathLike[str] | bytes | bytearray | Picture) -> Image:
    """Return an image: from a path, its bytes, its URL, or an object such as PIL's.

    Images may stand anywhere in a turn, any number of them. An object is sent as PNG.

    Raises:
        OSError: the path cannot be read, or the object cannot be written as PNG.
        TypeError: *source* is none of these.
    """
    if isinstance(source, bytes | bytearray):
        return _image(bytes(source))
    if isinstance(source, str) and source.startswith(("http://", "https://", "data:")):
        return Image(ImageData(url=source))
    if not isinstance(source, str | os.PathLike):
        return _image(_png(source))
    return _image(Path(source).read_bytes())


def video(path: str | os.PathLike[str], num_frames: int) -> NoReturn:
    """Refuse: no backend takes a video exactly.

    Raises:
        UnsupportedFeatureError: always.
    """
    raise UnsupportedFeatureError(
        f"a video ({str(path)!r}) cannot be sent; take its {num_frames} frames as "
        "images, and append image(frame) for each"
    )


def _png(picture: Any) -> bytes:
    if not callable(getattr(picture, "save", None)):
        raise TypeError(
            f"an image is a path, bytes, a URL or a PIL image, not {picture!r} "
            f"({type(picture).__name__})"
        )
    written = BytesIO()
    picture.save(written, format="PNG")
    return written.getvalue()


def _image(data: bytes) -> Image:
    kinds = (kind for magic, kind in _MAGIC if data.startswith(magic))
    return Image(ImageData(data=data, media_type=next(kinds, "image/png")))


_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)
