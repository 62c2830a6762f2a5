"""Models that are not the bundled one."""

import platform
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, current_thread
from typing import Any

import numpy as np
import pytest

from sglrun.backends.base import Request, SelectRequest
from sglrun.backends.local import attention
from sglrun.backends.local.backend import LocalBackend
from sglrun.backends.local.context import Context, Logits
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.job import ReadJob
from sglrun.backends.local.model import Model
from sglrun.backends.local.step import Entry
from sglrun.backends.local.tokenizer import Tokenizer
from sglrun.errors import BackendError, ModelError
from sglrun.lang.prompt import Join, Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams
from tests.backends.local.tiny_model import (
    Q4_K,
    write_gemma,
    write_llama,
    write_mamba,
)

pytestmark = pytest.mark.engine

CHOICES = (" sailed to the north", " sailed to the south", " burned", " sank at sea")
GOODS = ("salt", "timber", "wool", "iron", "copper", "barley", "wine", "hides")


Scores = list[list[float]]


def prompts(sentences: int, rows: int) -> list[str]:
    """Return prompts of which a third each begin alike, and go on differently."""
    made = []
    for row in range(rows):
        shared, own = np.random.default_rng(row % 3), np.random.default_rng(row + 10)
        text = [f"They carry {what}. " for what in shared.choice(GOODS, sentences)]
        more = [f"Then {what}. " for what in own.choice(GOODS, row % 5)]
        made.append(f"{''.join(text)}{''.join(more)}In {row} they")
    return made


def answer(backend: LocalBackend, text: str) -> tuple[Scores, str]:
    """Return the scores of the choices after *text*, and what is likeliest there."""
    prompt = Prompt(text=text)
    selected = backend.select(SelectRequest(prompt=prompt, choices=CHOICES))
    sampling = SamplingParams.of(max_new_tokens=6, temperature=0, ignore_eos=True)
    written = backend.generate(Request(prompt=prompt, sampling=sampling.over(DEFAULTS)))
    scores = [[token.logprob for token in each.tokens] for each in selected.scores]
    return scores, written.samples[0].text


def in_company(
    path: Path, sentences: int, cells: int
) -> tuple[list[tuple[Scores, str]], ...]:
    """Return the answers of rows one by one with nothing cached, and in company."""
    asked = prompts(sentences, 16)
    backend = LocalBackend(path, settings=ContextSettings(cells=cells, sequences=60))
    try:
        alone = []
        for prompt in asked:
            backend.flush_cache()
            alone.append(answer(backend, prompt))
        with ThreadPoolExecutor(len(asked)) as pool:
            beside = list(pool.map(lambda prompt: answer(backend, prompt), asked))
        after = [answer(backend, prompt) for prompt in reversed(asked)]
    finally:
        backend.close()
    return alone, beside, after[::-1]


@pytest.fixture(params=["flash", "blocks"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever the prompts have in common, one kernel or the other is used."""
    longest = 0 if request.param == "blocks" else 100_000
    monkeypatch.setattr(attention, "_LONG_PREFIX", longest)


@pytest.mark.usefixtures("kernel")
def test_weights_in_large_blocks_are_exact(tmp_path: Path, model_path: Path) -> None:
    """Types that the library multiplies in another way where there are many tokens."""
    path = write_llama(tmp_path / "k.gguf", model_path, kind=Q4_K)
    alone, beside, after = in_company(path, sentences=12, cells=4096)

    assert beside == alone
    assert after == alone


def test_what_all_prompts_begin_with_decides_how_they_are_read(
    tmp_path: Path, model_path: Path
) -> None:
    """Each batch of a process as in a process of its own, whatever came before."""
    path = write_llama(tmp_path / "a.gguf", model_path, kind=Q4_K)
    settings = ContextSettings(cells=2048, sequences=20)
    long, short = Prompt(text="Ships. " * 700), Prompt(text="Ships. " * 20)
    middle = Prompt(text="Ships. " * 150)
    batches = [(long, False), (short, False), (middle, True), (middle, False)]

    def outcome(
        backend: LocalBackend, prompt: Prompt, *, only_scored: bool
    ) -> tuple[attention.Attention, tuple[Scores, str]]:
        backend.cache_prefix(prompt, only_scored=only_scored)
        way = backend._runtime.engine._context.attention
        return way, answer(backend, prompt.text)

    by_itself = []
    for prompt, only_scored in batches:
        backend = LocalBackend(path, settings=settings)
        by_itself.append(outcome(backend, prompt, only_scored=only_scored))
        backend.close()
    backend = LocalBackend(path, settings=settings)
    answer(backend, "Ships")
    after_others = [
        outcome(backend, prompt, only_scored=only_scored)
        for prompt, only_scored in batches
    ]
    backend.close()

    has_blocks = platform.machine() == "x86_64"
    blocks = attention.BLOCKS if has_blocks else attention.FLASH
    ways = [way for way, _ in by_itself]
    assert ways == [blocks, attention.FLASH, blocks, attention.FLASH]
    assert after_others == by_itself


def test_the_same_batch_again_finds_its_prefix(
    tmp_path: Path, model_path: Path
) -> None:
    """What is cached stays where prompts are read in the same way."""
    path = write_llama(tmp_path / "a.gguf", model_path)
    backend = LocalBackend(path, settings=ContextSettings(cells=2048, sequences=20))
    long = Prompt(text="Ships. " * 700)
    usages = [backend.cache_prefix(long) for _ in range(2)]
    backend.close()

    assert usages[1].cached_tokens == usages[0].prompt_tokens - 1


def test_branches_are_joined_however_busy_an_engine_was(
    tmp_path: Path, model_path: Path
) -> None:
    """Also where nothing that was asked before was ever gone on from."""
    path = write_llama(tmp_path / "a.gguf", model_path)
    backend = LocalBackend(path, settings=ContextSettings(cells=4096, sequences=60))
    base = "Ships that sail. " * 100
    text = f"{base}One ship. Two ships. And"
    ends = (len(base) + 10, len(base) + 21)
    joined = Prompt(text=text, joins=(Join(len(base), ends),))
    written = SamplingParams.of(max_new_tokens=20, temperature=0, ignore_eos=True)
    sampling = written.over(DEFAULTS)
    fresh = backend.generate(Request(prompt=joined, sampling=sampling))
    for number in range(60):
        prompt = Prompt(text=f"Number {number} is not asked about again, nor is")
        backend.generate(Request(prompt=prompt, sampling=sampling))
    after = backend.generate(Request(prompt=joined, sampling=sampling))
    backend.close()

    assert after.samples[0].text == fresh.samples[0].text


def test_a_prefix_of_joined_branches_is_kept(tmp_path: Path, model_path: Path) -> None:
    """Though the context is made anew for so long a one; the engine goes on."""
    path = write_llama(tmp_path / "a.gguf", model_path)
    backend = LocalBackend(path, settings=ContextSettings(cells=4096, sequences=60))
    base = "Ships. " * 700
    ends = (len(base) + 10, len(base) + 21)
    text = f"{base}One ship. Two ships. And"
    joined = Prompt(text=text, joins=(Join(len(base), ends),))
    backend.cache_prefix(joined)
    again = backend.cache_prefix(joined)
    written = answer(backend, "Ships")
    can_join = backend._runtime.engine.can_join
    backend.close()

    assert again.cached_tokens == again.prompt_tokens - 1
    assert written
    assert can_join
    assert backend._runtime.engine.can_join  # asks no memory that is freed


def test_the_kernel_is_chosen_in_the_engines_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model_path: Path
) -> None:
    """What the library tells of itself stands in one text, which a call writes anew."""
    path = write_llama(tmp_path / "a.gguf", model_path)
    backend = LocalBackend(path, settings=ContextSettings(cells=2048, sequences=20))
    threads: list[str] = []

    def noted(*args: Any, **more: Any) -> attention.Attention:
        threads.append(current_thread().name)
        return attention.choose_attention(*args, **more)

    monkeypatch.setattr("sglrun.backends.local.engine.choose_attention", noted)
    backend.cache_prefix(Prompt(text="Ships. " * 20))
    backend.close()

    assert threads == ["sglrun-engine"]


def test_who_waits_already_is_not_lost(tmp_path: Path, model_path: Path) -> None:
    """A job that was handed in before the prefix was known is done, not dropped."""
    path = write_llama(tmp_path / "a.gguf", model_path)
    settings = ContextSettings(cells=2048, sequences=20)
    backend = LocalBackend(path, settings=settings)
    engine, job, go = backend._runtime.engine, ReadJob((1, 2, 3)), Event()

    def pause() -> None:
        go.wait(10)

    engine._tell(pause)
    engine.start(job)
    with ThreadPoolExecutor(1) as pool:
        expected = pool.submit(engine.expect, 2000)
        while engine._inbox.qsize() < 2:  # both stand in line behind the pause
            pass
        go.set()
        expected.result(10)
    job.future.result(10)
    backend.close()


def test_a_context_that_has_no_room_for_the_other_way_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model_path: Path
) -> None:
    """It takes more memory; without it, prompts are read as before, and are kept."""
    path = write_llama(tmp_path / "a.gguf", model_path)
    settings = ContextSettings(cells=2048, sequences=20)
    backend = LocalBackend(path, settings=settings)
    allocate = Context.__init__

    def short_of_memory(*args: Any, **more: Any) -> None:
        if more:
            raise ModelError("no room")
        allocate(*args)

    monkeypatch.setattr(Context, "__init__", short_of_memory)
    usages = [backend.cache_prefix(Prompt(text="Ships. " * 700)) for _ in range(2)]
    backend.close()

    assert usages[1].cached_tokens == usages[0].prompt_tokens - 1


@pytest.mark.parametrize("exact", [True, False])
def test_a_window_changes_nothing_for_who_forks_behind_it(
    exact: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
    model_path: Path,
) -> None:
    """What layers see no more stays for who forks there, wherever it comes to lie."""
    model = Model(write_gemma(tmp_path / "w.gguf", model_path, window=64), exact=exact)
    settings = ContextSettings(cells=1024, sequences=8, exact=exact)
    context = Context(model, Tokenizer(model).size, settings)
    random = np.random.default_rng(0)
    text, other = (tuple(random.integers(100, 40000, 300)) for _ in range(2))

    def read(tokens: Sequence[int], sequence: int, start: int = 0) -> Logits:
        wanted = len(tokens) - 1
        entries = [
            Entry(token, start + n, sequence, n == wanted)
            for n, token in enumerate(tokens)
        ]
        assert context.decode(entries) == 0
        return context.logits(wanted).copy()

    read(text[:200], 0)
    context.fork(0, 1, 150)
    alone = read((7, 8), 1, 150)
    context.truncate(0, 0)
    context.truncate(1, 0)
    read(other[:10], 2)
    read(text[:200], 0)
    context.truncate(2, 0)  # the library looks for cells from there on
    context.compact()
    read(other, 3)
    context.fork(0, 1, 150)
    beside = read((7, 8), 1, 150)
    context.close()
    model.close()

    np.testing.assert_allclose(beside, alone, atol=0 if exact else 0.5)


@pytest.mark.usefixtures("kernel")
def test_a_model_with_a_window_answers_alike_in_company(
    tmp_path: Path, model_path: Path
) -> None:
    """The same to the bit, and its branches are joined by their text only."""
    path = write_gemma(tmp_path / "w.gguf", model_path, window=64)
    alone, beside, after = in_company(path, sentences=30, cells=1500)
    backend = LocalBackend(path, settings=ContextSettings(cells=512, sequences=8))
    can_join = backend.capabilities.concatenation
    backend.close()

    assert beside == alone
    assert after == alone
    assert not can_join


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"attention.causal": False}, "reads a text both ways"),
        ({"pooling_type": 3}, "made to embed texts"),
    ],
)
def test_a_model_that_does_not_go_on_from_a_text_is_refused(
    more: dict[str, int], why: str, tmp_path: Path, model_path: Path
) -> None:
    """It would answer nonsense, or end the process."""
    path = write_llama(tmp_path / "a.gguf", model_path, **more)

    with pytest.raises(ModelError, match=rf"{why}.*--url"):
        Model(path)


def test_weights_that_cannot_be_exact_are_warned_of(
    tmp_path: Path, model_path: Path
) -> None:
    """Half precision rounds by company; without the exact mode nobody minds."""
    path = write_llama(tmp_path / "a.gguf", model_path, **{"general.file_type": 1})
    with pytest.warns(UserWarning, match=r"a\.gguf has weights in half precision"):
        Model(path).close()
    Model(path, exact=False).close()


def test_a_recurrent_model_is_refused(tmp_path: Path, model_path: Path) -> None:
    """It has no cells for each token, which sharing rests on."""
    with pytest.raises(ModelError, match="it is recurrent"):
        Model(write_mamba(tmp_path / "a.gguf", model_path))


def test_why_a_file_is_refused_is_said(tmp_path: Path, model_path: Path) -> None:
    """The library's own reason stands in the message, and nothing of an earlier one."""
    whole = write_llama(tmp_path / "whole.gguf", model_path).read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[: len(whole) // 2])
    other = tmp_path / "other.gguf"
    other.write_bytes(whole.replace(b"llama", b"zebra"))
    with pytest.raises(ModelError, match=r"cannot be loaded: tensor .* is not within"):
        Model(cut)
    with pytest.raises(ModelError, match="unknown model architecture: 'zebra'"):
        Model(other)


def test_what_is_no_number_is_no_answer(tmp_path: Path, model_path: Path) -> None:
    """Weights that are damaged fail each request; none is answered with nonsense."""
    path = write_llama(tmp_path / "a.gguf", model_path)
    data = bytearray(path.read_bytes())
    data[-34 * 8 : -34 * 7] = b"\xff\x7f" + b"\x7f" * 32  # a scale that is no number
    path.write_bytes(data)
    backend = LocalBackend(path, settings=ContextSettings(cells=512, sequences=8))
    try:
        with pytest.raises(BackendError, match="computes no numbers"):
            answer(backend, "In 7 they")
    finally:
        backend.close()


def test_a_fragment_begins_without_a_space_of_its_own(tmp_path: Path) -> None:
    """Only a prompt gets the space that vocabularies of pieces begin a text with."""
    model = Model(write_llama(tmp_path / "a.gguf", None))
    tokenizer = Tokenizer(model)

    def shown(tokens: Sequence[int]) -> list[str]:
        return [tokenizer.text(token) for token in tokens]

    assert shown(tokenizer.encode("yes")) == ["yes"]
    assert shown(tokenizer.encode(" yes")) == [" yes"]
    assert shown(tokenizer.encode("")) == []
    assert shown(tokenizer.encode_prompt("yes")) == ["<s>", " yes"]
    assert shown(tokenizer.encode_prompt("")) == ["<s>"]
    assert shown(tokenizer.encode("é")) == shown(tokenizer.encode("aé"))[1:]
    model.close()


def test_such_a_vocabulary_follows_constraints(tmp_path: Path) -> None:
    """Text that a constraint forces is no fragment with a space before it."""
    path = write_llama(tmp_path / "llama-2-chat.gguf", None)
    backend = LocalBackend(path, settings=ContextSettings(cells=512, sequences=8))
    schema = (
        '{"type": "object", "properties": {"a": {"const": "yes"}, "no": {"const": 1}},'
        ' "required": ["a", "no"], "additionalProperties": false}'
    )
    for constraint, wanted in (
        ({"regex": r"an answer is: yes\."}, "an answer is: yes."),
        ({"json_schema": schema}, '{"a": "yes", "no": 1}'),
    ):
        sampling = SamplingParams.of(max_new_tokens=60, temperature=1, **constraint)
        request = Request(prompt=Prompt(text="is"), sampling=sampling.over(DEFAULTS))
        assert backend.generate(request).samples[0].text == wanted
    backend.close()
