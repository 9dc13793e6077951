"""The review of a condensed library: which merges the user accepts."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pearl.lang.ast import Action
from pearl.lang.definitions import widen
from pearl.lang.errors import InputError
from pearl.lang.library import builtins, parse_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_action, print_arg
from pearl.lang.source import Source
from pearl.lang.text import free_name
from pearl.mining.condense import (
    Condensed,
    CondensingNote,
    Merge,
    complete,
    finish,
    is_kept,
    itself,
    straight,
)

_DECISION = re.compile(r"(?P<word>accept|reject)\s+(?P<merge>.+)$", re.IGNORECASE)
_NEW = re.compile(r"new\s+(?P<action>.+)$", re.IGNORECASE)


def call_of(merge: Merge) -> str:
    """The new call that replaces a call of the older action, whose parameters it names."""
    return f"{merge.new}({', '.join(print_arg(arg) for arg in merge.args)})"


def merges(condensed: Condensed) -> list[int]:
    """The indices, in the mapping, of the merges that a user may reject.

    Actions that stay are not among them, nor is the second of two actions with the same name and
    parameters, as no library could hold both.
    """
    covered = Counter(merge.new for merge in condensed.mapping)
    return [
        at
        for at, merge in enumerate(condensed.mapping)
        if not (straight(merge) and (merge.new == merge.old.name or covered[merge.new] == 1))
    ]


def without(condensed: Condensed, rejected: Collection[int], seeds: Collection[str]) -> Condensed:
    """A condensed library without some merges, whose older actions are kept instead.

    Definitions that were widened for those actions are made again from the others.

    Args:
        condensed: the library.
        rejected: the indices of the rejected merges in its mapping.
        seeds: names of actions beside it.
    """
    if not rejected:
        return condensed
    mapping = list(condensed.mapping)
    names = {action.name for action in condensed.actions}
    stays: list[Action] = []
    for at in sorted(rejected):
        before = mapping[at].old
        old = replace(before, name=free_name(before.name, names), aliases=(), replaces=())
        names.add(old.name)
        stays.append(old)
        mapping[at] = Merge(before, old.name, itself(old).args)
    used = {merge.new for merge in mapping}
    narrowed = [_narrow(action, condensed, mapping) for action in condensed.actions]
    actions = (*(action for action in narrowed if action.name in used), *stays)
    done = finish(Condensed(actions, tuple(mapping), condensed.notes), seeds)
    text = f"Rejected merges: {len(rejected)}. Those actions stay as they were."
    note = CondensingNote("review", text, tuple(action.name for action in stays))
    return replace(done, notes=(*done.notes, note))


def _narrow(action: Action, before: Condensed, after: Sequence[Merge]) -> Action:
    was = [merge.old for merge in before.mapping if merge.new == action.name]
    now = [merge.old for merge in after if merge.new == action.name]
    own = next((old for old in was if old.name == action.name and old.doc), None)
    if own is None or own not in now or len(was) == len(now):
        return action
    # A definition in a model's own words is kept.
    if action.doc != widen(own, [old for old in was if old is not own]):
        return action
    return replace(action, doc=widen(own, [old for old in now if old is not own]))


def print_review(condensed: Condensed, name: str, output: str) -> str:
    """The text of a file in which the user accepts or rejects each merge.

    Args:
        condensed: the library, with every merge accepted.
        name: the file that was condensed.
        output: the file for the condensed library.
    """
    places = merges(condensed)
    command = shlex.join(("pearl", "condense", name, "--accept", f"{output}.review", "-o", output))
    lines = [
        f"# {len(places)} merges of {name}. To keep an action as it was, write reject for accept.",
        f"# Then:  {command}",
    ]
    for action in (action for action in condensed.actions if not is_kept(action)):
        plain = replace(action, comments=())
        lines += ["", f"new {print_action(plain)}"]
        for at in places:
            merge = condensed.mapping[at]
            if merge.new == action.name:
                params = ", ".join(param.name for param in merge.old.params)
                lines.append(f"accept {merge.old.name}({params}) = {call_of(merge)}")
                lines.append(f"#      {merge.old.doc}".rstrip())
    return "\n".join(lines) + "\n"


def read_review(
    source: Source, actions: Sequence[Action], seeds: Mapping[str, Action]
) -> Condensed:
    """The library that results from a reviewed file.

    Args:
        source: the file, as `print_review` wrote it and the user changed it.
        actions: the library that was condensed.
        seeds: actions beside it, by name.

    Raises:
        InputError: a line cannot be read, or is about an unknown action.
    """
    new: dict[str, Action] = {}
    then: dict[int, Merge] = {}
    rejected: list[int] = []
    for number, line in enumerate(source.text.splitlines(), 1):
        where = f"{source.name}:{number}"
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        named, decided = _NEW.match(line.strip()), _DECISION.match(line.strip())
        if named:
            written = parse_library(named["action"]).actions
            if not written:
                raise InputError(f"{where} is no action: leave the lines with new as they were.")
            new[written[0].name] = written[0]
        elif decided:
            at, merge = _merge(decided["merge"], where, actions, then)
            then[at] = merge
            if decided["word"].lower() == "reject":
                rejected.append(at)
        else:
            raise InputError(f"{where} starts with neither accept nor reject: write one of them.")
    mapping: list[Merge] = []
    for at, action in enumerate(actions):
        if is_kept(action):
            merge = itself(action)
        elif at in then:
            merge = then[at]
        else:
            # No line is about it: it stays, under its own name or one that `begin` gave it.
            names = {name for name in new if name.startswith(f"{action.name}_")} | {action.name}
            fitting = [n for n in new if n in names and len(new[n].params) == len(action.params)]
            name = action.name if action.name in fitting or not fitting else fitting[0]
            merge = Merge(action, name, itself(action).args)
        if merge.new not in new and action.name not in builtins() and not is_kept(action):
            text = f"{source.name} has no line with new for {merge.new}: write it again."
            raise InputError(text)
        mapping.append(merge)
    whole = Condensed(complete([*new.values()], mapping, seeds), tuple(mapping), ())
    return without(whole, rejected, seeds)


def _merge(
    text: str, where: str, actions: Sequence[Action], before: Collection[int]
) -> tuple[int, Merge]:
    """The merge that a line describes, and the index of its older action."""
    old, equals, call = text.partition("=")
    named = parse_library(old.strip()).actions
    steps = parse(f"x = {call.strip()}").plan.steps
    if not equals or not named or len(steps) != 1:
        raise InputError(f"{where} cannot be read: change only its first word.")
    count = len(named[0].params)
    for at, action in enumerate(actions):
        if action.name == named[0].name and len(action.params) == count and at not in before:
            names = zip(named[0].params, action.params, strict=True)
            if all(param.name == other.name for param, other in names):
                return at, Merge(action, steps[0].action, steps[0].args)
    raise InputError(f"{where} is about {named[0].name}, which the library does not have.")
