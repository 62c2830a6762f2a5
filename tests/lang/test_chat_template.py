"""Chat templates: the table, and which model gets which."""

import pytest

from sglrun.lang import chat_template
from sglrun.lang.chat_template import (
    DEFAULT_TEMPLATE,
    ChatTemplate,
    get_chat_template,
    get_chat_template_by_model_path,
    register_chat_template,
    register_chat_template_matching_function,
)
from sglrun.lang.prompt import Prompt
from sglrun.lang.template_table import MATCHES, TEMPLATES

NONE = ("", "")
END = "<｜end▁of▁sentence｜>"  # noqa: RUF001 - the model's own characters

# Name: system, user, assistant, stop strings, image marker.
TABLE = {
    "default": (
        ("SYSTEM:", "\n"),
        ("USER:", "\n"),
        ("ASSISTANT:", "\n"),
        (),
        "<image>",
    ),
    "claude": (NONE, ("\n\nHuman: ", ""), ("\n\nAssistant:", ""), (), "<image>"),
    "chatml": (
        ("<|im_start|>system\n", "<|im_end|>\n"),
        ("<|im_start|>user\n", "<|im_end|>\n"),
        ("<|im_start|>assistant\n", "<|im_end|>\n"),
        ("<|im_end|>",),
        "<image>",
    ),
    "qwen": (
        ("<|im_start|>system\n", "<|im_end|>\n"),
        ("<|im_start|>user\n", "<|im_end|>\n"),
        ("<|im_start|>assistant\n", "<|im_end|>\n"),
        ("<|im_end|>",),
        "<image>",
    ),
    "llama-2-chat": (
        ("<<SYS>>\n", "\n<</SYS>>\n\n"),
        ("[INST] ", " [/INST]"),
        ("", " </s><s>"),
        (),
        "<image>",
    ),
    "mistral": (
        ("[SYSTEM_PROMPT] ", " [/SYSTEM_PROMPT]"),
        ("[INST] ", " [/INST]"),
        ("", " </s><s>"),
        ("</s>",),
        "[IMG]",
    ),
    "llama-3-instruct": (
        ("<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<|eot_id|>",),
        "<|image|>",
    ),
    "llama-3-instruct-llava": (
        ("<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<|eot_id|>",),
        "<image>\n",
    ),
    "chatml-llava": (
        ("<|im_start|>system\n", "<|im_end|>\n"),
        ("<|im_start|>user\n", "<|im_end|>\n"),
        ("<|im_start|>assistant\n", "<|im_end|>\n"),
        ("<|im_end|>",),
        "<image>\n",
    ),
    "llama-4": (
        ("<|header_start|>system<|header_end|>\n\n", "<|eot|>"),
        ("<|header_start|>user<|header_end|>\n\n", "<|eot|>"),
        ("<|header_start|>assistant<|header_end|>\n\n", "<|eot|>"),
        ("<|eot|>",),
        "<|image|>",
    ),
    "gemma-it": (
        NONE,
        ("<start_of_turn>user\n", "<end_of_turn>\n"),
        ("<start_of_turn>model\n", "<end_of_turn>\n"),
        (),
        "<start_of_image>",
    ),
    "granite-3-instruct": (
        ("<|start_of_role|>system<|end_of_role|>", "<|end_of_text|>"),
        ("<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>"),
        ("<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>"),
        ("<|end_of_text|>",),
        "<image>",
    ),
    "deepseek-v3": (
        NONE,
        ("<｜User｜>", ""),  # noqa: RUF001
        ("<｜Assistant｜>", END),  # noqa: RUF001
        (END,),
        "<image>",
    ),
    "qwen3-vl": (
        ("<|im_start|>system\n", "<|im_end|>\n"),
        ("<|im_start|>user\n", "<|im_end|>\n"),
        ("<|im_start|>assistant\n", "<|im_end|>\n"),
        ("<|im_end|>",),
        "<|vision_start|><|image_pad|><|vision_end|>",
    ),
    "vicuna_v1.1": (
        ("", " "),
        ("USER:", " "),
        ("ASSISTANT:", "</s>"),
        (),
        " <image>\n",
    ),
    "minicpmo": (
        ("", " "),
        ("user:", " "),
        ("assistant:", "</s>"),
        ("<|im_end|>", "<|endoftext|>"),
        "(<image>./</image>)",
    ),
    "janus-pro": (
        NONE,
        ("<｜User｜>", ""),  # noqa: RUF001
        ("<｜Assistant｜>", END),  # noqa: RUF001
        (END,),
        "<image_placeholder>\n",
    ),
    "yi-1.5": (
        NONE,
        ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
        ("", "<|im_end|>\n"),
        ("<|im_end|>",),
        "<image>",
    ),
    "yi-vl": (
        ("", "\n\n"),
        ("### Human:", "\n"),
        ("### Assistant:", "\n"),
        (),
        " <image_placeholder>\n",
    ),
    "gemma-4-it": (
        ("<|turn>system\n", "<turn|>\n"),
        ("<|turn>user\n", "<turn|>\n"),
        ("<|turn>model\n", "<turn|>\n"),
        ("<turn|>",),
        "<|image|>",
    ),
    "dbrx-instruct": (
        ("<|im_start|>system\n", "<|im_end|>"),
        ("\n<|im_start|>user\n", "<|im_end|>"),
        ("\n<|im_start|>assistant\n", "<|im_end|>"),
        ("<|im_end|>",),
        "<image>",
    ),
    "c4ai-command-r": (
        ("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
        ("<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
        ("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
        (),
        "<image>",
    ),
    "phi-4": (
        ("<|im_start|>system<|im_sep|>", "<|im_end|>"),
        ("<|im_start|>user<|im_sep|>", "<|im_end|>"),
        ("<|im_start|>assistant<|im_sep|>", "<|im_end|>"),
        ("<|im_end|>",),
        "<image>",
    ),
    "phi-4-mini": (
        ("<|system|>", "<|end|>"),
        ("<|user|>", "<|end|>"),
        ("<|assistant|>", "<|end|>"),
        ("<|end|>",),
        "<image>",
    ),
    "kimi-k2": (
        ("<|im_system|>system<|im_middle|>", "<|im_end|>"),
        ("<|im_user|>user<|im_middle|>", "<|im_end|>"),
        ("<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"),
        ("<|im_end|>",),
        "<|media_start|>image<|media_content|><|media_pad|><|media_end|>",
    ),
    "glm-4v": (
        ("<|system|>\n", "\n"),
        ("<|user|>\n", "\n"),
        ("<|assistant|>\n", "\n"),
        ("<|user|>", "<|endoftext|>", "<|observation|>"),
        "<|image|>",
    ),
}

# Name: the published words of the system prompt that is written where none is given.
OWN_SYSTEM = {
    "chatml-llava": "You are a helpful assistant.",
    "dbrx-instruct": "You are DBRX, created by Databricks.",
    "internvl-2-5": "你是书生·万象，英文名是InternVL",  # noqa: RUF001
    "kimi-k2": "You are Kimi, an AI assistant created by Moonshot AI.",
    "qwen": "You are a helpful assistant.",
    "qwen2-vl": "You are a helpful assistant.",
    "vicuna_v1.1": "A chat between a curious user and an artificial intelligence",
    "yi-vl": "This is a chat between an inquisitive human and an AI assistant.",
}


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "_by_name", dict(chat_template._by_name))
    monkeypatch.setattr(chat_template, "_matchers", [])


@pytest.fixture
def own() -> ChatTemplate:
    """A template that the table does not have."""
    return ChatTemplate(name="own", roles={"user": ("<u>", "</u>")})


@pytest.mark.parametrize("name", TABLE)
def test_the_table_is_what_was_published(name: str) -> None:
    """A template writes each role as its model was trained to read it."""
    system, user, assistant, stop, marker = TABLE[name]
    template = get_chat_template(name)

    assert template.roles.get("system", NONE) == system
    assert template.roles.get("user", NONE) == user
    assert template.roles.get("assistant", NONE) == assistant
    assert (template.stop, template.image_token) == (stop, marker)


def test_some_have_a_system_prompt_of_their_own() -> None:
    """Where a program gives no system prompt, these templates write one."""
    own_prompts = {
        template.name: template.default_system
        for template in TEMPLATES
        if template.default_system is not None
    }

    assert own_prompts.keys() == OWN_SYSTEM.keys()
    assert all(own_prompts[name].startswith(OWN_SYSTEM[name]) for name in OWN_SYSTEM)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "deepseek-v3"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-chat"),
        ("codellama/CodeLlama-7b-Instruct-hf", "llama-2-chat"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistral"),
        ("mistralai/Pixtral-12B-2409", "mistral"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-instruct"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3-instruct"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4"),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "chatml"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "chatml"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen"),
        ("Qwen/Qwen1.5-7B-Chat", "qwen"),
        ("google/gemma-2-9b-it", "gemma-it"),
        ("google/gemma-3-4b-it", "gemma-3"),
        ("google/gemma-4-31B-it", "gemma-4-it"),
        ("OrionStarAI/Orion-14B-Chat", "claude"),
        ("deepseek-ai/Janus-Pro-7B", "janus-pro"),
        ("databricks/dbrx-instruct", "dbrx-instruct"),
        ("lmsys/vicuna-7b-v1.5", "vicuna_v1.1"),
        ("liuhaotian/llava-v1.5-7b", "vicuna_v1.1"),
        ("liuhaotian/llava-v1.6-34b", "chatml-llava"),
        ("lmms-lab/llava-onevision-qwen2-7b-ov", "chatml-llava"),
        ("Qwen/Qwen2-VL-7B-Instruct", "qwen2-vl"),
        ("Qwen/Qwen-VL-Chat", "qwen2-vl"),
        ("Qwen/Qwen3-8B", "qwen3"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3"),
        ("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl"),
        ("zai-org/glm-4v-9b", "glm-4v"),
        ("zai-org/GLM-4.5V", "glm-4v"),
        ("zai-org/GLM-4.6", "glm-4.5"),
        ("zai-org/GLM-4-32B-0414", "glm-4-0414"),
        ("zai-org/glm-4-9b-chat-hf", "glm-4"),
        ("01-ai/Yi-VL-6B", "yi-vl"),
        ("01-ai/Yi-1.5-9B-Chat", "yi-1.5"),
        ("openbmb/MiniCPM-V-2_6", "minicpmv"),
        ("openbmb/MiniCPM-o-2_6", "minicpmo"),
        ("CohereForAI/c4ai-command-r-v01", "c4ai-command-r"),
        ("OpenGVLab/InternVL2_5-8B", "internvl-2-5"),
        ("internlm/Intern-S1", "interns1"),
        ("microsoft/phi-4", "phi-4"),
        ("microsoft/Phi-4-mini-instruct", "phi-4-mini"),
        ("openai/gpt-oss-20b", "gpt-oss"),
        ("moonshotai/Kimi-K2-Instruct", "kimi-k2"),
        ("ibm-granite/granite-3.0-8b-instruct", "granite-3-instruct"),
        ("claude-3-opus", "claude"),
    ],
)
def test_a_models_name_finds_its_template(model: str, name: str) -> None:
    """A known model gets its own template, without a warning."""
    assert get_chat_template_by_model_path(model).name == name


@pytest.mark.parametrize(
    "model",
    ["x/none", "Qwen/Qwen3-8B-Base", "deepseek-ai/DeepSeek-V3-Base", "Llama-3-8B"],
)
def test_an_unknown_model_gets_the_default_with_a_warning(model: str) -> None:
    """Falling back to a template that the model was not trained on is said aloud."""
    with pytest.warns(UserWarning, match=f"no chat template is known.*'{model}'"):
        template = get_chat_template_by_model_path(model)

    assert template is DEFAULT_TEMPLATE


def test_an_unknown_name_lists_the_known() -> None:
    """A wrong name is answered with all names."""
    with pytest.raises(KeyError, match=r"'chatmll'.*chatml, chatml-llava, claude"):
        get_chat_template("chatmll")


def test_a_template_can_be_registered(own: ChatTemplate) -> None:
    """A registered template is found by its name and named for models."""
    register_chat_template(own)
    register_chat_template_matching_function(
        lambda path: "own" if "mine" in path else None
    )

    assert get_chat_template("own") is own
    assert get_chat_template_by_model_path("mine/Llama-3-8B-Instruct") is own
    assert get_chat_template_by_model_path("Llama-3-8B-Instruct").name != "own"


def test_a_role_that_a_template_does_not_know_is_bare(own: ChatTemplate) -> None:
    """A role without markup stands as it is."""
    text = Prompt(template=own).with_role_begin("tool").with_text("x")

    assert text.with_role_end("tool").text == "x"


def said(name: str, *turns: tuple[str, str]) -> str:
    """Return *turns* as the template *name* writes them."""
    prompt = Prompt(template=get_chat_template(name))
    for role, text in turns:
        prompt = prompt.with_role_begin(role).with_text(text).with_role_end(role)
    return prompt.text


def test_llama_2_puts_the_system_message_inside_the_first_user_turn() -> None:
    """The first user turn shares its opening marker with the system message."""
    text = said(
        "llama-2-chat",
        ("system", "S"),
        ("user", "u1"),
        ("assistant", "a1"),
        ("user", "u2"),
    )

    assert text == (
        "[INST] <<SYS>>\nS\n<</SYS>>\n\nu1 [/INST]a1 </s><s>[INST] u2 [/INST]"
    )


def test_llama_2_opens_every_other_user_turn() -> None:
    """Without a system message each user turn has its own opening marker."""
    assert said("llama-2-chat", ("user", "a"), ("user", "b")) == (
        "[INST] a [/INST][INST] b [/INST]"
    )


TURNS = (("system", "S"), ("user", "u1"), ("assistant", "a1"), ("user", "u2"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "gemma-3",
            (
                "<start_of_turn>user\nS\n\nu1<end_of_turn>\n<start_of_turn>model\na1"
                "<end_of_turn>\n<start_of_turn>user\nu2<end_of_turn>\n"
            ),
        ),
        (
            "gpt-oss",
            (
                "<|end|><|start|>developer<|message|># Instructions\n\nS\n\n<|end|>"
                "<|start|>user<|message|>u1<|end|>"
                "<|start|>assistant<|channel|>final<|message|>a1<|end|>"
                "<|start|>user<|message|>u2<|end|>"
            ),
        ),
        (
            "glm-4",
            "<|system|>\nS<|user|>\nu1<|assistant|>\na1<|user|>\nu2",
        ),
        (
            "glm-4-0414",
            "[gMASK]<sop><|system|>\nS<|user|>\nu1<|assistant|>\na1<|user|>\nu2",
        ),
        (
            "glm-4.5",
            (
                "[gMASK]<sop><|system|>\nS<|user|>\nu1"
                "<|assistant|>\n<think></think>\na1<|user|>\nu2"
            ),
        ),
    ],
)
def test_what_is_not_a_row_of_prefixes(name: str, text: str) -> None:
    """These open the conversation, or fold the system prompt into it, in their way."""
    assert said(name, *TURNS).endswith(text)


@pytest.mark.parametrize("name", ["gpt-oss", "glm-4-0414", "glm-4.5"])
def test_an_opening_stands_once_before_the_first_turn(name: str) -> None:
    """With a system prompt or without, the opening comes first and once."""
    opening = get_chat_template(name).opening

    for turns in (TURNS, TURNS[1:]):
        assert said(name, *turns).startswith(opening)
        assert said(name, *turns).count(opening) == 1


def test_the_table_has_no_name_twice_and_none_that_is_meant_in_vain() -> None:
    """Every pattern names a template, and every name is one template's."""
    names = [template.name for template in TEMPLATES]

    assert len(names) == len(set(names))
    assert {name for _, name in MATCHES} <= set(names)
