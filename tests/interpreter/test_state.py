"""The program state: what an author does with ``s``."""

import threading
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.base import Request
from sglrun.backends.mock import MockBackend
from sglrun.errors import BadRequestError, ForkError, ProgramError, ScopeError
from sglrun.interpreter.executor import Settings, StreamExecutor
from sglrun.interpreter.run import run_program
from sglrun.interpreter.state import ProgramState
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

WAIT_S = 10.0
BOOM = BadRequestError("boom")


def new(backend: MockBackend | None = None, **settings: Any) -> ProgramState:
    backend = backend or MockBackend(" OUT")
    prompt = Prompt(template=backend.chat_template)
    return ProgramState(
        StreamExecutor(
            Settings(backend=backend, sampling=SamplingParams(), **settings), prompt
        )
    )


def booming(request: Request) -> str:
    """Refuse a prompt that contains ``boom``."""
    if "boom" in request.prompt.text:
        raise BOOM
    return " OUT"


def test_text_and_variables() -> None:
    """What is added becomes text, what is generated also variables."""
    s = new()
    s += "Q: hi\nA:" + sgl.gen("a")

    assert s.text() == "Q: hi\nA: OUT"
    assert s["a"] == s.get_var("a") == " OUT"
    assert s.variables() == {"a": " OUT"}
    assert s.finish_reasons() == {"a": "stop"}
    assert repr(s) == "ProgramState(Q: hi\nA: OUT)"
    assert s.error() is None


@pytest.mark.parametrize(("wrong", "error"), [(None, ValueError), (5, TypeError)])
def test_what_is_no_expression_raises_at_its_line(
    wrong: object, error: type[Exception]
) -> None:
    """``None`` and other objects are refused where they are added."""
    s = new()

    with pytest.raises(error):
        s += wrong


def test_variables_may_be_written() -> None:
    """A value that the author writes is read at once and has no meta info."""
    s = new()
    s["k"] = 5
    s.set_var("l", 6)
    s += str(s["k"])

    assert s.text() == "5"
    assert "k" in s
    assert "z" not in s
    assert (s.get_meta_info("k"), s["l"]) == (None, 6)


def test_meta_info_is_that_of_the_newest_value() -> None:
    """Meta info waits for the generation that was added last."""
    go = threading.Event()

    def answer(request: Request) -> str:
        if request.prompt.text.endswith("b"):
            assert go.wait(WAIT_S)
            return "one two"
        return "one"

    s = new(MockBackend(answer))
    s += "a" + sgl.gen("v")
    s.sync()
    s += "b" + sgl.gen("v")
    go.set()

    assert s.get_meta_info("v")["completion_tokens"] == 2


def test_a_turn_has_three_forms() -> None:
    """Module function, method and ``with`` say the same."""
    by_function, by_method, by_block, by_both = new(), new(), new(), new()
    by_function += sgl.user("x")
    by_method.user("x")
    with by_block.user():
        by_block += "x"
    by_both += by_both.user("x")

    texts = {s.text() for s in (by_function, by_method, by_block, by_both)}

    assert texts == {"USER:x\n"}


def test_messages_are_in_openais_shape() -> None:
    """Closed turns are messages; an open one is there as far as it goes."""
    s = new()
    s += sgl.system("S") + sgl.user()
    s += sgl.assistant_begin() + " x" + sgl.gen("a")

    assert s.messages() == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "x OUT"},
    ]


def test_an_exception_inside_a_turn_closes_it() -> None:
    """After an exception that the author catches, the next turn can begin."""
    s = new()
    with suppress(LookupError), s.user():
        s += "half"
        raise LookupError

    s += sgl.assistant(sgl.gen("a"))

    assert s.text() == "USER:half\nASSISTANT: OUT\n"


def test_an_exception_inside_a_scope_closes_it() -> None:
    """A scope that an exception leaves holds what was said until then."""
    s = new()
    with suppress(LookupError), s.var_scope("v"):
        s += "half"
        raise LookupError

    assert s["v"] == "half"


def test_a_scope_read_inside_is_an_error() -> None:
    """Reading a scope's variable inside it raises instead of waiting."""
    s = new()
    with s.var_scope("v"):
        s += "a"
        with pytest.raises(ScopeError, match="'v' is read inside"):
            s["v"]

    assert s["v"] == "a"


def test_the_cause_is_told_by_everything() -> None:
    """After a failure reading, waiting and adding raise the cause."""
    s = new(MockBackend(booming))
    s += "boom" + sgl.gen("a")
    calls: list[Any] = [
        lambda: s["a"],
        lambda: s["never"],
        lambda: s.get_meta_info("a"),
        s.text,
        s.messages,
        s.sync,
        s.fork,
        lambda: s.user("x"),
        lambda: s.__iadd__("x"),
        lambda: s.set_var("k", 1),
        lambda: list(s.text_iter()),
        lambda: list(s.text_iter("a")),
    ]

    assert s.error() is BOOM
    for call in calls:
        with pytest.raises(BadRequestError) as caught:
            call()
        assert caught.value is BOOM
    assert "boom" in repr(s)


def test_a_failure_is_laid_at_the_authors_line() -> None:
    """The failure's place is the line of this file that asked."""
    s = new(MockBackend(booming))
    with s.user():
        s += "boom" + sgl.gen("a")
    s.error()

    assert s.failure is not None
    assert s.failure.where is not None
    assert s.failure.where.startswith("test_state.py:")


def numbered(request: Request) -> str:
    """Answer with the last character of the prompt."""
    return request.prompt.text[-1]


def test_join_gathers_by_branch() -> None:
    """After the join each variable is the list of its values in order of branches."""
    s = new(MockBackend(numbered))
    s += "root"
    group = s.fork(3)
    group += lambda index: str(index) + sgl.gen("v")
    group.join()

    assert s["v"] == ["0", "1", "2"]
    assert s.text() == "root"


def test_a_second_round_gathers_again() -> None:
    """A name that the parent had, or an earlier round, is gathered anew."""
    s = new(MockBackend(numbered))
    s += "p" + sgl.gen("v")
    for letters in ("ab", "cd"):
        group = s.fork(2)
        group += [letter + sgl.gen("v") for letter in letters]
        group.join()

    assert s["v"] == ["c", "d"]
    assert s.variables()["v"] == ["c", "d"]


def test_a_variable_of_some_branches_has_holes() -> None:
    """A branch that did not assign a variable has ``None`` in its place."""
    s = new(MockBackend(numbered))
    group = s.fork(3)
    group[1] += "x" + sgl.gen("v")
    group.join()

    assert s["v"] == [None, "x", None]


def test_a_failed_branch_is_named() -> None:
    """The join raises which branch failed and why; what the others gave is kept."""
    s = new(MockBackend(booming))
    group = s.fork(2)
    group += ["boom" + sgl.gen("v"), "ok" + sgl.gen("v")]

    with pytest.raises(ForkError, match="branch 0 of a fork of 2 failed: boom") as e:
        group.join()

    assert (e.value.index, e.value.__cause__) == (0, BOOM)
    assert s.error() is e.value
    assert s.variables() == {"v": [None, " OUT"]}
    assert s.failure is not None
    assert s.failure.variable == "v"


def test_adding_to_a_failed_branch_names_it() -> None:
    """Adding to a group with a failed branch raises which one."""
    s = new(MockBackend(booming))
    group = s.fork(2)
    group += ["ok", "boom" + sgl.gen("v")]
    group[1].error()

    with pytest.raises(ForkError, match="branch 1 of a fork of 2") as caught:
        group += sgl.gen("w")

    assert caught.value.__cause__ is BOOM


def test_join_may_concatenate() -> None:
    """What the branches said is appended in their order."""
    s = new()
    s += "root"
    group = s.fork(2)
    group += lambda index: f" s{index}"
    group.join("concate_and_append")
    s += " end" + sgl.gen("a")

    assert s.text() == "root s0 s1 end OUT"


def test_join_brings_turns_and_images_that_the_branches_said() -> None:
    """A chat API is sent what the branches said as turns, images in their places."""
    seen = sgl.image("http://e.org/a.png")
    s = new()
    s += sgl.user("compare") + sgl.assistant_begin() + " pre"
    group = s.fork(2)
    group += lambda index: f" s{index}" + sgl.gen("v")
    group[1] += sgl.assistant_end() + sgl.user(seen + "and this")
    group.join("concate_and_append")
    s += sgl.assistant("ok")
    prompt = s.stream_executor.evaluator.prompt

    assert [message.as_openai() for message in prompt.messages[1:]] == [
        {"role": "assistant", "content": "pre s0 OUT s1 OUT"},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "http://e.org/a.png"}},
                {"type": "text", "text": "and this"},
            ],
        },
        {"role": "assistant", "content": "ok"},
    ]
    assert (prompt.loose_text, len(prompt.images)) == ("", 1)
    assert s.text() == (
        "USER:compare\nASSISTANT: pre s0 OUT s1 OUT\n"
        "USER:<image>and this\nASSISTANT:ok\n"
    )


def test_join_of_branches_that_forked_themselves() -> None:
    """What a branch joined from its own branches comes with it, once."""
    s = new()
    s += "root"
    group = s.fork(1)
    group += " a"
    inner = group[0].fork(2)
    inner += lambda index: f" {index}"
    inner.join("concate_and_append")
    group += " b"
    group.join("concate_and_append")

    assert s.text() == "root a 0 1 b"


def test_branches_that_end_the_same_turn_cannot_be_concatenated() -> None:
    """The join is refused at its line, and nothing of it is said."""
    s = new()
    s += sgl.assistant_begin() + "pre"
    group = s.fork(2)
    group += sgl.assistant_end()

    with pytest.raises(ProgramError, match="'assistant' ends but no role is open"):
        group.join("concate_and_append")

    assert s.text() == "ASSISTANT:pre"


def test_another_mode_is_refused() -> None:
    """A mode that does not exist is refused with those that do."""
    with pytest.raises(ValueError, match=r"'bogus'.*gather_variable or concate"):
        new().fork(2).join("bogus")


def test_a_group_takes_one_for_all_or_one_for_each() -> None:
    """Text and expressions go to every branch; lists must have one for each."""
    s = new()
    group = s.fork(2)
    group += "t"
    group += ["a", "b"]
    group += sgl.gen("x")
    with pytest.raises(ValueError, match="1 expressions for 2 branches"):
        group += ["only"]

    assert [branch.text() for branch in group] == ["ta OUT", "tb OUT"]
    assert len(group) == 2


def test_a_branch_is_added_to_but_not_replaced() -> None:
    """``group[i] += x`` works; another state in its place does not."""
    group = new().fork(2)
    group[0] += "a"

    assert group[0].text() == "a"
    with pytest.raises(TypeError, match="cannot be replaced"):
        group[0] = new()


def test_an_empty_fork_is_an_empty_group() -> None:
    """No branches join to nothing."""
    s = new()
    group = s.fork(0)
    group += "x"
    group.join()

    assert (len(group), s.variables()) == (0, {})


def test_a_branch_may_go_on_after_the_join() -> None:
    """A joined branch is still a state like any other."""
    s = new()
    group = s.fork(1)
    group.join()
    group[0] += "c" + sgl.gen("x")

    assert group[0].text() == "c OUT"


def test_a_branch_inherits_meta_info() -> None:
    """What was told about a variable before the fork is known in the branches."""
    s = new()
    s += sgl.gen("a")
    (branch,) = s.fork()

    assert branch.get_meta_info("a") == s.get_meta_info("a")


def test_a_branch_inside_a_turn_goes_on_in_it() -> None:
    """Each branch's message has what the turn held before the fork."""
    s = new()
    s += sgl.assistant_begin() + "pre"
    group = s.fork(2)
    group += lambda index: f" {index}" + sgl.gen("v") + sgl.assistant_end()

    assert [branch.messages()[0]["content"] for branch in group] == [
        "pre 0 OUT",
        "pre 1 OUT",
    ]


def test_a_copy_brings_plain_values_back() -> None:
    """Variables made in a copy are the state's, its text is not."""
    s = new()
    s += "a"
    with s.copy() as copied:
        copied.user("b" + sgl.gen("v"))

    assert (s["v"], s.text()) == (" OUT", "a")


def test_nested_turns_are_refused_at_their_line() -> None:
    """A role inside a role raises where it is added."""
    s = new()

    with pytest.raises(ProgramError, match="'assistant' begins inside 'user'"):
        s += sgl.user("x" + sgl.assistant("y"))


def test_variables_wait_for_what_was_added() -> None:
    """The variables of a state are complete, as its text is; after a failure, too."""
    go = threading.Event()
    s = new(MockBackend(lambda _: " OUT" if go.wait(WAIT_S) else ""))
    s += sgl.gen("a")
    with ThreadPoolExecutor(2) as pool:
        waiting: list[Future[Any]] = [
            pool.submit(s.variables),
            pool.submit(s.finish_reasons),
        ]
        early = wait(waiting, timeout=0.05).done
        go.set()
        got = [future.result(WAIT_S) for future in waiting]
    failed = new(MockBackend([" OUT", BOOM]))
    failed += sgl.gen("a") + sgl.gen("b")

    assert not early
    assert got == [{"a": " OUT"}, {"a": "stop"}]
    assert failed.variables() == {"a": " OUT"}


class Large:
    """What a reader has among its locals."""


def test_reading_a_failure_again_keeps_nothing_of_who_read() -> None:
    """The cause comes the same way each time, and keeps no earlier reader's locals."""
    s = new(MockBackend([BadRequestError("mine")]))
    s += sgl.gen("a")
    alive: list[weakref.ref[Large]] = []

    def reads(read: Callable[[], object]) -> None:
        large = Large()
        alive.append(weakref.ref(large))
        with suppress(BadRequestError):
            read()

    lengths = []
    calls: list[Callable[[], object]] = [lambda: s["a"], s.text]
    for call in calls:
        for _ in range(100):
            reads(call)
        cause = s.error()
        assert cause is not None
        lengths.append(len(list(traceback.walk_tb(cause.__traceback__))))

    assert max(lengths) < 20
    assert sum(each() is not None for each in alive) <= 1


def test_a_failure_that_a_body_read_keeps_the_authors_line() -> None:
    """Who reads it after the program sees the line of the program, too."""

    @sgl.function
    def reads(s: sgl.ProgramState) -> None:
        s += sgl.gen("a")
        s["a"]

    state = run_program(
        reads, {}, backend=MockBackend([BadRequestError("mine")]), inline=False
    )
    with suppress(BadRequestError):
        state.text()
    with pytest.raises(BadRequestError) as caught:
        state.text()

    assert "reads" in [entry.name for entry in caught.traceback]
