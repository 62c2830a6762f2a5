"""The key of a run, told by a command."""

from pathlib import Path

import pytest

from sglrun.config import resolve_config
from sglrun.config.keys import KeyCommand
from sglrun.errors import ConfigError
from tests.cli.process import sglrun
from tests.stand_in import StandIn

KEY = "sk-told-by-a-command"


def command(text: str) -> KeyCommand:
    return KeyCommand(command=text, where="--api-key-command")


def test_a_command_is_run_once(tmp_path: Path) -> None:
    """Its stdout without white space is the key, however often it is asked for."""
    runs = tmp_path / "runs"
    (tmp_path / "key").write_text(f" {KEY}\n")
    told = command(f"sh -c 'echo x >>{runs}; cat {tmp_path}/key'")

    assert not runs.exists()
    assert [told.value, told.value] == [KEY, KEY]
    assert runs.read_text() == "x\n"
    assert KEY not in repr(told)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-such-program-here", "'no-such-program-here' cannot be run"),
        ("sh -c 'echo locked >&2; exit 3'", "'sh' ends with 3: locked"),
        ("false", "'false' ends with 1: it says nothing"),
        ("true", "'true' writes no key"),
    ],
)
def test_a_command_that_fails_is_named(text: str, message: str) -> None:
    """The setting, the program and what it said are in the error."""
    with pytest.raises(ConfigError, match=f"--api-key-command: .*{message}"):
        command(text).value  # noqa: B018 - it is found out here


def resolve(tmp_path: Path, *, folder: str = "", user: str = "", **options: str) -> str:
    """Return the key of a run with these files, in two folders."""
    for name, text in (("sglrun.yaml", folder), ("home/sglrun/config.yaml", user)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "home"), "MINE": "from-variable"}
    config = resolve_config(options, environment=environment, folder=tmp_path)
    assert config.backend_options.api_key is not None
    return config.backend_options.api_key.value


def test_the_users_file_may_name_a_command(tmp_path: Path) -> None:
    """A profile of one's own may have one, and an option is over it."""
    user = f"profiles: {{mine: {{backend: openai, api_key_command: echo {KEY}}}}}"

    assert resolve(tmp_path, user=user, backend="mine") == KEY
    assert (
        resolve(tmp_path, user=user, backend="mine", api_key_env="MINE")
        == "from-variable"
    )


@pytest.mark.parametrize("text", [" ", "sh 'unbalanced"])
def test_what_is_no_command_is_refused_at_once(tmp_path: Path, text: str) -> None:
    """Nothing, and a quote without its end, are no commands."""
    with pytest.raises(ConfigError, match="--api-key-command: what is given is not"):
        resolve(tmp_path, api_key_command=text)


@pytest.mark.parametrize(
    "text",
    [
        "batch: {api_key_command: touch x}",
        "profiles: {p: {api_key_command: touch x}}",
    ],
)
def test_the_file_of_a_folder_may_not(tmp_path: Path, text: str) -> None:
    """A folder from elsewhere must not run commands, so that is refused by name."""
    with pytest.raises(ConfigError, match=r"sglrun\.yaml:.*api_key_command: the file"):
        resolve(tmp_path, folder=text)


def test_two_sources_in_one_place_are_refused(tmp_path: Path) -> None:
    """A variable and a command at once leave open which is meant."""
    with pytest.raises(ConfigError, match="--api-key-command and --api-key-env"):
        resolve(tmp_path, api_key_command="echo x", api_key_env="MINE")


def test_a_key_is_sent_and_written_nowhere(tmp_path: Path) -> None:
    """In a real run the server gets the key; no file and no line has it."""
    with StandIn(api_key=KEY) as server:
        (tmp_path / "p.py").write_text(
            "import sglrun as sgl\n@sgl.function\ndef p(s, q):\n"
            "    s += q\n    s += sgl.gen('a')\n"
        )
        run = sglrun(
            *("batch", "p.py", "-", "-o", "out.jsonl", "-v", "--log-file", "log"),
            *("--url", f"{server.url}/v1", "--api-key-command", f"echo {KEY}"),
            folder=tmp_path,
            stdin='{"q": "hi"}\n',
        )

    written = [path.read_text() for path in tmp_path.iterdir() if path.is_file()]
    assert run.returncode == 0, run.stderr
    assert not [text for text in (run.stdout, run.stderr, *written) if KEY in text]
