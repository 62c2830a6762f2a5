"""Seeds: one for each thing that is drawn, made of the run's."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sglrun as sgl
from sglrun.backends.base import SelectRequest
from sglrun.backends.mock import MockBackend
from sglrun.interpreter.seeds import branch_seed, choice_seed
from sglrun.lang.prompt import ImageData, Prompt

ASKED = SelectRequest(prompt=Prompt(text="P\ud800"), choices=("a", "b"))


@given(st.integers(), st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple))
def test_a_branch_has_a_seed_that_servers_take(
    seed: int, branch: tuple[int, ...]
) -> None:
    """It is a number of 31 bits, whatever the run's is; outside it is the run's."""
    assert branch_seed(seed, ()) == seed
    assert 0 <= branch_seed(seed, branch) < 1 << 31


def test_branches_have_each_their_own() -> None:
    """No two branches share a seed, and neither do the branches of two runs."""
    branches = [(0,), (1,), (0, 0), (0, 1), (1, 0), (10,), (1, 0, 0)]
    seeds = {branch_seed(seed, branch) for seed in (7, 8) for branch in branches}

    assert len(seeds) == 2 * len(branches)


def test_seeds_are_the_same_in_every_process() -> None:
    """A resume draws what the run before it would have drawn."""
    assert branch_seed(7, (1,)) == 897407706
    assert choice_seed(7, ASKED) == 18138001197859143685


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, prompt=Prompt(text="Q")),
        replace(ASKED, prompt=ASKED.prompt.with_image(ImageData(data=b"x"))),
        replace(ASKED, choices=("a", "c")),
        replace(ASKED, branch=(0,)),
    ],
)
def test_another_choice_is_drawn_by_another_seed(other: SelectRequest) -> None:
    """Prompt, images, options and branch tell choices apart; the same has the same."""
    assert choice_seed(7, other) != choice_seed(7, ASKED)
    assert choice_seed(8, ASKED) != choice_seed(7, ASKED)
    assert choice_seed(7, replace(ASKED)) == choice_seed(7, ASKED)


def test_images_tell_choices_apart() -> None:
    """Two images after the same text draw independently."""
    one, other = (
        replace(ASKED, prompt=ASKED.prompt.with_image(ImageData(data=data)))
        for data in (b"x", b"y")
    )

    assert choice_seed(7, one) != choice_seed(7, other)


def test_without_a_seed_there_is_none() -> None:
    """A run without a seed draws each time anew."""
    assert choice_seed(None, ASKED) is None


@sgl.function
def voting(s: sgl.ProgramState) -> None:
    s += "Q" + sgl.gen("first")
    votes = s.fork(3)
    votes += sgl.gen("own", seed=5) + sgl.gen("vote")
    inner = votes[0].fork(2)
    inner += sgl.gen("inner")
    inner.join()
    votes.join()


def test_forks_of_a_seeded_run_draw_apart() -> None:
    """A branch has its own seed, in every run the same; a gen's own seed stays."""
    runs = []
    for _ in range(2):
        backend = MockBackend("x")
        voting.run(backend=backend, seed=11).text()
        runs.append({(r.branch, r.sampling.seed) for r in backend.requests})
    seeds = [seed for _, seed in runs[0] if seed != 5]

    assert runs[0] == runs[1]
    assert ((), 11) in runs[0]
    assert {branch for branch, seed in runs[0] if seed == 5} == {(0,), (1,), (2,)}
    assert len(set(seeds)) == len(seeds) == 6
