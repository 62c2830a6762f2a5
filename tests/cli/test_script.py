"""``sglrun script``: scripts in the shapes that people write for SGLang.

Each script here was written for this project, and runs as its own ``__main__``.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from sglrun.cli import run_command
from sglrun.cli.streams import Streams
from sglrun.display.stderr import QuietStream
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang.finder import withdraw_sglang
from tests.stand_in import StandIn, status

# They are told on stderr, and compared there.
pytestmark = pytest.mark.filterwarnings("default")

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Ended:
    """How a script ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> object:
        """The JSON of the last line that it printed."""
        return json.loads(self.out.splitlines()[-1])


Script = Callable[..., Ended]


@pytest.fixture
def script(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Script]:
    """Run the text of a script: options before it, arguments after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def run(text: str, *args: str, options: tuple[str, ...] = ()) -> Ended:
        (tmp_path / "script.py").write_text(dedent(text), "utf-8")
        streams = Streams(
            err=QuietStream(sys.stderr), out_is_open=True, out_is_terminal=False
        )
        code = run_command(["script", *options, "script.py", *args], streams)
        shown = capsys.readouterr()
        return Ended(code, shown.out, shown.err)

    yield run
    withdraw_sglang()
    global_config.default_backend = global_config.offered_backend = None
    global_config.replaces_backends = False


@pytest.fixture
def server(stand_in: StandIn) -> StandIn:
    """A stand-in server whose model has a known chat template."""
    stand_in.model.model_path = "Qwen/Qwen2.5-7B-Instruct"
    return stand_in


def test_few_shot_questions_once_and_in_a_batch(
    script: Script, server: StandIn
) -> None:
    """A benchmark's own options, data file and helpers work as they stand."""
    server.model.answer = " 42\nQ:"
    Path("rows.jsonl").write_text('# a comment\n{"q": "6*7?"}\n{"q": "7*6?"}\n')
    ended = script(
        """
        import argparse
        import json
        from sglang.api import set_default_backend
        from sglang.test.test_utils import (
            add_common_sglang_args_and_parse,
            select_sglang_backend,
        )
        from sglang.utils import dump_state_text, read_jsonl

        def main(args):
            set_default_backend(select_sglang_backend(args))
            shots = "Q: 1+1?\\nA: 2\\n" * 8
            rows = [{"question": row["q"]} for row in read_jsonl(args.data)]
            import sglang as sgl

            @sgl.function
            def few_shot(s, question):
                s += shots + "Q: " + question + "\\nA:"
                s += sgl.gen("answer", max_tokens=8, stop="Q:")

            one = few_shot.run(question="2*21?")
            states = few_shot.run_batch(
                rows, temperature=0, num_threads=args.parallel, progress_bar=True
            )
            tokens = sum(
                s.get_meta_info("answer")["completion_tokens"] for s in states
            )
            dump_state_text("texts.txt", states)
            print(json.dumps([one["answer"], [s["answer"] for s in states], tokens]))

        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--data", default="rows.jsonl")
            main(add_common_sglang_args_and_parse(parser))
        """,
        *("--host", "http://127.0.0.1", "--port", server.url.rpartition(":")[2]),
        "--parallel=2",
    )

    assert ended.code == 0, ended.err
    assert ended.said == [" 42\n", [" 42\n", " 42\n"], 4]
    assert "A: 42" in Path("texts.txt").read_text("utf-8")
    assert ended.err.startswith("few_shot: 2 of 2 in ")


def test_a_conversation_mixes_both_ways_to_write_a_turn(script: Script) -> None:
    """Turns added as expressions and as blocks make one conversation."""
    ended = script(
        """
        import json
        import sglang as sgl

        @sgl.function
        def talk(s, first, second):
            s += sgl.system("Be brief.")
            s += sgl.user(first)
            s += sgl.assistant(sgl.gen("one", max_tokens=16))
            with s.user():
                s += second
            with s.assistant():
                s += sgl.gen("two", max_tokens=16)

        state = talk.run(first="Hello?", second="And now?")
        print(json.dumps([m["role"] for m in state.messages()] + [state["two"]]))
        """,
        options=("--backend", "mock"),
    )

    assert ended.said == [
        *("system", "user", "assistant", "user", "assistant"),
        "answer to And now?",
    ]


def test_a_choice_branches(script: Script, server: StandIn) -> None:
    """A program goes on by what the model chose."""
    server.model.logprobs = {" search": -0.1}
    ended = script(
        f"""
        import json
        import sglang as sgl

        @sgl.function
        def tool(s, question):
            s += question + " I would use a"
            s += sgl.gen("tool", choices=[" calculator", " search"])
            if s["tool"] == " search":
                s += " for" + sgl.gen("words", max_tokens=4)

        if __name__ == "__main__":
            sgl.set_default_backend(sgl.RuntimeEndpoint("{server.url}"))
            states = tool.run_batch([{{"question": "Who?"}}, {{"question": "When?"}}])
            scores = states[0].get_meta_info("tool")["input_token_logprobs"]
            print(json.dumps([[s["tool"], s["words"]] for s in states] + [len(scores)]))
        """
    )

    assert ended.said == [[" search", " OUT"], [" search", " OUT"], 2]


def test_json_by_patterns(script: Script, server: StandIn) -> None:
    """The patterns of ``sglang.lang.ir``, imported late, shape a JSON text."""
    ended = script(
        f"""
        import json
        import sglang as sgl

        @sgl.function
        def city(s):
            from sglang.lang.ir import REGEX_FLOAT, REGEX_INT, REGEX_STR

            with s.var_scope("json"):
                s += '{{"name": ' + sgl.gen(regex=REGEX_STR)
                s += ', "people": ' + sgl.gen(regex=REGEX_INT, stop=[" "])
                s += ', "east": ' + sgl.gen(regex=REGEX_FLOAT, stop=[" "]) + "}}"
            s += sgl.gen_int("n") + sgl.gen(dtype=bool, name="b")

        sgl.set_default_backend(sgl.RuntimeEndpoint("{server.url}"))
        state = city.run(max_new_tokens=32)
        print(json.dumps([sorted(json.loads(state["json"])), int(state["n"])]))
        """
    )

    assert ended.code == 0, ended.err
    assert ended.said == [["east", "name", "people"], 1]


def test_a_tree_of_branches(script: Script) -> None:
    """Branches of branches are states of their own, kept in plain lists."""
    ended = script(
        """
        import sglang as sgl

        def grow(s, word, number):
            s += sgl.user(word)
            branches = s.fork(number)
            branches += sgl.assistant(sgl.gen(word, max_tokens=4, temperature=0.1))
            return branches

        @sgl.function
        def tree(s, question, number):
            leaves = [s]
            for word in (question, "Work it out.", "Sure?"):
                grown = [grow(state, word, number) for state in leaves]
                leaves = [leaf for branches in grown for leaf in branches]
            return [leaf.text() for leaf in leaves]

        states = tree.run_batch(
            [{"question": "Why?", "number": 2}], num_threads=4, backend=None
        )
        print(len(set(states[0].ret_value)), len(states[0].ret_value))
        """,
        options=("--backend", "mock"),
    )

    assert (ended.code, ended.out) == (0, "1 8\n")


def test_a_skeleton_is_expanded_in_branches(script: Script) -> None:
    """Branches are written by index, joined, and read by index and by name."""
    ended = script(
        """
        import json
        import sglang as sgl

        @sgl.function
        def tips(s, topic):
            s += "Tips on " + topic + ":\\n"
            forks = s.fork(2)
            for i, fork in enumerate(forks):
                fork += f"Tip {i + 1}:"
                fork += sgl.gen("tip", 16, stop=["\\n"])
            forks.join()
            s += "First:" + forks[0]["tip"] + "\\nIn short" + sgl.gen("all")

        state = tips.run(topic="sleep")
        print(json.dumps([state["tip"], isinstance(state["all"], str)]))
        """,
        options=("--backend", "mock"),
    )

    assert ended.said == [
        ["answer to Tips on sleep: Tip 1:", "answer to Tips on sleep: Tip 2:"],
        True,
    ]


def test_statements_join_by_concatenation(script: Script) -> None:
    """What branches said is appended, in their order."""
    ended = script(
        """
        import sglang as sgl

        @sgl.function
        def recall(s, facts):
            forks = s.fork(len(facts))
            forks += lambda i: facts[i] + ". "
            forks.join(mode="concate_and_append")
            s += sgl.gen("answer")

        print(recall.run(facts=["One", "Two"])["answer"])
        """,
        options=("--backend", "mock"),
    )

    assert ended.out == "answer to One. Two.\n"


def test_samples_in_branches_by_a_parameter_named_n(script: Script) -> None:
    """An argument that is called like an option of ``run`` is an argument."""
    ended = script(
        """
        import json
        import sglang as sgl

        @sgl.function
        def sample(s, question, n):
            s += question
            forks = s.fork(n)
            forks += "Reason:" + sgl.gen("reason", stop="\\n") + "\\n"
            forks += sgl.gen("tool", choices=["a", "b"])
            forks.join()

        state = sample.run(question="Why?", n=3, temperature=0.5)
        print(json.dumps([len(state["reason"]), len(state["tool"])]))
        """,
        options=("--backend", "mock"),
    )

    assert ended.said == [3, 3]


def test_an_agent_alternates_thoughts_and_actions(
    script: Script, server: StandIn
) -> None:
    """Unnamed generations and choices alternate until the model finishes."""
    server.model.answer = " I know. More"
    server.model.logprob = lambda tokens, at: -0.1 if "Finish" in tokens[at] else -2.0
    ended = script(
        f"""
        import sglang as sgl

        @sgl.function
        def react(s, question):
            s += question + "\\n"
            for i in range(1, 5):
                s += f"Thought {{i}}:" + sgl.gen(stop=[".", "\\n"]) + ".\\n"
                s += f"Action {{i}}: " + sgl.select(f"do_{{i}}", ["Search", "Finish"])
                if s[f"do_{{i}}"] == "Finish":
                    s += " [" + sgl.gen("answer", stop="]") + "].\\n"
                    break
                s += " [" + sgl.gen(stop="]") + "].\\n"

        sgl.set_default_backend(sgl.RuntimeEndpoint("{server.url}"))
        print(repr(react("Who?", temperature=0)["answer"]))
        """
    )

    assert (ended.code, ended.out) == (0, "' I know. More'\n")


def test_text_streams(script: Script, server: StandIn) -> None:
    """A text and a variable are read as they grow, in a loop and in an event loop."""
    server.model.answer = " one two three"
    ended = script(
        f"""
        import asyncio
        import json
        import sglang as sgl

        @sgl.function
        def talk(s, question):
            s += sgl.user(question)
            s += sgl.assistant(sgl.gen("a", max_tokens=64))

        sgl.set_default_backend(sgl.RuntimeEndpoint("{server.url}"))
        whole = "".join(talk.run(question="Hi", stream=True).text_iter())

        async def variable():
            state = talk.run(question="Hi", stream=True)
            return [out async for out in state.text_async_iter(var_name="a")]

        async def with_meta():
            state = talk.run(question="Hi", stream=True)
            pairs = state.text_async_iter("a", return_meta_data=True)
            return ["".join([text async for text, meta in pairs])]

        each = asyncio.run(variable()) + asyncio.run(with_meta())
        print(json.dumps([" one two three" in whole, each]))
        """
    )

    assert ended.code == 0, ended.err
    said = ended.said
    assert isinstance(said, list)
    assert said[0] is True
    assert "".join(said[1][:-1]) == said[1][-1] == " one two three"


IMAGE_SCRIPT = """
    import sys
    import sglang as sgl

    @sgl.function
    def look(s, path):
        s += sgl.user(sgl.image(path) + "What is it?")
        s += sgl.assistant(sgl.gen("answer"))

    sgl.set_default_backend(
        sgl.OpenAI("stand-in", base_url=sys.argv[1] + "/v1", api_key="sk-1")
    )
    print(look.run(path="cat.png")["answer"])
    """


def test_an_image_goes_to_a_model_that_may_see(script: Script, server: StandIn) -> None:
    """An image's bytes stand in the message, before the question."""
    Path("cat.png").write_bytes(PNG)
    server.model.kind = "openai"
    ended = script(IMAGE_SCRIPT, server.url)

    assert ended.code == 0, ended.err
    parts = server.generations[-1]["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["image_url", "text"]


def test_an_image_is_refused_by_a_text_model(script: Script) -> None:
    """A model that sees nothing is named, with the line that asks it to look."""
    Path("cat.png").write_bytes(PNG)
    ended = script(
        """
        import sglang as sgl
        from sglrun.backends.base import Capabilities
        from sglrun.backends.mock import MockBackend

        @sgl.function
        def look(s, path):
            s += sgl.user(sgl.image(path) + "What is it?")
            s += sgl.assistant(sgl.gen("answer"))

        blind = MockBackend(model="blind", capabilities=Capabilities(images=False))
        print(look.run(path="cat.png", backend=blind)["answer"])
        """
    )

    assert ended.code == 3
    assert "'mock' with the model 'blind' takes no images" in ended.err
    assert "at script.py:12" in ended.err


def test_a_runtime_is_the_backend_of_the_options(script: Script) -> None:
    """No server is started where the user named a backend, and a line says so."""
    ended = script(
        """
        import sglang as sgl

        @sgl.function
        def ask(s):
            s += sgl.user("Hi") + sgl.assistant(sgl.gen("a"))

        runtime = sgl.Runtime(model_path="big/model", tp_size=8)
        runtime.endpoint.chat_template = sgl.get_chat_template("chatml")
        sgl.set_default_backend(runtime)
        print(ask.run().text().count("<|im_start|>"), runtime.get_model_name())
        runtime.shutdown()
        """,
        options=("--backend", "mock"),
    )

    assert (ended.code, ended.out) == (0, "2 mock\n")
    assert ended.err == (
        "sglrun: warning: Runtime(model_path='big/model') is the backend of the "
        "options here (mock)\n"
    )


def test_a_runtime_without_sglang_says_what_to_do(script: Script) -> None:
    """Without a backend and without SGLang, the refusal names both ways out."""
    ended = script(
        """
        import sglang as sgl

        @sgl.function
        def ask(s):
            s += sgl.gen("a")

        sgl.set_default_backend(sgl.Runtime(model_path="big/model"))
        ask.run()
        """
    )

    assert ended.code == 3
    assert "Runtime(model_path='big/model') starts an SGLang server" in ended.err
    assert "--backend local" in ended.err
    assert "at script.py:9" in ended.err


@pytest.mark.parametrize(
    "backend",
    [
        "RuntimeEndpoint('http://127.0.0.1:1')",
        "OpenAI('gpt-4')",
        "Anthropic('claude')",
        "VertexAI('gemini')",
        "LiteLLM('a/b')",
        "Crusoe('a')",
    ],
)
def test_named_backends_are_replaced_when_asked(script: Script, backend: str) -> None:
    """``--replace-backends`` runs a script as it stands on the user's backend."""
    ended = script(
        f"""
        import sglang as sgl

        @sgl.function
        def ask(s):
            s += "Hi" + sgl.gen("a")

        sgl.set_default_backend(sgl.{backend})
        print(ask.run()["a"])
        """,
        options=("--backend", "mock", "--replace-backends"),
    )

    assert (ended.code, ended.out) == (0, "answer to Hi\n")
    assert f"{backend} is the backend of the options here (mock)" in ended.err


def test_a_benchmark_without_options_runs_on_those_of_the_command(
    script: Script,
) -> None:
    """Where a benchmark's options name no server, the command's backend is used."""
    ended = script(
        """
        import argparse
        from sglang.test.test_utils import (
            add_common_sglang_args_and_parse,
            select_sglang_backend,
        )

        args = add_common_sglang_args_and_parse(argparse.ArgumentParser())
        print(select_sglang_backend(args).get_model_name())
        """,
        options=("--backend", "mock"),
    )

    assert (ended.code, ended.out) == (0, "mock\n")


ASK_SCRIPT = """
    import sys
    import sglang as sgl

    @sgl.function
    def ask(s):
        s += "Hi" + sgl.gen("a")

    if len(sys.argv) > 1:
        sgl.set_default_backend(sgl.RuntimeEndpoint(sys.argv[1]))
    for state in [ask.run(), *ask.run_batch([{}, {}])]:
        print(state["a"])
    """


@pytest.mark.parametrize("named_by", ["script", "options"])
def test_a_request_that_may_succeed_is_sent_again(
    script: Script, server: StandIn, named_by: str
) -> None:
    """A server that asks to wait costs a script nothing but the wait."""
    server.fail(status(429, Retry_After="0"), path="/generate")
    ended = (
        script(ASK_SCRIPT, server.url)
        if named_by == "script"
        else script(ASK_SCRIPT, options=("--url", server.url))
    )

    assert (ended.code, ended.out) == (0, " OUT\n" * 3)
    assert len(server.generations) == 4


def test_no_tries_means_one_request_for_each(script: Script, server: StandIn) -> None:
    """``--retries 0`` hands the first failure to the script."""
    server.fail(status(500), path="/generate")
    ended = script(ASK_SCRIPT, server.url, options=("--retries", "0"))

    assert ended.code == 3
    assert len(server.generations) == 3


def test_an_error_of_one_request_does_not_end_the_script(
    script: Script, server: StandIn
) -> None:
    """What would stop a batch is the script's own to handle."""
    server.fail(status(401), path="/generate")
    ended = script(
        """
        import sys
        import sglang as sgl

        @sgl.function
        def ask(s):
            s += "Hi" + sgl.gen("a")

        sgl.set_default_backend(sgl.RuntimeEndpoint(sys.argv[1]))
        first = ask.run()
        print(type(first.error()).__name__, ask.run()["a"])
        """,
        server.url,
    )

    assert (ended.code, ended.out) == (0, "AuthenticationError  OUT\n")


def test_the_scripts_arguments_are_its_own(script: Script) -> None:
    """Options after FILE reach the script, also those that sglrun has itself."""
    ended = script("import sys; print(sys.argv)", "--url", "x", "-b", "--", "y")

    assert ended.out == "['script.py', '--url', 'x', '-b', '--', 'y']\n"


@pytest.mark.parametrize(
    ("text", "code", "err"),
    [
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('no data')", 1, "no data\n"),
        ("import argparse; argparse.ArgumentParser().parse_args(['-x'])", 2, "usage:"),
    ],
)
def test_the_exit_code_is_the_scripts(
    script: Script, text: str, code: int, err: str
) -> None:
    """A script ends the command as it would end ``python``."""
    ended = script(text)

    assert ended.code == code
    assert ended.err.startswith(err)


def test_a_traceback_begins_in_the_script(script: Script) -> None:
    """What the script does not catch is shown from its own first line."""
    ended = script("def fail():\n    return 1 / 0\nfail()")

    assert ended.code == 1
    assert ended.err.splitlines()[:2] == [
        "Traceback (most recent call last):",
        '  File "script.py", line 3, in <module>',
    ]
    assert ended.err.endswith("ZeroDivisionError: division by zero\n")
    assert "runpy" not in ended.err


def test_a_missing_part_of_sglang_is_named(script: Script) -> None:
    """An import that is not served fails by name, not as if SGLang were missing."""
    ended = script("from sglang.srt.layers.moe import topk")

    assert ended.code == 1
    assert ended.err.endswith(
        "ImportError: sglrun serves the frontend language of SGLang; "
        "'sglang.srt.layers' is not part of it\n"
    )


def test_a_missing_script_is_a_usage_error(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not there is exit 2, with its name."""
    script("")
    streams = Streams(
        err=QuietStream(sys.stderr), out_is_open=True, out_is_terminal=False
    )
    code = run_command(["script", "absent.py"], streams)

    assert code == 2
    assert "the script 'absent.py' does not exist" in capsys.readouterr().err


def test_what_stands_beside_the_script_can_be_imported(script: Script) -> None:
    """A script's neighbours are found, and forgotten after it."""
    Path("neighbour_of_script.py").write_text("value = 5\n")
    ended = script("from neighbour_of_script import value; print(value)")
    del sys.modules["neighbour_of_script"]

    assert ended.out == "5\n"
    assert str(Path.cwd()) not in sys.path
