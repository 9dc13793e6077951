"""What many questions proposed, as one library: each action once, with who proposed it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pearl.alike import SURE, likeness
from pearl.library import Library
from pearl.plan import Action
from pearl.syntax import parse_library


@dataclass(frozen=True, slots=True)
class Note:
    """What a person should know about a mined library.

    Args:
        kind: ``unreadable`` (a line of a reply is no action), ``finding``
            (what a rule says of one), ``parameters`` (one name with several
            signatures), ``meaning`` (one meaning under several names),
            ``seed`` (a name that a seed has), ``failed`` (a question without
            a reply).
        message: one sentence.
        questions: ids of the questions it comes from.
        code: the rule's, where it is a finding.
    """

    kind: str
    message: str
    questions: tuple[str, ...] = ()
    code: str = ""


@dataclass(frozen=True, slots=True)
class Mined:
    """A mined library.

    Args:
        actions: each once, those that most questions proposed first; their
            ``provenance`` names the questions.
        notes: what stood out.
        proposals: how often an action was proposed, repetitions among them.
        proposing: how many questions proposed any.
    """

    actions: tuple[Action, ...]
    notes: tuple[Note, ...]
    proposals: int
    proposing: int


def gather(rows: Iterable[dict[str, Any]], seeds: Library) -> Mined:
    """Make a library of the rows of a mining run.

    Where a name comes with several signatures, the one that most questions
    proposed keeps it; the others get a number of their own. An action with a
    seed's name is left out, as the seed is there.

    Args:
        rows: as `MineQuestions` gives them.
        seeds: the actions that were there.
    """
    found: dict[tuple[str, ...], list[tuple[Action, str]]] = {}
    notes: list[Note] = []
    for row in rows:
        name = str(row["id"])
        notes += _findings(row, name)
        for line in row.get("actions", ()):
            for action in parse_library(line).actions:
                found.setdefault(_signature(action), []).append((action, name))
    actions, clashes = _apart([_merged(one) for one in found.values()], seeds)
    notes += clashes
    notes += _meanings(actions)
    proposing = {name for proposed in found.values() for _, name in proposed}
    return Mined(actions, tuple(notes), sum(map(len, found.values())), len(proposing))


def _findings(row: dict[str, Any], name: str) -> Iterator[Note]:
    if row["status"] == "failed":
        yield Note("failed", row["error"]["message"], (name,))
    for one in row.get("findings", ()):
        unread = one["code"].startswith("PRL1")
        text = " ".join(one["text"].split())[:80]
        message = f"{one['message']} It reads: {text}" if unread else one["message"]
        yield Note("unreadable" if unread else "finding", message, (name,), one["code"])


def _signature(action: Action) -> tuple[str, ...]:
    return (action.name, *(param.name for param in action.params), action.returns)


def _merged(proposed: Sequence[tuple[Action, str]]) -> Action:
    """One action of equal signatures, with the definition that was given most often."""
    docs = Counter(action.doc for action, _ in proposed if action.doc)
    doc = docs.most_common(1)[0][0] if docs else ""
    ids = tuple(dict.fromkeys(name for _, name in proposed))
    return replace(proposed[0][0], doc=doc, comments=(), provenance=ids)


def _apart(actions: Sequence[Action], seeds: Library) -> tuple[tuple[Action, ...], list[Note]]:
    """The actions with a name of their own each, the most proposed first."""
    ordered = sorted(actions, key=lambda one: -len(one.provenance))
    taken: dict[str, Action] = {}
    notes: list[Note] = []
    for action in ordered:
        seed = seeds.get(action.name)
        if seed is not None:
            message = f"{action.signature} has the name of the seed {seed.signature}: left out."
            notes.append(Note("seed", message, action.provenance))
            continue
        first = taken.get(action.name)
        if first is not None:
            action = replace(action, name=_numbered(action.name, taken, seeds))
            message = f"{first.signature} came with other parameters too, now {action.signature}."
            notes.append(Note("parameters", message, action.provenance))
        taken[action.name] = action
    return tuple(taken.values()), notes


def _numbered(name: str, taken: dict[str, Action], seeds: Library) -> str:
    number = 2
    while f"{name}_{number}" in taken or seeds.get(f"{name}_{number}"):
        number += 1
    return f"{name}_{number}"


def _meanings(actions: Sequence[Action]) -> Iterator[Note]:
    """Actions that mean the same as one that more questions proposed."""
    if len(actions) < 2:
        return
    matrix = likeness(actions)
    for at, action in enumerate(actions[1:], 1):
        near = int(matrix[at, :at].argmax())
        if matrix[at, near] >= SURE:
            message = f"{action.name} and {actions[near].name} mean nearly the same: {action.doc}"
            yield Note("meaning", message, action.provenance)
