"""The settings of a run: what can be said, and what holds where nothing is said.

Rule: a setting is written once, as a field here; options, environment variables,
configuration files and help are made from the fields.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from sglrun.backends import BACKENDS
from sglrun.backends.base import CTX_SIZE
from sglrun.batch.limits import PATIENCE_S
from sglrun.batch.results import Include, Layout
from sglrun.config.kinds import (
    COMMAND,
    HEADERS,
    PATH,
    RESULTS,
    ROW_LIMIT,
    SECONDS,
    STRINGS,
    SWITCH,
    TEXT,
    THREADS,
    URLS,
    VARIABLE,
    Kind,
    number,
    one_of,
    some_of,
    whole,
)
from sglrun.lang.sampling import DEFAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting.

    Attributes:
        name: its key in files.
        kind: what its value may be.
        help: one line for a user.
        default: what holds where nothing is said.
        option: the long option, where it is not the name.
        short: the short option, if it has one.
        negative: the option that says no, for a switch that is on.
        command_only: only a command may say it, no file and no environment.
        users_only: the file of a folder may not say it; a folder can be another's.
    """

    name: str
    kind: Kind
    help: str
    default: object = None
    option: str = ""
    short: str = ""
    negative: str = ""
    command_only: bool = False
    users_only: bool = False

    @property
    def flag(self) -> str:
        """The long option."""
        return self.option or "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "SGLRUN_" + self.name.upper()


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint naming what *word* was perhaps meant to be, or all it can be."""
    names = sorted(known)
    close = difflib.get_close_matches(word.replace("-", "_"), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(names)}"


def _setting(kind: Kind, *, default: object, help: str, **more: Any) -> Any:  # noqa: A002
    """Return a dataclass field that is a setting."""
    return field(default=default, metadata={"kind": kind, "help": help, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSettings:
    """Which rows are run, and what a result says."""

    output: str | None = _setting(
        RESULTS,
        default=None,
        help="Write results here; the same command again resumes.",
        short="-o",
        command_only=True,
    )
    overwrite: bool = _setting(
        SWITCH, default=False, help="Replace what OUTPUT holds.", command_only=True
    )
    limit: int | None = _setting(
        whole(0), default=None, help="Run only the first N rows."
    )
    order: Literal["input", "completion"] = _setting(
        one_of("input", "completion"), default="input", help="Order of the results."
    )
    format: Literal["record", "flat"] = _setting(
        one_of(*get_args(Layout)),
        default="record",
        help="A record for each row, or the row with columns added.",
    )
    include: tuple[Include, ...] = _setting(
        some_of(*get_args(Include)),
        default=(),
        help="Also in each result: arguments,text,messages,meta; or some of them.",
    )
    strict: bool = _setting(
        SWITCH, default=False, help="Check every row first; begin only if all are good."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """The model side of a run."""

    backend: str | None = _setting(
        TEXT,
        default=None,
        help=f"{', '.join(BACKENDS)}, or a profile; with --url it is guessed, "
        "else local.",
        short="-b",
    )
    url: tuple[str, ...] = _setting(
        URLS,
        default=(),
        help="Address of the server; may repeat, for several of one model.",
    )
    model: str | None = _setting(
        TEXT, default=None, help="Model on the server, or a model file for local."
    )
    api_key_env: str | None = _setting(
        VARIABLE,
        default=None,
        help="Variable that holds the key (openai: OPENAI_API_KEY, and so on).",
    )
    api_key_command: str | None = _setting(
        COMMAND,
        default=None,
        help="Command that writes the key to its stdout; run once, without a shell.",
        users_only=True,
    )
    headers: tuple[tuple[str, str], ...] = _setting(
        HEADERS,
        default=(),
        help="Send this with every request; may repeat.",
        option="--header",
    )
    chat_template: str | None = _setting(
        TEXT,
        default=None,
        help="Template's name, tokenizer_config.json or Jinja file, over the model's.",
    )
    allow_approximate: bool = _setting(
        SWITCH,
        default=False,
        help="Do nearly what the backend cannot do exactly; each result names it.",
    )
    timeout: float = _setting(
        SECONDS, default=600.0, help="Longest wait for one answer, in seconds."
    )
    exact: bool = _setting(
        SWITCH,
        default=True,
        help="local: the same answer whatever runs beside it; --no-exact is faster.",
        negative="--no-exact",
    )
    ctx_size: int = _setting(
        whole(1024),
        default=CTX_SIZE,
        help="local: tokens that are held at once, over all rows; they take memory.",
    )
    parallel_encoding: bool = _setting(
        SWITCH,
        default=False,
        help="local: join branches from what was computed of each, not by their text.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSettings:
    """How much is done at once, and how often it is tried."""

    num_threads: int | Literal["auto"] = _setting(
        THREADS, default="auto", help="Rows at once.", short="-j"
    )
    max_in_flight: int | None = _setting(
        whole(1), default=None, help="Requests at once, those of forks included."
    )
    rpm: int | None = _setting(
        whole(1), default=None, help="Requests sent in any minute at most."
    )
    tpm: int | None = _setting(
        whole(1), default=None, help="Tokens read and generated in any minute at most."
    )
    retries: int = _setting(
        whole(0), default=4, help="Further tries of a request that may succeed."
    )
    precache: bool = _setting(
        SWITCH,
        default=True,
        help="Have the model read the shared prefix once, first.",
        negative="--no-precache",
    )
    schedule: Literal["input", "prefix"] = _setting(
        one_of("input", "prefix"),
        default="input",
        help="Order of the work; prefix: rows whose prompts begin alike together.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetySettings:
    """When a row fails, and when a run ends before its last row."""

    max_errors: int | float | None = _setting(
        ROW_LIMIT, default=None, help="End the run when more rows than this failed."
    )
    max_cost: float | None = _setting(
        number(0),
        default=None,
        help="End the run before OUTPUT costs more, by the profile's prices.",
    )
    max_total_tokens: int | None = _setting(
        whole(0), default=None, help="End the run before OUTPUT takes more tokens."
    )
    row_timeout: float | None = _setting(
        SECONDS, default=None, help="A row begins no request later than this."
    )
    require_stop: bool = _setting(
        SWITCH, default=False, help="A generation that is cut off fails its row."
    )
    replay: bool = _setting(
        SWITCH,
        default=True,
        help="With -o: ask nothing again that an unfinished row was answered.",
        negative="--no-replay",
    )
    wait_for_server: float = _setting(
        SECONDS,
        default=PATIENCE_S,
        help="Wait this long for a server that goes down in mid-run.",
    )
    grace: float = _setting(
        SECONDS, default=30.0, help="After a signal, wait this long for rows in flight."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplaySettings:
    """What is shown on stderr while a run lasts."""

    progress: Literal["auto", "rich", "plain", "json", "none"] = _setting(
        one_of("auto", "rich", "plain", "json", "none"),
        default="auto",
        help="auto, rich, plain, json or none; auto is rich on a terminal.",
    )
    quiet: bool = _setting(SWITCH, default=False, help="Errors only.", short="-q")
    verbose: bool = _setting(
        SWITCH, default=False, help="Log what is done, and show tracebacks.", short="-v"
    )
    log_file: str | None = _setting(PATH, default=None, help="Write the log here.")


def _drawn(kind: Kind, name: str, help: str) -> Setting:  # noqa: A002
    default = DEFAULTS.given().get(name) or None
    return Setting(name=name, kind=kind, help=help, default=default)


SAMPLING = (
    _drawn(whole(0), "max_new_tokens", "Longest generation, in tokens."),
    _drawn(number(0), "temperature", "0 takes the likeliest token."),
    _drawn(number(0, 1), "top_p", "Share of probability kept."),
    _drawn(whole(-1), "top_k", "Tokens kept; -1 keeps all."),
    _drawn(number(0, 1), "min_p", "Least probability relative to the likeliest."),
    _drawn(number(-2, 2), "frequency_penalty", "Against repeating, by count."),
    _drawn(number(-2, 2), "presence_penalty", "Against repeating at all."),
    _drawn(number(0, 2), "repetition_penalty", "1 is off."),
    _drawn(whole(0), "seed", "Makes drawing repeatable where the backend can."),
    _drawn(STRINGS, "stop", "End a generation before this text; may repeat."),
)
"""Sampling that a run may set; the fields are those of ``SamplingParams``."""


def settings_of(section: type) -> tuple[Setting, ...]:
    """Return the settings that the fields of the dataclass *section* declare."""
    return tuple(
        Setting(
            name=item.name,
            default=item.default,
            **item.metadata,
        )
        for item in fields(section)
    )


SECTIONS: Mapping[str, tuple[Setting, ...]] = {
    "Rows": settings_of(RowSettings),
    "Backend": settings_of(BackendSettings),
    "Speed": settings_of(SpeedSettings),
    "Sampling": SAMPLING,
    "Safety": settings_of(SafetySettings),
    "Display": settings_of(DisplaySettings),
}
"""Every setting, under the title that help gives it."""

SETTINGS: Mapping[str, Setting] = {
    setting.name: setting for section in SECTIONS.values() for setting in section
}
