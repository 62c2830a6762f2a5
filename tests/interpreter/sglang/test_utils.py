"""The helpers of ``sglang.utils`` and ``sglang.test.test_utils``."""

import argparse
import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import sglrun
from sglrun.backends.mock import MockBackend
from sglrun.errors import UnsupportedFeatureError, UsageError
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang import bench, utils
from sglrun.interpreter.sglang.named_backends import OpenAI, RuntimeEndpoint
from tests.stand_in import StandIn

SRT = {"host": "http://127.0.0.1", "port": 30000, "backend": "srt"}


@pytest.fixture(autouse=True)
def fresh_config() -> Iterator[None]:
    """Leave the process's configuration as it was."""
    yield
    global_config.offered_backend = None


def test_read_jsonl_leaves_comments_out(tmp_path: Path) -> None:
    """The rows can be iterated over, sliced and counted."""
    path = tmp_path / "rows.jsonl"
    path.write_text('# said\n{"a": "ä"}\n\n[1]\n', "utf-8")

    assert utils.read_jsonl(str(path))[:5] == [{"a": "ä"}, [1]]


def test_dump_state_text_writes_each_text_under_its_number(tmp_path: Path) -> None:
    """States give their text, other things what they print as."""

    @sglrun.function
    def say(s: sglrun.ProgramState) -> None:
        s += "said by a state"

    path = tmp_path / "texts.txt"
    states = [say.run(backend=MockBackend()), "plain", ["x"]]
    utils.dump_state_text(str(path), states)
    utils.dump_state_text(str(path), ["more"], mode="a")
    lines = path.read_text("utf-8").splitlines()

    assert [line for line in lines if line and not line.startswith("=")] == [
        *("said by a state", "plain", "['x']", "more"),
    ]
    assert [line.strip("= ") for line in lines if " " in line and "=" in line] == [
        *("0", "1", "2", "0"),
    ]


def test_a_file_is_downloaded_once(tmp_path: Path, stand_in: StandIn) -> None:
    """What is there already is not fetched again."""
    path = tmp_path / "models.json"
    got = [
        utils.download_and_cache_file(f"{stand_in.url}/v1/models", str(path))
        for _ in range(2)
    ]

    assert got == [str(path)] * 2
    assert json.loads(path.read_text("utf-8"))["object"] == "list"
    assert len(stand_in.log) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_only_web_addresses_are_downloaded(tmp_path: Path) -> None:
    """A local path is no address, and nothing is written."""
    with pytest.raises(ValueError, match="is no web address"):
        utils.download_and_cache_file("file:///etc/hosts", str(tmp_path / "x"))

    assert list(tmp_path.iterdir()) == []


def test_a_download_that_fails_says_where_the_file_may_be_put(tmp_path: Path) -> None:
    """A machine without a network can be given the file by hand."""
    path = tmp_path / "rows.jsonl"
    with pytest.raises(OSError, match="refused") as failed:
        utils.download_and_cache_file("http://127.0.0.1:1/rows", str(path))

    assert f"put the file at {path} yourself" in failed.value.__notes__[0]
    assert not path.exists()


def test_requests_by_hand(stand_in: StandIn) -> None:
    """A script may post and get JSON by itself."""
    asked = {"text": "Hi", "sampling_params": {"max_new_tokens": 4}}
    posted = utils.http_request(f"{stand_in.url}/generate", json=asked)
    got = utils.http_request(f"{stand_in.url}/v1/models", api_key="k")

    assert posted.status_code == 200
    assert isinstance(posted.json(), dict)
    assert isinstance(got.json(), dict)
    assert stand_in.log[-1].headers["authorization"] == "Bearer k"
    with pytest.raises(UnsupportedFeatureError, match="stream=True"):
        utils.http_request(f"{stand_in.url}/generate", json=asked, stream=True)


def test_an_image_in_base64(tmp_path: Path) -> None:
    """A path and bytes give the same text."""
    path = tmp_path / "a.png"
    path.write_bytes(b"png")

    assert utils.encode_image_base64(str(path)) == "cG5n"
    assert base64.b64decode(utils.encode_image_base64(b"png")) == b"png"


def test_small_helpers(capsys: pytest.CaptureFixture[str]) -> None:
    """A traceback as text, and a line on stdout."""
    try:
        raise ValueError("told")
    except ValueError:
        text = utils.get_exception_traceback()
    utils.print_highlight("shown")

    assert text.endswith("ValueError: told\n")
    assert capsys.readouterr().out == "shown\n"


def test_a_tokenizer_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library the error says what to install; with it, it is asked."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match="needs the library transformers"):
        utils.get_tokenizer("m")
    fake = ModuleType("transformers")
    loader = SimpleNamespace(from_pretrained=lambda name, **more: (name, more))
    vars(fake)["AutoTokenizer"] = loader
    monkeypatch.setitem(sys.modules, "transformers", fake)

    assert utils.get_tokenizer("m", revision="r") == ("m", {"revision": "r"})


def parse(monkeypatch: pytest.MonkeyPatch, add: str, *words: str) -> argparse.Namespace:
    """Parse *words* with the options that the helper *add* adds."""
    monkeypatch.setattr(sys, "argv", ["bench.py", *words])
    parsed: argparse.Namespace = getattr(bench, add)(argparse.ArgumentParser())
    return parsed


def test_a_benchmarks_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the names and defaults that benchmarks read."""
    args = parse(monkeypatch, "add_common_sglang_args_and_parse", "--port", "7")

    assert vars(args) == {
        **SRT,
        "port": 7,
        "parallel": 64,
        "device": "auto",
        "raw_result_file": None,
        "result_file": "result.jsonl",
    }


def test_a_benchmarks_backend() -> None:
    """``srt`` is a server, ``gpt-`` is OpenAI, and another name is refused."""
    select = bench.select_sglang_backend
    server = select(argparse.Namespace(**SRT))

    assert isinstance(server, RuntimeEndpoint)
    assert server.base_url == "http://127.0.0.1:30000"
    bare = select(argparse.Namespace(**{**SRT, "host": "h"}))
    assert isinstance(bare, RuntimeEndpoint)
    assert bare.base_url == "http://h:30000"
    assert isinstance(select(argparse.Namespace(**{**SRT, "backend": "gpt-4"})), OpenAI)
    with pytest.raises(UsageError, match="unknown backend 'tgi'"):
        select(argparse.Namespace(**{**SRT, "backend": "tgi"}))
    with pytest.warns(UserWarning, match="is the same as srt"):
        select(argparse.Namespace(**{**SRT, "backend": "srt-no-parallel"}))


def test_the_commands_backend_is_used_where_a_benchmark_names_none() -> None:
    """A benchmark's own options win over those of the command."""
    offered = global_config.offered_backend = MockBackend()
    select = bench.select_sglang_backend

    assert select(argparse.Namespace(**SRT)) is offered
    assert select(argparse.Namespace(**{**SRT, "port": 7})) is not offered


@pytest.mark.filterwarnings("ignore:no chat template")
def test_calls_of_other_benchmarks(
    monkeypatch: pytest.MonkeyPatch, stand_in: StandIn
) -> None:
    """A benchmark of plain calls gets functions that generate and choose."""
    stand_in.model.answer = " one two"
    stand_in.model.logprobs = {" b": -0.1}
    args = parse(
        monkeypatch,
        "add_common_other_args_and_parse",
        *("--backend", "srt-raw", "--port", stand_in.url.rpartition(":")[2]),
    )
    generate = bench.get_call_generate(args)
    select = bench.get_call_select(args)

    assert generate("Hi", temperature=0, max_tokens=1) == " one"
    assert generate("Hi", 0, 8, stop=" two", n=2) == [" one", " one"]
    assert select("Hi", [" a", " b"]) == 1


def test_another_server_of_a_benchmark_is_asked_as_openai(
    monkeypatch: pytest.MonkeyPatch, stand_in: StandIn
) -> None:
    """A vLLM is asked in OpenAI's shape; without scores the written option counts."""
    stand_in.model.kind, stand_in.model.answer = "vllm", "b"
    args = parse(
        monkeypatch,
        "add_common_other_args_and_parse",
        *("--backend", "vllm", "--model-path", "stand-in"),
        *("--port", stand_in.url.rpartition(":")[2]),
    )
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    assert bench.get_call_generate(args)("Hi") == "b"
    assert bench.get_call_select(args)("Hi", ["a", "b"]) in (0, 1)
    asked = {entry.path for entry in stand_in.log if entry.payload}

    assert asked - {"/tokenize"} == {"/v1/completions"}


def test_an_image_is_loaded_as_image_takes_it(tmp_path: Path) -> None:
    """A path is read, an address stays one, and all else is passed on."""
    file = tmp_path / "a.png"
    file.write_bytes(b"png")

    assert utils.load_image(str(file)) == (b"png", None)
    for given in ("https://e.org/a.png", "data:image/png;base64,eA==", b"png"):
        assert utils.load_image(given) == (given, None)
