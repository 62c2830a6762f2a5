"""The OpenAI-shaped backend on a real llama.cpp server.

It takes seconds, and runs with all the other tests; the model comes from
``sglrun models pull``.
"""

import json
import re
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions, Request, SelectRequest
from sglrun.backends.local.store import find_model
from sglrun.errors import BadRequestError, ModelError, UnsupportedFeatureError
from sglrun.lang.constraints import DTYPES
from sglrun.lang.prompt import ImageData, Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams
from tests.live.eye import TOKENS_PER_IMAGE, write_eye

pytestmark = pytest.mark.engine

PLAIN = Prompt().with_text("The capital of France is")
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


@contextmanager
def serving(*eye: str) -> Iterator[Backend]:
    """Give the backend of a server of its own."""
    try:
        model = find_model()
    except ModelError as exc:
        pytest.skip(str(exc))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = Path(__file__).with_name("llama_server.py")
    command = [sys.executable, str(script), str(model), str(port), *eye]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        try:
            options = BackendOptions(url=f"http://127.0.0.1:{port}", timeout_s=60)
            with create_backend("openai", options) as made:
                yield made
        finally:
            server.kill()


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    """The backend, on a server of its own."""
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """The same with a model that sees."""
    eye = tmp_path_factory.mktemp("eye") / "eye.gguf"
    write_eye(eye)
    with serving(str(eye)) as made:
        yield made


def chat(answer: str = "") -> Prompt:
    asked = Prompt().with_role_begin("user").with_text("What is the capital of France?")
    return asked.with_role_end("user").with_role_begin("assistant").with_text(answer)


def request(prompt: Prompt, **sampling: Any) -> Request:
    given = {"temperature": 0.0, "max_new_tokens": 24, **sampling}
    return Request(prompt=prompt, sampling=SamplingParams.of(**given).over(DEFAULTS))


def text(backend: Backend, prompt: Prompt, **sampling: Any) -> str:
    return backend.generate(request(prompt, **sampling)).samples[0].text


@pytest.mark.parametrize(
    "prompt", [PLAIN, chat(), chat("The capital"), chat("The capital of ")]
)
def test_a_stream_is_the_whole_text(backend: Backend, prompt: Prompt) -> None:
    """Streamed or not, the text is the same, and repeats nothing of the prompt."""
    pieces: list[str] = []
    streamed = backend.generate(request(prompt), pieces.append)

    assert "".join(pieces) == streamed.samples[0].text == text(backend, prompt)
    assert not streamed.samples[0].text.startswith("The capital")
    assert streamed.usage.completion_tokens > 0


def test_a_continued_text_makes_sense(backend: Backend) -> None:
    """The model goes on where the program's text ends."""
    assert text(backend, chat("The capital of France is")).startswith(" Paris")


def test_limits_and_stops_are_kept(backend: Backend) -> None:
    """A limit, a stop string and no tokens at all are what they are elsewhere."""
    stopped = backend.generate(request(PLAIN, stop=".")).samples[0]
    limited = backend.generate(request(PLAIN, max_new_tokens=2)).samples[0]
    nothing = backend.generate(request(PLAIN, max_new_tokens=0)).samples[0]

    assert (stopped.text, stopped.finish_reason) == (" Paris", "stop")
    assert (limited.text, limited.finish_reason) == (" Paris.", "length")
    assert (nothing.text, nothing.finish_reason) == ("", "length")


def test_samples_differ(backend: Backend) -> None:
    """``n`` samples are drawn independently."""
    asked = request(PLAIN, n=3, temperature=1.0, seed=3)

    assert len({s.text for s in backend.generate(asked).samples}) > 1


@pytest.mark.parametrize(
    "pattern",
    [
        r"[0-9]{3}-[0-9]{4}",
        r"((25[0-5]|2[0-4]\d|[01]?\d\d?)\.){3}(25[0-5]|2[0-4]\d|[01]?\d\d?)",
        r"(yes|no)[.!]?",
        r"\"[\w ]{3,12}\"",
        "é[à-ü]{2}\u2603",
    ],
)
@pytest.mark.parametrize("prompt", [PLAIN, chat(), chat("It is ")])
def test_patterns_are_kept(backend: Backend, prompt: Prompt, pattern: str) -> None:
    """A pattern becomes a grammar, with and without roles and text before."""
    assert re.fullmatch(pattern, text(backend, prompt, regex=pattern))


@pytest.mark.parametrize("name", ["float", "bool", "str"])
def test_types_are_kept(backend: Backend, name: str) -> None:
    """A type's pattern and stop strings give a value of the type."""
    dtype = DTYPES[name]
    written = text(backend, PLAIN, regex=dtype.regex, stop=dtype.stop)

    assert dtype.parse(written) is not None


@pytest.mark.parametrize("prompt", [PLAIN, chat()])
def test_schemas_are_kept(backend: Backend, prompt: Prompt) -> None:
    """A schema goes to each endpoint in the field that it reads."""
    asked = json.dumps(SCHEMA)
    written = text(backend, prompt, json_schema=asked, max_new_tokens=80)

    assert isinstance(json.loads(written)["city"], str)


def test_a_schema_after_text_is_refused(backend: Backend) -> None:
    """The server cannot hold a continued message to a schema, and that is said."""
    with pytest.raises(UnsupportedFeatureError, match="json_schema after text"):
        text(backend, chat("Here: "), json_schema=json.dumps(SCHEMA))


@pytest.mark.parametrize("prompt", [PLAIN, chat(), chat("It is")])
def test_an_option_is_written(backend: Backend, prompt: Prompt) -> None:
    """One of the options comes out, whatever its characters."""
    odd = 'a "b"\n\t\\ \u00e9\U0001f600'
    cities = SelectRequest(prompt=prompt, choices=(" London", " Paris", " Berlin"))
    one = SelectRequest(prompt=prompt, choices=(odd,))

    assert backend.select(cities).chosen in cities.choices
    assert backend.select(one).chosen == odd


def test_a_prefix_is_cached(backend: Backend) -> None:
    """A prefix sent once is not computed again."""
    prefix = "Sort each message into one of: billing, shipping, other.\n"
    backend.cache_prefix(Prompt().with_text(prefix))
    usage = backend.generate(request(Prompt().with_text(f"{prefix}Where is it?"))).usage

    assert usage.cached_tokens >= backend.count_tokens(prefix) - 1


def test_tokens_have_log_probabilities(backend: Backend) -> None:
    """Both endpoints report the tokens of the text."""
    for prompt in (PLAIN, chat()):
        asked = request(prompt, return_logprob=True, top_logprobs_num=2)
        sample = backend.generate(asked).samples[0]
        triples = sample.meta_info["output_token_logprobs"]

        assert isinstance(triples, list)
        assert "".join(token for _, _, token in triples) == sample.text


def test_a_prompt_that_is_too_long_is_the_rows_fault(backend: Backend) -> None:
    """The server's own words say how long it is and how long it may be."""
    with pytest.raises(BadRequestError, match="exceeds the available context size"):
        text(backend, Prompt().with_text("word " * 5000))


def test_another_server_is_told_apart(backend: Backend) -> None:
    """Asked as SGLang, the server is named as what it is not."""
    url = str(backend.get_server_info()["url"]).removesuffix("/v1")

    with pytest.raises(BadRequestError, match="no SGLang server"):
        create_backend("sglang", BackendOptions(url=url))


def square(red: int, green: int, blue: int) -> bytes:
    """Return a picture of one colour, as PNG."""
    rows = (b"\0" + bytes((red, green, blue)) * 56) * 56
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", 56, 56, 8, 2, 0, 0, 0),
        b"IDAT": zlib.compress(rows),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    )


@sgl.function
def look(s: sgl.ProgramState, parts: Any) -> None:
    """Ask about pictures and texts in their order."""
    s += sgl.user_begin()
    for part in parts:
        s += sgl.image(part) if isinstance(part, bytes) else part
    s += sgl.user_end()
    s += sgl.assistant(sgl.gen("a", max_tokens=8, temperature=0))


def test_images_stand_where_the_program_has_them(seeing: Backend) -> None:
    """Each image becomes its tokens, in its place: order and content change answers."""
    red, blue, text = square(255, 0, 0), square(0, 0, 255), "What is it?"
    prompts = ([text], [red, text], [blue, text], [text, red], [red, text, blue])
    states = [look.run(parts, backend=seeing) for parts in prompts]
    answers = [state["a"] for state in states]
    sizes = [seeing.generate(request(prompt_of(parts))).usage for parts in prompts]
    tokens = [usage.prompt_tokens - sizes[0].prompt_tokens for usage in sizes]

    assert tokens == [0, *[TOKENS_PER_IMAGE] * 3, 2 * TOKENS_PER_IMAGE]
    assert len(set(answers)) == len(answers)


def prompt_of(parts: Any) -> Prompt:
    prompt = Prompt().with_role_begin("user")
    for part in parts:
        is_image = isinstance(part, bytes)
        prompt = (
            prompt.with_image(ImageData(data=part))
            if is_image
            else prompt.with_text(part)
        )
    return prompt.with_role_end("user").with_role_begin("assistant")


def test_a_model_that_sees_nothing_is_sent_no_images(backend: Backend) -> None:
    """The server says that it has no eyes, and images are refused by name."""
    assert not backend.capabilities.images
    with pytest.raises(UnsupportedFeatureError, match="images"):
        look.run([square(0, 0, 0), "What?"], backend=backend).sync()
