"""Action libraries: reading them, loading them, and finding an action by name.

Reading never raises, and recovers line by line. A line of an action may be followed by indented
lines of metadata: aliases, traits, body, model, example, plan, demonstration, provenance,
replaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pearl.lang import ast
from pearl.lang.builtins import FUNCTIONS
from pearl.lang.entry_points import extension, offered
from pearl.lang.errors import InputError
from pearl.lang.grammar import ParseFailure, parse_action, parse_step, unquote
from pearl.lang.parser import CALLED, parse
from pearl.lang.printer import print_library
from pearl.lang.source import Source, Span, read_plan, shipped_actions
from pearl.lang.text import close_name, pattern
from pearl.lang.values import digest

# Any other indented line right below an action goes on with its definition.
_META = pattern(
    r"\s+((?:aliases|traits|provenance)(?=\s*:\s*[^\s,])|replaces(?=\s*:\s*\w+\s*[(（])"
    r"|body(?=\s*:\s*(?:builtin|solver)\s+\w+\s*$)|model(?=\s*:\s*[^\s,]+\s*$)|example(?=\s*:\s*[(（])"
    r"|(?:plan|demonstration)(?=\s*:\s*$))\s*:\s*(.*)$"
)
METADATA = {
    "aliases": "aliases: NAME, NAME",
    "traits": "traits: NAME, NAME",
    "body": "body: builtin NAME, or body: solver NAME",
    "model": "model: NAME",
    "example": 'example: ("argument", 2) = "answer"',
    "plan": "plan: by itself, and the steps indented below it",
    "demonstration": "demonstration: by itself, and the steps indented below it",
    "provenance": "provenance: ID, ID",
    "replaces": "replaces: OLD(CTX, X) = (CTX, X)",
}
"""What may be said of an action below it, by its key, and how it is written."""

TRAITS = {
    "pure": "the same inputs give the same output, with no call",
    "cacheable": "asked again, it is taken to answer the same",
    "unlisted": "only Pearl itself puts it into plans",
    "knowledge": "the model may answer from what it knows, and not from its sources alone",
    "verbatim": "what it gives is copied from the document, and is its own evidence",
}
"""What may be assumed of an action."""

_BLOCKS = ("plan", "demonstration")
"""Metadata that goes on over the indented lines below it."""
_KEY = pattern(rf"\s*(?:(?!question\b)[a-z]+\s*:|(?:{'|'.join(METADATA)})\s*=(?!\s*\w+\s*[(（]))")
"""A line of metadata with any key, known or not; not the question or a step of a plan, which may
be indented as little as the plan's key."""
_ACTION = pattern(
    r"\s+(?:[-*•]\s+|\d+[.)]\s+)?[A-Z][A-Z0-9_]*[(（]"
    r"(?:[^()（）]*[)）]\s*(?:->|→|[:：#])|[^()（）:：#]*[:：#][^()（）]*$)"
)
"""An indented line that begins an action, though lines of metadata are indented too."""
_ID = pattern(r"\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\",]+))\s*(?:,|$)")
_CALL = "_ = _"


@lru_cache(maxsize=32)  # The same few are read again by each question, and by each keystroke.
def parse_library(text: str | Source) -> ast.ParsedLibrary:
    """Read any text as an action library, in our form or the paper's ``NAME(ARGS) # definition``.

    Returns:
        The actions, and the lines that cannot be read.
    """
    source = text if isinstance(text, Source) else Source("<actions>", text)
    actions: list[ast.Action] = []
    unread: list[ast.Action] = []
    owners = actions
    broken: list[ast.Broken] = []
    plans: list[tuple[Span, Span]] = []
    comments: list[str] = []
    over = len(source.text.rstrip())

    def fail(span: Span, failure: ParseFailure, name: str) -> None:
        last = span.end >= over
        broken.append(ast.Broken("action", span, *failure, name=name, last=last, source=source))

    for kind, (start, end) in _entries(source.text):
        line = source.text[start:end]
        if kind == "comment":
            comments.append(line.rstrip())
            continue
        if kind in METADATA:
            place, failures = Span(start, end), list[ParseFailure]()
            if kind in _BLOCKS:
                plans.append((owners[-1].span, place))
                owners[-1], failures = _with_plan(owners[-1], kind, source.text, place)
            elif isinstance(
                changed := _with_metadata(owners[-1], kind, source.text, place), ParseFailure
            ):
                failures = [changed]
            else:
                owners[-1] = changed
            for failure in failures:
                fail(place, failure, owners[-1].name)
            continue
        bullet = re.match(r"\s*(?:[-*•]\s+|\d+[.)]\s+)?", line)
        span = Span(start + (bullet.end() if bullet else 0), end)
        action = parse_action(source.text, span)
        if not isinstance(action, ParseFailure):
            actions.append(replace(action, comments=tuple(comments)))
            owners = actions
            comments.clear()
            continue
        named = CALLED.match(source.text, *span)
        fail(span, action, named[1] if named else "")
        if kind == "action":
            unread.append(ast.Action(named[1] if named else "", (), variadic=True, span=span))
            owners = unread
    return ast.ParsedLibrary(tuple(actions), tuple(broken), tuple(unread), tuple(plans))


def _entries(text: str) -> list[tuple[str, Span]]:
    """The entries of a library, each with its kind and its place: ``action``, ``comment``, a key
    of `METADATA` with the place of what follows it, or ``key`` for an unknown key."""
    entries: list[tuple[str, Span]] = []
    start = depth = 0
    owned = False
    for raw in text.splitlines(keepends=True):
        end = start + len(raw.rstrip("\r\n"))
        full = start + len(raw.rstrip())
        kind, place = entries[-1] if entries else ("", Span(0, 0))
        indent = len(raw) - len(raw.lstrip())
        starts, keyed = _ACTION.match(raw), _KEY.match(raw)
        goes_on = kind == "action" or (kind == "comment" and not keyed)
        if not raw.strip():
            pass
        elif owned and (meta := _META.match(raw.rstrip("\r\n"))):
            entries.append((meta[1], Span(start + meta.start(2), full)))
            depth = indent
        elif indent and kind in _BLOCKS and (indent > depth or not (starts or keyed)):
            entries[-1] = kind, Span(place.start, full)
        elif indent and goes_on and not starts and not re.match(r"\s*[-*•\d]", raw):
            entries[-1] = kind, Span(place.start, end)
        elif raw.startswith("#"):
            entries.append(("comment", Span(start, end)))
        else:
            entries.append(("key" if owned and keyed else "action", Span(start, end)))
            owned = True
        start += len(raw)
    return entries


def _with_metadata(
    action: ast.Action, key: str, text: str, span: Span
) -> ast.Action | ParseFailure:
    """The action with what one line says of it."""
    words = [word for word in re.split(r"[\s,]+", text[span.start : span.end]) if word]
    match key:
        case "aliases":
            return replace(action, aliases=tuple(words))
        case "traits":
            return replace(action, traits=frozenset(words))
        case "body":
            name = words[-1]
            if words[0] == "solver":
                return replace(action, body=ast.Solver(name))
            # Plans call builtins in capitals.
            known = name.lower() in FUNCTIONS
            return replace(action, body=ast.Builtin(name.lower() if known else name))
        case "model":
            return replace(action, model=words[0])
        case "provenance":
            ids = _ids(text, span)
            return ids if isinstance(ids, ParseFailure) else replace(action, provenance=ids)
        case "replaces":
            if isinstance(older := _parse_replaced(text, span), ParseFailure):
                return older
            return replace(action, replaces=(*action.replaces, older))
        case _:
            if isinstance(example := _example(text, span), ParseFailure):
                return example
            examples = action.body.examples if isinstance(action.body, ast.Prompt) else ()
            return replace(action, body=ast.Prompt((*examples, example)))


def _with_plan(
    action: ast.Action, key: str, text: str, span: Span
) -> tuple[ast.Action, list[ParseFailure]]:
    """An action with the plan or the demonstration below it, as far as that can be read, and the
    places that cannot be read."""
    parsed = parse(text[span.start : span.end])
    faults = [ParseFailure(line.at, line.got, line.before, line.accepts) for line in parsed.broken]
    words = (part.span for part in parsed.aside if part.kind != "wrapping")
    faults += map(ParseFailure, words)
    faults = [fault._replace(at=fault.at.moved(span.start)) for fault in faults]
    plan = replace(parsed.plan, source=Source("", ""))
    if faults and not plan.steps:
        return action, faults
    if key == "plan":
        return replace(action, body=ast.SubPlan(plan)), faults
    plans = action.body.demonstrations if isinstance(action.body, ast.Decomposed) else ()
    return replace(action, body=ast.Decomposed((*plans, plan))), faults


def _example(text: str, span: Span) -> ast.Shown | ParseFailure:
    """``("Donna", 2) = "n"``: a call's arguments and its answer."""
    ends = [text.rfind(mark, *span) + 1 for mark in (") =", ")=")]
    middle = next(filter(None, ends), span.end)
    call = _parse_call(text[span.start : middle])
    answer = _parse_call(f"({text[middle + 2 : span.end]})")
    if isinstance(call, ParseFailure):
        return call._replace(at=span)
    if isinstance(answer, ParseFailure):
        return answer._replace(at=span)
    if len(answer.args) != 1 or not isinstance(answer.args[0], ast.Literal):
        return ParseFailure(span, "", "_ASSIGN", frozenset({"STRING"}))
    return ast.Shown(call.args, answer.args[0].value)


def _ids(text: str, span: Span) -> tuple[str, ...] | ParseFailure:
    """Ids between commas; one with a comma or a quote in it stands in quotes."""
    ids: list[str] = []
    at = span.start
    while at < span.end:
        match = _ID.match(text, at, span.end)
        if not match:
            return ParseFailure(Span(at, at + 1), "", "_COMMA", frozenset({"NAME", "STRING"}))
        if match[1] is not None:
            inner = unquote(match[1], at)
            ids.append(inner if isinstance(inner, str) else match[1])
        elif match[2].strip():
            ids.append(match[2].strip())
        at = match.end()
    return tuple(ids)


def _parse_replaced(text: str, span: Span) -> ast.Replaced | ParseFailure:
    """``OLD(CTX, X) = (CTX, "all of {X}")``, in the language of plans."""
    equals = text.find("=", span.start, span.end)
    middle = equals if equals >= 0 else span.end
    old = parse_action(text, Span(span.start, middle))
    if isinstance(old, ParseFailure):
        return old
    args = text[middle + 1 : span.end].lstrip()
    step = _parse_call(args)
    if not isinstance(step, ParseFailure):
        return ast.Replaced(old.name, tuple(param.name for param in old.params), step.args)
    # The call was read on its own: its places are counted from the line's end.
    before = span.end - len(args) - len(_CALL)
    start, end = (max(middle, before + place) for place in step.at)
    return step._replace(at=Span(start, max(start, end)))


def _parse_call(args: str) -> ast.Step | ParseFailure:
    """A step made of arguments in parentheses."""
    return parse_step(_CALL + args, Span(0, len(_CALL) + len(args)))


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
    actions: Mapping[str, ast.Action]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a list: a read-only mapping cannot be, and workers elsewhere need it."""
        return _rebuild, (self.names, tuple(self.actions.values()))

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def _by_any_name(self) -> Mapping[str, ast.Action]:
        named: dict[str, ast.Action] = {}
        for action in self.actions.values():
            for alias in action.aliases:
                named.setdefault(alias, action)
        return {**named, **self.actions}

    @property
    def listed(self) -> list[ast.Action]:
        """The actions that planners are shown: not what only Pearl itself puts into plans."""
        return [action for action in self.actions.values() if "unlisted" not in action.traits]

    def get(self, name: str) -> ast.Action | None:
        """The action of this name or alias."""
        return self._by_any_name.get(name)

    def every_name(self) -> Iterable[str]:
        """All names and aliases."""
        return self._by_any_name.keys()

    @cached_property
    def digest(self) -> str:
        """The hash of everything in the library that may change an answer."""
        return digest(
            [
                [
                    action.name,
                    [[param.name, param.type] for param in action.params],
                    action.variadic,
                    action.returns,
                    action.doc,
                    repr(action.body),
                    sorted(action.aliases),
                    sorted(action.traits),
                    # Left out where empty, so that the digests of stored runs stay the same.
                    *([action.model] if action.model else []),
                ]
                for action in self.actions.values()
            ]
        )

    def with_declared(self, declares: Sequence[ast.Action]) -> Library:
        """A library for one plan: these actions, and the plan's own.

        A declaration never replaces an action of the library.
        """
        own = {action.name: action for action in declares if not self.get(action.name)}
        if not own:
            return self
        return Library(self.names, MappingProxyType({**self.actions, **own}))

    def documents_of(self, step: ast.Step) -> Iterator[ast.Literal]:
        """The arguments of a step that stand where its action takes the document, and that the
        plan itself writes: ``"CTX.lease.pdf"``."""
        action = self.get(step.action)
        for arg, param in zip(step.args, action.params if action else (), strict=False):
            if param.name == ast.DOCUMENT and isinstance(arg, ast.Literal):
                yield arg

    def called_by(self, plan: ast.Plan) -> Library:
        """The actions that a plan calls, and those that their own plans call in turn.

        An action whose steps are written in the run may call any of them.
        """
        called: dict[str, ast.Action] = {}
        ahead = list(plan.steps)
        for step in ahead:
            action = self.get(step.action)
            if action and isinstance(action.body, ast.Decomposed):
                return self
            if action and action.name not in called:
                called[action.name] = action
                ahead += action.body.plan.steps if isinstance(action.body, ast.SubPlan) else ()
        return Library(self.names, MappingProxyType(called))


def _rebuild(names: tuple[str, ...], actions: tuple[ast.Action, ...]) -> Library:
    """The library that was pickled."""
    return Library(names, MappingProxyType({action.name: action for action in actions}))


@cache
def builtins() -> Mapping[str, ast.Action]:
    """The actions that need no model; every library holds them."""
    # `load_library` reads the same source, so that it is parsed once.
    core = parse_library(library_source("core"))
    return MappingProxyType({action.name: action for action in core.actions if action.is_builtin})


def library_source(name: str) -> Source:
    """The text of a library: one that ships with Pearl, one that a package offers, or a file.

    Args:
        name: ``core``, ``quality`` …, an entry point, or a path.

    Raises:
        InputError: no such library, or a file that cannot be read.
    """
    shipped = shipped_actions()
    if name in shipped:
        return Source(f"{name}.actions", shipped[name].read_text(encoding="utf-8"))
    if actions := offered_actions(name):
        return Source(name, print_library(actions))
    if not Path(name).suffix and name != "-" and not Path(name).exists():
        names = [*shipped, *offered("actions")]
        close = close_name(name, names)
        raise InputError(
            f"no library is named {name}{close}: use one of {', '.join(names)}, or a file's path."
        )
    return read_plan(name, "action library")


def library_actions(source: Source) -> tuple[ast.Action, ...]:
    """The actions of a library's text.

    Raises:
        InputError: it holds none.
    """
    actions = parse_library(source).actions
    if not actions and source.name.endswith(".py"):
        raise InputError(
            f"{source.name} is Python, and a library is text: docs/python.md says how a package "
            "offers actions in Python to commands; pearl.ask takes them in its library."
        )
    if not actions:
        raise InputError(
            f"{source.name} holds no action: write lines such as "
            f"FIND_CHARACTER(CTX, X) : Find and describe X in CTX."
        )
    return actions


def offered_actions(name: str) -> tuple[ast.Action, ...]:
    """The actions that an installed package offers under a name which no library or file has.

    Raises:
        InputError: it offers something else, or it cannot be loaded.
    """
    if not name.isidentifier() or name in shipped_actions() or Path(name).is_file():
        return ()
    offer = extension("actions", name)
    if offer is None:
        return ()
    offers = offer if isinstance(offer, list | tuple) else [offer]
    items = [getattr(item, "action", item) for item in offers]
    actions = tuple(item for item in items if isinstance(item, ast.Action))
    if not actions or len(actions) < len(items):
        raise InputError(f"The entry point {name} is to offer actions that pearl.action made.")
    return actions


def load_library(*names: str | Path | ast.Action) -> Library:
    """Load action libraries, later ones over earlier ones.

    The builtins are always there. A line that declares one of them (the
    paper's library lists ``CONCAT``) leaves it as it is.

    Args:
        names: names of libraries that ship with Pearl or that a package offers, or paths, or
            actions themselves; none means `DEFAULT`.

    Raises:
        InputError: no such library, a file that cannot be read, or one that
            holds no action.
    """
    chosen, own = names or DEFAULT, builtins()
    actions = dict(own)
    for name in chosen:
        if isinstance(name, ast.Action):
            added: tuple[ast.Action, ...] = (name,)
        else:
            added = offered_actions(str(name)) or library_actions(library_source(str(name)))
        actions |= {action.name: action for action in added if action.name not in own}
    named = (each.name if isinstance(each, ast.Action) else str(each) for each in chosen)
    return Library(tuple(named), MappingProxyType(actions))


_NAMED = pattern(r"^[^\S\n]*# library: (.+)", re.MULTILINE)


def named_libraries(source: Source) -> tuple[str, ...]:
    """The libraries that a plan or a trace names in a comment above its first step."""
    named = _NAMED.search(source.text)
    if not named:
        return ()
    above = parse(source.text[: named.start()])
    if above.plan.steps or above.broken:
        return ()
    return tuple(name.strip() for name in named[1].split(",") if name.strip())


def plan_library(plan: Source, chosen: Library) -> Library:
    """The actions that a plan may call: those of the libraries that it names, if they all ship with
    Pearl and nobody chose other libraries; else those that were chosen."""
    names = named_libraries(plan) if chosen.names == DEFAULT else ()
    return load_library(*names) if names and shipped_actions().keys() >= {*names} else chosen


def find_library(head: Mapping[str, Any]) -> Library | None:
    """The library that a stored run names, as it is now; None where a part of it is missing."""
    text = head.get("library")
    names = text.split(", ") if isinstance(text, str) and text else []
    shipped = shipped_actions()
    with suppress(InputError, OSError, ValueError):
        if names and all(name in shipped or Path(name).is_file() for name in names):
            return load_library(*names)
    return None


def search_actions(library: Library, words: str) -> list[ast.Action]:
    """Actions whose name, aliases or definition hold the words, best first.

    Every word counts as found where it, or a word that starts with it, occurs;
    a misspelt one where a name resembles it. Beside others, words of one or two letters ("of")
    are passed over.
    """
    from rapidfuzz import fuzz

    every = list(dict.fromkeys(words.lower().split()))
    terms = [
        (word, re.compile(rf"\b{re.escape(word)}"))
        for word in [word for word in every if len(word) > 2] or every
    ]
    scored: list[tuple[float, int, ast.Action]] = []
    for order, action in enumerate(library.actions.values()):
        names = " ".join((action.name, *action.aliases)).replace("_", " ").lower()
        doc = action.doc.lower()
        score = 0.0
        for word, begins in terms:
            near = max((fuzz.ratio(word, name) for name in names.split()), default=0.0)
            if begins.search(names):
                score += 3
            elif begins.search(doc):
                score += 1
            elif near >= 75:
                score += near / 50
        if score > 0:
            scored.append((-score, order, action))
    return [action for _, _, action in sorted(scored, key=lambda entry: entry[:2])]
