"""A file of questions as a job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pearl.batch.questions import read_index
from pearl.batch.tasks import Asking, Questions
from pearl.batch.work import Setup, answer_row
from pearl.jobs.output import Output
from pearl.jobs.start import TOGETHER, Job
from pearl.jobs.task import Task
from pearl.session import Session


@dataclass(frozen=True)
class AnswerRows:
    """Answers each question."""

    setup: Setup

    async def __call__(self, task: Task[Asking], session: Session) -> dict[str, Any]:
        """Answer one."""
        return await answer_row(task.what.question, task.what.document, self.setup, session)


def batch_job(
    questions: str, documents: str, output: str, setup: Setup, together: int = TOGETHER
) -> Job:
    """Answering a file of questions.

    Args:
        questions: the file.
        documents: the folder with their documents; empty for the file's own.
        output: the file of answers.
        setup: how to answer.
        together: questions under way at a time.

    Raises:
        InputError: a question or a document cannot be used.
    """
    index = read_index(questions, documents)
    return Job(
        "batch",
        {
            "questions": questions,
            "count": len(index.places),
            "documents": str(index.folder),
            "output": output,
            "library": ", ".join(setup.library.names),
        },
        {
            "questions": str(index.path.resolve()),
            "documents": str(index.folder.resolve()),
            "output": str(Path(output).resolve()),
            "setup": setup.digest(),
        },
        Questions(index, ahead=together),
        AnswerRows(setup),
        setup.context,
        partial(_file, output),
    )


def _file(path: str, rows: Iterable[dict[str, Any]]) -> Output:
    return Output(path, rows)
