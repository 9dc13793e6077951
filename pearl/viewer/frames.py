"""A run's frame, as a page's template takes it: plan and findings, planning, steps, answer."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pearl import draw
from pearl.checker import check
from pearl.diagnostics import has_errors
from pearl.graph import dependencies, outputs
from pearl.library import Library, load_library
from pearl.plan import Plan
from pearl.resources import actions
from pearl.runtime.evidence import without_quotes
from pearl.source import InputError, Source
from pearl.syntax import parse
from pearl.values import canonical_json
from pearl.viewer.calls import Made
from pearl.viewer.colours import Line, coloured
from pearl.viewer.gather import Draft, Frame
from pearl.viewer.passages import Passage
from pearl.viewer.steps import Shown, shown_steps
from pearl.viewer.words import count, lines, shown

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
    shipped = actions()
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
    data = base64.b64encode(draw.svg(plan).encode("utf-8", "replace")).decode()
    return f"data:image/svg+xml;base64,{data}"


def _pictured(plan: Plan) -> str:
    needs = dependencies(plan.steps)
    told = [f"{name} uses {', '.join(uses) or 'no other step'}" for name, uses in needs.items()]
    return f"Which step uses which: {'; '.join(told)}. The answer: {', '.join(outputs(plan))}."
