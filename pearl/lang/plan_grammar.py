"""The grammar of the plans that the checker passes, for constrained decoding.

An action library decides which plans are valid: known actions, arguments in the right number and
of the right types, references to earlier steps only. A context-free grammar of such plans keeps a
model from writing any other, token by token; docs/grammar.md says what is in it.

- A plan's references are step numbers, ``#2``, which the parser turns into names.
- Types are followed through the states of a plan: how many steps there are, and one step whose
  output is held at hand as the list, pairs or other type that a later step asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from pearl.lang.ast import DOCUMENT, Action, Mode, Param
from pearl.lang.library import Library
from pearl.lang.source import InputError
from pearl.lang.values import Type

STEPS = 8
"""The most steps of a plan where nobody says otherwise."""

_NAME, _TEXT, _NOTE = 40, 120, 180
"""The most characters of a step's name, a text, and a note or definition."""

_ITEMS = 5
"""The most items of a list, and the most arguments that ``...`` stands for."""

_RESERVED = ("true", "false", "return")
"""Words that are no step's name, as the language keeps them."""

_MODES: Mapping[Type, tuple[Mode, ...]] = MappingProxyType(
    {
        "list": (Mode.EACH, Mode.WHERE),
        "pairs": (Mode.EACH_VALUES, Mode.WHERE_VALUES),
        "any": (Mode.EACH, Mode.WHERE, Mode.EACH_VALUES, Mode.WHERE_VALUES),
    }
)
"""How a reference of a type may be taken item by item."""

_INVISIBLE = r"\x00-\x1F\x7F-\x9F\xAD\u200B-\u200F\u2028-\u202E\u2060\uFEFF"
_WRAPPING = r"<>`\[\]"
"""What tags, code fences and ``[THINK]`` are made of, which the reader takes off replies."""

_NOT_IN_TEXTS = rf"\"\u201C\u201D\u201E\\{{}}{_WRAPPING}{_INVISIBLE}"
"""Beside those, what may end a text in double quotes, escape a character, or hold a reference."""


class Symbol(NamedTuple):
    """A use of a rule."""

    name: str


class Chars(NamedTuple):
    """So many characters of a class, which is written as between a pattern's brackets."""

    of: str
    least: int = 1
    most: int = 1


Item: TypeAlias = str | Symbol | Chars
Alternative: TypeAlias = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Grammar:
    """A context-free grammar.

    Args:
        rules: each rule's name and alternatives; ``start`` is the first. A name in capitals is
            one token, made of characters.
    """

    rules: tuple[tuple[str, tuple[Alternative, ...]], ...]

    @property
    def lark(self) -> str:
        """In llguidance's dialect of Lark, which OpenAI's custom tools take."""
        return self._print(":", str, "/{}/")

    @property
    def gbnf(self) -> str:
        """In llama.cpp's form."""
        return self._print(" ::=", lambda name: "root" if name == "start" else name.lower(), "{}")

    @property
    def ebnf(self) -> str:
        """In xgrammar's form, which SGLang takes: all that is used here, it shares with GBNF."""
        return self.gbnf

    def _print(self, sign: str, named: Callable[[str], str], pattern: str) -> str:
        def item(one: Item) -> str:
            match one:
                case Symbol(name):
                    return named(name)
                case Chars(of, least, most):
                    times = "" if least == most == 1 else f"{{{least},{most}}}"
                    return pattern.format(f"[{of}]{times}")
                case _:
                    escaped = one.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
                    return f'"{escaped}"'

        lines = []
        for name, alternatives in self.rules:
            body = " | ".join(" ".join(map(item, one)) for one in alternatives)
            lines.append(f"{named(name)}{sign} {body}\n")
        return "".join(lines)


def plan_grammar(library: Library, steps: int = STEPS, new_actions: int = 0) -> Grammar:
    """The grammar of the plans that call a library's actions and pass the checker.

    Args:
        library: the actions that a plan may call.
        steps: the most steps of a plan.
        new_actions: how many actions of its own a plan may declare: none or all of them.

    Raises:
        InputError: there are fewer than one step, or no action that a plan could call.
    """
    if steps < 1:
        raise InputError("A plan has at least one step.")
    rules = _Rules()
    starts: list[Alternative] = [(_Plans(rules, _callable(library), steps).state(0),)]
    if new_actions:
        own = [_new_action(number, library) for number in range(1, new_actions + 1)]
        head: list[Item] = ["New actions:\n"]
        for action in own:
            head += [f"- {action.signature} : ", _note(rules), "\n"]
        plans = _Plans(rules, [*_callable(library), *own], steps)
        starts.append((*head, "\n", plans.state(0)))
    return rules.grammar(starts)


def step_grammar(library: Library, names: Mapping[str, Type], *, returns: bool = True) -> Grammar:
    """The grammar of a plan's next step, ``name = ACTION(arguments)``, or of what it returns.

    Args:
        library: the actions that a step may call.
        names: the steps so far, each with the type of its output.
        returns: whether the plan may end here with ``return`` and a step's name.

    Raises:
        InputError: there is no action that the step could call.
    """
    rules = _Rules()
    refs = _Refs(tuple(names), tuple(names.items()))
    shapes = _shapes(_callable(library))
    calls = [call for shape in shapes for call in _calls(rules, shape, refs)]
    for name, kind in names.items():
        calls += [call for _, call in _moded_calls(rules, shapes, refs, name, kind)]
    if not calls:
        raise InputError("The library has no action that a step could call: name another.")
    starts: list[Alternative] = [(_name(rules), " = ", rules.add("call", calls))]
    if returns and names:
        starts.append(("return ", rules.add("name", [(name,) for name in names])))
    return rules.grammar(starts)


def _callable(library: Library) -> list[Action]:
    """The actions that a plan may call; only Pearl itself puts the others into plans."""
    return [action for action in library.actions.values() if "unlisted" not in action.traits]


def _new_action(number: int, library: Library) -> Action:
    """The action of a plan's own that has this number: over a text, or over two, by turns.

    A context-free grammar can neither repeat a name that a model made up nor count the parameters
    that it gave an action. So both are given here; what the action does, its definition says.
    """
    params = (DOCUMENT, "X") if number % 2 else (DOCUMENT, "X", "Y")
    name = f"NEW_{number}"
    while library.get(name):
        name = f"{name}_"
    return Action(name, tuple(map(Param, params)))


class _Rules:
    """The rules so far. Rules of the same alternatives become one."""

    def __init__(self) -> None:
        self._rules: dict[str, tuple[Alternative, ...]] = {}
        self._known: dict[tuple[Alternative, ...], Symbol] = {}

    def add(self, name: str, alternatives: Iterable[Alternative]) -> Symbol:
        """A rule whose name starts so, or the one there is already."""
        body = tuple(dict.fromkeys(map(_joined, alternatives)))
        if body not in self._known:
            # Letters and digits only: what all forms allow in a name.
            number = len(self._rules)
            name = name if name.isupper() else f"{name}{number}"
            self._rules[name] = body
            self._known[body] = Symbol(name)
        return self._known[body]

    def grammar(self, starts: Iterable[Alternative]) -> Grammar:
        """All rules, the start first."""
        return Grammar((("start", tuple(starts)), *reversed(self._rules.items())))


def _joined(items: Alternative) -> Alternative:
    """The items, neighbouring texts in one."""
    joined: list[Item] = []
    for item in items:
        if isinstance(item, str) and joined and isinstance(joined[-1], str):
            joined[-1] += item
        elif item != "":
            joined.append(item)
    return tuple(joined)


class _Refs(NamedTuple):
    """What a step's arguments may refer to.

    Args:
        every: what a parameter of any type takes.
        typed: what a parameter of the same type takes too.
    """

    every: tuple[str, ...]
    typed: tuple[tuple[str, Type], ...] = ()

    def of(self, kind: Type) -> tuple[str, ...]:
        """The references that are known to be of a type; ``any`` may be all of them."""
        return tuple(ref for ref, given in self.typed if given in ("any", kind))


class _Shape(NamedTuple):
    """Actions that are called alike.

    Args:
        names: of the actions.
        params: the types they take, ``None`` for the document.
        variadic: whether the last argument may repeat.
        returns: the type of their outputs.
        maps: whether they may run over a list with ``each`` or ``where``.
    """

    names: tuple[str, ...]
    params: tuple[Type | None, ...]
    variadic: bool
    returns: Type
    maps: bool

    @property
    def answers(self) -> bool:
        """Whether the output may be the yes or no that ``where`` asks for."""
        return self.returns in ("bool", "any", "text")


def _shapes(actions: Iterable[Action]) -> list[_Shape]:
    """The actions by the shape of their calls.

    An action with nothing but ``...`` is left out: the checker knows no place in it for a text.
    """
    found: dict[tuple[tuple[Type | None, ...], bool, Type, bool], list[str]] = {}
    for action in actions:
        params = tuple(None if one.name == DOCUMENT else one.type for one in action.params)
        maps = not (action.is_builtin or action.variadic)
        if params or not action.variadic:
            key = params, action.variadic, action.returns, maps
            found.setdefault(key, []).append(action.name)
    return [_Shape(tuple(names), *shape) for shape, names in found.items()]


def _calls(rules: _Rules, shape: _Shape, refs: _Refs) -> list[Alternative]:
    """The calls of a shape without ``each`` or ``where``; none where a type cannot be had."""
    args = [_argument(rules, kind, refs) for kind in shape.params]
    calls = _call(rules, shape, args)
    if shape.variadic:
        calls += _call(rules, shape, [*args, _series(rules, _argument(rules, "any", refs), _ITEMS)])
    return calls


def _moded_calls(
    rules: _Rules, shapes: Iterable[_Shape], refs: _Refs, ref: str, kind: Type
) -> Iterator[tuple[Type, Alternative]]:
    """The calls with one argument taken item by item, ``each #2``, and their outputs' types.

    Args:
        rules: where to add what they are made of.
        shapes: of the actions.
        refs: what the other arguments may refer to.
        ref: what is taken item by item.
        kind: its type.
    """
    for mode, shape in product(_MODES.get(kind, ()), shapes):
        each = mode.startswith("each")
        for place, taken in enumerate(
            shape.params if shape.maps and (each or shape.answers) else ()
        ):
            if taken:
                args = [_argument(rules, other, refs) for other in shape.params]
                args[place] = _moded(rules, taken, f"{mode} {ref}")
                for call in _call(rules, shape, args):
                    yield "pairs" if each else kind, call


def _call(rules: _Rules, shape: _Shape, args: Iterable[Item | None]) -> list[Alternative]:
    """The call of a shape with such arguments; none where there is nothing for one of them."""
    given: list[Item] = []
    for arg in args:
        if arg is None:
            return []
        given += [", ", arg] if given else [arg]
    return [(rules.add("act", [(name,) for name in shape.names]), "(", *given, ")")]


def _moded(rules: _Rules, kind: Type, moded: str) -> Item:
    """A reference with its mode, alone or, where the parameter takes a text, in one."""
    if kind not in ("any", "text"):
        return moded
    part, inside = _part(rules), f"{{{moded}}}"
    texts: list[Alternative] = [
        (*before, inside, *after) for before in ((), (part,)) for after in ((), (part,))
    ]
    return rules.add("map", [(moded,), *(('"', *text, '"') for text in texts)])


def _argument(rules: _Rules, kind: Type | None, refs: _Refs) -> Item | None:
    """What stands for a parameter of a type; None where there is nothing."""
    if kind is None:
        return DOCUMENT
    found: list[Alternative] = [(ref,) for ref in refs.of(kind)]
    match kind:
        case "any":
            found = [(_item(rules, refs),), (_list(rules, refs),)]
        case "text":
            found += _texts(rules, refs)
        case "list":
            found.append((_list(rules, refs),))
        case "number":
            found.append((_number(rules),))
        case "bool":
            found += [("true",), ("false",)]
        case _:
            pass
    return rules.add(kind, found) if found else None


def _item(rules: _Rules, refs: _Refs) -> Symbol:
    """A text, a number or a reference."""
    found = [*_texts(rules, refs), (_number(rules),)]
    if refs.every:
        found.append((_any_ref(rules, refs),))
    return rules.add("item", found)


def _texts(rules: _Rules, refs: _Refs) -> list[Alternative]:
    """A text, and one with references in braces."""
    text = rules.add(
        "TEXT", [(Chars(f"^ {_NOT_IN_TEXTS}"), Chars(f"^{_NOT_IN_TEXTS}", 0, _TEXT - 1))]
    )
    found: list[Alternative] = [('"', text, '"')]
    if refs.every:
        part, inside = _part(rules), ("{", _any_ref(rules, refs), "}")
        one = rules.add("brace", [inside, (part, *inside)])
        two = rules.add("braces", [(one,), (one, one), (one, one, one)])
        found.append(('"', rules.add("form", [(two,), (two, part)]), '"'))
    return found


def _part(rules: _Rules) -> Symbol:
    """The words beside the braces in a text."""
    return rules.add("PART", [(Chars(f"^{_NOT_IN_TEXTS}", 1, _TEXT // 2),)])


def _list(rules: _Rules, refs: _Refs) -> Symbol:
    return rules.add("list", [("[", _series(rules, _item(rules, refs), _ITEMS), "]")])


def _series(rules: _Rules, item: Item | None, most: int) -> Symbol:
    """From one to so many of something, with commas between them."""
    assert item
    found: list[Alternative] = [(item,)]
    if most > 1:
        found.append((item, ", ", _series(rules, item, most - 1)))
    return rules.add("series", found)


def _any_ref(rules: _Rules, refs: _Refs) -> Symbol:
    return rules.add("ref", [(ref,) for ref in refs.every])


def _number(rules: _Rules) -> Symbol:
    whole: list[Alternative] = [("0",), (Chars("1-9"), Chars("0-9", 0, 5))]
    parts: Alternative = (".", Chars("0-9", 0, 2), Chars("1-9"))
    return rules.add("NUMBER", [*whole, *((*one, *parts) for one in whole), ("-", *whole[1])])


def _name(rules: _Rules) -> Symbol:
    """A step's name: any but the words that the language keeps."""
    rest = Chars("a-z0-9_", 0, _NAME - 7)
    found: list[Alternative] = [(Chars(_but("".join(word[0] for word in _RESERVED))), rest)]
    for word in _RESERVED:
        for end in range(1, len(word)):
            found += [(word[:end],), (word[:end], Chars(f"{_but(word[end])}0-9_"), rest)]
        found.append((word, Chars("a-z0-9_"), rest))
    return rules.add("NAME", found)


def _but(letters: str) -> str:
    """The class of all small letters but some."""
    runs = re.split(f"[{letters}]", "abcdefghijklmnopqrstuvwxyz")
    return "".join(f"{run[0]}-{run[-1]}" for run in runs if run)


def _note(rules: _Rules) -> Symbol:
    """A note or a definition: one line that no other step can be read into."""
    marks = rf"\\{{}}=#*~|\u2190\uFF1D{_WRAPPING}{_INVISIBLE}"
    first = Chars(rf"^ .,;:\x2F\uFF1A\u2022\u2013\u2014{marks}-")
    return rules.add("NOTE", [(first, Chars(f"^{marks}", 0, _NOTE - 1))])


class _Held(NamedTuple):
    """A step that later ones may take as what its output is, by its number."""

    step: int
    kind: Type


def _before(done: int) -> _Refs:
    """The references of a plan that has so many steps."""
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
        self.wanted = {kind for shape in self.shapes for kind in shape.params if kind} - {"any"}
        if any(shape.maps for shape in self.shapes):
            self.wanted |= {"list", "pairs"}
        self._states: dict[tuple[int, _Held | None], Symbol] = {}
        self._calls: dict[int | _Held, list[tuple[Type | None, Symbol]]] = {}

    def state(self, done: int, held: _Held | None = None) -> Symbol:
        """The rule for the rest of a plan after so many steps.

        Raises:
            InputError: no action can be called.
        """
        if (done, held) not in self._states:
            calls = [*self._known(done), *(self._known(held) if held else ())]
            rest = [
                (call, self._end(done + 1, kept))
                for kind, call in calls
                for kept in self._kept(done + 1, kind, held)
            ]
            if not rest:
                raise InputError("The library has no action that a step could call: name another.")
            body = self.rules.add("rest", rest)
            step: Alternative = (f"{done + 1}. ", _name(self.rules), " = ", body)
            self._states[done, held] = self.rules.add("step", [step])
        return self._states[done, held]

    def _known(self, of: int | _Held) -> list[tuple[Type | None, Symbol]]:
        """The calls after so many steps or with a held one, each made once."""
        if of not in self._calls:
            self._calls[of] = self._free(of) if isinstance(of, int) else self._with(of)
        return self._calls[of]

    def _kept(self, step: int, kind: Type | None, held: _Held | None) -> list[_Held | None]:
        """What may be held after a step whose output is of a type."""
        if kind is None:
            return [held]
        return [_Held(step, kind), *([held] if held else [])]

    def _end(self, done: int, held: _Held | None) -> Symbol:
        """The rule for what follows a step's call: its note, and the next step or the end."""
        line = self.rules.add("line", [("\n",), (" : ", _note(self.rules), "\n")])
        ends: list[Alternative] = [
            (line,),
            (line, "return ", _any_ref(self.rules, _before(done)), "\n"),
        ]
        if done < self.steps:
            ends.append((line, self.state(done, held)))
        return self.rules.add("end", ends)

    def _free(self, done: int) -> list[tuple[Type | None, Symbol]]:
        """The calls that need no held step, by what type of output is worth holding."""
        calls = [
            (shape.returns, call)
            for shape in self.shapes
            for call in _calls(self.rules, shape, _before(done))
        ]
        return self._by_type(calls)

    def _with(self, held: _Held) -> list[tuple[Type | None, Symbol]]:
        """The calls that take the held step as what it is."""
        ref, kind = f"#{held.step}", held.kind
        refs = _before(held.step)._replace(typed=((ref, kind),))
        calls = [
            (shape.returns, call)
            for shape in self.shapes
            if any(taken and taken != "any" and kind in ("any", taken) for taken in shape.params)
            for call in _calls(self.rules, shape, refs)
        ]
        calls += _moded_calls(self.rules, self.shapes, refs, ref, kind)
        return self._by_type(calls)

    def _by_type(
        self, calls: Iterable[tuple[Type, Alternative]]
    ) -> list[tuple[Type | None, Symbol]]:
        found: dict[Type | None, list[Alternative]] = {}
        for kind, call in calls:
            worth = kind if kind == "any" or kind in self.wanted else None
            found.setdefault(worth, []).append(call)
        return [(kind, self.rules.add("call", some)) for kind, some in found.items()]
