"""What the live tests share: the servers, one heavy one at a time."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.live.servers import READY_S, NotInstalledError, running

Address = Callable[..., str]

_TEST_S = 300.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a test the time that the server it waits for may take to start."""
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.timeout(READY_S + _TEST_S))


class Rack:
    """The servers that run now: one, and perhaps a router before it."""

    def __init__(self) -> None:
        self._stacks: dict[str, ExitStack] = {}
        self._urls: dict[str, str] = {}

    def address(self, server: str, router: str = "") -> str:
        """Return the address of *server*, or of *router* before it, started if need be.

        What else runs is stopped, but for the server behind the router.
        """
        if server not in self._urls:
            self.stop()
            self._start(server)
        if not router:
            return self._urls[server]
        if router not in self._urls:
            self._start(router, self._urls[server])
        return self._urls[router]

    def _start(self, name: str, *workers: str) -> None:
        stack = ExitStack()
        try:
            self._urls[name] = stack.enter_context(running(name, *workers))
        except (NotInstalledError, RuntimeError) as exc:
            pytest.skip(f"{name} cannot be started: {exc}")
        self._stacks[name] = stack

    def stop(self) -> None:
        """Stop everything, routers first."""
        for name in reversed(list(self._stacks)):
            self._stacks.pop(name).close()
            del self._urls[name]


@pytest.fixture(scope="session")
def rack() -> Iterator[Rack]:
    """The servers; stopped at the end."""
    made = Rack()
    yield made
    made.stop()
