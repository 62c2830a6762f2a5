"""The estimate: what a run will ask of a model, before anything is sent."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from sglrun.backends.base import Usage
from sglrun.batch.plan import is_worth_sending
from sglrun.batch.rows import Row, given
from sglrun.batch.schedule import shared_beginnings
from sglrun.errors import ProgramError
from sglrun.interpreter.program import Program
from sglrun.interpreter.tracing.graph import Node
from sglrun.interpreter.tracing.tracer import trace_prefix, trace_program
from sglrun.interpreter.tracing.value import Fragment, Mark
from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.sampling import DEFAULTS, SamplingParams

TRACED_ROWS = 1000
_UNKNOWN = "\U00100000"  # stands for generated text where prompts are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run asks of a model.

    Attributes:
        rows: rows of the input.
        bad_rows: those among the traced ones that cannot be run.
        traced_rows: rows that the numbers come from; where there are more, they are
            taken to be alike.
        requests: generations and choices.
        prompt_tokens: tokens that are read, generated text counted at its longest, and
            each option of a choice once.
        sent_tokens: tokens of the prefix that is sent before the rows; 0 if none is.
        prefix_tokens: of the prompt's, what the static prefix saves, its one reading
            taken off.
        shared_tokens: likewise, what a cache that forgets nothing saves.
        completion_tokens: tokens that are generated at most.
        decided_by: a line that decides by a generated value what is asked, if one does.
    """

    rows: int
    bad_rows: int
    traced_rows: int
    requests: int
    prompt_tokens: int
    sent_tokens: int
    prefix_tokens: int
    shared_tokens: int
    completion_tokens: int
    decided_by: str | None

    @property
    def usage(self) -> Usage:
        """The same as a usage, that of the prefix included."""
        return Usage(
            requests=self.requests + (self.sent_tokens > 0),
            prompt_tokens=self.prompt_tokens + self.sent_tokens,
            cached_tokens=self.prefix_tokens + self.sent_tokens,
            completion_tokens=self.completion_tokens,
        )


def estimate(
    program: Program,
    rows: Iterable[Row],
    *,
    template: ChatTemplate,
    sampling: SamplingParams,
    count: Callable[[str], int],
    sends_prefix: bool = False,
) -> Estimate:
    """Return what running *program* over *rows* asks of a model; nothing is sent.

    The program runs once for each of the first rows, with stand-ins for all that a
    model would say. Its side effects happen.

    Args:
        program: what would be run.
        rows: its input, read to the end.
        template: how roles are written.
        sampling: the run's parameters.
        count: tells how many tokens a text is.
        sends_prefix: what all rows begin with is sent first, if it is worth it.
    """
    tally = _Tally(program, template, sampling.over(DEFAULTS), cache(count))
    number = 0
    for row in rows:
        number += 1
        if tally.traced_rows + tally.bad_rows < TRACED_ROWS:
            tally.add(row)
    return tally.estimate(number, sends_prefix=sends_prefix)


class _Tally:
    """The requests of the rows that are traced."""

    def __init__(
        self,
        program: Program,
        template: ChatTemplate,
        sampling: SamplingParams,
        count: Callable[[str], int],
    ) -> None:
        self._program = program
        self._template = template
        self._sampling = sampling
        self._count = count
        self._names: set[str] = set()
        self._prompts: list[str] = []
        self._options = 0  # tokens of the options of choices
        self._generated = 0  # tokens of answers that stand in later prompts
        self._completion = 0
        self._decided_by: str | None = None
        self.traced_rows = 0
        self.bad_rows = 0

    def add(self, row: Row) -> None:
        """Trace *row*."""
        arguments = given(row, self._program).arguments
        try:
            self._program.check_arguments(arguments)
        except ProgramError:
            self.bad_rows += 1
            return
        if row.error_for(self._program) is not None:
            self.bad_rows += 1
            return
        self.traced_rows += 1
        self._names |= arguments.keys()
        trace = trace_program(
            self._program, template=self._template, arguments=arguments
        )
        longest: dict[int, int] = {}
        for node in trace.graph.nodes:
            if node.kind == "branch":
                self._decided_by = self._decided_by or node.where
            elif node.kind in ("generate", "select"):
                self._ask(node, longest)

    def _ask(self, node: Node, longest: dict[int, int]) -> None:
        marks = [part.value.node for part in node.prompt if isinstance(part, Mark)]
        self._generated += sum(longest.get(each, 0) for each in marks)
        self._prompts.append("".join(map(_spelled, node.prompt)))
        if node.kind == "select":
            options = [self._known("".join(map(_spelled, o))) for o in node.choices]
            self._options += sum(options)
            longest[node.id] = max(options, default=0)
            return
        most = node.parameters.get("max_new_tokens", self._sampling.max_new_tokens)
        samples = node.parameters.get("n", self._sampling.n)
        longest[node.id] = int(str(most))
        self._completion += int(str(most)) * int(str(samples))

    def estimate(self, rows: int, *, sends_prefix: bool) -> Estimate:
        """Return what so many *rows* like those that were traced ask."""
        prefix = self._prefix()
        tokens = self._known(prefix)
        begun = sum(prompt.startswith(prefix) for prompt in self._prompts)
        known = sum(map(self._known, self._prompts)) + self._options
        shared = sum(map(self._known, shared_beginnings(self._prompts)))
        good = self.traced_rows / (self.traced_rows + self.bad_rows or 1)
        scale = rows * good / self.traced_rows if self.traced_rows else 0.0
        return Estimate(
            rows=rows,
            bad_rows=self.bad_rows,
            traced_rows=self.traced_rows,
            requests=round(len(self._prompts) * scale),
            prompt_tokens=round((known + self._generated) * scale),
            sent_tokens=tokens * (sends_prefix and is_worth_sending(prefix, tokens)),
            prefix_tokens=round(max(0, begun * scale - 1) * tokens),
            shared_tokens=round(shared * scale),
            completion_tokens=round(self._completion * scale),
            decided_by=self._decided_by,
        )

    def _known(self, text: str) -> int:
        """Return the tokens of *text* without what is not known in it."""
        return self._count(text.replace(_UNKNOWN, ""))

    def _prefix(self) -> str:
        """Return the text that every row's first prompt begins with."""
        if not self._prompts:
            return ""
        found = trace_prefix(self._program, template=self._template, given=self._names)
        return found.prompt.text


def _spelled(part: Fragment) -> str:
    return part if isinstance(part, str) else _UNKNOWN
