"""Running programs: once, streamed, nested, and many at the same time."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.base import Request, Usage
from sglrun.backends.mock import MockBackend
from sglrun.errors import BadRequestError, ProgramError
from sglrun.interpreter.fan_out import FanOut
from sglrun.interpreter.function import Function
from sglrun.interpreter.global_config import GlobalConfig, global_config
from sglrun.interpreter.run import run_program, run_program_batch
from sglrun.lang.prompt import Prompt

WAIT_S = 10.0
BOOM = BadRequestError("boom")


@sgl.function
def ask(s: sgl.ProgramState, q: str) -> None:
    """Ask one question."""
    s += f"Q: {q}\nA:" + sgl.gen("a", stop="\n")


@sgl.function
def read(s: sgl.ProgramState, q: str) -> str:
    """Ask, then read what came."""
    s += f"Q: {q}\nA:" + sgl.gen("a")
    return str(s["a"]).upper()


def booming(request: Request) -> str:
    """Refuse a prompt that contains ``boom``."""
    if "boom" in request.prompt.text:
        raise BOOM
    return " OUT"


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Iterator[GlobalConfig]:
    """The process's configuration, restored at the end."""
    for name in ("default_backend", "enable_precache_with_tracing"):
        monkeypatch.setattr(global_config, name, getattr(global_config, name))
    yield global_config  # noqa: PT022 - named for who uses it


def test_run_returns_while_the_generation_goes_on() -> None:
    """A run is back as soon as its body has ended; reading waits."""
    go = threading.Event()
    state = ask.run(
        "hi", backend=MockBackend(lambda _: " OUT" if go.wait(WAIT_S) else "")
    )
    early = "a" in state
    go.set()

    assert not early
    assert state["a"] == " OUT"


def test_calling_a_program_runs_it() -> None:
    """A program is called like a function."""
    assert ask("hi", backend=MockBackend(" OUT"))["a"] == " OUT"


def test_sampling_is_of_the_run_then_of_the_generation() -> None:
    """The run's parameters hold where a generation sets none."""
    backend = MockBackend()
    ask.run("hi", backend=backend, max_new_tokens=9, stop=["x"]).sync()
    sampling = backend.requests[0].sampling

    assert (sampling.max_new_tokens, sampling.stop) == (9, ("\n",))


def test_a_run_needs_a_backend(config: GlobalConfig) -> None:
    """Without one, and without a default, a run says how to give it."""
    config.default_backend = None
    with pytest.raises(ProgramError, match=r"pass backend=.*set_default_backend"):
        ask.run("hi")

    sgl.set_default_backend(MockBackend(" OUT"))

    assert ask.run("hi")["a"] == " OUT"


def test_a_failed_generation_is_told_by_the_state() -> None:
    """With threads a run returns, and the state tells what the backend raised."""
    state = ask.run("boom", backend=MockBackend(booming))

    assert state.error() is BOOM


def test_without_threads_a_failed_generation_raises() -> None:
    """Inline, a run raises what the backend raised."""
    with pytest.raises(BadRequestError) as caught:
        ask.run("boom", backend=MockBackend(booming), use_thread=False)

    assert caught.value is BOOM


def test_what_the_author_raises_is_raised_and_kept() -> None:
    """An exception of the body is raised by the run, and its line is known."""

    @sgl.function
    def wrong(s: sgl.ProgramState) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        wrong.run(backend=MockBackend())

    state = run_program(wrong, {}, backend=MockBackend())
    assert state.failure is not None
    assert state.failure.in_body
    assert str(state.failure.where).startswith("test_run.py:")


class Abort(BaseException):
    """Not an ``Exception``."""


@pytest.mark.parametrize("raised", [SystemExit(3), Abort(), GeneratorExit()])
def test_nothing_that_a_body_raises_escapes(raised: BaseException) -> None:
    """Whatever the author's code raises is the row's failure."""

    @sgl.function
    def wrong(s: sgl.ProgramState) -> None:
        raise raised

    state = run_program(wrong, {}, backend=MockBackend(), inline=True)

    assert state.error() is raised


def test_the_users_interrupt_goes_on() -> None:
    """Ctrl-C in a body ends the program and is not swallowed."""

    @sgl.function
    def interrupted(s: sgl.ProgramState) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_program(interrupted, {}, backend=MockBackend())


def test_the_first_cause_is_not_the_readers() -> None:
    """A body that reads a failed variable leaves the backend's error as the cause."""
    state = run_program(read, {"q": "boom"}, backend=MockBackend(booming))

    assert state.failure is not None
    assert (state.failure.cause, state.failure.variable) == (BOOM, "a")


@pytest.mark.parametrize("wrong", ["hi", 5, b"hi", None])
def test_arguments_are_a_mapping_or_a_list(wrong: Any) -> None:
    """Other arguments are a failure that shows them."""
    state = run_program(ask, wrong, backend=MockBackend())

    assert isinstance(state.error(), ProgramError)
    assert repr(wrong) in str(state.error())


def test_a_role_left_open_is_said() -> None:
    """A program that ends inside a turn says so; the turn is among its messages."""

    @sgl.function
    def dangling(s: sgl.ProgramState) -> None:
        s += sgl.user_begin() + "half"

    with pytest.warns(UserWarning, match="'dangling' ends inside 'user'"):
        state = dangling.run(backend=MockBackend())

    assert state.messages() == [{"role": "user", "content": "half"}]


def streamed(program: Function, *args: Any, **options: Any) -> sgl.ProgramState:
    backend = MockBackend(**options)
    return program.run(*args, backend=backend, stream=True)


def test_a_streamed_text_is_the_text() -> None:
    """The pieces of the text, joined, are the text, prompt and all, twice."""
    state = streamed(ask, "hi", answers=" alpha beta gamma")
    first, second = ("".join(state.text_iter()) for _ in range(2))

    assert first == second == state.text() == "Q: hi\nA: alpha beta gamma"


def test_a_streamed_state_waits_for_the_body() -> None:
    """Reading a streamed program waits for what its body has not come to yet."""
    go = threading.Event()

    @sgl.function
    def late(s: sgl.ProgramState) -> str:
        assert go.wait(WAIT_S)
        s += sgl.user("hi")
        s += sgl.assistant(sgl.gen("a"))
        return str(s["a"]) + s.text()

    calls: list[Callable[[sgl.ProgramState], object]] = [
        lambda state: state["a"],
        lambda state: state.get_var("a"),
        lambda state: state.get_meta_info("a")["completion_tokens"],
        lambda state: state.text(),
        lambda state: state.messages()[1]["content"],
        repr,
        lambda state: state.error(),
        lambda state: state.sync(),
        lambda state: state.variables(),
        lambda state: state.finish_reasons(),
    ]
    state = streamed(late, answers=" OUT")
    with ThreadPoolExecutor(len(calls)) as pool:
        waiting = [pool.submit(call, state) for call in calls]
        early = [future.done() for future in waiting]
        go.set()
        got = [future.result(WAIT_S) for future in waiting]

    text = "USER:hi\nASSISTANT: OUT"
    assert not any(early)
    assert got == [
        " OUT",
        " OUT",
        1,
        f"{text}\n",
        "OUT",
        f"ProgramState({text}\n)",
        None,
        None,
        {"a": " OUT"},
        {"a": "stop"},
    ]
    assert state.ret_value == f" OUT{text}\n"
    with pytest.raises(KeyError, match="never"):
        state["never"]


def test_a_streamed_variable_is_its_value() -> None:
    """A variable's pieces are only what was generated, several of them."""
    state = streamed(ask, "hi", answers=" alpha beta gamma")

    assert "".join(state.text_iter("a")) == state["a"] == " alpha beta gamma"


def test_a_name_used_twice_is_streamed_anew() -> None:
    """Who iterates over a name after its second use gets the second value."""
    added, go = threading.Event(), threading.Event()
    answers = iter(["one", "two"])

    def answer(_: Request) -> str:
        assert go.wait(WAIT_S)
        return next(answers)

    @sgl.function
    def twice(s: sgl.ProgramState) -> None:
        s += sgl.gen("v") + " " + sgl.gen("v")
        added.set()

    state = streamed(twice, answers=answer)
    assert added.wait(WAIT_S)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.extend(state.text_iter("v")))
    reader.start()
    go.set()
    reader.join(WAIT_S)

    assert "".join(got) == state["v"] == "two"


def test_a_branch_streams_what_it_inherits() -> None:
    """A branch's iterators give the values from before the fork, then its own."""

    @sgl.function
    def forks(s: sgl.ProgramState) -> list[str]:
        s += sgl.gen("v")
        (branch,) = s.fork()
        inherited = "".join(branch.text_iter("v"))
        branch += sgl.gen("v")
        return [inherited, "".join(branch.text_iter("v"))]

    state = streamed(forks, answers=["one", "two"])
    "".join(state.text_iter())

    assert state.ret_value == ["one", "two"]


def test_a_typed_variable_is_streamed_as_text() -> None:
    """A variable whose value is no text is streamed as it was written."""

    @sgl.function
    def typed(s: sgl.ProgramState) -> None:
        s += sgl.gen("a", json_schema={}, typed=True)

    state = streamed(typed, answers='{"a":1}')

    assert "".join(state.text_iter("a")) == '{"a":1}'
    assert state["a"] == {"a": 1}


def test_every_kind_of_variable_can_be_streamed() -> None:
    """Selects, scopes and written values are read like generations."""

    @sgl.function
    def kinds(s: sgl.ProgramState) -> None:
        with s.var_scope("v"):
            s += "x" + sgl.select("c", ["yes", "no"])
        s["w"] = "written"

    state = streamed(kinds, scores={"yes": -1.0, "no": -2.0})
    texts = ["".join(state.text_iter(name)) for name in ("v", "c", "w")]

    assert texts == ["xyes", "yes", "written"]


def test_streams_raise_after_what_came() -> None:
    """A failure is raised to who iterates, after the text before it."""
    state = streamed(ask, "boom", answers=booming)
    seen: list[str] = []
    with pytest.raises(BadRequestError) as caught:
        seen.extend(noted(state.text_iter(), seen))

    assert caught.value is BOOM
    assert seen == ["Q: boom\nA:"]


def noted(pieces: Iterator[str], seen: list[str]) -> list[str]:
    for piece in pieces:
        seen.append(piece)  # noqa: PERF402 - what came before an exception counts
    return []


def test_an_authors_error_ends_the_stream() -> None:
    """An exception of the body is raised to who iterates."""

    @sgl.function
    def wrong(s: sgl.ProgramState) -> None:
        s += "a"
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        list(streamed(wrong).text_iter())


@pytest.mark.parametrize("late", [False, True])
def test_a_name_that_never_comes_ends(late: bool) -> None:  # noqa: FBT001 - a case
    """Iterating over a name that nothing assigns raises, also after the end."""
    state = streamed(ask, "hi", answers=" OUT")
    if late:
        list(state.text_iter())

    with pytest.raises(KeyError, match="never"):
        list(state.text_iter("never"))


def test_without_a_stream_the_text_is_one_piece() -> None:
    """A run that is not streamed is iterated over once it is there."""
    state = ask.run("hi", backend=MockBackend(" OUT"))

    assert list(state.text_iter()) == ["Q: hi\nA: OUT"]
    assert list(state.text_iter("a")) == [" OUT"]


@pytest.mark.parametrize("stream", [False, True])
def test_meta_info_comes_with_the_text(stream: bool) -> None:  # noqa: FBT001 - a case
    """Asked for, each piece is a pair, and the last one has all meta info."""
    backend = MockBackend(" alpha beta")
    state = ask.run("hi", backend=backend, stream=stream)

    async def pairs() -> list[tuple[str, Mapping[str, Any]]]:
        return [p async for p in state.text_async_iter("a", return_meta_data=True)]

    got = asyncio.run(pairs())

    assert "".join(text for text, _ in got) == " alpha beta"
    assert got[-1][1]["completion_tokens"] == 2


def test_plain_async_iteration() -> None:
    """Without meta info the pieces are texts."""
    state = streamed(ask, "hi", answers=" alpha beta")

    async def pieces() -> list[str]:
        return [piece async for piece in state.text_async_iter()]

    assert "".join(asyncio.run(pieces())) == "Q: hi\nA: alpha beta"


def test_context_variables_reach_a_streamed_body() -> None:
    """A body in its own thread sees the caller's context variables."""
    variable: ContextVar[str] = ContextVar("variable")

    @sgl.function
    def looks(s: sgl.ProgramState) -> None:
        s += variable.get("")

    token = variable.set("seen")
    state = streamed(looks)
    variable.reset(token)

    assert "".join(state.text_iter()) == "seen"


@sgl.function
def outer(s: sgl.ProgramState) -> None:
    """Use what another program answers."""
    s += "Outer" + ask("inner")["a"] + sgl.gen("b")


@pytest.mark.parametrize("inline", [False, True])
def test_a_program_inside_a_program_runs_on_its_backend(
    config: GlobalConfig,
    inline: bool,  # noqa: FBT001 - a case
) -> None:
    """A program that another one calls is run first, on the backend of that one."""
    config.default_backend = MockBackend([])
    backend = MockBackend([" first", " second"])
    state = run_program(outer, {}, backend=backend, inline=inline)

    assert state.text() == "Outer first second"
    assert [r.prompt.text for r in backend.requests] == [
        "Q: inner\nA:",
        "Outer first",
    ]


def test_a_program_inside_a_program_has_its_runs_parameters() -> None:
    """What the run sets holds there too, under what the inner call sets."""

    @sgl.function
    def outer(s: sgl.ProgramState) -> None:
        s += ask("plain")["a"] + ask.run("own", temperature=0.5)["a"]
        for state in ask.run_batch([{"q": "batch"}], num_threads=1):
            s += state["a"]

    backend = MockBackend(lambda _: "x")
    outer.run(backend=backend, temperature=0, max_new_tokens=9).sync()
    drawn = [
        (r.sampling.temperature, r.sampling.max_new_tokens) for r in backend.requests
    ]

    assert drawn == [(0, 9), (0.5, 9), (0, 9)]


def test_a_batch_gives_every_row_its_state() -> None:
    """Rows by name and by position are run; each state comes with its number."""
    rows: list[Any] = [{"q": "0"}, ("1",), ["2"], {"q": "boom"}, ("x", "extra"), {}]
    states = dict(run_program_batch(ask, MockBackend(booming), rows))

    assert sorted(states) == list(range(6))
    assert [states[at].text() for at in range(3)] == [
        f"Q: {at}\nA: OUT" for at in range(3)
    ]
    assert states[3].error() is BOOM
    assert "2 arguments given" in str(states[4].error())
    assert "missing argument 'q'" in str(states[5].error())


def test_a_batch_of_a_program_is_in_order() -> None:
    """``run_batch`` gives states in the order of its rows, whoever is first."""
    arrived = threading.Event()

    def answer(request: Request) -> str:
        if "Q: 0" in request.prompt.text:
            assert arrived.wait(WAIT_S)
        arrived.set()
        return " OUT"

    backend = MockBackend(answer)
    states = ask.run_batch([{"q": str(at)} for at in range(5)], backend=backend)

    assert [state.text()[3] for state in states] == list("01234")


def test_a_batch_goes_on_after_an_authors_error() -> None:
    """A row whose code raises is a state with that error; the others are there."""

    @sgl.function
    def picky(s: sgl.ProgramState, q: str) -> None:
        s += {"a": "A", "b": "B"}[q]

    states = list(
        picky.run_batch([{"q": "a"}, {"q": "x"}, {"q": "b"}], backend=MockBackend())
    )

    assert [type(state.error()) for state in states] == [
        type(None),
        KeyError,
        type(None),
    ]


@pytest.mark.parametrize("wrong", [iter([{"q": "a"}]), {"q": "a"}, "a"])
def test_a_batch_is_a_list(wrong: Any) -> None:
    """Anything but a list or tuple of rows is refused."""
    with pytest.raises(TypeError, match="a batch is a list of arguments"):
        ask.run_batch(wrong, backend=MockBackend())


def test_an_empty_batch_is_empty() -> None:
    """No rows give no states, in either style."""
    backend = MockBackend()

    assert ask.run_batch([], backend=backend) == []
    assert list(ask.run_batch([], backend=backend, generator_style=True)) == []


def test_the_shared_prefix_is_sent_once() -> None:
    """A prefix that is worth it is sent before the rows, a short one is not."""
    long = "Every row begins with this sentence, which is long enough to be sent."

    @sgl.function
    def prefixed(s: sgl.ProgramState, start: str, q: str) -> None:
        s += start + q + sgl.gen("a")

    rows = [{"q": "1"}, {"q": "2"}]
    sent = []
    for start in (long, long[:64]):
        backend = MockBackend("x")
        prefixed.bind(start=start).run_batch(rows, backend=backend)
        sent.append(backend.prefixes)

    assert sent == [[long], []]


def test_one_row_alone_has_no_shared_prefix(config: GlobalConfig) -> None:
    """A batch of one, or one without precaching, sends only its rows."""
    one, without = MockBackend("x"), MockBackend("x")
    shared = ask.bind(q="x" * 100)
    shared.run_batch([{}], backend=one)
    config.enable_precache_with_tracing = False
    shared.run_batch([{}, {}], backend=without)

    assert (one.prefixes, without.prefixes) == ([], [])


class Refusing(MockBackend):
    """Refuses to keep a prefix."""

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Refuse."""
        del only_scored
        raise BadRequestError(f"no room for {prompt.text[:1]!r}")


def test_a_prefix_that_is_refused_stops_nothing() -> None:
    """Rows run though the backend would not keep their prefix; a warning says so."""
    with pytest.warns(UserWarning, match="the shared prefix is not cached: no room"):
        states = ask.bind(q="x" * 100).run_batch([{}, {}], backend=Refusing(" OUT"))

    assert [state["a"] for state in states] == [" OUT", " OUT"]


def test_a_closed_generator_runs_no_more_rows() -> None:
    """Who leaves a batch early cancels what has not started."""
    backend = MockBackend(" OUT")
    states = iter(
        ask.run_batch(
            [{"q": str(at)} for at in range(1000)],
            backend=backend,
            num_threads=2,
            generator_style=True,
        )
    )
    next(states)
    states.close()

    assert len(backend.requests) < 1000


@sgl.function
def talk(s: sgl.ProgramState, q: str) -> None:
    """Ask again and again."""
    s += q
    for _ in range(20):
        s += sgl.gen("a")


class Held(MockBackend):
    """Answers the first request at once and the others when they are let go."""

    def __init__(self) -> None:
        """Hold three threads back."""
        super().__init__(self._answer)
        self.asked = threading.Semaphore(0)
        self.go = threading.Event()

    def _answer(self, request: Request) -> str:
        if request.prompt.text.startswith("free"):
            return "x"
        self.asked.release()
        assert self.go.wait(WAIT_S)
        return "x"

    def wait_for(self, number: int) -> None:
        """Wait until so many requests are in flight."""
        for _ in range(number):
            assert self.asked.acquire(timeout=WAIT_S)


def joined_rows() -> None:
    """Wait for the threads of rows to end."""
    for thread in threading.enumerate():
        if thread.name.startswith("sglrun-row"):
            thread.join(WAIT_S)
            assert not thread.is_alive()


def test_a_batch_that_is_left_asks_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows whose state nobody gets end with the request that is in flight."""
    backend = Held()
    rows = run_program_batch(
        talk, backend, [{"q": q} for q in ("free", "1", "2", "3")], num_threads=4
    )
    _, state = next(rows)
    backend.wait_for(3)
    stop = FanOut.stop

    def stop_and_go(fan_out: FanOut[Any, Any]) -> None:
        stop(fan_out)
        backend.go.set()

    monkeypatch.setattr(FanOut, "stop", stop_and_go)
    rows.close()
    asked = [r.prompt.text for r in backend.requests if r.prompt.text[0] != "f"]

    assert sorted(asked) == ["1", "2", "3"]
    state += sgl.gen("more")  # who has a state goes on with it
    assert state["more"] == "x"


def test_an_interrupted_batch_asks_nothing_more() -> None:
    """Ctrl-C waits for nothing; what is in flight ends, and its rows with it."""
    backend = Held()

    def interrupt() -> None:
        backend.wait_for(3)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        talk.run_batch([{"q": q} for q in "123456"], backend=backend, num_threads=3)
    backend.go.set()
    joined_rows()

    assert len(backend.requests) == 3


@pytest.mark.parametrize("wrong", [0, -1, "4", 2.0])
def test_the_number_of_threads_is_checked_at_the_call(wrong: Any) -> None:
    """A number of threads that cannot be is refused, before anything is read."""
    backend = MockBackend(" OUT")
    for call in (
        lambda: run_program_batch(ask, backend, [["hi"]], num_threads=wrong),
        lambda: ask.run_batch(
            [["hi"]], backend=backend, num_threads=wrong, generator_style=True
        ),
    ):
        with pytest.raises(ValueError, match=f"at least 1, or 'auto', not {wrong!r}"):
            call()

    assert backend.requests == []
