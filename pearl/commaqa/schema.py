"""What a schema says: kinds of things, relations, what agents are asked, and pieces of questions.

CommaQA (Khot et al., 2022, section 4) makes questions from theories: a theory
says which relations a question goes through, and is asked of possible worlds.
Here a theory is put together from pieces, so that its words and its
decomposition grow in the same way.

Reading a schema's file: kinds, relations, limits and splits.

`pearl.generating.parts` reads the asks and the pieces.

Reading a schema's asks and pieces.

Reading a schema's tables a field at a time; what is wrong is said with its place.

Invented names, so that nothing can be known of them but what a world says.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from pearl.commaqa.decomposition import Operation, read_operation
from pearl.commaqa.world import OF_LIST, OF_TWO
from pearl.lang.ast import Mode
from pearl.lang.source import InputError, read_source

QUESTION = "question"
"""What a piece gives that is a whole question."""

IID = "iid"
"""The split that holds nothing out; every schema has it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of thing.

    Args:
        name: its name, which is the type in the agents' language.
        pool: every name or number that some world may have.
        count: how many of them one world has.
    """

    name: str
    pool: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Relation:
    """Facts of one form, as ``composed(song, person)``.

    Args:
        name: its name; a world's predicate is ``agent_name``.
        kinds: what its two places hold.
        each: the fewest and the most facts that a thing at the first place has.
        says: by agent that may know it, the ways to write a fact, with ``$1`` and ``$2``.
    """

    name: str
    kinds: tuple[str, str]
    each: tuple[int, int]
    says: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Ask:
    """One kind of question to an agent.

    Args:
        name: its name.
        words: the ways to ask it, with ``$1`` and ``$2``.
        inputs: the type of each slot.
        relation: whose facts it looks up; empty for arithmetic.
        places: what stands at the relation's places: ``?``, ``$1`` or ``_``.
        unique: whether an answer is given once.
        agent: who is asked arithmetic; empty where a relation's agent is asked.
        total: the operation, as ``max``; empty for a look-up.
    """

    name: str
    words: tuple[str, ...]
    inputs: tuple[str, ...]
    relation: str = ""
    places: tuple[str, ...] = ()
    unique: bool = False
    agent: str = ""
    total: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a piece.

    Args:
        ask: what is asked.
        operation: how; None for ``select`` of a thing, and else
            ``project_values_flat_unique``.
        arguments: above 0 an earlier step of the piece (1 is its first), below
            0 a hole (-1 is its first).
    """

    ask: str
    operation: Operation | None
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hole:
    """What may stand in a piece.

    Args:
        gives: pieces that give one of these.
        kinds: things of these kinds.
    """

    gives: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a question, with the steps that find what it means.

    Args:
        name: its name.
        gives: what it may stand for; `QUESTION` for a whole question.
        holes: what stands in it, ``{1}`` first.
        words: the ways to say it, with ``{1}`` …
        ways: the steps, where there is more than one way: worlds in which it is
            asked have the relations of one way alone. A way with no steps means
            what its only hole means.
    """

    name: str
    gives: str
    holes: tuple[Hole, ...]
    words: tuple[str, ...]
    ways: tuple[tuple[Step, ...], ...]


Pair = tuple[str, str]
"""Two asks, the second of which is put to the answer of the first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a question may be.

    Args:
        steps: the fewest and the most steps.
        answers: the fewest and the most items of a list that is an answer.
        questions: how many questions one world is asked.
    """

    steps: tuple[int, int]
    answers: tuple[int, int]
    questions: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as its file says.

    Args:
        path: the file, for messages.
        name: what it is called.
        about: one sentence.
        splits: by name, the pairs that training must not have.
    """

    path: str
    name: str
    about: str
    kinds: Mapping[str, Kind]
    relations: Mapping[str, Relation]
    asks: Mapping[str, Ask]
    pieces: Mapping[str, Piece]
    splits: Mapping[str, tuple[Pair, ...]]
    limits: Limits

    def looked_up(self, steps: tuple[Step, ...]) -> frozenset[str]:
        """The relations that steps look up."""
        return frozenset(self.asks[step.ask].relation for step in steps) - {""}


NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a schema, and where it stands.

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

    def only(self, *keys: str) -> None:
        """Refuse any key but these."""
        for key in self.data:
            if key not in keys:
                self.fail(f"there is no such key: use {', '.join(keys)}.", key)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self.data.get(key, default)
        if not isinstance(value, str) or (not value.strip() and value != default):
            self.fail("give a text.", key)
        return value

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of texts, at least one where there is no default."""
        value = self.data.get(key, default)
        known = isinstance(value, list | tuple) and all(
            isinstance(one, str) and one.strip() for one in value
        )
        if value is None or not known or (not value and default is None):
            self.fail("give a list of texts, at least one.", key)
        return tuple(value)

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self.data.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.fail("give a whole number above 0.", key)
        return value

    def span(self, key: str, default: tuple[int, int], least: int) -> tuple[int, int]:
        """The fewest and the most."""
        value = self.data.get(key, list(default))
        known = isinstance(value, list) and len(value) == 2
        if not known or any(not isinstance(one, int) or isinstance(one, bool) for one in value):
            self.fail("give the fewest and the most, as [1, 3].", key)
        if not least <= value[0] <= value[1] or value[1] < 1:
            self.fail(f"the fewest is at least {least}, and the most at least that and 1.", key)
        return value[0], value[1]

    def flag(self, key: str) -> bool:
        """True or false; false where it is not there."""
        value = self.data.get(key, False)
        if not isinstance(value, bool):
            self.fail("give true or false.", key)
        return value

    def table(self, key: str) -> Table:
        """A table in this one; empty where it is not there."""
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            self.fail("give a table.", key)
        return Table(self.path, ".".join(part for part in (self.place, key) if part), value)

    def tables(self, key: str) -> Iterator[tuple[str, Table]]:
        """The named tables in a table of this one, at least one."""
        inner = self.table(key)
        if not inner.data:
            self.fail("give at least one.", key)
        for name in inner.data:
            if not NAME.fullmatch(name):
                inner.fail("a name is small letters, digits and _, a letter first.", name)
            yield name, inner.table(name)

    def known(self, name: str, names: Mapping[str, Any], what: str, key: str = "") -> str:
        """The name, where there is such a thing.

        Raises:
            InputError: there is not; names one that is close, or all.
        """
        if name not in names:
            close = get_close_matches(name, names, 1) or list(names)
            self.fail(f"no {what} is called {name}: use {', '.join(close)}.", key)
        return name


SLOT = re.compile(r"\$([0-9]+)")
HOLE = re.compile(r"\{([0-9]+)\}")
_LOOKS = re.compile(r"(\w+)\((.*)\)")
_STEP = re.compile(r"(?:\(([^()]*)\)\s*)?(\w+)(?:\((.*)\))")
_ARGUMENT = re.compile(r"\{([1-9])\}|#([1-9][0-9]?)")
_UNFIT = re.compile(r"[\n\r\"“”#{}\[\]]")


def read_asks(table: Table, relations: Mapping[str, Relation]) -> dict[str, Ask]:
    """The schema's asks.

    Raises:
        InputError: one cannot be used, or two are asked in the same words.
    """
    asks = {name: _ask(name, inner, relations) for name, inner in table.tables("asks")}
    heard: dict[tuple[str, str], str] = {}
    for name, ask in asks.items():
        agents = tuple(relations[ask.relation].says) if ask.relation else (ask.agent,)
        for agent in agents:
            for words in ask.words:
                key = (agent, SLOT.sub("$", words))
                other = heard.setdefault(key, name)
                if other != name:
                    table.fail(f"{agent} is asked {other} in the same words.", f"asks.{name}.words")
    return asks


def _ask(name: str, table: Table, relations: Mapping[str, Relation]) -> Ask:
    words = table.texts("words")
    if "sum" in table.data:
        table.only("sum", "agent", "words")
        total = table.text("sum")
        if total not in OF_LIST and total not in OF_TWO:
            table.fail(f"use {', '.join((*OF_LIST, *OF_TWO))}.", "sum")
        inputs: tuple[str, ...] = ("list(number)",) if total in OF_LIST else ("number", "number")
        agent = table.text("agent", "math_special")
        if not NAME.fullmatch(agent):
            table.fail("an agent's name is small letters, digits and _.", "agent")
        ask = Ask(name, words, inputs, agent=agent, total=total)
    else:
        table.only("looks", "unique", "words")
        relation, places = _looks(table, relations)
        kinds = relations[relation].kinds
        inputs = tuple(kinds[at] for at, place in enumerate(places) if place == "$1")
        ask = Ask(name, words, inputs, relation, places, table.flag("unique"))
    wanted = [str(number + 1) for number in range(len(ask.inputs))]
    for text in words:
        if _UNFIT.search(text):
            table.fail(f"leave quotes, brackets and # out of {text!r}.", "words")
        if sorted(SLOT.findall(text)) != wanted:
            slots = " and ".join(f"${number}" for number in wanted)
            table.fail(
                f"write {slots} once in {text!r}." if slots else f"no $ in {text!r}.", "words"
            )
    return ask


def _looks(table: Table, relations: Mapping[str, Relation]) -> tuple[str, tuple[str, ...]]:
    found = _LOOKS.fullmatch(table.text("looks"))
    if not found:
        table.fail("write it as composed($1, ?), or as composed(?, _) for all of them.", "looks")
    relation = table.known(found[1], relations, "relation", "looks")
    places = tuple(place.strip() for place in found[2].split(","))
    if sorted(places) not in (["$1", "?"], ["?", "_"]):
        table.fail("its places are ? and $1, or ? and _.", "looks")
    return relation, places


def read_pieces(
    table: Table, kinds: Mapping[str, Kind], asks: Mapping[str, Ask]
) -> dict[str, Piece]:
    """The schema's pieces.

    Raises:
        InputError: one cannot be used, or goes nowhere.
    """
    tables = dict(table.tables("pieces"))
    given = {inner.text("gives"): name for name, inner in tables.items()}
    pieces = {name: _piece(name, inner, kinds, asks, given) for name, inner in tables.items()}
    if QUESTION not in given:
        table.fail(f'no piece gives a whole question: write gives = "{QUESTION}" in one.', "pieces")
    taken = {gives for piece in pieces.values() for hole in piece.holes for gives in hole.gives}
    for gives, name in given.items():
        if gives != QUESTION and gives not in taken:
            table.fail(f"it gives {gives}, which no piece takes.", f"pieces.{name}")
    return pieces


def _piece(
    name: str,
    table: Table,
    kinds: Mapping[str, Kind],
    asks: Mapping[str, Ask],
    given: Mapping[str, str],
) -> Piece:
    table.only("gives", "takes", "words", "steps", "ways")
    holes = tuple(_hole(text, table, kinds, given) for text in table.texts("takes", ()))
    words = table.texts("words")
    wanted = [str(number + 1) for number in range(len(holes))]
    for text in words:
        if "$" in text:
            table.fail(f"leave $ out of {text!r}: a kind is named in takes.", "words")
        if sorted(HOLE.findall(text)) != wanted:
            slots = " and ".join(f"{{{number}}}" for number in wanted)
            table.fail(
                f"write {slots} once in {text!r}." if slots else f"no {{}} in {text!r}.", "words"
            )
    return Piece(name, table.text("gives"), holes, words, _ways(table, holes, asks))


def _hole(text: str, table: Table, kinds: Mapping[str, Kind], given: Mapping[str, str]) -> Hole:
    gives: list[str] = []
    things: list[str] = []
    for one in text.split("|"):
        name = one.strip()
        if name.startswith("$"):
            things.append(table.known(name[1:], kinds, "kind", "takes"))
        else:
            gives.append(name)
            if name not in given or name == QUESTION:
                table.fail(f"no piece gives {name}: a kind is written ${name}.", "takes")
    return Hole(tuple(gives), tuple(things))


def _ways(
    table: Table, holes: tuple[Hole, ...], asks: Mapping[str, Ask]
) -> tuple[tuple[Step, ...], ...]:
    if ("steps" in table.data) == ("ways" in table.data):
        table.fail("give steps, or ways where worlds differ in them.")
    if "steps" in table.data:
        way = tuple(_steps(table, "steps", table.texts("steps", ()), len(holes), asks))
        if not way and (len(holes) != 1 or holes[0].kinds):
            table.fail("a piece with no steps means what its one hole means: a piece.", "steps")
        return (way,)
    told = table.data["ways"]
    if not isinstance(told, list) or len(told) < 2:
        table.fail("give at least two lists of steps.", "ways")
    ways: list[tuple[Step, ...]] = []
    for number, way in enumerate(told, 1):
        texts = Table(table.path, table.place, {f"way {number}": way}).texts(f"way {number}")
        ways.append(tuple(_steps(table, f"way {number}", texts, len(holes), asks)))
    looked = [{asks[step.ask].relation for step in way} - {""} for way in ways]
    for one, mine in enumerate(looked, 1):
        for other, theirs in enumerate(looked, 1):
            if one != other and mine <= theirs:
                table.fail(f"way {one} looks up nothing that way {other} does not.", "ways")
    return tuple(ways)


def _steps(
    table: Table, key: str, told: tuple[str, ...], holes: int, asks: Mapping[str, Ask]
) -> Iterator[Step]:
    used: set[int] = set()
    for number, text in enumerate(told, 1):
        place = f"{key}, step {number}"
        step = _step(text, table, place, asks)
        for argument in step.arguments:
            if argument >= number:
                table.fail(f"#{argument} is no step before it.", place)
            if -argument > holes:
                table.fail(f"there is no hole {{{-argument}}} in takes.", place)
        used |= set(step.arguments)
        yield step
    for hole in range(1, holes + 1):
        if told and -hole not in used:
            table.fail(f"no step uses {{{hole}}}.", key)
    for number in range(1, len(told)):
        if number not in used:
            table.fail(f"no later step uses #{number}.", key)


def _step(text: str, table: Table, place: str, asks: Mapping[str, Ask]) -> Step:
    found = _STEP.fullmatch(text.strip())
    if not found:
        table.fail(f"write it as (operator) ask({{1}}, #1), unlike {text!r}.", place)
    operation = read_operation(found[1]) if found[1] else None
    if found[1] and (operation is None or operation.of):
        table.fail(
            f"({found[1]}) is no operator, or names an answer: it goes over the first.", place
        )
    name = table.known(found[2], asks, "ask", place)
    arguments: list[int] = []
    for one in found[3].split(",") if found[3].strip() else ():
        read = _ARGUMENT.fullmatch(one.strip())
        if not read:
            table.fail(f"an argument is {{1}} or #1, unlike {one.strip()!r}.", place)
        arguments.append(-int(read[1]) if read[1] else int(read[2]))
    if len(arguments) != len(asks[name].inputs):
        table.fail(f"{name} takes {len(asks[name].inputs)} arguments.", place)
    if operation and operation.mode is not Mode.PLAIN and not arguments:
        table.fail(f"({found[1]}) needs an argument that is an answer.", place)
    return Step(name, operation, tuple(arguments))


_STARTS = tuple(
    "b br c cl cr d dr f fl g gl gr h j k kl l m n p pl pr qu r s sk sl sm st t tr v w y z".split()
)
_VOWELS = tuple("a a e e i o o u ae ai ea ia io ou".split())
_MIDDLES = tuple("b d f g k l m n p r s t v z br dr ld lm lt mb nd nt rd rl rn sk st".split())
_ENDS = tuple(
    "ba bin da del dor fa gan ket la lin lo ma mir na nel no ra ric ro so ta tin vo".split()
)


def invented(seed: str, taken: frozenset[str] = frozenset()) -> Iterator[str]:
    """Words in small letters that are no two the same.

    Args:
        seed: the same gives the same words, on any machine.
        taken: words that must not come, in small letters.
    """
    random = Random(seed)  # noqa: S311 - names, not secrets
    seen = set(taken)
    while True:
        # Three syllables: with two, words of real languages turn up.
        order = (_STARTS, _VOWELS, _MIDDLES, _VOWELS, _ENDS)
        word = "".join(random.choice(options) for options in order)
        if word not in seen:
            seen.add(word)
            yield word


_ENTITY = re.compile(r"\w(?:[\w '’.&-]*[\w.])?")
_SLOT = re.compile(r"\$([0-9]+)")
_MOST_NAMES = 5000
_MOST_STEPS = 20
_STYLES = ("Capital", "small")


def shipped_schemas() -> tuple[str, ...]:
    """The names of the schemas that ship with Pearl."""
    found = (files("pearl.commaqa") / "schemas").iterdir()
    names = [entry.name.removesuffix(".toml") for entry in found if entry.name.endswith(".toml")]
    return tuple(sorted(names))


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
        InputError: the file cannot be read, or something in it cannot be used;
            one line that names the place.
    """
    if not name.endswith((".toml", ".json")):
        return _schema(_toml(shipped_text(name), f"{name}.toml"), f"{name}.toml", name)
    text = read_source(name, "schema").text
    data = _json(text, name) if name.endswith(".json") else _toml(text, name)
    return _schema(data, name, Path(name).stem)


def _toml(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from None


def _json(text: str, path: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise InputError(f"{path} is no schema: give one object, with kinds, relations and so on.")
    return data


def _schema(data: Mapping[str, Any], path: str, name: str) -> Schema:
    table = Table(path, "", data)
    table.only("about", "limits", "kinds", "relations", "asks", "pieces", "splits")
    kinds = _kinds(table, name)
    relations = {one: _relation(one, inner, kinds) for one, inner in table.tables("relations")}
    asks = read_asks(table, relations)
    return Schema(
        path,
        name,
        table.text("about", ""),
        kinds,
        relations,
        asks,
        read_pieces(table, kinds, asks),
        _splits(table, asks),
        _limits(table.table("limits")),
    )


def _limits(table: Table) -> Limits:
    table.only("steps", "answers", "questions")
    steps = table.span("steps", (1, 4), 1)
    if steps[1] > _MOST_STEPS:
        table.fail(f"{_MOST_STEPS} steps are the most.", "steps")
    return Limits(steps, table.span("answers", (1, 5), 1), table.number("questions", 5))


def _kinds(table: Table, seed: str) -> dict[str, Kind]:
    tables = dict(table.tables("kinds"))
    given = [name for inner in tables.values() for name in _given(inner)]
    if len(set(given)) < len(given):
        twice = next(name for name in given if given.count(name) > 1)
        table.fail(f"{twice} is named twice: a name stands for one thing.", "kinds")
    words = invented(seed, frozenset(name.lower() for name in given))
    found: dict[str, Kind] = {}
    for name, inner in tables.items():
        inner.only("names", "style", "numbers", "each_world")
        pool = _given(inner) or _numbers(inner) or _invented(inner, words)
        count = inner.number("each_world", len(pool))
        if count > len(pool):
            inner.fail(f"there are {len(pool)} alone.", "each_world")
        found[name] = Kind(name, pool, count)
    return found


def _invented(table: Table, words: Iterator[str]) -> tuple[str, ...]:
    """As many new names as a kind's table says."""
    style = table.text("style", _STYLES[0])
    if style not in _STYLES:
        table.fail(f"use {' or '.join(_STYLES)}.", "style")
    wanted = table.number("names")
    if wanted > _MOST_NAMES:
        table.fail(f"{_MOST_NAMES} names are the most.", "names")
    drawn = [next(words) for _ in range(wanted)]
    return tuple(word.capitalize() if style == _STYLES[0] else word for word in drawn)


def _given(table: Table) -> tuple[str, ...]:
    """The names that a kind's table lists; none where it lists none."""
    if not isinstance(table.data.get("names"), list):
        return ()
    names = table.texts("names")
    for name in names:
        if not _ENTITY.fullmatch(name):
            table.fail(f"a name is letters, digits, spaces and hyphens, unlike {name!r}.", "names")
    return names


def _numbers(table: Table) -> tuple[str, ...]:
    """The numbers of a kind, in its own decimal digits; none where it has names."""
    if "numbers" not in table.data:
        return ()
    if "names" in table.data:
        table.fail("give names or numbers, not both.")
    inner = table.table("numbers")
    inner.only("from", "to", "step")
    low, high, step = (_number(inner, key) for key in ("from", "to", "step"))
    if step <= 0 or high < low:
        inner.fail("to is at least from, and step above 0.")
    count = int((high - low) / step) + 1
    if count > _MOST_NAMES:
        inner.fail(f"{_MOST_NAMES} numbers are the most: make step larger.")
    finest = min(low, step, key=lambda one: int(one.as_tuple().exponent))
    return tuple(f"{(low + step * at).quantize(finest):f}" for at in range(count))


def _number(table: Table, key: str) -> Decimal:
    value = table.data.get(key, 1 if key == "step" else None)
    if not isinstance(value, int | float) or isinstance(value, bool):
        table.fail("give a number.", key)
    if not 0 <= value < 10**9:
        table.fail("a number is at least 0 and has at most 9 digits.", key)
    number = Decimal(str(value))
    if int(number.as_tuple().exponent) < -6:
        table.fail("a number has at most 6 digits behind its point.", key)
    return number


def _relation(name: str, table: Table, kinds: Mapping[str, Kind]) -> Relation:
    table.only("of", "each", "says")
    of = table.texts("of") if table.data.get("of") != 2 else ()
    if len(of) != 2:
        table.fail("name two kinds.", "of")
    first, second = (table.known(kind, kinds, "kind", "of") for kind in of)
    each = table.span("each", (1, 1), 0)
    others = kinds[second].count - (first == second)
    if each[1] > others:
        table.fail(f"a world has {others} of {second} to choose from.", "each")
    inner = table.table("says")
    says = {agent: inner.texts(agent) for agent in inner.data}
    if not says:
        table.fail('name the agents that may know it, as says.table = ["…"].')
    for agent, texts in says.items():
        for text in texts:
            if sorted(_SLOT.findall(text)) != ["1", "2"]:
                inner.fail(f"write $1 and $2 once each in {text!r}.", agent)
    return Relation(name, (first, second), each, says)


def _splits(table: Table, asks: Mapping[str, Ask]) -> dict[str, tuple[Pair, ...]]:
    found: dict[str, tuple[Pair, ...]] = {IID: ()}
    inner = table.table("splits")
    for name in inner.data:
        if name == IID:
            inner.fail("it holds nothing out: leave it away.", name)
        split = inner.table(name)
        split.only("held_out")
        given = split.data.get("held_out")
        if not isinstance(given, list) or not given:
            split.fail('give pairs of asks, as [["one", "other"]].', "held_out")
        pairs: list[Pair] = []
        for pair in given:
            if not isinstance(pair, list) or [type(one) for one in pair] != [str, str]:
                split.fail('give pairs of asks, as [["one", "other"]].', "held_out")
            one, other = (split.known(ask, asks, "ask", "held_out") for ask in pair)
            pairs.append((one, other))
        found[name] = tuple(pairs)
    return found
