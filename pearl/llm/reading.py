"""Whether an endpoint read the whole of what it was sent.

Some servers cut a prompt without a word where it exceeds the length they are
set to. They do report how many tokens they read, which is compared with a
count of ours. tiktoken's vocabulary takes 79 MB and 0.2 seconds, so it is
loaded only where an estimate, which costs 1 ms a document, leaves a doubt.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from pearl.llm.model import ModelError, Usage
from pearl.llm.tokens import count_tokens
from pearl.source import Source

SHARE_READ = 0.75
"""An endpoint that reports fewer than this share of our own count has cut the prompt."""

WORTH_COUNTING = 8000
"""Characters below which a document is not counted."""

MOST = 4096
"""Documents whose counts are remembered."""

TOKENS_A_PIECE = 1.3
"""More tokens than a word, a mark or three digits have on average, in all but odd texts."""

BYTES_A_TOKEN = 4
"""As many bytes as a token has in texts that are not of English words."""

_PIECE = re.compile(r"[A-Za-z]+|\d{1,3}|\n+|[^\sA-Za-z\d]+")


class Reading:
    """Watches over the documents sent to one model.

    Args:
        model: whose vocabulary to count with.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._estimates: OrderedDict[str, float] = OrderedDict()
        self._counts: OrderedDict[str, float] = OrderedDict()

    def check(self, document: Source, usage: Usage) -> None:
        """See that a document was read.

        Args:
            document: what was sent, among other things.
            usage: what the endpoint reports; without tokens where it reports nothing.

        Raises:
            ModelError: it was cut.
        """
        read = usage.prompt_tokens
        if not read or len(document.text) < WORTH_COUNTING:
            return
        if read >= SHARE_READ * self._estimate(document):
            return
        counted = self._count(document)
        if read < SHARE_READ * counted:
            raise ModelError(
                "cut",
                f"The endpoint read {read:,} of about {counted:,} tokens, so it cut the document: "
                "raise its context length, or use a model with a longer one.",
                usage=usage,
            )

    def _estimate(self, document: Source) -> float:
        """Tokens that it has at most, unless it is an odd text."""
        found = self._estimates.get(document.digest)
        if found is None:
            pieces = sum(1 for _ in _PIECE.finditer(document.text))
            size = len(document.text.encode("utf-8", "replace"))
            found = max(TOKENS_A_PIECE * pieces, size / BYTES_A_TOKEN)
            _keep(self._estimates, document.digest, found)
        return found

    def _count(self, document: Source) -> float:
        found = self._counts.get(document.digest)
        if found is None:
            found = count_tokens(document.text, self._model)
            _keep(self._counts, document.digest, found)
        return found


def _keep(kept: OrderedDict[str, float], digest: str, number: float) -> None:
    kept[digest] = number
    while len(kept) > MOST:
        kept.popitem(last=False)
