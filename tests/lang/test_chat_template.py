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


def test_only_two_have_a_system_prompt_of_their_own() -> None:
    """Where a program gives no system prompt, these templates write one."""
    own_prompts = {
        name: prompt
        for name in TABLE
        if (prompt := get_chat_template(name).default_system) is not None
    }

    assert own_prompts == dict.fromkeys(
        ("qwen", "chatml-llava"), "You are a helpful assistant."
    )


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
        ("google/gemma-3-4b-pt", "gemma-it"),
        ("ibm-granite/granite-3.0-8b-instruct", "granite-3-instruct"),
        ("claude-3-opus", "claude"),
    ],
)
def test_a_models_name_finds_its_template(model: str, name: str) -> None:
    """A known model gets its own template, without a warning."""
    assert get_chat_template_by_model_path(model).name == name


@pytest.mark.parametrize(
    "model", ["x/none", "Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3-Base", "gpt-oss-20b"]
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
