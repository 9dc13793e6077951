"""Reading a schema's asks and pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pearl.agents import read_operation
from pearl.agents.sums import OF_LIST, OF_TWO
from pearl.generating.fields import NAME, Table
from pearl.generating.schema import QUESTION, Ask, Hole, Kind, Piece, Relation, Step
from pearl.plan import Mode

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
