"""A prompt: the text and the messages that a program has built so far.

Rule: a prompt never changes; each step returns a new one. A fork therefore costs
nothing, and a backend may keep what it was handed.
"""

import base64
from dataclasses import dataclass, replace
from typing import Self

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


Part = str | ImageData


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
        return tuple(part for part in self.parts if isinstance(part, ImageData))

    def as_openai(self) -> dict[str, object]:
        """Return the message as OpenAI's chat API spells it."""
        if not self.images:
            return {"role": self.role, "content": self.text}
        return {
            "role": self.role,
            "content": [
                {"type": "text", "text": part}
                if isinstance(part, str)
                else {"type": "image_url", "image_url": {"url": part.data_url}}
                for part in self.parts
            ],
        }


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
        images: every image, in order.
    """

    template: ChatTemplate = DEFAULT_TEMPLATE
    text: str = ""
    messages: tuple[Message, ...] = ()
    role: str | None = None
    open_parts: tuple[Part, ...] = ()
    open_start: int = 0
    loose_text: str = ""
    images: tuple[ImageData, ...] = ()

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
        """Append *image*, its marker in the text."""
        return replace(
            self,
            text=self.text + self.template.image_token,
            open_parts=(*self.open_parts, image),
            images=(*self.images, image),
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
            images=self.images,
        )


def _message(role: str, parts: tuple[Part, ...]) -> Message:
    if parts and isinstance(parts[0], str):
        first = parts[0].lstrip()
        parts = (first, *parts[1:]) if first else parts[1:]
    return Message(role, parts)
