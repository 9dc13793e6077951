"""A run's frame, as a page's template takes it: plan and findings, planning, steps, answer.

What each step of a run came to, and what each stage of it cost.

A run, or one item of a job, as a page's template takes it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pearl.lang import graph
from pearl.lang.ast import Plan, Step
from pearl.lang.diagnostics import has_errors
from pearl.lang.graph import dependencies, outputs
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_call
from pearl.lang.source import InputError, Source, shipped_actions
from pearl.lang.values import Pairs, Value, as_text, canonical_json, to_json
from pearl.lint.checker import check
from pearl.models.base import Usage
from pearl.models.prices import Price
from pearl.run.evidence import without_quotes
from pearl.run.journal import Entry
from pearl.viewer.documents import Found, Passage, Piece, cut, passages
from pearl.viewer.journal import MAPPING, PLANNING, Draft, Frame, Made, item_of, read_frames
from pearl.viewer.text import Line, coloured, count, counted, lines, short, shown, took
from pearl.viewer.timeline import Stage, Timeline, draw, timeline

PREVIEW = 110
"""Characters of an output that stand beside a closed step."""

_TITLES = {PLANNING: "Planning", MAPPING: "Choice of an option"}


@dataclass(frozen=True, slots=True)
class Said:
    """A call as the page lists it.

    Args:
        call: the call.
        label: its item's number, or what it was for.
        reply: what the model wrote, to the letter; empty where the step's output says as much.
        passages: what it was given in place of the whole document; empty for none.
    """

    call: Made
    label: str
    reply: str
    passages: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A step as the page shows it.

    Args:
        number: counted from 1.
        anchor: names it in links; of letters and digits.
        name: its name.
        action: what it calls.
        written: the call as written.
        note: what it is for.
        state: ``done``, ``failed``, ``skipped`` or ``not run``.
        cause: why it has no output.
        text: its output; empty where there is none, or a list.
        items: its output's items, each with its key, or its number.
        preview: the output's beginning.
        calls: what was asked for it.
        spent: tokens of all that was sent for it.
        seconds: its calls' times, added up.
        quotes: those in its output.
        inner: what the frames within it came to, by path.
    """

    number: int
    anchor: str
    name: str
    action: str
    written: str
    note: str
    state: str
    cause: str
    text: str
    items: tuple[tuple[str, str], ...]
    preview: str
    calls: tuple[Said, ...]
    spent: Usage
    seconds: float
    quotes: tuple[Passage, ...] = ()
    inner: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a stage of a run took.

    Args:
        title: the stage's.
        made: calls that were sent and answered.
        kept: calls that needed no sending.
        vain: tries that got no usable answer.
        spent: tokens of everything that was sent.
        cost: in millionths of a dollar; None where no price is known.
        seconds: the calls' times, added up.
    """

    title: str
    made: int
    kept: int
    vain: int
    spent: Usage
    cost: int | None
    seconds: float

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.spent.prompt_tokens + self.spent.completion_tokens


def shown_steps(frame: Frame, found: Sequence[Passage], prefix: str) -> list[Shown]:
    """A frame's steps, in the plan's order.

    Args:
        frame: what the journal says of it.
        found: the quotes of its outputs.
        prefix: begins the steps' anchors.
    """
    return [
        _shown(number, step, frame, found, f"{prefix}{number}")
        for number, step in enumerate(frame.plan.steps, 1)
    ]


def stages_of(frame: Frame, before: Sequence[str] = ()) -> list[Stage]:
    """A frame's stages, in the order in which they may run.

    Args:
        frame: what the journal says of it.
        before: the keys of the stages that it began after.
    """
    head = f"{frame.name}/" if frame.name else ""
    grouped: dict[str, list[Made]] = {}
    for call in frame.calls:
        grouped.setdefault(call.stage, []).append(call)
    found: list[Stage] = []
    start = tuple(before)

    def add(stage: str, title: str, after: Sequence[str], decided: float | None = None) -> None:
        calls = tuple(grouped.pop(stage, ()))
        named = f"{frame.title}: {title}" if head else title
        found.append(Stage(head + stage, named, calls, tuple(after), decided))

    if PLANNING in grouped:
        add(PLANNING, _TITLES[PLANNING], start)
        start = (head + PLANNING,)
    needs = dependencies(frame.plan.steps)
    for number, step in enumerate(frame.plan.steps, 1):
        after = [head + name for name in needs[step.name]] or start
        add(step.name, f"{number}. {step.name}", after, frame.decided.get(step.name))
    last = [head + name for name in outputs(frame.plan)] or start
    for stage in list(grouped):
        add(stage, _TITLES.get(stage, stage), last)
    return found


def cost_of(title: str, calls: Iterable[Made], price: Price | None) -> Cost:
    """What some calls took."""
    every = list(calls)
    spent = sum((one.spent for one in every), Usage())
    return Cost(
        title,
        sum(one.done and not one.kept for one in every),
        sum(one.kept for one in every),
        sum(len(one.tries) for one in every),
        spent,
        None if price is None else price.cost(spent),
        sum(one.seconds for one in every),
    )


def _shown(number: int, step: Step, frame: Frame, found: Sequence[Passage], anchor: str) -> Shown:
    calls = [call for call in frame.calls if call.stage == step.name]
    value = frame.values.get(step.name)
    text, items = ("", ()) if value is None else _output(value)
    preview = " · ".join(one for _, one in items) if items else text
    if value is not None and not preview:
        text = "nothing: an empty list" if isinstance(value, list | Pairs) else "an empty text"
        preview = text
    state, cause = _state(step, frame, calls)
    under = f"step/{step.name}"
    inner = tuple(
        (shown(one.path), lines(_decided(one.value) or one.cause))
        for one in frame.inner
        if one.path.startswith((f"{under}/", f"{under}["))
    )
    return Shown(
        number, anchor, step.name, step.action, shown(print_call(step)), shown(step.note),
        state, cause, text, items, short(preview, PREVIEW),
        tuple(_said(call, value, frame.passages) for call in calls),
        sum((one.spent for one in calls), Usage()), sum(one.seconds for one in calls),
        tuple(one for one in found if step.name in one.steps), inner,
    )  # fmt: skip


def _state(step: Step, frame: Frame, calls: Sequence[Made]) -> tuple[str, str]:
    """How a step ended, and why it has no output where it has none."""
    if step.name in frame.values:
        return "done", ""
    if step.name in frame.skipped:
        return "skipped", shown(frame.skipped[step.name])
    failed = next((one.entry.cause for one in calls if not one.done), "")
    said = str(frame.told.get("failed", ""))
    if not failed and said.startswith(f"Step {step.name} has no output: "):
        failed = said
    if failed or calls:
        return "failed", shown(failed or "Its reply held no value of the kind that was wanted.")
    return "not run", "The run ended before it."


def _output(value: Value) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A value as text, or as items with their keys."""
    if isinstance(value, Pairs):
        pairs = [(shown(short(as_text(key), 200)), lines(as_text(one))) for key, one in value]
        return "", tuple(pairs)
    if isinstance(value, list):
        return "", tuple((str(at), lines(as_text(one))) for at, one in enumerate(value, 1))
    return lines(as_text(value)), ()


def _said(call: Made, value: Value | None, given: Mapping[str, Mapping[str, object]]) -> Said:
    at = item_of(call.path)
    _, _, below = call.path.removeprefix("step/").partition("/")
    label = f"item {at + 1}" if at is not None else "the whole step"
    reply = str(call.entry.value or "") if call.done else ""
    if value is not None and reply.strip() in _known(value, at):
        reply = ""
    told = given.get(call.path.removeprefix("step/"))
    passages = (
        f"It was given {told.get('passages')} of {told.get('of')} passages of the document, "
        f"{told.get('characters')} characters."
        if told
        else ""
    )
    return Said(call, shown(f"{label}, {below}" if below else label), lines(reply), shown(passages))


def _known(value: Value, at: int | None) -> set[str]:
    """What a reply may say that the step's output, or the item in it, says already."""
    if isinstance(value, Pairs) and at is not None:
        items = list(value)
        if at >= len(items):
            return set()
        value = items[at][1]
    return {as_text(value).strip(), canonical_json(to_json(value))}


def _decided(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return canonical_json(value)


_PLACED = frozenset(
    {"answer", "option", "failed", "judgement", "plan/passes", "plan/fallback", "context"}
)
"""Decisions that have places of their own on the page."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan's text with the checker's findings.

    Args:
        lines: coloured, each with the findings on it.
        findings: how many there are.
        remark: what to know of them; empty for nothing.
    """

    lines: tuple[Line, ...] = ()
    findings: int = 0
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that was to be a plan."""

    number: int
    call: Made
    plan: Checked
    rejected: tuple[str, ...]
    aside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FrameView:
    """A frame on the page. Its texts are ready to be escaped.

    Args:
        anchor: begins the names that links lead to; of letters and digits.
        title: empty for the run itself.
        judgement: what was wrong with a try's answer; None where nothing was said of it.
        answer: the answer, quotes and all; None where there is none.
        words: the answer's own words.
        option: the letter of the option that the answer means; empty where none was asked for.
        failed: why there is no answer; empty where there is one.
        plan: the plan that ran, or the last one that was written.
        picture: its dependencies, as the address of an image; empty where there is no plan.
        pictured: what the image shows, in words.
        replies: those of planning.
        notes: what rewrites did, and what was decided on the model's window.
        fallback: the last reply, where no plan was accepted; empty where one was.
        steps: every step.
        passages: every quote.
        others: what else was decided, by path.
    """

    anchor: str
    title: str
    judgement: str | None
    answer: str | None
    words: str
    option: str
    failed: str
    plan: Checked
    picture: str
    pictured: str
    replies: tuple[Reply, ...]
    notes: tuple[str, ...]
    fallback: str
    steps: tuple[Shown, ...]
    passages: tuple[Passage, ...]
    others: tuple[tuple[str, str], ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show of it."""
        some = (self.answer, self.failed, self.plan.lines, self.replies, self.steps, self.others)
        return not any(some)


def view_frame(
    frame: Frame, found: Sequence[Passage], library: Library | None, anchor: str
) -> FrameView:
    """A frame, put together for a page.

    Args:
        frame: what the journal says of it.
        found: the quotes of its outputs.
        library: the actions its plan may call; None where they are not at hand.
        anchor: begins the names that links lead to.
    """
    told = frame.told
    text = frame.answer[1] if frame.answer else None
    plan = frame.plan if frame.text else parse(frame.shown, "plan").plan
    judgement = told.get("judgement")
    return FrameView(
        anchor,
        shown(frame.title),
        None if judgement is None else shown(judgement),
        None if text is None else lines(text),
        lines(without_quotes(text or "")),
        shown(told.get("option") or ""),
        shown(told.get("failed") or ""),
        checked(frame.shown, library, ran=bool(frame.text)),
        _picture(plan),
        shown(_pictured(plan)),
        tuple(_reply(one, library) for one in frame.drafts),
        tuple(map(shown, _notes(told))),
        lines(told.get("plan/fallback") or ""),
        tuple(shown_steps(frame, found, f"{anchor}s")),
        tuple(found),
        tuple(
            (shown(path), lines(value if isinstance(value, str) else canonical_json(value)))
            for path, value in told.items()
            if path not in _PLACED
        ),
    )


def find_library(head: Mapping[str, Any]) -> Library | None:
    """The library that a journal's head names, as it is here and now; None where it is not here."""
    told = head.get("library")
    names = told.split(", ") if isinstance(told, str) and told else []
    shipped = shipped_actions()
    try:
        if not names or not all(name in shipped or Path(name).is_file() for name in names):
            return None
        return load_library(*names)
    except (InputError, OSError, ValueError):
        return None


def checked(text: str, library: Library | None, *, ran: bool) -> Checked:
    """A plan's text, with what the checker says of it today.

    Args:
        text: the plan, as it ran or as a model wrote it.
        library: the actions it may call; None where they are not at hand.
        ran: whether it passed the checker then.
    """
    if not text.strip():
        return Checked()
    source = Source("plan", text)
    if library is None:
        remark = "Its library is not at hand, so the plan was not checked again."
        return Checked(tuple(coloured(source)), 0, remark)
    found = check(parse(source), library)
    remark = ""
    if ran and has_errors(found):
        remark = "It passed the checker when it ran: the library, or a rule, has changed since."
    return Checked(tuple(coloured(source, found)), len(found), remark)


def _reply(draft: Draft, library: Library | None) -> Reply:
    text = str(draft.call.entry.value or "") if draft.call.done else ""
    return Reply(
        draft.number,
        draft.call,
        checked(text, library, ran=False),
        tuple(map(shown, draft.rejected)),
        tuple(map(lines, draft.aside)),
    )


def _notes(told: Mapping[str, Any]) -> list[str]:
    passes = told.get("plan/passes")
    found = [str(one) for one in passes] if isinstance(passes, list) else []
    fitted = told.get("context")
    if isinstance(fitted, dict):
        steps = ", ".join(map(str, fitted.get("steps", ())))
        found.append(
            f"The document has {count(fitted.get('document'))} tokens and the window "
            f"{count(fitted.get('window'))}, of which {count(fitted.get('reply'))} were kept free "
            f"for the reply: it is read in {fitted.get('parts')} parts, for {steps} (policy "
            f"{fitted.get('policy')})."
        )
    return found


def _picture(plan: Plan) -> str:
    """An image of its own, so that neither its style nor anything in it reaches the page."""
    if not plan.steps:
        return ""
    data = base64.b64encode(graph.svg(plan).encode("utf-8", "replace")).decode()
    return f"data:image/svg+xml;base64,{data}"


def _pictured(plan: Plan) -> str:
    needs = dependencies(plan.steps)
    told = [f"{name} uses {', '.join(uses) or 'no other step'}" for name, uses in needs.items()]
    return f"Which step uses which: {'; '.join(told)}. The answer: {', '.join(outputs(plan))}."


@dataclass(frozen=True, slots=True)
class Timed:
    """A call in the table below the timeline.

    Args:
        stage: what it belongs to.
        call: the call.
        start: seconds since the run's first call; None where that is not known.
    """

    stage: str
    call: Made
    start: float | None


@dataclass(frozen=True, slots=True)
class RunView:
    """What a page of a run shows beside its head.

    Args:
        frames: the run's own first, then the tries of a refinement.
        costs: by stage.
        total: of all stages.
        line: the calls in time; None where that is not known.
        drawn: the same as a picture.
        path: the critical path: stages, and the seconds that each added.
        pieces: the document, cut at its quotes; none where it is not at hand.
        calls: every call, in the order in which they began.
    """

    frames: tuple[FrameView, ...]
    costs: tuple[Cost, ...]
    total: Cost
    line: Timeline | None
    drawn: Markup
    path: tuple[tuple[str, float], ...]
    pieces: tuple[Piece, ...]
    calls: tuple[Timed, ...]


def view_run(
    entries: Sequence[Entry], head: Mapping[str, Any], document: Found, price: Price | None
) -> RunView:
    """What a journal says, put together for a page.

    Args:
        entries: since the run was begun last, in order.
        head: what the journal says first of itself.
        document: what came of looking for the document.
        price: what the model's tokens cost; None where that is not known.
    """
    frames = read_frames(entries)
    library = find_library(head)
    quotes = _quotes(frames, document.text)
    views = [
        view_frame(frame, found, library, f"f{at}")
        for at, (frame, found) in enumerate(zip(frames, quotes, strict=True))
    ]
    stages = _stages(frames)
    line = timeline(stages)
    titles = {one.key: shown(one.title) for one in stages}
    every = [one for found in quotes for one in found]
    return RunView(
        tuple(one for one in views if not one.empty),
        tuple(cost_of(titles[one.key], one.calls, price) for one in stages if one.calls),
        cost_of("Total", [call for one in stages for call in one.calls], price),
        line,
        draw(line, "line", _about(line)) if line else Markup(""),
        tuple((titles[key], seconds) for key, seconds in line.chain) if line else (),
        tuple(cut(document.text, every)) if document.text else (),
        tuple(_timed(stages, line)),
    )


def _stages(frames: Sequence[Frame]) -> list[Stage]:
    """Every frame's stages; a try begins after all of the one before."""
    found: list[Stage] = []
    before: list[str] = []
    for frame in frames:
        some = stages_of(frame, before)
        found += some
        before = [one.key for one in some] or before
    return found


def _quotes(frames: Sequence[Frame], document: Source | None) -> list[list[Passage]]:
    """Each frame's quotes, numbered through the whole page."""
    found: list[list[Passage]] = []
    number = 0
    for frame in frames:
        ends = frame.answer[0] if frame.answer else ()
        known = tuple(name for name in ends if name in frame.values)
        some = passages(frame.plan, frame.values, known, document)
        found.append([replace(one, number=number + one.number) for one in some])
        number += len(some)
    return found


def _timed(stages: Sequence[Stage], line: Timeline | None) -> list[Timed]:
    if line is None:
        return [Timed(shown(one.title), call, None) for one in stages for call in one.calls]
    found = [
        Timed(shown(row.stage.title), bar.call, bar.start) for row in line.rows for bar in row.bars
    ]
    return sorted(found, key=lambda one: one.start or 0.0)


def _about(line: Timeline) -> str:
    number = sum(len(row.bars) for row in line.rows)
    return (
        f"{counted(number, 'call')} in {took(line.seconds)}, at most {line.most} at a time. "
        "The table below the picture lists them."
    )
