"""The fixed texts around each role, and the talks of which there are none."""

import jinja2
import pytest

from sglrun.backends.jinja_template import derive_template
from sglrun.errors import ProgramError
from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.prompt import Prompt

OPENS = "{% if add_generation_prompt %}<assistant>{% endif %}"
TURNS = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n{% endfor %}" + OPENS
)
# What opens an answer is not what stands before an earlier one.
THINKS = TURNS.replace("<assistant>", "<assistant><think>\n")
EMPTY_THOUGHT = TURNS.replace(
    "{{ m.content }}",
    "{{ '<think></think>' if m.role == 'assistant' }}{{ m.content }}",
)
# What ends the last answer is not what ends an earlier one.
ENDS_TEXT = TURNS.replace(
    OPENS, "{% if add_generation_prompt %}<assistant>{% else %}<eos>{% endif %}"
)
LEFT_OPEN = TURNS.replace(
    "<end>\n", "{{ '' if loop.last and m.role == 'assistant' else '<end>\n' }}"
)
RETURNS = THINKS.replace(
    "<end>\n",
    "{{ '<return>' if loop.last and m.role == 'assistant' else '<end>\n' }}",
)
TWO_ENDS = TURNS.replace("<end>", "[done]<eos>")
ALTERNATES = (
    "{% for m in messages %}{% if not loop.first and m.role == loop.previtem.role %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}"
)
ALWAYS_OPEN = TURNS.replace(OPENS, "<assistant><think>")
# What a system message becomes.
MOVED = (
    "{% set told = messages[0].content if messages[0].role == 'system' %}"
    "{% for m in messages if m.role != 'system' %}<{{ m.role }}>"
    "{{ told + '\n' if told and loop.last }}{{ m.content }}<end>\n{% endfor %}" + OPENS
)
OTHER_END = "{% if messages[0].role != 'system' %}<system>Hi<stop>{% endif %}" + TURNS
AFTER_HOUSE_RULES = (
    "{% set told = messages[0].role == 'system' %}"
    "<system>Be kind.{{ '\n' + messages[0].content if told }}<end>\n"
    + TURNS.replace("in messages", "in messages[1 if told else 0:]")
)
FIRST_OF_ITS_OWN = TURNS.replace(
    "<{{ m.role }}>",
    "<{{ m.role }}{{ ' first' if loop.first and m.role == 'user' }}>",
)
ONE_BAR = (
    "|{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}|{% else %}"
    "<{{ m.role }}>{{ m.content }}<end>\n{% endif %}{% endfor %}" + OPENS
)
# What a talk becomes once it is long.
GROWS = "{{ '[long]' if messages | length > 4 }}" + TURNS
FORGETS = (
    "{% if messages[0].role != 'system' and messages | length < 3 %}"
    "<system>Hi<end>\n{% endif %}" + TURNS
)
NEEDS_THOUGHT = (
    "{% for m in messages if m.role == 'assistant' and not m.thought %}"
    "{{ raise_exception('no thought') }}{% endfor %}" + TURNS
)

MANY = ("user", "assistant", "user", "assistant", "user")


def derive(source: str, end: str | None = "<end>") -> ChatTemplate:
    return derive_template(source, name="m", end=end)


def prompt(template: ChatTemplate, roles: tuple[str, ...]) -> Prompt:
    """Return a prompt where the model is to answer *roles*."""
    built = Prompt(template=template)
    for number, role in enumerate(roles):
        built = built.with_role_begin(role).with_text(f"text {number}")
        built = built.with_role_end(role)
    return built.with_role_begin("assistant")


def own_text(source: str, roles: tuple[str, ...]) -> str:
    """Return what the template itself writes for *roles*."""
    messages = [
        {"role": role, "content": f"text {number}"} for number, role in enumerate(roles)
    ]
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)  # noqa: S701
    return environment.from_string(source).render(
        messages=messages, add_generation_prompt=True
    )


@pytest.mark.parametrize(
    "source",
    [
        ENDS_TEXT,
        LEFT_OPEN,
        ALTERNATES + TURNS.replace("<end>\n", ""),
        OTHER_END,
        AFTER_HOUSE_RULES,
        FIRST_OF_ITS_OWN,
        ONE_BAR,
    ],
)
@pytest.mark.parametrize("end", ["<end>", "<eos>", None])
def test_a_talk_is_what_the_template_writes(source: str, end: str | None) -> None:
    """Every talk, with a system message or not, is the template's to the letter."""
    template = derive(source, end)

    assert template.one_answer == ()
    for talk in (MANY, ("system", *MANY)):
        for length in range(len(talk) % 2, len(talk) + 1, 2):
            roles = talk[:length]
            if roles:
                assert prompt(template, roles).text == own_text(source, roles)


@pytest.mark.parametrize(
    ("source", "opening"),
    [
        (THINKS, "<assistant><think>\n"),
        (EMPTY_THOUGHT, "<assistant>"),
        (RETURNS, "<assistant><think>\n"),
        (GROWS, "<assistant>"),
    ],
)
@pytest.mark.parametrize("system", [(), ("system",)])
def test_an_answer_that_opens_in_its_own_way(
    source: str, opening: str, system: tuple[str, ...]
) -> None:
    """What opens the last answer is its prefix, and no talk goes on after it."""
    template = derive(source)
    talk = (*system, "user")

    assert template.roles["assistant"][0] == opening
    assert prompt(template, talk).text == own_text(source, talk)
    with pytest.raises(ProgramError, match=f"begins with '{talk[0]}' cannot go on"):
        prompt(template, (*talk, "assistant", "user"))


def test_an_answer_before_any_question() -> None:
    """A talk that an answer begins is no way round the same refusal."""
    with pytest.raises(ProgramError, match="begins with 'assistant' cannot go on"):
        prompt(derive(THINKS), ("assistant", "user"))


def test_a_system_message_that_moves_on() -> None:
    """Only the talks are ended early whose earlier messages are written anew."""
    template = derive(MOVED)

    assert prompt(template, MANY).text == own_text(MOVED, MANY)
    told = ("system", "user")
    assert prompt(template, told).text == own_text(MOVED, told)
    with pytest.raises(ProgramError, match="begins with 'system' cannot go on"):
        prompt(template, (*told, "assistant", "user"))


@pytest.mark.parametrize(
    ("source", "end", "stop"),
    [
        (ENDS_TEXT, "<eos>", "<end>"),  # ends only a text
        (LEFT_OPEN, "<end>", "<end>"),  # stands only where a talk goes on
        (LEFT_OPEN, None, "<end>"),  # stands between two users as well
        (ALTERNATES + LEFT_OPEN, "<end>", "<end>"),
        (AFTER_HOUSE_RULES, "<end>", "<end>"),  # also stands before the first user
        (ONE_BAR, "<end>", "<end>"),  # so may what ends a system message
        (TWO_ENDS, "<eos>", "<eos>"),  # stands after another
        (RETURNS, "<return>", "<return>"),  # stands only after the last answer
        (RETURNS, None, "<return>"),
    ],
)
def test_what_ends_an_answer(source: str, end: str | None, stop: str) -> None:
    """The text that ends an answer is told from what begins the next turn."""
    template = derive(source, end)

    assert template.stop == (stop,)
    assert template.roles["user"][0] == "<user>"


def test_a_default_system_prompt_with_an_end_of_its_own() -> None:
    """It stands before a user who speaks first, and a program's own has no trace."""
    template = derive(OTHER_END)

    assert template.opening == "<system>Hi<stop>"
    assert template.leads == {("system",): "<system>"}


def test_a_template_that_always_opens_an_answer() -> None:
    """The beginning of an answer is never taken for the end of one."""
    template = derive("<system>Be kind.<end>\n" + ALWAYS_OPEN)

    assert "<assistant>" not in template.roles["assistant"][1]
    assert prompt(template, ("user",)).text.endswith("<end>\n<assistant><think>")


def test_a_template_that_refuses_plain_answers() -> None:
    """Where an earlier answer needs more than its text, one can be had."""
    template = derive(NEEDS_THOUGHT)

    assert template.stop == ("<end>",)
    assert template.one_answer == ("user", "system", "assistant")


def test_a_default_system_prompt_begins_a_talk() -> None:
    """Where it is not written in longer talks, none goes on after an answer."""
    template = derive(FORGETS)

    assert template.default_system == "Hi"
    with pytest.raises(ProgramError, match="cannot go on"):
        prompt(template, MANY)


def test_a_system_message_in_its_own_way_is_refused() -> None:
    """A template whose talks with a system message cannot be said is not half used."""
    told = "{{ messages[0].content if messages[0].role == 'system' }}"

    with pytest.raises(ValueError, match=r"treats \('system', 'user'\) in its own way"):
        derive(TURNS.replace(OPENS, told + OPENS))
