"""Plans and actions in canonical form; ``parse(print_plan(p)).plan == p``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from pearl.lang.ast import (
    Action,
    Arg,
    Body,
    Builtin,
    Decomposed,
    Items,
    Literal,
    Plan,
    Prompt,
    Ref,
    Replaced,
    Solver,
    Step,
    SubPlan,
    Template,
)
from pearl.lang.values import Value

# Whatever might be taken for a reference, by the reader or by a person.
_REFERENCE = re.compile(r"\{(?=\s*[\w#$@{])")
_LAST_BRACE = re.compile(r"\{(?=\s*\Z)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_BARE_ID = re.compile(r"[\w./:#@+-]+")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def print_plan(plan: Plan) -> str:
    """The plan's canonical text, ending in a line break."""
    lines: list[str] = []
    if plan.question:
        lines += [f"question: {plan.question}", ""]
    if plan.declares:
        lines += ["New actions:", *(f"- {print_action(action)}" for action in plan.declares), ""]
    for number, step in enumerate(plan.steps, 1):
        lines += [*step.comments, f"{number}. {print_step(step)}"]
    lines += plan.comments
    if plan.returns:
        lines.append(f"return {', '.join(ref.name for ref in plan.returns)}")
    return "\n".join(lines) + "\n" if lines else ""


def print_step(step: Step) -> str:
    """``name = ACTION(args) : note``, without a number."""
    note = f" : {step.note}" if step.note else ""
    return f"{print_call(step)}{note}{_noqa(step.noqa)}"


def print_call(step: Step) -> str:
    """``name = ACTION(args)``."""
    return f"{step.name} = {step.action}({_args(step.args)})"


def print_arg(arg: Arg) -> str:
    """An argument as written in a plan."""
    match arg:
        case Ref():
            return f"{arg.mode} {arg.name}" if arg.mode else arg.name
        case Literal():
            return print_value(arg.value)
        case Items():
            return f"[{_args(arg.items)}]"
        case Template():
            return f'"{"".join(_part(part) for part in arg.parts)}"'


def print_value(value: Value) -> str:
    """A literal as written in a plan."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{_escape(value)}"'
        case list():
            return f"[{', '.join(print_value(item) for item in value)}]"
        case _:
            return json.dumps(value)


def print_action(action: Action) -> str:
    """An action's line, as in a library or under ``New actions:``."""
    params = [
        param.name if param.type == "any" else f"{param.name}: {param.type}"
        for param in action.params
    ]
    if action.variadic:
        params.append("...")
    returns = "" if action.returns == "text" else f" -> {action.returns}"
    doc = f" : {action.doc}" if action.doc else ""
    return f"{action.name}({', '.join(params)}){returns}{doc}"


def print_library(actions: Iterable[Action]) -> str:
    """A library's canonical text."""
    lines: list[str] = []
    for action in actions:
        if action.comments and lines:
            lines.append("")
        lines += [*action.comments, print_action(action)]
        if action.aliases:
            lines.append(f"  aliases: {', '.join(action.aliases)}")
        lines += _body(action.body)
        if action.traits:
            lines.append(f"  traits: {', '.join(sorted(action.traits))}")
        if action.provenance:
            lines.append(f"  provenance: {', '.join(map(_id, action.provenance))}")
        lines += [f"  replaces: {print_replaced(one)}" for one in action.replaces]
    return "\n".join(lines) + "\n"


def print_replaced(replaced: Replaced) -> str:
    """``OLD(CTX, X) = (CTX, "all of {X}")``: an older call, and the arguments it has now."""
    return f"{replaced.name}({', '.join(replaced.params)}) = ({_args(replaced.args)})"


def _id(text: str) -> str:
    return text if _BARE_ID.fullmatch(text) else f'"{_escape(text)}"'


def _body(body: Body) -> Iterator[str]:
    """The lines that say who carries an action out; none where it is a model by itself."""
    match body:
        case Builtin():
            yield f"  body: builtin {body.function}"
        case Solver():
            yield f"  body: solver {body.name}"
        case SubPlan():
            yield from _block("plan", body.plan)
        case Decomposed():
            for plan in body.demonstrations:
                yield from _block("demonstration", plan)
        case Prompt():
            for shown in body.examples:
                yield f"  example: ({_args(shown.args)}) = {print_value(shown.answer)}"


def _block(key: str, plan: Plan) -> Iterator[str]:
    yield f"  {key}:"
    for line in print_plan(plan).splitlines():
        yield f"    {line}".rstrip()


def _args(args: Iterable[Arg]) -> str:
    return ", ".join(print_arg(arg) for arg in args)


def _part(part: str | Ref) -> str:
    if not isinstance(part, str):
        return f"{{{print_arg(part)}}}"
    # The brace would stand before a reference's own.
    return _LAST_BRACE.sub(r"\\{", _escape(part))


def _escape(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    text = _REFERENCE.sub(r"\\{", text)
    return _CONTROL.sub(lambda found: _NAMED.get(found[0], f"\\u{ord(found[0]):04x}"), text)


def _noqa(codes: tuple[str, ...]) -> str:
    if not codes:
        return ""
    return "  # noqa" if codes == ("",) else f"  # noqa: {', '.join(codes)}"
