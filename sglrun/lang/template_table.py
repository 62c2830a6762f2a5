"""The table of chat templates: the markup that models were trained on.

It is SGLang's table, and the families that came after it. Where a comment names a file,
that holds the template which the maker published (``llama.cpp``: in its
``models/templates/``), and the row writes what it writes for a system prompt, users and
answers. No row can say more than a prefix and a suffix for each role.
"""

from collections.abc import Mapping

from sglrun.lang.markup import ChatTemplate

_Roles = Mapping[str, tuple[str, str]]


def _all(before: str, after: str) -> _Roles:
    return {
        role: (before.format(role), after) for role in ("system", "user", "assistant")
    }


def _of(
    name: str,
    roles: _Roles,
    *,
    stop: tuple[str, ...] = (),
    marker: str = "<image>",
    system: str | None = None,
    opening: str = "",
    inside_user: bool = False,
) -> ChatTemplate:
    return ChatTemplate(
        name=name,
        roles=roles,
        default_system=system,
        stop=stop,
        image_token=marker,
        video_token=_FILM if marker == _VISION else None,
        style="llama2" if inside_user else "plain",
        opening=opening,
    )


_CHATML = _all("<|im_start|>{}\n", "<|im_end|>\n")
_CHATML_END = ("<|im_end|>",)
_HELPFUL = "You are a helpful assistant."
_VISION = "<|vision_start|><|image_pad|><|vision_end|>"
_FILM = "<|vision_start|><|video_pad|><|vision_end|>"
_LLAMA_3 = _all("<|start_header_id|>{}<|end_header_id|>\n\n", "<|eot_id|>")
_GLM_END = ("<|user|>", "<|endoftext|>", "<|observation|>")
# DeepSeek's own characters, which look like others.
_BAR, _SPACE = "\uff5c", "\u2581"
_DEEPSEEK_END = f"<{_BAR}end{_SPACE}of{_SPACE}sentence{_BAR}>"
_DEEPSEEK: _Roles = {
    "user": (f"<{_BAR}User{_BAR}>", ""),
    "assistant": (f"<{_BAR}Assistant{_BAR}>", _DEEPSEEK_END),
}
_MINICPM: _Roles = {
    "system": ("", " "),
    "user": ("user:", " "),
    "assistant": ("assistant:", "</s>"),
}
_MINICPM_END = ("<|im_end|>", "<|endoftext|>")
_TURN_TOKEN = "<|START_OF_TURN_TOKEN|>"  # noqa: S105 - markup
_TURN_END = "<|END_OF_TURN_TOKEN|>"

# vLLM examples/template_vicuna.jinja
_VICUNA_SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. The "
    "assistant gives helpful, detailed, and polite answers to the user's questions."
)
# 01-ai/Yi VL/README.md, "Major difference with LLaVA"
_YI_VL_SYSTEM = (
    "This is a chat between an inquisitive human and an AI assistant. Assume the role "
    "of the AI assistant. Read all the images carefully, and respond to the human's "
    "questions with informative, helpful, detailed and polite answers. "
    "这是一个好奇的人类和一个人工智能助手之间的对话。假设你扮演这个AI助手的角色。"
    "仔细阅读所有的图像，并对人类的问题做出信息丰富、有帮助、详细的和礼貌的回答。"  # noqa: RUF001
)
# InternVL2.5's conversation.py, as lmdeploy's chat template ``internvl2_5`` has it
_INTERNVL_SYSTEM = (
    "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、"  # noqa: RUF001
    "清华大学及多家合作单位联合开发的多模态大语言模型。"
)
# The template in the model file of dbrx-instruct (Ollama's library/dbrx:132b)
_DBRX_SYSTEM = (
    "You are DBRX, created by Databricks. You were last updated in December 2023. You "
    "answer questions based on information available up to that point.\n"
    "YOU PROVIDE SHORT RESPONSES TO SHORT QUESTIONS OR STATEMENTS, but provide "
    "thorough responses to more complex and open-ended questions.\n"
    "You assist with various tasks, from writing to coding (using markdown for code "
    "blocks — remember to use ``` with code, JSON, and tables).\n"
    "(You do not have real-time data access or code execution capabilities. You avoid "
    "stereotyping and provide balanced perspectives on controversial topics. You do "
    "not provide song lyrics, poems, or news articles and do not divulge details of "
    "your training data.)\n"
    "This is your system prompt, guiding your responses. Do not reference it, just "
    "respond to the user. If you find yourself talking about this message, stop. You "
    "should be responding appropriately and usually that means not mentioning this.\n"
    "YOU DO NOT MENTION ANY OF THIS INFORMATION ABOUT YOURSELF UNLESS THE INFORMATION "
    "IS DIRECTLY PERTINENT TO THE USER'S QUERY."
)
# llama.cpp openai-gpt-oss-120b.jinja, its line of the current date left out
_GPT_OSS_OPENING = (
    "<|start|>system<|message|>You are ChatGPT, a large language model trained by "
    "OpenAI.\nKnowledge cutoff: 2024-06\n\nReasoning: medium\n\n# Valid channels: "
    "analysis, commentary, final. Channel must be included for every message.<|end|>"
)

TEMPLATES: tuple[ChatTemplate, ...] = (
    _of(
        "default",
        {
            "system": ("SYSTEM:", "\n"),
            "user": ("USER:", "\n"),
            "assistant": ("ASSISTANT:", "\n"),
        },
    ),
    _of("claude", {"user": ("\n\nHuman: ", ""), "assistant": ("\n\nAssistant:", "")}),
    _of("chatml", _CHATML, stop=_CHATML_END),
    _of("chatml-llava", _CHATML, stop=_CHATML_END, system=_HELPFUL, marker="<image>\n"),
    _of("qwen", _CHATML, stop=_CHATML_END, system=_HELPFUL),
    _of("qwen2-vl", _CHATML, stop=_CHATML_END, system=_HELPFUL, marker=_VISION),
    # llama.cpp Qwen-Qwen3-0.6B.jinja
    _of("qwen3", _CHATML, stop=_CHATML_END),
    # SGLang examples/chat_template/template_qwen3_vl_thinking.jinja
    _of("qwen3-vl", _CHATML, stop=_CHATML_END, marker=_VISION),
    _of(
        "vicuna_v1.1",
        {
            "system": ("", " "),
            "user": ("USER:", " "),
            "assistant": ("ASSISTANT:", "</s>"),
        },
        system=_VICUNA_SYSTEM,
        marker=" <image>\n",
    ),
    _of(
        "llama-2-chat",
        {
            "system": ("<<SYS>>\n", "\n<</SYS>>\n\n"),
            "user": ("[INST] ", " [/INST]"),
            "assistant": ("", " </s><s>"),
        },
        inside_user=True,
    ),
    _of(
        "mistral",
        {
            "system": ("[SYSTEM_PROMPT] ", " [/SYSTEM_PROMPT]"),
            "user": ("[INST] ", " [/INST]"),
            "assistant": ("", " </s><s>"),
        },
        stop=("</s>",),
        marker="[IMG]",
    ),
    _of("llama-3-instruct", _LLAMA_3, stop=("<|eot_id|>",), marker="<|image|>"),
    _of("llama-3-instruct-llava", _LLAMA_3, stop=("<|eot_id|>",), marker="<image>\n"),
    # Llama4Processor's chat template in transformers
    _of(
        "llama-4",
        _all("<|header_start|>{}<|header_end|>\n\n", "<|eot|>"),
        stop=("<|eot|>",),
        marker="<|image|>",
    ),
    *(
        _of(name, _MINICPM, stop=_MINICPM_END, marker="(<image>./</image>)")
        for name in ("minicpmv", "minicpmo")
    ),
    *(
        _of(name, _DEEPSEEK, stop=(_DEEPSEEK_END,), marker="<image_placeholder>\n")
        for name in ("janus-pro", "janus")
    ),
    _of("deepseek-v3", _DEEPSEEK, stop=(_DEEPSEEK_END,)),
    _of(
        "yi-1.5",
        {
            "user": ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
            "assistant": ("", "<|im_end|>\n"),
        },
        stop=_CHATML_END,
    ),
    _of(
        "yi-vl",
        {
            "system": ("", "\n\n"),
            "user": ("### Human:", "\n"),
            "assistant": ("### Assistant:", "\n"),
        },
        system=_YI_VL_SYSTEM,
        marker=" <image_placeholder>\n",
    ),
    _of(
        "gemma-it",
        {
            "user": ("<start_of_turn>user\n", "<end_of_turn>\n"),
            "assistant": ("<start_of_turn>model\n", "<end_of_turn>\n"),
        },
        marker="<start_of_image>",
    ),
    # vLLM examples/tool_chat_template_gemma3_pythonic.jinja, without its tools
    _of(
        "gemma-3",
        {
            "system": ("", "\n\n"),
            "user": ("<start_of_turn>user\n", "<end_of_turn>\n"),
            "assistant": ("<start_of_turn>model\n", "<end_of_turn>\n"),
        },
        stop=("<end_of_turn>",),
        marker="<start_of_image>",
        inside_user=True,
    ),
    # llama.cpp gemma4.jinja; its image as in vLLM tool_chat_template_gemma4.jinja
    _of(
        "gemma-4-it",
        {
            "system": ("<|turn>system\n", "<turn|>\n"),
            "user": ("<|turn>user\n", "<turn|>\n"),
            "assistant": ("<|turn>model\n", "<turn|>\n"),
        },
        stop=("<turn|>",),
        marker="<|image|>",
    ),
    _of(
        "dbrx-instruct",
        {
            "system": ("<|im_start|>system\n", "<|im_end|>"),
            "user": ("\n<|im_start|>user\n", "<|im_end|>"),
            "assistant": ("\n<|im_start|>assistant\n", "<|im_end|>"),
        },
        stop=_CHATML_END,
        system=_DBRX_SYSTEM,
    ),
    # CohereForAI/c4ai-command-r-plus in llama.cpp tests/test-chat-template.cpp
    _of(
        "c4ai-command-r",
        {
            "system": (f"{_TURN_TOKEN}<|SYSTEM_TOKEN|>", _TURN_END),
            "user": (f"{_TURN_TOKEN}<|USER_TOKEN|>", _TURN_END),
            "assistant": (f"{_TURN_TOKEN}<|CHATBOT_TOKEN|>", _TURN_END),
        },
    ),
    _of(
        "internvl-2-5",
        _CHATML,
        stop=("<|im_end|>", "<|action_end|>"),
        system=_INTERNVL_SYSTEM,
    ),
    _of("interns1", _CHATML, stop=("<|im_end|>", "<|action_end|>")),
    _of(
        "granite-3-instruct",
        _all("<|start_of_role|>{}<|end_of_role|>", "<|end_of_text|>"),
        stop=("<|end_of_text|>",),
    ),
    # phi-4 in llama.cpp tests/test-chat-template.cpp
    _of("phi-4", _all("<|im_start|>{}<|im_sep|>", "<|im_end|>"), stop=_CHATML_END),
    # llama.cpp llama-cpp-microsoft-Phi-4-mini-instruct.jinja
    _of("phi-4-mini", _all("<|{}|>", "<|end|>"), stop=("<|end|>",)),
    # llama.cpp openai-gpt-oss-120b.jinja, which writes answers in the final channel;
    # its prompt leaves the channel open, but what a server sends back of a channel's
    # marks cannot be told from the answer.
    _of(
        "gpt-oss",
        {
            "system": (
                "<|start|>developer<|message|># Instructions\n\n",
                "\n\n<|end|>",
            ),
            "user": ("<|start|>user<|message|>", "<|end|>"),
            "assistant": ("<|start|>assistant<|channel|>final<|message|>", "<|end|>"),
        },
        stop=("<|return|>", "<|end|>"),
        opening=_GPT_OSS_OPENING,
    ),
    # llama.cpp moonshotai-Kimi-K2-Thinking.jinja; that of the first Kimi K2 has
    # "You are a helpful assistant" in its place
    _of(
        "kimi-k2",
        {
            "system": ("<|im_system|>system<|im_middle|>", "<|im_end|>"),
            "user": ("<|im_user|>user<|im_middle|>", "<|im_end|>"),
            "assistant": ("<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"),
        },
        stop=_CHATML_END,
        system="You are Kimi, an AI assistant created by Moonshot AI.",
        marker="<|media_start|>image<|media_content|><|media_pad|><|media_end|>",
    ),
    _of("glm-4v", _all("<|{}|>\n", "\n"), stop=_GLM_END, marker="<|image|>"),
    # ChatGLM4 in llama.cpp tests/test-chat-template.cpp; the tokenizer begins the text
    _of("glm-4", _all("<|{}|>\n", ""), stop=_GLM_END),
    # ms-swift's GLM4_0414TemplateMeta: the same, but the tokenizer does not
    _of("glm-4-0414", _all("<|{}|>\n", ""), stop=_GLM_END, opening="[gMASK]<sop>"),
    # llama.cpp GLM-4.6.jinja, and SGLang's examples/chat_template for glm4.5: answers
    # as they write those of earlier turns, without thoughts
    _of(
        "glm-4.5",
        {
            "system": ("<|system|>\n", ""),
            "user": ("<|user|>\n", ""),
            "assistant": ("<|assistant|>\n<think></think>\n", ""),
        },
        stop=_GLM_END,
        opening="[gMASK]<sop>",
    ),
)

# The first pattern found in the model's name decides; case does not count.
MATCHES: tuple[tuple[str, str], ...] = (
    (r"deepseek-(v3|r1)(?!.*base)", "deepseek-v3"),
    (r"orion", "claude"),
    (r"janus", "janus-pro"),
    (r"dbrx.*instruct", "dbrx-instruct"),
    (r"vicuna|llava-v1\.5|llava-next-video-7b", "vicuna_v1.1"),
    (r"llama-2.*chat|codellama.*instruct", "llama-2-chat"),
    (r"pixtral|(mistral|mixtral).*instruct", "mistral"),
    (r"llama-3.*instruct", "llama-3-instruct"),
    (r"llama-4.*instruct", "llama-4"),
    (r"tinyllama|smollm.*instruct|smollm2", "chatml"),
    (r"qwen3.*vl", "qwen3-vl"),
    (r"qwen.*vl", "qwen2-vl"),
    (r"glm-4(\.\d+)?v", "glm-4v"),
    (r"qwen3(?!\.\d)(?!.*(base|embedding|reranker))", "qwen3"),
    (r"^(?!.*llava).*qwen.*(chat|instruct)", "qwen"),
    (r"llava.*34b|llava-onevision-qwen2", "chatml-llava"),
    (r"^(?!.*llava).*yi-vl", "yi-vl"),
    (r"yi-1\.5.*chat", "yi-1.5"),
    (r"gemma-4.*it", "gemma-4-it"),
    (r"gemma-3", "gemma-3"),
    (r"gemma.*it", "gemma-it"),
    (r"minicpm-v", "minicpmv"),
    (r"minicpm-o", "minicpmo"),
    (r"c4ai-command-r", "c4ai-command-r"),
    (r"granite.*instruct", "granite-3-instruct"),
    (r"internvl2_5", "internvl-2-5"),
    (r"intern-?s1", "interns1"),
    (r"phi-4-(mini|multimodal)", "phi-4-mini"),
    (r"phi-4", "phi-4"),
    (r"gpt-oss", "gpt-oss"),
    (r"kimi-k2", "kimi-k2"),
    (r"glm-4\.[56]", "glm-4.5"),
    (r"glm-(4|z1).*0414", "glm-4-0414"),
    (r"glm-4.*chat", "glm-4"),
    (r"claude", "claude"),
)
