"""The template file: a chat template that a user keeps beside a model.

It is the model's ``tokenizer_config.json`` or ``chat_template.json``, or its template
in Jinja.

Rule: it needs an optional library; its module is loaded when a file is named.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from sglrun.backends.jinja_template import derive_template
from sglrun.errors import ConfigError
from sglrun.lang.chat_template import ChatTemplate

_CONFIG = "tokenizer_config.json"
_JINJA = "chat_template.jinja"


def read_template(path: Path) -> ChatTemplate:
    """Return the chat template in the file at *path*.

    Raises:
        ConfigError: the file holds none, cannot be read, or holds one that a prefix
            and a suffix for each role cannot say.
    """
    try:
        source, end = _source(path)
        return derive_template(source, name=path.name, end=end)
    except (OSError, ValueError) as exc:
        raise ConfigError(
            f"{path} cannot be used as a chat template: {exc} (a server's own is used "
            "without --chat-template where it answers chats)"
        ) from exc


def _source(path: Path) -> tuple[str, str | None]:
    """Return the template in Jinja, and the token that ends an answer where known."""
    text = path.read_text("utf-8")
    if path.suffix != ".json":
        return text, _end(path.with_name(_CONFIG))
    config = json.loads(text)
    found = config.get("chat_template") if isinstance(config, Mapping) else None
    beside = path.with_name(_JINJA)
    if found is None and beside.is_file():
        found = beside.read_text("utf-8")
    found = _default(found)
    if not isinstance(found, str):
        raise ValueError("it has no chat_template")  # noqa: TRY004 - not a caller's
    is_config = "eos_token" in config
    return found, _token(config) if is_config else _end(path.with_name(_CONFIG))


def _default(found: object) -> object:
    """Return the one that is used in a talk, where there are several by name."""
    if isinstance(found, list):
        found = {each.get("name"): each.get("template") for each in found}
    if not isinstance(found, Mapping):
        return found
    if "default" not in found:
        names = ", ".join(map(repr, found)) or "none"
        raise ValueError(f"it has no chat_template called 'default' (it has {names})")
    return found["default"]


def _end(config: Path) -> str | None:
    return _token(json.loads(config.read_text("utf-8"))) if config.is_file() else None


def _token(config: Mapping[str, object]) -> str | None:
    token = config.get("eos_token")
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else None
