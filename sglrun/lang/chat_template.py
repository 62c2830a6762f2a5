"""Chat templates: which is meant by a name, and which a model was trained on.

The markup itself is data, in the table of templates.
"""

import re
import warnings
from collections.abc import Callable

from sglrun.lang.markup import ChatTemplate
from sglrun.lang.template_table import MATCHES, TEMPLATES

__all__ = [
    "DEFAULT_TEMPLATE",
    "ChatTemplate",
    "get_chat_template",
    "get_chat_template_by_model_path",
    "register_chat_template",
    "register_chat_template_matching_function",
]

DEFAULT_TEMPLATE = TEMPLATES[0]
_by_name: dict[str, ChatTemplate] = {template.name: template for template in TEMPLATES}
_matchers: list[Callable[[str], str | None]] = []


def get_chat_template(name: str) -> ChatTemplate:
    """Return the template called *name*.

    Raises:
        KeyError: there is none; the message lists those that are known.
    """
    if name not in _by_name:
        known = ", ".join(sorted(_by_name))
        raise KeyError(f"unknown chat template {name!r} (one of: {known})")
    return _by_name[name]


def get_chat_template_by_model_path(model_path: str) -> ChatTemplate:
    """Return the template for a model by its name or path.

    Warns:
        UserWarning: no rule knows the model, and ``default`` is used.
    """
    for matcher in _matchers:
        name = matcher(model_path)
        if name is not None:
            return get_chat_template(name)
    for pattern, name in MATCHES:
        if re.search(pattern, model_path, re.IGNORECASE):
            return _by_name[name]
    warnings.warn(
        f"no chat template is known for the model {model_path!r}; 'default' is used, "
        "which the model was not trained on (name one with --chat-template)",
        stacklevel=2,
    )
    return DEFAULT_TEMPLATE


def register_chat_template(template: ChatTemplate) -> None:
    """Make *template* known by its name; an older one of that name is replaced."""
    _by_name[template.name] = template


def register_chat_template_matching_function(
    function: Callable[[str], str | None],
) -> Callable[[str], str | None]:
    """Let *function* name the template of a model path; asked before the table."""
    _matchers.append(function)
    return function
