"""Action libraries: loading them, and finding an action by name.

Reads action libraries: never raises, recovers line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pearl.lang.ast import (
    Action,
    Broken,
    Builtin,
    Decomposed,
    Literal,
    ParsedLibrary,
    Prompt,
    Replaced,
    Shown,
    Solver,
    SubPlan,
)
from pearl.lang.grammar import Failure, parse_action, parse_step, unquote
from pearl.lang.parser import parse
from pearl.lang.source import InputError, Source, Span, read_source, shipped_actions
from pearl.lang.values import digest

_CALLS = re.compile(r"[`*\s\"'|]*([^\W\d](?:\w|\\_)*)")
# Any other indented line goes on with the definition.
_META = re.compile(
    r"\s+(aliases|traits|provenance(?=\s*:\s*\S)|replaces(?=\s*:\s*\w+\s*[(（])"
    r"|body(?=\s*:\s*(?:builtin|solver)\s+\w+\s*$)|example(?=\s*:\s*[(（])"
    r"|(?:plan|demonstration)(?=\s*:\s*$))\s*:\s*(.*)$"
)
_BLOCKS = ("plan", "demonstration")
"""Metadata that goes on over the indented lines below it."""
_ID = re.compile(r"\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\",]+))\s*(?:,|$)")
_CALL = "_ = _"


def parse_library(text: str | Source, name: str = "<actions>") -> ParsedLibrary:
    """Read an action library, in our form or the paper's ``NAME(ARGS) # definition``.

    Args:
        text: any text at all.
        name: what to call it in messages, when it is not a `Source`.

    Returns:
        The actions, and the lines that cannot be read.
    """
    source = text if isinstance(text, Source) else Source(name, text)
    actions: list[Action] = []
    broken: list[Broken] = []
    comments: list[str] = []
    over = len(source.text.rstrip())
    for start, end, extra in _library_lines(source.text):
        line = source.text[start:end]
        if line.startswith("#"):
            comments.append(line.rstrip())
            continue
        bullet = re.match(r"\s*(?:[-*•]\s+|\d+[.)]\s+)?", line)
        at = start + (bullet.end() if bullet else 0)
        found = parse_action(source.text, Span(at, end))
        if isinstance(found, Failure):
            named = _CALLS.match(source.text, at, end)
            broken.append(_broken(Span(at, end), found, named[1] if named else "", over))
            continue
        action = replace(found, comments=tuple(comments))
        comments.clear()
        for key, span in extra:
            told = _with_metadata(action, key, source.text, span)
            if isinstance(told, Failure):
                broken.append(_broken(span, told, action.name, over))
            else:
                action = told
        actions.append(action)
    return ParsedLibrary(tuple(actions), tuple(broken))


def _broken(span: Span, found: Failure, name: str, over: int) -> Broken:
    last = span.end >= over
    return Broken("action", span, found.at, found.got, found.before, found.accepts, name, last=last)


def _library_lines(text: str) -> list[tuple[int, int, list[tuple[str, Span]]]]:
    """Start and end of each action, and what its metadata lines say, and where."""
    found: list[tuple[int, int, list[tuple[str, Span]]]] = []
    start = 0
    for raw in text.splitlines(keepends=True):
        end = start + len(raw.rstrip("\r\n"))
        meta = _META.match(raw.rstrip("\r\n"))
        if not raw.strip():
            pass
        elif meta and found and not text.startswith("#", found[-1][0]):
            told = Span(start + meta.start(2), start + len(raw.rstrip()))
            found[-1][2].append((meta[1], told))
        elif raw[0] in " \t" and found and found[-1][2] and found[-1][2][-1][0] in _BLOCKS:
            key, told = found[-1][2][-1]
            found[-1][2][-1] = (key, Span(told.start, start + len(raw.rstrip())))
        elif raw[0] in " \t" and found and not found[-1][2] and not re.match(r"\s*[-*•\d]", raw):
            found[-1] = (found[-1][0], end, found[-1][2])
        else:
            found.append((start, end, []))
        start += len(raw)
    return found


def _with_metadata(action: Action, key: str, text: str, span: Span) -> Action | Failure:
    if key == "replaces":
        replaced = _replaced(text, span)
        if isinstance(replaced, Failure):
            return replaced
        return replace(action, replaces=(*action.replaces, replaced))
    if key in _BLOCKS:
        return _with_plan(action, key, text, span)
    if key == "example":
        shown = _shown(text, span)
        if isinstance(shown, Failure):
            return shown
        had = action.body.examples if isinstance(action.body, Prompt) else ()
        return replace(action, body=Prompt((*had, shown)))
    value = text[span.start : span.end]
    if key == "provenance":
        ids = _ids(text, span)
        return ids if isinstance(ids, Failure) else replace(action, provenance=ids)
    names = tuple(name for name in re.split(r"[\s,]+", value) if name)
    match key:
        case "aliases":
            return replace(action, aliases=names)
        case "traits":
            return replace(action, traits=frozenset(names))
        case _:
            kind = Solver if names[0] == "solver" else Builtin
            return replace(action, body=kind(names[-1]))


def _with_plan(action: Action, key: str, text: str, span: Span) -> Action | Failure:
    """An action with the steps that carry it out, or with an example of such steps."""
    parsed = parse(text[span.start : span.end])
    if parsed.broken:
        first = parsed.broken[0]
        at = Span(span.start + first.at.start, span.start + first.at.end)
        return Failure(at, first.got, first.before, first.accepts)
    plan = replace(parsed.plan, source=Source("", ""))
    if key == "plan":
        return replace(action, body=SubPlan(plan))
    had = action.body.demonstrations if isinstance(action.body, Decomposed) else ()
    return replace(action, body=Decomposed((*had, plan)))


def _shown(text: str, span: Span) -> Shown | Failure:
    """``("Donna", 2) = "n"``: a call's arguments and its answer."""
    equals = (
        text.rfind(") =", span.start, span.end) + 1 or text.rfind(")=", span.start, span.end) + 1
    )
    middle = equals or span.end
    call, answer = _CALL + text[span.start : middle], f"_ = _({text[middle + 2 : span.end]})"
    steps = [parse_step(one, Span(0, len(one))) for one in (call, answer)]
    for step in steps:
        if isinstance(step, Failure):
            return step._replace(at=span)
    asked, given = steps
    assert not isinstance(asked, Failure)
    assert not isinstance(given, Failure)
    if len(given.args) != 1 or not isinstance(given.args[0], Literal):
        return Failure(span, "", "_ASSIGN", frozenset({"STRING"}))
    return Shown(asked.args, given.args[0].value)


def _ids(text: str, span: Span) -> tuple[str, ...] | Failure:
    """Ids between commas; one with a comma or a quote in it stands in quotes."""
    found: list[str] = []
    at = span.start
    while at < span.end:
        one = _ID.match(text, at, span.end)
        if not one:
            return Failure(Span(at, at + 1), "", "_COMMA", frozenset({"NAME", "STRING"}))
        if one[1] is not None:
            inner = unquote(one[1], at)
            found.append(inner if isinstance(inner, str) else one[1])
        elif one[2].strip():
            found.append(one[2].strip())
        at = one.end()
    return tuple(found)


def _replaced(text: str, span: Span) -> Replaced | Failure:
    """``OLD(CTX, X) = (CTX, "all of {X}")``, in the language of plans."""
    equals = text.find("=", span.start, span.end)
    middle = equals if equals >= 0 else span.end
    old = parse_action(text, Span(span.start, middle))
    if isinstance(old, Failure):
        return old
    call = _CALL + text[middle + 1 : span.end].lstrip()
    step = parse_step(call, Span(0, len(call)))
    if not isinstance(step, Failure):
        return Replaced(old.name, tuple(param.name for param in old.params), step.args)
    # The call was read on its own: its places are counted from the line's end.
    start, end = (max(middle, span.end - len(call) + place) for place in step.at)
    return step._replace(at=Span(start, max(start, end)))


DEFAULT = ("core", "quality")
"""The libraries that are used where none is named."""


@dataclass(frozen=True)
class Library:
    """Actions by name.

    Args:
        names: the files the actions came from, as they were named.
        actions: every action under its own name, in order.
    """

    names: tuple[str, ...]
    actions: Mapping[str, Action]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a list: a read-only mapping cannot be, and workers elsewhere need it."""
        return _restored, (self.names, tuple(self.actions.values()))

    @cached_property
    def _by_any_name(self) -> Mapping[str, Action]:
        found: dict[str, Action] = {}
        for action in self.actions.values():
            for alias in action.aliases:
                found.setdefault(alias, action)
        found.update(self.actions)
        return MappingProxyType(found)

    def get(self, name: str) -> Action | None:
        """The action of this name or alias."""
        return self._by_any_name.get(name)

    def every_name(self) -> Iterable[str]:
        """All names and aliases."""
        return self._by_any_name.keys()

    @cached_property
    def digest(self) -> str:
        """The hash of all in it that may change an answer."""
        return digest([_told(action) for action in self.actions.values()])

    def with_declared(self, declares: Sequence[Action]) -> Library:
        """A library for one plan: these actions, and the plan's own.

        A declaration never replaces an action of the library.
        """
        own = {action.name: action for action in declares if not self.get(action.name)}
        if not own:
            return self
        return Library(self.names, MappingProxyType({**self.actions, **own}))


def _told(action: Action) -> list[Any]:
    """All of an action that may change an answer, in an order that is always the same."""
    params = [[one.name, one.type] for one in action.params]
    sets = [sorted(action.aliases), sorted(action.traits)]
    return [
        action.name,
        params,
        action.variadic,
        action.returns,
        action.doc,
        repr(action.body),
        *sets,
    ]


def _restored(names: tuple[str, ...], actions: tuple[Action, ...]) -> Library:
    return Library(names, MappingProxyType({action.name: action for action in actions}))


@cache
def _core() -> ParsedLibrary:
    return parse_library(shipped_actions()["core"].read_text(encoding="utf-8"), "core")


def builtins() -> dict[str, Action]:
    """The actions that need no model; every library holds them."""
    return {action.name: action for action in _core().actions if action.is_builtin}


def library_source(name: str) -> Source:
    """The text of a library that ships with Pearl, or of a file.

    Args:
        name: ``core``, ``quality`` …, or a path.

    Raises:
        InputError: no such library, or a file that cannot be read.
    """
    shipped = shipped_actions()
    if name in shipped:
        return Source(f"{name}.actions", shipped[name].read_text(encoding="utf-8"))
    if not Path(name).suffix and name != "-" and not Path(name).exists():
        known = ", ".join(shipped)
        raise InputError(f"no library is named {name}: use one of {known}, or a file's path.")
    return read_source(name, "action library")


def load_library(*names: str) -> Library:
    """Load action libraries, later ones over earlier ones.

    The builtins are always there. A line that declares one of them (the
    paper's library lists ``CONCAT``) leaves it as it is.

    Args:
        names: names of libraries that ship with Pearl, or paths; none means
            `DEFAULT`.

    Raises:
        InputError: no such library, a file that cannot be read, or one that
            holds no action.
    """
    chosen = names or DEFAULT
    own = builtins()
    actions = dict(own)
    for name in chosen:
        source = library_source(name)
        found = parse_library(source).actions
        if not found:
            raise InputError(
                f"{source.name} holds no action: write lines such as "
                f"FIND_CHARACTER(CTX, X) : Find and describe X in CTX."
            )
        for action in found:
            if action.name not in own:
                actions[action.name] = replace(action)
    return Library(tuple(chosen), MappingProxyType(actions))


def search_actions(library: Library, words: str) -> list[Action]:
    """Actions whose name, aliases or definition hold the words, best first.

    Every word counts as found where it, or a word that starts with it, occurs;
    a misspelt one where a name resembles it.
    """
    from rapidfuzz import fuzz

    wanted = words.lower().split()
    scored: list[tuple[float, int, Action]] = []
    for order, action in enumerate(library.actions.values()):
        names = " ".join((action.name, *action.aliases)).replace("_", " ").lower()
        doc = action.doc.lower()
        score = 0.0
        for word in wanted:
            near = max((fuzz.ratio(word, name) for name in names.split()), default=0.0)
            if word in names:
                score += 3
            elif word in doc:
                score += 1
            elif near >= 75:
                score += near / 50
        if score > 0:
            scored.append((-score, order, action))
    return [action for _, _, action in sorted(scored, key=lambda one: one[:2])]
