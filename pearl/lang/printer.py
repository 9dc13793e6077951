"""Plans and actions in canonical form; ``parse(print_plan(p)).plan == p``."""

import json
from collections.abc import Iterable, Iterator

from pearl.lang import ast
from pearl.lang.text import pattern
from pearl.lang.values import Value

# Whatever might be taken for a reference, by the reader or by a person.
_REFERENCE = pattern(r"\{(?=\s*[\w#$@{])")
_LAST_BRACE = pattern(r"\{(?=\s*\Z)")
_PAIRED = pattern(r"\A([^\"“”\\\n]*)”(?=\s*[,)\]，）])")
_CONTROL = pattern(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_BARE_ID = pattern(r"[\w./:#@+-]+")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def print_plan(plan: ast.Plan) -> str:
    """The plan's canonical text, ending in a line break."""
    lines = [*plan.head]
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


def print_step(step: ast.Step) -> str:
    """``name = ACTION(args) : note``, without a number."""
    note = f" : {step.note}" if step.note else ""
    codes = ", ".join(step.noqa)
    noqa = f"  # noqa{f': {codes}' if codes else ''}" if step.noqa else ""
    return f"{print_call(step)}{note}{noqa}"


def print_call(step: ast.Step) -> str:
    """``name = ACTION(args)``."""
    return f"{step.name} = {step.action}({_args(step.args)})"


def print_arg(arg: ast.Arg) -> str:
    """An argument as written in a plan."""
    match arg:
        case ast.Ref():
            return f"{arg.mode} {arg.name}" if arg.mode else arg.name
        case ast.Literal():
            return print_value(arg.value)
        case ast.Items():
            return f"[{_args(arg.items)}]"
        case ast.Template():
            return _quoted("".join(_part(part) for part in arg.parts))


def print_value(value: Value) -> str:
    """A literal as written in a plan."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(_escape(value))
        case list():
            return f"[{', '.join(print_value(item) for item in value)}]"
        case _:
            return json.dumps(value)


def print_action(action: ast.Action) -> str:
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


def print_library(actions: Iterable[ast.Action]) -> str:
    """A library's canonical text."""
    lines: list[str] = []
    for action in actions:
        if action.comments and lines:
            lines.append("")
        lines += [*action.comments, print_action(action)]
        if action.aliases:
            lines.append(f"  aliases: {', '.join(action.aliases)}")
        lines += _body(action.body)
        if action.model:
            lines.append(f"  model: {action.model}")
        if action.traits:
            lines.append(f"  traits: {', '.join(sorted(action.traits))}")
        if action.provenance:
            ids = (id if _BARE_ID.fullmatch(id) else f'"{_escape(id)}"' for id in action.provenance)
            lines.append(f"  provenance: {', '.join(ids)}")
        for older in action.replaces:
            call = f"{older.name}({', '.join(older.params)})"
            lines.append(f"  replaces: {call} = ({_args(older.args)})")
    return "\n".join(lines) + "\n"


def _body(body: ast.Body) -> Iterator[str]:
    """The lines that say who carries an action out; none where it is a model by itself."""
    match body:
        case ast.Builtin():
            yield f"  body: builtin {body.function}"
        case ast.Function():
            # No line of a library names a function: reading one is to run nothing.
            yield f"# {body.name} carries it out."
        case ast.Solver():
            yield f"  body: solver {body.name}"
        case ast.SubPlan():
            yield from _block("plan", body.plan)
        case ast.Decomposed():
            for plan in body.demonstrations:
                yield from _block("demonstration", plan)
        case ast.Prompt():
            for shown in body.examples:
                yield f"  example: ({_args(shown.args)}) = {print_value(shown.answer)}"


def _block(key: str, plan: ast.Plan) -> Iterator[str]:
    yield f"  {key}:"
    for line in print_plan(plan).splitlines():
        yield f"    {line}".rstrip()


def _args(args: Iterable[ast.Arg]) -> str:
    return ", ".join(print_arg(arg) for arg in args)


def _quoted(escaped: str) -> str:
    if "”" in escaped:
        # A straight quote and a curly one would pair up where a delimiter follows.
        escaped = _PAIRED.sub(r"\1\\u201d", escaped)
    return f'"{escaped}"'


def _part(part: str | ast.Ref) -> str:
    if not isinstance(part, str):
        return f"{{{print_arg(part)}}}"
    # The brace would stand before a reference's own.
    return _LAST_BRACE.sub(r"\\{", _escape(part))


def _escape(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    if "{" in text:
        text = _REFERENCE.sub(r"\\{", text)
    return _CONTROL.sub(lambda match: _NAMED.get(match[0], f"\\u{ord(match[0]):04x}"), text)
