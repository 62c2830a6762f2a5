"""The configuration of a run: what options, environment and files say, as one value.

Rule: only this module reads the environment and configuration files.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from sglrun.backends.base import BackendOptions, Secret, Usage
from sglrun.errors import ConfigError
from sglrun.kinds import number
from sglrun.lang.sampling import SamplingParams
from sglrun.settings import (
    SECTIONS,
    SETTINGS,
    BackendSettings,
    DisplaySettings,
    RowSettings,
    SafetySettings,
    Setting,
    SpeedSettings,
    nearest,
)

KEY_VARIABLES: Mapping[str, str] = {"openai": "OPENAI_API_KEY"}
"""The variable that holds a backend's key where the user names none."""

OTHER_VARIABLES = {"SGLRUN_CACHE"}
"""Variables of ours that are no settings of a run."""

_IN_FILES = {name for name, setting in SETTINGS.items() if not setting.command_only}
_BACKEND = {setting.name for setting in SECTIONS["Backend"]}
_LIMITS = {setting.name for setting in (*SECTIONS["Speed"], *SECTIONS["Safety"])}
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost, in any currency; cached ones as prompt if unsaid."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None

    def cost(self, usage: Usage) -> float:
        """Return what *usage* cost."""
        cached = self.prompt if self.cached is None else self.cached
        read = usage.prompt_tokens - usage.cached_tokens
        return (
            read * self.prompt
            + usage.cached_tokens * cached
            + usage.completion_tokens * self.completion
        ) / _MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """All that a user said about a run, and the defaults for the rest.

    Attributes:
        backend: the model side as it was said; ``backend`` is a name of the table.
        backend_options: the same, with the key, as a backend takes it.
        prices: of the profile, where it has any.
        dumb_terminal: the terminal cannot move its cursor.
        notes: what a user should hear, such as a variable that no setting has.
    """

    rows: RowSettings = field(default_factory=RowSettings)
    backend: BackendSettings = field(default_factory=BackendSettings)
    backend_options: BackendOptions = field(default_factory=BackendOptions)
    speed: SpeedSettings = field(default_factory=SpeedSettings)
    sampling: SamplingParams = field(default_factory=SamplingParams)
    safety: SafetySettings = field(default_factory=SafetySettings)
    display: DisplaySettings = field(default_factory=DisplaySettings)
    prices: Prices | None = None
    dumb_terminal: bool = False
    notes: tuple[str, ...] = ()


_PRICES = {item.name for item in fields(Prices)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """One place where settings are said.

    Attributes:
        values: setting to value; ``None`` says nothing.
        where: setting to how an error calls it here.
    """

    values: Mapping[str, object]
    where: Callable[[Setting], str]

    def parse(self, setting: Setting) -> object:
        """Return the value that is said here.

        Raises:
            ConfigError: it is not of the setting's kind.
        """
        value = self.values[setting.name]
        try:
            return setting.kind.parse(value)
        except (TypeError, ValueError) as exc:
            shown = "what is given" if setting.kind.secret else repr(value)
            raise ConfigError(
                f"{self.where(setting)}: {shown} is not {setting.kind.expects}"
            ) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A configuration file whose keys are all known; values are still as written."""

    shown: str
    batch: Mapping[str, object]
    profiles: Mapping[str, Mapping[str, object]]


def resolve_config(
    options: Mapping[str, object],
    *,
    environment: Mapping[str, str] = os.environ,
    folder: Path = Path(),
) -> RunConfig:
    """Return the configuration of a run.

    An option is over the environment, that over the profile, that over
    ``sglrun.yaml`` in *folder*, that over the user's ``config.yaml``.

    Args:
        options: setting to value as typed; ``None`` where nothing was typed.
        environment: variables; the ``SGLRUN_`` ones, and those that hold keys.
        folder: where ``sglrun.yaml`` may lie.

    Raises:
        ConfigError: a value is wrong, a key of a file unknown, a key's variable unset.
    """
    files = [
        _read_file(path, shown)
        for path, shown in _paths(environment, folder)
        if path.is_file()
    ]
    said = [
        _Source(values=options, where=lambda setting: setting.flag),
        _from_environment(environment),
    ]
    batches = [_from_batch(file) for file in files]
    name = _found((SETTINGS["backend"],), [*said, *batches]).get("backend")
    profile = _from_profile(str(name), files)
    sources = [*said, *profile, *batches]
    backend = _backend(sources, named=name is not None, profile=profile)
    return RunConfig(
        rows=RowSettings(**_found(SECTIONS["Rows"], sources)),
        backend=backend,
        backend_options=_backend_options(backend, sources, environment),
        speed=SpeedSettings(**_found(SECTIONS["Speed"], sources)),
        sampling=SamplingParams.of(**_found(SECTIONS["Sampling"], sources)),
        safety=SafetySettings(**_found(SECTIONS["Safety"], sources)),
        display=DisplaySettings(**_found(SECTIONS["Display"], sources)),
        prices=_prices(str(name), files),
        dumb_terminal=environment.get("TERM", "").lower() in {"dumb", "unknown"},
        notes=_notes(environment),
    )


def guess_backend(url: str) -> str:
    """Return the backend that most likely speaks at *url*."""
    path = urlsplit(url).path.rstrip("/")
    return "openai" if path.endswith("/v1") else "sglang"


def _paths(environment: Mapping[str, str], folder: Path) -> Iterator[tuple[Path, str]]:
    yield folder / "sglrun.yaml", "sglrun.yaml"
    home = environment.get("HOME", "")
    base = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    if base:
        path = Path(base, "sglrun", "config.yaml")
        yield path, str(path)


def _read_file(path: Path, shown: str) -> _File:
    try:
        document = yaml.safe_load(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{shown}: cannot be read: {exc}") from exc
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"{shown}:{line}: not YAML: {exc.problem}") from exc
    except yaml.YAMLError as exc:
        raise ConfigError(f"{shown}: not YAML: {exc}") from exc
    top = _table(document, f"{shown}:", {"batch", "profiles"})
    batch = _table(top.get("batch"), f"{shown}:batch.", _IN_FILES)
    profiles = _table(top.get("profiles"), f"{shown}:profiles.", None)
    for name, profile in profiles.items():
        where = f"{shown}:profiles.{name}."
        told = _table(profile, where, _BACKEND | {"limits", "prices"})
        limits = _table(told.pop("limits", None), f"{where}limits.", _LIMITS)
        prices = _table(told.pop("prices", None), f"{where}prices.", _PRICES)
        profiles[name] = {**told, **limits, "prices": prices}
    return _File(shown=shown, batch=batch, profiles=profiles)


def _table(value: object, where: str, known: set[str] | None) -> dict[str, Any]:
    """Return *value* as a table; with *known*, its keys must be among them."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{where.rstrip('.:')}: {value!r} is not a table of keys")
    for key in value:
        if known is not None and key not in known:
            hint = nearest(str(key), known)
            raise ConfigError(f"{where}{key}: no such key ({hint})")
    return {str(key): item for key, item in value.items()}


def _from_environment(environment: Mapping[str, str]) -> _Source:
    return _Source(
        values={
            name: environment[setting.variable]
            for name, setting in SETTINGS.items()
            if name in _IN_FILES and environment.get(setting.variable)
        },
        where=lambda setting: setting.variable,
    )


def _from_batch(file: _File) -> _Source:
    return _Source(
        values=file.batch, where=lambda setting: f"{file.shown}:batch.{setting.name}"
    )


def _from_profile(name: str, files: Iterable[_File]) -> list[_Source]:
    """Return the first profile of that name as a source; none where there is none."""

    def source(file: _File) -> _Source:
        return _Source(
            values=file.profiles[name],
            where=lambda setting: f"{file.shown}:profiles.{name}.{setting.name}",
        )

    return [source(file) for file in files if name in file.profiles][:1]


def _found(settings: Iterable[Setting], sources: Iterable[_Source]) -> dict[str, Any]:
    """Return what the first source that says anything says, by setting."""
    found = {}
    for setting in settings:
        for source in sources:
            if source.values.get(setting.name) is not None:
                found[setting.name] = source.parse(setting)
                break
    return found


def _backend(
    sources: Iterable[_Source], *, named: bool, profile: Iterable[_Source]
) -> BackendSettings:
    found = _found(SECTIONS["Backend"], sources)
    in_profile = _found((SETTINGS["backend"],), profile)
    if profile or not named:
        found |= {"backend": None, **in_profile}
    if found["backend"] is None and "url" in found:
        found["backend"] = guess_backend(found["url"])
    if found["backend"] is None:
        found["backend"] = "local"
    return BackendSettings(**found)


def _backend_options(
    backend: BackendSettings,
    sources: Iterable[_Source],
    environment: Mapping[str, str],
) -> BackendOptions:
    return BackendOptions(
        model=backend.model,
        url=backend.url,
        api_key=_key(backend, sources, environment),
        headers=dict(backend.headers),
        timeout_s=backend.timeout,
        chat_template=backend.chat_template,
    )


def _key(
    backend: BackendSettings,
    sources: Iterable[_Source],
    environment: Mapping[str, str],
) -> Secret | None:
    variable = backend.api_key_env or KEY_VARIABLES.get(str(backend.backend), "")
    if value := environment.get(variable, "").strip():
        return Secret(value=value)
    if backend.api_key_env is None:
        return None
    setting = SETTINGS["api_key_env"]
    where = next(
        source.where(setting) for source in sources if source.values.get(setting.name)
    )
    # What stands here may be the key itself, by mistake.
    shown = f"the variable {variable}" if variable.isupper() else "the variable"
    raise ConfigError(
        f"{where}: {shown} is not set (export it, and give its name, not the key)"
    )


def _prices(name: str, files: Iterable[_File]) -> Prices | None:
    for file in files:
        if name not in file.profiles:
            continue
        told = file.profiles[name]["prices"]
        if not isinstance(told, dict) or not told:
            return None
        where = f"{file.shown}:profiles.{name}.prices."
        return Prices(
            **{key: _price(value, f"{where}{key}") for key, value in told.items()}
        )
    return None


def _price(value: object, where: str) -> Any:
    kind = number(0)
    try:
        return kind.parse(value)
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"{where}: {value!r} is not {kind.expects}") from exc


def _notes(environment: Mapping[str, str]) -> tuple[str, ...]:
    known = {SETTINGS[name].variable for name in _IN_FILES} | OTHER_VARIABLES
    return tuple(
        f"{name} in the environment is no setting ({nearest(name, known)})"
        for name in sorted(environment)
        if name.startswith("SGLRUN_") and name not in known
    )
