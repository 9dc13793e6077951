"""From what replies propose to the next library: each action covered once, none lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pearl.alike import arguments, read_action, widened
from pearl.library import builtins
from pearl.mining.covering import Condensed, Mapped, Note, composed, itself, proposed
from pearl.mining.replies import Proposed
from pearl.plan import DOCUMENT, Action, Arg, Ref, refs


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
    said = {name for one in replies for name in (*one.names, *(old.name for old in one.mapped))}
    for one in replies:
        new = one.action
        if new.name in builtins() or new.variadic or new.name in found:
            why = "is there twice in a reply" if new.name in found else "cannot be a new action"
            notes.append(Note("twice", f"{new.name} {why}: the line is left out.", (new.name,)))
            continue
        names = [name for name in (*one.names, *(old.name for old in one.mapped)) if name in known]
        if new.name in known and new.name not in said:
            names.insert(0, new.name)
        notes += _unknown(one, known)
        new = _typed(new, [known[name] for name in names])
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
    return _kept(shard, found, then, notes)


def _unknown(one: Proposed, known: Mapping[str, Action]) -> list[Note]:
    names = (*one.names, *(old.name for old in one.mapped))
    # Words between the names are no names.
    odd = [name for name in names if name not in known and (name.isupper() or "_" in name)]
    text = "{} is replaced by {}, and was not asked about: it is passed over."
    return [Note("unknown", text.format(name, one.action.name), (name,)) for name in odd]


def _typed(new: Action, covered: Sequence[Action]) -> Action:
    """The action with the type that all it replaces have, where it says none."""
    types = {action.returns for action in covered}
    return replace(new, returns=types.pop()) if new.returns == "text" and len(types) == 1 else new


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


def _kept(
    shard: Sequence[Action],
    found: Mapping[str, Action],
    then: Mapping[str, Mapped],
    notes: Sequence[Note],
) -> Settled:
    """The new actions, and those that nothing covers."""
    left = [action for action in shard if action.name not in then]
    told = list(notes)
    if not then and not notes:
        text = f"A reply covers none of the {len(left)} actions it was asked about: they stay."
        told.append(Note("uncovered", text, tuple(action.name for action in left)))
    for action in left if then else ():
        text = f"{action.name} is covered by no action of the reply: it stays."
        if not any(note.kind == "uncovered" and action.name in note.actions for note in notes):
            told.append(Note("uncovered", text, (action.name,)))
    actions = dict(found)
    mapping = dict(then)
    for action in left:
        name = action.name
        if name in actions:
            # A new action has the name of one that it does not stand for.
            actions[name] = replace(actions[name], name=_free(name, {*actions, *_names(shard)}))
            renamed = actions[name].name
            for old, one in list(mapping.items()):
                mapping[old] = replace(one, new=renamed) if one.new == name else one
            actions = {one.name: one for one in actions.values()}
        actions[name] = action
        mapping[name] = itself(action)
    return Settled(
        tuple(actions.values()), tuple(mapping[action.name] for action in shard), tuple(told)
    )


def _names(actions: Sequence[Action]) -> set[str]:
    return {action.name for action in actions}


def _free(name: str, taken: set[str] | Mapping[str, Action]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


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
                name = _free(name, {*found, *seeds, *(one.name for one in state.actions)})
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
