"""The compiler: plans that run as their programs do, and what cannot be one."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sglrun as sgl
from sglrun.backends.base import Request
from sglrun.backends.mock import MockBackend
from sglrun.errors import BadRequestError, ForkError, ProgramError
from sglrun.interpreter.compiling.compiler import CompiledProgram, compile_program
from sglrun.interpreter.compiling.plan import Plan
from sglrun.interpreter.function import Function
from sglrun.interpreter.run import run_program
from sglrun.interpreter.state import ProgramState
from sglrun.lang.chat_template import get_chat_template
from sglrun.lang.sampling import SamplingParams

WORDS = re.compile(r"x")
Op = tuple[Any, ...]


def answering() -> MockBackend:
    """Return a backend whose answers tell of what they were asked, nothing more."""

    def answer(request: Request) -> str:
        return f"<{len(request.prompt.text)}{request.prompt.text[-3:]}>"

    return MockBackend(answer)


def compiled(body: Callable[..., object]) -> CompiledProgram:
    return compile_program(sgl.function(body))


def seen(state: ProgramState) -> dict[str, object]:
    """Return all that an author can see of a finished program."""
    failure = state.failure
    returned = state.ret_value
    return {
        "failure": failure and type(failure.cause),
        "variables": list(state.variables().items()),
        "text": state.stream_executor.evaluator.prompt.text,
        "messages": [] if failure else state.messages(),
        "finish_reasons": state.finish_reasons(),
        "returned": "state" if isinstance(returned, ProgramState) else returned,
    }


def check(body: Callable[..., object], *rows: dict[str, object]) -> CompiledProgram:
    """Check that the plan of *body* does what the program does."""
    program: Function = sgl.function(body)
    plan = program.compile()
    for row in rows:
        interpreted = run_program(program, row, backend=answering(), inline=True)
        state = plan.run(row, backend=answering())

        assert seen(state) == seen(interpreted)
    json.dumps(plan.plan.as_json())
    return plan


@sgl.function
def inner(s: Any, topic: str, style: str = "brief") -> Any:
    s += f"Be {style} on {topic.upper()}." + sgl.gen("note")
    return {"note": s["note"], "style": style}


def test_a_plan_does_what_the_program_does() -> None:
    """Turns, arguments, values, scopes, copies, forks and programs inside are kept."""

    def body(s: Any, q: Any, n: Any = 3) -> Any:
        s += sgl.system("Be kind.")
        with s.user(), s.var_scope("asked"):
            s += f"{q['text'].strip()!r:>20} and {q.get('more', 'none')} x{n + 1}"
        s += sgl.assistant("It is " + sgl.gen("a", max_tokens=4, stop=".") + ".")
        note = inner(topic=s["a"]).ret_value
        s += sgl.user(f"Note: {note['note']} ({note['style']}) {s['asked']}")
        branches = s.fork(2)
        for number, branch in enumerate(branches):
            branch += sgl.assistant(f"{number}:" + sgl.gen("b"))  # noqa: PLW2901
        branches.join()
        with s.copy() as tried:
            tried += sgl.assistant(sgl.select("c", ["yes", s["a"]]))  # noqa: PLW2901
        s["both"] = [s["b"][0][:2], s["b"][1] + "!", {"c": s["c"], "n": 1}]
        s += sgl.assistant(f"{s['b'][0]} or {s['c']}" + sgl.gen("d", n=2))
        s += sgl.user(s["d"][1].title())
        return s["d"], s["both"][0], {"more": None}

    rows = [{"q": {"text": f" {n} ", "more": n}, "n": n} for n in range(3)]

    check(body, *rows, {"q": {"text": "only"}})


def test_an_error_of_a_row_stays_with_the_row() -> None:
    """What the author's line would raise for a row's value, the plan raises too."""

    def body(s: Any, q: Any) -> None:
        s += "Q: " + q["text"].strip() + sgl.gen("a")

    check(body, {"q": {"text": "x"}}, {"q": {}}, {"q": {"text": 5}}, {"q": 7})


def test_what_a_program_makes_in_vain_is_made() -> None:
    """A value that nobody uses fails the row that has none, as the program does."""

    def body(s: Any, q: Any) -> None:
        s += "One. "
        q["text"]
        s += "Two. "
        q["more"].strip()
        s += sgl.gen("a")
        q["last"]

    rows = [{"text": "x", "more": " y", "last": 1}, {"text": "x"}, {}]

    check(body, *({"q": row} for row in (*rows, {"text": "x", "more": 1, "last": 1})))


def test_a_plan_can_be_written_and_read_back() -> None:
    """A plan is JSON, the same after reading, and runs with the same results."""

    def body(s: Any, q: Any, style: str = "brief", tags: Any = ("a", 1)) -> Any:
        s += sgl.system(f"Be {style}.")
        s += sgl.user(sgl.image(b"\x89PNG") + f"{q!r:>9} {tags}"[:40].strip())
        s += sgl.assistant(
            sgl.gen("a", stop=["x"], logit_bias={5: 1.0}, regex="[a-z]+")
        )
        branches = s.fork(2)
        branches += sgl.user(json.dumps({"q": q})) + sgl.assistant(sgl.gen("b", n=2))
        branches.join()
        s += sgl.user("\n".join(s["b"][1])) + sgl.assistant(sgl.gen_int("c"))
        return {"a": [s["a"], (s["c"], None)], "text": f"{q}: {s['a']}"}

    program: Function = sgl.function(body)
    plan = program.compile().plan
    back = Plan.from_json(plan.to_json())
    row = {"q": {"k": ["é"]}}

    assert back == plan
    interpreted = run_program(program, row, backend=seeing(), inline=True)
    state = CompiledProgram(plan=back).run(row, backend=seeing())

    assert interpreted.failure is None
    assert seen(state) == seen(interpreted)


def seeing() -> MockBackend:
    """Return a backend like ``answering`` whose model sees images."""
    backend = answering()
    assert backend.capabilities.images
    return backend


@pytest.mark.parametrize("text", ["[]", "{}", "no JSON", '{"program": "p"}'])
def test_what_is_no_plan_is_refused(text: str) -> None:
    """Other text than a plan's is named as what it is."""
    with pytest.raises(ProgramError, match="not a plan"):
        Plan.from_json(text)


def test_a_plan_knows_its_arguments() -> None:
    """A plan that was read back names what is missing and what is unknown."""
    plan = compiled(lambda s, q, r="x": s.__iadd__(q + r + sgl.gen("a")))

    with pytest.raises(ProgramError, match="missing argument 'q'"):
        plan.run({}, backend=answering())
    with pytest.raises(ProgramError, match="unknown argument 'z'"):
        plan.run({"q": "a", "z": 1}, backend=answering())


def test_markup_belongs_to_its_template() -> None:
    """A plan that says what it read of its own text is of one chat template."""

    def body(s: Any, q: str) -> None:
        s += sgl.user(q)
        s += sgl.user(s.text())

    backend = answering()
    backend.chat_template = get_chat_template("qwen")

    with pytest.raises(ProgramError, match="markup of the chat template 'default'"):
        compiled(body).run({"q": "x"}, backend=backend)


def test_a_branch_that_fails_fails_the_program() -> None:
    """A backend's error in a branch is the fork's error, with its cause."""

    def body(s: Any) -> None:
        branches = s.fork(2)
        branches += sgl.gen("b", temperature=0)
        branches.join()

    state = compiled(body).run({}, backend=MockBackend([BadRequestError("boom")] * 2))

    assert state.failure is not None
    assert isinstance(state.failure.cause, ForkError)
    assert str(state.failure.cause.__cause__) == "boom"


def test_a_program_may_return_its_state() -> None:
    """A state that is returned is the state of the run."""

    def body(s: Any) -> Any:
        s += sgl.gen("a")
        return s

    state = check(body, {}).run({}, backend=answering())

    assert state.ret_value is state


REFUSED: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "a branch on a value": (
        lambda s, _: s["a"] == "yes" and 1,
        "a comparison of variable 'a' decides",
    ),
    "a branch on an argument": (
        lambda _, q: 1 if q else 2,
        "the truth of argument 'q' decides",
    ),
    "a loop over a value": (
        lambda s, _: next(iter(s["a"])),
        "iteration over variable 'a' decides",
    ),
    "an identity": (lambda _, q: q is None, "the identity of argument 'q' decides"),
    "a search in a constant": (
        lambda _, q: q in "abc",
        "a search by argument 'q' decides",
    ),
    "a replacement of nothing": (
        lambda s, q: s.__iadd__("A <q> B".replace("<x>", q)),
        "'replace' in constant text of argument 'q' decides",
    ),
    "a pattern": (
        lambda _, q: WORDS.match(q),
        "what Pattern.match does with argument 'q' cannot be repeated",
    ),
    "a length": (
        lambda s, _: len(f"x {s['a']}") > 5,
        "the length of variable 'a' decides",
    ),
    "a clock": (
        lambda s, _: s.__iadd__(f"{time.time()}"),
        "what is done to time.time() cannot be repeated",
    ),
    "a change": (
        lambda _, q: q.append("more"),
        "what a call of 'append' does with argument 'q' cannot be repeated",
    ),
    "a parameter": (
        lambda s, q: s.__iadd__(sgl.gen("b", stop=q)),
        "the parameter 'stop' is not known",
    ),
    "an exception": (lambda _, __: int("x"), "the program ends with ValueError"),
    "an object": (
        lambda s, _: s.__setitem__("b", object()),
        "'b' is assigned object, which is not data",
    ),
    "an image": (
        lambda s, q: s.__iadd__(sgl.image(q)),
        "what pictures.image does with argument 'q' cannot be repeated",
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_depends_on_something_unknown_is_refused(reason: str) -> None:
    """A program that decides at run time is refused, with the line that decides."""
    do, message = REFUSED[reason]

    def body(s: Any, q: Any) -> None:
        s += "Hello" + sgl.gen("a")
        do(s, q)

    with pytest.raises(ProgramError) as caught:
        compiled(body)

    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{Path(__file__).name}:")


def test_what_is_returned_must_be_data() -> None:
    """A program that returns an object of its own is refused."""
    with pytest.raises(ProgramError, match="returns object, which is not data"):
        compiled(lambda _: object())


def test_equal_branches_ask_once() -> None:
    """Branches that ask the same share one request of several samples."""

    def body(s: Any) -> None:
        s += "Write a joke. "
        branches = s.fork(3)
        branches += "Joke: " + sgl.gen("joke") + " Funny?" + sgl.gen("funny")
        branches.join()

    backend = MockBackend(lambda request: [str(n) for n in range(request.sampling.n)])
    program = compiled(body)
    state = program.run({}, backend=backend)

    assert state["joke"] == ["0", "1", "2"]
    assert [request.sampling.n for request in backend.requests] == [3, 1, 1, 1]
    assert [len(group) for group in program.plan.samples] == [3]


@pytest.mark.parametrize(
    "sampling", [SamplingParams(seed=1), SamplingParams(temperature=0)]
)
def test_samples_are_shared_only_where_they_mean_the_same(
    sampling: SamplingParams,
) -> None:
    """With a seed, or without chance, each branch asks for itself."""

    def body(s: Any) -> None:
        branches = s.fork(2)
        branches += sgl.gen("joke")
        branches.join()

    backend = MockBackend("0")
    compiled(body).run({}, backend=backend, sampling=sampling)

    assert [request.sampling.n for request in backend.requests] == [1, 1]


def test_different_branches_ask_for_themselves() -> None:
    """Branches whose text or parameters differ are no samples of one request."""

    def body(s: Any) -> None:
        branches = s.fork(3)
        branches += [sgl.gen("a", top_p=0.5), "x" + sgl.gen("a"), sgl.gen("a", n=2)]
        branches.join()

    assert compiled(body).plan.samples == ()


def test_independent_requests_are_one_wave() -> None:
    """Waves tell which requests can be sent at the same time."""

    def body(s: Any, q: str) -> None:
        one, two = inner(topic=q), inner(topic="x")
        s += one.ret_value["note"] + two.ret_value["note"] + sgl.gen("a")
        s += sgl.gen("b")

    plan = compiled(body).plan

    assert [len(wave) for wave in plan.waves()] == [2, 1, 1]


def test_constant_text_is_folded() -> None:
    """Texts that follow each other in one prompt are one step."""

    def body(s: Any, q: str) -> None:
        s += "a"
        s += "b"
        s += q
        s += "c"
        s += sgl.gen("x")

    texts = [step for step in compiled(body).plan.steps if step.kind == "text"]

    assert texts[0].fragments == ("ab",)
    assert len(texts) == 3


class Script:
    """A program made of things to do that decide nothing."""

    def __init__(self, ops: list[Op]) -> None:
        self.ops = ops

    def program(self) -> Function:
        """Return the program."""

        def body(s: Any, p: str, q: str = "d") -> Any:
            self.do(s, self.ops, {"p": p, "q": q})
            return s["g"]

        made: Function = sgl.function(body)
        return made

    def do(self, s: Any, ops: list[Op], arguments: dict[str, Any]) -> None:
        """Do *ops* to *s*."""
        for kind, *rest in ops:
            getattr(self, f"_{kind}")(s, arguments, *rest)

    def _say(self, s: Any, _: Any, text: str) -> None:
        s += text

    def _put(self, s: Any, arguments: Any, name: str) -> None:
        s += f"<{arguments[name].strip()}>" + arguments[name][1:]

    def _turn(self, s: Any, arguments: Any, role: str, name: str) -> None:
        s += getattr(sgl, role)(" x" + arguments[name] + sgl.gen("t"))

    def _gen(self, s: Any, _: Any, name: str) -> None:
        s += sgl.gen(name, max_tokens=3)

    def _use(self, s: Any, _: Any, name: str) -> None:
        s += "(" + s[name] + f"{s[name].upper():>4})"

    def _assign(self, s: Any, _: Any, name: str, text: str) -> None:
        s[name] = text + s["g"]

    def _select(self, s: Any, arguments: Any, name: str) -> None:
        s += sgl.select(name, ["a", "b", arguments["p"] + "z"])

    def _scope(self, s: Any, arguments: Any, name: str, ops: list[Op]) -> None:
        with s.var_scope(name):
            self.do(s, ops, arguments)

    def _fork(
        self, s: Any, arguments: Any, size: int, mode: str, ops: list[Op]
    ) -> None:
        branches = s.fork(size)
        for branch in branches:
            self.do(branch, ops, arguments)
        branches.join(mode)
        s["g"] = "g"

    def _copy(self, s: Any, arguments: Any, ops: list[Op]) -> None:
        with s.copy() as other:
            self.do(other, ops, arguments)

    def _call(self, s: Any, arguments: Any, ops: list[Op]) -> None:
        def body(inside: Any, p: str, q: str) -> Any:
            self.do(inside, ops, {"p": p, "q": q})
            inside += sgl.gen("last")
            return inside["last"]

        s["g"] = sgl.function(body)(p=arguments["q"], q="fixed").ret_value


NAME = st.sampled_from(["g", "h"])
ARGUMENT = st.sampled_from(["p", "q"])
TEXT = st.text("ab .\n", max_size=3)
SIMPLE = st.one_of(
    st.tuples(st.just("say"), TEXT),
    st.tuples(st.just("put"), ARGUMENT),
    st.tuples(st.just("turn"), st.sampled_from(["user", "assistant"]), ARGUMENT),
    st.tuples(st.just("gen"), NAME),
    st.tuples(st.just("use"), NAME),
    st.tuples(st.just("assign"), NAME, TEXT),
    st.tuples(st.just("select"), NAME),
)


def _deeper(ops: st.SearchStrategy[Op]) -> st.SearchStrategy[Op]:
    several = st.lists(ops, max_size=3)
    modes = st.sampled_from(["gather_variable", "concate_and_append"])
    return st.one_of(
        st.tuples(st.just("scope"), st.sampled_from(["u", "v"]), several),
        st.tuples(st.just("fork"), st.integers(0, 3), modes, several),
        st.tuples(st.sampled_from(["copy", "call"]), several),
    )


OPS = st.lists(st.recursive(SIMPLE, _deeper, max_leaves=6), max_size=6)


@given(OPS, st.fixed_dictionaries({"p": TEXT}, optional={"q": TEXT}))
def test_plans_give_what_programs_give(ops: list[Op], row: dict[str, str]) -> None:
    """Whatever is compiled runs with the results of the interpreter."""
    program = Script([("gen", "g"), ("gen", "h"), *ops]).program()
    interpreted = run_program(program, row, backend=answering(), inline=True)
    plan, refusal = None, ""
    try:
        plan = compile_program(program)
    except ProgramError as exc:
        refusal = str(exc)
    if plan is None:
        # Nothing here decides: it fails by itself, or changes text that is made of
        # several values.
        assert interpreted.failure or "cannot be repeated" in refusal
        return

    assert seen(plan.run(row, backend=answering())) == seen(interpreted)
