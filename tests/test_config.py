"""The configuration of a run."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from sglrun.batch.prices import Prices
from sglrun.config import RunConfig, guess_backend, resolve_config
from sglrun.config.settings import SAMPLING, SETTINGS, Setting
from sglrun.errors import ConfigError
from sglrun.lang.sampling import SamplingParams

PROFILES = """\
profiles:
  fast:
    backend: openai
    url: http://fast:8000/v1
    model: big
    api_key_env: FAST_KEY
    headers: {X-Team: search}
    timeout: 5
    limits: {num_threads: 8, retries: 0}
    prices: {prompt: 2, completion: 10, cached: 0.5}
  nameless:
    url: http://some:30000
batch:
  model: from-batch
  temperature: 0.5
"""


def resolve(
    folder: Path,
    yaml: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    **options: object,
) -> RunConfig:
    """Return the configuration that *options* give beside a ``sglrun.yaml``."""
    if yaml:
        (folder / "sglrun.yaml").write_text(yaml, "utf-8")
    return resolve_config(options, environment=environment or {}, folder=folder)


def test_nothing_said_gives_the_defaults(tmp_path: Path) -> None:
    """Without options, variables and files the embedded engine runs by default."""
    config = resolve(tmp_path)

    assert config.backend.backend == "local"
    assert config.sampling == SamplingParams()
    assert config.speed.num_threads == "auto"
    assert config.notes == ()


@pytest.mark.parametrize(
    ("said", "expected"),
    [(4, 0.1), (3, 0.2), (2, 0.3), (1, 0.4), (0, None)],
)
def test_precedence(tmp_path: Path, said: int, expected: float | None) -> None:
    """An option is over the environment, that over the folder's file, that over home's.

    *said* counts the places that speak, from the weakest up.
    """
    home = tmp_path / "home" / ".config" / "sglrun"
    home.mkdir(parents=True)
    if said >= 1:
        (home / "config.yaml").write_text("batch: {temperature: 0.4}", "utf-8")
    environment = {"HOME": str(tmp_path / "home")}
    if said >= 3:
        environment["SGLRUN_TEMPERATURE"] = "0.2"
    config = resolve(
        tmp_path,
        "batch: {temperature: 0.3}" if said >= 2 else "",
        environment=environment,
        temperature="0.1" if said >= 4 else None,
    )

    assert config.sampling.temperature == expected


def test_a_profile_names_a_backend_with_all_it_needs(tmp_path: Path) -> None:
    """``-b NAME`` takes backend, address, key, headers, limits, prices of a profile."""
    config = resolve(
        tmp_path, PROFILES, environment={"FAST_KEY": "sk-1"}, backend="fast"
    )

    assert config.backend.backend == "openai"
    assert config.backend_options.url == "http://fast:8000/v1"
    assert config.backend_options.model == "big"
    assert config.backend_options.headers == {"X-Team": "search"}
    assert config.backend_options.timeout_s == 5
    assert config.backend_options.api_key is not None
    assert config.backend_options.api_key.value == "sk-1"
    assert (config.speed.num_threads, config.speed.retries) == (8, 0)
    assert config.prices == Prices(prompt=2, completion=10, cached=0.5)
    assert config.sampling.temperature == 0.5


def test_an_option_is_over_the_profile(tmp_path: Path) -> None:
    """What is typed beside ``-b NAME`` wins over what the profile says."""
    config = resolve(
        tmp_path, PROFILES, environment={"FAST_KEY": "k"}, backend="fast", model="small"
    )

    assert config.backend_options.model == "small"


def test_a_profile_without_backend_is_known_by_its_address(tmp_path: Path) -> None:
    """A profile that names no backend is taken for what its address looks like."""
    assert resolve(tmp_path, PROFILES, backend="nameless").backend.backend == "auto"


def test_addresses_may_be_several(tmp_path: Path) -> None:
    """A file lists them, an option repeats; a key goes where all have one owner."""
    known = ["https://a.openai.azure.com/openai/v1", "https://b.openai.azure.com/v1"]
    key = {"AZURE_OPENAI_API_KEY": "k-azure"}
    listed = resolve(tmp_path, f"batch: {{url: {known}}}", environment=key)
    mixed = resolve(tmp_path, url=(*known, "http://h/v1"), environment=key)

    assert (listed.backend_options.url, *listed.backend_options.more_urls) == (*known,)
    assert listed.backend_options.api_key is not None
    assert mixed.backend_options.api_key is None
    assert resolve(tmp_path, url=("http://h/v1", "http://g")).backend.backend == "auto"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://h:8000/v1", "openai"),
        ("http://h:8000/v1/", "openai"),
        ("http://h:30000", "auto"),
        ("https://api.openai.com/v1", "openai"),
        ("https://api.groq.com/openai/v1", "openai"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://notapi.anthropic.com.example", "auto"),
        ("http://[", "auto"),
    ],
)
def test_an_address_alone_names_the_backend(
    tmp_path: Path, url: str, name: str
) -> None:
    """``--url`` without a backend is known by its host or path, or will be asked."""
    config = resolve(tmp_path, url=url)

    assert guess_backend(url) == name
    assert config.backend.backend == name


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("bacth: {}", "sglrun.yaml:bacth: no such key (did you mean 'batch'?)"),
        (
            "batch: {temprature: 1}",
            "sglrun.yaml:batch.temprature: no such key (did you mean 'temperature'?)",
        ),
        (
            "batch: {overwrite: true}",
            "sglrun.yaml:batch.overwrite: no such key",
        ),
        (
            "profiles: {a: {modle: m}}",
            "sglrun.yaml:profiles.a.modle: no such key (did you mean 'model'?)",
        ),
        (
            "profiles: {a: {limits: {thread: 1}}}",
            "sglrun.yaml:profiles.a.limits.thread: no such key",
        ),
        (
            "profiles: {a: {prices: {promt: 1}}}",
            "sglrun.yaml:profiles.a.prices.promt: no such key (did you mean 'prompt'?)",
        ),
        ("batch: 3", "sglrun.yaml:batch: 3 is not a table of keys"),
        ("- a", "sglrun.yaml: ['a'] is not a table of keys"),
        ("batch: {a: [", "sglrun.yaml:1: not YAML: "),
        (
            "batch: {num_threads: many}",
            "sglrun.yaml:batch.num_threads: 'many' is not a whole number from 1 or",
        ),
        (
            "batch: {retries: 1.5}",
            "sglrun.yaml:batch.retries: 1.5 is not a whole number from 0",
        ),
        (
            "batch: {model: 7}",
            "sglrun.yaml:batch.model: 7 is not a text",
        ),
        (
            "batch: {precache: 2}",
            "sglrun.yaml:batch.precache: 2 is not true or false",
        ),
    ],
)
def test_a_wrong_file_is_named_with_its_key(
    tmp_path: Path, yaml: str, message: str
) -> None:
    """What is wrong in a file is told with the file, the key and the value."""
    with pytest.raises(ConfigError) as caught:
        resolve(tmp_path, yaml)

    assert str(caught.value).startswith(message)


def test_a_wrong_price_is_named(tmp_path: Path) -> None:
    """A price that is no number is told with its key."""
    with pytest.raises(ConfigError, match=r"profiles\.a\.prices\.prompt: 'x' is not"):
        resolve(tmp_path, "profiles: {a: {prices: {prompt: x}}}", backend="a")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", "hot", "--temperature: 'hot' is not a number from 0"),
        ("temperature", "nan", "--temperature: 'nan' is not a number from 0"),
        ("top_p", "1.5", "--top-p: '1.5' is not a number from 0 to 1"),
        ("top_p", "0", "--top-p: top_p must not be 0.0"),
        ("top_k", "0", "--top-k: top_k must not be 0"),
        (
            "repetition_penalty",
            "0",
            "--repetition-penalty: repetition_penalty must not",
        ),
        ("num_threads", "0", "--num-threads: '0' is not a whole number from 1 or auto"),
        ("order", "random", "--order: 'random' is not one of input, completion"),
        ("backend", "opnai", "--backend: unknown backend 'opnai' (did you mean 'op"),
        ("max_errors", "101%", "--max-errors: '101%' is not a number of rows or"),
        ("headers", ["sk-secret"], "--header: what is given is not of the form"),
        ("api_key_env", "sk-secret", "--api-key-env: what is given is not the name"),
        ("api_key_env", "hf_Secret", "--api-key-env: the variable is not set"),
        ("api_key_env", "MY_KEY", "--api-key-env: the variable MY_KEY is not set"),
    ],
)
def test_a_wrong_option_is_named(
    tmp_path: Path, name: str, value: object, message: str
) -> None:
    """A wrong option is told with its value, unless the value may be a key."""
    with pytest.raises(ConfigError) as caught:
        resolve_config({name: value}, environment={}, folder=tmp_path)

    assert str(caught.value).startswith(message)
    assert "ecret" not in str(caught.value)


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    """A wrong environment variable is told by its name."""
    with pytest.raises(ConfigError, match=r"^SGLRUN_RETRIES: 'x' is not a whole"):
        resolve(tmp_path, environment={"SGLRUN_RETRIES": "x"})


def test_a_variable_that_no_setting_has_is_noted(tmp_path: Path) -> None:
    """A misspelt ``SGLRUN_`` variable is noted with what was perhaps meant."""
    config = resolve(tmp_path, environment={"SGLRUN_TEMPRATURE": "1"})

    assert [note.partition(" (")[::2] for note in config.notes] == [
        (
            "SGLRUN_TEMPRATURE in the environment is no setting",
            "did you mean 'SGLRUN_TEMPERATURE'?)",
        )
    ]


def test_the_key_never_shows(tmp_path: Path) -> None:
    """A key from the environment is in no representation of the configuration."""
    config = resolve(
        tmp_path, environment={"OPENAI_API_KEY": "sk-secret"}, backend="openai"
    )

    assert config.backend_options.api_key is not None
    assert config.backend_options.api_key.value == "sk-secret"
    assert "sk-secret" not in repr(config)


@pytest.mark.parametrize(("typed", "value"), [("5", 5), ("5%", 0.05), ("100%", 1.0)])
def test_a_limit_is_a_number_or_a_share(
    tmp_path: Path, typed: str, value: float
) -> None:
    """``--max-errors`` is rows as an integer, or a share as a fraction."""
    limit = resolve(tmp_path, max_errors=typed).safety.max_errors

    assert (type(limit), limit) == (type(value), value)


def test_a_missing_default_key_is_no_error(tmp_path: Path) -> None:
    """A server of one's own needs no key, so OPENAI_API_KEY may be unset."""
    assert resolve(tmp_path, backend="openai").backend_options.api_key is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, False), ({"model": "m"}, True), ({"url": "http://h"}, True)],
)
def test_whether_a_backend_is_named(
    tmp_path: Path, *, options: dict[str, str], expected: bool
) -> None:
    """Whoever names a backend, an address or a model has chosen the backend."""
    config = resolve_config(options, environment={}, folder=tmp_path)

    assert config.names_backend == expected
    assert resolve(tmp_path, backend="local").names_backend


def test_headers_repeat(tmp_path: Path) -> None:
    """``--header`` may be given several times, with or without blanks."""
    config = resolve(tmp_path, headers=["A: 1", "B:2"])

    assert config.backend_options.headers == {"A": "1", "B": "2"}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=list(SETTINGS))
def test_a_default_is_a_value(setting: Setting) -> None:
    """Every default is a value of its setting's kind."""
    assert setting.default is None or (
        setting.kind.parse(setting.default) == setting.default
    )


def test_sampling_settings_are_sampling_parameters() -> None:
    """Each sampling setting is a field of the sampling parameters."""
    assert {setting.name for setting in SAMPLING} <= {
        item.name for item in fields(SamplingParams)
    }


def test_a_limit_on_cost_wants_prices(tmp_path: Path) -> None:
    """A limit that nothing could be held against is refused, not silently off."""
    with pytest.raises(ConfigError, match=r"--max-cost: what a token costs is not"):
        resolve(tmp_path, "profiles: {a: {backend: mock}}", backend="a", max_cost="1")

    paid = "profiles: {a: {backend: mock, prices: {prompt: 1, completion: 2}}}"
    config = resolve(tmp_path, paid, backend="a", max_cost="0.5")

    assert config.safety.max_cost == 0.5


@pytest.mark.parametrize("said", ["prompt", "completion"])
def test_half_a_price_is_refused(tmp_path: Path, said: str) -> None:
    """What is left out would be counted as free; that must be said."""
    with pytest.raises(ConfigError, match=r"profiles.a.prices: say .* too; 0 where"):
        resolve(tmp_path, f"profiles: {{a: {{prices: {{{said}: 1}}}}}}", backend="a")


def test_rates_stand_in_a_profile(tmp_path: Path) -> None:
    """A profile's limits hold its rates, and the patience with its server."""
    limits = "limits: {rpm: 60, tpm: 90000, wait_for_server: 600}"
    config = resolve(tmp_path, f"profiles: {{a: {{{limits}}}}}", backend="a")

    assert (config.speed.rpm, config.speed.tpm) == (60, 90_000)
    assert config.safety.wait_for_server == 600


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://api.groq.com/openai/v1", "gsk"),
        ("https://api.anthropic.com", "ant"),
        ("http://own:8000/v1", "sk"),
        ("http://own:8000", None),
    ],
)
def test_a_host_gets_its_own_key(tmp_path: Path, url: str, key: str | None) -> None:
    """The key of one service is not sent to another."""
    environment = {
        "OPENAI_API_KEY": "sk",
        "GROQ_API_KEY": "gsk",
        "ANTHROPIC_API_KEY": "ant",
    }
    given = resolve(tmp_path, url=url, environment=environment).backend_options.api_key

    assert (given and given.value) == key
