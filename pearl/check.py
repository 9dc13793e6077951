"""Runs the rules over a plan or a library, and applies their fixes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pearl.diagnostics import Diagnostic, Safety, apply_fixes, has_errors
from pearl.library import Library
from pearl.rules import RULES, LibraryView, PlanView, Rule
from pearl.source import Source, Span
from pearl.syntax import Broken, Parsed, parse, parse_library

_NOQA = re.compile(r"#\s*noqa(?::\s*(?P<codes>[A-Z0-9, ]+))?\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Selection:
    """Which rules speak.

    Args:
        select: prefixes of codes (``PRL4``) that are on; empty means the
            rules that are on by default.
        ignore: prefixes of codes that are off, whatever ``select`` says.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def _chosen(self, rule: Rule) -> bool:
        if rule.code.startswith(self.ignore):
            return False
        return rule.code.startswith(self.select) if self.select else rule.enabled

    @cached_property
    def explain(self) -> tuple[Rule, ...]:
        """The rules for lines that cannot be read, in order.

        An ignored rule still speaks here: a broken line is never silent, and
        `check` drops what is ignored afterwards.
        """
        return tuple(rule for rule in RULES if rule.explain)

    @cached_property
    def plan(self) -> tuple[Rule, ...]:
        """The chosen rules that look at plans."""
        return tuple(rule for rule in RULES if rule.plan and self._chosen(rule))

    @cached_property
    def library(self) -> tuple[Rule, ...]:
        """The chosen rules that look at libraries."""
        return tuple(rule for rule in RULES if rule.library and self._chosen(rule))

    def allows(self, diagnostic: Diagnostic) -> bool:
        """Whether a finding about a broken line is wanted."""
        return not diagnostic.code.startswith(self.ignore) if self.ignore else True


DEFAULT = Selection()


def check(parsed: Parsed, library: Library, selection: Selection = DEFAULT) -> list[Diagnostic]:
    """Everything the rules say about a plan, in the order of the text.

    Args:
        parsed: a plan as `syntax.parse` read it.
        library: the actions it may call.
        selection: which rules speak.
    """
    view = PlanView(parsed, library)
    found: list[Diagnostic] = []
    if parsed.broken:
        found.extend(_explained(parsed.broken, view.source, selection))
    for rule in selection.plan:
        found.extend(rule.plan(view))  # type: ignore[misc]
    if found and "noqa" in view.source.text:
        found = [one for one in found if not _silenced(one, parsed)]
    return sorted(found, key=_place) if len(found) > 1 else found


def check_library(source: Source, selection: Selection = DEFAULT) -> list[Diagnostic]:
    """Everything the rules say about an action library's text."""
    parsed = parse_library(source)
    view = LibraryView(source, parsed.actions, parsed.broken)
    found = _explained(parsed.broken, source, selection)
    for rule in selection.library:
        found.extend(rule.library(view))  # type: ignore[misc]
    return sorted(found, key=_place)


def fix(
    source: Source, library: Library, selection: Selection = DEFAULT, *, unsafe: bool = False
) -> Source:
    """Apply the fixes of a plan's findings until none is left.

    A round of fixes that would bring in an error is not taken.

    Args:
        source: the plan's text.
        library: the actions it may call.
        selection: which rules' fixes count.
        unsafe: also take fixes that guess at the meaning.
    """
    parsed = parse(source)
    found = check(parsed, library, selection)
    for _ in range(20):
        fixes = [one.fix for one in found if one.fix and (unsafe or one.fix.safety is Safety.SAFE)]
        taken = _first_good(source, library, selection, found, fixes)
        if taken is None:
            break
        source, found = taken
    return source


def _first_good(
    source: Source,
    library: Library,
    selection: Selection,
    found: list[Diagnostic],
    fixes: list,  # type: ignore[type-arg]
) -> tuple[Source, list[Diagnostic]] | None:
    """The text after all fixes together, or after the first one that does no harm."""
    for chosen in ([fixes] if fixes else []) + [[one] for one in fixes]:
        text, applied = apply_fixes(source.text, chosen)
        if not applied or text == source.text:
            continue
        fixed = Source(source.name, text)
        after = check(parse(fixed), library, selection)
        if _errors(after) <= _errors(found) and len(after) <= len(found) + len(chosen):
            return fixed, after
    return None


def _errors(found: Iterable[Diagnostic]) -> int:
    return sum(has_errors([one]) for one in found)


def _place(diagnostic: Diagnostic) -> tuple[Span, str]:
    return diagnostic.span, diagnostic.code


def _explained(broken: Iterable[Broken], source: Source, selection: Selection) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    for line in broken:
        for rule in selection.explain:
            diagnostic = rule.explain(line, source)  # type: ignore[misc]
            if diagnostic:
                found.append(diagnostic)
                break
    return [one for one in found if selection.allows(one)]


def _silenced(diagnostic: Diagnostic, parsed: Parsed) -> bool:
    for step in parsed.plan.steps:
        if step.noqa and step.span.start <= diagnostic.span.start < step.span.end:
            return step.noqa == ("",) or diagnostic.code in step.noqa
    source = parsed.plan.source
    line, _ = source.position(diagnostic.span.start)
    found = _NOQA.search(source.line(line))
    if not found:
        return False
    return not found["codes"] or diagnostic.code in found["codes"].upper().replace(",", " ").split()
