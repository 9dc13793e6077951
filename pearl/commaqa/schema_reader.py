"""Reads schemas from TOML or JSON; an error is one line that names the place in the file.

Names are invented, so that a model can know nothing about them but what a world says.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from importlib.resources import files
from itertools import islice, permutations
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, NoReturn

from pearl.commaqa.decomposition import read_operation
from pearl.commaqa.schema import (
    HOLE,
    IID,
    QUESTION,
    SLOT,
    Ask,
    EntityType,
    Hole,
    Pair,
    PartStep,
    QuestionPart,
    Relation,
    Split,
    WorldSchema,
)
from pearl.commaqa.world import OF_LIST, OF_TWO
from pearl.lang.ast import Mode
from pearl.lang.errors import InputError
from pearl.lang.source import read_source, read_toml

_MOST_NAMES = 5000
_MOST_STEPS = 20
_STYLES = ("Capital", "small")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ENTITY = re.compile(r"\w(?:[\w '’.&-]*[\w.])?")
_UNFIT = re.compile(r"[\n\r\"“”#{}\[\]]")
_LOOKS = re.compile(r"(\w+)\((.*)\)")
_STEP = re.compile(r"(?:\(([^()]*)\)\s*)?(\w+)(?:\((.*)\))")
_ARGUMENT = re.compile(r"\{([1-9])\}|#([1-9][0-9]?)")


def shipped_schemas() -> tuple[str, ...]:
    """The names of the schemas that ship with Pearl."""
    names = (entry.name for entry in (files("pearl.commaqa") / "schemas").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def shipped_text(name: str) -> str:
    """The text of a shipped schema's file, from which users can make their own.

    Raises:
        InputError: no schema of that name ships with Pearl.
    """
    if name not in shipped_schemas():
        names = ", ".join(shipped_schemas())
        raise InputError(
            f"No schema {name} ships with Pearl: use {names}, or name a .toml or .json file."
        )
    return (files("pearl.commaqa") / "schemas" / f"{name}.toml").read_text(encoding="utf-8")


def read_schema(name: str) -> WorldSchema:
    """Read a schema.

    Args:
        name: one that ships with Pearl, or a file that ends in ``.toml`` or ``.json``.

    Raises:
        InputError: the file cannot be read, or something in it is wrong.
    """
    if name.endswith((".toml", ".json")):
        path, text = name, read_source(name, "schema").text
    else:
        path, text = f"{name}.toml", shipped_text(name)
    try:
        data = json.loads(text) if path.endswith(".json") else read_toml(text, path)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise InputError(f"{path} is no schema: give one object, with kinds, relations and so on.")
    table = _SchemaTable(path, "", data)
    table.only("about", "limits", "kinds", "relations", "asks", "pieces", "splits")
    stem = Path(name).stem
    table.get("about", "text", "")
    kinds = _kinds(table, stem)
    relations = {name: _relation(inner, kinds) for name, inner in table.tables("relations")}
    asks = _asks(table, relations)
    pieces = _pieces(table, kinds, asks)
    splits = _splits(table.table("splits"), asks)
    inner = table.table("limits")
    inner.only("steps", "answers", "questions")
    steps, answers = inner.span("steps", [1, 4], 1), inner.span("answers", [1, 5], 1)
    inner.check(steps[1] <= _MOST_STEPS, f"{_MOST_STEPS} steps are the most.", "steps")
    limits = steps, answers, inner.get("questions", "number", 5)
    return WorldSchema(path, stem, kinds, relations, asks, pieces, splits, *limits)


_FORMS: Mapping[str, tuple[Callable[[Any], object], str]] = MappingProxyType(
    {
        "text": (lambda value: isinstance(value, str) and value.strip(), "give a text."),
        "texts": (
            lambda many: isinstance(many, list) and many and all(map(_FORMS["text"][0], many)),
            "give a list of texts, at least one.",
        ),
        "truth": (lambda value: isinstance(value, bool), "give true or false."),
        "number": (lambda value: type(value) is int and value > 0, "give a whole number above 0."),
        "decimal": (lambda value: type(value) in (int, float), "give a number."),
        "span": (
            lambda many: isinstance(many, list) and [*map(type, many)] == [int, int],
            "give the fewest and the most, as [1, 3].",
        ),
        "table": (lambda value: isinstance(value, dict), "give a table."),
    }
)
"""The forms of values: for each, a test, and the message where a value fails it."""


@dataclass(frozen=True, slots=True)
class _SchemaTable:
    """A table of a schema, read key by key; its place is a dotted name, ``relations.composed``."""

    path: str
    place: str
    data: Mapping[str, Any]

    def fail(self, message: str, key: str = "") -> NoReturn:
        """Raise `InputError` with the place of this table, or of one of its keys."""
        place = ".".join(part for part in (self.place, key) if part)
        raise InputError(f"{self.path}: {f'{place}: ' if place else ''}{message}")

    def check(self, met: object, message: str, key: str = "") -> None:
        """`fail` where a condition is not met."""
        if not met:
            self.fail(message, key)

    def only(self, *keys: str) -> None:
        """Refuse any key but these."""
        for key in self.data:
            self.check(key in keys, f"there is no such key: use {', '.join(keys)}.", key)

    def get(self, key: str, form: str, default: Any = None) -> Any:  # noqa: ANN401 - as `form` says
        """A key's value, or the default; it must have this form (of `_FORMS`) or be the default."""
        value = self.data.get(key, default)
        fits, message = _FORMS[form]
        usable = fits(value) or (type(value) is type(default) and value == default)
        self.check(usable and value is not None, message, key)
        return value

    def span(self, key: str, default: list[int], least: int) -> tuple[int, int]:
        """A key's pair of the fewest and the most, of which the fewest is at least ``least``."""
        low, high = self.get(key, "span", default)
        message = f"the fewest is at least {least}, and the most at least that and 1."
        self.check(least <= low <= high and high >= 1, message, key)
        return low, high

    def table(self, key: str) -> _SchemaTable:
        """A table in this one; empty where it is not there."""
        place = ".".join(part for part in (self.place, key) if part)
        return _SchemaTable(self.path, place, self.get(key, "table", {}))

    def tables(self, key: str) -> Iterator[tuple[str, _SchemaTable]]:
        """The named tables in a table of this one, at least one."""
        inner = self.table(key)
        self.check(inner.data, "give at least one.", key)
        for name in inner.data:
            message = "a name is small letters, digits and _, a letter first."
            inner.check(_NAME.fullmatch(name), message, name)
            yield name, inner.table(name)

    def look_up(self, name: str, names: Mapping[str, Any], noun: str, key: str) -> str:
        """The name, if it is among ``names``; otherwise the error suggests a close one, or all."""
        close = get_close_matches(name, names, 1) or list(names)
        self.check(name in names, f"no {noun} is called {name}: use {', '.join(close)}.", key)
        return name

    def check_slots(self, text: str, pattern: re.Pattern[str], mark: str, count: int) -> None:
        """Refuse words that do not have each of ``count`` slots, marked like ``${}``, once."""
        numbers = [str(number) for number in range(1, count + 1)]
        slots = " and ".join(map(mark.format, numbers))
        message = f"write {slots} once" if slots else f"no {mark.format('')}"
        self.check(sorted(pattern.findall(text)) == numbers, f"{message} in {text!r}.", "words")


def _kinds(table: _SchemaTable, seed: str) -> dict[str, EntityType]:
    tables = dict(table.tables("kinds"))
    listed: dict[str, list[str]] = {}
    for kind, inner in tables.items():
        is_list = isinstance(inner.data.get("names"), list)
        listed[kind] = inner.get("names", "texts") if is_list else []
        for name in listed[kind]:
            message = f"a name is letters, digits, spaces and hyphens, unlike {name!r}."
            inner.check(_ENTITY.fullmatch(name), message, "names")
    times_named = Counter(name for names in listed.values() for name in names)
    for name, times in times_named.items():
        message = f"{name} is named twice: a name stands for one thing."
        table.check(times == 1, message, "kinds")
    words = invent_words(seed, frozenset(map(str.lower, times_named)))
    kinds: dict[str, EntityType] = {}
    for kind, inner in tables.items():
        inner.only("names", "style", "numbers", "each_world")
        pool = listed[kind] or (_numbers(inner) if "numbers" in inner.data else [])
        if not pool:
            style = inner.get("style", "text", _STYLES[0])
            inner.check(style in _STYLES, f"use {' or '.join(_STYLES)}.", "style")
            number = inner.get("names", "number")
            inner.check(number <= _MOST_NAMES, f"{_MOST_NAMES} names are the most.", "names")
            pool = list(islice(words, number))
            pool = [word.capitalize() for word in pool] if style == _STYLES[0] else pool
        count = inner.get("each_world", "number", len(pool))
        inner.check(count <= len(pool), f"there are {len(pool)} alone.", "each_world")
        kinds[kind] = EntityType(tuple(pool), count)
    return kinds


def _numbers(kind: _SchemaTable) -> list[str]:
    """The numbers of a kind, all with as many decimal digits as its finest number."""
    kind.check("names" not in kind.data, "give names or numbers, not both.")
    table = kind.table("numbers")
    table.only("from", "to", "step")
    numbers: list[Decimal] = []
    for key, default in (("from", None), ("to", None), ("step", 1)):
        value = table.get(key, "decimal", default)
        message = "a number is at least 0 and has at most 9 digits."
        table.check(0 <= value < 10**9, message, key)
        numbers.append(Decimal(str(value)))
        message = "a number has at most 6 digits behind its point."
        table.check(int(numbers[-1].as_tuple().exponent) >= -6, message, key)
    low, high, step = numbers
    table.check(step > 0 and high >= low, "to is at least from, and step above 0.")
    count = int((high - low) / step) + 1
    table.check(count <= _MOST_NAMES, f"{_MOST_NAMES} numbers are the most: make step larger.")
    finest = min(low, step, key=lambda number: int(number.as_tuple().exponent))
    return [f"{(low + step * at).quantize(finest):f}" for at in range(count)]


_SYLLABLES = (
    "b br c cl cr d dr f fl g gl gr h j k kl l m n p pl pr qu r s sk sl sm st t tr v w y z",
    "a a e e i o o u ae ai ea ia io ou",
    "b d f g k l m n p r s t v z br dr ld lm lt mb nd nt rd rl rn sk st",
    "a a e e i o o u ae ai ea ia io ou",
    "ba bin da del dor fa gan ket la lin lo ma mir na nel no ra ric ro so ta tin vo",
)
"""Letters for each part of an invented word of three syllables; with two, real words turn up."""


def invent_words(seed: str, taken: frozenset[str] = frozenset()) -> Iterator[str]:
    """Invented words in lower case, all different and none of those ``taken``.

    The same seed gives the same words, on any machine.
    """
    random = Random(seed)  # noqa: S311 - names, not secrets
    words = set(taken)
    while True:
        word = "".join(random.choice(options.split()) for options in _SYLLABLES)
        if word not in words:
            words.add(word)
            yield word


def _relation(table: _SchemaTable, kinds: Mapping[str, EntityType]) -> Relation:
    table.only("of", "each", "says")
    of = table.get("of", "texts") if table.data.get("of") != 2 else ()
    table.check(len(of) == 2, "name two kinds.", "of")
    first, second = (table.look_up(kind, kinds, "kind", "of") for kind in of)
    each = table.span("each", [1, 1], 0)
    others = kinds[second].count - (first == second)
    table.check(each[1] <= others, f"a world has {others} of {second} to choose from.", "each")
    inner = table.table("says")
    says = {agent: tuple(inner.get(agent, "texts")) for agent in inner.data}
    table.check(says, 'name the agents that may know it, as says.table = ["…"].')
    for agent, text in ((agent, text) for agent, texts in says.items() for text in texts):
        slots = sorted(SLOT.findall(text))
        inner.check(slots == ["1", "2"], f"write $1 and $2 once each in {text!r}.", agent)
    return Relation((first, second), each, says)


def _asks(table: _SchemaTable, relations: Mapping[str, Relation]) -> dict[str, Ask]:
    asks = {name: _ask(name, inner, relations) for name, inner in table.tables("asks")}
    heard: dict[tuple[str, str], str] = {}
    for name, ask in asks.items():
        for agent in relations[ask.relation].says if ask.relation else (ask.agent,):
            for words in ask.words:
                other = heard.setdefault((agent, SLOT.sub("$", words)), name)
                message = f"{agent} is asked {other} in the same words."
                table.check(other == name, message, f"asks.{name}.words")
    return asks


def _ask(name: str, table: _SchemaTable, relations: Mapping[str, Relation]) -> Ask:
    words = tuple(table.get("words", "texts"))
    if "sum" in table.data:
        table.only("sum", "agent", "words")
        total = table.get("sum", "text")
        operations = (*OF_LIST, *OF_TWO)
        table.check(total in operations, f"use {', '.join(operations)}.", "sum")
        inputs: tuple[str, ...] = ("list(number)",) if total in OF_LIST else ("number", "number")
        agent = table.get("agent", "text", "math_special")
        message = "an agent's name is small letters, digits and _."
        table.check(_NAME.fullmatch(agent), message, "agent")
        ask = Ask(name, words, inputs, agent=agent, total=total)
    else:
        table.only("looks", "unique", "words")
        looks = _LOOKS.fullmatch(table.get("looks", "text"))
        if not looks:
            form = "write it as composed($1, ?), or as composed(?, _) for all of them."
            table.fail(form, "looks")
        relation = table.look_up(looks[1], relations, "relation", "looks")
        places = tuple(place.strip() for place in looks[2].split(","))
        usable = sorted(places) in (["$1", "?"], ["?", "_"])
        table.check(usable, "its places are ? and $1, or ? and _.", "looks")
        both = zip(relations[relation].kinds, places, strict=True)
        inputs = tuple(kind for kind, place in both if place == "$1")
        ask = Ask(name, words, inputs, relation, places, table.get("unique", "truth", False))
    for text in words:
        message = f"leave quotes, brackets and # out of {text!r}."
        table.check(not _UNFIT.search(text), message, "words")
        table.check_slots(text, SLOT, "${}", len(inputs))
    return ask


def _pieces(
    table: _SchemaTable, kinds: Mapping[str, EntityType], asks: Mapping[str, Ask]
) -> dict[str, QuestionPart]:
    tables = dict(table.tables("pieces"))
    given_by = {inner.get("gives", "text"): name for name, inner in tables.items()}
    pieces: dict[str, QuestionPart] = {}
    for name, inner in tables.items():
        inner.only("gives", "takes", "words", "steps", "ways")
        takes = inner.get("takes", "texts", [])
        holes: list[Hole] = []
        for named in ([part.strip() for part in text.split("|")] for text in takes):
            for part in named:
                if part.startswith("$"):
                    inner.look_up(part[1:], kinds, "kind", "takes")
                else:
                    message = f"no piece gives {part}: a kind is written ${part}."
                    inner.check(part in given_by and part != QUESTION, message, "takes")
            gives = tuple(part for part in named if not part.startswith("$"))
            holes.append(Hole(gives, tuple(part[1:] for part in named if part.startswith("$"))))
        words = tuple(inner.get("words", "texts"))
        for text in words:
            message = f"leave $ out of {text!r}: a kind is named in takes."
            inner.check("$" not in text, message, "words")
            inner.check_slots(text, HOLE, "{{{}}}", len(holes))
        ways = _ways(inner, holes, asks)
        pieces[name] = QuestionPart(name, inner.get("gives", "text"), tuple(holes), words, ways)
    message = f'no piece gives a whole question: write gives = "{QUESTION}" in one.'
    table.check(QUESTION in given_by, message, "pieces")
    used = {gives for piece in pieces.values() for hole in piece.holes for gives in hole.gives}
    for gives, name in given_by.items():
        message = f"it gives {gives}, which no piece takes."
        table.check(gives in used or gives == QUESTION, message, f"pieces.{name}")
    return pieces


def _ways(
    table: _SchemaTable, holes: Sequence[Hole], asks: Mapping[str, Ask]
) -> tuple[tuple[PartStep, ...], ...]:
    one_of_both = ("steps" in table.data) != ("ways" in table.data)
    table.check(one_of_both, "give steps, or ways where worlds differ in them.")
    if "steps" in table.data:
        steps = _steps(table, "steps", table.get("steps", "texts", []), len(holes), asks)
        means = steps or (len(holes) == 1 and not holes[0].kinds)
        message = "a piece with no steps means what its one hole means: a piece."
        table.check(means, message, "steps")
        return (steps,)
    lists = table.data["ways"]
    enough = isinstance(lists, list) and len(lists) > 1
    table.check(enough, "give at least two lists of steps.", "ways")
    ways: list[tuple[PartStep, ...]] = []
    for number, entry in enumerate(lists, 1):
        key = f"way {number}"
        texts = _SchemaTable(table.path, table.place, {key: entry}).get(key, "texts")
        ways.append(_steps(table, key, texts, len(holes), asks))
    relations = [{asks[step.ask].relation for step in steps} - {""} for steps in ways]
    for (at, mine), (other, theirs) in permutations(enumerate(relations, 1), 2):
        message = f"way {at} looks up nothing that way {other} does not."
        table.check(mine - theirs, message, "ways")
    return tuple(ways)


def _steps(
    table: _SchemaTable, key: str, texts: Sequence[str], holes: int, asks: Mapping[str, Ask]
) -> tuple[PartStep, ...]:
    steps: list[PartStep] = []
    used: set[int] = set()
    for number, text in enumerate(texts, 1):
        place = f"{key}, step {number}"
        steps.append(_step(text, table, place, asks))
        for argument in steps[-1].arguments:
            table.check(argument < number, f"#{argument} is no step before it.", place)
            message = f"there is no hole {{{-argument}}} in takes."
            table.check(-argument <= holes, message, place)
            used.add(argument)
    for hole in range(1, holes + 1) if texts else ():
        table.check(-hole in used, f"no step uses {{{hole}}}.", key)
    for number in range(1, len(texts)):
        table.check(number in used, f"no later step uses #{number}.", key)
    return tuple(steps)


def _step(text: str, table: _SchemaTable, place: str, asks: Mapping[str, Ask]) -> PartStep:
    match = _STEP.fullmatch(text.strip())
    if not match:
        table.fail(f"write it as (operator) ask({{1}}, #1), unlike {text!r}.", place)
    operation = read_operation(match[1]) if match[1] else None
    usable = not match[1] or (operation is not None and not operation.of)
    message = f"({match[1]}) is no operator, or names an answer: it goes over the first."
    table.check(usable, message, place)
    name = table.look_up(match[2], asks, "ask", place)
    arguments: list[int] = []
    for written in match[3].split(",") if match[3].strip() else ():
        argument = _ARGUMENT.fullmatch(written.strip())
        if not argument:
            table.fail(f"an argument is {{1}} or #1, unlike {written.strip()!r}.", place)
        arguments.append(-int(argument[1]) if argument[1] else int(argument[2]))
    inputs = len(asks[name].inputs)
    table.check(len(arguments) == inputs, f"{name} takes {inputs} arguments.", place)
    once = operation is None or operation.mode is Mode.PLAIN
    message = f"({match[1]}) needs an argument that is an answer."
    table.check(once or arguments, message, place)
    return PartStep(name, operation, tuple(arguments))


def _splits(table: _SchemaTable, asks: Mapping[str, Ask]) -> dict[str, Split]:
    splits = {IID: Split()}
    for name in table.data:
        table.check(name != IID, "it holds nothing out: leave it away.", name)
        split = table.table(name)
        split.only("held_out", "kinds", "test")
        if "kinds" in split.data:
            split.check("held_out" not in split.data, "give held_out or kinds, not both.")
            kinds = tuple(split.get("kinds", "texts"))
            test = tuple(split.get("test", "texts")) if "test" in split.data else ()
            splits[name] = Split(kinds=kinds, test=test)
            continue
        split.check("test" not in split.data, "give kinds beside it: those of training.", "test")
        pairs_held = split.data.get("held_out")
        message = 'give pairs of asks, as [["one", "other"]].'
        split.check(isinstance(pairs_held, list) and pairs_held, message, "held_out")
        pairs: list[Pair] = []
        for pair in pairs_held or ():
            is_pair = isinstance(pair, list) and [*map(type, pair)] == [str, str]
            split.check(is_pair, message, "held_out")
            first, second = (split.look_up(ask, asks, "ask", "held_out") for ask in pair)
            pairs.append((first, second))
        splits[name] = Split(tuple(pairs))
    return splits
