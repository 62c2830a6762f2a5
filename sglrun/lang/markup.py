"""Markup: what a chat template writes around the messages of a conversation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sglrun.errors import ProgramError


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """The markup around the messages of a conversation.

    Attributes:
        name: what options and manifests call it.
        roles: role to the (prefix, suffix) around its text; other roles have none.
        default_system: the system prompt written where a program gives none.
        stop: strings that end an assistant's turn.
        image_token: the marker that stands for an image.
        video_token: the marker that stands for a video, where it is known.
        style: ``llama2`` writes the system message inside the first user turn.
        opening: what stands before the first turn; the token that begins every text
            is no part of it where the tokenizer adds that.
        leads: what stands before a message whose place has markup of its own, by the
            roles up to and with it; it holds instead of everything else.
        one_answer: the roles that begin talks of which only the first answer can be
            written: the model's template writes them anew once they go on.
    """

    name: str
    roles: Mapping[str, tuple[str, str]]
    default_system: str | None = None
    stop: tuple[str, ...] = ()
    image_token: str = "<image>"  # noqa: S105 - markup
    video_token: str | None = None
    style: Literal["plain", "llama2"] = "plain"
    opening: str = ""
    leads: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    one_answer: tuple[str, ...] = ()

    def prefix(self, role: str, earlier_roles: tuple[str, ...]) -> str:
        """Return what stands before a message of *role* after *earlier_roles*.

        Raises:
            ProgramError: the talk goes on after its only answer.
        """
        place = (*earlier_roles, role)
        if "assistant" in earlier_roles and place[0] in self.one_answer:
            raise ProgramError(
                f"a talk that begins with {place[0]!r} cannot go on after an answer: "
                f"the chat template {self.name!r} then writes its earlier messages "
                "anew, and a program's text only grows; end the talk there, or name "
                "another template with --chat-template"
            )
        if place in self.leads:
            return self.leads[place]
        opening = "" if earlier_roles else self.opening
        prefix, _ = self.roles.get(role, ("", ""))
        if self.style == "llama2":
            if role == "system" and not earlier_roles:
                prefix = self.roles["user"][0] + prefix
            if role == "user" and earlier_roles == ("system",):
                prefix = ""
        return opening + prefix

    def suffix(self, role: str) -> str:
        """Return what stands after a message of *role*."""
        return self.roles.get(role, ("", ""))[1]
