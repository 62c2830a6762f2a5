"""The model: weights from a GGUF file, mapped into memory, and what they say."""

import ctypes
import os
import warnings
from functools import partial
from pathlib import Path

from sglrun.backends.local.library import open_library, with_reason
from sglrun.errors import ModelError

# The library multiplies weights of some types (K and I quants, Q4_0) in another way
# where many tokens are computed at once, and rounds differently. It reads this when
# such weights are first used.
_NOT_BY_TILES = ("GGML_CPU_TILED_MM", "0")

_INSTEAD = "give another model, or a server that runs it with --url"
# What the library tells of a model that cannot go on from a shared text, or from any.
_KINDS = {
    "llama_model_has_encoder": "it has an encoder, and does not just go on from a text",
    "llama_model_is_diffusion": "it writes by diffusion, not token by token",
    "llama_model_is_recurrent": "it is recurrent, and what it read cannot be shared",
    "llama_model_is_hybrid": "it is recurrent in part, and what it read cannot be "
    "shared",
}
_VALUE_BYTES = 256
# GGUF's numbers of files whose weights are mostly F16 or BF16. The library multiplies
# them in another order where many tokens are computed, and has no switch for it.
_HALVES = frozenset({"1", "32"})
# What the library puts before most of its reasons, once or more.
_SAID = "error loading model: "


class Model:
    """A loaded model. What it holds never changes, so any thread may read it.

    Attributes:
        library: the library that its handles belong to.
        handle: the model, as the library knows it.
        context_length: how many tokens it was trained to see at once.
        window: how many tokens back its layers see, where some see no further.
        template: the chat template that its file carries, in Jinja.
    """

    def __init__(self, path: Path, *, exact: bool = True) -> None:
        """Load the weights at *path*; takes well under a second for a small model.

        Args:
            path: a GGUF file.
            exact: weights are multiplied in the same way whatever is computed beside.

        Raises:
            ConfigError: the engine's library cannot be used here.
            ModelError: the file is no model that the engine reads, or one that does
                not generate text token by token.
        """
        self.library = open_library()
        params = self.library.llama_model_default_params()
        params.n_gpu_layers = 0
        if exact:
            params.use_extra_bufts = False  # weights in an order for many at once
            os.environ.setdefault(*_NOT_BY_TILES)
        load = partial(
            self.library.llama_model_load_from_file, str(path).encode(), params
        )
        handle, reason = with_reason(load)
        if handle is None:
            raise ModelError(f"{path} cannot be loaded: {reason.replace(_SAID, '')}")
        self.handle: int = handle
        if (why := self._unsuited()) is not None:
            self.close()
            raise ModelError(f"{path} cannot be used: {why} ({_INSTEAD})")
        if exact and self._value("general.file_type") in _HALVES:
            warnings.warn(
                f"{path.name} has weights in half precision: what is computed beside "
                "a text moves its scores by some thousandths; quantized, it would not",
                stacklevel=2,
            )
        self.context_length: int = self.library.llama_model_n_ctx_train(handle)
        self.window: int = self.library.llama_model_n_swa(handle)
        text = self.library.llama_model_chat_template(handle, None)
        self.template: str | None = text.decode("utf-8", "replace") if text else None

    @property
    def vocabulary(self) -> ctypes.c_void_p:
        """The handle of its vocabulary."""
        return ctypes.c_void_p(self.library.llama_model_get_vocab(self.handle))

    def close(self) -> None:
        """Free the weights; nothing may use the model afterwards."""
        self.library.llama_model_free(self.handle)

    def _unsuited(self) -> str | None:
        """Return why the model cannot generate text here, or ``None``."""
        for question, reason in _KINDS.items():
            if getattr(self.library, question)(self.handle):
                return reason
        kind = self._value("general.architecture")
        if self._value(f"{kind}.attention.causal") == "false":
            return "it reads a text both ways, and does not go on from it"
        if self._value(f"{kind}.pooling_type") not in ("", "0"):
            return "it is made to embed texts, not to go on from them"
        return None

    def _value(self, key: str) -> str:
        """Return the value of *key* in the file's metadata; empty where absent."""
        buffer = ctypes.create_string_buffer(_VALUE_BYTES)
        self.library.llama_model_meta_val_str(
            self.handle, key.encode(), buffer, _VALUE_BYTES
        )
        return buffer.value.decode("utf-8", "replace")
