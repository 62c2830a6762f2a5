"""The nearest: what is done instead of what a backend cannot do, and its words."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.base import (
    Capabilities,
    Completion,
    Request,
    Sample,
    SelectRequest,
    Usage,
)
from sglrun.backends.mock import MockBackend
from sglrun.batch.nearest import (
    APPROXIMATIONS,
    CHECKED,
    FRAMES,
    LEFT_OUT,
    WRITTEN,
    check_nearest,
    nearest,
    nearest_choice,
)
from sglrun.batch.options import BatchOptions
from sglrun.batch.records import render_record
from sglrun.batch.results import RowResult
from sglrun.batch.rows import Row
from sglrun.batch.runner import BatchRunner
from sglrun.errors import ResponseError, RunStoppedError
from sglrun.lang.prompt import Prompt, VideoData
from sglrun.lang.sampling import DEFAULTS, SamplingParams

LITTLE = Capabilities(
    regex=False,
    json_schema=False,
    choice_scores=False,
    unsupported_sampling=frozenset({"seed", "top_k", "stop_regex"}),
)


def request(**sampling: object) -> Request:
    asked = SamplingParams.of(**sampling).over(DEFAULTS)
    return Request(prompt=Prompt(text="P"), sampling=asked)


def test_what_only_guides_drawing_is_left_out() -> None:
    """A seed goes and is named; a default that is said, and all the rest, stays."""
    near = nearest(LITTLE, request(seed=3, top_k=-1, temperature=0.5, stop_regex="x"))

    assert near.said == ("seed=3: left out",)
    assert near.request == request(temperature=0.5, stop_regex="x")


def test_what_can_be_done_is_done() -> None:
    """Nothing is named where nothing is left out."""
    asked = request(seed=3, regex="[0-9]+")
    near = nearest(Capabilities(), asked)

    assert near.request is asked
    assert near.said == ()


@pytest.mark.parametrize(
    ("asked", "fits", "not_fit"),
    [
        (request(regex="[0-9]+"), "42", "four"),
        (request(json_schema='{"type": "object"}'), "{}", "none"),
    ],
)
def test_a_constraint_is_checked_afterwards(
    asked: Request, fits: str, not_fit: str
) -> None:
    """It is asked without, and a text that does not fit is an error."""

    def completion(text: str) -> Completion:
        return Completion(
            samples=(Sample(text=text, finish_reason="stop"),), usage=Usage()
        )

    near = nearest(LITTLE, asked)

    assert near.request.sampling == DEFAULTS
    assert len(near.said) == 1
    check_nearest(asked, near.request, completion(fits))
    with pytest.raises(ResponseError, match="wrote"):
        check_nearest(asked, near.request, completion(not_fit))


@pytest.mark.parametrize("more", [{"unconditional": True}, {"needs_scores": True}])
def test_a_choice_that_needs_scores_is_written(more: dict[str, Any]) -> None:
    """Without scores the option is the one that the model writes, and that is named."""
    plain = SelectRequest(prompt=Prompt(text="P"), choices=("a", "b"))
    asked = SelectRequest(prompt=Prompt(text="P"), choices=("a", "b"), **more)

    assert nearest_choice(LITTLE, asked) == (
        plain,
        f"{WRITTEN}, without its method or temperature",
    )
    assert nearest_choice(LITTLE, plain) == (plain, "")
    assert nearest_choice(Capabilities(), asked) == (asked, "")


def test_every_way_is_described() -> None:
    """The table for readers names each parameter that is left out or checked."""
    assert list(APPROXIMATIONS) == [
        "select",
        ", ".join(CHECKED),
        "num_frames",
        ", ".join(LEFT_OUT),
    ]


def test_the_server_takes_frames_as_it_does() -> None:
    """A number of frames that cannot be said is left out of every turn, and named."""
    film = VideoData(url="http://h/a.mp4", num_frames=4)
    asked = replace(request(), prompt=Prompt().with_role_begin("user").with_image(film))
    near = nearest(replace(LITTLE, videos=True), asked)

    assert near.said == (FRAMES,)
    assert near.request.prompt.videos == (VideoData(url="http://h/a.mp4"),)
    assert near.request.prompt.open_parts == near.request.prompt.videos
    assert nearest(replace(LITTLE, video_frames=True), asked).said == ()


def program(s: sgl.ProgramState, q: str) -> None:
    s += q + sgl.gen("a", regex="[a-z]+", seed=7) + "\n"
    s += sgl.select("b", ["x", "y"], temperature=0.7)


def run(
    body: Callable[..., object], *, approximate: bool
) -> tuple[list[RowResult], str, list[str]]:
    fields: Mapping[str, object] = {"q": "q"}
    raw = {"q": '"q"'}
    row = Row(index=0, line=1, content=b"{}", fields=fields, raw=raw)
    backend = MockBackend(lambda _: "word", capabilities=LITTLE)
    notes: list[str] = []
    options = BatchOptions(num_threads=1, approximate=approximate)
    results: list[RowResult] = []
    with BatchRunner(
        sgl.function(body), backend, options, on_note=notes.append
    ) as runner:
        try:
            results.extend(runner.results([row]))
        except RunStoppedError as exc:
            return results, str(exc), notes
    return results, "", notes


def test_a_run_names_in_each_result_what_is_not_exact() -> None:
    """With leave it runs; the record and the notes before it name each way."""
    results, stopped, notes = run(program, approximate=True)
    record = json.loads(render_record(results[0]))

    assert (stopped, record["status"]) == ("", "ok")
    assert record["approximations"] == [
        "seed=7: left out",
        "regex: checked, not held to",
        f"{WRITTEN}, without its method or temperature",
    ]
    assert [note.partition("test_nearest.py")[0] for note in notes] == [
        "not exact: "
    ] * 3


def test_without_leave_nothing_is_run() -> None:
    """The first thing that is not exact is refused, and no row has a result."""
    results, stopped, _ = run(program, approximate=False)

    assert results == []
    assert "cannot do regex='[a-z]+'" in stopped


def test_a_choice_without_scores_is_named_without_leave_too() -> None:
    """It is what a select means there; the record says so."""

    def choosing(s: sgl.ProgramState, q: str) -> None:
        s += q + sgl.select("b", ["x", "y"])

    results, stopped, notes = run(choosing, approximate=False)

    assert (stopped, results[0].approximations) == ("", (WRITTEN,))
    assert len(notes) == 1


@pytest.mark.parametrize(
    "made",
    [
        sgl.select("b", ["x", "y"], temperature=0.7),
        sgl.select("b", ["x"], choices_method="unconditional_likelihood_normalized"),
    ],
)
def test_a_choice_that_needs_scores_is_refused(made: object) -> None:
    """A draw, or a method of its own, is never dropped in silence."""

    def choosing(s: sgl.ProgramState, q: str) -> None:
        s += q
        s += made

    results, stopped, _ = run(choosing, approximate=False)

    assert results == []
    assert "no log-probabilities of options" in stopped
