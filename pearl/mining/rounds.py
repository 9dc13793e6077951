"""Condensing with a model: rounds of like actions put to it together (PEARL, section 2.1).

A reply is read whatever a model put around and into it; from what it proposes
comes the next library, in which each action is covered once, and none is lost.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pearl.lang.ast import DOCUMENT, Action, Arg, Ref, Replaced, refs
from pearl.lang.definitions import arguments, read_action, widened
from pearl.lang.diagnostics import Diagnostic
from pearl.lang.library import builtins, parse_library
from pearl.lang.printer import print_action
from pearl.lang.similarity import SURE, group
from pearl.lang.source import Source
from pearl.lint.checker import Selection, check_library
from pearl.lint.render.report import Report
from pearl.mining.condense import (
    Condensed,
    Mapped,
    Note,
    Round,
    begin,
    composed,
    finished,
    folded,
    free_name,
    itself,
    merged,
    proposed,
)
from pearl.models.base import Reply
from pearl.prompts.calls import CondenseActions
from pearl.run.calls import Caller
from pearl.run.context import Context

_READING = Selection(select=("PRL1",))
_CALL = re.compile(r"[`*\s]*[^\W\d]\w*[`*]*\s*\([^()=]*\)?")
_BULLET = r"\s*(?:[-*•]\s+|\d+[.)]\s+)?"
_REPLACES = re.compile(
    rf"{_BULLET}[*_`]*(?:replac(?:es|ing|ed)|covers|merges|combines|aliases|stands for)"
    r"[*_`]*\s*(?:[:：]|=>|->)[*_`]*\s*(?P<names>.*)$",
    re.IGNORECASE,
)
_INLINE = re.compile(
    r"[\s.;,—–-]*[(\[]\s*(?:replaces|covers|merges)\s*[:：]?\s*(?P<names>[^()\[\]]*"
    r"(?:\([^()]*\)[^()\[\]]*)*)[)\]]\s*\.?\s*$",
    re.IGNORECASE,
)
_ITEM = re.compile(rf"{_BULLET}[`*]*[A-Z]\w*[`*]*(?:\s*\([^()]*\))?\s*(?:=\s*\(.*\))?[`,;.]*\s*$")
_NAME = re.compile(r"[^\W\d]\w*")
_AND = re.compile(r"\b(?:and|none|nothing)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Proposed:
    """An action that a reply proposes, with what it says it replaces.

    Args:
        action: the action.
        names: replaced ones that are only named.
        mapped: replaced ones whose arguments are said too.
    """

    action: Action
    names: tuple[str, ...]
    mapped: tuple[Replaced, ...]

    @property
    def replaced(self) -> tuple[str, ...]:
        """The names of all that it says it replaces."""
        return (*self.names, *(old.name for old in self.mapped))


@dataclass(frozen=True, slots=True)
class Read:
    """A reply, read.

    Args:
        proposed: the actions, in order.
        source: the reply with everything blanked that is no part of the library.
        findings: the lines that cannot be read, as places in ``source``.
        aside: the other lines that were left out, but for marks that say nothing.
    """

    proposed: tuple[Proposed, ...]
    source: Source
    findings: tuple[Diagnostic, ...]
    aside: tuple[str, ...]


def read_reply(text: str, name: str = "reply") -> Read:
    """Read a reply of `CondenseActions`, whatever a model put around and into it.

    Fences, bullets, emphasis and prose are passed over; what an action replaces may
    stand below it or behind it, as calls with their arguments or as bare names.

    Args:
        text: the reply.
        name: what to call it in findings.
    """
    lines: list[str] = []
    replaced: list[tuple[int, str]] = []
    aside: list[str] = []
    at, listing, action = 0, False, False
    for raw in text.splitlines(keepends=True):
        line = raw.rstrip("\r\n")
        found = _REPLACES.match(line)
        kept = ""
        if found:
            replaced.append((at, found["names"]))
            listing = True
        elif listing and _ITEM.match(line) and ":" not in line:
            replaced.append((at, line.strip().lstrip("-*•").strip()))
        elif _CALL.match(re.sub(rf"^{_BULLET}", "", line)):
            inline = _INLINE.search(line)
            if inline:
                replaced.append((at + len(line), inline["names"]))
            kept = line[: inline.start()] if inline else line
            listing, action = False, True
        elif action and not listing and line[:1] in " \t" and line.strip():
            kept = line
        elif line.strip(" \t`~*#-=_"):
            aside.append(line.strip())
            action = False
        lines.append(kept + " " * (len(line) - len(kept)) + raw[len(line) :])
        at += len(raw)
    source = Source(name, "".join(lines))
    library = parse_library(source)
    findings = check_library(source, _READING) if library.broken else []
    proposed = [_with(action, replaced, library.actions) for action in library.actions]
    return Read(tuple(proposed), source, tuple(findings), tuple(aside))


def _with(
    action: Action, replaced: Iterable[tuple[int, str]], actions: Sequence[Action]
) -> Proposed:
    """An action with what stands below it, as far as the next one."""
    after = [one.span.start for one in actions if one.span.start > action.span.start]
    end = min(after, default=1 << 60)
    names: list[str] = []
    mapped: list[Replaced] = []
    for at, words in replaced:
        if action.span.start <= at < end:
            for part in re.split(r"(?<=\))\s*[;,]\s*(?=[`*]*\w+[`*]*\s*\([^()]*\)\s*=)", words):
                one = _mapping(part)
                if one:
                    mapped.append(one)
                else:
                    bare = _AND.sub(" ", re.sub(r"\([^()]*\)?|=.*$", " ", part))
                    names += _NAME.findall(bare)
    return Proposed(action, tuple(dict.fromkeys(names)), tuple(mapped))


def _mapping(text: str) -> Replaced | None:
    if "=" not in text:
        return None
    line = text.strip().strip("`*").rstrip(".;, `")
    found = parse_library(f"A(CTX) : a\n  replaces: {line}").actions
    return found[0].replaces[0] if found and found[0].replaces else None


@dataclass(frozen=True, slots=True)
class Settled:
    """What one reply comes to.

    Args:
        actions: the new actions, each with at least one that it stands for.
        mapping: every action that was put to the model, once.
        notes: what was wrong with the reply.
    """

    actions: tuple[Action, ...]
    mapping: tuple[Mapped, ...]
    notes: tuple[Note, ...]


def settle(shard: Sequence[Action], replies: Sequence[Proposed]) -> Settled:
    """Give every action that was put to a model the one that stands for it.

    One that nothing covers stays; of two that cover one, the first counts; a name
    that was not put to the model is passed over. All of that is reported.

    Args:
        shard: the actions that were put to the model.
        replies: what it proposed.
    """
    known = {action.name: action for action in shard}
    notes: list[Note] = []
    then: dict[str, Mapped] = {}
    found: dict[str, Action] = {}
    # Its own line says of an action that it stays, unless another line replaces it.
    replaced = {name for one in replies for name in one.replaced}
    for one in replies:
        new = one.action
        if new.name in builtins() or new.variadic or new.name in found:
            why = "is there twice in a reply" if new.name in found else "cannot be a new action"
            notes.append(Note("twice", f"{new.name} {why}: the line is left out.", (new.name,)))
            continue
        names = [name for name in one.replaced if name in known]
        if new.name in known and new.name not in replaced:
            names.insert(0, new.name)
        for name in one.replaced:
            # Words between the names are no names.
            if name not in known and (name.isupper() or "_" in name):
                text = f"{name} is replaced by {new.name}, and was not asked about: "
                notes.append(Note("unknown", f"{text}it is passed over.", (name,)))
        types = {known[name].returns for name in names}
        if new.returns == "text" and len(types) == 1:
            # It says no type, and all that it replaces have one.
            new = replace(new, returns=types.pop())
        written = {old.name: old.args for old in one.mapped}
        covered = []
        for name in dict.fromkeys(names):
            if name in then:
                text = f"{name} is replaced by {then[name].new} and {new.name}: the first counts."
                notes.append(Note("twice", text, (name,)))
                continue
            args = _fitting(known[name], new, written.get(name), notes)
            if args is not None:
                then[name] = Mapped(known[name], new.name, args)
                covered.append(known[name])
        if covered:
            doc = new.doc or widened(replace(new, doc=covered[0].doc), covered[1:])
            traits = frozenset.intersection(*(action.traits for action in covered))
            found[new.name] = replace(new, doc=doc, aliases=(), replaces=(), traits=traits)
        elif not names:
            text = f"{new.name} replaces nothing that was asked about: it is left out."
            notes.append(Note("unknown", text, (new.name,)))
    return _with_uncovered(shard, found, then, notes)


def _fitting(
    old: Action, new: Action, written: tuple[Arg, ...] | None, notes: list[Note]
) -> tuple[Arg, ...] | None:
    """The arguments of the new call, or None where it cannot stand for the older one."""
    why = ""
    if new.returns not in (old.returns, "any"):
        why = f"it returns {old.returns} and not {new.returns}"
    elif not read_action(old).marks <= read_action(new).marks:
        why = "the negation or superlative in it would be lost"
    elif old.variadic or old.is_builtin:
        why = "its last parameter repeats"
    args = written if written and _whole(old, new, written) else arguments(old, new)
    if args is None and not why:
        why = f"{new.signature} has other parameters"
    if not why:
        return args
    text = f"{old.name} is not replaced by {new.name}, as {why}: it stays."
    notes.append(Note("uncovered", text, (old.name,)))
    return None


def _whole(old: Action, new: Action, args: Sequence[Arg]) -> bool:
    """Whether arguments that a model wrote fit both actions and lose no parameter."""
    names = {ref.name for arg in args for ref in refs(arg)}
    params = {param.name for param in old.params}
    if len(args) != len(new.params) or not names <= params | {DOCUMENT} or not params <= names:
        return False
    document = Ref(DOCUMENT)
    return all(
        (arg == document) == (param.name == DOCUMENT)
        and (arg == document or document not in refs(arg))
        for arg, param in zip(args, new.params, strict=True)
    )


def _with_uncovered(
    shard: Sequence[Action],
    found: Mapping[str, Action],
    then: Mapping[str, Mapped],
    notes: Sequence[Note],
) -> Settled:
    """The new actions, and those that nothing covers."""
    left = [action for action in shard if action.name not in then]
    every_note = list(notes)
    if not then and not notes:
        text = f"A reply covers none of the {len(left)} actions it was asked about: they stay."
        every_note.append(Note("uncovered", text, tuple(action.name for action in left)))
    for action in left if then else ():
        text = f"{action.name} is covered by no action of the reply: it stays."
        if not any(note.kind == "uncovered" and action.name in note.actions for note in notes):
            every_note.append(Note("uncovered", text, (action.name,)))
    actions, mapping = dict(found), dict(then)
    names = {action.name for action in shard}
    for action in left:
        name = action.name
        if name in actions:
            # A new action has the name of one that it does not stand for.
            other = free_name(name, {*actions, *names})
            actions[name] = replace(actions[name], name=other)
            for old, one in list(mapping.items()):
                mapping[old] = replace(one, new=other) if one.new == name else one
            actions = {one.name: one for one in actions.values()}
        actions[name] = action
        mapping[name] = itself(action)
    return Settled(
        tuple(actions.values()), tuple(mapping[action.name] for action in shard), tuple(every_note)
    )


def applied(state: Condensed, parts: Sequence[Settled], seeds: Mapping[str, Action]) -> Condensed:
    """The library after a round.

    Two calls may have made an action of the same name: with the same parameters they
    are one, else the later is given another name. Either is reported.

    Args:
        state: the library before it.
        parts: what each call came to.
        seeds: actions beside it, by name: their names are theirs, where parameters differ.
    """
    notes = [*state.notes]
    found: dict[str, Action] = {}
    then: dict[str, Mapped] = {}
    for part in parts:
        notes += part.notes
        renamed: dict[str, str] = {}
        for action in part.actions:
            before, seed = found.get(action.name), seeds.get(action.name)
            name = action.name
            if before and _alike(before, action):
                text = f"{name} was made by two calls: it stands for what both replace."
                notes.append(Note("same-name", text, (name,)))
                found[name] = replace(before, doc=widened(before, [action]))
                continue
            if before or (seed and len(seed.params) != len(action.params)):
                name = free_name(name, {*found, *seeds, *(one.name for one in state.actions)})
                text = f"{action.name} is there with other parameters: this one is now {name}."
                notes.append(Note("same-name", text, (action.name, name)))
                renamed[action.name] = name
            found[name] = replace(action, name=name)
        for one in part.mapping:
            then[one.old.name] = replace(one, new=renamed.get(one.new, one.new))
    mapping = composed(state.mapping, then)
    return Condensed(proposed(found.values(), mapping), mapping, tuple(notes))


def _alike(one: Action, other: Action) -> bool:
    params = [param.type for param in one.params] == [param.type for param in other.params]
    places = [param.name == DOCUMENT for param in one.params] == [
        param.name == DOCUMENT for param in other.params
    ]
    marks = read_action(one).marks == read_action(other).marks
    return params and places and marks and one.returns == other.returns


ROOM = 3000
"""Tokens of actions in one prompt, at most; a reply may take as many."""

_COARSE = (0.1, 0.2, 0.3, 0.41, 0.55, 0.7)
"""Likenesses from which on actions go to the model together; a cluster too large for
a prompt is cut where the next one cuts it."""


async def condense_with(
    actions: Sequence[Action],
    target: int,
    ask: Caller,
    *,
    rounds: int = 4,
    seeds: Mapping[str, Action] | None = None,
    context: Context | None = None,
) -> Condensed:
    """Condense an action library with a model.

    Near-certain merges are made first, without it. What the model leaves over the
    target the deterministic condenser finishes, and says so.

    Args:
        actions: the library.
        target: how many actions are wanted, at most. Builtins do not count.
        ask: puts a call to the model, and keeps the journal.
        rounds: how often the model sees the whole of what is left, at most.
        seeds: actions that plans can call beside these, by name.
        context: how much fits a prompt.

    Raises:
        ModelError: the model gave no usable answer.
    """
    seeds = seeds or {}
    state = merged(begin(actions, seeds), target, SURE)
    made: list[Round] = []
    reports: list[Report] = []
    for number in range(1, rounds + 1):
        before = len(state.actions)
        if before <= target:
            break
        parts = shards(state.actions, number, context)
        calls = [
            CondenseActions(part, max(1, math.ceil(len(part) * target / before))) for part in parts
        ]
        replies = await asyncio.gather(
            *(ask(call, f"condense/{number}/{at}") for at, call in enumerate(calls, 1))
        )
        settled = [
            _settled(call, reply, f"condense/{number}/{at}", ask.journal.decide, reports)
            for at, (call, reply) in enumerate(zip(calls, replies, strict=True), 1)
        ]
        after = applied(state, settled, seeds)
        made.append(Round(number, len(parts), before, len(after.actions)))
        if len(after.actions) >= before:
            text = f"Round {number} brought nothing: what the model wrote is left out."
            state = replace(state, notes=(*after.notes, Note("round", text)))
            break
        state = after
    if len(state.actions) > target:
        text = (
            f"The model left {len(state.actions)} actions, not {target}: the rest was condensed "
            "without it."
        )
        state = replace(state, notes=(*state.notes, Note("round", text)))
        state = folded(merged(state, target), target)
    done = finished(state, seeds, target)
    return replace(done, rounds=tuple(made), reports=tuple(reports))


def _settled(
    call: CondenseActions,
    reply: Reply,
    path: str,
    decide: Callable[[str, object], None],
    reports: list[Report],
) -> Settled:
    """What one reply comes to; what was left out of it is in the journal."""
    read = read_reply(reply.text, path)
    if read.aside:
        decide(f"{path}/aside", list(read.aside))
    if read.findings:
        reports.append(Report(read.source, read.findings))
    settled = settle(call.actions, read.proposed)
    if not reply.complete:
        text = "A reply was cut at its token limit: the actions it does not reach stay."
        settled = replace(settled, notes=(*settled.notes, Note("uncovered", text)))
    return settled


def shards(
    actions: Sequence[Action], number: int, context: Context | None = None
) -> list[tuple[Action, ...]]:
    """The actions for each call of a round: like ones together.

    Clusters are shuffled, anew in each round, so that other ones meet; a cluster is
    cut only where it does not fit a prompt, and then into clusters.

    Args:
        actions: all that are left.
        number: the round's, from 1 on.
        context: how much fits a prompt.
    """
    count: Callable[[str], int] = _rough_count
    room = ROOM
    if context is not None:
        room, count = min(ROOM, context.reply * 2 // 3), context.count
        if context.window:
            room = min(room, (context.window - context.reply) // 2)
        room = max(200, room)
    sizes = [count(print_action(action)) for action in actions]
    clusters = _clusters(actions, list(range(len(actions))), sizes, room, _COARSE)
    # Not for secrets: the same shuffle every time, so that a run can be gone on with.
    random.Random(number).shuffle(clusters)  # noqa: S311
    found: list[list[int]] = []
    left = 0
    for cluster in clusters:
        size = sum(sizes[at] for at in cluster)
        if not found or size > left:
            found.append([])
            left = room
        found[-1] += cluster
        left -= size
    return [tuple(actions[at] for at in sorted(part)) for part in found]


def _rough_count(text: str) -> int:
    """About as many tokens as a text has."""
    return len(text.encode()) // 3 + 1


def _clusters(
    actions: Sequence[Action],
    places: list[int],
    sizes: Sequence[int],
    room: int,
    floors: Sequence[float],
) -> list[list[int]]:
    if sum(sizes[at] for at in places) <= room and len(floors) < len(_COARSE):
        return [places]
    if not floors or len(places) == 1:
        return _cut(places, sizes, room)
    members = [actions[at] for at in places]
    found: list[list[int]] = []
    for part in group(members, 1, floors[0]):
        inner = [places[at] for at in part]
        found += _clusters(actions, inner, sizes, room, floors[1:])
    return found


def _cut(places: Sequence[int], sizes: Sequence[int], room: int) -> list[list[int]]:
    """Actions that are all alike, as many at a time as fit."""
    found: list[list[int]] = [[]]
    left = room
    for at in places:
        if found[-1] and sizes[at] > left:
            found.append([])
            left = room
        found[-1].append(at)
        left -= sizes[at]
    return found
