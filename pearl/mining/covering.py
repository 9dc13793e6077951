"""Which new action stands for which older one, and with which arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pearl.plan import Action, Arg, Items, Literal, Ref, Replaced, Template
from pearl.values import Value, as_text


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
class Condensed:
    """What came of condensing.

    Args:
        actions: the new library, each action with what it replaces. Builtins are
            not among them, as every library holds those.
        mapping: every older action once, in order, and the one action that stands for it.
        notes: what a person should know.
    """

    actions: tuple[Action, ...]
    mapping: tuple[Mapped, ...]
    notes: tuple[Note, ...]


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
            return _text([piece for part in arg.parts for piece in _pieces(part, values)])
        case Items():
            return _items(tuple(substituted(item, values) for item in arg.items))
        case _:
            return arg


def _pieces(part: str | Ref, values: Mapping[str, Arg]) -> Iterable[str | Ref]:
    if isinstance(part, str):
        return [part]
    return _flat(substituted(part, values))


def _flat(arg: Arg) -> Iterable[str | Ref]:
    """An argument as parts of a text."""
    match arg:
        case Ref():
            return [arg]
        case Template():
            return arg.parts
        case Literal():
            return [_told(arg.value)]
        case Items():
            found: list[str | Ref] = []
            for item in arg.items:
                found += [", "] if found else []
                found += _flat(item)
            return found


def _told(value: Value) -> str:
    if isinstance(value, list):
        return ", ".join(map(_told, value))
    return as_text(value)


def _text(parts: Sequence[str | Ref]) -> Literal | Template:
    joint: list[str | Ref] = []
    for part in parts:
        if isinstance(part, str) and joint and isinstance(joint[-1], str):
            joint[-1] += part
        elif part != "":
            joint.append(part)
    if any(isinstance(part, Ref) for part in joint):
        return Template(tuple(joint))
    return Literal("".join(part for part in joint if isinstance(part, str)))


def _items(items: tuple[Arg, ...]) -> Arg:
    values = [item.value for item in items if isinstance(item, Literal)]
    return Literal(values) if len(values) == len(items) else Items(items)


def composed(first: Sequence[Mapped], then: Mapping[str, Mapped]) -> tuple[Mapped, ...]:
    """Two rounds as one.

    Args:
        first: older actions and what stood for them.
        then: by the name of what stood for them, what stands for that.
    """
    found: list[Mapped] = []
    for one in first:
        next_ = then.get(one.new)
        if next_ is None:
            found.append(one)
            continue
        values = _values([param.name for param in next_.old.params], one.args)
        args = tuple(substituted(arg, values) for arg in next_.args)
        found.append(Mapped(one.old, next_.new, args))
    return tuple(found)


def _values(names: Sequence[str], args: Sequence[Arg]) -> dict[str, Arg]:
    return dict(zip(names, args, strict=False))


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
                if straight(older) and older.name not in used and _fits(older, action):
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
        number = 2
        while f"{action.name}_{number}" in taken:
            number += 1
        name = names[action.name] = f"{action.name}_{number}"
        taken.add(name)
        text = f"{action.name} is an older action's name: the new one is now {name}."
        notes.append(Note("same-name", text, (action.name, name)))
    renamed = tuple(replace(action, name=names.get(action.name, action.name)) for action in actions)
    moved = tuple(replace(one, new=names.get(one.new, one.new)) for one in mapping)
    return renamed, moved, tuple(notes)


def _fits(older: Replaced, action: Action) -> bool:
    return len(older.params) == len(action.params)


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
        values = _values(params, before.args)
        args = tuple(substituted(arg, values) for arg in one.args)
        yield Replaced(before.name, before.params, args)
