"""The model: weights from a GGUF file, mapped into memory, and what they say."""

import ctypes
from pathlib import Path

from sglrun.backends.local.library import open_library
from sglrun.errors import ModelError


class Model:
    """A loaded model. What it holds never changes, so any thread may read it.

    Attributes:
        library: the library that its handles belong to.
        handle: the model, as the library knows it.
        context_length: how many tokens it was trained to see at once.
        template: the chat template that its file carries, in Jinja.
    """

    def __init__(self, path: Path) -> None:
        """Load the weights at *path*; takes well under a second for a small model.

        Raises:
            ConfigError: the engine's library cannot be used here.
            ModelError: the file is no model that the engine reads.
        """
        self.library = open_library()
        params = self.library.llama_model_default_params()
        params.n_gpu_layers = 0
        handle = self.library.llama_model_load_from_file(str(path).encode(), params)
        if handle is None:
            raise ModelError(
                f"{path} cannot be loaded: not a GGUF model that this engine knows, "
                "or damaged"
            )
        self.handle: int = handle
        self.context_length: int = self.library.llama_model_n_ctx_train(handle)
        text = self.library.llama_model_chat_template(handle, None)
        self.template: str | None = text.decode("utf-8", "replace") if text else None

    @property
    def vocabulary(self) -> ctypes.c_void_p:
        """The handle of its vocabulary."""
        return ctypes.c_void_p(self.library.llama_model_get_vocab(self.handle))

    def close(self) -> None:
        """Free the weights; nothing may use the model afterwards."""
        self.library.llama_model_free(self.handle)
