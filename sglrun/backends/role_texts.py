"""The fixed texts around each role, found in what a model's template writes for talks.

The template is run over messages whose texts are easy to find again; what stands around
them is the markup. It is taken only where it writes what the template writes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.prompt import Prompt

_BEGINNINGS = (("user",), ("system", "user"))
_MORE = ("assistant", "user")


class Writer(Protocol):
    """A model's own template."""

    def __call__(self, messages: Sequence[Mapping[str, str]], *, opens: bool) -> str:
        """Return the text of *messages*, with the beginning of an answer or not.

        Raises:
            ValueError: it refuses such a talk, or fails.
        """
        ...


def find_role_texts(write: Writer, *, name: str, end: str) -> ChatTemplate:
    """Return the markup that *write* writes, called *name*.

    A prompt of it is exactly what *write* writes, with the beginning of an answer, for
    a user or a system message and a user, and for each more answer and user after that.
    Where *write* changes what came before once a talk goes on, only the talks of one
    answer are had, as ``one_answer`` says.

    Args:
        write: the model's own template.
        name: what to call the markup.
        end: the token that ends an answer, or nothing where it is not known.

    Raises:
        ValueError: fixed texts around each role cannot say it.
    """
    talks = _Talks(write)
    found, failures = [], []
    for plain in _plain_templates(talks, name=name, end=end):
        try:
            template = _with_beginnings(plain, talks)
            found.append(replace(template, one_answer=_one_answer(template, talks)))
        except ValueError as exc:
            failures.append(exc)
    if not found:
        raise failures[0]
    return min(found, key=_shortcomings)


@dataclass(frozen=True, slots=True)
class _Talks:
    """Talks whose texts are easy to find again in what a template writes for them."""

    write: Writer

    def text(self, roles: tuple[str, ...], *, opens: bool = True) -> str:
        """Return what is written for messages of *roles*."""
        pairs = zip(roles, _marks(roles), strict=True)
        messages = [{"role": role, "content": mark} for role, mark in pairs]
        return self.write(messages, opens=opens)

    def around(self, *roles: str, opens: bool = False) -> tuple[str, ...]:
        """Return what stands before, between and after the texts of *roles*.

        Raises:
            ValueError: a text is changed or left out.
        """
        pieces = []
        rest = self.text(roles, opens=opens)
        for mark in _marks(roles):
            before, found, rest = rest.partition(mark)
            if not found:
                raise ValueError("the chat template leaves a message out")
            pieces.append(before)
        return (*pieces, rest)

    def are_written_by(self, template: ChatTemplate, roles: tuple[str, ...]) -> bool:
        """Return whether a prompt of *template* is the text for *roles*."""
        try:
            return self.text(roles) == _prompt_text(template, roles)
        except ValueError:
            return False


def _plain_templates(talks: _Talks, *, name: str, end: str) -> Iterator[ChatTemplate]:
    """Yield the ways to tell the end of an answer from the beginning of a user."""
    _, opened = talks.around("user", opens=True)
    _, closed = talks.around("user")
    suffix_user = _head(closed, of=opened, end=end)
    turns = _Turns(talks, suffix_user, is_always_open=opened == closed)
    for suffix, prefix_user in turns.ends(end):
        stop = end if end and end in suffix else suffix.strip()
        yield ChatTemplate(
            name=name,
            roles={
                "user": (prefix_user, suffix_user),
                "assistant": (opened[len(suffix_user) :], suffix),
            },
            stop=(stop,) if stop else (),
        )


@dataclass(frozen=True, slots=True)
class _Turns:
    """What may stand between an answer and the user after it."""

    talks: _Talks
    suffix_user: str
    is_always_open: bool

    def ends(self, end: str) -> Iterator[tuple[str, str]]:
        """Yield pairs of an answer's suffix and a user's prefix, the likeliest first.

        All but those of a last answer are what stands in a longer talk, cut in two.
        """
        around = self.talks.around
        first = around("user")[0]
        try:
            *_, between, _ = around("user", "assistant", "user")
            *_, closed = around("user", "assistant")
        except ValueError:  # such as for an answer without its reasoning
            yield end, first
            return
        suffix = _head(closed, of=between, end=end)
        if suffix:
            yield suffix, between[len(suffix) :]
        prefix_user = self._prefix_user(between)
        if closed and not suffix and not self.is_always_open:  # the last ends otherwise
            yield closed, prefix_user or first
        if end and end in between:  # the last is left open
            prefix = between.partition(end)[2].lstrip()
            yield between.removesuffix(prefix), prefix
        if prefix_user:
            yield between.removesuffix(prefix_user), prefix_user
        yield "", between

    def _prefix_user(self, between: str) -> str:
        """Return the end of *between* that also stands between two users."""
        try:
            _, between_users, _ = self.talks.around("user", "user")
        except ValueError:
            return ""
        prefix = between_users.removeprefix(self.suffix_user)
        return prefix if between.endswith(prefix) else ""


def _head(closed: str, *, of: str, end: str) -> str:
    """Return what of *closed* also stands before what follows, *of*.

    The last message of a talk may be followed by the token that ends a text.
    """
    if not of.startswith(closed):
        closed = closed.removesuffix(end)
    return closed if of.startswith(closed) else ""


def _with_beginnings(plain: ChatTemplate, talks: _Talks) -> ChatTemplate:
    """Return *plain* with the system role, if there is one, and what opens a talk."""
    prefix_user, _ = plain.roles["user"]
    first, _ = talks.around("user")
    lead = first.removesuffix(prefix_user) if first.endswith(prefix_user) else ""
    try:
        before, after, _ = talks.around("system", "user")
    except ValueError:  # no such role for this model
        return _with_leads(replace(plain, opening=lead), {("user",): first})
    suffix = after.removesuffix(prefix_user) if after.endswith(prefix_user) else ""
    wanted = {
        ("user",): first,
        ("system",): before,
        ("system", "user"): after.removeprefix(suffix),
    }
    if lead.startswith(before) and lead[len(before) :].endswith(suffix) and lead:
        default = lead[len(before) : len(lead) - len(suffix)]
        roles = {**plain.roles, "system": (before, suffix)}
        wanted.pop(("user",))  # never first
        template = replace(plain, roles=roles, default_system=default)
        return _with_leads(template, wanted)
    if not after.endswith(prefix_user):  # it stands inside the user's turn
        own = before.removeprefix(lead).removeprefix(prefix_user)
        roles = {**plain.roles, "system": (own, after)}
        template = replace(plain, roles=roles, opening=lead, style="llama2")
        return _with_leads(template, {**wanted, ("system", "user"): ""})
    roles = {**plain.roles, "system": (before.removeprefix(lead), suffix)}
    return _with_leads(replace(plain, roles=roles, opening=lead), wanted)


def _with_leads(
    template: ChatTemplate, wanted: Mapping[tuple[str, ...], str]
) -> ChatTemplate:
    """Return *template* with what its roles do not say of the places *wanted*."""
    leads = {
        place: text
        for place, text in wanted.items()
        if template.prefix(place[-1], place[:-1]) != text
    }
    return replace(template, leads=leads)


def _one_answer(template: ChatTemplate, talks: _Talks) -> tuple[str, ...]:
    """Return who begins the talks of which only one answer is as *talks* have it.

    Raises:
        ValueError: not even that is.
    """
    found: list[str] = []
    for roles in _BEGINNINGS:
        if roles[0] not in template.roles:
            continue
        if not talks.are_written_by(template, roles):
            raise ValueError(f"the chat template treats {roles} in its own way")
        longer = (roles + _MORE * times for times in (1, 2))
        if not all(talks.are_written_by(template, each) for each in longer):
            began = "system" if template.default_system is not None else roles[0]
            found.append(began)
    if "user" in found:
        found.append("assistant")  # an answer before any question, as an example
    return tuple(dict.fromkeys(found))


def _shortcomings(template: ChatTemplate) -> tuple[int, bool, int]:
    """Return what *template* lacks, the worst first."""
    return len(template.one_answer), not template.stop, len(template.leads)


def _marks(roles: tuple[str, ...]) -> tuple[str, ...]:
    """Return texts for *roles*; what a template may escape stands in each."""
    return tuple(f"@{role}-{at} \"<é&>'\n\\@" for at, role in enumerate(roles))


def _prompt_text(template: ChatTemplate, roles: tuple[str, ...]) -> str:
    """Return what a program's prompt is where the model is to answer *roles*."""
    prompt = Prompt(template=template)
    for role, mark in zip(roles, _marks(roles), strict=True):
        prompt = prompt.with_role_begin(role).with_text(mark).with_role_end(role)
    return prompt.with_role_begin("assistant").text
