"""Keys and passwords, which reach nothing that is written, whatever goes wrong."""

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.cli.process import sglrun
from tests.stand_in import Fault, Handler, StandIn, raw, status

KEY = "sk-S3CRET/+0123456789abcdef"
USER, PASSWORD = "alice", "pa+ss/w0rd-of-alice"
LOGIN = f"{USER}:{quote(PASSWORD, safe='')}"
OTHER = "tok-0therS3CRET9876"
PROXY = "pr0xy-pass-word"

ASKS = """
import sglrun as sgl

@sgl.function
def prog(s, q):
    s += sgl.user("Question: " + q)
    s += sgl.assistant(sgl.gen("a", max_tokens=8))
    s += sgl.user("It was " + s["a"])
"""
SHOWS_ALL = """
import os, sys, warnings
import sglrun as sgl

print(dict(os.environ))
print(dict(os.environ), file=sys.stderr)
warnings.warn(str(dict(os.environ)))

@sgl.function
def prog(s, q):
    print(os.environ["OPENAI_API_KEY"])
    s["keys"] = dict(os.environ)
    raise ValueError(f"no luck with {dict(os.environ)}")
"""
BREAKS = """
import os
raise ValueError(f"no luck with {dict(os.environ)}")
"""
HAS_A_KEY_OF_ITS_OWN = f"""
import sglrun as sgl

sgl.set_default_backend(sgl.OpenAI("m", api_key="{OTHER}", base_url="URL"))
{ASKS}
"""


def written_forms() -> Iterator[str]:
    """Yield how the secrets would be written."""
    for secret in (KEY, PASSWORD, OTHER, PROXY, f"{USER}:{PASSWORD}"):
        yield secret
        yield quote(secret, safe="")
        yield base64.b64encode(secret.encode()).decode().rstrip("=")
        yield json.dumps(secret)[1:-1]
    yield KEY[:12]
    yield OTHER[:12]


def everything_written(folder: Path, *streams: str) -> str:
    """Return all that was written, but for what the user has written himself."""
    given = {"prog.py", "in.jsonl"}
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join(
        [
            *streams,
            *(path.read_text("utf-8") for path in files if path.name not in given),
        ]
    )


def echo_headers(handler: Handler) -> None:
    """Refuse a request, and say what it was."""
    said = "; ".join(f"{name}: {value}" for name, value in handler.headers.items())
    handler.send_json(400, {"error": {"message": f"what is this: {said}"}})


def answer(text: str) -> Fault:
    """Return a server's answer that is all right."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return status(200, {"choices": [choice], "usage": {"total_tokens": 3}})


FAULTS: dict[str, Fault] = {
    "401": status(401, {"error": {"message": f"Incorrect API key: {KEY}"}}),
    "400 with the headers": echo_headers,
    "400 cut in the key": raw(400, b"x" * 180 + KEY.encode(), "text/plain"),
    "400 escaped": status(400, {"error": f"see /?key={quote(KEY, safe='')}"}),
    "503": status(503, {"error": f"not now, {OTHER}"}),
    "500 page": raw(500, f"<html><title>{KEY}</title>".encode(), "text/html"),
    "redirect": status(302, "", Location=f"http://elsewhere/?key={KEY}"),
    "no JSON": raw(200, b"y" * 180 + KEY.encode()),
    "no choices": status(200, {"what": f"{KEY}", "you": OTHER}),
    "an answer": answer(f"The key is {KEY}, the password {PASSWORD}, too: {OTHER}"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program and two rows."""
    (tmp_path / "prog.py").write_text(ASKS, "utf-8")
    (tmp_path / "in.jsonl").write_text('{"q": "1"}\n{"q": "2"}\n', "utf-8")
    return tmp_path


def run_with_secrets(folder: Path, command: str, *words: str) -> tuple[int, str]:
    """Run *command* with secrets in all places; return its code and all it wrote."""
    files: Sequence[str] = ("-o", "out.jsonl") if command == "batch" else ()
    files = () if command == "doctor" else (*files, "--log-file", "log.txt", "-v")
    run = sglrun(
        *(command, *words, *files, "--header", f"X-Auth: Bearer {OTHER}"),
        folder=folder,
        OPENAI_API_KEY=KEY,
        HTTPS_PROXY=f"http://bob:{PROXY}@127.0.0.1:9",
        NO_PROXY="127.0.0.1",
        PYTHONDONTWRITEBYTECODE="1",
    )
    return run.returncode, everything_written(folder, run.stdout, run.stderr)


def assert_no_secret(text: str) -> None:
    """Check that none is in *text*."""
    assert [form for form in written_forms() if form in text] == []


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_server_repeats_is_not_written(folder: Path, fault: str) -> None:
    """No answer brings a secret into results, journal, manifest, log or messages."""
    with StandIn() as server:
        server.fail_always(FAULTS[fault], path="/v1/chat/completions")
        url = server.url.replace("//", f"//{LOGIN}@") + "/v1"
        code, written = run_with_secrets(
            folder,
            *("batch", "prog.py", "in.jsonl", "-b", "openai", "--url", url),
            *("--model", "m", "--retries", "1", "--include", "messages"),
        )

    assert_no_secret(written)
    assert "***" in written
    assert code in {0, 1, 3}
    assert "Traceback" not in written or code == 3
    assert "sglrun batch" in written  # the manifest is there
    assert "prog.py" in written


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (f"http://{LOGIN}@127.0.0.1:9/v1", 3),
        (f"http://{LOGIN}@127.0.0.1:none/v1", 2),
        (f"ftp://{LOGIN}@127.0.0.1/v1", 2),
        (f"http://{LOGIN}@127.0.0.1:9/v1?key={OTHER}&x=1", 3),
        (f"https://{LOGIN}@api.example.invalid/v1", 3),
    ],
)
@pytest.mark.parametrize("command", ["batch", "run", "doctor"])
def test_an_address_is_told_without_its_password(
    folder: Path, command: str, url: str, code: int
) -> None:
    """Neither that of the server nor that of a proxy on the way is shown."""
    words = {"batch": ("prog.py", "in.jsonl"), "run": ("prog.py", "q=1"), "doctor": ()}
    found, written = run_with_secrets(
        folder, command, *words[command], "-b", "openai", "--url", url, "--model", "m"
    )

    assert found == code
    assert_no_secret(written)


@pytest.mark.parametrize("program", [SHOWS_ALL, BREAKS])
@pytest.mark.parametrize("command", ["batch", "run"])
def test_what_a_program_shows_has_no_keys(
    folder: Path, command: str, program: str
) -> None:
    """A program that shows its whole environment does not show the keys in it."""
    (folder / "prog.py").write_text(program, "utf-8")
    words = {"batch": ("prog.py", "in.jsonl"), "run": ("prog.py", "q=1")}
    code, written = run_with_secrets(folder, command, *words[command], "-b", "mock")

    assert code in {1, 2}
    assert "no luck with" in written
    assert "***" in written
    assert_no_secret(written)


def test_a_key_in_the_program_is_one_too(folder: Path) -> None:
    """A backend that the program makes has its key known as soon as it is used."""
    with StandIn() as server:
        program = HAS_A_KEY_OF_ITS_OWN.replace("URL", f"{server.url}/v1")
        (folder / "prog.py").write_text(program, "utf-8")
        server.fail_always(answer(f"It is {OTHER}"), path="/v1/chat/completions")
        run = sglrun(
            *("batch", "prog.py", "in.jsonl", "-o", "out.jsonl", "-v"),
            folder=folder,
            PYTHONDONTWRITEBYTECODE="1",
        )

    assert run.returncode == 0
    assert '"It is ***"' in (folder / "out.jsonl").read_text("utf-8")
    assert_no_secret(everything_written(folder, run.stdout, run.stderr))


def test_a_short_key_changes_nothing(folder: Path) -> None:
    """Where a word stands for a key that is not needed, results have that word."""
    (folder / "in.jsonl").write_text('{"q": "EMPTY running", "x": "x"}\n', "utf-8")
    for _ in range(2):
        run = sglrun(
            *("batch", "prog.py", "in.jsonl", "-o", "out.jsonl", "-b", "mock"),
            *("--header", "X-Api-Key: x", "--header", "X-Team: complete"),
            folder=folder,
            OPENAI_API_KEY="EMPTY",
        )

        assert run.returncode == 0
        (line,) = (folder / "out.jsonl").read_text("utf-8").splitlines()
        assert json.loads(line)["output"]["a"] == "answer to Question: EMPTY running"
        assert json.loads(line)["row"] == {"x": "x"}

    manifest = json.loads((folder / "out.jsonl.run.json").read_text("utf-8"))
    assert manifest["state"] == "complete"
    assert (
        "--header 'X-Api-Key: ***' --header 'X-Team: ***'"
        in (manifest["about"]["command"])
    )
