"""The loader: from what a user types to a program."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Self

import pytest

from sglrun.errors import ProgramLoadError
from sglrun.interpreter.loader import load_program
from sglrun.interpreter.program import Program
from sglrun.interpreter.sglang.finder import withdraw_sglang

Load = Callable[..., Program]

TWO = """
    import sglang as sgl

    @sgl.function
    def one(s):
        s += sgl.gen("a")

    @sgl.function
    def two(s, question):
        s += question
    """

FACTORY = """
    import sglang as sgl

    def make(lang="en", *, shots=()):
        @sgl.function
        def answer(s, question):
            s += f"{lang} {len(shots)}: " + question
        return answer

    def several():
        @sgl.function
        def first(s):
            s += "1"

        @sgl.function
        def second(s):
            s += "2"

    def registry():
        several()
        return {"made": make("fr"), "number": 3}

    def main():
        text = "before"

        @sgl.function
        def inner(s):
            s += text

        @sgl.function
        def other(s):
            s += "other"

        text = "after"
        inner.run_batch([{}, {}])
        raise AssertionError("a model was asked")

    def plain():
        return 5

    def broken(number=0):
        return 1 / number

    class Group:
        member = make("de")

    GROUPS = {"b": make("nl")}
    """


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Load from a file with the given text."""
    before = list(sys.path)

    def loaded(text: str, reference: str = "") -> Program:
        (tmp_path / "prog.py").write_text(dedent(text), "utf-8")
        return load_program(f"{tmp_path}/prog.py{reference}")

    yield loaded
    sys.path[:] = before
    withdraw_sglang()


def test_a_file_with_one_program_needs_no_name(load: Load) -> None:
    """The only program of a file is found."""
    program = load("from sglang import function\n@function\ndef f(s, a): s += a")

    assert (program.name, program.parameters) == ("f", ("a",))


def test_a_name_picks_one_of_several(load: Load) -> None:
    """A name after the colon picks a program."""
    assert load(TWO, ":two").parameters == ("question",)


def test_several_programs_without_a_name_are_listed(load: Load) -> None:
    """Which one is meant is asked, with the spelling of an answer."""
    with pytest.raises(ProgramLoadError, match=r"\(one, two\); say which, as .*:one"):
        load(TWO)


@pytest.mark.parametrize(
    ("reference", "name", "said"),
    [
        (":make()", "answer", "en 0: "),
        (":make('fr')", "answer", "fr 0: "),
        (":make(lang='a:b', shots=[1, 2])", "answer", "a:b 2: "),
        (":several().second", "second", "2"),
        (":registry().made", "answer", "fr 0: "),
        (":registry().first", "first", "1"),
        (":main()", "inner", "after"),
        (":main().inner", "inner", "after"),
        (":main().other", "other", "other"),
        (":Group.member", "answer", "de 0: "),
        (":GROUPS.b", "answer", "nl 0: "),
    ],
)
def test_programs_inside_functions_are_reached(
    load: Load, reference: str, name: str, said: str
) -> None:
    """A call stands for the program that it returns, defines or would run."""
    program = load(FACTORY, reference)
    texts: list[str] = []

    class State:
        def __iadd__(self, text: str) -> Self:
            texts.append(text)
            return self

    program.func(State(), *[""] * len(program.parameters))

    assert program.name == name
    assert texts == [said]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (":absent", r"'absent' does not exist in .*prog\.py \(programs: none\)"),
        (":make", r"'make' in .* is a function and no program; .* :?.*:make\(\)"),
        (":plain()", r"plain\(\) in .* makes no program: it returned 5"),
        (
            ":several()",
            r"defines 2 programs \(first, second\); say which, as .*\.first",
        ),
        (":several().third", r"defines no program 'third' .*\(programs: first, second"),
        (":make(lang=open)", r"'open' in .* is no literal"),
        (":make('fr'", r"names no program"),
        (":1 + 1", r"names no program"),
        (":GROUPS()", r"'GROUPS' in .* cannot be called"),
        (":broken()", r"ZeroDivisionError: division by zero \(prog\.py:\d+\)"),
        (":broken(number='x')", r"TypeError"),
        (":registry().number", r"is int and no program"),
    ],
)
def test_a_reference_that_finds_nothing_says_why(
    load: Load, reference: str, message: str
) -> None:
    """What was looked for, where, and how to write it."""
    with pytest.raises(ProgramLoadError, match=message):
        load(FACTORY, reference)


SCRIPT = """
    import argparse
    import sglang as sgl

    def main(args):
        shots = "Q" * args.shots

        @sgl.function
        def few_shot(s, question):
            s += shots + question

        sgl.set_default_backend(sgl.RuntimeEndpoint("http://127.0.0.1:1"))
        states = few_shot.run_batch([{"question": "a"}, {"question": "b"}])
        print(states[0]["answer"])

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--shots", type=int, required=True)
        main(parser.parse_args())
    """


@pytest.mark.parametrize("reference", [".few_shot", ""])
def test_a_program_inside_a_scripts_main_is_reached(load: Load, reference: str) -> None:
    """The script is run with its arguments, up to where it would run the program."""
    before = list(sys.argv)
    program = load(SCRIPT, f":__main__('--shots', 3){reference}")
    texts: list[str] = []

    class State:
        def __iadd__(self, text: str) -> Self:
            texts.append(text)
            return self

    program.func(State(), "?")

    assert texts == ["QQQ?"]
    assert sys.argv == before


def test_a_script_that_refuses_its_arguments_is_a_load_error(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the script tells goes to stderr; the load error names the reference."""
    with pytest.raises(ProgramLoadError, match=r"prog\.py:__main__\(\).*SystemExit: 2"):
        load(SCRIPT, ":__main__()")

    assert "--shots" in capsys.readouterr().err


def test_loading_asks_no_model(load: Load) -> None:
    """A script that runs its program at once is loaded up to there, and says so."""
    text = """
        import sglang as sgl

        @sgl.function
        def ask(s, n):
            s += sgl.gen("a")

        sgl.set_default_backend(sgl.RuntimeEndpoint("http://127.0.0.1:1"))
        state = ask.run(n=3)
        print(state["a"])
        """
    with pytest.warns(UserWarning, match=r"prog\.py runs 'ask' while it is loaded"):
        program = load(text)

    assert program.name == "ask"


def test_a_part_of_sglang_that_is_not_served_is_a_load_error(load: Load) -> None:
    """The error names the part and the author's line."""
    with pytest.raises(
        ProgramLoadError, match=r"'sglang\.srt\.layers' is not .*prog\.py:2"
    ):
        load("\nfrom sglang.srt.layers import moe\n")


def test_an_import_inside_a_program_is_served_later(load: Load) -> None:
    """A program may import SGLang when it runs, long after it was loaded."""
    program = load("""
        import sglang as sgl

        @sgl.function
        def late(s):
            from sglang.lang.ir import REGEX_INT
            return REGEX_INT
        """)

    assert program.func(None) == r"[-+]?[0-9]+[ \n]*"


def test_a_module_can_hold_the_program(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``package.module:reference`` works as a file does."""
    (tmp_path / "held_programs.py").write_text(dedent(FACTORY), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    program = load_program("held_programs:make(lang='sv')")
    del sys.modules["held_programs"]

    assert program.name == "answer"


def test_a_missing_module_is_told_from_a_broken_one(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that is absent is named; one that lacks another says which."""
    (tmp_path / "lacking_program.py").write_text("import absent_of_all\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(ProgramLoadError, match="there is no module 'no_such_thing'"):
        load_program("no_such_thing:p")
    with pytest.raises(ProgramLoadError, match="No module named 'absent_of_all'"):
        load_program("lacking_program:p")
