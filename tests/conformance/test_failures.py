"""Rows 74 to 77: failures."""

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend
from sglrun.errors import BadRequestError

CAUSE = "the prompt contains boom"


@sgl.function
def boom(s: sgl.ProgramState) -> None:
    """Send what the server refuses."""
    s += "boom" + sgl.gen("a")


def test_row_074_server_error(backend: Backend) -> None:
    """Reading the variable raises what the server said, with its status."""
    state = boom.run(backend=backend)

    with pytest.raises(BadRequestError, match=CAUSE) as caught:
        state["a"]

    assert caught.value.http_status == 400
    assert state.error() is caught.value


def test_row_075_submit_after_failure(backend: Backend) -> None:
    """Appending and reading the text raise the same cause."""
    state = boom.run(backend=backend)
    cause = state.error()

    for call in (lambda: state.__iadd__("x"), state.text):
        with pytest.raises(BadRequestError, match=CAUSE) as caught:
            call()
        assert caught.value is cause


def test_row_076_later_gen_after_failure(backend: Backend) -> None:
    """A later generation, and the read of it, raise the same cause."""
    state = boom.run(backend=backend)
    cause = state.error()

    with pytest.raises(BadRequestError) as adding:
        state += sgl.gen("b")
    with pytest.raises(BadRequestError) as reading:
        state["b"]

    assert adding.value is reading.value is cause


def test_row_077_without_threads(backend: Backend) -> None:
    """Without threads the run raises what the server said."""
    with pytest.raises(BadRequestError, match=CAUSE):
        boom.run(backend=backend, use_thread=False)
