"""Chain of thought from the same demonstrations as decompositions, rolled out into texts.

Khot et al., "Decomposed Prompting", ICLR 2023, section 4: the baseline that is
shown what decompositions find, in one prompt and as prose, and answers in one
call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from pearl.library import Library
from pearl.plan import (
    DOCUMENT,
    Action,
    Arg,
    Builtin,
    Items,
    Literal,
    Param,
    Plan,
    Prompt,
    Ref,
    Shown,
    Step,
    Template,
)
from pearl.runtime.bind import mapped
from pearl.strategies.decomp import worked
from pearl.values import DecodeError, Pairs, Value, as_text, canonical_json, from_json, to_json

_SAID = re.compile(r"\banswer is\b:?\s*", re.IGNORECASE)


def rolled_out_plan(question: str, shown: Sequence[Plan], library: Library) -> Plan:
    """The plan of rolled-out chain of thought: one step, with the chains as its examples.

    Args:
        question: what is asked.
        shown: decompositions of other questions, with what their steps gave; those that do not
            say what their answer was are no chains.
        library: the actions that they call.
    """
    chains = ((one.question, chain(one, library)) for one in shown)
    examples = tuple(Shown((Literal(asked),), told) for asked, told in chains if _SAID.search(told))
    action = Action(
        "REASON_AS_SHOWN",
        (Param(DOCUMENT), Param("X")),
        "any",
        "Answer the question X from CTX. Take it apart first, say what each part comes to in CTX, "
        'and end with a line that starts with "The answer is"; several answers stand there as a '
        "JSON array.",
        Prompt(examples),
    )
    step = Step("answer", action.name, (Ref(DOCUMENT), Literal(question)), "Answer the question")
    return Plan((step,), question, (action,))


def chain(plan: Plan, library: Library) -> str:
    """A decomposition as a text: what each step asks, what it gave, and the answer.

    Steps that builtins carry out are passed over, as a reader does such things
    without a word, and so are steps of which it is not known what they gave.

    Args:
        plan: the decomposition, with values in comments.
        library: the actions it calls.
    """
    told = worked(plan)
    values = {
        step.name: value
        for step, (_, text) in zip(plan.steps, told.steps, strict=True)
        if (value := _value(text)) is not None
    }
    lines: list[str] = []
    for step in plan.steps:
        action = library.get(step.action)
        if action is None or step.name not in values or isinstance(action.body, Builtin):
            continue
        found = _lines(step, action, values, plan.question)
        # Steps that only make sure of an answer say nothing new.
        lines += [line for line in found if not any(line in earlier for earlier in lines)]
    names = told.returns or tuple(step.name for step in plan.steps[-1:])
    answers = [_answer(values[name]) for name in names if name in values]
    said = f"The answer is {', '.join(answers)}."
    if answers and not any(said in line for line in lines):
        lines.append(said)
    return "\n".join(lines)


def conclusion(text: str) -> str:
    """What a chain of thought says its answer is, an item a line; else the text as it stands."""
    lines = [line for line in text.splitlines() if not line.startswith(">")]
    said = _SAID.split("\n".join(lines))
    if len(said) == 1:
        return text
    last = said[-1].strip()
    if last.startswith("["):
        try:
            data, _ = json.JSONDecoder().raw_decode(last)
            return as_text(from_json(data))
        except (ValueError, RecursionError):
            pass
    first = last.split("\n", 1)[0].strip()
    return first.removesuffix(".").strip('"') or text


def _lines(step: Step, action: Action, values: Mapping[str, Value], question: str) -> list[str]:
    """A step in words, a line for each item where it runs over several."""
    found, ref = values.get(step.name), mapped(step)
    if isinstance(found, Pairs) and ref is not None and not _filters(ref):
        return [_line(step, action, values, question, key, item) for key, item in found]
    items = values.get(ref.name) if ref is not None else None
    if ref is not None and _filters(ref) and isinstance(items, list) and isinstance(found, list):
        told = ((item, item in found) for item in items)
        return [_line(step, action, values, question, item, kept) for item, kept in told]
    return [_line(step, action, values, question, None, found)]


def _filters(ref: Ref) -> bool:
    return ref.mode.startswith("where")


def _line(
    step: Step,
    action: Action,
    values: Mapping[str, Value],
    question: str,
    item: Value | None,
    found: Value | None,
) -> str:
    args = [_text(arg, values, item) for arg in step.args]
    asked = next((arg for arg in args if arg.endswith(("?", "!", "."))), "")
    if not asked:
        names = [param.name for param in action.params]
        asked = action.doc.rstrip(".") + ":"
        for name, text in zip(names, args, strict=False):
            asked = text.join(re.split(rf"\b{re.escape(name)}\b", asked))
    given = "" if found is None else _told(found)
    return given if asked == question else f"{asked} {given}".strip()


def _text(arg: Arg, values: Mapping[str, Value], item: Value | None) -> str:
    match arg:
        case Ref():
            if arg.name == DOCUMENT:
                return "the text"
            if arg.mode and item is not None:
                return as_text(item)
            return _told(values[arg.name]) if arg.name in values else arg.name
        case Literal():
            return _told(arg.value)
        case Items():
            return ", ".join(_text(one, values, item) for one in arg.items)
        case Template():
            told = (one if isinstance(one, str) else _text(one, values, item) for one in arg.parts)
            return "".join(told)


def _told(value: Value) -> str:
    if isinstance(value, list):
        return ", ".join(map(as_text, value)) or "none"
    return as_text(value)


def _answer(value: Value) -> str:
    return canonical_json(to_json(value)) if isinstance(value, list) else as_text(value)


def _value(text: str) -> Value | None:
    try:
        return from_json(json.loads(text)) if text else None
    except (ValueError, RecursionError, DecodeError):
        return None
