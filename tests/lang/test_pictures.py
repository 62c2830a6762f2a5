"""Pictures: images from whatever an author has, and videos."""

from pathlib import Path
from typing import IO

import pytest

from sglrun.lang.pictures import image, video
from sglrun.lang.prompt import VideoData


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


def test_a_video_is_taken_as_an_image_is(tmp_path: Path) -> None:
    """A path, bytes or an address; how many frames are to be seen stays with it."""
    file = tmp_path / "a.mp4"
    file.write_bytes(b"film")
    made = [
        video(str(file), 8).image,
        video(file).image,
        video(b"\x1aE\xdf\xa3webm").image,
        video("https://e.org/a.mp4", num_frames=4).image,
    ]

    assert made == [
        VideoData(data=b"film", num_frames=8),
        VideoData(data=b"film"),
        VideoData(data=b"\x1aE\xdf\xa3webm", media_type="video/webm"),
        VideoData(url="https://e.org/a.mp4", num_frames=4),
    ]


def test_what_is_no_video_is_refused() -> None:
    """Anything else, and no frames at all, raises at its line."""
    with pytest.raises(TypeError, match="a path, bytes or a URL, not"):
        video(Drawing())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_frames must be at least 1"):
        video(b"film", 0)
    with pytest.raises(FileNotFoundError):
        video("nowhere.mp4", 8)
