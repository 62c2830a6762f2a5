"""Rows 117 to 120: finding templates and asking servers."""

import pytest

import sglrun as sgl
from sglrun.backends.base import BackendOptions
from sglrun.backends.sglang import create
from sglrun.errors import BackendUnreachableError, ConfigError
from sglrun.interpreter.global_config import global_config
from tests.stand_in import StandIn


def test_row_117_template_fallback(stand_in: StandIn) -> None:
    """A model without a known template is named in a warning; the row's has one."""
    stand_in.model.model_path = "Qwen/Qwen3-8B"
    with create(BackendOptions(url=stand_in.url)) as backend:
        found = backend.chat_template.name
    stand_in.model.model_path = "x/none"

    with pytest.warns(UserWarning, match="'x/none'"):
        create(BackendOptions(url=stand_in.url)).close()

    assert found == "qwen3"


def test_row_118_template_by_name(stand_in: StandIn) -> None:
    """A template is taken by its name; a wrong name lists those there are."""
    named = sgl.RuntimeEndpoint(stand_in.url, chat_template_name="chatml")
    unknown = sgl.RuntimeEndpoint(stand_in.url, chat_template_name="chatmll")
    found = named.chat_template.name
    named.close()

    with pytest.raises(ConfigError, match=r"'chatmll' .one of: .*chatml, "):
        unknown.chat_template.name  # noqa: B018 - asking is the test

    assert found == "chatml"


def test_row_119_flush_and_info(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a backend they ask the server; without one they answer without it."""
    monkeypatch.setattr(global_config, "default_backend", None)
    without = (sgl.flush_cache(), sgl.get_server_info())
    endpoint = sgl.RuntimeEndpoint(stand_in.url, chat_template_name="default")
    flushed = sgl.flush_cache(endpoint)
    sgl.set_default_backend(endpoint)
    info = sgl.get_server_info()
    endpoint.close()
    asked = {(entry.method, entry.path) for entry in stand_in.log}

    assert without == (False, None)
    assert flushed
    assert info is not None
    assert info["version"] == "0.5.23"
    assert {("POST", "/flush_cache"), ("GET", "/server_info")} <= asked


def test_row_120_server_down() -> None:
    """An address where nothing answers is named in the error."""
    with StandIn() as gone:
        url = gone.url

    with pytest.raises(BackendUnreachableError, match=url) as caught:
        create(BackendOptions(url=url))

    assert caught.value.exit_code != 0
