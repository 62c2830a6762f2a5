"""Streamed log-probabilities: those of tokens whose text comes in pieces.

SGLang's server sends those of the tokens so far with every event, or, since it tells
how many there are, only the new ones.
"""

from collections.abc import Mapping

_COUNT = "output_token_logprobs_length"
_LISTS = ("output_token_logprobs", "output_top_logprobs")


class StreamedLogprobs:
    """The lists of one sample, as they grow."""

    def __init__(self) -> None:
        """Begin with no tokens."""
        self._lists: dict[str, list[object]] = {}
        self._told = 0

    def take(self, meta_info: Mapping[str, object]) -> None:
        """Take what an event tells."""
        count = meta_info.get(_COUNT)
        for name in _LISTS:
            given = meta_info.get(name)
            if not isinstance(given, list):
                continue
            only_new = isinstance(count, int) and len(given) < count
            before = self._lists.get(name, []) if only_new else []
            self._lists[name] = [*before, *given]

    def told(self, meta_info: Mapping[str, object]) -> Mapping[str, object]:
        """Return *meta_info* for a piece of text: its lists since the piece before."""
        told = self._told
        self._told = max(map(len, self._lists.values()), default=0)
        since = {name: values[told:] for name, values in self._lists.items()}
        return {**meta_info, **since, **({_COUNT: self._told} if since else {})}

    def whole(self, meta_info: Mapping[str, object]) -> Mapping[str, object]:
        """Return *meta_info* for the whole text."""
        return {**meta_info, **self._lists}
