"""Chat templates from files that a user names."""

import json
import sys
from pathlib import Path

import pytest

from sglrun.backends.named_template import named_template
from sglrun.errors import ConfigError
from sglrun.lang.prompt import Prompt

CHATML = (
    "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FINAL = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}{{ messages[0]['content'] }}{% endif %}"
)


def written(file: Path, text: str) -> str:
    file.write_text(text, "utf-8")
    return str(file)


@pytest.mark.parametrize(
    "config",
    [
        {"chat_template": CHATML, "eos_token": "<|im_end|>"},
        {"chat_template": CHATML, "eos_token": {"content": "<|im_end|>"}},
        {"chat_template": CHATML, "eos_token": "[EOS]"},
        {"chat_template": CHATML},
        {
            "chat_template": [
                {"name": "tool_use", "template": "no"},
                {"name": "default", "template": CHATML},
            ]
        },
        {"chat_template": {"rag": "no", "default": CHATML}},
    ],
)
def test_a_models_configuration(tmp_path: Path, config: dict[str, object]) -> None:
    """What the model's own file says is how roles are written, and its name is kept."""
    path = written(tmp_path / "tokenizer_config.json", json.dumps(config))
    template = named_template(path)

    assert template.name == "tokenizer_config.json"
    assert template.roles["user"] == ("<|im_start|>user\n", "<|im_end|>\n")
    assert template.stop == ("<|im_end|>",)


@pytest.mark.parametrize("name", ["chat_template.jinja", "chat_template.json"])
def test_a_template_on_its_own(tmp_path: Path, name: str) -> None:
    """A template beside its model's configuration takes the end of a turn from it."""
    tagged = CHATML.replace("'<|im_end|>'", "eos_token")
    text = json.dumps({"chat_template": tagged}) if name.endswith("json") else tagged
    path = written(tmp_path / name, text)
    written(tmp_path / "tokenizer_config.json", '{"eos_token": "<end>"}')

    assert named_template(path).roles["user"] == ("<|im_start|>user\n", "<end>\n")


def test_a_configuration_with_its_template_beside_it(tmp_path: Path) -> None:
    """A configuration whose template has a file of its own means that file."""
    written(tmp_path / "chat_template.jinja", CHATML)
    path = written(tmp_path / "tokenizer_config.json", '{"eos_token": "x"}')

    opened = Prompt(template=named_template(path)).with_role_begin("user").text
    assert opened == "<|im_start|>user\n"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.json", "{}", "no chat_template"),
        ("a.json", "[]", "no chat_template"),
        ("a.json", "{", "Expecting"),
        ("a.jinja", "{{ messages", "template fails"),
        ("a.jinja", FINAL, "in its own way"),
        ("a.jinja", "{{ ''.__class__.__mro__ }}", "template"),
    ],
)
def test_a_file_that_is_no_template(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    """A file that cannot be used is refused by name, with why."""
    path = written(tmp_path / name, text)

    with pytest.raises(ConfigError, match=f"{name} cannot be used .*{why}"):
        named_template(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A path is not taken for a name."""
    with pytest.raises(ConfigError, match="No such file"):
        named_template(str(tmp_path / "tokenizer_config.json"))


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is missing, one line says what to install."""
    for name in ("template_file", "jinja_template"):
        monkeypatch.delitem(sys.modules, f"sglrun.backends.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    path = written(tmp_path / "a.jinja", CHATML)

    with pytest.raises(ConfigError, match=r"pip install 'sglrun\[template\]'"):
        named_template(path)


def test_several_templates_without_a_default_are_named(tmp_path: Path) -> None:
    """Which of them writes a talk is not guessed."""
    several = [
        {"name": "tool_use", "template": CHATML},
        {"name": "rag", "template": ""},
    ]
    text = json.dumps({"chat_template": several})
    path = written(tmp_path / "tokenizer_config.json", text)

    with pytest.raises(ConfigError, match=r"'default' \(it has 'tool_use', 'rag'\)"):
        named_template(path)
