"""The configuration files: YAML whose keys are all known.

Values of settings are left as they are written; prices, which no setting has, are read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from sglrun.batch.prices import Prices
from sglrun.config.kinds import number
from sglrun.config.settings import SECTIONS, SETTINGS, nearest
from sglrun.errors import ConfigError

IN_FILES = {name for name, setting in SETTINGS.items() if not setting.command_only}
"""The settings that files and the environment may give."""

_USERS_ONLY = {name for name, setting in SETTINGS.items() if setting.users_only}
_BACKEND = {setting.name for setting in SECTIONS["Backend"]}
_NEEDED_PRICES = {"prompt", "completion"}
_LIMITS = {setting.name for setting in (*SECTIONS["Speed"], *SECTIONS["Safety"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A backend that a file gives a name.

    Attributes:
        values: setting to value, as written.
        prices: where the file says any.
    """

    values: Mapping[str, object]
    prices: Prices | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """What one file says.

    Attributes:
        shown: the file, as errors name it.
        batch: setting to value, as written, for every run.
        profiles: name to profile.
    """

    shown: str
    batch: Mapping[str, object]
    profiles: Mapping[str, Profile]


def read_files(environment: Mapping[str, str], folder: Path) -> tuple[ConfigFile, ...]:
    """Return the configuration files that exist, the strongest first.

    Raises:
        ConfigError: one cannot be read, is not YAML, or has a key that is unknown.
    """
    return tuple(
        _file(_load(path, shown), shown, is_users=path.parent != folder)
        for path, shown in _paths(environment, folder)
        if path.exists()
    )


def _paths(environment: Mapping[str, str], folder: Path) -> Iterator[tuple[Path, str]]:
    yield folder / "sglrun.yaml", "sglrun.yaml"
    home = environment.get("HOME", "")
    base = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    if base:
        path = Path(base, "sglrun", "config.yaml")
        yield path, str(path)


def _load(path: Path, shown: str) -> object:
    try:
        return yaml.safe_load(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{shown}: cannot be read: {exc}") from exc
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"{shown}:{line}: not YAML: {exc.problem}") from exc
    except yaml.YAMLError as exc:
        raise ConfigError(f"{shown}: not YAML: {exc}") from exc


def _file(document: object, shown: str, *, is_users: bool) -> ConfigFile:
    top = _table(document, f"{shown}:", {"batch", "profiles"})
    profiles = _table(top.get("profiles"), f"{shown}:profiles.", None)
    found = ConfigFile(
        shown=shown,
        batch=_table(top.get("batch"), f"{shown}:batch.", IN_FILES),
        profiles={
            name: _profile(profile, f"{shown}:profiles.{name}.")
            for name, profile in profiles.items()
        },
    )
    if not is_users:
        _refuse_users_only(found.batch, f"{shown}:batch.")
        for name, profile in found.profiles.items():
            _refuse_users_only(profile.values, f"{shown}:profiles.{name}.")
    return found


def _refuse_users_only(values: Mapping[str, object], where: str) -> None:
    for key in sorted(_USERS_ONLY & values.keys()):
        raise ConfigError(
            f"{where}{key}: the file of a folder may not say this, for the folder can "
            "be another's; put it into ~/.config/sglrun/config.yaml, or give it as "
            f"{SETTINGS[key].flag}"
        )


def _profile(document: object, where: str) -> Profile:
    told = _table(document, where, _BACKEND | {"limits", "prices"})
    limits = _table(told.pop("limits", None), f"{where}limits.", _LIMITS)
    known = {item.name for item in fields(Prices)}
    prices = _table(told.pop("prices", None), f"{where}prices.", known)
    given = {key: _price(item, f"{where}prices.{key}") for key, item in prices.items()}
    for key in _NEEDED_PRICES - given.keys():
        if given:
            raise ConfigError(f"{where}prices: say {key} too; 0 where it is free")
    return Profile(values={**told, **limits}, prices=Prices(**given) if given else None)


def _table(value: object, where: str, known: set[str] | None) -> dict[str, Any]:
    """Return *value* as a table; its keys must be among *known*, where it says any."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{where.rstrip('.:')}: {value!r} is not a table of keys")
    for key in value:
        if known is not None and key not in known:
            hint = nearest(str(key), known)
            raise ConfigError(f"{where}{key}: no such key ({hint})")
    return {str(key): item for key, item in value.items()}


def _price(value: object, where: str) -> Any:
    kind = number(0)
    try:
        return kind.parse(value)
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"{where}: {value!r} is not {kind.expects}") from exc
