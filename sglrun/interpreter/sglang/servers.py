"""Servers that scripts and notebooks start by a command line of their own.

Where the options of the command name a backend, no server is started: what the script
asks of the server's address goes to that backend.
"""

import shlex
import subprocess
import time
import urllib.request
import warnings
from dataclasses import dataclass
from importlib.machinery import PathFinder

from sglrun.errors import BackendUnavailableError, UnsupportedFeatureError
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang.runtime import free_port, stop_server

SERVED = (
    "execute_shell_command",
    "launch_server_cmd",
    "reserve_port",
    "terminate_process",
    "wait_for_server",
)
"""What of it ``sglang.utils`` holds."""

_FIRST_PORT = 30000
_READY_S = 600.0
_POLL_S = 0.5
_OK = 200


@dataclass(frozen=True, slots=True)
class NoProcess:
    """What stands for the process of a server that was not started."""

    command: str
    pid: None = None

    def poll(self) -> None:
        """Return that it has not ended."""


Process = subprocess.Popen[bytes] | NoProcess


def launch_server_cmd(
    command: str,
    host: str = "0.0.0.0",  # noqa: S104 - as in the reference
    port: int | None = None,
) -> tuple[Process, int]:
    """Start a server; return its process and its port.

    Args:
        command: what starts it, ``python -m sglang.launch_server ...``.
        host: accepted as in the reference; the command has its own.
        port: where it is to listen; a free one by default.

    Raises:
        UnsupportedFeatureError: SGLang is not installed, and no backend is named that
            could answer in its place.

    Warns:
        UserWarning: the options' backend answers in its place.
    """
    del host
    port = free_port(_FIRST_PORT) if port is None else port
    offered = global_config.offered_backend
    if offered is not None:
        warnings.warn(
            "launch_server_cmd(...) starts no server: the backend of the options "
            f"({offered.kind}) answers in its place",
            stacklevel=2,
        )
        global_config.not_started.add(port)
        return NoProcess(command), port
    if "sglang.launch_server" in command and PathFinder.find_spec("sglang") is None:
        raise UnsupportedFeatureError(
            "launch_server_cmd(...) starts an SGLang server, and SGLang is not "
            "installed; name a backend that runs (--url URL, or --backend local for "
            "the embedded engine)"
        )
    return execute_shell_command(f"{command} --port {port}"), port


def execute_shell_command(command: str) -> "subprocess.Popen[bytes]":
    """Start *command*, which no shell reads; return its process."""
    return subprocess.Popen(  # noqa: S603 - the script's own
        shlex.split(command.replace("\\\n", " ")), stderr=subprocess.STDOUT
    )


def reserve_port(
    host: str = "127.0.0.1",
    start: int = _FIRST_PORT,
    end: int = 40000,
) -> tuple[int, None]:
    """Return a free port from *start* on, and nothing that holds it."""
    del host, end
    return free_port(start), None


def wait_for_server(
    base_url: str, timeout: float | None = None, **ignored: object
) -> None:
    """Wait until the server at *base_url* answers.

    Args:
        base_url: its address.
        timeout: for how long, in seconds; 10 minutes by default.
        **ignored: accepted as in the reference, and without effect.

    Raises:
        BackendUnavailableError: it did not.
    """
    del ignored
    if global_config.stands_in_for(base_url):
        return
    limit_s = _READY_S if timeout is None else timeout
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if _answers(f"{base_url}/v1/models"):
            return
        time.sleep(_POLL_S)
    raise BackendUnavailableError(f"{base_url} does not answer after {limit_s:g} s")


def terminate_process(process: Process, *ignored: object) -> None:
    """End a process that was started here, and wait for its end."""
    del ignored
    if not isinstance(process, NoProcess):
        stop_server(process)


def _answers(url: str) -> bool:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is no web address")
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: S310 - above
            return int(reply.status) == _OK
    except OSError:
        return False
