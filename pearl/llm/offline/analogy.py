"""The next step of a decomposition by analogy with examples.

A question that differs from an example's only in what it names (a number, a
name, a quoted text) is taken apart in the same way, with its own names in the
places of the example's. Nothing is known of any task: what stands for what is
read off the examples, by which of their questions' words their steps hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pearl.llm.calls import NextStep, Worked
from pearl.llm.offline.slots import form, holds, named, naming, outermost
from pearl.plan import Arg, Items, Literal, Ref, Step, Template
from pearl.syntax import parse, print_step
from pearl.values import Value


@dataclass(frozen=True)
class Pattern:
    """What questions like an example's look like.

    Args:
        form: matches them; its groups are what the slots stand for.
        slots: the example's own words at those places, in the groups' order.
        steps: the example's steps.
        shapes: of what each step gave; empty where that is not known.
        returns: names of the outputs that were the answer.
        fixed: how many characters of the question are no slot.
    """

    form: re.Pattern[str]
    slots: tuple[str, ...]
    steps: tuple[Step, ...]
    shapes: tuple[str, ...]
    returns: tuple[str, ...]
    fixed: int


def next_step(call: NextStep) -> str:
    """The step, or ``return`` and a name; empty where no example is like the question."""
    done = [(_read(written), _shape(value)) for written, value in call.steps]
    if any(step is None for step, _ in done):
        return ""
    best: tuple[tuple[int, int, int], str] | None = None
    for order, worked in enumerate(call.demonstrations):
        pattern = _pattern(worked)
        found = pattern.form.fullmatch(" ".join(call.question.split())) if pattern else None
        if pattern is None or found is None or len(done) > len(pattern.steps):
            continue
        filled = dict(zip(pattern.slots, found.groups(), strict=True))
        steps = [step for step, _ in done if step is not None]
        written = _written(pattern, filled, steps)
        if written is None:
            continue
        differ = sum(
            bool(one and one != shape)
            for one, (_, shape) in zip(pattern.shapes, done, strict=False)
        )
        score = (differ, -pattern.fixed, order)
        if best is None or score < best[0]:
            best = score, written
    return best[1] if best else ""


@lru_cache(maxsize=512)
def _pattern(worked: Worked) -> Pattern | None:
    steps = [_read(written) for written, _ in worked.steps]
    if any(step is None for step in steps):
        return None
    known = tuple(step for step in steps if step is not None)
    question = " ".join(worked.question.split())
    slots = _slots(question, known)
    asked, order = form(question, slots)
    return Pattern(
        asked,
        order,
        known,
        tuple(_shape(value) for _, value in worked.steps),
        worked.returns,
        len(question) - sum(map(len, order)),
    )


def _read(written: str) -> Step | None:
    steps = parse(written).plan.steps
    return steps[0] if len(steps) == 1 else None


def _slots(question: str, steps: Sequence[Step]) -> list[str]:
    """The question's words that its steps hold too, the longest first.

    A text that a step is given as a whole counts wherever the question has
    it; within a longer text only what names something does. Steps that put the
    question itself elsewhere, and nothing else of it, can do so with any.
    """
    whole: set[str] = set()
    inner: set[str] = set()
    known = named(question)
    texts = [text for step in steps for text in _texts(step.args)]
    for text in texts:
        if text == question:
            continue
        if holds(question, text):
            whole.add(text)
        inner |= {one for one in known if naming(one, question) and holds(text, one)}
    return outermost(whole | inner) or [question][: question in texts]


def _texts(args: Sequence[Arg]) -> Iterator[str]:
    """Every text and number that arguments hold, as it would stand in a question."""
    for arg in args:
        match arg:
            case Literal():
                yield from _plain(arg.value)
            case Template():
                yield from (part for part in arg.parts if isinstance(part, str))
            case Items():
                yield from _texts(arg.items)
            case Ref():
                pass


def _plain(value: Value) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _plain(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _written(pattern: Pattern, filled: Mapping[str, str], done: Sequence[Step]) -> str | None:
    """The step after those that were written, in the names of this question."""
    names = {old.name: new.name for old, new in zip(pattern.steps, done, strict=False)}
    if any(old.action != new.action for old, new in zip(pattern.steps, done, strict=False)):
        return None
    if len(done) == len(pattern.steps):
        last = pattern.returns or (pattern.steps[-1].name,) if pattern.steps else pattern.returns
        return f"return {', '.join(names.get(one, one) for one in last)}" if last else None
    step = pattern.steps[len(done)]
    args = tuple(_filled(arg, filled, names) for arg in step.args)
    return print_step(replace(step, args=args, note="", comments=()))


def _filled(arg: Arg, filled: Mapping[str, str], names: Mapping[str, str]) -> Arg:
    match arg:
        case Ref():
            return replace(arg, name=names.get(arg.name, arg.name))
        case Literal():
            return Literal(_value(arg.value, filled))
        case Template():
            parts = tuple(
                _replaced(part, filled) if isinstance(part, str)
                else replace(part, name=names.get(part.name, part.name))
                for part in arg.parts
            )  # fmt: skip
            return Template(parts)
        case Items():
            return Items(tuple(_filled(one, filled, names) for one in arg.items))


def _value(value: Value, filled: Mapping[str, str]) -> Value:
    if isinstance(value, list):
        return [_value(item, filled) for item in value]
    if isinstance(value, str):
        return _replaced(value, filled)
    if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in filled:
        return _number(filled[str(value)])
    return value


def _number(text: str) -> Value:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _replaced(text: str, filled: Mapping[str, str]) -> str:
    if not filled:
        return text
    places = "|".join(
        rf"(?<!\w){re.escape(one)}(?!\w)" for one in sorted(filled, key=len, reverse=True)
    )
    return re.sub(places, lambda found: filled[found[0]], text)


def _shape(value: str) -> str:
    """What kind of output it is: of a list, whether it has none, one or several items."""
    if not value:
        return ""
    try:
        data = json.loads(value)
    except ValueError:
        return "text"
    if isinstance(data, dict):
        data = data.get("pairs", [])
    if isinstance(data, list):
        return ("none", "one", "several")[min(2, len(data))]
    return str(data).lower() if isinstance(data, bool) else type(data).__name__
