"""Rows 60 to 73: forks and joins."""

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend
from sglrun.errors import BadRequestError, ForkError
from tests.stand_in import StandIn


@pytest.fixture
def s(backend: Backend, stand_in: StandIn) -> sgl.ProgramState:
    """A state whose server answers with the last character of the prompt."""
    stand_in.model.answer = lambda prompt, _: f"<{prompt[-1:]}>"

    @sgl.function
    def bare(s: sgl.ProgramState) -> None:
        """Say nothing."""

    state: sgl.ProgramState = bare.run(backend=backend)
    return state


def test_row_060_fork_and_join(s: sgl.ProgramState) -> None:
    """The parent's variable is the list of the branches' values, its text as before."""
    s += "root"
    forks = s.fork(3)
    forks += lambda index: str(index) + sgl.gen("v")
    forks.join()

    assert s["v"] == ["<0>", "<1>", "<2>"]
    assert s.text() == "root"


def test_row_061_one_branch(s: sgl.ProgramState) -> None:
    """A fork of one gathers lists of one; a copy brings the plain value."""
    forks = s.fork(1)
    forks += "a" + sgl.gen("v")
    forks.join()
    with s.copy() as copied:
        copied += "b" + sgl.gen("w")  # noqa: PLW2901 - as authors write it

    assert (s["v"], s["w"]) == (["<a>"], "<b>")


def test_row_062_the_parent_has_it_already(s: sgl.ProgramState) -> None:
    """A variable that the parent had is gathered all the same."""
    s += "p" + sgl.gen("v")
    forks = s.fork(2)
    forks += ["a", "b"]
    forks += sgl.gen("v")
    forks.join()

    assert s["v"] == ["<a>", "<b>"]


def test_row_063_second_round(s: sgl.ProgramState) -> None:
    """The second round of the same name gives the second round's values."""
    for letters in ("ab", "cd"):
        forks = s.fork(2)
        forks += list(letters)
        forks += sgl.gen("v")
        forks.join()

    assert s["v"] == ["<c>", "<d>"]


def test_row_064_failing_branch(s: sgl.ProgramState) -> None:
    """The join raises which branch failed; its place in the list is a hole."""
    forks = s.fork(2)
    forks[0] += "boom" + sgl.gen("v")
    forks[1] += "ok" + sgl.gen("v")

    with pytest.raises(ForkError, match="branch 0 of a fork of 2") as caught:
        forks.join()

    assert isinstance(caught.value.__cause__, BadRequestError)
    assert s.variables() == {"v": [None, "<k>"]}
    assert s.error() is caught.value


def test_row_065_fork_in_role(s: sgl.ProgramState) -> None:
    """Each branch's message begins where the turn does."""
    s += sgl.assistant_begin() + "pre"
    forks = s.fork(2)
    forks += lambda index: str(index) + sgl.gen("v") + sgl.assistant_end()
    found = [branch.messages()[0]["content"] for branch in forks]
    s += sgl.assistant_end()

    assert found == ["pre0<0>", "pre1<1>"]


def test_row_066_meta_after_fork(s: sgl.ProgramState) -> None:
    """A branch knows the meta info of the parent's variables."""
    s += "p" + sgl.gen("a")
    (branch,) = s.fork()

    assert branch.get_meta_info("a")["finish_reason"] == {"type": "stop", "matched": 2}


def test_row_067_group_and_string(s: sgl.ProgramState) -> None:
    """A string goes to every branch."""
    forks = s.fork(2)
    forks += "t"

    assert [branch.text() for branch in forks] == ["t", "t"]


def test_row_068_group_and_each(s: sgl.ProgramState) -> None:
    """A function or a list gives one to each; a list that is too short says so."""
    forks = s.fork(2)
    forks += lambda index: f"{index}"
    forks += ["a", "b"]
    with pytest.raises(ValueError, match="1 expressions for 2 branches"):
        forks += ["a"]

    assert [branch.text() for branch in forks] == ["0a", "1b"]


def test_row_069_len(s: sgl.ProgramState) -> None:
    """A group knows how many branches it has."""
    assert len(s.fork(3)) == 3


def concatenated(s: sgl.ProgramState) -> str:
    s += "root"
    forks = s.fork(2)
    forks += lambda index: f" s{index}"
    forks.join("concate_and_append")
    s += " end" + sgl.gen("a")
    return s.text()


def test_row_070_concatenate(s: sgl.ProgramState) -> None:
    """What the branches said is appended as text."""
    assert concatenated(s) == "root s0 s1 end<d>"


def test_row_071_concatenate_with_parallel_encoding(
    s: sgl.ProgramState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a backend cannot join what it computed, the text is read and it is said."""
    monkeypatch.setattr(sgl.global_config, "enable_parallel_encoding", True)

    with pytest.warns(UserWarning, match="cannot join what it computed"):
        assert concatenated(s) == "root s0 s1 end<d>"


def test_row_072_bad_join_mode(s: sgl.ProgramState) -> None:
    """A mode that does not exist is refused by name."""
    with pytest.raises(ValueError, match="unknown join mode 'bogus'"):
        s.fork(2).join("bogus")


def test_row_073_branch_after_join(s: sgl.ProgramState) -> None:
    """A branch may go on after the join."""
    forks = s.fork(1)
    forks.join()
    forks[0] += "c" + sgl.gen("a")

    assert forks[0].text() == "c<c>"
