"""The stream executor: order, futures, failures and threads."""

import threading
from collections.abc import Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from sglrun.backends.base import Request
from sglrun.backends.mock import Answer, MockBackend
from sglrun.errors import BadRequestError, ProgramError, ScopeError
from sglrun.interpreter.executor import Settings, StreamExecutor
from sglrun.interpreter.failure import Failure
from sglrun.interpreter.observer import Observed, Observer
from sglrun.lang import ir
from sglrun.lang.expressions import assistant, gen, select, user
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

WAIT_S = 10.0
BOOM = BadRequestError("boom")


def executor(backend: MockBackend, **settings: Any) -> StreamExecutor:
    return StreamExecutor(
        Settings(backend=backend, sampling=SamplingParams(), **settings), Prompt()
    )


class Gate:
    """Answers that wait until they are let go, in order of arrival."""

    def __init__(self, *answers: Answer) -> None:
        self.asked = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self._answers = iter(answers)

    def answer(self, _: Request) -> Answer:
        """Wait, then give the next answer."""
        self.asked.release()
        assert self.go.acquire(timeout=WAIT_S)
        return next(self._answers)


def in_thread(call: Any) -> Any:
    """Return what *call* gives or raises in another thread, within a time."""
    got: list[Any] = []

    def run() -> None:
        try:
            got.append(call())
        except BaseException as exc:  # noqa: BLE001 - told to the test
            got.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert got, "it waits without an end"
    return got[0]


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "sglrun-program"]


def test_expressions_are_executed_in_order() -> None:
    """Each generation sees all that was added before it, and nothing after."""
    backend = MockBackend(["1", "2"])
    program = executor(backend)
    program.submit("a" + gen("x") + "b" + gen("y"))
    program.submit(ir.Text("c"))
    program.sync()

    assert [r.prompt.text for r in backend.requests] == ["a", "a1b"]
    assert program.evaluator.prompt.text == "a1b2c"


def test_adding_does_not_wait() -> None:
    """Everything can be added while the first generation is still awaited."""
    gate = Gate("1", "2")
    program = executor(MockBackend(gate.answer))
    program.submit("a" + gen("x") + "b" + gen("y") + "c")
    assert gate.asked.acquire(timeout=WAIT_S)
    early = program.has("x")
    gate.go.release(2)

    assert not early
    assert (program.read("x"), program.read("y")) == ("1", "2")


def test_a_read_waits_for_the_newest_value() -> None:
    """A name that is used twice gives what was asked for last."""
    gate = Gate("1", "2")
    program = executor(MockBackend(gate.answer))
    program.submit("a" + gen("v"))
    program.submit("b" + gen("v"))
    gate.go.release(2)

    assert program.read("v") == "2"


def test_without_threads_a_generation_runs_where_it_is_added() -> None:
    """Inline, the thread that adds a generation asks the backend."""
    seen: list[threading.Thread] = []

    def answer(_: Request) -> str:
        seen.append(threading.current_thread())
        return "1"

    executor(MockBackend(answer), inline=True).submit(gen("x"))

    assert seen == [threading.current_thread()]


def test_text_alone_needs_no_thread() -> None:
    """What no model is needed for is there at once."""
    program = executor(MockBackend())
    before = threading.active_count()
    program.submit(user("a"))

    assert program.evaluator.prompt.text == "USER:a\n"
    assert threading.active_count() == before


def test_a_thread_ends_when_nothing_is_left() -> None:
    """A program that waits for nothing holds no thread, and goes on later."""
    program = executor(MockBackend(["1", "2"]))
    program.submit(gen("x"))
    program.sync()
    for thread in threads():
        thread.join(WAIT_S)
    left = threads()
    program.submit(gen("y"))

    assert left == []
    assert program.read("y") == "2"


def test_context_variables_reach_the_worker() -> None:
    """A backend sees the context variables of who added the generation."""
    variable: ContextVar[str] = ContextVar("variable")
    program = executor(MockBackend(lambda _: variable.get("")))
    token = variable.set("seen")
    program.submit(gen("x"))
    variable.reset(token)

    assert program.read("x") == "seen"


@pytest.mark.parametrize("inline", [False, True])
def test_the_first_cause_reaches_every_reader(inline: bool) -> None:  # noqa: FBT001
    """After a failure every add, read, wait and fork raises the first cause."""
    program = executor(MockBackend(["1", BOOM, ValueError("later")]), inline=inline)
    added = in_thread(lambda: program.submit(gen("a") + gen("b") + gen("c")))
    program.wait()
    calls = [
        lambda: program.read("b"),
        lambda: program.read("c"),
        lambda: program.read("never"),
        program.sync,
        lambda: program.fork(2),
        lambda: program.submit(ir.Text("x")),
        lambda: program.submit(gen("a")),
        lambda: program.submit(ir.VarScopeBegin("v")),
        lambda: program.write("k", 1),
    ]

    assert [in_thread(call) for call in calls] == [BOOM] * len(calls)
    assert added is (BOOM if inline else None)
    assert program.read("a") == "1"


def test_a_failure_knows_its_variable_and_line() -> None:
    """The failure names what was generated and the line that asked for it."""
    program = executor(MockBackend([BOOM]))
    program.submit(gen("x"), "prog.py:7")
    program.wait()

    assert program.failure == Failure(cause=BOOM, variable="x", where="prog.py:7")


def test_no_thread_left_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system gives no thread, the program fails and nobody waits."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    program = executor(MockBackend("x"))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        program.submit("a" + gen("x"))
    monkeypatch.undo()

    for call in (lambda: program.read("x"), program.sync):
        assert isinstance(in_thread(call), RuntimeError)


def test_an_authors_failure_ends_what_waits() -> None:
    """What was added but not begun is not sent after the program has failed."""
    gate = Gate("1", "2")
    backend = MockBackend(gate.answer)
    program = executor(backend)
    program.submit(gen("x") + gen("y"))
    assert gate.asked.acquire(timeout=WAIT_S)
    cause = LookupError("mine")
    program.fail(Failure(cause=cause, in_body=True))
    gate.go.release(2)

    assert in_thread(lambda: program.read("y")) is cause
    assert len(backend.requests) == 1


def test_the_first_of_two_failures_counts() -> None:
    """A generation that fails after its program has, tells the program's cause."""
    gate = Gate(BOOM)
    program = executor(MockBackend(gate.answer))
    program.submit(gen("x"))
    cause = LookupError("mine")
    program.fail(Failure(cause=cause))
    gate.go.release()

    assert in_thread(lambda: program.read("x")) is cause
    program.wait()
    assert program.failure is not None
    assert program.failure.cause is cause


def test_roles_are_checked_at_their_line() -> None:
    """A role that does not fit raises where it is added, and nothing of it is added."""
    program = executor(MockBackend("1"))
    for wrong in (user("a" + assistant("b")), ir.RoleEnd("user")):
        with pytest.raises(ProgramError):
            program.submit(wrong)

    program.submit(user("fine"))
    program.sync()

    assert program.evaluator.prompt.text == "USER:fine\n"


def test_an_unknown_variable_lists_the_known() -> None:
    """Reading what nothing assigns says what there is."""
    program = executor(MockBackend("1"))
    program.submit(gen("a"))

    with pytest.raises(KeyError, match=r"no variable 'b' \(variables: 'a'\)"):
        program.read("b")
    with pytest.raises(KeyError, match="none yet"):
        executor(MockBackend()).read("b")


def test_a_scope_is_the_text_inside() -> None:
    """A scope's variable is what was said between its ends."""
    program = executor(MockBackend("1"))
    begin, end = ir.VarScopeBegin("v"), ir.VarScopeEnd("v")
    program.submit("a" + begin + "b" + gen("x") + end + "c")

    assert program.read("v") == "b1"


def test_a_scope_cannot_be_read_inside_itself() -> None:
    """Inside a scope, and in a branch from inside it, reading it is an error."""
    program = executor(MockBackend("1"))
    program.submit(ir.VarScopeBegin("v"))
    (branch,) = program.fork(1)
    inside = [in_thread(partial(each.read, "v")) for each in (program, branch)]
    program.submit("b" + ir.VarScopeEnd("v"))

    assert [type(error) for error in inside] == [ScopeError] * 2
    assert program.read("v") == "b"


def test_a_scope_cannot_be_opened_twice() -> None:
    """A second scope of the name is refused while the first is open."""
    program = executor(MockBackend())
    program.submit(ir.VarScopeBegin("v"))
    with pytest.raises(ScopeError, match="'v' is open already"):
        program.submit(ir.VarScopeBegin("v"))

    program.submit("a" + ir.VarScopeEnd("v"))

    assert program.read("v") == "a"


def test_a_failure_inside_a_scope_is_its_cause() -> None:
    """A scope that a failure interrupts has the failure's cause, not one of its own."""
    program = executor(MockBackend([BOOM]))
    program.submit(ir.VarScopeBegin("v"))
    reading = threading.Thread(target=lambda: in_thread(lambda: program.read("v")))
    program.submit(gen("x"))
    program.wait()
    reading.start()
    reading.join(WAIT_S)

    assert not reading.is_alive()
    assert in_thread(lambda: program.read("v")) is BOOM


def test_a_write_keeps_its_place() -> None:
    """A value written after a pending generation of the same name stays."""
    gate = Gate("generated")
    program = executor(MockBackend(gate.answer))
    program.submit(gen("a"))
    program.write("a", "written")
    read_at_once = program.read("a")
    gate.go.release()
    program.sync()

    assert read_at_once == program.read("a") == "written"
    assert program.evaluator.values["a"] == "written"


def test_a_generation_overwrites_an_earlier_write() -> None:
    """A generation that was added after a write gives the variable its value."""
    program = executor(MockBackend("generated"))
    program.write("a", "written")
    program.submit(gen("a"))

    assert program.read("a") == "generated"


def test_a_fork_goes_on_from_here() -> None:
    """Branches begin with the text and variables so far, and keep theirs apart."""
    backend = MockBackend(lambda request: request.prompt.text[-1])
    program = executor(backend)
    program.submit("a" + gen("x"))
    one, two = program.fork(2)
    one.submit("1" + gen("y"))
    two.submit("2" + gen("y"))

    assert (one.read("y"), two.read("y")) == ("1", "2")
    assert one.read("x") == two.read("x") == "a"
    assert program.evaluator.prompt.text == "aa"
    assert "y" not in program.evaluator.values


def test_branches_ask_at_the_same_time() -> None:
    """Branches of an inline program, too, do not wait for each other."""
    meeting = threading.Barrier(3, timeout=WAIT_S)

    def answer(_: Request) -> str:
        meeting.wait()
        return "met"

    program = executor(MockBackend(answer), inline=True)
    branches = program.fork(3)
    for branch in branches:
        branch.submit(gen("x"))

    assert [branch.read("x") for branch in branches] == ["met"] * 3


def test_inline_forks_need_no_thread() -> None:
    """Where forks are inline too, everything happens in one thread."""
    program = executor(MockBackend("1"), inline=True, inline_forks=True)
    before = threading.active_count()
    for branch in program.fork(3):
        branch.submit(gen("x"))

    assert threading.active_count() == before


def test_finish_waits_for_branches() -> None:
    """A program has ended when its branches and theirs have."""
    gate = Gate("1")
    program = executor(MockBackend(gate.answer))
    (branch,) = program.fork(1)
    (leaf,) = branch.fork(1)
    leaf.submit(gen("x"))
    finishing = threading.Thread(target=program.finish)
    finishing.start()
    waited = finishing.is_alive()
    gate.go.release()
    finishing.join(WAIT_S)

    assert waited
    assert not finishing.is_alive()
    assert leaf.has("x")


class Watch(Observer):
    """An observer that notes what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, str | None]] = []

    def executing(
        self, executor: Observed, piece: ir.Piece, where: str | None
    ) -> ir.Piece:
        """Note the piece and its line."""
        self.seen.append((piece, where))
        return super().executing(executor, piece, where)

    def forked(self, executor: Observed, children: Iterable[Observed]) -> None:
        """Note the fork."""
        super().forked(executor, children)
        self.seen.append(("fork", None))


def test_an_observer_sees_every_piece_with_its_line() -> None:
    """The observer is told of pieces in order, before they are executed."""
    watch = Watch()
    program = executor(MockBackend(scores={"x": -1.0}), observer=watch)
    choice = select("c", ["x"])
    program.submit("a" + choice, "prog.py:1")
    (branch,) = program.fork(1)
    branch.submit(ir.Text("b"), "prog.py:2")

    assert watch.seen == [
        (ir.Text("a"), "prog.py:1"),
        (choice, "prog.py:1"),
        ("fork", None),
        (ir.Text("b"), "prog.py:2"),
    ]


def test_many_threads_may_add() -> None:
    """Pieces that many threads add are all executed, each whole."""
    program = executor(MockBackend("1"))
    adding = [
        threading.Thread(target=lambda at=at: program.submit(ir.Text(f"<{at}>")))
        for at in range(20)
    ]
    for thread in adding:
        thread.start()
    for thread in adding:
        thread.join(WAIT_S)
    program.sync()
    text = program.evaluator.prompt.text

    assert sorted(text.replace("><", "> <").split()) == sorted(
        f"<{at}>" for at in range(20)
    )
