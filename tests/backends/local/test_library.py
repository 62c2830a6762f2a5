"""The engine's shared library."""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

CHECK = """
import ctypes
from sglrun.backends.local import layout, library
from sglrun.errors import ConfigError
{change}
try:
    library.open_library()
except ConfigError as exc:
    print(exc)
else:
    print("open")
"""


NUMPY = """
import numpy
library.PACKAGE, library.VERSION = "numpy", numpy.__version__
"""
TELL = """
import atexit, os
atexit.register(lambda: print(os.environ["GOMP_SPINCOUNT"]))
"""


def outcome(change: str, environment: Mapping[str, str] = {}) -> str:
    """Return what opening the library says in a process where *change* was made."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(change=change)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("", "open"),
        ("library.sys.platform = 'win32'", "does not run on Windows"),
        ("library.PACKAGE = 'no_such_package'", "needs no_such_package"),
        ("library.VERSION = '1.0'", "made for xllamacpp 1.0, not 2026.10.11549"),
        (
            NUMPY,
            "has no library here",
        ),
        (
            "library.SIGNATURES = {'llama_no_such': (None, ())}",
            "does not export llama_no_such",
        ),
        ("library.CONTEXT_DEFAULTS = {'n_batch': 7}", "n_batch is 2048, not 7"),
        ("library.MODEL_DEFAULTS = {'split_mode': 9}", "split_mode is 1, not 9"),
    ],
)
def test_a_library_that_does_not_fit_is_refused_by_name(
    change: str, message: str
) -> None:
    """Another system, version, layout or set of exports is refused, not called."""
    assert message in outcome(change)


def test_an_idle_engine_leaves_the_processor_to_others() -> None:
    """Idle workers hardly spin, unless the user says otherwise."""
    assert outcome(TELL).split() == ["open", "2000"]
    assert outcome(TELL, {"GOMP_SPINCOUNT": "7"}).split() == ["open", "7"]
