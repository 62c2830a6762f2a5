"""The tokenizer: text to tokens and back, as the model's file defines it."""

import ctypes
import functools

from sglrun.backends.local.model import Model

_PIECE_BYTES = 256
# A character that no vocabulary joins with what follows it.
_BEFORE = "\x02"


class Tokenizer:
    """The vocabulary of a model; safe from any thread.

    Attributes:
        size: number of tokens.
        begin: the token that begins a text, or the one that ends it where the model
            has none; an empty prompt is read as this token.
        end: the token that ends an answer.
        ends: every token that ends an answer.
    """

    def __init__(self, model: Model) -> None:
        """Read the vocabulary of *model*."""
        self._library = library = model.library
        self._handle = handle = model.vocabulary
        self.size: int = library.llama_vocab_n_tokens(handle)
        bos: int = library.llama_vocab_bos(handle)
        eos: int = library.llama_vocab_eos(handle)
        eot: int = library.llama_vocab_eot(handle)
        self.end = eos if eos >= 0 else eot
        self.begin = bos if bos >= 0 else self.end
        self._adds_begin: bool = library.llama_vocab_get_add_bos(handle) and bos >= 0
        self.ends = frozenset(
            token
            for token in range(self.size)
            if library.llama_vocab_is_eog(handle, token)
        )
        self.piece = functools.cache(self._piece)
        # Vocabularies of SentencePiece put a space before the text they are given.
        leads = self.markup(next(iter(self._tokens("a")), self.end)).startswith(b" ")
        self._before = self._tokens(_BEFORE) if leads else ()

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of *text* in the middle of another, markup included.

        Lone surrogates, which no model has seen, are read as question marks.
        """
        if not self._before:
            return self._tokens(text)
        return self._tokens(_BEFORE + text)[len(self._before) :]

    def _tokens(self, text: str) -> tuple[int, ...]:
        data = text.encode("utf-8", "replace")
        size = len(data) + 8
        buffer = (ctypes.c_int32 * size)()
        count = self._library.llama_tokenize(
            self._handle,
            data,
            len(data),
            buffer,
            size,
            False,  # noqa: FBT003 - C takes no keywords: add_special
            True,  # noqa: FBT003 - parse_special
        )
        return tuple(buffer[:count])

    def encode_prompt(self, text: str) -> tuple[int, ...]:
        """Return the tokens of *text* as the start of everything; at least one."""
        tokens = self._tokens(text) if text else ()
        if not tokens or (self._adds_begin and tokens[0] != self.begin):
            return (self.begin, *tokens)
        return tokens

    def _piece(self, token: int) -> bytes:
        """Return the bytes that *token* adds to a text; none for markup."""
        return self._render(token, special=False)

    def markup(self, token: int) -> bytes:
        """Return the bytes that *token* is written as, markup included."""
        return self._render(token, special=True)

    def text(self, token: int) -> str:
        """Return how *token* is written; what is no whole character shows as such."""
        return self.markup(token).decode("utf-8", "replace")

    def _render(self, token: int, *, special: bool) -> bytes:
        size = _PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = self._library.llama_token_to_piece(
                self._handle, token, buffer, size, 0, special
            )
            if length >= 0:
                return buffer.raw[:length]
            size = -length
