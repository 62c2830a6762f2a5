"""The journal of answers."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglrun.backends.base import Completion, Request, Sample, Usage
from sglrun.batch.journal import unpack
from sglrun.batch.rows import Row
from sglrun.batch.steps import RowSteps, StepLog
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS
from tests.batch.test_durable import DAMAGE, Damage


def row_of(number: int) -> Row:
    return Row(index=number, line=number + 1, content=b"row %d" % number)


def request_of(text: object) -> Request:
    return Request(prompt=Prompt().with_text(str(text)), sampling=DEFAULTS)


def answer_of(text: object) -> Completion:
    sample = Sample(text=f"to {text}", finish_reason="stop")
    return Completion(samples=(sample,), usage=Usage(requests=1))


def ask(steps: RowSteps, *texts: object) -> list[str]:
    """Ask *texts* of a row; return those that are sent."""
    sent = []
    for text in texts:
        if steps.take(request_of(text)) is None:
            sent.append(str(text))
            steps.add(request_of(text), answer_of(text))
    return sent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A place for answers."""
    return tmp_path / "out.steps"


def opened(path: Path, room: int = 1 << 20) -> StepLog:
    log = StepLog(path, room=room)
    log.load()
    return log


def test_answers_are_found_by_another_process(path: Path) -> None:
    """Rows of an earlier run get their answers, interleaved as they were."""
    log = StepLog(path)
    rows = [log.begin(row_of(number)) for number in range(3)]
    for text in ("x", "y"):
        for steps in rows:
            ask(steps, text)
    log.close()
    log = opened(path)

    for number in (2, 0):
        assert ask(log.begin(row_of(number)), "x", "y", "z") == ["z"]
    assert ask(log.begin(row_of(7)), "x") == ["x"]
    log.close()


def test_what_finished_rows_leave_is_cleaned_away(path: Path) -> None:
    """The file does not grow with the rows that end, and those that do not stay."""
    log = StepLog(path, room=20_000)
    early = log.begin(row_of(10_000))
    ask(early, "x", "y")
    largest = 0
    for number in range(500):
        steps = log.begin(row_of(number))
        ask(steps, "x", "y")
        steps.end(ok=True)
        log.settle([steps.serial])
        largest = max(largest, path.stat().st_size)
    ask(early, "z")
    log.close()
    log = opened(path)

    assert largest < 60_000
    assert ask(log.begin(row_of(10_000)), "x", "y", "z", "end") == ["end"]
    log.close()


def test_rows_that_wait_outlast_a_cleaning(path: Path) -> None:
    """Answers of rows that this run has not come to yet are found after a cleaning."""
    log = StepLog(path)
    for number in (900, *range(50)):
        ask(log.begin(row_of(number)), "x", "y")
    log.close()
    log = opened(path, room=10_000)
    log.settle([log.begin(row_of(900)).serial])
    for number in range(100, 200):
        steps = log.begin(row_of(number))
        ask(steps, "x", "y")
        log.settle([steps.serial])

    assert all(ask(log.begin(row_of(n)), "x", "y") == [] for n in range(50))
    log.close()


def test_only_rows_that_failed_are_kept_at_the_end(path: Path) -> None:
    """At the end of a run what rows that are in no input any more had goes, too."""
    log = StepLog(path)
    for number in range(3):
        ask(log.begin(row_of(number)), "x", "y")
    log.close()
    log = opened(path)
    ended = [log.begin(row_of(number)) for number in (0, 1)]
    for steps in ended:
        ask(steps, "x", "y")
    log.settle([ended[0].serial])
    log.finish()
    log = opened(path)

    assert ask(log.begin(row_of(0)), "x") == ["x"]
    assert ask(log.begin(row_of(1)), "x", "y") == []
    assert ask(log.begin(row_of(2)), "x") == ["x"]
    log.close()


def test_nothing_is_left_of_a_run_without_failures(path: Path) -> None:
    """Where every row is finished there is no file."""
    log = StepLog(path)
    steps = log.begin(row_of(0))
    ask(steps, "x", "y")
    log.settle([steps.serial])

    assert path.exists()

    log.finish()

    assert not path.exists()
    assert ask(steps, "z") == ["z"]  # of a thread that is left over
    assert not path.exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(DAMAGE, st.sets(st.integers(0, 5)))
def test_whatever_is_left_no_answer_is_anothers(
    path: Path, damage: list[Damage], finished: set[int]
) -> None:
    """Answers whose lines are whole are given to their rows, and the others asked."""
    path.unlink(missing_ok=True)
    log = StepLog(path)
    rows = [log.begin(row_of(number)) for number in range(6)]
    for text in ("x", "y"):
        for steps in rows:
            ask(steps, text)
    log.close()
    left = bytearray(path.read_bytes())
    for change in damage:
        change(left)
    path.write_bytes(left)
    lines = [unpack(line + b"\n") for line in bytes(left).split(b"\n")[:-1]]
    whole = [entry for entry in lines if entry is not None]
    log = StepLog(path)
    log.settle(number + 1 for number in finished)
    log.load()
    sent = 0
    for number in range(6):
        steps = log.begin(row_of(number))
        for text in ("x", "y"):
            before = steps.take(request_of(text))
            sent += before is None
            assert before in (None, answer_of(text))
    log.close()

    assert sent == 12 - sum(entry.serial - 1 not in finished for entry in whole)
