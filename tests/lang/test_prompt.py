"""Prompts: text and messages that grow together."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.errors import ProgramError
from sglrun.lang.chat_template import get_chat_template
from sglrun.lang.prompt import ImageData, Message, Prompt, VideoData

PNG = ImageData(data=b"\x89PNG")
ROLES = st.sampled_from(["system", "user", "assistant"])


def turn(prompt: Prompt, role: str, text: str) -> Prompt:
    return prompt.with_role_begin(role).with_text(text).with_role_end(role)


@given(st.lists(st.text()))
def test_text_is_appended(pieces: list[str]) -> None:
    """Outside roles the text is the pieces joined, and none of it is in messages."""
    prompt = Prompt()
    for piece in pieces:
        prompt = prompt.with_text(piece)

    assert prompt.text == prompt.loose_text == "".join(pieces)
    assert (prompt.messages, prompt.is_chat) == ((), False)


@given(st.lists(st.tuples(ROLES, st.lists(st.text(), max_size=3))))
def test_turns_become_messages(turns: list[tuple[str, list[str]]]) -> None:
    """Each turn is one message whose text is its pieces without leading space."""
    prompt = Prompt()
    for role, pieces in turns:
        prompt = prompt.with_role_begin(role)
        for piece in pieces:
            prompt = prompt.with_text(piece)
        prompt = prompt.with_role_end(role)

    assert [(m.role, m.text) for m in prompt.messages] == [
        (role, "".join(pieces).lstrip()) for role, pieces in turns
    ]
    assert prompt.text == "".join(
        f"{role.upper()}:{''.join(pieces)}\n" for role, pieces in turns
    )


def test_a_prompt_never_changes() -> None:
    """Every step leaves the prompt that it began from as it was."""
    first = Prompt().with_text("a")
    first.with_text("b").with_role_begin("user").with_image(PNG)

    assert first == Prompt().with_text("a")


def test_an_empty_text_is_nothing() -> None:
    """Appending nothing gives the same prompt."""
    prompt = Prompt()

    assert prompt.with_text("") is prompt


def test_the_default_system_prompt_comes_before_the_first_turn() -> None:
    """A template's own system prompt is written once, and only where none is given."""
    qwen = Prompt(template=get_chat_template("qwen"))
    without = turn(turn(qwen, "user", "a"), "user", "b")
    given_one = turn(turn(qwen, "system", "S"), "user", "a")

    assert [(m.role, m.text) for m in without.messages] == [
        ("system", "You are a helpful assistant."),
        ("user", "a"),
        ("user", "b"),
    ]
    assert [m.text for m in given_one.messages] == ["S", "a"]
    assert without.text.startswith("<|im_start|>system\nYou are a helpful assistant.")


def test_roles_do_not_nest() -> None:
    """A role that begins inside another names both."""
    with pytest.raises(ProgramError, match="'user' begins inside 'assistant'"):
        Prompt().with_role_begin("assistant").with_role_begin("user")


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (Prompt(), "'user' ends but no role is open"),
        (Prompt().with_role_begin("system"), "'user' ends but 'system' is open"),
    ],
)
def test_a_role_ends_where_it_is_open(prompt: Prompt, message: str) -> None:
    """An end without its beginning is refused."""
    with pytest.raises(ProgramError, match=message):
        prompt.with_role_end("user")


def test_an_open_turn_is_known() -> None:
    """Text in an open turn is not among the messages but can be seen."""
    prompt = Prompt().with_role_begin("assistant").with_text(" pre").with_text("fill")

    assert prompt.messages == ()
    assert prompt.open_message == Message("assistant", ("prefill",))
    assert prompt.text[prompt.open_start :] == " prefill"
    assert Prompt().open_message is None


def test_images_and_texts_keep_their_order() -> None:
    """Images stand between the texts of their turn, and the text has their markers."""
    other = ImageData(url="https://e.org/a.png")
    prompt = (
        Prompt()
        .with_role_begin("user")
        .with_text(" see ")
        .with_image(PNG)
        .with_text("and")
        .with_image(other)
        .with_role_end("user")
    )

    assert prompt.text == "USER: see <image>and<image>\n"
    assert prompt.images == (PNG, other) == prompt.messages[0].images
    assert prompt.messages[0].parts == ("see ", PNG, "and", other)


def test_a_message_in_openais_shape() -> None:
    """A text is plain content; with images, content is a list of parts."""
    encoded = base64.b64encode(b"\x89PNG").decode()

    assert Message("user", ("a",)).as_openai() == {"role": "user", "content": "a"}
    assert Message("user", ()).as_openai() == {"role": "user", "content": ""}
    assert Message("user", ("a", PNG)).as_openai() == {
        "role": "user",
        "content": [
            {"type": "text", "text": "a"},
            {
                "type": "image_url",
                "image_url": {"url": f"data:image/png;base64,{encoded}"},
            },
        ],
    }


def test_an_images_url_is_itself() -> None:
    """An image that the server is to fetch is named by its own address."""
    assert ImageData(url="https://e.org/a.png").data_url == "https://e.org/a.png"


def test_videos_stand_among_the_parts() -> None:
    """Images and videos are told apart, each in order, and markers stand for both."""
    film = VideoData(url="https://e.org/a.mp4", num_frames=4)
    prompt = Prompt().with_role_begin("user").with_image(PNG).with_text(" and ")
    prompt = prompt.with_image(film).with_role_end("user")

    assert (prompt.images, prompt.videos, prompt.media) == (
        (PNG,),
        (film,),
        (PNG, film),
    )
    assert prompt.text == "USER:<image> and <video>\n"
    kinds = [part["type"] for part in prompt.messages[0].as_openai()["content"]]  # type: ignore[attr-defined]
    assert kinds == ["image_url", "text", "video_url"]


def test_the_number_of_frames_can_be_left_open() -> None:
    """Every turn, the open one too, loses it; nothing else changes."""
    film = VideoData(url="https://e.org/a.mp4", num_frames=4)
    prompt = Prompt().with_role_begin("user").with_image(film).with_role_end("user")
    prompt = prompt.with_role_begin("user").with_image(film).with_text("what?")
    opened = prompt.without_num_frames()

    assert {video.num_frames for video in opened.videos} == {None}
    assert opened.messages[0].media == opened.videos[:1]
    assert opened.open_parts == (opened.videos[1], "what?")
    assert (opened.text, PNG) == (prompt.text, PNG)
    assert Prompt().without_num_frames() == Prompt()
