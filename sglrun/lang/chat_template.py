"""Chat templates: how a conversation is written as one text.

The prefix and suffix of each role are facts about models, taken from the templates that
their makers publish. Templates are data; matching a model's name is a table.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """The markup around the messages of a conversation.

    Attributes:
        name: what options and manifests call it.
        roles: role to the (prefix, suffix) around its text; other roles have none.
        default_system: the system prompt written where a program gives none.
        stop: strings that end an assistant's turn.
        image_token: the marker that stands for an image.
        style: ``llama2`` writes the system message inside the first user turn.
    """

    name: str
    roles: Mapping[str, tuple[str, str]]
    default_system: str | None = None
    stop: tuple[str, ...] = ()
    image_token: str = "<image>"  # noqa: S105 - markup
    style: Literal["plain", "llama2"] = "plain"

    def prefix(self, role: str, earlier_roles: tuple[str, ...]) -> str:
        """Return what stands before a message of *role* after *earlier_roles*."""
        prefix, _ = self.roles.get(role, ("", ""))
        if self.style != "llama2":
            return prefix
        if role == "system" and not earlier_roles:
            return self.roles["user"][0] + prefix
        if role == "user" and earlier_roles == ("system",):
            return ""
        return prefix

    def suffix(self, role: str) -> str:
        """Return what stands after a message of *role*."""
        return self.roles.get(role, ("", ""))[1]


def _same(before: str, after: str) -> dict[str, tuple[str, str]]:
    return {
        role: (before.format(role), after) for role in ("system", "user", "assistant")
    }


_CHATML = _same("<|im_start|>{}\n", "<|im_end|>\n")
_HELPFUL = "You are a helpful assistant."
_DEEPSEEK_END = "<｜end▁of▁sentence｜>"  # noqa: RUF001 - the model's own characters

_TEMPLATES = (
    ChatTemplate(
        name="default",
        roles={
            "system": ("SYSTEM:", "\n"),
            "user": ("USER:", "\n"),
            "assistant": ("ASSISTANT:", "\n"),
        },
    ),
    ChatTemplate(
        name="claude",
        roles={"user": ("\n\nHuman: ", ""), "assistant": ("\n\nAssistant:", "")},
    ),
    ChatTemplate(name="chatml", roles=_CHATML, stop=("<|im_end|>",)),
    ChatTemplate(
        name="qwen", roles=_CHATML, default_system=_HELPFUL, stop=("<|im_end|>",)
    ),
    ChatTemplate(
        name="llama-2-chat",
        roles={
            "system": ("<<SYS>>\n", "\n<</SYS>>\n\n"),
            "user": ("[INST] ", " [/INST]"),
            "assistant": ("", " </s><s>"),
        },
        style="llama2",
    ),
    ChatTemplate(
        name="mistral",
        roles={
            "system": ("[SYSTEM_PROMPT] ", " [/SYSTEM_PROMPT]"),
            "user": ("[INST] ", " [/INST]"),
            "assistant": ("", " </s><s>"),
        },
        stop=("</s>",),
        image_token="[IMG]",  # noqa: S106 - markup
    ),
    ChatTemplate(
        name="llama-3-instruct",
        roles=_same("<|start_header_id|>{}<|end_header_id|>\n\n", "<|eot_id|>"),
        stop=("<|eot_id|>",),
        image_token="<|image|>",  # noqa: S106 - markup
    ),
    ChatTemplate(
        name="llama-3-instruct-llava",
        roles=_same("<|start_header_id|>{}<|end_header_id|>\n\n", "<|eot_id|>"),
        stop=("<|eot_id|>",),
        image_token="<image>\n",  # noqa: S106 - markup
    ),
    ChatTemplate(
        name="chatml-llava",
        roles=_CHATML,
        default_system=_HELPFUL,
        stop=("<|im_end|>",),
        image_token="<image>\n",  # noqa: S106 - markup
    ),
    ChatTemplate(
        name="llama-4",
        roles=_same("<|header_start|>{}<|header_end|>\n\n", "<|eot|>"),
        stop=("<|eot|>",),
        image_token="<|image|>",  # noqa: S106 - markup
    ),
    ChatTemplate(
        name="gemma-it",
        roles={
            "user": ("<start_of_turn>user\n", "<end_of_turn>\n"),
            "assistant": ("<start_of_turn>model\n", "<end_of_turn>\n"),
        },
        image_token="<start_of_image>",  # noqa: S106 - markup
    ),
    ChatTemplate(
        name="granite-3-instruct",
        roles=_same("<|start_of_role|>{}<|end_of_role|>", "<|end_of_text|>"),
        stop=("<|end_of_text|>",),
    ),
    ChatTemplate(
        name="deepseek-v3",
        roles={
            "user": ("<｜User｜>", ""),  # noqa: RUF001
            "assistant": ("<｜Assistant｜>", _DEEPSEEK_END),  # noqa: RUF001
        },
        stop=(_DEEPSEEK_END,),
    ),
)

DEFAULT_TEMPLATE = _TEMPLATES[0]
_by_name: dict[str, ChatTemplate] = {template.name: template for template in _TEMPLATES}

# The first pattern found in the model's name decides; case does not count.
_MATCHES: tuple[tuple[str, str], ...] = (
    (r"deepseek-(v3|r1)(?!.*base)", "deepseek-v3"),
    (r"llama-2.*chat|codellama.*instruct", "llama-2-chat"),
    (r"pixtral|(mistral|mixtral).*instruct", "mistral"),
    (r"llama-3.*instruct", "llama-3-instruct"),
    (r"llama-4.*instruct", "llama-4"),
    (r"tinyllama|smollm.*instruct|smollm2", "chatml"),
    (r"qwen.*(chat|instruct)", "qwen"),
    (r"gemma-3|gemma.*it", "gemma-it"),
    (r"granite.*instruct", "granite-3-instruct"),
    (r"claude", "claude"),
)
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
    for pattern, name in _MATCHES:
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
