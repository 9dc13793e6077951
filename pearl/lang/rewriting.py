"""Files written anew, no word of them lost: in canonical form, or with newer names of actions.

``pearl fmt`` makes what is no part of a plan comments, and only marks that say nothing (code
fences, tags) go. ``pearl migrate`` rewrites plans for a library that replaces their actions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pearl.lang.ast import (
    Action,
    Arg,
    Broken,
    Literal,
    Ref,
    Replaced,
    Step,
    Template,
    map_refs,
    refs,
)
from pearl.lang.errors import InputError
from pearl.lang.library import Library, parse_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_arg, print_library, print_plan
from pearl.lang.source import Source, Span
from pearl.lang.text import counted, pattern
from pearl.lang.values import Value, as_text

_BREAK = pattern(r"[\n\r\x0b\x0c\x85\u2028\u2029]")
_MARK = pattern(r"\s*+(?:[`~]{3,}.*|[^\w\s]*)\s*")
_TAG = pattern(r"<[|/]?\s*\w[^<>\n]*>|\[/?[A-Z]+\]")


def comment_out(text: str, span: Span) -> str:
    """What to put in the place of a span so that its words stand in comments.

    Marks that say nothing (code fences, tags, rules) go. What shares a line
    with the span keeps a line of its own.

    Args:
        text: the whole text.
        span: a part of it that is no part of the plan.
    """
    # In a comment, a tag would open its block anew.
    lines = _BREAK.split(_TAG.sub(" ", text[span.start : span.end]))
    words = [line.strip() for line in lines if not _MARK.fullmatch(line)]
    # A mark without a space may begin the number of a step.
    body = [line if line.startswith("# ") else f"# {line}" for line in words]
    start = text.rfind("\n", 0, span.start) + 1
    before = _BREAK.split(text[start : span.start])[-1]
    before = "" if _MARK.fullmatch(before) else before
    following = _BREAK.search(text, span.end)
    after = text[span.end : following.start() if following else len(text)].strip()
    if not body:
        return "\n" if before and after else ""
    return ("\n" if before else "") + "\n".join(body) + ("\n" if after else "")


def format_plan(source: Source) -> str:
    """A plan in canonical form. Text that is no part of it becomes comments.

    Raises:
        InputError: a line cannot be read, or no line of a text is a step.
    """
    parsed = parse(source)
    if parsed.aside and not parsed.has_plan:
        raise InputError(f"{source.name}: no line of it is a step of a plan: it stays as it is.")
    _refuse_broken(parsed.broken, source)
    text = source.text
    for part in reversed(parsed.aside):
        text = text[: part.span.start] + comment_out(source.text, part.span) + text[part.span.end :]
    if text != source.text:
        source = Source(source.name, text)
        parsed = parse(source)
    _refuse_broken(parsed.broken, source)
    return print_plan(parsed.plan)


def format_library(source: Source) -> str:
    """An action library in canonical form.

    Raises:
        InputError: a line cannot be read.
    """
    parsed = parse_library(source)
    _refuse_broken(parsed.broken, source)
    text = print_library(parsed.actions)
    # Those above an action, and those in its plans.
    printed = {line.strip() for line in text.splitlines()}
    lines = [line.strip() for line in source.text.splitlines()]
    after = [line for line in lines if line.startswith("#") and line not in printed]
    return "\n".join([text, *after]) + "\n" if after else text


def _refuse_broken(broken: Sequence[Broken], source: Source) -> None:
    if broken:
        line, _ = source.position(broken[0].at.start)
        raise InputError(f"{source.name}:{line} cannot be read: mend what pearl lint finds.")


# --- newer names ---


@dataclass(frozen=True, slots=True)
class Change:
    """A step that calls another action now.

    Args:
        step: its name.
        old: what it called.
        new: what it calls.
        mapped: whether its arguments were rewritten too.
    """

    step: str
    old: str
    new: str
    mapped: bool


@dataclass(frozen=True, slots=True)
class Migration:
    """A plan after migration.

    Args:
        text: the plan; nothing but the changed calls differs from before.
        changes: every step that changed, in order.
        problems: one sentence for each step that should change and cannot, or that loses words.
    """

    text: str
    changes: tuple[Change, ...]
    problems: tuple[str, ...]


def migrate(plan: str | Source, library: Library) -> Migration:
    """Rewrite a plan's calls of replaced actions.

    A call keeps its step's name, its note, its place and everything around it. What
    the plan itself declares is never touched.

    Args:
        plan: a plan, in any form that `parse` reads.
        library: the actions, each with the older ones that it replaces.
    """
    source = plan if isinstance(plan, Source) else Source("<plan>", plan)
    parsed = parse(source).plan
    own = {action.name for action in parsed.declares}
    older: dict[tuple[str, int], tuple[Action, Replaced]] = {}
    for action in library.actions.values():
        for replaced in action.replaces:
            older.setdefault((replaced.name, len(replaced.params)), (action, replaced))
    edits: list[tuple[int, int, str]] = []
    changes: list[Change] = []
    problems: list[str] = []
    for step in parsed.steps:
        if step.action in own:
            continue
        current, count = library.get(step.action), len(step.args)
        if current and current.takes(count):
            if current.name != step.action:
                edits.append((*step.action_span, current.name))
                changes.append(Change(step.name, step.action, current.name, mapped=False))
            continue
        if (step.action, count) in older:
            new, replaced = older[step.action, count]
            values = dict(zip(replaced.params, step.args, strict=True))
            args = [substituted(arg, values) for arg in replaced.args]
            # The document is no text, and cannot be put into one.
            clash = any(isinstance(arg, Template) and Ref("CTX") in refs(arg) for arg in args)
            end = _end(source.text, step)
            if end < 0 or clash:
                problems.append(f"{step.name} calls {step.action} in a way that cannot be mapped.")
                continue
            call = f"{new.name}({', '.join(map(print_arg, args))})"
            edits.append((step.action_span.start, end, call))
            changes.append(Change(step.name, step.action, new.name, mapped=True))
            kept = [values.get(ref.name, ref) for arg in replaced.args for ref in refs(arg)]
            named = {"CTX", *(ref.name for arg in args for ref in refs(arg))}
            if lost := [arg for arg in step.args if arg not in kept and _adds(arg, named)]:
                problems.append(
                    f"{step.name} calls {new.name} in place of {step.action}, and no longer says "
                    f"{', '.join(map(print_arg, lost))}: see whether it is missed."
                )
            continue
        counts = sorted(number for name, number in older if name == step.action)
        counts += [current.fewest] if current and current.name != step.action else []
        if counts:
            problems.append(
                f"{step.name} calls {step.action} with {counted(count, 'argument')}, and it "
                f"took {' or '.join(map(str, counts))}: mend the call by hand."
            )
    text = source.text
    for start, end, words in sorted(edits, reverse=True):
        text = text[:start] + words + text[end:]
    return Migration(text, tuple(changes), tuple(problems))


def _adds(arg: Arg, named: Collection[str]) -> bool:
    """Whether an argument says more than some names: it has words, or another name."""
    if isinstance(arg, Literal):
        return bool(as_text(arg.value).strip())
    words = isinstance(arg, Template) and any(
        isinstance(part, str) and part.strip() for part in arg.parts
    )
    return words or any(ref.name not in named for ref in refs(arg))


def _end(text: str, step: Step) -> int:
    """Where a step's call ends, past its parenthesis; -1 where that cannot be told."""
    at = step.args[-1].span.end if step.args else step.action_span.end
    ends = [place for mark in ")）" if (place := text.find(mark, at, step.span.end)) >= 0]
    return min(ends, default=-2) + 1


def substituted(arg: Arg, values: Mapping[str, Arg]) -> Arg:
    """An argument with values for the names in it; a list in a text has commas in it.

    Args:
        arg: an argument that refers to parameters.
        values: the value of each parameter; a name that is not among them stays.
    """

    def value_of(ref: Ref) -> Arg:
        value = values.get(ref.name, ref)
        return replace(value, mode=ref.mode) if ref.mode and type(value) is Ref else value

    return map_refs(arg, value_of, _listed_text)


def _listed_text(value: Value) -> str:
    return ", ".join(map(_listed_text, value)) if isinstance(value, list) else as_text(value)
