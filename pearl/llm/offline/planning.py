"""Plans by analogy of form: a question's cue words choose the action, its clause the argument.

No action's name is known here; actions are chosen by the words of their names
and definitions, so any library works.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from pearl.library import Library
from pearl.llm.calls import WritePlan
from pearl.llm.offline.text import stems, words
from pearl.plan import DOCUMENT, Action, Arg, Literal, Plan, Ref, Step
from pearl.syntax import print_plan

# Question form → the words an action for it is likely to be defined with.
_CUES: tuple[tuple[str, str], ...] = (
    (r"\bwhy\b|\breasons?\b|\bbecause\b|\bmotiv", "reason why motive"),
    (r"\bwho\b|\bwhat kind of (?:person|man|woman)", "character person who traits"),
    (r"\bfeel|\bfeelings?\b|\bemotion|\bafraid|\bangry", "feeling emotion"),
    (r"\bthink|\bopinion|\bview\b|\battitude|\bregard", "opinion view attitude"),
    (r"\brelat(?:ed|ion|ionship)|\bknow each other", "relation stand other"),
    (r"\bwould (?:have )?(?:happen|likely|most likely)|\bif\b", "hypothetical would happen if"),
    (r"\bauthor|\bwriter|\bessay", "author stance argument claim"),
    (r"\btone\b|\bmood\b", "tone mood"),
    (r"\bhow many|\bhow much|\bhow often", "number quantity count how many"),
    (r"\bwhen\b|\bhow long", "time when duration"),
    (r"\bwhere\b", "place location where"),
    (r"\bhow (?:does|did|do|is|was|can|could)\b", "how method way"),
    (r"\bmean(?:s|ing|t)?\b|\bphrase\b|\bword\b|\brefer", "meaning phrase word means"),
    (r"\bnot\b|\bexcept\b|\bleast\b|\bfalse\b", "not false except least mentioned"),
    (r"\bcompar|\bdiffer|\bcontrast|\bunlike", "compare contrast difference"),
    (r"\bsimilar|\bin common|\balike|\bboth\b", "common similar both"),
    (r"\bironic|\birony", "irony ironic expected"),
    (r"\btheme|\bmoral|\blesson|\bmessage", "theme lesson message"),
    (r"\bconsequence|\bresult|\beffect|\bled to|\boutcome", "effect consequence follow"),
    (r"\bchange|\bbecome|\btransform", "change become"),
    (r"\bpurpose|\bintend|\bgoal|\bplan\b|\bwant", "purpose goal want plan"),
    (r"\bdescrib", "describe description"),
    (r"\bhappen|\bevent", "event happens"),
    (r"\bevidence|\bsupport|\bexample", "evidence support claim"),
    (r"\blie\b|\blied\b|\bdeceiv|\bpretend|\bhide|\bhid\b|\bsecret", "deceive hides truth lie"),
)
_EVENT = "event happens what"
_PERSON = "character person who describe"
_LEAD = re.compile(
    r"^\W*(?:(?:in|according to|with|taken|given) [^,]{1,40}, )?"
    r"(?:why|how|what|who|whom|whose|when|where|which)\b"
    r"(?: of (?:these|the following|the) \w*)?(?: is it that| reason| way| statement)?"
    r",?(?: most)?(?: likely| probably)?,?"
    r"(?: best(?: \w+s)?)?"
    r"(?: (?:does|did|do|is|was|were|are|has|had|have|would|might|can|could|should|will))?"
    r"(?: most)?(?: likely| probably)?\s*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z\"'])")
_NAMES = re.compile(r"(?<![.?!]\s)(?<!^)\b[A-Z][\w-]+(?:\s+(?:of\s+|the\s+)?[A-Z][\w-]+)*")


def write(call: WritePlan) -> str:
    """A plan of one to three steps for the question."""
    question = " ".join(call.question.split())
    ranked = _Ranking(call.library)
    main = ranked.best(words(question), _cued(question), (0, 1, 2))
    if main is None:
        return ""
    clause, names = _clause(question), _names(question)
    wanted = len(main.params) - 1
    if wanted == 0:
        return _text(question, [_step("answer", main, [], question)])
    if wanted == 2 and names:
        return _text(question, _about_two(ranked, main, clause, names, question))
    event = ranked.best([], _stems(_EVENT), (1,))
    if event is None or event.name == main.name or wanted != 1:
        args = [Literal(text) for text in (clause, _rest(clause, names))][:wanted]
        return _text(question, [_step("answer", main, args, question)])
    first = _step("event", event, [Literal(clause)], f"Find what is said of this: {clause}")
    return _text(question, [first, _step("answer", main, [Ref("event")], question)])


def write_shortest(call: WritePlan) -> str:
    """One step, with the least that can be wrong in it."""
    question = " ".join(call.question.split())
    action = _Ranking(call.library).best(words(question), _cued(question), (0, 1))
    if action is None:
        return ""
    args = [Literal(_clause(question))][: len(action.params) - 1]
    return _text(question, [_step("answer", action, args, question)])


def _about_two(
    ranked: _Ranking, main: Action, clause: str, names: Sequence[str], question: str
) -> list[Step]:
    """Who each one is, and then how the two stand in the question."""
    person = ranked.best([], _stems(_PERSON), (1,))
    steps: list[Step] = []
    args: list[Arg] = []
    for name in names[:2]:
        variable = re.sub(r"\W+", "_", name).strip("_").lower()
        if person is None or variable in ("ctx", "answer", "true", "false", "each", "where"):
            args.append(Literal(name))
            continue
        note = f"Find out who or what {name} is"
        steps.append(_step(variable, person, [Literal(name)], note))
        args.append(Ref(variable))
    if len(args) == 1:
        args.append(Literal(_rest(clause, names)))
    return [*steps, _step("answer", main, args, question)]


def _step(name: str, action: Action, args: Sequence[Arg], note: str) -> Step:
    return Step(name, action.name, (Ref(DOCUMENT), *args), note)


def _text(question: str, steps: Sequence[Step]) -> str:
    return print_plan(Plan(tuple(steps), question))


def _stems(text: str) -> list[str]:
    return stems(text.split())


def _cued(question: str) -> list[str]:
    found: list[str] = []
    for pattern, cue in _CUES:
        if re.search(pattern, question, re.IGNORECASE):
            found.extend(_stems(cue))
    return found or _stems(_EVENT)


def _clause(question: str) -> str:
    """What the question is about: its last sentence without the question words.

    A sentence before it only sets the scene; it stands in the step's note.
    """
    asked = _SENTENCE.split(question)[-1]
    clause = _LEAD.sub("", asked, count=1).strip(" ,?.!\"'")
    return clause or question.strip(" ?")


def _names(question: str) -> list[str]:
    found = [name.removesuffix("'s") for name in _NAMES.findall(question)]
    found = [name for name in found if len(name) > 1 and name.lower() not in ("i", "not")]
    return list(dict.fromkeys(found))


def _rest(clause: str, names: Sequence[str]) -> str:
    """The clause without the first name, for an action's second argument."""
    rest = clause.replace(names[0], "", 1) if names else clause
    return " ".join(rest.split()).removeprefix("'s ") or clause


class _Ranking:
    """A library's actions, weighed by the words that tell them apart."""

    def __init__(self, library: Library) -> None:
        self.actions = [
            action
            for action in library.actions.values()
            if not action.is_builtin
            and not action.variadic
            and action.params[:1]
            and action.params[0].name == DOCUMENT
            and all(len(param.name) == 1 for param in action.params[1:])
        ]
        self.names = [set(stems(action.name.lower().split("_"))) for action in self.actions]
        self.docs = [set(words(action.doc)) for action in self.actions]
        counts = Counter(stem for doc in self.docs for stem in doc)
        total = max(1, len(self.actions))
        self.rarity: Mapping[str, float] = {
            stem: math.log(1 + total / count) for stem, count in counts.items()
        }

    def best(
        self, asked: Sequence[str], cues: Sequence[str], arities: Sequence[int]
    ) -> Action | None:
        """The action that fits best; ties go to the library's order.

        Args:
            asked: the question's stems.
            cues: stems that the question's form calls for, which weigh more.
            arities: how many parameters it may take besides the document.
        """
        best, top = None, -1.0
        for action, name, doc in zip(self.actions, self.names, self.docs, strict=True):
            if len(action.params) - 1 not in arities:
                continue
            score = sum(3.0 * self._weight(stem, name, doc) for stem in set(cues))
            score += sum(self._weight(stem, name, doc) for stem in set(asked))
            score /= math.sqrt(8 + len(doc))
            if score > top:
                best, top = action, score
        return best

    def _weight(self, stem: str, name: set[str], doc: set[str]) -> float:
        rarity = self.rarity.get(stem, 1.0)
        return (2.0 * rarity if stem in name else 0.0) + (rarity if stem in doc else 0.0)
