"""The embedded engine as a backend."""

import _thread
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from sglrun.backends.base import (
    Backend,
    BackendOptions,
    Capabilities,
    Completion,
    OnText,
    Request,
    Sample,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.backends.jinja_template import derive_template
from sglrun.backends.local import store
from sglrun.backends.local.constraint import constraint_of
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.generation import Generation, Task
from sglrun.backends.local.grammar import Matcher
from sglrun.backends.local.job import PrefixJob
from sglrun.backends.local.limits import Limits, stop_patterns
from sglrun.backends.local.machine import usable_processors
from sglrun.backends.local.prompt_reader import (
    ReadPrompt,
    again_if_lost,
    read_prompt,
)
from sglrun.backends.local.radix import Tokens
from sglrun.backends.local.retelling import Retelling
from sglrun.backends.local.runtime import Runtime
from sglrun.backends.local.scoring import Scoring
from sglrun.backends.local.unconditional import UnconditionalScores
from sglrun.backends.named_template import named_template
from sglrun.errors import UnsupportedFeatureError
from sglrun.lang.chat_template import ChatTemplate, get_chat_template_by_model_path
from sglrun.lang.choices import ChoiceScore, TokenLogprob
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

# Of the bundled model, a token takes 22 KiB: some 370 MB in all.
_SETTINGS = ContextSettings()

_CAPABILITIES = Capabilities(
    ebnf=True,
    prefix_cache=True,
    token_counts=True,
    checks_constraints=True,
    concatenation=True,
)


class LocalBackend(Backend):
    """A model in this process; every method is safe from any thread.

    Attributes:
        path: the model's file.
    """

    kind = "local"
    capabilities = _CAPABILITIES

    def __init__(
        self,
        path: Path,
        *,
        chat_template: ChatTemplate | None = None,
        settings: ContextSettings = _SETTINGS,
    ) -> None:
        """Load the model at *path* and start its thread.

        Args:
            path: a GGUF file.
            chat_template: how roles are written; as the file says, without it.
            settings: how much memory is held for tokens, and the shape of a step.

        Raises:
            ConfigError: the engine's library cannot be used here.
            ModelError: the file is no model that it reads, or memory is short.
        """
        self.path = path
        self.model = path.stem
        self._settings = settings
        self._runtime = Runtime(path, settings)
        trained = self._runtime.model.context_length
        self._limits = Limits(
            vocabulary=self._runtime.tokenizer.size,
            length=min(trained, settings.tokens),
            is_narrowed=settings.tokens < trained,
        )
        self.capabilities = replace(
            _CAPABILITIES, concatenation=self._runtime.engine.can_join
        )
        self._unconditional = UnconditionalScores(self._runtime.engine)
        self._free = weakref.finalize(self, _free_later, self._runtime)
        self._free.atexit = False
        self.chat_template = chat_template or self._own_template()

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the completion of *request*; waits for its turn and for the model.

        ``timeout_s`` has no meaning here: nothing can be lost on the way.

        Log-probabilities are those of the model itself, before temperature, penalties
        and constraints. Of a generation of no tokens they are those of the next one, as
        in SGLang.

        Raises:
            BadRequestError: prompt and answer do not fit into the model, it cannot
                follow the parameters, or the constraint cannot be read.
            UnsupportedFeatureError: the constraint cannot be followed.
            BackendError: the engine is closed.
        """
        sampling = request.sampling
        self._limits.check(sampling)
        if sampling.max_new_tokens == 0 and sampling.return_logprob:
            next_one = replace(sampling, max_new_tokens=1)
            looked = self.generate(replace(request, sampling=next_one))
            return replace(looked, samples=tuple(map(_unsaid, looked.samples)))
        with self._runtime.in_use():
            if on_text is None or not request.prompt.joins:
                return again_if_lost(lambda: self._generate(request, on_text))
            telling = Retelling(request, on_text)
            return again_if_lost(
                lambda: self._generate(telling.request, telling.anew())
            )

    def _generate(self, request: Request, on_text: OnText | None) -> Completion:
        prompt, sampling = request.prompt, request.sampling
        start = sampling.logprob_start_len if sampling.return_logprob else None
        if start is not None and start >= 0:
            prompt = replace(prompt, joins=())  # what is joined has no scores
        matcher = self._matcher(sampling)
        read = self._read(prompt, new=sampling.max_new_tokens)
        pieces: SimpleQueue[str | None] = SimpleQueue()
        task = Task(
            prompt=read.tokens,
            sampling=sampling,
            patterns=stop_patterns(sampling.stop_regex),
            matcher=matcher,
            on_text=None if on_text is None else pieces.put,
        )
        job = Generation(task, self._runtime.tokenizer)
        read.hand_to(job)
        if on_text is not None:
            self._listen(job, pieces, on_text)
        else:
            self._runtime.engine.run(job)
        return Completion(
            samples=job.samples(),
            usage=Usage(
                requests=1,
                prompt_tokens=len(job.prompt),
                cached_tokens=max(0, job.cached_tokens - read.computed),
                completion_tokens=job.completion_tokens,
            ),
        )

    def select(self, request: SelectRequest) -> Selection:
        """Return the exact log-probability of each option's tokens after the prompt.

        An option is read as the tokens it has by itself, after those of the prompt;
        the border between them is a border of tokens. An option that begins with a
        space is therefore another than the same without.

        Raises:
            BadRequestError: an option has no tokens, or does not fit into the model.
            BackendError: the engine is closed.
        """
        with self._runtime.in_use():
            return again_if_lost(lambda: self._select(request))

    def _select(self, request: SelectRequest) -> Selection:
        options = tuple(self._option(choice) for choice in request.choices)
        read = self._read(request.prompt, new=max(map(len, options), default=0))
        job = Scoring(read.tokens, options)
        read.hand_to(job)
        self._runtime.engine.run(job)
        free = self._unconditional.of(options) if request.unconditional else None
        scores = tuple(
            ChoiceScore(
                choice=choice,
                tokens=self._scored(options[at], job.scores[at]),
                unconditional=None if free is None else free[at],
            )
            for at, choice in enumerate(request.choices)
        )
        return Selection(
            scores=scores,
            usage=Usage(
                requests=1,
                prompt_tokens=len(job.prompt) + sum(map(len, options)),
                cached_tokens=max(0, job.cached_tokens - read.computed),
            ),
        )

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Compute *prompt* once and keep it for later prompts; waits for it.

        *only_scored*: another kernel is faster for such prompts, from some length on.

        Raises:
            BadRequestError: it does not fit into the model.
            BackendError: the engine is closed.
        """
        with self._runtime.in_use():
            length = len(self._runtime.tokenizer.encode_prompt(prompt.text))
            self._limits.check_prompt(length, 1)
            self._runtime.engine.expect(length, only_scored=only_scored)
            return again_if_lost(lambda: self._cache_prefix(prompt))

    def _cache_prefix(self, prompt: Prompt) -> Usage:
        read = self._read(prompt, new=1)
        job = PrefixJob(read.tokens)
        read.hand_to(job)
        self._runtime.engine.run(job)
        return Usage(
            requests=1, prompt_tokens=len(job.prompt), cached_tokens=job.cached_tokens
        )

    def count_tokens(self, text: str) -> int:
        """Return the exact number of tokens of *text*."""
        with self._runtime.in_use():
            return len(self._runtime.tokenizer.encode(text))

    def flush_cache(self) -> bool:
        """Forget what no running request needs."""
        self._runtime.engine.forget()
        return True

    def get_server_info(self) -> Mapping[str, object]:
        """Return the model, its limits and what is cached now."""
        return {
            "model": self.model,
            "model_path": str(self.path),
            "context_length": self._limits.length,
            "max_total_tokens": self._settings.tokens,
            "cached_tokens": self._runtime.engine.cached_tokens,
            "threads": usable_processors(),
            "exact": self._settings.exact,
        }

    def close(self) -> None:
        """End the thread, fail what is running, and free the memory."""
        self._free.detach()
        self._runtime.close()

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if it is text, and asks what the model can do."""
        _refuse_media(request.prompt)
        with self._runtime.in_use():
            if isinstance(request, SelectRequest):
                for choice in request.choices:
                    self._option(choice)
                return
            self._limits.check(request.sampling)
            self._matcher(request.sampling)  # is compiled, and not kept

    def _read(self, prompt: Prompt, *, new: int) -> ReadPrompt:
        """Return the tokens of *prompt*, if *new* more fit after them."""
        if prompt.images:
            raise UnsupportedFeatureError("'local' cannot read images")
        return read_prompt(self._runtime, prompt, self._limits, new=new)

    def _option(self, choice: str) -> Tokens:
        tokens = self._runtime.tokenizer.encode(choice)
        self._limits.check_option(choice, len(tokens))
        return tokens

    def _scored(self, tokens: Tokens, scores: list[float]) -> tuple[TokenLogprob, ...]:
        return tuple(
            TokenLogprob(score, token, self._runtime.tokenizer.text(token))
            for token, score in zip(tokens, scores, strict=True)
        )

    def _matcher(self, sampling: SamplingParams) -> Callable[[], Matcher] | None:
        constraint = constraint_of(sampling)
        if constraint is None:
            return None
        make = partial(
            self._runtime.grammars().matcher, constraint.kind, constraint.text
        )
        make().close()  # a constraint that cannot be compiled fails here
        return make

    def _listen(
        self, job: Generation, pieces: "SimpleQueue[str | None]", on_text: OnText
    ) -> None:
        """Hand on the text of *job* as it comes, in the caller's thread."""
        job.future.add_done_callback(lambda _: pieces.put(None))
        self._runtime.engine.start(job)
        try:
            while (piece := pieces.get()) is not None:
                on_text(piece)
        except BaseException:
            job.cancelled = True
            raise
        self._runtime.engine.wait(job)

    def _own_template(self) -> ChatTemplate:
        source, tokenizer = self._runtime.model.template, self._runtime.tokenizer
        if source is not None:
            end = tokenizer.text(tokenizer.end)
            try:
                return derive_template(source, name=self.model, end=end)
            except ValueError as exc:
                warnings.warn(f"{self.path.name}: {exc}", stacklevel=3)
        return get_chat_template_by_model_path(self.path.name)


def _unsaid(sample: Sample) -> Sample:
    return replace(sample, text="", finish_reason="length")


def _free_later(runtime: Runtime) -> None:
    # Whichever thread finds that nobody has the backend: it may be the engine's own,
    # or hold any lock, those of ``threading`` too.
    _thread.start_new_thread(runtime.close, ())


def _refuse_media(prompt: Prompt) -> None:
    if prompt.media:
        what = "videos" if prompt.videos else "images"
        raise UnsupportedFeatureError(f"'local' cannot read {what}")


def start_backend(options: BackendOptions) -> LocalBackend:
    """Return the backend that *options* ask for; see ``create``."""
    template = None
    if options.chat_template is not None:
        template = named_template(options.chat_template)
    return LocalBackend(
        store.find_model(options.model),
        chat_template=template,
        settings=replace(_SETTINGS, exact=options.exact).resized(options.ctx_size),
    )
