"""A traced stream: one prompt of a traced program, and how it came about."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sglrun.interpreter.observer import Observed
from sglrun.interpreter.tracing.marks import Marks, has_mark
from sglrun.interpreter.tracing.trace_end import Following
from sglrun.interpreter.tracing.value import Mark
from sglrun.lang import ir
from sglrun.lang.prompt import Prompt


@dataclass(slots=True)
class TracedStream:
    """A prompt, and the pieces that were added since it began.

    Attributes:
        executor: whose prompt it is.
        start: the prompt at the beginning.
        pieces: what was added, with the author's lines.
        until: what it says, if it says no more.
    """

    executor: Observed
    start: Prompt
    pieces: list[tuple[ir.Piece, str | None]] = field(default_factory=list)
    until: str | None = None

    @property
    def text(self) -> str:
        """What it says by now."""
        if self.until is not None:
            return self.until
        return self.executor.evaluator.prompt.text

    def as_now(self) -> "TracedStream":
        """Return the stream as it is now."""
        return replace(self, pieces=list(self.pieces), until=self.text)

    def unsaid(self) -> "TracedStream":
        """Return a stream like this that says nothing."""
        return replace(
            self, start=Prompt(template=self.start.template), pieces=[], until=""
        )

    def marked_place(self) -> str | None:
        """Return the line that adds the first text with an unknown value."""
        for piece, where in self.pieces:
            if isinstance(piece, ir.Text) and has_mark(piece.value):
                return where
        return None

    def following(self, marks: Marks) -> Following:
        """Return what is said from the first text with an unknown value on."""
        found = Following()
        names: dict[str, None] = {}
        said = [(p.value, where) for p, where in self.pieces if isinstance(p, ir.Text)]
        for text, where in said:
            for part in marks.fragments(text):
                if isinstance(part, Mark):
                    names |= {each.name or "…": None for each in part.value.parts()}
                elif names:
                    found = Following(
                        characters=found.characters + len(part),
                        where=where,
                        names=tuple(names),
                    )
        return found

    def forget_from(self, where: str | None) -> None:
        """Forget what was added from the first piece of the line *where* on."""
        lines = [line for _, line in self.pieces]
        if where in lines:
            del self.pieces[lines.index(where) :]

    def begun(self, length: int) -> Prompt:
        """Return the first *length* characters as a prompt of their own.

        It ends before markup of which not all belongs to it.
        """
        prompt = self.start
        for piece, _ in self.pieces:
            following = _with(prompt, piece)
            room = length - len(prompt.text)
            if len(following.text) > length:
                rest = piece.value[:room] if isinstance(piece, ir.Text) else ""
                return prompt.with_text(rest)
            prompt = following
        return prompt


def common_prefix(texts: Sequence[str]) -> str:
    """Return what all of *texts* begin with."""
    if not texts:
        return ""
    first, last = min(texts), max(texts)
    pairs = enumerate(zip(first, last, strict=False))
    differs = next((at for at, (one, other) in pairs if one != other), len(first))
    return first[:differs]


def shared(streams: Iterable[TracedStream], length: int) -> Prompt:
    """Return the first *length* characters, which *streams* share, as a prompt."""
    return max(
        (each.begun(length) for each in streams if len(each.start.text) <= length),
        key=lambda prompt: len(prompt.text),
        default=Prompt(),
    )


def _with(prompt: Prompt, piece: ir.Piece) -> Prompt:
    match piece:
        case ir.Text(value=value):
            return prompt.with_text(value)
        case ir.RoleBegin(role=role):
            return prompt.with_role_begin(role)
        case ir.RoleEnd(role=role):
            return prompt.with_role_end(role)
        case _:
            return prompt
