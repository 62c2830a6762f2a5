"""The modules of SGLang that programs import, served by sglrun.

They are found before an installed SGLang, so that a program means the same with and
without it. What sglrun does not serve is an ``ImportError`` that says so.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import sglrun
from sglrun.backends.base import Backend
from sglrun.interpreter import (
    global_config,
    named_backends,
    runtime,
    sglang_bench,
    sglang_utils,
)
from sglrun.interpreter.executor import StreamExecutor
from sglrun.interpreter.function import Function
from sglrun.lang import chat_template, choices, constraints, ir
from sglrun.lang.sampling import SamplingParams

ROOT = "sglang"

LEVEL = "0.5.23"
"""The version of SGLang whose language is served."""


def serve_sglang() -> None:
    """Serve ``import sglang`` from here on, also to code that imports it later.

    Safe to call twice. An SGLang that the process has imported already stays.
    """
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def withdraw_sglang() -> None:
    """Serve ``import sglang`` no longer; what was imported stays with its importer."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in tuple(sys.modules):
        loader = getattr(sys.modules[name], "__loader__", None)
        if isinstance(loader, _Loader):
            del sys.modules[name]


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
            **_of(choices, *_METHODS, "ChoicesDecision"),
            "ChoicesSamplingMethod": choices.ChoicesMethod,
        },
        "chat_template": _of(chat_template, *_TEMPLATES),
        "global_config": configuration,
        "backend": {},
    }
    tokenizers = _of(sglang_utils, "get_tokenizer")
    patterns = _of(sglang_utils, "build_regex_from_object")
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
        "utils": _of(sglang_utils, *sglang_utils.SERVED),
        "test": {},
        "test.test_utils": _of(sglang_bench, *sglang_bench.SERVED),
        "srt": {},
        "srt.hf_transformers_utils": tokenizers,
        "srt.utils": _of(sglang_utils, "is_hip"),
        "srt.utils.hf_transformers_utils": tokenizers,
        "srt.constrained": patterns,
        "srt.constrained.outlines_backend": patterns,
        "version": {"__version__": LEVEL},
    }


class _Loader(Loader):
    """Fills a served module."""

    def __init__(self, held: Mapping[str, object], children: Sequence[str]) -> None:
        self._held = held
        self._children = children

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the making to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill *module*; what is in it is over the modules below it.

        ``sglang.global_config`` is an object and a module: once every module below is
        there, importing one no longer hides the object.
        """
        name = module.__name__
        for child in self._children:
            importlib.import_module(f"{name}.{child}")
        module.__dict__.update(self._held)
        module.__doc__ = f"{name!r} of SGLang, served by sglrun."
        if "__version__" not in self._held:
            module.__dict__["__all__"] = sorted(self._held)

        def absent(attribute: str) -> object:
            raise AttributeError(_not_served(f"{name}.{attribute}"))

        module.__dict__["__getattr__"] = absent


class _Finder(MetaPathFinder):
    """Finds the served modules, and refuses the others by name."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how *fullname* is served; ``None`` if it is no part of SGLang.

        Raises:
            ImportError: it is, and sglrun does not serve it.
        """
        del path, target
        root, _, name = fullname.partition(".")
        if root != ROOT:
            return None
        served = served_modules()
        if name not in served:
            # A ModuleNotFoundError would be swallowed by "from ... import ...".
            raise ImportError(_not_served(fullname), name=fullname)
        loader = _Loader(served[name], tuple(_below(name, served)))
        # Every one is a package, so that "from ... import name" asks here too.
        return ModuleSpec(fullname, loader, origin="sglrun", is_package=True)


_finder = _Finder()


def _below(name: str, served: Mapping[str, object]) -> Sequence[str]:
    start = f"{name}." if name else ""
    rest = [other[len(start) :] for other in served if other.startswith(start)]
    return [child for child in rest if child and "." not in child]


def _not_served(name: str) -> str:
    text = f"sglrun serves the frontend language of SGLang; {name!r} is not part of it"
    try:
        version = metadata.version(ROOT)
    except metadata.PackageNotFoundError:
        return text
    return f"{text} (SGLang {version} is installed: run this with python itself)"
