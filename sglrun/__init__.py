"""sglrun: run an LLM program over every row of a JSONL file.

This is what a program imports: ``import sglrun as sgl``.
"""

from sglrun.interpreter.function import function
from sglrun.interpreter.global_config import (
    flush_cache,
    get_server_info,
    global_config,
    set_default_backend,
)
from sglrun.interpreter.program import Program
from sglrun.interpreter.sglang.named_backends import (
    Anthropic,
    Crusoe,
    LiteLLM,
    OpenAI,
    RuntimeEndpoint,
    VertexAI,
)
from sglrun.interpreter.sglang.runtime import Runtime
from sglrun.interpreter.state import ProgramState, ProgramStateGroup
from sglrun.lang.chat_template import (
    ChatTemplate,
    get_chat_template,
    get_chat_template_by_model_path,
    register_chat_template,
    register_chat_template_matching_function,
)
from sglrun.lang.choices import (
    greedy_token_selection,
    token_length_normalized,
    unconditional_likelihood_normalized,
)
from sglrun.lang.expressions import (
    assistant,
    assistant_begin,
    assistant_end,
    gen,
    gen_int,
    gen_string,
    select,
    separate_reasoning,
    system,
    system_begin,
    system_end,
    user,
    user_begin,
    user_end,
)
from sglrun.lang.pictures import image, video

__all__ = [
    "Anthropic",
    "ChatTemplate",
    "Crusoe",
    "LiteLLM",
    "OpenAI",
    "Program",
    "ProgramState",
    "ProgramStateGroup",
    "Runtime",
    "RuntimeEndpoint",
    "VertexAI",
    "assistant",
    "assistant_begin",
    "assistant_end",
    "flush_cache",
    "function",
    "gen",
    "gen_int",
    "gen_string",
    "get_chat_template",
    "get_chat_template_by_model_path",
    "get_server_info",
    "global_config",
    "greedy_token_selection",
    "image",
    "register_chat_template",
    "register_chat_template_matching_function",
    "select",
    "separate_reasoning",
    "set_default_backend",
    "system",
    "system_begin",
    "system_end",
    "token_length_normalized",
    "unconditional_likelihood_normalized",
    "user",
    "user_begin",
    "user_end",
    "video",
]
