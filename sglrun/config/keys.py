"""The key of a run: what a variable holds, or a command tells.

Rule: a key is asked for when a backend is opened, once, and written nowhere.
"""

import shlex
import subprocess
import threading
from dataclasses import dataclass, field

from sglrun.errors import ConfigError

_WAIT_S = 60.0
_SHOWN = 200


@dataclass(slots=True, kw_only=True)
class KeyCommand:
    """A key that a command writes to its stdout, such as ``pass show openai``.

    Attributes:
        command: run without a shell, when the key is first asked for.
        where: how an error calls the setting.
    """

    command: str
    where: str
    _told: str = field(default="", repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def value(self) -> str:
        """The key; the first to ask waits for the command.

        Raises:
            ConfigError: the command fails, is not done in time, or tells nothing.
        """
        with self._lock:
            if not self._told:
                self._told = self._tell()
            return self._told

    def _tell(self) -> str:
        # The rows may come by stdin, so the command does not get it.
        try:
            done = subprocess.run(  # noqa: S603 - the user said it
                shlex.split(self.command),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_WAIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise self._failed(f"is not done after {_WAIT_S:g} s") from exc
        except OSError as exc:
            raise self._failed(f"cannot be run: {exc}") from exc
        if done.returncode:
            said = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
            raise self._failed(f"ends with {done.returncode}: {said[0][:_SHOWN]}")
        if not (key := done.stdout.strip()):
            raise self._failed("writes no key to its stdout")
        return key

    def _failed(self, how: str) -> ConfigError:
        name = shlex.split(self.command)[0]
        return ConfigError(f"{self.where}: the command {name!r} {how}")
