"""What a rule is, what it may look at, and the functions that rules share."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from pearl.lang.ast import (
    DOCUMENT,
    Action,
    Arg,
    Aside,
    Broken,
    Items,
    Literal,
    Mode,
    Parsed,
    Plan,
    Prompt,
    Ref,
    Step,
    Template,
    mapped,
    step_refs,
)
from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Label, Safety, Severity
from pearl.lang.library import Library, builtins
from pearl.lang.source import Source, Span
from pearl.lang.text import pattern, section, shorten
from pearl.lang.values import Type, Value, type_of

# Rules import these names from here.
__all__ = ["DOCUMENT", "Action", "Broken", "Literal", "Ref", "Span", "Step", "pattern", "shorten"]
__all__ += ["Diagnostic", "Edit", "Fix", "Label", "Safety"]

ERROR, WARNING = Severity.ERROR, Severity.WARNING

SEVERAL = frozenset(("document", "documents", "docs"))
"""Names that people give several documents, in lower case."""

NEAREST = 30
"""The number of preceding steps whose names are compared with a misspelt reference."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its code, its documentation, and how it finds what it is about.

    At least one of the three functions is set.

    Args:
        code: stable and never reused.
        name: reads as what it disallows.
        severity: an error stops a plan from running.
        doc: the module's docstring, which is what ``pearl rule`` prints.
        enabled: whether it is on unless selected.
        explain: says what is wrong with a line that cannot be read.
        plan: looks at a plan.
        library: looks at a library.
    """

    code: str
    name: str
    severity: Severity
    doc: str
    enabled: bool = True
    explain: Explain | None = None
    plan: LookAtPlan | None = None
    library: LookAtLibrary | None = None

    def __call__(
        self,
        span: Span,
        message: str,
        *,
        help: str = "",
        labels: tuple[Label, ...] = (),
        data: Mapping[str, Any] | None = None,
        fix: Fix | None = None,
    ) -> Diagnostic:
        """A finding of this rule."""
        return Diagnostic(
            self.code, self.name, self.severity, span, message, help, labels, data or {}, fix
        )

    def section(self, title: str) -> str:
        """A section of the documentation, unindented (``Example``, ``Use instead``)."""
        return section(self.doc, title)


class PlanView:
    """A parsed plan with a library, and the facts that several rules need.

    Args:
        parsed: the plan.
        library: the actions it may call.
        action: the action whose own plan it is, if any; its steps may use the parameters.
    """

    def __init__(self, parsed: Parsed, library: Library, action: Action | None = None) -> None:
        self.action = action
        params = (param for param in action.params if param.name != DOCUMENT) if action else ()
        self.params = {param.name: param.type for param in params}
        self.plan: Plan = parsed.plan
        self.source: Source = parsed.plan.source
        self.broken: tuple[Broken, ...] = parsed.broken
        self.aside: tuple[Aside, ...] = parsed.aside
        self.base = library
        self.library = library.with_declared(self.plan.declares) if self.plan.declares else library
        self.actions = [self.library.get(step.action) for step in self.plan.steps]
        self.broken_names = _names(parsed)
        # Where each name is defined: a step's index; for a parameter a number below 0.
        self.defined = {name: -place for place, name in enumerate(self.params, 1)}
        self.uses: dict[str, list[tuple[int, Ref]]] = {}
        self.step_refs: list[list[Ref]] = []
        # The references with a mode, each with its step's index.
        self.moded: list[tuple[int, Ref]] = []
        # Every literal argument, with its step's index and its own.
        self.literals: list[tuple[int, int, Literal]] = []
        self.template_refs: list[Ref] = []
        self._types = {self.defined[name]: type for name, type in self.params.items()}
        for index, step in enumerate(self.plan.steps):
            self.defined.setdefault(step.name, index)
            for place, arg in enumerate(step.args):
                if type(arg) is Literal:
                    self.literals.append((index, place, arg))
                elif type(arg) is not Ref:
                    self.template_refs.extend(_in_templates(arg))
            self.step_refs.append(step_refs(step))
            for ref in self.step_refs[-1]:
                if ref.mode:
                    self.moded.append((index, ref))
                self.uses.setdefault(ref.name, []).append((index, ref))

    def number(self, index: int) -> int:
        """The number a reader gives the step: lines that cannot be read count too."""
        return index + 1 + bisect_left(self._broken_steps, self.plan.steps[index].span.start)

    @cached_property
    def _broken_steps(self) -> list[int]:
        return sorted(line.span.start for line in self.broken if line.kind == "step")

    def names_before(self, index: int) -> list[str]:
        """The parameters, and the names of the `NEAREST` steps before a step."""
        nearest = self.plan.steps[max(0, index - NEAREST) : index]
        return [*self.params, *(step.name for step in nearest)]

    def spelled(self, words: str) -> list[str]:
        """The names with the same letters as some words, whatever their case and separators."""
        return self._by_letters.get(letters(words), [])

    @cached_property
    def _by_letters(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for name in self.defined:
            names.setdefault(letters(name), []).append(name)
        return names

    @cached_property
    def mapped_over(self) -> dict[int, Ref | None]:
        """For each step with a moded reference, the reference it runs over; None for none."""
        return {at: mapped(self.step_refs[at]) for at in dict.fromkeys(at for at, _ in self.moded)}

    def action_of(self, *types: Type) -> str:
        """Words for an action that returns one of some types; where the library has none, for one
        that has to be declared."""
        own = (action for action in self.library.listed if action.name not in builtins())
        if any(action.returns in types for action in own):
            return f"an action that returns {' or '.join(types)}"
        where = "define in the library" if self.action else 'declare under "New actions:"'
        return f'an action that you {where} with "-> {types[0]}"'

    def type_before(self, name: str, index: int) -> Type:
        """The type of a reference in a step; ``any`` where no earlier step defines it."""
        source = self.defined.get(name, index)
        return self.type_of(source) if source < index else "any"

    def filter_instead(self, name: str, index: int) -> str:
        """How an earlier step that pairs items with yes or no can be written to give only those
        with the answer yes; empty for any other step."""
        source = self.defined.get(name, index)
        if not 0 <= source < index or not (action := self.actions[source]):
            return ""
        over = self.mapped_over.get(source)
        if action.returns != "bool" or over is None or over.mode is not Mode.EACH:
            return ""
        return (
            f"Write where {over.name} in place of each {over.name} in step {self.number(source)}: "
            f"{name} is then the list of those with the answer yes."
        )

    def type_of_argument(self, arg: Arg, index: int) -> Type:
        """The type of an argument of a step, as far as it shows; ``any`` where it does not."""
        match arg:
            case Ref(mode=Mode.PLAIN):
                return self.type_before(arg.name, index)
            case Literal():
                return type_of(arg.value)
            case Template():
                return "text"
            case Items() | Ref(mode=Mode.EVIDENCE):
                return "list"
            case _:
                return "any"

    def type_of(self, index: int) -> Type:
        """The type of a step's output, as far as it shows; ``any`` where it does not."""
        passed: list[int] = []
        while index not in self._types:
            passed.append(index)
            moded = self.mapped_over.get(index)
            if moded is None:
                action = self.actions[index]
                self._types[index] = action.returns if action else "any"
            elif moded.mode.startswith("each"):
                self._types[index] = "pairs"
            # Where keeps items, so the output is of the type of what it filters.
            elif (source := self.defined.get(moded.name, index)) >= index:
                self._types[index] = "any"
            else:
                index = source
        self._types.update(dict.fromkeys(passed, self._types[index]))
        return self._types[index]


@dataclass(frozen=True)
class LibraryView:
    """A parsed library file (see `ParsedLibrary`), and the actions its own plans may call."""

    source: Source
    actions: tuple[Action, ...]
    unread: tuple[Action, ...]
    library: Library

    @cached_property
    def _starts(self) -> list[int]:
        every = (action.span.start for action in (*self.actions, *self.unread))
        return [*sorted(every), len(self.source.text)]

    def lines_below(self, action: Action) -> Span:
        """What stands between an action's own line and the next action."""
        following = bisect_left(self._starts, action.span.end)
        return Span(action.span.end, self._starts[following])

    def place(self, action: Action, word: str, key: str = "") -> Span:
        """The first place of a word in the lines below an action; the action's if there is none.

        Args:
            action: the action.
            word: the word.
            key: if given, only lines of this key count, and of these the text before a parenthesis.
        """
        line = rf"^[ \t]+{key}[ \t]*:[^\n(]*?" if key else ""
        whole = re.compile(rf"{line}(?<!\w)({re.escape(word)})(?!\w)", re.MULTILINE)
        match = whole.search(self.source.text, *self.lines_below(action))
        return Span(*match.span(1)) if match else action.span


Findings: TypeAlias = Iterator[Diagnostic]
Explain: TypeAlias = Callable[[Broken], Diagnostic | None]
LookAtPlan: TypeAlias = Callable[[PlanView], Findings]
LookAtLibrary: TypeAlias = Callable[[LibraryView], Findings]


def _in_templates(arg: Arg) -> Iterator[Ref]:
    if isinstance(arg, Template):
        yield from (part for part in arg.parts if isinstance(part, Ref))
    elif isinstance(arg, Items):
        for item in arg.items:
            yield from _in_templates(item)


# Where a line that cannot be read may name its output: before its call, or after an arrow.
_NAMED_BEFORE = pattern(r"(?P<words>[^(\n]{0,60}?)[^\W\d]\w*\s*\(|(?P<all>[^(\n]{0,60})")
_NAMED_AFTER = pattern(r"(?:->|=>|→|\bas\b)\s*([^\W\d]\w*)")


def _names(parsed: Parsed) -> frozenset[str]:
    """The names that unreadable lines may define. The parser refers to a line without a name by its
    number, as ``step_2``."""
    names: set[str] = set()
    starts = [step.span.start for step in parsed.plan.steps] if parsed.broken else []
    starts += [line.span.start for line in parsed.broken if line.kind == "step"]
    numbers = {start: number for number, start in enumerate(sorted(starts), 1)}
    for line in parsed.broken:
        if line.name:
            names.add(line.name)
        elif line.kind == "step":
            names.add(f"step_{numbers[line.span.start]}")
            text = parsed.plan.source.at(line.span)[:400]
            head = _NAMED_BEFORE.match(text)
            before = head["words"] or head["all"] or "" if head else ""
            names.update(re.findall(r"[^\W\d]\w*", before))
            # References write a name of several words as one word.
            joint = "_".join(re.findall(r"\w+", before.partition("=")[0]))
            names |= {joint, joint.lower()}
            names.update(_NAMED_AFTER.findall(text))
    return frozenset(names)


def letters(words: str) -> str:
    """The letters and digits of words in lower case, without what separates them."""
    return re.sub(r"[\W_]+", "", words).casefold()


def mend(span: Span, text: str, title: str = "") -> Fix:
    """A safe fix that replaces a span with a text; the default title says so."""
    return Fix(title or f"write {text}", (Edit(span, text),))


def guess(span: Span, text: str, title: str = "") -> Fix:
    """An unsafe fix that replaces a span with a text; the default title says so."""
    return Fix(title or f"write {text}", (Edit(span, text),), Safety.UNSAFE)


def trimmed(text: str, start: int, end: int) -> Span:
    """A span without the white space at its ends."""
    words = text[start:end]
    start += len(words) - len(words.lstrip())
    return Span(start, start + len(words.strip()))


def word_start(text: str, at: int) -> int:
    """Where the word before a place begins; Markdown puts backslashes into words."""
    start = len(text[:at].rstrip())
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_\\"):
        start -= 1
    return start


def taught(action: Action, place: int) -> tuple[Value, ...]:
    """The values that an action's examples give for the parameter at an index."""
    examples = action.body.examples if isinstance(action.body, Prompt) else ()
    args = (example.args[place] for example in examples if place < len(example.args))
    return tuple(arg.value for arg in args if isinstance(arg, Literal))
