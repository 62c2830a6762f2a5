"""Chat templates from model files."""

import pytest

from sglrun.backends.jinja_template import derive_template
from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.prompt import Prompt

CHATML = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}"
    "<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    "{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (
    "{% for m in messages %}{% set c = '<|start|>' + m['role'] + '<|stop|>\n\n' "
    "+ m['content'] | trim + eos_token %}{% if loop.index0 == 0 %}"
    "{% set c = bos_token + c %}{% endif %}{{ c }}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant<|stop|>\n\n{% endif %}"
)
GEMMA = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}"
    "{% endif %}{% for m in messages %}<turn>"
    "{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ m['content'] }}"
    "<end>\n{% endfor %}{% if add_generation_prompt %}<turn>model\n{% endif %}"
)


def derive(source: str, end: str = "<|im_end|>") -> ChatTemplate:
    return derive_template(source, name="m", end=end)


def test_a_default_system_prompt_is_found() -> None:
    """What the template writes before a first user is the default system prompt."""
    template = derive(CHATML)

    assert template == ChatTemplate(
        name="m",
        roles={
            "system": ("<|im_start|>system\n", "<|im_end|>\n"),
            "user": ("<|im_start|>user\n", "<|im_end|>\n"),
            "assistant": ("<|im_start|>assistant\n", "<|im_end|>\n"),
        },
        default_system="Be kind.",
        stop=("<|im_end|>",),
    )
    opened = Prompt(template=template).with_role_begin("user").text
    assert opened == ("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n")


def test_the_beginning_of_all_text_is_left_out() -> None:
    """The token that begins a text is no part of any role."""
    template = derive(LLAMA3, end="<|eot|>")

    assert template.roles["user"] == ("<|start|>user<|stop|>\n\n", "<|eot|>")
    assert (template.default_system, template.stop) == (None, ("<|eot|>",))


def test_a_model_may_know_no_system_role() -> None:
    """A template that refuses system messages gives markup for the other roles."""
    template = derive(GEMMA, end="<end>")

    assert template.roles == {
        "user": ("<turn>user\n", "<end>\n"),
        "assistant": ("<turn>model\n", "<end>\n"),
    }


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages",
        "{{ nothing.at.all }}",
        "no messages",
        "{{ ''.__class__.__mro__ }}",
        "{{ 1 // 0 }}",
        "{{ ''.index('x') }}",
        "{{ '{x}'.format() }}",
        CHATML.replace("m['content']", "m['content'] | e"),
        CHATML.replace("m['content']", "m['content'] | tojson"),
        CHATML.replace("m['content']", "m['content'] | replace('\n', ' ')"),
    ],
)
def test_what_cannot_be_cut_is_refused(source: str) -> None:
    """A template that prefixes and suffixes cannot say is refused, not half used."""
    with pytest.raises(ValueError, match=r"the (model's )?chat template"):
        derive(source)


GEMMA3 = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{% set lead = messages[0]['content'] + '\n\n' %}{% set rest = messages[1:] %}"
    "{% else %}{% set lead = '' %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}<turn>{{ m['role'] }}\n{{ lead if loop.first else '' }}"
    "{{ m['content'] }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<turn>assistant\n{% endif %}"
)


def test_a_system_prompt_may_stand_inside_the_users_turn() -> None:
    """A template that folds it into the first turn is followed in that."""
    template = derive(GEMMA3, end="<end>")

    assert (template.style, template.roles["system"]) == ("llama2", ("", "\n\n"))


@pytest.mark.parametrize("system", ["<s>{{ m['content'] }}</s>", "{{ refuse() }}"])
def test_what_opens_every_talk(system: str) -> None:
    """Markup before the first turn, whoever has it, is the template's opening."""
    source = (
        "[start {{ strftime_now('%Y') }}]{% for m in messages %}"
        "{% if m['role'] == 'system' %}" + system + "{% else %}"
        "<{{ m['role'] }}>{{ m['content'] }}</s>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    template = derive(source, end="</s>")

    assert template.opening.startswith("[start 2")
    assert template.roles["user"] == ("<user>", "</s>")
    assert ("system" in template.roles) == ("refuse" not in system)


def test_a_template_may_mark_what_a_model_says() -> None:
    """The tag of transformers writes nothing, and what is set inside stays inside."""
    said = "{% generation %}{% set mine = '!' %}{{ m['content'] }}{% endgeneration %}"
    source = "{% set mine = '' %}" + CHATML.replace("{{'<", "{% set text = '<")
    source = source.replace("m['content'] + '<|im_end|>' + '\n'}}", "'' %}{{ text }}")
    source = source.replace(
        "{% endfor %}", said + "{{ mine }}<|im_end|>\n{% endfor %}", 1
    )

    assert derive(source) == derive(CHATML)


@pytest.mark.parametrize(
    "tools",
    [
        "{% if tools is not none %}[tools]{% endif %}",  # fails without a name
        "{% for tool in tools %}[tool]{% endfor %}",  # fails with nothing
    ],
)
def test_a_talk_has_no_tools(tools: str) -> None:
    """What a template says of tools is what it says where there are none."""
    assert derive(tools + CHATML) == derive(CHATML)


def test_json_is_written_as_transformers_does() -> None:
    """What a template writes as JSON is not escaped for a page."""
    source = "{{ '<é>' | tojson }}{{ [1] | tojson(indent=2) }}" + LLAMA3

    assert derive(source, end="<|eot|>").opening == '"<é>"[\n  1\n]'
