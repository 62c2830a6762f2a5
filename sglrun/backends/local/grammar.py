"""The grammar engine: which tokens may follow, so that a text fits its constraint."""

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
_TRIED = 64  # tokens that must come first, followed before a constraint is taken
_ERROR_BYTES = 512
_REASON_LENGTH = 300

# Where the engine's limits hold how many items one mask may take; by default 50,000,
# which a grammar of single characters soon needs (20,000 take a millisecond).
_ITEMS_AT, _ITEMS = 3, 500_000


class Grammars:
    """Compiled constraints for one vocabulary; safe from any thread."""

    def __init__(self, model: Model, tokenizer: Tokenizer) -> None:
        """Prepare for the vocabulary of *tokenizer*; takes a good part of a second."""
        self._library = model.library
        self._lock = threading.Lock()  # over all below
        self._compiled: OrderedDict[tuple[Kind, str], int] = OrderedDict()
        self._size = tokenizer.size
        # The engine knows one token that ends a text; models end answers with others.
        self._ends = np.array([tokenizer.end, *tokenizer.ends], np.intp)
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
        self._options.limits[_ITEMS_AT] = _ITEMS

    def matcher(self, kind: Kind, text: str) -> "Matcher":
        """Return the state of the constraint *text* before the first token.

        A constraint is compiled once, and kept.

        Raises:
            BadRequestError: it cannot be compiled, or no text can begin to fit it.
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
            return self._clone(handle)

    def close(self) -> None:
        """Free the constraints; no matcher may be in use."""
        with self._lock:
            for handle in self._compiled.values():
                self._library.llg_free_matcher(handle)
            self._compiled.clear()
            self._library.llg_free_tokenizer(self._handle)

    def _clone(self, handle: int) -> "Matcher":
        clone = self._library.llg_clone_matcher(handle)
        return Matcher(self._library, clone, size=self._size, ends=self._ends)

    def _compile(self, kind: Kind, text: str) -> int:
        handle: int = self._library.llg_new_matcher(
            self._options, kind.encode(), text.encode("utf-8", "replace")
        )
        try:
            error = self._library.llg_matcher_get_error(handle)
            if error is not None:
                raise BadRequestError(
                    f"the engine cannot follow this {kind}: {_reason(error)}"
                )
            self._clone(handle).begin()
        except BadRequestError:
            self._library.llg_free_matcher(handle)
            raise
        return handle


class Matcher:
    """How far one text has come in its constraint; used by one thread at a time."""

    def __init__(
        self,
        library: ctypes.CDLL,
        handle: int,
        *,
        size: int,
        ends: NDArray[np.intp],
    ) -> None:
        """Own *handle*, over a vocabulary of *size* tokens.

        Where the first of *ends* may come, any of them may.
        """
        self._library = library
        self._handle = handle
        self._size = size
        self._ends = ends
        self._bits = np.zeros(
            library.llg_matcher_get_mask_byte_size(handle), dtype=np.uint8
        )
        self._allowed: Mask | None = None  # of the next token, once it was asked for

    def begin(self) -> None:
        """Follow what must come first, and free the state.

        Raises:
            BadRequestError: it leads to no text, or is too large to follow.
        """
        try:
            for _ in range(_TRIED):
                token = None if self.is_complete() else self.forced()
                if token is None:
                    return
                self.consume(token)
        finally:
            self.close()

    def allowed(self) -> Mask:
        """Return which tokens may come next.

        Raises:
            BadRequestError: no text fits the constraint, or it is too large to follow.
        """
        if self._allowed is None:
            self._check(
                self._library.llg_matcher_compute_mask_into(
                    self._handle, self._bits.ctypes.data, self._bits.nbytes
                )
            )
            bits = np.unpackbits(self._bits, bitorder="little", count=self._size)
            allowed = bits.view(np.bool_)
            if allowed[self._ends[0]]:
                allowed[self._ends] = True
            self._allowed = allowed
        return self._allowed

    def consume(self, token: int) -> None:
        """Go on by *token*, which was allowed."""
        self._allowed = None
        self._check(self._library.llg_matcher_consume_token(self._handle, token))

    def forced(self) -> int | None:
        """Return the token that must come next, None where there is a choice.

        Where a text must go on in one way, the engine allows one token of it only. Its
        own function for that writes past the end of what it is given
        (``llg_matcher_compute_ff_tokens`` in llguidance 1.0.1).

        Raises:
            BadRequestError: no text fits the constraint, or it is too large to follow.
        """
        allowed = self.allowed()
        return int(allowed.argmax()) if np.count_nonzero(allowed) == 1 else None

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
                f"the constraint cannot be followed: {_reason(error)}"
            )


def _reason(error: bytes) -> str:
    """Return what the engine says, in one line and without its inner state."""
    said = error.decode("utf-8", "replace").partition("<state>")[0]
    if said.strip() == "NoExtensionBias":
        return "no text fits it"
    return " ".join(said.split())[:_REASON_LENGTH]


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
        tokens = _plain_tokens(tokenizer, data.decode("utf-8", "replace"))
        kept = tokens[:capacity]
        ctypes.memmove(target, (ctypes.c_uint32 * len(kept))(*kept), 4 * len(kept))
        return len(tokens)

    return GrammarVocabulary(
        vocab_size=tokenizer.size,
        tok_eos=tokenizer.end,
        token_lens=lengths,
        token_bytes=b"".join(pieces),
        tokenize_assumes_string=True,
        tokenize_fn=TokenizeFunction(tokenize),
    )


def _plain_tokens(tokenizer: Tokenizer, text: str) -> Sequence[int]:
    """Return the tokens of *text*, of which none is markup, whatever it looks like."""
    found = tokenizer.encode(text)
    if all(map(tokenizer.piece, found)):
        return found
    tokens: list[int] = []
    for token in found:
        written = "" if tokenizer.piece(token) else tokenizer.text(token)
        if len(written) > 1:
            tokens += _plain_tokens(tokenizer, written[:1])
            tokens += _plain_tokens(tokenizer, written[1:])
        else:
            tokens.append(token)
    return tokens
