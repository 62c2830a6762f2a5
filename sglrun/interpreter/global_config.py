"""The global configuration: what SGLang programs expect of the whole process.

It exists for programs and scripts; ``batch`` and ``run`` hand everything on by hand.
"""

from dataclasses import dataclass

from sglrun.backends.base import Backend
from sglrun.errors import ProgramError


@dataclass(slots=True)
class GlobalConfig:
    """Settings of the process, named as in SGLang.

    Attributes:
        default_backend: used where a program is run without one.
        enable_precache_with_tracing: send the shared prefix of a batch first.
    """

    default_backend: Backend | None = None
    enable_precache_with_tracing: bool = True

    def require_backend(self) -> Backend:
        """Return the default backend.

        Raises:
            ProgramError: none is set.
        """
        if self.default_backend is None:
            raise ProgramError(
                "no backend: pass backend=..., or call set_default_backend(...) first"
            )
        return self.default_backend


global_config = GlobalConfig()


def set_default_backend(backend: Backend) -> None:
    """Use *backend* wherever a program is run without one."""
    global_config.default_backend = backend
