"""A real llama.cpp server, until killed: ``llama_server.py MODEL PORT [EYE]``."""

import signal
import sys

import xllamacpp

SLOTS = 4
CONTEXT = 8192


def main(model: str, port: str, eye: str = "") -> None:
    """Serve *model* on the loopback, with an *eye*; says a line when it listens."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"smollm2"}
    params.port = int(port)
    params.hostnames = ["127.0.0.1"]
    params.n_parallel = SLOTS
    params.n_ctx = CONTEXT
    # More than one thread waits busily where the cores are shared with the tests.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.warmup = False
    params.fit_params = False
    params.ui = False
    if eye:
        params.mmproj.path = eye
        params.mmproj_use_gpu = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - its reader waits
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main(*sys.argv[1:])
