"""The helpers of ``sglang.utils`` that scripts import, on sglrun's own objects."""

import base64
import importlib
import json
import shutil
import sys
import tempfile
import traceback
import urllib.parse
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglrun.backends.base import Secret
from sglrun.errors import UnsupportedFeatureError
from sglrun.interpreter.state import ProgramState
from sglrun.lang.constraints import json_schema_text
from sglrun.lang.schema_pattern import schema_pattern

SERVED = (
    "download_and_cache_file",
    "dump_state_text",
    "encode_image_base64",
    "get_exception_traceback",
    "http_request",
    "normalize_base_url",
    "print_highlight",
    "read_jsonl",
)
"""What ``sglang.utils`` holds."""

_RULE = "=" * 40
_SCHEME = 10  # characters in which an address says that it is one


def read_jsonl(filename: str) -> list[Any]:
    """Return the values of a JSONL file; lines that begin with ``#`` are left out.

    A list, because some versions of the reference gave one and others an iterator.
    """
    with Path(filename).open(encoding="utf-8") as file:
        return [
            json.loads(line)
            for line in file
            if line.strip() and not line.startswith("#")
        ]


def dump_state_text(filename: str, states: Iterable[object], mode: str = "w") -> None:
    """Write the text of each of *states* to a file, with its number above it."""
    with Path(filename).open(mode, encoding="utf-8") as file:
        for number, state in enumerate(states):
            text = state.text() if isinstance(state, ProgramState) else str(state)
            file.write(f"{_RULE} {number} {_RULE}\n{text}\n{_RULE * 2}\n\n")


def download_and_cache_file(url: str, filename: str | None = None) -> str:
    """Return the path of a file with what *url* holds; waits, unless it is there.

    Args:
        url: where it is fetched from.
        filename: where it is kept; in the folder for temporary files by default.

    Raises:
        OSError: it cannot be fetched or written.
        ValueError: *url* is no web address.
    """
    name = Path(urllib.parse.urlsplit(url).path).name or "download"
    path = Path(filename) if filename else Path(tempfile.gettempdir()) / name
    if path.exists():
        return str(path)
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is no web address")
    part = path.with_name(f"{path.name}.part")
    try:
        with urllib.request.urlopen(url) as body, part.open("wb") as file:  # noqa: S310 - above
            shutil.copyfileobj(body, file)
    except OSError as exc:
        exc.add_note(f"fetching {url}; or put the file at {path} yourself")
        raise
    part.replace(path)
    return str(path)


@dataclass(frozen=True, slots=True)
class JsonReply:
    """The answer to ``http_request``; an error is raised instead."""

    body: object
    status_code: int = 200

    def json(self) -> object:
        """Return the JSON of the answer."""
        return self.body


def http_request(
    url: str,
    json: object = None,
    stream: bool = False,  # noqa: FBT001, FBT002 - the reference's signature
    api_key: str | None = None,
    **ignored: object,
) -> JsonReply:
    """Return the answer to a request; waits.

    Args:
        url: what is asked.
        json: what is posted; without it the request is a GET.
        stream: refused; a program streams with ``run(..., stream=True)``.
        api_key: sent as a bearer token.
        **ignored: accepted as in the reference, and without effect.

    Raises:
        BackendError: there was no answer, another status, or no JSON.
        UnsupportedFeatureError: *stream*.
    """
    del ignored
    if stream:
        raise UnsupportedFeatureError("http_request(stream=True) is not served")
    parts = urllib.parse.urlsplit(url)
    key = None if api_key is None else Secret(value=api_key)
    # Few scripts ask by hand, and the door to the network is slow to load.
    door = importlib.import_module("sglrun.backends.http.client")
    http = door.HttpClient(f"{parts.scheme}://{parts.netloc}", api_key=key)
    path = urllib.parse.urlunsplit(("", "", parts.path, parts.query, ""))
    try:
        return JsonReply(
            http.get_json(path) if json is None else http.post_json(path, json)
        )
    finally:
        http.close()


def normalize_base_url(host: str, port: int) -> str:
    """Return the address of a server on *host*, which may be an address already."""
    return f"{host if '://' in host else f'http://{host}'}:{port}"


def encode_image_base64(image: str | Path | bytes) -> str:
    """Return an image, given by its path or its bytes, in base64."""
    data = image if isinstance(image, bytes) else Path(image).read_bytes()
    return base64.b64encode(data).decode("ascii")


def get_exception_traceback() -> str:
    """Return the traceback of the exception that is being handled."""
    return traceback.format_exc()


def print_highlight(content: object) -> None:
    """Write *content* to stdout as a line."""
    sys.stdout.write(f"{content}\n")


def build_regex_from_object(given: object) -> str:
    """Return a pattern of the JSON that a schema or pydantic model describes."""
    return schema_pattern(json_schema_text(given))


def load_image(image_file: Any) -> tuple[Any, None]:
    """Return an image as ``image`` takes it, and no size.

    The file at a path is read; an address stays one, for the server to fetch.
    """
    if isinstance(image_file, str) and "://" not in image_file[:_SCHEME]:
        is_data = image_file.startswith("data:")
        return image_file if is_data else Path(image_file).read_bytes(), None
    return image_file, None


def is_hip() -> bool:
    """Return whether this process computes on AMD's GPUs: it computes on none."""
    return False


def get_tokenizer(tokenizer_name: str, **options: Any) -> Any:
    """Return the tokenizer of a model, by the library ``transformers``.

    Raises:
        ImportError: the library is not installed.
    """
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as exc:
        raise ImportError(
            f"the tokenizer of {tokenizer_name!r} needs the library transformers; "
            "install it beside sglrun"
        ) from exc
    return transformers.AutoTokenizer.from_pretrained(tokenizer_name, **options)
