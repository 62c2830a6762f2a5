"""Several servers of one model, as one backend.

All requests of a row go to one server, which has read what they begin with; a row goes
to the server with the least to do. A server that is gone is left out for a while.
"""

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from sglrun.backends import create_backend
from sglrun.backends.base import (
    Backend,
    BackendOptions,
    Completion,
    OnText,
    Request,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.backends.passing import PassingBackend
from sglrun.errors import BackendUnavailableError, BackendUnreachableError, ConfigError
from sglrun.lang.prompt import Prompt

REST_S = 30.0

Answer = TypeVar("Answer")


class _Server:
    """One of the servers; its fields are written under the lock of all."""

    def __init__(self, url: str, backend: Backend) -> None:
        self.url = url
        self.backend = backend
        self.in_flight = 0
        self.rows = 0
        self.rests_until = 0.0


class SeveralServers(Backend):
    """Servers that answer alike; each request goes to one of them."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Stand before *backends*, by address; they are closed with this one."""
        self._servers = [_Server(url, backend) for url, backend in backends.items()]
        self._clock = clock
        self._lock = threading.Lock()
        first = self._servers[0].backend
        self.kind, self.server, self.model = first.kind, first.server, first.model
        self.chat_template = first.chat_template
        self.capabilities = first.capabilities
        known = (backend.secrets for backend in backends.values())
        self.secrets = frozenset[str]().union(*known)

    def of_row(self) -> Backend:
        """Return a backend whose requests stay with one server while it is there."""
        return _OfRow(self)

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the completion of *request*."""
        return self.ask(lambda backend: backend.generate(request, on_text))

    def select(self, request: SelectRequest) -> Selection:
        """Return the scores of the options of *request*."""
        return self.ask(lambda backend: backend.select(request))

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if the servers could be asked for it."""
        self._servers[0].backend.check(request)

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Have every server read *prompt* once."""
        usages = self._all(
            lambda backend: backend.cache_prefix(prompt, only_scored=only_scored)
        )
        return sum(usages, Usage())

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of *text*."""
        return self.ask(lambda backend: backend.count_tokens(text))

    def flush_cache(self) -> bool:
        """Have every server forget cached prefixes; return whether all could."""
        return all(self._all(lambda backend: backend.flush_cache()))

    def get_server_info(self) -> Mapping[str, object]:
        """Return what each server tells about itself, by its address."""
        told = self._all(lambda backend: backend.get_server_info())
        urls = [server.url for server in self._servers]
        return {"servers": ", ".join(urls), **dict(zip(urls, told, strict=True))}

    def pause_s(self) -> float:
        """Return how long no server wants another request, in seconds."""
        return min(server.backend.pause_s() for server in self._servers)

    def close(self) -> None:
        """Close every backend; safe to call twice."""
        for server in self._servers:
            server.backend.close()

    def ask(
        self, send: Callable[[Backend], Answer], favourite: int | None = None
    ) -> Answer:
        """Return what one of the servers answers; waits.

        Args:
            send: asks a backend.
            favourite: the place of the server that is asked if it is there.

        Raises:
            BackendError: the server that was asked gives no usable answer, or none
                of them is there.
        """
        *others, last = self._order(favourite)
        for server in others:
            # Who cannot be reached has not got the request, so another may.
            with suppress(BackendUnreachableError), self._under_way(server):
                return send(server.backend)
        with self._under_way(last):
            return send(last.backend)

    def choose(self) -> int:
        """Return the place of the server that the next row goes to."""
        with self._lock:
            server = self._by_load()[0]
            server.rows += 1
            return self._servers.index(server)

    def _order(self, favourite: int | None) -> Sequence[_Server]:
        with self._lock:
            order = self._by_load()
        if favourite is None:
            return order
        liked = self._servers[favourite]
        if liked.rests_until > self._clock():
            return order
        return [liked, *(server for server in order if server is not liked)]

    def _by_load(self) -> list[_Server]:
        now = self._clock()
        return sorted(
            self._servers,
            key=lambda one: (max(one.rests_until - now, 0.0), one.in_flight, one.rows),
        )

    @contextmanager
    def _under_way(self, server: _Server) -> Iterator[None]:
        with self._lock:
            server.in_flight += 1
        try:
            yield
        except BackendUnavailableError as exc:
            # A status is the answer of a server that is there.
            if exc.http_status is None:
                with self._lock:
                    server.rests_until = self._clock() + REST_S
            raise
        finally:
            with self._lock:
                server.in_flight -= 1

    def _all(self, send: Callable[[Backend], Answer]) -> list[Answer]:
        with ThreadPoolExecutor(len(self._servers), "server") as pool:
            return list(pool.map(send, (server.backend for server in self._servers)))


class _OfRow(PassingBackend):
    """The servers as one row sees them."""

    def __init__(self, servers: SeveralServers) -> None:
        super().__init__(servers)
        self._servers = servers
        self._favourite = servers.choose()

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        return self._servers.ask(
            lambda backend: backend.generate(request, on_text), self._favourite
        )

    def select(self, request: SelectRequest) -> Selection:
        return self._servers.ask(
            lambda backend: backend.select(request), self._favourite
        )


def create_several(name: str, options: BackendOptions) -> SeveralServers:
    """Return the backend called *name* for all servers that *options* name.

    Raises:
        ConfigError: they do not answer alike.
        BackendError: none is there, or one refuses.

    Warns:
        UserWarning: one is not there, and is left out.
    """
    made: dict[str, Backend] = {}
    gone: BackendUnreachableError | None = None
    try:
        for url in filter(None, (options.url, *options.more_urls)):
            try:
                alone = replace(options, url=url, more_urls=())
                made[url] = create_backend(name, alone)
            except BackendUnreachableError as exc:
                warnings.warn(f"{exc}; it is left out", stacklevel=2)
                gone = exc
        if not made and gone is not None:
            raise gone
        _check_alike(made)
    except BaseException:
        for backend in made.values():
            backend.close()
        raise
    return SeveralServers(made)


def _check_alike(made: Mapping[str, Backend]) -> None:
    facts = {
        url: {
            "backend": backend.kind,
            "server": backend.server,
            "model": backend.model,
            "chat template": backend.chat_template.name,
            "powers": backend.capabilities,
        }
        for url, backend in made.items()
    }
    first_url, first = next(iter(facts.items()))
    for url, other in facts.items():
        for what, value in other.items():
            if value != first[what]:
                raise ConfigError(
                    f"servers that share a run must answer alike; the {what} differs: "
                    f"{first_url} has {first[what]!r}, {url} has {value!r}"
                )
