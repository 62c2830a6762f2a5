"""The helpers of ``sglang.test.test_utils`` that benchmark scripts import."""

import argparse
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sglrun.backends.base import Backend, Request, SelectRequest
from sglrun.errors import UsageError
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang.named_backends import OpenAI, RuntimeEndpoint
from sglrun.interpreter.sglang.utils import normalize_base_url
from sglrun.interpreter.state import ProgramState
from sglrun.lang.choices import token_length_normalized
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

SERVED = (
    "add_common_other_args_and_parse",
    "add_common_sglang_args_and_parse",
    "dump_bench_raw_result",
    "get_call_generate",
    "get_call_select",
    "is_in_ci",
    "select_sglang_backend",
)
"""What ``sglang.test.test_utils`` holds."""

_HOST = "http://127.0.0.1"
_SGLANG = {"host": _HOST, "port": 30000, "backend": "srt"}
_OTHER_PORTS = {"srt-raw": 30000, "vllm": 21000}


def add_common_sglang_args_and_parse(
    parser: argparse.ArgumentParser,
) -> argparse.Namespace:
    """Add the options of a benchmark on SGLang, and parse the command line."""
    parser.add_argument("--parallel", type=int, default=64)
    parser.add_argument("--host", default=_SGLANG["host"])
    parser.add_argument("--port", type=int, default=_SGLANG["port"])
    parser.add_argument("--backend", default=_SGLANG["backend"])
    parser.add_argument("--device", default="auto", help="without effect")
    parser.add_argument("--result-file", default="result.jsonl")
    parser.add_argument("--raw-result-file", default=None)
    return parser.parse_args()


def add_common_other_args_and_parse(
    parser: argparse.ArgumentParser,
) -> argparse.Namespace:
    """Add the options of a benchmark on another server, and parse the command line."""
    parser.add_argument("--parallel", type=int, default=64)
    parser.add_argument("--host", default=_HOST)
    parser.add_argument("--port", type=int)
    parser.add_argument("--backend", required=True, choices=sorted(_OTHER_PORTS))
    parser.add_argument("--model-path", default=None)
    parser.add_argument("--result-file", default="result.jsonl")
    args = parser.parse_args()
    args.port = args.port or _OTHER_PORTS[args.backend]
    return args


def select_sglang_backend(args: argparse.Namespace) -> Backend:
    """Return the backend that a benchmark's options name.

    Where they name none and the command's options do, it is that one.

    Raises:
        UsageError: no backend has this name.
    """
    offered = global_config.offered_backend
    is_open = all(getattr(args, name) == value for name, value in _SGLANG.items())
    if offered is not None and is_open:
        return offered
    name = str(args.backend)
    if name.startswith("srt"):
        if name == "srt-no-parallel":
            warnings.warn("--backend srt-no-parallel is the same as srt", stacklevel=2)
        return RuntimeEndpoint(normalize_base_url(args.host, args.port))
    if name.startswith("gpt-"):
        return OpenAI(name)
    raise UsageError(f"unknown backend {name!r} of a benchmark (srt, or gpt-...)")


def dump_bench_raw_result(
    path: str | None,
    states: Iterable[ProgramState],
    preds: Iterable[object],
    labels: Iterable[object],
) -> None:
    """Write what came of each run of a benchmark as JSONL; nothing without *path*."""
    if not path:
        return
    with Path(path).open("w", encoding="utf-8") as file:
        for number, (state, pred, label) in enumerate(
            zip(states, preds, labels, strict=False)
        ):
            told = {
                "prompt_id": number,
                "prompt": state.text(),
                "output": {str(name): str(v) for name, v in state.variables().items()},
                "correct": bool(pred == label),
            }
            file.write(json.dumps(told, ensure_ascii=False) + "\n")


def is_in_ci() -> bool:
    """Return whether this is one of the reference's own test runs: it is none."""
    return False


def get_call_generate(args: argparse.Namespace) -> Callable[..., str | list[str]]:
    """Return a function from a prompt to its generation, or to *n* of them."""
    backend = _other_backend(args)

    def generate(
        prompt: str,
        temperature: float = DEFAULTS.temperature,
        max_tokens: int = DEFAULTS.max_new_tokens,
        stop: str | Sequence[str] | None = None,
        **more: object,
    ) -> str | list[str]:
        sampling = SamplingParams.of(
            temperature=temperature, max_new_tokens=max_tokens, stop=stop, **more
        ).over(DEFAULTS)
        request = Request(prompt=Prompt().with_text(prompt), sampling=sampling)
        texts = [sample.text for sample in backend.generate(request).samples]
        return texts[0] if sampling.n == 1 else texts

    return generate


def get_call_select(args: argparse.Namespace) -> Callable[..., int]:
    """Return a function from a context and choices to the number of the best one."""
    backend = _other_backend(args)

    def select(context: str, choices: Sequence[str]) -> int:
        options = tuple(choices)
        prompt = Prompt().with_text(context)
        selection = backend.select(SelectRequest(prompt=prompt, choices=options))
        if not selection.scores:
            return options.index(str(selection.chosen))
        return options.index(token_length_normalized(selection.scores).choice)

    return select


def _other_backend(args: argparse.Namespace) -> Backend:
    url = normalize_base_url(args.host, args.port)
    if args.backend == "srt-raw":
        return RuntimeEndpoint(url)
    return OpenAI(args.model_path, base_url=f"{url}/v1")
