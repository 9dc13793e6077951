"""Invented names, so that nothing can be known of them but what a world says."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

_STARTS = tuple(
    "b br c cl cr d dr f fl g gl gr h j k kl l m n p pl pr qu r s sk sl sm st t tr v w y z".split()
)
_VOWELS = tuple("a a e e i o o u ae ai ea ia io ou".split())
_MIDDLES = tuple("b d f g k l m n p r s t v z br dr ld lm lt mb nd nt rd rl rn sk st".split())
_ENDS = tuple(
    "ba bin da del dor fa gan ket la lin lo ma mir na nel no ra ric ro so ta tin vo".split()
)


def invented(seed: str, taken: frozenset[str] = frozenset()) -> Iterator[str]:
    """Words in small letters that are no two the same.

    Args:
        seed: the same gives the same words, on any machine.
        taken: words that must not come, in small letters.
    """
    random = Random(seed)  # noqa: S311 - names, not secrets
    seen = set(taken)
    while True:
        # Three syllables: with two, words of real languages turn up.
        order = (_STARTS, _VOWELS, _MIDDLES, _VOWELS, _ENDS)
        word = "".join(random.choice(options) for options in order)
        if word not in seen:
            seen.add(word)
            yield word
