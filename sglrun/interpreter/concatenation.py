"""The concatenation of branches: what they said, one after the other, in the parent."""

from collections.abc import Sequence

from sglrun.interpreter.executor import StreamExecutor
from sglrun.interpreter.failure import calling_place
from sglrun.interpreter.global_config import may_join
from sglrun.lang import ir
from sglrun.lang.prompt import Join, Prompt


def concatenate(parent: StreamExecutor, branches: Sequence[StreamExecutor]) -> None:
    """Append to *parent* what *branches*, which are done, said; waits only if it joins.

    Where that was asked for, the prompt notes where each ends, so that the backend may
    put together what it computed of each.

    Raises:
        ProgramError: what they said does not fit one after the other.
        BaseException: the first cause, if the program has failed.
    """
    said = [ir.ExprList(tuple(branch.evaluator.said)) for branch in branches]
    if not may_join(parent.settings.backend):
        whole = tuple(piece for each in said for piece in each)
        parent.submit(ir.ExprList(whole), calling_place())
        return
    parent.wait()
    before, ends = parent.evaluator.prompt, []
    for each in said:
        parent.submit(each, calling_place())
        parent.wait()
        ends.append(len(parent.evaluator.prompt.text))
    _note(parent, before, [branch.evaluator.prompt for branch in branches], ends)


def _note(
    parent: StreamExecutor,
    before: Prompt,
    branches: Sequence[Prompt],
    ends: Sequence[int],
) -> None:
    """Note the join; where a branch was not forked from *before*, the text is read."""
    prompt, start = parent.evaluator.prompt, len(before.text)
    starts = (start, *ends[:-1])
    spoken = all(
        branch.text == before.text + prompt.text[begin:end] and not branch.media
        for branch, begin, end in zip(branches, starts, ends, strict=True)
    )
    if spoken and len(branches) > 1:
        parent.evaluator.prompt = prompt.with_join(Join(start, tuple(ends)))
