"""An action that neither the library nor the plan has.

What it does
    Reports a call of an action that is not in the library and not declared
    under ``New actions:`` in this plan. Declarations of other plans do not
    count.

Why
    Without a definition the model would have to guess what the step is for.

Example
    1. tie = FIND_RELATIONS_OF(CTX, "Ross", "Mara") : Find how they stand to each other

Use instead
    1. tie = FIND_RELATION(CTX, "Ross", "Mara") : Find how they stand to each other

Fix
    Safe where only the case of letters differs from one action; otherwise none.
"""

from collections.abc import Collection
from dataclasses import replace

from pearl.lang.ast import Action, Broken, Plan, Step
from pearl.lang.library import builtins, library_actions, library_source
from pearl.lang.source import shipped_actions
from pearl.lint.rules import bad_name
from pearl.lint.rules.base import ERROR, Diagnostic, Findings, PlanView, Rule, mend, pattern
from pearl.lint.rules.names import closest

MOST = 100_000
"""The most names that an unknown one is compared with; fewer if many are unknown."""

_NAME = r"(?<![\w-])([A-Z][A-Z0-9_]{2,})[ \t]*"
_CALL, _TEXT = pattern(rf"{_NAME}\("), pattern(r'"[^"\n]*"?')
"""A call, and a text, in a line that cannot be read."""

_UNOPENED, _ARGUMENT = pattern(rf"{_NAME}$"), pattern(r"[^\W\d]\w*[ \t]*[,):]|[^\w:]")
"""The text before the place where a call's parenthesis is missing, and the text after it."""

_FEW = 8
"""The most actions, beside the builtins, that are all named where none resembles the unknown."""


def check(view: PlanView) -> Findings:
    library = view.library
    unknown = [
        step
        for step in view.plan.steps
        if not library.get(step.action) and step.action not in view.broken_names
    ]
    if not unknown:
        return
    names = list(library.every_name())
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.casefold(), []).append(name)
    replaced: dict[str, Action] = {}
    for action in library.actions.values():
        for old in action.replaces:
            replaced.setdefault(old.name, action)
    compared: dict[str, list[str]] = {}
    own = "define it in the library" if view.action else 'declare yours under "New actions:"'
    for step in unknown:
        same = alike.get(step.action.casefold(), [])
        if not same and step.action not in compared:
            compared[step.action] = closest(step.action, names[: MOST // (len(compared) + 1)])
        nearest = (library.get(name) for name in same or compared[step.action])
        similar = [near for near in nearest if near and not _comes_back(near, view)]
        close = list(dict.fromkeys(action.signature for action in similar))
        now = replaced[step.action].signature if step.action in replaced else ""
        if view.action and (home := _home(step.action)):
            help = f"The library {home} has it: name that too, as --library {home}, or {own}."
        elif now:
            help = f"{now} stands for it now: pearl migrate rewrites the plan."
        elif close:
            help = f"Closest: {'; '.join(close)}. Use one, or {own}."
        else:
            few = "; ".join(_all_of_few(view))
            help = f"None is close to it: use another{f', as {few}' if few else ''}, or {own}."
        yield RULE(
            step.action_span,
            f"{step.action} does not exist.",
            help=help,
            data={"action": step.action, "candidates": close},
            fix=mend(step.action_span, same[0]) if len(same) == 1 else None,
        )


def with_absence(
    finding: Diagnostic, line: Broken, view: PlanView, reported: Collection[str]
) -> Diagnostic:
    """The finding about an unreadable line, with the unknown actions that the line calls added to
    its help; else a corrected line would call them again.

    Args:
        finding: the finding about the line.
        line: the unreadable line.
        view: the plan.
        reported: the names of unknown actions that other findings report.
    """
    if line.kind != "step" or finding.code == bad_name.RULE.code:
        return finding  # A bad name may look like a call.
    called = dict.fromkeys(_CALL.findall(_TEXT.sub("", line.text)))
    if line.accepts == {"_OPEN"} and line.got and _ARGUMENT.match(line.rest):
        before = line.source.text[line.span.start : line.at.start]
        called |= dict.fromkeys(_UNOPENED.findall(before))
    for name in called:
        if name in reported or name in view.broken_names or view.library.get(name):
            continue
        near = (view.library.get(each) for each in closest(name, view.library.every_name()))
        close = "; ".join(dict.fromkeys(action.signature for action in near if action))
        absence = f"{name} does not exist{f'; closest: {close}' if close else ''}."
        finding = replace(finding, help=f"{finding.help} {absence}".lstrip())
    return finding


def _home(name: str) -> str:
    """The name of the shipped library that has an action; empty for none."""
    libraries = ((each, library_actions(library_source(each))) for each in shipped_actions())
    return next((each for each, own in libraries if any(a.name == name for a in own)), "")


def _all_of_few(view: PlanView) -> list[str]:
    """The signatures of a small library's actions that the plan may call; none of a larger one."""
    own = [action for action in view.library.listed if action.name not in builtins()]
    usable = (action for action in own if not _comes_back(action, view))
    return [action.signature for action in usable] if len(own) <= _FEW else []


def _comes_back(action: Action, view: PlanView) -> bool:
    """Whether an action is the one whose own plan is checked, or calls it, directly or not."""
    if view.action is None:
        return False
    return view.action.name in view.library.called_by(Plan((Step("", action.name, ()),))).actions


RULE = Rule("PRL201", "unknown-action", ERROR, __doc__, plan=check)
