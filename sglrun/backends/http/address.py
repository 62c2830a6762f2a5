"""The address of a server: what requests are sent to, and how it may be shown."""

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from sglrun.backends.secrets import without_password
from sglrun.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address that paths are appended to.

    Attributes:
        url: without a query and without a slash at its end; a password may be in it.
        query: what follows the path of every request, from its question mark on.
        shown: the address without password and query.
    """

    url: str
    query: str
    shown: str


def parse_address(text: str) -> Address:
    """Return the address that *text* spells.

    Raises:
        ConfigError: it spells none.
    """
    shown = without_password(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        raise ConfigError(f"{shown!r} is no address: {exc}") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise no_address(shown)
    path = parts.path.rstrip("/")
    host = parts.netloc.rpartition("@")[2]
    return Address(
        url=urlunsplit((parts.scheme, parts.netloc, path, "", "")),
        query=f"?{parts.query}" if parts.query else "",
        shown=urlunsplit((parts.scheme, host, path, "", "")),
    )


def no_address(shown: str) -> ConfigError:
    """Return the error that *shown*, which has no password in it, is no address."""
    return ConfigError(f"{shown!r} is no address; write it as http://host:port")
