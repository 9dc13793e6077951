"""What each step of a run came to, and what each stage of it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pearl.graph import dependencies, outputs
from pearl.llm import Usage
from pearl.llm.prices import Price
from pearl.plan import Step
from pearl.syntax.printer import print_call
from pearl.values import Pairs, Value, as_text, canonical_json, to_json
from pearl.viewer.calls import MAPPING, PLANNING, Made, item_of
from pearl.viewer.gather import Frame
from pearl.viewer.passages import Passage
from pearl.viewer.timeline import Stage
from pearl.viewer.words import lines, short, shown

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
