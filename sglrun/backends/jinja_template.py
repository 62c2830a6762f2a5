"""A chat template in Jinja, run over the messages of a talk.

Models carry their template as a program. It is given what it is made for, a talk
without tools, but for the token that begins every text: the tokenizer adds that.
"""

import json
import time
from collections.abc import Mapping, Sequence

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sglrun.backends.role_texts import find_role_texts
from sglrun.lang.chat_template import ChatTemplate

# What a talk has not: transformers gives it as nothing, and llama.cpp does not give it.
_ABSENT: tuple[Mapping[str, None], ...] = ({"tools": None, "documents": None}, {})
# What a template in Python may run into with messages that it is not made for.
_FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


def derive_template(source: str, *, name: str, end: str | None = None) -> ChatTemplate:
    """Return the markup that the Jinja template *source* writes.

    The template cannot touch anything but the messages.

    Args:
        source: the template, as the model's file carries it.
        name: what to call it.
        end: the text of the token that ends an answer, where it is known.

    Raises:
        ValueError: the template does something that fixed texts around each role
            cannot say, or it fails.
    """
    failures = []
    for absent in _ABSENT:
        template = _Template(source, end=end or "", absent=absent)
        try:
            return find_role_texts(template.write, name=name, end=end or "")
        except ValueError as exc:
            failures.append(exc)
    raise failures[0]


class _Template:
    """A template that can be run."""

    def __init__(self, source: str, *, end: str, absent: Mapping[str, None]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = time.strftime
        environment.filters["tojson"] = _to_json
        self._given = {"bos_token": "", "eos_token": end, **absent}
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as exc:
            raise ValueError(f"the model's chat template fails: {exc}") from exc

    def write(self, messages: Sequence[Mapping[str, str]], *, opens: bool) -> str:
        """Return what is written for *messages*, with an answer's beginning or not."""
        try:
            return self._template.render(
                messages=messages, add_generation_prompt=opens, **self._given
            )
        except _FAILURES as exc:
            raise ValueError(f"the model's chat template fails: {exc}") from exc


class _Generation(Extension):
    """The tag of transformers around what a model says itself; it writes nothing."""

    tags = {"generation"}  # noqa: RUF012 - the library's own kind

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the body, whose variables stay inside it, as in transformers."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _to_json(value: object, indent: int | None = None) -> str:
    """Return *value* as transformers writes it, which escapes nothing for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
