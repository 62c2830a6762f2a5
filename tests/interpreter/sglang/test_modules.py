"""The modules of SGLang, served."""

import importlib
import sys
from collections.abc import Iterator
from importlib import metadata

import pytest

import sglrun
from sglrun.errors import UnsupportedFeatureError
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang.finder import serve_sglang, withdraw_sglang
from sglrun.interpreter.sglang.modules import served_modules


@pytest.fixture(autouse=True)
def served() -> Iterator[None]:
    """Serve SGLang for one test."""
    serve_sglang()
    yield
    withdraw_sglang()


def imported(statement: str) -> dict[str, object]:
    """Return the names that an import statement gives."""
    names: dict[str, object] = {}
    exec(statement, names)  # noqa: S102 - the statement is the test
    del names["__builtins__"]
    return names


@pytest.mark.parametrize("name", served_modules())
def test_every_module_can_be_imported_first(name: str) -> None:
    """Each module is there on its own and holds what it is said to hold."""
    module = importlib.import_module(f"sglang.{name}".rstrip("."))
    held = served_modules()[name]

    assert {key: getattr(module, key) for key in held} == held


def test_the_package_holds_the_public_api() -> None:
    """Whatever a program imports of sglrun it can import of SGLang."""
    module = importlib.import_module("sglang")

    assert {name: getattr(module, name) for name in sglrun.__all__} == {
        name: getattr(sglrun, name) for name in sglrun.__all__
    }


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("from sglang import OpenAI, function, gen, set_default_backend", "gen"),
        ("from sglang.api import set_default_backend", "set_default_backend"),
        ("from sglang.lang.ir import REGEX_INT", "REGEX_INT"),
        ("from sglang.utils import read_jsonl", "read_jsonl"),
        (
            "from sglang.lang.backend.runtime_endpoint import RuntimeEndpoint",
            "RuntimeEndpoint",
        ),
        ("from sglang.backend.openai import OpenAI", "OpenAI"),
        ("from sglang.test.test_utils import select_sglang_backend as x", "x"),
        ("from sglang import *", "select"),
        ("import sglang.lang.chat_template as t", "t"),
    ],
)
def test_the_ways_that_programs_import(statement: str, name: str) -> None:
    """Every form of import that is used finds its name."""
    assert name in imported(statement)


def test_the_object_is_not_hidden_by_its_module() -> None:
    """``sgl.global_config`` stays the object after its module is imported."""
    names = imported(
        "import sglang as sgl\n"
        "import sglang.global_config\n"
        "from sglang.global_config import global_config as own"
    )

    assert names["own"] is global_config
    assert getattr(names["sgl"], "global_config", None) is global_config


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("import sglang.srt.layers.moe", "sglang.srt.layers"),
        ("from sglang.srt.server_args import ServerArgs", "sglang.srt.server_args"),
        ("from sglang.utils import trim_overlap", "sglang.utils.trim_overlap"),
        ("from sglang import Shiny", "sglang.Shiny"),
    ],
)
def test_what_is_not_served_is_an_import_error(statement: str, named: str) -> None:
    """A part that sglrun does not serve is named, however it is imported."""
    with pytest.raises(ImportError, match=f"'{named}' is not part of it"):
        imported(statement)


def test_a_missing_attribute_is_an_attribute_error() -> None:
    """``hasattr`` and ``getattr`` with a default work as ever."""
    module = importlib.import_module("sglang")

    assert not hasattr(module, "shiny")
    with pytest.raises(AttributeError, match=r"'sglang\.shiny' is not part of it"):
        _ = module.shiny


def test_an_installed_sglang_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SGLang is installed, the error says how to have its own parts."""
    monkeypatch.setattr(metadata, "version", lambda _: "0.5.1")

    with pytest.raises(ImportError, match=r"SGLang 0\.5\.1 is installed: run this"):
        imported("import sglang.srt.layers")


def test_serving_comes_before_an_installed_sglang() -> None:
    """The finder stands first, once, and is gone when withdrawn."""
    serve_sglang()
    finder = sys.meta_path[0]

    assert type(finder).__module__ == serve_sglang.__module__
    assert sys.meta_path.count(finder) == 1
    imported("import sglang.lang.ir")
    withdraw_sglang()
    assert finder not in sys.meta_path
    assert not [name for name in sys.modules if name.startswith("sglang.")]


def test_other_modules_are_left_alone() -> None:
    """Only SGLang's own names are answered, not those that begin like it."""
    finder = sys.meta_path[0]

    assert finder.find_spec("sglang_tools", None, None) is None
    assert finder.find_spec("json", None, None) is None


def test_the_engine_is_refused_when_it_is_made() -> None:
    """``sgl.Engine`` can be imported, and says what to use instead."""
    names = imported("from sglang import Engine")
    engine = names["Engine"]

    assert callable(engine)
    with pytest.raises(UnsupportedFeatureError, match="--backend local"):
        engine(model_path="m")
