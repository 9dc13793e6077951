"""Plans by analogy of form: a question's cue words choose the action, its clause the argument.

No action's name is known here; actions are chosen by the words of their names
and definitions, so any library works.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from pearl.library import Library
from pearl.llm.calls import WritePlan
from pearl.llm.offline.cues import CUES, EVENT, PERSON, TOPIC, Cue
from pearl.llm.offline.question import Question, names, place, read_question, supposed, without_head
from pearl.llm.offline.text import stems, words
from pearl.plan import DOCUMENT, Action, Arg, Literal, Plan, Ref, Step
from pearl.syntax import parse, print_plan
from pearl.values import Type

_PARTY = 6
"""Words of a party that is worth a step of its own; a longer one is a clause."""


def write(call: WritePlan) -> str:
    """A plan of one to three steps for the question."""
    asked = read_question(call.question)
    ranked = _Ranking(call.library)
    main = ranked.best(asked)
    if main and asked.pair and len(main.params) == 3:
        return _text(asked, _about_two(ranked, main, asked.pair, asked))
    happens = asked.happens or bool(asked.scene)
    first = ranked.known(EVENT if happens else TOPIC, (1,))
    main = main or (ranked.known(TOPIC, (1,)) if asked.scene else first) or ranked.any()
    if main is None:
        return ""
    if len(main.params) == 1:
        return _text(asked, [_step("answer", main, [], asked.text)])
    about, person = _about(asked), ranked.known(PERSON, (1,))
    if first is None or main in (first, person):
        return _text(asked, [_step("answer", main, [Literal(about)], asked.text)])
    found = asked.scene.strip(" .") or about
    name = "event" if happens else "topic"
    steps = [_step(name, first, [Literal(found)], f"Find what is said of this: {found}")]
    return _text(asked, [*steps, _step("answer", main, [Ref(name)], asked.text)])


def write_shortest(call: WritePlan) -> str:
    """One step, with the least that can be wrong in it."""
    asked = read_question(call.question)
    ranked = _Ranking(call.library)
    action = ranked.known(TOPIC, (1,)) or ranked.any()
    if action is None:
        return ""
    args = [Literal(asked.clause)][: len(action.params) - 1]
    return _text(asked, [_step("answer", action, args, asked.text)])


def _about(asked: Question) -> str:
    """What a one-argument action is to work on."""
    if asked.pair and _author(asked.pair[0]):
        return asked.pair[1]
    for cue in _cues(asked)[:1]:
        return supposed(asked) if cue.supposes else without_head(asked.clause, cue.asks)
    return asked.clause


def _about_two(
    ranked: _Ranking, main: Action, pair: tuple[str, str], asked: Question
) -> list[Step]:
    """Who or what each of the two is, and then how they stand in the question."""
    steps: list[Step] = []
    args: list[Arg] = []
    for party, variable in zip(pair, ("one", "other"), strict=True):
        person = party in names(asked.text) and not place(party, asked.text)
        action = ranked.known(PERSON if person else TOPIC, (1,))
        if action is None or len(party.split()) > _PARTY:
            args.append(Literal(party))
            continue
        variable = _variable(party) or variable
        note = f"Find out who {party} is" if person else f"Find out about {party}"
        steps.append(_step(variable, action, [Literal(party)], note))
        args.append(Ref(variable))
    if len({step.name for step in steps}) < len(steps):
        return [_step("answer", main, [Literal(party) for party in pair], asked.text)]
    return [*steps, _step("answer", main, args, asked.text)]


def _author(party: str) -> bool:
    """The author of a document is no party in it."""
    return bool(re.fullmatch(r"(?:the |its )?(?:author|writer|essayist)", party, re.IGNORECASE))


def _variable(party: str) -> str:
    """A short name for a step about a party; empty where its words make none."""
    plain = re.sub(r"^(?:the|an?) ", "", party.lower())
    name = "_".join(re.findall(r"[a-z]\w*", plain)[:3])
    taken = ("ctx", "answer", "found", "true", "false", "each", "where", "return", "values")
    return "" if name in taken or not name.isascii() else name


def _step(name: str, action: Action, args: Sequence[Arg], note: str) -> Step:
    return Step(name, action.name, (Ref(DOCUMENT), *args), note)


def _text(asked: Question, steps: Sequence[Step]) -> str:
    plan = Plan(tuple(steps), asked.text)
    written = print_plan(plan)
    if parse(written).plan.steps != plan.steps:
        # A question that holds a step itself would be read as one in a note.
        plain = tuple(replace(step, note="Find what the question asks") for step in steps)
        return print_plan(replace(plan, steps=plain))
    return written


def _cues(asked: Question) -> list[Cue]:
    """The forms the question has, the one that counts most first."""
    return [cue for cue in CUES if cue.asks.search(asked.asked)]


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
        named = [stems(action.name.lower().split("_")) for action in self.actions]
        common = Counter(stem for name in named for stem in name)
        # A word that half of the names share ("find") tells nothing apart.
        often = max(2, len(named) // 4)
        self.names = [[stem for stem in name if common[stem] <= often] for name in named]
        self.docs = [set(words(action.doc)) for action in self.actions]
        self.counts = Counter(stem for doc in self.docs for stem in doc)

    def best(self, asked: Question) -> Action | None:
        """The action that is called after the question's form, or None.

        Two parameters besides the document need two parties, none at all a
        question about the whole document.
        """
        for cue in _cues(asked):
            arities = {1}
            if cue.whole:
                arities.add(0)
            if asked.pair and not _author(asked.pair[0]):
                arities.add(2)
            found = self._top(cue.words, arities, {"text", "list", "any", cue.returns})
            if found or cue.false:
                return found
        return None

    def known(self, about: str, arities: Collection[int]) -> Action | None:
        """The action that is called after these words, or at least defined with them."""
        types: tuple[Type, ...] = ("text", "list", "any")
        return self._top(about, arities, types) or self._top(about, arities, types, named=False)

    def any(self) -> Action | None:
        """The first action that can be asked about anything."""
        return next((one for one in self.actions if len(one.params) < 3), None)

    def _top(
        self, about: str, arities: Collection[int], types: Collection[Type], *, named: bool = True
    ) -> Action | None:
        """The action whose name, and then definition, holds most of the words.

        Ties go to the library's order.
        """
        wanted = set(stems(about.split()))
        best, top = None, 0.0
        for action, name, doc in zip(self.actions, self.names, self.docs, strict=True):
            hits = sum(stem in wanted for stem in name)
            if len(action.params) - 1 not in arities or action.returns not in types:
                continue
            if named and not hits:
                continue
            defined = sum(self._rarity(stem) for stem in sorted(wanted & doc)) / math.sqrt(
                8 + len(doc)
            )
            score = hits + 6 * hits / max(1, len(name)) + defined
            if score > top:
                best, top = action, score
        return best

    def _rarity(self, stem: str) -> float:
        return math.log(1 + len(self.docs) / self.counts[stem])
