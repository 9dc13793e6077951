"""Actions proposed and condensed, and questions labelled, by the words alone.

What a question asks for becomes the name of the action that finds it. There is
no model here to see that two words mean one thing: condensing has that to do,
by how similar actions' names and definitions are. The patterns are forms of
English questions and fitted to no rows of a data set: docs/offline.md lists
them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pearl.lang.ast import Action, Param, Ref, Replaced
from pearl.lang.definitions import arguments, widened
from pearl.lang.printer import print_action, print_library
from pearl.lang.similarity import clearest, group
from pearl.lang.values import Type
from pearl.models.offline_planning import Question, names, read_question
from pearl.prompts.calls import CondenseActions, LabelQuestion, MineActions
from pearl.retrieval.terms import QUESTION_STOP as STOP
from pearl.retrieval.terms import stems

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


_FORMS: tuple[tuple[str, str, str, Type], ...] = (
    (r"\bif\b.*\bwould|\bwould\b.*\bif\b", "hypothetical outcome",
     "Find what would follow from X, judging by CTX.", "text"),
    (r"\b(?:not|except)\b.*\?|\bleast\b", "what is not so",
     "Find what CTX gives as untrue of X, or leaves out about X.", "text"),
    (r"^why\b", "reason", "Find the reason for X in CTX.", "text"),
    (r"\bhow (?:many|much|often)\b", "quantity",
     "Find how much or how many X there is in CTX.", "number"),
    (r"\bhow long\b|\bhow much time\b", "duration",
     "Find how long X lasts or takes in CTX.", "text"),
    (r"^where\b", "place", "Find where X is or takes place in CTX.", "text"),
    (r"^when\b", "time", "Find when X takes place in CTX.", "text"),
    (r"\bfeel|\bfelt\b", "feeling", "Find how X feels about Y in CTX.", "text"),
    (r"\bthink|\bthought\b", "thought", "Find what X thinks of Y in CTX.", "text"),
    (r"\bmean\b|\bmeans\b|\bmeant\b", "meaning", "Find what X means in CTX.", "text"),
    (r"\bimply|\binfer|\bsuggest", "implication", "Find what CTX implies about X.", "text"),
    (r"\breact|\brespon[ds]", "reaction", "Find how X reacts to Y in CTX.", "text"),
    (r"\bchange[sd]?\b|\bbecome", "change", "Find how X changes in the course of CTX.", "text"),
    (r"^how\b", "manner", "Find how X comes about or is done in CTX.", "text"),
)  # fmt: skip
"""Forms of question: a pattern, what an action for it finds, its definition, and its type."""


def propose(call: MineActions) -> str:
    """At most one new action for the question, or ``None`` where the seeds will do."""
    asked = read_question(call.question)
    action = _named(asked) or _formed(asked)
    known = {tuple(stems(name.lower().split("_"))) for name in call.library.every_name()}
    if action is None or tuple(stems(action.name.lower().split("_"))) in known:
        return "None"
    return f"- {print_action(action)}"


def _formed(asked: Question) -> Action | None:
    """The action for a question's form."""
    for pattern, what, doc, returns in _FORMS:
        if re.search(pattern, asked.asked, re.IGNORECASE):
            params = [name for name in ("X", "Y") if re.search(rf"\b{name}\b", doc)]
            return Action(_name(what.split()), tuple(map(Param, ("CTX", *params))), returns, doc)
    return None


def _name(words: Sequence[str]) -> str:
    """What an action is called that finds something."""
    return "_".join(("FIND", *words)).upper()


def _named(asked: Question) -> Action | None:
    """The action that finds the thing a question names: the purpose of X, the conflict of X, Y."""
    text = asked.asked[:1].lower() + asked.asked[1:]
    match = _THING.search(text) or (_OWNED.search(text) if text.startswith("what ") else None)
    if match is None:
        return None
    people = {part.lower() for name in names(asked.text) for part in name.split()}
    idle = STOP | _VAGUE | people
    words = [w for w in re.split(r"[ -]+", match["words"]) if w not in idle and w.isascii()]
    if not words or len(words[-1]) < 3:
        return None
    link = match.groupdict().get("link") or "of"
    two = link == "between" or asked.pair is not None
    parties = ("X and Y" if link == "between" else "X towards Y") if two else "X"
    params = tuple(map(Param, ("CTX", "X", "Y")[: 3 if two else 2]))
    link = "of" if two and link != "between" else link
    doc = f"Find the {' '.join(words)} {link} {parties} in CTX."
    return Action(_name(words), params, "text", doc)


FLOOR = 0.55
"""More than for a whole library: what is rare in one prompt may not be rare elsewhere."""


def condense(call: CondenseActions) -> str:
    """The actions that stay, each with what it replaces, in the form a library has."""
    actions: list[Action] = []
    for places in group(call.actions, call.target, FLOOR):
        members = [call.actions[at] for at in places]
        kept = members.pop(clearest(members))
        replaced: list[Replaced] = []
        for old in members:
            args, params = arguments(old, kept), tuple(param.name for param in old.params)
            # Of two actions of one name, the definition says what both find.
            same = old.name == kept.name and args == tuple(map(Ref, params))
            if args is not None and not same:
                replaced.append(Replaced(old.name, params, args))
        gone = {old.name for old in replaced}
        doc = widened(kept, [member for member in members if member.name in gone])
        kept = replace(kept, doc=doc, replaces=tuple(replaced), aliases=(), provenance=())
        others = [member for member in members if member.name not in gone]
        actions += [replace(action, comments=()) for action in (kept, *others)]
    return print_library(actions)


_SIGNS = (
    (r"\bnot\b.*\?|\bexcept\b|\bleast\b", "not/except"),
    (r"\bif\b.*\bwould|\bwould\b.*\bif\b", "what if"),
    (r"^why\b|\breasons?\b|\bbecause\b|\bmotiv", "why/reason"),
    (r"\bhow (?:many|much|often)\b", "numeric"),
    (r"\bhow long\b|\bhow much time\b", "duration"),
    (r"\bsymbol|\bmean|\bmetaphor|\bironi|\bmoral\b|\btheme", "symbolism/interpretation"),
    (r"\brelation(?:ship)?|\bin common\b|\bcompar|\bdiffer", "relation"),
    (r"\bdescrib|\btraits?\b|\bpersonalit|\btone\b|\bfeel|\bwhat (?:is|was) .* like\b",
     "description"),
    (r"^who(?:m|se)?\b", "person"),
    (r"^where\b|\bplace\b|\blocation\b", "location"),
    (r"^how\b", "how/method"),
    (r"\bhappen|\bevent|\bafter\b|\bbefore\b", "event"),
    (r"(?:\.\.\.|…|_+|\b(?:that|because|to|of|the|is|was))\W*$", "finish the phrase"),
    (r"^what (?:is|was|are|were) (?:an? |the )?[\w-]+\??$", "entity"),
)  # fmt: skip
"""Signs of a kind of reasoning, and its name."""


def label(call: LabelQuestion) -> str:
    """The kinds whose signs the question bears, at most two; else the last one there is."""
    known = [name for name, _ in call.labels]
    question = " ".join(call.question.split())
    borne = [name for sign, name in _SIGNS if re.search(sign, question, re.IGNORECASE)]
    return ", ".join([name for name in borne if name in known][:2] or known[-1:])
