"""Words that ask the same of a text, words that never do, and the basic form of any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

SYNONYMS = """
reason cause motive motivation rationale justification explanation
purpose intent intention aim goal objective mission
plan strategy scheme intention
method technique means process procedure approach
outcome result consequence effect impact repercussion aftermath influence implication
future prediction forecast predict fate
likely likelihood probable probability plausible
trait characteristic quality attribute personality feature
describe description depiction portrayal
feeling emotion sentiment attitude feel
opinion view belief thought perspective perception impression attitude stance viewpoint sentiment
relation relationship connection link tie bond dynamic
similarity commonality resemblance parallel common alike
difference contrast distinction
conflict disagreement dispute quarrel grievance complaint
problem challenge difficulty obstacle barrier struggle hardship danger threat risk difficult
fear worry concern anxiety
dilemma conflict struggle
flaw weakness mistake error fault shortcoming
limit limitation restriction constraint
meaning interpretation definition sense interpret define
meaning symbolism symbol
explanation explain comprehension comprehend interpretation paraphrase
importance significance relevance role
theme motif topic
lesson moral takeaway insight
evidence proof support
example instance case
indication indicator sign hint clue foreshadow
advice recommendation suggestion
suggestion improvement
benefit advantage gain merit
drawback disadvantage cost harm
fact truth information
false incorrect untrue wrong inaccurate
decision choice
solution remedy resolution
event incident occurrence happening
ending conclusion resolution
dialogue conversation exchange
person character individual figure
criticism critique objection
summary summarize overview gist
style tone voice manner
mood tone atmosphere
place location setting
reaction response react reception
promise pledge commitment vow
mention show state appear
desire wish hope want
knowledge awareness know
irony paradox contradiction
strange odd unusual abnormal
surprise unexpected surprising
"""
"""A line is one thing; a word may stand in several."""

OPPOSITES = """
true false, fact false, positive negative, benefit drawback, similarity difference,
common different, cause effect, purpose outcome, agree disagree, first last, beginning ending,
before after, strength weakness, success failure, gain loss, problem solution, best worst,
past future, protagonist antagonist, love hate, normal strange, question answer, expected surprise
"""
"""Lines of the table above that never stand for each other, by a word of each."""

_NEGATIVE = ("un", "in", "im", "ir", "il", "dis", "mis", "non")


@cache
def _stemmer() -> Any:  # noqa: ANN401 - snowballstemmer is untyped
    import snowballstemmer

    return snowballstemmer.stemmer("english")


@cache
def lines_of() -> dict[str, frozenset[int]]:
    """The lines of `SYNONYMS` that each of its words stands in."""
    found: dict[str, set[int]] = {}
    for number, line in enumerate(SYNONYMS.strip().splitlines()):
        for word in line.split():
            found.setdefault(word, set()).add(number)
    return {word: frozenset(lines) for word, lines in found.items()}


@cache
def basic(word: str) -> str:
    """A word's basic form: the table's where it has one, else its stem."""
    word = word.lower()
    known = lines_of()
    form = next((form for form in _forms(word) if form in known), "")
    return form or str(_stemmer().stemWord(word))


def _forms(word: str) -> Iterator[str]:
    """What a word may be a form of. A stem would say that an objective is an object."""
    yield word
    for ending, whole in (
        ("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ied", "y"),
        ("ing", ""), ("ing", "e"), ("n", ""),
    ):  # fmt: skip
        if word.endswith(ending):
            yield word[: -len(ending)] + whole


@cache
def synonyms(word: str) -> frozenset[str]:
    """The basic form of a word, and the words that stand for it."""
    known, form = lines_of(), basic(word)
    lines = known.get(form, frozenset())
    return frozenset({form} | {one for one in known if lines & known[one]})


@cache
def _opposed() -> dict[str, frozenset[str]]:
    """For a word, those that never stand for it."""
    found: dict[str, frozenset[str]] = {}
    for pair in OPPOSITES.replace("\n", " ").split(","):
        ones, others = (synonyms(word) for word in pair.split())
        for here, there in ((ones - others, others - ones), (others - ones, ones - others)):
            for word in here:
                found[word] = found.get(word, frozenset()) | there
    return found


def opposed(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two sets of basic forms hold opposites.

    A word that has its like in the other set is not what they differ in.
    """
    if not _clash(one, other):
        return False
    ours = {word for word in one if not synonyms(word) & other}
    theirs = {word for word in other if not synonyms(word) & one}
    return _clash(ours, theirs)


def _clash(one: Iterable[str], other: Iterable[str]) -> bool:
    known = _opposed()
    return any(
        against in known.get(word, ()) or _negates(word, against) or _negates(against, word)
        for word in one
        for against in other
    )


def _negates(word: str, other: str) -> bool:
    rest = len(word) - len(other)
    return rest > 0 and len(other) > 3 and word.endswith(other) and word[:rest] in _NEGATIVE
