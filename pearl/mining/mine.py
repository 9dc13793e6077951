"""One call a question for the actions it needs (PEARL, section 2.1).

Rows are what single questions proposed; `gather` makes a library of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pearl.answer import heading
from pearl.checker import check_library
from pearl.jobs import Job, Listed, Task
from pearl.library import Library
from pearl.llm import MineActions, ModelError
from pearl.mining.questions import Example
from pearl.runtime import Caller
from pearl.session import Session
from pearl.source import Source
from pearl.syntax import parse_library, print_action
from pearl.values import digest

_NOTHING = re.compile(
    r"\s*(?:```\w*|~~~\w*|</?\w+>|[-*_#=\s]*new actions?[^()]{0,20}"
    r"|[-*\s\"'(]*(?:none|n/a)\b[^:#]{0,60})\s*$",
    re.IGNORECASE,
)
"""A line that says nothing: a fence, the heading, or that no action is needed."""


@dataclass(frozen=True)
class MineQuestions:
    """Asks for the actions of each question.

    Args:
        seeds: the actions that are there already.
    """

    seeds: Library

    async def __call__(self, task: Task[Example], session: Session) -> dict[str, Any]:
        """Ask for those of one."""
        asked = {"id": task.id, "question": task.what.question}
        head = heading(task.what.question, None, self.seeds, session.engine.model)
        session.journal.decide("run", head)
        caller = Caller(session.engine.ask, session.engine.identity, session.journal)
        try:
            reply = await caller(MineActions(task.what.question, self.seeds), "mine")
        except ModelError as error:
            told = {"reason": error.reason, "message": str(error), "steps": []}
            return {**asked, "status": "failed", "error": told}
        return {**asked, "status": "answered", **read_proposals(reply.text)}


def read_proposals(reply: str) -> dict[str, Any]:
    """The actions that a reply proposes.

    Args:
        reply: as a model wrote it.

    Returns:
        ``actions``, one line each, in the order they were proposed; and
        ``findings``: every line that cannot be read, and what else the
        library's rules say, each with ``code``, ``message`` and ``text``.
    """
    lines = [line for line in reply.splitlines() if not _NOTHING.match(line)]
    source = Source("reply", "\n".join(lines))
    findings = [
        {"code": one.code, "message": one.message, "text": source.at(one.span)}
        for one in check_library(source)
    ]
    actions = [print_action(one) for one in parse_library(source).actions]
    return {"actions": actions, "findings": findings}


def mine_job(examples: Sequence[Example], path: str, seeds: Library) -> Job:
    """Mining a file of questions.

    Args:
        examples: what it holds.
        path: the file.
        seeds: the actions that are there already.
    """
    tasks = [Task(one.id, at, digest(one.question), "", one) for at, one in enumerate(examples)]
    return Job(
        "mine",
        {"questions": path, "count": len(examples), "library": ", ".join(seeds.names)},
        {"questions": path, "seeds": seeds.digest},
        Listed(tasks),
        MineQuestions(seeds),
    )
