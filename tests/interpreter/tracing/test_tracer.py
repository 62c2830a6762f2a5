"""The tracer: what rows begin with, what ends it, and that it harms nothing."""

import base64
import dataclasses
import html
import json
import os
import random
import re
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sglrun as sgl
from sglrun.backends.base import Completion, OnText, Request, Selection, SelectRequest
from sglrun.backends.mock import MockBackend
from sglrun.interpreter.function import Function
from sglrun.interpreter.run import run_program
from sglrun.interpreter.tracing import tracer
from sglrun.interpreter.tracing.node_json import graph_json
from sglrun.interpreter.tracing.tracer import TracedPrefix, trace_prefix, trace_program
from sglrun.lang.chat_template import DEFAULT_TEMPLATE, get_chat_template
from sglrun.lang.prompt import Message
from tests.interpreter.made_up import load

SYS = "You answer in one word. "
WAIT_S = 10.0


class ListeningBackend(MockBackend):
    """A mock that keeps every prompt it is asked after, in order of arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[str] = []

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Keep the prompt, then answer."""
        self.prompts.append(request.prompt.text)
        return super().generate(request, on_text)

    def select(self, request: SelectRequest) -> Selection:
        """Keep the prompt, then choose."""
        self.prompts.append(request.prompt.text)
        return super().select(request)


def traced(body: Callable[..., object], **options: Any) -> TracedPrefix:
    program: Function = sgl.function(body)
    whole = trace_program(program, template=DEFAULT_TEMPLATE, **options).prefix
    prefix = trace_prefix(program, template=DEFAULT_TEMPLATE, **options)

    assert whole == prefix  # one trace says what the other says
    return prefix


def line_of(body: Callable[..., object], offset: int) -> str:
    return f"{Path(__file__).name}:{body.__code__.co_firstlineno + offset}"


def test_text_before_an_argument_is_the_prefix() -> None:
    """An argument ends the prefix at its line, and advice counts what follows it."""

    def body(s: Any, q: str) -> None:
        s += SYS
        s += "Q: " + q + " Be brief."
        s += sgl.gen("a")

    prefix = traced(body)

    assert prefix.prompt.text == f"{SYS}Q: "
    assert prefix.ended_by == "argument 'q'"
    assert prefix.where == line_of(body, 2)
    assert prefix.advice == (
        "no change is worth it: only 10 constant characters come after {q}"
    )


SPELLINGS: dict[str, Callable[[Any], str]] = {
    "f-string": lambda q: f"A {q} B",
    "conversion": lambda q: f"A {q!r} B",
    "format spec": lambda q: f"A {q:>40} B",
    "percent": lambda q: "A %s B" % q,  # noqa: UP031
    "percent with a width": lambda q: "A %-9s B" % q,  # noqa: UP031
    "format": "A {} B".format,
    "named format": lambda q: "A {q} B".format(q=q),  # noqa: UP032
    "replace": lambda q: "A <q> B".replace("<q>", q),
    "join": lambda q: "".join(["A ", q, " B"]),  # noqa: FLY002
    "sum": lambda q: "A " + q + " B",
    "method": lambda q: "A " + q.strip().upper() + " B",
    "part": lambda q: f"A {q[0]} B",
    "field": lambda q: f"A {q['name']} {q.get('x', 1)} B",
    "number": lambda q: f"A {q + 1} {2 * q} {q / 2} B",
    "json": lambda q: "A " + json.dumps(q) + " B",
    "json in letters": lambda q: "A " + json.dumps(q, ensure_ascii=False) + " B",
    "html": lambda q: "A " + html.escape(f"{q}") + " B",
    "ascii": lambda q: f"A {q!a} B",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_what_stands_before_an_argument_is_kept(spelling: str) -> None:
    """Whatever an author does to put an argument into text, the text before stays."""

    def body(s: Any, q: Any) -> None:
        s += SYS
        s += SPELLINGS[spelling](q)
        s += sgl.gen("a")

    prefix = traced(body)

    assert prefix.prompt.text == f"{SYS}A "
    assert prefix.ended_by == "argument 'q'"
    assert prefix.where == line_of(body, 2)


ENCODINGS: dict[str, Callable[[str], str]] = {
    "base64": lambda q: base64.b64encode(q.encode()).decode(),
    "base64 of JSON": lambda q: base64.b64encode(json.dumps([q]).encode()).decode(),
    "URL-safe base64": lambda q: base64.urlsafe_b64encode(f"x{q}".encode()).decode(),
    "hexadecimal": lambda q: f"{q}".encode().hex(),
    "a URL": lambda q: "http://x/?q=" + quote(f"{q}"),
    "characters of XML": lambda q: f"{q}".encode("ascii", "xmlcharrefreplace").decode(),
    "reversed": lambda q: f"{q}"[::-1],
    "cut behind": lambda q: f"x{q}"[:40],
    "wrapped": lambda q: textwrap.dedent(f"  A {q}\n  B"),
    "a pattern": lambda q: re.sub("x+", "y", f"x{q}"),
    "padded": lambda q: f"x{q}".ljust(200),
    "methods of text itself": str.upper,
    "names": lambda q: ", ".join(sorted([q, "b"], key=str.lower)),
    "JSON of JSON": lambda q: json.dumps(json.dumps({"q": q})),
    "upper case": lambda q: json.dumps(f"{q}").upper(),
    "cut": lambda q: f"{q}"[9:40],
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_encoding_of_an_argument_leaks(encoding: str) -> None:
    """Text that was made of an argument's text is not in the prefix."""

    def body(s: Any, q: str) -> None:
        s += SYS
        s += "Data " + ENCODINGS[encoding](q) + " end."
        s += sgl.gen("a")

    text = traced(body).prompt.text

    assert f"{SYS}Data http://x/?q=".startswith(text)
    assert text.startswith(SYS)


QUESTIONS = {
    "the truth of": "q",
    "the length of": "len(q) > 2",
    "iteration over": "next(iter(q))",
    "a search in": "'x' in q",
    "a comparison of": "q == 'x'",
    "a lookup by": "{'a': 1}[q]",
    "the number of": "int(q)",
    "a test of": "q.startswith('x')",
    "the parts of": "q.split(',')",
    "the type of": "isinstance(q, str)",
    "the identity of": "q is None",
    "a search by": "q in 'some text'",
    "'find' in constant text of": "'some text'.find(q)",
    "an attribute of": "hasattr(q, 'items')",
    "a match of": "matched",
}
ASKING = """
import sglrun as sgl

@sgl.function
def made(s, q):
    s += "You answer in one word. "
    matched = False
    {match}
    if {question}:
        s += "more"
    s += sgl.gen("a")
"""
MATCH = """match q:
        case {"name": _}:
            matched = True"""


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_needs_the_value_ends_the_prefix(question: str) -> None:
    """A look into an argument ends the prefix where it is done, and is named."""
    match = MATCH if question == "a match of" else ""
    program = load(ASKING.format(question=QUESTIONS[question], match=match))
    prefix = trace_prefix(program, template=DEFAULT_TEMPLATE)

    assert prefix.prompt.text == SYS
    assert prefix.ended_by == f"{question} argument 'q'"
    assert prefix.where is not None


class Shop:
    """What a program uses of its own."""

    def __init__(self) -> None:
        self.table = {"refund": "Five days."}

    def search(self, q: str) -> list[str]:
        """Return what is known about *q*."""
        return [text for word, text in self.table.items() if word in q.lower()]

    def __str__(self) -> str:  # noqa: D105
        return f"Shop of {len(self.table)}"


def test_a_helper_that_decides_gives_what_is_not_known() -> None:
    """A function that says and changes nothing may go by an argument."""
    shop = Shop()

    def body(s: Any, q: str) -> None:
        notes = shop.search(q)
        s += SYS
        s += "Notes: " + "\n".join(notes) + f" {shop}"
        s += sgl.gen("a")

    prefix = traced(body)

    assert prefix.prompt.text == f"{SYS}Notes: "
    assert prefix.ended_by == "argument 'q'"


def add_to(parts: list[str], q: str) -> None:
    """Change *parts* by what *q* is."""
    if q:
        parts.append("more")


def test_a_helper_that_changes_something_is_not_left() -> None:
    """What a function may have changed ends the prefix where it decides."""

    def body(s: Any, q: str) -> None:
        parts = ["a"]
        add_to(parts, q)
        s += SYS + "".join(parts) + sgl.gen("a")

    prefix = traced(body)

    assert prefix.prompt.text == ""
    assert prefix.ended_by == "the truth of argument 'q'"


COUNTED: dict[str, int] = {"rows": 0}


def test_what_differs_between_rows_is_not_known() -> None:
    """Clocks, chance, a person and globals that the program changes are stood in for.

    They are not asked or changed; a seed of the program's own is constant.
    """

    def body(s: Any, q: str) -> None:
        COUNTED["rows"] += 1
        dice = random.Random(1)  # noqa: S311
        s += f"{dice.randint(1, 9)} {os.environ.get('NOT_SET', 'none')} "
        s += f"{COUNTED['rows']}" + sgl.gen("a")

    for name, say in VARYING.items():
        prefix = traced(lambda s, say=say: s.__iadd__(f"{SYS}{say()}"), given=[])

        assert (prefix.prompt.text, prefix.ended_by) == (SYS, name)

    prefix = traced(body)

    assert prefix.prompt.text == "3 none "
    assert prefix.ended_by == "global 'COUNTED'"
    assert COUNTED == {"rows": 0}


VARYING: dict[str, Callable[..., object]] = {
    "time.time()": time.time,
    "input()": lambda: input("?"),
}


def test_code_that_cannot_be_followed_ends_the_prefix() -> None:
    """What Python calls by itself, or has no source, is no part of the trace."""

    def body(s: Any, q: str) -> None:
        s += SYS
        s += f"{Ticket(q)}" + sgl.gen("a")

    prefix = traced(body)
    made: dict[str, Any] = {}
    exec("def body(s, q):\n    s += 'x'\n    s += q", made)  # noqa: S102

    assert prefix.prompt.text == SYS
    assert prefix.ended_by.startswith("what Ticket.__str__() does with argument 'q'")
    assert traced(made["body"]).prompt.text == ""


@dataclasses.dataclass
class Ticket:
    """A value of the author's own."""

    body: str

    def __str__(self) -> str:  # noqa: D105
        return "long" if len(self.body) > 9 else "short"


def test_arguments_of_any_name_end_the_prefix() -> None:
    """Where rows may give any name, only what they are known to give is known."""

    def body(s: Any, **row: Any) -> None:
        s += f"{SYS}{row.get('style', 'brief')} {row['q']}"

    assert traced(body).prompt.text == ""
    assert traced(body, given=["q"]).prompt.text == f"{SYS}brief "
    assert traced(body, given=["q", "style"]).prompt.text == SYS


def test_a_fork_in_which_another_program_asks_first_shares_nothing() -> None:
    """The first prompt is that of who asks first, not of who forks first."""

    def body(s: Any, q: str) -> None:
        s += SYS
        for branch in s.fork(2):
            branch += inner(topic=q).ret_value  # noqa: PLW2901

    assert traced(body).prompt.text == ""


def test_a_branch_that_asks_begins_with_what_it_was_forked_from() -> None:
    """An argument before a fork ends the prefix, whoever asks first."""

    def body(s: Any, q: str) -> None:
        s += f"{SYS}{q}"
        with s.copy() as other:
            other += sgl.gen("a")  # noqa: PLW2901

    assert traced(body).prompt.text == SYS


def test_a_hidden_end_is_an_end() -> None:
    """A ``try`` around a look into an argument hides nothing."""

    def body(s: Any, q: str) -> None:
        s += SYS
        try:
            s += "long" if len(q) > 100 else "short"
        except BaseException:  # noqa: BLE001
            s += "none"
        s += sgl.gen("a")

    assert traced(body).prompt.text == SYS


def test_what_is_said_while_an_error_is_handled_is_not_constant() -> None:
    """An error that the traced value causes may not come with a row's own."""

    def body(s: Any, q: str) -> None:
        s += SYS
        try:
            json.loads(f"[{q}")
        except ValueError:
            s += "no JSON"
        s += sgl.gen("a")

    prefix = traced(body)

    assert prefix.prompt.text == SYS
    assert prefix.ended_by == "an error of json.loads with argument 'q'"


class OddError(BaseException):
    """Not an ``Exception``."""


@pytest.mark.parametrize(
    "raised",
    [KeyError("k"), SystemExit(3), KeyboardInterrupt(), OddError(), GeneratorExit()],
    ids=repr,
)
def test_nothing_that_is_raised_leaves_the_trace(raised: BaseException) -> None:
    """Whatever the author's code raises ends the trace and nothing else."""

    def body(s: Any, q: str) -> None:
        s += SYS
        raise raised

    prefix = traced(body)

    assert prefix.prompt.text == SYS
    assert prefix.ended_by.startswith(f"{type(raised).__name__} while tracing")
    assert prefix.where == line_of(body, 2)


def test_an_endless_loop_ends() -> None:
    """A program that never stops talking is stopped; its loop is not constant."""

    def body(s: Any, q: str) -> None:
        s += SYS
        while True:
            s += "again "

    prefix = traced(body)

    assert prefix.prompt.text == SYS
    assert prefix.ended_by == "more than 10,000 steps"
    assert prefix.where == line_of(body, 3)


def test_a_program_that_takes_too_long_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A trace waits no longer than its limit; the program ends when next seen."""
    monkeypatch.setattr(tracer, "_LIMIT_S", 0.05)
    go, ended = threading.Event(), threading.Event()
    passed: list[str] = []

    def body(s: Any, q: str) -> None:
        s += SYS
        go.wait(WAIT_S)
        try:
            s += "late"
            passed.append("late")
        finally:
            ended.set()

    prefix = trace_program(sgl.function(body), template=DEFAULT_TEMPLATE).prefix
    go.set()

    assert ended.wait(WAIT_S)
    assert passed == []
    assert prefix.prompt.text == SYS
    assert prefix.ended_by == "0.05 s of the program's own code"


def test_a_batch_inside_asks_no_model() -> None:
    """A program that runs a batch of another one is traced up to that."""
    backend = MockBackend()

    def body(s: Any, q: str) -> None:
        s += SYS
        states = inner.run_batch([{"topic": "a"}, {"topic": "b"}], backend=backend)
        s += states[0]["t"] + sgl.gen("a")

    trace_program(sgl.function(body), template=DEFAULT_TEMPLATE)

    assert backend.requests == []


def test_the_first_prompt_may_be_constant() -> None:
    """A generation before any argument shares the whole first prompt."""

    def body(s: Any, q: str) -> None:
        s += SYS + sgl.gen("a") + q

    prefix = traced(body)

    assert (prefix.prompt.text, prefix.ended_by) == (SYS, "a generation")
    assert prefix.advice.startswith("no change is needed")


def test_branches_share_what_stands_before_the_fork() -> None:
    """A fork ends the prefix, whatever its branches say."""

    def body(s: Any, q: str) -> None:
        s += SYS
        branches = s.fork(2)
        branches += "Think. " + sgl.gen("a")
        branches.join()

    prefix = traced(body)

    assert (prefix.prompt.text, prefix.ended_by) == (SYS, "a fork")


def test_an_image_ends_the_prefix() -> None:
    """What stands before an image is shared."""

    def body(s: Any, q: str) -> None:
        s += sgl.user(SYS + sgl.image("http://x/y.png") + q)

    prefix = traced(body)

    assert (prefix.prompt.text, prefix.ended_by) == (f"USER:{SYS}", "an image")


def test_an_argument_may_become_a_variable() -> None:
    """A variable that is an argument as it is ends no trace."""

    def body(s: Any, q: str) -> None:
        s += SYS
        s["given"] = q

    assert traced(body).prompt.text == SYS


def test_a_turn_that_is_cut_stays_open() -> None:
    """The messages of a prefix are the same text, the last turn open where it is."""

    def body(s: Any, q: str) -> None:
        s += sgl.system(SYS)
        with s.user():
            s += f"  Q: {q}"
        s += sgl.assistant(sgl.gen("a"))

    prompt = traced(body).prompt

    assert prompt.messages == (Message("system", (SYS,)),)
    assert (prompt.role, prompt.open_parts) == ("user", ("  Q: ",))
    assert prompt.text == f"SYSTEM:{SYS}\nUSER:  Q: "


def test_the_default_system_prompt_belongs_to_the_prefix() -> None:
    """What a chat template says first is part of what rows share."""

    def body(s: Any, q: str) -> None:
        s += sgl.user(q) + sgl.assistant(sgl.gen("a"))

    prefix = trace_prefix(sgl.function(body), template=get_chat_template("qwen"))

    assert prefix.prompt.text.endswith("<|im_end|>\n<|im_start|>user\n")


def test_arguments_that_no_row_gives_keep_their_defaults() -> None:
    """A default that no row overrides is constant text, as a bound argument is."""

    def body(s: Any, q: str, style: str = "brief", *, lang: str) -> None:
        s += f"{SYS}Be {style} in {lang}. "
        s += q
        s += sgl.gen("a")

    program = sgl.function(body).bind(lang="en")
    prefix = trace_prefix(program, template=DEFAULT_TEMPLATE, given=["q"])

    assert prefix.prompt.text == f"{SYS}Be brief in en. "


@sgl.function
def inner(s: Any, topic: str) -> object:
    s += "Topic: " + topic
    s += sgl.gen("t")
    return s["t"]


def test_a_program_inside_asks_first() -> None:
    """The first prompt may be that of a program that the program calls."""

    def body(s: Any, q: str) -> None:
        s += SYS
        s += str(inner(topic=q, backend=MockBackend()).ret_value) + sgl.gen("a")

    prefix = traced(body)

    assert prefix.prompt.text == "Topic: "
    assert prefix.ended_by == "argument 'q'"


def test_after_a_question_another_program_may_ask_first() -> None:
    """Where a program calls others, only a request tells whose prompt is the first."""

    @sgl.function
    def maybe(s: Any, q: str) -> None:
        s += "You are asked. "
        if q:
            s += sgl.gen("t")

    def body(s: Any, q: str) -> None:
        s += "You answer. "
        maybe(q=q)
        s += sgl.gen("a")

    assert traced(body).prompt.text == ""


def test_tracing_asks_no_model_and_counts_its_side_effects() -> None:
    """The author's code runs once, and no backend is asked, a named one neither."""
    calls: list[str] = []
    backend = MockBackend()

    @sgl.function
    def called(s: Any, q: str) -> None:
        calls.append("inner")
        s += q + sgl.gen("t")

    def body(s: Any, q: str) -> None:
        calls.append("outer")
        called(q=q, backend=backend)
        s += sgl.gen("a")

    trace_program(sgl.function(body), template=DEFAULT_TEMPLATE)

    assert calls == ["outer", "inner"]
    assert backend.requests == []


def test_tracing_in_one_thread_is_not_seen_in_another() -> None:
    """A program that another thread calls while one is traced runs as ever."""
    traces, called = threading.Event(), threading.Event()
    backend = MockBackend("hello")

    def body(s: Any, q: str) -> None:
        traces.set()
        called.wait(WAIT_S)
        s += SYS + q

    thread = threading.Thread(
        target=trace_prefix,
        args=(sgl.function(body),),
        kwargs={"template": DEFAULT_TEMPLATE},
    )
    thread.start()
    assert traces.wait(WAIT_S)
    state = inner(topic="x", backend=backend)
    value = state["t"]
    called.set()
    thread.join(WAIT_S)

    assert value == "hello"
    assert len(backend.requests) == 1


def test_tracing_changes_nothing_around_it() -> None:
    """Tracing leaves warning filters, modules and threads as they were."""

    def body(s: Any, q: str) -> None:
        s += q + sgl.gen("a")

    before = (list(warnings.filters), set(sys.modules), threading.active_count())
    traced(body)

    assert before == (
        list(warnings.filters),
        set(sys.modules),
        threading.active_count(),
    )


def test_a_copy_is_a_fork_that_comes_back() -> None:
    """A traced program reads the variables of a copy."""

    def body(s: Any, q: str) -> None:
        s += SYS
        with s.copy() as tried:
            tried += q + sgl.gen("draft")  # noqa: PLW2901
        with s.var_scope("whole"):
            s += "Draft: " + s["draft"] + sgl.gen("a")
        s += s["whole"].upper() + s.text()[:5] + sgl.gen("b")

    trace = trace_program(sgl.function(body), template=DEFAULT_TEMPLATE)
    kinds = [node.kind for node in trace.graph.nodes]

    assert kinds.count("generate") == 3
    assert "end" not in kinds


Op = tuple[Any, ...]


class Script:
    """A program made of a list of things to do."""

    ways: ClassVar[dict[str, Callable[[Any], str]]] = {
        "f": lambda q: f"<{q}>",
        "json": json.dumps,
        "strip": lambda q: q.strip(),
        "slice": lambda q: "(" + q[1:3],
        "base64": lambda q: base64.b64encode(f"ab{q}".encode()).decode(),
        "upper": lambda q: f"[{q}".upper(),
        "sum": lambda q: "+" + q,
    }
    tests: ClassVar[dict[str, Callable[[Any], bool]]] = {
        "truth": bool,
        "equal": lambda q: bool(q == "a"),
        "long": lambda q: len(q) > 2,
        "inside": lambda q: "b" in q,
        "digits": lambda q: bool(q.isdigit()),
        "table": lambda q: {"a": True}.get(q, False),
    }

    def __init__(self, ops: list[Op]) -> None:
        self.ops = ops

    def program(self) -> Function:
        """Return the program."""

        def body(s: Any, p: str, q: str = "default") -> None:
            self.do(s, self.ops, {"p": p, "q": q})

        made: Function = sgl.function(body)
        return made

    def do(self, s: Any, ops: list[Op], arguments: dict[str, Any]) -> None:
        """Do *ops* to *s*."""
        for kind, *rest in ops:
            getattr(self, f"_{kind}")(s, arguments, *rest)

    def _say(self, s: Any, _: Any, text: str) -> None:
        s += text

    def _put(self, s: Any, arguments: Any, name: str, way: str) -> None:
        s += self.ways[way](arguments[name])

    def _turn(self, s: Any, _: Any, role: str, text: str) -> None:
        s += getattr(sgl, role)(text)

    def _gen(self, s: Any, _: Any) -> None:
        s += sgl.gen("g", max_tokens=3)

    def _select(self, s: Any, _: Any) -> None:
        s += sgl.select("c", ["a", "ab"])

    def _when(
        self, s: Any, arguments: Any, name: str, test: str, ops: list[Op]
    ) -> None:
        if self.tests[test](arguments[name]):
            self.do(s, ops, arguments)

    def _each(self, s: Any, arguments: Any, name: str, ops: list[Op]) -> None:
        for _ in arguments[name]:
            self.do(s, ops, arguments)

    def _scope(self, s: Any, arguments: Any, ops: list[Op]) -> None:
        with s.var_scope(f"v{id(ops)}"):
            self.do(s, ops, arguments)

    def _fork(self, s: Any, arguments: Any, ops: list[Op]) -> None:
        branches = s.fork(2)
        for branch in branches:
            self.do(branch, ops, arguments)
        branches.join()

    def _copy(self, s: Any, arguments: Any, ops: list[Op]) -> None:
        with s.copy() as other:
            self.do(other, ops, arguments)

    def _call(self, _: Any, arguments: Any, name: str, ops: list[Op]) -> None:
        def body(s: Any, p: str, q: str) -> None:
            self.do(s, ops, {"p": p, "q": q})

        sgl.function(body)(p=arguments[name], q="fixed")

    def _guard(self, s: Any, arguments: Any, ops: list[Op]) -> None:
        try:
            self.do(s, ops, arguments)
        except Exception:  # noqa: BLE001
            s += "sorry"

    def _fail(self, s: Any, arguments: Any, name: str) -> None:
        s += {"a": "A", "b": "B"}[arguments[name]]


NAME = st.sampled_from(["p", "q"])
TEXT = st.text('ab ."\n', max_size=4)
SIMPLE = (
    st.tuples(st.just("say"), TEXT),
    st.tuples(st.just("put"), NAME, st.sampled_from(sorted(Script.ways))),
    st.tuples(st.just("turn"), st.sampled_from(["system", "user", "assistant"]), TEXT),
    st.tuples(st.just("gen")),
    st.tuples(st.just("select")),
)
FAIL = st.tuples(st.just("fail"), NAME)
Deeper = Callable[[st.SearchStrategy[list[Op]]], st.SearchStrategy[Op]]
DEEPER: dict[str, Deeper] = {
    "when": lambda ops: st.tuples(
        st.just("when"), NAME, st.sampled_from(sorted(Script.tests)), ops
    ),
    "each": lambda ops: st.tuples(st.just("each"), NAME, ops),
    "block": lambda ops: st.tuples(
        st.sampled_from(["scope", "fork", "copy", "guard"]), ops
    ),
    "call": lambda ops: st.tuples(st.just("call"), NAME, ops),
}


def scripts(
    *deeper: str, simple: tuple[st.SearchStrategy[Op], ...] = (*SIMPLE, FAIL)
) -> st.SearchStrategy[list[Op]]:
    """Return programs with blocks of the kinds *deeper*."""
    nested = st.recursive(
        st.one_of(*simple),
        lambda ops: st.one_of(
            *(DEEPER[kind](st.lists(ops, max_size=3)) for kind in deeper)
        ),
        max_leaves=6,
    )
    return st.lists(nested, max_size=6)


OPS = scripts(*DEEPER)
ROW = st.fixed_dictionaries({"p": TEXT}, optional={"q": TEXT})


def check_prefix(ops: list[Op], rows: list[dict[str, str]]) -> None:
    program = Script(ops).program()
    names = {name for row in rows for name in row}
    prefix = trace_prefix(program, template=DEFAULT_TEMPLATE, given=names).prompt
    for row in rows:
        backend = ListeningBackend()
        run_program(program, row, backend=backend, inline=True)

        assert all(text.startswith(prefix.text) for text in backend.prompts[:1])


ROWS = st.lists(ROW, min_size=1, max_size=3)


@given(scripts("when", "each", "block"), ROWS)
def test_the_prefix_is_a_prefix_of_every_row(
    ops: list[Op], rows: list[dict[str, str]]
) -> None:
    """Whatever the program, the first prompt of each row begins with the prefix."""
    check_prefix(ops, rows)


@given(scripts("call", simple=SIMPLE), ROWS)
def test_the_prefix_may_be_that_of_a_program_inside(
    ops: list[Op], rows: list[dict[str, str]]
) -> None:
    """Where another program is called without a question, the same is true of it."""
    check_prefix(ops, rows)


@given(OPS)
def test_any_program_can_be_traced_to_its_end(ops: list[Op]) -> None:
    """A whole trace ends with a graph whose steps follow earlier ones."""
    graph = trace_program(Script(ops).program(), template=DEFAULT_TEMPLATE).graph
    kinds = {"then", "value"}

    assert all(start < end and kind in kinds for start, end, kind in graph.edges())
    json.dumps(graph_json(graph))
