"""Annotators' verdicts on plans, and their edited versions of them. Nothing is overwritten."""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from pearl.lang.diagnostics import errors_of
from pearl.lang.errors import InputError
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lint.checker import check
from pearl.review.queue import LONGEST, Folders, QueuedPlan, within
from pearl.store.database import reading, writing
from pearl.store.store import storable
from pearl.store.tables import review_mappings, review_verdicts, review_versions

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Row


class Choice(NamedTuple):
    """Something that can be chosen: its name in the data, its words, and its keyboard shortcut."""

    name: str
    words: str
    key: str


CORRECT = (
    Choice("yes", "Yes", "y"),
    Choice("no", "No", "n"),
    Choice("unclear", "Cannot tell", "c"),
)
"""Whether a plan is correct, assuming that every step is carried out perfectly."""

CONFIDENCE = (1, 2, 3, 4, 5)
"""How confident an annotator is, from 1 (a guess) to 5 (certain)."""

CATEGORIES = (
    Choice("unnecessary", "Has unnecessary steps", "u"),
    Choice("merge", "Steps can be merged", "m"),
    Choice("missing", "Misses information", "i"),
    Choice("incorrect", "May lead to an incorrect answer", "l"),
    Choice("edit", "Needs a slight edit", "s"),
)
"""The paper's categories (PEARL, section 5); a plan may have several."""

_CORRECT, _CATEGORIES = (
    frozenset(choice.name for choice in choices) for choices in (CORRECT, CATEGORIES)
)

WORDS = {choice.name: choice.words for choice in (*CORRECT, *CATEGORIES)}
"""The words of all choices, by name."""

LONGEST_WORDS = 10_000
"""The most characters of free text."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One person's verdict on one plan.

    Args:
        correct: the name of one of `CORRECT`.
        confidence: one of `CONFIDENCE`.
        categories: names of some of `CATEGORIES`, in their order.
        words: free text.
    """

    correct: str
    confidence: int
    categories: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """A verdict as it was given.

    Args:
        plan: the plan's id.
        person: the annotator's number.
        verdict: the verdict.
        seen: whether the annotator had been shown others' verdicts before, so
            that it does not count for agreement.
        time: when it was given, in seconds since 1970.
    """

    plan: str
    person: int
    verdict: Verdict
    seen: bool
    time: float


def field_of(form: Mapping[str, list[str]], name: str) -> str:
    """The value of a form's field; empty where it was not sent."""
    return (form.get(name) or [""])[0]


def read_form(form: Mapping[str, list[str]]) -> Verdict:
    """A verdict from a filled-in form.

    Raises:
        InputError: something is missing or is none of what can be chosen.
    """
    correct, confidence = field_of(form, "correct"), field_of(form, "confidence")
    if correct not in _CORRECT:
        raise InputError("Say whether the plan is correct: choose yes, no, or cannot tell.")
    if confidence not in map(str, CONFIDENCE):
        raise InputError("Say how confident you are: choose from 1 to 5.")
    ticked = form.get("category", [])
    if not _CATEGORIES.issuperset(ticked):
        raise InputError("There is no such category: choose from those on the page.")
    words = storable(field_of(form, "words").replace("\r\n", "\n").strip())
    if len(words) > LONGEST_WORDS:
        raise InputError(f"The text is longer than {LONGEST_WORDS:,} characters: shorten it.")
    categories = tuple(choice.name for choice in CATEGORIES if choice.name in ticked)
    return Verdict(correct, int(confidence), categories, words)


def save(connection: Connection, plan: str, person: int, verdict: Verdict) -> None:
    """Add a verdict; the same one again, as from a second click, is ignored."""
    recorded = _read(connection, plan)
    own = [earlier for earlier in recorded if earlier.person == person]
    if own and own[-1].verdict == verdict:
        return
    seen = bool(own) and len(own) < len(recorded)
    row = {"plan": plan, "person": person, **asdict(verdict), "seen": seen, "given": time.time()}
    row["categories"] = json.dumps(verdict.categories)
    connection.execute(insert(review_verdicts), row)


def read_verdicts(engine: Engine, plan: str = "") -> list[RecordedVerdict]:
    """Verdicts in the order in which they were given; `damaged_rows` are left out.

    Args:
        engine: the store.
        plan: the plan's id; empty for all plans.
    """
    with reading(engine) as connection:
        return _read(connection, plan)


def of_person(engine: Engine, person: int) -> dict[str, Verdict]:
    """The last verdict of a person on each plan."""
    query = _GIVEN.where(review_verdicts.c.person == person)
    with reading(engine) as connection:
        recorded = map(_recorded, connection.execute(query))
        return {one.plan: one.verdict for one in recorded if one}


def damaged_rows(engine: Engine) -> list[str]:
    """What is left out of the verdicts, as no page has sent it: each row of the store in a line."""
    with reading(engine) as connection:
        rows = [row for row in connection.execute(_GIVEN) if _recorded(row) is None]
    return [
        f"Row {row.id} of review_verdicts is no verdict, and is left out: annotator {row.person} "
        f"on plan {row.plan}."
        for row in rows
    ]


def last(recorded: Iterable[RecordedVerdict]) -> dict[tuple[str, int], RecordedVerdict]:
    """Each person's last verdict on each plan, by plan and person."""
    return {(verdict.plan, verdict.person): verdict for verdict in recorded}


def unswayed(recorded: Iterable[RecordedVerdict]) -> dict[tuple[str, int], RecordedVerdict]:
    """Each person's last verdict on each plan before others' verdicts were shown."""
    return last(verdict for verdict in recorded if not verdict.seen)


NO_OPTION = "none"
"""In place of a letter: the answer means none of the options."""


@dataclass(frozen=True, slots=True)
class MappedAnswer:
    """The option that a person mapped a run's answer to (a model does so in PEARL, section 3).

    Args:
        plan: the plan's id.
        person: the annotator's number.
        option: a letter, or `NO_OPTION`.
        chosen: the model's option for the same answer.
    """

    plan: str
    person: int
    option: str
    chosen: str


def options_of(item: QueuedPlan) -> Mapping[str, str]:
    """The options of an item by letter; none where its run's answer was not mapped to an option."""
    if not item.about.get("answer") or not _chosen(item):
        return {}
    return dict(zip(ascii_uppercase, item.about.get("options", ()), strict=False))


def _chosen(item: QueuedPlan) -> str:
    """The letter of the option that the model chose; in a batch, its text comes after it."""
    return str(item.about.get("option", "")).partition(".")[0].strip()


def save_mapping(connection: Connection, item: QueuedPlan, person: int, option: str) -> None:
    """Store the option that a person mapped the answer of an item's run to."""
    row = {"plan": item.id, "person": person, "option": option, "chosen": _chosen(item)}
    connection.execute(insert(review_mappings), row | {"given": time.time()})


def read_mappings(engine: Engine) -> list[MappedAnswer]:
    """Each person's last choice of an option for each answer."""
    query = select(review_mappings).order_by(review_mappings.c.id)
    with reading(engine) as connection:
        rows = connection.execute(query).all()
    answers = (MappedAnswer(row.plan, row.person, row.option, row.chosen) for row in rows)
    return list({(answer.plan, answer.person): answer for answer in answers}.values())


_GIVEN = select(review_verdicts).order_by(review_verdicts.c.id)


def _read(connection: Connection, plan: str) -> list[RecordedVerdict]:
    query = _GIVEN.where(review_verdicts.c.plan == plan) if plan else _GIVEN
    return [one for one in map(_recorded, connection.execute(query)) if one]


def _recorded(row: Row[Any]) -> RecordedVerdict | None:
    """A row's verdict; None where it holds none."""
    try:
        ticked = json.loads(row.categories)
    except (TypeError, ValueError, RecursionError):
        return None
    if (
        row.correct not in _CORRECT
        or row.confidence not in CONFIDENCE
        or not isinstance(ticked, list)
        or not all(isinstance(name, str) and name in _CATEGORIES for name in ticked)
        or not isinstance(row.words, str)
        or not isinstance(row.given, float)
    ):
        return None
    verdict = Verdict(row.correct, row.confidence, tuple(ticked), row.words)
    return RecordedVerdict(row.plan, row.person, verdict, bool(row.seen), row.given)


_TRIES = 50


@dataclass(frozen=True, slots=True)
class Version:
    """An edited plan.

    Args:
        plan: the id of the plan it is a version of.
        number: counted from 2; the plan itself is version 1.
        person: the editor's number.
        text: the plan.
        file: its file, as a path for people; empty where only the store has
            it.
        demo: the name of its file among the demonstrations; empty where it
            was not sent there.
        made: when it was made, in seconds since 1970.
    """

    plan: str
    number: int
    person: int
    text: str
    file: str = ""
    demo: str = ""
    made: float = 0.0


def normalise_lines(text: str) -> str:
    """A text from a browser with line feeds as line ends, and one at its end."""
    text = storable(text.replace("\r\n", "\n").replace("\r", "\n"))
    return text if text.endswith("\n") else f"{text}\n"


def accept_edit(text: str, item: QueuedPlan, library: Library) -> str:
    """The text of an edited plan, checked and normalised.

    Args:
        text: the text that the browser sent.
        item: the plan that was edited.
        library: the actions that plans may call.

    Raises:
        InputError: it is unchanged, too long, or has errors.
    """
    text = normalise_lines(text)
    if len(text) > LONGEST:
        raise InputError(f"The plan is longer than {LONGEST:,} characters: shorten it.")
    if text.strip() == item.text.replace("\r\n", "\n").strip():
        raise InputError("The plan is as it was: change something, or leave it.")
    parsed = parse(Source(item.name, text))
    if not parsed.plan.steps or errors_of(check(parsed, library)):
        raise InputError("The plan has errors: mend what the checker finds, and keep it then.")
    return text


def add_version(
    engine: Engine, item: QueuedPlan, person: int, text: str, folders: Folders
) -> Version:
    """Store a version; two people who do so at the same time get two versions.

    Raises:
        InputError: its file cannot be written, or the store.
    """
    columns = review_versions.c
    last = select(func.max(columns.number)).where(columns.plan == item.id)
    least = 2
    for _ in range(_TRIES):
        with writing(engine) as connection:
            number = max(least, int(connection.execute(last).scalar() or 1) + 1)
            # Beside the plan's own file.
            at = item.place
            file = at.with_name(f"{at.stem}.v{number}{at.suffix}") if at else None
            name = str(Path(item.name).with_name(file.name)) if file else ""
            version = Version(item.id, number, person, text, name, "", time.time())
            try:
                connection.execute(insert(review_versions), asdict(version))
            except IntegrityError:
                # Another transaction may have taken the number since it was looked up.
                connection.rollback()
                continue
            # The row is inserted first, which reserves the number; a file without a row would do
            # no harm.
            if not file or create(file, text, folders.plans):
                return version
            connection.rollback()
            least = number + 1
    raise InputError("Too many versions are being made at once: try again.")


def read_versions(engine: Engine, plan: str | None = None) -> list[Version]:
    """Versions in order.

    Args:
        engine: the store.
        plan: the plan's id; None for all plans.
    """
    table = review_versions
    query = select(table).order_by(table.c.plan, table.c.number)
    if plan is not None:
        query = query.where(table.c.plan == plan)
    with reading(engine) as connection:
        return [Version(**row) for row in connection.execute(query).mappings()]


def send_to_demos(engine: Engine, item: QueuedPlan, version: Version, demos: Path) -> Version:
    """Put a version into the folder of demonstrations, unless it is there already.

    Args:
        engine: the store.
        item: the plan that it is a version of.
        version: the version.
        demos: the folder.

    Raises:
        InputError: it has no question, which a demonstration needs, or
            cannot be written, or the store cannot.
    """
    if version.demo:
        return version
    text = version.text
    if not parse(text).plan.question:
        if not item.question:
            raise InputError(
                'A demonstration needs its question: write "question: …" above the steps.'
            )
        text = f"question: {item.question}\n\n{text}"
    stem = demo_name(item.name)
    where = (review_versions.c.plan == item.id) & (review_versions.c.number == version.number)
    with writing(engine) as connection:
        for number in range(1, 1000):
            name = f"{stem}.plan" if number == 1 else f"{stem}-{number}.plan"
            if create(demos / name, text, (demos,)):
                break
        else:
            raise InputError(f"{stem}.plan is there a thousand times: make room for another.")
        connection.execute(update(review_versions).where(where).values(demo=name))
    return replace(version, demo=name)


def demo_name(name: str) -> str:
    """A safe file name for a plan's name, which may be any text."""
    last = name.replace("\\", "/").rpartition("/")[2].removesuffix(".plan")
    return re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-")[:60] or "plan"


def create(target: Path, text: str, roots: tuple[Path, ...]) -> bool:
    """Write a new file atomically, without replacing an existing one.

    Args:
        target: the file.
        text: its content.
        roots: the folders that it may be in, with links resolved.

    Returns:
        Whether it was made; False where the name is taken.

    Raises:
        InputError: it is outside these folders, or cannot be written.
    """
    parent = within(target.parent, roots)
    if parent is None:
        raise InputError(f"{target.name} is not written: its folder is none that was given.")
    part = parent / f".{target.name[:40]}.{secrets.token_hex(4)}"
    try:
        with part.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # A hard link never replaces a file, and appears with the whole content.
        os.link(part, parent / target.name)
    except FileExistsError:
        return False
    except OSError as error:
        raise InputError(
            f"{target.name} cannot be written ({error.strerror}): look at the folder's rights."
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return True
