"""A chat template in Jinja, cut into the pieces around each role's text.

Models carry their template as a Jinja program over a list of messages. It is run over
messages whose texts are easy to find again; what stands around them is the markup. The
token that begins every text is left out: the tokenizer adds it.
"""

import time
from dataclasses import replace

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.prompt import Prompt

_TALK = ("user", "assistant", "user")


def derive_template(source: str, *, name: str, end: str | None = None) -> ChatTemplate:
    """Return the markup that the Jinja template *source* writes.

    The template cannot touch anything but the messages.

    Args:
        source: the template, as the model's file carries it.
        name: what to call it.
        end: the text of the token that ends an answer, where it is known.

    Raises:
        ValueError: the template does something that a prefix and a suffix for each
            role cannot say, or it fails.
    """
    try:
        return _Template(source, end=end).cut(name)
    except (jinja2.TemplateError, TypeError) as exc:
        raise ValueError(f"the model's chat template fails: {exc}") from exc


class _Template:
    """A template that can be run."""

    def __init__(self, source: str, *, end: str | None) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = time.strftime
        self._template = environment.from_string(source)
        self._end = end

    def cut(self, name: str) -> ChatTemplate:
        """Return the pieces, once they write what the template writes."""
        first, after_user, after_answer, suffix_user = self._around(_TALK)
        *_, suffix_answer = self._around(("user", "assistant"))
        prefix_user = _without(after_answer, start=suffix_answer)
        prefix_answer = _without(after_user, start=suffix_user)
        stop = suffix_answer.strip()
        if self._end and self._end in stop:
            stop = self._end
        plain = ChatTemplate(
            name=name,
            roles={
                "user": (prefix_user, suffix_user),
                "assistant": (prefix_answer, suffix_answer),
            },
            stop=(stop,) if stop else (),
        )
        template = self._with_system(plain, _without(first, end=prefix_user))
        knows_system = "system" in template.roles
        talks = (("user",), _TALK, ("system", *_TALK) if knows_system else ("user",))
        for roles in talks:
            if self._render(roles) != _written(template, roles):
                raise ValueError(f"the chat template treats {roles} in its own way")
        return template

    def _with_system(self, plain: ChatTemplate, lead: str) -> ChatTemplate:
        """Return *plain* with the system role, if there is one, and what opens a talk.

        *lead* stands before a user who speaks first.
        """
        prefix_user, _ = plain.roles["user"]
        try:
            before, after, _ = self._around(("system", "user"))
        except (jinja2.TemplateError, ValueError):  # no such role for this model
            return replace(plain, opening=lead)
        if not after.endswith(prefix_user):  # it stands inside the user's turn
            system = _without(_without(before, start=lead), start=prefix_user), after
            roles = {**plain.roles, "system": system}
            return replace(plain, roles=roles, opening=lead, style="llama2")
        suffix = _without(after, end=prefix_user)
        if lead and lead.startswith(before) and lead.endswith(suffix):
            default = lead[len(before) : len(lead) - len(suffix)]
            roles = {**plain.roles, "system": (before, suffix)}
            return replace(plain, roles=roles, default_system=default)
        roles = {**plain.roles, "system": (_without(before, start=lead), suffix)}
        return replace(plain, roles=roles, opening=lead)

    def _around(self, roles: tuple[str, ...]) -> tuple[str, ...]:
        """Return what stands before, between and after the texts of *roles*."""
        pieces = []
        rest = self._render(roles, opens=False)
        for mark in _marks(roles):
            before, found, rest = rest.partition(mark)
            if not found:
                raise ValueError("the chat template leaves a message out")
            pieces.append(before)
        return (*pieces, rest)

    def _render(self, roles: tuple[str, ...], *, opens: bool = True) -> str:
        """Return what the template writes, with the beginning of an answer or not."""
        messages = [
            {"role": role, "content": mark}
            for role, mark in zip(roles, _marks(roles), strict=True)
        ]
        return self._template.render(
            messages=messages,
            add_generation_prompt=opens,
            bos_token="",
            eos_token=self._end or "",
        )


def _marks(roles: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"@{role}-{number}@" for number, role in enumerate(roles))


def _written(template: ChatTemplate, roles: tuple[str, ...]) -> str:
    """Return what a program's prompt is where the model is to answer *roles*."""
    prompt = Prompt(template=template)
    for role, mark in zip(roles, _marks(roles), strict=True):
        prompt = prompt.with_role_begin(role).with_text(mark).with_role_end(role)
    return prompt.with_role_begin("assistant").text


def _without(text: str, *, start: str = "", end: str = "") -> str:
    if not (text.startswith(start) and text.endswith(end)):
        raise ValueError(f"{text!r} does not go with {start or end!r}")
    return text[len(start) : len(text) - len(end)]


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
