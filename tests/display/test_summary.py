"""The closing summary."""

import json

import pytest

from sglrun.backends.base import Usage
from sglrun.batch.plan import Plan
from sglrun.batch.prices import Prices
from sglrun.batch.results import ErrorInfo
from sglrun.batch.summary import RunSummary
from sglrun.display.complaints import Complaints
from sglrun.display.summary import Outcome, as_event, render
from sglrun.errors import RunStoppedError

PLAN = Plan(
    text="x" * 412,
    tokens=96,
    ended_by="the argument 'ticket'",
    where="triage.py:10",
    usage=Usage(requests=1, prompt_tokens=96),
)
USAGE = Usage(
    requests=1770,
    prompt_tokens=1_200_000,
    cached_tokens=1_040_000,
    completion_tokens=31_200,
)


def complaints() -> Complaints:
    """Return the complaints of 15 rows."""
    found = Complaints()
    for tokens in range(9000, 9012):
        found.add(
            ErrorInfo(
                type="BadRequestError",
                message=f"http://gpu:30000/generate answered 400: {tokens} tokens are "
                "more than the model takes",
                where="triage.py:12",
            )
        )
    for _ in range(3):
        found.add(ErrorInfo(type="ValueError", message="boom", where="triage.py:20"))
    return found


WHOLE = Outcome(
    summary=RunSummary(
        ok=985,
        failed=15,
        usage=USAGE,
        plan=PLAN,
        cut=12,
        seconds=83,
        prices=Prices(prompt=0.5, completion=20),
        lost=Usage(requests=2),
    ),
    resumed=120,
    complaints=complaints(),
    output="out.jsonl",
    resumable=True,
)


def lines(outcome: Outcome, *, width: int = 80, color: bool = False) -> list[str]:
    """Return the summary's lines."""
    return list(render(outcome, width=width, color=color))


def test_the_summary_tells_the_run() -> None:
    """Rows, tokens, prefix, cuts, errors and output are told in a few lines."""
    assert lines(WHOLE) == [
        "sglrun: 1,120 rows in 1:23, 12.0/s: 985 ok, 15 failed, 120 done before",
        "  requests 1,771",
        "  tokens   1.20M prompt (1.04M cached, 86%), 31.2k completion; cost 1.2240,",
        "           0.001224 a row",
        ("  prefix   96 tokens shared by all rows, read once; cached: 170k predicted,"),
        ("           1.04M measured, 1.04M saved; ends at triage.py:10: the argument"),
        "           'ticket'",
        "  cut      12 generations reached the token limit (finish_reason length)",
        (
            "  lost     2 requests broke off or timed out; later answers were not "
            "read, but"
        ),
        "           may have to be paid",
        ("  errors   12 x BadRequestError (triage.py:12): http://gpu:30000/generate"),
        "           answered 400: 9000 tokens are more than the model takes",
        "           3 x ValueError (triage.py:20): boom",
        "  output   out.jsonl; the same command again retries the failed rows",
    ]


def test_a_clean_run_is_told_in_three_lines() -> None:
    """What did not happen is not told."""
    summary = RunSummary(ok=2, usage=Usage(requests=2, prompt_tokens=300), seconds=1)

    assert lines(Outcome(summary=summary)) == [
        "sglrun: 2 rows in 1.0 s, 2.0/s: 2 ok",
        "  requests 2",
        "  tokens   300 prompt (0 cached, 0%), 0 completion",
    ]


def test_nothing_left_to_do_is_one_line() -> None:
    """A run that was complete already says so without figures of its own."""
    outcome = Outcome(summary=RunSummary(), resumed=7)

    assert lines(outcome) == ["sglrun: already complete: 7 rows done before"]


@pytest.mark.parametrize("width", [30, 80, 120])
def test_lines_fit_the_terminal(width: int) -> None:
    """No line but an endless word is wider than the terminal."""
    assert all(len(line) <= width for line in lines(WHOLE, width=width)[1:])


def test_colour_changes_no_word() -> None:
    """Painted lines are the plain ones with escapes between."""
    painted = "\n".join(lines(WHOLE, color=True))
    for code in ("0", "1", "2", "31"):
        painted = painted.replace(f"\x1b[{code}m", "")

    assert painted == "\n".join(lines(WHOLE))


def test_a_stopped_run_says_how_to_go_on() -> None:
    """A run that ended early and is durable tells that it resumes."""
    summary = RunSummary(ok=1, seconds=1, stopped_by=RunStoppedError("stop"))
    told = lines(Outcome(summary=summary, output="o.jsonl", resumable=True))

    assert told[-1] == "  output   o.jsonl; the same command again goes on from here"


def test_errors_of_one_kind_are_counted_together() -> None:
    """Numbers in a message make no other kind; class and file do."""
    found = Complaints()
    for number in range(5):
        found.add(ErrorInfo(type="E", message=f"row {number}", where=f"a.py:{number}"))
    found.add(ErrorInfo(type="F", message="row 1", where="a.py:1"))

    assert [(item.first.type, item.count) for item in found.most_common(9)] == [
        ("E", 5),
        ("F", 1),
    ]


def test_the_kinds_kept_are_bounded() -> None:
    """A run whose every row fails differently does not grow."""
    found = Complaints()
    for number in range(1500):
        word = "".join(chr(97 + int(digit)) for digit in str(number))
        found.add(ErrorInfo(type="E", message=word))

    assert (len(found), found.others) == (1000, 500)


def test_the_event_is_json() -> None:
    """The last of the JSON lines holds the same facts."""
    event = json.loads(json.dumps(as_event(WHOLE)))

    assert event["event"] == "summary"
    assert (event["ok"], event["failed"], event["resumed"]) == (985, 15, 120)
    assert event["errors"][0]["count"] == 12
    assert event["exit_code"] == 1


def test_a_server_that_tells_no_cached_tokens_is_told_so() -> None:
    """Nothing measured is said, and no saving is made up."""
    plan = Plan(text="x" * 400, tokens=100, usage=Usage(requests=1, prompt_tokens=100))
    usage = Usage(requests=3, prompt_tokens=600)
    summary = RunSummary(ok=3, usage=usage, plan=plan, seconds=1)

    told = lines(Outcome(summary=summary), width=120)

    assert told[3].endswith("read once; cached: 300 predicted, none measured")


def test_machines_read_what_the_prefix_saved() -> None:
    """The event and the manifest tell prediction, measure and saving."""
    plan = Plan(
        text="x" * 400,
        tokens=100,
        usage=Usage(requests=1, prompt_tokens=100, cached_tokens=20),
    )
    usage = Usage(requests=3, prompt_tokens=600, cached_tokens=310)
    summary = RunSummary(ok=3, usage=usage, plan=plan, seconds=1)
    event = as_event(Outcome(summary=summary))

    assert event["predicted_cached_tokens"] == 300
    assert event["cached_tokens"] == 310
    assert event["saved_tokens"] == 310 - 80
    assert summary.facts()["saved_tokens"] == event["saved_tokens"]
