"""The configuration of a run: what options, environment and files say, as one value.

Rule: only this module reads the environment and configuration files.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglrun.backends import BACKENDS
from sglrun.backends.base import BackendOptions, Key, Secret
from sglrun.backends.hosts import HOSTS, backend_of_host, key_variable
from sglrun.backends.secrets import secret_texts, url_secrets
from sglrun.batch.prices import Prices
from sglrun.config.files import IN_FILES, ConfigFile, read_files
from sglrun.config.keys import KeyCommand
from sglrun.config.settings import (
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
from sglrun.errors import ConfigError
from sglrun.lang.sampling import SamplingParams

KEY_VARIABLES: Mapping[str, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}
"""The variable that holds a backend's key where the user names none.

A host that is known has a variable of its own, which comes first.
"""

OTHER_VARIABLES = {"SGLRUN_CACHE"}
"""Variables of ours that are no settings of a run."""

_UNPRICED = (
    "{}: what a token costs is not known; give a profile prices for a million of them, "
    "as in sglrun.yaml: profiles: {{NAME: {{backend: openai, model: MODEL, "
    "prices: {{prompt: 0.4, completion: 1.6}}}}}}, and choose it with -b NAME"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """All that a user said about a run, and the defaults for the rest.

    Attributes:
        backend: the model side as it was said; ``backend`` is a name of the table.
        names_backend: the user said something of it: a name, an address or a model.
        backend_options: the same, with the key, as a backend takes it.
        prices: of the profile, where it has any.
        dumb_terminal: the terminal cannot move its cursor.
        color: a terminal may be given colours.
        notes: what a user should hear, such as a variable that no setting has.
    """

    rows: RowSettings = field(default_factory=RowSettings)
    backend: BackendSettings = field(default_factory=BackendSettings)
    names_backend: bool = False
    backend_options: BackendOptions = field(default_factory=BackendOptions)
    speed: SpeedSettings = field(default_factory=SpeedSettings)
    sampling: SamplingParams = field(default_factory=SamplingParams)
    safety: SafetySettings = field(default_factory=SafetySettings)
    display: DisplaySettings = field(default_factory=DisplaySettings)
    prices: Prices | None = None
    dumb_terminal: bool = False
    color: bool = True
    notes: tuple[str, ...] = ()

    @property
    def backend_name(self) -> str:
        """The name of the backend in the table of backends."""
        return self.backend.backend or "local"

    @property
    def secrets(self) -> frozenset[str]:
        """Texts that must not be written; a key that a command tells comes later."""
        options = self.backend_options
        key = options.api_key.value if isinstance(options.api_key, Secret) else ""
        return frozenset(
            secret_texts(*self.backend.url, api_key=key, headers=options.headers)
        )


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
    files = read_files(environment, folder)
    said = [
        _Source(values=options, where=lambda setting: setting.flag),
        _from_environment(environment),
    ]
    batches = [_from_batch(file) for file in files]
    name = _backend_said([*said, *batches], files)
    named = [file for file in files if name in file.profiles][:1]
    profile = [_from_profile(file, name) for file in named]
    sources = [*said, *profile, *batches]
    found = _found(SECTIONS["Backend"], sources)
    backend = _backend(name, profile, found)
    prices = named[0].profiles[name].prices if named else None
    safety = _found(SECTIONS["Safety"], sources)
    if "max_cost" in safety and prices is None:
        raise ConfigError(_UNPRICED.format(_where(SETTINGS["max_cost"], sources)))
    dumb = environment.get("TERM", "").lower() in {"dumb", "unknown"}
    return RunConfig(
        rows=RowSettings(**_found(SECTIONS["Rows"], sources)),
        backend=backend,
        names_backend=not found.keys().isdisjoint(("backend", "url", "model")),
        backend_options=_backend_options(backend, sources, environment),
        speed=SpeedSettings(**_found(SECTIONS["Speed"], sources)),
        sampling=_sampling(sources),
        safety=SafetySettings(**safety),
        display=DisplaySettings(**_found(SECTIONS["Display"], sources)),
        prices=prices,
        dumb_terminal=dumb,
        color=not (dumb or environment.get("NO_COLOR")),
        notes=_notes(environment),
    )


def secrets_around(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return what of *environment* must not be written, whatever a run makes of it.

    These are the keys in variables that are known for them, and the passwords of
    proxies: a program may show its whole environment.
    """
    keys = {*KEY_VARIABLES.values(), *(host.key_variable for host in HOSTS.values())}
    found = {environment.get(name, "").strip() for name in keys}
    for name, value in environment.items():
        if name.lower().endswith("_proxy"):
            found.update(url_secrets(value))
    return frozenset(found)


def guess_backend(*urls: str) -> str:
    """Return the backend for *urls*; ``auto`` asks the servers, when it is opened."""
    guessed = {_guessed(url) for url in urls}
    return guessed.pop() if len(guessed) == 1 else "auto"


def _guessed(url: str) -> str:
    if known := backend_of_host(url):
        return known
    bare = url.partition("?")[0].rstrip("/")
    return "openai" if bare.endswith("/v1") else "auto"


def _from_environment(environment: Mapping[str, str]) -> _Source:
    return _Source(
        values={
            name: environment[setting.variable]
            for name, setting in SETTINGS.items()
            if name in IN_FILES and environment.get(setting.variable)
        },
        where=lambda setting: setting.variable,
    )


def _from_batch(file: ConfigFile) -> _Source:
    return _Source(
        values=file.batch, where=lambda setting: f"{file.shown}:batch.{setting.name}"
    )


def _from_profile(file: ConfigFile, name: str) -> _Source:
    return _Source(
        values=file.profiles[name].values,
        where=lambda setting: f"{file.shown}:profiles.{name}.{setting.name}",
    )


def _sampling(sources: list[_Source]) -> SamplingParams:
    found = _found(SECTIONS["Sampling"], sources)
    for name, value in found.items():
        try:
            SamplingParams.of(**{name: value})
        except ValueError as exc:  # of its kind, and still nothing that can be asked
            raise ConfigError(f"{_where(SETTINGS[name], sources)}: {exc}") from exc
    return SamplingParams.of(**found)


def _found(settings: Iterable[Setting], sources: Iterable[_Source]) -> dict[str, Any]:
    """Return what the first source that says anything says, by setting."""
    found = {}
    for setting in settings:
        for source in sources:
            if source.values.get(setting.name) is not None:
                found[setting.name] = source.parse(setting)
                break
    return found


def _where(setting: Setting, sources: Iterable[_Source]) -> str:
    """Return where *setting*, which is said, is said."""
    return next(
        source.where(setting)
        for source in sources
        if source.values.get(setting.name) is not None
    )


def _backend_said(sources: Iterable[_Source], files: Iterable[ConfigFile]) -> str:
    """Return the backend or profile that is named, or nothing."""
    setting = SETTINGS["backend"]
    name = _found((setting,), sources).get(setting.name, "")
    known = set(BACKENDS).union(*(file.profiles for file in files))
    if name and name not in known:
        raise ConfigError(
            f"{_where(setting, sources)}: unknown backend {name!r} "
            f"({nearest(name, known)})"
        )
    return str(name)


def _backend(
    name: str, profile: Iterable[_Source], found: Mapping[str, Any]
) -> BackendSettings:
    kind = _found((SETTINGS["backend"],), profile).get("backend") if profile else name
    if not kind:
        kind = guess_backend(*found["url"]) if found.get("url") else "local"
    return BackendSettings(**{**found, "backend": kind})


def _backend_options(
    backend: BackendSettings,
    sources: Iterable[_Source],
    environment: Mapping[str, str],
) -> BackendOptions:
    return BackendOptions(
        model=backend.model,
        url=backend.url[0] if backend.url else None,
        more_urls=backend.url[1:],
        api_key=_key(backend, sources, environment),
        headers=dict(backend.headers),
        timeout_s=backend.timeout,
        chat_template=backend.chat_template,
        exact=backend.exact,
        ctx_size=backend.ctx_size,
    )


def _key(
    backend: BackendSettings,
    sources: Iterable[_Source],
    environment: Mapping[str, str],
) -> Key | None:
    named = [SETTINGS[name] for name in ("api_key_command", "api_key_env")]
    for source in sources:
        said = [one for one in named if source.values.get(one.name) is not None]
        if len(said) > 1:
            where = " and ".join(source.where(one) for one in said)
            raise ConfigError(f"{where}: only one of them can tell the key")
        if said and said[0].name == "api_key_command":
            command = str(source.parse(said[0]))
            return KeyCommand(command=command, where=source.where(said[0]))
        if said:
            return _key_in(str(source.parse(said[0])), source, environment)
    usual = _key_variable(backend.url)
    usual = usual or KEY_VARIABLES.get(str(backend.backend), "")
    value = environment.get(usual, "").strip()
    return Secret(value=value) if value else None


def _key_variable(urls: Iterable[str]) -> str:
    """Return the variable of the host that all *urls* share, or nothing."""
    usual = {key_variable(url) for url in urls}
    return usual.pop() if len(usual) == 1 else ""


def _key_in(variable: str, source: _Source, environment: Mapping[str, str]) -> Secret:
    if value := environment.get(variable, "").strip():
        return Secret(value=value)
    # What stands here may be the key itself, by mistake.
    shown = f"the variable {variable}" if variable.isupper() else "the variable"
    raise ConfigError(
        f"{source.where(SETTINGS['api_key_env'])}: {shown} is not set "
        "(export it, and give its name, not the key)"
    )


def _notes(environment: Mapping[str, str]) -> tuple[str, ...]:
    known = {SETTINGS[name].variable for name in IN_FILES} | OTHER_VARIABLES
    return tuple(
        f"{name} in the environment is no setting ({nearest(name, known)})"
        for name in sorted(environment)
        if name.startswith("SGLRUN_") and name not in known
    )
