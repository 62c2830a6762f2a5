"""The grammar engine: which tokens may follow, so that a text fits its constraint."""

import ctypes
import threading
from collections import OrderedDict
from typing import Literal

import numpy as np

from sglrun.backends.local.layout import (
    GrammarOptions,
    GrammarVocabulary,
    TokenizeFunction,
)
from sglrun.backends.local.model import Model
from sglrun.backends.local.sampler import Mask
from sglrun.backends.local.tokenizer import Tokenizer
from sglrun.errors import BadRequestError

Kind = Literal["regex", "json_schema", "lark"]

_KEPT = 256  # compiled constraints
_FORCED = 64  # tokens asked for at once
_ERROR_BYTES = 512


class Grammars:
    """Compiled constraints for one vocabulary; safe from any thread."""

    def __init__(self, model: Model, tokenizer: Tokenizer) -> None:
        """Prepare for the vocabulary of *tokenizer*; takes a good part of a second."""
        self._library = model.library
        self._lock = threading.Lock()  # over all below
        self._compiled: OrderedDict[tuple[Kind, str], int] = OrderedDict()
        self._size = tokenizer.size
        self._vocabulary = _vocabulary(tokenizer)
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        self._handle = self._library.llg_new_tokenizer(
            self._vocabulary, error, _ERROR_BYTES
        )
        if self._handle is None:
            raise BadRequestError(
                "the model's vocabulary does not suit constrained generation: "
                + error.value.decode("utf-8", "replace")
            )
        self._options = GrammarOptions()
        self._library.llg_constraint_init_set_defaults(self._options, self._handle)
        self._options.log_stderr_level = 0

    def matcher(self, kind: Kind, text: str) -> "Matcher":
        """Return the state of the constraint *text* before the first token.

        A constraint is compiled once, and kept.

        Raises:
            BadRequestError: it cannot be compiled.
        """
        with self._lock:
            handle = self._compiled.get((kind, text))
            if handle is None:
                handle = self._compile(kind, text)
                self._compiled[kind, text] = handle
                if len(self._compiled) > _KEPT:
                    _, oldest = self._compiled.popitem(last=False)
                    self._library.llg_free_matcher(oldest)
            self._compiled.move_to_end((kind, text))
            clone = self._library.llg_clone_matcher(handle)
        return Matcher(self._library, clone, self._size)

    def close(self) -> None:
        """Free the constraints; no matcher may be in use."""
        with self._lock:
            for handle in self._compiled.values():
                self._library.llg_free_matcher(handle)
            self._compiled.clear()
            self._library.llg_free_tokenizer(self._handle)

    def _compile(self, kind: Kind, text: str) -> int:
        handle: int = self._library.llg_new_matcher(
            self._options, kind.encode(), text.encode("utf-8", "replace")
        )
        error = self._library.llg_matcher_get_error(handle)
        if error is not None:
            message = error.decode("utf-8", "replace")
            self._library.llg_free_matcher(handle)
            raise BadRequestError(f"the engine cannot follow this {kind}: {message}")
        return handle


class Matcher:
    """How far one text has come in its constraint; used by one thread at a time."""

    def __init__(self, library: ctypes.CDLL, handle: int, size: int) -> None:
        """Own *handle*, over a vocabulary of *size* tokens."""
        self._library = library
        self._handle = handle
        self._size = size
        self._bits = np.zeros(
            library.llg_matcher_get_mask_byte_size(handle), dtype=np.uint8
        )
        self._forced = (ctypes.c_uint32 * _FORCED)()

    def allowed(self) -> Mask:
        """Return which tokens may come next.

        Raises:
            BadRequestError: the constraint is too large to follow.
        """
        self._check(
            self._library.llg_matcher_compute_mask_into(
                self._handle, self._bits.ctypes.data, self._bits.nbytes
            )
        )
        bits = np.unpackbits(self._bits, bitorder="little", count=self._size)
        return bits.view(np.bool_)

    def consume(self, token: int) -> None:
        """Go on by *token*, which was allowed."""
        self._check(self._library.llg_matcher_consume_token(self._handle, token))

    def forced(self) -> tuple[int, ...]:
        """Return the tokens that must come next, as far as there is no choice."""
        count = self._library.llg_matcher_compute_ff_tokens(
            self._handle, self._forced, _FORCED
        )
        return tuple(self._forced[: max(0, count)])

    def is_complete(self) -> bool:
        """Return whether nothing can follow."""
        return bool(self._library.llg_matcher_is_stopped(self._handle))

    def close(self) -> None:
        """Free the state; safe to call twice."""
        handle, self._handle = self._handle, 0
        if handle:
            self._library.llg_free_matcher(handle)

    def _check(self, code: int) -> None:
        if code:
            error = self._library.llg_matcher_get_error(self._handle) or b"no reason"
            raise BadRequestError(
                f"the constraint cannot be followed: {error.decode('utf-8', 'replace')}"
            )


def _vocabulary(tokenizer: Tokenizer) -> GrammarVocabulary:
    """Return the vocabulary as the grammar engine wants it; keep it while in use.

    Markup is marked by a first byte that no text has, so that no pattern matches it.
    """
    pieces = [tokenizer.piece(token) for token in range(tokenizer.size)]
    for token, piece in enumerate(pieces):
        if not piece:
            markup = tokenizer.markup(token)
            pieces[token] = b"\xff" + markup if markup else b""
    lengths = (ctypes.c_uint32 * tokenizer.size)(*map(len, pieces))

    def tokenize(
        _data: int | None, text: int, size: int, target: int, capacity: int
    ) -> int:
        data = ctypes.string_at(text, size)
        tokens = tokenizer.encode(data.decode("utf-8", "replace"))
        for at, token in enumerate(tokens[:capacity]):
            target[at] = token  # type: ignore[index]
        return len(tokens)

    return GrammarVocabulary(
        vocab_size=tokenizer.size,
        tok_eos=tokenizer.end,
        token_lens=lengths,
        token_bytes=b"".join(pieces),
        tokenize_assumes_string=True,
        tokenize_fn=TokenizeFunction(tokenize),
    )
