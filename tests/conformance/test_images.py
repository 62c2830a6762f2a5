"""Rows 102 to 104: images."""

import base64
from pathlib import Path

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend, BackendOptions
from sglrun.backends.sglang import create
from sglrun.errors import UnsupportedFeatureError
from tests.stand_in import StandIn

PNG = b"\x89PNG\r\n\x1a\n"
ENCODED = base64.b64encode(PNG).decode()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file with an image's first bytes."""
    file = tmp_path / "a.png"
    file.write_bytes(PNG)
    return str(file)


def test_row_102_image(backend: Backend, stand_in: StandIn, path: str) -> None:
    """The image is sent, its marker is in the text, and the message holds it."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += sgl.user(sgl.image(path) + "what")
        s += sgl.assistant(sgl.gen("a"))

    state = program.run(backend=backend)

    assert state.text() == "USER:<image>what\nASSISTANT: OUT\n"
    (sent,) = stand_in.generations
    assert ENCODED in str(sent["image_data"])
    assert state.messages()[0]["content"] == [
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{ENCODED}"},
        },
        {"type": "text", "text": "what"},
    ]


def test_row_103_two_images(backend: Backend, stand_in: StandIn, path: str) -> None:
    """A second turn may have another image; both are sent with it."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        for name in ("a", "b"):
            s += sgl.user(sgl.image(path) + "what")
            s += sgl.assistant(sgl.gen(name))

    program.run(backend=backend).sync()

    assert [len(sent["image_data"]) for sent in stand_in.generations] == [1, 2]


def test_row_104_image_address(backend: Backend, stand_in: StandIn) -> None:
    """An image's address is passed on for the server to fetch."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += sgl.user(sgl.image("http://e.org/a.png")) + sgl.assistant(sgl.gen("a"))

    program.run(backend=backend).sync()
    (sent,) = stand_in.generations

    assert sent["image_data"] == ["http://e.org/a.png"]


def test_videos_are_sent_where_the_model_has_a_marker(
    stand_in: StandIn,
) -> None:
    """Several, between images and text, as bytes and by address, on the native wire."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        with s.user():
            s += "one " + sgl.video(b"film") + " and " + sgl.image(PNG)
            s += " and " + sgl.video("http://e.org/a.mp4")
        s += sgl.assistant(sgl.gen("a"))

    with create(BackendOptions(url=stand_in.url, chat_template="qwen2-vl")) as seeing:
        program.run(backend=seeing).sync()
    (sent,) = stand_in.generations

    assert sent["video_data"] == ["ZmlsbQ==", "http://e.org/a.mp4"]
    assert sent["image_data"] == [ENCODED]


def test_a_video_without_a_marker_is_refused(backend: Backend) -> None:
    """A template that has none for videos cannot say where one stands."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += sgl.user(sgl.video(b"film")) + sgl.assistant(sgl.gen("a"))

    with pytest.raises(UnsupportedFeatureError, match="takes no videos"):
        program.run(backend=backend).sync()
