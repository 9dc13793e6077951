"""Reads the names and definitions of actions, compares them, and merges definitions.

A definition is split into how it starts, what is found, and the rest. Words are compared by their
basic forms, with a table of synonyms and one of opposites.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from pearl.lang.ast import DOCUMENT, Action, Arg, Literal, Ref, Template, as_arg, woven
from pearl.lang.text import FUNCTION_WORDS, one_line, pattern, stem

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
"""Each line holds words of one meaning; a word may stand in several."""

OPPOSITES = """
true false, fact false, positive negative, benefit drawback, similarity difference,
common different, cause effect, purpose outcome, agree disagree, first last, beginning ending,
before after, strength weakness, success failure, gain loss, problem solution, best worst,
past future, protagonist antagonist, love hate, normal strange, question answer, expected surprise
"""
"""Pairs of lines of the table above that are opposites, each named by one of its words."""

_ENDINGS = "s: es: ies:y ed: ed:e ied:y ing: ing:e n:"
"""Endings of inflected words, each with the ending that the tables have in its place."""

_NEGATIVE = ("un", "in", "im", "ir", "il", "dis", "mis", "non")


@cache
def lines_of() -> dict[str, frozenset[int]]:
    """The lines of `SYNONYMS` that each of its words stands in."""
    numbers: dict[str, set[int]] = {}
    for number, line in enumerate(SYNONYMS.strip().splitlines()):
        for word in line.split():
            numbers.setdefault(word, set()).add(number)
    return {word: frozenset(lines) for word, lines in numbers.items()}


@cache
def basic(word: str) -> str:
    """A word's basic form: the table's where it has one, else its stem."""
    word = word.lower()
    # A stem would say that an objective is an object.
    whole = [pair.partition(":") for pair in _ENDINGS.split() if word.endswith(pair.split(":")[0])]
    forms = [word, *(word[: -len(ending)] + start for ending, _, start in whole)]
    form = next((form for form in forms if form in lines_of()), "")
    return form or stem(word)


@cache
def synonyms(word: str) -> frozenset[str]:
    """The basic form of a word, and its synonyms."""
    by_word, form = lines_of(), basic(word)
    lines = by_word.get(form, frozenset())
    return frozenset({form} | {other for other in by_word if lines & by_word[other]})


@cache
def _opposed() -> dict[str, frozenset[str]]:
    """The opposites of each word."""
    opposites: dict[str, frozenset[str]] = {}
    for pair in OPPOSITES.replace("\n", " ").split(","):
        ones, others = (synonyms(word) for word in pair.split())
        for words, there in ((ones - others, others - ones), (others - ones, ones - others)):
            for word in words:
                opposites[word] = opposites.get(word, frozenset()) | there
    return opposites


def opposed(first: frozenset[str], second: frozenset[str]) -> bool:
    """Whether two sets of basic forms hold opposites.

    A word with a synonym in the other set does not count.
    """
    if not _clash(first, second):
        return False
    ours = {word for word in first if not synonyms(word) & second}
    theirs = {word for word in second if not synonyms(word) & first}
    return _clash(ours, theirs)


def _clash(first: Iterable[str], second: Iterable[str]) -> bool:
    opposites = _opposed()
    return any(
        against in opposites.get(word, ()) or _negates(word, against) or _negates(against, word)
        for word in first
        for against in second
    )


def _negates(word: str, other: str) -> bool:
    rest = len(word) - len(other)
    return rest > 0 and len(other) > 3 and word.endswith(other) and word[:rest] in _NEGATIVE


_DETERMINER = r"(?:the|an?|all|any|one|some|each|every)\b"
_VERBS = r"(?:list|describe|explain|summari[sz]e|identify|report|name|tell|state|show|give)\b"
_LEAD = pattern(
    rf"\s*(?!{_DETERMINER})[^\W\d_]+(?: out)?(?:,? and (?:{_VERBS}|[a-z]+(?= {_DETERMINER})))?"
    rf"(?:\s+(?:{_DETERMINER}|of the)(?!-))*\s*",
    re.IGNORECASE,
)
_BEFORE = (
    r"(?:of|behind|for|about|between|in|to|towards?|from|with|by|on|at|as|into|among|against|"
    r"through|throughout|upon|over|under|during)"
)
_LINK = pattern(
    rf"\b(?:{_BEFORE}|if|whether|how|that|which|who|whom|whose|where|when|what|why|is|are|was|were|"
    rf"given|[a-z]+(?:ed|ing|own|ade)(?= (?:{_BEFORE}|[A-Z]\w*)\b)|regarding|concerning)\b"
)
_CLAUSE = pattern(r"\s*(?:that|which|what|who|whom|whose|where|when|how|why|if|whether)\b")
_FROM = r"(?:based (?:up)?on|given|as given by|in|from|within|throughout|according to|of|across)"
_DOCUMENT = (
    r"(?:the )?(?:information provided in )?(?:the )?(?:(?:given|provided) )?(?:input )?"
    rf"{DOCUMENT}\b"
)
_OF_DOCUMENT = pattern(rf",?\s*\b(?:{_FROM} )?{_DOCUMENT}(?!['’])")
# Only where the sentence reads on without these words: "the end of CTX" does not.
_IN_DOCUMENT = pattern(rf",?\s*\b(?!of |across ){_FROM} {_DOCUMENT}(?!['’])")
# "given the input CTX and a list of X" becomes "given a list of X".
_AND_MORE = pattern(rf"(?<=\bgiven )(?:the )?(?:input )?{DOCUMENT} and ")
_LOOSE = pattern(r"[\s,]+(?:or|and|of|in|from|for|by|about|on)$")
_ASIDE = pattern(r"\((?:e\.g\.|for (?:example|instance))[^)]*\)|,? (?:such as|for instance)\b.*")
_SUCH_AS = pattern(r"\b(?:such as|including)\b")
_COMMAS = pattern(r"\s*,\s*(?:(?:or|and)\s+)?|\s+(?:or|and)\s+")
_WORD = pattern(r"[^\W\d_]+")
_MARKS = (
    ("not", re.compile(r"\b(?:not|never|no|none|nor|neither|non|except|exception)\b|n't\b")),
    ("least", re.compile(r"\b(?:least|fewest)\b")),
    ("negative", re.compile(r"\bnegative(?:ly)?\b")),
    ("positive", re.compile(r"\bpositive(?:ly)?\b")),
    ("hypothetical", re.compile(r"\bhypothetical(?:ly)?\b")),
)
_MARKING = frozenset("not never no none nor neither non except exception least fewest".split())
_NAMED_MARKS = frozenset(
    "most best worst first last next only greatest biggest largest strongest smallest".split()
)

PLAIN = frozenset("find identify list get give provide name tell state report show".split())
"""Verbs that say nothing about what is found."""

EMPTY = FUNCTION_WORDS | frozenset(
    """
    aspect aspects based central chief context definite detailed direct done each get given
    input key main major might one other overall particular pivotal real related remaining seem
    seemed seems somebody someone something specific thing ultimate used using whether without
    """.split()
)
"""Words that do not count, because they do not change what is to be found."""

GENERAL = frozenset(
    "person people entity item word words adjective instance information individual figure".split()
)
"""What many different actions find: such words say little of one action."""


@dataclass(frozen=True, slots=True)
class ParsedDefinition:
    """What an action's name and definition say.

    Args:
        heads: what is found: ``intent``, ``main purpose``.
        rest: the definition from there on, without the document at its end.
        bag: the words that count, in their basic form, each with its weight.
        marks: negations and superlatives; actions differ where these do.
        topic: the words of the name, and the last of each head.
        clause: the first word of a clause that narrows what is found: ``that`` in ``features
            that X cares about``, ``where`` in ``where X takes place``; empty where there is none.
        wide: whether it lists examples of what it can be asked: ``aspects such as …``.
    """

    heads: tuple[str, ...]
    rest: str
    bag: tuple[tuple[str, float], ...]
    marks: frozenset[str]
    topic: frozenset[str]
    clause: str
    wide: bool


def params_of(action: Action) -> tuple[str, ...]:
    """The names of an action's parameters without the document."""
    return tuple(param.name for param in action.params if param.name != DOCUMENT)


def without_document(doc: str) -> str:
    """A definition without the words that say where to look."""
    doc = _AND_MORE.sub("", doc)
    return _LOOSE.sub("", _OF_DOCUMENT.sub("", doc).strip(" ."))


def read_action(action: Action) -> ParsedDefinition:
    """Take an action's name and definition apart; never fails, whatever they say."""
    params = params_of(action)
    lead, region, rest = split_definition(without_document(action.doc), params)
    heads = tuple(head for head in _COMMAS.split(region) if head)
    name = [word for word in action.name.lower().split("_") if word]
    text = f"{' '.join(name)} {action.doc.lower()}"
    marks = {mark for mark, pattern in _MARKS if pattern.search(text)}
    marks |= _NAMED_MARKS.intersection(name)
    passed = EMPTY | _MARKING | marks | {param.lower() for param in params}
    named = [word for word in name if word not in PLAIN | passed]
    bag: dict[str, float] = {}
    for word, weight in _weighed(named, lead, heads, rest):
        if word not in passed and len(word) > 1:
            form = basic(word)
            bag[form] = max(bag.get(form, 0.0), weight / 3 if word in GENERAL else weight)
    ends = [words[-1].lower() for words in map(_WORD.findall, heads) if words]
    topic = frozenset(basic(word) for word in (*named, *ends) if word not in passed)
    match = _CLAUSE.match(rest)
    clause = match[0].strip().lower() if match else ""
    wide = bool(_SUCH_AS.search(rest))
    return ParsedDefinition(heads, rest, tuple(bag.items()), frozenset(marks), topic, clause, wide)


def split_definition(doc: str, params: Sequence[str]) -> tuple[str, str, str]:
    """A definition in three: how it starts, what is found, and the rest.

    ``Find the`` · ``intent or purpose`` · ``of X``.
    """
    lead = _LEAD.match(doc)
    at = lead.end() if lead else 0
    ends = [match.start() for match in (_LINK.search(doc, at), _ASIDE.search(doc, at)) if match]
    for param in params:
        mention = re.compile(rf"\b{re.escape(param)}\b").search(doc, at)
        ends += [mention.start()] if mention else []
    region = doc[at : min(ends, default=len(doc))].rstrip(" ,.")
    return doc[:at], region, doc[at + len(region) :]


def words_of(text: str) -> frozenset[str]:
    """The words of a text that count, in their basic form."""
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(basic(word) for word in words if word not in EMPTY)


def narrow(action: Action) -> int:
    """How narrowly an action is defined: the number of words that restrict what it finds.

    One that asks for the least of something, or takes nothing but the document,
    serves few questions; one that lists examples of what it can be asked serves many.
    """
    reading = read_action(action)
    aside = _ASIDE.search(reading.rest)
    rest = sentences_of(reading.rest[: aside.start()] if aside else reading.rest)[0]
    heads = {like for head in reading.heads for word in words_of(head) for like in synonyms(word)}
    bound = words_of(rest) - {basic(name) for name in params_of(action)} - heads
    return len(bound) + len(reading.marks) + (0 if params_of(action) else 1) - (3 if aside else 0)


def sentences_of(text: str) -> list[str]:
    """A definition's sentences; the first says what the action finds."""
    return re.split(r"(?<=[\w)\]])\.\s+(?=[A-Z])", text)


def is_plain(lead: str) -> bool:
    """Whether a definition starts with a verb that says nothing of what is found."""
    verb = lead.split(maxsplit=1)[0].lower() if lead.strip() else ""
    return verb in PLAIN or verb.removesuffix("s") in PLAIN


def _weighed(
    named: Sequence[str], lead: str, heads: Sequence[str], rest: str
) -> Iterator[tuple[str, float]]:
    """Words in lower case, each with what it says of the action."""
    yield from ((word, 1.0) for word in named)
    if lead.strip() and not is_plain(lead):
        yield lead.split(maxsplit=1)[0].lower(), 0.6
    for head in heads:
        *before, last = [word.lower() for word in _WORD.findall(head)] or [""]
        yield from ((word, 0.6) for word in before)
        yield last, 1.0
    aside = _ASIDE.search(rest)
    cut = aside.start() if aside else len(rest)
    yield from ((word.lower(), 0.45) for word in _WORD.findall(rest[:cut]))
    yield from ((word.lower(), 0.1) for word in _WORD.findall(rest[cut:]))


MOST_TAIL = 80
"""The most characters of a definition's end that are moved into an argument."""

_BINDING = pattern(
    r" (?:in|when|during|for|from|at|as|after|before|while|where|because|with|without|under)\b"
)

MOST_HEADS = 12
"""The most things that a merged definition lists: more would not help a reader."""


def widen(action: Action, others: Iterable[Action]) -> str:
    """A definition that holds for an action and for others that it replaces.

    What the others find is added to what it finds: *Find the reason,
    motivation or justification for X*. The rest stays as it is, so that each
    parameter is mentioned as often as before.
    """
    doc = action.doc or definition_of(action)
    lead, region, rest = split_definition(doc, params_of(action))
    own = read_action(action).heads if action.doc else (region,)
    if not region or not own:
        return doc
    chosen, word_sets = list(own), [words_of(head) for head in own]
    for other in others:
        for head in read_action(other).heads:
            words = words_of(head)
            if words - GENERAL and not any(words <= earlier for earlier in word_sets):
                word_sets.append(words)
                chosen.append(head)
    if len(chosen) == len(own):
        return doc
    *before, last = chosen[:MOST_HEADS]
    return f"{lead}{', '.join(before)} or {last}{rest}"


def definition_of(action: Action) -> str:
    """A definition for an action that has none, from its name."""
    words = [word for word in action.name.lower().split("_") if word]
    plain = [word for word in words if word not in PLAIN] or words
    first, *rest = [*params_of(action), ""]
    about = "".join(f" with regard to {param}" for param in rest if param)
    return f"Find the {' '.join(plain)}{f' of {first}' if first else ''}{about} given CTX."


def phrase(action: Action) -> Literal | Template:
    """What an action asks for, as a text: ``greatest flaw of {X}``.

    Each parameter stands in it where the definition mentions it; one that is not
    mentioned stands at the end, so that none is lost. The document is left out where
    the definition only says to look in it.
    """
    doc = _IN_DOCUMENT.sub("", _AND_MORE.sub("", action.doc or definition_of(action))).strip(" .")
    doc = re.sub(rf"\b{_DOCUMENT}", "the document", doc)
    names = params_of(action)
    lead, region, rest = split_definition(doc, names)
    text = f"{region}{rest}" if is_plain(lead) else doc
    first, *more = sentences_of(one_line(text or doc))
    # Further sentences about the action in general are no part of what it asks for.
    text = ". ".join([first, *(part for part in more if any(name in part for name in names))])
    parts = [*woven(text, {name: name for name in names})]
    for name in names:
        parts += [] if Ref(name) in parts else [" with regard to ", Ref(name)]
    return as_arg(parts)


def join_params(action: Action, count: int) -> Template | Ref:
    """The last parameters of an action as a single text, joined as its definition joins them.

    Args:
        action: one that has more than ``count`` parameters, without the document.
        count: how many of these stay as they are.
    """
    names = params_of(action)[count:]
    if len(names) == 1:
        return Ref(names[0])
    doc = without_document(action.doc)
    parts: list[str | Ref] = [Ref(names[0])]
    for before, after in pairwise(names):
        between = rf"(?<!\w){re.escape(before)}(?!\w)(.{{1,40}}?)(?<!\w){re.escape(after)}(?!\w)"
        match = re.search(between, doc)
        words = match[1] if match else " with regard to "
        parts += [words, Ref(after)]
    return Template(tuple(parts))


def _bound(old: Action, new: Action) -> str:
    """The words at the end of a definition that restrict it, unless the new one has them too."""
    last = rf"(?<!\w){re.escape(params_of(old)[-1])}(?!\w)"
    match = re.search(rf"{last}(?!.*{last})(.*)$", without_document(old.doc))
    tail = match[1] if match else ""
    lost = words_of(tail) - words_of(new.doc)
    return tail.rstrip() if lost and _BINDING.match(tail) and len(tail) <= MOST_TAIL else ""


def arguments(old: Action, new: Action) -> tuple[Arg, ...] | None:
    """The arguments of a new call, from the parameters of the older action.

    One to one, in order. What the older action takes beyond that is joined in the
    last argument, ``"{X} in relation to {Y}"``, and so is what only its definition
    says: ``"{Y} in terms of their jobs"``.

    Returns:
        None where the new action takes more than the older one has, or takes no
        document where the older one reads it.
    """
    ours, theirs = params_of(old), params_of(new)
    reads = any(param.name == DOCUMENT for param in new.params)
    if len(theirs) > len(ours) or (ours and not theirs):
        return None
    if not reads and any(param.name == DOCUMENT for param in old.params):
        return None
    values: list[Arg] = [Ref(name) for name in ours[: len(theirs)]]
    if len(ours) > len(theirs):
        values[-1] = join_params(old, len(theirs) - 1)
    if bound := _bound(old, new) if ours else "":
        last = values[-1]
        values[-1] = as_arg((*(last.parts if isinstance(last, Template) else (last,)), bound))
    following = iter(values)
    return tuple(
        Ref(DOCUMENT) if param.name == DOCUMENT else next(following) for param in new.params
    )
