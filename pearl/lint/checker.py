"""Runs the rules over a plan or a library, and applies their fixes."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pearl.lang.ast import Broken, Param, Parsed, ParsedLibrary, step_refs
from pearl.lang.diagnostics import Diagnostic, Fix, Safety, Severity, apply_fixes, errors_of
from pearl.lang.grammar import without_noqa
from pearl.lang.library import Library, builtins, library_source, parse_library
from pearl.lang.parser import parse
from pearl.lang.source import Source, Span, shipped_actions
from pearl.lint.rules import RULES, unknown_action
from pearl.lint.rules.base import LibraryView, LookAtLibrary, LookAtPlan, PlanView, Rule


@dataclass(frozen=True)
class Selection:
    """Which rules are on.

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
    def plan(self) -> tuple[LookAtPlan, ...]:
        """The chosen rules that look at plans."""
        return tuple(rule.plan for rule in RULES if rule.plan and self._chosen(rule))

    @cached_property
    def errors(self) -> tuple[LookAtPlan, ...]:
        """The chosen rules that look at plans for errors."""
        chosen = (rule for rule in RULES if rule.severity is Severity.ERROR and self._chosen(rule))
        return tuple(rule.plan for rule in chosen if rule.plan)

    @cached_property
    def library(self) -> tuple[LookAtLibrary, ...]:
        """The chosen rules that look at libraries."""
        return tuple(rule.library for rule in RULES if rule.library and self._chosen(rule))


# One fix may make another possible; a plan needs two or three rounds.
_ROUNDS = 20

# The most batches of fixes that are tried in a round.
_TRIES = 60

DEFAULT = Selection()

# Here ignored rules run too, and ``noqa`` does not count, so that an unreadable line is never
# passed over by accident. Findings of ignored rules are dropped afterwards.
_EXPLAIN = tuple(rule.explain for rule in RULES if rule.explain)


def check(parsed: Parsed, library: Library, selection: Selection = DEFAULT) -> list[Diagnostic]:
    """Everything the rules say about a plan, in the order of the text.

    Args:
        parsed: a plan as `parse` read it.
        library: the actions it may call.
        selection: which rules are on.
    """
    view = PlanView(parsed, library)
    findings = _findings(view, parsed, selection.plan)
    if parsed.broken:
        reported = {finding.data.get("action", "") for finding in findings}
        findings += [
            unknown_action.with_absence(finding, line, view, reported)
            for line in parsed.broken
            for finding in _explained([line], selection)
        ]
    if not parsed.has_plan:
        # `fix` leaves such a text as it is, so no fix may be promised.
        findings = [replace(finding, fix=None) for finding in findings]
    return sorted(findings, key=_place) if len(findings) > 1 else findings


def check_errors(
    parsed: Parsed, library: Library, selection: Selection = DEFAULT
) -> list[Diagnostic]:
    """The errors among what `check` finds. Other rules run only where there may be one."""
    if not (parsed.broken or _findings(PlanView(parsed, library), parsed, selection.errors)):
        return []
    return errors_of(check(parsed, library, selection))


def _findings(view: PlanView, parsed: Parsed, looks: Iterable[LookAtPlan]) -> list[Diagnostic]:
    """What rules find in a plan, without the findings that ``noqa`` silences."""
    findings = [found for look in looks for found in look(view)]
    if findings and "noqa" in view.source.text.lower():
        starts = [step.span.start for step in parsed.plan.steps]
        findings = [finding for finding in findings if not _silenced(finding, parsed, starts)]
    return findings


def check_library(
    source: Source, selection: Selection = DEFAULT, base: Library | None = None
) -> list[Diagnostic]:
    """Everything the rules say about an action library's text.

    Args:
        source: the text.
        selection: which rules are on.
        base: actions that its plans may call besides its own; by default the builtins.
    """
    parsed = parse_library(source)
    others = builtins() if base is None else base.actions
    # As `load_library` does it: no file replaces a builtin.
    own = {action.name: action for action in parsed.actions if action.name not in builtins()}
    library = Library((source.name,), {**others, **own})
    return _in_library(source, parsed, library, selection)


def _in_library(
    source: Source, parsed: ParsedLibrary, library: Library, selection: Selection
) -> list[Diagnostic]:
    """What is found in a library's text; ``library`` has the actions that its plans may call."""
    view = LibraryView(source, parsed.actions, parsed.unread, library)
    found = [diagnostic for look in selection.library for diagnostic in look(view)]
    found += _in_plans(source, parsed, library, selection)
    return sorted((*_explained(parsed.broken, selection), *found), key=_place)


def _in_plans(
    source: Source, read: ParsedLibrary, library: Library, selection: Selection
) -> Iterator[Diagnostic]:
    """The errors in the plans below actions, apart from lines that cannot be read."""
    unread = {action.span: action for action in read.unread}
    owners = {action.span: action for action in read.actions} | unread
    for owner, place in read.plans:
        parsed, action = parse(source.at(place)), owners[owner]
        if owner in unread:
            # Its parameters are not known: each name that no step defines may be one.
            used = {ref.name for step in parsed.plan.steps for ref in step_refs(step)}
            names = used - {step.name for step in parsed.plan.steps}
            action = replace(action, params=tuple(map(Param, sorted(names))))
        current = library.actions.get(action.name)
        # If another action has replaced this one, nothing runs this plan.
        if parsed.plan.steps and (current is None or current.body == owners[owner].body):
            view = PlanView(parsed, library, action)
            by = place.start
            for finding in _findings(view, parsed, selection.errors):
                labels = (replace(label, span=label.span.moved(by)) for label in finding.labels)
                span = finding.span.moved(by)
                # `fix` changes plans only, never a library.
                yield replace(finding, span=span, labels=tuple(labels), fix=None)


HARMLESS = ("PRL501", "PRL502")
"""Errors with which a library can be used: of two actions with one name the last counts, and a
definition may be missing. The paper's own list of 407 actions has one of each."""


def library_findings(
    library: Library, selection: Selection = DEFAULT, reported: Sequence[Path] = ()
) -> Iterator[tuple[bool, str]]:
    """What the rules say about a library's files, except those that ship with Pearl. For each
    finding: whether an action is lost by it, or fails when it is called; and a line to print.

    Args:
        library: as it was loaded from files.
        selection: which rules are on.
        reported: files and folders to leave out, as their findings are reported elsewhere.
    """
    for name in library.names:
        if name in shipped_actions() or not Path(name).is_file():
            continue
        if any(Path(name).resolve().is_relative_to(path.resolve()) for path in reported):
            continue
        if name.endswith(".plan"):
            yield False, f"{name} is read as an action library: call it .actions."
        source = library_source(name)
        # With the whole library, because a later file may replace actions that these plans call.
        for finding in _in_library(source, parse_library(source), library, selection):
            line, column = source.position(finding.span.start)
            text = f"{name}:{line}:{column}: {finding.code} {finding.message} {finding.help}"
            is_error = finding.severity is Severity.ERROR and finding.code not in HARMLESS
            yield is_error, text.rstrip()


def fix(
    source: Source, library: Library, selection: Selection = DEFAULT, *, unsafe: bool = False
) -> Source:
    """Apply the fixes of a plan's findings until none is left.

    A fix is not taken if it adds an error, or adds findings without removing an error: an error
    may hide other findings, such as which steps the answer needs. New findings in a line that can
    now be read do not count against its fix. Unsafe fixes come after safe ones, which may make them
    unnecessary. A text without a single step that can be read is left as it is.

    Args:
        source: the plan's text.
        library: the actions it may call.
        selection: which rules' fixes count.
        unsafe: also take fixes that guess at the meaning.
    """
    found = _checked(source, library, selection)
    return _settled(found, library, selection, unsafe=unsafe).parsed.plan.source


class Checked(NamedTuple):
    """A plan, and what is found in it."""

    parsed: Parsed
    findings: Sequence[Diagnostic]


def _checked(source: Source, library: Library, selection: Selection) -> Checked:
    parsed = parse(source)
    return Checked(parsed, check(parsed, library, selection))


def _settled(plan: Checked, library: Library, selection: Selection, *, unsafe: bool) -> Checked:
    """The plan as `fix` leaves it, and what is then found in it."""
    # Numbered clauses look like broken steps; a text without one sound step is no plan.
    if plan.parsed.aside and not plan.parsed.plan.steps:
        return plan
    for _ in range(_ROUNDS):
        before = plan.parsed.plan.source.text
        plan = _fixed(plan, library, selection, Safety.SAFE, _ROUNDS)
        if unsafe:
            plan = _fixed(plan, library, selection, Safety.UNSAFE, 1)
        if plan.parsed.plan.source.text == before:
            break
    return plan


def check_for_person(
    parsed: Parsed, library: Library, selection: Selection = DEFAULT
) -> list[Diagnostic]:
    """What `check` finds, with only the fixes that `fix` would take: a person, or a person's
    program, must be promised no others."""
    findings = check(parsed, library, selection)
    return with_taken_fixes(findings, parsed.plan.source, library, selection)


def with_taken_fixes(
    findings: Sequence[Diagnostic], source: Source, library: Library, selection: Selection = DEFAULT
) -> list[Diagnostic]:
    """Findings in a plan's text, without the fixes that `fix` would not take."""
    kinds = {finding.fix.safety for finding in findings if finding.fix}
    if not kinds:
        return [*findings]
    left: set[tuple[str, str, str]] = set()
    plan = _checked(source, library, selection)
    for kind in sorted(kinds):  # Safe fixes come first, as in `fix`.
        plan = _settled(plan, library, selection, unsafe=kind is Safety.UNSAFE)
        rest = (each for each in plan.findings if each.fix and each.fix.safety is kind)
        left.update(map(_promise, rest))
    return [
        replace(finding, fix=None) if finding.fix and _promise(finding) in left else finding
        for finding in findings
    ]


def _promise(finding: Diagnostic) -> tuple[str, str, str]:
    """What stays the same of a finding and its fix while other places of the text are fixed."""
    return finding.code, finding.message, finding.fix.title if finding.fix else ""


def is_better_with(
    plan: Checked, fixes: Sequence[Fix], library: Library, selection: Selection = DEFAULT
) -> bool:
    """Whether fixes of a plan's findings leave it better than it was."""
    tried = _tried(plan, fixes, library, selection)
    return bool(tried and _is_better(plan, tried))


def _tried(
    plan: Checked, fixes: Sequence[Fix], library: Library, selection: Selection
) -> Checked | None:
    """A plan with fixes applied, and what is then found; None where they change nothing."""
    source = plan.parsed.plan.source
    text, applied = apply_fixes(source.text, fixes)
    if not applied or text == source.text:
        return None
    return _checked(Source(source.name, text), library, selection)


def _is_better(before: Checked, after: Checked) -> bool:
    fewer = len(before.parsed.broken) - len(after.parsed.broken)
    more = len(after.parsed.plan.steps) - len(before.parsed.plan.steps)
    errors = len(errors_of(before.findings)) - len(errors_of(after.findings))
    no_more = more > 0 or len(after.findings) <= len(before.findings)
    return fewer > 0 or (fewer == 0 and (errors > 0 or (errors == 0 and no_more)))


def _fixed(
    plan: Checked, library: Library, selection: Selection, safety: Safety, rounds: int
) -> Checked:
    """A plan with the fixes of one kind applied, in up to ``rounds`` rounds, and what is then
    found in it."""
    for _ in range(rounds):
        fixes = [item.fix for item in plan.findings if item.fix and item.fix.safety is safety]
        # All of them together, or else the first half that does no harm, down to a single one.
        batches = [fixes]
        for _ in range(_TRIES):
            if not batches:
                return plan
            chosen = batches.pop()
            tried = _tried(plan, chosen, library, selection)
            if tried and _is_better(plan, tried):
                plan = tried
                break
            # Too many to try one by one: keep those on whose lines no new error is found.
            good = _harmless(plan, tried, chosen) if tried else chosen
            if len(chosen) > _TRIES and len(good) < len(chosen):
                batches += [good] if good else []
            elif len(chosen) > 1:
                middle = len(chosen) // 2
                batches += (chosen[middle:], chosen[:middle])
        else:
            return plan
    return plan


def _harmless(before: Checked, after: Checked, fixes: Sequence[Fix]) -> list[Fix]:
    """The fixes on whose lines no more errors are found than before."""
    source, result = before.parsed.plan.source, after.parsed.plan.source
    added = Counter[int]()
    for edit in (edit for fix in apply_fixes(source.text, fixes)[1] for edit in fix.edits):
        line = source.position(edit.span.start)[0]
        added[line] += edit.text.count("\n") - source.at(edit.span).count("\n")
    lines = range(1, source.text.count("\n") + 2)
    # For each line of the result, the line of the source that it comes from.
    origin = [line for line in lines for _ in range(1 + added[line])]
    more = Counter(origin[at - 1] for at in _lines_with_errors(result, after.findings))
    more.subtract(_lines_with_errors(source, before.findings))
    worse = {line for line, count in more.items() if count > 0}
    mended = ({source.position(edit.span.start)[0] for edit in fix.edits} for fix in fixes)
    return [fix for fix, at in zip(fixes, mended, strict=True) if worse.isdisjoint(at)]


def _lines_with_errors(source: Source, findings: Iterable[Diagnostic]) -> list[int]:
    return [source.position(error.span.start)[0] for error in errors_of(findings)]


def _place(diagnostic: Diagnostic) -> tuple[Span, str]:
    return diagnostic.span, diagnostic.code


def _explained(broken: Iterable[Broken], selection: Selection) -> Iterator[Diagnostic]:
    for line in broken:
        spoken = (diagnostic for explain in _EXPLAIN if (diagnostic := explain(line)))
        diagnostic = next(spoken, None)
        if diagnostic and not diagnostic.code.startswith(selection.ignore):
            yield diagnostic


def _silenced(diagnostic: Diagnostic, parsed: Parsed, starts: Sequence[int]) -> bool:
    at = bisect_right(starts, diagnostic.span.start) - 1
    step = parsed.plan.steps[at] if at >= 0 else None
    if step and step.noqa and diagnostic.span.start < step.span.end:
        codes = step.noqa
    else:
        source = parsed.plan.source
        line, _ = source.position(diagnostic.span.start)
        _, codes = without_noqa(source.line(line))
    return codes == ("",) or diagnostic.code in codes
