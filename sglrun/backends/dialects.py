"""The dialects of OpenAI's API: which field carries what on which server.

Rule: a server's habits are data here, not branches elsewhere.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, Self

from sglrun.backends.base import Capabilities
from sglrun.lang.sampling import SamplingParams

Path = tuple[str, ...]
"""Where a value stands in a payload: the keys from outside to inside."""

_COMMON = {
    "temperature": "temperature",
    "top_p": "top_p",
    "n": "n",
    "stop": "stop",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    "logit_bias": "logit_bias",
}
_ENGINE = {
    **_COMMON,
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "stop_token_ids": "stop_token_ids",
    "min_new_tokens": "min_tokens",
    "ignore_eos": "ignore_eos",
}
_LOGPROBS = frozenset({"return_logprob", "top_logprobs_num", "return_text_in_logprobs"})
# Every dialect can carry these in some way of its own; several samples are several
# requests where it has no field for them.
_STRUCTURAL = _LOGPROBS | {
    "max_new_tokens",
    "n",
    "regex",
    "json_schema",
    "ebnf",
    "extra",
}
# Engines take their defaults from the model's files; a program's are sent always.
_ALWAYS = frozenset({"temperature", "top_p", "top_k", "min_p", "repetition_penalty"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one kind of server wants to be asked.

    Attributes:
        name: what ``doctor`` calls it.
        fields: sampling field to its name on the wire; others cannot be carried.
        always: sampling fields sent even where they have our default.
        chat_limit: the field of the token limit in a chat.
        regex: where a pattern goes; empty where none can be carried.
        regex_as_grammar: patterns are carried as grammars in GBNF.
        plain_schema: where a schema goes in a prompt without roles; in a chat it is
            ``response_format`` everywhere.
        plain_schema_as_text: it goes there as JSON text.
        schema_after_prefill: a schema may hold what continues the assistant's text.
        ebnf: where a grammar goes; empty where none can be carried.
        choice: how one of several texts is enforced.
        prefill: how text in the open assistant turn, which is the last message, is
            continued, if at all: ``taken up``, or ``repeated`` by the answer.
        prefill_fields: what says in a request that its last message is to be continued.
        prefill_mark: what says so in that message.
        json_schema: answers in a chat can be held to a schema.
        logprobs: log-probabilities of generated tokens.
        counts_logprobs: a chat asks for them by their number, as a completion does.
        stream_options: streams tell the usage only where it is asked for.
        greedy_samples: several samples may be asked for where each is the likeliest.
        empty_prompt: a prompt of no characters at all is taken.
        scores: where the log-probabilities of options come from, if at all:
            ``completions`` that report their prompt's, or SGLang's ``generate``.
        images: images in a chat.
        modalities: the address that tells whether the model sees any; empty without.
        completion: prompts without roles.
        prefix_cache: prompts that begin alike are not computed twice.
        tokenize: the field of ``/tokenize`` that carries the text; empty without one.
        tokenizes_chats: it takes messages too, and writes them by its template.
        completion_models: names of models that take prompts without roles where
            others do not, as a pattern.
        thinking_models: names of models that think before they answer, as a pattern.
        thinks: the model thinks: it is drawn at temperature 1 only, and a choice has
            room for thoughts.
        videos: videos in a chat.
        video_frames: where the number of their frames goes; empty where it cannot.
        more: fields sent with every request.
    """

    name: str
    fields: Mapping[str, str] = field(default_factory=lambda: _COMMON)
    always: frozenset[str] = frozenset({"temperature", "top_p"})
    chat_limit: str = "max_tokens"
    regex: Path = ()
    regex_as_grammar: bool = False
    plain_schema: Path = ()
    plain_schema_as_text: bool = False
    schema_after_prefill: bool = True
    ebnf: Path = ()
    choice: Literal["list", "regex", "grammar", "json"] = "json"
    prefill: Literal["", "taken up", "repeated"] = ""
    prefill_fields: Mapping[str, object] = field(default_factory=dict)
    prefill_mark: Mapping[str, object] = field(default_factory=dict)
    json_schema: bool = True
    logprobs: bool = True
    counts_logprobs: bool = False
    stream_options: bool = True
    greedy_samples: bool = True
    empty_prompt: bool = True
    scores: Literal["", "completions", "generate"] = ""
    images: bool = True
    modalities: str = ""
    completion: bool = True
    completion_models: str = ""
    prefix_cache: bool = False
    tokenize: str = ""
    tokenizes_chats: bool = False
    thinking_models: str = ""
    thinks: bool = False
    videos: bool = False
    video_frames: Path = ()
    more: Mapping[str, object] = field(default_factory=dict)

    def of_model(self, model: str) -> Self:
        """Return this dialect as *model* speaks it."""
        completes = self.completion_models and re.search(self.completion_models, model)
        thinks = self.thinking_models and re.search(self.thinking_models, model)
        return replace(
            self,
            completion=self.completion or bool(completes),
            thinks=self.thinks or bool(thinks),
            # Such models refuse even the fields whose defaults they keep to.
            always=frozenset() if thinks else self.always,
        )

    @property
    def capabilities(self) -> Capabilities:
        """What a program may use."""
        carried = _STRUCTURAL | self.fields.keys()
        if not self.logprobs:
            carried -= _LOGPROBS
        every = {one.name for one in fields(SamplingParams)}
        return Capabilities(
            completion=self.completion,
            prefill=bool(self.prefill),
            regex=bool(self.regex),
            json_schema=self.json_schema,
            ebnf=bool(self.ebnf),
            choice_scores=bool(self.scores),
            select=self.json_schema or self.choice != "json",
            images=self.images,
            videos=self.videos and self.images,
            video_frames=bool(self.video_frames),
            prefix_cache=self.prefix_cache,
            token_counts=bool(self.tokenize),
            unsupported_sampling=frozenset(every - carried),
        )


def _only(*names: str) -> Mapping[str, str]:
    return {name: _COMMON[name] for name in names}


def _without(*names: str) -> Mapping[str, str]:
    return {name: wire for name, wire in _COMMON.items() if name not in names}


_DEEPSEEK = Dialect(
    name="deepseek",
    fields=_without("n", "seed", "logit_bias"),
    completion=False,
    json_schema=False,
)

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        # Reasoning models know only the new name of the limit; old ones know both.
        Dialect(
            name="openai",
            chat_limit="max_completion_tokens",
            completion=False,
            completion_models=r"-instruct\b|davinci-002|babbage-002",
            thinking_models=r"^o\d|^gpt-([5-9]|\d\d)(?!.*chat)",
        ),
        Dialect(
            name="vllm",
            fields=_ENGINE,
            always=_ALWAYS,
            regex=("structured_outputs", "regex"),
            plain_schema=("structured_outputs", "json"),
            ebnf=("structured_outputs", "grammar"),
            choice="list",
            prefill="taken up",
            prefill_fields={
                "continue_final_message": True,
                "add_generation_prompt": False,
            },
            scores="completions",
            prefix_cache=True,
            tokenize="prompt",
            tokenizes_chats=True,
            greedy_samples=False,
            videos=True,
            video_frames=("media_io_kwargs", "video", "num_frames"),
        ),
        Dialect(
            name="sglang",
            fields={**_ENGINE, "stop_regex": "stop_regex"},
            always=_ALWAYS,
            regex=("regex",),
            plain_schema=("json_schema",),
            plain_schema_as_text=True,
            ebnf=("ebnf",),
            choice="regex",
            prefill="taken up",
            prefill_fields={"continue_final_message": True},
            prefix_cache=True,
            scores="generate",
            tokenize="prompt",
            tokenizes_chats=True,
            # A prompt without a token ends the whole server (0.5.23).
            empty_prompt=False,
            videos=True,
        ),
        Dialect(
            name="llama-server",
            fields={
                **_COMMON,
                "top_k": "top_k",
                "min_p": "min_p",
                "repetition_penalty": "repeat_penalty",
                "ignore_eos": "ignore_eos",
            },
            always=_ALWAYS,
            regex=("grammar",),
            regex_as_grammar=True,
            plain_schema=("json_schema",),
            schema_after_prefill=False,
            ebnf=("grammar",),
            choice="grammar",
            prefill="repeated",
            prefix_cache=True,
            tokenize="content",
            modalities="/props",
            # Penalties look back further than the last 64 tokens, as they do elsewhere;
            # the server keeps room for as many as are asked for, and refuses -1.
            more={"cache_prompt": True, "repeat_last_n": 4096},
        ),
        Dialect(
            name="ollama",
            # Others are left out in silence there.
            fields=_without("n", "logit_bias"),
            # It writes a prompt without roles into the model's template.
            completion=False,
        ),
        Dialect(
            name="groq",
            fields=_only("temperature", "top_p", "stop", "seed"),
            chat_limit="max_completion_tokens",
            completion=False,
            prefill="taken up",
            schema_after_prefill=False,
            logprobs=False,
        ),
        Dialect(
            name="mistral",
            fields={**_without("seed", "logit_bias"), "seed": "random_seed"},
            completion=False,
            prefill="repeated",
            prefill_mark={"prefix": True},
            schema_after_prefill=False,
            logprobs=False,
            # Refuses fields that it does not know, and tells the usage always.
            stream_options=False,
            greedy_samples=False,
        ),
        _DEEPSEEK,
        replace(
            _DEEPSEEK,
            name="deepseek-beta",
            prefill="taken up",
            prefill_mark={"prefix": True},
        ),
        Dialect(
            name="openrouter",
            fields={
                **_without("n"),
                "top_k": "top_k",
                "min_p": "min_p",
                "repetition_penalty": "repetition_penalty",
            },
            prefill="taken up",
            schema_after_prefill=False,
            # Else it asks hosts that leave out in silence what they do not know.
            more={"provider": {"require_parameters": True}},
        ),
        Dialect(
            name="together",
            fields={
                **_COMMON,
                "top_k": "top_k",
                "min_p": "min_p",
                "repetition_penalty": "repetition_penalty",
            },
            counts_logprobs=True,
        ),
        Dialect(name="generic"),
    )
}

# Who owns the models that ``/v1/models`` lists.
OWNERS: Mapping[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama-server",
    "library": "ollama",
}

# Addresses of a server's own that tell what it is, with a key that they answer.
PROBES: tuple[tuple[str, str, str], ...] = (
    ("/model_info", "model_path", "sglang"),
    ("/get_model_info", "model_path", "sglang"),
    ("/props", "default_generation_settings", "llama-server"),
    ("/api/version", "version", "ollama"),
    ("/version", "version", "vllm"),
)
