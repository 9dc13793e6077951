"""Condensing with a model, which is shown similar actions together, in rounds (PEARL, section 2.1).

Replies are read leniently. The next library is made from what they propose, so
that each action is replaced by exactly one action, or stays.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pearl.lang.ast import DOCUMENT, Action, Arg, Ref, refs
from pearl.lang.definitions import arguments, read_action, widen
from pearl.lang.diagnostics import Diagnostic, SourceFindings
from pearl.lang.library import builtins, parse_library
from pearl.lang.printer import print_action
from pearl.lang.similarity import SURE, group
from pearl.lang.source import Source
from pearl.lang.text import free_name
from pearl.lint.checker import Selection, check_library
from pearl.mining.condense import (
    Condensed,
    CondensingNote,
    Merge,
    Round,
    begin,
    combine,
    finish,
    generalize,
    itself,
    merge_similar,
    renamed,
)
from pearl.models.base import OFFLINE, Model
from pearl.prompts.calls import CondenseActions
from pearl.runtime.calls import Caller, Watch
from pearl.runtime.context import Context
from pearl.session import Began, context_for, open_session

ROUNDS = 4
"""The most rounds, by default."""

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
_BETWEEN_ITEMS = re.compile(r"(?<=\))\s*[;,]\s*(?=[`*]*\w+[`*]*\s*\([^()]*\)\s*=)")
_NAME = re.compile(r"[^\W\d]\w*")
_NO_NAME = re.compile(r"\([^()]*\)?|=.*$|\b(?:and|none|nothing)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action that a reply proposes, with what it says it replaces.

    Args:
        action: the action.
        replaced: for each older action that it replaces, by name, the new call's arguments; None
            where the reply gives only the name.
    """

    action: Action
    replaced: dict[str, tuple[Arg, ...] | None]


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A parsed reply.

    Args:
        proposed: the actions, in order.
        source: the reply, with blanks in place of all that is no part of the library.
        findings: the lines that cannot be read; their spans are in ``source``.
        aside: other lines that were left out, except those with only punctuation.
    """

    proposed: tuple[Proposal, ...]
    source: Source
    findings: tuple[Diagnostic, ...]
    aside: tuple[str, ...]


def read_reply(text: str, name: str = "reply") -> ParsedReply:
    """Read a reply to `CondenseActions`, in any layout.

    Fences, bullets, emphasis and prose are skipped; what an action replaces may
    follow below it or on its line, as calls with arguments or as bare names.

    Args:
        text: the reply.
        name: the name of the reply in findings.
    """
    lines: list[str] = []
    replaced: list[tuple[int, str]] = []
    aside: list[str] = []
    at, listing, action = 0, False, False
    for raw in text.splitlines(keepends=True):
        line = raw.rstrip("\r\n")
        replaces = _REPLACES.match(line)
        action_text = ""
        if replaces:
            replaced.append((at, replaces["names"]))
            listing = True
        elif listing and _ITEM.match(line) and ":" not in line:
            replaced.append((at, line.strip().lstrip("-*•").strip()))
        elif _CALL.match(re.sub(rf"^{_BULLET}", "", line)):
            inline = _INLINE.search(line)
            if inline:
                replaced.append((at + len(line), inline["names"]))
            action_text = line[: inline.start()] if inline else line
            listing, action = False, True
        elif action and not listing and line[:1] in " \t" and line.strip():
            action_text = line
        elif line.strip(" \t`~*#-=_"):
            aside.append(line.strip())
            action = False
        lines.append(action_text + " " * (len(line) - len(action_text)) + raw[len(line) :])
        at += len(raw)
    source = Source(name, "".join(lines))
    library = parse_library(source)
    findings = check_library(source, _READING) if library.broken else []
    # Text between an action and the next one is about the first.
    ends = [*(action.span.start for action in library.actions[1:]), len(text) + 1]
    proposed = tuple(
        Proposal(action, _names([words for at, words in replaced if action.span.start <= at < end]))
        for action, end in zip(library.actions, ends, strict=False)
    )
    return ParsedReply(proposed, source, tuple(findings), tuple(aside))


def _names(phrases: Sequence[str]) -> dict[str, tuple[Arg, ...] | None]:
    """The actions that phrases of a reply name as replaced: bare names first, then calls."""
    names: dict[str, tuple[Arg, ...] | None] = {}
    with_args: dict[str, tuple[Arg, ...] | None] = {}
    for part in (part for words in phrases for part in _BETWEEN_ITEMS.split(words)):
        line = part.strip().strip("`*").rstrip(".;, `")
        read = parse_library(f"A(CTX) : a\n  replaces: {line}").actions if "=" in part else ()
        if read and read[0].replaces:
            with_args[read[0].replaces[0].name] = read[0].replaces[0].args
        else:
            names.update(dict.fromkeys(_NAME.findall(_NO_NAME.sub(" ", part))))
    return names | with_args


def settle(shard: Sequence[Action], proposals: Sequence[Proposal]) -> Condensed:
    """Find for every action that the model was shown the one that replaces it.

    An action that no proposal covers stays; if several cover it, the first counts; names
    that the model was not shown are ignored. Notes report all of these.

    Args:
        shard: the actions that the model was shown; the last parameter of none of them repeats.
        proposals: what it proposes.
    """
    asked_of = {action.name: action for action in shard}
    notes: list[CondensingNote] = []

    def note(kind: str, name: str, text: str) -> None:
        notes.append(CondensingNote(kind, f"{name} {text}", (name,)))

    then: dict[str, Merge] = {}
    accepted: dict[str, Action] = {}
    # An action with a line of its own stays, unless another line replaces it.
    replaced = {name for proposal in proposals for name in proposal.replaced}
    for proposal in proposals:
        new = proposal.action
        if new.name in builtins() or new.variadic or new.name in accepted:
            why = "is there twice in a reply" if new.name in accepted else "cannot be a new action"
            note("twice", new.name, f"{why}: the line is left out.")
            continue
        names = [name for name in proposal.replaced if name in asked_of]
        for name in proposal.replaced:
            # Other words may stand between the names.
            if name not in asked_of and (name.isupper() or "_" in name):
                text = f"is replaced by {new.name}, and was not asked about: it is passed over."
                note("unknown", name, text)
        if new.name in asked_of and new.name not in replaced:
            names.insert(0, new.name)
        types = {asked_of[name].returns for name in names}
        if new.returns == "text" and len(types) == 1:
            # The default type: the proposal names none, but all that it replaces have the same.
            new = replace(new, returns=types.pop())
        covered = []
        for name in names:
            old = asked_of[name]
            if name in then:
                both = f"{then[name].new} and {new.name}"
                note("twice", name, f"is replaced by {both}: the first counts.")
                continue
            args, why = _fitting(old, new, proposal.replaced.get(name))
            if args is None:
                note("refused", name, f"is not replaced by {new.name}, as {why}: it stays.")
                continue
            then[name] = Merge(old, new.name, args)
            covered.append(old)
        if covered:
            doc = new.doc or widen(replace(new, doc=covered[0].doc), covered[1:])
            traits = frozenset.intersection(*(action.traits for action in covered))
            accepted[new.name] = replace(new, doc=doc, aliases=(), replaces=(), traits=traits)
        elif not names:
            note("unknown", new.name, "replaces nothing that was asked about: it is left out.")
    uncovered = [action for action in shard if action.name not in then]
    # Some have a note already that says why they are not replaced.
    explained = {name for each in notes if each.kind == "refused" for name in each.actions}
    silent = tuple(action.name for action in uncovered if action.name not in explained)
    if silent:
        text = f"No action of the reply covers {', '.join(silent)}: what is not covered stays."
        notes.append(CondensingNote("uncovered", text, silent))
    # A new action with the name of one that stays is renamed.
    others: dict[str, str] = {}
    for action in uncovered:
        if action.name in accepted:
            used = {*asked_of, *accepted, *others.values()}
            others[action.name] = free_name(action.name, used)
    actions, merges = renamed(accepted.values(), then.values(), others)
    covering = {merge.old.name: merge for merge in merges}
    mapping = (covering.get(name) or itself(old) for name, old in asked_of.items())
    return Condensed((*actions, *uncovered), tuple(mapping), tuple(notes))


def _fitting(
    old: Action, new: Action, written: tuple[Arg, ...] | None
) -> tuple[tuple[Arg, ...] | None, str]:
    """The arguments of the new call, or None, and why it cannot replace the older one."""
    if new.returns not in (old.returns, "any"):
        return None, f"it returns {old.returns} and not {new.returns}"
    if not read_action(old).marks <= read_action(new).marks:
        return None, "the negation or superlative in it would be lost"
    args = written if written and _whole(old, new, written) else arguments(old, new)
    return args, f"{new.signature} has other parameters"


def _whole(old: Action, new: Action, args: Sequence[Arg]) -> bool:
    """Whether the arguments that a model wrote fit both actions and use every parameter."""
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


ROOM = 3000
"""The most tokens of actions in one prompt; a reply may take as many."""

_COARSE = (0.1, 0.2, 0.3, 0.41, 0.55, 0.7)
"""Similarities by which actions are clustered for prompts; a cluster that is too large for a prompt
is split by the next one."""


async def condense_with(
    actions: Sequence[Action],
    target: int,
    ask: Caller,
    *,
    rounds: int = ROUNDS,
    seeds: Mapping[str, Action] | None = None,
    context: Context | None = None,
) -> Condensed:
    """Condense an action library with a model.

    Near-certain merges are made first, without the model. If the model leaves more
    than ``target`` actions, the rest is condensed without it, and a note says so.

    Args:
        actions: the library.
        target: the most actions to keep. Builtins do not count.
        ask: asks the model and writes the journal.
        rounds: the most rounds, in each of which the model sees all remaining actions.
        seeds: actions that plans can call beside these, by name.
        context: how much fits a prompt.

    Raises:
        ModelError: the model gave no usable answer.
    """
    seeds = seeds or {}
    state = merge_similar(begin(actions, seeds), target, SURE)
    record: list[Round] = []
    reports: list[SourceFindings] = []
    refused: dict[str, str] = {}

    for number in range(1, rounds + 1):
        before, mergeable = len(state.actions), _mergeable(state.actions)
        if before <= target or not mergeable:
            break
        share = (target - (before - len(mergeable))) / len(mergeable)
        calls = [_call(part, share, refused) for part in shards(mergeable, number, context)]
        settled = await _round(number, calls, ask)
        reports += (report for part in settled for report in part.reports)
        refused_before = refused
        notes = (note for part in settled for note in part.notes if note.kind == "refused")
        refused = {name: note.text for note in notes for name in note.actions}
        alone = [action for action in state.actions if action not in mergeable]
        settled.append(Condensed(tuple(alone), tuple(map(itself, alone)), ()))
        after = combine(state, settled, seeds)
        record.append(Round(number, len(calls), before, len(after.actions)))
        if len(after.actions) < before:
            state = after
            continue
        text = f"Round {number} brought nothing: what the model wrote is left out."
        state = replace(state, notes=(*after.notes, CondensingNote("round", text)))
        if refused.items() <= refused_before.items():
            # The next prompts would tell the model nothing new.
            break
    if len(state.actions) > target:
        text = (
            f"The model left {len(state.actions)} actions, not {target}: the rest was condensed "
            "without it."
        )
        state = replace(state, notes=(*state.notes, CondensingNote("round", text)))
        state = generalize(merge_similar(state, target), target)
    done = finish(state, seeds, target)
    return replace(done, rounds=tuple(record), reports=tuple(reports))


def _call(part: tuple[Action, ...], share: float, refused: Mapping[str, str]) -> CondenseActions:
    """A call that asks to keep a share of some actions, and tells which merges were refused."""
    most = max(len(set(map(_kind, part))), math.ceil(len(part) * share))
    reasons = tuple(refused[action.name] for action in part if action.name in refused)
    return CondenseActions(part, most, reasons)


async def _round(number: int, calls: Sequence[CondenseActions], ask: Caller) -> list[Condensed]:
    """Make a round's calls, and return the result of each."""
    paths = [f"condense/{number}/{at}" for at in range(1, len(calls) + 1)]
    replies = await asyncio.gather(*map(ask, calls, paths))
    settled: list[Condensed] = []
    for call, path, reply in zip(calls, paths, replies, strict=True):
        read = read_reply(reply.text, path)
        if read.aside:
            ask.journal.decide(f"{path}/aside", list(read.aside))
        part = settle(call.actions, read.proposed)
        if read.findings:
            part = replace(part, reports=(SourceFindings(read.source, read.findings),))
        if not reply.complete:
            text = "A reply was cut at its token limit: the actions it does not reach stay."
            part = replace(part, notes=(*part.notes, CondensingNote("uncovered", text)))
        settled.append(part)
    return settled


def _kind(action: Action) -> tuple[object, ...]:
    """What two actions must have in common for one to replace both."""
    return action.returns, read_action(action).marks


def _mergeable(actions: Sequence[Action]) -> list[Action]:
    """The actions that could be merged with another one; the model is shown only these."""
    kinds = Counter(_kind(action) for action in actions if not action.variadic)
    return [action for action in actions if not action.variadic and kinds[_kind(action)] > 1]


def shards(
    actions: Sequence[Action], number: int, context: Context | None = None
) -> list[tuple[Action, ...]]:
    """The actions for each call of a round, with similar ones together.

    Clusters are shuffled differently in each round, so that other clusters meet in a
    prompt; a cluster is split only where it does not fit a prompt.

    Args:
        actions: all remaining actions.
        number: the round's number, from 1.
        context: how much fits a prompt.
    """

    def rough_count(text: str) -> int:
        return len(text.encode()) // 3 + 1

    room: int = ROOM
    count: Callable[[str], int] = rough_count
    if context is not None:
        room, count = min(ROOM, context.free * 2 // 3), context.count
        if context.window:
            room = min(room, (context.window - context.free) // 2)
        room = max(200, room)
    sizes = [count(print_action(action)) for action in actions]

    def pack(clusters: Iterable[list[int]]) -> list[list[int]]:
        """Join clusters into packs that are as large as fits a prompt."""
        packs: list[list[int]] = []
        spare = 0
        for cluster in clusters:
            size = sum(sizes[at] for at in cluster)
            if not packs or size > spare:
                packs.append([])
                spare = room
            packs[-1] += cluster
            spare -= size
        return packs

    def clusters(places: list[int], depth: int) -> list[list[int]]:
        if depth and sum(sizes[at] for at in places) <= room:
            return [places]
        if depth == len(_COARSE) or len(places) == 1:
            return pack([at] for at in places)
        parts = group([actions[at] for at in places], 1, _COARSE[depth])
        return [
            cluster
            for part in parts
            for cluster in clusters([places[at] for at in part], depth + 1)
        ]

    shuffled = clusters(list(range(len(actions))), 0)
    # The same shuffle every time, so that a resumed run finds its replies in the cache.
    random.Random(number).shuffle(shuffled)  # noqa: S311
    return [tuple(actions[at] for at in sorted(part)) for part in pack(shuffled)]


def usual_rounds(model: Model) -> int:
    """The default number of rounds: 0 for the offline reader, which could only merge by similarity,
    as is done without a model anyway."""
    return 0 if model.name == OFFLINE else ROUNDS


async def condense_in_run(
    source: Source,
    target: int,
    rounds: int,
    model: Model,
    *,
    seeds: Mapping[str, Action],
    store: str | Path | None = None,
    cache: bool = True,
    began: Began | None = None,
    watch: Watch | None = None,
) -> Condensed:
    """`condense_with`, in a run of its own.

    Args:
        source: the library.
        target, rounds, seeds: as `condense_with` takes them.
        model: the model that is asked.
        store, cache, began: as `open_session` takes them.
        watch: called with each call's path, when it starts and when it ends.

    Raises:
        InputError: the store cannot be used, or a setting is wrong.
        ModelError: the model gave no usable answer.
    """
    head = {
        "library": source.name,
        "digest": source.digest,
        "target": target,
        "rounds": rounds,
        "model": model.name,
    }
    actions, context = parse_library(source).actions, context_for(model)
    async with open_session(
        model, head, "condense", store, context=context, cache=cache, began=began
    ) as session:
        ask = session.caller(watch)
        return await condense_with(
            actions, target, ask, rounds=rounds, seeds=seeds, context=context
        )
