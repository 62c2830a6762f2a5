"""The embedded engine with its real model."""

import gc
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import jinja2
import pytest

from sglrun.backends import create_backend
from sglrun.backends.base import (
    BackendOptions,
    Completion,
    OnText,
    Request,
    SelectRequest,
    Usage,
)
from sglrun.backends.local import gguf
from sglrun.backends.local.backend import LocalBackend
from sglrun.backends.local.generation import Generation
from sglrun.backends.local.job import JoinLostError
from sglrun.backends.local.model import Model
from sglrun.config import resolve_config
from sglrun.errors import (
    BackendError,
    BadRequestError,
    ConfigError,
    ModelError,
    UnsupportedFeatureError,
)
from sglrun.lang.prompt import ImageData, Join, Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams
from tests.backends.local.conftest import SETTINGS

pytestmark = pytest.mark.engine

SHOTS = "".join(
    f"Question: what is {n} plus {n + 1}?\nAnswer: {2 * n + 1}\n" for n in range(6)
)


def ask(text: str | Prompt, **sampling: Any) -> Request:
    """Return a greedy request of a few tokens, unless *sampling* says otherwise."""
    given = {"temperature": 0, "max_new_tokens": 8, **sampling}
    prompt = text if isinstance(text, Prompt) else Prompt(text=text)
    return Request(prompt=prompt, sampling=SamplingParams.of(**given).over(DEFAULTS))


def text_of(completion: Completion) -> str:
    return completion.samples[0].text


def test_a_prefix_is_computed_once(backend: LocalBackend) -> None:
    """A cached prefix costs nothing again, and the answers stay the same."""
    prompts = [f"{SHOTS}Question: what is {n} plus 1?\nAnswer:" for n in (3, 4)]
    alone = [text_of(backend.generate(ask(prompt))) for prompt in prompts]
    backend.flush_cache()
    shared = backend.cache_prefix(Prompt(text=SHOTS))
    cached = [backend.generate(ask(prompt)) for prompt in prompts]

    assert shared == Usage(requests=1, prompt_tokens=backend.count_tokens(SHOTS))
    assert [text_of(completion) for completion in cached] == alone
    for completion, prompt in zip(cached, prompts, strict=True):
        assert completion.usage.prompt_tokens == backend.count_tokens(prompt)
        assert completion.usage.cached_tokens >= shared.prompt_tokens
        assert completion.usage.completion_tokens == 8
    assert backend.cache_prefix(Prompt(text=SHOTS)).cached_tokens == (
        shared.prompt_tokens - 1
    )


def test_a_conversation_goes_on_from_its_cache(backend: LocalBackend) -> None:
    """What the model wrote is not computed again when a prompt goes on from it."""
    first = backend.generate(ask(SHOTS, max_new_tokens=20))
    second = backend.generate(ask(SHOTS + text_of(first) + "\nQuestion:"))

    assert second.usage.cached_tokens >= first.usage.prompt_tokens + 15


def test_scores_are_those_of_the_whole_text(backend: LocalBackend) -> None:
    """An option's log-probabilities equal those of prompt and option read alone."""
    prompt = Prompt(text=SHOTS + "Question: what is 2 plus 2?\nAnswer:")
    choices = (" 4", " 5", " a number that I do not know", " four apples")
    selection = backend.select(SelectRequest(prompt=prompt, choices=choices))
    for score in selection.scores:
        backend.flush_cache()
        whole = backend.generate(
            ask(
                prompt.text + score.choice,
                max_new_tokens=0,
                return_logprob=True,
                logprob_start_len=backend.count_tokens(prompt.text),
                return_text_in_logprobs=True,
            )
        )
        exact: Any = whole.samples[0].meta_info["input_token_logprobs"]

        assert [t.token_id for t in score.tokens] == [id_ for _, id_, _ in exact]
        assert [t.text for t in score.tokens] == [text for *_, text in exact]
        assert [t.logprob for t in score.tokens] == pytest.approx(
            [logprob for logprob, *_ in exact], abs=1e-6
        )
    total = backend.count_tokens(prompt.text) + sum(
        len(score.tokens) for score in selection.scores
    )
    assert selection.usage == Usage(requests=1, prompt_tokens=total)


def test_a_known_prompt_selects_at_once(backend: LocalBackend) -> None:
    """Where the whole prompt is cached, only its last token is computed again."""
    backend.cache_prefix(Prompt(text=SHOTS))
    choices = tuple(f" option {n}" for n in range(60))
    request = SelectRequest(prompt=Prompt(text=SHOTS), choices=choices)
    first, second = backend.select(request), backend.select(request)

    assert first.usage.cached_tokens == backend.count_tokens(SHOTS) - 1
    for left, right in zip(first.scores, second.scores, strict=True):
        assert left.mean == pytest.approx(right.mean, abs=1e-6)


def test_options_are_scored_without_the_prompt_too(backend: LocalBackend) -> None:
    """Unconditional scores are those of the option's own tokens, the first as 0."""
    request = SelectRequest(
        prompt=Prompt(text="The sky is"), choices=(" blue", " blue and wide")
    )
    conditional = backend.select(request).scores
    one, several = backend.select(replace(request, unconditional=True)).scores
    after_blue = backend.select(
        SelectRequest(prompt=Prompt(text=" blue"), choices=(" and wide",))
    ).scores[0]

    assert conditional[0].unconditional is None
    assert one.unconditional == (0.0,)
    assert several.unconditional == pytest.approx(
        (0.0, *(token.logprob for token in after_blue.tokens)), abs=1e-6
    )


def test_an_option_without_tokens_is_refused(backend: LocalBackend) -> None:
    """An empty option has nothing to score."""
    with pytest.raises(BadRequestError, match="'' has no tokens"):
        backend.select(SelectRequest(prompt=Prompt(text="a"), choices=("b", "")))


@pytest.mark.parametrize("temperature", [0, 1, 3])
@pytest.mark.parametrize(
    "pattern",
    [r"[A-Z][a-z]{2,8} is \d{1,3} years old\.", r"(yes|no|maybe)", r"^[\w.]{1,9}@é\?$"],
)
def test_a_pattern_always_holds(
    pattern: str, temperature: float, backend: LocalBackend
) -> None:
    """Whatever is drawn matches the whole pattern."""
    request = ask(
        "Who?", regex=pattern, temperature=temperature, max_new_tokens=60, n=3, seed=1
    )
    for sample in backend.generate(request).samples:
        assert re.fullmatch(pattern, sample.text)
        assert sample.finish_reason == "stop"


def test_a_schema_always_holds(backend: LocalBackend) -> None:
    """Whatever is drawn is JSON that fits the schema, spaced as ``json.dumps`` does."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 10},
            "age": {"type": "integer", "minimum": 1, "maximum": 120},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": False,
    }
    request = ask(
        "A person:",
        json_schema=json.dumps(schema),
        temperature=1,
        n=4,
        seed=2,
        max_new_tokens=120,
    )
    for sample in backend.generate(request).samples:
        value = json.loads(sample.text)
        assert sample.text == json.dumps(value, ensure_ascii=False)
        assert set(value) == {"name", "age", "tags"}
        assert 1 <= value["age"] <= 120
        assert len(value["name"]) <= 10
        assert set(value["tags"]) <= {"a", "b"}


def test_a_grammar_always_holds(backend: LocalBackend) -> None:
    """A generation follows an EBNF grammar; half of one is a ``length`` finish."""
    grammar = 'root ::= pair ("," pair){2}\npair ::= [a-c] "=" ("x" | "y")\n'
    whole = backend.generate(
        ask("Pairs: ", ebnf=grammar, temperature=1, seed=3, max_new_tokens=40)
    )
    half = backend.generate(ask("Pairs: ", ebnf=grammar, max_new_tokens=2))

    assert re.fullmatch(r"[abc]=[xy](,[abc]=[xy]){2}", text_of(whole))
    assert half.samples[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("sampling", "error"),
    [
        ({"regex": "(unclosed"}, BadRequestError),
        ({"regex": "a(?=b)"}, UnsupportedFeatureError),
        ({"regex": "(a{1000}){1000}"}, BadRequestError),
        ({"json_schema": '{"type": "nope"}'}, BadRequestError),
        ({"json_schema": "{"}, BadRequestError),
        ({"json_schema": "[]"}, BadRequestError),
        ({"json_schema": "false"}, BadRequestError),
        ({"json_schema": '{"not": {}}'}, BadRequestError),
        ({"ebnf": "root ::= nothing"}, BadRequestError),
        ({"regex": "a", "json_schema": "{}"}, BadRequestError),
        ({"stop_regex": ["(a"]}, BadRequestError),
    ],
)
def test_a_constraint_that_cannot_hold_is_refused(
    sampling: dict[str, Any], error: type[Exception], backend: LocalBackend
) -> None:
    """What cannot be followed is an error, and never an answer without constraint."""
    with pytest.raises(error):
        backend.generate(ask("a", **sampling))


def test_a_stop_string_is_cut_across_tokens(backend: LocalBackend) -> None:
    """The text ends before a stop string, wherever tokens end; the stream agrees."""
    prompt = "Count: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,"
    free = text_of(backend.generate(ask(prompt, max_new_tokens=20)))
    stop = free[5:9]
    pieces: list[str] = []
    cut = backend.generate(ask(prompt, max_new_tokens=20, stop=stop), pieces.append)

    assert text_of(cut) == "".join(pieces) == free[: free.index(stop)]
    assert cut.samples[0].finish_reason == "stop"
    assert cut.samples[0].meta_info["finish_reason"] == {
        "type": "stop",
        "matched": stop,
    }


def test_a_stop_pattern_ends_the_text(backend: LocalBackend) -> None:
    """The text ends where ``stop_regex`` matches."""
    prompt = "Count: 1, 2, 3, 4, 5, 6, 7,"
    completion = backend.generate(ask(prompt, stop_regex="1[0-9]", max_new_tokens=30))

    assert text_of(completion) == " 8, 9, "


def test_lengths_hold(backend: LocalBackend) -> None:
    """No token may be asked for, or at least some, or all past the model's end."""
    chat = Prompt(template=backend.chat_template).with_role_begin("user")
    chat = chat.with_text("Say only: yes").with_role_end("user")
    prompt = chat.with_role_begin("assistant")
    none = backend.generate(ask(prompt, max_new_tokens=0))
    least = backend.generate(ask(prompt, min_new_tokens=25, max_new_tokens=27))
    past = backend.generate(ask(prompt, ignore_eos=True, max_new_tokens=27))
    first = backend.generate(ask(prompt, max_new_tokens=60))
    token = first.samples[0].meta_info["finish_reason"]

    assert (text_of(none), none.samples[0].finish_reason) == ("", "length")
    assert none.usage.completion_tokens == 0
    assert least.usage.completion_tokens >= 25
    assert past.usage.completion_tokens == 27
    assert first.samples[0].finish_reason == "stop"
    assert token == {"type": "stop", "matched": 2}


def test_samples_share_the_prompt(backend: LocalBackend) -> None:
    """Several samples differ, cost the prompt once, and come again by their seed."""
    request = ask(SHOTS + "A poem:", n=5, temperature=1, seed=7)
    first = backend.generate(request)
    again = backend.generate(replace(request, prompt=request.prompt))

    assert len({sample.text for sample in first.samples}) > 1
    assert first.usage.prompt_tokens == backend.count_tokens(SHOTS + "A poem:")
    assert first.usage.completion_tokens <= 40
    assert [s.text for s in first.samples] == [s.text for s in again.samples]


@pytest.mark.parametrize(
    "held",
    [
        {"regex": "(?=a)b"},
        {"json_schema": '{"type": "object", "unevaluatedProperties": false}'},
        {"ebnf": "nothing ::= 1"},
    ],
)
def test_a_constraint_that_cannot_be_followed_is_told_unasked(
    backend: LocalBackend, held: dict[str, str]
) -> None:
    """A check compiles it, as a generation would; one that can be passes."""
    backend.check(ask("P", regex="[0-9]+"))
    with pytest.raises(BackendError):
        backend.check(ask("P", **held))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (ask("P", max_new_tokens=10**4), "max_new_tokens=10000 leaves no room"),
        (ask("P", logit_bias={60000: 1}), "token 60000.*from 0 to 49151"),
        (ask("P", stop_regex="(a"), "stop_regex"),
        (SelectRequest(prompt=Prompt(text="P"), choices=("x", "")), "no tokens"),
    ],
)
def test_what_a_model_can_never_do_is_told_unasked(
    backend: LocalBackend, asked: Request | SelectRequest, words: str
) -> None:
    """A check refuses it in the words that asking has for it."""
    with pytest.raises(BadRequestError, match=words):
        backend.check(asked)
    with pytest.raises(BadRequestError, match=words):
        _answer(backend, asked)


def _answer(backend: LocalBackend, asked: Request | SelectRequest) -> object:
    if isinstance(asked, Request):
        return backend.generate(asked)
    return backend.select(asked)


def test_a_stop_token_that_there_is_not_is_none(backend: LocalBackend) -> None:
    """It is never drawn, so the answer is that without it."""
    request = ask(SHOTS, stop_token_ids=[128009], min_new_tokens=2)
    backend.check(request)

    assert text_of(backend.generate(request)) == text_of(
        backend.generate(ask(SHOTS, min_new_tokens=2))
    )


def test_no_tokens_tell_what_the_next_would_be(backend: LocalBackend) -> None:
    """Log-probabilities of a generation of none are those of the one after it."""
    wanted = {"return_logprob": True, "top_logprobs_num": 3}
    none, one = (
        backend.generate(
            ask("The capital of France is", max_new_tokens=number, **wanted)
        )
        for number in (0, 1)
    )
    (sample,) = none.samples

    assert (sample.text, sample.finish_reason) == ("", "length")
    told: Any = sample.meta_info
    meta: Any = one.samples[0].meta_info
    assert len(told["output_top_logprobs"]) == 1
    assert told["output_top_logprobs"] == meta["output_top_logprobs"]


def test_log_probabilities_are_reported(backend: LocalBackend) -> None:
    """Each token comes with its log-probability, its text and the likeliest others."""
    completion = backend.generate(
        ask(
            "The capital of France is",
            return_logprob=True,
            top_logprobs_num=3,
            return_text_in_logprobs=True,
            logprob_start_len=0,
        )
    )
    meta: Any = completion.samples[0].meta_info

    assert "".join(text for *_, text in meta["output_token_logprobs"]) == text_of(
        completion
    )
    for taken, best in zip(
        meta["output_token_logprobs"], meta["output_top_logprobs"], strict=True
    ):
        assert taken == best[0]
        assert [entry[0] for entry in best] == sorted(
            (e[0] for e in best), reverse=True
        )
        assert taken[0] <= 0
    assert [entry[0] is None for entry in meta["input_token_logprobs"]] == [
        True,
        *[False] * 4,
    ]


def test_many_at_once_get_each_their_own(backend: LocalBackend) -> None:
    """Of 32 threads each gets the answer to its own question, in its own pattern."""

    def one(number: int) -> str:
        prompt = f"{SHOTS}Repeat: row {number}"
        return text_of(backend.generate(ask(prompt, regex=f"row {number}!\\d")))

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(one, range(32)))

    assert [answer[:-1] for answer in answers] == [f"row {n}!" for n in range(32)]


def test_characters_stream_whole(backend: LocalBackend) -> None:
    """No piece of a stream holds half a character, also of those of many tokens."""
    pieces: list[str] = []
    pattern = "(😀|é|ñ|𝄞|שלום){6}"
    completion = backend.generate(
        ask("Signs:", regex=pattern, temperature=1, seed=4, max_new_tokens=99),
        pieces.append,
    )

    assert "".join(pieces) == text_of(completion)
    assert "\ufffd" not in text_of(completion)
    assert re.fullmatch(pattern, text_of(completion))


@pytest.mark.parametrize("text", ["", " ", "a", "😀", "\0", "\ud800", "<|im_start|>"])
def test_any_prompt_is_answered(text: str, backend: LocalBackend) -> None:
    """Empty, short and odd prompts are read like any other."""
    completion = backend.generate(ask(text, max_new_tokens=2, ignore_eos=True))

    assert completion.usage.prompt_tokens >= 1
    assert completion.usage.completion_tokens == 2


def test_a_prompt_that_does_not_fit_is_refused(backend: LocalBackend) -> None:
    """A prompt that is too long says how long it is and how much there is room for."""
    limit = SETTINGS.cells - SETTINGS.sequences
    words = "word " * limit

    with pytest.raises(
        BadRequestError, match=rf"{limit + 1} tokens.* 8 new .*{limit} of"
    ):
        backend.generate(ask(words))


def test_a_prompt_up_to_the_edge_is_answered(backend: LocalBackend) -> None:
    """Prompt and answer may fill all that there is."""
    limit = SETTINGS.cells - SETTINGS.sequences
    text = "word " * (limit - 3)
    spare = limit - backend.count_tokens(text)
    request = ask(text, max_new_tokens=spare, ignore_eos=True)
    usage = backend.generate(request).usage

    assert usage.prompt_tokens + usage.completion_tokens == limit


def test_who_stops_listening_stops_the_generation(backend: LocalBackend) -> None:
    """An exception of the listener ends the generation and reaches the caller."""

    class Enough(Exception):  # noqa: N818
        pass

    def hear(piece: str) -> None:
        raise Enough(piece)

    with pytest.raises(Enough):
        backend.generate(ask(SHOTS, max_new_tokens=700, ignore_eos=True), hear)
    # All cells are free again once the engine has noticed.
    limit = SETTINGS.cells - SETTINGS.sequences
    backend.generate(ask("a", max_new_tokens=1))
    assert backend.generate(ask("word " * (limit - 50), max_new_tokens=1)).samples


def test_images_are_refused(backend: LocalBackend) -> None:
    """The engine reads no images, and says so."""
    prompt = Prompt(text="a").with_image(ImageData(data=b"x"))

    with pytest.raises(UnsupportedFeatureError, match="images"):
        backend.generate(ask(prompt))


def test_the_template_is_the_model_files_own(
    backend: LocalBackend, model_path: Path
) -> None:
    """A program's text is what the file's own template writes for its messages."""
    with model_path.open("rb") as file:
        source = gguf.read_header(file).text("tokenizer.chat_template") or ""
    plain = jinja2.Environment(autoescape=False)  # noqa: S701 - no HTML
    template = plain.from_string(source)
    for roles in (("user",), ("system", "user"), ("user", "assistant", "user")):
        prompt = Prompt(template=backend.chat_template)
        for role in roles:
            prompt = prompt.with_role_begin(role).with_text(f"I, {role}")
            prompt = prompt.with_role_end(role)
        messages = [{"role": role, "content": f"I, {role}"} for role in roles]
        written = template.render(messages=messages, add_generation_prompt=True)

        assert prompt.with_role_begin("assistant").text == written


def test_company_changes_nothing(model_path: Path) -> None:
    """A row's scores are the same to the bit alone and among others."""
    backend = LocalBackend(model_path, settings=replace(SETTINGS, cells=2048))
    requests = [
        ask(
            f"{SHOTS}Question: what is {n} plus 1?\nAnswer:",
            return_logprob=True,
            max_new_tokens=6,
        )
        for n in range(4)
    ]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(backend.generate, requests))
    for request, completion in zip(requests, together, strict=True):
        backend.flush_cache()
        alone = backend.generate(request)

        assert (
            alone.samples[0].meta_info["output_token_logprobs"]
            == (completion.samples[0].meta_info["output_token_logprobs"])
        )
    backend.close()


def test_joined_branches_are_not_read_again(backend: LocalBackend) -> None:
    """What was computed of branches is put together; nothing cached changes the answer.

    The first branch reads as in the text, and what only another says is known too.
    """
    facts = "Facts about the town.\n"
    branches = (
        "The mayor of Arken is called Mira Toll and she has a red boat.\n",
        "The bakery in Arken sells bread made of rye by Jon Hask.\n",
    )
    question = "Question: What is the mayor of Arken called?\nAnswer: she is called"
    ends = (len(facts + branches[0]), len(facts + "".join(branches)))
    joined = Prompt(
        text=facts + "".join(branches) + question, joins=(Join(len(facts), ends),)
    )
    request = ask(joined, return_logprob=True, max_new_tokens=3)
    fresh = backend.generate(request)
    backend.flush_cache()
    for branch in reversed(branches):
        backend.generate(ask(facts + branch, max_new_tokens=1))
    known = backend.generate(request)
    text = backend.generate(ask(joined.text, return_logprob=True, max_new_tokens=3))
    scores = [
        completion.samples[0].meta_info["output_token_logprobs"]
        for completion in (fresh, known, text)
    ]

    assert text_of(known) == " Mira Toll"
    assert scores[0] == scores[1] != scores[2]
    assert fresh.usage.cached_tokens == 1  # both branches begin with "The"
    unknown = backend.count_tokens(question) + len(branches)
    assert known.usage.prompt_tokens - known.usage.cached_tokens <= unknown


def test_joined_branches_have_no_scores(backend: LocalBackend) -> None:
    """A prompt whose own log-probabilities are asked for is read as any text."""
    joined = Prompt(text="One ship. Two ships. And", joins=(Join(4, (10, 21)),))
    wanted = {"return_logprob": True, "logprob_start_len": 0, "max_new_tokens": 2}
    answers = [
        backend.generate(ask(prompt, **wanted)) for prompt in (joined, joined.text)
    ]

    assert (
        answers[0].samples[0].meta_info["input_token_logprobs"]
        == (answers[1].samples[0].meta_info["input_token_logprobs"])
    )
    assert text_of(answers[0]) == text_of(answers[1])


def test_a_text_that_is_begun_anew_is_heard_once(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a join is lost in the middle of an answer, the stream goes on."""
    tries: list[str] = []
    listen = LocalBackend._listen

    def breaking(
        self: LocalBackend,
        job: Generation,
        pieces: SimpleQueue[str | None],
        on_text: OnText,
    ) -> None:
        def hear(piece: str) -> None:
            on_text(piece)
            tries.append(piece)
            if len(tries) == 4:
                raise JoinLostError

        listen(self, job, pieces, hear)

    monkeypatch.setattr(LocalBackend, "_listen", breaking)
    joined = Prompt(text="One ship. Two ships. And", joins=(Join(4, (10, 21)),))
    heard: list[str] = []
    request = ask(joined, temperature=1.0, max_new_tokens=12, ignore_eos=True)
    completion = backend.generate(request, heard.append)

    assert len(tries) > 8
    assert "".join(heard) == text_of(completion)


def test_the_end_fails_what_is_running(model_path: Path) -> None:
    """Closing fails what is running, twice is once, and nothing follows."""
    backend = LocalBackend(model_path, settings=SETTINGS)
    heard = threading.Event()
    request = ask(SHOTS, max_new_tokens=700, ignore_eos=True)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(backend.generate, request, lambda _: heard.set())
        assert heard.wait(60)
        backend.close()
        backend.close()

        with pytest.raises(BackendError, match="the engine is closed"):
            running.result(timeout=60)
    with pytest.raises(BackendError, match="closed"):
        backend.generate(request)
    with pytest.raises(BackendError, match="closed"):
        backend.count_tokens("a")


def test_scores_of_many_options_are_not_kept_for_ever(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are computed anew, and are the same."""
    monkeypatch.setattr("sglrun.backends.local.unconditional._REMEMBERED", 3)
    choices = tuple(f" the {word} ship" for word in ("old", "red", "new", "big", "one"))
    request = SelectRequest(
        prompt=Prompt(text="A"), choices=choices, unconditional=True
    )
    first, *others = (backend.select(request).scores for _ in range(3))
    for number in range(6):
        backend.select(replace(request, choices=(f" ship {number}", f" car {number}")))

    assert others == [first, first]
    assert len(backend._unconditional._known) <= 3 + 2


def test_who_forgets_a_backend_frees_it(model_path: Path) -> None:
    """Nothing keeps the memory of an engine that nobody can ask any more."""
    backend = LocalBackend(model_path, settings=SETTINGS)
    thread = backend._runtime.engine._thread
    backend.generate(ask("A", max_new_tokens=1))
    del backend
    gc.collect()
    thread.join(60)

    assert not thread.is_alive()


def test_the_engine_itself_may_find_that_it_is_forgotten(
    model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread does not wait for its own end, and the model is freed."""
    freed = threading.Event()
    free = Model.close

    backend = LocalBackend(model_path, settings=SETTINGS)
    engine = backend._runtime.engine

    def noted(model: Model) -> None:
        free(model)
        if model is engine._model:
            freed.set()

    monkeypatch.setattr(Model, "close", noted)
    cycle: list[object] = [backend]
    cycle.append(cycle)
    gc.disable()
    try:
        del backend, cycle
        engine._ask(gc.collect)
    finally:
        gc.enable()

    assert freed.wait(60)
    assert not engine._thread.is_alive()


FORKING = """
import os, sys
from pathlib import Path
from sglrun.backends.base import Request
from sglrun.backends.local.backend import LocalBackend
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

path, settings = Path(sys.argv[1]), ContextSettings(cells=512, sequences=8)
backend = LocalBackend(path, settings=settings)
sampling = SamplingParams.of(max_new_tokens=1).over(DEFAULTS)
request = Request(prompt=Prompt(text="A"), sampling=sampling)
backend.generate(request)
if os.fork() == 0:
    for ask in (
        lambda: backend.generate(request),
        lambda: LocalBackend(path, settings=settings),
    ):
        try:
            ask()
        except Exception as exc:
            print(type(exc).__name__, exc, flush=True)
    backend.close()
    os._exit(0)
os.wait()
backend.generate(request)
backend.close()
print("done", flush=True)
"""


def test_a_forked_process_is_told_that_it_has_no_engine(model_path: Path) -> None:
    """It would wait for ever: no thread comes along, and the library's neither."""
    run = subprocess.run(
        (sys.executable, "-c", FORKING, str(model_path)),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    *told, last = run.stdout.splitlines()

    assert last == "done"
    assert len(told) == 2
    for line in told:
        assert "was started in process" in line
        assert "'spawn'" in line


@pytest.fixture
def created(model_path: Path) -> Iterator[LocalBackend]:
    """The backend as a run creates it."""
    backend = create_backend(
        "local",
        BackendOptions(model=str(model_path), chat_template="qwen", ctx_size=9000),
    )
    assert isinstance(backend, LocalBackend)
    yield backend
    backend.close()


def test_a_run_creates_it_by_name(created: LocalBackend, model_path: Path) -> None:
    """The table of backends leads here; a named template wins over the file's."""
    info = created.get_server_info()

    assert (created.kind, created.model) == ("local", model_path.stem)
    assert created.chat_template.name == "qwen"
    assert (info["context_length"], info["cached_tokens"]) == (8192, 0)
    assert info["max_total_tokens"] == 9000 - 253
    assert info["exact"] is True


def test_a_run_may_ask_for_speed(model_path: Path) -> None:
    """``--no-exact`` reaches the engine, which answers all the same."""
    config = resolve_config(
        {"backend": "local", "model": str(model_path), "exact": False}
    )
    backend = create_backend(config.backend_name, config.backend_options)
    answer = backend.generate(ask("The sky is", max_new_tokens=2, ignore_eos=True))
    told = backend.get_server_info()["exact"]
    backend.close()

    assert told is False
    assert answer.usage.completion_tokens == 2


def test_wrong_options_are_refused(tmp_path: Path, model_path: Path) -> None:
    """A file that is no model and a template that nobody knows are named."""
    path = tmp_path / "no.gguf"
    path.write_bytes(b"GGUF" + bytes(100))

    with pytest.raises(ModelError, match=r"no\.gguf cannot be loaded"):
        create_backend("local", BackendOptions(model=str(path)))
    with pytest.raises(ConfigError, match="'nope'"):
        create_backend(
            "local", BackendOptions(model=str(model_path), chat_template="nope")
        )
