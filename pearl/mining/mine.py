"""Mining actions: for each question, one call asks which actions it needs (PEARL, section 2.1).

Example questions are a file with one JSON object per line. A row holds what one question proposed;
`gather` makes one library of all rows, in which each action names the questions that proposed it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pearl.jobs.job import Job
from pearl.jobs.question_file import comparable, question_rows
from pearl.jobs.workers import Task, TaskList, failure_of
from pearl.lang.ast import Action
from pearl.lang.diagnostics import Severity
from pearl.lang.errors import InputError, refuse
from pearl.lang.library import Library, parse_library
from pearl.lang.printer import print_action, print_library
from pearl.lang.rows import Tabled, as_frame, read_json_lines, read_row, row_id
from pearl.lang.similarity import SURE, likeness
from pearl.lang.source import Source
from pearl.lang.text import free_name, one_line, shorten
from pearl.lang.values import digest
from pearl.lint.checker import HARMLESS, check_library
from pearl.models.base import ModelError
from pearl.prompts.calls import MineActions
from pearl.session import Session, heading

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class Note:
    """What the user should know about a mined library.

    Args:
        kind: ``unreadable`` (a line of a reply is no action), ``finding``
            (what a rule says of one), ``parameters`` (one name with several
            signatures), ``meaning`` (one meaning under several names),
            ``seed`` (a name that a seed has), ``cut`` (a reply that met its token
            limit), ``failed`` (a question without a reply).
        message: the note, in a sentence or two.
        questions: ids of the questions it comes from.
        code: the rule's code, where it is a finding.
    """

    kind: str
    message: str
    questions: tuple[str, ...] = ()
    code: str = ""


@dataclass(frozen=True, slots=True)
class Mined(Tabled):
    """A mined library.

    Args:
        actions: the actions, those that most questions proposed first; their
            ``provenance`` names the questions.
        notes: what the user should know.
        proposals: how many proposals there were, including repeated ones.
        proposing: how many questions proposed any action.
    """

    actions: tuple[Action, ...]
    notes: tuple[Note, ...]
    proposals: int
    proposing: int

    @property
    def text(self) -> str:
        """The library's text."""
        return print_library(self.actions) if self.actions else "# No action was proposed.\n"

    def rows(self) -> list[dict[str, Any]]:
        """The actions as JSON, each with the questions that proposed it."""
        return [
            {"name": action.name, "signature": action.signature, "returns": action.returns,
             "definition": action.doc, "questions": list(action.provenance)}
            for action in self.actions
        ]  # fmt: skip

    def frame(self) -> DataFrame:
        """The actions as a table of pandas, as `as_frame` makes it."""
        return as_frame(self.rows())


def gather(rows: Iterable[dict[str, Any]], seeds: Library) -> Mined:
    """Make a library of the rows of a mining run.

    If a name has several signatures, the one that most questions proposed keeps
    it, and the others get a number. An action with the name of a seed is left
    out, as plans have the seed.

    Args:
        rows: as `mine_question` gives them.
        seeds: the actions that there were before.
    """
    proposals: dict[tuple[str, ...], list[tuple[Action, str]]] = {}
    notes: list[Note] = []
    for row in rows:
        name = str(row["id"])
        if row["status"] == "failed":
            notes.append(Note("failed", row["error"]["message"], (name,)))
        if row.get("cut"):
            text = "The reply was cut at its token limit, and its last line is left out: raise "
            notes.append(Note("cut", text + "PEARL_MAX_TOKENS.", (name,)))
        for finding in row.get("findings", ()):
            unread = finding["code"].startswith("PRL1")
            text = shorten(finding["text"], 100)
            message = finding["message"] + (f" The line reads: {text}" if unread else "")
            kind = "unreadable" if unread else "finding"
            notes.append(Note(kind, message, (name,), finding["code"]))
        for line in row.get("actions", ()):
            for action in parse_library(line).actions:
                signature = (action.name, *(param.name for param in action.params), action.returns)
                proposals.setdefault(signature, []).append((action, name))
    merged: list[Action] = []
    for proposed in proposals.values():
        docs = Counter(action.doc for action, _ in proposed if action.doc)
        doc = docs.most_common(1)[0][0] if docs else ""
        ids = tuple(dict.fromkeys(name for _, name in proposed))
        merged.append(replace(proposed[0][0], doc=doc, comments=(), provenance=ids))
    by_name: dict[str, Action] = {}
    for action in sorted(merged, key=lambda action: -len(action.provenance)):
        if seed := seeds.get(action.name):
            message = f"{action.signature} has the name of the seed {seed.signature}: left out."
            notes.append(Note("seed", message, action.provenance))
            continue
        if first := by_name.get(action.name):
            action = replace(action, name=free_name(action.name, {*by_name, *seeds.every_name()}))
            message = f"{first.signature} came with other parameters too, now {action.signature}."
            notes.append(Note("parameters", message, action.provenance))
        by_name[action.name] = action
    actions = tuple(by_name.values())
    for at, likenesses in enumerate(likeness(actions) if len(actions) > 1 else ()):
        action, near = actions[at], int(likenesses[:at].argmax()) if at else 0
        if at and likenesses[near] >= SURE:
            message = f"{action.name} and {actions[near].name} mean nearly the same: {action.doc}"
            notes.append(Note("meaning", message, action.provenance))
    proposing = {name for proposed in proposals.values() for _, name in proposed}
    return Mined(actions, tuple(notes), sum(map(len, proposals.values())), len(proposing))


@dataclass(frozen=True, slots=True)
class ExampleQuestion:
    """A question to learn actions from.

    Args:
        text: what is asked.
        several: whether it is asked of several documents at once.
    """

    text: str
    several: bool = False


def read_examples(path: str, without: Collection[str] = ()) -> dict[str, ExampleQuestion]:
    """Read example questions, by id, or by line number where there is none.

    Args:
        path: a file of JSON lines with ``question``, and ``id`` or ``qid``; or articles of QuALITY.
            Of a row's documents it reads only how many ``documents`` there are.
        without: questions to leave out, as `comparable` gives them.

    Raises:
        InputError: lines cannot be used; the first are named, and the others
            counted.
    """
    questions: dict[str, ExampleQuestion] = {}
    wrong: list[InputError] = []
    source = read_json_lines(path, "file of questions")
    for number, line in enumerate(source.text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            where = f"{path}:{number}"
            for name, row in question_rows(read_row(line, where), where):
                question, id = row.get("question"), row.get("id", row.get("qid", number))
                if not isinstance(question, str) or not question.strip():
                    raise InputError(f"{name} has no question: give one as text.")
                id = row_id({"id": id}, name, "question")
                if id in questions:
                    raise InputError(f"{name} has the id {id} again: give each its own.")
                paths = row.get("documents")
                several = isinstance(paths, list) and len(paths) > 1
                questions[id] = ExampleQuestion(one_line(question), several)
        except InputError as error:
            wrong.append(error)
    refuse(wrong)
    chosen = {id: one for id, one in questions.items() if comparable(one.text) not in without}
    if questions and not chosen:
        raise InputError(f"All questions of {path} are left out: name others.")
    if not questions:
        raise InputError(f'{path} holds no question: give rows such as {{"question": "Why …?"}}.')
    return chosen


_NOTHING = re.compile(
    r"\s*+(?:```\w*|~~~\w*|</?\w+>|[-*_#=\s]*new actions?[^()]{0,20}"
    r"|[-*\s\"'(]*(?:none|n/a)\b[^:#]{0,60})\s*$",
    re.IGNORECASE,
)
"""A line to ignore: a fence, a heading, or a statement that no action is needed."""


async def mine_question(
    seeds: Library, task: Task[ExampleQuestion], session: Session
) -> dict[str, Any]:
    """Ask which actions one question needs, and return its row.

    Args:
        seeds: the actions that there are already.
        task: the question.
        session: the model in its layers, and the question's journal.
    """
    question = task.payload.text
    row: dict[str, Any] = {"id": task.id, "question": question}
    session.journal.decide("run", heading(question, None, seeds, session.engine.model))
    try:
        reply = await session.caller()(MineActions(question, seeds, task.payload.several), "mine")
    except ModelError as error:
        return {**row, "status": "failed", "error": failure_of(error)}
    # Half a line would be half an action.
    text = reply.text if reply.complete else reply.text.rpartition("\n")[0]
    row |= {} if reply.complete else {"cut": True}
    return {**row, "status": "answered", **read_proposals(text)}


def read_proposals(reply: str) -> dict[str, Any]:
    """The actions that a reply proposes.

    Args:
        reply: the text of the model's reply.

    Returns:
        ``actions``, one line each, in the order they were proposed, without those that would fail
        when they are called; and ``findings`` of the library's rules, unreadable lines among them,
        each with ``code``, ``message`` and ``text``, the whole line.
    """
    lines = [line for line in reply.splitlines() if not _NOTHING.match(line)]
    source = Source("reply", "\n".join(lines))
    diagnostics = check_library(source)
    findings = [
        {
            "code": finding.code,
            "message": finding.message,
            "text": source.line(source.position(finding.span.start)[0]),
        }
        for finding in diagnostics
    ]
    failing = {
        source.position(finding.span.start)[0]
        for finding in diagnostics
        if finding.severity is Severity.ERROR and finding.code not in HARMLESS
    }
    actions = [
        print_action(action)
        for action in parse_library(source).actions
        if source.position(action.span.start)[0] not in failing
    ]
    return {"actions": actions, "findings": findings}


def mine_job(
    examples: Mapping[str, ExampleQuestion],
    path: str,
    seeds: Library,
    without: Collection[str] = (),
) -> Job:
    """The job of mining a file of questions.

    Args:
        examples: the questions, by id.
        path: the file.
        seeds: the actions that there are already.
        without: the questions of the file that were left out.
    """
    numbered = enumerate(examples.items())
    tasks = [
        Task(id, at, digest([one.text, "several"] if one.several else one.text), "", one)
        for at, (id, one) in numbered
    ]
    return Job(
        "mine",
        {"questions": path, "count": len(examples), "library": ", ".join(seeds.names)},
        {
            "questions": path,
            "seeds": seeds.digest,
            **({"without": digest(sorted(without))} if without else {}),
        },
        TaskList(tasks),
        partial(mine_question, seeds),
    )
