"""Fewer actions of many, without a model (PEARL, section 2.1, condenses with one).

Like actions become one whose definition holds for all of them. Where nothing is
alike enough and there are still too many, those that serve the fewest cases
become cases of one general action that is told what to find, in the words of
their definitions: so nothing is lost, and nothing is said to be what it is not.
A mapping says which new action stands for each older one, and with which arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pearl.lang.ast import DOCUMENT, Action, Arg, Items, Literal, Param, Ref, Replaced, Template
from pearl.lang.definitions import arguments, made_up, narrow, phrase, widened
from pearl.lang.library import builtins
from pearl.lang.similarity import FLOOR, clearest, group
from pearl.lang.values import Type, Value, as_text

if TYPE_CHECKING:
    from pearl.lint.render.report import Report


@dataclass(frozen=True, slots=True)
class Mapped:
    """An older action and what stands for it.

    Args:
        old: the older action.
        new: the name of the action that stands for it.
        args: the new call's arguments; a reference names a parameter of ``old``.
    """

    old: Action
    new: str
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should know of a condensed library.

    Args:
        kind: ``builtin``, ``definition``, ``same-name``, ``seed``, ``general``,
            ``target``, ``type``, ``unread``, ``uncovered``, ``twice``, ``unknown``,
            ``round``: never renamed, for programs.
        text: one sentence.
        actions: the names it is about.
    """

    kind: str
    text: str
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """How far one round of a model's condensing came.

    Args:
        number: from 1 on.
        calls: the calls it made.
        before: actions at its start.
        after: actions at its end.
    """

    number: int
    calls: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Condensed:
    """What came of condensing.

    Args:
        actions: the new library, each action with what it replaces. Builtins are
            not among them, as every library holds those.
        mapping: every older action once, in order, and the one action that stands for it.
        notes: what a person should know.
        rounds: those in which a model was asked.
        reports: the lines of its replies that cannot be read.
    """

    actions: tuple[Action, ...]
    mapping: tuple[Mapped, ...]
    notes: tuple[Note, ...]
    rounds: tuple[Round, ...] = ()
    reports: tuple[Report, ...] = ()

    @property
    def before(self) -> int:
        """How many older actions there were; builtins do not count."""
        own = builtins()
        return sum(one.old.name not in own for one in self.mapping)


def itself(action: Action) -> Mapped:
    """An action that stands for itself."""
    return Mapped(action, action.name, tuple(Ref(param.name) for param in action.params))


def straight(one: Mapped | Replaced) -> bool:
    """Whether an older call needs nothing but the new name."""
    params = [param.name for param in one.old.params] if isinstance(one, Mapped) else one.params
    return list(one.args) == [Ref(name) for name in params]


def substituted(arg: Arg, values: Mapping[str, Arg]) -> Arg:
    """An argument with values for the names in it.

    A literal becomes part of the text it is put into, a list with commas between
    its items.

    Args:
        arg: refers to parameters.
        values: what each parameter is; a name that is not among them stays.
    """
    match arg:
        case Ref():
            value = values.get(arg.name, arg)
            return replace(value, mode=arg.mode) if arg.mode and type(value) is Ref else value
        case Template():
            parts: list[str | Ref] = []
            for part in arg.parts:
                parts += [part] if isinstance(part, str) else _flat(substituted(part, values))
            return as_arg(parts)
        case Items():
            items = tuple(substituted(item, values) for item in arg.items)
            literals = [item.value for item in items if isinstance(item, Literal)]
            return Literal(literals) if len(literals) == len(items) else Items(items)
        case _:
            return arg


def _flat(arg: Arg) -> Iterable[str | Ref]:
    """An argument as parts of a text."""
    match arg:
        case Ref():
            return [arg]
        case Template():
            return arg.parts
        case Literal():
            return [_listed_text(arg.value)]
        case Items():
            parts: list[str | Ref] = []
            for item in arg.items:
                parts += [", "] if parts else []
                parts += _flat(item)
            return parts


def _listed_text(value: Value) -> str:
    return ", ".join(map(_listed_text, value)) if isinstance(value, list) else as_text(value)


def as_arg(parts: Sequence[str | Ref]) -> Literal | Template:
    """A text of parts as an argument: a template where it refers to anything."""
    joint: list[str | Ref] = []
    for part in parts:
        if isinstance(part, str) and joint and isinstance(joint[-1], str):
            joint[-1] += part
        elif part != "":
            joint.append(part)
    if any(isinstance(part, Ref) for part in joint):
        return Template(tuple(joint))
    return Literal("".join(part for part in joint if isinstance(part, str)))


def composed(first: Sequence[Mapped], then: Mapping[str, Mapped]) -> tuple[Mapped, ...]:
    """Two rounds as one.

    Args:
        first: older actions and what stood for them.
        then: by the name of what stood for them, what stands for that.
    """
    mapping: list[Mapped] = []
    for one in first:
        next_ = then.get(one.new)
        if next_ is not None:
            args = _substituted(next_.args, (param.name for param in next_.old.params), one.args)
            one = Mapped(one.old, next_.new, args)
        mapping.append(one)
    return tuple(mapping)


def _substituted(
    args: Sequence[Arg], names: Iterable[str], values: Sequence[Arg]
) -> tuple[Arg, ...]:
    by_name = dict(zip(names, values, strict=False))
    return tuple(substituted(arg, by_name) for arg in args)


def free_name(name: str, taken: Container[str]) -> str:
    """The name with the first number, from 2 on, with which it is not taken."""
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def proposed(actions: Collection[Action], mapping: Sequence[Mapped]) -> tuple[Action, ...]:
    """Actions with the questions that proposed whatever they stand for."""
    ids: dict[str, list[str]] = {}
    for one in mapping:
        ids.setdefault(one.new, []).extend(one.old.provenance)
    return tuple(
        replace(action, provenance=tuple(dict.fromkeys(ids[action.name]))) for action in actions
    )


def listed(
    actions: Sequence[Action], mapping: Sequence[Mapped], taken: Collection[str] = ()
) -> tuple[Action, ...]:
    """Actions with all that each of them replaces, and who proposed it.

    An older name whose arguments stay as they are becomes an alias, so that older
    plans run as they stand; any other is written out. What an older action itself
    replaced is carried along.

    Args:
        actions: the new ones.
        mapping: every older action, and what stands for it.
        taken: names that cannot be aliases, as another library has them.
    """
    used = {action.name for action in actions} | set(taken)
    found: list[Action] = []
    for action in actions:
        covered = [one for one in mapping if one.new == action.name]
        aliases: list[str] = []
        replaces: list[Replaced] = []
        for one in covered:
            for older in _older(one):
                if older.name == action.name and older.args == itself(action).args:
                    continue
                same = straight(older) and len(older.params) == len(action.params)
                if same and older.name not in used:
                    aliases.append(older.name)
                    used.add(older.name)
                elif older.name not in aliases or not straight(older):
                    replaces.append(older)
        ids = [id_ for one in covered for id_ in one.old.provenance]
        found.append(
            replace(
                action,
                aliases=tuple(dict.fromkeys(aliases)),
                replaces=_once(replaces, action),
                provenance=tuple(dict.fromkeys(ids)),
            )
        )
    return tuple(found)


def with_own_names(
    actions: Sequence[Action], mapping: Sequence[Mapped]
) -> tuple[tuple[Action, ...], tuple[Mapped, ...], tuple[Note, ...]]:
    """No action under a name by which older plans call another one.

    Returns:
        The actions and the mapping with such actions renamed, and a note for each.
    """
    calls = {(older.name, len(older.params)): one.new for one in mapping for older in _older(one)}
    taken = {name for name, _ in calls} | {action.name for action in actions}
    names: dict[str, str] = {}
    notes: list[Note] = []
    for action in actions:
        if calls.get((action.name, len(action.params)), action.name) == action.name:
            continue
        name = names[action.name] = free_name(action.name, taken)
        taken.add(name)
        text = f"{action.name} is an older action's name: the new one is now {name}."
        notes.append(Note("same-name", text, (action.name, name)))
    renamed = tuple(replace(action, name=names.get(action.name, action.name)) for action in actions)
    moved = tuple(replace(one, new=names.get(one.new, one.new)) for one in mapping)
    return renamed, moved, tuple(notes)


def _once(replaces: Iterable[Replaced], action: Action) -> tuple[Replaced, ...]:
    """One line for each call; a call that the action itself answers needs none."""
    found: dict[tuple[str, int], Replaced] = {}
    for one in replaces:
        if (one.name, len(one.params)) != (action.name, len(action.params)):
            found.setdefault((one.name, len(one.params)), one)
    return tuple(found.values())


def _older(one: Mapped) -> Iterable[Replaced]:
    """Every call that an older action answered, as a new call."""
    params = tuple(param.name for param in one.old.params)
    yield Replaced(one.old.name, params, one.args)
    for alias in one.old.aliases:
        yield Replaced(alias, params, one.args)
    for before in one.old.replaces:
        yield Replaced(before.name, before.params, _substituted(one.args, params, before.args))


GENERAL = "FIND_OUT"
"""The name of the general action; one for each type that actions return."""


def condense(
    actions: Sequence[Action],
    target: int,
    *,
    seeds: Mapping[str, Action] | None = None,
    floor: float = FLOOR,
) -> Condensed:
    """Condense an action library without a model.

    Args:
        actions: the library, in any order; two may have the same name.
        target: how many actions are wanted, at most. Builtins do not count.
        seeds: actions that plans can call beside these, by name.
        floor: the likeness, from 0 to 1, below which two actions are not merged.

    Returns:
        The new library and, for every older action, the one that stands for it. More
        than ``target`` are left only where an action's last parameter repeats, as its
        calls cannot be written in another way; a note says so.
    """
    state = begin(actions, seeds or {})
    state = merged(state, target, floor)
    state = folded(state, target)
    return finished(state, seeds or {}, target)


def begin(actions: Sequence[Action], seeds: Mapping[str, Action]) -> Condensed:
    """The actions that can be condensed, each with a name and a definition of its own.

    Args:
        actions: the library.
        seeds: actions beside it, by name: one that takes other parameters keeps its name.
    """
    own = builtins()
    names = {action.name for action in actions}
    notes: list[Note] = []
    mapping: list[Mapped] = []
    found: dict[str, Action] = {}
    for action in actions:
        if action.is_builtin or action.name in own:
            mapping.append(itself(action))
            text = f"{action.name} is a builtin: every library holds it, and it is not written."
            notes.append(Note("builtin", text, (action.name,)))
            continue
        named = _renamed(action, found, seeds, names, notes)
        if not named.doc:
            named = replace(named, doc=made_up(named))
            text = f"{action.name} has no definition: one was made from its name."
            notes.append(Note("definition", text, (action.name,)))
        if named.name in found:
            kept = found[named.name]
            named = replace(kept, doc=widened(kept, [named]))
            text = f"{action.name} stands there twice with the same parameters: the two are one."
            notes.append(Note("same-name", text, (action.name,)))
        found[named.name] = replace(named, aliases=(), replaces=(), span=action.span)
        mapping.append(Mapped(action, named.name, itself(action).args))
    weighed = proposed(found.values(), mapping)
    return Condensed(weighed, tuple(mapping), tuple(notes))


def _renamed(
    action: Action,
    found: Mapping[str, Action],
    seeds: Mapping[str, Action],
    names: Collection[str],
    notes: list[Note],
) -> Action:
    """The action under a name that no action with other parameters has."""
    name, number = action.name, 1
    reason = ""
    while True:
        before, seed = found.get(name), seeds.get(name)
        if before and not _same_call(before, action):
            reason = "It stands there with other parameters too"
        elif seed and len(seed.params) != len(action.params):
            reason = "The seed actions have it with other parameters"
        else:
            break
        while name in names:
            number += 1
            name = f"{action.name}_{number}"
        if name in found:
            names = {*names, name}
    if reason:
        text = f"{action.signature} is now {name}. {reason}."
        notes.append(Note("same-name", text, (action.name, name)))
    elif seed and action.name not in found:
        text = f"{action.name} is one of the seed actions too: in plans, the later library counts."
        notes.append(Note("seed", text, (action.name,)))
    return replace(action, name=name)


def _same_call(one: Action, other: Action) -> bool:
    same = [param.type for param in one.params] == [param.type for param in other.params]
    return same and one.returns == other.returns and one.variadic == other.variadic


def merged(state: Condensed, target: int, floor: float = FLOOR) -> Condensed:
    """One action for each group of like ones, as far as a target asks for it.

    Args:
        state: as `begin` or an earlier round left it.
        target: how many actions are wanted, at most.
        floor: the likeness below which two stay apart.
    """
    actions = state.actions
    kept: list[Action] = []
    then: dict[str, Mapped] = {}
    for places in group(actions, target, floor):
        members = [actions[at] for at in places]
        best = members.pop(clearest(members))
        action = replace(best, doc=widened(best, members))
        then[best.name] = itself(best)
        for member in members:
            args = arguments(member, best)
            if args is None:
                kept.append(member)
                then[member.name] = itself(member)
            else:
                then[member.name] = Mapped(member, best.name, args)
        kept.append(action)
    mapping = composed(state.mapping, then)
    return Condensed(proposed(kept, mapping), mapping, state.notes)


def folded(state: Condensed, target: int) -> Condensed:
    """As many actions made cases of a general one as a target asks for.

    First those that stand for the fewest proposals and older actions, and of
    these the most narrowly defined.

    Args:
        state: as `merged` left it.
        target: how many actions are wanted, at most.
    """
    if len(state.actions) <= target:
        return state
    covers = Counter(one.new for one in state.mapping)
    by_type = {action.returns for action in state.actions}
    one_type = len(by_type) > target
    order = sorted(
        (action for action in state.actions if not action.variadic and not _is_general(action)),
        key=lambda action: (len(action.provenance), covers[action.name], -narrow(action)),
    )
    kept = {action.name: action for action in state.actions}
    then: dict[str, str] = {}
    for action in order:
        if len(kept) <= target:
            break
        general = general_action("any" if one_type else action.returns, kept)
        alike = sum(other.returns == action.returns for other in kept.values())
        if general.name not in kept and alike == 1 and not one_type:
            continue
        del kept[action.name]
        kept.setdefault(general.name, general)
        then[action.name] = general.name
    # Calls of the general action are each in the words of the older action itself.
    mapping = tuple(
        Mapped(one.old, then[one.new], (Ref(DOCUMENT), as_arg(phrase(one.old))))
        if one.new in then
        else one
        for one in state.mapping
    )
    count = sum(one.new in then for one in state.mapping)
    text = f"{count} actions that little else is like are calls of {GENERAL} now, in their words."
    notes = (*state.notes, Note("general", text, tuple(then)))
    return Condensed(proposed(list(kept.values()), mapping), mapping, notes)


def general_action(returns: Type, beside: Mapping[str, Action]) -> Action:
    """The action that finds whatever it is told to, for one type of output.

    Args:
        returns: the type.
        beside: the actions it will stand among, by name; it is one of them where
            they have it already.
    """
    name = GENERAL if returns in ("text", "any") else f"{GENERAL}_{returns.upper()}"
    params = (Param(DOCUMENT), Param("X"))
    doc = f"Find out what X names or asks for, given {DOCUMENT}."
    number = 1
    general = Action(name, params, returns, doc)
    while general.name in beside and not _is_general(beside[general.name], returns):
        number += 1
        general = replace(general, name=f"{name}_{number}")
    return beside.get(general.name, general)


def _is_general(action: Action, returns: Type | None = None) -> bool:
    plain = action.doc == f"Find out what X names or asks for, given {DOCUMENT}."
    return plain and returns in (None, action.returns)


def finished(state: Condensed, seeds: Mapping[str, Action], target: int) -> Condensed:
    """The library as it is written: each action lists what it replaces.

    Args:
        state: after the last round.
        seeds: actions that plans can call beside these, by name.
        target: how many actions were wanted, at most.
    """
    actions, mapping, renamed = with_own_names(state.actions, state.mapping)
    notes = [*state.notes, *renamed]
    left = len(actions)
    if left > target:
        text = f"{left} actions are left, not {target}: the others' calls cannot be written anew."
        notes.append(Note("target", text))
    first: dict[str, int] = {}
    for at, one in enumerate(mapping):
        first.setdefault(one.new, at)
    ordered = sorted(actions, key=lambda action: first[action.name])
    return Condensed(listed(ordered, mapping, frozenset(seeds)), mapping, tuple(notes))
