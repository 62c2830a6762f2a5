"""A runtime: a server process of an installed SGLang, started when first used."""

import contextlib
import re
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.machinery import PathFinder

from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions, Secret
from sglrun.errors import BackendUnavailableError, UnsupportedFeatureError
from sglrun.interpreter.sglang.named_backends import NamedBackend

_FIRST_PORT, _PORTS_TRIED = 30000, 10000
_POLL_S = 0.5
_STOP_S = 10.0


class Runtime(NamedBackend):
    """A server that the program starts for itself; stopped at the latest at exit.

    Where the options of the command name a backend, it is that one, and no server is
    started.
    """

    def __init__(
        self,
        log_level: str = "error",
        launch_timeout: float = 300.0,
        **server_args: object,
    ) -> None:
        """Remember how the server is started.

        Args:
            log_level: what the server tells on stderr.
            launch_timeout: how long it may take to be ready, in seconds.
            **server_args: options of ``sglang.launch_server``, ``-`` as ``_``.
        """
        self._server_args = {"log_level": log_level, **server_args}
        self._launch_timeout_s = launch_timeout
        model = server_args.get("model_path") or server_args.get("model")
        self._called = f"Runtime(model_path={model!r})"
        super().__init__(
            "sglang", self._start, called=self._called, always_replaced=True
        )

    @cached_property
    def port(self) -> int:
        """The port of the server, free when this was first read."""
        wanted = self._server_args.get("port")
        return free_port(wanted if isinstance(wanted, int) else _FIRST_PORT)

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def _start(self) -> Backend:
        # Asked of the path itself: what is imported as sglang is served by sglrun.
        if PathFinder.find_spec("sglang") is None:
            raise UnsupportedFeatureError(
                f"{self._called} starts an SGLang server, and SGLang is not installed; "
                "name a backend that runs (--url URL, or --backend local for the "
                "embedded engine), or use RuntimeEndpoint(url)"
            )
        command = [
            sys.executable,
            "-m",
            "sglang.launch_server",
            *server_flags({**self._server_args, "port": self.port}),
        ]
        self._server = start_server(
            command, self.port, timeout_s=self._launch_timeout_s
        )
        weakref.finalize(self, stop_server, self._server)
        key = self._server_args.get("api_key")
        return create_backend(
            "sglang",
            BackendOptions(
                url=self.url, api_key=None if key is None else Secret(value=str(key))
            ),
        )

    def close(self) -> None:
        """Close the connections and stop the server, if it was started."""
        super().close()
        server = self.__dict__.pop("_server", None)
        if server is not None:
            stop_server(server)


def server_flags(server_args: Mapping[str, object]) -> list[str]:
    """Return keyword arguments as options of a command line."""
    flags: list[str] = []
    for name, value in server_args.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif isinstance(value, list | tuple):
            flags += [flag, *map(str, value)]
        elif value is not None and value is not False:
            flags += [flag, str(value)]
    return flags


def free_port(first: int) -> int:
    """Return the first port from *first* on that nothing listens at.

    Raises:
        BackendUnavailableError: there is none.
    """
    last = min(first + _PORTS_TRIED, 65535)
    for port in range(first, last + 1):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise BackendUnavailableError(f"no port from {first} to {last} is free")


def start_server(
    command: Sequence[str], port: int, *, timeout_s: float
) -> "subprocess.Popen[bytes]":
    """Start *command*; return its process once ``/health`` on *port* is well.

    Raises:
        BackendUnavailableError: it ended, or was not ready in time; it is stopped.
    """
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - ours
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise BackendUnavailableError(
                f"{' '.join(command)} ended with code {server.returncode} before it "
                "was ready; what it said is above"
            )
        if _is_healthy(port):
            return server
        pause.wait(_POLL_S)
    stop_server(server)
    raise BackendUnavailableError(
        f"{' '.join(command)} was not ready after {timeout_s:g} s "
        "(launch_timeout=... waits longer)"
    )


def stop_server(server: "subprocess.Popen[bytes]") -> None:
    """End *server* and wait for its end; safe to call twice."""
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _is_healthy(port: int) -> bool:
    """Ask by hand: an HTTP library takes longer to load than this to read."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            head = connection.recv(64)
    except OSError:
        return False
    return bool(re.match(rb"HTTP/1\.[01] 200\b", head))
