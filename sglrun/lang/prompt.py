"""A prompt: the text and the messages that a program has built so far.

Rule: a prompt never changes; each step returns a new one. A fork therefore costs
nothing, and a backend may keep what it was handed.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from sglrun.errors import ProgramError
from sglrun.lang.chat_template import DEFAULT_TEMPLATE, ChatTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageData:
    """An image as bytes, or the address of one that the server is to fetch."""

    data: bytes = b""
    url: str = ""
    media_type: str = "image/png"

    @property
    def data_url(self) -> str:
        """The image as a URL, its bytes inside where it has them."""
        if self.url:
            return self.url
        return f"data:{self.media_type};base64,{self.base64}"

    @property
    def base64(self) -> str:
        """The bytes in base64."""
        return base64.b64encode(self.data).decode("ascii")

    def as_openai(self) -> dict[str, object]:
        """Return it as a part of a message in OpenAI's shape."""
        return {"type": "image_url", "image_url": {"url": self.data_url}}


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoData(ImageData):
    """A video as bytes, or the address of one.

    Attributes:
        num_frames: how many of its frames the model is to see; as many as the server
            takes, if ``None``.
    """

    media_type: str = "video/mp4"
    num_frames: int | None = None

    def as_openai(self) -> dict[str, object]:
        """Return it as a part of a message in the shape of vLLM and SGLang."""
        return {"type": "video_url", "video_url": {"url": self.data_url}}


Part = str | ImageData
_Part = TypeVar("_Part", str | ImageData, ImageData)


def _images(media: Iterable[object]) -> tuple[ImageData, ...]:
    return tuple(
        each
        for each in media
        if isinstance(each, ImageData) and not isinstance(each, VideoData)
    )


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; its parts in order, texts never next to each other.

    Leading white space of a turn is dropped, as SGLang does.
    """

    role: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The texts of the turn, joined."""
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def images(self) -> tuple[ImageData, ...]:
        """The images of the turn, in order."""
        return _images(self.parts)

    @property
    def media(self) -> tuple[ImageData, ...]:
        """The images and videos of the turn, in order."""
        return tuple(part for part in self.parts if isinstance(part, ImageData))

    def as_openai(self) -> dict[str, object]:
        """Return the message as OpenAI's chat API spells it."""
        if not self.media:
            return {"role": self.role, "content": self.text}
        return {
            "role": self.role,
            "content": [
                {"type": "text", "text": part}
                if isinstance(part, str)
                else part.as_openai()
                for part in self.parts
            ],
        }


@dataclass(frozen=True, slots=True)
class Join:
    """Branches that were joined one after the other, to be read each by itself.

    Attributes:
        start: where in the text the first begins; it is what all were forked from.
        ends: where each ends, and the next begins.
    """

    start: int
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a program has said so far, as one text and as messages.

    Attributes:
        template: how roles are written in the text.
        text: everything, in the template's markup.
        messages: the turns that are closed.
        role: the turn that is open, if any.
        open_parts: what stands in the open turn.
        open_start: where in ``text`` the open turn's own text begins.
        loose_text: text outside any turn; a chat API cannot carry it.
        media: every image and video, in order.
        joins: branches that a backend may put together from what it computed of each;
            others read the text.
    """

    template: ChatTemplate = DEFAULT_TEMPLATE
    text: str = ""
    messages: tuple[Message, ...] = ()
    role: str | None = None
    open_parts: tuple[Part, ...] = ()
    open_start: int = 0
    loose_text: str = ""
    media: tuple[ImageData, ...] = ()
    joins: tuple[Join, ...] = ()

    @property
    def images(self) -> tuple[ImageData, ...]:
        """Every image, in order."""
        return _images(self.media) if self.media else ()

    @property
    def videos(self) -> tuple[VideoData, ...]:
        """Every video, in order."""
        return tuple(each for each in self.media if isinstance(each, VideoData))

    @property
    def is_chat(self) -> bool:
        """Whether the program uses roles."""
        return self.role is not None or bool(self.messages)

    @property
    def open_message(self) -> Message | None:
        """The open turn as far as it goes; ``None`` outside a turn."""
        return None if self.role is None else _message(self.role, self.open_parts)

    def with_text(self, text: str) -> Self:
        """Append *text*."""
        if not text:
            return self
        whole = self.text + text
        if self.role is None:
            return replace(self, text=whole, loose_text=self.loose_text + text)
        *before, last = self.open_parts or ("",)
        parts = (
            (*before, last + text)
            if isinstance(last, str)
            else (*self.open_parts, text)
        )
        return self._next(whole, self.role, parts, self.open_start, self.messages)

    def with_image(self, image: ImageData) -> Self:
        """Append *image*, which may be a video, its marker in the text."""
        is_video = isinstance(image, VideoData)
        marker = self.template.video_token if is_video else self.template.image_token
        return replace(
            self,
            text=self.text + (marker or _UNKNOWN_MARKER),
            open_parts=(*self.open_parts, image),
            media=(*self.media, image),
        )

    def with_join(self, join: Join) -> Self:
        """Note that what was said last are joined branches."""
        return replace(self, joins=(*self.joins, join))

    def without_num_frames(self) -> Self:
        """Leave open how many frames of its videos the model is to see."""
        if not self.videos:
            return self
        return replace(
            self,
            messages=tuple(
                replace(message, parts=_any_frames(message.parts))
                for message in self.messages
            ),
            open_parts=_any_frames(self.open_parts),
            media=_any_frames(self.media),
        )

    def with_role_begin(self, role: str) -> Self:
        """Open a turn; the template's default system prompt comes before the first.

        Raises:
            ProgramError: a turn is open already.
        """
        if self.role is not None:
            raise ProgramError(
                f"{role!r} begins inside {self.role!r}; end {self.role!r} first"
            )
        default = self.template.default_system
        if not self.messages and role != "system" and default is not None:
            system = self.with_role_begin("system").with_text(default)
            return system.with_role_end("system").with_role_begin(role)
        earlier = tuple(message.role for message in self.messages)
        text = self.text + self.template.prefix(role, earlier)
        return self._next(text, role, (), len(text), self.messages)

    def with_role_end(self, role: str) -> Self:
        """Close the open turn.

        Raises:
            ProgramError: no turn is open, or one of another role is.
        """
        if self.role != role:
            opened = f"{self.role!r} is open" if self.role else "no role is open"
            raise ProgramError(f"{role!r} ends but {opened}")
        text = self.text + self.template.suffix(role)
        messages = (*self.messages, _message(role, self.open_parts))
        return self._next(text, None, (), self.open_start, messages)

    def _next(
        self,
        text: str,
        role: str | None,
        open_parts: tuple[Part, ...],
        open_start: int,
        messages: tuple[Message, ...],
    ) -> Self:
        # Each row of a batch takes several steps, and ``replace`` costs twice as much.
        return type(self)(
            template=self.template,
            text=text,
            messages=messages,
            role=role,
            open_parts=open_parts,
            open_start=open_start,
            loose_text=self.loose_text,
            media=self.media,
            joins=self.joins,
        )


_UNKNOWN_MARKER = "<video>"


def _any_frames(parts: tuple[_Part, ...]) -> tuple[_Part, ...]:
    return tuple(
        replace(part, num_frames=None) if isinstance(part, VideoData) else part
        for part in parts
    )


def _message(role: str, parts: tuple[Part, ...]) -> Message:
    if parts and isinstance(parts[0], str):
        first = parts[0].lstrip()
        parts = (first, *parts[1:]) if first else parts[1:]
    return Message(role, parts)
