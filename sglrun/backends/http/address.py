"""The address of a server: what requests are sent to, and how it may be shown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from sglrun.errors import ConfigError

_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|sig", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address that paths are appended to.

    Attributes:
        url: without a query and without a slash at its end; a password may be in it.
        query: what follows the path of every request, from its question mark on.
        shown: the address without password and query.
        secrets: what of it may be shown nowhere.
    """

    url: str
    query: str
    shown: str
    secrets: tuple[str, ...]


def parse_address(text: str) -> Address:
    """Return the address that *text* spells.

    Raises:
        ConfigError: it spells none.
    """
    shown = re.sub(r"//[^/]*@", "//", text.partition("?")[0])
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        raise ConfigError(f"{shown!r} is no address: {exc}") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError(f"{shown!r} is no address; write it as http://host:port")
    path = parts.path.rstrip("/")
    host = parts.netloc.rpartition("@")[2]
    return Address(
        url=urlunsplit((parts.scheme, parts.netloc, path, "", "")),
        query=f"?{parts.query}" if parts.query else "",
        shown=urlunsplit((parts.scheme, host, path, "", "")),
        secrets=tuple(
            filter(None, (parts.password, *secret_values(dict(parse_qsl(parts.query)))))
        ),
    )


def secret_values(named: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of headers or of a query whose names say they are secret."""
    return tuple(value for name, value in named.items() if _SECRET_NAME.search(name))
