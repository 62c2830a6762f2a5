"""The log, and warnings, in a real process."""

import json
from pathlib import Path

import pytest

from tests.cli.process import sglrun
from tests.stand_in import StandIn

PROGRAM = """\
import warnings
import sglrun as sgl

@sgl.function
def p(s, q):
    s += q + sgl.gen("a")
    if q == "bad":
        warnings.warn("the author's own")
"""
ROWS = '{"q": "good"}\n{"q": "bad"}\n'
UNKNOWN = "sglrun: warning: no chat template is known for the model 'x/none'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program, and rows that have three names."""
    (tmp_path / "p.py").write_text(PROGRAM, "utf-8")
    (tmp_path / "in.jsonl").write_text(ROWS, "utf-8")
    (tmp_path / "link").symlink_to("in.jsonl")
    (tmp_path / "hard").hardlink_to(tmp_path / "in.jsonl")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "log"),
    [
        *(
            ("batch p.py in.jsonl -o out", log)
            for log in (
                *("in.jsonl", "./in.jsonl", "link", "hard", "p.py"),
                *("out", "out.part", "out.run.json", "out.steps"),
            )
        ),
        ("batch p.py:p in.jsonl", "p.py"),
        ("run p.py q=1", "p.py"),
        ("trace p.py in.jsonl", "in.jsonl"),
        ("trace p.py", "p.py"),
        ("script p.py", "p.py"),
    ],
)
def test_the_log_is_no_file_of_the_command(folder: Path, words: str, log: str) -> None:
    """A log that would be written into what the command uses is refused first."""
    name, *rest = words.split()
    run = sglrun(name, "-b", "mock", "--log-file", log, *rest, folder=folder)

    assert run.returncode == 2
    assert run.stderr.startswith(f"sglrun: error: --log-file: {log!r} is what the")
    assert (folder / "p.py").read_text("utf-8") == PROGRAM
    assert (folder / "in.jsonl").read_text("utf-8") == ROWS
    assert len(list(folder.iterdir())) == 4


def test_a_device_can_be_log_and_input(folder: Path) -> None:
    """What nobody reads back can be named twice."""
    run = sglrun(
        *("batch", "p.py", "/dev/null", "-b", "mock", "--log-file", "/dev/null"),
        folder=folder,
    )

    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("first", "variables"),
    [
        ("", {"PYTHONWARNINGS": "error"}),
        ("import warnings; warnings.simplefilter('error')\n", {}),
    ],
)
def test_a_filter_makes_errors_of_the_authors_warnings_alone(
    folder: Path, stand_in: StandIn, first: str, variables: dict[str, str]
) -> None:
    """With warnings as errors, sglrun's own are notes, and the author's fail rows."""
    stand_in.model.kind = "sglang"
    (folder / "p.py").write_text(first + PROGRAM, "utf-8")
    run = sglrun(
        *("batch", "p.py", "in.jsonl", "-b", "sglang", "--url", stand_in.url),
        folder=folder,
        **variables,
    )
    good, bad = map(json.loads, run.stdout.splitlines())

    assert run.returncode == 1
    assert run.stderr.count(UNKNOWN) == 1
    assert good["status"] == "ok"
    assert bad["error"]["message"] == "the author's own"


@pytest.mark.parametrize("filters", ["error", "default"])
def test_every_command_says_warnings_alike(
    folder: Path, stand_in: StandIn, filters: str
) -> None:
    """The doctor and the check of rows say a warning as a line of their own."""
    stand_in.model.kind = "sglang"
    (folder / "p.py").write_text(f"{PROGRAM}\np.run(q='1')\n", "utf-8")
    doctor = sglrun(
        *("doctor", "-b", "sglang", "--url", stand_in.url),
        folder=folder,
        PYTHONWARNINGS=filters,
    )
    check = sglrun("check", "p.py", "in.jsonl", folder=folder, PYTHONWARNINGS=filters)

    assert (doctor.returncode, check.returncode) == (0, 0)
    assert doctor.stderr.startswith(UNKNOWN)
    assert check.stderr.startswith("sglrun: warning: p.py runs 'p' while it is loaded")
    assert doctor.stderr.count("\n") == 1
