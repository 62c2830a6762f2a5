"""The transcript."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.local.transcript import Transcript


def write(transcript: Transcript, pieces: list[bytes]) -> list[str]:
    """Add *pieces* until one ends the text; return what could be taken in between."""
    taken = []
    for piece in pieces:
        ended = transcript.add(piece)
        taken.append(transcript.take(complete=ended))
        if ended:
            return taken
    return [*taken, transcript.take(complete=True)]


def test_characters_come_whole() -> None:
    """A character whose bytes come in several tokens is passed on once, whole."""
    data = "é😀".encode()
    transcript = Transcript()

    assert write(transcript, [data[n : n + 1] for n in range(6)]) == [
        *["", "é", "", "", "", "😀"],
        "",
    ]


def test_half_a_character_at_the_end_is_dropped() -> None:
    """When no more tokens come, the bytes of half a character are no text."""
    transcript = Transcript()
    write(transcript, [b"a", "😀".encode()[:3]])

    assert transcript.text == "a"


def test_a_stop_string_is_found_across_tokens() -> None:
    """The text ends before a stop string that three tokens spell together."""
    transcript = Transcript(stop=("END", "zzz"))
    taken = write(transcript, [b"one E", b"N", b"D two"])

    assert (transcript.text, transcript.matched) == ("one ", "END")
    assert taken == ["one ", "", ""]


def test_what_turns_out_to_be_no_stop_string_is_passed_on() -> None:
    """Text is held back only as long as it may begin a stop string."""
    transcript = Transcript(stop=("\n\nQ",))

    assert write(transcript, [b"a\n", b"\n", b"b"]) == ["a", "", "\n\nb", ""]


def test_the_first_of_several_stops_decides() -> None:
    """Where one token holds several stop strings, the text ends at the first."""
    transcript = Transcript(stop=("c", "b"), patterns=(re.compile("d+"),))

    assert transcript.add(b"abcd")
    assert (transcript.text, transcript.matched) == ("a", "b")


def test_a_pattern_ends_the_text_where_it_matches() -> None:
    """With patterns nothing is passed on before the end, which may lie far back."""
    transcript = Transcript(patterns=(re.compile(r"\d{3}"),))
    taken = write(transcript, [b"a1", b"2", b"3"])

    assert (transcript.text, transcript.matched) == ("a", r"\d{3}")
    assert taken == ["", "", "a"]


def test_an_empty_stop_string_stops_nothing() -> None:
    """Nothing ends at an empty stop string."""
    assert not Transcript(stop=("",)).add(b"a")


@given(
    st.text(alphabet="ab😀\n"),
    st.lists(st.text(alphabet="ab\n", min_size=1, max_size=3), max_size=3),
    st.data(),
)
def test_pieces_are_the_text_and_no_stop_is_in_it(
    text: str, stop: list[str], data: st.DataObject
) -> None:
    """However the bytes are cut, the pieces joined are the text before any stop."""
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    pieces = [
        raw[low:high] for low, high in zip([0, *cuts], [*cuts, len(raw)], strict=True)
    ]
    transcript = Transcript(stop=stop)
    taken = write(transcript, pieces)

    assert "".join(taken) == transcript.text
    assert text.startswith(transcript.text)
    if transcript.matched is None:
        assert transcript.text == text
        assert not any(each in text for each in stop)
    else:
        assert text[len(transcript.text) :].startswith(transcript.matched)


@pytest.mark.parametrize("length", [1, 4])
def test_bytes_that_are_no_text_show_as_such(length: int) -> None:
    """A byte that no character begins with becomes a replacement character."""
    transcript = Transcript()
    transcript.add(b"\xff" * length + b"a")

    assert transcript.text == "\ufffd" * length + "a"
