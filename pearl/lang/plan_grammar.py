"""The grammar of the plans that the checker passes, for constrained decoding.

An action library decides which plans are valid: known actions, arguments in the right number and
of the right types, references to earlier steps only. A context-free grammar of such plans keeps a
model from writing any other, token by token; docs/grammar.md says what is in it. References are
step numbers, ``#2``, which the parser turns into names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, groupby, product
from typing import NamedTuple

from pearl.lang.ast import DOCUMENT, RESERVED, Action, Builtin, Mode, Param, Prompt
from pearl.lang.builtins import KINDS, MOST, Kind, kinds_taken
from pearl.lang.context_free import Alternative, Chars, Grammar, Item, Repeated, Symbol
from pearl.lang.errors import InputError
from pearl.lang.library import Library
from pearl.lang.printer import print_value
from pearl.lang.values import Type

STEPS = 8
"""The most steps of a plan by default."""

_ITEMS, _REFS, _TEXT = 5, 3, 160
"""The most items of a list, or arguments for ``...``; references and characters of a text."""

_SHORTEST, _NUMBER, _ITEM = 5, 11, 14
"""Characters that are set aside for the shortest text, for a number at the start of a text, and
for an item of a list or a reference in a text."""

_INVISIBLE = r"\x00-\x1F\x7F-\x9F\xAD\u200B-\u200F\u2028-\u202E\u2060\uFEFF"
_WRAPPING = r"<>`\[\]"
"""What tags, code fences and ``[THINK]`` are made of, which the reader takes off replies."""

_IN_TEXTS = rf"^\"\u201C\u201D\u201E\\{{}}{_WRAPPING}{_INVISIBLE}"
"""All characters but those above, quotes, backslashes, braces, and ones that are not seen."""

# Letters of any script; signs and marks of punctuation, which stand between words.
_LETTER = Chars(r"^\x00-\x40\x5B-\x60\x7B-\xBF\u2000-\u206F\u3000-\u303F\uFEFF")
_SIGNS = Chars(r" !#-\x2F:;=?@^_|~\xA1-\xAC\xAE-\xBF\u2010-\u2019\u2026\u3000-\u303F", 0, 3)


class Sizes(NamedTuple):
    """How many characters the parts of a step may have.

    Args:
        name: the step's name.
        text: the texts of its call, all together.
        note: its note; or a definition.
    """

    name: int = 40
    text: int = 2400
    note: int = 180


_LEAST = Sizes(16, 60, 40)
"""What a step has in the smallest room."""

_RETURN = len("\nreturn #99\n")
"""Characters that stand behind the last step."""


def plan_grammar(
    library: Library,
    steps: int = STEPS,
    new_actions: int = 0,
    room: int | None = None,
    sources: tuple[str, ...] = (),
) -> Grammar:
    """The grammar of the plans that call a library's actions and pass the checker.

    Args:
        library: the actions that a plan may call.
        steps: the most steps of a plan.
        new_actions: how many actions of its own a plan may declare: none or all of them.
        room: the most characters of a plan, None for no limit. Steps are made shorter first, and
            then fewer; at least one is left.
        sources: what may stand in quotes for one of several documents: ``CTX.lease.pdf``.

    Raises:
        InputError: ``steps`` is less than one, or there is no action that a plan could call.
    """
    if steps < 1:
        raise InputError("A plan has at least one step.")
    if room is None:
        return _plan_grammar(library, steps, new_actions, Sizes(), sources)
    step = -(-_plan_grammar(library, steps, new_actions, _LEAST, sources).longest // steps)
    steps = max(1, min(steps, (room - _RETURN) // step))
    sizes = _grown((room - _RETURN) // steps - step)
    return _plan_grammar(library, steps, new_actions, sizes, sources)


def _grown(spare: int) -> Sizes:
    """The sizes of a step with ``spare`` characters beyond `_LEAST`; below 0 counts as none."""
    most, spare = Sizes(), max(0, spare)
    name = min(most.name, _LEAST.name + spare // 12)
    note = min(most.note, _LEAST.note + spare // 2)
    rest = spare - (name - _LEAST.name) - (note - _LEAST.note)
    return Sizes(name, min(most.text, _LEAST.text + rest), note)


@lru_cache(maxsize=8)  # Questions of a batch have the same, and a tenth of a second goes into one.
def _plan_grammar(
    library: Library, steps: int, new_actions: int, sizes: Sizes, sources: tuple[str, ...]
) -> Grammar:
    rules = _Rules(sizes, sources)
    plan = _Plans(rules, library.listed, steps).state(0)
    starts: list[Alternative] = [(plan,)]
    if new_actions:
        own = [_new_action(number, library) for number in range(1, new_actions + 1)]
        head: list[Item] = []
        for action in own:
            head += [f"- {action.signature} : ", _note(rules), "\n"]
        plans = _Plans(rules, [*library.listed, *own], steps)
        heads = [("- None\n\n", plan), (*head, "\n", plans.state(0))]
        starts.append(("New actions:\n", rules.add("own", heads)))
    return rules.grammar(starts)


def step_grammar(
    library: Library, names: Mapping[str, Type], *, room: int | None = None
) -> Grammar:
    """The grammar of a plan's next step, ``name = ACTION(arguments)``, or of what it returns.

    Args:
        library: the actions that a step may call.
        names: the steps so far, each with the type of its output.
        room: the most characters of the step; None for no limit.

    Raises:
        InputError: there is no action that the step could call.
    """
    if room is None:
        return _step_grammar(library, names, Sizes())
    spare = room - _step_grammar(library, names, _LEAST).longest
    return _step_grammar(library, names, _grown(spare))


def _step_grammar(library: Library, names: Mapping[str, Type], sizes: Sizes) -> Grammar:
    rules = _Rules(sizes)
    refs = _Refs(tuple(names), tuple(names.items()))
    shapes = _shapes(library.listed)
    calls = [call for shape in shapes for call in _calls(rules, shape, refs)]
    for name, kind in names.items():
        calls += [call for _, call in _moded_calls(rules, shapes, refs, name, kind)]
    if not calls:
        raise InputError("The library has no action that a step could call: name another.")
    starts: list[Alternative] = [(_name(rules), " = ", rules.add("call", calls))]
    if names:
        starts.append(("return ", rules.add("name", [(name,) for name in names])))
    return rules.grammar(starts)


def _new_action(number: int, library: Library) -> Action:
    """The action with this number that a plan may declare: it takes one text if odd, two if even.

    A context-free grammar can neither repeat a name that a model made up nor count the parameters
    that it gave an action. So both are fixed here, and the model writes the definition only.
    """
    params = (DOCUMENT, "X") if number % 2 else (DOCUMENT, "X", "Y")
    name = f"NEW_{number}"
    while library.get(name):
        name = f"{name}_"
    return Action(name, tuple(map(Param, params)))


class _Rules:
    """The rules so far. Rules with the same alternatives become one."""

    def __init__(self, sizes: Sizes, sources: tuple[str, ...] = ()) -> None:
        self.sizes = sizes
        self.documents = (DOCUMENT, *map(print_value, sources))
        self._rules: dict[str, tuple[Alternative, ...]] = {}
        self._known: dict[tuple[Alternative, ...], Symbol] = {}

    def add(self, name: str, alternatives: Iterable[Alternative]) -> Symbol:
        """A new rule whose name starts with ``name``, or the one with the same alternatives."""
        body = tuple(dict.fromkeys(map(_joined, alternatives)))
        if body not in self._known:
            # Letters and digits only: what all forms allow in a name.
            number = len(self._rules)
            name = name if name.isupper() else f"{name}{number}"
            self._rules[name] = body
            self._known[body] = Symbol(name)
        return self._known[body]

    def grammar(self, starts: Iterable[Alternative]) -> Grammar:
        """The grammar of all rules, the start symbol first."""
        return Grammar((("start", tuple(starts)), *reversed(self._rules.items())))


def _joined(items: Alternative) -> Alternative:
    """The items without those that are always empty; neighbouring texts become one."""
    some = [item for item in items if not isinstance(item, Chars | Repeated) or item.most]
    runs = groupby(some, lambda item: isinstance(item, str))
    return tuple(
        chain.from_iterable(["".join(map(str, run))] if text else run for text, run in runs)
    )


class _Refs(NamedTuple):
    """What a step's arguments may refer to: what a parameter of type ``any`` takes, and references
    of a known type, which a parameter of that type takes too."""

    every: tuple[str, ...]
    typed: tuple[tuple[str, Type], ...] = ()

    def of(self, kind: Type) -> tuple[str, ...]:
        """The references that are known to be of a type; ``any`` may be all of them."""
        return tuple(ref for ref, own in self.typed if own in ("any", kind))


class _Shape(NamedTuple):
    """Actions that are called alike.

    Args:
        params: what they take, ``None`` for the document.
        variadic: whether the last argument may repeat.
        returns: the type of their outputs.
        maps: whether they may run over a list with ``each`` or ``where``.
        words: whether a model carries them out from words, and not from numbers or signs.
        names: of the actions.
    """

    params: tuple[Kind | None, ...]
    variadic: bool
    returns: Type
    maps: bool
    words: bool
    names: tuple[str, ...] = ()

    def asks_for(self, kind: Type) -> bool:
        """Whether a parameter has this type; ``any`` may be all of them."""
        types = [KINDS[param] for param in self.params if param and param != "any"]
        return any(kind in ("any", own) for own in types)


def _shapes(actions: Iterable[Action]) -> list[_Shape]:
    """The actions that a plan may call, by the shape of their calls.

    Those with nothing but ``...`` are left out: the checker knows no place in them for a text.
    """
    named: dict[_Shape, list[str]] = {}
    for action in actions:
        types = iter(kinds_taken(action))
        kinds = [(None,) if param.name == DOCUMENT else next(types) for param in action.params]
        maps = not (isinstance(action.body, Builtin) or action.variadic)
        # Examples show what else an action takes: a place in a list, a sign to split a text by.
        words = isinstance(action.body, Prompt) and not action.body.examples
        if kinds or not action.variadic:
            for params in product(*kinds):
                shape = _Shape(params, action.variadic, action.returns, maps, words)
                named.setdefault(shape, []).append(action.name)
    return [shape._replace(names=tuple(names)) for shape, names in named.items()]


def _calls(rules: _Rules, shape: _Shape, refs: _Refs) -> list[Alternative]:
    """The calls of a shape without ``each`` or ``where``; none where a type cannot be had."""
    args = _arguments(rules, shape, refs)
    calls = _call(rules, shape, args)
    if shape.variadic:
        more = _argument(rules, "any", refs, shape.words, _most(rules, shape)) or ""
        calls += _call(rules, shape, [*args, rules.add("series", [_series(more)])])
    return calls


def _moded_calls(
    rules: _Rules, shapes: Iterable[_Shape], refs: _Refs, ref: str, kind: Type
) -> Iterator[tuple[Type, Alternative]]:
    """The calls with one argument taken item by item, ``each #2``, and their outputs' types.

    That argument is ``ref``, of the type ``kind``; the others may be among ``refs``.
    """
    for mode, shape in product(Mode, shapes):
        each, items = mode.startswith("each"), "pairs" if mode.endswith("values") else "list"
        if mode in (Mode.PLAIN, Mode.EVIDENCE) or kind not in ("any", items):
            continue
        answers = each or shape.returns in ("bool", "any", "text")
        for place, param in enumerate(shape.params if shape.maps and answers else ()):
            if param:
                args = _arguments(rules, shape, refs)
                part, args[place] = _part(rules, _most(rules, shape) // 2), f"{mode} {ref}"
                if param in ("any", "text"):
                    text = ('"', part, f"{{{mode} {ref}}}", part, '"')
                    args[place] = rules.add("map", [(f"{mode} {ref}",), text])
                for call in _call(rules, shape, args):
                    yield "pairs" if each else kind, call


def _call(rules: _Rules, shape: _Shape, args: Iterable[Item | None]) -> list[Alternative]:
    """The call of a shape with such arguments; none where there is nothing for one of them."""
    items = [item for arg in args for item in (", ", arg)][1:]
    act = rules.add("act", [(name,) for name in shape.names])
    return [] if None in items else [(act, "(", *filter(None, items), ")")]


def _ref(rules: _Rules, refs: _Refs) -> Symbol:
    return rules.add("ref", [(ref,) for ref in refs.every])


def _most(rules: _Rules, shape: _Shape) -> int:
    """The most characters of each argument's texts: an equal share of the call's."""
    args = len([kind for kind in shape.params if kind]) + (_ITEMS if shape.variadic else 0)
    return rules.sizes.text // max(1, args)


def _arguments(rules: _Rules, shape: _Shape, refs: _Refs) -> list[Item | None]:
    most = _most(rules, shape)
    return [_argument(rules, kind, refs, shape.words, most) for kind in shape.params]


def _argument(rules: _Rules, kind: Kind | None, refs: _Refs, words: bool, most: int) -> Item | None:
    """What stands for a parameter of a kind, or for the document if that is None; None where there
    is nothing. All its texts have ``most`` characters together. For ``words``, they must hold
    letters, and numbers are left out where no type asks for them."""
    if kind is None:
        named = rules.documents
        return rules.add("document", [(name,) for name in named]) if named[1:] else DOCUMENT
    forms: list[Alternative] = [(ref,) for ref in refs.of(KINDS[kind])]
    match kind:
        case "any" | "list":
            others: list[Alternative] = [(ref,) for ref in refs.every]
            others += [] if words else [(_number(rules),)]
            if kind == "any":
                forms = [*_texts(rules, refs, words, most), *others]
            # A list of one says no more than what is in it, where a list is not asked for.
            least = 2 if words and kind == "any" else 1
            count = max(least, min(_ITEMS, most // _ITEM))
            items = [*_texts(rules, refs, words, most // count - 4), *others]
            forms.append(("[", *_series(rules.add("item", items), least, count), "]"))
            forms += [("evidence ", _ref(rules, refs))] if refs.every else []
        case "text":
            forms += _texts(rules, refs, words, most)
        case "number":
            forms.append((_number(rules),))
        case "count":
            digits = len(str(MOST)) - 1
            forms.append((rules.add("COUNT", [(Chars("1-9"), Chars("0-9", 0, digits))]),))
        case "last":
            forms.append(('"last"',))
        case "bool":
            forms += [("true",), ("false",)]
        case _:
            pass
    return rules.add(kind, forms) if forms else None


def _texts(rules: _Rules, refs: _Refs, words: bool, most: int) -> list[Alternative]:
    """The forms of a text: plain, with two letters at least if it is to be words; and one with
    references in braces."""
    most = max(_SHORTEST, min(most, _TEXT))
    forms: list[Alternative] = [] if words else [('""',)]
    if words:
        rest = _LETTER, _SIGNS, _LETTER
        whole: list[Alternative] = [(*rest, Chars(_IN_TEXTS, 0, most - _SHORTEST))]
        if most >= 2 * _NUMBER + _SHORTEST:
            number = Chars("$'(0-9"), Chars("0-9 %',.:-", 0, _NUMBER - 1)
            whole.append((*number, *rest, Chars(_IN_TEXTS, 0, most - _SHORTEST - _NUMBER)))
        text = rules.add(f"WORDS{most}", whole)
    else:
        text = rules.add(f"CHARS{most}", [(Chars(_IN_TEXTS, 1, most),)])
    forms.append(('"', text, '"'))
    # For each reference in braces, as many of the characters are set aside.
    count = min(_REFS, most // _ITEM)
    if refs.every and count:
        part, ref = _part(rules, (most - count * _ITEM) // (count + 1)), _ref(rules, refs)
        inside = rules.add("brace", [("{", ref, "}"), ("{evidence ", ref, "}")])
        forms.append(('"', part, inside, part, Repeated((inside, part), count - 1), '"'))
    return forms


def _part(rules: _Rules, most: int) -> Symbol:
    """A symbol for up to ``most`` characters beside the braces in a text."""
    most = max(1, min(most, _TEXT))
    part = rules.add(f"CHARS{most}", [(Chars(_IN_TEXTS, 1, most),)])
    return rules.add("part", [(), (part,)])


def _series(item: Item, least: int = 1, most: int = _ITEMS) -> Alternative:
    """From ``least`` to ``most`` of an item, with commas between them."""
    return (*(item, ", ") * (least - 1), item, Repeated((", ", item), most - least))


def _number(rules: _Rules) -> Symbol:
    whole: list[Alternative] = [("0",), (Chars("1-9"), Chars("0-9", 0, 5))]
    parts: Alternative = (".", Chars("0-9", 0, 2), Chars("1-9"))
    return rules.add("NUMBER", [*whole, *((*digits, *parts) for digits in whole), ("-", *whole[1])])


def _name(rules: _Rules) -> Symbol:
    """A step's name: any but the reserved words."""
    rest = Chars("a-z0-9_", 0, rules.sizes.name - 7)
    forms: list[Alternative] = [(Chars(_but("".join(word[0] for word in RESERVED))), rest)]
    for word in RESERVED:
        for end in range(1, len(word)):
            forms += [(word[:end],), (word[:end], Chars(f"{_but(word[end])}0-9_"), rest)]
        forms.append((word, Chars("a-z0-9_"), rest))
    return rules.add("NAME", forms)


def _but(letters: str) -> str:
    """The class of all small letters but some."""
    runs = re.split(f"[{letters}]", "abcdefghijklmnopqrstuvwxyz")
    return "".join(f"{run[0]}-{run[-1]}" for run in runs if run)


def _note(rules: _Rules) -> Symbol:
    """A note or a definition: one line that no other step can be read into."""
    marks = rf"\\{{}}=#*~|\u2190\uFF1D{_WRAPPING}{_INVISIBLE}"
    first = Chars(rf"^ .,;:\x2F\uFF1A\u2022\u2013\u2014{marks}-")
    return rules.add("NOTE", [(first, Chars(f"^{marks}", 0, rules.sizes.note - 1))])


class _HeldStep(NamedTuple):
    """A step, by its number, and the type as which later steps may take its output."""

    step: int
    kind: Type


def _before(done: int) -> _Refs:
    """The references to the first ``done`` steps of a plan."""
    return _Refs(tuple(f"#{number}" for number in range(1, done + 1)))


class _Plans:
    """The states of a plan: how many steps there are, and which one of them is held, if any.

    A step whose output is a list, pairs, or of another type that a parameter asks for, may be held
    in place of the one before it, and is then what steps of that type, ``each`` and ``where`` take.
    To follow all earlier steps at once would take as many states as there are rows of types.
    """

    def __init__(self, rules: _Rules, actions: Iterable[Action], steps: int) -> None:
        self.rules = rules
        self.shapes = _shapes(actions)
        self.steps = steps
        kinds = [kind for shape in self.shapes for kind in shape.params]
        self.held_types = {"any", "list", "pairs", *kinds}
        self._states: dict[tuple[int, _HeldStep | None], Symbol] = {}
        self._calls: dict[int | _HeldStep, list[tuple[Type | None, Symbol]]] = {}

    def state(self, done: int, held: _HeldStep | None = None) -> Symbol:
        """The rule for the rest of a plan after so many steps; an `InputError` where no action can
        be called."""
        if (done, held) not in self._states:
            rest: list[Alternative] = []
            for kind, call in [*self._known(done), *(self._known(held) if held else ())]:
                if kind:
                    rest.append((call, self._end(done + 1, _HeldStep(done + 1, kind))))
                if held or not kind:
                    rest.append((call, self._end(done + 1, held)))
            if not rest:
                raise InputError("The library has no action that a step could call: name another.")
            body = self.rules.add("rest", rest)
            step: Alternative = (f"{done + 1}. ", _name(self.rules), " = ", body)
            self._states[done, held] = self.rules.add("step", [step])
        return self._states[done, held]

    def _end(self, done: int, held: _HeldStep | None) -> Symbol:
        """The rule for what follows a step's call: its note, and the next step or the end."""
        note = self.rules.add("note", [(), (" : ", _note(self.rules))])
        newline = self.rules.add("newline", [(), ("\n",)])
        returned = _ref(self.rules, _before(done))
        ends: list[Alternative] = [(note, newline), (note, "\nreturn ", returned, newline)]
        if done < self.steps:
            ends.append((note, "\n", self.state(done, held)))
        return self.rules.add("end", ends)

    def _known(self, of: int | _HeldStep) -> list[tuple[Type | None, Symbol]]:
        """The calls that a step may make, by the type of its output; None where no step needs it.
        ``of`` is the number of steps so far; or the held step, for the calls that take it by
        type."""
        if of not in self._calls:
            moded: Iterable[tuple[Type, Alternative]] = ()
            if isinstance(of, int):
                refs, shapes = _before(of), self.shapes
            else:
                ref, kind = f"#{of.step}", of.kind
                refs = _before(of.step)._replace(typed=((ref, kind),))
                shapes = [shape for shape in self.shapes if shape.asks_for(kind)]
                moded = _moded_calls(self.rules, self.shapes, refs, ref, kind)
            plain = [(sh.returns, call) for sh in shapes for call in _calls(self.rules, sh, refs)]
            typed: dict[Type | None, list[Alternative]] = {}
            for returns, call in (*plain, *moded):
                needed = returns if returns in self.held_types else None
                typed.setdefault(needed, []).append(call)
            self._calls[of] = [(kind, self.rules.add("call", alts)) for kind, alts in typed.items()]
        return self._calls[of]
