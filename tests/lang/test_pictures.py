"""Pictures: images from whatever an author has, and videos."""

from pathlib import Path
from typing import IO

import pytest

from sglrun.errors import UnsupportedFeatureError
from sglrun.lang.pictures import image, video


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"\x89PNG\r\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF....WEBP", "image/webp"),
        (b"unknown", "image/png"),
    ],
)
def test_an_image_is_read_at_once(data: bytes, media_type: str, tmp_path: Path) -> None:
    """Bytes and files give the same image, its kind told by its first bytes."""
    path = tmp_path / "x.bin"
    path.write_bytes(data)
    given, read = image(data), image(str(path))

    assert given == read == image(path)
    assert (given.image.data, given.image.media_type) == (data, media_type)


@pytest.mark.parametrize("url", ["https://e.org/a.png", "http://e.org/a", "data:x,y"])
def test_an_images_address_is_passed_on(url: str) -> None:
    """An address is not read here."""
    assert image(url).image.url == url


def test_a_missing_image_raises_where_it_stands() -> None:
    """A path that cannot be read is told at its line."""
    with pytest.raises(FileNotFoundError, match=r"nowhere\.png"):
        image("nowhere.png")


class Drawing:
    """An image object as PIL's are."""

    def save(self, file: IO[bytes], format: str) -> None:  # noqa: A002 - PIL's name
        """Write the image."""
        file.write(b"\x89PNG " + format.encode())


def test_an_image_object_writes_itself() -> None:
    """An object of an image library is sent as PNG, whatever it was read from."""
    made = image(Drawing()).image

    assert (made.data, made.media_type) == (b"\x89PNG PNG", "image/png")


def test_bytes_may_change_afterwards() -> None:
    """A buffer's bytes are copied."""
    buffer = bytearray(b"GIF89a")
    made = image(buffer).image
    buffer[:] = b"other!"

    assert (made.data, made.media_type) == (b"GIF89a", "image/gif")


@pytest.mark.parametrize("wrong", [None, 5, ["a.png"]])
def test_what_is_no_image_is_refused(wrong: object) -> None:
    """Anything else raises at its line, with what an image may be."""
    with pytest.raises(TypeError, match="a path, bytes, a URL or a PIL image, not"):
        image(wrong)  # type: ignore[arg-type]


def test_a_video_is_refused_with_what_to_do() -> None:
    """A video is not sent as something else; its frames can be."""
    with pytest.raises(UnsupportedFeatureError, match=r"'a\.mp4'.* 8 frames as images"):
        video("a.mp4", 8)
