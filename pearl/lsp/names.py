"""Where a plan writes names: of steps, of actions, of the document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from pearl.plan import Mode, Ref, step_refs
from pearl.source import Span
from pearl.syntax import Parsed

NAME = re.compile(r"\$?(?:[^\W\d]|\\_)(?:\w|\\_)*")
"""A name as plans may write it: with a shell's dollar sign, with Markdown's backslashes."""


class Role(Enum):
    """What a name is there for."""

    DEFINES = auto()
    USES = auto()
    CALLS = auto()
    DECLARES = auto()


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a plan.

    Args:
        name: without the marks it may be written with.
        role: a step's output, a reference, a call, a new action.
        span: the name alone.
        whole: with the mode before it, and a template's braces around it.
        mode: how a reference is taken.
    """

    name: str
    role: Role
    span: Span
    whole: Span
    mode: Mode = Mode.PLAIN

    @property
    def is_variable(self) -> bool:
        """Whether it names a step's output, or what stands where one may."""
        return self.role in (Role.DEFINES, Role.USES)


def mentions(parsed: Parsed) -> tuple[Mention, ...]:
    """Every name that a plan's readable lines write, in order."""
    return tuple(sorted(_mentions(parsed), key=lambda one: one.span))


def _mentions(parsed: Parsed) -> Iterator[Mention]:
    text, plan = parsed.plan.source.text, parsed.plan
    for action in plan.declares:
        found = NAME.match(text, action.span.start)
        if found:
            yield Mention(action.name, Role.DECLARES, Span(*found.span()), Span(*found.span()))
    for step in plan.steps:
        yield Mention(step.name, Role.DEFINES, step.name_span, step.name_span)
        yield Mention(step.action, Role.CALLS, step.action_span, step.action_span)
        for ref in step_refs(step):
            yield _use(text, ref)
    for ref in plan.returns:
        yield _use(text, ref)


def _use(text: str, ref: Ref) -> Mention:
    # The mode stands before the name.
    spans = [Span(*found.span()) for found in NAME.finditer(text, *ref.span)]
    return Mention(ref.name, Role.USES, spans[-1] if spans else ref.span, ref.span, ref.mode)
