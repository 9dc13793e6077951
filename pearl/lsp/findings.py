"""The checker in an editor: findings while the user types, fixes on request, and formatting."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum

from lsprotocol import types

from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Safety, Severity
from pearl.lang.errors import InputError
from pearl.lang.rewriting import format_library, format_plan
from pearl.lang.source import TextKind
from pearl.lang.text import printable, printable_lines
from pearl.lint.checker import Checked, check, check_library, fix, is_better_with
from pearl.lsp.workspace import Document, LanguageSession, Libraries, refused, workspace_edit

MOST = 1000
"""The most findings that are shown; a text that is no plan at all may have one on each line."""

DELAY = 0.01
"""Seconds to wait before a check, so that a paste or an edit in many places arrives in full."""

_SYNTAX = "PRL1"
_FADED = ("PRL406",)
"""Rules about unused text, which editors show faded."""


def find(document: Document, libraries: Libraries) -> list[Diagnostic]:
    """The findings in a document, in the order of its text.

    An empty document has none, as it is not begun yet. If a library cannot be
    read, only the syntax of a plan is checked.

    Args:
        document: a plan or a library.
        libraries: the libraries and rules it is checked with.
    """
    if not document.text.strip():
        return []
    if document.kind is TextKind.LIBRARY:
        return check_library(document.source, libraries.selection, libraries.library)
    findings = check(document.plan, libraries.library, libraries.selection)
    if libraries.trouble:
        findings = [finding for finding in findings if finding.code.startswith(_SYNTAX)]
    return findings


def diagnostics(document: Document, libraries: Libraries) -> list[types.Diagnostic]:
    """Findings in the protocol's form, after messages about settings that cannot be read."""
    findings = find(document, libraries)
    first = document.lines.range(document.lines.line_span(0))
    severity = types.DiagnosticSeverity
    shown = [
        types.Diagnostic(first, printable(message), severity.Error, source="pearl")
        for message in (libraries.trouble if document.kind is TextKind.PLAN else ())
    ]
    shown += [_diagnostic(document, finding) for finding in findings[:MOST]]
    if len(findings) > MOST:
        rest = len(findings) - MOST
        message = f"{rest} more findings are not shown: pearl lint prints all of them."
        shown.append(types.Diagnostic(first, message, severity.Information, source="pearl"))
    return shown


def _diagnostic(document: Document, finding: Diagnostic) -> types.Diagnostic:
    severity, is_error = types.DiagnosticSeverity, finding.severity is Severity.ERROR
    message = f"{finding.message}\n{finding.help}" if finding.help else finding.message
    labels = [
        types.DiagnosticRelatedInformation(document.location(label.span), printable(label.text))
        for label in finding.labels
    ]
    return types.Diagnostic(
        range=document.lines.range(finding.span),
        message=printable_lines(message),
        severity=severity.Error if is_error else severity.Warning,
        code=finding.code,
        source="pearl",
        tags=[types.DiagnosticTag.Unnecessary] if finding.code in _FADED else None,
        related_information=labels or None,
    )


class PendingChecks:
    """The pending checks, at most one for each document.

    A check starts when nothing was typed for `DELAY` seconds, or for a quarter of the last check's
    duration. It runs on its own thread, so that the server goes on reading. Findings in a version
    that is no longer the newest are dropped.

    Args:
        session: the documents.
        publish: sends findings to the editor.
    """

    def __init__(
        self, session: LanguageSession, publish: Callable[[types.PublishDiagnosticsParams], None]
    ) -> None:
        self._session = session
        self._publish = publish
        self._due: dict[str, asyncio.Task[None]] = {}
        self._took = 0.0
        self._pool = ThreadPoolExecutor(1, "pearl-check")
        self._turn = asyncio.Lock()

    def soon(self, document: Document, delay: float = DELAY) -> None:
        """Check a document, and those that depend on it, once the user stops typing."""
        self._plan_check(document, delay)
        if document.kind is TextKind.LIBRARY:
            self.every_plan(delay)

    def every_plan(self, delay: float = DELAY) -> None:
        """Check all open plans, as the libraries or settings have changed."""
        for plan in self._session.plans():
            self._plan_check(plan, delay)

    def forget(self, document: Document) -> None:
        """Remove the findings of a document that was closed."""
        self._cancel(document.uri)
        self._publish(types.PublishDiagnosticsParams(document.uri, []))
        if document.kind is TextKind.LIBRARY:
            self.every_plan()

    def close(self) -> None:
        """Start no more checks."""
        for uri in list(self._due):
            self._cancel(uri)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _cancel(self, uri: str) -> None:
        if task := self._due.pop(uri, None):
            task.cancel()

    def _plan_check(self, document: Document, delay: float) -> None:
        self._cancel(document.uri)
        self._due[document.uri] = asyncio.get_running_loop().create_task(
            self._check(document, delay)
        )

    async def _check(self, document: Document, delay: float) -> None:
        # A check that further typing would make obsolete should not start.
        await asyncio.sleep(max(delay, self._took / 4))
        # One after another, as the libraries are gathered here: requests are answered in between.
        async with self._turn:
            libraries = self._session.libraries(document)

            def work() -> list[types.Diagnostic] | None:
                if not self._is_newest(document):
                    return None
                began = time.perf_counter()
                findings = diagnostics(document, libraries)
                self._took = time.perf_counter() - began
                return findings

            findings = await asyncio.get_running_loop().run_in_executor(self._pool, work)
        if findings is not None and self._is_newest(document):
            self._publish(types.PublishDiagnosticsParams(document.uri, findings, document.version))

    def _is_newest(self, document: Document) -> bool:
        return self._session.documents.get(document.uri) is document


FIX_ALL = "source.fixAll.pearl"
OPTIONS: types.CodeActionOptions = types.CodeActionOptions([types.CodeActionKind.QuickFix, FIX_ALL])


def code_actions(
    session: LanguageSession, document: Document, params: types.CodeActionParams
) -> list[types.CodeAction]:
    """The fixes for what is found in a range, safe ones first, and the fix for everything."""
    libraries = session.libraries(document)
    offered: list[types.CodeAction] = []
    if _wanted(types.CodeActionKind.QuickFix.value, params.context):
        span = document.lines.span(params.range)
        harmless = _harmless(document, libraries)
        for finding in find(document, libraries):
            if finding.span.start <= span.end and finding.span.end >= span.start:
                offered += (
                    _action(session, document, finding, mend)
                    for mend in _fixes(finding)
                    if len(offered) < _MOST_ACTIONS and harmless(mend)
                )
        offered.sort(key=lambda action: not action.is_preferred)
    # An editor asks automatically at every move of the cursor; fixing the whole plan takes too long
    # for that.
    automatic = params.context.trigger_kind is types.CodeActionTriggerKind.Automatic
    if _wanted(FIX_ALL, params.context) and not (automatic and not params.context.only):
        offered += _fix_all(session, document, libraries)
    return offered


_MOST_ACTIONS = 100
"""The most fixes that are offered; each is tried out before."""


def _harmless(document: Document, libraries: Libraries) -> Callable[[Fix], bool]:
    """A test of whether a single fix leaves a plan no worse, as users apply fixes one by one."""
    if document.kind is not TextKind.PLAN:
        return lambda _: True
    known = libraries.library, libraries.selection
    plan = Checked(document.plan, check(document.plan, *known))
    return lambda chosen: is_better_with(plan, [chosen], *known)


def _wanted(kind: str, context: types.CodeActionContext) -> bool:
    """Whether the editor asks for actions of a kind; a kind includes all kinds below it."""
    kinds = [only.value if isinstance(only, Enum) else only for only in context.only or ()]
    return not kinds or any(f"{kind}.".startswith(f"{only}.") for only in kinds)


def _fixes(finding: Diagnostic) -> Iterator[Fix]:
    """The rule's own fix, or else one for each action that may have been meant."""
    if finding.fix:
        yield finding.fix
    elif finding.code == "PRL201":
        for signature in finding.data["candidates"]:
            name = signature.partition("(")[0]
            yield Fix(f"write {name}", (Edit(finding.span, name),), Safety.UNSAFE)


def _action(
    session: LanguageSession, document: Document, finding: Diagnostic, chosen: Fix
) -> types.CodeAction:
    is_safe = chosen.safety is Safety.SAFE
    title = printable(chosen.title[:1].upper() + chosen.title[1:])
    edits = [types.TextEdit(document.lines.range(edit.span), edit.text) for edit in chosen.edits]
    return types.CodeAction(
        title if is_safe else f"{title} (unsafe: it may change the meaning)",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[_diagnostic(document, finding)],
        is_preferred=is_safe or None,
        edit=workspace_edit(session, document, edits),
    )


def _fix_all(
    session: LanguageSession, document: Document, libraries: Libraries
) -> Sequence[types.CodeAction]:
    """The edit that `pearl lint --fix` makes, as a code action; none for a library."""
    if document.kind is not TextKind.PLAN or libraries.trouble:
        return ()
    edits = document.edits_to(fix(document.source, libraries.library, libraries.selection).text)
    if not edits:
        return ()
    edit = workspace_edit(session, document, edits)
    return [types.CodeAction("Apply every safe fix", kind=FIX_ALL, edit=edit)]


def formatting(
    _: LanguageSession, document: Document, __: types.DocumentFormattingParams
) -> list[types.TextEdit]:
    """What `pearl fmt` would change.

    Raises:
        JsonRpcException: a line cannot be read.
    """
    if not document.text.strip():
        return []
    canonical = format_plan if document.kind is TextKind.PLAN else format_library
    try:
        return document.edits_to(canonical(document.source))
    except InputError as error:
        raise refused(str(error)) from None
