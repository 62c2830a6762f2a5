"""What rows ask and the backend cannot do, by name and before any row asks it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sglrun.backends.base import Backend, Request, SelectRequest
from sglrun.backends.refusal import refuse_media
from sglrun.batch.nearest import LEFT_OUT, WRITTEN, nearest, nearest_choice
from sglrun.errors import BackendError, UnsupportedFeatureError
from sglrun.interpreter.evaluator import select_request
from sglrun.interpreter.program import Program
from sglrun.interpreter.tracing.marks import has_mark
from sglrun.interpreter.tracing.plain_calls import PlainCall, plain_calls
from sglrun.interpreter.tracing.trace_end import Asked
from sglrun.lang import ir
from sglrun.lang.sampling import DEFAULTS, SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a look at a program found, before it runs.

    Attributes:
        refused: why no row can succeed, if so.
        notes: what a user should know: what some row may ask and cannot have, and
            what is not done exactly.
    """

    refused: BackendError | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Problem:
    words: str
    where: str | None
    is_sure: bool

    def __str__(self) -> str:
        return f"{self.where}: {self.words}" if self.where else self.words


def look(
    program: Program,
    backend: Backend,
    *,
    asked: Iterable[Asked],
    sampling: SamplingParams,
    approximate: bool = False,
) -> Findings:
    """Return what *backend* cannot do of what *program* asks; asks nothing.

    Args:
        program: what is to run.
        backend: the model side.
        asked: what is known to be asked of a model.
        sampling: the run's parameters.
        approximate: what can be done nearly is to be done so.
    """
    checker = _Checker(backend, sampling, approximate=approximate)
    found = dict.fromkeys(
        (
            *checker.of_run(),
            *(each for one in asked for each in checker.of_asked(one)),
            *(each for call in plain_calls(program) for each in checker.of_call(call)),
        )
    )
    sure = [problem for problem in found if problem.is_sure]
    if sure:
        return Findings(refused=UnsupportedFeatureError(str(sure[0])))
    places = {problem.where: problem for problem in reversed(found)}
    may = [f"{problem}: a row that comes to it fails" for problem in places.values()]
    return Findings(notes=(*reversed(may), *checker.inexact))


class _Checker:
    """Compares what is asked with what a backend can do.

    Attributes:
        inexact: what is not done exactly, in words.
    """

    def __init__(
        self, backend: Backend, sampling: SamplingParams, *, approximate: bool
    ) -> None:
        self._backend = backend
        self._capabilities = backend.capabilities
        self._sampling = sampling
        self._approximate = approximate
        self.inexact: dict[str, None] = {}

    def of_run(self) -> Iterator[_Problem]:
        """Return what of the run's own parameters the backend cannot honour."""
        for name, value in self._sampling.given().items():
            if name not in self._capabilities.unsupported_sampling:
                continue
            if value == DEFAULTS.given().get(name):
                continue
            if not (self._approximate and name in LEFT_OUT):
                words = f"{name}={value!r}, which the run sets"
                yield self._problem(words, None, is_sure=True)

    def of_asked(self, asked: Asked) -> Iterator[_Problem]:
        """Return what is wrong with one thing that is asked."""
        piece, prompt = asked.piece, asked.prompt
        if isinstance(piece, ir.Image):
            prompt = prompt.with_image(piece.image)
        try:
            refuse_media(self._backend, prompt)
        except BackendError as exc:
            if isinstance(piece, ir.Image):  # what comes after it has the same problem
                yield _Problem(str(exc), asked.where, asked.is_sure)
            return
        try:
            self._check(asked)
        except BackendError as exc:
            yield _Problem(str(exc), asked.where, asked.is_sure)

    def of_call(self, call: PlainCall) -> Iterator[_Problem]:
        """Return what is wrong with a call that stands in the source."""
        if getattr(self._capabilities, call.feature):
            return
        if self._approximate and call.feature in ("regex", "json_schema"):
            return
        yield self._problem(call.words, call.where, is_sure=call.is_sure)

    def _problem(self, what: str, where: str | None, *, is_sure: bool) -> _Problem:
        backend = self._backend
        words = (
            f"{backend.kind!r} with the model {backend.model!r} cannot do {what}; use "
            "another backend, or leave it out"
        )
        return _Problem(words, where, is_sure)

    def _check(self, asked: Asked) -> None:
        piece, prompt = asked.piece, asked.prompt
        if isinstance(piece, ir.Select):
            known = tuple("…" if has_mark(one) else one for one in piece.choices)
            choice = select_request(prompt, replace(piece, choices=known))
            self._check_choice(choice, asked.where)
        elif isinstance(piece, ir.Gen):
            own = piece.sampling.given().values()
            if any(isinstance(value, str) and has_mark(value) for value in own):
                return
            resolved = piece.sampling.over(self._sampling, DEFAULTS)
            known = tuple(each for each in resolved.stop_regex if not has_mark(each))
            resolved = replace(resolved, stop_regex=known)
            request = Request(prompt=prompt, sampling=resolved)
            if self._approximate:
                near = nearest(self._capabilities, request)
                self._note(near.said, asked.where)
                request = near.request
            self._backend.check(request)

    def _check_choice(self, request: SelectRequest, where: str | None) -> None:
        if self._approximate:
            request, said = nearest_choice(self._capabilities, request)
            self._note(filter(None, [said]), where)
        self._backend.check(request)
        if not self._capabilities.choice_scores and not self._approximate:
            self._note([WRITTEN], where)

    def _note(self, said: Iterable[str], where: str | None) -> None:
        place = f"{where}: " if where else ""
        self.inexact.update({f"not exact: {place}{words}": None for words in said})
