"""Replay: what a row was answered in an earlier run is not sent again."""

import itertools
import json
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sglrun import ProgramState, function, gen, select
from sglrun.backends.base import Request, SelectRequest
from sglrun.backends.mock import MockBackend
from sglrun.backends.secrets import Secrets
from sglrun.batch.durable import DurableOutput
from sglrun.batch.durable_options import DurableOptions
from sglrun.batch.options import BatchOptions
from sglrun.batch.records import render_record
from sglrun.batch.rows import Row
from sglrun.batch.runner import BatchRunner
from sglrun.batch.summary import RunSummary
from sglrun.errors import BadRequestError, ResultsError
from sglrun.interpreter.program import Program

WAIT_S = 20.0


class CutOffError(Exception):
    """Stands for the end of the process."""


class Job:
    """One command that can be given again, on a model that never says a thing twice.

    Attributes:
        refused: texts; a prompt that ends so is refused.
        waiting: texts; a prompt that ends so is not answered before the run is over.
        notes: what a user was told.
    """

    def __init__(self, folder: Path, program: object) -> None:
        assert isinstance(program, Program)
        self.out = folder / "out.jsonl"
        self.steps = folder / "out.jsonl.steps"
        self.program = program
        self.refused: tuple[str, ...] = ()
        self.waiting: tuple[str, ...] = ()
        self.notes: list[str] = []
        self.identity = {"model": "m1"}
        self.asked: list[str] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._over = threading.Event()

    def run(
        self, *questions: object, threads: int = 8, **options: Any
    ) -> tuple[list[str], RunSummary]:
        """Run the command; return what was asked, prompts or options, and the summary.

        Raises:
            CutOffError: every row is done, or waits.
        """
        rows = [row_of(index, q) for index, q in enumerate(questions)]
        self.asked, self._over = [], threading.Event()
        self._left = threading.Semaphore(0)
        durable = DurableOptions(
            identity=self.identity, on_note=self.notes.append, **options
        )
        backend = MockBackend(self._answer, scores=self._scores)
        sizes = BatchOptions(num_threads=threads, order="completion", precache=False)
        try:
            with (
                DurableOutput(str(self.out), render_record, durable) as output,
                BatchRunner(self.program, backend, sizes, steps=output.steps) as runner,
            ):
                self.results: list[Any] = []
                left = list(output.remaining(rows))
                watch = threading.Thread(target=self._cut_off, args=(runner, len(left)))
                if self.waiting:
                    watch.start()
                for results in runner.batches(left):
                    output.append(results)
                    self.results.extend(results)
                    for _ in results:
                        self._left.release()
                if self.waiting:
                    watch.join()
                    raise CutOffError
                output.finish(runner.summary())
                return self.asked, runner.summary()
        finally:
            self._over.set()

    @property
    def records(self) -> list[dict[str, Any]]:
        """The complete results."""
        return [json.loads(line) for line in self.out.read_bytes().splitlines()]

    def _cut_off(self, runner: BatchRunner, rows: int) -> None:
        for _ in range(rows):
            assert self._left.acquire(timeout=WAIT_S)
        runner.close()

    def _answer(self, request: Request) -> list[str]:
        text = request.prompt.text
        with self._lock:
            self.asked.append(text)
        if text.endswith(self.waiting) and self.waiting:
            self._left.release()
            assert self._over.wait(WAIT_S)
        if text.endswith(self.refused) and self.refused:
            raise BadRequestError(f"refused: {text[-9:]}")
        with self._lock:
            return [f"<{next(self._numbers)}>" for _ in range(request.sampling.n)]

    def _scores(self, request: SelectRequest) -> Sequence[float]:
        with self._lock:
            self.asked.append(request.prompt.text)
            return [-float(next(self._numbers)) for _ in request.choices]


def row_of(index: int, question: object) -> Row:
    content = json.dumps({"q": question})
    return Row(
        index=index,
        line=index + 1,
        content=content.encode(),
        fields={"q": question},
        raw={"q": json.dumps(question)},
    )


def cut_off(job: Job, *questions: object, **options: Any) -> None:
    with pytest.raises(CutOffError):
        job.run(*questions, **options)


@function
def four(s: ProgramState, q: str) -> None:
    s += q
    for name in ("a", "b", "c", "d"):
        s += f" {name}?" + gen(name)


def test_a_failed_row_asks_only_what_follows(tmp_path: Path) -> None:
    """A row that was refused its third request asks the third and fourth next time."""
    job = Job(tmp_path, four)
    job.refused = (" c?",)
    asked, _ = job.run("q")
    job.refused = ()
    again, summary = job.run("q")

    assert [text[-2:] for text in asked] == ["a?", "b?", "c?"]
    assert again == ["q a?<0> b?<1> c?", "q a?<0> b?<1> c?<2> d?"]
    (record,) = job.records
    assert record["output"] == {"a": "<0>", "b": "<1>", "c": "<2>", "d": "<3>"}
    assert record["usage"]["requests"] == 4
    assert summary.usage.requests == summary.replayed == 2
    assert not job.steps.exists()


def test_a_row_that_is_cut_off_asks_only_what_follows(tmp_path: Path) -> None:
    """A row that waits for its third answer when all ends does the same."""
    job = Job(tmp_path, four)
    job.waiting = (" c?",)
    cut_off(job, "q")
    again_cut_off = job.asked
    cut_off(job, "q")
    job.waiting = ()
    again, _ = job.run("q")

    assert len(again_cut_off) == 3
    assert [text[-2:] for text in again] == ["c?", "d?"]
    assert job.records[0]["attempts"] == 1


def test_equal_requests_of_a_row_keep_their_order(tmp_path: Path) -> None:
    """A question that a row asks several times gets its answers in their order."""

    @function
    def same(s: ProgramState, q: str) -> None:
        said = []
        for _ in range(3):
            (branch,) = s.fork(1)
            branch += q + gen("a")
            said.append(branch["a"])
        s["said"] = said
        s += "end" + gen("end")

    job = Job(tmp_path, same)
    job.refused = ("end",)
    job.run("q")
    job.refused = ()
    again, _ = job.run("q")

    assert again == ["end"]
    assert job.records[0]["output"]["said"] == ["<0>", "<1>", "<2>"]


@pytest.mark.parametrize("turn", range(5))
def test_forks_that_race_get_their_own_answers(tmp_path: Path, turn: int) -> None:
    """Equal requests of forks get the answers that the same fork was given before.

    What only one fork asks afterwards, about its own answer, is found again.
    """
    gate = threading.Barrier(4)

    @function
    def forks(s: ProgramState, q: str) -> None:
        branches = s.fork(4)
        branches += q + gen("a")
        for number in range(4):
            branches[number] += f" {number}?" + gen("b")
        s["said"] = [(branch["a"], branch["b"]) for branch in branches]
        s += "end" + gen("end")

    job = Job(tmp_path, forks)
    numbers = iter([3, 1, 0, 2])

    def answer(request: Request) -> list[str]:
        if request.prompt.text == "q":
            gate.wait(WAIT_S)
        with job._lock:
            job.asked.append(request.prompt.text)
            if request.prompt.text == "end" and job.refused:
                raise BadRequestError("refused")
            if request.prompt.text == "q":
                return [f"<{(next(numbers) + turn) % 4}>"]
            return [f"to {request.prompt.text}"]

    job._answer = answer  # type: ignore[method-assign]
    job.refused = ("end",)
    job.run("q")
    (first,) = job.results
    job.refused = ()
    again, _ = job.run("q")

    assert again == ["end"]
    assert job.results[0].output["said"] == first.output["said"]


def test_samples_choices_and_scores_come_back(tmp_path: Path) -> None:
    """Several samples, a choice with its scores and log-probabilities are as before."""

    @function
    def many(s: ProgramState, q: str) -> None:
        s += q + gen("n", n=3, return_logprob=True)
        s += select("team", ["x", "y z"])
        s["meta"] = [s.get_meta_info("n"), s.get_meta_info("team")]
        s += "end" + gen("end")

    job = Job(tmp_path, many)
    job.refused = ("end",)
    job.run("q")
    (first,) = job.results
    job.refused = ()
    again, _ = job.run("q")

    assert len(again) == 1
    assert again[0].endswith("end")
    said = {name: job.results[0].output[name] for name in first.output}
    assert json.dumps(said) == json.dumps(first.output)


def test_equal_rows_take_each_answer_once(tmp_path: Path) -> None:
    """Of equal rows one that is finished keeps its answers to itself."""
    job = Job(tmp_path, four)
    job.run("q")
    job.waiting = (" b?",)
    cut_off(job, "q", "q", "q", "other")
    job.waiting = ()
    again, summary = job.run("q", "q", "q", "other")
    said = Counter(record["output"]["a"] for record in job.records)

    assert summary.replayed == 3
    assert len(again) == 3 * 3
    assert set(said.values()) == {1}


def test_finished_rows_leave_nothing_to_their_equals(tmp_path: Path) -> None:
    """A row that comes to the input as a further copy is asked for itself."""
    job = Job(tmp_path, four)
    job.refused = ("bad c?", "bad a?<0> b?<1> c?")
    job.run("bad")
    job.refused = ()
    job.run("bad")
    again, summary = job.run("bad", "bad")

    assert len(again) == 4
    assert summary.replayed == 0


def test_a_copy_of_a_row_that_was_finished_after_a_replay(tmp_path: Path) -> None:
    """What a finished row had taken is not taken again by a later run."""
    job = Job(tmp_path, four)
    job.waiting = (" c?",)
    cut_off(job, "q")
    job.waiting = ("never a?",)
    cut_off(job, "q", "never")
    job.waiting = ()
    again, _ = job.run("q", "q", "never")
    said = [record["output"]["b"] for record in job.records]

    assert len(again) == 4 + 4
    assert len(set(said)) == 3


def test_an_answer_that_fails_its_row_is_asked_for_again(tmp_path: Path) -> None:
    """A row that fails over what it was answered is asked anew, all of it."""

    @function
    def picky(s: ProgramState, q: str) -> None:
        s += q + gen("a")
        s += " b?" + gen("b")
        if s["b"] != "<3>":
            raise ValueError(f"{s['b']} is wrong")

    job = Job(tmp_path, picky)
    job.run("q")
    (failed,) = job.records
    again, summary = job.run("q")

    assert failed["error"]["type"] == "ValueError"
    assert again == ["q", "q<2> b?"]
    assert job.records[0]["output"] == {"a": "<2>", "b": "<3>"}
    assert job.records[0]["usage"]["requests"] == 2
    assert summary.replayed == 0
    assert not job.steps.exists()


def test_a_row_that_fails_for_another_reason_is_not_asked_again(tmp_path: Path) -> None:
    """A row whose code fails, and does not the next time, has all its answers."""
    place = tmp_path / "tool"

    @function
    def tool(s: ProgramState, q: str) -> None:
        s += q + gen("a") + " b?" + gen("b")
        s["tool"] = place.read_text()

    job = Job(tmp_path, tool)
    job.run("q")
    place.write_text("fine")
    again, summary = job.run("q")

    assert again == []
    assert summary.replayed == 2
    assert job.records[0]["output"] == {"a": "<0>", "b": "<1>", "tool": "fine"}


@function
def one(s: ProgramState, q: str) -> None:
    s += q + gen("a")


def test_rows_that_ask_once_keep_nothing(tmp_path: Path) -> None:
    """Once a row has ended with its first answer, no first answers are kept."""
    job = Job(tmp_path, one)
    job.waiting = ("q3",)
    cut_off(job, "q0", "q1", "q2", "q3", threads=1)

    assert job.steps.read_bytes().count(b"\n") == 1

    job.waiting = ()
    again, _ = job.run("q0", "q1", "q2", "q3")

    assert again == ["q3"]
    assert not job.steps.exists()


def test_a_first_answer_is_kept_when_more_is_asked(tmp_path: Path) -> None:
    """A row that asks more than others did loses nothing."""

    @function
    def some(s: ProgramState, q: str) -> None:
        s += q + gen("a")
        if q == "more":
            s += " b?" + gen("b")

    job = Job(tmp_path, some)
    job.refused = (" b?",)
    job.run("q0", "q1", "more", threads=1)
    job.refused = ()
    again, _ = job.run("q0", "q1", "more")

    assert again == ["more<2> b?"]


def test_the_only_answer_of_a_row_that_fails_is_kept(tmp_path: Path) -> None:
    """A row that fails after its one answer, unlike others, has it the next time."""
    place = tmp_path / "tool"

    @function
    def tool(s: ProgramState, q: str) -> None:
        s += q + gen("a")
        if q == "tool":
            s["tool"] = place.read_text()

    job = Job(tmp_path, tool)
    job.run("q0", "tool", threads=1)
    place.write_text("fine")
    again, _ = job.run("q0", "tool")

    assert again == []


def test_without_replay_all_is_asked_again(tmp_path: Path) -> None:
    """Switched off, nothing is kept, and what was kept is not used."""
    job = Job(tmp_path, four)
    job.refused = (" c?",)
    job.run("q")

    assert job.steps.exists()

    again, _ = job.run("q", replay=False)

    assert len(again) == 3
    assert not job.steps.exists()

    again, _ = job.run("q")

    assert len(again) == 3


def test_a_secret_is_not_kept(tmp_path: Path) -> None:
    """An answer that holds a key is asked for again rather than written."""

    def answer(request: Request) -> str:
        if request.prompt.text.endswith("c?"):
            raise BadRequestError("no")
        return "sk-SECRET-1" if request.prompt.text.endswith("a?") else "fine"

    job = Job(tmp_path, four)
    job._answer = answer  # type: ignore[method-assign, assignment]
    job.run("q", secrets=Secrets(["sk-SECRET-1"]))

    assert b"SECRET" not in job.steps.read_bytes()
    assert job.steps.read_bytes().count(b"fine") == 1


def test_answers_that_cannot_be_written_fail_no_row(tmp_path: Path) -> None:
    """Where no answers can be kept rows go on, and a note tells, once."""
    job = Job(tmp_path, four)

    def answer(request: Request) -> str:
        del request
        if not job.steps.is_symlink():
            job.steps.symlink_to(tmp_path / "absent" / "steps")
        return "fine"

    job._answer = answer  # type: ignore[method-assign, assignment]
    job.run("q", "r", threads=1)

    assert [record["status"] for record in job.records] == ["ok", "ok"]
    assert len([note for note in job.notes if "No such file" in note]) == 1


def test_answers_of_another_model_are_refused(tmp_path: Path) -> None:
    """Where no row is finished and answers are kept, another model is refused."""
    job = Job(tmp_path, four)
    job.waiting = (" c?",)
    cut_off(job, "q")
    job.waiting = ()
    job.identity = {"model": "m2"}
    with pytest.raises(ResultsError, match="model: m1 → m2"):
        job.run("q")
    again, _ = job.run("q", overwrite=True)

    assert len(again) == 4


def test_answers_of_nobody_are_dropped(tmp_path: Path) -> None:
    """Answers of which no manifest tells what they are made of are not used."""
    job = Job(tmp_path, four)
    job.refused = (" c?",)
    job.run("q")
    job.refused = ()
    job.out.unlink()
    job.out.with_name("out.jsonl.run.json").unlink()
    again, _ = job.run("q")

    assert len(again) == 4


def test_answers_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a crash leaves of the answers, whole ones are used and others asked."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("os.fdatasync", lambda _: None)
    job = Job(tmp_path, four)
    job.waiting = (" c?",)
    cut_off(job, "q", "r")
    job.waiting = ()
    saved = {path: path.read_bytes() for path in tmp_path.iterdir()}
    whole = saved[job.steps]
    for size in (*range(0, len(whole), 11), len(whole)):
        for path in tmp_path.iterdir():
            path.unlink()
        for path, content in saved.items():
            path.write_bytes(content)
        job.steps.write_bytes(whole[:size])
        again, summary = job.run("q", "r", threads=1)
        kept = whole[:size].count(b"\n")

        assert len(again) == 8 - summary.replayed
        # A second answer is of use after the first alone.
        assert kept - 1 <= summary.replayed <= kept
        assert [record["status"] for record in job.records] == ["ok", "ok"]
