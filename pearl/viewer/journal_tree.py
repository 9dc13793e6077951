"""A run's journal as a tree: the run and each try of a refinement, their steps, and every call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pearl.lang.ast import Plan, Step
from pearl.lang.graph import dependencies, outputs
from pearl.lang.parser import parse
from pearl.lang.values import DecodeError, Pairs, Value, as_text, from_json
from pearl.models.base import Usage
from pearl.runtime.calls import PROVE, Entry
from pearl.runtime.evidence import evidence_key
from pearl.store.history import RunRow, read_entries, since_last_start
from pearl.store.totals import Totals

if TYPE_CHECKING:
    from sqlalchemy import Engine

PLANNING = "planning"
"""The stage of the calls that write a plan."""

MAPPING = "option"
"""The stage of the call that maps the answer to an option."""

_CAUSES = {
    "failed": "Its reply was cut, or held no value of the kind that was wanted.",
    "not run": "The run ended before it.",
}
_TITLES = {PROVE: "Short test calls", PLANNING: "Planning", MAPPING: "Choice of an option"}
_TRY = re.compile(r"(try/\d+)/(.+)", re.DOTALL)
_REPLY = re.compile(r"plan/(\d+)")
_NOTE = re.compile(r"plan/(\d+)/(aside|rejected)")
_PLACED = frozenset(
    """
    answer option option/text failed judgement notice marks plan/passes plan/fallback context
    """.split()
)
"""Decisions that have their own place on a page."""


@dataclass(frozen=True, slots=True)
class CallNode:
    """A call with its reply or error, and its failed tries.

    Args:
        entry: the journal's last entry about it; its path is that in its frame of the run, as
            ``step/ross[2]``.
        tries: the failed tries, in order; the last of them is ``entry`` where none succeeded.
    """

    entry: Entry
    tries: tuple[Entry, ...] = ()

    @property
    def stage(self) -> str:
        """What it belongs to: a step's name, `PLANNING`, `MAPPING`, or the path's first part."""
        head, _, rest = self.entry.path.partition("/")
        if head == "step":
            return rest.partition("/")[0].partition("[")[0]
        return {"plan": PLANNING, "map": MAPPING}.get(head, head)

    @property
    def label(self) -> str:
        """The list item it is for, counted from 1, and what it was for within the step."""
        own, _, below = self.entry.path.removeprefix("step/").partition("/")
        number = own.partition("[")[2].removesuffix("]")
        label = f"item {int(number) + 1}" if number.isdigit() else "the whole step"
        return f"{label}, {below}" if below else label

    @property
    def done(self) -> bool:
        """Whether it got a reply."""
        return self.entry.status == "done"

    @property
    def kept(self) -> bool:
        """Whether its reply was in the cache, so that nothing was sent."""
        return self.done and self.entry.kept

    @property
    def reply(self) -> str:
        """The model's reply, word for word; empty where the call failed."""
        return str(self.entry.value or "") if self.done else ""

    @property
    def started(self) -> float | None:
        """When it began, in seconds since 1970; None where the journal does not say."""
        return self.entry.started if self.done or not self.tries else self.tries[0].started

    @property
    def seconds(self) -> float:
        """How many seconds it took, including failed tries and the waits between them."""
        last, first = self.entry, self.started
        if self.done or not self.tries:
            return last.seconds
        if first is None or last.started is None:
            return sum(attempt.seconds for attempt in self.tries)
        return last.started + last.seconds - first

    @property
    def spent(self) -> Usage:
        """Tokens of all tries that were sent; none where the reply was in the cache."""
        failed = sum((attempt.usage for attempt in self.tries), Usage())
        return failed + self.entry.usage if self.done and not self.entry.kept else failed


def count_calls(calls: Iterable[CallNode]) -> Totals:
    """Totals of some calls; the seconds are the sum of their durations."""
    models: dict[str, Totals] = {}
    for call in calls:
        made, failed = call.done and not call.kept, len(call.tries)
        totals = Totals(made, call.kept, failed, call.spent, seconds=call.seconds)
        models[call.entry.model] = models.get(call.entry.model, Totals()) + totals
    return replace(sum(models.values(), Totals()), models=models)


@dataclass(frozen=True, slots=True)
class Draft:
    """A reply in which the model wrote a plan.

    Args:
        number: counted from 1.
        call: the call with the reply.
        rejected: the codes of the errors for which the checker rejected it.
        aside: parts of the reply that belong to no plan.
        cut: whether it ended at its token limit, and the model was asked to continue it.
    """

    number: int
    call: CallNode
    rejected: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The result of a step of the plan.

    Args:
        number: counted from 1.
        step: the step in the plan.
        state: ``done``, ``failed``, ``skipped`` or ``not run``.
        cause: why it has no output; empty where it has one.
        value: its output; None where it has none.
        calls: the calls it made.
        inner: the decisions in frames inside it.
    """

    number: int
    step: Step
    state: str
    cause: str
    value: Value | None
    calls: tuple[CallNode, ...]
    inner: tuple[Entry, ...]

    @property
    def items(self) -> list[tuple[str, str]]:
        """The items of its output, each with its key or number; empty where it is no list."""
        if isinstance(self.value, Pairs):
            return [(as_text(key), as_text(item)) for key, item in self.value]
        if isinstance(self.value, list):
            return [(str(at), as_text(item)) for at, item in enumerate(self.value, 1)]
        return []

    @property
    def text(self) -> str:
        """Its output as a text, unless that is a list with items; empty where there is none."""
        if self.value is None or self.items:
            return ""
        if isinstance(self.value, list | Pairs):
            return "nothing: an empty list"
        return as_text(self.value) or "an empty text"


@dataclass(frozen=True, slots=True)
class Stage:
    """Calls that belong together: planning, or one step.

    Args:
        key: unique in the run.
        title: as a reader sees it.
        calls: in any order.
        after: the keys of the stages whose results it waited for.
    """

    key: str
    title: str
    calls: tuple[CallNode, ...]
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FrameNode:
    """A whole run, or one try of a refinement.

    Args:
        name: empty, or ``try/0`` and so on.
        text: the plan that ran last, in canonical form; empty where none did.
        plan: the same plan, parsed.
        calls: its calls, in the order in which they ended.
        drafts: the replies of planning.
        steps: the results of the plan's steps.
        values: the outputs of steps by name, including steps that the plan no longer has; and what
            they quote, under `evidence_key`.
        passages: by the path of a step's call, the parts of the document that it was given.
        decisions: the other decisions, by path: ``answer``, ``option``,
            ``failed``, ``context``, ``plan/passes`` and so on.
    """

    name: str
    text: str
    plan: Plan
    calls: tuple[CallNode, ...]
    drafts: tuple[Draft, ...]
    steps: tuple[StepRecord, ...]
    values: Mapping[str, Value]
    passages: Mapping[str, Mapping[str, Any]]
    decisions: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Its title: empty for the run itself, else ``Try 1`` and so on."""
        number = self.name.partition("/")[2]
        return f"Try {int(number) + 1}" if number else ""

    @property
    def answer(self) -> str | None:
        """The answer, including quotes; None where there is none."""
        answer = self.decisions.get("answer")
        return str(answer.get("text", "")) if isinstance(answer, dict) else None

    @property
    def ends(self) -> tuple[str, ...]:
        """The steps that make up the answer, as far as their outputs are known."""
        answer = self.decisions.get("answer")
        names = map(str, answer.get("outputs", ())) if isinstance(answer, dict) else ()
        return tuple(name for name in names if name in self.values)

    @property
    def written(self) -> str:
        """The plan to show: the one that ran, else the last one that was written."""
        if self.text:
            return self.text
        last = self.drafts[-1] if self.drafts else None
        return last.call.reply if last and not last.rejected else ""

    @property
    def choosing(self) -> tuple[CallNode, ...]:
        """The calls that map the answer to an option."""
        return tuple(call for call in self.calls if call.stage == MAPPING)

    @property
    def other_calls(self) -> tuple[CallNode, ...]:
        """The calls that are not for a step, a plan or an option."""
        stages = {step.step.name for step in self.steps} | {MAPPING}
        drafts = {draft.call.entry.path for draft in self.drafts}
        others = (call for call in self.calls if call.stage not in stages)
        return tuple(call for call in others if call.entry.path not in drafts)

    @property
    def others(self) -> dict[str, Any]:
        """Decisions that have no place of their own on a page, by path."""
        return {path: value for path, value in self.decisions.items() if path not in _PLACED}

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show of it."""
        parts = (self.decisions.get("failed"), self.written, self.drafts, self.steps, self.others)
        return self.answer is None and not any(parts)


def read_journal(engine: Engine, run: RunRow, item: str = "") -> list[Entry]:
    """The journal of a run, or of one of its questions, since it was last started."""
    return since_last_start(list(read_entries(engine, run, item)))


def head_of(entries: Sequence[Entry]) -> dict[str, Any]:
    """The head of a journal; empty where it has none."""
    value = next((entry.value for entry in entries if entry.path == "run"), None)
    return value if isinstance(value, dict) else {}


def read_frames(entries: Sequence[Entry]) -> list[FrameNode]:
    """A journal as frames: the run's own first, then each try of a refinement.

    Args:
        entries: the entries since the run was last started, in order.
    """
    frames: dict[str, list[Entry]] = {"": []}
    for entry in entries:
        match = _TRY.fullmatch(entry.path)
        name, path = match.groups() if match else ("", entry.path)
        frames.setdefault(name, []).append(entry._replace(path=path))
    return [_read_frame(name, own) for name, own in frames.items()]


def read_calls(entries: Iterable[Entry]) -> list[CallNode]:
    """A journal's calls, in the order in which they ended.

    Args:
        entries: of one frame, in order.
    """
    calls: list[CallNode] = []
    pending: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.kind != "call":
            continue
        place = (entry.path, entry.call_key)
        tries = pending.get(place, [])
        if tries and entry.attempt <= tries[-1].attempt:
            # The call was made again after all its tries had failed.
            calls.append(CallNode(tries[-1], tuple(tries)))
            tries = []
        if entry.status == "done":
            pending.pop(place, None)
            calls.append(CallNode(entry, tuple(tries)))
        else:
            pending[place] = [*tries, entry]
    calls += (CallNode(tries[-1], tuple(tries)) for tries in pending.values())
    return calls


def _read_frame(name: str, entries: Sequence[Entry]) -> FrameNode:
    values: dict[str, Value] = {}
    skipped: dict[str, str] = {}
    passages: dict[str, Mapping[str, Any]] = {}
    decisions: dict[str, Any] = {}
    inner: list[Entry] = []
    for entry in entries:
        head, _, rest = entry.path.partition("/")
        if entry.kind == "call" or entry.path == "run":
            continue
        if head == "step" and entry.status == "skipped" and "/" not in rest:
            skipped[rest] = entry.cause
        elif head == "step":
            inner.append(entry)
        elif head in ("value", "evidence"):
            key = rest if head == "value" else evidence_key(rest)
            try:
                values[key] = from_json(entry.value)
            except DecodeError:
                # A later version of Pearl may have kinds of values that this one does not know.
                values[key] = str(entry.value)
        elif head == "context" and rest and isinstance(entry.value, dict):
            passages[rest] = entry.value
        else:
            decisions[entry.path] = entry.value
    text = str(decisions.pop("plan", "") or "")
    calls = tuple(read_calls(entries))
    drafts = tuple(_drafts(calls, decisions))
    plan = parse(text, "plan").plan
    steps = []
    for number, step in enumerate(plan.steps, 1):
        own = tuple(call for call in calls if call.stage == step.name)
        if step.name in values:
            state, cause = "done", ""
        elif step.name in skipped:
            state, cause = "skipped", skipped[step.name]
        else:
            cause = next((call.entry.cause for call in own if not call.done), "")
            failed = str(decisions.get("failed", ""))
            if not cause and failed.startswith(f"Step {step.name} has no output: "):
                cause = failed
            state = "failed" if cause or own else "not run"
            cause = cause or _CAUSES[state]
        under = (f"step/{step.name}/", f"step/{step.name}[")
        within = tuple(entry for entry in inner if entry.path.startswith(under))
        steps.append(StepRecord(number, step, state, cause, values.get(step.name), own, within))
    return FrameNode(name, text, plan, calls, drafts, tuple(steps), values, passages, decisions)


def _drafts(calls: Iterable[CallNode], decisions: dict[str, Any]) -> list[Draft]:
    """The replies of planning; notes about them are removed from ``decisions``."""
    notes: dict[tuple[int, str], tuple[str, ...]] = {}
    for path in list(decisions):
        match = _NOTE.fullmatch(path)
        if match and isinstance(decisions[path], list):
            notes[int(match[1]), match[2]] = tuple(map(str, decisions.pop(path)))
    drafts = []
    for call in calls:
        if match := _REPLY.fullmatch(call.entry.path):
            number = int(match[1])
            rejected, aside = (notes.get((number, kind), ()) for kind in ("rejected", "aside"))
            cut = decisions.pop(f"plan/{number}/cut", None) is not None
            drafts.append(Draft(number, call, rejected, aside, cut))
    return sorted(drafts, key=lambda draft: draft.number)


def read_stages(frames: Iterable[FrameNode]) -> list[Stage]:
    """The stages of all frames that made calls, in an order in which they may run; each try of a
    refinement waits for the one before."""
    stages: list[Stage] = []
    before: tuple[str, ...] = ()
    for frame in frames:
        own = list(_stages(frame, before))
        stages += own
        before = tuple(stage.key for stage in own) or before
    return stages


def _stages(frame: FrameNode, start: tuple[str, ...]) -> Iterator[Stage]:
    head = f"{frame.name}/" if frame.name else ""
    calls: dict[str, list[CallNode]] = {}
    for call in frame.calls:
        calls.setdefault(call.stage, []).append(call)

    def stage(name: str, title: str, after: tuple[str, ...]) -> Stage:
        title = f"{frame.title}: {title}" if head else title
        return Stage(head + name, title, tuple(calls.pop(name)), after)

    if PROVE in calls:
        # They are made when a form is first demanded, whatever calls there were before.
        yield stage(PROVE, _TITLES[PROVE], ())
    if PLANNING in calls:
        yield stage(PLANNING, _TITLES[PLANNING], start)
        start = (head + PLANNING,)
    needs = dependencies(frame.plan.steps)
    # For each step the stages to wait for: its own, or, if it made no call, those it waited for.
    behind: dict[str, tuple[str, ...]] = {}

    def stages_behind(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for name in names for key in behind.get(name, ()))) or start

    for number, step in enumerate(frame.plan.steps, 1):
        after = behind[step.name] = stages_behind(needs[step.name])
        if step.name in calls:
            yield stage(step.name, f"{number}. {step.name}", after)
            behind[step.name] = (head + step.name,)
    last = stages_behind(outputs(frame.plan))
    for name in list(calls):
        yield stage(name, _TITLES.get(name, name), last)
