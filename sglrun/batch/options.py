"""The options of a batch: how its rows are run."""

from dataclasses import dataclass, field
from typing import Literal

from sglrun.batch.limits import PATIENCE_S
from sglrun.batch.prices import Prices
from sglrun.batch.results import Include
from sglrun.lang.sampling import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """How rows are run.

    Attributes:
        sampling: the run's parameters, under those of each generation.
        num_threads: rows at once; as many as is sensible if ``None``.
        max_in_flight: requests at once, those of forks included; ``num_threads`` if
            ``None``.
        retries: further tries of a request that may succeed.
        order: the order of the results.
        precache: send the shared prefix once, first.
        schedule: run rows in the order of the input, or those whose prompts begin alike
            next to each other.
        include: what more each result is to hold.
        max_errors: end the run when more rows than this have failed.
        max_error_share: end the run when more than this share of the rows has failed,
            from 0 to 1; looked at from the 100th row on.
        row_timeout_s: a row begins no request later than this after its start.
        require_stop: a generation that did not end by itself fails its row.
        approximate: do what the backend cannot do exactly as nearly as it can.
        requests_per_minute: sent in any minute at most.
        tokens_per_minute: read and generated in any minute at most.
        max_total_tokens: read and generated in all at most, earlier runs included.
        max_cost: the most that all of it may cost, by ``prices``.
        prices: what tokens cost, where that is known.
        patience_s: how long a server that goes down is waited for.
    """

    sampling: SamplingParams = field(default_factory=SamplingParams)
    num_threads: int | None = None
    max_in_flight: int | None = None
    retries: int = 4
    order: Literal["input", "completion"] = "input"
    precache: bool = True
    schedule: Literal["input", "prefix"] = "input"
    include: frozenset[Include] = frozenset()
    max_errors: int | None = None
    max_error_share: float | None = None
    row_timeout_s: float | None = None
    require_stop: bool = False
    approximate: bool = False
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_total_tokens: int | None = None
    max_cost: float | None = None
    prices: Prices | None = None
    patience_s: float = PATIENCE_S
