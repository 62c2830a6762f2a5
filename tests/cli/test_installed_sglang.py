"""An SGLang that is installed: its server is used, its language is not."""

from pathlib import Path
from textwrap import dedent

from tests.cli.process import ROOT, sglrun

SERVER = """
import sys

sys.path.insert(0, {root!r})
from threading import Event
from tests.stand_in import StandIn

port = int(sys.argv[sys.argv.index("--port") + 1])
with StandIn(port=port):
    Event().wait()
"""


def test_a_runtime_starts_the_installed_server(tmp_path: Path) -> None:
    """The script gets sglrun's modules; only the server's process imports SGLang's."""
    package = tmp_path / "site" / "sglang"
    package.mkdir(parents=True)
    note = 'open("imported.txt", "a").write(" ".join(sys.orig_argv) + "\\n")'
    (package / "__init__.py").write_text(f"import sys\n{note}\n")
    (package / "launch_server.py").write_text(SERVER.format(root=str(ROOT)))
    (tmp_path / "script.py").write_text(
        dedent("""
            import sglang as sgl

            @sgl.function
            def program(s):
                s += "Q" + sgl.gen("a", max_tokens=4)

            runtime = sgl.Runtime(model_path="m", launch_timeout=60)
            sgl.set_default_backend(runtime)
            print(sgl.__spec__.origin, program.run()["a"])
            runtime.shutdown()
        """)
    )
    path = f"{tmp_path / 'site'}:{ROOT}"
    ended = sglrun("script", "script.py", folder=tmp_path, PYTHONPATH=path)

    assert (ended.returncode, ended.stdout) == (0, "sglrun  OUT\n"), ended.stderr
    (started,) = (tmp_path / "imported.txt").read_text().splitlines()
    assert "-m sglang.launch_server --log-level error --model-path m" in started
