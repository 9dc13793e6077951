"""Actions proposed from a question's own words: what it asks for becomes the action's name.

There is no model here to see that two words mean one thing; condensing has
that to do.

Fewer actions of many, by how alike they are.

Kinds of reasoning, by a question's first words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pearl.lang.ast import Action, Param, Ref, Replaced
from pearl.lang.library import Library
from pearl.lang.printer import print_action, print_library
from pearl.lang.similarity import arguments, clearest, group, widened
from pearl.lang.values import Type
from pearl.models.offline.planning import Question, names, read_question
from pearl.prompts.calls import CondenseActions, LabelQuestion, MineActions
from pearl.retrieval.bm25 import STOP, stems

_OF = (
    r"(?: (?P<link>of|for|behind|between|about|regarding)\b"
    r"| (?:that|who|which|does|did|do|is|was|were|are|has|had|would)\b|[?.,]|$)"
)
_THING = re.compile(
    r"\b(?:what|which)(?: (?:is|was|are|were|would be|seems? to be|best describes))? "
    r"(?:the |an? |some |his |her |their |its |[\w-]+['’]s? )?"
    rf"(?P<words>(?:[a-z][a-z-]+ ){{0,2}}[a-z][a-z-]+?){_OF}"
)
_OWNED = re.compile(
    r"\b(?:\w+['’]s?|his|her|their|its) (?P<words>(?:[a-z][a-z-]+ )?[a-z][a-z-]+)\b"
)
_VAGUE = frozenset(
    """
    answer best choice correct doe does did done following happen happened happening happens
    kind likely main make makes mean means most option other primary probable reader real sort
    statement story text true thing things type way one
    """.split()
)


def _name(found: Sequence[str]) -> str:
    """What an action is called that finds something."""
    return "_".join(("FIND", *found)).upper()


def _form(
    asks: str, found: str, doc: str, returns: Type = "text"
) -> tuple[re.Pattern[str], Action]:
    params = [one for one in ("X", "Y") if re.search(rf"\b{one}\b", doc)]
    action = Action(_name(found.split()), (Param("CTX"), *map(Param, params)), returns, doc)
    return re.compile(asks, re.IGNORECASE), action


_FORMS = (
    _form(
        r"\bif\b.*\bwould|\bwould\b.*\bif\b",
        "hypothetical outcome",
        "Find what would follow from X, judging by CTX.",
    ),
    _form(
        r"\b(?:not|except)\b.*\?|\bleast\b",
        "what is not so",
        "Find what CTX gives as untrue of X, or leaves out about X.",
    ),
    _form(r"^why\b", "reason", "Find the reason for X in CTX."),
    _form(
        r"\bhow (?:many|much|often)\b",
        "quantity",
        "Find how much or how many X there is in CTX.",
        "number",
    ),
    _form(
        r"\bhow long\b|\bhow much time\b",
        "duration",
        "Find how long X lasts or takes in CTX.",
    ),
    _form(r"^where\b", "place", "Find where X is or takes place in CTX."),
    _form(r"^when\b", "time", "Find when X takes place in CTX."),
    _form(r"\bfeel|\bfelt\b", "feeling", "Find how X feels about Y in CTX."),
    _form(r"\bthink|\bthought\b", "thought", "Find what X thinks of Y in CTX."),
    _form(r"\bmean\b|\bmeans\b|\bmeant\b", "meaning", "Find what X means in CTX."),
    _form(r"\bimply|\binfer|\bsuggest", "implication", "Find what CTX implies about X."),
    _form(r"\breact|\brespon[ds]", "reaction", "Find how X reacts to Y in CTX."),
    _form(r"\bchange[sd]?\b|\bbecome", "change", "Find how X changes in the course of CTX."),
    _form(r"^how\b", "manner", "Find how X comes about or is done in CTX."),
)


def propose(call: MineActions) -> str:
    """At most one new action for the question, or ``None`` where the seeds will do."""
    action = _proposed(read_question(call.question))
    if action is None or _known(action, call.library):
        return "None"
    return f"- {print_action(action)}"


def _proposed(asked: Question) -> Action | None:
    own = _named(asked)
    if own is not None:
        return own
    for asks, action in _FORMS:
        if asks.search(asked.asked):
            return action
    return None


def _named(asked: Question) -> Action | None:
    """The action that finds the thing a question names: the purpose of X, the conflict of X, Y."""
    text = asked.asked[:1].lower() + asked.asked[1:]
    found = _THING.search(text) or (_OWNED.search(text) if text.startswith("what ") else None)
    if found is None:
        return None
    people = {part.lower() for name in names(asked.text) for part in name.split()}
    words = [one for one in re.split(r"[ -]+", found["words"]) if one not in STOP]
    words = [one for one in words if one not in _VAGUE and one not in people and one.isascii()]
    if not words or len(words[-1]) < 3:
        return None
    link = found.groupdict().get("link") or "of"
    two = link == "between" or asked.pair is not None
    parties = ("X and Y" if link == "between" else "X towards Y") if two else "X"
    params = (Param("CTX"), Param("X"), *((Param("Y"),) if two else ()))
    link = "of" if two and link != "between" else link
    doc = f"Find the {' '.join(words)} {link} {parties} in CTX."
    return Action(_name(words), params, "text", doc)


def _known(action: Action, library: Library) -> bool:
    """Whether the library has an action of this name, whatever its parameters."""
    wanted = _stemmed(action.name)
    return any(_stemmed(name) == wanted for name in library.every_name())


def _stemmed(name: str) -> tuple[str, ...]:
    return tuple(stems(name.lower().split("_")))


FLOOR = 0.55
"""More than for a whole library: what is rare in one prompt may not be rare elsewhere."""


def condense(call: CondenseActions) -> str:
    """The actions that stay, each with what it replaces, in the form a library has."""
    found: list[Action] = []
    for places in group(call.actions, call.target, FLOOR):
        members = [call.actions[at] for at in places]
        kept = members.pop(clearest(members))
        told = [one for member in members if (one := _replaced(member, kept))]
        gone = {one.name for one in told}
        covered = [member for member in members if member.name in gone]
        found.append(
            replace(
                kept,
                doc=widened(kept, covered),
                replaces=tuple(told),
                aliases=(),
                provenance=(),
                comments=(),
            )
        )
        found += [replace(one, comments=()) for one in members if one.name not in gone]
    return print_library(found)


def _replaced(old: Action, new: Action) -> Replaced | None:
    args = arguments(old, new)
    params = tuple(param.name for param in old.params)
    # Of two actions of one name, the definition says what both find.
    same = old.name == new.name and args == tuple(map(Ref, params))
    return None if args is None or same else Replaced(old.name, params, args)


_SIGNS = (
    (r"\bnot\b.*\?|\bexcept\b|\bleast\b", "not/except"),
    (r"\bif\b.*\bwould|\bwould\b.*\bif\b", "what if"),
    (r"^why\b|\breasons?\b|\bbecause\b|\bmotiv", "why/reason"),
    (r"\bhow (?:many|much|often)\b", "numeric"),
    (r"\bhow long\b|\bhow much time\b", "duration"),
    (r"\bsymbol|\bmean|\bmetaphor|\bironi|\bmoral\b|\btheme", "symbolism/interpretation"),
    (r"\brelation(?:ship)?|\bin common\b|\bcompar|\bdiffer", "relation"),
    (
        r"\bdescrib|\btraits?\b|\bpersonalit|\btone\b|\bfeel|\bwhat (?:is|was) .* like\b",
        "description",
    ),
    (r"^who(?:m|se)?\b", "person"),
    (r"^where\b|\bplace\b|\blocation\b", "location"),
    (r"^how\b", "how/method"),
    (r"\bhappen|\bevent|\bafter\b|\bbefore\b", "event"),
    (r"(?:\.\.\.|…|_+|\b(?:that|because|to|of|the|is|was))\W*$", "finish the phrase"),
    (r"^what (?:is|was|are|were) (?:an? |the )?[\w-]+\??$", "entity"),
)


def label(call: LabelQuestion) -> str:
    """The kinds whose signs the question bears, at most two; else the last one there is."""
    known = [name for name, _ in call.labels]
    question = " ".join(call.question.split())
    found = [
        name for asks, name in _SIGNS if name in known and re.search(asks, question, re.IGNORECASE)
    ]
    return ", ".join(found[:2] or known[-1:])
