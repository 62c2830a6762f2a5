"""The contract of backends, on the real servers.

See ``servers`` for how they are installed; ``pytest -m live -rs`` says what is skipped.
"""

import functools
import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions
from sglrun.errors import BadRequestError, UnsupportedFeatureError
from tests.backends import test_contract as contract
from tests.live.conftest import Rack

pytestmark = pytest.mark.live


class Where(NamedTuple):
    """A backend, and the server that it speaks to."""

    backend: str
    server: str
    router: str = ""

    @property
    def name(self) -> str:
        """What the test is called."""
        return "-".join(part for part in self if part)


WHERE = (
    Where("openai", "llama-server"),
    Where("anthropic", "llama-server"),
    Where("openai", "llama-server", "vllm-router"),
    Where("openai", "llama-server", "sglang-router"),
    Where("openai", "llama-server", "litellm"),
    Where("sglang", "sglang"),
    Where("openai", "sglang"),
    Where("anthropic", "sglang"),
    Where("sglang", "sglang", "sglang-router"),
    Where("openai", "sglang", "sglang-router"),
    Where("openai", "vllm"),
    Where("openai", "vllm", "vllm-router"),
)


@pytest.fixture(scope="module", params=WHERE, ids=lambda where: where.name)
def backend(request: pytest.FixtureRequest, rack: Rack) -> Iterator[Backend]:
    """Each backend in turn, on a real server."""
    where: Where = request.param
    options = BackendOptions(
        url=rack.address(where.server, where.router),
        chat_template="chatml",
        model="smollm2",
        timeout_s=180,
    )
    made = create_backend(where.backend, options)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def known(request: pytest.FixtureRequest) -> None:
    """Skip what a gateway is known to tell wrongly."""
    if request.node.name.startswith(
        "test_pieces_joined_are_the_text[openai-llama-server-litellm-plain"
    ):
        pytest.skip(
            "LiteLLM counts the tokens of such a stream by a tokenizer of its own"
        )


# What asks the pretend model for a certain answer, or for what no server knows.
_PRETENDED = {
    "test_a_refused_prompt_is_the_requests_fault",
    "test_any_character_may_stand_in_a_prompt",
    "test_many_threads_ask_at_once",
    "test_a_stop_string_is_cut",
    "test_a_schema_is_kept",
    "test_a_cached_prefix_is_not_read_again",
}
for _name, _test in vars(contract).items():
    if _name.startswith("test_") and _name not in _PRETENDED:
        globals()[_name] = _test


def test_any_character_stands_in_a_prompt(backend: Backend) -> None:
    """Emoji and nulls are the model's to read."""
    asked = contract.request(contract.suited(backend, "\U0001f600 \x00 \u2028 say:"))

    assert backend.generate(asked).usage.prompt_tokens > 0


def test_a_long_prefix_is_not_read_again(backend: Backend) -> None:
    """After ``cache_prefix``, prompts that begin with it report cached tokens."""
    if not backend.capabilities.prefix_cache or backend.kind == "anthropic":
        pytest.skip("no prefix is cached, or none that is this short")
    text = "Sort each message into billing, shipping or other. " * 30
    backend.cache_prefix(contract.plain(backend, text))
    asked = contract.request(contract.plain(backend, f"{text}Where is it?"))
    usage = backend.generate(asked).usage

    # Some servers cache whole blocks of tokens only.
    assert usage.cached_tokens > usage.prompt_tokens - 128 - len("Where is it?")


def test_a_schema_is_kept(backend: Backend) -> None:
    """A schema is kept; one that leaves no room for endless white space."""
    schema = {"type": "string", "enum": ["red", "blue"]}
    asked = contract.request(contract.chat(backend), json_schema=json.dumps(schema))
    if not backend.capabilities.json_schema:
        with pytest.raises(UnsupportedFeatureError, match="json_schema"):
            backend.generate(asked)
        return

    assert json.loads(backend.generate(asked).samples[0].text) in ("red", "blue")


def test_a_stop_string_ends_a_text(backend: Backend) -> None:
    """The text ends before the stop string, and the reason is ``stop``."""
    ask = functools.partial(contract.request, temperature=0.0, max_new_tokens=16)
    prompt = contract.suited(backend, "The capital of France is")
    whole = backend.generate(ask(prompt)).samples[0].text
    cut = backend.generate(ask(prompt, stop=whole[2:5])).samples[0]

    assert cut.text == whole[: whole.index(whole[2:5])]
    assert cut.finish_reason == "stop"


def test_a_prompt_that_is_too_long_is_the_requests_fault(backend: Backend) -> None:
    """It is one row's error, with the server's words."""
    with pytest.raises(BadRequestError, match="2048") as caught:
        backend.generate(contract.request(contract.suited(backend, "word " * 3000)))

    assert not caught.value.retryable
    assert not caught.value.fatal
