"""The states of FSM prompting and what follows on what: one table, walked and drawn.

Wang et al., "FSM: A Finite State Machine Based Zero-Shot Prompting Paradigm
for Multi-Hop Question Answering", 2024. FSM1 ends with the answer, FSM2 with a
review of it.

What the states of FSM prompting ask, and the solvers that its steps call.

Wang et al., "FSM: A Finite State Machine Based Zero-Shot Prompting Paradigm
for Multi-Hop Question Answering", 2024.

The picture of a machine's table, as Mermaid text and as SVG.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from pearl.lang.ast import Plan
from pearl.lang.builtins import Given
from pearl.lang.source import Source
from pearl.lang.values import Pairs, Value, as_text
from pearl.models.base import Reply, Request
from pearl.prompts.calls import FillSchema
from pearl.prompts.render import load_schema
from pearl.run.calls import REVISIONS, Caller, Check, SchemaError, fill
from pearl.run.context import UNLIMITED, Context, fit_fill
from pearl.run.evidence import Quote, evidence
from pearl.run.executor import Handlers, Solve, SolverError

END = "answer"
"""Where a machine stops."""


@dataclass(frozen=True, slots=True)
class State:
    """A state.

    Args:
        name: as in the journal.
        asks: the schema of the model's reply.
        about: what is done in it, in a few words.
        on: which state follows, by the outcome.
        back: to which state the machine goes back, by the outcome, with the reason.
        action: what its step calls; empty where the state only decides, and is no step.
        limit: which state follows where a limit is met; there is no answer where it is empty,
            or where nothing was found for it.
    """

    name: str
    asks: str
    about: str
    on: Mapping[str, str]
    back: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    action: str = ""
    limit: str = "summarise"


@dataclass(frozen=True, slots=True)
class Machine:
    """States, the first of which is where it starts.

    Args:
        name: as on the command line.
        states: all of them.
        closing: the states that make the answer of what was found, in order.
    """

    name: str
    states: tuple[State, ...]
    closing: tuple[str, ...]

    def state(self, name: str) -> State:
        """The state of this name."""
        return next(one for one in self.states if one.name == name)

    def after(self, name: str) -> int:
        """How many states still have to follow one, before there is an answer."""
        if name not in self.closing:
            return len(self.closing)
        return len(self.closing) - self.closing.index(name) - 1


def _to(**outcomes: str) -> Mapping[str, str]:
    return MappingProxyType(outcomes)


_DECOMPOSE = State(
    "decompose", "fsm_decompose", "simple or compound, and the first sub-question",
    _to(simple="search", compound="search", repeated="summarise"),
    _to(misfit="judge"),
)  # fmt: skip
_SEARCH = State(
    "search", "fsm_search", "its answer in the paragraphs",
    _to(found="revise", settled="summarise"),
    _to(nothing="decompose", misfit="decompose"), "SEARCH",
)  # fmt: skip
_REVISE = State(
    "revise", "fsm_revise", "the question with the answer put in",
    _to(revised="judge"), _to(misfit="search"), "REVISE",
)  # fmt: skip
_JUDGE = State(
    "judge", "fsm_judge", "sub-question and question the same?",
    _to(same="summarise", different="decompose"), _to(misfit="revise"),
)  # fmt: skip
_REVIEW = State(
    "review", "fsm_review", "supporting facts, triples, explanation",
    _to(reviewed=END), _to(misfit="summarise"), "REVIEW", END,
)  # fmt: skip


def _summarise(then: str, limit: str) -> State:
    return State(
        "summarise", "fsm_summarise", "the answer of what was found",
        _to(answered=then), _to(misfit="judge"), "SUMMARISE", limit,
    )  # fmt: skip


_LOOP = (_DECOMPOSE, _SEARCH, _REVISE, _JUDGE)
FSM1 = Machine("fsm1", (*_LOOP, _summarise(END, "")), ("summarise",))
# A review that does not fit goes back there, where there is an answer already.
FSM2 = Machine("fsm2", (*_LOOP, _summarise("review", END), _REVIEW), ("summarise", "review"))

MACHINES: Mapping[str, Machine] = MappingProxyType({"fsm": FSM2, "fsm1": FSM1, "fsm2": FSM2})
"""By name; ``fsm`` is the one with every state."""


TITLES = 5
"""Paragraphs that a search names, at most."""

QUOTE = "> "
"""What stands before a sentence of the document in a record."""


@dataclass(frozen=True, slots=True)
class FsmLimits:
    """How far a machine goes.

    Args:
        hops: sub-questions that are answered, at most.
        revisions: how often a reply that does not fit may be mended in place.
        backtracks: how often it goes back to an earlier state.
        calls: requests to the model in all; the last ones are kept for the answer.
        context: the model's window; of a document that does not fit, the paragraphs that bear
            on what is asked are read, or, with the policy ``full``, the run fails.
    """

    hops: int = 6
    revisions: int = REVISIONS
    backtracks: int = 4
    calls: int = 40
    context: Context = UNLIMITED


@dataclass(slots=True)
class Desk:
    """Asks what the states ask, and counts the requests.

    Args:
        machine: whose states.
        caller: asks the model and keeps the journal.
        document: what is searched.
        limits: how often.
    """

    machine: Machine
    caller: Caller
    document: Source
    limits: FsmLimits
    calls: int = field(default=0, init=False)

    def left(self, state: str) -> int:
        """Requests that a state may make; the others are for the states after it."""
        return self.limits.calls - self.calls - self.machine.after(state)

    async def ask(
        self,
        state: str,
        given: Sequence[tuple[str, Value]],
        path: str,
        refused: Sequence[Value] = (),
        reads: Source | None = None,
        check: Check = lambda _: (),
    ) -> dict[str, Any]:
        """A state's reply, as its schema has it.

        Args:
            state: its name.
            given: what it is asked of.
            path: where in the run.
            refused: what came to nothing before, with the reasons.
            reads: the document, where it is shown.
            check: what else the reply must hold to.

        Raises:
            ContextError: the document does not fit the window, and may not be cut.
            ModelError: the model gave no usable answer.
            SchemaError: no reply fits.
        """
        told = (*given, ("refused", list(refused))) if refused else tuple(given)
        call = FillSchema(load_schema(self.machine.state(state).asks), told, reads)
        if reads is not None:
            call, left_out = fit_fill(call, self.limits.context)
            if left_out:
                self.caller.journal.decide(f"context/{path.removeprefix('step/')}", left_out)
        caller = replace(self.caller, ask=self._counted)
        revisions = max(min(self.limits.revisions, self.left(state) - 1), 0)
        return await fill(caller, call, path, check, revisions)

    async def _counted(self, request: Request) -> Reply:
        self.calls += 1
        return await self.caller.ask(request)


def fsm_handlers(desk: Desk) -> Handlers:
    """What a run is handed so that its steps can search, revise, summarise and review.

    Args:
        desk: asks the model.
    """
    solvers = {
        "search": _search,
        "revise": _revise,
        "summarise": _summarise_solvers,
        "review": _review,
    }
    handed = {name: _solver(desk, work) for name, work in solvers.items()}
    return Handlers(MappingProxyType({**handed, "answer": _answer}))


_Work: TypeAlias = Callable[[Desk, str, Sequence[Value]], Any]


def _solver(desk: Desk, work: _Work) -> Solve:
    async def solve(path: str, given: Sequence[Given]) -> Value:
        try:
            value: Value = await work(desk, path, [one.value for one in given])
        except SchemaError as error:
            raise SolverError("solver", str(error)) from None
        return value

    return solve


async def _search(desk: Desk, path: str, given: Sequence[Value]) -> Value:
    asked, *refused = given
    question = as_text(asked)

    def bad(found: dict[str, Any]) -> list[str]:
        told = found["answer"] is not None and not _stands(found["evidence"], desk.document)
        return ["evidence: copy at least one sentence of the document word for word."] * told

    found = await desk.ask(
        "search", [("sub_question", question)], path, refused, desk.document, _said_once(bad)
    )
    answer = one_line(found["answer"] or "")
    if not answer:
        raise SolverError("no-answer", "the paragraphs do not say")
    return _record(
        question=question,
        answer=answer,
        evidence=_quotes(found["evidence"], desk.document),
        paragraphs=[one_line(one) for one in found["paragraphs"][:TITLES]],
    )


async def _revise(desk: Desk, path: str, given: Sequence[Value]) -> Value:
    question, found, *refused = given
    told: list[tuple[str, Value]] = [
        ("question", question),
        ("sub_question", of(found, "question")),
        ("answer", of(found, "answer")),
    ]
    return one_line((await desk.ask("revise", told, path, refused))["question"])


async def _summarise_solvers(desk: Desk, path: str, given: Sequence[Value]) -> Value:
    question, found, *refused = given
    told = [("question", question), ("solved", solved(found))]
    return one_line((await desk.ask("summarise", told, path, refused))["answer"])


async def _review(desk: Desk, path: str, given: Sequence[Value]) -> Value:
    question, answer, found, *refused = given
    told = [("question", question), ("solved", solved(found)), ("answer", answer)]

    def bad(reply: dict[str, Any]) -> list[str]:
        told = not _stands(reply["supporting_facts"], desk.document)
        return [
            "supporting_facts: copy at least one sentence of the document word for word."
        ] * told

    reply = await desk.ask("review", told, path, refused, desk.document, _said_once(bad))
    return _record(
        answer=one_line(reply["answer"]),
        supporting_facts=_quotes(reply["supporting_facts"], desk.document),
        triples=[[one_line(one) for one in triple] for triple in reply["triples"]],
        explanation=one_line(reply["explanation"]),
    )


async def _answer(path: str, given: Sequence[Given]) -> Value:
    del path
    return of(given[0].value, "answer")


def _record(**told: Value) -> Pairs:
    return Pairs(tuple(told.items()))


def of(record: Value, key: str) -> Value:
    """What a record has under a key; an empty text where there is nothing.

    Args:
        record: what a search or a review gave.
        key: as ``answer``.
    """
    return dict(record).get(key, "") if isinstance(record, Pairs) else ""


def solved(found: Value) -> list[Value]:
    """What was found, as ``sub-question -> answer``.

    Args:
        found: a list of records.
    """
    records = found if isinstance(found, list) else []
    return [f"{as_text(of(one, 'question'))} -> {as_text(of(one, 'answer'))}" for one in records]


def sentences(quotes: Value) -> list[str]:
    """Quotes of a record as sentences of the document.

    Args:
        quotes: under ``evidence`` or ``supporting_facts``.
    """
    return [as_text(one).removeprefix(QUOTE) for one in quotes] if isinstance(quotes, list) else []


def _located(told: Sequence[str], document: Source) -> list[Quote]:
    lines = "\n".join(f"{QUOTE}{one}" for one in map(one_line, told) if one)
    return evidence(Plan(), {"told": lines}, ("told",), document)


def _stands(told: Sequence[str], document: Source) -> bool:
    """Whether the document has at least one of these sentences."""
    return any(one.span for one in _located(told, document))


def _quotes(told: Sequence[str], document: Source) -> list[Value]:
    # Marked as quotes are in every output, so that an answer's evidence can be shown, and where
    # the document does not have one, that.
    return [f"{QUOTE}{one_line(one.text)}" for one in _located(told, document)]


def one_line(text: str) -> str:
    """A text without line breaks and needless spaces."""
    return " ".join(text.split())


def plain(text: str) -> str:
    """A question without what two askings of it may differ in: case, marks, spaces."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _said_once(check: Check) -> Check:
    """A check that complains once and then lets pass: better words are asked for, not demanded."""
    said: list[bool] = []

    def checked(found: dict[str, Any]) -> Sequence[str]:
        problems = () if said else check(found)
        if problems:
            said.append(True)
        return problems

    return checked


_WIDE, _HIGH, _GAP, _EDGE = 290, 56, 54, 24
_LANE = 54
"""From one line beside the boxes to the next."""
_SIDE = 90
"""Room for the words beside the outermost line."""
_LIMIT = "limit"


class _Line(NamedTuple):
    """From state to state, with its outcomes; ``back`` where the machine goes back."""

    start: str
    end: str
    words: str
    back: bool


def as_object(machine: Machine) -> dict[str, Any]:
    """The table as JSON data.

    Args:
        machine: its states.
    """
    return {
        "machine": machine.name,
        "start": machine.states[0].name,
        "states": [
            {
                "name": one.name, "asks": one.asks, "action": one.action, "about": one.about,
                "on": dict(one.on), "back": dict(one.back), "limit": one.limit,
            }
            for one in machine.states
        ],
    }  # fmt: skip


def mermaid(machine: Machine) -> str:
    """A Mermaid flowchart: work states as boxes, decisions as rhombs, ways back dashed.

    Args:
        machine: its states.
    """
    lines = ["flowchart TD", '    start(["question"])']
    for state in machine.states:
        text = f'"{state.name}<br/>{state.action or state.about}"'
        lines.append(f"    {state.name}{f'[{text}]' if state.action else f'{{{text}}}'}")
    lines += [f'    {END}(["the answer"])', f'    {_LIMIT}(["a limit is met"])']
    lines.append(f"    start --> {machine.states[0].name}")
    for one in _lines(machine):
        lines.append(f'    {one.start} {"-.->" if one.back else "-->"}|"{one.words}"| {one.end}')
    lines.append(f"    {_LIMIT} -.-> {machine.closing[0]}")
    return "\n".join(lines) + "\n"


def svg(machine: Machine) -> str:
    """A self-contained SVG picture: states in a column, ways back at the left, no script.

    Args:
        machine: its states.
    """
    names = [one.name for one in machine.states] + [END]
    tops = {name: _EDGE + at * (_HIGH + _GAP) for at, name in enumerate(names)}
    lines = list(_lines(machine))
    at = {name: place for place, name in enumerate(names)}
    beside = [one for one in lines if at[one.end] != at[one.start] + 1]
    lefts = _lanes([one for one in beside if at[one.end] < at[one.start]], at)
    rights = _lanes([one for one in beside if at[one.end] > at[one.start]], at)
    left = _EDGE + _SIDE + _LANE * max(lefts.values(), default=0)
    width = left + _WIDE + _LANE * max(rights.values(), default=0) + _SIDE + _EDGE
    height = tops[END] + _HIGH + _EDGE
    parts = [_down(one, tops, left) for one in lines if one not in beside]
    parts += [_around(one, tops, left, -lane) for one, lane in lefts.items()]
    parts += [_around(one, tops, left + _WIDE, lane) for one, lane in rights.items()]
    parts += [_box(state, left, tops[state.name]) for state in machine.states]
    parts.append(
        f'<rect class="answer" x="{left}" y="{tops[END]}" width="{_WIDE}" height="{_HIGH}" '
        f'rx="28"/><text class="name" x="{left + _WIDE / 2:g}" y="{tops[END] + 33}">answer</text>'
    )
    title = f"The states of {machine.name}; a limit leads to {machine.closing[0]}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f'<rect class="page" width="100%" height="100%"/>{_TIP}{"".join(parts)}</svg>\n'
    )


_STYLE = (
    "text{font-family:system-ui,'DejaVu Sans',sans-serif;text-anchor:middle}"
    ".page{fill:#fff}.work{fill:#e4f1ea;stroke:#3c7d5a}.decision{fill:#f4f6fb;stroke:#5b6b8c}"
    ".answer{fill:#fff3d6;stroke:#a87b16}.name{font-size:15px;font-weight:600;fill:#1c2333}"
    ".about,.word{font-size:11px;fill:#4a5570}.word{paint-order:stroke;stroke:#fff;stroke-width:5}"
    ".from{text-anchor:end}.to{text-anchor:start}"
    ".line{fill:none;stroke:#7c879d;stroke-width:1.6}.back{stroke-dasharray:5 4}.tip{fill:#7c879d}"
    "@media(prefers-color-scheme:dark){.page{fill:#14171f}.decision{fill:#232a3a}"
    ".work{fill:#1e3329}.answer{fill:#3a3016}.name{fill:#e8ecf5}.about,.word{fill:#b4bdd0}"
    ".word{stroke:#14171f}}"
)
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
)


def _lines(machine: Machine) -> Iterator[_Line]:
    for state in machine.states:
        on, aside = dict(state.on), dict(state.back)
        if state.limit == END:
            # Beside another way to the same end, it is a word more on that way's line.
            (on if END in on.values() else aside)[_LIMIT] = END
        for back, outcomes in ((False, on), (True, aside)):
            for end, words in _together(outcomes).items():
                yield _Line(state.name, end, words, back)


def _together(outcomes: Mapping[str, str]) -> dict[str, str]:
    """Outcomes by where they lead."""
    found: dict[str, list[str]] = {}
    for outcome, end in outcomes.items():
        found.setdefault(end, []).append(outcome)
    return {end: ", ".join(words) for end, words in found.items()}


def _lanes(lines: Sequence[_Line], at: Mapping[str, int]) -> dict[_Line, int]:
    """Which lane beside the boxes each line has, so that none lies on another; short ones first."""
    taken: list[set[int]] = []
    found: dict[_Line, int] = {}
    for line in sorted(lines, key=lambda one: abs(at[one.end] - at[one.start])):
        rows = set(range(min(at[line.start], at[line.end]), max(at[line.start], at[line.end]) + 1))
        lane = next((one for one, used in enumerate(taken) if not used & rows), len(taken))
        if lane == len(taken):
            taken.append(set())
        taken[lane] |= rows
        found[line] = lane + 1
    return found


def _box(state: State, left: float, top: float) -> str:
    kind, middle = ("work" if state.action else "decision"), left + _WIDE / 2
    return (
        f'<rect class="{kind}" x="{left}" y="{top}" width="{_WIDE}" height="{_HIGH}" rx="8"/>'
        f'<text class="name" x="{middle:g}" y="{top + 23}">{escape(state.name)}</text>'
        f'<text class="about" x="{middle:g}" y="{top + 42}">{escape(state.about)}</text>'
    )


def _down(line: _Line, tops: Mapping[str, int], left: float) -> str:
    x, y = left + _WIDE / 2, tops[line.start] + _HIGH
    return (
        f'<path class="line" marker-end="url(#tip)" d="M{x:g} {y}L{x:g} {tops[line.end]}"/>'
        f'<text class="word to" x="{x + 8:g}" y="{y + 31}">{escape(line.words)}</text>'
    )


def _around(line: _Line, tops: Mapping[str, int], side: float, lane: int) -> str:
    """A line beside the boxes, in a lane to the right, or to the left where that is below 0."""
    shift = min(7 * abs(lane), 24)
    start, end = tops[line.start] + _HIGH / 2 + shift, tops[line.end] + _HIGH / 2 - shift
    x = side + _LANE * lane
    kind, anchor, gap = (" back" if line.back else ""), *(("from", -5) if lane < 0 else ("to", 5))
    return (
        f'<path class="line{kind}" marker-end="url(#tip)" '
        f'd="M{side:g} {start:g}L{x:g} {start:g}L{x:g} {end:g}L{side:g} {end:g}"/>'
        f'<text class="word {anchor}" x="{x + gap:g}" y="{(start + end) / 2 + 4:g}">'
        f"{escape(line.words)}</text>"
    )
