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
        parts = [random.choice(_STARTS), random.choice(_VOWELS)]
        if random.random() < 0.5:
            parts += [random.choice(_MIDDLES), random.choice(_VOWELS)]
        word = "".join((*parts, random.choice(_ENDS)))
        if word not in seen:
            seen.add(word)
            yield word
