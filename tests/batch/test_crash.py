"""A real process to which everything happens: nothing is lost, nothing comes twice.

``CRASHES=300 pytest -s tests/batch/test_crash.py`` makes it long and says what
happened; CI runs the short form.
"""

import os
import random
from pathlib import Path

import pytest

from tests.crashes import Crashes
from tests.stand_in import StandIn

EACH = 5
CRASHES = int(os.environ.get("CRASHES", "10"))
FIRST = int(os.environ.get("CRASHES_SEED", "0"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, CRASHES // EACH)))
def test_a_job_survives_everything(
    tmp_path: Path, stand_in: StandIn, seed: int
) -> None:
    """Whatever happens to a job, given again it is done once, and pays once.

    At every instant results are complete or absent. No answer that a run has left on
    the disk is asked for again, none is used twice, and each row follows from its own.
    """
    crashes = Crashes(tmp_path, stand_in, random.Random(seed))  # noqa: S311 - faults
    for _ in range(EACH):
        crashes.happen()
    crashes.finish()
    if "CRASHES" in os.environ:
        print(seed, dict(sorted(crashes.counts.items())))  # noqa: T201
