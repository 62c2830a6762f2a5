"""Servers that scripts start: in their place, the backend of the options."""

import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder

import pytest

import sglrun as sgl
from sglrun.backends.mock import MockBackend
from sglrun.errors import BackendUnavailableError, UnsupportedFeatureError
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang.lazy_backend import LazyBackend
from sglrun.interpreter.sglang.named_backends import RuntimeEndpoint
from sglrun.interpreter.sglang.runtime import free_port
from sglrun.interpreter.sglang.servers import (
    execute_shell_command,
    launch_server_cmd,
    reserve_port,
    terminate_process,
    wait_for_server,
)
from tests.stand_in import StandIn

COMMAND = "python -m sglang.launch_server --model-path m"


@pytest.fixture
def offered() -> Iterator[LazyBackend]:
    """A backend that the command's options name."""
    backend = LazyBackend("mock", lambda: MockBackend(["hi"]))
    global_config.offered_backend = backend
    yield backend
    global_config.offered_backend = None
    global_config.not_started.clear()


@pytest.mark.usefixtures("offered")
def test_the_options_backend_answers_in_the_servers_place() -> None:
    """Nothing is started; what is asked of the address goes there, in one line each."""
    with pytest.warns(UserWarning, match="starts no server"):
        process, port = launch_server_cmd(COMMAND)
    wait_for_server(f"http://localhost:{port}")
    with pytest.warns(UserWarning, match="is the backend of the options here"):
        backend = RuntimeEndpoint(f"http://localhost:{port}")

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "Q" + sgl.gen("a")

    assert program.run(backend=backend)["a"] == "hi"
    assert process.poll() is None
    terminate_process(process)


def test_without_sglang_and_a_backend_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error says what could answer instead."""
    monkeypatch.setattr(PathFinder, "find_spec", lambda *_: None)

    with pytest.raises(UnsupportedFeatureError, match="name a backend that runs"):
        launch_server_cmd(COMMAND)


def test_another_command_is_started_and_ended() -> None:
    """A server that is not SGLang's is the script's own; the port is added."""
    code = "import sys, time; assert sys.argv[1] == '--port'; time.sleep(60)"
    process, port = launch_server_cmd(f'{sys.executable} -c "{code}"')
    assert port > 0

    assert process.poll() is None
    terminate_process(process)
    assert process.poll() is not None


def test_a_server_is_waited_for() -> None:
    """An address that answers is enough; one that does not is told in time."""
    with StandIn() as server:
        wait_for_server(server.url)
    with pytest.raises(BackendUnavailableError, match="does not answer after"):
        wait_for_server(f"http://127.0.0.1:{free_port(40000)}", timeout=0.01)


def test_a_command_is_no_shells() -> None:
    """Line ends that are escaped are spaces; the process is returned."""
    process = execute_shell_command(f"{sys.executable} \\\n -c 'pass'")

    assert process.wait(20) == 0


def test_a_port_is_free() -> None:
    """A port is given with nothing that must be let go."""
    port, holder = reserve_port("127.0.0.1")

    assert port >= 30000
    assert holder is None
