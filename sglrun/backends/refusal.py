"""The refusal of what a backend cannot do exactly, by name and before it is asked."""

from collections.abc import Iterator

from sglrun.backends.base import Backend, Capabilities, Request, SelectRequest
from sglrun.errors import UnsupportedFeatureError
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS

_SHOWN = 60
_USUAL = DEFAULTS.given()


def refuse_unsupported(who: str, capabilities: Capabilities, request: Request) -> None:
    """Let *request* pass if *capabilities* cover all of it.

    Args:
        who: the backend, as the error names it.
        capabilities: what it can do.
        request: what is asked.

    Raises:
        UnsupportedFeatureError: they do not; the message names the feature.
    """
    for feature in _unsupported(capabilities, request):
        raise UnsupportedFeatureError(
            f"{who} cannot do {feature}; use another backend, or leave it out"
        )


def refuse_media(backend: Backend, prompt: Prompt) -> None:
    """Let *prompt* pass if the model of *backend* sees what is in it.

    Raises:
        UnsupportedFeatureError: it does not.
    """
    can = backend.capabilities
    for what, media, sees in (
        ("images", prompt.images, can.images),
        ("videos", prompt.videos, can.videos),
    ):
        if media and not sees:
            raise UnsupportedFeatureError(
                f"{backend.kind!r} with the model {backend.model!r} takes no {what}; "
                "use a model that sees them"
            )


def refuse_choice(who: str, capabilities: Capabilities, request: SelectRequest) -> None:
    """Let *request* pass if *capabilities* cover it; raises as the other."""
    if not capabilities.select:
        raise UnsupportedFeatureError(
            f"{who} cannot do select among {list(request.choices)!r}; use another "
            "backend"
        )
    if not capabilities.choice_scores:
        refuse_scores(who, request)


def refuse_scores(who: str, request: SelectRequest) -> None:
    """Let *request* pass if it can do without scores, which *who* does not give.

    Raises:
        UnsupportedFeatureError: it cannot.
    """
    if request.unconditional or request.needs_scores:
        raise UnsupportedFeatureError(
            f"{who} gives no log-probabilities of options, which select among "
            f"{list(request.choices)!r} by this method or temperature needs; leave "
            "both out, and the model writes the likeliest option"
        )


def outside_turns(prompt: Prompt) -> Iterator[str]:
    """Yield what of *prompt* an API of chats has no place for."""
    if text := prompt.loose_text.strip():
        yield f"text outside user() and assistant(): {text[:_SHOWN]!r}"
    if prompt.role != "assistant":
        where = f"inside {prompt.role}()" if prompt.role else "outside assistant()"
        yield f"a generation {where} in a chat"


def _unsupported(capabilities: Capabilities, request: Request) -> Iterator[str]:
    prompt, sampling = request.prompt, request.sampling
    opened = prompt.open_message
    needed = {
        "completion": (not prompt.is_chat, "a prompt without roles"),
        "prefill": (
            opened is not None and bool(opened.parts),
            "text inside assistant() before a generation",
        ),
        "images": (bool(prompt.images), "images"),
        "videos": (bool(prompt.videos), "videos"),
        "video_frames": (
            any(video.num_frames is not None for video in prompt.videos),
            "num_frames of a video, of which it takes as many as it is set to",
        ),
        "regex": (sampling.regex is not None, f"regex={sampling.regex!r}"),
        "json_schema": (sampling.json_schema is not None, "json_schema"),
        "ebnf": (sampling.ebnf is not None, "ebnf"),
    }
    for name, (is_asked, feature) in needed.items():
        if is_asked and not getattr(capabilities, name):
            yield feature
    if not capabilities.unsupported_sampling:
        return
    for name, value in sampling.given().items():
        if name in capabilities.unsupported_sampling and value != _USUAL.get(name):
            yield f"{name}={value!r}"
