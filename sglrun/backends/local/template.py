"""The chat template of a model file, cut into the pieces around each role's text.

The file carries its template as a Jinja program over a list of messages. It is run over
messages whose texts are easy to find again; what stands around them is the markup. The
token that begins every text is left out: the tokenizer adds it.
"""

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.prompt import Prompt

_TALK = ("user", "assistant", "user")


def derive_template(source: str, *, name: str, end: str) -> ChatTemplate:
    """Return the markup that the Jinja template *source* writes.

    Args:
        source: the template, as the model's file carries it.
        name: what to call it.
        end: the text of the token that ends an answer.

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

    def __init__(self, source: str, *, end: str) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _refuse
        self._template = environment.from_string(source)
        self._end = end

    def cut(self, name: str) -> ChatTemplate:
        """Return the pieces, once they write what the template writes."""
        first, after_user, after_answer, suffix_user = self._around(_TALK)
        *_, suffix_answer = self._around(("user", "assistant"))
        prefix_user = _without(after_answer, start=suffix_answer)
        prefix_answer = _without(after_user, start=suffix_user)
        system, default = self._system(first, prefix_user)
        template = ChatTemplate(
            name=name,
            roles={
                **system,
                "user": (prefix_user, suffix_user),
                "assistant": (prefix_answer, suffix_answer),
            },
            default_system=default,
            stop=(self._end,) if self._end and self._end in suffix_answer else (),
        )
        for roles in (("user",), _TALK, ("system", *_TALK) if system else ("user",)):
            if self._render(roles) != _written(template, roles):
                raise ValueError(f"the chat template treats {roles} in its own way")
        return template

    def _system(
        self, first: str, prefix_user: str
    ) -> tuple[dict[str, tuple[str, str]], str | None]:
        """Return the system role's markup, if any, and the default system prompt.

        *first* is what stands before the text of a user who speaks first.
        """
        try:
            before, after, _ = self._around(("system", "user"))
        except (jinja2.TemplateError, ValueError):  # no such role for this model
            if first != prefix_user:
                raise
            return {}, None
        system = {"system": (before, _without(after, end=prefix_user))}
        if first == prefix_user:
            return system, None
        return system, _without(_without(first, start=before), end=after)

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
            eos_token=self._end,
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
