"""The named template: the chat template that a user names, or has in a file."""

import importlib
from pathlib import Path

from sglrun.errors import ConfigError
from sglrun.lang.chat_template import ChatTemplate, get_chat_template

_TEMPLATE_FILES = (".json", ".jinja", ".jinja2", ".j2")


def named_template(name: str) -> ChatTemplate:
    """Return the chat template that a user named, or the one in the file at that path.

    Raises:
        ConfigError: there is none, with the names that are known; or the file's
            cannot be used.
    """
    path = Path(name)
    if path.suffix in _TEMPLATE_FILES or path.is_file():
        return _template_in(path)
    try:
        return get_chat_template(name)
    except KeyError as exc:
        raise ConfigError(str(exc.args[0])) from exc


def _template_in(path: Path) -> ChatTemplate:
    try:
        read = importlib.import_module("sglrun.backends.template_file").read_template
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"the chat template {path} needs {exc.name}, which is not installed here: "
            "pip install 'sglrun[template]'"
        ) from exc
    found: ChatTemplate = read(path)
    return found
