"""A runtime: a server that a program starts for itself."""

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.machinery import PathFinder

import pytest

from sglrun.backends.mock import MockBackend
from sglrun.errors import BackendUnavailableError, UnsupportedFeatureError
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang import runtime
from sglrun.interpreter.sglang.runtime import (
    Runtime,
    free_port,
    server_flags,
    start_server,
    stop_server,
)

WAIT_S = 20.0
SERVE = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture(autouse=True)
def fresh_config() -> Iterator[None]:
    """Leave the process's configuration as it was."""
    yield
    global_config.offered_backend = None


def test_keywords_become_options() -> None:
    """Values are spelled as the server's command line wants them."""
    flags = server_flags(
        {
            "model_path": "a/b",
            "tp_size": 2,
            "trust_remote_code": True,
            "disable_radix_cache": False,
            "revision": None,
            "lora_paths": ["x", "y"],
        }
    )

    assert flags == [
        *("--model-path", "a/b", "--tp-size", "2", "--trust-remote-code"),
        *("--lora-paths", "x", "y"),
    ]


def test_a_port_that_is_taken_is_passed_over() -> None:
    """The first free port from the one that is wanted is taken."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as taken:
        port = taken.server_address[1]

        assert free_port(port) > port


def test_a_server_is_started_and_stopped() -> None:
    """It is there when the call returns, and gone after it is stopped."""
    port = free_port(31000)
    command = [sys.executable, "-c", SERVE, str(port)]
    server = start_server(command, port, timeout_s=WAIT_S)
    running = server.poll() is None
    stop_server(server)
    stop_server(server)

    assert running
    assert server.returncode is not None


def test_a_server_that_ends_early_is_told() -> None:
    """Its exit code stands in the error."""
    command = [sys.executable, "-c", "raise SystemExit(3)"]

    with pytest.raises(BackendUnavailableError, match="ended with code 3"):
        start_server(command, 1, timeout_s=WAIT_S)


def test_a_server_that_is_never_ready_is_stopped() -> None:
    """The wait ends, and the process with it."""
    command = [sys.executable, "-c", "import threading; threading.Event().wait()"]

    with pytest.raises(BackendUnavailableError, match=r"not ready after 0\.1 s"):
        start_server(command, 1, timeout_s=0.1)


def test_without_sglang_the_refusal_names_the_ways_out() -> None:
    """Naming a runtime costs nothing; using it says what it needs."""
    made = Runtime(model_path="a/b", port=31500)

    assert made.url == f"http://127.0.0.1:{made.port}"
    with pytest.raises(UnsupportedFeatureError, match="SGLang is not installed"):
        made.opened()
    made.shutdown()


def test_an_installed_sglang_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server is run with the options, asked for, and stopped at the shutdown."""
    commands: list[list[str]] = []
    ended = threading.Event()

    def start(command: list[str], port: int, *, timeout_s: float) -> object:
        commands.append([*command, str(port), str(timeout_s)])
        return ended

    monkeypatch.setattr(PathFinder, "find_spec", lambda name: name)
    monkeypatch.setattr(runtime, "start_server", start)
    monkeypatch.setattr(runtime, "stop_server", lambda server: server.set())
    monkeypatch.setattr(
        runtime, "create_backend", lambda _kind, _options: MockBackend()
    )
    made = Runtime(model_path="a/b", port=31600, launch_timeout=7)
    made.opened()
    made.shutdown()

    assert commands == [
        [
            *(sys.executable, "-m", "sglang.launch_server", "--log-level", "error"),
            *("--model-path", "a/b", "--port", str(made.port)),
            *(str(made.port), "7"),
        ]
    ]
    assert ended.is_set()


def test_the_options_backend_is_used_in_its_place() -> None:
    """Where the user named a backend no server is started, which is said."""
    global_config.offered_backend = MockBackend(model="own")
    with pytest.warns(UserWarning, match="is the backend of the options here"):
        made = Runtime(model_path="a/b")

    assert (made.kind, made.model) == ("mock", "own")
