"""Named backends: the constructors that programs and scripts call, as in SGLang.

None of them connects to anything before the backend is used. Rule: keys and addresses
that the command line would take are read from the environment here, because a script
run by ``python`` has no command line of ours.
"""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Never

from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions, Secret
from sglrun.errors import ConfigError, UnsupportedFeatureError
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang.lazy_backend import LazyBackend
from sglrun.lang.chat_template import ChatTemplate


class NamedBackend(LazyBackend):
    """A backend that the author's code names.

    Where the command was told to replace such backends, it is that of the options.
    """

    def __init__(
        self,
        kind: str,
        make: Callable[[], Backend],
        *,
        called: str,
        always_replaced: bool = False,
    ) -> None:
        """Remember how the backend is made, and what it may be replaced by.

        Args:
            kind: its name in the table of backends.
            make: makes it.
            called: how the author's code calls it.
            always_replaced: the options' backend is used wherever they name one.
        """
        offered = global_config.offered_backend
        if offered is None or not (always_replaced or global_config.replaces_backends):
            super().__init__(kind, lambda: _prepared(make()))
            return
        warnings.warn(
            f"{called} is the backend of the options here ({offered.kind})",
            stacklevel=3,
        )
        super().__init__(offered.kind, lambda: offered)


def _prepared(backend: Backend) -> Backend:
    prepare = global_config.prepare
    return backend if prepare is None else prepare(backend)


class RuntimeEndpoint(NamedBackend):
    """A server that speaks SGLang's own protocol."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        verify: str | None = None,
        chat_template_name: str | None = None,
    ) -> None:
        """Name the server; it is not asked before it is used.

        Args:
            base_url: its address, as ``http://127.0.0.1:30000``.
            api_key: sent as a bearer token.
            verify: accepted as in the reference, and without effect.
            chat_template_name: how roles are written, over the model's own.
        """
        if verify is not None:
            warnings.warn(
                "RuntimeEndpoint(verify=...) has no effect; name your authority in "
                "REQUESTS_CA_BUNDLE",
                stacklevel=2,
            )
        options = BackendOptions(
            url=base_url,
            api_key=None if api_key is None else Secret(value=api_key),
            chat_template=chat_template_name,
        )
        self.base_url = base_url
        super().__init__(
            "sglang",
            lambda: create_backend("sglang", options),
            called=f"RuntimeEndpoint({base_url!r})",
            always_replaced=global_config.stands_in_for(base_url),
        )


class OpenAI(NamedBackend):
    """A model of OpenAI, or of a server that speaks as OpenAI's."""

    def __init__(
        self,
        model_name: str,
        is_chat_model: bool | None = None,  # noqa: FBT001 - the reference's signature
        chat_template: ChatTemplate | None = None,
        is_azure: bool = False,  # noqa: FBT001, FBT002
        **client: object,
    ) -> None:
        """Name the model; nothing is asked before it is used.

        Args:
            model_name: the model.
            is_chat_model: accepted as in the reference; a program with roles goes to
                the chat endpoint, one without to the other.
            chat_template: how roles are written in a program's text.
            is_azure: refused; see the error.
            **client: ``api_key`` (else ``OPENAI_API_KEY``), ``base_url`` (else
                ``OPENAI_BASE_URL``), ``organization``, ``default_headers`` and
                ``timeout`` in seconds, as OpenAI's own client takes them.
        """
        del is_chat_model
        options = _client_options(f"OpenAI({model_name!r})", "OPENAI", client)
        options = replace(options, model=model_name)

        def make() -> Backend:
            if is_azure:
                raise UnsupportedFeatureError(
                    "OpenAI(is_azure=True) is not supported; give the address of "
                    "the deployment's OpenAI-compatible API as base_url=..."
                )
            return create_backend("openai", options)

        super().__init__("openai", make, called=f"OpenAI({model_name!r})")
        if chat_template is not None:
            self.chat_template = chat_template


def _client_options(
    called: str, maker: str, client: Mapping[str, object]
) -> BackendOptions:
    """Return what the keywords of a maker's own client say, over the environment."""
    given = {name: value for name, value in client.items() if value is not None}
    key = given.pop("api_key", None) or os.environ.get(f"{maker}_API_KEY")
    url = given.pop("base_url", None) or os.environ.get(f"{maker}_BASE_URL")
    headers = _headers(given.pop("default_headers", {}))
    for name in ("organization", "project"):
        if name in given:
            headers[f"OpenAI-{name.capitalize()}"] = str(given.pop(name))
    timeout_s = _seconds(given.pop("timeout", 600.0))
    given.pop("max_retries", None)
    if given:
        warnings.warn(f"{called} does not use {', '.join(sorted(given))}", stacklevel=3)
    return BackendOptions(
        url=None if url is None else str(url),
        api_key=None if key is None else Secret(value=str(key)),
        headers=headers,
        timeout_s=timeout_s,
    )


def _headers(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"default_headers takes a mapping, not {given!r}")
    return {str(name): str(value) for name, value in given.items()}


def _seconds(given: object) -> float:
    if not isinstance(given, int | float):
        raise ConfigError(f"timeout takes seconds, not {given!r}")
    return float(given)


class Anthropic(NamedBackend):
    """A model of Anthropic."""

    def __init__(self, model_name: str, **client: object) -> None:
        """Name the model; nothing is asked before it is used.

        Args:
            model_name: the model.
            **client: ``api_key`` (else ``ANTHROPIC_API_KEY``), ``base_url`` (else
                ``ANTHROPIC_BASE_URL``), ``default_headers`` and ``timeout`` in
                seconds, as Anthropic's own client takes them.
        """
        called = f"Anthropic({model_name!r})"
        options = _client_options(called, "ANTHROPIC", client)
        options = replace(options, model=model_name)
        super().__init__(
            "anthropic", lambda: create_backend("anthropic", options), called=called
        )


class _Refused(NamedBackend):
    """A backend of SGLang that sglrun has none for; its first use says so."""

    def __init__(self, model_name: str, *args: object, **client: object) -> None:
        """Accept what the reference takes.

        Args:
            model_name: the model.
            *args: without effect.
            **client: without effect.
        """
        del args, client
        name = type(self).__name__

        def make() -> Backend:
            raise _refusal(name, model_name)

        super().__init__(name.lower(), make, called=f"{name}({model_name!r})")


class Crusoe(_Refused):
    """A model served by Crusoe; use ``OpenAI`` with its address."""


class LiteLLM(_Refused):
    """A model behind LiteLLM; use ``OpenAI`` with the address of its proxy."""


class VertexAI(_Refused):
    """A model on Vertex AI; use ``OpenAI`` with its OpenAI-compatible address."""


def _refusal(name: str, model_name: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"sglrun has no backend for {name}({model_name!r}); give the address of its "
        f"OpenAI-compatible API: OpenAI({model_name!r}, base_url=..., api_key=...), "
        "or name another backend with --backend or --url"
    )


class Engine:
    """SGLang's engine without a server; not a backend of programs, there or here."""

    def __init__(self, *args: object, **kwargs: object) -> Never:
        """Refuse.

        Args:
            *args: without effect.
            **kwargs: without effect.

        Raises:
            UnsupportedFeatureError: always.
        """
        del args, kwargs
        raise UnsupportedFeatureError(
            "sgl.Engine is SGLang's own engine and no backend of programs; run a "
            "program on a server (--url) or on the embedded engine (--backend local)"
        )
