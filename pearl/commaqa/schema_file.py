"""Reading a schema's file (docs/generating.md), in TOML or JSON.

Whatever is wrong in it is said in one line with its place. Names are invented, so that nothing can
be known of them but what a world says.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from pearl.commaqa.decomposition import read_operation
from pearl.commaqa.schema import (
    IID,
    QUESTION,
    Ask,
    Hole,
    Kind,
    Limits,
    Pair,
    Piece,
    Relation,
    Schema,
    Step,
)
from pearl.commaqa.world import OF_LIST, OF_TWO
from pearl.lang.ast import Mode
from pearl.lang.source import InputError, read_source

SLOT = re.compile(r"\$([0-9]+)")
HOLE = re.compile(r"\{([0-9]+)\}")

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
    folder = files("pearl.commaqa") / "schemas"
    names = (entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(sorted(name.removesuffix(".toml") for name in names))


def shipped_text(name: str) -> str:
    """A shipped schema's file, to start one's own from.

    Raises:
        InputError: no schema of that name ships with Pearl.
    """
    if name not in shipped_schemas():
        known = ", ".join(shipped_schemas())
        raise InputError(
            f"No schema {name} ships with Pearl: use {known}, or name a .toml or .json file."
        )
    return (files("pearl.commaqa") / "schemas" / f"{name}.toml").read_text(encoding="utf-8")


def read_schema(name: str) -> Schema:
    """Read a schema.

    Args:
        name: one that ships with Pearl, or a file that ends in ``.toml`` or ``.json``.

    Raises:
        InputError: the file cannot be read, or something in it cannot be used; one line that names
            the place.
    """
    if name.endswith((".toml", ".json")):
        path, text = name, read_source(name, "schema").text
    else:
        path, text = f"{name}.toml", shipped_text(name)
    try:
        data = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        form = "JSON" if path.endswith(".json") else "TOML"
        raise InputError(f"{path} is not {form}: {error}.") from None
    if not isinstance(data, dict):
        raise InputError(f"{path} is no schema: give one object, with kinds, relations and so on.")
    table = _Table(path, "", data)
    table.only("about", "limits", "kinds", "relations", "asks", "pieces", "splits")
    kinds = _kinds(table, Path(name).stem)
    relations = {one: _relation(one, inner, kinds) for one, inner in table.tables("relations")}
    asks = _asks(table, relations)
    about = table.text("about", "")
    pieces = _pieces(table, kinds, asks)
    splits = _splits(table.table("splits"), asks)
    limits = _limits(table.table("limits"))
    return Schema(path, Path(name).stem, about, kinds, relations, asks, pieces, splits, limits)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a schema, which is read a key at a time.

    Args:
        path: the file.
        place: the table's name in it, as ``relations.composed``.
        data: its keys and values.
    """

    path: str
    place: str
    data: Mapping[str, Any]

    def fail(self, message: str, key: str = "") -> NoReturn:
        """Raise `InputError` for this table, or for one of its keys."""
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

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self.data.get(key, default)
        known = isinstance(value, str) and (value.strip() or value == default)
        self.check(known, "give a text.", key)
        return str(value)

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of texts, at least one where there is no default."""
        values = self.data.get(key, default)
        known = isinstance(values, list | tuple) and (values or default is not None)
        known = known and all(isinstance(one, str) and one.strip() for one in values)
        self.check(known, "give a list of texts, at least one.", key)
        return tuple(values)

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self.data.get(key, default)
        self.check(type(value) is int and value > 0, "give a whole number above 0.", key)
        return int(value)

    def span(self, key: str, default: tuple[int, int], least: int) -> tuple[int, int]:
        """The fewest and the most."""
        value = self.data.get(key, list(default))
        known = isinstance(value, list) and [*map(type, value)] == [int, int]
        self.check(known, "give the fewest and the most, as [1, 3].", key)
        low, high = value
        message = f"the fewest is at least {least}, and the most at least that and 1."
        self.check(least <= low <= high and high >= 1, message, key)
        return low, high

    def table(self, key: str) -> _Table:
        """A table in this one; empty where it is not there."""
        value = self.data.get(key, {})
        self.check(isinstance(value, dict), "give a table.", key)
        return _Table(self.path, ".".join(part for part in (self.place, key) if part), value)

    def tables(self, key: str) -> Iterator[tuple[str, _Table]]:
        """The named tables in a table of this one, at least one."""
        inner = self.table(key)
        self.check(inner.data, "give at least one.", key)
        for name in inner.data:
            message = "a name is small letters, digits and _, a letter first."
            inner.check(_NAME.fullmatch(name), message, name)
            yield name, inner.table(name)

    def known(self, name: str, names: Mapping[str, Any], what: str, key: str) -> str:
        """The name, where there is such a thing; else names one that is close, or all."""
        if name not in names:
            close = get_close_matches(name, names, 1) or list(names)
            self.fail(f"no {what} is called {name}: use {', '.join(close)}.", key)
        return name

    def check_slots(self, text: str, pattern: re.Pattern[str], mark: str, count: int) -> None:
        """Refuse words that do not have each slot once.

        Args:
            text: the words.
            pattern: what a slot looks like.
            mark: how it is written, as ``${}``.
            count: how many there are.
        """
        numbers = [str(number) for number in range(1, count + 1)]
        slots = " and ".join(map(mark.format, numbers))
        right = (
            f"write {slots} once in {text!r}." if slots else f"no {mark.format('')} in {text!r}."
        )
        self.check(sorted(pattern.findall(text)) == numbers, right, "words")


def _limits(table: _Table) -> Limits:
    table.only("steps", "answers", "questions")
    steps = table.span("steps", (1, 4), 1)
    table.check(steps[1] <= _MOST_STEPS, f"{_MOST_STEPS} steps are the most.", "steps")
    return Limits(steps, table.span("answers", (1, 5), 1), table.number("questions", 5))


# Kinds of things.


def _kinds(table: _Table, seed: str) -> dict[str, Kind]:
    tables = dict(table.tables("kinds"))
    given = [name for inner in tables.values() for name in _listed(inner)]
    for name, times in Counter(given).items():
        message = f"{name} is named twice: a name stands for one thing."
        table.check(times == 1, message, "kinds")
    words = invented(seed, frozenset(name.lower() for name in given))
    kinds: dict[str, Kind] = {}
    for name, inner in tables.items():
        inner.only("names", "style", "numbers", "each_world")
        pool = _listed(inner) or _numbers(inner) or _invented(inner, words)
        count = inner.number("each_world", len(pool))
        inner.check(count <= len(pool), f"there are {len(pool)} alone.", "each_world")
        kinds[name] = Kind(name, pool, count)
    return kinds


def _listed(table: _Table) -> tuple[str, ...]:
    """The names that a kind's table lists; none where it lists none."""
    if not isinstance(table.data.get("names"), list):
        return ()
    names = table.texts("names")
    for name in names:
        message = f"a name is letters, digits, spaces and hyphens, unlike {name!r}."
        table.check(_ENTITY.fullmatch(name), message, "names")
    return names


def _numbers(table: _Table) -> tuple[str, ...]:
    """The numbers of a kind, in its own decimal digits; none where it has names."""
    if "numbers" not in table.data:
        return ()
    table.check("names" not in table.data, "give names or numbers, not both.")
    inner = table.table("numbers")
    inner.only("from", "to", "step")
    low, high, step = (_number(inner, key) for key in ("from", "to", "step"))
    inner.check(step > 0 and high >= low, "to is at least from, and step above 0.")
    count = int((high - low) / step) + 1
    inner.check(count <= _MOST_NAMES, f"{_MOST_NAMES} numbers are the most: make step larger.")
    finest = min(low, step, key=lambda one: int(one.as_tuple().exponent))
    return tuple(f"{(low + step * at).quantize(finest):f}" for at in range(count))


def _number(table: _Table, key: str) -> Decimal:
    value = table.data.get(key, 1 if key == "step" else None)
    table.check(type(value) in (int, float), "give a number.", key)
    table.check(0 <= value < 10**9, "a number is at least 0 and has at most 9 digits.", key)
    number = Decimal(str(value))
    fine = int(number.as_tuple().exponent) >= -6
    table.check(fine, "a number has at most 6 digits behind its point.", key)
    return number


def _invented(table: _Table, words: Iterator[str]) -> tuple[str, ...]:
    """As many new names as a kind's table says."""
    style = table.text("style", _STYLES[0])
    table.check(style in _STYLES, f"use {' or '.join(_STYLES)}.", "style")
    wanted = table.number("names")
    table.check(wanted <= _MOST_NAMES, f"{_MOST_NAMES} names are the most.", "names")
    drawn = [next(words) for _ in range(wanted)]
    return tuple(word.capitalize() if style == _STYLES[0] else word for word in drawn)


_STARTS = "b br c cl cr d dr f fl g gl gr h j k kl l m n p pl pr qu r s sk sl sm st t tr v w y z"
_VOWELS = "a a e e i o o u ae ai ea ia io ou"
_MIDDLES = "b d f g k l m n p r s t v z br dr ld lm lt mb nd nt rd rl rn sk st"
_ENDS = "ba bin da del dor fa gan ket la lin lo ma mir na nel no ra ric ro so ta tin vo"


def invented(seed: str, taken: frozenset[str] = frozenset()) -> Iterator[str]:
    """Words in small letters that are no two the same.

    Args:
        seed: the same gives the same words, on any machine.
        taken: words that must not come, in small letters.
    """
    random = Random(seed)  # noqa: S311 - names, not secrets
    # Three syllables: with two, words of real languages turn up.
    order = [part.split() for part in (_STARTS, _VOWELS, _MIDDLES, _VOWELS, _ENDS)]
    seen = set(taken)
    while True:
        word = "".join(random.choice(options) for options in order)
        if word not in seen:
            seen.add(word)
            yield word


# Relations, and what agents are asked of them.


def _relation(name: str, table: _Table, kinds: Mapping[str, Kind]) -> Relation:
    table.only("of", "each", "says")
    of = table.texts("of") if table.data.get("of") != 2 else ()
    table.check(len(of) == 2, "name two kinds.", "of")
    first, second = (table.known(kind, kinds, "kind", "of") for kind in of)
    each = table.span("each", (1, 1), 0)
    others = kinds[second].count - (first == second)
    table.check(each[1] <= others, f"a world has {others} of {second} to choose from.", "each")
    inner = table.table("says")
    says = {agent: inner.texts(agent) for agent in inner.data}
    table.check(says, 'name the agents that may know it, as says.table = ["…"].')
    for agent, texts in says.items():
        for text in texts:
            slots = sorted(SLOT.findall(text))
            inner.check(slots == ["1", "2"], f"write $1 and $2 once each in {text!r}.", agent)
    return Relation(name, (first, second), each, says)


def _asks(table: _Table, relations: Mapping[str, Relation]) -> dict[str, Ask]:
    asks = {name: _ask(name, inner, relations) for name, inner in table.tables("asks")}
    heard: dict[tuple[str, str], str] = {}
    for name, ask in asks.items():
        for agent in relations[ask.relation].says if ask.relation else (ask.agent,):
            for words in ask.words:
                other = heard.setdefault((agent, SLOT.sub("$", words)), name)
                message = f"{agent} is asked {other} in the same words."
                table.check(other == name, message, f"asks.{name}.words")
    return asks


def _ask(name: str, table: _Table, relations: Mapping[str, Relation]) -> Ask:
    words = table.texts("words")
    if "sum" in table.data:
        table.only("sum", "agent", "words")
        total = table.text("sum")
        operations = (*OF_LIST, *OF_TWO)
        table.check(total in operations, f"use {', '.join(operations)}.", "sum")
        inputs: tuple[str, ...] = ("list(number)",) if total in OF_LIST else ("number", "number")
        agent = table.text("agent", "math_special")
        message = "an agent's name is small letters, digits and _."
        table.check(_NAME.fullmatch(agent), message, "agent")
        ask = Ask(name, words, inputs, agent=agent, total=total)
    else:
        table.only("looks", "unique", "words")
        looks = _LOOKS.fullmatch(table.text("looks"))
        if not looks:
            table.fail(
                "write it as composed($1, ?), or as composed(?, _) for all of them.", "looks"
            )
        relation = table.known(looks[1], relations, "relation", "looks")
        places = tuple(place.strip() for place in looks[2].split(","))
        usable = sorted(places) in (["$1", "?"], ["?", "_"])
        table.check(usable, "its places are ? and $1, or ? and _.", "looks")
        held = zip(relations[relation].kinds, places, strict=True)
        inputs = tuple(kind for kind, place in held if place == "$1")
        unique = table.data.get("unique", False)
        table.check(isinstance(unique, bool), "give true or false.", "unique")
        ask = Ask(name, words, inputs, relation, places, unique)
    for text in words:
        message = f"leave quotes, brackets and # out of {text!r}."
        table.check(not _UNFIT.search(text), message, "words")
        table.check_slots(text, SLOT, "${}", len(inputs))
    return ask


# Pieces of questions.


def _pieces(table: _Table, kinds: Mapping[str, Kind], asks: Mapping[str, Ask]) -> dict[str, Piece]:
    tables = dict(table.tables("pieces"))
    given = {inner.text("gives"): name for name, inner in tables.items()}
    pieces = {name: _piece(name, inner, kinds, asks, given) for name, inner in tables.items()}
    message = f'no piece gives a whole question: write gives = "{QUESTION}" in one.'
    table.check(QUESTION in given, message, "pieces")
    taken = {gives for piece in pieces.values() for hole in piece.holes for gives in hole.gives}
    for gives, name in given.items():
        message = f"it gives {gives}, which no piece takes."
        table.check(gives in taken or gives == QUESTION, message, f"pieces.{name}")
    return pieces


def _piece(
    name: str,
    table: _Table,
    kinds: Mapping[str, Kind],
    asks: Mapping[str, Ask],
    given: Mapping[str, str],
) -> Piece:
    table.only("gives", "takes", "words", "steps", "ways")
    holes = tuple(_hole(text, table, kinds, given) for text in table.texts("takes", ()))
    words = table.texts("words")
    for text in words:
        message = f"leave $ out of {text!r}: a kind is named in takes."
        table.check("$" not in text, message, "words")
        table.check_slots(text, HOLE, "{{{}}}", len(holes))
    return Piece(name, table.text("gives"), holes, words, _ways(table, holes, asks))


def _hole(text: str, table: _Table, kinds: Mapping[str, Kind], given: Mapping[str, str]) -> Hole:
    gives: list[str] = []
    things: list[str] = []
    for one in text.split("|"):
        name = one.strip()
        if name.startswith("$"):
            things.append(table.known(name[1:], kinds, "kind", "takes"))
        else:
            gives.append(name)
            message = f"no piece gives {name}: a kind is written ${name}."
            table.check(name in given and name != QUESTION, message, "takes")
    return Hole(tuple(gives), tuple(things))


def _ways(
    table: _Table, holes: Sequence[Hole], asks: Mapping[str, Ask]
) -> tuple[tuple[Step, ...], ...]:
    both = ("steps" in table.data) == ("ways" in table.data)
    table.check(not both, "give steps, or ways where worlds differ in them.")
    if "steps" in table.data:
        way = _steps(table, "steps", table.texts("steps", ()), len(holes), asks)
        means = way or (len(holes) == 1 and not holes[0].kinds)
        message = "a piece with no steps means what its one hole means: a piece."
        table.check(means, message, "steps")
        return (way,)
    lists = table.data["ways"]
    several = isinstance(lists, list) and len(lists) > 1
    table.check(several, "give at least two lists of steps.", "ways")
    ways: list[tuple[Step, ...]] = []
    for number, one in enumerate(lists, 1):
        key = f"way {number}"
        texts = _Table(table.path, table.place, {key: one}).texts(key)
        ways.append(_steps(table, key, texts, len(holes), asks))
    looked = [{asks[step.ask].relation for step in way} - {""} for way in ways]
    for at, mine in enumerate(looked, 1):
        for other, theirs in enumerate(looked, 1):
            message = f"way {at} looks up nothing that way {other} does not."
            table.check(at == other or mine - theirs, message, "ways")
    return tuple(ways)


def _steps(
    table: _Table, key: str, texts: Sequence[str], holes: int, asks: Mapping[str, Ask]
) -> tuple[Step, ...]:
    steps: list[Step] = []
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


def _step(text: str, table: _Table, place: str, asks: Mapping[str, Ask]) -> Step:
    match = _STEP.fullmatch(text.strip())
    if not match:
        table.fail(f"write it as (operator) ask({{1}}, #1), unlike {text!r}.", place)
    operation = read_operation(match[1]) if match[1] else None
    usable = not match[1] or (operation is not None and not operation.of)
    message = f"({match[1]}) is no operator, or names an answer: it goes over the first."
    table.check(usable, message, place)
    name = table.known(match[2], asks, "ask", place)
    arguments: list[int] = []
    for one in match[3].split(",") if match[3].strip() else ():
        read = _ARGUMENT.fullmatch(one.strip())
        if not read:
            table.fail(f"an argument is {{1}} or #1, unlike {one.strip()!r}.", place)
        arguments.append(-int(read[1]) if read[1] else int(read[2]))
    inputs = len(asks[name].inputs)
    table.check(len(arguments) == inputs, f"{name} takes {inputs} arguments.", place)
    once = operation is None or operation.mode is Mode.PLAIN
    message = f"({match[1]}) needs an argument that is an answer."
    table.check(once or arguments, message, place)
    return Step(name, operation, tuple(arguments))


def _splits(table: _Table, asks: Mapping[str, Ask]) -> dict[str, tuple[Pair, ...]]:
    splits: dict[str, tuple[Pair, ...]] = {IID: ()}
    for name in table.data:
        table.check(name != IID, "it holds nothing out: leave it away.", name)
        split = table.table(name)
        split.only("held_out")
        held = split.data.get("held_out")
        message = 'give pairs of asks, as [["one", "other"]].'
        split.check(isinstance(held, list) and held, message, "held_out")
        pairs: list[Pair] = []
        for pair in held or ():
            known = isinstance(pair, list) and [*map(type, pair)] == [str, str]
            split.check(known, message, "held_out")
            one, other = (split.known(ask, asks, "ask", "held_out") for ask in pair)
            pairs.append((one, other))
        splits[name] = tuple(pairs)
    return splits
