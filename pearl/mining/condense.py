"""Condenses an action library without a model (PEARL, section 2.1, condenses with one).

Similar actions are merged into one whose definition holds for all of them. If
there are still too many and none are similar enough, the least used actions
become calls of one general action, which is told what to find in the words of
their definitions, so that nothing is lost. A mapping says which new action
replaces each older one, and with which arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING

from pearl.lang.ast import DOCUMENT, Action, Arg, Param, Prompt, Ref, Replaced, SubPlan
from pearl.lang.definitions import arguments, definition_of, narrow, phrase, read_action, widen
from pearl.lang.diagnostics import SourceFindings
from pearl.lang.library import Library, builtins
from pearl.lang.parser import parse
from pearl.lang.printer import print_arg, print_library, print_plan
from pearl.lang.rewriting import migrate, substituted
from pearl.lang.rows import Tabled, as_frame
from pearl.lang.similarity import FLOOR, clearest, group
from pearl.lang.source import Source
from pearl.lang.text import free_name
from pearl.lang.values import Type

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class Merge:
    """An older action and what replaces it.

    Args:
        old: the older action.
        new: the name of the action that replaces it.
        args: the new call's arguments; a reference names a parameter of ``old``.
    """

    old: Action
    new: str
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class CondensingNote:
    """Something the user should know about a condensed library.

    Args:
        kind: ``builtin``, ``kept``, ``definition``, ``same-name``, ``seed``, ``general``,
            ``target``, ``model``, ``uncovered``, ``refused``, ``twice``, ``unknown``, ``round`` or
            ``review``; stable, for programs.
        text: the note, in a sentence or two.
        actions: the names of the actions that it is about.
    """

    kind: str
    text: str
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """One round of condensing with a model.

    Args:
        number: its number, from 1.
        calls: how many calls it made.
        before: how many actions there were at its start.
        after: how many actions its replies would leave.
    """

    number: int
    calls: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Condensed(Tabled):
    """The result of condensing, or of one step of it.

    Args:
        actions: the new library, each action with what it replaces. Builtins are
            not among them, as every library has those.
        mapping: for every older action, in order, the action that replaces it.
        notes: what the user should know.
        rounds: the rounds in which a model was asked.
        reports: the lines of the model's replies that cannot be read.
    """

    actions: tuple[Action, ...]
    mapping: tuple[Merge, ...]
    notes: tuple[CondensingNote, ...]
    rounds: tuple[Round, ...] = ()
    reports: tuple[SourceFindings, ...] = ()

    @property
    def before(self) -> int:
        """How many older actions there were; builtins do not count."""
        own = builtins()
        return sum(merge.old.name not in own for merge in self.mapping)

    @property
    def text(self) -> str:
        """The library's text."""
        return print_library(self.actions)

    def frame(self) -> DataFrame:
        """Which action replaces each older one, as a pandas table (`as_frame`)."""
        return as_frame(
            {"old": row.old.signature, "new": row.new, "arguments": [*map(print_arg, row.args)]}
            for row in self.mapping
        )


def itself(action: Action) -> Merge:
    """The merge of an action that stays as it is."""
    return Merge(action, action.name, tuple(Ref(param.name) for param in action.params))


def straight(call: Merge | Replaced) -> bool:
    """Whether a new call differs from the older one only in its name."""
    params = [param.name for param in call.old.params] if isinstance(call, Merge) else call.params
    return list(call.args) == [Ref(name) for name in params]


def _given(merge: Merge, args: Sequence[Arg]) -> tuple[Arg, ...]:
    """The arguments of the new call that replaces a call of the older action with ``args``."""
    by_name = dict(zip((param.name for param in merge.old.params), args, strict=False))
    return tuple(substituted(arg, by_name) for arg in merge.args)


def renamed(
    actions: Iterable[Action], mapping: Iterable[Merge], names: Mapping[str, str]
) -> tuple[list[Action], list[Merge]]:
    """New actions, and the mapping to them, with some actions renamed."""
    return (
        [replace(action, name=names.get(action.name, action.name)) for action in actions],
        [replace(merge, new=names.get(merge.new, merge.new)) for merge in mapping],
    )


def _state(
    actions: Iterable[Action], mapping: Sequence[Merge], notes: Iterable[CondensingNote]
) -> Condensed:
    """A state in which each action's provenance is that of all actions it replaces."""
    ids: dict[str, dict[str, None]] = {}
    for merge in mapping:
        ids.setdefault(merge.new, {}).update(dict.fromkeys(merge.old.provenance))
    weighed = (replace(action, provenance=tuple(ids[action.name])) for action in actions)
    return Condensed(tuple(weighed), tuple(mapping), tuple(notes))


def _with_older(
    actions: Sequence[Action], mapping: Sequence[Merge], others: Collection[str]
) -> tuple[Action, ...]:
    """Actions with the calls that each of them replaces, and the questions that proposed it.

    An older name whose arguments stay the same becomes an alias, so that older
    plans run unchanged; any other call is written out. So are the calls that an
    older action itself replaced.

    Args:
        actions: the new actions.
        mapping: every older action, and what replaces it.
        others: names that cannot be aliases, as another library has them.
    """
    used = {action.name for action in actions} | set(others)
    results: list[Action] = []
    for action in actions:
        covered = [merge for merge in mapping if merge.new == action.name]
        aliases: list[str] = []
        # The replaced calls, by name and number of arguments.
        replaces: dict[tuple[str, int], Replaced] = {}
        for older in (older for merge in covered for older in _older(merge)):
            call = older.name, len(older.params)
            same = straight(older) and call[1] == len(action.params)
            if older.name == action.name and older.args == itself(action).args:
                continue
            if same and older.name not in used:
                aliases.append(older.name)
                used.add(older.name)
            elif call != (action.name, len(action.params)) and (
                older.name not in aliases or not straight(older)
            ):
                replaces.setdefault(call, older)
        ids = dict.fromkeys(id_ for merge in covered for id_ in merge.old.provenance)
        results.append(
            replace(
                action,
                aliases=tuple(dict.fromkeys(aliases)),
                replaces=tuple(replaces.values()),
                provenance=tuple(ids),
            )
        )
    return tuple(results)


def _older(merge: Merge) -> Iterable[Replaced]:
    """Every call that an older action answered, with the new call's arguments."""
    params = tuple(param.name for param in merge.old.params)
    for name in (merge.old.name, *merge.old.aliases):
        yield Replaced(name, params, merge.args)
    for before in merge.old.replaces:
        yield Replaced(before.name, before.params, _given(merge, before.args))


GENERAL = "FIND_OUT"
"""The name of the general action; one for each type that actions return."""

_GENERAL_DOC = f"Find out what X names or asks for, given {DOCUMENT}."


def condense(
    actions: Sequence[Action],
    target: int,
    *,
    seeds: Mapping[str, Action] | None = None,
) -> Condensed:
    """Condense an action library without a model.

    Args:
        actions: the library, in any order; two may have the same name.
        target: the most actions to keep. Builtins do not count.
        seeds: actions that plans can call beside these, by name.

    Returns:
        The new library and, for every older action, the one that replaces it. More
        than ``target`` are left only where an action's last parameter repeats, as its
        calls cannot be written in another way; a note says so.
    """
    state = merge_similar(begin(actions, seeds or {}), target)
    return finish(generalize(state, target), seeds or {}, target)


def begin(actions: Sequence[Action], seeds: Mapping[str, Action]) -> Condensed:
    """The actions that can be condensed, each with a unique name and a definition.

    Args:
        actions: the library.
        seeds: actions beside it, by name; an action that shares a seed's name but not its number
            of parameters is renamed.
    """
    own = builtins()
    names = {action.name for action in actions}
    notes: list[CondensingNote] = []
    mapping: list[Merge] = []
    named_actions: dict[str, Action] = {}
    for action in actions:
        name, reason = action.name, ""
        if name in own or is_kept(action):
            mapping.append(itself(action))
            text = f"{name} is a builtin: every library holds it, and it is not written."
            if name not in own:
                text = f"{name} is kept as it is: no prompt carries it out."
            notes.append(CondensingNote("builtin" if name in own else "kept", text, (name,)))
            continue
        numbered = (f"{action.name}_{number}" for number in count(2))
        for name in chain([action.name], (other for other in numbered if other not in names)):
            before, seed = named_actions.get(name), seeds.get(name)
            if before and _call_types(before) != _call_types(action):
                reason = "It stands there with other parameters too"
            elif seed and len(seed.params) != len(action.params):
                reason = "The seed actions have it with other parameters"
            else:
                break
        if reason:
            text = f"{action.signature} is now {name}. {reason}."
            notes.append(CondensingNote("same-name", text, (action.name, name)))
        elif seed and name not in named_actions:
            text = f"{name} is one of the seed actions too: in plans, the later library counts."
            notes.append(CondensingNote("seed", text, (name,)))
        named = replace(action, name=name)
        if not named.doc:
            named = replace(named, doc=definition_of(named))
            text = f"{action.name} has no definition: one was made from its name."
            notes.append(CondensingNote("definition", text, (action.name,)))
        if before:
            named = replace(before, doc=widen(before, [named]))
            text = f"{action.name} stands there twice with the same parameters: the two are one."
            notes.append(CondensingNote("same-name", text, (action.name,)))
        named_actions[name] = replace(named, aliases=(), replaces=(), span=action.span)
        mapping.append(Merge(action, name, itself(action).args))
    return _state(named_actions.values(), mapping, notes)


def is_kept(action: Action) -> bool:
    """Whether an action is left as it is, as its body is code and not a prompt."""
    return action.name not in builtins() and not isinstance(action.body, Prompt)


def _call_types(action: Action) -> tuple[object, ...]:
    return [param.type for param in action.params], action.returns, action.variadic


def merge_similar(state: Condensed, target: int, floor: float = FLOOR) -> Condensed:
    """Merge groups of similar actions, until at most ``target`` actions are left.

    Args:
        state: as `begin` or an earlier round left it.
        target: the most actions to keep.
        floor: the similarity, from 0 to 1, below which two actions are not merged.
    """
    actions: list[Action] = []
    mapping: list[Merge] = []
    for places in group(state.actions, target, floor):
        members = [state.actions[at] for at in places]
        best = members.pop(clearest(members))
        mapping.append(itself(best))
        for member in members:
            args = arguments(member, best)
            if args is None:
                actions.append(member)
            mapping.append(itself(member) if args is None else Merge(member, best.name, args))
        actions.append(replace(best, doc=widen(best, members)))
    return combine(state, [Condensed(tuple(actions), tuple(mapping), ())], {})


def combine(state: Condensed, parts: Sequence[Condensed], seeds: Mapping[str, Action]) -> Condensed:
    """The library after a step.

    Two parts may have made actions of the same name: with the same parameters they
    are merged, else the later one is renamed. A note reports either.

    Args:
        state: the library before the step.
        parts: the results of the step; each action of the library is in one of them.
        seeds: actions beside it, by name; an action that shares a seed's name but not its number
            of parameters is renamed.
    """
    notes = [*state.notes]
    actions: dict[str, Action] = {}
    then: dict[str, Merge] = {}
    for part in parts:
        notes += part.notes
        renamed: dict[str, str] = {}
        for action in part.actions:
            before, seed = actions.get(action.name), seeds.get(action.name)
            name = action.name
            if before and _same_use(before) == _same_use(action):
                text = f"{name} was made by two calls: it stands for what both replace."
                notes.append(CondensingNote("same-name", text, (name,)))
                actions[name] = replace(before, doc=widen(before, [action]))
                continue
            if before or (seed and len(seed.params) != len(action.params)):
                name = free_name(name, {*actions, *seeds, *(old.name for old in state.actions)})
                text = f"{action.name} is there with other parameters: this one is now {name}."
                notes.append(CondensingNote("same-name", text, (action.name, name)))
                renamed[action.name] = name
            actions[name] = replace(action, name=name)
        for merge in part.mapping:
            then[merge.old.name] = replace(merge, new=renamed.get(merge.new, merge.new))
    mapping: list[Merge] = []
    for merge in state.mapping:
        if next_ := then.get(merge.new):
            merge = Merge(merge.old, next_.new, _given(next_, merge.args))
        mapping.append(merge)
    return _state(actions.values(), mapping, notes)


def _same_use(action: Action) -> tuple[object, ...]:
    params = [(param.type, param.name == DOCUMENT) for param in action.params]
    return params, read_action(action).marks, action.returns


def generalize(state: Condensed, target: int) -> Condensed:
    """Replace actions by calls of a general action, until at most ``target`` are left.

    The actions with the fewest proposals and the fewest older actions go first;
    among equals, the most narrowly defined.

    Args:
        state: as `merge_similar` left it.
        target: the most actions to keep.
    """
    if len(state.actions) <= target:
        return state
    covers = Counter(merge.new for merge in state.mapping)
    one_type = len({action.returns for action in state.actions}) > target
    order = sorted(
        (action for action in state.actions if not action.variadic and action.doc != _GENERAL_DOC),
        key=lambda action: (len(action.provenance), covers[action.name], -narrow(action)),
    )
    actions = {action.name: action for action in state.actions}
    then: dict[str, str] = {}
    for action in order:
        if len(actions) <= target:
            break
        general = _general_action("any" if one_type else action.returns, actions)
        same_type = sum(other.returns == action.returns for other in actions.values())
        if general.name not in actions and same_type == 1 and not one_type:
            continue
        del actions[action.name]
        actions.setdefault(general.name, general)
        then[action.name] = general.name
    # Each call of the general action has the words of its older action's definition.
    mapping = [
        Merge(merge.old, then[merge.new], (Ref(DOCUMENT), phrase(merge.old)))
        if merge.new in then
        else merge
        for merge in state.mapping
    ]
    moved = sum(merge.new in then and not is_kept(merge.old) for merge in state.mapping)
    text = f"{moved} actions that little else is like are calls of {GENERAL} now, in their words."
    return _state(
        actions.values(), mapping, (*state.notes, CondensingNote("general", text, tuple(then)))
    )


def _general_action(returns: Type, actions: Mapping[str, Action]) -> Action:
    """The general action, which finds whatever it is told to, for one type of output.

    Args:
        returns: the type.
        actions: the other actions, by name; if the general action is already among them, it is
            returned.
    """
    name = GENERAL if returns in ("text", "any") else f"{GENERAL}_{returns.upper()}"
    fits = (_GENERAL_DOC, returns)
    others = {other.name for other in actions.values() if (other.doc, other.returns) != fits}
    name = free_name(name, others)
    general = Action(name, (Param(DOCUMENT), Param("X")), returns, _GENERAL_DOC)
    return actions.get(name, general)


def finish(state: Condensed, seeds: Collection[str], target: int | None = None) -> Condensed:
    """The finished library, in which each action lists what it replaces.

    An action whose name means another one in older plans is renamed, and a note says so.

    Args:
        state: the state after the last step.
        seeds: names of actions that plans can call beside these.
        target: the most actions that were to be kept; None for any number.
    """
    notes = [*state.notes]
    kept = {merge.old.name: merge.old for merge in state.mapping if is_kept(merge.old)}
    now = [action for action in state.actions if not is_kept(action)]
    calls = {
        (older.name, len(older.params)): merge.new
        for merge in state.mapping
        for older in _older(merge)
    }
    used = {name for name, _ in calls} | {action.name for action in now}
    names: dict[str, str] = {}
    for action in now:
        call = action.name, len(action.params)
        if action.name in kept or calls.get(call, action.name) != action.name:
            name = names[action.name] = free_name(action.name, used)
            used.add(name)
            text = f"{action.name} is an older action's name: the new one is now {name}."
            notes.append(CondensingNote("same-name", text, (action.name, name)))
    actions, mapping = renamed(now, state.mapping, names)
    # The name of an action that is kept may also be that of one which was renamed or merged.
    mapping = [itself(merge.old) if is_kept(merge.old) else merge for merge in mapping]
    first = {merge.new: at for at, merge in reversed(list(enumerate(mapping)))}
    ordered = sorted(actions, key=lambda action: first[action.name])
    models = {action.name: action.model for action in ordered}
    for merge in mapping:
        if merge.old.model and models.get(merge.new, merge.old.model) != merge.old.model:
            text = f"{merge.old.name} had the model {merge.old.model}, and {merge.new} has "
            text += f"{models[merge.new] or 'none of its own'}."
            notes.append(CondensingNote("model", text, (merge.old.name, merge.new)))
    if target is not None and len(ordered) > target:
        text = f"{len(ordered)} actions are left, not {target}: the others' calls cannot be "
        notes.append(CondensingNote("target", text + "written anew."))
    # Notes about a new name that was merged away in a later step are dropped.
    there = {action.name for action in ordered}
    notes = [
        note
        for note in notes
        if note.kind != "same-name" or len(note.actions) < 2 or note.actions[1] in there
    ]
    return Condensed(complete(ordered, mapping, seeds), tuple(mapping), tuple(notes))


def complete(
    actions: Sequence[Action], mapping: Sequence[Merge], seeds: Collection[str]
) -> tuple[Action, ...]:
    """New actions with what each replaces, and the older actions that are kept, whose own plans are
    migrated to call the new ones."""
    kept = {merge.old.name: merge.old for merge in mapping if is_kept(merge.old)}
    others = [merge for merge in mapping if not is_kept(merge.old)]
    written = _with_older(actions, others, {*seeds, *kept})
    library = Library((), {action.name: action for action in written})
    for name, old in kept.items():
        if isinstance(old.body, SubPlan):
            plan = migrate(Source("plan", print_plan(old.body.plan)), library).text
            kept[name] = replace(old, body=replace(old.body, plan=parse(plan).plan))
    return (*written, *kept.values())
