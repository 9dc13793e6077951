"""Reads plans: never raises, recovers line by line."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count

from pearl.lang import ast
from pearl.lang.ast import Kind
from pearl.lang.grammar import ALMOST, ParseFailure, parse_action, parse_returns, parse_step
from pearl.lang.logical_lines import INSIDE, call_end, inner_step, split, thoughts, unwrap
from pearl.lang.source import Source, Span
from pearl.lang.text import one_line, pattern

_DEFINES = pattern(
    r"[`*\s]*(\$?(?:[^\W\d]|\\_)(?:\w|\\_)*)[`*\s]*(?::=|==?|＝|←|<-|->|:(?=\s*\w+\s*\(|\s*\w+\s*=))"
)
CALLED = pattern(r"[`*\s\"'|]*([^\W\d](?:\w|\\_)*)")
"""The name that an action's line begins with."""

_ASIDE: dict[Kind, ast.AsideKind] = {
    Kind.PROSE: "prose",
    Kind.WRAPPING: "wrapping",
    Kind.THINKING: "thinking",
}
_OF_THE_PLAN = (Kind.STEP, Kind.BROKEN, Kind.ACTION, Kind.RETURN, Kind.INSIDE, Kind.PROSE)


@lru_cache(maxsize=256)
def parse_known(text: str | Source) -> ast.Parsed:
    """`parse` a text that is read many times, such as a demonstration; the result is cached."""
    return parse(text)


def parse(text: str | Source, name: str = "<plan>", before: Sequence[str] = ()) -> ast.Parsed:
    """Read a plan's text, or a model's reply that holds one.

    A reference by number, ``#2``, becomes one by name. A step whose name is taken gets a number,
    ``ross_2``, unless a later reference uses the name.

    Args:
        text: any text at all.
        name: what to call it in messages, when it is not a `Source`.
        before: the names of the steps so far, where the text continues a plan.

    Returns:
        The plan, the lines that were meant for it and cannot be read, and the
        text that is no part of it.
    """
    source = text if isinstance(text, Source) else Source(name, text)
    plain, wrappings = unwrap(source.text)
    lines = split(plain, thoughts(source.text))
    rival = _rival_blocks(plain, lines)
    reader = _Reader(source, plain, lines)
    for line in lines:
        if line.block in rival:
            reader.put_aside("prose", Span(line.begin, line.end))
        else:
            reader.read(line)
    if rival:
        first = next(line for line in lines if line.block in rival)
        span = Span(first.begin, first.end)
        reader.broken.append(ast.Broken("plans", span, span, source=source))
    return reader.finish(lines, wrappings, before)


class _Reader:
    """Collects what the lines hold."""

    def __init__(self, source: Source, text: str, lines: list[ast.Line]) -> None:
        self.source = source
        self.text = text
        self.question = ""
        self.steps: list[ast.Step] = []
        self.numbers: list[tuple[str, str | None]] = []  # of steps; with a broken step's name
        self.declares: list[ast.Action] = []
        self.returns: tuple[ast.Ref, ...] = ()
        self.comments: list[str] = []
        self.head: list[str] = []
        self.broken: list[ast.Broken] = []
        self.aside: list[ast.Aside] = []
        self.last = next((line for line in reversed(lines) if line.kind in _OF_THE_PLAN), None)

    def read(self, line: ast.Line) -> None:
        """Add what one line holds to the plan."""
        match line.kind:
            case Kind.STEP | Kind.BROKEN:
                self._step(line)
            case Kind.ACTION:
                action = parse_action(self.text, Span(line.start, line.end))
                if isinstance(action, ParseFailure):
                    self._fail("action", line, action)
                else:
                    self.declares.append(action)
            case Kind.RETURN:
                start = line.start
                end = start + len(self.text[start : line.end].rstrip(" \t\r;.*`"))
                again = ParseFailure(Span(start, start + len("return")), "RETURN")
                returns = again if self.returns else parse_returns(self.text, Span(start, end))
                if isinstance(returns, ParseFailure):
                    self._fail("return", line, returns)
                else:
                    self.returns = returns
            case Kind.INSIDE:
                at = inner_step(self.text, line.start, line.end)
                named = _DEFINES.match(self.text, at, line.end)
                span = Span(at, named.end(1) if named else at + 1)
                self._fail("step", line, ParseFailure(span, "STEP"), at)
            case Kind.QUESTION:
                words = re.split(r"[:：]", self.text[line.start : line.end], maxsplit=1)[1]
                if question := one_line(words).strip("*_ "):
                    self.question, self.head, self.comments = question, self.comments, []
            case Kind.COMMENT:
                self.comments.append(self.text[line.start : line.end].strip())
            case Kind.HEADER:
                pass
            case _:
                self.put_aside(_ASIDE[line.kind], Span(line.begin, line.end))

    def put_aside(self, kind: ast.AsideKind, span: Span) -> None:
        """Keep text that is no part of the plan; neighbours of a kind become one."""
        last = self.aside[-1] if self.aside else None
        if last and last.kind == kind and not self.text[last.span.end : span.start].strip():
            self.aside[-1] = ast.Aside(kind, Span(last.span.start, span.end))
        else:
            self.aside.append(ast.Aside(kind, span))

    def _step(self, line: ast.Line) -> None:
        step = parse_step(self.text, Span(line.start, line.end))
        if isinstance(step, ParseFailure):
            self._fail("step", line, step)
            return
        if second := _step_in_note(self.text, step) if "=" in step.note else None:
            self._fail("step", line, ParseFailure(second, "STEP", "NOTE"))
        elif step.name.lower() in ast.RESERVED:
            self._fail("step", line, ParseFailure(step.name_span, "RESERVED"))
        elif braces := _bad_braces(self.text, step):
            self._fail("step", line, braces)
        else:
            self.numbers.append((line.number, None))
            if self.comments:
                step = replace(step, comments=tuple(self.comments))
                self.comments = []
            self.steps.append(step)

    def _fail(
        self, kind: ast.BrokenKind, line: ast.Line, failure: ParseFailure, at: int = -1
    ) -> None:
        defines = {"step": _DEFINES, "action": CALLED}.get(kind)
        named = defines.match(self.text, max(at, line.start), line.end) if defines else None
        name = named[1].replace("\\", "").lstrip("$") if named else ""
        if kind == "step":
            self.numbers.append((line.number, name))
        span, last = Span(line.start, line.end), line is self.last
        broken = ast.Broken(kind, span, *failure, name=name, last=last, source=self.source)
        self.broken.append(broken)

    def finish(self, lines: list[ast.Line], wraps: list[Span], before: Sequence[str]) -> ast.Parsed:
        """The plan of all lines, what is broken in it, and what is no part of it."""
        plan = ast.Plan(
            steps=tuple(self.steps),
            question=self.question,
            declares=tuple(self.declares),
            returns=self.returns,
            comments=tuple(self.comments),
            head=tuple(self.head),
            source=self.source,
        )
        if before or len({step.name for step in self.steps}) < len(self.steps):
            plan = _number_repeated(plan, before)
        if "#" in self.text:
            plan = _by_name(plan, self.numbers, before)
        if wraps:
            self.aside = _merge_aside(self.aside, wraps)
        broken = sorted(self.broken, key=lambda broken: broken.span)
        return ast.Parsed(plan, tuple(broken), tuple(self.aside), tuple(lines))


def _merge_aside(aside: list[ast.Aside], wrappings: list[Span]) -> list[ast.Aside]:
    """All that was set aside, in order, and nothing of it twice."""
    everything = [*aside, *(ast.Aside("wrapping", span) for span in wrappings)]
    merged: list[ast.Aside] = []
    for part in sorted(everything, key=lambda part: (part.span.start, -part.span.end)):
        if not merged or part.span.start >= merged[-1].span.end:
            merged.append(part)
    return merged


def _bad_braces(text: str, step: ast.Step) -> ParseFailure | None:
    """Where a text has braces that are no reference, though a person would take them for one."""
    if text.find("{", step.action_span.end, step.span.end) < 0:
        return None
    for arg in step.args:
        if type(arg) is ast.Ref:
            continue
        if match := ALMOST.search(text, *arg.span):
            kind = "BRACES" if match["double"] else "BRACE"
            return ParseFailure(Span(*match.span()), kind, "STRING")
    return None


def _step_in_note(text: str, step: ast.Step) -> Span | None:
    """Where another step begins inside a step's note."""
    if not INSIDE.search(step.note):
        return None
    # Past the action's name the first mark is the call's own parenthesis.
    close = call_end(text, step.action_span.end, step.span.end)
    match = INSIDE.search(text, close, step.span.end)
    # The note's white space is normalized, so the source need not match where the note does.
    return Span(*match.span("name")) if match else Span(close, step.span.end)


def _number_repeated(plan: ast.Plan, before: Sequence[str]) -> ast.Plan:
    """The plan with a number after each name that is taken, unless a later reference uses it.

    With a later reference, nobody knows which of the two steps is meant: the checker reports it.
    """
    referred = {ref.name for ref in plan.returns}
    meant_later: list[bool] = []
    for step in reversed(plan.steps):
        meant_later.append(step.name in referred)
        referred.update(ref.name for ref in ast.step_refs(step))
    names = {*before, *(step.name for step in plan.steps)}
    earlier = set(before)
    numbers: dict[str, Iterator[int]] = {}
    steps: list[ast.Step] = []
    for step in plan.steps:
        unclear = meant_later.pop()
        if step.name in earlier and not unclear:
            ahead = numbers.setdefault(step.name, count(2))
            name = next(new for at in ahead if (new := f"{step.name}_{at}") not in names)
            names.add(name)
            step = replace(step, name=name)
        earlier.add(step.name)
        steps.append(step)
    return replace(plan, steps=tuple(steps))


def _by_name(
    plan: ast.Plan, lines: Sequence[tuple[str, str | None]], before: Sequence[str]
) -> ast.Plan:
    """The plan with references by name in place of those by number.

    Args:
        plan: as written, with references such as ``#2``. One to no step stays as it is.
        lines: for each step its number as written, which counts more than its place, or an empty
            text; and, where its line could not be read, its name.
        before: the names of the steps before these.
    """
    read = iter(plan.steps)
    named = [
        next(read).name if broken is None else broken or f"step_{at}"
        for at, (_, broken) in enumerate(lines, len(before) + 1)
    ]
    written = [re.sub(r"\W", "", number) for number, _ in lines]
    names = {f"#{at}": name for at, name in enumerate([*before, *named], 1)}
    both = [(number, name) for number, name in zip(written, named, strict=True) if number]
    if len(dict(both)) == len(both) and all(number.isdecimal() for number, _ in both):
        # A reference has four digits at most.
        names |= {f"#{int(at)}": name for at, name in both if len(at) <= 4}
    names |= {f"#{at}": name for at, name in enumerate(before, 1)}
    return ast.renamed_plan(plan, names)


def _rival_blocks(text: str, lines: list[ast.Line]) -> frozenset[int]:
    """Code fences that hold another plan than the last one does.

    Several fences are one plan in pieces as long as no name is set twice.
    """
    if not any(line.block for line in lines):
        return frozenset()
    names: dict[int, set[str]] = {}
    for line in lines:
        if line.kind is Kind.STEP:
            named = _DEFINES.match(text, line.start, line.end)
            names.setdefault(line.block, set()).add(named[1] if named else "")
    fenced = [block for block in names if block]
    if len(names) < 2 or not fenced:
        return frozenset()
    final = max(fenced)
    return frozenset(block for block in names if block != final and names[block] & names[final])
