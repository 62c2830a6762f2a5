"""The modules of SGLang that programs import: what each of them holds."""

from collections.abc import Mapping
from importlib import metadata
from types import ModuleType

import sglrun
from sglrun.backends.base import Backend
from sglrun.interpreter import global_config
from sglrun.interpreter.executor import StreamExecutor
from sglrun.interpreter.function import Function
from sglrun.interpreter.sglang import (
    bench,
    named_backends,
    runtime,
    servers,
    utils,
)
from sglrun.lang import authors_choices, chat_template, choices, constraints, ir
from sglrun.lang.sampling import SamplingParams

LEVEL = "0.5.23"
"""The version of SGLang whose language is served."""


def _of(module: ModuleType, *names: str) -> dict[str, object]:
    return {name: getattr(module, name) for name in names}


def _public() -> dict[str, object]:
    return {
        **_of(sglrun, *sglrun.__all__),
        **_of(named_backends, "Engine"),
        "get_server_args": global_config.get_server_info,  # before 0.4.1
        "__version__": LEVEL,
    }


_REGEXES = ("REGEX_INT", "REGEX_FLOAT", "REGEX_STR", "REGEX_BOOL")
_METHODS = (
    "token_length_normalized",
    "greedy_token_selection",
    "unconditional_likelihood_normalized",
)
_TEMPLATES = (
    "ChatTemplate",
    "get_chat_template",
    "get_chat_template_by_model_path",
    "register_chat_template",
    "register_chat_template_matching_function",
)


Tree = Mapping[str, Mapping[str, object]]


def served_modules() -> Tree:
    """Return what each module holds, by its name below ``sglang``."""
    backends: Tree = {
        "base_backend": {"BaseBackend": Backend},
        "runtime_endpoint": {
            "RuntimeEndpoint": named_backends.RuntimeEndpoint,
            "Runtime": runtime.Runtime,
        },
        "openai": _of(named_backends, "OpenAI"),
        "anthropic": _of(named_backends, "Anthropic"),
        "crusoe": _of(named_backends, "Crusoe"),
        "litellm": _of(named_backends, "LiteLLM"),
        "vertexai": _of(named_backends, "VertexAI"),
    }
    configuration = _of(global_config, "GlobalConfig", "global_config")
    language: Tree = {
        "api": _public(),
        "ir": {
            **_of(constraints, *_REGEXES),
            "SglFunction": Function,
            "SglExprList": ir.ExprList,
            "SglSamplingParams": SamplingParams,
        },
        "interpreter": {
            **_of(sglrun, "ProgramState", "ProgramStateGroup"),
            "StreamExecutor": StreamExecutor,
        },
        "choices": {
            **_of(choices, *_METHODS),
            "ChoicesDecision": authors_choices.Decision,
            "ChoicesSamplingMethod": authors_choices.ChoicesSamplingMethod,
        },
        "chat_template": _of(chat_template, *_TEMPLATES),
        "global_config": configuration,
        "backend": {},
    }
    tokenizers = _of(utils, "get_tokenizer")
    patterns = _of(utils, "build_regex_from_object")
    return {
        "": _public(),
        "api": _public(),
        "global_config": configuration,
        "lang": {},
        **{f"lang.{name}": held for name, held in language.items()},
        **{f"lang.backend.{name}": held for name, held in backends.items()},
        # Where they stood in versions before 0.3.
        "backend": {},
        **{f"backend.{name}": held for name, held in backends.items()},
        "utils": {**_of(utils, *utils.SERVED), **_of(servers, *servers.SERVED)},
        "test": {},
        "test.doc_patch": _of(servers, "launch_server_cmd"),
        "test.test_utils": _of(bench, *bench.SERVED),
        "srt": {},
        "srt.hf_transformers_utils": tokenizers,
        "srt.utils": _of(utils, "is_hip", "load_image"),
        "srt.utils.hf_transformers_utils": tokenizers,
        "srt.constrained": patterns,
        "srt.constrained.outlines_backend": patterns,
        "version": {"__version__": LEVEL},
    }


def not_served(name: str) -> str:
    """Return what an author is told who imports *name*."""
    text = f"sglrun serves the frontend language of SGLang; {name!r} is not part of it"
    try:
        version = metadata.version("sglang")
    except metadata.PackageNotFoundError:
        return text
    return f"{text} (SGLang {version} is installed: run this with python itself)"
